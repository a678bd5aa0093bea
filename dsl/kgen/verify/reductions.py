"""Plain dense reductions over dimensions of a tensor, of which only the elements where `exists` holds take part."""

from __future__ import annotations

import torch
from torch import Tensor

from kgen.errors import KgenError


def reduce(name: str, data: Tensor, exists: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    """Return the reduction `name` of `data` over `dims`, which are kept with extent 1.

    Elements that do not exist are left out by selection, so NaN there has no effect. Over no elements: sum, count and
    any give 0, prod and all give 1, max -inf, min inf, mean NaN, argmax and argmin -1. NaN wins in max, min, argmax and
    argmin; of equal values argmax and argmin take the first.
    """
    match name:
        case "sum":
            return _select(data, exists, 0).sum(dims, keepdim=True)
        case "prod":
            out = _select(data, exists, 1)
            for dim in dims:
                out = out.prod(dim, keepdim=True)
            return out
        case "max":
            return _extreme(_select(data, exists, _lowest(data.dtype)), dims)
        case "min":
            return -_extreme(_select(-data, exists, _lowest(data.dtype)), dims)
        case "any":
            return _select(data, exists, 0).to(torch.int64).sum(dims, keepdim=True) > 0
        case "all":
            return _select(~data.to(torch.bool), exists, 0).to(torch.int64).sum(dims, keepdim=True) == 0
        case "count":
            return count(data, exists, dims)
        case "mean":
            return _select(data, exists, 0).sum(dims, keepdim=True) / count(data, exists, dims)
        case "argmax":
            return _position(data, exists, dims)
        case "argmin":
            return _position(-data, exists, dims)
        case _:
            raise KgenError(f"no direct formula for the reduction '{name}'")


def count(data: Tensor, exists: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    """Return the number of elements that exist along `dims` (int64, kept with extent 1)."""
    ones = torch.ones((), dtype=torch.int64).expand(data.shape)
    return _select(ones, exists, 0).sum(dims, keepdim=True)


def _select(data: Tensor, exists: Tensor | None, other: float) -> Tensor:
    return data if exists is None else torch.where(exists, data, torch.tensor(other, dtype=data.dtype))


def _lowest(dtype: torch.dtype) -> float:
    return float("-inf") if dtype.is_floating_point else -(2**62)


def _extreme(data: Tensor, dims: tuple[int, ...]) -> Tensor:
    if any(data.shape[d] == 0 for d in dims):
        shape = [1 if i in dims else n for i, n in enumerate(data.shape)]
        return torch.full(shape, _lowest(data.dtype), dtype=data.dtype)
    return data.amax(dims, keepdim=True)


def _position(data: Tensor, exists: Tensor | None, dims: tuple[int, ...]) -> Tensor:
    if len(dims) != 1:
        raise KgenError("argmax and argmin take one axis")
    dim = dims[0]
    best = _extreme(_select(data, exists, _lowest(data.dtype)), dims)
    found = (data == best) | (data.isnan() & best.isnan())
    found = found if exists is None else found & exists
    shape = [data.shape[dim] if i == dim else 1 for i in range(data.ndim)]
    places = torch.arange(data.shape[dim]).reshape(shape).expand(found.shape)
    beyond = data.shape[dim]
    first = -_extreme(torch.where(found, -places, -beyond), dims)
    return torch.where(found.any(dim, keepdim=True), first, -1)
