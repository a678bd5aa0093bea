"""The kinds of values a spec's fields hold. Each reads a `Text` scalar strictly and says what it expected.

A field type is `Annotated[python type, reader, JSON schema]`: the reader is for specs, the schema for editors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kgen import syntax as s
from kgen.errors import Diagnostic, SpecError, fail, nearest
from kgen.parse import parse_choices, parse_expr, parse_order, parse_statement, parse_values
from kgen.spec_names import reason_against
from kgen.spec_yaml import QUOTE_HINT, Text
from kgen.types import DTYPES


def problem(message: str, hint: str | None = None, key: bool = False) -> PydanticCustomError:
    """Return an error about the value being read, or about its `key`; `spec` adds the place."""
    return PydanticCustomError("kgen", "{message}", {"message": message, "hint": hint, "key": key})


def syntax_problem(e: SpecError) -> PydanticCustomError:
    """Return an error that carries diagnostics with places of their own."""
    return PydanticCustomError("kgen", "{message}", {"message": str(e), "diagnostics": e.diagnostics})


def shown(value: Any) -> str:
    """Return the value in the words of an error message."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if isinstance(value, Text) and value.is_null else f"'{value}'"


def _scalar(value: Any, expected: str) -> Text:
    if not isinstance(value, Text) or value.is_null:
        raise problem(f"expected {expected}, not {shown(value)}", QUOTE_HINT if isinstance(value, dict) else None)
    return value


def _parsed(value: Any, expected: str, parse: Callable[..., Any]) -> Any:
    text = _scalar(value, expected)
    try:
        return parse(str(text), text.span.source, text.span.line, text.column)
    except SpecError as e:
        raise syntax_problem(e) from None


def whole(low: int, high: int) -> Callable[[Any], int]:
    """Return a reader of integers from `low` to `high`."""
    expected = f"an integer from {low} to {high}"

    def read(value: Any) -> int:
        text = _scalar(value, expected)
        plain = text.style is None and re.fullmatch(r"-?(0|[1-9]\d{0,17})", text) is not None
        if not plain or not low <= int(text) <= high:
            raise problem(f"expected {expected}, not {shown(value)}")
        return int(text)

    return read


def power_of_two(low: int, high: int) -> Callable[[Any], int]:
    """Return a reader of powers of two from `low` to `high`."""
    read = whole(low, high)

    def read_power(value: Any) -> int:
        found = read(value)
        if found & (found - 1):
            near = 1 << (found.bit_length() - 1)
            legal = [n for n in (near, 2 * near) if low <= n <= high]
            hint = f"nearest {'is' if len(legal) == 1 else 'are'} {' and '.join(map(str, legal))}"
            raise problem(f"expected a power of two from {low} to {high}, not {found}", hint)
        return found

    return read_power


def one_of(*words: str, later: tuple[str, ...] = ()) -> Callable[[Any], str]:
    """Return a reader of one of `words`; those of `later` belong to the language and are not built yet."""
    expected = " or ".join(f"'{w}'" for w in words)

    def read(value: Any) -> str:
        text = _scalar(value, expected)
        if text in later:
            raise problem(f"not built yet: '{text}'", f"built {'is' if len(words) == 1 else 'are'} {', '.join(words)}")
        if text not in words:
            raise problem(f"expected {expected}, not '{text}'", nearest(text, words))
        return str(text)

    return read


def _flag(value: Any) -> bool:
    text = _scalar(value, "true or false")
    if text.style is not None or text not in ("true", "false"):
        raise problem(f"expected true or false, not '{text}'")
    return text == "true"


def _tile(value: Any) -> int | str:
    if isinstance(value, Text) and value == "full":
        return "full"
    try:
        return whole(1, 65536)(value)
    except PydanticCustomError:
        raise problem(f"a tile is 'full' or an integer from 1 to 65536, not {shown(value)}") from None


def _count(value: Any) -> int | str:
    if isinstance(value, Text) and value == "auto":
        return "auto"
    try:
        return whole(1, 65535)(value)
    except PydanticCustomError:
        raise problem(f"a split count is 'auto' or an integer from 1 to 65535, not {shown(value)}") from None


def _number(value: Any) -> float:
    text = _scalar(value, "a number")
    if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text):
        raise problem(f"expected a number, not '{text}'")
    return float(text)


def _choices(value: Any) -> tuple[int, ...]:
    expected = "a list of sizes such as [64, 128] or a range such as 16..256 step 16"
    if isinstance(value, list):
        found = tuple(_item(whole(1, 2**31 - 1), v) for v in value)
    else:
        found = _parsed(value, expected, parse_choices)
    if not found or len(set(found)) != len(found) or min(found) < 1:
        raise problem(f"expected {expected}: at least one, each once, none below 1")
    return found


def _item(read: Callable[[Any], Any], value: Any) -> Any:
    """Return an entry of a list, read; its error is placed at the entry."""
    try:
        return read(value)
    except PydanticCustomError as e:
        if not isinstance(value, Text):
            raise
        context = e.context or {}
        raise syntax_problem(fail(value.span, context["message"], context["hint"])) from None


