"""From the text of a variant to something that launches it on a GPU."""

from __future__ import annotations

from pathlib import Path

from kgen.build.cuda import compile_cuda
from kgen.ops.backends import CudaBackend, TritonBackend
from kgen.ops.execute import Backend
from kgen.ops.plan import LaunchPlan
from kgen.resources import path


def packaged(file: Path, plan: LaunchPlan, backend: str, arch: str) -> Backend:
    """Return the launcher of an emitted file; CUDA text is compiled for `arch` (cached)."""
    if backend == "triton":
        return TritonBackend(file, plan)
    return cuda_backend(file.read_text(), plan, arch)


def cuda_backend(text: str, plan: LaunchPlan, arch: str) -> CudaBackend:
    """Compile every kernel of a CUDA text and return its launcher."""
    headers = (path("templates") / "cuda",)
    built = {k.name: compile_cuda(text, k.name, arch=arch, include_dirs=headers) for k in plan.kernels}
    return CudaBackend({name: (b.path, b.kernel) for name, b in built.items()}, plan)
