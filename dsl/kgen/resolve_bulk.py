"""Bounds of expressions with helpers and intermediates written out: later stages walk them recursively, as trees."""

from __future__ import annotations

from kgen.errors import fail
from kgen.parse import MAX_DEPTH
from kgen.resolve_scope import Bulk, Scope
from kgen.source import Span
from kgen.terms import Expr, Ref, children

MAX_NODES = 20_000


def check_bulk(scope: Scope, e: Expr, span: Span) -> Bulk:
    """Return the number of nodes and the depth of `e` with intermediates written out; raise SpecError if too large."""
    found = _bulk(scope, e, {})
    if found.nodes > MAX_NODES:
        message = f"more than {MAX_NODES} operations, with helpers and intermediates written out"
        raise fail(span, message, "store a part as an output, and read that")
    if found.depth > MAX_DEPTH:
        message = f"nested deeper than {MAX_DEPTH} levels, with helpers and intermediates written out"
        raise fail(span, message, "reduce over an axis instead of writing the terms out")
    return found


def _bulk(scope: Scope, e: Expr, known: dict[int, Bulk]) -> Bulk:
    if isinstance(e, Ref) and e.name in scope.bulk:
        return scope.bulk[e.name]
    found = known.get(id(e))
    if found is None:
        parts = [_bulk(scope, c, known) for c in children(e)]
        nodes = 1 + sum(p.nodes for p in parts)
        found = known[id(e)] = Bulk(nodes, 1 + max((p.depth for p in parts), default=0))
    return found
