"""Plans of the simt skeleton: thread maps, operand homes, shared memory, barriers, access widths, refusals."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.emit import kernels, kernels_edge

from kgen import schedule_memory
from kgen.errors import KgenError
from kgen.ir import Kernel, LoadTile
from kgen.layout import AxisLayout, ThreadGroup, ThreadMap, power_of_two_divisor, sectors, wavefronts
from kgen.schedule import Plan, plan, shared_limit
from kgen.schedule_access import access_form, split_index
from kgen.schedule_demand import collect
from kgen.schedule_homes import find_homes
from kgen.schedule_memory import EASY_BYTES
from kgen.schedule_steps import Barrier, Fold, Load, Memory, Multiply, Stage, Step, Walk, all_steps, reads, writes
from kgen.terms import apply, integer
from kgen.types import BF16, F32

KERNELS = [
    kernels.vector_add(),
    kernels.row_softmax(BF16, 1024, 4, True, True),
    kernels.column_argmax(),
    kernels.matmul(BF16, (64, 64, 32), 0, True),
    kernels.attention(F32),
    kernels_edge.gradient_products(),
    kernels_edge.middle_sum(),
    kernels_edge.merge_parts(),
]


def planned(kernel: Kernel, threads: int | None = None, arch: str = "sm_80") -> Plan:
    return plan(kernel, arch=arch, threads=threads)


# ---- layouts


@given(
    size=st.integers(1, 96),
    used=st.integers(0, 5),
    spread=st.integers(0, 2),
    run=st.integers(0, 3),
)
def test_every_element_is_held_by_equally_many_threads(size: int, used: int, spread: int, run: int) -> None:
    threads = min(2**used, power_of_two_divisor(size))
    registers = size // threads
    layout = AxisLayout("n", size, "tx", threads, min(2**run, power_of_two_divisor(registers)))
    held = Counter(layout.element(t, i) for t in range(threads << spread) for i in range(registers))
    assert held == dict.fromkeys(range(size), 1 << spread)


@pytest.mark.parametrize("threads", [None, 32, 256, 1024])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_thread_maps_hold_all_elements_of_all_values(kernel: Kernel, threads: int | None) -> None:
    if kernel.name == "attention" and threads == 32:
        pytest.skip("refused: 272 registers of accumulators")
    made = planned(kernel, threads)
    for value in collect(kernel, made.homes).values:
        held: Counter[tuple[int, ...]] = Counter()
        for thread in range(made.threads):
            for registers in itertools.product(*(range(made.map.axes[a].registers) for a in value.axes)):
                at = (made.map.element(a, thread, r) for a, r in zip(value.axes, registers, strict=True))
                held[tuple(at)] += 1
        sizes = [kernel.tile_axes[a].size for a in value.axes]
        copies = made.map.copies(value.axes)
        assert held == dict.fromkeys(itertools.product(*map(range, sizes)), copies)


def test_contiguous_axes_get_the_fastest_threads() -> None:
    for kernel, axis in ((kernels.matmul(), "n"), (kernels.attention(), "e"), (kernels.column_argmax(), "n")):
        made = planned(kernel)
        assert made.map.group_of(axis).stride == 1, kernel.name
        assert made.map.axes["m"].group != made.map.axes[axis].group


def test_scores_and_outputs_share_threads_so_that_rows_never_move() -> None:
    made = planned(kernels.attention())
    assert made.map.axes["n"].group == made.map.axes["e"].group


def test_a_sum_along_a_row_stays_in_a_warp_when_there_are_rows_enough() -> None:
    made = planned(kernels.row_softmax(F32, 256, 4))
    assert made.map.group_of("n").warps == 1
    assert made.smem_bytes == 0


def test_large_tiles_get_more_threads() -> None:
    assert planned(kernels.row_softmax(F32, 512)).threads == 128
    assert planned(kernels.row_softmax(F32, 16384)).threads > 128


# ---- homes


def test_homes_of_attention() -> None:
    homes = find_homes(kernels.attention())
    assert homes.staged == {"q_t", "k_t", "v_t"}
    assert homes.spilled == {"p"}
    assert {"s", "acc", "w", "p"} <= homes.registers
    assert not homes.staged & homes.registers


def test_values_behind_a_staged_operand_have_no_registers() -> None:
    homes = find_homes(kernels_edge.quantised_matmul())
    assert homes.staged == {"x_t", "w"}
    assert homes.flat == {"x_t", "w", "byte", "sc_t"}
    assert homes.registers == {"acc"}


def test_operands_that_share_loads_make_one_stage() -> None:
    made = planned(kernels_edge.rotated_product())
    stages = [s for s in made.steps if isinstance(s, Stage)]
    assert sorted(sorted(t.name for t in s.tiles) for s in stages) == [["k_t"], ["x1", "x2"]]


# ---- shared memory and barriers


def test_wavefronts_count_conflicting_words() -> None:
    assert wavefronts([4 * t for t in range(32)], 4) == 1
    assert wavefronts([0] * 32, 4) == 1
    assert wavefronts([8 * t for t in range(32)], 4) == 2
    assert wavefronts([128 * t for t in range(32)], 4) == 32
    assert wavefronts([16 * t for t in range(32)], 16) == 4
    assert wavefronts([128 * t for t in range(32)], 16) == 32
    assert wavefronts([144 * t for t in range(32)], 16) == 4


def test_sectors_count_pieces_of_32_bytes() -> None:
    assert sectors([4 * t for t in range(32)], 4) == 4
    assert sectors([4096 * t for t in range(32)], 4) == 32
    assert sectors([16 * t for t in range(32)], 16) == 16


@pytest.mark.parametrize(
    "kernel",
    [kernels.matmul(BF16, (64, 64, 32), 1, True), kernels.attention(BF16, aligned=True), kernels.attention(F32)],
    ids=["matmul", "attention bf16", "attention f32"],
)
def test_operand_loads_have_no_bank_conflicts(kernel: Kernel) -> None:
    made = planned(kernel)
    for step in all_steps(made.steps):
        if isinstance(step, Multiply):
            for tile, width in ((step.a, step.width_a), (step.b, step.width_b)):
                free = tile.outer if tile.inner == step.op.contract else tile.inner
                pitch = tile.pitch if tile.inner == step.op.contract else 1
                lanes = [made.map.element(free, t, 0) * pitch * tile.dtype.bytes for t in range(32)]
                least = max(1, width * tile.dtype.bytes // 4)  # groups of lanes that the memory serves in turn
                assert wavefronts(lanes, width * tile.dtype.bytes) == least


def memory(steps: tuple[Step, ...]) -> dict[str, Memory]:
    return {m.name: m for s in all_steps(steps) for m in (*writes(s), *reads(s))}


def test_small_tiles_lie_side_by_side_and_large_ones_share_memory() -> None:
    small = planned(kernels.attention(BF16, aligned=True))
    assert small.smem_bytes == sum(m.bytes for m in memory(small.steps).values()) <= EASY_BYTES
    large = planned(kernels.attention(F32))
    tiles = memory(large.steps)
    assert large.smem_bytes < sum(m.bytes for m in tiles.values())
    assert tiles["k_t"].offset == tiles["p"].offset  # keys are done with when weights are written


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_shared_bytes_are_exact(kernel: Kernel) -> None:
    made = planned(kernel)
    assert made.smem_bytes == max((m.offset + m.bytes for m in memory(made.steps).values()), default=0)


def traces(steps: tuple[Step, ...]) -> list[list[Step]]:
    """Return the steps as they run when every loop body runs no, one, or two times."""
    out = []
    for turns in (0, 1, 2):
        trace: list[Step] = []
        for step in steps:
            bodies = step.bodies if isinstance(step, Walk) else ()
            trace += [s for body in bodies for _ in range(turns) for s in traces(body)[turns]] if bodies else [step]
        out.append(trace)
    return out


def overlap(a: Memory, b: Memory) -> bool:
    return max(a.offset, b.offset) < min(a.offset + a.bytes, b.offset + b.bytes)


def unordered(trace: list[Step]) -> list[str]:
    """Return the pairs of conflicting accesses with no barrier between them, and reads of what was overwritten."""
    found = []
    for n, first in enumerate(trace):
        for later in trace[n + 1 :]:
            if isinstance(later, Barrier):
                break
            folds = isinstance(later, Fold) and bool(later.scratch)
            late_reads = () if folds else reads(later)
            pairs = [(a, b) for a in writes(first) for b in (*writes(later), *late_reads)]
            if isinstance(first, Fold):
                pairs = [(a, b) for a in first.scratch for b in writes(later)]
            pairs += [(a, b) for a in reads(first) for b in writes(later)]
            found += [f"{a.name} then {b.name}" for a, b in pairs if overlap(a, b)]
            if folds:  # it has a barrier of its own
                break
    return found


def stale(trace: list[Step]) -> list[str]:
    """Return the reads of tiles whose memory another tile has taken since they were written."""
    found, held = [], dict[str, Memory]()
    for step in trace:
        for new in writes(step):
            held = {n: m for n, m in held.items() if not overlap(m, new)} | {new.name: new}
        found += [m.name for m in reads(step) if m.name not in held]
    return found


SIZES = st.sampled_from([4, 8, 16, 24, 32, 64, 80])


@settings(max_examples=40, deadline=None)
@given(m=SIZES, n=SIZES, d=SIZES, threads=st.sampled_from([None, 64, 256]), share=st.booleans())
def test_conflicting_accesses_are_ordered(m: int, n: int, d: int, threads: int | None, share: bool) -> None:
    """Whether tiles lie side by side or share memory."""
    for kernel in (
        kernels.matmul(F32, (m, n, d)),
        kernels.attention(F32, m, n, d),
        kernels_edge.gradient_products(F32, m, n, d),
        kernels.column_argmax(F32, m, n),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(schedule_memory, "EASY_BYTES", 0 if share else 1 << 30)
            try:
                made = planned(kernel, threads, "sm_90")
            except KgenError:
                continue
        for trace in traces(made.steps):
            assert unordered(trace) == []
            assert stale(trace) == []


def test_the_check_of_order_sees_a_lost_barrier() -> None:
    made = planned(kernels.attention(BF16, aligned=True))
    (_, once, _) = traces(made.steps)
    for n, step in enumerate(once):
        if isinstance(step, Barrier):
            assert unordered([*once[:n], *once[n + 1 :]]) != []


def test_attention_has_two_barriers_a_tile() -> None:
    made = planned(kernels.attention(BF16, aligned=True))
    (walk,) = (s for s in made.steps if isinstance(s, Walk))
    assert [sum(isinstance(s, Barrier) for s in body) for body in walk.bodies] == [2, 2]


def test_a_staged_operand_outside_the_loop_is_staged_once() -> None:
    made = planned(kernels.attention())
    assert [s.tiles[0].name for s in made.steps if isinstance(s, Stage)] == ["q_t"]


# ---- global accesses


def first_load(kernel: Kernel) -> LoadTile:
    return next(op for op in kernel.body if isinstance(op, LoadTile))


def test_a_bound_that_is_no_multiple_leaves_a_head() -> None:
    kernel = kernels.vector_add(BF16)
    form = access_form(kernel, first_load(kernel), "i", 8)
    assert (form.width, form.uniform) == (8, None)
    assert form.bound == kernels.size("N")


def test_a_bound_that_is_a_multiple_guards_whole_vectors() -> None:
    kernel = replace(kernels.vector_add(BF16), constants={"N": 4096})
    form = access_form(kernel, first_load(kernel), "i", 8)
    assert (form.width, form.bound, form.uniform) == (8, None, first_load(kernel).where)


@pytest.mark.parametrize(("shift", "width"), [(0, 4), (4, 4), (2, 2), (3, 1)], ids=["aligned", "by 4", "by 2", "by 3"])
def test_an_offset_lowers_the_width(shift: int, width: int) -> None:
    kernel = kernels.vector_add(F32)
    op = replace(first_load(kernel), index=(apply("add", integer(shift), kernels.pos("i")),))
    assert access_form(kernel, op, "i", 4).width == width


def test_unaligned_and_strided_accesses_move_single_elements() -> None:
    unaligned = kernels.vector_add(F32, aligned=False)
    assert access_form(unaligned, first_load(unaligned), "i", 4).width == 1
    kernel = kernels.vector_add(F32)
    doubled = replace(first_load(kernel), index=(apply("mul", integer(2), kernels.pos("i")),))
    assert access_form(kernel, doubled, "i", 4).width == 1


@pytest.mark.parametrize(("cols", "width"), [(64, 4), (6, 2), (None, 1)])
def test_rows_of_a_contiguous_workspace_are_aligned_only_if_its_dims_say_so(cols: int | None, width: int) -> None:
    kernel = kernels.row_softmax(F32, 64, 4, aligned=True)
    dims = (kernels.size("M"), kernels.size("N") if cols is None else integer(cols))
    space = replace(kernel.buffers["x"], dims=dims, role="workspace")
    args = tuple(a for a in kernel.args if a.name != "x_s0")
    kernel = replace(kernel, buffers={**kernel.buffers, "x": space}, args=args)
    assert access_form(kernel, first_load(kernel), "n", 4).width == width


def test_a_predicate_that_cuts_a_run_moves_single_elements() -> None:
    kernel = kernels.vector_add(F32)
    op = first_load(kernel)
    odd = apply("eq", apply("rem", kernels.pos("i"), integer(2)), integer(1))
    assert access_form(kernel, replace(op, where=kernels.both(op.where, odd)), "i", 4).width == 1


def test_an_index_splits_into_scalars_positions_and_lookups() -> None:
    kernel = kernels.matmul()
    half = apply("quot", kernels.pos("k"), integer(2))
    e = apply("add", apply("sub", kernels.pos("m"), half), apply("mul", integer(3), kernels.size("K")))
    parts = split_index(kernel, e)
    assert parts.linear == (("m", 1),)
    assert parts.scalar == (apply("mul", integer(3), kernels.size("K")),)
    assert len(parts.lookups) == 1


def test_access_widths_reach_sixteen_bytes() -> None:
    made = planned(kernels.row_softmax(BF16, 1024, 4, True, True))
    assert [s.form.width for s in made.steps if isinstance(s, Load)] == [8]


# ---- refusals


def test_shared_memory_beyond_the_limit_is_refused_with_what_fits() -> None:
    kernel = kernels.attention(F32, 128, 128, 128)
    assert planned(kernel, arch="sm_90").smem_bytes <= shared_limit("sm_90")
    with pytest.raises(KgenError, match=r"shared memory; sm_86 has 101376 a block; tiles that fit: m: 16 or n: 16"):
        planned(kernel, arch="sm_86")


def test_the_named_tiles_fit_and_are_the_nearest() -> None:
    for m, n in ((16, 128), (128, 16)):
        planned(kernels.attention(F32, m, n, 128), arch="sm_86")
    for m, n in ((32, 128), (128, 32)):
        with pytest.raises(KgenError):
            planned(kernels.attention(F32, m, n, 128), arch="sm_86")


def test_accumulators_beyond_the_registers_are_refused() -> None:
    with pytest.raises(KgenError, match=r"need 512 registers a thread of 255 with 32 threads; tiles that fit: m: 32"):
        planned(kernels.matmul(F32, (128, 128, 16)), 32)
    planned(kernels.matmul(F32, (32, 128, 16)), 32)


def test_just_fitting_accumulators_are_accepted() -> None:
    assert planned(kernels.matmul(F32, (128, 128, 16)), 128).registers == 128


@pytest.mark.parametrize(("threads", "nearest"), [(0, 32), (33, 32), (100, 128), (2048, 1024)])
def test_illegal_threads_are_refused(threads: int, nearest: int) -> None:
    with pytest.raises(KgenError, match=rf"not {threads} \(nearest: {nearest}\)"):
        planned(kernels.vector_add(), threads)


def test_unknown_architectures_are_refused() -> None:
    with pytest.raises(KgenError, match=r"unknown architecture 'sm_75'"):
        planned(kernels.vector_add(), arch="sm_75")
    assert shared_limit("sm_90a") == 227 * 1024


# ---- text


def test_a_plan_describes_itself() -> None:
    text = str(planned(kernels.matmul(BF16, (64, 64, 32), 1, True)))
    assert text.splitlines()[0].startswith("plan of matmul for sm_80: simt, 128 threads,")
    assert "staged: w_t, x_t" in text
    assert "dot acc from x_t (8 wide)" in text


def test_thread_groups_know_their_warps() -> None:
    group = ThreadGroup("ty", 16, 8, ("m",))
    assert (group.lanes, group.warps) == (4, 4)
    assert [group.coordinate(t) for t in (0, 7, 8, 127, 128)] == [0, 0, 1, 15, 0]
    assert ThreadMap(128, (group,), {}).spare == 8
