"""Compiles CUDA text in this process by NVRTC (no GPU, no driver, no host compiler needed)."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

from kgen.build.toolchain import ToolFailure, toolkit_include

try:
    from cuda.bindings import nvrtc
except ImportError:
    nvrtc = None


@functools.cache
def version() -> str | None:
    """Return the version of the NVRTC that would compile, or None if the bindings or the library are missing."""
    if nvrtc is None:
        return None
    try:
        status, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError:
        return None
    return f"nvrtc {major}.{minor} {_wheel_version()}".strip() if int(status) == 0 else None


def compile_text(text: str, headers: Mapping[str, str], options: Sequence[str]) -> tuple[bytes, str]:
    """Return (cubin, log). `headers` maps names, as the text includes them, to texts. Raises ToolFailure."""
    names, texts = [name.encode() for name in headers], [content.encode() for content in headers.values()]
    program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", len(names), texts, names))
    try:
        toolkit = toolkit_include()
        system = [f"-I{toolkit}"] if toolkit else []
        encoded = [option.encode() for option in (*options, *system)]
        status = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)[0]
        printed = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        log = printed.rstrip(b"\0 ").decode("utf-8", "replace")
        if int(status) != 0:
            raise ToolFailure(log or status.name)
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of: Any, read: Any, program: Any) -> bytes:
    buffer = b" " * _checked(size_of(program))
    _checked(read(program, buffer))
    return buffer


def _checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status) != 0:
        raise ToolFailure(status.name)
    return values[0] if values else None


def _wheel_version() -> str:
    """Return the wheel's version, which tells apart builds of one NVRTC version; "" without a wheel."""
    for name in ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""
