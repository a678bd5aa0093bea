"""Progress on stderr: a bar on a terminal, plain lines otherwise."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from kgen.workflow.progress import Progress

PATIENCE = 1.0  # seconds that a stage may last before it is spoken of
PAUSE = 5.0  # seconds between plain lines about the steps of one stage


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Give a progress that fits stderr."""
    if not sys.stderr.isatty():
        lines = Lines()
        try:
            yield lines
        finally:
            lines.close()
        return
    words = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with RichProgress(*words, console=Console(stderr=True), transient=True) as shown:
        yield Bars(shown)


class Lines:
    """A line for each stage that lasts, and one for its steps every few seconds."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0
        self.spoken = time.monotonic()
        self.waiting: threading.Timer | None = None

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin a stage of `total` steps."""
        self.close()
        self.total, self.done = total, 0
        self.waiting = threading.Timer(PATIENCE, self._say, [f"{title}{f' ({total})' if total else ''}"])
        self.waiting.daemon = True
        self.waiting.start()

    def step(self, note: str = "") -> None:
        """Count a step."""
        self.done += 1
        if time.monotonic() - self.spoken >= PAUSE:
            of = f" of {self.total}" if self.total else ""
            self._say(f"  {self.done}{of}{f': {note}' if note else ''}")

    def close(self) -> None:
        """End the stage: it is not spoken of if it was over before that."""
        if self.waiting is not None:
            self.waiting.cancel()

    def _say(self, text: str) -> None:
        self.spoken = time.monotonic()
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


class Bars:
    """A bar for the stage that is running."""

    def __init__(self, shown: RichProgress) -> None:
        self.shown = shown
        self.task: TaskID | None = None
        self.title = ""

    def stage(self, title: str, total: int | None = None) -> None:
        """Begin a stage of `total` steps."""
        if self.task is not None:
            self.shown.remove_task(self.task)
        self.title = title
        self.task = self.shown.add_task(title, total=total)

    def step(self, note: str = "") -> None:
        """Count a step."""
        if self.task is not None:
            self.shown.update(self.task, advance=1, description=f"{self.title}{f': {note}' if note else ''}")
