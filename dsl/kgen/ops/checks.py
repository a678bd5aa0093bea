"""The checks that a generated op makes of its arguments. Messages name the argument, what came and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor

from kgen.errors import KgenError

SIZE_LIMIT = 2**31 - 1  # kernels count positions in 32 bits
_F32_LIMIT = torch.finfo(torch.float32).max
_RANGES = {name: torch.iinfo(getattr(torch, f"int{name[1:]}")) for name in ("i8", "i16", "i32", "i64")}
_RANGES["u8"] = torch.iinfo(torch.uint8)


class ArgumentError(KgenError, ValueError):
    """An argument of an op does not fit its spec."""


def shape(name: str, t: Tensor, dims: str, rank: int) -> torch.Size:
    """Return the shape of a tensor that must have `rank` dimensions, written `dims` in the spec."""
    if not isinstance(t, Tensor):
        raise ArgumentError(f"{name} must be a tensor, not {type(t).__name__}")
    found = t.shape
    if len(found) != rank:
        raise ArgumentError(f"{name} must have {rank} dimensions [{dims}], not {len(found)}: {tuple(found)}")
    return found


def one_device(tensors: Mapping[str, Tensor]) -> None:
    """Require that all tensors are on one device."""
    device = None
    for name, t in tensors.items():
        if device is None:
            first, device = name, t.device
        elif t.device != device:
            raise ArgumentError(f"{name} is on {t.device}, but {first} is on {device}")


def dtype(tensors: Mapping[str, Tensor], allowed: Mapping[torch.dtype, str]) -> str:
    """Return the spec's name of the element type that the tensors share."""
    shared = None
    for name, t in tensors.items():
        if shared is None:
            first, shared = name, t.dtype
            if shared not in allowed:
                raise ArgumentError(f"{name} is {_plain(shared)}; allowed: {', '.join(map(_plain, allowed))}")
        elif t.dtype != shared:
            raise ArgumentError(f"{name} is {_plain(t.dtype)}, but {first} is {_plain(shared)}: they must be the same")
    return allowed[shared] if shared is not None else ""


def _plain(t: torch.dtype) -> str:
    return str(t).removeprefix("torch.")


def extent(name: str, dim: int, got: int, text: str, wanted: int) -> None:
    """Require that a dimension has the extent that the spec gives it."""
    if got != wanted:
        raise ArgumentError(f"{name} has {got} elements in dimension {dim}; it must have {_equation(text, wanted)}")


def _equation(text: str, value: int) -> str:
    return text if text == str(value) else f"{text} = {value}"


def divisor(text: str, value: int, where: str) -> None:
    """Require that a size that the spec divides by is not 0."""
    if value == 0:
        raise ArgumentError(f"{text} is 0, and the spec divides by it in {where}")


def choice(name: str, value: int, choices: Collection[int]) -> None:
    """Require one of the values that a static size can have."""
    if value not in choices:
        raise ArgumentError(f"{name} = {value} is not one of the sizes this op is made for: {_listed(choices)}")


def _listed(choices: Collection[int]) -> str:
    if isinstance(choices, range):
        return f"{choices[0]}..{choices[-1]} step {choices.step}"
    return ", ".join(str(v) for v in choices)


def require(ok: bool, text: str, known: Mapping[str, Any]) -> None:
    """Require a condition of the spec; the message shows the values of its names."""
    if not ok:
        shown = ", ".join(f"{k} = {v}" for k, v in known.items())
        raise ArgumentError(f"the arguments must satisfy {text}; here {shown}")


def size(name: str, value: int) -> None:
    """Require that a size that the caller gives is not negative."""
    if value < 0:
        raise ArgumentError(f"{name} = {value} is negative; it is a size")


def real(name: str, value: float, kind: str) -> float:
    """Return a float parameter; raise ArgumentError for a finite number that its type cannot hold."""
    number = float(value)
    if kind != "f64" and abs(number) > _F32_LIMIT and abs(number) != float("inf"):
        raise ArgumentError(f"{name} = {number} is too large for {kind} (at most {_F32_LIMIT:.7g})")
    return number


def quotient(a: float, b: float) -> float:
    """Return a / b as IEEE 754 has it: a division by zero is an infinity or NaN, no error."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def integer(name: str, value: int, kind: str) -> int:
    """Return an integer parameter; raise ArgumentError for one that its type cannot hold."""
    number, limits = int(value), _RANGES[kind]
    if not limits.min <= number <= limits.max:
        raise ArgumentError(f"{name} = {number} does not fit {kind} ({limits.min} to {limits.max})")
    return number


def refuse_wide(tensors: Mapping[str, Tensor], sizes: Mapping[str, int]) -> NoReturn:
    """Report the size that is larger than kernels can count."""
    for name, t in tensors.items():
        for dim, n in enumerate(t.shape):
            if n > SIZE_LIMIT:
                raise ArgumentError(f"{name} has {n} elements in dimension {dim}; at most {SIZE_LIMIT} are possible")
    name, value = max(sizes.items(), key=lambda item: item[1])
    raise ArgumentError(f"the size {name} = {value} is too large; at most {SIZE_LIMIT} is possible")


def overwritten(name: str, t: Tensor, others: Mapping[str, Tensor]) -> None:
    """Require that the elements of a tensor to be overwritten lie apart, and that no other argument starts there."""
    if t.numel() == 0:
        return
    if any(stride == 0 and n > 1 for n, stride in zip(t.shape, t.stride(), strict=True)):
        raise ArgumentError(f"{name} is overwritten, but some of its elements share memory (it is an expanded tensor)")
    for other, u in others.items():
        if other != name and u.numel() > 0 and u.data_ptr() == t.data_ptr():
            raise ArgumentError(f"{name} is overwritten, but {other} is the same memory")
