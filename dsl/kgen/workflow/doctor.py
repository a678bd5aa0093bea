"""Doctor: what of this machine kgen uses, and what it lacks."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kgen import __version__, resources, sim
from kgen.build import Cache, nvrtc
from kgen.build.toolchain import nvcc_path, nvcc_version
from kgen.errors import KgenError
from kgen.workflow.progress import Progress

PACKAGES = ("torch", "triton", "numpy", "sympy", "lark", "ruamel.yaml", "pydantic", "typer", "rich", "jinja2")
OPTIONAL = ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12", "z3-solver")
MB = 1024 * 1024


@dataclass(frozen=True)
class Finding:
    """One fact. `ok` False: missing or broken; `needed`: without it `kgen build` cannot work."""

    name: str
    text: str
    ok: bool = True
    needed: bool = False


def examine(progress: Progress) -> list[Finding]:
    """Return the facts about this machine and installation; never raises for what is missing."""
    progress.stage("looking at this machine")
    return [
        Finding("kgen", f"{__version__}, Python {platform.python_version()}, {platform.platform()}"),
        *_packages(),
        *_compilers(),
        _gpu(),
        _data(),
        _cache(),
        _interpreter(),
    ]


def _packages() -> Iterator[Finding]:
    for name in (*PACKAGES, *OPTIONAL):
        needed = name in PACKAGES
        try:
            yield Finding(name, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if needed:
                yield Finding(name, "not installed", False, True)


def _compilers() -> Iterator[Finding]:
    made, nvcc = nvrtc.version(), nvcc_version()
    yield Finding("NVRTC", made or "not installed: pip install 'kgen-dsl[cu13]'", made is not None, nvcc is None)
    yield Finding("nvcc", f"{nvcc}, {nvcc_path()}" if nvcc else "not found", nvcc is not None)
    yield _attempt("C++ compiler (CUDA simulator)", lambda: sim.build.compiler())
    line_tool = shutil.which("addr2line")
    yield Finding("addr2line (lines of simulator faults)", line_tool or "not found", line_tool is not None)


def _gpu() -> Finding:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return Finding("GPU", "none: kernels are verified by interpreter and simulator")
    major, minor = torch.cuda.get_device_capability()
    return Finding("GPU", f"{torch.cuda.get_device_name()}, sm_{major}{minor}, CUDA {torch.version.cuda}")


def _data() -> Finding:
    return _attempt("templates and specs", lambda: f"{resources.path('templates')}, {resources.path('specs')}")


def _cache() -> Finding:
    root = Cache().root
    sizes = list(_sizes(root)) if root.is_dir() else []
    writable = os.access(next(p for p in (root, *root.parents) if p.exists()), os.W_OK)
    text = f"{root}, {sum(sizes) / MB:.1f} MB in {len(sizes)} files{'' if writable else ', not writable'}"
    return Finding("cache", text, writable, True)


def _sizes(root: Path) -> Iterator[int]:
    for path in root.rglob("*"):
        with contextlib.suppress(OSError):  # another process may remove it meanwhile
            if path.is_file():
                yield path.stat().st_size


def _interpreter() -> Finding:
    def corrected() -> str:
        found = importlib.import_module("kgen.verify.interpreter").ensure_correct()
        return f"corrected: {', '.join(c.name for c in found)}" if found else "needs no correction"

    return _attempt("Triton's interpreter", corrected)


def _attempt(name: str, look: Callable[[], str]) -> Finding:
    """Return what a look finds, or its error: a needed thing that is missing."""
    try:
        return Finding(name, look())
    except (KgenError, ImportError) as error:
        return Finding(name, str(error), False, True)
