"""Accumulator records as written: YAML to syntax trees, every field with its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError

from kgen.errors import Diagnostic, SpecError, fail, nearest
from kgen.parse import parse_expr
from kgen.source import Source, Span
from kgen.syntax import Node

REQUIRED = ("inputs", "state", "lift", "merge", "finish", "direct")
KEYS = (*REQUIRED, "doc", "operands", "domain", "update", "weight", "rescale")
CLASSES = ("float", "number", "bool")
SPECIALS = ("-inf", "inf", "nan")
STATE_DTYPES = ("input", "f32", "f64", "i32", "i64", "bool")
_QUOTE = "quote an expression that holds '[', '{', ',' or ': '"


@dataclass(frozen=True)
class Entry:
    """`name: expression` in one of a record's maps; the span is that of the name."""

    name: str
    value: Node
    span: Span


@dataclass(frozen=True)
class StateEntry:
    """A state as declared; `dtype` None stands for the default."""

    name: str
    identity: Node
    dtype: str | None
    span: Span


@dataclass(frozen=True)
class RecordSyntax:
    """A record file. `direct` None means builtin; `tiled`: `update` gives the tile's own state, to be merged."""

    name: str
    source: Source
    doc: str
    input: str
    input_class: str
    operands: tuple[str, ...]
    domain: tuple[str, ...]
    states: tuple[StateEntry, ...]
    lift: tuple[Entry, ...]
    merge: tuple[Entry, ...]
    update: tuple[Entry, ...]
    tiled: bool
    weight: Node | None
    rescale: Node | None
    finish: tuple[Entry, ...]
    direct: tuple[Entry, ...] | None
    spans: tuple[tuple[str, Span], ...]

    def span(self, field: str) -> Span:
        """Return the place of a field's key, or of the record's start if the field is not written."""
        return dict(self.spans).get(field, Span(self.source, 1, 1))


def read_record(name: str, source: Source) -> RecordSyntax:
    """Read one record file; raise SpecError with all its diagnostics."""
    reader = _Reader(source)
    syntax = reader.record(name, _yaml(source))
    if reader.diagnostics or syntax is None:
        raise SpecError(reader.diagnostics)
    return syntax


def _yaml(source: Source) -> CommentedMap:
    try:
        data = YAML().load(source.text)
    except MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        span = None if mark is None else Span(source, mark.line + 1, mark.column + 1)
        raise fail(span, str(e.problem or e.context).split("\n")[0], _QUOTE) from None
    if not isinstance(data, CommentedMap):
        raise fail(Span(source, 1, 1), "expected a map of an accumulator's fields", "fields: " + ", ".join(KEYS))
    return data


