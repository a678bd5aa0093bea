"""How the kernels of one variant are launched: data, written by the compiler, read when an op runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ArgPlan:
    """One kernel argument, by its identifier in the text. `name` is the tensor, size or parameter it comes from."""

    identifier: str
    kind: str  # "tensor", "stride", "size", "param"
    name: str
    dtype: str
    dim: int = 0


@dataclass(frozen=True)
class KernelPlan:
    """One launch. `grid` is a Python expression over sizes.

    `threads` and `shared` are for CUDA, `warps`, `stages` and `constants` for Triton.
    `writes`: buffers it stores to; `updates`: those of them that hold values before, which it may read or leave.
    """

    name: str
    grid: str
    args: tuple[ArgPlan, ...]
    constants: Mapping[str, int] = field(default_factory=dict)
    warps: int = 4
    stages: int = 3
    threads: int = 128
    shared: int = 0
    writes: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workspace:
    """Scratch memory shared by the kernels of a call: contiguous, `dims` as Python expressions over sizes."""

    name: str
    dims: tuple[str, ...]
    dtype: str


@dataclass(frozen=True)
class LaunchPlan:
    """All launches of a call. `parts`: sizes chosen at a call (split `auto`), with the largest useful value of each."""

    kernels: tuple[KernelPlan, ...]
    workspaces: tuple[Workspace, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> LaunchPlan:
        kernels = tuple(
            KernelPlan(**{**k, "args": tuple(ArgPlan(**a) for a in k["args"]), **_tuples(k)}) for k in raw["kernels"]
        )
        spaces = tuple(Workspace(w["name"], tuple(w["dims"]), w["dtype"]) for w in raw["workspaces"])
        return cls(kernels, spaces, dict(raw["parts"]))


def _tuples(k: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(k[name]) for name in ("writes", "updates")}
