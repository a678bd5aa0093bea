"""Thread maps of the `mma` skeleton: warps dealt out to rows and columns, each way priced in cycles of an SM."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.ir import Dot, Kernel
from kgen.layout import WARP, AxisLayout, ThreadGroup, ThreadMap, power_of_two_divisor
from kgen.schedule_demand import LOOP_WEIGHT, Demand
from kgen.schedule_homes import Homes
from kgen.schedule_threads import access_cost, fold_cost
from kgen.terms import Var

LANES, RUN = 4, 2  # a row of a fragment: 4 lanes hold 2 columns each
ROW_LANES = WARP // LANES
PIECE = 16
LOAD, MULTIPLY, EXCHANGE = 4, 2, 64  # cycles of four 8x8 matrices, of one product 16x8x16, and of a barrier's wait
COLS, ROWS = "tx", "ty"


def candidates(
    kernel: Kernel, demand: Demand, rows: frozenset[str], warps: int, results: frozenset[str]
) -> Iterator[ThreadMap]:
    """Yield a thread map for every way to split `warps` into rows times columns. `results` are axes of products."""
    down = 1
    while down <= warps:
        yield _thread_map(kernel, demand, rows, down, warps // down, results)
        down *= 2


def _thread_map(
    kernel: Kernel, demand: Demand, rows: frozenset[str], down: int, across: int, results: frozenset[str]
) -> ThreadMap:
    in_rows = tuple(a for a in demand.axes if a in rows)
    in_cols = tuple(a for a in demand.axes if a not in rows)
    near = {"near": LANES, "warp_stride": WARP * down} if across > 1 else {}
    groups = (
        ThreadGroup(COLS, LANES * across, 1, in_cols, **near),
        ThreadGroup(ROWS, ROW_LANES * down, LANES, in_rows),
    )
    axes = {a: _layout(kernel, a, COLS, LANES, across, a in results) for a in in_cols}
    axes |= {a: _layout(kernel, a, ROWS, ROW_LANES, down, a in results) for a in in_rows}
    return ThreadMap(WARP * down * across, groups, axes)


def _layout(kernel: Kernel, axis: str, group: str, lanes: int, warps: int, result: bool) -> AxisLayout:
    """Return the layout of an axis: 16 elements or more for each warp that holds a part of it, if products need it."""
    size = kernel.tile_axes[axis].size
    if result:
        used = lanes * min(warps, power_of_two_divisor(size // PIECE))
    else:
        used = min(lanes * warps, power_of_two_divisor(size))
    vector = RUN if group == COLS and size // used % RUN == 0 else 1
    return AxisLayout(axis, size, group, used, vector)


def cost(kernel: Kernel, demand: Demand, threads: ThreadMap, homes: Homes, dots: list[tuple[Dot, Var, Var]]) -> int:
    """Return the estimated cycles of one block: products with the loads of their operands, spills, folds, accesses."""
    warps = threads.threads // WARP
    slots = sum(access_cost(a, threads) for a in demand.accesses)
    slots += sum(fold_cost(f, threads) for f in demand.folds)
    total = slots * warps
    for dot, left, _ in dots:
        total += LOOP_WEIGHT * warps * _product_cost(kernel, threads, homes, dot, left)
    spilled = {v for dot, *both in dots for v in both if v.name in homes.spilled}
    for var in spilled:
        total += LOOP_WEIGHT * (warps * threads.registers(var.axes) + EXCHANGE)
    return total


def _product_cost(kernel: Kernel, threads: ThreadMap, homes: Homes, dot: Dot, left: Var) -> int:
    row, col = (next(a for a in dot.dst.axes if threads.axes[a].group == g) for g in (ROWS, COLS))
    down, across = threads.axes[row].registers // 2, threads.axes[col].registers // 2
    loads = across // 2 + (0 if left.name in homes.fragments else down)
    return kernel.tile_axes[dot.contract].size // PIECE * (LOAD * loads + MULTIPLY * down * across)