def _dtype_name(value: Any) -> str:
    if not isinstance(value, Text) or value not in DTYPES:
        raise problem(
            f"{shown(value)} is not a dtype", nearest(str(value), DTYPES) or f"dtypes are {', '.join(DTYPES)}"
        )
    return str(value)


def _dtype_names(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    for item in items:
        _item(_dtype_name, item)
    if not items or len(set(items)) != len(items):
        raise problem("expected a list of different dtypes")
    return tuple(str(i) for i in items)


def _name(value: Any) -> str:
    text = _scalar(value, "a name")
    if reason := reason_against(text):
        raise problem(reason)
    return str(text)


def _statements(value: Any) -> tuple[s.Statement, ...]:
    text = _scalar(value, "statements, one a line, after 'compute: |'")
    if text.style == ">":
        raise problem("a folded block joins the statements into one line", "write 'compute: |'")
    found: list[s.Statement] = []
    diagnostics: list[Diagnostic] = []
    for line, number, column in text.lines():
        code = line.split("#")[0].rstrip()
        if not code.strip():
            continue
        try:
            found.append(parse_statement(code, text.span.source, number, column))
        except SpecError as e:
            diagnostics += e.diagnostics
    if diagnostics:
        raise syntax_problem(SpecError(diagnostics))
    if not found:
        raise problem("there is no statement")
    return tuple(found)


def _grid_item(value: Any) -> tuple[str, bool]:
    items: tuple[tuple[str, bool], ...] = _parsed(value, "an axis, such as m or 'm desc'", parse_order)
    if len(items) != 1:
        raise problem("expected one axis, such as m or 'm desc'")
    return items[0]


def _literal(value: Any) -> bool | int | str:
    text = _scalar(value, "a dtype, an integer or a boolean")
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else str(text)


def unbuilt(what: str) -> BeforeValidator:
    """Return the reader of a field that the language has and kgen does not build yet."""

    def refuse(value: Any) -> Any:
        raise problem(f"not built yet: {what}", key=True)

    return BeforeValidator(refuse)


def _node(what: str) -> Callable[[Any], s.Node]:
    def read(value: Any) -> s.Node:
        node: s.Node = _parsed(value, what, parse_expr)
        return node

    return read


_EXPR_SCHEMA = WithJsonSchema({"type": ["string", "number", "boolean"], "description": "An expression."})


def _int_schema(low: int, high: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "minimum": low, "maximum": high})


def _power_schema(low: int, high: int) -> WithJsonSchema:
    return WithJsonSchema({"enum": [1 << i for i in range(high.bit_length()) if low <= 1 << i <= high]})


Formula = Annotated[s.Node, BeforeValidator(_node("an expression")), _EXPR_SCHEMA]
Extent = Annotated[s.Node, BeforeValidator(_node("a size, an integer or an expression over sizes")), _EXPR_SCHEMA]
Name = Annotated[str, BeforeValidator(_name), WithJsonSchema({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]*$"})]
Word = Annotated[str, BeforeValidator(lambda v: str(_scalar(v, "a word"))), WithJsonSchema({"type": "string"})]
Prose = Annotated[str, BeforeValidator(lambda v: str(_scalar(v, "text")).strip()), WithJsonSchema({"type": "string"})]
Flag = Annotated[bool, BeforeValidator(_flag), WithJsonSchema({"type": "boolean"})]
Number = Annotated[float, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
Tile = Annotated[int | Literal["full"], BeforeValidator(_tile), WithJsonSchema({"type": ["integer", "string"]})]
Count = Annotated[int | Literal["auto"], BeforeValidator(_count), WithJsonSchema({"type": ["integer", "string"]})]
Choices = Annotated[
    tuple[int, ...],
    BeforeValidator(_choices),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}),
]
DTypes = Annotated[
    tuple[str, ...], BeforeValidator(_dtype_names), WithJsonSchema({"type": "array", "items": {"enum": list(DTYPES)}})
]
ValueSets = Annotated[
    tuple[s.ValueSet, ...],
    BeforeValidator(lambda v: _parsed(v, "values such as index(V) | {-100}", parse_values)),
    WithJsonSchema({"type": "string"}),
]
Statements = Annotated[
    tuple[s.Define | s.StoreTo | s.Helper, ...], BeforeValidator(_statements), WithJsonSchema({"type": "string"})
]
GridItem = Annotated[tuple[str, bool], BeforeValidator(_grid_item), WithJsonSchema({"type": "string"})]
Literal_ = Annotated[
    bool | int | str, BeforeValidator(_literal), WithJsonSchema({"type": ["string", "integer", "boolean"]})
]
Warps = Annotated[int, BeforeValidator(power_of_two(1, 32)), _power_schema(1, 32)]
Stages = Annotated[int, BeforeValidator(whole(1, 8)), _int_schema(1, 8)]
Threads = Annotated[int, BeforeValidator(power_of_two(32, 1024)), _power_schema(32, 1024)]
Group = Annotated[int, BeforeValidator(whole(1, 1024)), _int_schema(1, 1024)]
Small = Annotated[int, BeforeValidator(whole(1, 64)), _int_schema(1, 64)]
