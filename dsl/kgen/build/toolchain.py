"""Where CUDA's compilers and headers are on this machine, and which versions."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path


class ToolFailure(Exception):
    """A compiler ended with an error. `log` is all that it printed."""

    def __init__(self, log: str) -> None:
        super().__init__(log)
        self.log = log


@functools.cache
def toolkit_include() -> Path | None:
    """Return the folder of cuda_bf16.h: in the runtime wheel, else in the toolkit; None if there is none."""
    return next((folder for folder in _include_candidates() if (folder / "cuda_bf16.h").is_file()), None)


def _include_candidates() -> list[Path]:
    spec = importlib.util.find_spec("nvidia")
    wheels = [Path(p) for p in (spec.submodule_search_locations or [])] if spec else []
    return [
        *(root / part / "include" for root in wheels for part in ("cu13", "cuda_runtime")),
        *(root / "include" for root in _toolkit_roots()),
    ]


def _toolkit_roots() -> list[Path]:
    named = [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [*named, Path("/usr/local/cuda")]


@functools.cache
def nvcc_path() -> str | None:
    """Return nvcc of $CUDA_HOME, $CUDA_PATH, the search path or /usr/local/cuda; None if there is none."""
    named = [str(root / "bin" / "nvcc") for root in _toolkit_roots()]
    choices = [*named[:-1], "nvcc", named[-1]]
    return next((found for choice in choices if (found := shutil.which(choice))), None)


@functools.cache
def nvcc_version() -> str | None:
    """Return nvcc's own version line, or None if there is no nvcc."""
    path = nvcc_path()
    if path is None:
        return None
    printed = subprocess.run([path, "--version"], capture_output=True, encoding="utf-8", errors="replace", check=True)
    return next((line.strip() for line in printed.stdout.splitlines() if "release" in line), printed.stdout.strip())
