"""Folds: what the accumulate stage makes of the reductions of a spec."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgen.accumulators import Record
from kgen.math import Math, Stmt
from kgen.source import Span
from kgen.terms import Expr, Var
from kgen.types import DType

Operands = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Carried:
    """One more sum of a fold: the final value of sum(weight * expr), in variable `var`.

    `cast`: the type that the weight is rounded to as an operand of a Dot, None for the type of its partner.
    """

    var: Var
    expr: Expr
    cast: DType | None = None


@dataclass(frozen=True)
class Fold:
    """A record's state over the elements of `axes` for which `guard` holds.

    `source` is the element as written, `arg` as the record takes it (scaled, for records in powers of two).
    `states` are the variables of the final state, in the record's order; their axes are the fold's free axes.
    """

    name: str
    record: Record
    axes: tuple[str, ...]
    guard: Expr | None
    source: Expr
    arg: Expr
    states: tuple[Var, ...]
    carried: tuple[Carried, ...]
    operands: Operands
    weight: Expr | None = None  # the weight of an element under the final state, 0 outside the guard
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Result:
    """A statement that stores: `tensor[index] = expr` (intermediates have been inlined)."""

    stmt: Stmt
    expr: Expr
    index: tuple[Expr, ...]


@dataclass(frozen=True)
class Folded:
    """`folds` in dependence order; `origin`: the statement that an expression is of; `casts`: types for Dot use."""

    math: Math
    folds: tuple[Fold, ...]
    results: tuple[Result, ...]
    origin: dict[Expr, str]
    casts: dict[Expr, DType]

    def fold_of(self, var: Var) -> Fold:
        """Return the fold whose state or carried sum `var` is."""
        return next(f for f in self.folds if var in f.states or any(var == c.var for c in f.carried))
