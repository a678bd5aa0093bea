"""Checks over a whole spec: names given once, outputs written, axes used and bound."""

from __future__ import annotations

from kgen import syntax as s
from kgen.errors import fail
from kgen.resolve_scope import Scope
from kgen.source import Span
from kgen.terms import Expr, Reduce, children, free_axes


def check_names(scope: Scope) -> None:
    """Report a name given to two things: axes, sizes, tensors, params and type variables share one namespace."""
    model, seen = scope.spec.model, dict[str, str]()
    for kind in ("axes", "sizes", "tensors", "params", "dtypes"):
        for name in getattr(model, kind):
            if name in seen:
                place = scope.spec.span(kind, name, key=True)
                scope.report(place, f"'{name}' names two things, in '{seen[name]}' and in '{kind}'")
            seen.setdefault(name, kind)


def check_free(e: Expr, axes: frozenset[str], node: s.StoreTo) -> None:
    """Raise SpecError if `e` depends on an axis that is neither on the left side nor reduced."""
    extra = free_axes(e) - axes
    if extra:
        axis = min(extra)
        place = _place(e, axis) or node.value.span
        hint = f"reduce over it, such as sum[{axis}](...), or write '{node.tensor}' with '{axis}'"
        raise fail(place, f"the axis '{axis}' is neither on the left side nor reduced here", hint)


def _place(e: Expr, axis: str) -> Span | None:
    """Return the place of the innermost free use of `axis` in `e`."""
    if axis not in free_axes(e):
        return None
    if not (isinstance(e, Reduce) and axis in e.axes):
        for child in children(e):
            if found := _place(child, axis):
                return found
    return e.span


def check_used(scope: Scope) -> None:
    """Report outputs that no statement writes and axes that no statement uses."""
    if scope.diagnostics or scope.broken:
        return  # a failed statement may be what uses them
    used = set[str]()
    for statement in scope.statements.values():
        used.update(statement.axes)
        used.update(_axes(statement.expr))
    for name, tensor in scope.tensors.items():
        if tensor.out and name not in scope.statements:
            scope.report(tensor.span, f"no statement writes the output '{name}'")
    for name, axis in scope.axes.items():
        if name not in used:
            scope.report(axis.span, f"no statement uses the axis '{name}'")


def _axes(e: Expr) -> set[str]:
    own = set(e.axes) if isinstance(e, Reduce) else set[str]()
    return own.union(free_axes(e), *(_axes(c) for c in children(e)))
