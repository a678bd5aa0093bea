"""The grammar: precedence, tokens, trees and errors."""

from __future__ import annotations

import time

import pytest

from kgen import parse
from kgen import syntax as s
from kgen.errors import SpecError
from kgen.functions import table
from kgen.source import Source
from marked_errors import errors


def expr(text: str) -> s.Node:
    return parse.parse_expr(text, Source("t", text), 1, 1)


def statement(text: str) -> s.Statement:
    return parse.parse_statement(text, Source("t", text), 1, 1)


def shown(node: s.Node) -> str:
    """Return the tree with all brackets."""
    match node:
        case s.Number(value=value):
            return repr(value)
        case s.Name(name=name):
            return name
        case s.Operator(fn=fn, args=(a,)):
            return f"({'not ' if fn == 'not' else '-'}{shown(a)})"
        case s.Operator(fn=fn, args=(a, b)):
            return f"({shown(a)} {table()[fn].operator} {shown(b)})"
        case s.Call(name=name, args=args):
            return f"{name}({', '.join(map(shown, args))})"
        case s.Element(tensor=tensor, index=index):
            return f"{tensor}[{', '.join(map(shown, index))}]"
        case s.Convert(dtype=dtype, arg=arg):
            return f"cast[{dtype}]({shown(arg)})"
        case s.Reduction(name=name, axes=axes, guard=guard, arg=arg):
            condition = "" if guard is None else f" if {shown(guard)}"
            return f"{name}[{', '.join(a.name for a in axes)}{condition}]({shown(arg)})"
    raise TypeError(node)


PRECEDENCE = {
    "a or b and c": "(a or (b and c))",
    "not a and b": "((not a) and b)",
    "not a == b": "(not (a == b))",
    "not not a": "(not (not a))",
    "a < b and c <= d": "((a < b) and (c <= d))",
    "a | b ^ c & d": "(a | (b ^ (c & d)))",
    "a & b == c": "((a & b) == c)",
    "a & b << c": "(a & (b << c))",
    "a << b + c": "(a << (b + c))",
    "a >> b >> c": "((a >> b) >> c)",
    "a >> 2 > 1": "((a >> 2) > 1)",
    "a + b * c": "(a + (b * c))",
    "a - 3 - 2": "((a - 3) - 2)",
    "a-3": "(a - 3)",
    "2--3": "(2 - (-3))",
    "a / b // c % d": "(((a / b) // c) % d)",
    "-7 // 2": "((-7) // 2)",
    "-x**2": "(-(x ** 2))",
    "x**-2": "(x ** (-2))",
    "a**b**c": "(a ** (b ** c))",
    "a*b**c": "(a * (b ** c))",
    "-a * b": "((-a) * b)",
    "+a": "a",
    "(a + b) * c": "((a + b) * c)",
    "x[i, j + 1] * 2": "(x[i, (j + 1)] * 2)",
    "sum[n](a) + b": "(sum[n](a) + b)",
    "sum[n if n <= m](a)": "sum[n if (n <= m)](a)",
    "sum[m, n](a)": "sum[m, n](a)",
    "cast[f32](a) - z": "(cast[f32](a) - z)",
    "min_x + maxi + notx + ifelse + orb": "((((min_x + maxi) + notx) + ifelse) + orb)",
    "0x1F + 1e-5 + .5 + 2.": "(((31 + 1e-05) + 0.5) + 2.0)",
    "f(a, -b)": "f(a, (-b))",
}


@pytest.mark.parametrize("text", PRECEDENCE)
def test_precedence(text: str) -> None:
    assert shown(expr(text)) == PRECEDENCE[text]


def test_every_operator_of_the_table_is_parsed() -> None:
    for row in table().values():
        if row.operator and not row.internal:
            text = f"{row.operator} a" if row.args == 1 else f"a {row.operator} b"
            node = expr(text)
            assert isinstance(node, s.Operator) and node.fn == row.name


def test_statements() -> None:
    assert isinstance(statement("s = a + 1"), s.Define)
    store = statement("o[b, m] = a  # comment")
    assert isinstance(store, s.StoreTo) and len(store.index) == 2
    assert statement("t[] = a") == s.StoreTo(store.span, "t", (), s.Name(store.span, "a"), "t[] = a")
    helper = statement("gelu(t, u) = t * u")
    assert isinstance(helper, s.Helper) and helper.params == ("t", "u")


def test_spans_are_places_in_the_file() -> None:
    node = parse.parse_expr("a + foo", Source("f", "key: a + foo"), 1, 6)
    assert isinstance(node, s.Operator)
    assert [(a.span.line, a.span.column, a.span.length) for a in node.args] == [(1, 6, 1), (1, 10, 3)]


ERRORS = {
    "a «b»": ("unexpected 'b'", None),
    "«a < b < c»": ("comparisons do not chain", "write 'a < b and b < c'"),
    "a «=» b": ("unexpected '='", None),
    "a «$» b": ("unexpected character '$'", None),
    "__import__(«'»os')": ("unexpected character '''", None),
    "f«'»x'": ("unexpected character '''", None),
    "«[»i for i in x]": ("unexpected '['", None),
    "lambda«:» 1": ("unexpected character ':'", None),
    "sum[«n + 1»](a)": ("'sum[...](...)' reduces over axes: expected the name of an axis", None),
    "«sum[](a)»": ("'sum[](...)' names no axis to reduce over", None),
    "«cast[f32, f16](a)»": ("cast takes one type", "write cast[f32](x)"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text: str) -> None:
    message, hint = ERRORS[text]
    ((found, given),) = errors(expr, text)
    assert found == message
    assert hint is None or given == hint


def test_the_end_of_the_line_is_pointed_at() -> None:
    with pytest.raises(SpecError) as caught:
        expr("a +")
    assert str(caught.value).split("\n") == [
        "t:1:4: error: the line ends too early",
        "    1 | a +",
        "           ^",
        "      hint: expected '(' or a name or a number or an operator",
    ]


def test_double_ampersand_points_at_the_second() -> None:
    errors(expr, "a &«&» b")


@pytest.mark.parametrize("text", ["-" * 500 + "1", "+".join("a" * 500), "f(" * 300 + "a" + ")" * 300])
def test_deep_expressions_are_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(SpecError, match="nested deeper than 150 levels"):
        expr(text)


def test_long_expressions_and_many_brackets_are_parsed() -> None:
    started = time.process_time()
    assert shown(expr("+".join("a" * 120))).count("a") == 120
    assert expr("(" * 2000 + "1" + ")" * 2000) == expr("1")
    assert time.process_time() - started < 5


def test_choices_values_and_order() -> None:
    source = Source("t", "")
    assert parse.parse_choices("16..64 step 16", source, 1, 1) == (16, 32, 48, 64)
    assert parse.parse_choices("1..3", source, 1, 1) == (1, 2, 3)
    first, second = parse.parse_values("index(V) | {-100, 7}", source, 1, 1)
    assert (first.kind, len(first.args), second.kind, len(second.args)) == ("index", 1, "literal", 2)
    assert parse.parse_order("m desc", source, 1, 1) == (("m", True),)
    assert parse.parse_order("desc_m", source, 1, 1) == (("desc_m", False),)
