"""Binding sizes from the shapes of arguments: bare dims first, then dims with one unknown, then definitions."""

from __future__ import annotations

from kgen.math import SizeDef
from kgen.resolve_scope import Scope
from kgen.resolve_sizes import extent_of
from kgen.terms import Apply, Expr, Size, apply, walk
from kgen.types import I32

EXTENT = Size(I32, "_")  # in SizeDef.solve: the extent of the dim that binds the size


def bind_sizes(scope: Scope) -> dict[str, SizeDef]:
    """Return all sizes, each after those it is computed from."""
    return _Binding(scope).run()


class _Binding:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.found: dict[str, SizeDef] = {}
        self.dims = [(t.name, i, d) for t in scope.tensors.values() if not t.out for i, d in enumerate(t.dims)]
        self.definitions: dict[str, Expr] = {}
        for name, model in scope.spec.model.sizes.items():
            if model.definition is not None:
                with scope.collect():
                    self.definitions[name] = extent_of(scope, model.definition)
        self.choices = {n: m.in_ for n, m in scope.spec.model.sizes.items() if m.in_ is not None}
        for axis in scope.axes.values():
            if axis.choices is not None and isinstance(axis.extent, Size):
                self.add_choices(axis.name, axis.extent.name, axis.choices)

    def add_choices(self, axis: str, size: str, choices: tuple[int, ...]) -> None:
        place = self.scope.spec.span("axes", axis, "in")
        if self.choices.setdefault(size, choices) != choices:
            self.scope.report(place, f"the size '{size}' is given two different lists of values")
        if size in self.definitions:
            self.scope.report(place, f"the size '{size}' is computed, and so can have no list of values")

    def run(self) -> dict[str, SizeDef]:
        for tensor, dim, extent in self.dims:
            if isinstance(extent, Size):
                self.bind(extent.name, tensor, dim, EXTENT)
        while self.define() or self.solve():
            pass
        # A size that no shape binds is an int argument; sizes computed from it come after.
        for name in sorted(self.scope.sizes - set(self.found) - set(self.definitions)):
            self.found[name] = SizeDef(name, choices=self.choices.get(name))
        while self.define():
            pass
        self.report_circles()
        return self.found

    def bind(self, name: str, tensor: str, dim: int, solve: Expr) -> bool:
        if name in self.found or name in self.definitions:
            return False
        self.found[name] = SizeDef(name, tensor, dim, solve, choices=self.choices.get(name))
        return True

    def define(self) -> bool:
        for name, definition in self.definitions.items():
            if name not in self.found and not sizes_in(definition) - set(self.found):
                self.found[name] = SizeDef(name, definition=definition)
                return True
        return False

    def solve(self) -> bool:
        for tensor, dim, extent in self.dims:
            unknown = sizes_in(extent) - set(self.found)
            if len(unknown) == 1:
                (name,) = unknown
                solution = solved(extent, name, EXTENT)
                if solution is not None and self.bind(name, tensor, dim, solution):
                    return True
        return False

    def report_circles(self) -> None:
        for name in self.definitions:
            if name not in self.found:
                place = self.scope.spec.span("sizes", name, key=True)
                self.scope.report(place, f"the size '{name}' is defined by itself, directly or in a circle")


def sizes_in(e: Expr) -> set[str]:
    """Return the names of the sizes in `e`."""
    return {x.name for x in walk(e) if isinstance(x, Size)}


def solved(e: Expr, name: str, value: Expr) -> Expr | None:
    """Return the size `name` such that `e` equals `value`, or None if `e` is not linear in one occurrence of it.

    Products are divided by `//`: the op compares the dim with `e` afterwards, so a remainder is an error there.
    """
    match e:
        case Size(name=found) if found == name:
            return value
        case Apply(fn="add" | "mul" | "sub" as fn, args=(a, b)):
            left, right = name in sizes_in(a), name in sizes_in(b)
            if left == right:
                return None
            inner, other = (a, b) if left else (b, a)
            match fn:
                case "add":
                    return solved(inner, name, apply("sub", value, other))
                case "mul":
                    return solved(inner, name, apply("floordiv", value, other))
                case "sub" if left:
                    return solved(inner, name, apply("add", value, other))
                case _:
                    return solved(inner, name, apply("sub", other, value))
    return None
