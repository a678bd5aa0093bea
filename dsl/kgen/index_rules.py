"""The rules: normal forms of sums, products, quotients, remainders, minima and maxima of integers.

Each function takes arguments in normal form and returns an equal expression in normal form. Divisors are taken to be
nonzero. Rules that need the sign of a divisor prove it first.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy

from kgen.index_bounds import at_most, is_negative, is_nonnegative, is_positive, lower, negated, upper
from kgen.index_sympy import FloorDiv, Maximum, Minimum, Mod, Table, exact_quotient, functions, terms

Rule = Callable[[Table, sympy.Expr, sympy.Expr], sympy.Expr]


def renew(table: Table, e: sympy.Expr) -> sympy.Expr:
    """Return the normal form of `e` after a substitution."""
    args = [renew(table, a) for a in e.args]
    match e:
        case sympy.Add():
            return add(table, *args)
        case sympy.Mul() | sympy.Pow():
            return add(table, sympy.expand(e.func(*args), deep=False))
        case FloorDiv():
            return floordiv(table, *args)
        case Mod():
            return mod(table, *args)
        case Minimum():
            return minimum(table, *args)
        case Maximum():
            return maximum(table, *args)
        case _:
            return e.func(*args) if args else e


def add(table: Table, *args: sympy.Expr) -> sympy.Expr:
    """Return the sum, with quotients and remainders of the same division recombined."""
    e = sympy.Add(*(t for a in args for t in terms(a)))
    for term, coefficient, f in functions(e, FloorDiv):
        x, b = f.args
        k = exact_quotient(coefficient, b)
        if k is None:
            continue
        found = sympy.Add(e, -term, sympy.expand_mul(k * x), sympy.expand_mul(-k * mod(table, x, b)))
        if len(terms(found)) < len(terms(e)) or (found != e and not list(functions(found, FloorDiv, Mod))):
            return add(table, found)
    return e


def subtract(table: Table, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Return a - b."""
    return add(table, a, negated(b))


