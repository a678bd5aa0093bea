"""Expressions computed by Python: the meaning that every rewriting is tested against."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping

from kgen.index_facts import leaf_name
from kgen.terms import Apply, Cast, Const, Expr, Load

Value = int | float | bool

_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "pow": operator.pow,
    "abs": abs,
    "minimum": min,
    "maximum": max,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "not": operator.not_,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "quot": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "rem": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}


def evaluate(e: Expr, env: Mapping[str, Value]) -> Value:
    """Return the value of a scalar expression with Python's unbounded integers.

    `env` gives sizes, parameters and variables by name, positions by axis, tile starts as `<axis>_start`. `and`, `or`
    and `where` compute only the operands they need. Raises KeyError for a name that `env` lacks, TypeError for an
    expression that has no scalar value (loads of tensor elements, reductions) or an unknown function.
    """
    match e:
        case Const(value=value):
            return value
        case Cast(arg=arg, dtype=dtype):
            value = evaluate(arg, env)
            return float(value) if dtype.is_float else bool(value) if dtype.kind == "bool" else int(value)
        case Apply(fn="and", args=args):
            return all(evaluate(a, env) for a in args)
        case Apply(fn="or", args=args):
            return any(evaluate(a, env) for a in args)
        case Apply(fn="where", args=(c, a, b)):
            return evaluate(a if evaluate(c, env) else b, env)
        case Apply(fn=fn, args=args) if fn in _FUNCTIONS:
            return _FUNCTIONS[fn](*(evaluate(a, env) for a in args))
    name = leaf_name(e)
    if name is None or isinstance(e, Load):
        raise TypeError(f"{e!r} has no scalar value")
    return env[name]


def enumerate_equal(a: Expr, b: Expr, ranges: Mapping[str, range]) -> dict[str, int] | None:
    """Return values of the named leaves for which a and b differ, None if they are equal over all of `ranges`.

    Points where `a` divides by zero are left out: there `a` has no value to preserve.
    """
    for values in itertools.product(*ranges.values()):
        env = dict(zip(ranges, values, strict=True))
        try:
            expected = evaluate(a, env)
        except ZeroDivisionError:
            continue
        try:
            if evaluate(b, env) == expected:
                continue
        except ZeroDivisionError:
            pass
        return env
    return None
