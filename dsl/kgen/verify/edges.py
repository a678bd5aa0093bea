"""Integers made of computed floats: near the edge between two of them, a correct kernel may give either.

The spec's math is evaluated again with every float moved that is about to become an integer or a bool by a comparison,
floor, ceil or cast, once up and once down by what rounding may have changed. Where the result stays, it is demanded.
"""

from __future__ import annotations

from dataclasses import replace

from kgen.math import Math
from kgen.terms import Apply, Cast, Const, Expr, Reduce, Ref, apply, rewrite, walk

_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_EXACT = ("neg", "abs", "maximum", "minimum", "where", "floor", "ceil")
_KEEP_INTEGRAL = ("neg", "abs", "maximum", "minimum", "where", "add", "sub", "mul")


def has_edges(math: Math, name: str) -> bool:
    """Is something of the output decided by a computed float?"""
    exprs = [x.expr for x in math.statements if x.name in _needed(math, name)]
    return any(_moved(math, n, 1.0) is not None for e in exprs for n in walk(e))


def nudged(math: Math, step: float) -> Math:
    """Return the math with the floats moved that decide integers: by step * (|x| + 1), in comparisons step * |x|."""
    statements = tuple(replace(x, expr=rewrite(x.expr, lambda n: _moved(math, n, step))) for x in math.statements)
    return replace(math, statements=statements)


def _needed(math: Math, name: str) -> set[str]:
    found, queue = {name}, [name]
    while queue:
        for e in walk(math.statement(queue.pop()).expr):
            if isinstance(e, Ref) and e.name not in found:
                found.add(e.name)
                queue.append(e.name)
    return found


def _moved(math: Math, e: Expr, step: float) -> Expr | None:
    match e:
        case Cast(dtype=dtype, arg=x) if dtype.is_int and x.dtype.is_float and _rounded(math, x):
            return replace(e, arg=_shift(x, step, 1.0))
        case Apply(fn="floor" | "ceil", args=(x,)) if _rounded(math, x):
            return replace(e, args=(_shift(x, step, 1.0),))
        case Apply(fn=fn, args=(x, y)) if fn in _COMPARE and x.dtype.is_float:
            if _rounded(math, x) or _rounded(math, y):
                return replace(e, args=(_shift(x, step, 0.0), y))
    return None


def _shift(x: Expr, step: float, least: float) -> Expr:
    size = apply("add", apply("abs", x), Const(x.dtype, least))
    return apply("add", x, apply("mul", size, Const(x.dtype, step)))


def _rounded(math: Math, e: Expr) -> bool:
    """May the value of a float differ between correct kernels? Not if it is loaded, or whole as a sum of whole ones."""
    return not _integral(math, e) and any(_rounds(math, n) for n in walk(e))


def _rounds(math: Math, e: Expr) -> bool:
    match e:
        case Ref(name=name):
            return _rounded(math, math.statement(name).expr)
        case Apply(fn=fn):
            return e.dtype.is_float and fn not in _EXACT
        case Reduce(name=name):
            return e.dtype.is_float and name not in ("max", "min")
    return False


def _integral(math: Math, e: Expr) -> bool:
    match e:
        case Const(value=value):
            return float(value).is_integer()
        case Cast(arg=x):
            return x.dtype.is_int or _integral(math, x)
        case Ref(name=name):
            return _integral(math, math.statement(name).expr)
        case Apply(fn="floor" | "ceil"):
            return True
        case Apply(fn=fn, args=args) if fn in _KEEP_INTEGRAL:
            return all(_integral(math, a) for a in (args[1:] if fn == "where" else args))
    return False
