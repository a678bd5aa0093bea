"""A variant of a spec, ready to be generated: its math, and the keys of the calls that it serves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from kgen.configure import Config, configure
from kgen.configure_levels import BACKENDS
from kgen.math import Math
from kgen.ops.key import Key, bucket, memory_key
from kgen.resolve import resolve
from kgen.resolve_constants import Number, evaluate, static_values
from kgen.resolve_variants import Variant, variants
from kgen.spec import Spec
from kgen.verify.binding import bind

EXPECTED_EXTENT = 1024  # of a `tile: full` axis whose extent is known only at a call: texts are shown for this bucket


@dataclass(frozen=True)
class Instance:
    """One variant of a spec with its resolved math."""

    spec: Spec
    variant: Variant
    math: Math

    @property
    def words(self) -> str:
        """The variant in words, such as "T=bf16, D=64, causal=True"; "" where there is nothing to choose."""
        v = self.variant
        return ", ".join(f"{k}={x}" for group in (v.dtypes, v.sizes, v.params) for k, x in group.items())


def instances(spec: Spec) -> list[Instance]:
    """Return the variants of a spec; raise SpecError if it does not resolve."""
    return [Instance(spec, v, resolve(spec, dict(v.dtypes))) for v in variants(spec)]


def config_for(
    instance: Instance, backend: str, arch: str, sizes: Mapping[str, int], params: Mapping[str, Number]
) -> Config:
    """Return what the schedule says for a target and these static sizes and params."""
    dtypes = instance.variant.dtypes
    return configure(
        instance.math, instance.spec, backend=backend, arch=arch, dtypes=dtypes, sizes=sizes, params=params
    )


def expected_key(instance: Instance, arch: str) -> Key:
    """Return the key of the calls that a variant is meant for: fast dims of stride 1, 16-byte aligned, i32 offsets."""
    sizes, params = instance.variant.sizes, instance.variant.params
    tensors = instance.math.tensors.values()
    units = tuple((t.name, t.fast[0] if t.fast else None) for t in tensors)
    aligned = tuple(t.name for t in tensors if t.fast or not t.dims)
    full = _bucketed(instance, arch, sizes, params)
    buckets = tuple((a, bucket(EXPECTED_EXTENT)) for a in full)
    return _key(instance, sizes, params, units, aligned, "i32", buckets)


def call_key(
    instance: Instance,
    arch: str,
    tensors: Mapping[str, Tensor],
    sizes: Mapping[str, int],
    params: Mapping[str, Number],
) -> Key:
    """Return the key of a call: `tensors` are inputs and outputs, `sizes` all sizes, `params` all params."""
    math = instance.math
    fixed = {n: sizes[n] for n, z in math.sizes.items() if z.choices is not None}
    static = {n: params[n] for n, p in math.params.items() if p.static}
    named = [(t.name, tensors[t.name], t.fast) for t in math.tensors.values()]
    full = _bucketed(instance, arch, fixed, static)
    extents = bind(math, sizes, params).extents if full else {}
    buckets = tuple((a, bucket(extents[a])) for a in full)
    return _key(instance, fixed, static, *memory_key(named), buckets)


def _key(
    instance: Instance,
    sizes: Mapping[str, int],
    params: Mapping[str, Number],
    units: tuple[tuple[str, int | None], ...],
    aligned: tuple[str, ...],
    offset: str,
    buckets: tuple[tuple[str, int], ...],
) -> Key:
    dtypes = tuple((n, d.name) for n, d in instance.variant.dtypes.items())
    return Key(dtypes, tuple(sizes.items()), tuple(params.items()), units, aligned, offset, buckets)


def _bucketed(instance: Instance, arch: str, sizes: Mapping[str, int], params: Mapping[str, Number]) -> tuple[str, ...]:
    """Return the axes of run-time extent that some backend holds whole: one key serves both backends."""
    known = static_values(instance.math, dict(sizes))
    whole = {
        axis
        for backend in BACKENDS
        for config in _kernels(config_for(instance, backend, arch, sizes, params))
        for axis, role in config.roles.items()
        if role == "whole"
    }
    axes = instance.math.axes
    return tuple(a for a in axes if a in whole and evaluate(axes[a].extent, known) is None)


def _kernels(config: Config) -> Iterator[Config]:
    yield config
    yield from config.kernels.values()
