"""Expressions: syntax trees to typed terms. Helpers are inlined; reductions get their record, guard and mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kgen import syntax as s
from kgen.errors import fail, nearest
from kgen.functions import HOST, table
from kgen.parse import MAX_DEPTH
from kgen.resolve_bulk import check_bulk
from kgen.resolve_constants import no_host_form
from kgen.resolve_reduce import chosen, masked
from kgen.resolve_scope import Scope, silent
from kgen.resolve_types import Value, apply, computed, convert, literal
from kgen.source import Span
from kgen.terms import Const, Expr, Load, Param, Pos, Reduce, Ref, Size, free_axes
from kgen.types import BOOL, F32, I32, DType

_ALIASES = {"max": "maximum", "min": "minimum"}
_CONSTANTS: dict[str, Value] = {
    "inf": Value(Const(F32, float("inf")), weak=True),
    "nan": Value(Const(F32, float("nan")), weak=True),
    "true": Value(Const(BOOL, True)),
    "false": Value(Const(BOOL, False)),
}
_UNBUILT_CALLS = {"page": "paged axes", "slot": "paged axes", "row": "ragged axes"}


@dataclass(frozen=True)
class Resolver:
    """Resolves expressions.

    `open_axes`: axes in scope around the expression; `env`: parameters of the helper being inlined; `inlining`: helpers
    being inlined; `sizes_only`: names of axes, tensors and params are not allowed.
    """

    scope: Scope
    open_axes: frozenset[str] = frozenset()
    env: Mapping[str, Value] = field(default_factory=dict)
    inlining: tuple[str, ...] = ()
    sizes_only: bool = False
    depth: int = 0

    def value(self, node: s.Node) -> Value:
        """Return `node` typed; raise SpecError."""
        if self.depth > MAX_DEPTH:
            raise fail(node.span, f"nested deeper than {MAX_DEPTH} levels", "name parts of the expression")
        inner = replace(self, depth=self.depth + 1)
        match node:
            case s.Number(value=value):
                return literal(value, node.span)
            case s.Name():
                return self.name(node)
            case s.Operator(fn=fn, args=args):
                return apply(fn, tuple(inner.value(a) for a in args), node.span)
            case s.Call():
                return inner.call(node)
            case s.Convert():
                return inner.cast(node)
            case s.Element() | s.Reduction() if self.sizes_only:
                raise fail(node.span, "expected an expression over sizes")
            case s.Element():
                return inner.element(node)
            case s.Reduction():
                return inner.reduction(node)
        raise TypeError(f"no expression: {node}")

    def integer(self, node: s.Node) -> Expr:
        """Return `node` as an integer expression."""
        value = self.value(node)
        if not value.dtype.is_int:
            raise fail(node.span, f"expected an integer, not a value of type {value.dtype}")
        return computed(value).expr

    def condition(self, node: s.Node, what: str) -> Expr:
        """Return `node` as a bool expression; `what` names it in the error."""
        value = self.value(node)
        if value.dtype is not BOOL:
            raise fail(node.span, f"{what} must be bool, not {value.dtype}")
        return value.expr

    def name(self, node: s.Name) -> Value:
        name, scope = node.name, self.scope
        if name in self.env:
            return self.env[name]
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return replace(constant, expr=replace(constant.expr, span=node.span))
        if name in scope.broken:
            raise silent()
        if name in scope.sizes:
            return Value(Size(I32, name, span=node.span))
        if self.sizes_only:
            raise self._not_a_size(node)
        if name in scope.axes:
            return Value(Pos(I32, name, span=node.span))
        if name in scope.params:
            return computed(Value(Param(scope.params[name].dtype, name, span=node.span)))
        if name in scope.statements and scope.statements[name].tensor is None:
            found = scope.statements[name]
            return computed(Value(Ref(found.expr.dtype, name, found.axes, span=node.span)))
        raise self._unknown(node.span, name)

    def _not_a_size(self, node: s.Name) -> Exception:
        if node.name in self.scope.spec.model.axes:
            return fail(
                node.span, f"'{node.name}' is an axis, and here only sizes are known", "use the size it extends over"
            )
        return fail(node.span, f"unknown size '{node.name}'", nearest(node.name, self.scope.sizes))

    def _unknown(self, span: Span, name: str) -> Exception:
        model, scope = self.scope.spec.model, self.scope
        if name in scope.tensors:
            return fail(span, f"'{name}' is a tensor: write {name}[...] for an element of it")
        if name in model.dtypes:
            return fail(span, f"'{name}' is a type variable", f"cast[{name}](x) converts to it")
        later = [d for d in model.compute if isinstance(d, s.Define) and d.name == name]
        if later:
            return fail(span, f"'{name}' is used before it is defined, in line {later[0].span.line}")
        return fail(span, f"unknown name '{name}'", nearest(name, scope.names()))

    def call(self, node: s.Call) -> Value:
        if node.name == "size":
            return self.size_of(node)
        if node.name in _UNBUILT_CALLS:
            raise fail(node.span, f"not built yet: {_UNBUILT_CALLS[node.name]}, which define '{node.name}(...)'")
        helper = self.scope.helpers.get(node.name) or self.scope.macros.get(node.name)
        if helper is not None:
            return self.inline(helper, node)
        fn = _ALIASES.get(node.name, node.name)
        row = table().get(fn)
        if row is None or row.operator or row.internal:
            raise self._no_function(node)
        if self.sizes_only and HOST not in row.forms:
            raise fail(node.span, *no_host_form(fn))
        return apply(fn, tuple(self.value(a) for a in node.args), node.span)

    def _no_function(self, node: s.Call) -> Exception:
        if node.name in self.scope.tensors:
            return fail(node.span, f"'{node.name}' is a tensor: write {node.name}[...] with square brackets")
        if any(node.name in r.names for r in self.scope.records.values()):
            return fail(node.span, f"'{node.name}' is a reduction", f"name the axis it reduces: {node.name}[n](...)")
        known = [f.name for f in table().values() if not f.operator and not f.internal]
        return fail(
            node.span,
            f"unknown function '{node.name}'",
            nearest(node.name, [*known, *_ALIASES, *self.scope.helpers, *self.scope.macros]),
        )

    def size_of(self, node: s.Call) -> Value:
        """`size(axis)`: the extent of an axis."""
        arg = self.value(node.args[0]).expr if len(node.args) == 1 else None
        if not isinstance(arg, Pos):
            raise fail(node.span, "size(...) takes one axis")
        return Value(replace(self.scope.axes[arg.axis].extent, span=node.span))

    def inline(self, helper: s.Helper, node: s.Call) -> Value:
        if helper.name in self.inlining:
            raise fail(node.span, f"'{helper.name}' calls itself: {' -> '.join((*self.inlining, helper.name))}")
        if len(node.args) != len(helper.params):
            wanted = f"{helper.name}({', '.join(helper.params)})"
            raise fail(
                node.span,
                f"'{helper.name}' takes {len(helper.params)} arguments, not {len(node.args)}",
                f"it is {wanted}",
            )
        env = {p: self.value(a) for p, a in zip(helper.params, node.args, strict=True)}
        value = replace(self, env=env, inlining=(*self.inlining, helper.name)).value(helper.body)
        check_bulk(self.scope, value.expr, node.span)
        return value

    def cast(self, node: s.Convert) -> Value:
        value, dtype = self.value(node.arg), self.scope.dtype(node.dtype, node.span)
        if dtype is BOOL and value.dtype is not BOOL:
            raise fail(node.span, "a number is not cast to bool", "compare it, such as 'x != 0'")
        return Value(convert(value, dtype))

    def element(self, node: s.Element) -> Value:
        name, scope = node.tensor, self.scope
        if name in scope.broken:
            raise silent()
        tensor = scope.tensors.get(name)
        if tensor is None:
            raise self._no_tensor(node)
        if len(node.index) != len(tensor.dims):
            raise fail(
                node.span, f"'{name}' has {len(tensor.dims)} dimensions, and {len(node.index)} indices are given"
            )
        index = tuple(self.integer(i) for i in node.index)
        if tensor.out:
            return self.reread(node, index)
        return computed(Value(Load(tensor.dtype, name, index, span=node.span)))

    def _no_tensor(self, node: s.Element) -> Exception:
        name = node.tensor
        if name in self.scope.statements:
            return fail(node.span, f"'{name}' is a named intermediate: write it without indices")
        known = [*self.scope.tensors]
        return fail(node.span, f"unknown tensor '{name}'", nearest(name, known))

    def reread(self, node: s.Element, index: tuple[Expr, ...]) -> Value:
        """An output read again is a value, at the positions it was written at."""
        found = self.scope.statements.get(node.tensor)
        if found is None:
            raise fail(node.span, f"the output '{node.tensor}' is read before the statement that writes it")
        if index != found.index:
            hint = f"write it as on its left side: {found.text.split('=')[0].strip()}"
            raise fail(
                node.span,
                f"the output '{node.tensor}' is a value here, and can be read at its own positions only",
                hint,
            )
        return computed(Value(Ref(found.expr.dtype, node.tensor, found.axes, span=node.span)))

    def reduction(self, node: s.Reduction) -> Value:
        axes = tuple(self.axis(a) for a in node.axes)
        if len(set(axes)) != len(axes):
            raise fail(node.span, f"'{node.name}' reduces over an axis twice")
        inner = replace(self, open_axes=self.open_axes | set(axes))
        record, operand_nodes = chosen(self.scope, node)
        arg = inner.value(node.arg)
        guard = inner.condition(node.guard, "a guard") if node.guard is not None else None
        if not record.accepts(arg.dtype):
            hint = "write where(condition, 1, 0) to count" if arg.dtype is BOOL else "compare first, such as 'x != 0'"
            raise fail(node.arg.span, f"'{node.name}' cannot reduce values of type {arg.dtype}", hint)
        typed = convert(arg, record.at(arg.dtype).input_dtype)
        free = free_axes(typed) | (free_axes(guard) if guard is not None else frozenset())
        operands = tuple((k, self.operand(record.at(arg.dtype).input_dtype, v)) for k, v in operand_nodes)
        return Value(
            Reduce(
                record.finish_dtype(node.name, typed.dtype),
                node.name,
                record.name,
                axes,
                masked(self.scope, node, axes, guard, free | self.open_axes),
                typed,
                operands,
                record.elementwise(node.name),
                span=node.span,
            )
        )

    def operand(self, dtype: DType, node: s.Node) -> Expr:
        value = self.value(node)
        if value.dtype is BOOL:
            raise fail(node.span, "an operand of an accumulator must be a number, not bool")
        return convert(value, dtype)

    def axis(self, node: s.Name) -> str:
        """Return the axis that a reduction names (in a helper, the axis given for its parameter)."""
        given = self.env.get(node.name)
        if given is not None and isinstance(given.expr, Pos):
            return given.expr.axis
        if node.name not in self.scope.axes:
            if node.name in self.scope.broken:
                raise silent()
            raise fail(node.span, f"unknown axis '{node.name}'", nearest(node.name, self.scope.axes))
        return node.name
