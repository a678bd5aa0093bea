"""Tensors and params: dims, dtypes, value contracts, fast layouts, defaults."""

from __future__ import annotations

from kgen import syntax as s
from kgen.errors import fail, nearest
from kgen.math import ParamDef, Tensor, Values
from kgen.resolve_expr import Resolver
from kgen.resolve_scope import Scope, silent
from kgen.resolve_sizes import dim_of
from kgen.resolve_types import convert
from kgen.spec_model import TensorModel
from kgen.terms import Cast, Const, Expr
from kgen.types import BOOL, F32, DType

# kind -> (number of arguments, classes of dtype it is for)
_KINDS = {
    "normal": (0, ("float",)),
    "uniform": (2, ("float", "int", "uint")),
    "index": (1, ("int", "uint")),
    "permutation": (1, ("int", "uint")),
    "offsets": (1, ("int", "uint")),
    "lengths": (1, ("int", "uint")),
    "bool": (1, ("bool",)),
    "finite": (0, ("float",)),
}


def resolve_tensors(scope: Scope) -> None:
    """Put the tensors into the scope."""
    for name, model in scope.spec.model.tensors.items():
        with scope.collect(name):
            scope.tensors[name] = _tensor(scope, name, model)
    for name in scope.spec.model.layouts:
        if name not in scope.spec.model.tensors:
            place = scope.spec.span("layouts", name, key=True)
            scope.report(place, f"unknown tensor '{name}'", nearest(name, scope.spec.model.tensors))
    for tensor in scope.tensors.values():
        with scope.collect():
            _check_inplace(scope, tensor)


def _tensor(scope: Scope, name: str, model: TensorModel) -> Tensor:
    spec = scope.spec
    dtype = scope.dtype(model.dtype, spec.span("tensors", name, "dtype"))
    if model.out and model.values is not None:
        raise fail(
            spec.span("tensors", name, "values", key=True), "an output has no 'values': they are a contract for inputs"
        )
    for key, used in (("fill", model.fill is not None), ("inplace", model.inplace is not None)):
        if used and not model.out:
            raise fail(spec.span("tensors", name, key, key=True), f"'{key}' is for outputs (out: true)")
    return Tensor(
        name=name,
        dims=tuple(dim_of(scope, d) for d in model.dims),
        dtype=dtype,
        out=model.out,
        values=_values(scope, name, model, dtype),
        fast=_fast(scope, name, model),
        inplace=model.inplace,
        fill=model.fill,
        span=spec.span("tensors", name, key=True),
    )


def _check_inplace(scope: Scope, tensor: Tensor) -> None:
    if tensor.inplace is None:
        return
    place = scope.spec.span("tensors", tensor.name, "inplace")
    other = scope.tensors.get(tensor.inplace)
    if tensor.inplace in scope.broken:
        raise silent()
    if other is None or other.out:
        known = [t.name for t in scope.tensors.values() if not t.out]
        raise fail(place, f"'{tensor.inplace}' is no input", nearest(tensor.inplace, known))
    if (other.dims, other.dtype) != (tensor.dims, tensor.dtype):
        raise fail(place, f"'{tensor.name}' overwrites '{other.name}', so their dims and dtypes must be equal")


def _values(scope: Scope, name: str, model: TensorModel, dtype: DType) -> Values:
    if model.values is not None:
        return Values(tuple(_part(scope, part, dtype) for part in model.values))
    if dtype.is_float or model.out:
        return Values((("normal", ()),))
    if dtype is BOOL:
        return Values((("bool", (Const(F32, 0.5),)),))
    place = scope.spec.span("tensors", name, key=True)
    raise fail(place, f"the integer tensor '{name}' needs 'values'", "such as values: index(N) for 0 <= value < N")


def _part(scope: Scope, part: s.Node, dtype: DType) -> tuple[str, tuple[Expr, ...]]:
    assert isinstance(part, s.ValueSet)
    resolver = Resolver(scope, sizes_only=True)
    args = tuple(resolver.value(a) for a in part.args)
    if part.kind == "literal":
        if any(not a.weak and a.dtype is not BOOL for a in args):
            raise fail(part.span, "expected literals between '{' and '}'")
        return "literal", tuple(convert(a, dtype) for a in args)
    if part.kind not in _KINDS:
        raise fail(part.span, f"unknown values '{part.kind}'", nearest(part.kind, _KINDS))
    count, kinds = _KINDS[part.kind]
    if len(args) != count:
        raise fail(part.span, f"'{part.kind}' takes {count} argument{'s' * (count != 1)}, not {len(args)}")
    if dtype.kind not in kinds:
        raise fail(part.span, f"'{part.kind}' are not values of type {dtype}")
    wanted = F32 if part.kind in ("uniform", "bool") else None
    return part.kind, tuple(convert(a, wanted or a.dtype) for a in args)


def _fast(scope: Scope, name: str, model: TensorModel) -> tuple[int, ...]:
    layout = scope.spec.model.layouts.get(name)
    if layout is None:
        return (len(model.dims) - 1,) if model.dims else ()
    found = []
    for i, entry in enumerate(layout):
        if entry not in model.dims:
            place = scope.spec.span("layouts", name, i)
            raise fail(place, f"'{name}' has no such dimension", "write it as in 'dims'")
        found.append(model.dims.index(entry))
    return tuple(found)


def resolve_params(scope: Scope) -> None:
    """Put the params into the scope."""
    for name, model in scope.spec.model.params.items():
        with scope.collect(name):
            dtype = scope.dtype(model.dtype, scope.spec.span("params", name, "dtype"))
            default = None if model.default is None else _default(scope, model.default, dtype)
            scope.params[name] = ParamDef(name, dtype, default, model.static)


def _default(scope: Scope, node: s.Node, dtype: DType) -> Expr:
    value = Resolver(scope, sizes_only=True).value(node)
    if (value.dtype is BOOL) != (dtype is BOOL) or (value.dtype.is_float and dtype.is_int):
        raise fail(node.span, f"a default of type {value.dtype} does not fit a parameter of type {dtype}")
    wide = F32 if dtype.is_float and dtype.bits == 16 else dtype
    default = convert(value, wide)
    return default if wide is dtype else Cast(dtype, default)
