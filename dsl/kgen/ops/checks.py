"""The checks that a generated op makes of its arguments. Every message names the argument, what came and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from kgen.errors import KgenError


class ArgumentError(KgenError, ValueError):
    """An argument of an op does not fit its spec."""


def rank(name: str, t: Tensor, dims: str, count: int) -> None:
    """Require a tensor of `count` dimensions, written `dims` in the spec."""
    if not isinstance(t, Tensor):
        raise ArgumentError(f"{name} must be a tensor, not {type(t).__name__}")
    if t.dim() != count:
        raise ArgumentError(f"{name} must have {count} dimensions [{dims}], not {t.dim()} ({tuple(t.shape)})")


def extent(name: str, dim: int, got: int, text: str, wanted: int) -> None:
    """Require that a dimension has the extent that the spec gives it."""
    if got != wanted:
        raise ArgumentError(f"{name} has {got} elements in dimension {dim}; {text} = {wanted} expected")


def choice(name: str, value: int, choices: Sequence[int]) -> None:
    """Require one of the values that a static size can have."""
    if value not in choices:
        raise ArgumentError(f"{name} = {value} is not one of the sizes this op is made for: {_listed(choices)}")


def _listed(values: Sequence[int]) -> str:
    steps = {b - a for a, b in zip(values, values[1:], strict=False)}
    if len(values) > 3 and len(steps) == 1:
        return f"{values[0]}..{values[-1]} step {steps.pop()}"
    return ", ".join(str(v) for v in values)


def require(ok: bool, text: str, known: Mapping[str, Any]) -> None:
    """Require a condition of the spec; the message shows the values of its names."""
    if not ok:
        shown = ", ".join(f"{k} = {v}" for k, v in known.items())
        raise ArgumentError(f"the arguments must satisfy {text}; here {shown}")


def dtype_of(variable: str, tensors: Mapping[str, Tensor], allowed: Mapping[str, str]) -> str:
    """Return the spec's name of the element type that the tensors share. `allowed` maps torch names to spec names."""
    first, t = next(iter(tensors.items()))
    name = str(t.dtype).removeprefix("torch.")
    if name not in allowed:
        raise ArgumentError(f"{first} is {name}; {variable} can be {', '.join(allowed)}")
    for other, u in tensors.items():
        if u.dtype != t.dtype:
            raise ArgumentError(f"{other} is {str(u.dtype).removeprefix('torch.')}, but {first} is {name}")
    return allowed[name]


def dtype_is(name: str, t: Tensor, wanted: str) -> None:
    """Require a fixed element type."""
    if t.dtype != getattr(torch, wanted):
        raise ArgumentError(f"{name} is {str(t.dtype).removeprefix('torch.')}; {wanted} expected")


def one_device(tensors: Mapping[str, Tensor]) -> None:
    """Require that all tensors are on one device."""
    first, t = next(iter(tensors.items()))
    for name, u in tensors.items():
        if u.device != t.device:
            raise ArgumentError(f"{name} is on {u.device}, but {first} is on {t.device}")
