"""Two texts of one op in two columns, each statement's lines beside its counterpart's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from kgen.emit.diff import Group, aligned
from kgen.emit.labels import parse_label

PIPED_WIDTH = 200
LEAST_WIDTH = 60
SEPARATOR = " | "


def side_by_side(left: str, right: str, width: int) -> Iterator[tuple[str, str]]:
    """Yield (style, line): "head" for the label of a group, "" for lines of code. Long lines go on in the next row."""
    column = (max(width, LEAST_WIDTH) - len(SEPARATOR)) // 2
    yield "head", f"{'Triton'.ljust(column)}{SEPARATOR}CUDA"
    for group in aligned(left, right):
        yield "", ""
        if group.label is not None:
            yield "head", _title(group)
        for a, b in itertools.zip_longest(_rows(group.left, column), _rows(group.right, column), fillvalue=""):
            yield "", f"{a.ljust(column)}{SEPARATOR}{b}".rstrip()


def _title(group: Group) -> str:
    """Return the label's line as the texts have it, without the comment sign."""
    lines = [x for x in (*group.left, *group.right) if parse_label(x) is not None]
    text = lines[0].strip().lstrip("#/ ") if lines else str(group.label)
    return text if group.occurrence == 1 else f"{text}, occurrence {group.occurrence}"


def _rows(lines: tuple[str, ...], column: int) -> list[str]:
    """Return the lines of a group without its label, each cut to the column's width."""
    code = [x.expandtabs(4) for x in lines if parse_label(x) is None]
    return [piece for line in code for piece in _cut(line, column)]


def _cut(line: str, column: int) -> list[str]:
    if len(line) <= column:
        return [line]
    indent = min(len(line) - len(line.lstrip()) + 4, column // 2)
    place = line.rfind(" ", indent, column)
    place = place if place > indent else column
    return [line[:place].rstrip(), *_cut(" " * indent + line[place:].lstrip(), column)]
