"""Records in a form that prints directly: the conventions of records spelled out in ordinary functions."""

from __future__ import annotations

import math
from dataclasses import replace

from kgen.accumulators_record import Entries, Record
from kgen.accumulators_typing import SAFE_DIV
from kgen.terms import Apply, Const, Expr, apply, rewrite
from kgen.types import BOOL


def safe(e: Expr) -> Expr:
    """Return `e` without `safe_div`, without -inf - -inf in exponents, and with small powers as products.

    In an exponent x - y becomes x - where(y == -inf, 0, y): the same wherever y is -inf only if x is.
    """
    return rewrite(e, _rule)


def safe_record(record: Record) -> Record:
    """Return the record with every expression made `safe`; take `carry_factor` from the original."""
    return replace(
        record,
        lift=_entries(record.lift),
        merge=_entries(record.merge),
        update=_entries(record.update),
        update_tile=_entries(record.update_tile),
        weight=None if record.weight is None else safe(record.weight),
        rescale=None if record.rescale is None else safe(record.rescale),
        finish=_entries(record.finish),
        direct=None if record.direct is None else _entries(record.direct),
        retype=lambda dtype: safe_record(record.at(dtype)),
    )


def _entries(entries: Entries) -> Entries:
    return tuple((name, safe(e)) for name, e in entries)


def _rule(e: Expr) -> Expr | None:
    match e:
        case Apply(fn="exp" | "exp2", args=(x,)):
            return replace(e, args=(rewrite(x, _difference),))
        case Apply(fn=fn, args=(x, y)) if fn == SAFE_DIV:
            zero = apply("eq", y, Const(y.dtype, 0.0), dtype=BOOL)
            quotient = apply("div", x, _where(zero, Const(y.dtype, 1.0), y))
            return replace(_where(zero, Const(e.dtype, 0.0), quotient), span=e.span)
        case Apply(fn="pow", args=(x, Const(value=n))) if n in (2, 3, 4):
            product = x
            for _ in range(int(n) - 1):
                product = apply("mul", product, x)
            return product
    return None


def _difference(e: Expr) -> Expr | None:
    match e:
        case Apply(fn="sub", args=(x, y)) if y.dtype.is_float and not isinstance(y, Const):
            empty = apply("eq", y, Const(y.dtype, -math.inf), dtype=BOOL)
            return replace(e, args=(x, _where(empty, Const(y.dtype, 0.0), y)))
    return None


def _where(condition: Expr, yes: Expr, no: Expr) -> Apply:
    return apply("where", condition, yes, no, dtype=yes.dtype)
