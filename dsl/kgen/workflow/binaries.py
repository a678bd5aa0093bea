"""Compiles the texts of a build: Triton in one worker process for all, CUDA in this one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kgen import resources
from kgen.build import Binary, CompileError, TritonJob, compile_cuda, compile_triton_batch
from kgen.ops.plan import ArgPlan, KernelPlan
from kgen.types import DTYPES
from kgen.workflow.progress import Progress
from kgen.workflow.targets import shared_bytes
from kgen.workflow.texts import Text, Texts

ALIGNED = 16


@dataclass(frozen=True)
class Compiled:
    """What one kernel became for one target. `shared` is all shared memory of a block, dynamic included."""

    words: str
    backend: str
    kernel: str
    target: str
    binary: Binary | None
    shared: int
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


@dataclass(frozen=True)
class _Job:
    words: str
    text: Text
    kernel: KernelPlan
    target: str
    aligned: tuple[str, ...]


def compile_triton_texts(variants: Sequence[Texts]) -> list[Compiled]:
    """Compile every Triton kernel of all variants for its targets, in one worker."""
    jobs = _jobs(variants, "triton")
    results = compile_triton_batch([_triton_job(j) for j in jobs]) if jobs else []
    return [_compiled(j, r) for j, r in zip(jobs, results, strict=True)]


def compile_cuda_texts(variants: Sequence[Texts], progress: Progress) -> list[Compiled]:
    """Compile every CUDA kernel of all variants for its targets."""
    found = []
    jobs = _jobs(variants, "cuda")
    for job in jobs:
        result = _cuda(job)
        if isinstance(result, Binary) and not result.cached and result.seconds > 0:
            progress.step(f"{job.kernel.name} for {job.target}")
        found.append(_compiled(job, result))
    return found


def _jobs(variants: Sequence[Texts], backend: str) -> list[_Job]:
    return [
        _Job(v.instance.words, text, kernel, target, v.key.aligned)
        for v in variants
        for text in v.texts
        if text.backend == backend
        for kernel in text.emitted.launch.kernels
        for target in text.targets
    ]


def _triton_job(job: _Job) -> TritonJob:
    kernel = job.kernel
    return TritonJob(
        source=job.text.emitted.text,
        function=kernel.name,
        signature={a.identifier: _signature(a) for a in kernel.args},
        constexprs=dict(kernel.constants),
        attrs={a.identifier: ALIGNED for a in kernel.args if a.kind in ("tensor", "stride") and a.name in job.aligned},
        num_warps=kernel.warps,
        num_stages=kernel.stages,
        target=job.target,
    )


def _signature(arg: ArgPlan) -> str:
    name = DTYPES[arg.dtype].triton
    return f"*{name}" if arg.kind == "tensor" else name


def _cuda(job: _Job) -> Binary | CompileError:
    folder = resources.path("templates") / "cuda"
    try:
        return compile_cuda(job.text.emitted.text, job.kernel.name, arch=job.target, include_dirs=[folder])
    except CompileError as error:
        return error


def _compiled(job: _Job, result: Binary | CompileError) -> Compiled:
    head = (job.words, job.text.backend, job.kernel.name, job.target)
    if isinstance(result, CompileError):
        return Compiled(*head, None, 0, str(result))
    dynamic = job.kernel.shared if job.text.backend == "cuda" else 0
    shared, limit = result.resources.shared_bytes + dynamic, shared_bytes(job.target)
    error = f"needs {shared} bytes of shared memory; {job.target} has {limit} a block" if shared > limit else ""
    return Compiled(*head, result, shared, error)
