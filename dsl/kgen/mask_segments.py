"""From pieces to segments of whole tiles, each tile in one of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import sympy

from kgen.index import prove
from kgen.index_bounds import at_most
from kgen.index_convert import from_sympy
from kgen.index_rules import add, floordiv, maximum, minimum, multiply
from kgen.index_sympy import Maximum, Minimum, Table, Where
from kgen.intervals import Piece, Pieces, Span, in_order, is_empty, merge
from kgen.terms import Apply, Expr
from kgen.types import BOOL, I32

Part = tuple[sympy.Expr, sympy.Expr | None]


@dataclass(frozen=True)
class Mark:
    """A place where segments may meet: `shown` is an expression of earlier marks that equals `value`."""

    role: str
    piece: int
    value: sympy.Expr
    shown: sympy.Expr


class Walk:
    """Appends the segments of one piece after another; `position` is where the tiles not yet visited begin."""

    def __init__(self, tile: int, extent: sympy.Expr, part: Part, table: Table) -> None:
        self.table = table
        self.tile = sympy.Integer(tile)
        self.extent = extent
        self.position, self.upper = part
        self.found: list[tuple[sympy.Expr, sympy.Expr, str]] = []
        self.marks: list[Mark] = []
        self.pieces = 0

    def visit(self, piece: Piece) -> None:
        """Append the segments of a piece whose hull begins nowhere before those visited earlier."""
        self.pieces += 1
        hull, interior = piece.hull, piece.interior
        begin = self._mark("begin", maximum(self.table, self.position, self._floor(hull.lo)))
        end = self._mark("end", self._end(hull))
        if is_empty(interior, self.table):
            self._append(begin, end, "masked")
        else:
            covered = interior.hi == hull.hi and _last_choice(hull.hi) == self.extent
            self._append_split((begin, end), hull, interior, "tail" if covered else "masked")
        self.position = maximum(self.table, self.position, end)

    def _append_split(self, ends: tuple[sympy.Expr, sympy.Expr], hull: Span, interior: Span, last: str) -> None:
        """Append begin..first masked, first..after plain, after..end. If end <= begin, all three are empty."""
        table = self.table
        begin, end = ends
        whole = self._floor(interior.hi)
        first = maximum(table, begin, self.ceil(interior.lo))
        after = maximum(table, first, whole)
        if first != begin:
            after = minimum(table, after, end)
            first = self._mark("plain", minimum(table, first, end))
            self._mark("plain_end", after, Minimum(Maximum(first, whole), end))
        elif end == self.ceil(hull.hi) and at_most(interior.hi, hull.hi, table):
            self._mark("plain_end", after)
        else:
            after = self._mark("plain_end", minimum(table, after, end))
        self._append(begin, first, "masked")
        self._append(first, after, "plain")
        self._append(after, end, last)

    def _mark(self, role: str, value: sympy.Expr, shown: sympy.Expr | None = None) -> sympy.Expr:
        self.marks.append(Mark(role, self.pieces, value, value if shown is None else shown))
        return value

    def _append(self, lo: sympy.Expr, hi: sympy.Expr, kind: str) -> None:
        if not at_most(hi, lo, self.table):
            self.found.append((lo, hi, kind))

    def _end(self, hull: Span) -> sympy.Expr:
        """Return where the tiles of a hull end: at or before the tile of hull.lo if the hull is empty."""
        end = self.ceil(hull.hi)
        if not self._rounds_empty(hull):
            end = where(_less(hull.lo, hull.hi, self.table), end, sympy.Integer(0), self.table)
        if self.upper is None:
            return end
        return self.upper if hull.hi == self.extent else minimum(self.table, end, self.upper)

    def _rounds_empty(self, hull: Span) -> bool:
        """True if an empty hull is proven to stay empty when it is rounded outward to tiles."""
        return all(
            at_most(add(self.table, lo, sympy.Integer(1)), hi, self.table) or self._whole(lo) or self._whole(hi)
            for lo in _choices(hull.lo)
            for hi in _choices(hull.hi)
        )

    def _whole(self, e: sympy.Expr) -> bool:
        return self.table.multiple(self.table.with_constants(e)) % int(self.tile) == 0

    def _floor(self, e: sympy.Expr) -> sympy.Expr:
        return self._whole_tiles(maximum(self.table, sympy.Integer(0), e))

    def ceil(self, e: sympy.Expr) -> sympy.Expr:
        """Return the position `e`, or 0 if it is negative, rounded up to a multiple of the tile."""
        return self._whole_tiles(add(self.table, maximum(self.table, sympy.Integer(0), e), self.tile - 1))

    def _whole_tiles(self, e: sympy.Expr) -> sympy.Expr:
        return multiply(self.table, self.tile, floordiv(self.table, e, self.tile))


def _choices(e: sympy.Expr) -> list[sympy.Expr]:
    """Return expressions of which one equals `e` at any time."""
    if not isinstance(e, Minimum | Maximum | Where):
        return [e]
    return [x for a in (e.args[1:] if isinstance(e, Where) else e.args) for x in _choices(a)]


def _last_choice(end: sympy.Expr) -> sympy.Expr:
    """Return x if `end` is x or, where a condition fails, 0."""
    return end.args[1] if isinstance(end, Where) and end.args[2] == 0 else end


def _less(a: sympy.Expr, b: sympy.Expr, table: Table) -> Expr:
    return Apply(BOOL, "lt", (from_sympy(a, table, I32), from_sympy(b, table, I32)))


def where(condition: Expr, a: sympy.Expr, b: sympy.Expr, table: Table) -> sympy.Expr:
    """Return a if the condition holds, else b."""
    if a == b:
        return a
    known = prove(condition, table.facts)
    return Where(table.symbol(condition), a, b) if known is None else a if known else b


def ordered(pieces: Pieces, table: Table) -> Pieces:
    """Sort pieces by the low ends of their hulls. Without a proof two are sorted by the kernel; of more, some merge."""
    found = in_order(pieces, table)
    while found is None and len(pieces) > 2:
        pieces = (*pieces[:-2], merge(pieces[-2], pieces[-1], table))
        found = in_order(pieces, table)
    return _sorted_at_run_time(pieces[0], pieces[1], table) if found is None else found


def _sorted_at_run_time(a: Piece, b: Piece, table: Table) -> Pieces:
    swap = _less(b.hull.lo, a.hull.lo, table)

    def pick(x: Piece, y: Piece, lo: sympy.Expr) -> Piece:
        hull = Span(lo, where(swap, y.hull.hi, x.hull.hi, table))
        ends = zip((x.interior.lo, x.interior.hi), (y.interior.lo, y.interior.hi), strict=True)
        return Piece(hull, Span(*(where(swap, q, p, table) for p, q in ends)))

    lows = a.hull.lo, b.hull.lo
    return pick(a, b, minimum(table, *lows)), pick(b, a, maximum(table, *lows))


def touching_extended(pieces: Pieces, table: Table) -> Pieces:
    """Extend each interior by its neighbours' where they touch, so that a tile across their seam counts as interior.

    The hulls stay: a piece only ever visits tiles of its own hull.
    """
    spans = [p.interior for p in pieces]
    touching = [_touch(a, b, table) for a, b in itertools.pairwise(spans)]
    for i, touch in reversed(list(enumerate(touching))):
        if touch is not None:
            joined = maximum(table, spans[i].hi, spans[i + 1].hi)
            spans[i] = replace(spans[i], hi=where(touch, joined, spans[i].hi, table))
    for i, touch in enumerate(touching):
        if touch is not None:
            joined = minimum(table, spans[i + 1].lo, spans[i].lo)
            spans[i + 1] = replace(spans[i + 1], lo=where(touch, joined, spans[i + 1].lo, table))
    return tuple(replace(p, interior=s) for p, s in zip(pieces, spans, strict=True))


def _touch(a: Span, b: Span, table: Table) -> Expr | None:
    """Return the condition b.lo <= a.hi, None where the spans never touch or one of them is empty."""
    if is_empty(a, table) or is_empty(b, table) or at_most(add(table, a.hi, sympy.Integer(1)), b.lo, table):
        return None
    return Apply(BOOL, "le", (from_sympy(b.lo, table, I32), from_sympy(a.hi, table, I32)))


def conditions_in_ends(p: Piece, table: Table) -> Piece:
    """Express the conditions of a piece's spans by their ends, which then are 0 where a condition fails."""
    return Piece(_condition_in_end(p.hull, table), _condition_in_end(p.interior, table))


def _condition_in_end(s: Span, table: Table) -> Span:
    hi = s.hi
    for condition in reversed(s.when):
        hi = where(condition, hi, sympy.Integer(0), table)
    return Span(s.lo, hi)
