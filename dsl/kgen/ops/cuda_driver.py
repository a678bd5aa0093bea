"""The few functions of the CUDA driver that launching needs, by ctypes (no import beyond the standard library)."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from kgen.errors import KgenError

MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
INVALID_CONTEXT = 201
_Handle = ctypes.c_void_p
_Unsigned = ctypes.c_uint


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig. Filling it in once is faster than passing its members to the driver at each launch."""

    _fields_ = (
        ("grid_x", _Unsigned),
        ("grid_y", _Unsigned),
        ("grid_z", _Unsigned),
        ("block_x", _Unsigned),
        ("block_y", _Unsigned),
        ("block_z", _Unsigned),
        ("shared_bytes", _Unsigned),
        ("stream", _Handle),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", _Unsigned),
    )


class CudaError(KgenError):
    """A call of the CUDA driver failed; the message carries the error's name."""


@functools.cache
def driver() -> Any:
    """Return the loaded driver library. Raises CudaError if this machine has none."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CudaError(f"no CUDA driver on this machine ({error})") from None
    library.cuLaunchKernelEx.argtypes = [ctypes.c_void_p, _Handle, ctypes.c_void_p, ctypes.c_void_p]
    library.cuModuleLoadData.argtypes = [ctypes.POINTER(_Handle), ctypes.c_char_p]
    library.cuModuleGetFunction.argtypes = [ctypes.POINTER(_Handle), _Handle, ctypes.c_char_p]
    library.cuFuncSetAttribute.argtypes = [_Handle, ctypes.c_int, ctypes.c_int]
    library.cuDevicePrimaryCtxRetain.argtypes = [ctypes.POINTER(_Handle), ctypes.c_int]
    library.cuCtxSetCurrent.argtypes = [_Handle]
    library.cuGetErrorName.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    library.cuGetErrorString.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    check("cuInit", library.cuInit(0), library)
    return library


def check(function: str, status: int, library: Any = None) -> None:
    """Raise CudaError with the error's name unless status is 0."""
    if status == 0:
        return
    library = library or driver()
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    library.cuGetErrorName(status, ctypes.byref(name))
    library.cuGetErrorString(status, ctypes.byref(text))
    known = (name.value or b"unknown error").decode(), (text.value or b"").decode()
    raise CudaError(f"{function}: {known[0]} ({status}): {known[1]}")


def use_primary_context(device: int) -> None:
    """Make torch's context of a device current in this thread. (A new thread has none before its first torch call.)"""
    context = _Handle()
    check("cuDevicePrimaryCtxRetain", driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check("cuCtxSetCurrent", driver().cuCtxSetCurrent(context))


def load_function(cubin: bytes, entry: str, shared_bytes: int) -> int:
    """Load a cubin into the current context and return its kernel, allowed `shared_bytes` of dynamic shared memory."""
    module, function = _Handle(), _Handle()
    check("cuModuleLoadData", driver().cuModuleLoadData(ctypes.byref(module), cubin))
    check("cuModuleGetFunction", driver().cuModuleGetFunction(ctypes.byref(function), module, entry.encode()))
    static_limit = 48 * 1024
    if shared_bytes > static_limit:
        status = driver().cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        check(f"cuFuncSetAttribute (dynamic shared memory of {shared_bytes} bytes)", status)
    if function.value is None:
        raise CudaError(f"the driver returned no function for '{entry}'")
    return function.value
