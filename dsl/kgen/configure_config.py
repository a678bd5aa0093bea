"""What configure decides for one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kgen.configure_axis import AxisConfig
from kgen.configure_roles import Role
from kgen.configure_target import Target
from kgen.types import DType


@dataclass(frozen=True)
class Materialize:
    """An intermediate that one kernel stores and others load."""

    where: Literal["global"]
    dtype: DType


@dataclass(frozen=True)
class Config:
    """All fields for one kernel. `grid` lists the grid axes, the last varying fastest, True: walked from the end.

    `kernels` has a Config for each materialised intermediate and each output with fields of its own; this one is for
    the other outputs. `threads` is None where the compiler chooses. `notes` say what was asked for and is not done.
    """

    backend: str
    arch: str
    axes: dict[str, AxisConfig]
    roles: dict[str, Role]
    grid: tuple[tuple[str, bool], ...]
    grid_swizzle: dict[str, int]
    loops: tuple[str, ...]
    target: Target
    materialize: dict[str, Materialize] = field(default_factory=dict)
    kernels: dict[str, Config] = field(default_factory=dict)

    @property
    def skeleton(self) -> str:
        return self.target.skeleton

    @property
    def warps(self) -> int:
        return self.target.warps

    @property
    def stages(self) -> int:
        return self.target.stages

    @property
    def threads(self) -> int | None:
        return self.target.threads

    @property
    def notes(self) -> tuple[str, ...]:
        return self.target.notes
