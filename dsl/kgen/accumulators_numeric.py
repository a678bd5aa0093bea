"""Expressions of records over NumPy arrays in float64, each value with a bound of its rounding error.

With bounds, two formulas of one quantity can be told apart from two that differ: no tolerance has to be chosen, and
large or cancelling values need no special care. Elements lie along the last axis; values per row have length 1 there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from kgen.terms import Apply, Cast, Const, Expr, Get, Reduce
from kgen.types import BOOL, DType

Array = np.ndarray[Any, Any]
UNIT = 2.0**-50  # of a result: what one operation or one NumPy function may lose
ZERO = np.zeros((1, 1))


class Bounded(NamedTuple):
    """Values and a bound of their absolute error (0 for integers, bools, infinities and NaN)."""

    value: Array
    error: Array


Env = Mapping[str, Bounded]


def _difference(a: Array, b: Array) -> Array:
    """a - b with the convention of records: -inf - -inf is -inf."""
    return np.where((a == -math.inf) & (b == -math.inf), -math.inf, a - b) if a.dtype.kind == "f" else a - b


def _safe_div(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0.0, a / np.where(b == 0, 1.0, b))


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "pow": np.power,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "bitand": np.bitwise_and,
    "bitxor": np.bitwise_xor,
    "bitor": np.bitwise_or,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "not": np.logical_not,
    "and": np.logical_and,
    "or": np.logical_or,
    "where": np.where,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "isnan": np.isnan,
    "fma": lambda a, b, c: a * b + c,
    "safe_div": _safe_div,
}
_CONVENTION = {**FUNCTIONS, "sub": _difference}
_EXACT = {"neg", "abs", "floor", "ceil", "where", "maximum", "minimum"}


def exact(values: Array) -> Bounded:
    """Return values that carry no error."""
    return Bounded(values, ZERO)


def number_type(dtype: DType) -> type:
    """Return the NumPy type that stands for `dtype`: all floats are computed in float64, all integers in int64."""
    return np.float64 if dtype.is_float else np.bool_ if dtype is BOOL else np.int64


def bounds(dtype: DType) -> tuple[int | float, int | float]:
    """Return the lowest and the highest value of a type (for floats the infinities)."""
    if not dtype.is_int:
        return (False, True) if dtype is BOOL else (-math.inf, math.inf)
    low = -(2 ** (dtype.bits - 1))
    return low, -low - 1


def compute(e: Expr, env: Env, ieee: bool) -> Bounded:
    """Return the value of `e`. `ieee`: as the printed code computes; else by the conventions of records."""
    with np.errstate(all="ignore"):
        return _compute(e, env, ieee)


def _compute(e: Expr, env: Env, ieee: bool) -> Bounded:
    match e:
        case Const(value=value, dtype=dtype):
            return exact(np.full((1, 1), value, number_type(dtype)))
        case Get(var=var):
            return env[var.name]
        case Cast(arg=arg, dtype=dtype):
            inner = _compute(arg, env, ieee)
            return Bounded(inner.value.astype(number_type(dtype)), inner.error if dtype.is_float else ZERO)
        case Apply(fn=fn, args=args):
            table = FUNCTIONS if ieee else _CONVENTION
            return _apply(fn, table[fn], [_compute(a, env, ieee) for a in args])
        case Reduce(name=name, arg=arg, dtype=dtype):
            return _reduce(name, _compute(arg, env, ieee), dtype)
    raise TypeError(f"{type(e).__name__} does not occur in accumulator records")


def _apply(fn: str, function: Callable[..., Array], args: list[Bounded]) -> Bounded:
    """Apply a function; its error is one rounding, and the change when each argument moves to the ends of its bound."""
    values = [a.value for a in args]
    result = function(*values)
    if result.dtype.kind != "f":
        return exact(result)
    error = np.zeros((1, 1)) if fn in _EXACT else UNIT * np.abs(result)
    for i, (value, bound) in enumerate(args):
        if bound.any():
            moved = [function(*values[:i], value + d, *values[i + 1 :]) for d in (bound, -bound)]
            error = error + np.maximum(*(np.abs(m - result) for m in moved))
    error = np.where(np.isnan(error), math.inf, error)
    return Bounded(result, np.where(np.isfinite(result), error, 0.0))


def _reduce(name: str, arg: Bounded, dtype: DType) -> Bounded:
    value, low_high = arg.value, bounds(dtype)
    match name:
        case "count":
            return exact(np.full((1, 1), value.shape[-1], np.int64))
        case "any" | "all":
            return exact(getattr(np, name)(value, axis=-1, keepdims=True))
        case "max" | "min":
            result = getattr(np, name)(value, axis=-1, keepdims=True, initial=low_high[name == "min"])
            return Bounded(result, _error(arg).max(axis=-1, keepdims=True, initial=0.0))
    result = value.sum(axis=-1, keepdims=True)
    if result.dtype.kind != "f":
        return exact(result)
    error = (_error(arg) + UNIT * np.abs(value)).sum(axis=-1, keepdims=True)
    return Bounded(result, np.where(np.isfinite(result), error, 0.0))


def _error(x: Bounded) -> Array:
    return np.broadcast_to(x.error, x.value.shape)


def agree(a: Bounded, b: Bounded, exactly: bool = False) -> Array:
    """Return where two values may be equal: the same, both NaN, or closer than their errors explain."""
    same = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value))
    if exactly or a.value.dtype.kind != "f":
        return same
    with np.errstate(invalid="ignore"):
        return same | (np.abs(a.value - b.value) <= 2 * (a.error + b.error))
