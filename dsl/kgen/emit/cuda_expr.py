"""Expressions as CUDA text. Where a value lives (a register, a position, a name) is the caller's to say."""

from __future__ import annotations

import math
from collections.abc import Callable

from kgen.emit.printer import Printer, Text, signed
from kgen.terms import Cast, Const, Expr
from kgen.types import F32, F64, I64, DType

_PLAIN = {"i32": "int", "i64": "i64", "f32": "float", "f64": "double"}  # types that convert by a functional cast


class CudaPrinter(Printer):
    """Prints expressions; `leaves` gives the text of positions, sizes, parameters and variables."""

    language = "cuda"

    def __init__(self, leaves: Callable[[Expr], Text]) -> None:
        self.leaves = leaves

    def leaf(self, e: Expr) -> Text:
        return self.leaves(e)

    def const(self, e: Const) -> Text:
        return signed(literal(e.dtype, e.value))

    def cast(self, e: Cast) -> Text:
        if e.dtype is e.arg.dtype:
            return self.piece(e.arg)
        return Text(conversion(e.dtype, e.arg.dtype, self.text(e.arg)))


def literal(dtype: DType, value: int | float | bool) -> str:
    """Return a literal of `dtype`; infinities and NaN by the names INF and QUIET_NAN, which the file defines."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if not dtype.is_float:
        return _integer(dtype, int(value))
    if dtype not in (F32, F64):
        return f"from_f32<{dtype.cuda}>({literal(F32, value)})"
    if math.isinf(value):
        sign = "-" if value < 0 else ""
        return f"{sign}INF" if dtype is F32 else f"{sign}double(INF)"
    if math.isnan(value):
        return "QUIET_NAN" if dtype is F32 else "double(QUIET_NAN)"
    return f"{float(value)!r}{'f' if dtype is F32 else ''}"


def _integer(dtype: DType, value: int) -> str:
    """The smallest values have no literal: C reads -N as the negation of N, which does not fit."""
    suffix = "LL" if dtype is I64 else ""
    if value == -(2 ** (dtype.bits - 1)) and dtype.bits >= 32:
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def conversion(to: DType, source: DType, code: str) -> str:
    """Return `code` of type `source` converted to `to`."""
    if to is source:
        return code
    if to is F32 and source.is_float and source.bits == 16:
        return f"to_f32({code})"
    if source is F32 and to.is_float and to.bits == 16:
        return f"from_f32<{to.cuda}>({code})"
    narrows = source.is_float and not to.is_float
    if to.name in _PLAIN and not narrows and source.bits != 16:
        return f"{_PLAIN[to.name]}({code})"
    return f"convert<{to.cuda}>({code})"
