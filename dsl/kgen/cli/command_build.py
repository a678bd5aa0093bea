"""`kgen build`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgen.cli.console import Out
from kgen.cli.errors import FAILED, OK
from kgen.cli.progress import progress
from kgen.cli.report import print_verdict, verdict_json
from kgen.cli.shared import origin_of, spec_of
from kgen.workflow.binaries import Compiled
from kgen.workflow.build import Built, Request, build
from kgen.workflow.targets import parse_backends, parse_targets

SPILLS = {"ptxas": "bytes", "amdgcn": "bytes", "elf": "bytes at most"}


def run(
    spec: Path,
    overrides: Sequence[str],
    backend: str,
    target: str,
    out: Path,
    verified: bool,
    full: bool,
    as_json: bool,
) -> int:
    """Build a spec and print what was made; return the exit code."""
    origin = origin_of(spec, overrides)
    request = Request(parse_backends(backend), parse_targets(target), out, origin, verified, full)
    with progress() as shown:
        built = build(spec_of(spec, overrides), request, shown)
    if as_json:
        Out().line(json.dumps(as_data(built), indent=2))
    else:
        _print(Out(), built, request)
    return OK if built.ok else FAILED


def _print(out: Out, built: Built, request: Request) -> None:
    out.line(f"{built.spec.name}: {'ok' if built.ok else 'FAILED'}", "ok" if built.ok else "bad")
    for backend in request.backends:
        _print_backend(out, backend, [c for c in built.compiled if c.backend == backend])
    if not request.verified:
        out.line("not verified (--no-verify)", "note")
    for v in built.verdicts:
        print_verdict(out, v)
    for note in built.notes:
        out.line(f"note: {note}", "note")
    if built.files:
        folder = os.path.commonpath([p.parent for p in built.files])
        out.line(f"written to {folder}/: {', '.join(p.name for p in built.files)}")
    else:
        out.line("nothing was written", "bad")


def _print_backend(out: Out, backend: str, compiled: Sequence[Compiled]) -> None:
    cached = " (cached)" if compiled and all(c.binary is not None and c.binary.cached for c in compiled) else ""
    out.line(f"{backend}{cached}", "head")
    good = [c for c in compiled if c.binary is not None]
    if good:
        head = ("variant", "kernel", "target", "registers", "spilled", "shared memory", "")
        out.table(head, [_row(c) for c in good])
    for error, kernels in _errors(compiled).items():
        out.line(f"  not compiled: {', '.join(kernels)}\n{error}", "bad")


def _errors(compiled: Sequence[Compiled]) -> dict[str, list[str]]:
    """Return each message once, with the kernels it is about: one mistake fails for every target and variant."""
    found: dict[str, list[str]] = {}
    for c in compiled:
        if c.binary is None:
            about = f"{c.kernel} for {c.target}{f' ({c.words})' if c.words else ''}"
            found.setdefault(c.error.replace(f" for {c.target}", ""), []).append(about)
    return found


def _row(c: Compiled) -> tuple[str, ...]:
    assert c.binary is not None
    r = c.binary.resources
    spilled = f"{r.spill_bytes} {SPILLS.get(r.source, 'bytes')}" if r.spill_bytes else "-"
    return (c.words or "-", c.kernel, c.target, str(r.registers), spilled, f"{c.shared} bytes", c.error)


def as_data(built: Built) -> dict[str, Any]:
    """Return a build as JSON data."""
    return {
        "kernel": built.spec.name,
        "ok": built.ok,
        "files": [p.as_posix() for p in built.files],
        "notes": list(built.notes),
        "compiled": list(_compiled(built.compiled)),
        "verdicts": [verdict_json(v) for v in built.verdicts],
    }


def _compiled(compiled: Iterable[Compiled]) -> Iterable[dict[str, Any]]:
    for c in compiled:
        resources = asdict(c.binary.resources) if c.binary is not None else None
        yield {
            "variant": c.words,
            "backend": c.backend,
            "kernel": c.kernel,
            "target": c.target,
            "resources": resources,
            "shared_bytes": c.shared,
            "cached": c.binary is not None and c.binary.cached,
            "error": c.error,
        }
