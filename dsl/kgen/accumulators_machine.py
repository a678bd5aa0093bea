"""Running an accumulator record on arrays: lift, merge, update, finish, as the generated kernels will."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kgen.accumulators_numeric import Array, Bounded, bounds, compute, exact, number_type
from kgen.accumulators_record import Entries, Record
from kgen.terms import Expr

States = dict[str, Bounded]


@dataclass(frozen=True)
class Elements:
    """Elements of each row along the last axis, and the positions they have."""

    x: Bounded
    index: Bounded

    def part(self, low: int, high: int | None) -> Elements:
        """Return the elements low..high of each row."""
        error = self.x.error[..., low:high] if self.x.error.shape[-1] > 1 else self.x.error
        return Elements(Bounded(self.x.value[..., low:high], error), exact(self.index.value[..., low:high]))

    @property
    def count(self) -> int:
        return int(self.x.value.shape[-1])


def elements(x: Array, error: Array | None = None) -> Elements:
    """Return rows [rows, n] as elements at positions 0..n-1."""
    return Elements(exact(x) if error is None else Bounded(x, error), exact(np.arange(x.shape[-1])[None, :]))


@dataclass(frozen=True)
class Machine:
    """Computes what the fields of `record` say; `ieee` as in `compute`."""

    record: Record
    operands: Mapping[str, Bounded] = field(default_factory=dict)
    ieee: bool = False

    def identity(self) -> States:
        return {s.name: exact(np.full((1, 1), s.identity, number_type(s.dtype))) for s in self.record.states}

    def lift(self, xs: Elements) -> States:
        """Return the state of each single element, along the elements' axis."""
        return self._run(self.record.lift, self._elements(xs))

    def merge(self, a: States, b: States) -> States:
        return self._run(self.record.merge, {**_prefixed("a", a), **_prefixed("b", b)})

    def update(self, old: States, xs: Elements) -> States:
        """Return the state after a tile, by `update` where the record has one."""
        record = self.record
        if record.update_tile:
            return self.merge(old, self._run(record.update_tile, self._elements(xs)))
        if record.update:
            return self._run(record.update, {**_prefixed("old", old), **self._elements(xs)})
        return self.fold(old, xs)

    def fold(self, old: States, xs: Elements) -> States:
        """Return the state after the elements, merged one by one."""
        for i in range(xs.count):
            old = self.merge(old, self.lift(xs.part(i, i + 1)))
        return old

    def weight(self, xs: Elements, state: States) -> Bounded:
        return self._value(self.record.weight, {**state, **self._elements(xs)})

    def rescale(self, old: States, new: States) -> Bounded:
        return self._value(self.record.rescale, {**_prefixed("old", old), **_prefixed("new", new)})

    def finish(self, name: str, state: States, xs: Elements) -> Bounded:
        env = {**state, **self.operands, **self._elements(xs)}
        if self.record.weight is not None:
            env["weight"] = self.weight(xs, state)
        return self._value(self.record.entry(name), env)

    def direct(self, name: str, xs: Elements) -> Bounded:
        """Return a result by its plain formula, or by NumPy where it is builtin."""
        if self.record.direct is None:
            return _builtin(name, xs, self.record)
        return self._value(dict(self.record.direct)[name], {**self.operands, **self._elements(xs)})

    def value(self, e: Expr, state: States) -> Bounded:
        """Return the value of an expression over states and operands."""
        return self._value(e, {**state, **self.operands})

    def split(self, xs: Elements, splits: int, tile: int) -> States:
        """Return the state of all elements: parts of whole tiles, each folded by itself, then merged in order."""
        tiles = -(-xs.count // tile)
        part = -(-tiles // splits) * tile
        total = self.identity()
        for s in range(splits):
            state = self.identity()
            for low in range(s * part, min((s + 1) * part, xs.count), tile):
                state = self.update(state, xs.part(low, min(low + tile, (s + 1) * part)))
            total = self.merge(total, state)
        return total

    def _elements(self, xs: Elements) -> dict[str, Bounded]:
        return {self.record.input: xs.x, "index": xs.index}

    def _run(self, entries: Entries, env: Mapping[str, Bounded]) -> States:
        """Compute entries in order; `weight` and `rescale` are computed when their states are known."""
        env, names = dict(env), [s.name for s in self.record.states]
        for name, e in entries:
            env[name] = self._value(e, _Weights(self, env))
        return {name: env[name] for name in names}

    def _value(self, e: Expr | None, env: Mapping[str, Bounded]) -> Bounded:
        if e is None:
            raise ValueError(f"record '{self.record.name}' has no weight")
        return compute(e, env, self.ieee)


class _Weights(dict[str, Bounded]):
    """Names of an update; `weight` and `rescale` are found from the states computed so far."""

    def __init__(self, machine: Machine, env: Mapping[str, Bounded]) -> None:
        super().__init__(env)
        self.machine = machine

    def __missing__(self, name: str) -> Bounded:
        record = self.machine.record
        field = {"weight": record.weight, "rescale": record.rescale}[name]
        news = {f"new.{s.name}": self[s.name] for s in record.states if s.name in self}
        return self.machine._value(field, {**self, **news})


def _prefixed(prefix: str, state: States) -> dict[str, Bounded]:
    return {f"{prefix}.{name}": value for name, value in state.items()}


def _builtin(name: str, xs: Elements, record: Record) -> Bounded:
    x = xs.x.value
    low, high = bounds(record.input_dtype)
    match name:
        case "argmax":
            found = x.argmax(axis=-1, keepdims=True) if xs.count else np.full((len(x), 1), -1)
            return exact(found)
        case "max":
            return exact(x.max(axis=-1, keepdims=True, initial=low))
        case "min":
            return exact(x.min(axis=-1, keepdims=True, initial=high))
        case "any" | "all":
            return exact(getattr(np, name)(x, axis=-1, keepdims=True))
    with np.errstate(all="ignore"):
        total = x.sum(axis=-1, keepdims=True)
        error = 2.0**-50 * np.abs(x.astype(np.float64)).sum(axis=-1, keepdims=True)
    return Bounded(total, np.where(np.isfinite(error), error, 0.0))
