"""YAML text to a tree of dicts, lists and `Text` scalars in which every key and scalar knows its place.

Scalars stay text: what `010`, `no` or `1e-5` mean is decided by the field that reads them, never guessed by YAML. Tags,
anchors and aliases are refused, and nesting is bounded, so that no spec can run code or grow when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from kgen.errors import Diagnostic, SpecError, fail
from kgen.source import Source, Span

MAX_DEPTH = 16
MAX_CHARACTERS = 1_000_000
QUOTE_HINT = "inside a YAML flow map an expression holding '[', '{', ',' or ': ' must be quoted"


class Text(str):
    """A scalar as written, with its place. `style` is YAML's: None (plain), ', ", | or >."""

    span: Span
    style: str | None

    def __new__(cls, value: str, span: Span, style: str | None = None) -> Text:
        new = super().__new__(cls, value)
        new.span, new.style = span, style
        return new

    @property
    def is_null(self) -> bool:
        return self.style is None and self in ("", "~", "null")

    @property
    def column(self) -> int:
        """The column of the first character of the value (after an opening quote)."""
        return self.span.column + (self.style in ("'", '"'))

    def lines(self) -> list[tuple[str, int, int]]:
        """Return the lines of the value, each with the line and column where it stands in the source."""
        if self.style != "|":
            return [(str(self), self.span.line, self.column)]
        found, number = [], self.span.line
        source = self.span.source.text.split("\n")
        for line in self.split("\n"):
            number += 1
            raw = source[number - 1] if number <= len(source) else ""
            found.append((line, number, len(raw) - len(line) + 1 if raw.endswith(line) else 1))
        return found


Tree = dict[Text, Any] | list[Any] | Text


def read(source: Source) -> dict[Text, Any]:
    """Return the mapping that `source` holds; raise SpecError for malformed YAML and for anything but one mapping."""
    first = Span(source, 1, 1)
    if len(source.text) > MAX_CHARACTERS:
        raise fail(first, f"a spec may have at most {MAX_CHARACTERS} characters")
    reader = _Reader(source)
    tree = reader.document()
    if reader.diagnostics:
        raise SpecError(reader.diagnostics)
    if not isinstance(tree, dict):
        raise fail(first, "expected a mapping of keys such as 'kernel: name' at the top level")
    return tree


def clean(text: str) -> str:
    """Return `text` without a byte order mark and with Unix line ends."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.events: Iterator[Any] = YAML(typ="safe", pure=True).parse(source.text)

    def document(self) -> Tree | None:
        tree: Tree | None = None
        documents = 0
        try:
            for event in self.events:
                documents += isinstance(event, DocumentStartEvent)
                if documents > 1:
                    raise fail(self._span(event), "a spec is one YAML document, and a second one starts here")
                if isinstance(event, NodeEvent):
                    tree = self._node(event, 0)
        except YAMLError as e:
            raise self._yaml_error(e) from None
        return tree

    def _span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        line = self.source.line(start.line + 1)
        stop = end.column if end.line == start.line else len(line)
        return Span(self.source, start.line + 1, start.column + 1, max(1, stop - start.column))

    def _node(self, event: Any, depth: int) -> Tree:
        if isinstance(event, AliasEvent) or event.anchor is not None:
            raise fail(self._span(event), "anchors and aliases are not used in specs", "write the value out")
        if event.tag is not None and event.tag != "!":
            raise fail(self._span(event), f"tags such as '{event.tag}' are not used in specs")
        if depth > MAX_DEPTH:
            raise fail(self._span(event), f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, ScalarEvent):
            return Text(event.value, self._span(event), event.style)
        if isinstance(event, SequenceStartEvent):
            return [self._node(e, depth + 1) for e in self._until(SequenceEndEvent)]
        assert isinstance(event, MappingStartEvent)
        return self._mapping(depth)

    def _until(self, end: type) -> Iterator[Any]:
        for event in self.events:
            if isinstance(event, end):
                return
            yield event

    def _mapping(self, depth: int) -> dict[Text, Any]:
        tree: dict[Text, Any] = {}
        for event in self._until(MappingEndEvent):
            key = self._node(event, depth + 1)
            value = self._node(next(self.events), depth + 1)
            if not isinstance(key, Text):
                raise fail(self._span(event), "a key must be a name", QUOTE_HINT)
            old = next((k for k in tree if k == key), None)
            if old is not None:
                message = f"the key '{key}' is given twice, first in line {old.span.line}"
                self.diagnostics.append(Diagnostic(key.span, message))
            tree[key] = value
        return tree

    def _yaml_error(self, e: YAMLError) -> SpecError:
        mark = getattr(e, "problem_mark", None)
        if not isinstance(e, MarkedYAMLError) or mark is None:
            return fail(Span(self.source, 1, 1), f"this is not YAML: {e}")
        line = min(mark.line + 1, self.source.text.count("\n") + 1)
        span = Span(self.source, line, mark.column + 1)
        flow = "flow" in (e.context or "") or "flow" in (e.problem or "") or _in_flow(self.source.line(line))
        return fail(span, f"this is not YAML: {e.problem}", QUOTE_HINT if flow else None)


def _in_flow(line: str) -> bool:
    return re.search(r":\s*[{\[]", line) is not None


_PLAIN = re.compile(r"[\w./+*()<>=-][\w ./+*()<>=-]*")


def _scalar(text: Text) -> str:
    safe = _PLAIN.fullmatch(text) and not text.endswith(" ") and not text.startswith(("- ", "= "))
    return str(text) if text.style is None and safe else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _flow(tree: Tree) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k}: {_flow(v)}" for k, v in tree.items()) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(_flow(v) for v in tree) + "]"
    return _scalar(tree)


def dump(tree: dict[Text, Any]) -> str:
    """Return the tree as YAML text that `read` turns into an equal tree: one line an entry, `compute` as a block."""
    lines: list[str] = []
    for key, value in tree.items():
        if isinstance(value, Text) and "\n" in value.strip("\n"):
            lines += [f"{key}: |", *(f"  {line}" if line else "" for line in value.strip("\n").split("\n"))]
        elif isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            lines += [f"{key}:", *(f"  {k}: {_flow(v)}" for k, v in value.items())]
        else:
            text = _scalar(Text(value.strip("\n"), value.span)) if isinstance(value, Text) else _flow(value)
            lines.append(f"{key}: {text}")
    return "\n".join(lines) + "\n"
