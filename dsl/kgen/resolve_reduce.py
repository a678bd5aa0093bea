"""Reductions: which accumulator record serves a name, and where the mask of the spec applies."""

from __future__ import annotations

from kgen import syntax as s
from kgen.accumulators import Record
from kgen.errors import fail, nearest
from kgen.resolve_scope import Scope, silent
from kgen.spec_model import UseModel
from kgen.terms import Apply, Expr, free_axes
from kgen.types import BOOL


def chosen(scope: Scope, node: s.Reduction) -> tuple[Record, tuple[tuple[str, s.Node], ...]]:
    """Return the record for a reduction's name, and the expressions given for its operands; raise SpecError."""
    use = scope.spec.model.accumulate.get(node.name)
    if use is not None:
        record = scope.records.get(use.use)
        if record is None or node.name not in record.names or set(record.operands) - set(use.operands):
            raise silent()  # reported by check_accumulate
        return record, tuple((k, use.operands[k]) for k in record.operands)
    own = scope.records.get(node.name)
    if own is not None and node.name in own.names and not own.operands:
        return own, ()
    offered = [r for r in scope.records.values() if node.name in r.names]
    plain = [r for r in offered if not r.operands]
    if len(plain) == 1:
        return plain[0], ()
    if offered:
        names = ", ".join(sorted(r.name for r in offered))
        raise fail(
            node.span,
            f"'{node.name}' is offered by several records: {names}",
            f"choose: accumulate: {{{node.name}: ...}}",
        )
    raise _unknown(scope, node)


def _unknown(scope: Scope, node: s.Reduction) -> Exception:
    if node.name in scope.tensors:
        return fail(
            node.span, f"'{node.name}' is a tensor, and no reduction", f"write {node.name}[...] * (...) for a product"
        )
    names = {n for r in scope.records.values() for n in r.names}
    return fail(
        node.span,
        f"unknown reduction '{node.name}'",
        nearest(node.name, names) or f"known are {', '.join(sorted(names))}",
    )


def check_accumulate(scope: Scope) -> None:
    """Report choices in `accumulate` that name no reduction, no record, or not the operands of the record."""
    names = {n for r in scope.records.values() for n in r.names}
    for name, use in scope.spec.model.accumulate.items():
        with scope.collect():
            _check_use(scope, name, use, names)


def _check_use(scope: Scope, name: str, use: UseModel, names: set[str]) -> None:
    key = scope.spec.span("accumulate", name, key=True)
    record = scope.records.get(use.use)
    if name not in names:
        raise fail(key, f"no accumulator offers '{name}'", nearest(name, names))
    if record is None:
        raise fail(
            scope.spec.span("accumulate", name), f"unknown accumulator '{use.use}'", nearest(use.use, scope.records)
        )
    if name not in record.names:
        raise fail(key, f"accumulator '{record.name}' has no result '{name}'", f"it has {', '.join(record.names)}")
    for operand in use.operands:
        if operand not in record.operands:
            place = scope.spec.span("accumulate", name, operand, key=True)
            raise fail(
                place, f"accumulator '{record.name}' has no operand '{operand}'", nearest(operand, record.operands)
            )
    for operand in record.operands:
        if operand not in use.operands:
            hint = f"write {{use: {record.name}, {operand}: expression}}"
            raise fail(key, f"accumulator '{record.name}' needs the operand '{operand}'", hint)


def masked(
    scope: Scope, node: s.Reduction, axes: tuple[str, ...], guard: Expr | None, free: frozenset[str]
) -> Expr | None:
    """Return the guard of a reduction over `axes`: its own, and the mask if that speaks of one of `axes`.

    The other axes of the mask must be in `free`, the axes in scope; else it is unknown which elements the mask keeps.
    """
    mask = scope.mask
    if mask is None or not free_axes(mask) & set(axes):
        return guard
    missing = [a for a in scope.axes if a in free_axes(mask) - set(axes) - free]
    if missing:
        bound = next(a for a in axes if a in free_axes(mask))
        message = f"the mask relates '{bound}' to '{missing[0]}', which is not in scope here"
        hint = f"use '{missing[0]}' in the reduction, or write guards, {node.name}[{bound} if ...](...), for the mask"
        raise fail(node.span, message, hint)
    return mask if guard is None else Apply(BOOL, "and", (guard, mask), span=guard.span)
