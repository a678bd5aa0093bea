"""Oracle: a spec's own math evaluated directly, dense, in float64, without tiles or accumulators.

It works for any spec. The same walk with rounding gives what op-by-op code at the spec's dtypes would give, and with
magnitudes the sums of absolute terms; both feed the error budget.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from kgen import terms
from kgen.math import Math, Stmt
from kgen.verify.binding import Scalar, Sizes, bind, scalars
from kgen.verify.dense import Evaluator, bare_axes
from kgen.verify.formulas import direct_formula
from kgen.verify.magnitude import plain
from kgen.verify.values import Arithmetic, Formulas, Value, Window

EXACT = Arithmetic()
TERMS = Arithmetic(magnitudes=True)
CONDITIONED = Arithmetic(magnitudes=True, conditioned=True)
OP_BY_OP = Arithmetic(real=torch.float32, rounding=True)
CHUNK_BYTES = 256 << 20


@dataclass(frozen=True)
class Outcome:
    """Outputs by tensor name, and their magnitudes (empty unless the arithmetic has them)."""

    outputs: dict[str, Tensor]
    magnitudes: dict[str, Tensor]


def evaluate(
    math: Math,
    inputs: Mapping[str, Tensor],
    params: Mapping[str, Scalar],
    sizes: Mapping[str, int],
    *,
    arithmetic: Arithmetic = EXACT,
    absolute: bool = False,
    formulas: Formulas | None = None,
) -> dict[str, Tensor]:
    """Return every output: float64 for float outputs (float32 op by op), int64 for integers, bool.

    `sizes` holds the free sizes (definitions are computed); `params` may leave out those with defaults.
    `absolute`: every term replaced by its absolute value, in float64.
    """
    outcome = run(math, inputs, params, sizes, TERMS if absolute else arithmetic, formulas)
    return outcome.magnitudes if absolute else outcome.outputs


def run(
    math: Math,
    inputs: Mapping[str, Tensor],
    params: Mapping[str, Scalar],
    sizes: Mapping[str, int],
    arithmetic: Arithmetic,
    formulas: Formulas | None = None,
) -> Outcome:
    """Evaluate as `evaluate` does, with magnitudes beside the outputs."""
    evaluation = _Evaluation(math, inputs, bind(math, sizes, params), arithmetic, formulas or formulas_of(math))
    with torch.no_grad():
        for stmt in math.statements:
            evaluation.statement(stmt)
    return Outcome(evaluation.outputs, evaluation.magnitudes)


def formulas_of(math: Math) -> Formulas:
    """Return the direct formulas of the records that a spec can use."""
    return partial(direct_formula, beside=math.records)


def probe(
    math: Math,
    inputs: Mapping[str, Tensor],
    params: Mapping[str, Scalar],
    sizes: Mapping[str, int],
    expr: terms.Expr,
    axes: tuple[str, ...],
) -> Tensor:
    """Return the value of an expression of the spec as a tensor with the dimensions `axes`."""
    evaluation = _Evaluation(math, inputs, bind(math, sizes, params), EXACT, formulas_of(math))
    with torch.no_grad():
        for stmt in math.statements:
            evaluation.statement(stmt)
        return evaluation.expression(expr, axes)


class _Evaluation:
    """The state of one evaluation: finished statements by name, outputs by tensor."""

    def __init__(
        self,
        math: Math,
        inputs: Mapping[str, Tensor],
        call: Sizes,
        arithmetic: Arithmetic,
        formulas: Formulas,
    ) -> None:
        self.math = math
        self.inputs = {name: t.detach().cpu() for name, t in inputs.items()}
        self.call = call
        self.arithmetic = arithmetic
        self.formulas = formulas
        self.scalars = scalars(math, call.sizes, call.params, arithmetic)
        self.values: dict[str, Value] = {}
        outs = [t.name for t in math.tensors.values() if t.out]
        self.outputs = {name: self._blank(name) for name in outs}
        self.magnitudes = {name: plain(self.outputs[name]) for name in outs if arithmetic.magnitudes}

    def statement(self, stmt: Stmt) -> None:
        """Compute a statement, in pieces along one of its axes if it is large, and store it if it is an output."""
        pieces = [self._piece(stmt, window) for window in self._windows(stmt)]
        self.values[stmt.name] = pieces[0] if len(pieces) == 1 else self._joined(stmt, pieces)
        if stmt.tensor is not None:
            self._store(stmt.tensor, stmt, self.values[stmt.name])

    def _piece(self, stmt: Stmt, window: Window) -> Value:
        found = self._evaluator(window).value(stmt.expr)
        shape = [window.extent(a) if a in stmt.axes else 1 for a in self.math.axes]
        mag = None if found.mag is None else found.mag.expand(shape)
        return Value(found.data.expand(shape), mag, found.hollow)

    def _evaluator(self, window: Window) -> Evaluator:
        return Evaluator(self.math, self.inputs, self.scalars, window, self.arithmetic, self.formulas, self.values)

    def _windows(self, stmt: Stmt) -> Iterator[Window]:
        """Cut the longest axis that is free everywhere in the statement so that a piece stays below CHUNK_BYTES."""
        whole = dict(self._whole().ranges)
        used = set(stmt.axes) | _all_axes(stmt.expr)
        need = 8 * numbers.prod(self.call.extents[a] for a in used)
        free = [a for a in stmt.axes if a not in _reduced_axes(stmt.expr)]
        if need <= CHUNK_BYTES or not free:
            yield Window(whole)
            return
        axis = max(free, key=lambda a: self.call.extents[a])
        extent = self.call.extents[axis]
        step = max(1, extent * CHUNK_BYTES // need)
        for first in range(0, extent, step):
            yield Window(whole | {axis: (first, min(first + step, extent))})

    def _joined(self, stmt: Stmt, pieces: list[Value]) -> Value:
        """Put pieces together along the one dimension in which they do not have the whole extent."""
        whole = [self.call.extents[a] if a in stmt.axes else 1 for a in self.math.axes]
        dim = next(d for d, n in enumerate(whole) if pieces[0].data.shape[d] != n)
        mags = [p.mag for p in pieces if p.mag is not None]
        mag = torch.cat(mags, dim) if mags else None
        if all(p.hollow is None for p in pieces):
            return Value(torch.cat([p.data for p in pieces], dim), mag)
        none = torch.zeros((1,) * len(whole), dtype=torch.bool)
        marks = [none if p.hollow is None else p.hollow for p in pieces]
        rest = torch.broadcast_shapes(*(tuple(1 if d == dim else n for d, n in enumerate(m.shape)) for m in marks))
        spread = [
            m.expand([p.data.shape[d] if d == dim else n for d, n in enumerate(rest)])
            for m, p in zip(marks, pieces, strict=True)
        ]
        return Value(torch.cat([p.data for p in pieces], dim), mag, torch.cat(spread, dim))

    def expression(self, expr: terms.Expr, axes: tuple[str, ...]) -> Tensor:
        """Return an expression over whole axes, with the dimensions `axes`."""
        return self._by_axes(self._evaluator(self._whole()).value(expr).data, axes)

    def _by_axes(self, data: Tensor, axes: tuple[str, ...]) -> Tensor:
        """Return a value over whole axes with the dimensions `axes`."""
        order = tuple(self.math.axes)
        data = data.expand([self.call.extents[a] if a in axes else 1 for a in order])
        kept = [a for a in order if a in axes]
        flat = data.reshape([self.call.extents[a] for a in kept])
        return flat.permute([kept.index(a) for a in axes])

    def _whole(self) -> Window:
        return Window({a: (0, n) for a, n in self.call.extents.items()})

    def _store(self, name: str, stmt: Stmt, value: Value) -> None:
        """Write a statement's elements to its tensor; an index outside it writes nothing."""
        out = self.outputs[name]
        axes = bare_axes(stmt.index)
        if axes is not None and set(axes) == set(stmt.axes) and out.shape == tuple(map(self.call.extents.get, axes)):
            out.copy_(self._by_axes(value.data, axes))
            if value.mag is not None:
                self.magnitudes[name].copy_(self._by_axes(value.mag, axes))
            return
        evaluator = self._evaluator(self._whole())
        index = [evaluator.value(i).data for i in stmt.index]
        shape = torch.broadcast_shapes(value.data.shape, *(i.shape for i in index))
        inside = torch.ones(shape, dtype=torch.bool)
        for i, extent in zip(index, out.shape, strict=True):
            inside = inside & (i >= 0) & (i < extent)
        places = tuple(i.expand(shape)[inside] for i in index)
        out[places] = value.data.expand(shape)[inside].to(out.dtype)
        if value.mag is not None:
            self.magnitudes[name][places] = value.mag.expand(shape)[inside]

    def _blank(self, name: str) -> Tensor:
        """Return an output before the first store: the overwritten input, the fill value, else zeros."""
        tensor = self.math.tensors[name]
        dtype = self.arithmetic.torch_dtype(tensor.dtype)
        if tensor.inplace is not None:
            return self.inputs[tensor.inplace].to(dtype).clone()
        return torch.full(self.call.shapes[name], 0 if tensor.fill is None else tensor.fill, dtype=dtype)


def _all_axes(e: terms.Expr) -> set[str]:
    axes = set(terms.free_axes(e))
    for n in terms.walk(e):
        if isinstance(n, terms.Reduce):
            axes |= set(n.axes) | terms.free_axes(n.arg)
    return axes


def _reduced_axes(e: terms.Expr) -> set[str]:
    return {a for n in terms.walk(e) if isinstance(n, terms.Reduce) for a in n.axes}
