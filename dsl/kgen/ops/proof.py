"""One verification case for a variant that was compiled for a call: a small one that its key allows."""

from __future__ import annotations

import itertools
import math as numbers
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kgen.errors import KgenError
from kgen.generate import Emitted
from kgen.math import Math
from kgen.ops.execute import Backend, execute
from kgen.ops.key import ALIGNMENT, Key, bucket, memory_key
from kgen.terms import Size
from kgen.verify import inputs
from kgen.verify.binding import bind
from kgen.verify.budget import limits
from kgen.verify.cases import Case, cases_for
from kgen.verify.layouts import embed
from kgen.verify.subject import Call, Result, run_trial


@dataclass(frozen=True)
class _Variant:
    """The compiled kernels as a subject of the verifier."""

    emitted: Emitted
    backend: Backend
    name: str = "this variant"

    def run(self, call: Call) -> Result:
        execute(self.emitted.launch, {**call.inputs, **call.outputs}, {**call.sizes, **call.params}, self.backend)
        if any(t.is_cuda for t in call.inputs.values()):
            torch.cuda.synchronize()
        return Result(call.outputs)


def failure_of(math: Math, key: Key, emitted: Emitted, backend: Backend, device: str) -> str:
    """Run the smallest case of a key and return what is wrong with its outputs, "" if nothing is."""
    chosen = smallest_case(math, key, emitted)
    if chosen is None:
        warnings.warn(f"{math.name}: no small case was found for {key}; its kernels run unverified", stacklevel=2)
        return ""
    case, tensors = chosen
    expected = limits(math, tensors, case.params, case.sizes)
    trial = run_trial(math, _Variant(emitted, backend), case, tensors, expected, device)
    if trial.ok:
        return ""
    v = trial.verdict
    sizes = ", ".join(f"{k} = {n}" for k, n in case.sizes.items())
    where = f"{v.output}{list(v.index)} = {v.got}, expected {v.expected}: " if v.output and not v.ok else ""
    return f"with {sizes}: {where}{v.reason or '; '.join(trial.faults)}"


def smallest_case(math: Math, key: Key, emitted: Emitted) -> tuple[Case, dict[str, Tensor]] | None:
    """Return a case whose call has this very key, with its inputs; None if none was found.

    It is the cheapest of those that reach beyond one tile of the most axes: loops, tiles cut off, and strides matter.
    """
    tiles = {n: a.tile for n, a in emitted.config.axes.items() if isinstance(a.tile, int)}
    for case in sorted(_candidates(math, key, tiles), key=lambda c: (_short(math, c, tiles), _work(math, c))):
        call = bind(math, case.sizes, case.params)
        padded = all(bucket(call.extents[axis]) == size for axis, size in key.buckets)
        if _work(math, case) == 0 or not padded or not _fits(math, _new_outputs(math, call.shapes), key):
            continue
        made = inputs.make(math, case.sizes, case.params, case.seed)
        tensors = {name: arranged(t, name, key, math.tensors[name].fast) for name, t in made.items()}
        if _fits(math, tensors, key):
            return case, tensors
    return None


def _work(math: Math, case: Case) -> int:
    return numbers.prod(bind(math, case.sizes, case.params).extents.values())


def _short(math: Math, case: Case, tiles: Mapping[str, int]) -> int:
    """Return how many axes end within their first tile, or have one element where they have no tile."""
    extents = bind(math, case.sizes, case.params).extents
    return sum(n <= tiles.get(axis, 1) for axis, n in extents.items())


def _candidates(math: Math, key: Key, tiles: Mapping[str, int]) -> Iterator[Case]:
    """Yield cases with the key's static sizes and params, padded axes of several extents within their bucket.

    Some have tiled axes whose extents keep rows aligned.
    """
    beyond = _free(math, {axis: tile + ALIGNMENT for axis, tile in tiles.items()})
    for more, back in itertools.product(({}, beyond), (3, 16, 8, 0)):
        within = _free(math, {axis: size - back for axis, size in key.buckets})
        try:
            found = cases_for(math, tiles, False, {**more, **within, **dict(key.sizes)}, dict(key.params))
        except KgenError:  # the checks of the spec allow no such sizes
            continue
        yield from (c for c in found if c.kind == "typical")


def _free(math: Math, extents: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that give axes these extents, where an axis's extent is a size that calls choose."""
    named = {math.axes[axis].extent: n for axis, n in extents.items()}
    return {e.name: n for e, n in named.items() if isinstance(e, Size) and math.sizes[e.name].definition is None}


def _new_outputs(math: Math, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    made = [t for t in math.tensors.values() if t.out and t.inplace is None]
    return {t.name: torch.empty(shapes[t.name], dtype=getattr(torch, t.dtype.torch)) for t in made}


def _fits(math: Math, tensors: Mapping[str, Tensor], key: Key) -> bool:
    """Return whether these tensors lie as the key has it. (Kernels with 64-bit offsets take small tensors too.)"""
    listed = [(name, t, math.tensors[name].fast) for name, t in tensors.items()]
    units, aligned, _ = memory_key(listed)
    return set(units) <= set(key.units) and set(aligned) == tensors.keys() & set(key.aligned)


def arranged(values: Tensor, name: str, key: Key, fast: tuple[int, ...]) -> Tensor:
    """Return a tensor with these values, in memory as the key has it: its dim of stride 1, its alignment."""
    unit = dict(key.units)[name]
    if values.ndim == 0 or (unit is None and not fast):
        return embed(values, _dense(values.shape, None, 1), 0 if name in key.aligned else 1)
    if name in key.aligned:
        return embed(values, _dense(values.shape, unit, ALIGNMENT // numbers.gcd(ALIGNMENT, values.element_size())), 0)
    return embed(values, _dense(values.shape, unit, 1), 1)


def _dense(shape: torch.Size, unit: int | None, multiple: int) -> tuple[int, ...]:
    """Return strides: 1 in `unit` (2 in the last dim if there is none), the others multiples of `multiple`."""
    strides = [0] * len(shape)
    step = 2 if unit is None else 1
    order = [d for d in reversed(range(len(shape))) if d != unit]
    for d in ([] if unit is None else [unit]) + order:
        strides[d] = step
        step = step * max(1, shape[d])
        step += -step % multiple
    return tuple(strides)
