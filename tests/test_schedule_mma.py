"""Plans of the mma skeleton: sides, thread maps, homes, rings, and what is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.emit import kernels, kernels_edge, kernels_mma

from kgen.errors import KgenError
from kgen.ir import Dot, Kernel, LoadTile
from kgen.layout import WARP, ThreadGroup, wavefronts
from kgen.schedule import Plan, plan
from kgen.schedule_demand import collect
from kgen.schedule_mma import NotServed
from kgen.schedule_steps import Barrier, MmaMultiply, Ring, Stage, Walk, all_steps
from kgen.types import BF16, F32

KERNELS = [
    kernels.matmul(BF16, (128, 64, 32), 0, True),
    kernels.attention(BF16, aligned=True),
    kernels_edge.gradient_products(BF16),
    kernels_edge.quantised_matmul(),
    kernels_mma.both_ways(),
    kernels_mma.gated(BF16, (64, 32, 32)),
]


def planned(kernel: Kernel, warps: int = 4, stages: int = 2) -> Plan:
    return plan(kernel, arch="sm_80", threads=WARP * warps, skeleton="mma", stages=stages)


def ring_of(made: Plan) -> Ring:
    (ring,) = (s.ring for s in made.steps if isinstance(s, Walk) and s.ring)
    return ring


def products(made: Plan) -> list[MmaMultiply]:
    return [s for s in all_steps(made.steps) if isinstance(s, MmaMultiply)]


# ---- layouts


@pytest.mark.parametrize("warps", [2, 8])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_thread_maps_hold_all_elements_of_all_values(kernel: Kernel, warps: int) -> None:
    made = planned(kernel, warps)
    for value in collect(kernel, made.homes).values:
        held: Counter[tuple[int, ...]] = Counter()
        for thread in range(made.threads):
            for registers in itertools.product(*(range(made.map.axes[a].registers) for a in value.axes)):
                at = (made.map.element(a, thread, r) for a, r in zip(value.axes, registers, strict=True))
                held[tuple(at)] += 1
        sizes = [kernel.tile_axes[a].size for a in value.axes]
        assert held == dict.fromkeys(itertools.product(*map(range, sizes)), made.map.copies(value.axes))


@pytest.mark.parametrize("warps", [2, 8])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_results_lie_as_the_instruction_leaves_them(kernel: Kernel, warps: int) -> None:
    """Lane 4 * g + t has row g and columns 2 * t and 2 * t + 1 of whichever eight rows and columns its warp has."""
    made = planned(kernel, warps)
    for step in products(made):
        for warp in range(warps):
            rows = {lane: made.map.element(step.row, WARP * warp + lane, 0) for lane in range(WARP)}
            cols = {lane: [made.map.element(step.col, WARP * warp + lane, r) for r in (0, 1)] for lane in range(WARP)}
            for lane in range(WARP):
                g, t = divmod(lane, 4)
                assert rows[lane] == rows[0] + g
                assert cols[lane] == [cols[0][0] + 2 * t, cols[0][0] + 2 * t + 1]


@given(near=st.sampled_from([1, 4, 8]), warps=st.sampled_from([1, 2, 4]), down=st.sampled_from([1, 2, 4]))
def test_coordinates_of_split_groups_count_lanes_then_warps(near: int, warps: int, down: int) -> None:
    group = ThreadGroup("tx", near * warps, 1, ("n",), near, WARP * down)
    found = Counter(group.coordinate(t) for t in range(WARP * down * warps))
    assert found == dict.fromkeys(range(near * warps), WARP * down // near)
    assert (group.lanes, group.warps) == (near, warps)
    assert [group.coordinate(t) // near for t in range(0, WARP * down * warps, WARP * down)] == list(range(warps))


def test_warps_of_a_product_form_a_square() -> None:
    made = planned(kernels.matmul(BF16, (128, 128, 32), 1, True), 4)
    assert [g.warps for g in made.map.groups] == [2, 2]


def test_warps_of_a_chain_share_no_row() -> None:
    made = planned(kernels.attention(BF16, aligned=True), 4)
    assert [(g.name, g.warps) for g in made.map.groups] == [("tx", 1), ("ty", 4)]


@pytest.mark.parametrize("chunks", [1, 2, 4, 6, 8, 10, 12, 16, 20, 32])
def test_eight_rows_of_a_swizzled_tile_lie_in_different_banks(chunks: int) -> None:
    """The formula of the text's `swizzled`: permuted rows keep all chunks, and no column of chunks has a conflict."""
    permuted = 8 if chunks % 8 == 0 else chunks & -chunks
    place = [[16 * (r * chunks + (c ^ r // (8 // permuted) % permuted)) for c in range(chunks)] for r in range(16)]
    assert sorted(a for row in place for a in row) == [16 * n for n in range(16 * chunks)]
    for first in range(0, 16, 8):
        assert all(wavefronts([place[first + r][c] for r in range(8)], 16) == 1 for c in range(chunks))


# ---- sides and homes


def test_scores_of_a_gradient_are_computed_transposed() -> None:
    made = planned(kernels_edge.gradient_products(BF16, 64, 64))
    assert [(s.row, s.col) for s in products(made)] == [("n", "m"), ("n", "e"), ("n", "d")]
    assert made.homes.fragments == {"p_cast", "ds"}


def test_a_computed_operand_of_two_orientations_is_spilled_once() -> None:
    made = planned(kernels_mma.both_ways())
    assert made.homes.spilled == {"p"}
    assert made.homes.fragments == frozenset()
    left = [s.a.name if s.a else None for s in products(made)]
    assert left.count("p") + [s.b.name for s in products(made)].count("p") == 2


# ---- rings


def test_segments_share_a_ring_with_the_conditions_of_the_last() -> None:
    made = planned(kernels.attention(BF16, aligned=True), stages=3)
    ring = ring_of(made)
    assert [t.name for t in ring.tiles] == ["k_t", "v_t"]
    assert {t.slots for t in ring.tiles} == {3}
    loads = [op for fill in ring.fills for op in fill.ops if isinstance(op, LoadTile)]
    assert all(op.where == kernels.less(kernels.pos("n"), kernels.size("N")) for op in loads)
    (walk,) = (s for s in made.steps if isinstance(s, Walk))
    assert not any(isinstance(s, Stage | Barrier) for body in walk.bodies for s in body)
    assert made.smem_bytes == 64 * 64 * 2 * (1 + 2 * 3)


def test_one_stage_is_no_ring() -> None:
    made = planned(kernels.attention(BF16, aligned=True), stages=1)
    (walk,) = (s for s in made.steps if isinstance(s, Walk))
    assert walk.ring is None
    assert any(isinstance(s, Barrier) for s in walk.bodies[0])


def test_only_plain_wide_loads_are_copied() -> None:
    fills = ring_of(planned(kernels_edge.quantised_matmul())).fills
    assert {f.tiles[0].name: f.copied for f in fills} == {"x_t": True, "w": False}
    ragged = ring_of(planned(kernels.matmul(BF16, (64, 64, 32), 1, aligned=False)))
    assert not any(f.copied for f in ragged.fills)


# ---- refusals


def without_dtype(kernel: Kernel) -> Kernel:
    """The attention kernel with one Dot that does not fit: its second product has no column axis."""
    body = tuple(replace(op, b=replace(op.b, axes=("d",))) if isinstance(op, Dot) else op for op in kernel.body)
    return replace(kernel, body=body)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (kernels.matmul(F32), "the product 'acc' has operands of f32 and f32: mma takes bf16 or f16, sums in f32"),
        (kernels.matmul(BF16, (64, 24, 32)), "a tile of 24 along 'n': mma needs a multiple of 16 (16)"),
        (kernels.matmul(BF16, (64, 32, 8)), "a tile of 8 along 'k': mma needs a multiple of 16 (16)"),
        (kernels_edge.squared_product(), "operands of f64 and f64"),
        (without_dtype(kernels_mma.both_ways()), "is no product of two matrices"),
    ],
)
def test_what_the_instructions_cannot_do_is_refused_with_the_reason(kernel: Kernel, reason: str) -> None:
    with pytest.raises(NotServed) as found:
        planned(kernel)
    assert reason in str(found.value)


def test_too_much_shared_memory_names_tiles_that_fit() -> None:
    with pytest.raises(KgenError) as found:
        planned(kernels.matmul(BF16, (128, 128, 128), 1, True), 8, 4)
    assert "needs 262144 bytes of shared memory; sm_80 has 166912 a block; tiles that fit: " in str(found.value)
    assert not isinstance(found.value, NotServed)


def test_a_plan_says_what_it_is() -> None:
    text = str(planned(kernels.attention(BF16, aligned=True)))
    assert text.startswith("plan of attention for sm_80: mma, 128 threads, 40960 bytes shared, >= 68 registers")
    assert "fragments: p\n" in text
    assert "mma acc from p (registers), v_t over n" in text
    assert "ahead: copy k_t along d, 8 elements a turn" in text
