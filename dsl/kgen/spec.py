"""A spec file as a checked model: YAML read, `extends` and overrides applied, all errors reported at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from kgen import resources
from kgen import syntax as s
from kgen.errors import Diagnostic, KgenError, SpecError, fail, nearest
from kgen.source import Source, Span
from kgen.spec_fields import shown
from kgen.spec_merge import merge, set_value
from kgen.spec_model import ARCH, SpecModel
from kgen.spec_yaml import QUOTE_HINT, Text, clean, dump, read

_MAX_EXTENDS = 8
_HELPER = re.compile(r"\s*\w+\([\w\s,]*\)\s*=")


@dataclass(frozen=True)
class Spec:
    """A spec whose structure is checked and whose expressions are parsed; names and types are resolve's.

    `text` is the spec as one YAML document, with `extends` and overrides applied; `source` is the file as written.
    """

    model: SpecModel
    source: Source
    text: str
    folder: Path | None
    tree: dict[Text, Any] = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.model.kernel

    @property
    def records(self) -> Path | None:
        """The folder of accumulator records beside the spec (it may not exist)."""
        return None if self.folder is None else self.folder / "accumulators"

    @property
    def statements(self) -> tuple[s.Statement, ...]:
        return self.model.compute

    def span(self, *path: str | int, key: bool = False) -> Span:
        """Return the place of the value at `path` (or of its key); of the deepest existing part if there is none."""
        return find_span(self.tree, path, key) or Span(self.source, 1, 1)


def find_span(tree: Any, path: Sequence[str | int], key: bool = False) -> Span | None:
    """Return the place of the value at `path` in a tree (its key's place for mappings and lists)."""
    span: Span | None = None
    for part in path:
        if isinstance(tree, dict):
            name = next((k for k in tree if k == part), None)
            if name is None:
                break
            span, tree = name.span, tree[name]
        elif isinstance(tree, list) and isinstance(part, int) and part < len(tree):
            tree = tree[part]
            span = _first_span(tree) or span
        else:
            break
    return tree.span if isinstance(tree, Text) and not key and len(tree) else span


def _first_span(tree: Any) -> Span | None:
    if isinstance(tree, Text):
        return tree.span
    inner = next(iter(tree), None) if tree else None
    return None if inner is None else _first_span(inner)


def load(spec: str | Path, overrides: Sequence[str] = ()) -> Spec:
    """Return the spec in a file (a path), or in a text (a string with a line break), with `key.path=value` overrides.

    Raise SpecError with every diagnostic of the file, KgenError if it cannot be read.
    """
    if isinstance(spec, str) and "\n" in spec:
        return parse(Source("<spec>", clean(spec)), None, overrides)
    path = Path(spec)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise KgenError(f"cannot read the spec '{path}': {e}") from None
    return parse(Source(str(spec), clean(text)), path.parent, overrides)


def parse(source: Source, folder: Path | None, overrides: Sequence[str] = ()) -> Spec:
    """Return the spec in `source`; `folder` is where its `extends` and `reference` are looked up first."""
    own = read(source)
    _check_kind(own, source)
    tree = _extended(own, folder, 0)
    for override in overrides:
        tree = set_value(tree, override)
    try:
        model = SpecModel.model_validate(tree)
    except ValidationError as e:
        raise SpecError(_diagnostics(e, tree, source)) from None
    text = source.text if tree is own else dump({k: v for k, v in tree.items() if k != "extends"})
    return Spec(model, source, text, folder, tree)


def _check_kind(tree: dict[Text, Any], source: Source) -> None:
    """Raise SpecError for the other kinds of YAML files that kgen has."""
    place = Span(source, 1, 1)
    if tree and not {"kernel", "extends", "axes", "compute"} & set(tree):
        if all(isinstance(v, Text) and _HELPER.match(v) for v in tree.values()):
            raise fail(place, "this file holds predicates, not a kernel", "masks and guards of specs call them by name")
        if {"inputs", "state", "lift"} <= set(tree):
            raise fail(place, "this file holds an accumulator record, not a kernel", "check a spec that uses it")


def _extended(tree: dict[Text, Any], folder: Path | None, depth: int) -> dict[Text, Any]:
    key = next((k for k in tree if k == "extends"), None)
    if key is None:
        return tree
    value = tree[key]
    if not isinstance(value, Text) or Path(value).name != value or not value.endswith(".yaml"):
        raise fail(key.span, f"'extends' names a spec file beside this one or a shipped one, not {shown(value)}")
    if depth >= _MAX_EXTENDS:
        raise fail(value.span, "the specs extend one another in a circle")
    roots = [resources.path("specs")] if folder is None else [folder, resources.path("specs")]
    found = next((r for r in roots if (r / value).is_file()), None)
    if found is None:
        known = sorted(p.name for r in roots for p in r.glob("*.yaml"))
        raise fail(value.span, f"there is no spec '{value}'", nearest(value, known))
    base = Source(str(found / value), clean((found / value).read_text(encoding="utf-8")))
    return merge(_extended(read(base), found, depth + 1), tree)


def _diagnostics(e: ValidationError, tree: dict[Text, Any], source: Source) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    errors = e.errors(include_url=False)
    unbuilt = {x["loc"][:-1] for x in errors if str(x.get("ctx", {}).get("message")).startswith("not built yet")}
    for error in errors:
        if error["type"] == "missing" and error["loc"][:-1] in unbuilt:
            continue  # what is not built may stand instead of what is missing
        own = error.get("ctx", {}).get("diagnostics")
        found += own if own else [_diagnostic(dict(error), tree, source)]
    return sorted(
        set(found),
        key=lambda d: (d.span.source.name != source.name, d.span.line, d.span.column) if d.span else (True, 0, 0),
    )


def _diagnostic(error: dict[str, Any], tree: dict[Text, Any], source: Source) -> Diagnostic:
    path = _written_path(error["loc"])
    context = error.get("ctx", {})
    about_key = error["loc"][-1] == "[key]" or error["type"] == "extra_forbidden" or context.get("key", False)
    span = find_span(tree, path, about_key) or Span(source, 1, 1)
    match error["type"]:
        case "kgen":
            return Diagnostic(span, context["message"], context["hint"])
        case "extra_forbidden":
            return _unknown_key(span, path, error["input"])
        case "missing":
            where = f"'{'.'.join(map(str, path[:-1]))}'" if path[:-1] else "the spec"
            return Diagnostic(span, f"{where} has no '{path[-1]}'")
        case "dict_type" | "model_type" | "model_attributes_type":
            return Diagnostic(span, f"'{path[-1]}' expects a mapping, not {shown(error['input'])}")
        case "tuple_type":
            return Diagnostic(span, f"'{path[-1]}' expects a list, not {shown(error['input'])}")
        case "too_long" | "too_short":
            return Diagnostic(span, f"'{path[-1]}' expects two values")
    return Diagnostic(span, error["msg"])


def _written_path(loc: Sequence[str | int]) -> list[str | int]:
    """Return the path of a model's field as the spec writes it: without the fields that short forms stand for."""
    match list(loc):
        case ["schedule", ("triton" | "cuda") as backend, "archs", *rest]:
            path = ["schedule", backend, *rest]
        case ["sizes", name, "definition", *rest]:
            path = ["sizes", name, *rest]
        case ["accumulate", name, "operands", *rest]:
            path = ["accumulate", name, *rest]
        case path:
            pass
    return path[:-1] if path[-1] == "[key]" else path


def _unknown_key(span: Span, path: list[Any], value: Any) -> Diagnostic:
    key = str(path[-1])
    if isinstance(value, Text) and value.is_null and not key.isidentifier():
        return Diagnostic(span, f"'{key}' is not a key", QUOTE_HINT)
    known = keys_at(path[:-1])
    if path[0] == "schedule" and (ARCH.fullmatch(key) or key in keys_at(("schedule",))):
        place = "schedule.triton or schedule.cuda" if ARCH.fullmatch(key) else "schedule"
        return Diagnostic(span, f"unknown key '{key}'", f"'{key}' stands directly below {place}")
    return Diagnostic(span, f"unknown key '{key}'", nearest(key, known) or f"known keys are {', '.join(sorted(known))}")


def keys_at(path: Sequence[str | int]) -> list[str]:
    """Return the keys that a spec may have at `path`, e.g. ("axes", "m")."""
    kind: Any = SpecModel
    for part in path:
        kind = _plain(_inner(kind, part))
    return [k for k in _fields(kind) if k != "archs"]


def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a model's fields by key; {} for what is no model."""
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    return {(field.alias or name): field.annotation for name, field in kind.model_fields.items()}


def _inner(kind: Any, part: str | int) -> Any:
    """Return the type of the entry `part` of a model, mapping or list."""
    fields = _fields(kind)
    if not fields:
        return _element(kind)
    if isinstance(part, str) and ARCH.fullmatch(part) and "archs" in fields:
        return _element(fields["archs"])
    return fields.get(str(part))


def _plain(kind: Any) -> Any:
    """Strip None from an optional type."""
    args = [a for a in getattr(kind, "__args__", ()) if a is not type(None)]
    return args[0] if getattr(kind, "__origin__", None) is None and args else kind


def _element(kind: Any) -> Any:
    args = [a for a in getattr(kind, "__args__", ()) if a is not Ellipsis]
    return args[-1] if args else None
