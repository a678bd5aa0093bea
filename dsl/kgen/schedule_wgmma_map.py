"""The thread map of the `wgmma` skeleton: the layout of a warpgroup's results, over one to three warpgroups."""

from __future__ import annotations

from math import gcd

from kgen.ir import Dot, Kernel
from kgen.layout import WARP, AxisLayout, ThreadGroup, ThreadMap
from kgen.schedule_demand import Demand
from kgen.schedule_homes import operations

WARPS = 4
GROUP = WARP * WARPS  # threads of a warpgroup
ROWS = 64  # of one product
LANES, RUN = 4, 2  # a row of a fragment: 4 lanes hold 2 columns each
ROW_LANES = WARP // LANES
ROW_REGISTERS = 2
COLUMN_GROUP, ROW_GROUP = "tx", "ty"


def thread_map(kernel: Kernel, demand: Demand, rows: frozenset[str], consumers: int) -> ThreadMap:
    """Return the map of `consumers` warpgroups; axes in `rows` are spread over lanes and warps, others over lanes."""
    in_rows = tuple(a for a in demand.axes if a in rows)
    in_cols = tuple(a for a in demand.axes if a not in rows)
    results = {a for op in operations(kernel.body) if isinstance(op, Dot) for a in op.dst.axes}
    count = ROW_LANES * WARPS * consumers
    groups = (ThreadGroup(COLUMN_GROUP, LANES, 1, in_cols), ThreadGroup(ROW_GROUP, count, LANES, in_rows))
    axes = {a: _column(kernel, a) for a in in_cols}
    axes |= {a: _row(kernel, a, consumers, a in results) for a in in_rows}
    return ThreadMap(GROUP * consumers, groups, axes)


def _column(kernel: Kernel, axis: str) -> AxisLayout:
    size = kernel.tile_axes[axis].size
    used = gcd(LANES, size)
    return AxisLayout(axis, size, COLUMN_GROUP, used, RUN if size // used % RUN == 0 else 1)


def _row(kernel: Kernel, axis: str, consumers: int, result: bool) -> AxisLayout:
    size = kernel.tile_axes[axis].size
    if result:
        used = ROW_LANES * WARPS * gcd(consumers, size // ROWS)
        return AxisLayout(axis, size, ROW_GROUP, used, near=ROW_LANES, between=ROW_REGISTERS)
    return AxisLayout(axis, size, ROW_GROUP, gcd(ROW_LANES * WARPS * consumers, size))
