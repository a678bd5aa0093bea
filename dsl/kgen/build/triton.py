"""Triton text -> binary for any target, with or without a GPU, in batches."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kgen
from kgen.build.binary import Binary, CompileError, Resources
from kgen.build.cache import Cache, digest
from kgen.errors import KgenError

Constant = bool | int | float | str | None
_PACKAGE_ROOT = Path(kgen.__file__).resolve().parent.parent
_MESSAGE_LIMIT = 4000


@dataclass(frozen=True)
class TritonJob:
    """One kernel to compile.

    `source` is a Python module with @triton.jit functions, `function` the kernel in it. `signature` maps every argument
    that is no constant to its type ("*bf16", "i32", "fp32", ...), `constexprs` every constant to its value ("tl.NAME"
    for an element type). `attrs` maps an argument to the power of two (16) that divides its value. `target` is "sm_80",
    "sm_90", "gfx942", ... (Triton itself adds the "a" of sm_90a). `options` are further options of Triton's backend.
    """

    source: str
    function: str
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant] = field(default_factory=dict)
    attrs: Mapping[str, int] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    target: str = "sm_90"
    options: Mapping[str, Constant] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the job as the worker reads it, all but the path of its source."""
        fixed = {"num_warps": self.num_warps, "num_stages": self.num_stages, "enable_fp_fusion": True}
        return {
            "function": self.function,
            "signature": dict(self.signature),
            "constexprs": dict(self.constexprs),
            "attrs": dict(self.attrs),
            "target": parse_target(self.target),
            "options": {**fixed, **self.options},
        }


def compile_triton(
    source: str,
    function: str,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Constant],
    *,
    attrs: Mapping[str, int] | None = None,
    num_warps: int = 4,
    num_stages: int = 3,
    target: str = "sm_90",
    options: Mapping[str, Constant] | None = None,
    cache: Cache | None = None,
) -> Binary:
    """Compile one kernel (arguments as in TritonJob). Raises CompileError with the compiler's message."""
    job = TritonJob(source, function, signature, constexprs, attrs or {}, num_warps, num_stages, target, options or {})
    result = compile_triton_batch([job], cache)[0]
    if isinstance(result, CompileError):
        raise result
    return result


def compile_triton_batch(jobs: Sequence[TritonJob], cache: Cache | None = None) -> list[Binary | CompileError]:
    """Compile kernels in one process (starting it costs half a second) and return a binary or an error for each."""
    cache = cache or Cache()
    keys = [_key(job) for job in jobs]
    results = {key: _load(cache, key, job, cached=True) for key, job in zip(keys, jobs, strict=True)}
    missing = {key: job for key, job in zip(keys, jobs, strict=True) if results[key] is None}
    if missing:
        with cache.locked(missing):
            results |= _fill(cache, missing)
    return [result for key in keys if (result := results[key]) is not None]


def parse_target(target: str) -> tuple[str, int | str]:
    """Return Triton's (backend, architecture) of a target: "sm_90" -> ("cuda", 90), "gfx942" -> ("hip", "gfx942")."""
    if match := re.fullmatch(r"sm_(\d+)[af]?", target):
        return "cuda", int(match[1])
    if re.fullmatch(r"gfx[0-9a-f]+", target):
        return "hip", target
    raise KgenError(f"'{target}' is no target for Triton; expected a name such as sm_80, sm_90 or gfx942")


def _key(job: TritonJob) -> str:
    return digest({"kind": "triton", "source": job.source, "job": job.to_json(), "triton": triton_version()})


@functools.cache
def triton_version() -> str:
    """Return the installed Triton's version without importing it. Raises KgenError if there is none."""
    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    raise KgenError("Triton is not installed; it exists for Linux only (pip install triton)")


def _fill(cache: Cache, missing: Mapping[str, TritonJob]) -> dict[str, Binary | CompileError | None]:
    """Compile what is still missing under the locks. A job that ends the worker fails alone; the rest start anew."""
    results = {key: _load(cache, key, job, cached=True) for key, job in missing.items()}
    waiting = [key for key in missing if results[key] is None]
    while waiting:
        with tempfile.TemporaryDirectory(prefix="kgen-") as name:
            folder = Path(name)
            log = _run_worker(folder, [missing[key] for key in waiting])
            done = 0
            while (folder / f"{done}.json").is_file():
                key = waiting[done]
                results[key] = _collect(cache, folder, done, key, missing[key])
                done += 1
        if done < len(waiting):
            key = waiting[done]
            results[key] = CompileError("triton", missing[key].target, f"the compiler ended abruptly\n{log}")
            done += 1
        waiting = waiting[done:]
    return results


def _run_worker(folder: Path, jobs: Sequence[TritonJob]) -> str:
    """Run the worker over a folder and return what it printed."""
    records = []
    for index, job in enumerate(jobs):
        path = folder / f"kernel_{index}.py"
        path.write_text(job.source, encoding="utf-8")
        records.append({**job.to_json(), "path": str(path)})
    (folder / "jobs.json").write_text(json.dumps(records), encoding="utf-8")
    command = [sys.executable, "-P", "-m", "kgen.build.triton_worker", str(folder)]
    done = subprocess.run(
        command, env=_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode("utf-8", "replace").strip()[-_MESSAGE_LIMIT:]


def _environment(folder: Path) -> dict[str, str]:
    """Return this process's environment without what would change the result: interpreting, dumps, line tables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    paths = [str(_PACKAGE_ROOT), *(entry for entry in sys.path if entry)]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONUTF8": "1",
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TRITON_DISABLE_LINE_INFO": "1",
    }


def _collect(cache: Cache, folder: Path, index: int, key: str, job: TritonJob) -> Binary | CompileError | None:
    record = json.loads((folder / f"{index}.json").read_text(encoding="utf-8"))
    if "error" in record:
        error = record["error"]
        return CompileError("triton", job.target, error["message"], job.source, error["line"])
    files = {path.name: path.read_bytes() for path in (folder / str(index)).iterdir()}
    cache.put_locked(key, {**files, "facts.json": json.dumps(record["facts"], sort_keys=True).encode()})
    return _load(cache, key, job, cached=False)


def _load(cache: Cache, key: str, job: TritonJob, *, cached: bool) -> Binary | CompileError | None:
    folder = cache.get(key)
    if folder is None:
        return None
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    resources = Resources.from_json(facts["resources"])
    return Binary(
        "triton", job.target, folder / "kernel.bin", facts["kernel"], resources, key, facts["seconds"], cached
    )
