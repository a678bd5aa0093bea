"""From a guard to the pieces of the streamed axis where it can and where it must hold (rules in `mask`)."""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from kgen.index import prove, simplify
from kgen.index_bounds import is_nonnegative, is_positive, negated
from kgen.index_convert import from_sympy, is_integer, table_of, to_sympy
from kgen.index_facts import Facts
from kgen.index_rules import add, floordiv, maximum, minimum, multiply, spread, subtract
from kgen.index_sympy import FloorDiv, functions, terms
from kgen.intervals import NOTHING, Piece, Pieces, Span, intersect, unite
from kgen.mask_extremes import Tiles, extreme
from kgen.terms import Apply, Const, Expr, Pos, free_axes
from kgen.types import BOOL, I32

NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


class Solver:
    """Finds the pieces of a guard; every span is within [0, extent)."""

    def __init__(self, facts: Facts, stream: str, extent: Expr, tiles: Mapping[str, tuple[Expr, Expr]]) -> None:
        table = table_of(facts)
        self.table = table
        self.facts = facts
        self.stream = stream
        self.extent = to_sympy(extent, table)
        ends = {a: (to_sympy(lo, table), to_sympy(hi, table)) for a, (lo, hi) in tiles.items()}
        symbols = {table.symbol(Pos(I32, a)): (lo, add(table, hi, sympy.Integer(-1))) for a, (lo, hi) in ends.items()}
        self.tiles = Tiles(table, symbols, frozenset(tiles))
        self.inside = frozenset((stream, *tiles))

    def everywhere(self, *when: Expr) -> Pieces:
        """Every position, certainly, if the conditions hold."""
        span = Span(sympy.Integer(0), self.extent, when)
        return (Piece(span, span),)

    def anywhere(self) -> Pieces:
        """Every position, but nowhere certainly."""
        return (Piece(Span(sympy.Integer(0), self.extent), NOTHING),)

    def solve(self, guard: Expr | None) -> Pieces:
        """Return the pieces of a guard, of no guard those of true."""
        if guard is None:
            return self.everywhere()
        if not free_axes(guard) & self.inside:
            return self._scalar(guard)
        match guard:
            case Apply(fn="not", args=(a,)):
                return self._solve_not(a)
            case Apply(fn="and" | "or" as fn, args=args):
                found = self.solve(args[0])
                for a in args[1:]:
                    found = (intersect if fn == "and" else unite)(found, self.solve(a), self.table)
                return found
            case Apply(fn=fn, args=(a, b)) if fn in NEGATED and is_integer(a) and is_integer(b):
                return self._comparison(fn, to_sympy(a, self.table), to_sympy(b, self.table))
            case _:
                return self.anywhere()

    def _solve_not(self, e: Expr) -> Pieces:
        match e:
            case Apply(fn="not", args=(a,)):
                return self.solve(a)
            case Apply(fn="and" | "or" as fn, args=args):
                dual = "or" if fn == "and" else "and"
                return self.solve(Apply(BOOL, dual, tuple(Apply(BOOL, "not", (a,)) for a in args)))
            case Apply(fn=fn, args=(a, b)) if fn in NEGATED and is_integer(a) and is_integer(b):
                return self.solve(Apply(BOOL, NEGATED[fn], (a, b)))
            case _:
                return self.anywhere()

    def _scalar(self, condition: Expr) -> Pieces:
        match prove(condition, self.facts):
            case True:
                return self.everywhere()
            case False:
                return ()
            case None:
                return self.everywhere(simplify(condition, self.facts))

    def _comparison(self, fn: str, a: sympy.Expr, b: sympy.Expr) -> Pieces:
        d = subtract(self.table, a, b)
        up, down = (add(self.table, x, sympy.Integer(1)) for x in (d, negated(d)))
        match fn:
            case "le":
                return self._not_positive(d)
            case "lt":
                return self._not_positive(up)
            case "ge":
                return self._not_positive(negated(d))
            case "gt":
                return self._not_positive(down)
            case "eq":
                return intersect(self._not_positive(d), self._not_positive(negated(d)), self.table)
            case _:
                return unite(self._not_positive(up), self._not_positive(down), self.table)

    def _not_positive(self, d: sympy.Expr) -> Pieces:
        """Return the pieces of d <= 0."""
        streamed = sympy.Add(*(t for t in terms(d) if self._streams(t)))
        rest = sympy.Add(d, negated(streamed))
        if streamed == 0:
            return self._tile_condition(d)
        slope = self._slope(streamed)
        if slope is not None and is_positive(slope, self.table):
            return self._below(floordiv(self.table, negated(rest), slope))
        if slope is not None and is_positive(negated(slope), self.table):
            steep = negated(slope)
            return self._above(floordiv(self.table, add(self.table, rest, steep, sympy.Integer(-1)), steep))
        unwrapped = self._without_division(streamed, rest)
        return self.anywhere() if unwrapped is None else self._not_positive(unwrapped)

    def _streams(self, e: sympy.Expr) -> bool:
        return any(self.stream in free_axes(self.table.leaf(s)) for s in e.free_symbols)

    def _slope(self, streamed: sympy.Expr) -> sympy.Expr | None:
        """Return k if `streamed` is k * n with k the same in the whole tile."""
        n = self.table.symbol(Pos(I32, self.stream))
        slope = sympy.expand_mul(streamed / n)
        fixed = slope.as_numer_denom()[1] == 1 and not self._streams(slope) and not self.tiles.vary(slope)
        return slope if fixed else None

    def _without_division(self, streamed: sympy.Expr, rest: sympy.Expr) -> sympy.Expr | None:
        """Return x with x <= 0 where k * (y // c) + rest <= 0, for k and c that are fixed and c > 0."""
        table = self.table
        found = list(functions(streamed, FloorDiv))
        if len(terms(streamed)) != 1 or len(found) != 1:
            return None
        _, k, f = found[0]
        y, c = f.args
        if self._streams(k) or self._streams(c) or self.tiles.vary(k) or not is_positive(c, table):
            return None
        if is_positive(k, table):
            top = add(table, floordiv(table, negated(rest), k), sympy.Integer(1))
            return add(table, y, negated(multiply(table, c, top)), sympy.Integer(1))
        if is_positive(negated(k), table):
            least = floordiv(table, add(table, rest, negated(k), sympy.Integer(-1)), negated(k))
            return subtract(table, multiply(table, c, least), y)
        return None

    def _below(self, end: sympy.Expr) -> Pieces:
        """n <= end"""
        most, least = extreme(end, self.tiles, True), extreme(end, self.tiles, False)
        return (Piece(self._up_to(most, Span(sympy.Integer(0), self.extent)), self._up_to(least, NOTHING)),)

    def _up_to(self, last: sympy.Expr | None, unknown: Span) -> Span:
        if last is None:
            return unknown
        after = spread(add(self.table, last, sympy.Integer(1)), self.table)
        return Span(sympy.Integer(0), minimum(self.table, self.extent, after))

    def _above(self, first: sympy.Expr) -> Pieces:
        """n >= first"""
        most, least = extreme(first, self.tiles, True), extreme(first, self.tiles, False)
        return (Piece(self._from(least, Span(sympy.Integer(0), self.extent)), self._from(most, NOTHING)),)

    def _from(self, first: sympy.Expr | None, unknown: Span) -> Span:
        return (
            unknown
            if first is None
            else Span(maximum(self.table, sympy.Integer(0), spread(first, self.table)), self.extent)
        )

    def _tile_condition(self, d: sympy.Expr) -> Pieces:
        """d <= 0, where d lacks n: at all positions or none."""
        most, least = extreme(d, self.tiles, True), extreme(d, self.tiles, False)
        can = None if least is None else self._at_most_zero(least)
        must = Const(BOOL, False) if most is None else self._at_most_zero(most)
        if can == Const(BOOL, False):
            return ()
        whole = Span(sympy.Integer(0), self.extent)
        hull = whole if can is None or can == Const(BOOL, True) else Span(whole.lo, whole.hi, (can,))
        if must == Const(BOOL, False):
            return (Piece(hull, NOTHING),)
        return (Piece(hull, whole if must == Const(BOOL, True) else Span(whole.lo, whole.hi, (must,))),)

    def _at_most_zero(self, d: sympy.Expr) -> Expr:
        table = self.table
        if is_nonnegative(negated(d), table):
            return Const(BOOL, True)
        if is_positive(d, table):
            return Const(BOOL, False)
        left = sympy.Add(*(t for t in terms(d) if t.as_coeff_Mul()[0] > 0))
        right = sympy.Add(left, negated(d))
        return Apply(BOOL, "le", (from_sympy(left, table, I32), from_sympy(right, table, I32)))
