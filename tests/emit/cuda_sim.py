"""Runs a planned kernel's emitted text in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from kgen import sim
from kgen.emit.cuda import print_kernel
from kgen.emit.header import Header
from kgen.emit.python import PythonPrinter
from kgen.ir import Arg, Kernel
from kgen.schedule import Plan, plan
from kgen.sim import ScalarArg, TensorArg

HEADER = Header(
    title="kernel",
    doc="a test",
    spec_path="specs/kernel.yaml",
    spec_hash="0" * 12,
    command="kgen build specs/kernel.yaml",
    statements=(("s1", "first"), ("s2", "second"), ("s3", "third"), ("s4", "fourth")),
)
Values = Mapping[str, float]


def grid_size(kernel: Kernel, sizes: Values) -> int:
    """Return the number of blocks."""
    total = 1
    names = {name: str(value) for name, value in {**kernel.constants, **sizes}.items()}
    for axis in kernel.grid:
        total *= eval(PythonPrinter(names).text(axis.count))
    return total


def run(
    kernel: Kernel,
    tensors: Mapping[str, torch.Tensor],
    values: Values,
    cache: Path,
    *,
    threads: int | None = None,
    sanitize: bool = False,
) -> sim.Report:
    """Plan for sm_80, print, compile and run; the outputs among `tensors` are written. Faults fail the test."""
    made = plan(kernel, arch="sm_80", threads=threads)
    report = launch(kernel, made, print_kernel(kernel, made, HEADER), tensors, values, cache, sanitize=sanitize)
    assert report.ok, "\n".join(str(f) for f in report.faults[:3])
    return report


def launch(
    kernel: Kernel,
    made: Plan,
    text: str,
    tensors: Mapping[str, torch.Tensor],
    values: Values,
    cache: Path,
    *,
    sanitize: bool = False,
    seed: int | None = None,
    lazy: bool = False,
) -> sim.Report:
    """Compile and run a text of `kernel`. `values` are sizes and parameters by name."""
    compiled = sim.compile(text, kernel.name, cache_dir=cache, sanitize=sanitize)
    args = [_argument(kernel, a, tensors, values) for a in kernel.args]
    blocks = grid_size(kernel, values)
    return sim.launch(compiled, blocks, made.threads, made.smem_bytes, args, options=sim.Options(seed=seed, lazy=lazy))


def _argument(kernel: Kernel, arg: Arg, tensors: Mapping[str, torch.Tensor], values: Values) -> sim.Arg:
    if arg.buffer is None:
        return ScalarArg(arg.name, arg.dtype.name, values[arg.name])
    if arg.kind == "stride":
        assert arg.dim is not None
        return ScalarArg(arg.name, arg.dtype.name, tensors[arg.buffer].stride(arg.dim))
    role = kernel.buffers[arg.buffer].role
    return TensorArg(arg.name, tensors[arg.buffer], "inout" if role == "workspace" else role)
