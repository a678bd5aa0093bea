"""Integer functions for sympy, and the table that pairs leaves of our expressions with sympy symbols.

The functions are inert: sympy's own Mod and floor rewrite themselves, wrongly for nested integer Mods (sympy 1.14), so
every rule about them is in `index_rules`. sympy contributes only what it is sound at: canonical sums of products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import sympy

from kgen.index_facts import Facts, Range, constant_of, multiple_of_leaf, range_of_leaf
from kgen.terms import Expr


class FloorDiv(sympy.Function):
    """a // b, rounded down."""

    nargs = 2
    is_integer = True


class Mod(sympy.Function):
    """a - b * (a // b): the sign of b."""

    nargs = 2
    is_integer = True


class Minimum(sympy.Function):
    """The least argument (two or more, sorted)."""

    is_integer = True


class Maximum(sympy.Function):
    """The greatest argument (two or more, sorted)."""

    is_integer = True


class Where(sympy.Function):
    """Where(c, a, b): a if the condition that the symbol c stands for holds, else b."""

    nargs = 3
    is_integer = True


class Table:
    """Symbols of leaves under given facts. `known`: sums that are at least 0; `divisible`: remainders that are 0."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.known: tuple[sympy.Expr, ...] = ()
        self.divisible: frozenset[sympy.Expr] = frozenset()
        self.bounds: dict[tuple[sympy.Expr, int], int | None] = {}
        self._symbols: dict[Expr, sympy.Symbol] = {}
        self._leaves: dict[sympy.Symbol, Expr] = {}

    def symbol(self, leaf: Expr) -> sympy.Symbol:
        """Return the symbol that stands for `leaf`; equal leaves have one symbol."""
        if leaf not in self._symbols:
            made = sympy.Symbol(repr(leaf), integer=True)
            self._symbols[leaf] = made
            self._leaves[made] = leaf
        return self._symbols[leaf]

    def leaf(self, symbol: sympy.Symbol) -> Expr:
        """Return the expression a symbol stands for."""
        return self._leaves[symbol]

    def range(self, symbol: sympy.Symbol) -> Range:
        """Return the range of a symbol."""
        return range_of_leaf(self._leaves[symbol], self.facts)

    def with_constants(self, e: sympy.Expr) -> sympy.Expr:
        """Return `e` with the sizes and parameters whose values are known replaced by them."""
        values = {s: constant_of(self._leaves[s], self.facts) for s in e.free_symbols}
        return e.xreplace({s: sympy.Integer(v) for s, v in values.items() if v is not None})

    def multiple(self, e: sympy.Expr) -> int:
        """Return an integer that divides `e`, 0 if `e` is 0."""
        if isinstance(e, sympy.Add):
            return math.gcd(*(self.multiple(t) for t in e.args))
        product = 1
        for factor in sympy.Mul.make_args(e):
            product *= self._factor_multiple(factor)
        return product

    def _factor_multiple(self, e: sympy.Expr) -> int:
        match e:
            case sympy.Integer():
                return abs(int(e))
            case sympy.Symbol():
                return math.lcm(multiple_of_leaf(self._leaves[e], self.facts), self._known_divisor(e))
            case sympy.Pow():
                return self.multiple(e.base) ** int(e.exp)
            case Minimum() | Maximum() | Mod():
                return math.gcd(*(self.multiple(a) for a in e.args))
            case Where():
                return math.gcd(*(self.multiple(a) for a in e.args[1:]))
            case sympy.Add():
                return self.multiple(e)
            case _:
                return 1

    def _known_divisor(self, symbol: sympy.Symbol) -> int:
        divisors = (self.with_constants(r.args[1]) for r in self.divisible if r.args[0] == symbol)
        return math.lcm(*(abs(int(d)) for d in divisors if isinstance(d, sympy.Integer) and d != 0))


def terms(e: sympy.Expr) -> tuple[sympy.Expr, ...]:
    """Return the summands of `e`; none for 0."""
    return () if e == 0 else sympy.Add.make_args(e)


def functions(e: sympy.Expr, *kinds: type) -> Iterator[tuple[sympy.Expr, sympy.Expr, sympy.Expr]]:
    """Yield (summand, summand / f, f) for every factor f of one of `kinds` of a summand of `e`."""
    for term in terms(e):
        for factor in sympy.Mul.make_args(term):
            if isinstance(factor, kinds):
                yield term, term / factor, factor


def exact_quotient(a: sympy.Expr, b: sympy.Expr) -> sympy.Expr | None:
    """Return a / b if it is a product with an integer coefficient for every value of the symbols, else None."""
    if isinstance(b, sympy.Integer):
        k, rest = a.as_coeff_Mul()
        return sympy.Integer(int(k) // int(b)) * rest if int(b) != 0 and int(k) % int(b) == 0 else None
    found = a / b
    return found if b != 0 and found.as_numer_denom()[1] == 1 else None
