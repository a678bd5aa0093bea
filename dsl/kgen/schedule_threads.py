"""The thread map: which axes share thread-index bits, how many threads each gets, and the widths of global accesses.

Axes that meet in one value get different groups: a greedy graph colouring, axes contiguous in memory first, so that
they get the fastest bits. All ways to deal the threads out are costed, in issue slots of an SM; the cheapest is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from kgen.ir import Kernel
from kgen.layout import WARP, AxisLayout, ThreadGroup, ThreadMap, power_of_two_divisor, sectors
from kgen.schedule_demand import Access, Demand, Fold, Product, elements

GROUP_NAMES = ("tx", "ty", "tz", "tw")
MAX_THREADS = 1024
DEFAULT_THREADS = 128
ACCESS_BYTES = 16
EASY_REGISTERS = 128  # beyond this a thread map is charged for pressure
PRESSURE_COST = 1 << 16


def choose(kernel: Kernel, demand: Demand, threads: int | None) -> ThreadMap:
    """Return the cheapest thread map; `threads` None lets the block grow from 128 until registers are at ease."""
    groups = _colour(kernel, demand)
    if threads is not None:
        return _cheapest(kernel, demand, groups, threads)
    capacity = prod(max((_limit(kernel, a) for a in group), default=1) for group in groups)
    count = max(WARP, min(DEFAULT_THREADS, capacity)) if not demand.products else DEFAULT_THREADS
    best = _cheapest(kernel, demand, groups, count)
    while count < min(MAX_THREADS, capacity) and live_registers(demand, best) > EASY_REGISTERS:
        count *= 2
        best = _cheapest(kernel, demand, groups, count)
    return best


def live_registers(demand: Demand, threads: ThreadMap) -> int:
    """Return an estimate of the registers a thread needs: the two largest values at once, or the accumulators."""
    sizes = sorted((threads.registers(v.axes) * max(1, v.dtype.bytes // 4) for v in demand.values), reverse=True)
    return sum(sizes[:3])


def _limit(kernel: Kernel, axis: str) -> int:
    return power_of_two_divisor(kernel.tile_axes[axis].size)


def _colour(kernel: Kernel, demand: Demand) -> tuple[tuple[str, ...], ...]:
    """Return the axes of each thread group, fastest group first."""
    weight = dict.fromkeys(demand.axes, 0)
    for access in demand.accesses:
        if access.unit in weight:
            weight[access.unit] += access.weight * elements(kernel, access.axes)
    groups: list[list[str]] = []
    for axis in sorted(demand.axes, key=lambda a: (-weight[a], -kernel.tile_axes[a].size, a)):
        clash = {a for met in demand.together if axis in met for a in met}
        free = next((g for g in groups if not clash & set(g)), None)
        if free is None:
            groups.append([axis])
        else:
            free.append(axis)
    return tuple(tuple(g) for g in groups)


def _cheapest(kernel: Kernel, demand: Demand, groups: tuple[tuple[str, ...], ...], threads: int) -> ThreadMap:
    found = [
        _thread_map(kernel, demand, groups, counts, threads, wide)
        for counts in _splits(tuple(max(_limit(kernel, a) for a in g) for g in groups), threads)
        for wide in (True, False)
    ]
    return min(found, key=lambda m: cost(demand, m))


def _splits(limits: tuple[int, ...], threads: int) -> Iterator[tuple[int, ...]]:
    """Yield the threads per group: powers of two within `limits`, their product `threads`, or the limits if less."""
    if not limits:
        yield ()
        return
    count = 1
    while count <= min(limits[0], threads):
        for rest in _splits(limits[1:], threads // count):
            used = count * prod(rest)
            if used == threads or all(c == limit for c, limit in zip((count, *rest), limits, strict=True)):
                yield (count, *rest)
        count *= 2


def _thread_map(
    kernel: Kernel,
    demand: Demand,
    groups: tuple[tuple[str, ...], ...],
    counts: tuple[int, ...],
    threads: int,
    wide: bool,
) -> ThreadMap:
    made, axes, stride = [], {}, 1
    for number, (members, count) in enumerate(zip(groups, counts, strict=True)):
        name = GROUP_NAMES[number] if number < len(GROUP_NAMES) else f"t{number}"
        made.append(ThreadGroup(name, count, stride, members))
        stride *= count
        for axis in members:
            size, used = kernel.tile_axes[axis].size, min(count, _limit(kernel, axis))
            vector = _run(demand, axis, size // used) if wide else 1
            axes[axis] = AxisLayout(axis, size, name, used, vector)
    return ThreadMap(threads, tuple(made), axes)


def _run(demand: Demand, axis: str, registers: int) -> int:
    """Return the longest run of elements that some aligned access of `axis` can move at once."""
    widest = max((ACCESS_BYTES // a.itemsize for a in demand.accesses if a.unit == axis and a.aligned), default=1)
    return min(widest, power_of_two_divisor(registers))


def cost(demand: Demand, threads: ThreadMap) -> int:
    """Return the estimated issue slots of one block, with pressure beyond `EASY_REGISTERS` charged heavily."""
    slots = sum(access_cost(a, threads) for a in demand.accesses)
    slots += sum(_product_cost(p, threads) for p in demand.products)
    slots += sum(fold_cost(f, threads) for f in demand.folds)
    slots *= threads.threads // WARP or 1
    return slots + PRESSURE_COST * max(0, live_registers(demand, threads) - EASY_REGISTERS)


def access_cost(access: Access, threads: ThreadMap) -> int:
    """Instructions of a warp, each as many slots as the sectors it touches (one at least)."""
    vector = 1
    if access.unit is not None and access.unit in threads.axes:
        run = threads.axes[access.unit].vector
        vector = min(run, ACCESS_BYTES // access.itemsize) if access.aligned else 1
    pitch = 1 << 20
    addresses = []
    for lane in range(min(WARP, threads.threads)):
        element = [
            threads.element(a, lane, 0) * (1 if a == access.unit else pitch * (n + 1))
            for n, a in enumerate(access.axes)
        ]
        addresses.append(sum(element) * access.itemsize)
    touched = sectors(addresses, vector * access.itemsize)
    return access.weight * (threads.registers(access.axes) // vector) * (1 + touched)


def _product_cost(product: Product, threads: ThreadMap) -> int:
    """Multiply-adds, and the operand loads at two slots each plus the extra cycles of lanes in different rows."""
    rows, cols = threads.registers(product.row), threads.registers(product.col)
    per_load = max(1, 8 // product.itemsize)
    return product.weight * product.depth * (rows * cols + 4 * (rows + cols) // per_load)


def fold_cost(fold: Fold, threads: ThreadMap) -> int:
    """The thread's own elements, a shuffle and an operation per lane bit, and a round through shared memory."""
    group, layout = threads.group_of(fold.axis), threads.axes[fold.axis]
    lanes = min(group.lanes, layout.threads)
    warps = layout.threads // lanes
    steps = layout.registers + 4 * (lanes.bit_length() - 1) + (0 if warps == 1 else 16 + 4 * warps)
    return fold.weight * fold.states * threads.registers(fold.kept) * steps + (0 if warps == 1 else 60 * fold.weight)
