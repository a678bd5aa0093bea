"""Small algebra on expressions: constant folding, products, sums, conjunctions. Integer index laws are in index.py."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kgen.terms import Apply, Cast, Const, Expr, rewrite
from kgen.types import BOOL, I32

TRUE = Const(BOOL, True)
FALSE = Const(BOOL, False)
_COMPARE = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}
_UNARY = {"neg": lambda a: -a, "sqrt": math.sqrt, "exp": math.exp, "abs": abs}


def conjuncts(e: Expr | None) -> tuple[Expr, ...]:
    """Return the parts of a conjunction; () for None or true."""
    if e is None or e == TRUE:
        return ()
    if isinstance(e, Apply) and e.fn == "and":
        return conjuncts(e.args[0]) + conjuncts(e.args[1])
    return (e,)


def conjunction(parts: Iterable[Expr | None]) -> Expr | None:
    """Return the conjunction of the parts without repeats, None if there is none."""
    unique = dict.fromkeys(c for p in parts for c in conjuncts(p))
    result: Expr | None = None
    for part in unique:
        result = part if result is None else Apply(BOOL, "and", (result, part))
    return result


def disjunction(parts: Iterable[Expr]) -> Expr | None:
    """Return the disjunction of the parts without repeats, None if there is none."""
    result: Expr | None = None
    for part in dict.fromkeys(parts):
        result = part if result is None else Apply(BOOL, "or", (result, part))
    return result


def factors(e: Expr) -> tuple[Expr, ...]:
    """Return the factors of a product; a division contributes the reciprocal of its divisor, a minus sign -1."""
    match e:
        case Apply(fn="mul", args=(a, b)):
            return factors(a) + factors(b)
        case Apply(fn="div", args=(a, b)) if a != Const(a.dtype, 1.0):
            return (*factors(a), Apply(e.dtype, "div", (Const(e.dtype, 1.0), b)))
        case Apply(fn="neg", args=(a,)):
            return (Const(e.dtype, -1.0 if e.dtype.is_float else -1), *factors(a))
        case _:
            return (e,)


def product(parts: Iterable[Expr]) -> Expr | None:
    """Return the product of the parts; x * (1 / y) is written x / y. None for no part."""
    result: Expr | None = None
    for part in parts:
        match part:
            case Apply(fn="div", args=(Const(value=1.0), d)) if result is not None:
                result = Apply(result.dtype, "div", (result, d))
            case _:
                result = part if result is None else Apply(result.dtype, "mul", (result, part))
    return result


def terms(e: Expr) -> tuple[tuple[int, Expr], ...]:
    """Return the terms of a sum with their signs."""
    match e:
        case Apply(fn="add", args=(a, b)):
            return terms(a) + terms(b)
        case Apply(fn="sub", args=(a, b)):
            return terms(a) + tuple((-sign, x) for sign, x in terms(b))
        case Apply(fn="neg", args=(a,)):
            return tuple((-sign, x) for sign, x in terms(a))
        case _:
            return ((1, e),)


def signed_sum(parts: Iterable[tuple[int, Expr]]) -> Expr:
    """Return the sum of signed terms (at least one)."""
    result: Expr | None = None
    for sign, part in parts:
        if result is None:
            result = part if sign > 0 else Apply(part.dtype, "neg", (part,))
        else:
            result = Apply(result.dtype, "add" if sign > 0 else "sub", (result, part))
    if result is None:
        raise ValueError("a sum of no terms")
    return result


def substitute(e: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """Replace whole sub-expressions by structural equality, innermost first."""
    return rewrite(e, values.get)


def fold(e: Expr) -> Expr:
    """Fold constants and the identities of booleans, where, min, max, + and *; float laws only where they are exact.

    0 * x = 0 is no law of floats: only `fold_state` uses it, for a literal 0 that a record's identity put there (x is a
    rescale factor then, never inf or NaN at an identity state: the records' proofs say so).
    """
    return rewrite(e, _fold_node)


def fold_state(e: Expr) -> Expr:
    """As `fold`, and with 0 * x = 0: for record formulas in which old states were replaced by their identities."""
    return rewrite(e, lambda n: _zero_product(n) or _fold_node(n))


def _zero_product(e: Expr) -> Expr | None:
    if isinstance(e, Apply) and e.fn == "mul":
        for a in e.args:
            if isinstance(a, Const) and a.value == 0:
                return Const(e.dtype, a.value)
    return None


def _fold_node(e: Expr) -> Expr | None:
    match e:
        case Apply(fn="not", args=(Const(value=v),)):
            return FALSE if v else TRUE
        case Apply(fn="and" | "or", args=(a, b)):
            return _fold_logic(e.fn, a, b)
        case Apply(fn="where", args=(Const(value=v), a, b)):
            return a if v else b
        case Apply(fn="where", args=(_, a, b)) if a == b:
            return a
        case Apply(fn=fn, args=(Const(value=a), Const(value=b))) if fn in _COMPARE:
            return TRUE if _COMPARE[fn](a, b) else FALSE
        case Apply(fn=fn, args=(Const(value=a),)) if fn in _UNARY and not (fn == "sqrt" and a < 0):
            return Const(e.dtype, _UNARY[fn](a))
        case Apply(fn="maximum" | "minimum", args=(a, b)):
            return _fold_extremum(e.fn, a, b)
        case Apply(fn="add" | "sub" | "mul" | "div", args=(a, b)):
            return _fold_arithmetic(e, a, b)
        case Apply(fn="floordiv" | "mod" | "quot" | "rem", args=(Const(value=a), Const(value=b))) if b:
            return Const(e.dtype, a // b if e.fn in ("floordiv", "quot") else a % b)
        case Apply(fn="pow", args=(a, Const(value=2))):
            return Apply(e.dtype, "mul", (a, a))
        case Cast(arg=Const(value=v)) if e.dtype.bits >= 32 or e.dtype is BOOL:
            return Const(e.dtype, _convert(v, e.dtype.is_float, e.dtype is BOOL))
        case Cast(arg=arg) if arg.dtype == e.dtype:
            return arg
        case _:
            return None


def _convert(value: int | float | bool, to_float: bool, to_bool: bool) -> int | float | bool:
    if to_bool:
        return bool(value)
    return float(value) if to_float else int(value)


def _fold_logic(fn: str, a: Expr, b: Expr) -> Expr | None:
    absorbing, neutral = (FALSE, TRUE) if fn == "and" else (TRUE, FALSE)
    if absorbing in (a, b):
        return absorbing
    if a == neutral:
        return b
    return a if b == neutral or a == b else None


def _fold_extremum(fn: str, a: Expr, b: Expr) -> Expr | None:
    bottom = -math.inf if fn == "maximum" else math.inf
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const) and x.value == bottom:
            return y
    if isinstance(a, Const) and isinstance(b, Const):
        return a if (a.value > b.value) == (fn == "maximum") else b
    return a if a == b else None


def _fold_arithmetic(e: Apply, a: Expr, b: Expr) -> Expr | None:
    x = a.value if isinstance(a, Const) else None
    y = b.value if isinstance(b, Const) else None
    if x is not None and y is not None and not (e.fn == "div" and y == 0):
        result = {"add": x + y, "sub": x - y, "mul": x * y}.get(e.fn)
        return Const(e.dtype, x / y if result is None else result)
    zero, one = x == 0, x == 1
    if (e.fn == "add" and zero) or (e.fn == "mul" and one):
        return b
    if (e.fn in ("add", "sub") and y == 0) or (e.fn in ("mul", "div") and y == 1):
        return a
    return None


def less(a: Expr, b: Expr) -> Expr:
    """Return a < b."""
    return Apply(BOOL, "lt", (a, b))


def plus(a: Expr, b: Expr) -> Expr:
    """Return a + b, folded."""
    return fold(Apply(a.dtype, "add", (a, b)))


def times(a: Expr, b: Expr) -> Expr:
    """Return a * b, folded."""
    return fold(Apply(a.dtype, "mul", (a, b)))


def ceil_div(a: Expr, b: int) -> Expr:
    """Return ceil(a / b) for a non-negative i32 expression and b > 0."""
    if b == 1:
        return a
    return fold(Apply(I32, "quot", (Apply(I32, "add", (a, Const(I32, b - 1))), Const(I32, b))))
