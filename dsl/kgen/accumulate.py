"""Accumulate: reductions become folds of declared accumulators.

Input: the resolved spec of one specialisation. Output: `Folded`, where no expression holds a `Reduce` any more. Each fold
has a record's state; results are formulas over the final state (`Get` of a state variable). A sum of an element-wise result
of a fold, `sum[n](softmax[n](s) * v)`, becomes one more sum carried by that fold (language.md section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kgen import accumulators
from kgen.accumulators import Record
from kgen.algebra import conjunction, conjuncts, factors, fold, product, signed_sum, substitute, terms
from kgen.math import Math, Stmt
from kgen.source import Span
from kgen.terms import (
    Apply,
    Cast,
    Const,
    Expr,
    Get,
    Reduce,
    Ref,
    Var,
    children,
    free_axes,
    rewrite,
    walk,
    with_children,
)
from kgen.types import BOOL, F32, F64, DType

Operands = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Carried:
    """One more sum of a fold: the final value of sum(weight * expr), in variable `var`."""

    var: Var
    expr: Expr


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
    """`folds` in dependence order; `origin`: which statement an expression is the value of; `casts`: types for Dot use."""

    math: Math
    folds: tuple[Fold, ...]
    results: tuple[Result, ...]
    origin: dict[Expr, str]
    casts: dict[Expr, DType]

    def fold_of(self, var: Var) -> Fold:
        """Return the fold whose state or carried sum `var` is."""
        return next(f for f in self.folds if var in f.states or any(var == c.var for c in f.carried))


def accumulate(math: Math) -> Folded:
    """Rewrite all reductions of a specialised spec to folds."""
    return _Accumulate(math).run()


class _Accumulate:
    def __init__(self, math: Math) -> None:
        self.math = math
        self.records = accumulators.load_records()
        self.folds: list[Fold] = []
        self.index: dict[tuple[object, ...], str] = {}
        self.values: dict[str, Expr] = {}
        self.origin: dict[Expr, str] = {}
        self.casts: dict[Expr, DType] = {}

    def run(self) -> Folded:
        results = []
        self.shared = _shared_records(self.math, self.records)
        for stmt in self.math.statements:
            value = self.lower(self._inline(stmt.expr), stmt)
            self.values[stmt.name] = value
            self.origin.setdefault(value, stmt.name)
            if stmt.name in self.math.casts:
                self.casts[value] = self.math.casts[stmt.name]
            if stmt.tensor is not None:
                results.append(Result(stmt, value, tuple(self.lower(self._inline(i), stmt) for i in stmt.index)))
        return Folded(self.math, tuple(self.folds), tuple(results), self.origin, self.casts)

    def _inline(self, e: Expr) -> Expr:
        """Put the (not yet folded) expressions of named statements in place of their names."""
        by_name = {s.name: s for s in self.math.statements}

        def rule(n: Expr) -> Expr | None:
            return rewrite(by_name[n.name].expr, rule) if isinstance(n, Ref) else None

        return rewrite(e, rule)

    def lower(self, e: Expr, stmt: Stmt) -> Expr:
        """Return `e` without reductions, adding the folds it needs."""
        if not isinstance(e, Reduce):
            return with_children(e, tuple(self.lower(c, stmt) for c in children(e)))
        if e.name == "sum" and (carried := self._carried_sum(e, stmt)) is not None:
            return carried
        if e.name == "sum" and len(terms(e.arg)) > 1 and any(_is_product_of_two(t, e) for _, t in terms(e.arg)):
            parts = tuple((sign, self.lower(replace(e, arg=t), stmt)) for sign, t in terms(e.arg))
            return signed_sum(parts)
        if e.name == "sum" and (split := _constant_factors(e)) is not None:
            outside, inside = split
            return fold(_times(self.lower(outside, stmt), self.lower(replace(e, arg=inside), stmt)))
        return self._finish(self._fold(e, stmt), e)

    # -- folds

    def _fold(self, e: Reduce, stmt: Stmt) -> Fold:
        """Return the fold that serves the reduction, an existing one when axes, guard, input and record agree."""
        arg = self.lower(e.arg, stmt)
        guard = None if e.guard is None else self.lower(e.guard, stmt)
        record = self.records[self.shared.get(_key(e), e.record)]
        operands = tuple((k, self.lower(x, stmt)) for k, x in e.operands)
        key = (e.axes, guard, arg, record.name, operands)
        if key not in self.index:
            self.index[key] = self._new_fold(record, e, arg, guard, operands).name
        return self._named(self.index[key])

    def _named(self, name: str) -> Fold:
        return next(f for f in self.folds if f.name == name)

    def _new_fold(
        self, record: Record, e: Reduce, arg: Expr, guard: Expr | None, operands: Operands
    ) -> Fold:
        source, typed = arg, record.at(arg.dtype)
        arg = arg if arg.dtype == typed.input_dtype else Cast(typed.input_dtype, arg)
        typed, arg, operands = _base2(typed, arg, operands)
        inner = free_axes(arg) | (free_axes(guard) if guard is not None else frozenset())
        axes = self._ordered(inner - frozenset(e.axes))
        name = f"f{len(self.folds) + 1}"
        states = tuple(Var(f"{name}.{s.name}", s.dtype, axes) for s in typed.states)
        found = Fold(name, typed, e.axes, guard, source, arg, states, (), operands, span=e.span)
        if typed.weight is not None:
            found = replace(found, weight=self._select(found, _put(typed.weight, self._names(found))))
        self.folds.append(found)
        return found

    def _ordered(self, axes: frozenset[str]) -> tuple[str, ...]:
        return tuple(a for a in self.math.axes if a in axes)

    # -- results

    def _finish(self, f: Fold, e: Reduce) -> Expr:
        """Return the result named `e.name` as a formula over the final state (and the element, if element-wise)."""
        names = self._names(f)
        if f.weight is not None:
            names["weight"] = f.weight
        if f.record.elementwise(e.name) and f.record.carries(e.name):
            factor = self._convention(f, _put(f.record.carry_factor(e.name), names))
            return _times(names["weight"], factor)
        return self._convention(f, _put(f.record.entry(e.name), names))

    def _names(self, f: Fold) -> dict[str, Expr]:
        """Return what the names in a finish formula stand for."""
        names: dict[str, Expr] = {s.name: Get(v.dtype, v) for s, v in zip(f.record.states, f.states, strict=True)}
        return names | {f.record.input: f.arg, **dict(f.operands)}

    def _select(self, f: Fold, weight: Expr) -> Expr:
        """Elements outside the guard have no weight."""
        if f.guard is None:
            return weight
        return Apply(weight.dtype, "where", (f.guard, weight, Const(weight.dtype, 0.0)))

    def _convention(self, f: Fold, value: Expr) -> Expr:
        """A result with no value of its own over no elements is what the conventions say (NaN comes by itself).

        A record with operands has a formula of its own for no elements.
        """
        if self.math.conventions.empty != "zero" or f.operands:
            return value
        identities = {Get(v.dtype, v): s.identity for v, s in zip(f.states, f.record.states, strict=True)}
        used = [n for n in identities if any(x == n for x in walk(value))]
        if not used or not accumulators.undefined(value, identities):
            return value
        empty = conjunction(Apply(BOOL, "eq", (n, Const(n.dtype, identities[n]))) for n in used)
        assert empty is not None
        return Apply(value.dtype, "where", (empty, Const(value.dtype, 0.0), value))

    # -- carried sums

    def _carried_sum(self, e: Reduce, stmt: Stmt) -> Expr | None:
        """sum(weight * f(state) * rest) = f(state) * (a sum carried by the fold of the weight), if `e` has that shape."""
        found = []
        for sign, term in terms(e.arg):
            split = _weight_factor(term, e)
            if split is None:
                return None
            found.append((sign, *split))
        parts = [(sign, self._carry(inner, rest, e, stmt)) for sign, inner, rest in found]
        return signed_sum(parts)

    def _carry(self, inner: Reduce, rest: Expr, e: Reduce, stmt: Stmt) -> Expr:
        f = self._fold(inner, stmt)
        extra = conjunction(c for c in conjuncts(e.guard) if c not in conjuncts(inner.guard))
        value = self.lower(rest, stmt)
        if extra is not None:
            value = Apply(value.dtype, "where", (self.lower(extra, stmt), value, Const(value.dtype, 0.0)))
        var = self._carried_var(f, value)
        f = self._named(f.name)
        factor = self._convention(f, _put(f.record.carry_factor(inner.name), self._names(f)))
        return _times(Get(var.dtype, var), factor)

    def _carried_var(self, f: Fold, value: Expr) -> Var:
        for c in f.carried:
            if c.expr == value:
                return c.var
        free = free_axes(f.arg) | free_axes(value) | (free_axes(f.guard) if f.guard is not None else frozenset())
        dtype = F64 if value.dtype is F64 else F32
        var = Var(f"{f.name}.acc{len(f.carried)}", dtype, self._ordered(free - frozenset(f.axes)))
        self.folds[self.folds.index(f)] = replace(f, carried=(*f.carried, Carried(var, value)))
        return var


def _base2(record: Record, arg: Expr, operands: Operands) -> tuple[Record, Expr, Operands]:
    """Use the record in powers of two where it has that form: exp(x) = exp2(x * log2(e)), the factor joining the input's."""
    rewritten = accumulators.to_base2(record)
    if rewritten is None:
        return record, arg, operands
    log2e = Const(arg.dtype, accumulators.LOG2E)
    scaled = tuple((k, _times_constant(x, log2e) if k in rewritten.scaled else x) for k, x in operands)
    return rewritten, _times_constant(arg, log2e), scaled


