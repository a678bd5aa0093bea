"""Integer expressions: simplification, bounds, divisibility, and comparisons proved from facts about the leaves.

    (s * 64 + n) // 16  with 0 <= n < 16        ->  s * 4
    h // (H // HK)  with H = 32, HK = 8 known   ->  quot(h, quot(H, HK)): readable, nothing gained by folding
    N // 64 * 64  with 64 a divisor of N        ->  N

All arithmetic has Python's meaning: `floordiv` rounds down and `mod` has the sign of the divisor. `quot` and `rem` are
C's truncating operators and stand only where both operands are proven not to be negative. Divisors are taken to be
nonzero. Overflow is not modelled: `fits_i32` says where there is none.
"""

from __future__ import annotations

from dataclasses import replace

import sympy

from kgen.index_bounds import at_most, is_negative, is_nonnegative, lower, upper
from kgen.index_convert import as_dtype, from_sympy, is_integer, table_of, to_sympy
from kgen.index_eval import enumerate_equal, evaluate
from kgen.index_facts import Facts, Range, leaf_name
from kgen.index_rules import subtract
from kgen.index_sympy import FloorDiv, Mod, Table
from kgen.terms import Apply, Cast, Const, Expr, children, rewrite, walk, with_children
from kgen.types import BOOL, I32

__all__ = [
    "Facts",
    "FloorDiv",
    "Mod",
    "Range",
    "bounds",
    "enumerate_equal",
    "evaluate",
    "fits_i32",
    "from_sympy",
    "is_multiple",
    "leaf_name",
    "prove",
    "simplify",
    "table_of",
    "to_sympy",
]

I32_MIN, I32_MAX = -(2**31), 2**31 - 1
_DIVISIONS = ("floordiv", "mod", "quot", "rem")


def simplify(expr: Expr, facts: Facts) -> Expr:
    """Return an expression equal to `expr` under `facts` with no more divisions and, those being equal, fewer nodes.

    Integer parts of any expression are simplified; comparisons that facts decide become literals. `expr` itself comes
    back, up to `quot` and `rem`, when nothing simpler is found.
    """
    if is_integer(expr) and _is_arithmetic(expr):
        return _simplify_integer(expr, facts)
    inner = with_children(expr, tuple(simplify(c, facts) for c in children(expr)))
    match inner:
        case Apply(fn="where", args=(Const(value=known), a, b)):
            return a if known else b
        case _:
            return _decided(inner, facts) if inner.dtype is BOOL else inner


def bounds(expr: Expr, facts: Facts) -> Range:
    """Return a range that holds every value of an integer expression."""
    table = table_of(facts)
    e = to_sympy(expr, table)
    return Range(lower(e, table), upper(e, table))


def is_multiple(expr: Expr, n: int, facts: Facts) -> bool:
    """True if `n` is proven to divide the integer expression `expr`."""
    table = table_of(facts)
    e = to_sympy(expr, table)
    return table.multiple(e) % n == 0 or table.multiple(table.with_constants(e)) % n == 0


def fits_i32(expr: Expr, facts: Facts) -> bool:
    """True if `expr` and every integer part of it are proven to fit 32 bits. Leaves typed i32 do."""
    known = dict(facts.ranges)
    for leaf in walk(expr):
        if leaf.dtype is I32 and not _is_arithmetic(leaf):
            found = bounds(leaf, facts)
            known[leaf] = Range(I32_MIN if found.lo is None else found.lo, I32_MAX if found.hi is None else found.hi)
    typed = replace(facts, ranges=known)
    return all(_within_i32(bounds(e, typed)) for e in walk(expr) if is_integer(e))


def prove(cond: Expr, facts: Facts) -> bool | None:
    """Return whether facts make a condition true or false for all values of its leaves; None if they decide neither."""
    match cond:
        case Const(value=value):
            return bool(value)
        case Apply(fn="not", args=(a,)):
            found = prove(a, facts)
            return None if found is None else not found
        case Apply(fn="and", args=args):
            found_all = [prove(a, facts) for a in args]
            return False if False in found_all else None if None in found_all else True
        case Apply(fn="or", args=args):
            found_all = [prove(a, facts) for a in args]
            return True if True in found_all else None if None in found_all else False
        case Apply(fn="lt" | "le" | "gt" | "ge" | "eq" | "ne" as fn, args=(a, b)) if is_integer(a) and is_integer(b):
            table = table_of(facts)
            return _compare(fn, to_sympy(a, table), to_sympy(b, table), table)
        case _ if cond.dtype is BOOL and (name := leaf_name(cond)) in facts.constants and name is not None:
            return bool(facts.constants[name])
        case _:
            return None


def _compare(fn: str, a: sympy.Expr, b: sympy.Expr, table: Table) -> bool | None:
    match fn:
        case "le":
            return True if at_most(a, b, table) else False if is_negative(subtract(table, b, a), table) else None
        case "ge":
            return _compare("le", b, a, table)
        case "lt" | "gt":
            found = _compare("ge" if fn == "lt" else "le", a, b, table)
            return None if found is None else not found
        case "ne":
            found = _compare("eq", a, b, table)
            return None if found is None else not found
    d = subtract(table, a, b)
    if d == 0:
        return True
    constant, rest = d.as_coeff_Add()
    step = table.multiple(rest)
    apart = is_negative(d, table) or is_negative(subtract(table, b, a), table) or (step > 1 and constant % step != 0)
    pinned = lower(d, table) == 0 and upper(d, table) == 0
    return False if apart else True if pinned else None


def _simplify_integer(expr: Expr, facts: Facts) -> Expr:
    table = table_of(facts)
    inner = _simplify_leaves(expr, facts)
    found = as_dtype(from_sympy(to_sympy(inner, table), table, expr.dtype), expr.dtype)
    return found if _complexity(found) < _complexity(inner) else _c_like(inner, table)


def _simplify_leaves(e: Expr, facts: Facts) -> Expr:
    """Simplify inside what integer arithmetic does not look into (indices of loads, conditions, other types)."""
    if is_integer(e) and _is_arithmetic(e):
        return with_children(e, tuple(_simplify_leaves(c, facts) for c in children(e)))
    return simplify(e, facts)


def _c_like(e: Expr, table: Table) -> Expr:
    """Rename floordiv and mod of operands that are not negative to quot and rem."""

    def rule(x: Expr) -> Expr | None:
        match x:
            case Apply(fn="floordiv" | "mod" as fn, args=args) if is_integer(x) and all(is_integer(a) for a in args):
                signless = all(is_nonnegative(to_sympy(a, table), table) for a in args)
                return replace(x, fn="quot" if fn == "floordiv" else "rem") if signless else None
            case _:
                return None

    return rewrite(e, rule)


def _decided(e: Expr, facts: Facts) -> Expr:
    found = prove(e, facts)
    if found is not None:
        return Const(BOOL, found)
    match e:
        case Apply(fn="and" | "or" as fn, args=args):
            kept = tuple(a for a in args if a != Const(BOOL, fn == "and"))
            return kept[0] if len(kept) == 1 else replace(e, args=kept)
        case _:
            return e


def _is_arithmetic(e: Expr) -> bool:
    return isinstance(e, Apply | Cast)


def _complexity(e: Expr) -> tuple[int, int]:
    """(divisions, nodes); casts do not count."""
    nodes = [x for x in walk(e) if not isinstance(x, Cast)]
    return sum(isinstance(x, Apply) and x.fn in _DIVISIONS for x in nodes), len(nodes)


def _within_i32(r: Range) -> bool:
    return r.lo is not None and r.hi is not None and r.lo >= I32_MIN and r.hi <= I32_MAX
