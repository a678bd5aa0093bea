"""Compiles kernel text with g++ against the simulator's headers and runtime library."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from kgen import resources
from kgen.errors import KgenError

RUNTIME = Path(__file__).resolve().parent / "runtime"
_HEADERS = (".hpp", ".cuh", ".h")
_COMMON = ("-std=c++20", "-O2", "-fPIC", "-shared", "-Wno-psabi")
# No contraction of a*b+c: the text says fmaf where it wants one. Uninitialised variables that g++ can prove are errors.
_KERNEL = ("-x", "c++", "-DKGEN_SIM", "-g1", "-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing")
_WARNINGS = ("-Wno-unknown-pragmas", "-Werror=uninitialized", "-Wno-attributes")
_UNMERGED = ("-O1", "-fno-crossjumping")  # traps that share code would all report one line
_SANITIZE = (
    "-fsanitize=undefined",
    "-fsanitize-undefined-trap-on-error",
    "-fno-sanitize=vptr",
    "-O1",
    "-fno-crossjumping",
)

_TRAMPOLINE = """
#line 1 "trampoline"
extern "C" const char* kgen_signature() {{ return kg::signature(&{entry}); }}
extern "C" void kgen_entry(void** arguments) {{ kg::call(&{entry}, arguments); }}
"""

Progress = Callable[[str], None]


class SimCompileError(KgenError):
    """g++ is missing or rejected the text; the message holds what it said."""


@dataclass(frozen=True)
class SimKernel:
    """A compiled kernel: its entry, its text (for reports), its library and the runtime library it needs."""

    entry: str
    text: str
    library: Path
    runtime: Path


def compile(
    text: str,
    entry: str,
    *,
    cache_dir: Path,
    defines: Mapping[str, str | int] | None = None,
    include_dirs: Sequence[Path] = (),
    sanitize: bool = False,
    progress: Progress | None = None,
) -> SimKernel:
    """Compile kernel text whose entry is `extern "C" KG_GLOBAL void <entry>(...)`; reuse the cache if nothing changed.

    `sanitize` adds g++'s undefined-behaviour checks (index overruns of register arrays, for example). `progress` is
    told of the one slow step, building the runtime library. Raises SimCompileError with g++'s message.
    """
    cache_dir = cache_dir.resolve()  # g++ runs elsewhere
    runtime = build_runtime(cache_dir, progress)
    folders = (_vocabulary(), RUNTIME, *(folder.resolve() for folder in include_dirs))
    flags = [*_COMMON, *_target_flags(), *_KERNEL, *_WARNINGS, *(_SANITIZE if sanitize else ())]
    precompiled = _precompiled_header(cache_dir, flags)
    flags += [f"-D{name}={value}" for name, value in (defines or {}).items()]
    flags += [f"-I{folder}" for folder in folders]
    source = text + _TRAMPOLINE.format(entry=entry)
    stem = f"{entry}-{_digest([source, runtime.name, *flags], _files(folders))}"
    library = cache_dir / f"{stem}.so"
    if not library.exists():
        path = cache_dir / f"{stem}.cu"
        _write(path, source)
        # Paths of the linker come after the text, and "-x none" ends its language.
        _gxx([f"-I{precompiled}", *flags, str(path), "-x", "none", str(runtime), "-Wl,-rpath,$ORIGIN"], library)
    return SimKernel(entry, text, library, runtime)


def _vocabulary() -> Path:
    return resources.path("templates") / "cuda"


def _precompiled_header(cache_dir: Path, flags: Sequence[str]) -> Path:
    """Return a folder in which g++ finds kgen.cuh precompiled; reading it as text is most of a kernel's compilation."""
    folders = (_vocabulary(), RUNTIME)
    arguments = [*flags, *(f"-I{folder}" for folder in folders)]
    folder = cache_dir / f"header-{_digest(arguments, _files(folders))}"
    header = folder / "kgen.cuh.gch"
    with FileLock(cache_dir / "runtime.lock"):
        if not header.exists():
            folder.mkdir(exist_ok=True)
            _gxx([*arguments, "-x", "c++-header", str(_vocabulary() / "kgen.cuh")], header)
    return folder


def build_runtime(cache_dir: Path, progress: Progress | None = None) -> Path:
    """Return the runtime library, built (about 4 s) if the cache lacks this version of it."""
    cache_dir = cache_dir.resolve()
    cache_dir.mkdir(parents=True, exist_ok=True)
    sources = sorted(RUNTIME.glob("*.cpp"))
    library = cache_dir / f"libkgen_sim-{_digest(_COMMON, [*_files([RUNTIME]), *sources])}.so"
    with FileLock(cache_dir / "runtime.lock"):
        if not library.exists():
            if progress is not None:
                progress("building the CUDA simulator's runtime library (once)")
            # One translation unit: the standard headers take most of the time.
            unit = "".join(f'#include "{source}"\n' for source in sources)
            linking = ["-x", "c++", "-", "-pthread", "-ldl", f"-Wl,-soname,{library.name}"]
            _gxx([*_COMMON, *linking], library, unit)
    return library


def _files(folders: Iterable[Path]) -> list[Path]:
    return [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in _HEADERS]


def _digest(words: Iterable[str], files: Iterable[Path]) -> str:
    found = hashlib.sha256(_compiler_version().encode())
    for word in words:
        found.update(word.encode() + b"\0")
    for path in files:
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:20]


def _write(path: Path, text: str) -> None:
    """Write a file that appears complete or not at all."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".tmp", delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


@functools.cache
def compiler() -> str:
    """Return the C++ compiler: $CXX or g++. Raises SimCompileError if there is none."""
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise SimCompileError(f"the CUDA simulator needs a C++20 compiler, and '{name}' was not found (set CXX)")
    return found


@functools.cache
def _compiler_version() -> str:
    return subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True).stdout


@functools.cache
def _target_flags() -> tuple[str, ...]:
    """Use AVX2 and fused multiply-add where the processor has them: fmaf is a library call otherwise."""
    cpuinfo = Path("/proc/cpuinfo")
    words = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    return ("-march=x86-64-v3",) if {"avx2", "fma", "bmi2", "f16c", "movbe"} <= words else ()


def _gxx(arguments: Sequence[str], output: Path, text: str | None = None) -> None:
    temporary = output.with_suffix(f".{os.getpid()}.tmp")
    done = subprocess.run([compiler(), *arguments, "-o", str(temporary)], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        temporary.unlink(missing_ok=True)
        raise SimCompileError(f"{output.stem}: g++ failed\n{done.stderr.strip()}")
    os.replace(temporary, output)
