"""One piece of work beside the main thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs a function in a thread that does not outlive the process: Ctrl-C need not wait for a compiler."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._answer: T | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Has the function ended?"""
        return not self._thread.is_alive()

    def result(self) -> T:
        """Wait for the function and return its answer, or raise its error."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answer  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._answer = self._function()
        except BaseException as error:  # raised again where the result is asked for
            self._error = error
