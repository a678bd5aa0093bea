"""Values of expressions over sizes: what static sizes and defaults are once the sizes they need are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from kgen.errors import fail
from kgen.functions import host_function
from kgen.math import Math
from kgen.source import Span
from kgen.terms import Apply, Cast, Const, Expr, Param, Size

Number = int | float | bool
_BITS = 64  # of the widest integer


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
        case Apply(fn="where", args=(c, a, b)):
            chosen = evaluate(c, values)
            return None if chosen is None else evaluate(a if chosen else b, values)
        case Apply(fn=fn, args=args):
            found = [evaluate(a, values) for a in args]
            if any(v is None for v in found):
                return None
            return applied(fn, found, e.span)
    raise TypeError(f"no expression over sizes: {e}")


def applied(fn: str, args: Sequence[Any], span: Span | None) -> Number:
    """Return row `fn` of the function table applied to numbers (or, by `==` and `!=`, to anything); raise SpecError."""
    function = host_function(fn)
    if function is None:
        raise fail(span, *no_host_form(fn))
    try:
        if fn == "shl" and args[1] >= _BITS:
            raise OverflowError(f"a shift by {args[1]} bits")
        result: Number = function(*args)
    except (ArithmeticError, ValueError) as error:
        raise fail(span, f"this has no value: {error}") from None
    if isinstance(result, int) and not -(1 << _BITS - 1) <= result < 1 << _BITS - 1:
        raise fail(span, "this has no value: the integer does not fit 64 bits")
    return result


def no_host_form(fn: str) -> tuple[str, str]:
    """Return the message and hint for a function that only kernels can compute."""
    return f"'{fn}' has no value here: only kernels compute it", f"add a python form to '{fn}' in functions.yaml"


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
