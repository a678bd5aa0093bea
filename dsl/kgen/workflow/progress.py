"""How long work tells what it is doing."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told of every stage that takes time, and of each finished step of a stage with a known number of them."""

    def stage(self, title: str, total: int | None = None) -> None: ...

    def step(self, note: str = "") -> None: ...


class Silent:
    """A progress that shows nothing."""

    def stage(self, title: str, total: int | None = None) -> None:
        """Ignore the stage."""

    def step(self, note: str = "") -> None:
        """Ignore the step."""
