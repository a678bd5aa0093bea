"""Values of expressions over sizes: what static sizes and defaults are once the sizes they need are known."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from kgen.errors import fail
from kgen.math import Math
from kgen.terms import Apply, Cast, Const, Expr, Param, Size

ROWS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "abs": abs,
    "pow": operator.pow,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "maximum": max,
    "minimum": min,
    "where": lambda c, a, b: a if c else b,
    **{
        n: getattr(math, n)
        for n in ("sqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "floor", "ceil", "isnan")
    },
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "fma": lambda a, b, c: a * b + c,
}
Number = int | float | bool


def evaluate(e: Expr, values: Mapping[str, Number]) -> Number | None:
    """Return the value of an expression over the sizes and params in `values` (in double precision), None if one lacks.

    Raise SpecError where the arithmetic has no result.
    """
    match e:
        case Const(value=value):
            return value
        case Size(name=name) | Param(name=name):
            return values.get(name)
        case Cast(arg=arg, dtype=dtype):
            inner = evaluate(arg, values)
            return None if inner is None else float(inner) if dtype.is_float else int(inner)
        case Apply(fn=fn, args=args):
            found = [evaluate(a, values) for a in args]
            if any(v is None for v in found):
                return None
            try:
                result: Number = ROWS[fn](*found)
            except (ArithmeticError, ValueError) as error:
                raise fail(e.span, f"this has no value: {error}") from None
            return result
    raise TypeError(f"no expression over sizes: {e}")


def static_values(math: Math, sizes: Mapping[str, int]) -> dict[str, Number]:
    """Return the static sizes: those given (and checked against their lists), and the definitions over them alone."""
    known: dict[str, Number] = {}
    for name, size in math.sizes.items():
        if size.choices is not None:
            if sizes.get(name) not in size.choices:
                what = f"is {sizes[name]}" if name in sizes else "is not given"
                raise fail(_place(math, name), f"the static size '{name}' {what}", f"it can be {_listed(size.choices)}")
            known[name] = sizes[name]
        elif size.definition is not None:
            value = evaluate(size.definition, known)
            if value is not None:
                known[name] = value
    return known


def _place(math: Math, size: str) -> Any:
    return next((a.span for a in math.axes.values() if a.choices and a.extent == Size(a.extent.dtype, size)), None)


def _listed(choices: tuple[int, ...]) -> str:
    steps = {b - a for a, b in pairwise(choices)}
    if len(choices) > 3 and len(steps) == 1:
        return f"{choices[0]}..{choices[-1]} step {steps.pop()}"
    return " or ".join(map(str, choices))
