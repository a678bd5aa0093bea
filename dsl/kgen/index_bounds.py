"""Lower and upper bounds of sums of products over integer functions, and what they prove.

A bound is searched in the plain interval of each summand, in relaxations that keep related summands together
(c * (x // c) is between x - c + 1 and x, minimum(a, b) is below a and below b, x % b is below b), and by subtracting
relations that are known to hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import sympy

from kgen.index_sympy import FloorDiv, Maximum, Minimum, Mod, Table, Where, exact_quotient, functions, terms

DEPTH = 4  # relaxations in a row


def lower(e: sympy.Expr, table: Table, depth: int = DEPTH) -> int | None:
    """Return a number that `e` is never below, None if none is found."""
    key = (e, depth)
    if key not in table.bounds:
        table.bounds[key] = None  # a bound may not be used to find itself
        table.bounds[key] = _lower(e, table, depth)
    return table.bounds[key]


def upper(e: sympy.Expr, table: Table, depth: int = DEPTH) -> int | None:
    """Return a number that `e` is never above, None if none is found."""
    found = lower(negated(e), table, depth)
    return None if found is None else -found


def negated(e: sympy.Expr) -> sympy.Expr:
    """Return -e as a sum."""
    return sympy.Add(*(-t for t in terms(e)))


def is_negative(e: sympy.Expr, table: Table) -> bool:
    """True if `e` < 0 is proven."""
    found = upper(e, table)
    return found is not None and found < 0


def is_nonnegative(e: sympy.Expr, table: Table) -> bool:
    """True if `e` >= 0 is proven."""
    found = lower(e, table)
    return found is not None and found >= 0


def is_positive(e: sympy.Expr, table: Table) -> bool:
    """True if `e` >= 1 is proven."""
    found = lower(e, table)
    return found is not None and found >= 1


def at_most(a: sympy.Expr, b: sympy.Expr, table: Table) -> bool:
    """True if a <= b is proven."""
    return a == b or is_nonnegative(sympy.Add(*terms(b), *terms(negated(a))), table)


def _lower(e: sympy.Expr, table: Table, depth: int) -> int | None:
    parts = [_term_lower(t, table, depth) for t in terms(e)]
    found = [None if None in parts else sum(p for p in parts if p is not None)]
    if depth > 0:
        found.append(_choices(e, table, depth))
        found.extend(lower(x, table, depth - 1) for x in _relaxed(e, table))
        found.extend(lower(x, table, depth - 1) for x in _less_known(e, table))
    return _best(found)


def _term_lower(term: sympy.Expr, table: Table, depth: int) -> int | None:
    lo: int | None = 1
    hi: int | None = 1
    for factor in sympy.Mul.make_args(term):
        flo, fhi = _factor(factor, table, depth)
        lo, hi = product(lo, hi, flo, fhi)
    return lo


def product(alo: int | None, ahi: int | None, blo: int | None, bhi: int | None) -> tuple[int | None, int | None]:
    """Return the bounds of a product of two ranges."""
    inf = float("inf")
    a = (-inf if alo is None else alo, inf if ahi is None else ahi)
    b = (-inf if blo is None else blo, inf if bhi is None else bhi)
    corners = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    lo, hi = min(corners), max(corners)
    return (None if lo == -inf else int(lo), None if hi == inf else int(hi))


def _factor(e: sympy.Expr, table: Table, depth: int) -> tuple[int | None, int | None]:
    match e:
        case sympy.Integer():
            return int(e), int(e)
        case sympy.Symbol():
            r = table.range(e)
            return r.lo, r.hi
        case sympy.Pow():
            return _power(_factor(e.base, table, depth), int(e.exp))
        case FloorDiv():
            return _quotient(e.args[0], e.args[1], table, depth)
        case Mod():
            return _remainder(e.args[0], e.args[1], table, depth)
        case Minimum():
            return _least([lower(a, table, depth) for a in e.args]), _best_hi(upper(a, table, depth) for a in e.args)
        case Maximum():
            return _best(lower(a, table, depth) for a in e.args), _greatest([upper(a, table, depth) for a in e.args])
        case Where():
            both = e.args[1:]
            return _least([lower(a, table, depth) for a in both]), _greatest([upper(a, table, depth) for a in both])
        case _:
            return lower(e, table, depth), upper(e, table, depth)


def _power(base: tuple[int | None, int | None], n: int) -> tuple[int | None, int | None]:
    lo, hi = base
    if n % 2 == 1:
        return (None if lo is None else lo**n), (None if hi is None else hi**n)
    top = None if lo is None or hi is None else max(abs(lo), abs(hi)) ** n
    nearest = lo if lo is not None and lo > 0 else hi if hi is not None and hi < 0 else 0
    return nearest**n, top


def _quotient(a: sympy.Expr, b: sympy.Expr, table: Table, depth: int) -> tuple[int | None, int | None]:
    blo, bhi = lower(b, table, depth), upper(b, table, depth)
    if blo is None or blo < 1:
        return None, None
    alo, ahi = lower(a, table, depth), upper(a, table, depth)
    lo = None if alo is None else alo // blo if alo < 0 else 0 if bhi is None else alo // bhi
    hi = None if ahi is None else ahi // blo if ahi >= 0 else -1 if bhi is None else ahi // bhi
    return lo, hi


def _remainder(a: sympy.Expr, b: sympy.Expr, table: Table, depth: int) -> tuple[int | None, int | None]:
    blo, bhi = lower(b, table, depth), upper(b, table, depth)
    if blo is None or blo < 1:
        return None, None
    alo, ahi = lower(a, table, depth), upper(a, table, depth)
    if alo is None or alo < 0:
        return 0, None if bhi is None else bhi - 1
    if ahi is not None and ahi < blo:
        return alo, ahi
    return 0, _best_hi([ahi, None if bhi is None else bhi - 1])


def _choices(e: sympy.Expr, table: Table, depth: int) -> int | None:
    """Bound `e` through one choice in it: by the worst argument, or (tried last) by the best where any will do."""
    free: list[int | None] = []
    for term, coefficient, f in functions(e, Minimum, Maximum, Where):
        rest = sympy.Add(e, -term)
        args = f.args[1:] if isinstance(f, Where) else f.args
        worst = not coefficient.is_Integer or isinstance(f, Where) or isinstance(f, Minimum) == (coefficient > 0)
        if not worst and free:
            continue
        found = [lower(sympy.Add(rest, sympy.expand_mul(coefficient * a)), table, depth - 1) for a in args]
        if worst:
            return _least(found)
        free = found
    return _best(free)


def _relaxed(e: sympy.Expr, table: Table) -> Iterator[sympy.Expr]:
    """Yield sums below `e` in which one quotient or remainder is replaced by a bound of it."""
    for term, coefficient, f in functions(e, FloorDiv, Mod):
        x, b = f.args
        if not is_positive(b, table):
            continue
        rest = sympy.Add(e, -term)
        sign, _ = coefficient.as_coeff_Mul()
        if isinstance(f, Mod):
            if coefficient == sign and sign < 0:
                yield sympy.Add(rest, sympy.expand_mul(coefficient * (b - 1)))
                if is_nonnegative(x, table):
                    yield sympy.Add(rest, sympy.expand_mul(coefficient * x))
            continue
        scale = exact_quotient(coefficient, b)
        if scale is not None and isinstance(scale, sympy.Integer):
            bound = x if scale < 0 else x - b + 1
            yield sympy.Add(rest, sympy.expand_mul(scale * bound))


def _less_known(e: sympy.Expr, table: Table) -> Iterator[sympy.Expr]:
    """Yield e - k * g, which is below e, for known g >= 0 and k > 0 that cancel a summand of e."""
    mine = dict(reversed(t.as_coeff_Mul()) for t in terms(e))
    for g in table.known:
        for k, monomial in (t.as_coeff_Mul() for t in terms(g)):
            have = mine.get(monomial)
            if monomial != 1 and have is not None and have % k == 0 and have / k > 0:
                yield sympy.Add(e, sympy.expand_mul(-(have / k) * g))


def _best(found: Iterable[int | None]) -> int | None:
    return max((x for x in found if x is not None), default=None)


def _best_hi(found: Iterable[int | None]) -> int | None:
    return min((x for x in found if x is not None), default=None)


def _least(found: list[int | None]) -> int | None:
    return None if None in found else min(x for x in found if x is not None)


def _greatest(found: list[int | None]) -> int | None:
    return None if None in found else max(x for x in found if x is not None)
