"""Errors a user can cause, each with its place, what was expected, and the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from kgen.source import Span


class KgenError(Exception):
    """Base of every error that is the user's to mend. Shown as text, never as a traceback (exit code 2)."""


@dataclass(frozen=True)
class Diagnostic:
    """One finding in a spec: where, what is wrong, and (optional) what would be right."""

    span: Span | None
    message: str
    hint: str | None = None

    def render(self) -> str:
        """Return `file:line:col: error: message`, the source line, a caret line, and the hint."""
        if self.span is None:
            head = f"error: {self.message}"
        else:
            text = self.span.source.line(self.span.line)
            width = max(1, min(self.span.length, len(text) - self.span.column + 1))
            number = f"{self.span.line:>5} | "
            caret = " " * (len(number) + self.span.column - 1) + "^" * width
            head = f"{self.span}: error: {self.message}\n{number}{text}\n{caret}"
        return head if self.hint is None else f"{head}\n      hint: {self.hint}"


class SpecError(KgenError):
    """All diagnostics of one file, raised at once."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


def fail(span: Span | None, message: str, hint: str | None = None) -> SpecError:
    """Return a SpecError of a single diagnostic, to be raised by the caller."""
    return SpecError([Diagnostic(span, message, hint)])


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """Return "did you mean 'x'?" for the closest choice, else None."""
    found = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f"did you mean '{found[0]}'?" if found else None
