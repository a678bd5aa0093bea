"""Views of tensors in awkward storage, with storage that must not be read or written made visible."""

from __future__ import annotations

import torch
from torch import Tensor

BAND = 128  # elements of poison on either side of a tensor: keeps every dtype aligned to 128 bytes


def poison(dtype: torch.dtype) -> float | int | bool:
    """Return a value that shows wherever it is used: NaN, or the largest integer."""
    if dtype.is_floating_point:
        return float("nan")
    return True if dtype is torch.bool else torch.iinfo(dtype).max


def strided(values: Tensor, turn: int, *, expandable: bool) -> Tensor:
    """Return a view of the same values (expanded: the first repeated) in storage chosen by `turn`; gaps hold poison."""
    if values.ndim == 0:
        return embed(values, (), 3)
    match turn % 4:
        case 0:
            return _transposed(values)
        case 1:
            return _padded(values)
        case 2 if expandable and values.ndim > 1 and values.shape[0] > 1:
            return embed(values[:1], contiguous_strides(values.shape[1:], lead=True), 8).expand(values.shape)
        case _:
            return _spread(values)


def embed(values: Tensor, strides: tuple[int, ...], offset: int, tail: int = 16) -> Tensor:
    """Copy `values` into poisoned storage with these strides, with `offset` elements before them and `tail` behind."""
    reach = sum((n - 1) * s for n, s in zip(values.shape, strides, strict=True)) + 1 if values.numel() else 0
    storage = torch.full((offset + reach + tail,), poison(values.dtype), dtype=values.dtype, device=values.device)
    view = storage.as_strided(values.shape, strides, offset)
    view.copy_(values)
    return view


def contiguous_strides(shape: tuple[int, ...], *, lead: bool = False) -> tuple[int, ...]:
    """Return row-major strides; `lead` adds one for a dimension in front."""
    strides = [1]
    for n in reversed(shape):
        strides.append(strides[-1] * max(n, 1))
    found = tuple(reversed(strides))
    return found if lead else found[1:]


def _transposed(values: Tensor) -> Tensor:
    """The first dimension varies fastest."""
    strides = contiguous_strides(tuple(reversed(values.shape)))
    return embed(values, tuple(reversed(strides)), 5)


def _padded(values: Tensor) -> Tensor:
    """Rows are longer than the tensor (by an odd count) and start off any alignment."""
    wider = (*values.shape[:-1], values.shape[-1] + 3)
    return embed(values, contiguous_strides(wider), 1)


def _spread(values: Tensor) -> Tensor:
    """Every second element of the last dimension."""
    wider = (*values.shape[:-1], 2 * values.shape[-1])
    strides = contiguous_strides(wider)
    return embed(values, (*strides[:-1], 2), 8)
