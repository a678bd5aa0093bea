"""Runs a launch plan: workspaces, grids and arguments of a call, handed to a backend kernel by kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, Protocol

import torch
from torch import Tensor

from kgen.ops.plan import ArgPlan, KernelPlan, LaunchPlan

PROGRAMS = 264  # programs that a split aims at: two for each of the 132 multiprocessors of an H100 or H200
_GLOBALS = {"__builtins__": {"max": max, "min": min, "abs": abs, "int": int, "float": float, "bool": bool}, "math": math}


class Backend(Protocol):
    """Launches one kernel. `values` are in signature order: tensors, ints, floats, bools."""

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None: ...


@lru_cache(maxsize=4096)
def _code(text: str) -> CodeType:
    return compile(text, "<kgen>", "eval")


def evaluate(text: str, env: Mapping[str, Any]) -> Any:
    """Return the value of a Python expression over sizes and parameters (text written by the compiler)."""
    return eval(_code(text), _GLOBALS, dict(env))


def execute(plan: LaunchPlan, tensors: Mapping[str, Tensor], env: Mapping[str, Any], backend: Backend) -> None:
    """Launch all kernels of a plan. `tensors` holds inputs and outputs by name, `env` sizes and parameters."""
    env = {**env, **_parts(plan, env)}
    device = next(iter(tensors.values())).device
    memory = {**tensors, **_workspaces(plan, env, device)}
    for kernel in plan.kernels:
        grid = int(evaluate(kernel.grid, env))
        if grid > 0:
            backend.launch(kernel, grid, [_value(a, memory, env) for a in kernel.args])


def _value(arg: ArgPlan, memory: Mapping[str, Tensor], env: Mapping[str, Any]) -> Any:
    match arg.kind:
        case "tensor":
            return memory[arg.name]
        case "stride":
            return memory[arg.name].stride(arg.dim)
        case _:
            return env[arg.name]


def _workspaces(plan: LaunchPlan, env: Mapping[str, Any], device: torch.device) -> dict[str, Tensor]:
    return {
        w.name: torch.empty([int(evaluate(d, env)) for d in w.dims], dtype=getattr(torch, w.dtype), device=device)
        for w in plan.workspaces
    }


def _parts(plan: LaunchPlan, env: Mapping[str, Any]) -> dict[str, int]:
    """Choose how many parts an automatic split has: enough programs for the GPU, never more than tiles."""
    chosen: dict[str, int] = {}
    for name, tiles in plan.parts.items():
        most = max(1, int(evaluate(tiles, env)))
        programs = max(1, int(evaluate(plan.kernels[-1].grid, {**env, name: 1})))
        chosen[name] = max(1, min(most, -(-PROGRAMS // programs)))
    return chosen


