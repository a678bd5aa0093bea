"""Launches a cubin on torch's current stream with little overhead (about 5 us a call on one H200 machine)."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kgen.ops.cuda_driver import INVALID_CONTEXT, CudaError, check, driver, load_function, use_primary_context

_FORMATS = {"ptr": "Q", "i64": "q", "i32": "i", "f32": "f", "f64": "d", "bool": "?"}
_GRID_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class _Layout:
    """Where each parameter lies in a kernel's parameter block: naturally aligned, as in C."""

    packer: struct.Struct
    offsets: tuple[int, ...]
    is_pointer: tuple[bool, ...]


@functools.cache
def _layout(types: tuple[str, ...]) -> _Layout:
    unknown = [name for name in types if name not in _FORMATS]
    if unknown:
        raise CudaError(f"unknown parameter type '{unknown[0]}'; expected one of {', '.join(_FORMATS)}")
    codes = [_FORMATS[name] for name in types]
    ends = [struct.calcsize("@" + "".join(codes[: i + 1])) for i in range(len(codes))]
    offsets = tuple(end - struct.calcsize(code) for end, code in zip(ends, codes, strict=True))
    return _Layout(struct.Struct("@" + "".join(codes)), offsets, tuple(name == "ptr" for name in types))


class _Block(threading.local):
    """A thread's parameter block and the array of pointers into it that the driver reads."""

    def __init__(self, layout: _Layout) -> None:
        self.bytes = ctypes.create_string_buffer(max(1, layout.packer.size))
        base = ctypes.addressof(self.bytes)
        self.array = (ctypes.c_void_p * max(1, len(layout.offsets)))(*(base + offset for offset in layout.offsets))
        self.pointers = ctypes.addressof(self.array)


class CudaKernel:
    """One kernel of a cubin, loaded into torch's context of a device at the first launch there.

    `block` is the number of threads, `smem_bytes` the dynamic shared memory.
    """

    def __init__(self, cubin_path: Path, entry: str, block: int, smem_bytes: int = 0) -> None:
        self.cubin_path = Path(cubin_path)
        self.entry = entry
        self.block = block
        self.smem_bytes = smem_bytes
        self._functions: dict[int, int] = {}
        self._prepared: dict[tuple[str, ...], Callable[..., None]] = {}
        self._loading = threading.Lock()

    def launch(self, grid: int, args: Sequence[tuple[str, Any]]) -> None:
        """Launch `grid` blocks on the current stream of the first tensor's device. A grid of 0 does nothing.

        `args` are (type, value): type "ptr" with a tensor, an address or None; "i32", "i64", "f32", "f64", "bool"
        with a number ("f32" rounds it). Raises CudaError with the driver's name of the error, or for an integer outside
        its type.
        """
        types = tuple(kind for kind, _ in args)
        prepared = self._prepared.get(types)
        if prepared is None:
            prepared = self._prepared.setdefault(types, self.prepare(types))
        prepared(grid, *(value for _, value in args))

    def prepare(self, types: Sequence[str]) -> Callable[..., None]:
        """Return `launch(grid, *values)` for parameters of these types: the same with less work per call."""
        layout = _layout(tuple(types))
        block = _Block(layout)
        pack, is_pointer = layout.packer.pack_into, layout.is_pointer
        functions, threads, shared = self._functions, self.block, self.smem_bytes
        raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

        def launch(grid: int, *values: Any) -> None:
            if not 0 < grid <= _GRID_LIMIT:
                return _refuse_grid(grid)
            device = _device_of(values)
            if device != torch.cuda.current_device():
                with torch.cuda.device(device):
                    return launch(grid, *values)
            function = functions.get(device) or self._load(device)
            numbers = [_address(v) if p else v for v, p in zip(values, is_pointer, strict=True)]
            try:
                pack(block.bytes, 0, *numbers)
            except struct.error as error:
                raise CudaError(f"{self.entry}: arguments do not fit the types {', '.join(types)}: {error}") from None
            arguments = (function, grid, 1, 1, threads, 1, 1, shared, raw_stream(device), block.pointers, None)  # type: ignore[misc]
            status = driver().cuLaunchKernel(*arguments)
            if status == INVALID_CONTEXT:
                use_primary_context(device)
                status = driver().cuLaunchKernel(*arguments)
            if status:
                check(f"cuLaunchKernel of {self.entry} ({grid} blocks of {threads} threads, {shared} bytes)", status)
            return None

        return launch

    def _load(self, device: int) -> int:
        with self._loading:
            if device not in self._functions:
                use_primary_context(device)
                self._functions[device] = load_function(self.cubin_path.read_bytes(), self.entry, self.smem_bytes)
            return self._functions[device]


def _refuse_grid(grid: int) -> None:
    if grid != 0:
        raise CudaError(f"a grid of {grid} blocks; expected 0 to {_GRID_LIMIT}")


def _device_of(values: Sequence[Any]) -> int:
    for value in values:
        if isinstance(value, torch.Tensor):
            index = value.get_device()
            if index < 0:
                raise CudaError("a CUDA kernel was given a tensor on the CPU")
            return index
    return int(torch.cuda.current_device())


def _address(value: Any) -> int:
    if value is None or isinstance(value, int):
        return value or 0
    return int(value.data_ptr())
