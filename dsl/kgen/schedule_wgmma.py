"""The `wgmma` skeleton: which axes are rows of a warpgroup's products, and how warpgroups share the rows.

A warpgroup of 128 threads owns 64 rows at a time in the layout that its instructions leave results in, again a thread
map: rows over 8 lanes, then two registers, then 4 warps, then the warpgroups; columns as in the `mma` skeleton. No
column is shared between warps, and everything but the Dots themselves is done as in the `simt` skeleton.
"""

from __future__ import annotations

from dataclasses import replace

from kgen.ir import Kernel
from kgen.layout import ThreadMap
from kgen.schedule_demand import LOOP_WEIGHT, Demand, collect
from kgen.schedule_homes import Homes
from kgen.schedule_mma import NotServed, Sides, _check, _fragments, _orientations, dots, sides_of
from kgen.schedule_threads import access_cost, fold_cost
from kgen.schedule_wgmma_map import ROWS, thread_map

MAX_CONSUMERS = 3
EXCHANGE = 64  # cycles that a barrier waits


def choose(kernel: Kernel, homes: Homes, consumers: int | None) -> tuple[ThreadMap, Homes, Sides]:
    """Return the cheapest thread map, the homes with operands that stay in registers, and the sides of the axes.

    `consumers` warpgroups multiply; None: as many as the rows can occupy. Raises NotServed with the reason if the
    instructions cannot serve a Dot of the kernel.
    """
    for dot in dots(kernel):
        _check(kernel, dot)
    demand = collect(kernel, homes)
    best: tuple[int, ThreadMap, Homes, Sides] | None = None
    refused: NotServed | None = None
    for sides in _orientations(kernel, demand):
        try:
            groups = _consumers(kernel, sides, consumers)
        except NotServed as reason:
            refused = refused or reason
            continue
        threads = thread_map(kernel, demand, sides.rows, groups)
        own = replace(homes, fragments=_fragments(kernel, homes, sides, threads))
        own = replace(own, spilled=homes.spilled - own.fragments)
        price = _cost(kernel, demand, threads, own, sides)
        if best is None or price < best[0]:
            best = (price, threads, own, sides)
    if best is None:
        raise refused or NotServed("no product has a row axis")
    return best[1:]


def _consumers(kernel: Kernel, sides: Sides, wanted: int | None) -> int:
    """Return the number of warpgroups; raise NotServed if the rows of a product are no whole pieces for them."""
    sizes = {}
    for dot in dots(kernel):
        (row,) = set(dot.dst.axes) & sides.rows
        sizes[row] = kernel.tile_axes[row].size
    for axis, size in sizes.items():
        if size % ROWS:
            near = max(ROWS, size // ROWS * ROWS)
            raise NotServed(f"a tile of {size} along '{axis}': wgmma needs a multiple of {ROWS} rows ({near})")
    pieces = max(sizes.values()) // ROWS
    fitting = [c for c in range(MAX_CONSUMERS, 0, -1) if pieces % c == 0 and (wanted is None or c <= wanted)]
    return fitting[0]


def _cost(kernel: Kernel, demand: Demand, threads: ThreadMap, homes: Homes, sides: Sides) -> int:
    """Return the estimated issue slots of one block apart from its products, which cost the same either way."""
    slots = sum(access_cost(a, threads) for a in demand.accesses)
    slots += sum(fold_cost(f, threads) for f in demand.folds)
    operands = {v for d in dots(kernel) for v in sides_of(d, sides.rows)}
    for var in operands:
        if var.name in homes.spilled:
            slots += LOOP_WEIGHT * (threads.registers(var.axes) + EXCHANGE)
    return slots
