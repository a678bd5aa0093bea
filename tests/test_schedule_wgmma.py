"""Plans of the wgmma skeleton: thread maps, tiles in spans, fences, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from tests.emit import kernels, kernels_edge, kernels_mma

from kgen.errors import KgenError
from kgen.ir import Kernel
from kgen.layout_fragments import wgmma_d
from kgen.layout_shared import tma_tile
from kgen.layout_threads import held
from kgen.schedule import Plan, plan
from kgen.schedule_demand import collect
from kgen.schedule_homes import reads as read_by
from kgen.schedule_mma import NotServed
from kgen.schedule_steps import (
    Barrier,
    Pack,
    ProxyFence,
    SharedTile,
    Stage,
    Step,
    Walk,
    WgmmaMultiply,
    WgmmaWait,
    all_steps,
    operations_of,
    reads,
)
from kgen.types import BF16, F32

KERNELS = [
    kernels.matmul(BF16, (128, 80, 32), 0, True),
    kernels.attention(BF16, 128, 64, 64, True),
    kernels_edge.gradient_products(BF16, 64, 64),
    kernels_mma.both_ways(BF16, 64, 64, 64),
    kernels_mma.gated(BF16, (192, 32, 32)),
]


def planned(kernel: Kernel, consumers: int | None = None, stages: int = 2) -> Plan:
    return plan(kernel, arch="sm_90a", threads=None, skeleton="wgmma", stages=stages, consumers=consumers)


def products(made: Plan) -> list[WgmmaMultiply]:
    return [s for s in all_steps(made.steps) if isinstance(s, WgmmaMultiply)]


def tiles(made: Plan) -> dict[str, SharedTile]:
    """Return the tiles of operands."""
    return {m.name: m for s in products(made) for m in reads(s) if isinstance(m, SharedTile)}


# ---- layouts


@pytest.mark.parametrize("consumers", [1, None])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_thread_maps_hold_all_elements_of_all_values(kernel: Kernel, consumers: int | None) -> None:
    made = planned(kernel, consumers)
    for value in collect(kernel, made.homes).values:
        found: Counter[tuple[int, ...]] = Counter()
        for thread in range(made.threads):
            for registers in itertools.product(*(range(made.map.axes[a].registers) for a in value.axes)):
                at = (made.map.element(a, thread, r) for a, r in zip(value.axes, registers, strict=True))
                found[tuple(at)] += 1
        sizes = [kernel.tile_axes[a].size for a in value.axes]
        assert found == dict.fromkeys(itertools.product(*map(range, sizes)), made.map.copies(value.axes))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_results_lie_as_the_instruction_leaves_them(kernel: Kernel) -> None:
    """Register 4j + 2i + p of a warpgroup's 64 rows is row register i and column register 2j + p of the thread map."""
    made = planned(kernel)
    for step in products(made):
        wide = kernel.tile_axes[step.col].size
        instruction = wgmma_d(wide)
        for thread, value in itertools.product(range(128), range(wide // 2)):
            row = made.map.element(step.row, thread, value % 4 // 2)
            col = made.map.element(step.col, thread, value // 4 * 2 + value % 2)
            assert instruction.element(thread, value) == (row, col)


def test_the_thread_map_is_a_layout_of_the_algebra() -> None:
    made = planned(KERNELS[1])
    fragment = held(made.map, ("m", "n"))
    assert (fragment.threads, fragment.copies) == (256, 1)
    for thread, value in itertools.product(range(0, 256, 37), range(32)):
        i, j = divmod(value, 16)
        assert fragment.element(thread, value) == (made.map.element("m", thread, i), made.map.element("n", thread, j))


@pytest.mark.parametrize(("rows", "wanted", "consumers"), [(64, 3, 1), (128, None, 2), (192, None, 3), (192, 2, 1)])
def test_warpgroups_divide_the_rows(rows: int, wanted: int | None, consumers: int) -> None:
    made = planned(kernels.matmul(BF16, (rows, 64, 32), 1, True), wanted)
    assert made.threads == 128 * consumers


# ---- tiles and fences


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_tiles_are_images_that_descriptors_can_describe(kernel: Kernel) -> None:
    found = tiles(planned(kernel))
    assert found
    for tile in found.values():
        if not tile.span:  # read by threads alone
            continue
        image = tma_tile(tile.rows, tile.pitch, 2, tile.span)
        assert image.bytes == tile.slot_bytes
        assert tile.offset % tile.alignment == 0
        assert tile.slot_bytes % tile.alignment == 0


def test_spans_are_as_wide_as_rows_allow() -> None:
    spans = {n: t.span for n, t in tiles(planned(KERNELS[0])).items()}
    assert spans == {"x_t": 64, "w_t": 64}
    spans = {n: t.span for n, t in tiles(planned(kernels.matmul(BF16, (64, 80, 64), 1, True))).items()}
    assert spans == {"x_t": 128, "w_t": 32}


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_a_fence_stands_between_writes_and_the_barrier_before_products(kernel: Kernel, stages: int) -> None:
    made = planned(kernel, stages=stages)
    for step in all_steps(made.steps):
        assert not isinstance(step, Walk) or step.ring is None or step.ring.fenced
    for body in bodies(made.steps):
        unfenced = False
        for step in body:
            unfenced = (unfenced or isinstance(step, Stage)) and not isinstance(step, ProxyFence)
            assert not (unfenced and isinstance(step, Barrier | WgmmaMultiply))


def bodies(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    inner = [b for s in steps if isinstance(s, Walk) for body in s.bodies for b in bodies(body)]
    return [steps, *inner]


def test_weights_stay_in_registers() -> None:
    made = planned(KERNELS[1])
    assert made.homes.fragments == {"p"}
    assert all(s.together for s in all_steps(made.steps) if isinstance(s, Pack))


# ---- products in flight


@pytest.mark.parametrize(("stages", "kept"), [(2, 0), (3, 1), (4, 1)])
def test_a_loop_of_products_keeps_the_last_ones_in_flight(stages: int, kept: int) -> None:
    made = planned(kernels_mma.gated(BF16, (64, 64, 32)), stages=stages)
    (at,) = (n for n, s in enumerate(made.steps) if isinstance(s, Walk))
    walk = made.steps[at]
    assert isinstance(walk, Walk) and walk.ring is not None
    assert (walk.ring.kept, walk.ring.ahead) == (kept, stages - 1 - kept)
    inside = [s for body in walk.bodies for s in body if isinstance(s, WgmmaWait)]
    if kept:
        assert inside == [WgmmaWait(2, ())] * 2
        assert made.steps[at + 1] == WgmmaWait(0, ("left", "right"))
    else:
        assert inside == [WgmmaWait(0, ("left", "right"))] * 2


def test_what_reads_a_product_waits_for_it() -> None:
    for kernel in KERNELS:
        made = planned(kernel, stages=3)
        for body in bodies(made.steps):
            open_products: set[str] = set()
            for step in body:
                if isinstance(step, WgmmaMultiply):
                    open_products.add(step.op.dst.name)
                elif isinstance(step, WgmmaWait):
                    open_products = set() if step.pending == 0 else open_products
                elif not isinstance(step, Walk):
                    assert not open_products & {v.name for op in operations_of(step) for v in read_by(op)}


# ---- refusals


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.matmul(F32), "operands of f32 and f32"),
        (kernels.matmul(BF16, (96, 32, 32)), "a tile of 96 along 'm': wgmma needs a multiple of 64 rows (64)"),
    ],
)
def test_what_the_instructions_cannot_do_is_refused_with_the_reason(kernel: Kernel, reason: str) -> None:
    with pytest.raises(NotServed) as found:
        planned(kernel)
    assert reason in str(found.value)


def test_an_axis_that_has_no_whole_pieces_of_rows_becomes_the_columns() -> None:
    (step,) = products(planned(kernels.matmul(BF16, (32, 64, 32), 0, True)))
    assert (step.row, step.col) == ("n", "m")


def test_too_many_accumulators_name_tiles_that_fit() -> None:
    with pytest.raises(KgenError) as found:
        planned(kernels.matmul(BF16, (128, 288, 32), 1, True), consumers=1)
    assert "registers a thread of 255 with 128 threads; tiles that fit: m: 64" in str(found.value)
    assert not isinstance(found.value, NotServed)


def test_a_plan_says_what_it_is() -> None:
    text = str(planned(KERNELS[1]))
    assert text.startswith("plan of attention for sm_90a: wgmma, 256 threads, 49152 bytes shared, >= 68 registers")
    assert "wgmma acc from p (registers), v_t over n" in text
    assert "m: 128 = 64 threads of ty x 2 registers, 2 of them 8 apart" in text
    assert "k_t[2][n: 64][d: 64] in spans of 128 bytes" in text
