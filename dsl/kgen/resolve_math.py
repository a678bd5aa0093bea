"""Resolve: a spec and a choice of dtypes to typed math. All errors of the spec are collected and raised at once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kgen import resources
from kgen import syntax as s
from kgen.accumulators import load_records
from kgen.errors import SpecError, fail, nearest
from kgen.math import Check, Conventions, Math, Stmt
from kgen.parse import parse_statement
from kgen.resolve_bind import bind_sizes
from kgen.resolve_bulk import check_bulk
from kgen.resolve_expr import Resolver
from kgen.resolve_reduce import check_accumulate
from kgen.resolve_scope import Scope, silent
from kgen.resolve_sizes import find_sizes, resolve_axes
from kgen.resolve_store import left_side
from kgen.resolve_tensors import resolve_params, resolve_tensors
from kgen.resolve_types import Value, convert
from kgen.resolve_uses import check_free, check_names, check_used
from kgen.source import Source
from kgen.spec import Spec
from kgen.spec_names import reason_against
from kgen.spec_yaml import clean, read
from kgen.terms import Cast, Expr, free_axes
from kgen.types import BOOL, DType, compute_dtype


def resolve(spec: Spec, dtypes: Mapping[str, DType]) -> Math:
    """Return the typed math of `spec` with its type variables set to `dtypes`; raise SpecError with every diagnostic.

    The result has every conversion as a `Cast` (loads of 16-bit floats to f32, a store to the tensor's dtype
    outermost), every reduction with its record and with guard and mask as one condition, and sizes in an order in which
    they can be computed. The op compares each argument's shape with `Tensor.dims`; `checks` are the other conditions.
    """
    _check_dtypes(spec, dtypes)
    scope = Scope(spec, dict(dtypes), load_records(spec.records), macros())
    check_names(scope)
    find_sizes(scope)
    resolve_axes(scope)
    resolve_tensors(scope)
    resolve_params(scope)
    sizes = bind_sizes(scope)
    checks = _requirements(scope)
    check_accumulate(scope)
    _mask(scope)
    checks += _statements(scope)
    check_used(scope)
    casts = _casts(scope)
    if scope.diagnostics or scope.broken:
        raise SpecError(
            sorted(set(scope.diagnostics), key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0))
        )
    conventions = spec.model.conventions
    return Math(
        name=spec.name,
        doc=spec.model.doc,
        source=spec.source,
        dtypes=dict(dtypes),
        axes=scope.axes,
        sizes=sizes,
        tensors=scope.tensors,
        params=scope.params,
        checks=tuple(dict.fromkeys(checks)),
        statements=tuple(scope.statements.values()),
        casts=casts,
        conventions=Conventions(conventions.empty or ("nan" if scope.mask is None else "zero"), conventions.f32_dot),
        reference=spec.model.reference,
        masked=scope.mask is not None,
        records=spec.records,
    )


@cache
def macros() -> dict[str, s.Helper]:
    """Return the shipped predicates (specs/predicates.yaml) by name."""
    path = resources.path("specs") / "predicates.yaml"
    found = {}
    for name, text in read(Source(str(path), clean(path.read_text(encoding="utf-8")))).items():
        helper = parse_statement(str(text), text.span.source, text.span.line, text.column)
        if not isinstance(helper, s.Helper) or helper.name != name:
            raise fail(text.span, f"expected a definition such as {name}(m, n) = ...")
        found[str(name)] = helper
    return found


def _check_dtypes(spec: Spec, dtypes: Mapping[str, DType]) -> None:
    for name, choices in spec.model.dtypes.items():
        given = dtypes.get(name)
        if given is None or given.name not in choices:
            what = "is not given" if given is None else f"is {given}"
            raise fail(
                spec.span("dtypes", name), f"the type variable '{name}' {what}", f"it can be {', '.join(choices)}"
            )
    for name in dtypes:
        if name not in spec.model.dtypes:
            raise fail(None, f"'{name}' is no type variable of '{spec.name}'", nearest(name, spec.model.dtypes))


def _requirements(scope: Scope) -> list[Check]:
    checks = []
    for node in scope.spec.model.require:
        with scope.collect():
            condition = Resolver(scope, sizes_only=True).condition(node, "a requirement")
            line = node.span.source.line(node.span.line)
            checks.append(Check(condition, line[node.span.column - 1 :][: node.span.length]))
    return checks


def _mask(scope: Scope) -> None:
    node = scope.spec.model.mask
    if node is not None:
        with scope.collect():
            mask = Resolver(scope).condition(node, "the mask")
            if not free_axes(mask):
                raise fail(node.span, "the mask names no axis, so it says nothing about any element")
            scope.mask = mask


def _statements(scope: Scope) -> list[Check]:
    checks: list[Check] = []
    _helpers(scope)
    number = 0
    for node in scope.spec.statements:
        if isinstance(node, s.Helper):
            continue
        number += 1
        name = node.name if isinstance(node, s.Define) else node.tensor
        with scope.collect(name):
            if name in scope.statements:
                raise fail(node.span, f"'{name}' is defined twice, first in line {scope.statements[name].span.line}")  # type: ignore[union-attr]
            if isinstance(node, s.Define):
                scope.statements[name] = _define(scope, node, f"s{number}")
            else:
                scope.statements[name], found = _store(scope, node, f"s{number}")
                checks += found
    return checks


def _helpers(scope: Scope) -> None:
    taken = {*scope.axes, *scope.sizes, *scope.params, *scope.tensors}
    for node in scope.spec.statements:
        if isinstance(node, s.Helper):
            names = [node.name, *node.params]
            problem = next((r for n in names if (r := reason_against(n))), None)
            if problem is not None:
                scope.report(node.span, problem)
            elif node.name in scope.helpers or node.name in taken:
                scope.report(node.span, f"'{node.name}' is defined twice")
            elif len(set(node.params)) != len(node.params):
                scope.report(node.span, f"'{node.name}' has two parameters of one name")
            scope.helpers.setdefault(node.name, node)


def _define(scope: Scope, node: s.Define, number: str) -> Stmt:
    if reason := reason_against(node.name):
        raise fail(node.span, reason)
    if node.name in scope.tensors:
        tensor = scope.tensors[node.name]
        what = f"an output: write {node.name}[...] = ..." if tensor.out else "an input, and inputs are not written"
        raise fail(node.span, f"'{node.name}' is {what}")
    for kind, names in (("an axis", scope.axes), ("a size", scope.sizes), ("a parameter", scope.params)):
        if node.name in names:
            raise fail(node.span, f"'{node.name}' is {kind} already", "choose another name")
    value = Resolver(scope).value(node.value).expr
    scope.bulk[node.name] = check_bulk(scope, value, node.value.span)
    free = free_axes(value)
    return Stmt(number, node.name, tuple(a for a in scope.axes if a in free), value, node.text, span=node.span)


def _store(scope: Scope, node: s.StoreTo, number: str) -> tuple[Stmt, list[Check]]:
    tensor = scope.tensors.get(node.tensor)
    if tensor is None and node.tensor in scope.broken:
        raise silent()
    if tensor is None or not tensor.out:
        outputs = [t.name for t in scope.tensors.values() if t.out]
        what = "is an input: outputs have out: true" if tensor else "is no tensor"
        raise fail(node.span, f"'{node.tensor}' {what}", nearest(node.tensor, outputs))
    axes, index, checks = left_side(scope, node, tensor)
    value = Resolver(scope, open_axes=frozenset(axes)).value(node.value)
    scope.bulk[node.tensor] = check_bulk(scope, value.expr, node.value.span)
    check_free(value.expr, frozenset(axes), node)
    expr = _stored(value, tensor.dtype, node)
    return Stmt(number, node.tensor, axes, expr, node.text, node.tensor, index, span=node.span), checks


def _stored(value: Value, dtype: DType, node: s.StoreTo) -> Expr:
    if (value.dtype is BOOL) != (dtype is BOOL) or (value.dtype.is_float and dtype.is_int):
        hint = "write where(condition, 1, 0)" if value.dtype is BOOL else f"write cast[{dtype}](...)"
        hint = "write a comparison" if dtype is BOOL else hint
        raise fail(
            node.value.span, f"a value of type {value.dtype} cannot be stored in '{node.tensor}' of type {dtype}", hint
        )
    wide = convert(value, compute_dtype(dtype)) if value.weak else value.expr
    return wide if wide.dtype is dtype else Cast(dtype, wide, span=wide.span)


def _casts(scope: Scope) -> dict[str, DType]:
    found = {}
    for name, dtype in scope.spec.model.casts.items():
        with scope.collect():
            statement = scope.statements.get(name)
            if name not in scope.broken and (statement is None or statement.tensor is not None):
                known = [n for n, x in scope.statements.items() if x.tensor is None]
                place = scope.spec.span("casts", name, key=True)
                raise fail(place, f"'casts' names intermediates, and '{name}' is none", nearest(name, known))
            found[name] = scope.dtype(dtype, scope.spec.span("casts", name))
    return found
