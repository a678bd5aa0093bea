"""Where a guard can hold and where it always holds in a tile, as intervals along the streamed axis.

`not` is pushed down to comparisons. A comparison that is monotone in the streamed position n, k * n + rest OP 0 or
(n + ...) // c OP rest, gives one interval for each element of the tile; its hull over the tile and its interior
(intersection) come from the extremes of the ends. `and` intersects and `or` unites both. Everything else (lookups that
vary in the tile or along n, remainders of n, products with n) can hold anywhere and is certain nowhere.

Exact are: the interval of every comparison whose ends are monotone in the tile's positions; interiors of conjunctions;
hulls of disjunctions; hulls of conjunctions whose upper ends all rise, or all fall, with each tile position and whose
intervals for single elements are not empty and leave no gap (causal, windows, documents of equal length).
Wider than need be, never wrong: hulls of conjunctions of ends that move against each other (n <= m and n <= 9 - m), of
intervals that are empty for every element (a window of no width), with gaps (n == 3 * m), and of more than MAX_PIECES
pieces. Narrower than could be: interiors of disjunctions of which different elements need different parts (causal, or
one of the first rows); parts that hold for all elements and touch (window or first tokens) do count as one interior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import sympy

from kgen.index_convert import from_sympy, table_of, to_sympy
from kgen.index_facts import Facts
from kgen.index_rules import maximum, minimum
from kgen.index_sympy import Table
from kgen.intervals import Pieces, Span, with_interiors
from kgen.mask_names import named
from kgen.mask_segments import Walk, conditions_in_ends, ordered, touching_extended
from kgen.mask_solve import Solver
from kgen.terms import Cast, Expr, Get, Start, Var, apply, integer
from kgen.terms import walk as parts
from kgen.types import BOOL, I32


@dataclass(frozen=True)
class Interval:
    """Positions from `lo` to `hi` (exclusive), none if hi <= lo. Ends are scalar i32 expressions."""

    lo: Expr
    hi: Expr


@dataclass(frozen=True)
class Bounds:
    """Where a guard can hold: in the union of `hull`. Where it always holds: at least in the union of `interior`.

    interior[i] lies within hull[i] and may be empty. `facts` are those the ends were simplified under.
    """

    extent: Expr
    pieces: Pieces = field(repr=False)
    facts: Facts = field(repr=False)

    @property
    def hull(self) -> tuple[Interval, ...]:
        """At most four intervals, in no proven order."""
        return tuple(self._interval(p.hull) for p in self.pieces)

    @property
    def interior(self) -> tuple[Interval, ...]:
        """As many intervals as `hull` has."""
        return tuple(self._interval(p.interior) for p in self.pieces)

    def _interval(self, s: Span) -> Interval:
        table = table_of(self.facts)
        extent = to_sympy(self.extent, table)
        return Interval(_end(s.lo, extent, table), _end(s.hi, extent, table))


@dataclass(frozen=True)
class SegmentBounds:
    """Tiles from position `lo` to position `hi` (exclusive), multiples of the tile; none if hi <= lo.

    "plain": the guard holds and every position is inside the extent, for the whole tile. "tail": positions may be
    outside the extent, the guard holds for all others. "masked": neither is known.
    """

    lo: Expr
    hi: Expr
    kind: str


def tile_interval(axis: str, tile: int, extent: Expr) -> Interval:
    """Return the valid positions of the current tile of an axis."""
    start = Start(I32, axis)
    return Interval(start, apply("minimum", apply("add", start, integer(tile)), extent))


def bounds_of(guard: Expr | None, stream: str, extent: Expr, tiles: Mapping[str, Interval], facts: Facts) -> Bounds:
    """Return where `guard` can and must hold along the axis `stream` of `extent` positions, for the current tile.

    `tiles`: the other axes that vary inside the tile, each with its valid positions (`tile_interval`, or all of an axis
    that is not cut into tiles); they are taken to be not empty. All other axes, parameters, sizes, and lookups without
    these axes are scalars and may appear in the ends. No guard (None) holds everywhere.
    """
    return bounds_between(guard, guard, stream, extent, tiles, facts)


def bounds_between(
    can: Expr | None,
    must: Expr | None,
    stream: str,
    extent: Expr,
    tiles: Mapping[str, Interval],
    facts: Facts,
) -> Bounds:
    """Return the hull of the guard `can` with the interior of the guard `must`, else as `bounds_of`.

    For a loop that several guarded reductions share, `can` is any of their guards and `must` all of them.
    """
    facts = facts.assuming(*(apply("lt", t.lo, t.hi, dtype=BOOL) for t in tiles.values()))
    solver = Solver(facts, stream, extent, {a: (t.lo, t.hi) for a, t in tiles.items()})
    pieces = solver.solve(can)
    if must != can:
        pieces = with_interiors(pieces, solver.solve(must), solver.table)
    return Bounds(extent, tuple(conditions_in_ends(p, solver.table) for p in pieces), facts)


def segments(
    bounds: Bounds, *, tile: int, lower: Expr | None = None, upper: Expr | None = None
) -> tuple[SegmentBounds, ...]:
    """Return the segments that visit, in rising order and once each, the tiles that can hold an element.

    Tiles that touch the hull are visited; those wholly in the interior and in the extent are plain. `lower` and `upper`
    (left out: 0 and the extent) limit the walk to a part of the axis; both are multiples of the tile, and `upper` is at
    most the extent rounded up to one.
    """
    walk = _walked(bounds, tile, lower, upper)
    most = walk.ceil(walk.extent)
    ends = {x: _end(x, most, walk.table) for lo, hi, _ in walk.found for x in (lo, hi)}
    return tuple(SegmentBounds(ends[lo], ends[hi], kind) for lo, hi, kind in walk.found)


def named_segments(
    bounds: Bounds, axis: str, *, tile: int, lower: Expr | None = None, upper: Expr | None = None
) -> tuple[tuple[tuple[Var, Expr], ...], tuple[SegmentBounds, ...]]:
    """Return `segments` with their ends read from i32 scalars, and before them the scalars' definitions in order.

    Scalars are called `<axis>_begin`, `_plain`, `_plain_end`, `_end` after what starts or ends there, numbered from the
    second interval of the hull on.
    """
    walk = _walked(bounds, tile, lower, upper)
    most = walk.ceil(walk.extent)
    lets, known = named(walk.marks, axis, walk.table)
    ends = {value: from_sympy(e, walk.table, I32) for value, e in known}
    found = tuple(SegmentBounds(ends[lo], ends[hi], kind) for lo, hi, kind in walk.found)
    return _read([(var, _end(e, most, walk.table)) for var, e in lets], found), found


def _read(lets: list[tuple[Var, Expr]], found: tuple[SegmentBounds, ...]) -> tuple[tuple[Var, Expr], ...]:
    """Return the definitions that a segment reads, also through others."""
    read = {x for s in found for e in (s.lo, s.hi) for x in parts(e)}
    kept: list[tuple[Var, Expr]] = []
    for var, e in reversed(lets):
        if Get(I32, var) in read:
            kept.insert(0, (var, e))
            read.update(parts(e))
    return tuple(kept)


def _walked(bounds: Bounds, tile: int, lower: Expr | None, upper: Expr | None) -> Walk:
    table = table_of(bounds.facts)
    start, stop = (None if x is None else to_sympy(x, table) for x in (lower, upper))
    part = (sympy.Integer(0) if start is None else start, stop)
    walk = Walk(tile, to_sympy(bounds.extent, table), part, table)
    for piece in touching_extended(ordered(bounds.pieces, table), table):
        walk.visit(piece)
    return walk


def _end(e: sympy.Expr, most: sympy.Expr, table: Table) -> Expr:
    """Return an end in i32. One computed in 64 bits, from an i64 parameter, is brought within [0, most] first."""
    found = from_sympy(e, table, I32)
    if found.dtype is I32:
        return found
    return Cast(I32, from_sympy(maximum(table, minimum(table, e, most), sympy.Integer(0)), table, I32))
