"""Runs a launch plan: workspaces, grids and arguments of a call, handed to a backend kernel by kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from kgen.errors import KgenError
from kgen.ops.plan import ArgPlan, KernelPlan, LaunchPlan

PROGRAMS = 264  # programs that a split aims at where no GPU is known: two for each of 132 multiprocessors
GRID_LIMIT = 2**31 - 1
_GLOBALS = {
    "__builtins__": {"max": max, "min": min, "abs": abs, "int": int, "float": float, "bool": bool},
    "math": math,
}


class Backend(Protocol):
    """Launches one kernel. `values` are in signature order: tensors, ints, floats, bools."""

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None: ...


def function(names: Sequence[str], body: str, known: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """Return the function of these arguments with a body that the compiler wrote: a Python expression over them."""
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {body}", {**_GLOBALS, **(known or {})})
    return made


def listed(texts: Sequence[str]) -> str:
    """Return the text of a tuple of expressions."""
    return "(" + "".join(f"{t}, " for t in texts) + ")"


class Launcher:
    """A launch plan with its expressions compiled.

    `tensors` and `scalars` name the arguments of a call, which are then given by position; `programs` is how many an
    automatic split aims at.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        tensors: Sequence[str],
        scalars: Sequence[str],
        backend: Backend,
        programs: int = PROGRAMS,
    ) -> None:
        self.plan, self.backend, self.programs = plan, backend, programs
        known = [*scalars, *plan.parts]
        places = {name: i for i, name in enumerate([*tensors, *(w.name for w in plan.workspaces)])}
        self._parts = [
            (function(scalars, most), function([*scalars, *plan.parts], _grid_of(plan, name)))
            for name, most in plan.parts.items()
        ]
        self._workspaces = [(function(known, listed(w.dims)), getattr(torch, w.dtype)) for w in plan.workspaces]
        self._kernels = [
            (k, function(known, k.grid), function(["_t", "_s", *known], _values(k.args, places))) for k in plan.kernels
        ]

    def __call__(self, tensors: list[Tensor], scalars: Sequence[Any]) -> None:
        """Launch all kernels on the current device. Raises KgenError for a grid that is too large."""
        known = (*scalars, *self._chosen(scalars)) if self._parts else scalars
        for dims, dtype in self._workspaces:
            tensors = [*tensors, torch.empty(dims(*known), dtype=dtype, device=tensors[0].device)]
        strides = [t.stride() for t in tensors]
        for kernel, grid_of, values_of in self._kernels:
            grid = grid_of(*known)
            if grid > GRID_LIMIT:
                raise KgenError(f"{kernel.name} would need {grid} programs; at most {GRID_LIMIT} are possible")
            if grid > 0:
                self.backend.launch(kernel, grid, values_of(tensors, strides, *known))

    def _chosen(self, scalars: Sequence[Any]) -> list[int]:
        """Choose how many parts an automatic split has: enough programs for the GPU, never more than tiles."""
        one = [1] * len(self._parts)
        chosen = []
        for most, grid in self._parts:
            programs = max(1, grid(*scalars, *one))
            chosen.append(max(1, min(most(*scalars), -(-self.programs // programs))))
        return chosen


def _grid_of(plan: LaunchPlan, parts: str) -> str:
    """Return the grid of the kernel that is split: the first whose grid counts these parts."""
    names = (compile(k.grid, "<kgen>", "eval").co_names for k in plan.kernels)
    return next((k.grid for k, used in zip(plan.kernels, names, strict=True) if parts in used), plan.kernels[0].grid)


def _values(args: Sequence[ArgPlan], places: Mapping[str, int]) -> str:
    """Return the text of the list of a kernel's arguments: `_t` are the tensors of the call, `_s` their strides."""
    return "[" + ", ".join(_value(a, places) for a in args) + "]"


def _value(arg: ArgPlan, places: Mapping[str, int]) -> str:
    match arg.kind:
        case "tensor":
            return f"_t[{places[arg.name]}]"
        case "stride":
            return f"_s[{places[arg.name]}][{arg.dim}]"
        case _:
            return arg.name


def execute(plan: LaunchPlan, tensors: Mapping[str, Tensor], env: Mapping[str, Any], backend: Backend) -> None:
    """Launch all kernels of a plan once. `tensors` holds inputs and outputs by name, `env` sizes and parameters."""
    Launcher(plan, tuple(tensors), tuple(env), backend)(list(tensors.values()), tuple(env.values()))
