"""Source files and the places in them that errors and labels point at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A text and the name it is shown under."""

    name: str
    text: str

    def line(self, number: int) -> str:
        """Return line `number` (counted from 1), or "" past the end."""
        lines = self.text.split("\n")
        return lines[number - 1] if 1 <= number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """A range of characters on one line: `line` and `column` count from 1; `length` is at least 1."""

    source: Source
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def __repr__(self) -> str:
        return f"<{self}>"