def _times_constant(e: Expr, c: Expr) -> Expr:
    """Return e * c with c joined to the factors that vary with no axis, so that the product of those is made once."""
    parts = factors(e)
    fixed = product((*(p for p in parts if not free_axes(p)), c))
    made = product((*(p for p in parts if free_axes(p)), *((fixed,) if fixed is not None else ())))
    return fold(made) if made is not None else c


def _key(e: Reduce) -> tuple[object, ...]:
    return (e.axes, e.guard, e.arg, e.operands, e.name)


def _shared_records(math: Math, records: dict[str, Record]) -> dict[tuple[object, ...], str]:
    """Choose, for reductions over the same axes, guard and input, one record that offers all their names, if any."""
    groups: dict[tuple[object, ...], list[Reduce]] = {}
    for stmt in math.statements:
        for n in walk(stmt.expr):
            if isinstance(n, Reduce):
                groups.setdefault((n.axes, n.guard, n.arg), []).append(n)
    chosen: dict[tuple[object, ...], str] = {}
    for group in groups.values():
        names = {n.name for n in group}
        candidates = {n.record for n in group}
        serving = [r for r in candidates if names <= {k for k, _ in records[r].finish}]
        if serving:
            chosen.update({_key(n): serving[0] for n in group})
    return chosen


