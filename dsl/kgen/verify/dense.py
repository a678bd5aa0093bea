"""Dense evaluation of typed expressions: one tensor per value, with one dimension per axis of the spec.

A dimension has extent 1 where the value does not vary along its axis, so broadcasting is torch's own. Nothing here
knows about tiles or accumulators: a reduction is its plain formula over all elements that its guard admits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from kgen import terms
from kgen.errors import KgenError
from kgen.functions import table
from kgen.math import Math
from kgen.types import DType
from kgen.verify import magnitude, reductions
from kgen.verify.contraction import contracted_magnitude, dot_dtype, einsum, flatten_product, guard_smallest
from kgen.verify.values import (
    INNER,
    SAFE_DIV,
    Arithmetic,
    Direct,
    Formulas,
    Scope,
    Value,
    Window,
    minus_infinity_stays,
    safe_div,
    torch_function,
)


class Evaluator:
    """Evaluates expressions of one spec for given tensors. `values` holds finished statements (whole, not windowed)."""

    def __init__(
        self,
        math: Math,
        tensors: Mapping[str, Tensor],
        scalars: Mapping[str, Value],
        window: Window,
        arithmetic: Arithmetic,
        formulas: Formulas,
        values: Mapping[str, Value],
    ) -> None:
        self.math = math
        self.tensors = tensors
        self.scalars = scalars
        self.window = window
        self.arithmetic = arithmetic
        self.formulas = formulas
        self.values = values
        self.order = tuple(math.axes)
        self.memo: dict[terms.Expr, Value] = {}

    def value(self, e: terms.Expr, scope: Scope | None = None) -> Value:
        """Return the value of `e` at every position of the window."""
        match e:
            case terms.Const():
                return self._plain(torch.tensor(e.value, dtype=self.arithmetic.torch_dtype(e.dtype)))
            case terms.Pos(axis=axis):
                return self._position(axis)
            case terms.Size(name=name) | terms.Param(name=name):
                return self.scalars[name]
            case terms.Get(var=var) if scope is not None:
                return scope.names[var.name]
            case terms.Ref(name=name):
                return self._finished(name)
            case terms.Load():
                return self._load(e, scope)
            case terms.Apply():
                return self._apply(e, scope)
            case terms.Cast():
                return self._cast(self.value(e.arg, scope), e.dtype)
            case terms.Reduce(record=record) if record == INNER and scope is not None:
                return self._inner(e, scope)
            case terms.Reduce():
                return self._reduce(e, scope)
            case _:
                raise KgenError(f"the direct evaluation has no rule for {type(e).__name__}")

    # --- leaves -----------------------------------------------------------------------------------------------------

    def _plain(self, data: Tensor, mag: Tensor | None = None) -> Value:
        """Return a value of `data`; a scalar gets its dimensions of extent 1, a missing magnitude is |data|."""
        data = data.reshape((1,) * len(self.order)) if data.ndim == 0 else data
        if self.arithmetic.magnitudes and mag is None:
            mag = magnitude.plain(data)
        return Value(data, mag)

    def _position(self, axis: str) -> Value:
        first, end = self.window.ranges[axis]
        shape = [end - first if a == axis else 1 for a in self.order]
        return self._plain(torch.arange(first, end).reshape(shape))

    def _finished(self, name: str) -> Value:
        """Return the part of a finished statement that lies in the window."""
        whole = self.values[name]
        return Value(self._narrow(whole.data), self._narrow(whole.mag), self._narrow(whole.hollow))

    def _narrow(self, data: Tensor | None) -> Tensor | None:
        if data is None:
            return None
        for dim, axis in enumerate(self.order):
            first, end = self.window.ranges[axis]
            if data.shape[dim] not in (1, end - first):
                data = data.narrow(dim, first, end - first)
        return data

    def _load(self, e: terms.Load, scope: Scope | None) -> Value:
        """Gather; an index outside the tensor reads 0 (a guard or a contract says that it is not used)."""
        tensor = self.tensors[e.tensor]
        if (bare := self._slice(tensor, e)) is not None:
            return bare
        index = [self.value(i, scope).data for i in e.index]
        if not index:
            return self._plain(self._held(tensor, e.dtype))
        inside = torch.ones((), dtype=torch.bool)
        for i, extent in zip(index, tensor.shape, strict=True):
            inside = inside & (i >= 0) & (i < extent)
        if tensor.numel() == 0:
            zero = torch.zeros((), dtype=self.arithmetic.torch_dtype(e.dtype))
            return self._plain(zero.expand(inside.shape))
        clamped = [i.clamp(0, extent - 1) for i, extent in zip(index, tensor.shape, strict=True)]
        found = self._held(tensor[tuple(clamped)], e.dtype)
        return self._plain(torch.where(inside, found, torch.zeros((), dtype=found.dtype)))

    def _slice(self, tensor: Tensor, e: terms.Load) -> Value | None:
        """Return a load at bare axis positions, all within the tensor, as a view; None if it is none."""
        axes = bare_axes(e.index)
        if not axes:
            return None
        windows = [self.window.ranges[a] for a in axes]
        if any(end > extent for (_, end), extent in zip(windows, tensor.shape, strict=True)):
            return None
        part = tensor[tuple(slice(first, end) for first, end in windows)]
        places = [self.order.index(a) for a in axes]
        ordered = part.permute(sorted(range(len(axes)), key=places.__getitem__))
        spread = ordered[tuple(slice(None) if i in places else None for i in range(len(self.order)))]
        return self._plain(self._held(spread, e.dtype))

    def _held(self, data: Tensor, dtype: DType) -> Tensor:
        return data.to(self.arithmetic.torch_dtype(dtype))

    # --- functions --------------------------------------------------------------------------------------------------

    def _apply(self, e: terms.Apply, scope: Scope | None) -> Value:
        args = [self.value(a, scope) for a in e.args]
        if e.fn == SAFE_DIV or table()[e.fn].types in ("float", "test"):
            args = [replace(a, data=self._real(a.data)) for a in args]
        function = safe_div if e.fn == SAFE_DIV else torch_function(e.fn, e.args[-1].dtype)
        datas = tuple(a.data for a in args)
        data = function(*datas)
        if scope is not None and e.fn == "sub":
            data = minus_infinity_stays(data, *datas)
        return Value(data, self._magnitude(e.fn, function, args, data), _any_hollow(args))

    def _magnitude(
        self, name: str, function: magnitude.TorchFunction, args: list[Value], data: Tensor
    ) -> Tensor | None:
        if not self.arithmetic.magnitudes:
            return None
        if not data.is_floating_point():
            return magnitude.plain(data)
        mags = tuple(a.mag for a in args if a.mag is not None)
        datas = tuple(a.data for a in args)
        return magnitude.of_function(name, function, datas, mags, conditioned=self.arithmetic.conditioned)

    def _real(self, data: Tensor) -> Tensor:
        return data if data.is_floating_point() else data.to(self.arithmetic.real)

    def _cast(self, x: Value, dtype: DType) -> Value:
        """Convert. Exact arithmetic leaves floats as they are: the rounding of a cast is part of the budget."""
        if not dtype.is_float:
            narrow = x.data.trunc() if x.data.is_floating_point() else x.data
            held = narrow.to(getattr(torch, dtype.torch)).to(self.arithmetic.torch_dtype(dtype))
            return replace(self._plain(held), hollow=x.hollow)
        return replace(x, data=self._rounded(self._held(x.data, dtype), dtype))

    def _rounded(self, data: Tensor, dtype: DType) -> Tensor:
        return data.to(getattr(torch, dtype.torch)).to(data.dtype) if self.arithmetic.rounding else data

    # --- reductions -------------------------------------------------------------------------------------------------

    def _reduce(self, e: terms.Reduce, scope: Scope | None) -> Value:
        memo = self.memo if scope is None else scope.memo
        if e not in memo:
            memo[e] = self._reduced(e, scope)
        return memo[e]

    def _reduced(self, e: terms.Reduce, scope: Scope | None) -> Value:
        exists = None if e.guard is None else self.value(e.guard, scope).data
        direct = self.formulas(e.record, e.name)
        if direct is None:
            return self._builtin(e, exists, scope)
        arg = self.value(e.arg, scope)
        names = dict.fromkeys(direct.inputs, arg) | {name: self.value(x, scope) for name, x in e.operands}
        if len(e.axes) == 1:
            names["index"] = self._position(e.axes[0])
        inner = Scope(names, e.axes, exists)
        result = self._convention(self.value(direct.expr, inner), self._empty(direct, inner, arg), e)
        return _weightless(result, exists) if e.elementwise and exists is not None else result

    def _empty(self, direct: Direct, scope: Scope, arg: Value) -> Tensor:
        """Return where no element exists that changes the state (dimensions reduced to extent 1)."""
        live = None if direct.null is None else ~self.value(direct.null, scope).data
        live = scope.exists if live is None else live if scope.exists is None else live & scope.exists
        dims = self._dims(scope.axes)
        live = torch.ones((), dtype=torch.bool).expand(arg.data.shape) if live is None else live
        return reductions.reduce("sum", self._spread(live, dims).to(torch.int64), None, dims) == 0

    def _convention(self, result: Value, empty: Tensor, e: terms.Reduce) -> Value:
        """Apply `conventions.empty` where an empty row leaves the result undefined; operands define it themselves."""
        data = result.data
        if not data.is_floating_point() or e.operands:
            return result
        if self.math.conventions.empty == "zero":
            undefined = empty & data.isnan()
            mag = None if result.mag is None else torch.where(undefined, 0.0, result.mag)
            return Value(torch.where(undefined, torch.zeros((), dtype=data.dtype), data), mag, result.hollow)
        return replace(result, hollow=empty) if e.elementwise and bool(empty.any()) else result

    def _inner(self, e: terms.Reduce, scope: Scope) -> Value:
        if e not in scope.memo:
            dims = self._dims(scope.axes)
            scope.memo[e] = self._dense(e.name, self.value(e.arg, scope), scope.exists, dims)
        return scope.memo[e]

    def _builtin(self, e: terms.Reduce, exists: Tensor | None, scope: Scope | None) -> Value:
        dims = self._dims(e.axes)
        if e.name == "sum":
            found = self._contracted(e, exists, dims, scope)
            if found is not None:
                return found
        found = self._dense(e.name, self.value(e.arg, scope), exists, dims)
        if e.name in ("max", "min") and e.dtype.is_int:  # of no elements, the end of the type
            limits = torch.iinfo(getattr(torch, e.dtype.torch))
            found = replace(found, data=found.data.clamp(limits.min, limits.max))
        return found

    def _dense(self, name: str, arg: Value, exists: Tensor | None, dims: tuple[int, ...]) -> Value:
        data = self._spread(arg.data, dims, exists)
        exists = None if exists is None else self._spread(exists, dims, data)
        result = reductions.reduce(name, data, exists, dims)
        mag = None
        if arg.mag is not None:
            by = {"min": "max", "sum": "sum", "max": "max", "mean": "mean", "prod": "prod"}.get(name)
            mag = magnitude.plain(result)
            if by is not None:
                mag = reductions.reduce(by, self._spread(arg.mag, dims, exists), exists, dims)
        return self._hollowed(Value(result, mag), arg.hollow, name, dims)

    def _hollowed(self, result: Value, hollow: Tensor | None, name: str, dims: tuple[int, ...]) -> Value:
        """A sum over the results of an empty row is NaN under that convention, although no term of it exists."""
        if hollow is None or name != "sum" or any(hollow.shape[d] != 1 for d in dims):
            return result
        return replace(result, data=torch.where(hollow, torch.nan, result.data))

    def _contracted(
        self, e: terms.Reduce, exists: Tensor | None, dims: tuple[int, ...], scope: Scope | None
    ) -> Value | None:
        """Return a sum of products without its dense intermediate, or None where only that is right.

        Selecting zeros equals skipping elements only if all factors are finite; a guard is put on one factor.
        """
        factors = flatten_product(e.arg)
        if len(factors) < 2:
            return None
        values = [self._operand(f, factors, e.axes, scope) for f in factors]
        shapes = [v.data.shape for v in values] + ([] if exists is None else [exists.shape])
        if any(max(s[d] for s in shapes) != self.window.extent(self.order[d]) for d in dims):
            return None
        if not all(v.data.is_floating_point() and bool(torch.isfinite(v.data).all()) for v in values):
            return None
        if exists is not None:
            values = guard_smallest(values, exists)
        data = einsum([v.data for v in values], dims)
        mag = contracted_magnitude(values, dims) if self.arithmetic.magnitudes else None
        return self._hollowed(Value(data, mag), _any_hollow(values), "sum", dims)

    def _operand(self, e: terms.Expr, factors: list[terms.Expr], axes: tuple[str, ...], scope: Scope | None) -> Value:
        """Return a factor of a sum of products, rounded as an operand of a Dot if it is one."""
        value = self.value(e, scope)
        dtype = dot_dtype(e, factors, axes, self.math.casts)
        return value if dtype is None else replace(value, data=self._rounded(value.data, dtype))

    def _dims(self, axes: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.order.index(a) for a in axes)

    def _spread(self, data: Tensor, dims: tuple[int, ...], like: Tensor | None = None) -> Tensor:
        """Return `data` with the whole extent along `dims`, and broadcast against `like`."""
        if like is not None:
            data = data.expand(torch.broadcast_shapes(data.shape, like.shape))
        return data.expand([self.window.extent(a) if i in dims else -1 for i, a in enumerate(self.order)])


def bare_axes(index: tuple[terms.Expr, ...]) -> tuple[str, ...] | None:
    """Return the axes of an index of bare, distinct axis positions, None of any other index."""
    axes = tuple(i.axis for i in index if isinstance(i, terms.Pos))
    return axes if len(set(axes)) == len(index) else None


def _weightless(result: Value, exists: Tensor) -> Value:
    """An element that does not exist has weight 0 (NaN in a row whose convention is NaN)."""
    other = torch.zeros((), dtype=result.data.dtype)
    if result.hollow is not None:
        other = torch.where(result.hollow, torch.nan, other)
    mag = None if result.mag is None else torch.where(exists, result.mag, 0.0)
    return Value(torch.where(exists, result.data, other), mag, result.hollow)


def _any_hollow(values: list[Value]) -> Tensor | None:
    marks = [v.hollow for v in values if v.hollow is not None]
    out = marks[0] if marks else None
    for mark in marks[1:]:
        out = mark if out is None else out | mark
    return out
