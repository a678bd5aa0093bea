"""The least and greatest value of an integer expression over the positions of a tile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import sympy

from kgen.index_bounds import is_nonnegative, is_positive, lower, negated, upper
from kgen.index_rules import add, floordiv, maximum, minimum, renew
from kgen.index_sympy import FloorDiv, Maximum, Minimum, Mod, Table, Where
from kgen.terms import free_axes


@dataclass(frozen=True)
class Tiles:
    """Axes that vary inside the tile: the symbol of each position with its first and last value."""

    table: Table
    ends: Mapping[sympy.Symbol, tuple[sympy.Expr, sympy.Expr]]
    axes: frozenset[str]

    def vary(self, e: sympy.Expr) -> bool:
        """True if `e` may differ between elements of the tile."""
        return any(free_axes(self.table.leaf(s)) & self.axes for s in e.free_symbols)


def extreme(e: sympy.Expr, tiles: Tiles, up: bool) -> sympy.Expr | None:
    """Return the greatest (`up`) or least value of `e` over the tile, or a bound of it; None if neither is known.

    It is attained where `e` is monotone in each position. Otherwise each summand is taken at its own extreme.
    """
    if not tiles.vary(e):
        return e
    attained = _at_corner(e, tiles, up)
    return _by_parts(e, tiles, up) if attained is None else attained


def _at_corner(e: sympy.Expr, tiles: Tiles, up: bool) -> sympy.Expr | None:
    corner = {}
    for s in e.free_symbols:
        if s in tiles.ends:
            way = direction(e, s, tiles.table)
            if way is None:
                return None
            corner[s] = tiles.ends[s][up == (way > 0)]
        elif tiles.vary(s):
            return None
    return renew(tiles.table, e.xreplace(corner))


def direction(e: sympy.Expr, x: sympy.Symbol, table: Table) -> int | None:
    """Return 1 if `e` never falls as x grows, -1 if it never rises, 0 if it lacks x, None if neither is known."""
    if x not in e.free_symbols:
        return 0
    match e:
        case sympy.Symbol():
            return 1
        case sympy.Add() | Minimum() | Maximum():
            ways = {direction(a, x, table) for a in e.args} - {0}
            return ways.pop() if len(ways) == 1 else None
        case sympy.Mul():
            moving = [f for f in e.args if x in f.free_symbols]
            way = direction(moving[0], x, table) if len(moving) == 1 else None
            sign = _sign(e / moving[0], table) if way is not None else None
            return None if way is None or sign is None else way * sign
        case FloorDiv() if x not in e.args[1].free_symbols and is_positive(e.args[1], table):
            return direction(e.args[0], x, table)
        case _:
            return None


def _sign(e: sympy.Expr, table: Table) -> int | None:
    return 1 if is_nonnegative(e, table) else -1 if is_nonnegative(negated(e), table) else None


def _by_parts(e: sympy.Expr, tiles: Tiles, up: bool) -> sympy.Expr | None:
    table = tiles.table
    match e:
        case sympy.Add():
            return _all(lambda *parts: add(table, *parts), (extreme(t, tiles, up) for t in e.args))
        case sympy.Mul():
            varying = [f for f in e.args if tiles.vary(f)]
            scale = e / varying[0]
            sign = _sign(scale, table) if len(varying) == 1 else None
            if sign is not None:
                part = extreme(varying[0], tiles, up == (sign > 0))
                return None if part is None else sympy.expand_mul(scale * part)
        case FloorDiv() if not tiles.vary(e.args[1]) and is_positive(e.args[1], table):
            part = extreme(e.args[0], tiles, up)
            return None if part is None else floordiv(table, part, e.args[1])
        case Mod() if not tiles.vary(e.args[1]) and is_positive(e.args[1], table):
            return add(table, e.args[1], sympy.Integer(-1)) if up else sympy.Integer(0)
        case Minimum() | Maximum():
            pick = minimum if isinstance(e, Minimum) else maximum
            return _all(lambda *parts: pick(table, *parts), (extreme(a, tiles, up) for a in e.args))
        case Where():
            pick = maximum if up else minimum
            return _all(lambda *parts: pick(table, *parts), (extreme(a, tiles, up) for a in e.args[1:]))
    bound = upper(e, table) if up else lower(e, table)
    return None if bound is None else sympy.Integer(bound)


def _all(make: Callable[..., sympy.Expr], parts: Iterable[sympy.Expr | None]) -> sympy.Expr | None:
    found = list(parts)
    return None if None in found else make(*found)
