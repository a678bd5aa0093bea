"""Between typed expressions and sympy sums of products."""

from __future__ import annotations

from functools import lru_cache

import sympy

from kgen import index_rules as rules
from kgen.index_bounds import is_nonnegative, negated
from kgen.index_facts import Facts
from kgen.index_sympy import FloorDiv, Maximum, Minimum, Mod, Table, Where, functions, terms
from kgen.terms import Apply, Cast, Const, Expr, Load, Param, Pos, Size, Start
from kgen.types import I32, I64, DType

INTEGERS = (I32, I64)
MAX_POWER = 4


@lru_cache(maxsize=64)
def table_of(facts: Facts) -> Table:
    """Return the table for `facts`, with the comparisons that hold as sums that are at least 0."""
    table = Table(facts)
    known: list[sympy.Expr] = []
    for condition in facts.holds:
        known.extend(_at_least_zero(condition, table))
    table.known = tuple(g for k in known for g in _parts(rules.spread(k, table)))
    table.divisible = frozenset(g for g in table.known if isinstance(g, Mod) and -g in table.known)
    table.bounds.clear()
    return table


def _at_least_zero(condition: Expr, table: Table) -> list[sympy.Expr]:
    match condition:
        case Apply(fn="and", args=args):
            return [g for a in args for g in _at_least_zero(a, table)]
        case Apply(fn="lt" | "le" | "gt" | "ge" | "eq" as fn, args=(a, b)) if is_integer(a) and is_integer(b):
            d = rules.subtract(table, to_sympy(b, table), to_sympy(a, table))
            up = rules.add(table, d, sympy.Integer(-1 if fn == "lt" else 0))
            down = rules.add(table, negated(d), sympy.Integer(-1 if fn == "gt" else 0))
            return {"lt": [up], "le": [up], "gt": [down], "ge": [down], "eq": [up, down]}[fn]
        case _:
            return []


def _parts(g: sympy.Expr) -> tuple[sympy.Expr, ...]:
    """A minimum is at least 0 if all its arguments are."""
    return g.args if isinstance(g, Minimum) else (g,)


def is_integer(e: Expr) -> bool:
    """True for expressions computed in i32 or i64, the types whose arithmetic is rewritten."""
    return e.dtype in INTEGERS


def to_sympy(e: Expr, table: Table) -> sympy.Expr:
    """Return `e` in normal form. Everything that is not integer arithmetic becomes a symbol."""
    match e:
        case Const(value=value) if is_integer(e):
            return sympy.Integer(int(value))
        case Cast(arg=arg) if is_integer(e) and arg.dtype in (I32, e.dtype):
            return to_sympy(arg, table)
        case Apply(fn=fn, args=args) if is_integer(e) and fn in _ARITHMETIC and all(is_integer(a) for a in args):
            found = _arithmetic(fn, [to_sympy(a, table) for a in args], table)
            return table.symbol(e) if found is None else found
        case Apply(fn="where", args=(Const(value=known), a, b)) if is_integer(e):
            return to_sympy(a if known else b, table)
        case Apply(fn="where", args=(c, a, b)) if is_integer(e) and is_integer(a) and is_integer(b):
            return Where(table.symbol(c), to_sympy(a, table), to_sympy(b, table))
        case _:
            return table.symbol(e)


_ARITHMETIC = frozenset(["add", "sub", "mul", "neg", "floordiv", "mod", "quot", "rem", "minimum", "maximum", "pow"])


def _arithmetic(fn: str, args: list[sympy.Expr], table: Table) -> sympy.Expr | None:
    match fn, args:
        case "add", _:
            return rules.add(table, *args)
        case "sub", [a, b]:
            return rules.subtract(table, a, b)
        case "mul", [a, b]:
            return rules.multiply(table, a, b)
        case "neg", [a]:
            return rules.multiply(table, sympy.Integer(-1), a)
        case "floordiv", [a, b]:
            return rules.floordiv(table, a, b)
        case "mod", [a, b]:
            return rules.mod(table, a, b)
        case "quot" | "rem", [a, b] if is_nonnegative(a, table) and is_nonnegative(b, table):
            return rules.floordiv(table, a, b) if fn == "quot" else rules.mod(table, a, b)
        case "minimum", _:
            return rules.minimum(table, *args)
        case "maximum", _:
            return rules.maximum(table, *args)
        case "pow", [a, sympy.Integer() as n] if 0 <= n <= MAX_POWER:
            return sympy.expand(a**n, deep=False)
        case _:
            return None


