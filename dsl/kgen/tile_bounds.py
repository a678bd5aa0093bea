"""Is an index inside its tensor for every valid position? Shown by the largest value it can take, as a polynomial."""

from __future__ import annotations

import sympy

from kgen.math import Math
from kgen.terms import Apply, Const, Expr, Pos, Size

ONE = sympy.Integer(1)


class Reach:
    """Largest values of non-negative integer expressions over the valid positions of a spec's axes."""

    def __init__(self, math: Math) -> None:
        self.math = math
        self.sizes = _sizes(math)

    def inside(self, index: Expr, extent: Expr) -> bool:
        """Is 0 <= index < extent shown? False may also mean that this simple proof does not reach."""
        top, limit = self.largest(index), self.polynomial(extent)
        if top is None or limit is None:
            return False
        slack = sympy.expand(limit - ONE - top)
        return bool(slack.is_nonnegative) or all(c >= 0 for c in slack.as_coefficients_dict().values())

    def polynomial(self, e: Expr) -> sympy.Expr | None:
        """Return a size expression as a polynomial, None if it is none."""
        match e:
            case Const(value=v):
                return sympy.Integer(int(v))
            case Size(name=name):
                return self.sizes.get(name, sympy.Symbol(name, integer=True, nonnegative=True))
            case Apply(fn="add" | "sub" | "mul", args=(a, b)):
                return _join(e.fn, self.polynomial(a), self.polynomial(b))
            case Apply(fn="floordiv" | "quot", args=(a, b)):
                return _exact(self.polynomial(a), self.polynomial(b))
            case _:
                return None

    def largest(self, e: Expr) -> sympy.Expr | None:
        """Return the largest value of an expression that is never negative and rises with all positions; else None."""
        match e:
            case Pos(axis=axis) if axis in self.math.axes:
                extent = self.polynomial(self.math.axes[axis].extent)
                return None if extent is None else extent - ONE
            case Const(value=v) if v >= 0:
                return sympy.Integer(int(v))
            case Size():
                return self.polynomial(e)
            case Apply(fn="add" | "mul", args=(a, b)):
                return _join(e.fn, self.largest(a), self.largest(b))
            case Apply(fn="floordiv" | "quot", args=(a, b)):
                top = self.largest(a)
                whole = None if top is None else _exact(sympy.expand(top + ONE), self.polynomial(b))
                return None if whole is None else whole - ONE
            case Apply(fn="mod" | "rem", args=(a, b)):
                limit = self.polynomial(b)
                return None if limit is None or self.largest(a) is None else limit - ONE
            case _:
                return None


def _join(fn: str, a: sympy.Expr | None, b: sympy.Expr | None) -> sympy.Expr | None:
    if a is None or b is None:
        return None
    return sympy.expand({"add": a + b, "sub": a - b, "mul": a * b}[fn])


def _exact(a: sympy.Expr | None, b: sympy.Expr | None) -> sympy.Expr | None:
    """Return a / b if it is a polynomial, else None."""
    if a is None or b is None or b == 0:
        return None
    quotient = sympy.cancel(a / b)
    return sympy.expand(quotient) if sympy.denom(quotient) == 1 else None


def _sizes(math: Math) -> dict[str, sympy.Expr]:
    """Sizes that are multiples of others by a check: with G = H // HK and H % HK == 0, H is G * HK."""
    divisible = {c.condition.args[0].args for c in math.checks if _says_divisible(c.condition)}  # type: ignore[attr-defined]
    found: dict[str, sympy.Expr] = {}
    for s in math.sizes.values():
        match s.definition:
            case Apply(fn="floordiv", args=(Size(name=a), Size(name=b)) as pair) if pair in divisible:
                found[a] = sympy.Symbol(s.name, integer=True, nonnegative=True) * sympy.Symbol(
                    b, integer=True, nonnegative=True
                )
            case _:
                continue
    return found


def _says_divisible(e: Expr) -> bool:
    match e:
        case Apply(fn="eq", args=(Apply(fn="mod"), Const(value=0))):
            return True
        case _:
            return False
