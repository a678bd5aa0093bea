"""The comment that ties a group of lines to the spec: one writer for all languages, and the reader for `kgen diff`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kgen.ir import Label

WIDTH = 100  # longest comment text, without indentation and comment sign
NONE = "*"  # stands for "no statement": set-up that belongs to the kernel as a whole
_LABEL = re.compile(r"^\s*(?:#|//)\s\[(?P<ids>\*|s\d+(?:, s\d+)*)\] (?:.* )?\((?P<part>[\w ]+)\)\s*$")


def label_text(label: Label, statements: Mapping[str, str]) -> str:
    """Return the text of a label's comment, such as "[s2] p = softmax[n](s)  (state)".

    `statements` maps an id to its source line. Several statements show only the first one's line.
    """
    ids = ", ".join(label.stmts) or NONE
    source = " ".join(statements.get(label.stmts[0], "").split()) if label.stmts else ""
    tail = f"({label.part})"
    room = WIDTH - len(ids) - len(tail) - 5
    if len(source) > room:
        source = source[: room - 4].rstrip() + " ..."
    return f"[{ids}] {source}  {tail}" if source else f"[{ids}] {tail}"


def parse_label(line: str) -> Label | None:
    """Return the label that a line of generated text (Triton or CUDA) holds, or None."""
    found = _LABEL.match(line)
    if found is None:
        return None
    ids = () if found["ids"] == NONE else tuple(found["ids"].split(", "))
    return Label(ids, found["part"])


def labels(text: str) -> tuple[Label, ...]:
    """Return the labels of a generated text in order, repetitions included."""
    return tuple(label for label in map(parse_label, text.splitlines()) if label is not None)


def statement_ids(found: Iterable[Label]) -> frozenset[str]:
    """Return the ids of all statements that some label names."""
    return frozenset(i for label in found for i in label.stmts)
