"""Merging trees: `extends` (a spec over its base) and `--set key.path=value`."""

from __future__ import annotations

import re
from typing import Any

from kgen.errors import fail
from kgen.source import Source, Span
from kgen.spec_yaml import Text, clean, read

# These merge by name and field; `require` adds; every other key replaces.
BY_NAME = ("axes", "sizes", "tensors", "params")
_SEGMENT = re.compile(r"[A-Za-z_]\w*|\d+")


def merge(base: dict[Text, Any], own: dict[Text, Any]) -> dict[Text, Any]:
    """Return `base` changed by `own`. A name whose value is null (`lse: null`) is removed."""
    merged = {k: v for k, v in base.items() if k not in own or k in BY_NAME or k == "require"}
    for key, value in own.items():
        old = base.get(key)
        if key in BY_NAME and isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merge_names(old, value)
        elif key == "require" and old is not None:
            merged[key] = _listed(old) + _listed(value)
        elif not (isinstance(value, Text) and value.is_null):
            merged[key] = value
    return merged


def _merge_names(old: dict[Text, Any], new: dict[Text, Any]) -> dict[Text, Any]:
    merged = dict(old)
    for name, value in new.items():
        before = merged.get(name)
        if isinstance(value, Text) and value.is_null:
            merged.pop(name, None)
        elif isinstance(before, dict) and isinstance(value, dict):
            merged[name] = before | value
        else:
            merged[name] = value
    return merged


def _listed(tree: Any) -> list[Any]:
    return tree if isinstance(tree, list) else [tree]


def set_value(tree: dict[Text, Any], override: str) -> dict[Text, Any]:
    """Return `tree` with one `key.path=value` applied; an empty value removes the key. Errors are placed in `--set`."""
    source = Source("--set", clean(override))
    path, equals, value = override.partition("=")
    parts = path.strip().split(".")
    if not equals or not all(_SEGMENT.fullmatch(p) for p in parts):
        raise fail(Span(source, 1, 1, max(1, len(path))), "expected key.path=value", "such as axes.n.tile=64")
    keys, column = [], path.index(parts[0]) + 1
    for part in parts:
        keys.append(Text(part, Span(source, 1, column, len(part))))
        column += len(part) + 1
    return _set(tree, keys, _value(source, value.strip(), override.index("=") + 2))


def _value(source: Source, value: str, column: int) -> Any:
    """Read a flow mapping or list as YAML, anything else as the text it is (so that no expression needs quotes)."""
    if value.startswith(("{", "[")):
        return _moved(
            read(Source("--set", f"value: {value}"))[Text("value", Span(source, 1, 1))],
            source,
            column - len("value: ") - 1,
        )
    start = source.text.find(value, column - 1) + 1
    return Text(value, Span(source, 1, start, max(1, len(value))))


def _moved(tree: Any, source: Source, shift: int) -> Any:
    if isinstance(tree, dict):
        return {_moved(k, source, shift): _moved(v, source, shift) for k, v in tree.items()}
    if isinstance(tree, list):
        return [_moved(v, source, shift) for v in tree]
    old = tree.span
    return Text(tree, Span(source, old.line, old.column + shift, old.length), tree.style)


def _set(tree: Any, keys: list[Text], value: Any) -> Any:
    head, rest = keys[0], keys[1:]
    if isinstance(tree, list):
        if not head.isdigit() or int(head) >= len(tree):
            raise fail(head.span, f"'{head}' is not an entry of this list of {len(tree)}")
        return [
            _set(v, rest, value) if rest and i == int(head) else value if i == int(head) else v
            for i, v in enumerate(tree)
        ]
    if not isinstance(tree, dict):
        raise fail(head.span, f"there is no key '{head}' below a value")
    new = {k: v for k, v in tree.items() if k != head}
    if not rest and isinstance(value, Text) and value.is_null:
        return new
    inner = _set(tree.get(head, {}), rest, value) if rest else value
    # Keep the place of the key in the order: specs are printed back.
    return {(k if rest else head) if k == head else k: inner if k == head else v for k, v in tree.items()} | (
        {} if head in tree else {head: inner}
    )
