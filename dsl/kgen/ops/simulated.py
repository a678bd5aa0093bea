"""The CUDA backend on the CPU: emitted text compiled by g++ and run by the simulator, its findings collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgen import sim
from kgen.ops.plan import ArgPlan, KernelPlan, LaunchPlan
from kgen.sim import Fault, Options, Report, ScalarArg, TensorArg


class SimulatedBackend:
    """Kernels of one CUDA text. `reports` holds the report of every launch since the last `clear`."""

    def __init__(self, text: str, plan: LaunchPlan, cache: Path, options: Options | None = None) -> None:
        self.kernels = {k.name: sim.compile(text, k.name, cache_dir=cache) for k in plan.kernels}
        self.options = options
        self.reports: list[Report] = []

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None:
        args = [_argument(kernel, a, v) for a, v in zip(kernel.args, values, strict=True)]
        report = sim.launch(
            self.kernels[kernel.name], grid, kernel.threads, kernel.shared, args, options=self.options
        )
        self.reports.append(report)

    def clear(self) -> None:
        self.reports = []

    @property
    def faults(self) -> tuple[Fault, ...]:
        return tuple(f for r in self.reports for f in r.faults)


def _argument(kernel: KernelPlan, arg: ArgPlan, value: Any) -> sim.Arg:
    if arg.kind != "tensor":
        return ScalarArg(arg.identifier, arg.dtype, value)  # type: ignore[arg-type]
    role = "inout" if arg.name in kernel.updates else "out" if arg.name in kernel.writes else "in"
    return TensorArg(arg.identifier, value, role)  # type: ignore[arg-type]