class _Reader:
    """Collects diagnostics; every method returns something usable even after it has reported."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []

    def report(self, span: Span, message: str, hint: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(span, message, hint))

    def span(self, position: tuple[int, int], text: str = "") -> Span:
        line, column = position
        return Span(self.source, line + 1, column + 1, max(1, len(text)))

    def record(self, name: str, data: CommentedMap) -> RecordSyntax | None:
        self.known(data, KEYS, "field")
        missing = [key for key in REQUIRED if key not in data]
        if missing:
            self.report(self.span((0, 0)), f"record '{name}' lacks {', '.join(missing)}")
            return None
        input_name, input_class = self.input(data)
        update, tiled = self.update(data)
        return RecordSyntax(
            name=name,
            source=self.source,
            doc=str(data.get("doc", "")),
            input=input_name,
            input_class=input_class,
            operands=self.words(data, "operands", None),
            domain=self.words(data, "domain", SPECIALS) if "domain" in data else ("-inf",),
            states=self.states(data),
            lift=self.entries(data, "lift"),
            merge=self.entries(data, "merge"),
            update=update,
            tiled=tiled,
            weight=self.expr(data, "weight") if "weight" in data else None,
            rescale=self.expr(data, "rescale") if "rescale" in data else None,
            finish=self.entries(data, "finish"),
            direct=None if data["direct"] == "builtin" else self.entries(data, "direct"),
            spans=tuple((str(key), self.span(data.lc.key(key), str(key))) for key in data),
        )

    def known(self, data: CommentedMap, choices: Iterable[str], what: str) -> None:
        for key in data:
            if key not in choices:
                hint = nearest(str(key), choices) or "expected " + ", ".join(choices)
                self.report(self.span(data.lc.key(key), str(key)), f"unknown {what} '{key}'", hint)

    def map(self, data: CommentedMap, key: str) -> CommentedMap:
        if isinstance(data[key], CommentedMap):
            return data[key]
        self.report(self.span(data.lc.value(key)), f"'{key}' must be a map of names to expressions", _QUOTE)
        return CommentedMap()

    def words(self, data: CommentedMap, key: str, choices: tuple[str, ...] | None) -> tuple[str, ...]:
        items = data.get(key, CommentedSeq())
        if not isinstance(items, CommentedSeq):
            self.report(self.span(data.lc.value(key)), f"'{key}' must be a list", f"write {key}: [{items}]")
            return ()
        for i, item in enumerate(items):
            if choices is not None and item not in choices:
                span = self.span(items.lc.item(i), str(item))
                self.report(span, f"unknown value '{item}'", "expected " + ", ".join(choices))
        return tuple(str(item) for item in items)

    def input(self, data: CommentedMap) -> tuple[str, str]:
        value, place = data["inputs"], self.span(data.lc.value("inputs"))
        if isinstance(value, CommentedMap | CommentedSeq) and len(value) == 1:
            name = str(next(iter(value)))
            kind = str(value[name]) if isinstance(value, CommentedMap) else "float"
            if kind not in CLASSES:
                hint = nearest(kind, CLASSES) or "expected " + ", ".join(CLASSES)
                self.report(self.span(value.lc.value(name), kind), f"unknown class of input '{kind}'", hint)
            return name, kind
        self.report(place, "a record has one input", "write inputs: [x], or inputs: {x: number} for integers too")
        return "x", "float"

    def states(self, data: CommentedMap) -> tuple[StateEntry, ...]:
        return tuple(self.state(m, name) for m in (self.map(data, "state"),) for name in m)

    def state(self, states: CommentedMap, name: str) -> StateEntry:
        fields, span = states[name], self.span(states.lc.key(name), name)
        if not isinstance(fields, CommentedMap) or "identity" not in fields:
            self.report(span, f"state '{name}' needs an identity", f"write {name}: {{identity: 0}}")
            return StateEntry(name, parse_expr("0", self.source, span.line, span.column), None, span)
        self.known(fields, ("identity", "dtype"), "field")
        dtype = fields.get("dtype")
        if dtype is not None and dtype not in STATE_DTYPES:
            hint = nearest(str(dtype), STATE_DTYPES) or "expected " + ", ".join(STATE_DTYPES)
            self.report(self.span(fields.lc.value("dtype"), str(dtype)), f"unknown state dtype '{dtype}'", hint)
            dtype = None
        return StateEntry(name, self.expr(fields, "identity"), dtype, span)

    def update(self, data: CommentedMap) -> tuple[tuple[Entry, ...], bool]:
        if "update" not in data:
            return (), False
        fields = self.map(data, "update")
        if "tile" not in fields and "then" not in fields:
            return self.entries(data, "update"), False
        self.known(fields, ("tile", "then"), "field")
        if fields.get("then") != "merge" or "tile" not in fields:
            self.report(self.span(data.lc.key("update"), "update"), "expected update: {tile: {...}, then: merge}")
            return (), True
        return self.entries(fields, "tile"), True

    def entries(self, data: CommentedMap, key: str) -> tuple[Entry, ...]:
        fields = self.map(data, key)
        return tuple(Entry(str(k), self.expr(fields, k), self.span(fields.lc.key(k), str(k))) for k in fields)

    def expr(self, data: CommentedMap, key: str) -> Node:
        value, (line, column) = data[key], data.lc.value(key)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if isinstance(value, CommentedMap | CommentedSeq | None):
            self.report(self.span((line, column)), f"expected an expression for '{key}'", _QUOTE)
            text = "0"
        line, column = self._start(line, column)
        try:
            return parse_expr(text, self.source, line + 1, column + 1)
        except SpecError as e:
            self.diagnostics.extend(e.diagnostics)
            return parse_expr("0", self.source, line + 1, column + 1)

    def _start(self, line: int, column: int) -> tuple[int, int]:
        """Return where the text of a scalar starts: after its quote, or on the line below `>` and `|`."""
        first = self.source.line(line + 1)[column : column + 1]
        if first in (">", "|"):
            below: Any = self.source.line(line + 2)
            return line + 1, len(below) - len(below.lstrip())
        return line, column + (first in ("'", '"') and first != "")
