"""Arguments of a simulated kernel launch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Literal

import torch

Role = Literal["in", "out", "inout"]
ScalarType = Literal["i32", "i64", "f32", "f64", "bool"]

# ctype of a value, and the letter that entry.hpp gives a parameter of that type.
_SCALARS: dict[ScalarType, tuple[Any, str]] = {
    "i32": (ctypes.c_int32, "i"),
    "i64": (ctypes.c_int64, "l"),
    "f32": (ctypes.c_float, "f"),
    "f64": (ctypes.c_double, "d"),
    "bool": (ctypes.c_bool, "b"),
}


@dataclass(frozen=True)
class TensorArg:
    """A CPU tensor of any strides, passed as a pointer to its first element.

    Registered for access are the bytes from the first to the last element of the view. `out` tensors hold 0xff bytes
    at the start and must be written completely; `inout` tensors keep their values.
    """

    name: str
    tensor: torch.Tensor
    role: Role

    def __post_init__(self) -> None:
        if self.tensor.device.type != "cpu":
            raise ValueError(f"the simulator takes CPU tensors; '{self.name}' is on {self.tensor.device}")
        overlaps = any(n > 1 and s == 0 for n, s in zip(self.tensor.shape, self.tensor.stride(), strict=True))
        if self.role != "in" and overlaps:
            raise ValueError(f"output '{self.name}' is an expanded view: several of its elements share memory")

    @property
    def letter(self) -> str:
        """Letter of the parameter in a kernel's signature."""
        return "p"

    @property
    def bytes(self) -> int:
        """Bytes from the first to the last element of the view."""
        if self.tensor.numel() == 0:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.tensor.shape, self.tensor.stride(), strict=True))
        return (last + 1) * self.tensor.element_size()

    @property
    def misalignment(self) -> int:
        """Address modulo 256 that a GPU would give the view, whose storage starts aligned there."""
        return self.tensor.storage_offset() * self.tensor.element_size() % 256


@dataclass(frozen=True)
class ScalarArg:
    """A number passed by value."""

    name: str
    ctype: ScalarType
    value: int | float | bool

    @property
    def letter(self) -> str:
        """Letter of the parameter in a kernel's signature."""
        return _SCALARS[self.ctype][1]

    def native(self) -> Any:
        """Return the value as a ctypes object."""
        return _SCALARS[self.ctype][0](self.value)


Arg = TensorArg | ScalarArg