def multiply(table: Table, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Return the product, distributed over sums."""
    return add(table, sympy.expand_mul(a * b, deep=False))


def floordiv(table: Table, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Return a // b, rounded down. Known sizes are replaced by their values only if that makes it simpler."""
    return _with_constants(table, _floordiv(table, a, b), a, b, _floordiv)


def mod(table: Table, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Return a % b, with the sign of b. Known sizes are replaced by their values only if that makes it simpler."""
    return _with_constants(table, _mod(table, a, b), a, b, _mod)


def minimum(table: Table, *args: sympy.Expr) -> sympy.Expr:
    """Return the least of `args`, without those that are never the only least one."""
    return _extreme(table, Minimum, args)


def maximum(table: Table, *args: sympy.Expr) -> sympy.Expr:
    """Return the greatest of `args`, without those that are never the only greatest one."""
    return _extreme(table, Maximum, args)


def spread(e: sympy.Expr, table: Table) -> sympy.Expr:
    """Move summands into a minimum or maximum, min(a, b) + c -> min(a + c, b + c), so that other ends can absorb it."""
    if len(terms(e)) < 2:
        return e
    for term, k, f in functions(e, Minimum, Maximum):
        if k.is_Integer:
            rest = sympy.Add(e, -term)
            args = [spread(add(table, sympy.expand_mul(k * a), rest), table) for a in f.args]
            return (minimum if isinstance(f, Minimum) == (k > 0) else maximum)(table, *args)
    return e


def complexity(e: sympy.Expr) -> tuple[int, int]:
    """Return (quotients and remainders, nodes)."""
    nodes = list(sympy.preorder_traversal(e))
    return sum(isinstance(x, FloorDiv | Mod) for x in nodes), len(nodes)


def _with_constants(table: Table, found: sympy.Expr, a: sympy.Expr, b: sympy.Expr, rule: Rule) -> sympy.Expr:
    folded_a, folded_b = table.with_constants(a), table.with_constants(b)
    if not found.has(FloorDiv, Mod) or (folded_a, folded_b) == (a, b):
        return found
    folded = rule(table, add(table, folded_a), add(table, folded_b))
    return folded if complexity(folded) < complexity(found) else found


def _floordiv(table: Table, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    if b == 0:
        return FloorDiv(a, b)
    if isinstance(b, sympy.Integer) and b < 0:
        return _floordiv(table, negated(a), negated(b))
    whole, rest = _split(a, b)
    if rest == 0:
        return add(table, whole)
    small = _small_quotient(table, rest, b)
    if small is None and isinstance(b, sympy.Integer):
        small = _cancelled(table, rest, int(b))
    if small is None and is_positive(b, table):
        small = _nested(table, rest, b)
    return add(table, whole, FloorDiv(rest, b) if small is None else small)


def _split(a: sympy.Expr, b: sympy.Expr) -> tuple[sympy.Expr, sympy.Expr]:
    """Return (q, r) with a = q * b + r: the summands that b divides, and the rest with its constant in [0, b)."""
    whole, rest = [], []
    for term in terms(a):
        q = exact_quotient(term, b)
        if q is not None:
            whole.append(q)
        elif isinstance(term, sympy.Integer) and isinstance(b, sympy.Integer) and b > 0:
            whole.append(term // b)
            rest.append(term % b)
        else:
            rest.append(term)
    return sympy.Add(*whole), sympy.Add(*rest)


def _small_quotient(table: Table, r: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """Return the value of r // b where bounds determine it."""
    if isinstance(b, sympy.Integer):
        lo, hi = lower(r, table), upper(r, table)
        if lo is None or hi is None or lo // int(b) != hi // int(b):
            return None
        return sympy.Integer(lo // int(b))
    if not is_positive(b, table):
        return None
    if is_nonnegative(r, table) and is_negative(sympy.Add(r, negated(b)), table):
        return sympy.Integer(0)
    return sympy.Integer(-1) if is_negative(r, table) and is_nonnegative(sympy.Add(r, b), table) else None


def _cancelled(table: Table, r: sympy.Expr, b: int) -> sympy.Expr | None:
    """Divide by a common divisor g of b and some summands, if the others are within [0, g) and cannot carry."""
    for g in sorted({math.gcd(table.multiple(t), b) for t in terms(r)} - {1}, reverse=True):
        big = sympy.Add(*(t for t in terms(r) if table.multiple(t) % g == 0))
        small = sympy.Add(*(t for t in terms(r) if table.multiple(t) % g != 0))
        if lower(small, table) is None or not 0 <= (lower(small, table) or 0) <= (upper(small, table) or b) < g:
            continue
        quotients = [exact_quotient(t, sympy.Integer(g)) for t in terms(big)]
        if None not in quotients:
            return _floordiv(table, sympy.Add(*quotients), sympy.Integer(b // g))
        if small != 0:
            return _floordiv(table, big, sympy.Integer(b))
    return None


def _nested(table: Table, r: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """(x // d + y) // b = (x + d * y) // (d * b) for b > 0."""
    for term, coefficient, f in functions(r, FloorDiv):
        x, d = f.args
        if coefficient == 1 and d != 0:
            inner = sympy.expand_mul(d * sympy.Add(r, -term))
            return _floordiv(table, add(table, x, inner), multiply(table, d, b))
    return None


def _mod(table: Table, a: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    if b == 0 or (isinstance(b, sympy.Integer) and b < 0):
        return Mod(a, b)
    _, rest = _split(a, b)
    if isinstance(b, sympy.Integer):
        rest = sympy.Add(*(t for t in terms(rest) if table.multiple(t) % int(b) != 0))
    for candidate in (rest, _without_inner(table, rest, b)):
        if candidate == 0 or Mod(candidate, b) in table.divisible:
            return sympy.Integer(0)
        small = _small_quotient(table, candidate, b)
        if small is not None:
            return add(table, candidate, sympy.expand_mul(-small * b))
    return Mod(candidate, b)


def _without_inner(table: Table, r: sympy.Expr, b: sympy.Expr) -> sympy.Expr:
    """Drop remainders modulo multiples of b, reduce coefficients modulo b, and so on until nothing changes."""
    for term, coefficient, f in functions(r, Mod):
        x, d = f.args
        if exact_quotient(coefficient * d, b) is not None:
            return _without_inner(table, add(table, r, -term, sympy.expand_mul(coefficient * x)), b)
    if not isinstance(b, sympy.Integer):
        return _split(r, b)[1]
    reduced = []
    for term in terms(_split(r, b)[1]):
        k, monomial = term.as_coeff_Mul()
        reduced.append(term if abs(k) < b else (abs(k) % b) * sympy.sign(k) * monomial)
    return sympy.Add(*(t for t in reduced if table.multiple(t) % int(b) != 0))


def _extreme(table: Table, kind: type[sympy.Function], args: tuple[sympy.Expr, ...]) -> sympy.Expr:
    flat: list[sympy.Expr] = []
    for a in args:
        flat.extend(x for x in (a.args if isinstance(a, kind) else (a,)) if x not in flat)
    kept: list[sympy.Expr] = []
    for i, a in enumerate(flat):
        rivals = kept + flat[i + 1 :]
        beaten = (at_most(r, a, table) if kind is Minimum else at_most(a, r, table) for r in rivals)
        if not any(beaten):
            kept.append(a)
    return kept[0] if len(kept) == 1 else kind(*sorted(kept, key=sympy.default_sort_key))
