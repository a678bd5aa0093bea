"""Expressions in Triton: values broadcast by axis name, literals that keep their type, scalars apart from tiles."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kgen.emit.names import Names
from kgen.emit.printer import ATOM, Printer, Text, python_literal, signed
from kgen.functions import table
from kgen.ir import Kernel
from kgen.terms import Apply, Cast, Const, Expr, Get, Param, Pos, Size, Start, free_axes
from kgen.types import BOOL, F32, F64, I32

_COMPARE, _NOT, _SUM = 5, 4, 10


class TritonPrinter(Printer):
    """Prints for a value whose dimensions are `axes`: a value of fewer axes gets new dimensions, as in `x[:, None]`."""

    language = "triton"

    def __init__(self, kernel: Kernel, names: Names, axes: tuple[str, ...] = ()) -> None:
        self.kernel, self.names, self.axes = kernel, names, axes

    def over(self, axes: tuple[str, ...]) -> TritonPrinter:
        """Return a printer for values over other axes."""
        return TritonPrinter(self.kernel, self.names, axes)

    def tile_axes(self, e: Expr) -> frozenset[str]:
        """Return the tile axes that `e` varies along."""
        return free_axes(e) & self.kernel.tile_axes.keys()

    def shape(self) -> str:
        """Return the shape of a value over all axes, as a list."""
        return f"[{', '.join(self.names.constants[f'tile.{a}'] for a in self.axes)}]"

    def full(self, e: Expr) -> str:
        """Return `e` as a value of exactly type `e.dtype` and exactly all axes."""
        axes = self.tile_axes(e)
        if not axes and self.axes:
            return f"tl.full({self.shape()}, {self.text(e)}, {e.dtype.tl})"
        if axes < frozenset(self.axes):
            return f"tl.broadcast_to({self.text(e)}, {self.shape()})"
        return self.strong(e) if is_weak(e) else self.text(e)

    def strong(self, e: Expr) -> str:
        """Return a scalar as a value of type `e.dtype`, for a literal has none of its own."""
        return (
            f"tl.full([], {self.text(e)}, {e.dtype.tl})"
            if isinstance(e, Const)
            else f"tl.cast({self.text(e)}, {e.dtype.tl})"
        )

    def sum(self, code: str, terms: Iterable[Expr]) -> str:
        """Return `code` with terms added, those that are negations subtracted."""
        for t in terms:
            negated = t.args[0] if isinstance(t, Apply) and t.fn == "neg" else None
            code += f" + {self.text(t, _SUM + 1)}" if negated is None else f" - {self.text(negated, _SUM + 1)}"
        return code

    def applied(self, e: Apply) -> Text:
        """Return an operator or call, with the forms that scalars and literals need."""
        if e.fn == "not" and not self.tile_axes(e):
            return Text(f"not {self.text(e.args[0], _NOT)}", _NOT)  # ~ of a Python bool is an integer
        if e.fn in ("maximum", "minimum") and e.dtype.is_int and not self.tile_axes(e):
            return Text(f"{e.fn[:3]}({', '.join(self.text(a) for a in e.args)})")
        ceil = ceil_parts(e)
        if ceil is not None and not self.tile_axes(e):
            return Text(f"tl.cdiv({self.text(ceil[0])}, {ceil[1]})")
        row = table()[e.fn]
        if row.prec(self.language) == ATOM:
            typed = tuple(self.argument(a, e) for a in e.args)
            return Text(row.form(self.language, self.form_dtype(e)).format(*typed))
        return super().applied(e)

    def argument(self, a: Expr, e: Apply) -> str:
        """Return an argument of a call; a literal is typed where the call cannot take its type from another one."""
        values = e.args[1:] if e.fn == "where" else e.args
        alone = all(is_weak(v) for v in values) and a.dtype not in (F32, I32, BOOL)
        inexact = a.dtype is F64 and isinstance(a, Const) and not _fits_f32(float(a.value))
        return self.strong(a) if a.dtype is not BOOL and isinstance(a, Const) and (alone or inexact) else self.text(a)

    def const(self, e: Const) -> Text:
        """Return a Python literal, which Triton types by what it meets."""
        return signed(python_literal(e))

    def cast(self, e: Cast) -> Text:
        """Return a conversion: `.to` of tiles; `tl.cast` of scalars, which may be Python numbers."""
        if e.dtype is BOOL:
            return Text(f"{self.text(e.arg, _COMPARE + 1)} != 0", _COMPARE)
        if isinstance(e.arg, Const):
            return Text(self.strong(Const(e.dtype, e.arg.value)))
        if self.tile_axes(e.arg):
            return Text(f"{self.text(e.arg, ATOM)}.to({e.dtype.tl})")
        return Text(f"tl.cast({self.text(e.arg)}, {e.dtype.tl})")

    def leaf(self, e: Expr) -> Text:
        """Return a name, with new dimensions where it has fewer axes than the value printed."""
        match e:
            case Pos(axis=axis):
                return self.spread(self.names.position[axis], (axis,) if axis in self.kernel.tile_axes else ())
            case Start(axis=axis):
                return Text(self.names.start[axis])
            case Size(name=name) | Param(name=name):
                return Text(self.names.size(name))
            case Get(var=var):
                return self.spread(self.names.values[var.name], var.axes)
        raise TypeError(f"no printed form for {type(e).__name__}")

    def spread(self, code: str, axes: tuple[str, ...]) -> Text:
        """Return a value over `axes` arranged for the printed axes: transposed if they come in another order."""
        if not set(axes) <= set(self.axes):
            raise ValueError(f"a value over {axes} does not fit into one over {self.axes}")
        kept = tuple(a for a in self.axes if a in axes)
        if kept != axes:
            order = ", ".join(str(axes.index(a)) for a in kept)
            code = f"tl.trans({code})" if len(axes) == 2 else f"tl.permute({code}, ({order}))"
        if not axes or kept == self.axes:
            return Text(code)
        return Text(f"{code}[{', '.join(':' if a in axes else 'None' for a in self.axes)}]")


def ceil_parts(e: Expr) -> tuple[Expr, int] | None:
    """Return (x, c) if `e` is x divided by a literal c and rounded up, written (x + (c - 1)) // c."""
    match e:
        case Apply(fn="quot", args=(Apply(fn="add", args=(x, Const(value=less))), Const(value=c))) if less == c - 1 > 0:
            return x, int(c)
    return None


def is_weak(e: Expr) -> bool:
    """Return whether the printed form of `e` consists of literals, so that Triton would choose its type."""
    match e:
        case Const():
            return True
        case Apply(fn="where", args=(_, x, y)):
            return is_weak(x) and is_weak(y)
        case Apply(args=args):
            return table()[e.fn].types not in ("compare", "test", "bool") and all(is_weak(a) for a in args)
        case _:
            return False


def _fits_f32(value: float) -> bool:
    if value != value or value in (float("inf"), float("-inf")):
        return True
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False
