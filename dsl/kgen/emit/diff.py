"""Two generated texts of one op side by side, aligned by the labels of their groups of lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kgen.emit.labels import parse_label
from kgen.ir import Label


@dataclass(frozen=True)
class Group:
    """Lines that share a label, on both sides; a side is empty where the text has no such group.

    `label` is None for lines before a first label (signature, set-up). `occurrence` counts equal labels from 1:
    a loop's body is written once per segment.
    """

    label: Label | None
    occurrence: int
    left: tuple[str, ...]
    right: tuple[str, ...]


def aligned(left: str, right: str) -> tuple[Group, ...]:
    """Return the groups of both texts in the left one's order; those only on the right after their predecessor."""
    ours, theirs = groups(left), groups(right)
    order = list(ours)
    previous: tuple[Label | None, int] | None = None
    for key in theirs:
        if key not in ours:
            order.insert(order.index(previous) + 1 if previous in order else 0, key)
        previous = key
    return tuple(Group(label, n, ours.get((label, n), ()), theirs.get((label, n), ())) for label, n in order)


def groups(text: str) -> dict[tuple[Label | None, int], tuple[str, ...]]:
    """Return the lines of a text by (label, occurrence). Outer indentation and blank lines at the ends are taken off.

    A group ends at the next label, and at a line indented less than its label: that one belongs to no statement.
    """
    seen: Counter[Label | None] = Counter()
    found: dict[tuple[Label | None, int], list[str]] = {}
    lines: list[str] = []
    label: Label | None = None
    depth = 0

    def close() -> None:
        if any(line.strip() for line in lines):
            seen[label] += 1
            found[label, seen[label]] = list(lines)

    for line in text.splitlines():
        new = parse_label(line)
        indent = len(line) - len(line.lstrip())
        if new is not None or (label is not None and line.strip() and indent < depth):
            close()
            lines, label, depth = ([], new, indent)
        lines.append(line)
    close()
    return {key: _trimmed(group) for key, group in found.items()}


def _trimmed(lines: list[str]) -> tuple[str, ...]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    while lines and not lines[0].strip():
        lines = lines[1:]
    margin = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    return tuple(x[margin:] for x in lines)
