"""Lines of generated Python: long ones broken at their outermost brackets."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

WIDTH = 110
_OPEN, _CLOSE = "([{", ")]}"


def names(items: Sequence[str]) -> str:
    """Return the text of a dict of variables by their names."""
    return "{" + ", ".join(f'"{n}": {n}' for n in items) + "}"


def items(texts: Sequence[str]) -> str:
    """Return the text of a tuple."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def quoted(text: str) -> str:
    """Return text as it must stand in a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def prose(text: str) -> list[str]:
    """Return the lines of a docstring's text, which stands four columns in: paragraphs filled anew."""
    paragraphs = [textwrap.wrap(p, WIDTH - 8, break_on_hyphens=False) for p in text.strip().split("\n\n")]
    return [line for i, p in enumerate(paragraphs) for line in (*([""] if i else []), *p)]


def wrapped(line: str, indent: int = 0) -> Iterator[str]:
    """Yield a line of code that stands `indent` columns in, as several lines if it is too long: one element a line."""
    parts = _taken_apart(line) if len(line) + indent > WIDTH else None
    if parts is None:
        yield line
        return
    head, elements, tail = parts
    yield head
    for e in elements:
        yield from (f"    {text}" for text in wrapped(f"{e},", indent + 4))
    yield tail


def _taken_apart(line: str) -> tuple[str, list[str], str] | None:
    """Return the text up to the longest outermost bracket, its elements, and the rest; None without brackets."""
    spans = [s for s in _brackets(line) if line[s[0] + 1 : s[1]].strip()]
    if not spans:
        return None
    start, end = max(spans, key=lambda s: s[1] - s[0])
    commas = [i for i in _at_depth_zero(line, start + 1, end) if line[i] == ","]
    cuts = [start, *commas, end]
    elements = [line[a + 1 : b].strip() for a, b in itertools.pairwise(cuts)]
    return line[: start + 1], [e for e in elements if e], line[end:]


def _brackets(line: str) -> Iterator[tuple[int, int]]:
    """Yield the places of outermost pairs of brackets."""
    depth, start = 0, 0
    for i, c in _code(line):
        if c in _OPEN:
            start, depth = (i, 1) if depth == 0 else (start, depth + 1)
        elif c in _CLOSE:
            depth -= 1
            if depth == 0:
                yield start, i


def _at_depth_zero(line: str, start: int, end: int) -> Iterator[int]:
    depth = 0
    for i, c in _code(line):
        if start <= i < end:
            depth += (c in _OPEN) - (c in _CLOSE)
            if depth == 0:
                yield i


def _code(line: str) -> Iterator[tuple[int, str]]:
    """Yield the characters outside string literals (which the compiler writes between double quotes)."""
    quoted = False
    for i, c in enumerate(line):
        if c == '"' and line[i - 1 : i] != "\\":
            quoted = not quoted
        elif not quoted:
            yield i, c
