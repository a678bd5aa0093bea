"""Accumulate: reductions become folds of declared accumulators.

Input: the resolved spec of one specialisation. Output: `Folded`, where no expression holds a `Reduce` any more. Each
fold has a record's state; results are formulas over the final state (`Get` of a state variable). A sum of an
element-wise result of a fold, `sum[n](softmax[n](s) * v)`, becomes one more sum carried by that fold.
"""

from __future__ import annotations

from dataclasses import replace

from kgen import accumulators
from kgen.accumulate_factors import constant_factors, in_base2, is_product_of_two, joined, put, weight_factor
from kgen.accumulators import Record
from kgen.algebra import conjunction, conjuncts, fold, signed_sum, terms
from kgen.folded import Carried, Fold, Folded, Operands, Result
from kgen.math import Math
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
    parts,
    rewrite,
    variables,
    walk,
    with_children,
)
from kgen.types import BOOL, F32, F64, DType


def accumulate(math: Math) -> Folded:
    """Rewrite all reductions of a specialised spec to folds."""
    return _Accumulate(math).run()


class _Accumulate:
    def __init__(self, math: Math) -> None:
        self.math = math
        self.records = accumulators.load_records(math.records)
        self.shared = _shared_records(math, self.records)
        self.folds: dict[str, Fold] = {}
        self.index: dict[tuple[object, ...], str] = {}
        self.lowered: dict[Expr, Expr] = {}
        self.origin: dict[Expr, str] = {}
        self.casts: dict[Expr, DType] = {}

    def run(self) -> Folded:
        inlined: dict[str, Expr] = {}
        results = []
        for stmt in self.math.statements:
            inlined[stmt.name] = _inline(stmt.expr, inlined)
            value = self.lower(inlined[stmt.name])
            self.origin.setdefault(value, stmt.name)
            if stmt.name in self.math.casts:
                self.casts[value] = self.math.casts[stmt.name]
            if stmt.tensor is not None:
                results.append(Result(stmt, value, tuple(self.lower(_inline(i, inlined)) for i in stmt.index)))
        return Folded(self.math, self._in_order(), tuple(results), self.origin, self.casts)

    def lower(self, e: Expr) -> Expr:
        """Return `e` without reductions, adding the folds it needs."""
        if e not in self.lowered:
            self.lowered[e] = self._lower(e)
        return self.lowered[e]

    def _lower(self, e: Expr) -> Expr:
        if not isinstance(e, Reduce):
            return with_children(e, tuple(self.lower(c) for c in children(e)))
        if e.name != "sum":
            return self._finish(self._fold(e), e)
        if (carried := self._carried_sum(e)) is not None:
            return carried
        summands = terms(e.arg)
        if len(summands) > 1 and any(is_product_of_two(t, e) for _, t in summands):
            return signed_sum(tuple((sign, self.lower(replace(e, arg=t))) for sign, t in summands))
        if (split := constant_factors(e)) is not None:
            outside, inside = split
            return fold(joined(self.lower(outside), self.lower(replace(e, arg=inside))))
        return self._with_empty(e, self._finish(self._fold(e), e))

    def _in_order(self) -> tuple[Fold, ...]:
        """Return the folds, each after those it reads: a carried sum may read a fold made after its own."""
        placed: dict[str, Fold] = {}

        def place(f: Fold) -> None:
            if f.name not in placed:
                for name in sorted(self._reads(f), key=list(self.folds).index):
                    place(self.folds[name])
                placed[f.name] = f

        for f in self.folds.values():
            place(f)
        return tuple(placed.values())

    def _reads(self, f: Fold) -> set[str]:
        exprs = [f.arg, *([f.guard] if f.guard else []), *(x for _, x in f.operands), *(c.expr for c in f.carried)]
        return {_fold_name(v) for e in exprs for v in variables(e)}

    def _needs(self, e: Expr) -> set[str]:
        """Return the names of all folds that the value of `e` depends on."""
        found: set[str] = set()
        todo = [_fold_name(v) for v in variables(e)]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(self._reads(self.folds[name]))
        return found

    # -- folds

    def _fold(self, e: Reduce) -> Fold:
        """Return the fold that serves the reduction, an existing one when axes, guard, input and record agree."""
        arg = self.lower(e.arg)
        guard = None if e.guard is None else self.lower(e.guard)
        record = self.records[self.shared.get(_key(e), e.record)]
        operands = tuple((k, self.lower(x)) for k, x in e.operands)
        key = (e.axes, guard, arg, record.name, operands)
        if key not in self.index:
            self.index[key] = self._new_fold(record, e, arg, guard, operands).name
        return self.folds[self.index[key]]

    def _new_fold(self, record: Record, e: Reduce, arg: Expr, guard: Expr | None, operands: Operands) -> Fold:
        source, typed = arg, record.at(arg.dtype)
        arg = arg if arg.dtype == typed.input_dtype else Cast(typed.input_dtype, arg)
        typed, arg, operands = in_base2(typed, arg, operands)
        axes = self._free((arg, guard), e.axes)
        name = f"f{len(self.folds) + 1}"
        states = tuple(Var(f"{name}.{s.name}", s.dtype, axes) for s in typed.states)
        found = Fold(name, typed, e.axes, guard, source, arg, states, (), operands, span=e.span)
        if typed.weight is not None:
            found = replace(found, weight=_selected(found, put(typed.weight, _names(found))))
        self.folds[name] = found
        return found

    def _free(self, exprs: tuple[Expr | None, ...], reduced: tuple[str, ...]) -> tuple[str, ...]:
        """Return the axes that expressions depend on beside those reduced, in the spec's order."""
        free = frozenset().union(*(free_axes(e) for e in exprs if e is not None)) - frozenset(reduced)
        return tuple(a for a in self.math.axes if a in free)

    # -- results

    def _finish(self, f: Fold, e: Reduce) -> Expr:
        """Return the result named `e.name` as a formula over the final state (and the element, if element-wise)."""
        names = _names(f)
        if f.weight is not None:
            names["weight"] = f.weight
        if f.record.elementwise(e.name) and f.record.carries(e.name):
            factor = self._convention(f, put(f.record.carry_factor(e.name), names))
            return joined(names["weight"], factor)
        return self._convention(f, put(f.record.entry(e.name), names))

    def _convention(self, f: Fold, value: Expr) -> Expr:
        """A result with no value of its own over no elements is what the conventions say (NaN comes by itself).

        A record with operands has a formula of its own for no elements.
        """
        if self.math.conventions.empty != "zero" or f.operands:
            return value
        empty = _empty(f, value)
        return value if empty is None else Apply(value.dtype, "where", (empty, Const(value.dtype, 0.0), value))

    def _with_empty(self, e: Reduce, value: Expr) -> Expr:
        """A sum over element-wise results of an empty row is NaN where these would be, although it has no elements."""
        if self.math.conventions.empty == "zero" or not value.dtype.is_float:
            return value
        for n in (n for n in parts(e.arg) if isinstance(n, Reduce) and n.elementwise and n.axes == e.axes):
            f = self._fold(n)
            if f.operands or not f.record.carries(n.name):
                continue
            empty = _empty(f, put(f.record.carry_factor(n.name), _names(f)))
            if empty is not None:
                value = Apply(value.dtype, "where", (empty, Const(value.dtype, float("nan")), value))
        return value

    # -- carried sums

    def _carried_sum(self, e: Reduce) -> Expr | None:
        """sum(weight * f(state) * rest) = f(state) * (a sum carried by the fold of the weight), if `e` has that shape.

        What is summed must not depend on the fold itself: then a second pass sums it.
        """
        found = []
        for sign, term in terms(e.arg):
            split = weight_factor(term, e)
            if split is None:
                return None
            inner, rest = split
            f, value = self._fold(inner), self._guarded(rest, inner, e)
            if f.name in self._needs(value):
                return None
            found.append((sign, inner, f.name, value))
        return signed_sum([(sign, self._carry(inner, name, value)) for sign, inner, name, value in found])

    def _guarded(self, rest: Expr, inner: Reduce, e: Reduce) -> Expr:
        """Return the lowered factor of a weight, 0 where only the outer sum leaves an element out."""
        value = self.lower(rest)
        extra = conjunction(c for c in conjuncts(e.guard) if c not in conjuncts(inner.guard))
        return (
            value if extra is None else Apply(value.dtype, "where", (self.lower(extra), value, Const(value.dtype, 0.0)))
        )

    def _carry(self, inner: Reduce, name: str, value: Expr) -> Expr:
        var = self._carried_var(name, value, self.casts.get(self._finish(self.folds[name], inner)))
        f = self.folds[name]
        factor = self._convention(f, put(f.record.carry_factor(inner.name), _names(f)))
        factor = factor if factor.dtype == var.dtype else Cast(var.dtype, factor)
        return joined(Get(var.dtype, var), factor)

    def _carried_var(self, name: str, value: Expr, cast: DType | None) -> Var:
        f = self.folds[name]
        for c in f.carried:
            if (c.expr, c.cast) == (value, cast):
                return c.var
        dtype = F64 if F64 in (value.dtype, f.arg.dtype) else F32
        var = Var(f"{name}.acc{len(f.carried)}", dtype, self._free((f.arg, value, f.guard), f.axes))
        self.folds[name] = replace(f, carried=(*f.carried, Carried(var, value, cast)))
        return var