def from_sympy(e: sympy.Expr, table: Table, dtype: DType) -> Expr:
    """Return `e` as an expression computed in `dtype` (in i64 from the first i64 leaf on), in reading order.

    Summands that are added come first and constants last; a quotient or remainder of operands that are proven not to be
    negative is "quot" or "rem", which C computes directly, any other is "floordiv" or "mod".
    """
    match e:
        case sympy.Integer():
            return Const(dtype, int(e))
        case sympy.Symbol():
            return table.leaf(e)
        case sympy.Add():
            return _sum(_constant_inside(e, table), table, dtype)
        case sympy.Mul():
            return _product(e, table, dtype)
        case sympy.Pow():
            base = from_sympy(e.base, table, dtype)
            return _chain("mul", [base] * int(e.exp), dtype)
        case FloorDiv() | Mod():
            c_like = all(is_nonnegative(a, table) for a in e.args)
            fn = ("quot" if c_like else "floordiv") if isinstance(e, FloorDiv) else "rem" if c_like else "mod"
            return _node(fn, tuple(from_sympy(a, table, dtype) for a in e.args), dtype)
        case Minimum() | Maximum():
            args = sorted((from_sympy(a, table, dtype) for a in e.args), key=_rank)
            return _chain("minimum" if isinstance(e, Minimum) else "maximum", args, dtype)
        case Where():
            c, a, b = e.args
            return _node("where", (table.leaf(c), from_sympy(a, table, dtype), from_sympy(b, table, dtype)), dtype)
        case _:
            raise TypeError(f"no integer expression for {e!r}")


def _sum(e: sympy.Expr, table: Table, dtype: DType) -> Expr:
    signed = []
    for term in terms(e):
        k, _ = term.as_coeff_Mul()
        signed.append((bool(k < 0), from_sympy(-term if k < 0 else term, table, dtype)))
    signed.sort(key=lambda pair: (isinstance(pair[1], Const), pair[0], _rank(pair[1])))
    first = next((i for i, (minus, _) in enumerate(signed) if not minus), 0)
    minus, total = signed.pop(first)
    if minus:
        total = _node("neg", (total,), dtype)
    for minus, x in signed:
        total = _node("sub" if minus else "add", (total, x), dtype)
    return total


def _constant_inside(e: sympy.Expr, table: Table) -> sympy.Expr:
    """Move a constant into a quotient, x // b * b + b -> (x + b) // b * b, unless that makes x negative."""
    constant, _ = e.as_coeff_Add()
    found = list(functions(e, FloorDiv))
    if constant == 0 or len(found) != 1:
        return e
    term, k, f = found[0]
    x, b = f.args
    if not isinstance(k, sympy.Integer) or not isinstance(b, sympy.Integer) or constant % k != 0:
        return e
    inside = sympy.Add(x, constant / k * b)
    if is_nonnegative(x, table) and not is_nonnegative(inside, table):
        return e
    return sympy.Add(e, -constant, -term, k * FloorDiv(inside, b))


def _product(e: sympy.Expr, table: Table, dtype: DType) -> Expr:
    k, rest = e.as_coeff_Mul()
    factors = sorted((from_sympy(f, table, dtype) for f in sympy.Mul.make_args(rest)), key=_rank)
    if k == -1:
        return _node("neg", (_chain("mul", factors, dtype),), dtype)
    return _chain("mul", factors if k == 1 else [*factors, Const(dtype, int(k))], dtype)


def _node(fn: str, args: tuple[Expr, ...], dtype: DType) -> Expr:
    wide = I64 if any(a.dtype is I64 for a in args) else dtype
    return Apply(wide, fn, tuple(as_dtype(a, wide) for a in args))


def as_dtype(e: Expr, dtype: DType) -> Expr:
    """Return an integer expression converted to `dtype`; any other as it is."""
    if e.dtype is dtype or not is_integer(e):
        return e
    return Const(dtype, e.value) if isinstance(e, Const) else Cast(dtype, e)


def _chain(fn: str, args: list[Expr], dtype: DType) -> Expr:
    found = args[0]
    for a in args[1:]:
        found = _node(fn, (found, a), dtype)
    return found


def _rank(e: Expr) -> tuple[int, str]:
    """Reading order: tile starts, positions, computed values, parameters, sizes, literals."""
    kinds = {Start: 0, Pos: 1, Load: 3, Param: 4, Size: 5, Const: 6}
    first = e
    while isinstance(first, Apply | Cast):
        first = first.args[0] if isinstance(first, Apply) else first.arg
    return kinds.get(type(first), 2), repr(e)
