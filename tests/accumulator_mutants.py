"""Systematic corruptions of accumulator records: every single change of an operator, literal, name or identity.

The arguments of operators that commute are not swapped: that changes no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from kgen.accumulators import Record
from kgen.terms import Apply, Const, Expr, Get, Reduce, Var, children, walk, with_children
from kgen.types import BOOL

SWAPS = {
    "add": ("sub",), "sub": ("add",), "mul": ("div", "add"), "div": ("mul",), "safe_div": ("mul",),
    "lt": ("le", "gt"), "le": ("lt", "ge"), "gt": ("ge", "lt"), "ge": ("gt", "le"), "eq": ("ne",), "ne": ("eq",),
    "maximum": ("minimum", "add"), "minimum": ("maximum",), "and": ("or",), "or": ("and",), "exp": ("exp2",),
    "log": ("log2",),
}  # fmt: skip
COMMUTATIVE = {"add", "mul", "maximum", "minimum", "and", "or", "eq", "ne"}
REDUCTIONS = {"sum": "max", "max": "min", "min": "max", "any": "all", "all": "any"}
FIELDS = ("lift", "merge", "update", "update_tile", "finish", "direct")


class Mutant(NamedTuple):
    """A corrupted record: the field and entry it was changed in, and the change in words."""

    field: str
    change: str
    record: Record


def mutants(record: Record) -> Iterator[Mutant]:
    """Yield every record that differs from `record` by one change."""
    for field in FIELDS:
        entries = getattr(record, field) or ()
        for i, (name, e) in enumerate(entries):
            for change, new in changes(e):
                if any(isinstance(x, Get) and x.var.name.startswith("new.") for x in walk(new)):
                    continue  # the new state has no prefix outside `rescale`
                changed = (*entries[:i], (name, new), *entries[i + 1 :])
                yield Mutant(f"{field}.{name}", change, replace(record, **{field: changed}))
    for field in ("weight", "rescale"):
        e = getattr(record, field)
        if e is not None:
            for change, new in (*changes(e), ("dropped", Const(e.dtype, 1.0))):
                yield Mutant(field, change, replace(record, **{field: new}))
    for i, state in enumerate(record.states):
        for value in (True, False) if state.dtype is BOOL else (-math.inf, math.inf, -1, 0, 1, 5):
            if (state.dtype.is_float or abs(value) < math.inf) and value != state.identity:
                states = (*record.states[:i], replace(state, identity=value), *record.states[i + 1 :])
                yield Mutant(f"state.{state.name}", f"identity {value}", replace(record, states=states))


def changes(e: Expr) -> Iterator[tuple[str, Expr]]:
    """Yield (words, expression) for every single change in `e`."""
    text = show(e)
    for new in replacements(e):
        yield f"{text} -> {show(new)}", new
    for i, child in enumerate(children(e)):
        for change, new in changes(child):
            parts = children(e)
            yield change, with_children(e, (*parts[:i], new, *parts[i + 1 :]))


def replacements(e: Expr) -> Iterator[Expr]:
    match e:
        case Apply(fn=fn, args=args):
            for other in SWAPS.get(fn, ()):
                yield replace(e, fn=other)
            if len(args) > 1 and fn not in COMMUTATIVE:
                yield replace(e, args=(*args[:-2], args[-1], args[-2]))
            yield from (a for a in args if a.dtype is e.dtype)
        case Const(value=value) if e.dtype is not BOOL and value == value:
            yield replace(e, value=value + 1 if math.isfinite(value) else -value)
            if value == 1:
                yield replace(e, value=2 * value)
        case Get(var=var):
            other = {"a": "b", "b": "a", "old": "new", "new": "old"}
            prefix, dot, name = var.name.partition(".")
            if prefix in other and dot:
                yield replace(e, var=replace(var, name=f"{other[prefix]}.{name}"))
        case Reduce(name=name) if name in REDUCTIONS:
            yield replace(e, name=REDUCTIONS[name])


def show(e: Expr) -> str:
    match e:
        case Apply(fn=fn, args=args):
            return f"{fn}({', '.join(map(show, args))})"
        case Reduce(name=name, arg=arg):
            return f"{name}[.]({show(arg)})"
        case Get(var=Var(name=name)):
            return name
        case Const(value=value):
            return f"{value:g}"
    return f"{type(e).__name__.lower()}({', '.join(map(show, children(e)))})"
