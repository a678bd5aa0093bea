"""Sums of products without their dense intermediate, and the rounding of their operands."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from kgen import terms
from kgen.types import DType
from kgen.verify.values import Value


def flatten_product(e: terms.Expr) -> list[terms.Expr]:
    """Return the factors of a product."""
    if isinstance(e, terms.Apply) and e.fn == "mul":
        return [f for arg in e.args for f in flatten_product(arg)]
    return [e]


def dot_dtype(
    e: terms.Expr, factors: list[terms.Expr], axes: tuple[str, ...], casts: Mapping[str, DType]
) -> DType | None:
    """Return the type that factor `e` of a sum over `axes` is rounded to as a Dot operand, None if it is not rounded.

    A named cast counts; else a computed operand takes the type of a partner that is stored in a narrower one.
    """
    mine = terms.free_axes(e)
    others = [f for f in factors if f is not e and terms.free_axes(f) & set(axes)]
    is_dot = mine & set(axes) and any(mine - terms.free_axes(f) and terms.free_axes(f) - mine for f in others)
    if not is_dot:
        return None
    if isinstance(e, terms.Ref) and e.name in casts:
        return casts[e.name]
    if _given(e, casts) is not None:
        return None
    narrow = [t for f in others if (t := _given(f, casts)) is not None and t.bits < e.dtype.bits]
    return min(narrow, key=lambda t: t.bits) if narrow else None


def _given(e: terms.Expr, casts: Mapping[str, DType]) -> DType | None:
    """Return the float type in which a factor is stored or cast, None if it is computed."""
    match e:
        case terms.Load(dtype=dtype) | terms.Cast(arg=terms.Load(dtype=dtype)) if dtype.is_float:
            return dtype
        case terms.Ref(name=name) if name in casts:
            return casts[name]
        case _:
            return None


def guard_smallest(values: list[Value], exists: Tensor) -> list[Value]:
    """Put the guard on the factor that it enlarges least."""
    sizes = [torch.Size(torch.broadcast_shapes(v.data.shape, exists.shape)).numel() for v in values]
    at = sizes.index(min(sizes))
    guarded = values[at]
    data = torch.where(exists, guarded.data, torch.zeros((), dtype=guarded.data.dtype))
    mag = None if guarded.mag is None else torch.where(exists, guarded.mag, 0.0)
    return [*values[:at], Value(data, mag, guarded.hollow), *values[at + 1 :]]


def contracted_magnitude(values: list[Value], dims: tuple[int, ...]) -> Tensor:
    """Return the sum over `dims` of `magnitude.of_product`, without its dense intermediate."""
    plain = [v.data.abs() for v in values]
    total: Tensor | None = None
    for at, v in enumerate(values):
        assert v.mag is not None
        excess = v.mag - plain[at] if at else v.mag
        term = einsum([*plain[:at], excess, *plain[at + 1 :]], dims)
        total = term if total is None else total + term
    assert total is not None
    return total


def einsum(factors: list[Tensor], dims: tuple[int, ...]) -> Tensor:
    """Sum the product of `factors` over `dims`, which are kept with extent 1."""
    rank = factors[0].ndim
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[:rank]
    kept = "".join(c for i, c in enumerate(letters) if i not in dims)
    out = torch.einsum(f"{','.join([letters] * len(factors))}->{kept}", *factors)
    for dim in sorted(dims):
        out = out.unsqueeze(dim)
    return out
