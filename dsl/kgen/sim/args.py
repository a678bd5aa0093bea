"""Arguments of a simulated kernel launch."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from kgen.sim.native import TensorMap

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


@dataclass(frozen=True)
class TensorMapArg(TensorArg):
    """A tensor passed as a tensor map for TMA.

    box: elements per dimension of a tile, in the order of the tensor's dimensions. swizzle: span in bytes: 0, 32, 64 or
    128. Raises ValueError where cuTensorMapEncodeTiled would refuse.
    """

    box: tuple[int, ...] = ()
    swizzle: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for problem in self._problems():
            raise ValueError(f"no tensor map of '{self.name}': {problem}")

    def _problems(self) -> Iterator[str]:
        item, strides = self.tensor.element_size(), self.tensor.stride()
        if not 1 <= self.tensor.dim() <= 5 or len(self.box) != self.tensor.dim():
            yield f"a map has 1 to 5 dimensions and a box of as many, not {self.tensor.dim()} and {len(self.box)}"
            return
        if self.tensor.numel() == 0:
            yield "the tensor is empty"
        if strides[-1] != 1 and self.tensor.shape[-1] != 1:
            yield f"the last dimension has stride {strides[-1]} instead of 1"
        if any(stride * item % 16 or stride <= 0 for stride in strides[:-1]):
            yield f"outer strides of {strides[:-1]} elements of {item} bytes are not positive multiples of 16 bytes"
        if self.misalignment % 16:
            yield "its address is not a multiple of 16"
        if any(not 1 <= n <= 256 for n in self.box):
            yield f"each of a box's sizes is 1 to 256, not {self.box}"
        if self.swizzle not in (0, 32, 64, 128):
            yield f"a swizzle spans 0, 32, 64 or 128 bytes, not {self.swizzle}"
        width = self.box[-1] * item
        if width % 16 or (self.swizzle and width > self.swizzle):
            yield f"rows of {width} bytes are not a multiple of 16, or exceed the swizzle's span of {self.swizzle}"

    @property
    def letter(self) -> str:
        """Letter of the parameter in a kernel's signature."""
        return "m"

    def native(self, address: int) -> TensorMap:
        """Return the map of the tensor's copy at `address`."""
        item = self.tensor.element_size()
        found = TensorMap(base=address, rank=self.tensor.dim(), item=item, swizzle=self.swizzle)
        dimensions = zip(reversed(self.tensor.shape), reversed(self.tensor.stride()), reversed(self.box), strict=True)
        for i, (size, stride, box) in enumerate(dimensions):
            found.sizes[i], found.strides[i], found.box[i] = size, stride * item, box
        return found


Arg = TensorArg | ScalarArg
