"""Build: every variant of a spec lowered, compiled for all targets, verified, and written when all is well."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kgen.spec import Spec
from kgen.workflow.background import Background
from kgen.workflow.binaries import Compiled, compile_cuda_texts, compile_triton_texts
from kgen.workflow.check import notes_of
from kgen.workflow.instance import instances
from kgen.workflow.progress import Progress
from kgen.workflow.texts import Origin, Texts, texts_for
from kgen.workflow.verdict import Verdict, verdict


@dataclass(frozen=True)
class Request:
    """What to build. `out` is the folder in which the package `<name>/` is made."""

    backends: tuple[str, ...]
    targets: tuple[str, ...]
    out: Path
    origin: Origin
    verified: bool = True
    full: bool = False


@dataclass(frozen=True)
class Built:
    """The result of a build. `files` is empty where something failed."""

    spec: Spec
    texts: tuple[Texts, ...]
    compiled: tuple[Compiled, ...]
    verdicts: tuple[Verdict, ...]
    files: tuple[Path, ...]

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.compiled) and all(v.ok for v in self.verdicts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the schedule asks for and is done otherwise, once each."""
        return notes_of(self.texts)


def build(spec: Spec, request: Request, progress: Progress) -> Built:
    """Build a spec; raise KgenError for what the user can mend. Files of an earlier build stay if something fails."""
    texts = tuple(texts_for(i, request.backends, request.targets, request.origin) for i in instances(spec))
    triton = Background(lambda: compile_triton_texts(texts))  # in a process of its own, beside all that follows
    cuda = _cuda(texts, progress)
    verdicts = _verdicts(texts, request, progress)
    compiled = (*_awaited(triton, progress), *cuda)
    built = Built(spec, texts, compiled, verdicts, ())
    if not built.ok:
        return built
    return Built(spec, texts, compiled, verdicts, write(spec, texts, request))


def write(spec: Spec, texts: Sequence[Texts], request: Request) -> tuple[Path, ...]:
    """Write the package of a spec and return its files."""
    package = importlib.import_module("kgen.package")
    variants = [package.PackagedVariant(t.key, t.main("triton"), t.main("cuda"), t.own("cuda")) for t in texts]
    return tuple(package.write_package(spec, variants, request.out, request.origin.command))


def _cuda(texts: Sequence[Texts], progress: Progress) -> list[Compiled]:
    cuda = [t for x in texts for t in x.texts if t.backend == "cuda"]
    kernels = sum(len(t.targets) * len(t.emitted.launch.kernels) for t in cuda)
    if kernels:
        progress.stage("compiling CUDA", kernels)
    return compile_cuda_texts(texts, progress)


def _verdicts(texts: Sequence[Texts], request: Request, progress: Progress) -> tuple[Verdict, ...]:
    if not request.verified:
        return ()
    return tuple(verdict(t, quick=not request.full, seed=0, progress=progress) for t in texts)


def _awaited(triton: Background[list[Compiled]], progress: Progress) -> list[Compiled]:
    if not triton.done:
        progress.stage("compiling Triton")
    return triton.result()
