"""The specialisation key of a call: what of the arguments the compiled kernels depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import Tensor

ALIGNMENT = 16  # bytes of the widest vector access
I32_LIMIT = 2**31

Units = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Key:
    """Hashable form of `kgen.specialise.Specialisation`: pairs of names and values, in the spec's order."""

    dtypes: tuple[tuple[str, str], ...]
    sizes: tuple[tuple[str, int], ...]
    params: tuple[tuple[str, Any], ...]
    units: Units
    aligned: tuple[str, ...]
    offset: str
    buckets: tuple[tuple[str, int], ...]

    def serves(self, call: Key) -> bool:
        """Return whether kernels made for this key serve a call, which may have buckets that this key leaves out."""
        mine = dict(self.buckets)
        kept = tuple((axis, size) for axis, size in call.buckets if axis in mine)
        return self == Key(call.dtypes, call.sizes, call.params, call.units, call.aligned, call.offset, kept)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Key:
        pairs = {n: tuple((k, v) for k, v in raw[n]) for n in ("dtypes", "sizes", "params", "units", "buckets")}
        return cls(aligned=tuple(raw["aligned"]), offset=raw["offset"], **pairs)


def memory_key(tensors: Sequence[tuple[str, Tensor, tuple[int, ...]]]) -> tuple[Units, tuple[str, ...], str]:
    """Return (units, aligned, offset) of named tensors, each with the dims that have a unit-stride fast path.

    A tensor without elements fits every key, so it counts as the expected layout.
    """
    units, aligned, far = [], [], False
    for name, t, fast in tensors:
        unit, rows, wide = _layout(t.shape, t.stride(), t.element_size(), fast)
        units.append((name, unit))
        if rows and t.data_ptr() % ALIGNMENT == 0:
            aligned.append(name)
        far = far or wide
    return tuple(units), tuple(aligned), "i64" if far else "i32"


@lru_cache(maxsize=4096)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], item: int, fast: tuple[int, ...]
) -> tuple[int | None, bool, bool]:
    """Return the dim of stride 1, whether all rows are aligned if the base is, and whether offsets need 64 bits.

    32 bits are enough if every stride and the distance between any two elements fit: a tile's offsets are at most that.
    """
    if 0 in shape:
        return (fast[0] if fast else None), True, False
    unit = next((d for d in fast if strides[d] == 1 or shape[d] == 1), None)
    others = [s for d, s in enumerate(strides) if d != unit and shape[d] > 1]
    rows = (unit is not None or not shape) and all(s * item % ALIGNMENT == 0 for s in others)
    reach = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return unit, rows, max(reach, *strides, 0) >= I32_LIMIT


def bucket(extent: int) -> int:
    """Return the padded size of a `tile: full` axis: the next power of two, at least 16."""
    return max(16, 1 << max(0, extent - 1).bit_length())
