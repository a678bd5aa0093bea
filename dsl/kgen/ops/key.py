"""The specialisation key of a call: what of the arguments the compiled kernels depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

ALIGNMENT = 16  # bytes of the widest vector access
I32_LIMIT = 2**31


@dataclass(frozen=True)
class Key:
    """Hashable form of `kgen.specialise.Specialisation`: pairs of names and values, in the spec's order."""

    dtypes: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    params: tuple[tuple[str, Any], ...]
    units: tuple[tuple[str, int | None], ...]
    aligned: tuple[str, ...]
    offset: str
    buckets: tuple[tuple[str, int], ...]

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Key:
        pairs = {n: tuple((k, v) for k, v in raw[n]) for n in ("dtypes", "sizes", "params", "units", "buckets")}
        return cls(aligned=tuple(raw["aligned"]), offset=raw["offset"], **pairs)


def memory_key(
    tensors: Sequence[tuple[str, Tensor, tuple[int, ...]]],
) -> tuple[tuple[tuple[str, int | None], ...], tuple[str, ...], str]:
    """Return (units, aligned, offset) of named tensors, each with the dims that have a unit-stride fast path."""
    units, aligned, widest = [], [], 0
    for name, t, fast in tensors:
        strides, shape, item = t.stride(), t.shape, t.element_size()
        unit = next((d for d in fast if strides[d] == 1 or shape[d] == 1), None)
        units.append((name, unit))
        others = [s for d, s in enumerate(strides) if d != unit and shape[d] > 1]
        if (unit is not None or not shape) and t.data_ptr() % ALIGNMENT == 0:
            if all(s * item % ALIGNMENT == 0 for s in others):
                aligned.append(name)
        widest = max(widest, sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True) if n))
    return tuple(units), tuple(aligned), "i32" if widest < I32_LIMIT else "i64"


def bucket(extent: int) -> int:
    """Return the padded size of a `tile: full` axis: the next power of two, at least 16."""
    return max(16, 1 << max(0, extent - 1).bit_length())
