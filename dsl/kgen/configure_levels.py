"""The levels of a schedule that hold for a target, and the value of a field after all overrides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kgen.configure_when import Facts, holds
from kgen.errors import fail, nearest
from kgen.source import Span
from kgen.spec import Spec
from kgen.spec_model import AxisStructure, BackendModel, KernelFields, LevelModel

BACKENDS = ("triton", "cuda")


@dataclass(frozen=True)
class Level:
    """One level of the schedule: its fields, and where they stand."""

    fields: KernelFields
    path: tuple[str | int, ...]
    backend: bool  # below schedule.triton or schedule.cuda


@dataclass(frozen=True)
class Given:
    """A field's value, its place, and the number of the level that gives it: 0 for the spec's axes, the last counts."""

    value: Any
    span: Span
    rank: int


@dataclass(frozen=True)
class Levels:
    """The levels for one target, each overriding those before it."""

    spec: Spec
    levels: tuple[Level, ...]

    def value(self, field: str) -> tuple[Any, Span] | None:
        """Return the last value given for `field`, and its place; None if no level gives one."""
        found = None
        for level in self.levels:
            value = getattr(level.fields, field, None)
            if value is not None:
                found = (value, self.spec.span(*level.path, field))
        return found

    def axis(self, axis: str, field: str) -> Given | None:
        """Return the last value given for an axis field."""
        found = None
        own: tuple[tuple[str | int, ...], AxisStructure | None] = ((), self.spec.model.axes.get(axis))
        for rank, (path, fields) in enumerate([own, *((x.path, x.fields.axes.get(axis)) for x in self.levels)]):
            value = getattr(fields, field, None)
            if value is not None:
                found = Given(value, self.spec.span(*path, "axes", axis, field), rank)
        return found

    def given(self) -> Iterator[tuple[str, Level]]:
        """Yield every field that a level gives, with the level."""
        for level in self.levels:
            for field in sorted(level.fields.model_fields_set):
                yield field, level

    def kernel(self, name: str) -> Levels:
        """Return the levels with those of `kernels.<name>` on top, in the same order."""
        return Levels(self.spec, (*self.levels, *self.own(name).levels))

    def own(self, name: str) -> Levels:
        """Return the levels of `kernels.<name>` alone."""
        own = [
            Level(level.fields.kernels[name], (*level.path, "kernels", name), level.backend)
            for level in self.levels
            if isinstance(level.fields, LevelModel) and name in level.fields.kernels
        ]
        return Levels(self.spec, tuple(own))

    def kernel_names(self) -> dict[str, Span]:
        """Return the names under `kernels`, with their places."""
        return {
            name: self.spec.span(*level.path, "kernels", name, key=True)
            for level in self.levels
            if isinstance(level.fields, LevelModel)
            for name in level.fields.kernels
        }


def levels_for(spec: Spec, backend: str, arch: str, facts: Facts) -> Levels:
    """Return the levels that hold for a target: schedule, backend, architecture, and the first case that is true."""
    schedule = spec.model.schedule
    side: BackendModel = getattr(schedule, backend)
    found = [Level(schedule, ("schedule",), False), Level(side, ("schedule", backend), True)]
    listed = newest_arch(tuple(side.archs), arch)
    if listed is not None:
        found.append(Level(side.archs[listed], ("schedule", backend, listed), True))
    for level in reversed(found):  # the innermost cases are asked first
        assert isinstance(level.fields, LevelModel)
        for i, case in enumerate(level.fields.cases):
            if holds(case.when, facts):
                return Levels(spec, (*found, Level(case, (*level.path, "cases", i), level.backend)))
    return Levels(spec, tuple(found))


def newest_arch(listed: tuple[str, ...], arch: str) -> str | None:
    """Return the newest listed architecture whose schedule `arch` can run: `sm_90a` features need sm_90a itself."""
    if arch in listed:
        return arch
    number = _number(arch)
    if number is None:
        return None
    older = [(n, a) for a in listed if (n := _number(a)) is not None and n <= number and a[-1].isdigit()]
    return max(older)[1] if older else None


def _number(arch: str) -> int | None:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch)
    return int(match[1]) if match else None


def check_axis_names(levels: Levels, axes: tuple[str, ...]) -> None:
    """Raise SpecError if a level names an axis that the spec does not have."""
    for level in levels.levels:
        for name in [*level.fields.axes, *(level.fields.grid_swizzle or {}), *(level.fields.loops or ())]:
            if name not in axes:
                place = next(
                    (
                        levels.spec.span(*level.path, key, name, key=True)
                        for key in ("axes", "grid_swizzle")
                        if name in (getattr(level.fields, key) or {})
                    ),
                    levels.spec.span(*level.path, "loops"),
                )
                raise fail(place, f"unknown axis '{name}'", nearest(name, axes))
