"""Names for the ends of segments, so that an end is computed once and read by every segment and end that needs it."""

from __future__ import annotations

import sympy

from kgen.index_sympy import Maximum, Minimum, Table
from kgen.mask_segments import Mark
from kgen.terms import Get, Var
from kgen.types import I32

Known = list[tuple[sympy.Expr, sympy.Expr]]


def named(marks: list[Mark], axis: str, table: Table) -> tuple[list[tuple[Var, sympy.Expr]], Known]:
    """Return definitions of scalars `<axis>_<role>`, each reading only earlier ones, and the short form of every mark.

    Marks that are a literal or a symbol get no name. From the second piece on, names end in its number.
    """
    lets: list[tuple[Var, sympy.Expr]] = []
    known: Known = []
    for mark in marks:
        if any(mark.value == value for value, _ in known):
            continue
        shown = _abbreviated(mark.shown, known)
        if not shown.is_Atom:
            var = Var(f"{axis}_{mark.role}{mark.piece if mark.piece > 1 else ''}", I32, ())
            lets.append((var, shown))
            shown = table.symbol(Get(I32, var))
        known.append((mark.value, shown))
    return lets, known


def _abbreviated(e: sympy.Expr, known: Known) -> sympy.Expr:
    """Replace the values of `known` in `e` by their short forms, also among the arguments of a minimum or maximum."""
    for value, short in reversed(known):
        if e == value:
            return short
        if isinstance(e, Minimum | Maximum) and type(e) is type(value) and set(value.args) < set(e.args):
            return _abbreviated(e.func(*(a for a in e.args if a not in value.args), short), known)
    return e.func(*(_abbreviated(a, known) for a in e.args)) if e.args else e
