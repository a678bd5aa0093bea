"""Text to syntax trees. The grammar is data (tile.lark); this module builds nodes and words the errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Tree, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken, VisitError
from lark.visitors import Transformer_NonRecursive

from kgen import syntax as s
from kgen.errors import SpecError, fail
from kgen.source import Source, Span

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_BINARY = ("or", "and", "bitor", "bitxor", "bitand", "shl", "shr", "add", "sub", "mul", "div", "floordiv", "mod", "pow")
# What the parser may expect, in the user's words; several tokens can share one.
_EXPECTED = {
    "NAME": "a name",
    "INT": "a number",
    "FLOAT": "a number",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "EQUAL": "'='",
    "COMPARE": "a comparison",
    "$END": "the end of the line",
    "DOT": "'.'",
}
MAX_DEPTH = 150
MAX_CHOICES = 4096  # values of a range
MAX_DIGITS = 20  # no longer integer fits 64 bits
_OPERATOR_TOKENS = {"PLUS", "STAR", "SLASH", "PERCENT", "VBAR", "CIRCUMFLEX", "AMPERSAND", "OR", "AND"}


@cache
def _parser() -> Lark:
    grammar = (Path(__file__).parent / "tile.lark").read_text()
    starts = ["statement", "expr", "choices", "values", "order"]
    return Lark(grammar, parser="lalr", start=starts, propagate_positions=True, maybe_placeholders=True)


class _Build(Transformer_NonRecursive[Token, Any]):
    """Lark tree to syntax nodes. `place` maps (line, column, length) in the fragment to a Span in the file."""

    def __init__(self, place: Callable[[int, int, int], Span], text: str) -> None:
        super().__init__()
        self.place = place
        self.text = text

    def _span(self, meta: Any) -> Span:
        return self.place(meta.line, meta.column, max(1, meta.end_pos - meta.start_pos))

    def _token(self, token: Token) -> Span:
        return self.place(token.line or 1, token.column or 1, len(token))

    @v_args(meta=True)
    def __default__(self, data: Any, children: list[Any], meta: Any) -> Any:
        name = str(data).rstrip("_")
        if name in _BINARY or name in ("not", "neg"):
            return s.Operator(self._span(meta), name, tuple(children))
        return Tree(data, children, meta)

    def integer(self, c: list[Token]) -> s.Node:
        return s.Number(self._token(c[0]), self._whole(c[0]))

    def _whole(self, token: Token) -> int:
        """Return the value of an integer; raise SpecError for one that other languages read in other ways."""
        if token[:2] in ("0x", "0X"):
            digits, base = token[2:], 16
        else:
            digits, base = str(token), 10
            if digits[0] == "0" and len(digits) > 1:
                raise fail(self._token(token), "an integer does not begin with 0", f"write {digits.lstrip('0') or '0'}")
        if len(digits) > MAX_DIGITS:
            raise fail(self._token(token), "the integer does not fit 64 bits")
        return int(digits, base)

    def real(self, c: list[Token]) -> s.Node:
        return s.Number(self._token(c[0]), float(c[0]))

    def name(self, c: list[Token]) -> s.Node:
        return s.Name(self._token(c[0]), str(c[0]))

    def group(self, c: list[s.Node]) -> s.Node:
        return c[0]

    def pos(self, c: list[s.Node]) -> s.Node:
        return c[0]

    def dot(self, c: list[Any]) -> str:
        return "."

    def args(self, c: list[s.Node]) -> tuple[s.Node, ...]:
        return tuple(c)

    items = args

    @v_args(meta=True)
    def comparison(self, meta: Any, c: list[Any]) -> s.Node:
        if len(c) == 1:
            node: s.Node = c[0]
            return node
        if len(c) > 3:
            first, second = str(c[1]), str(c[3])
            raise fail(self._span(meta), "comparisons do not chain", f"write 'a {first} b and b {second} c'")
        return s.Operator(self._span(meta), COMPARISONS[str(c[1])], (c[0], c[2]))

    @v_args(meta=True)
    def call(self, meta: Any, c: list[Any]) -> s.Node:
        return s.Call(self._span(meta), str(c[0]), c[1] or ())

    @v_args(meta=True)
    def access(self, meta: Any, c: list[Any]) -> s.Node:
        items = c[1] or ()
        if "." in items:
            raise fail(self._span(meta), "'[.]' is for the reductions of accumulator records")
        return s.Element(self._span(meta), str(c[0]), items)

    @v_args(meta=True)
    def bracket(self, meta: Any, c: list[Any]) -> s.Node:
        token, given, guard, arg = c
        span = self._span(meta)
        items: tuple[Any, ...] = given or ()
        if str(token) == "cast":
            if len(items) != 1 or not isinstance(items[0], s.Name) or guard is not None:
                raise fail(span, "cast takes one type", "write cast[f32](x)")
            return s.Convert(span, items[0].name, arg)
        axes = tuple(s.Name(self._token(token), ".") if i == "." else i for i in items)
        for axis in axes:
            if not isinstance(axis, s.Name):
                raise fail(axis.span, f"'{token}[...](...)' reduces over axes: expected the name of an axis")
        if not axes:
            raise fail(span, f"'{token}[](...)' names no axis to reduce over")
        return s.Reduction(span, str(token), axes, guard, arg)

    @v_args(meta=True)
    def define(self, meta: Any, c: list[Any]) -> s.Node:
        return s.Define(self._token(c[0]), str(c[0]), c[1], self.text)

    @v_args(meta=True)
    def store(self, meta: Any, c: list[Any]) -> s.Node:
        return s.StoreTo(self._token(c[0]), str(c[0]), c[1] or (), c[2], self.text)

    @v_args(meta=True)
    def helper(self, meta: Any, c: list[Any]) -> s.Node:
        return s.Helper(self._token(c[0]), str(c[0]), tuple(str(p) for p in c[1:-1]), c[-1], self.text)

    @v_args(meta=True)
    def choice_range(self, meta: Any, c: list[Token | None]) -> tuple[int, ...]:
        low, high, step = (1 if x is None else self._whole(x) for x in c)
        if step == 0 or (high - low) // step >= MAX_CHOICES:
            raise fail(self._span(meta), f"a range has a step of at least 1, and at most {MAX_CHOICES} values")
        return tuple(range(low, high + 1, step))

    @v_args(meta=True)
    def named_values(self, meta: Any, c: list[Any]) -> s.Node:
        return s.ValueSet(self._span(meta), str(c[0]), c[1] or ())

    @v_args(meta=True)
    def literal_values(self, meta: Any, c: list[Any]) -> s.Node:
        return s.ValueSet(self._span(meta), "literal", c[0])

    def values(self, c: list[s.Node]) -> tuple[s.Node, ...]:
        return tuple(c)

    def order_item(self, c: list[Token | None]) -> tuple[str, bool]:
        return str(c[0]), c[1] is not None

    def order(self, c: list[tuple[str, bool]]) -> tuple[tuple[str, bool], ...]:
        return tuple(c)


def _parse(start: str, text: str, place: Callable[[int, int, int], Span]) -> Any:
    try:
        tree = _parser().parse(text, start=start)
        if _depth(tree) > MAX_DEPTH:
            raise fail(place(1, 1, len(text)), f"nested deeper than {MAX_DEPTH} levels", "name parts of the expression")
        return _Build(place, text.strip()).transform(tree)
    except VisitError as e:
        if isinstance(e.orig_exc, SpecError):
            raise e.orig_exc from None
        raise
    except UnexpectedInput as e:
        raise _syntax_error(e, text, place) from None


def _depth(tree: Tree[Token]) -> int:
    """Return how deeply operators and calls are nested; later stages walk expressions recursively."""
    deepest, queue = 0, [(tree, 1)]
    while queue:
        node, depth = queue.pop()
        deepest = max(deepest, depth)
        nested = len(node.children) > 1 or node.data in ("neg", "not_")
        queue += [(c, depth + nested) for c in node.children if isinstance(c, Tree)]
    return deepest


def _syntax_error(e: UnexpectedInput, text: str, place: Callable[[int, int, int], Span]) -> SpecError:
    match e:
        case UnexpectedCharacters():
            return fail(place(e.line, e.column, 1), f"unexpected character '{text[e.pos_in_stream]}'")
        case UnexpectedToken() if e.token.type != "$END":
            span = place(e.line, e.column, len(e.token))
            return fail(span, f"unexpected '{e.token}'", _expectation(e.accepts or e.expected))
        case UnexpectedToken() | UnexpectedEOF():
            accepts = e.accepts if isinstance(e, UnexpectedToken) else None
            end = place(1, len(text.rstrip()) + 1, 1)
            return fail(end, "the line ends too early", _expectation(accepts or e.expected))
    raise e


def _expectation(tokens: Any) -> str:
    words = {_EXPECTED[t] for t in tokens if t in _EXPECTED}
    if _OPERATOR_TOKENS & set(tokens):
        words.add("an operator")
    return "expected " + " or ".join(sorted(words)) if words else "see the language reference"


def _placer(source: Source, line: int, column: int) -> Callable[[int, int, int], Span]:
    def place(row: int, col: int, length: int) -> Span:
        return Span(source, line + row - 1, col + (column - 1 if row == 1 else 0), length)

    return place


def parse_statement(text: str, source: Source, line: int, column: int) -> s.Statement:
    """Parse one line of `compute`, which stands at (line, column) of `source`; raise SpecError."""
    found: s.Statement = _parse("statement", text, _placer(source, line, column))
    return found


def parse_expr(text: str, source: Source, line: int, column: int) -> s.Node:
    """Parse one expression that stands at (line, column) of `source`; raise SpecError."""
    found: s.Node = _parse("expr", text, _placer(source, line, column))
    return found


def parse_choices(text: str, source: Source, line: int, column: int) -> tuple[int, ...]:
    """Parse `16..256 step 16` to its values."""
    found: tuple[int, ...] = _parse("choices", text, _placer(source, line, column))
    return found


def parse_values(text: str, source: Source, line: int, column: int) -> tuple[s.ValueSet, ...]:
    """Parse a `values` contract such as `index(V) | {-100}`."""
    found: tuple[s.ValueSet, ...] = _parse("values", text, _placer(source, line, column))
    return found


def parse_order(text: str, source: Source, line: int, column: int) -> tuple[tuple[str, bool], ...]:
    """Parse one item of a grid order, `m` or `m desc`, to (axis, descending)."""
    found: tuple[tuple[str, bool], ...] = _parse("order", text, _placer(source, line, column))
    return found
