"""Runs a planned kernel's emitted text in the simulator, and compiles it with nvcc."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from kgen import sim
from kgen.emit.cuda import print_kernel
from kgen.emit.header import Header
from kgen.emit.python import PythonPrinter
from kgen.ir import Kernel
from kgen.schedule import Plan, plan
from kgen.sim import ScalarArg, TensorArg

HEADER = Header(
    "kernel", "a test", "specs/kernel.yaml", "0" * 12, "kgen build specs/kernel.yaml",
    (("s1", "first"), ("s2", "second"), ("s3", "third"), ("s4", "fourth")),
)  # fmt: skip


def grid_size(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    total = 1
    names = {name: str(value) for name, value in (sizes | kernel.constants).items()}
    for axis in kernel.grid:
        total *= eval(PythonPrinter(names).text(axis.count))
    return total


def run(
    kernel: Kernel,
    tensors: Mapping[str, torch.Tensor],
    sizes: Mapping[str, int],
    cache: Path,
    *,
    params: Mapping[str, float] | None = None,
    threads: int | None = None,
    seed: int | None = None,
    sanitize: bool = False,
) -> sim.Report:
    """Plan for sm_80, print, compile and run; the outputs among `tensors` are written. The report has no faults."""
    made = plan(kernel, arch="sm_80", threads=threads)
    text = print_kernel(kernel, made, HEADER)
    compiled = sim.compile(text, kernel.name, cache_dir=cache, sanitize=sanitize)
    args = [_argument(kernel, a, tensors, {**sizes, **(params or {})}) for a in kernel.args]
    report = sim.launch(
        compiled, grid_size(kernel, sizes), made.threads, made.smem_bytes, args, options=sim.Options(seed=seed)
    )
    assert report.ok, "\n".join(str(f) for f in report.faults[:3])
    return report


def _argument(kernel: Kernel, arg, tensors: Mapping[str, torch.Tensor], values: Mapping[str, float]):  # type: ignore[no-untyped-def]
    match arg.kind:
        case "tensor":
            role = kernel.buffers[arg.buffer].role
            return TensorArg(arg.name, tensors[arg.buffer], "inout" if role == "workspace" else role)
        case "stride":
            return ScalarArg(arg.name, arg.dtype.name, tensors[arg.buffer].stride(arg.dim))
        case _:
            return ScalarArg(arg.name, arg.dtype.name, values[arg.name])


__all__ = ["HEADER", "Plan", "grid_size", "run"]
