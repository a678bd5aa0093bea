"""Triton and CUDA, on a GPU or, for Triton, in the interpreter. (The CUDA simulator is in `kgen.ops.simulated`.)"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgen.ops.launch_cuda import CudaKernel
from kgen.ops.launch_triton import TritonKernel
from kgen.ops.plan import KernelPlan, LaunchPlan


class TritonBackend:
    """Kernels of an emitted Triton module; compiled for the GPU, or interpreted."""

    def __init__(self, module: Path, plan: LaunchPlan, *, interpreted: bool = False) -> None:
        self.interpreted = interpreted
        self.kernels = {
            k.name: TritonKernel(module, k.name, num_warps=k.warps, num_stages=k.stages) for k in plan.kernels
        }

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None:
        args = {a.identifier: v for a, v in zip(kernel.args, values, strict=True)}
        mine = self.kernels[kernel.name]
        (mine.interpret if self.interpreted else mine.launch)((grid,), args, kernel.constants)


class CudaBackend:
    """Kernels of cubins, launched on torch's current stream."""

    def __init__(self, cubins: Mapping[str, tuple[Path, str]], plan: LaunchPlan) -> None:
        self.kernels = {
            k.name: CudaKernel(*cubins[k.name], block=k.threads, smem_bytes=k.shared).prepare(
                [_ctype(a.kind, a.dtype) for a in k.args]
            )
            for k in plan.kernels
        }

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None:
        self.kernels[kernel.name](grid, *values)


def _ctype(kind: str, dtype: str) -> str:
    return "ptr" if kind == "tensor" else dtype
