"""Long lines of CUDA text, broken where they are nested least."""

from __future__ import annotations

import re
from collections.abc import Iterable

WIDTH = 110
_BREAK = re.compile(r"(?<=, )|(?<=; )|(?= && )|(?= \|\| )|(?= \? )|(?= : )|(?= \+ )|(?<= = )")
_CONTINUED = 8


def wrapped(lines: Iterable[str]) -> list[str]:
    """Return the lines, each longer than `WIDTH` continued on further ones."""
    return [piece for line in lines for piece in _pieces(line)]


def _pieces(line: str) -> list[str]:
    if len(line) <= WIDTH or line.lstrip().startswith("//"):
        return [line]
    indent = len(line) - len(line.lstrip())
    cuts = [(depth, at) for depth, at in _cuts(line) if indent + _CONTINUED < at <= WIDTH]
    if not cuts:
        return [line]
    least = min(depth for depth, _ in cuts)
    at = max(at for depth, at in cuts if depth == least)
    rest = " " * (indent + _CONTINUED) + line[at:].strip()
    return [line[:at].rstrip(), *_continued(rest)]


def _continued(line: str) -> list[str]:
    """Further lines keep the indentation of the first continuation."""
    pieces = _pieces(line)
    if len(pieces) == 1:
        return pieces
    indent = len(line) - len(line.lstrip())
    return [pieces[0], *_continued(" " * indent + " ".join(p.strip() for p in pieces[1:]))]


def _cuts(line: str) -> list[tuple[int, int]]:
    """Return the places where the line may be broken, each with its bracket depth."""
    depths, depth = [], 0
    for char in line:
        depth += (char in "([{") - (char in ")]}")
        depths.append(depth)
    return [(depths[m.start() - 1], m.start()) for m in _BREAK.finditer(line) if m.start() > 0]
