"""The C interface of the runtime library (runtime/api.cpp), loaded once per process."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

_Int64s = ctypes.POINTER(ctypes.c_int64)


class Options(ctypes.Structure):
    """kg::Options in runtime/launch.hpp."""

    _fields_ = (
        ("grid", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("workers", ctypes.c_uint32),
        ("check_races", ctypes.c_uint32),
        ("check_outputs", ctypes.c_uint32),
        ("count_sectors", ctypes.c_uint32),
        ("lazy", ctypes.c_uint32),
        ("hopper", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("time_limit", ctypes.c_double),
    )


class TensorRequest(ctypes.Structure):
    """kg::TensorRequest in runtime/tensors.hpp."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("bytes", ctypes.c_uint64),
        ("misalignment", ctypes.c_uint64),
        ("item", ctypes.c_uint32),
        ("role", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("sizes", _Int64s),
        ("strides", _Int64s),
        ("address", ctypes.c_uint64),
    )


class TensorMap(ctypes.Structure):
    """tensor_map in runtime/state.hpp: innermost dimension first, strides in bytes."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("strides", ctypes.c_uint64 * 5),
        ("rank", ctypes.c_uint32),
        ("item", ctypes.c_uint32),
        ("swizzle", ctypes.c_uint32),
        ("sizes", ctypes.c_uint32 * 5),
        ("box", ctypes.c_uint32 * 5),
        ("padding", ctypes.c_uint8 * 28),
    )


_loaded: dict[str, Any] = {}


def runtime(library: Path) -> Any:
    """Load the runtime library. Its name holds its content's hash: copies in other folders are the same library."""
    if library.name not in _loaded:
        _loaded[library.name] = _declare(ctypes.CDLL(str(library)))
    return _loaded[library.name]


def _declare(found: Any) -> Any:
    found.kgs_open.restype = ctypes.c_void_p
    found.kgs_open.argtypes = (ctypes.POINTER(Options), ctypes.POINTER(TensorRequest), ctypes.c_uint32)
    found.kgs_run.restype = None
    found.kgs_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
    found.kgs_report.restype = ctypes.c_char_p
    found.kgs_report.argtypes = (ctypes.c_void_p,)
    found.kgs_tiles.restype = ctypes.c_uint64
    found.kgs_tiles.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Int64s))
    found.kgs_close.restype = None
    found.kgs_close.argtypes = (ctypes.c_void_p,)
    return found


@functools.cache
def kernel(library: Path) -> Any:
    """Load a kernel's library; the runtime must be loaded already."""
    found = ctypes.CDLL(str(library))
    found.kgen_signature.restype = ctypes.c_char_p
    return found
