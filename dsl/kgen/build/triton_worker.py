"""Compiles a batch of Triton kernels in a process of its own: `python -m kgen.build.triton_worker FOLDER`.

FOLDER/jobs.json is a list of jobs (`triton.TritonJob.to_json`). For job i the worker writes FOLDER/<i>/ (binary,
intermediate texts) and, last, FOLDER/<i>.json: {"facts": ...} or {"error": ...}. A process of its own because a
compiler pass that fails an assertion ends the process, and because Triton decides between compiling and interpreting
when a module is imported.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.errors import CompilationError

from kgen.build.amdgcn import parse_metadata
from kgen.build.binary import Resources
from kgen.build.elf import read_resources
from kgen.build.ptxas import parse_report

WARP_SIZE = {"cuda": 32, "hip": 64}
TEXTS = ("ttgir", "ptx", "amdgcn")
BINARIES = ("cubin", "hsaco")
LOG_LIMIT = 2000


def main(folder: Path) -> None:
    """Compile every job of a folder, in order."""
    for index, job in enumerate(json.loads((folder / "jobs.json").read_text(encoding="utf-8"))):
        (folder / str(index)).mkdir()
        record = _run(job, folder / str(index))
        temporary = folder / f"{index}.partial"
        temporary.write_text(json.dumps(record), encoding="utf-8")
        temporary.replace(folder / f"{index}.json")


def _run(job: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    start = time.perf_counter()
    log = io.StringIO()
    try:
        with contextlib.redirect_stdout(log):
            kernel = _compile(job)
    except Exception as error:  # whatever a compiler raises is this job's answer; the others go on
        return {"error": _describe(error, Path(job["path"]).read_text(encoding="utf-8"), log.getvalue())}
    binary = next(kernel.asm[kind] for kind in BINARIES if kind in kernel.asm)
    (folder / "kernel.bin").write_bytes(binary)
    for kind in TEXTS:
        if kind in kernel.asm:
            (folder / f"kernel.{kind}").write_text(kernel.asm[kind], encoding="utf-8")
    resources = _resources(kernel, binary, log.getvalue())
    seconds = time.perf_counter() - start
    return {"facts": {"kernel": kernel.metadata.name, "resources": resources.to_json(), "seconds": seconds}}


def _compile(job: Mapping[str, Any]) -> Any:
    function = getattr(_load(Path(job["path"])), job["function"])
    constexprs = {name: _constant(value) for name, value in job["constexprs"].items()}
    given = dict(job["signature"])
    signature = {name: "constexpr" if name in constexprs else given[name] for name in function.arg_names}
    places = {name: index for index, name in enumerate(function.arg_names)}
    attributes = {(places[name],): [["tt.divisibility", divisor]] for name, divisor in job["attrs"].items()}
    source = ASTSource(function, signature, constexprs, attributes)
    backend, arch = job["target"]
    return triton.compile(source, target=GPUTarget(backend, arch, WARP_SIZE[backend]), options=job["options"])


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _constant(value: Any) -> Any:
    """Return a constant; "tl.NAME" stands for Triton's element type of that name."""
    return getattr(tl, value[3:]) if isinstance(value, str) and value.startswith("tl.") else value


def _resources(kernel: Any, binary: bytes, log: str) -> Resources:
    name, shared = kernel.metadata.name, kernel.metadata.shared
    if "amdgcn" in kernel.asm:
        found = parse_metadata(kernel.asm["amdgcn"])
    else:
        found = parse_report(log).get(name) or read_resources(binary, name)
    return Resources(found.registers, found.spill_bytes, shared, found.local_bytes, found.source)


def _describe(error: Exception, text: str, log: str) -> dict[str, Any]:
    """Return {"message", "line"}; the line is in the module, while Triton counts from the function's `def`."""
    chain = _chain(error)
    places = [line for cause in chain if (line := _line(cause, text)) is not None]
    messages = dict.fromkeys(str(cause).strip() or type(cause).__name__ for cause in chain)
    tail = log.strip()[-LOG_LIMIT:]
    return {"message": "\n".join([*messages, *([tail] if tail else [])]), "line": places[-1] if places else None}


def _line(error: BaseException, text: str) -> int | None:
    if isinstance(error, CompilationError):
        source = getattr(error, "src", None) or ""
        start = text.find(source) if source else -1
        number = getattr(getattr(error, "node", None), "lineno", None)
        return text.count("\n", 0, start) + number if start >= 0 and number is not None else None
    return error.lineno if isinstance(error, SyntaxError) else None


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and its causes, the outermost first."""
    chain: list[BaseException] = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return chain


if __name__ == "__main__":
    knobs.nvidia.dump_ptxas_log = True
    main(Path(sys.argv[1]))