def _is_product_of_two(term: Expr, e: Reduce) -> bool:
    """Would this term alone be a Dot: two factors over the reduced axes with different other axes?"""
    reduced = frozenset(e.axes)
    sides = {free_axes(f) - reduced for f in factors(term) if free_axes(f) & reduced}
    return len(sides) > 1


def _constant_factors(e: Reduce) -> tuple[Expr, Expr] | None:
    """Split a summed product into factors that do not depend on the reduced axes, and the rest."""
    if not e.arg.dtype.is_float:
        return None
    parts = factors(e.arg)
    reduced = frozenset(e.axes)
    outside = [p for p in parts if not free_axes(p) & reduced]
    inside = [p for p in parts if free_axes(p) & reduced]
    if not outside or not inside:
        return None
    out, kept = product(outside), product(inside)
    return None if out is None or kept is None else (out, kept)


def _weight_factor(term: Expr, e: Reduce) -> tuple[Reduce, Expr] | None:
    """Return (the one element-wise reduction over the axes of `e` among the factors, the product of the others)."""
    parts = factors(term)
    hits = [p for p in parts if isinstance(p, Reduce) and p.elementwise and p.axes == e.axes and _guards_agree(p, e)]
    if len(hits) != 1:
        return None
    rest = product(p for p in parts if p is not hits[0])
    return hits[0], rest if rest is not None else Const(e.arg.dtype, 1.0)


def _guards_agree(inner: Reduce, outer: Reduce) -> bool:
    return outer.guard is None or set(conjuncts(inner.guard)) <= set(conjuncts(outer.guard))


def _times(a: Expr, b: Expr) -> Expr:
    made = product((a, *factors(b)))
    return a if made is None else made


def _put(formula: Expr, names: dict[str, Expr]) -> Expr:
    """Put expressions for a record's names, in the form that prints directly."""
    found = {n: names[n.var.name] for n in walk(formula) if isinstance(n, Get) and n.var.name in names}
    return fold(substitute(accumulators.safe(formula), found))
