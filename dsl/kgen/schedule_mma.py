"""The `mma` skeleton: which side of each Dot an operand takes, which axes are rows and which are columns.

A warp owns 16 rows and 8 columns at a time in the layout of the matrix instructions, and that layout is a thread map
like any other: rows over 8 lanes, columns over 4 lanes in runs of 2. So each axis held in registers is a row axis or a
column axis, no value has two of a kind, and everything but the Dots themselves is done as in the `simt` skeleton.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kgen.errors import KgenError
from kgen.ir import Dot, Kernel, Let
from kgen.layout import ThreadMap
from kgen.schedule_demand import Demand, collect
from kgen.schedule_homes import Homes, defined, operations, reads
from kgen.schedule_mma_map import LANES, RUN, candidates
from kgen.schedule_mma_map import cost as map_cost
from kgen.terms import Var
from kgen.types import BF16, F16, F32

PIECE = 16  # rows, columns and depth come in multiples of this
MAX_FREE_CHOICES = 6  # independent sets of axes whose sides are tried both ways


class NotServed(KgenError):
    """The skeleton cannot compute a kernel at all; another one may."""


@dataclass(frozen=True)
class Sides:
    """Axes by side; each value held in registers has at most one of each."""

    rows: frozenset[str]
    cols: frozenset[str]


def dots(kernel: Kernel) -> tuple[Dot, ...]:
    return tuple(op for op in operations(kernel.body) if isinstance(op, Dot))


def sides_of(dot: Dot, rows: frozenset[str]) -> tuple[Var, Var]:
    """Return the operand that holds the row axis of the result, and the one that holds the column axis."""
    return (dot.a, dot.b) if set(dot.a.axes) & set(dot.dst.axes) & rows else (dot.b, dot.a)


def choose(kernel: Kernel, homes: Homes, warps: int) -> tuple[ThreadMap, Homes, Sides]:
    """Return the cheapest thread map, the homes with operands that stay in registers, and the sides of the axes.

    Raises NotServed with the reason if the matrix instructions cannot serve a Dot of the kernel.
    """
    for dot in dots(kernel):
        _check(kernel, dot)
    demand = collect(kernel, homes)
    best: tuple[int, ThreadMap, Homes, Sides] | None = None
    for sides in _orientations(kernel, demand):
        for threads in candidates(kernel, demand, sides.rows, warps, _result_axes(kernel)):
            own = replace(homes, fragments=_fragments(kernel, homes, sides, threads))
            own = replace(own, spilled=homes.spilled - own.fragments)
            price = map_cost(kernel, demand, threads, own, [(d, *sides_of(d, sides.rows)) for d in dots(kernel)])
            if best is None or price < best[0]:
                best = (price, threads, own, sides)
    assert best is not None
    return best[1:]


def _check(kernel: Kernel, dot: Dot) -> None:
    """Raise NotServed if no orientation and no thread map could make this Dot a product of matrices."""
    what = f"the product '{dot.dst.name}'"
    if {dot.a.dtype, dot.b.dtype} not in ({BF16}, {F16}) or dot.dst.dtype is not F32:
        raise NotServed(f"{what} has operands of {dot.a.dtype} and {dot.b.dtype}: mma takes bf16 or f16, sums in f32")
    free = [[x for x in v.axes if x != dot.contract] for v in (dot.a, dot.b)]
    if [len(f) for f in free] != [1, 1] or set(free[0] + free[1]) != set(dot.dst.axes) or free[0] == free[1]:
        raise NotServed(f"{what} is no product of two matrices: mma has one row, one column and one summed axis")
    for axis in (*dot.dst.axes, dot.contract):
        size = kernel.tile_axes[axis].size
        if size % PIECE:
            near = max(PIECE, size // PIECE * PIECE)
            raise NotServed(f"{what} has a tile of {size} along '{axis}': mma needs a multiple of {PIECE} ({near})")


def _result_axes(kernel: Kernel) -> frozenset[str]:
    return frozenset(a for d in dots(kernel) for a in d.dst.axes)


def _orientations(kernel: Kernel, demand: Demand) -> Iterator[Sides]:
    """Yield the ways to call the axes rows and columns; axes that meet no other are columns."""
    parts = _two_coloured(demand)
    linked = [p for p in parts if p[1]]
    fixed = frozenset(a for p in parts if not p[1] for a in p[0])
    if len(linked) > MAX_FREE_CHOICES:
        raise NotServed(f"{len(linked)} unconnected products: mma orients at most {MAX_FREE_CHOICES}")
    for turned in itertools.product((False, True), repeat=len(linked)):
        rows = frozenset(a for t, p in zip(turned, linked, strict=True) for a in p[t])
        cols = frozenset(a for t, p in zip(turned, linked, strict=True) for a in p[not t])
        yield Sides(rows, cols | fixed)


def _two_coloured(demand: Demand) -> list[tuple[set[str], set[str]]]:
    """Return the connected sets of axes, each cut in two so that axes that meet in a value are apart."""
    for met in demand.together:
        if len(met) > 2:
            raise NotServed(f"a value has the axes {', '.join(sorted(met))}: mma holds values of at most two")
    side: dict[str, bool] = {}
    found = []
    for first in demand.axes:
        if first in side:
            continue
        side[first] = False
        queue, part = [first], ({first}, set[str]())
        while queue:
            axis = queue.pop()
            for met in demand.together:
                for other in met - {axis} if axis in met else ():
                    if other not in side:
                        side[other] = not side[axis]
                        part[side[other]].add(other)
                        queue.append(other)
                    elif side[other] == side[axis]:
                        raise NotServed(f"'{axis}' and '{other}' would both be rows or both columns of mma fragments")
        found.append(part)
    return found


def _fragments(kernel: Kernel, homes: Homes, sides: Sides, threads: ThreadMap) -> frozenset[str]:
    """Return the computed operands that are only ever left operands, with the summed axis in the lanes of one warp."""
    ops = list(operations(kernel.body))
    lets = {v.name for op in ops if isinstance(op, Let) for v in defined(op)}
    other = {v.name for op in ops for v in (*reads(op), *(() if isinstance(op, Let) else defined(op)))}
    found = (homes.spilled & lets) - other - homes.mutable
    for dot in dots(kernel):
        left, right = sides_of(dot, sides.rows)
        found -= {right.name}
        layout = threads.axes.get(dot.contract)
        if layout is None or dot.contract not in sides.cols or (layout.threads, layout.vector) != (LANES, RUN):
            found -= {left.name}
    return frozenset(found)