def _fold_name(var: Var) -> str:
    return var.name.split(".", 1)[0]


def _inline(e: Expr, inlined: dict[str, Expr]) -> Expr:
    """Put the (not yet folded) expressions of named statements in place of their names."""
    return rewrite(e, lambda n: inlined[n.name] if isinstance(n, Ref) else None)


def _names(f: Fold) -> dict[str, Expr]:
    """Return what the names in a finish formula stand for."""
    names: dict[str, Expr] = {s.name: Get(v.dtype, v) for s, v in zip(f.record.states, f.states, strict=True)}
    return names | {f.record.input: f.arg, **dict(f.operands)}


def _selected(f: Fold, weight: Expr) -> Expr:
    """Elements outside the guard have no weight."""
    if f.guard is None:
        return weight
    return Apply(weight.dtype, "where", (f.guard, weight, Const(weight.dtype, 0.0)))


def _empty(f: Fold, value: Expr) -> Expr | None:
    """Return when a formula over the final state has no value of its own: at the identity, if it is undefined there."""
    pairs = zip(f.states, f.record.states, strict=True)
    identities: dict[Expr, int | float | bool] = {Get(v.dtype, v): s.identity for v, s in pairs}
    used = [n for n in identities if any(x == n for x in parts(value))]
    if not used or not accumulators.undefined(value, identities):
        return None
    return conjunction(Apply(BOOL, "eq", (n, Const(n.dtype, identities[n]))) for n in used)


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
        candidates = dict.fromkeys(n.record for n in group)
        serving = [r for r in candidates if names <= {k for k, _ in records[r].finish}]
        if serving:
            chosen.update({_key(n): serving[0] for n in group})
    return chosen
