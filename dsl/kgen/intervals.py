"""Unions of intervals with symbolic ends, each with a part that is certain.

A set of positions that differs between the elements of a tile is held as a tuple of at most MAX_PIECES pieces: it lies
in the union of their hulls and contains the union of their interiors, and each interior lies in its piece's hull. Ends
are normal forms (`index_rules`); a span with conditions is empty unless all of them hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy

from kgen.index_bounds import at_most, negated, upper
from kgen.index_rules import maximum, minimum
from kgen.index_sympy import Table
from kgen.terms import Expr

MAX_PIECES = 4


@dataclass(frozen=True)
class Span:
    """The positions from `lo` to `hi` (exclusive), none if hi <= lo or a condition of `when` is false."""

    lo: sympy.Expr
    hi: sympy.Expr
    when: tuple[Expr, ...] = ()


NOTHING = Span(sympy.Integer(0), sympy.Integer(0))


@dataclass(frozen=True)
class Piece:
    """An interval of possible positions and, within it, one of certain positions."""

    hull: Span
    interior: Span


Pieces = tuple[Piece, ...]


def is_empty(s: Span, table: Table) -> bool:
    """True if `s` is proven to be empty."""
    return at_most(s.hi, s.lo, table)


def contains(outer: Span, inner: Span, table: Table) -> bool:
    """True if every position of `inner` is proven to be in `outer`."""
    if is_empty(inner, table):
        return True
    ends = at_most(outer.lo, inner.lo, table) and at_most(inner.hi, outer.hi, table)
    return ends and set(outer.when) <= set(inner.when)


def intersect_spans(a: Span, b: Span, table: Table) -> Span:
    """Return the positions in both spans."""
    when = a.when + tuple(c for c in b.when if c not in a.when)
    return Span(maximum(table, a.lo, b.lo), minimum(table, a.hi, b.hi), when)


def intersect(a: Pieces, b: Pieces, table: Table) -> Pieces:
    """Return the intersection of two unions. The interior is exact; the hull, an intersection of hulls, may be wide."""
    found: Pieces = ()
    for p in a:
        for q in b:
            hull = intersect_spans(p.hull, q.hull, table)
            found = _with(found, Piece(hull, intersect_spans(p.interior, q.interior, table)), table)
    return _limited(found, table)


def unite(a: Pieces, b: Pieces, table: Table) -> Pieces:
    """Return the union of two unions. Its hull is exact; positions certain only by both together are not interior."""
    found = a
    for p in b:
        found = _with(found, p, table)
    return _limited(found, table)


def with_interiors(pieces: Pieces, certain: Pieces, table: Table) -> Pieces:
    """Return the hulls of `pieces`, each with one interior out of `certain`: the longest if that is known."""
    return tuple(replace(p, interior=_inside(p.hull, certain, table)) for p in pieces)


def _inside(hull: Span, certain: Pieces, table: Table) -> Span:
    found = NOTHING
    for p in certain:
        found = _longest(found, intersect_spans(hull, p.interior, table), table)
    return found


def _longest(a: Span, b: Span, table: Table) -> Span:
    """Return the union of two spans if it is one span, else the longer one if that is known, else the first."""
    joined = _joined(a, b, table)
    if joined is not None:
        return joined
    return b if at_most(_length(a), _length(b), table) else a


def merge(a: Piece, b: Piece, table: Table) -> Piece:
    """Return one piece that covers both. It keeps one interior, the longer if that is known, else the first."""
    when = tuple(c for c in a.hull.when if c in b.hull.when)
    hull = Span(minimum(table, a.hull.lo, b.hull.lo), maximum(table, a.hull.hi, b.hull.hi), when)
    return Piece(hull, _longest(a.interior, b.interior, table))


def _with(pieces: Pieces, new: Piece, table: Table) -> Pieces:
    """Add a piece; one that is empty, covered, covering, or that continues another in hull and interior is absorbed."""
    if is_empty(new.hull, table):
        return pieces
    for i, old in enumerate(pieces):
        rest = pieces[:i] + pieces[i + 1 :]
        if _covers(old, new, table):
            return pieces
        if _covers(new, old, table):
            return _with(rest, new, table)
        hull, interior = _joined(old.hull, new.hull, table), _joined(old.interior, new.interior, table)
        if hull is not None and interior is not None:
            return _with(rest, Piece(hull, interior), table)
    return (*pieces, new)


def _covers(a: Piece, b: Piece, table: Table) -> bool:
    return contains(a.hull, b.hull, table) and contains(a.interior, b.interior, table)


def _joined(a: Span, b: Span, table: Table) -> Span | None:
    """Return the union of two spans where it is proven to be one span."""
    for x, y in ((a, b), (b, a)):
        if contains(x, y, table):
            return x
        if not x.when and not y.when and at_most(x.lo, y.lo, table) and at_most(y.lo, x.hi, table):
            return replace(x, hi=maximum(table, x.hi, y.hi))
    return None


def _length(s: Span) -> sympy.Expr:
    return sympy.Add(s.hi, negated(s.lo))


def _limited(pieces: Pieces, table: Table) -> Pieces:
    while len(pieces) > MAX_PIECES:
        i, j = _closest(pieces, table)
        rest = tuple(p for k, p in enumerate(pieces) if k not in (i, j))
        pieces = _with(rest, merge(pieces[i], pieces[j], table), table)
    return pieces


def _closest(pieces: Pieces, table: Table) -> tuple[int, int]:
    """Return the two pieces with the least bound on the gap between their hulls, the last two if no gap is bounded."""
    pairs = [(i, j) for j in range(len(pieces)) for i in range(j)]
    gaps = [(_gap(pieces[i].hull, pieces[j].hull, table), (i, j)) for i, j in pairs]
    bounded = [(gap, pair) for gap, pair in gaps if gap is not None]
    return min(bounded)[1] if bounded else pairs[-1]


def _gap(a: Span, b: Span, table: Table) -> int | None:
    above, below = (upper(sympy.Add(y.lo, negated(x.hi)), table) for x, y in ((a, b), (b, a)))
    found = [x for x in (above, below) if x is not None]
    return max(found) if len(found) == 2 else None


def in_order(pieces: Pieces, table: Table) -> Pieces | None:
    """Return the pieces sorted by the low ends of their hulls, None if that order is not proven."""
    found: list[Piece] = []
    for p in pieces:
        place = next((i for i, q in enumerate(found) if not at_most(q.hull.lo, p.hull.lo, table)), len(found))
        if not all(at_most(p.hull.lo, q.hull.lo, table) for q in found[place:]):
            return None
        found.insert(place, p)
    return tuple(found)
