"""Sizes and axes: which names are sizes, how each is found from argument shapes, and the extents of axes."""

from __future__ import annotations

from collections.abc import Iterator

from kgen import syntax as s
from kgen.errors import fail, nearest
from kgen.math import Axis
from kgen.resolve_expr import Resolver
from kgen.resolve_scope import Scope, silent
from kgen.resolve_types import Value, convert
from kgen.terms import Expr, Size
from kgen.types import I32


def names_in(node: s.Node) -> Iterator[s.Name]:
    """Yield the names in an expression over sizes."""
    match node:
        case s.Name():
            yield node
        case s.Operator(args=args) | s.Call(args=args):
            for arg in args:
                yield from names_in(arg)


def find_sizes(scope: Scope) -> None:
    """Put all names of sizes into the scope: those of `sizes`, and capitalised names in extents, dims, definitions."""
    model = scope.spec.model
    scope.sizes.update(model.sizes)
    places = [a.extent for a in model.axes.values()]
    places += [d for t in model.tensors.values() for d in t.dims]
    places += [z.definition for z in model.sizes.values() if z.definition is not None]
    known = {*model.axes, *model.params, *model.tensors, *model.dtypes}
    for place in places:
        for name in names_in(place):
            if name.name not in known and name.name[0].isupper():
                scope.sizes.add(name.name)


def resolve_axes(scope: Scope) -> None:
    """Put the axes into the scope."""
    for name, model in scope.spec.model.axes.items():
        with scope.collect(name):
            place = scope.spec.span("axes", name, key=True)
            extent = extent_of(scope, model.extent)
            if model.in_ is not None and not isinstance(extent, Size):
                raise fail(
                    scope.spec.span("axes", name, "in"),
                    f"'in' lists the values of a size, and the extent of '{name}' is none",
                )
            split = model.split.count if model.split is not None else None
            scope.axes[name] = Axis(
                name,
                extent,
                model.in_,
                model.tile,
                bool(model.stream),
                split if isinstance(split, int) else None,
                span=place,
            )


def extent_of(scope: Scope, node: s.Node) -> Expr:
    """Return an extent as an i32 expression over sizes."""
    if any(isinstance(n, s.Element) for n in _walk(node)):
        raise fail(node.span, "not built yet: extents that depend on data")
    return convert(Value(Resolver(scope, sizes_only=True).integer(node)), I32)


def _walk(node: s.Node) -> Iterator[s.Node]:
    yield node
    for child in getattr(node, "args", ()):
        yield from _walk(child)


def dim_of(scope: Scope, node: s.Node) -> Expr:
    """Return a dim as an extent: an axis stands for its extent."""
    if isinstance(node, s.Name):
        if node.name in scope.axes:
            return scope.axes[node.name].extent
        if node.name in scope.broken:
            raise silent()
        if node.name not in scope.sizes:
            raise fail(
                node.span, f"there is no axis or size '{node.name}'", nearest(node.name, [*scope.axes, *scope.sizes])
            )
    return extent_of(scope, node)
