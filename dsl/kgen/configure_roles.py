"""Roles of axes in a kernel: part of the grid, walked in a loop (stream), or held whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from kgen.errors import Diagnostic
from kgen.math import Math, Stmt
from kgen.resolve_constants import Number, evaluate
from kgen.source import Span
from kgen.terms import Expr, Reduce, Ref, free_axes, walk

Role = Literal["grid", "stream", "whole"]


def closure(math: Math, roots: Iterable[str], cut: frozenset[str]) -> tuple[Stmt, ...]:
    """Return the statements of one kernel: `roots` and all they need, up to those in `cut`, which are loaded."""
    wanted, queue = set(roots), list(roots)
    while queue:
        for name in _needs(math.statement(queue.pop())):
            if name not in wanted and name not in cut:
                wanted.add(name)
                queue.append(name)
    return tuple(x for x in math.statements if x.name in wanted)


def _needs(statement: Stmt) -> set[str]:
    return {e.name for e in walk(statement.expr) if isinstance(e, Ref)}


def reduced_axes(statements: tuple[Stmt, ...]) -> dict[str, Span | None]:
    """Return the axes that the statements reduce over, with the place of one such reduction."""
    found: dict[str, Span | None] = {}
    for statement in statements:
        for e in walk(statement.expr):
            if isinstance(e, Reduce):
                for axis in e.axes:
                    found.setdefault(axis, e.span)
    return found


def used_axes(statements: tuple[Stmt, ...]) -> set[str]:
    """Return the axes that a kernel of these statements has."""
    found = {a for x in statements for a in x.axes} | set(reduced_axes(statements))
    return found.union(*(free_axes(e) for x in statements for e in (x.expr, *x.index)))


def role(tile: int | str | None, stream: bool, split: object, extent: Expr, known: Mapping[str, Number]) -> Role:
    """Return the role of an axis from its structure fields and whether its extent is known when compiling."""
    if tile == "full":
        return "whole"
    if stream or split is not None:
        return "stream"
    if tile is None and evaluate(extent, known) is not None:
        return "whole"
    return "grid"


def check_reductions(roles: Mapping[str, Role], static: set[str], statements: tuple[Stmt, ...]) -> list[Diagnostic]:
    """Return an error for each reduction over an axis that programs share; `static`: axes of an extent known here."""
    found = []
    for axis, span in reduced_axes(statements).items():
        if roles[axis] == "grid":
            message = f"this reduces over '{axis}', an axis of the grid: each program would see only its own part"
            remedy = f"remove the tile of '{axis}', whose extent is known when compiling: then it is held whole"
            if axis not in static:
                remedy = f"give '{axis}' stream: true (with a tile), or tile: full, or a list of extents (in: [...])"
            else:
                remedy += "; or give it stream: true"
            found.append(Diagnostic(span, message, f"{remedy}, or split: {{count: ...}} to merge the parts"))
    return found


def output_axes(statements: tuple[Stmt, ...], roots: Iterable[str]) -> set[str]:
    """Return the axes that index what the kernel stores."""
    names = set(roots)
    return {a for x in statements if x.name in names for a in x.axes}
