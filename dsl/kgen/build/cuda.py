"""CUDA text -> cubin, by NVRTC if it is installed, else by nvcc on the same text."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kgen.build import nvcc, nvrtc
from kgen.build.binary import Binary, CompileError, Resources
from kgen.build.cache import Cache, digest
from kgen.build.elf import kernel_names, read_resources
from kgen.build.headers import included
from kgen.build.ptxas import parse_report
from kgen.build.toolchain import ToolFailure, nvcc_version, toolkit_include
from kgen.errors import KgenError

Compiler = Literal["nvrtc", "nvcc"]
ARCHITECTURE = re.compile(r"sm_\d+[af]?")
_PLACE = re.compile(r"^kernel\.cu\((\d+)\)", re.MULTILINE)
_REMEDIES = (
    "no CUDA compiler was found: install kgen-dsl[cu13] (or [cu12]), which brings NVRTC, "
    "or put nvcc on PATH or under $CUDA_HOME/bin"
)


@dataclass(frozen=True)
class _Job:
    text: str
    headers: Mapping[str, str]
    entry: str
    arch: str
    options: tuple[str, ...]
    compiler: Compiler
    version: str


def available_compilers() -> tuple[Compiler, ...]:
    """Return the CUDA compilers of this machine, the preferred one first."""
    found: list[Compiler] = []
    if nvrtc.version() is not None:
        found.append("nvrtc")
    if nvcc_version() is not None:
        found.append("nvcc")
    return tuple(found)


def compile_cuda(
    text: str,
    entry: str,
    *,
    arch: str,
    defines: Mapping[str, int | str] | None = None,
    include_dirs: Sequence[Path] = (),
    cache: Cache | None = None,
    compiler: Compiler | None = None,
) -> Binary:
    """Compile the kernel `entry` of a CUDA text for `arch` ("sm_80", "sm_90", "sm_90a", ...).

    `entry` is the function's name in the text, with or without extern "C". Raises CompileError with the compiler's
    message and the offending line, and KgenError if this machine has no CUDA compiler.
    """
    if not ARCHITECTURE.fullmatch(arch):
        raise KgenError(f"'{arch}' is no CUDA architecture; expected a name such as sm_80, sm_90 or sm_90a")
    cache = cache or Cache()
    headers = included(text, [Path(folder) for folder in include_dirs])
    job = _prepare(text, headers, entry, arch, defines or {}, compiler or _preferred())
    key = digest(
        {
            "kind": "cuda",
            "text": text,
            "headers": headers,
            "entry": entry,
            "arch": arch,
            "defines": {name: str(value) for name, value in (defines or {}).items()},
            "compiler": job.version,
            "toolkit": _toolkit_stamp(),
        }
    )
    if (folder := cache.get(key)) is not None:
        return _load(folder, key, arch, cached=True)
    with cache.locked([key]):
        cached = cache.get(key) is not None
        folder = cache.get(key) or cache.put_locked(key, _compile(job))
    return _load(folder, key, arch, cached=cached)


def _preferred() -> Compiler:
    compilers = available_compilers()
    if not compilers:
        raise KgenError(_REMEDIES)
    return compilers[0]


def _prepare(
    text: str,
    headers: Mapping[str, str],
    entry: str,
    arch: str,
    defines: Mapping[str, int | str],
    compiler: Compiler,
) -> _Job:
    version = nvrtc.version() if compiler == "nvrtc" else nvcc_version()
    if version is None:
        raise KgenError(f"{compiler} was asked for but is not installed; {_REMEDIES}")
    report = "--ptxas-options=--verbose" if compiler == "nvrtc" else "-Xptxas=-v"
    macros = [f"-D{name}={value}" for name, value in defines.items()]
    return _Job(text, headers, entry, arch, (f"-arch={arch}", "-std=c++17", report, *macros), compiler, version)


def _compile(job: _Job) -> dict[str, bytes]:
    start = time.perf_counter()
    try:
        cubin, log = (nvrtc if job.compiler == "nvrtc" else nvcc).compile_text(job.text, job.headers, job.options)
    except ToolFailure as failure:
        place = _PLACE.search(failure.log)
        line = int(place[1]) if place else None
        raise CompileError(job.compiler, job.arch, failure.log, job.text, line) from None
    kernel = _symbol(job, kernel_names(cubin))
    resources = parse_report(log).get(kernel) or read_resources(cubin, kernel)
    facts = {"kernel": kernel, "resources": resources.to_json(), "seconds": time.perf_counter() - start}
    return {"kernel.cubin": cubin, "facts.json": json.dumps(facts, sort_keys=True).encode(), "log.txt": log.encode()}


def _symbol(job: _Job, names: Sequence[str]) -> str:
    mangled = f"_Z{len(job.entry)}{job.entry}"
    matches = [name for name in names if name == job.entry or name.startswith(mangled)]
    if len(matches) == 1:
        return matches[0]
    found = ", ".join(names) or "none"
    raise CompileError(job.compiler, job.arch, f"expected one kernel named '{job.entry}'; the text has: {found}")


def _toolkit_stamp() -> str:
    """Return what tells apart the toolkits' headers without naming their place."""
    folder = toolkit_include()
    header = folder / "cuda.h" if folder else None
    if header is None or not header.is_file():
        return ""
    version = re.search(r"#define\s+CUDA_VERSION\s+(\d+)", header.read_text(encoding="utf-8", errors="replace"))
    return version[1] if version else ""


def _load(folder: Path, key: str, arch: str, *, cached: bool) -> Binary:
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    resources = Resources.from_json(facts["resources"])
    return Binary("cuda", arch, folder / "kernel.cubin", facts["kernel"], resources, key, facts["seconds"], cached)
