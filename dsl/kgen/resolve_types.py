"""Implicit conversions. Literals are weakly typed: what they meet settles their type, so `0` beside a float is 0.0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import isinf

from kgen.errors import fail
from kgen.functions import Function, argument_dtypes, result_dtype, table
from kgen.source import Span
from kgen.terms import Apply, Cast, Const, Expr
from kgen.types import BOOL, F32, F64, I32, I64, DType, compute_dtype, promote

# Rows that keep a literal a literal: `1 / sqrt(2)` has no type yet. Integer rows do not: `7 // 2` must stay an integer.
_KEEP_WEAK = ("float", "number", "where")


@dataclass(frozen=True)
class Value:
    """An expression; `weak` if it is built of literals alone and can still become any type of its class."""

    expr: Expr
    weak: bool = False

    @property
    def dtype(self) -> DType:
        return self.expr.dtype


def literal(value: int | float, span: Span) -> Value:
    """Return a number as written: integers are i32 (i64 if they need it), others f32, both weak."""
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise fail(span, f"the integer {value} does not fit 64 bits")
        dtype = I32 if -(2**31) <= value < 2**31 else I64
    elif isinf(value):
        raise fail(span, "the number does not fit 64 bits", "write inf for infinity")
    else:
        dtype = F32
    return Value(Const(dtype, value, span=span), weak=True)


def convert(value: Value, dtype: DType) -> Expr:
    """Return `value` as `dtype`: a literal changes its type, anything else is cast."""
    if value.dtype is dtype:
        return value.expr
    if value.weak and (dtype.is_float or (dtype.is_int and value.dtype.is_int)):
        return _retype(value.expr, dtype)
    return Cast(dtype, value.expr, span=value.expr.span)


def computed(value: Value) -> Value:
    """Return `value` in the type it computes in: 16-bit floats as f32, small integers as i32."""
    wide = compute_dtype(value.dtype)
    return value if wide is value.dtype else Value(Cast(wide, value.expr, span=value.expr.span))


def apply(fn: str, args: tuple[Value, ...], span: Span) -> Value:
    """Return row `fn` of the function table applied to `args`, all conversions explicit; raise SpecError."""
    row = table()[fn]
    if len(args) != row.args:
        raise fail(span, f"'{fn}' takes {row.args} argument{'s' * (row.args != 1)}, not {len(args)}")
    values = args[1:] if row.types == "where" else args
    strong = [compute_dtype(a.dtype) for a in values if not a.weak]
    given = tuple(_seen(a, strong) if a.weak and a.dtype is not BOOL else a.dtype for a in args)
    try:
        dtypes = argument_dtypes(row, given)
    except ValueError as e:
        written = tuple(a.dtype for a in args)
        raise fail(span, _reason(row, written) or str(e), _hint(fn, written)) from None
    converted = tuple(convert(a, t) for a, t in zip(args, dtypes, strict=True))
    weak = row.types in _KEEP_WEAK and all(a.weak for a in values)
    if fn == "neg" and isinstance(converted[0], Const):
        return Value(replace(converted[0], value=-converted[0].value, span=span), weak)
    return Value(Apply(result_dtype(row, dtypes), fn, converted, span=span), weak)


def _seen(value: Value, strong: list[DType]) -> DType:
    """Return the type a literal takes beside operands of the types `strong`."""
    common = reduce(promote, strong) if strong else None
    if value.dtype.is_float:
        return F64 if common is F64 else F32
    if common is None or common is BOOL:
        return value.dtype
    return promote(common, value.dtype) if common.is_int else common


def _retype(e: Expr, dtype: DType) -> Expr:
    match e:
        case Const(value=value):
            return Const(dtype, float(value) if dtype.is_float else value, span=e.span)
        case Apply(fn="where", args=(c, a, b)):
            return replace(e, dtype=dtype, args=(c, _retype(a, dtype), _retype(b, dtype)))
        case Apply(args=args):
            return replace(e, dtype=dtype, args=tuple(_retype(a, dtype) for a in args))
    raise TypeError(f"no literal: {e}")


def _reason(row: Function, written: tuple[DType, ...]) -> str | None:
    """Return why the arguments do not fit, in the types they were written in."""
    try:
        argument_dtypes(row, written)
    except ValueError as e:
        return str(e)
    return None


def _hint(fn: str, given: tuple[DType, ...]) -> str | None:
    if fn in ("and", "or", "not"):
        return "compare first, such as 'x != 0'"
    if BOOL in given:
        return "write where(condition, 1, 0) for a number"
    return "write cast[i32](x) to convert" if any(t.is_float for t in given) else None
