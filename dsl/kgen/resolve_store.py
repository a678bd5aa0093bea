"""Left sides of output statements: every element must be written exactly once."""

from __future__ import annotations

from kgen import syntax as s
from kgen.errors import fail
from kgen.math import Check, Tensor
from kgen.resolve_expr import Resolver
from kgen.resolve_scope import Scope
from kgen.source import Span
from kgen.terms import Apply, Const, Expr, Pos, Size, apply, free_axes
from kgen.types import BOOL, I32


def left_side(scope: Scope, node: s.StoreTo, tensor: Tensor) -> tuple[tuple[str, ...], tuple[Expr, ...], list[Check]]:
    """Return (axes, index, checks) of a left side; raise SpecError unless it is injective and covers the tensor.

    Coverage that depends on sizes becomes a check of the op: with it the index is in bounds and reaches every element.
    """
    if len(node.index) != len(tensor.dims):
        raise fail(
            node.span, f"'{node.tensor}' has {len(tensor.dims)} dimensions, and {len(node.index)} indices are given"
        )
    axes: list[str] = []
    index, checks = [], []
    for i, (item, dim) in enumerate(zip(node.index, tensor.dims, strict=True)):
        e = Resolver(scope).integer(item)
        found, check = _dimension(scope, e, dim, item.span, tensor, f"{tensor.name}, dimension {i}")
        for axis in found:
            if axis in axes:
                raise fail(
                    item.span, f"the axis '{axis}' stands twice on the left side, so not every element is written"
                )
            axes.append(axis)
        index.append(e)
        checks += check
    return tuple(axes), tuple(index), checks


def _dimension(
    scope: Scope, e: Expr, dim: Expr, span: Span, tensor: Tensor, where: str
) -> tuple[tuple[str, ...], list[Check]]:
    match e:
        case Pos(axis=axis):
            return (axis,), _equal(scope.axes[axis].extent, dim, where)
        case Apply(fn="add", args=(Pos(axis=axis), offset)) | Apply(fn="add", args=(offset, Pos(axis=axis))):
            if not free_axes(offset):
                return (axis,), _shifted(scope, axis, offset, dim, span, tensor, where)
    packed = _packed(scope, e)
    if packed is not None:
        major, minor = packed
        extent = apply("mul", scope.axes[major].extent, scope.axes[minor].extent)
        return (major, minor), _equal(extent, dim, where)
    raise fail(
        span,
        "cannot show that this index reaches every element exactly once",
        "allowed are an axis, axis + constant, and a * B + b where B is the extent of the axis b",
    )


def _packed(scope: Scope, e: Expr) -> tuple[str, str] | None:
    """Return (a, b) if `e` is a * B + b in any order, B being the extent of the axis b."""
    if not (isinstance(e, Apply) and e.fn == "add"):
        return None
    for product, last in (e.args, e.args[::-1]):
        if isinstance(last, Pos) and isinstance(product, Apply) and product.fn == "mul":
            for major, factor in (product.args, product.args[::-1]):
                if isinstance(major, Pos) and factor == scope.axes[last.axis].extent:
                    return major.axis, last.axis
    return None


def _equal(extent: Expr, dim: Expr, where: str) -> list[Check]:
    if extent == dim:
        return []
    return [
        Check(
            Apply(BOOL, "eq", (extent, dim)),
            f"{where}: every element is written once ({text(extent)} == {text(dim)})",
            implied=True,
        )
    ]


def _shifted(scope: Scope, axis: str, offset: Expr, dim: Expr, span: Span, tensor: Tensor, where: str) -> list[Check]:
    if tensor.inplace is None and tensor.fill is None:
        raise fail(span, f"elements of '{tensor.name}' are left out", f"give '{tensor.name}' fill: 0, or inplace")
    zero = Const(I32, 0)
    low = Check(Apply(BOOL, "ge", (offset, zero)), f"{where}: {text(offset)} >= 0")
    end = apply("add", scope.axes[axis].extent, offset)
    return [low, Check(Apply(BOOL, "le", (end, dim)), f"{where}: {text(end)} <= {text(dim)}")]


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def text(e: Expr) -> str:
    """Return an expression over sizes as a spec writes it."""
    match e:
        case Const(value=value):
            return str(value)
        case Size(name=name):
            return name
        case Apply(fn=fn, args=(a, b)) if fn in _SYMBOLS:
            parts = (f"({text(x)})" if isinstance(x, Apply) else text(x) for x in (a, b))
            return f" {_SYMBOLS[fn]} ".join(parts)
        case Apply(fn=fn, args=args):
            return f"{fn}({', '.join(map(text, args))})"
    raise TypeError(f"no expression over sizes: {e}")
