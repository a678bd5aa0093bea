"""Expressions as text: few parentheses and never too few, in Triton, Python and the notation of specs."""

from __future__ import annotations

import ast
import itertools
import math

import pytest

from kgen.emit.dump import dump_expr
from kgen.emit.names import names_of
from kgen.emit.python import python_expr
from kgen.emit.triton_expr import TritonPrinter
from kgen.emit.wrap import wrap
from kgen.ir import GridAxis, Kernel, TileAxis
from kgen.terms import Apply, Cast, Const, Expr, Get, Load, Param, Pos, Reduce, Ref, Size, Start, Var, apply, integer
from kgen.types import BF16, BOOL, F16, F32, F64, I32, I64

A, B, C = (Size(I32, n) for n in "ABC")
X, Y, Z = (Param(F32, n) for n in "xyz")
P, Q, R = (Apply(BOOL, "lt", (A, s)) for s in (B, C, integer(1)))


def compare(fn: str, a: Expr, b: Expr) -> Apply:
    return apply(fn, a, b, dtype=BOOL)


def triton(e: Expr, axes: tuple[str, ...] = ()) -> str:
    tiles = {"m": TileAxis("m", 16), "n": TileAxis("n", 32)}
    grid = (GridAxis("m", 16, A), GridAxis("b", 1, B))
    sizes = dict.fromkeys("ABCxyz", 7)
    kernel = Kernel("k", grid, tiles, (), {}, sizes, (), I32)
    names = names_of(kernel)
    values = dict.fromkeys(("s", "t", "row", "col", "scalar", "h", "at", "w"))
    return (
        TritonPrinter(kernel, type(names)(**{**vars(names), "values": names.values | {v: v for v in values}}))
        .over(axes)
        .text(e)
    )


def value(name: str, *axes: str, dtype=F32) -> Get:
    return Get(dtype, Var(name, dtype, axes))


PYTHON = [
    (apply("neg", apply("pow", X, Const(F32, 2.0))), "-math.pow(x, 2.0)"),
    (apply("pow", apply("neg", X), Const(F32, 2.0)), "math.pow(-x, 2.0)"),
    (apply("pow", X, apply("neg", Y)), "math.pow(x, -y)"),
    (apply("pow", X, apply("pow", Y, Z)), "math.pow(x, math.pow(y, z))"),
    (apply("pow", apply("pow", X, Y), Z), "math.pow(math.pow(x, y), z)"),
    (apply("pow", Const(F32, -2.0), Y), "math.pow(-2.0, y)"),
    (apply("sub", A, apply("sub", B, C)), "A - (B - C)"),
    (apply("sub", apply("sub", A, B), C), "A - B - C"),
    (apply("sub", A, integer(-3)), "A - -3"),
    (apply("neg", integer(-3)), "-(-3)"),
    (apply("neg", apply("neg", A)), "-(-A)"),
    (apply("mul", apply("floordiv", A, B), C), "A // B * C"),
    (apply("floordiv", A, apply("mul", B, C)), "A // (B * C)"),
    (apply("mul", A, apply("floordiv", B, C)), "A * (B // C)"),
    (apply("mod", apply("add", A, B), C), "(A + B) % C"),
    (apply("not", compare("eq", A, B)), "not A == B"),
    (compare("eq", apply("not", P), Q), "(not A < B) == (A < C)"),
    (compare("lt", A, integer(2)), "A < 2"),
    (apply("or", apply("and", P, Q), R), "A < B and A < C or A < 1"),
    (apply("and", apply("or", P, Q), R), "(A < B or A < C) and A < 1"),
    (apply("not", apply("and", P, Q)), "not (A < B and A < C)"),
    (apply("where", P, A, apply("where", Q, B, C), dtype=I32), "A if A < B else B if A < C else C"),
    (apply("add", apply("where", P, A, B, dtype=I32), C), "(A if A < B else B) + C"),
    (apply("bitand", apply("shr", A, B), integer(15)), "A >> B & 15"),
    (apply("maximum", A, apply("add", B, C)), "max(A, B + C)"),
    (apply("rsqrt", Cast(F32, apply("add", A, B))), "1 / math.sqrt(float(A + B))"),
    (apply("div", X, apply("rsqrt", Y)), "x / (1 / math.sqrt(y))"),
    (apply("sigmoid", apply("add", X, Y)), "math.exp(min(x + y, 0)) / (1 + math.exp(-math.fabs(x + y)))"),
    (apply("mul", X, apply("fma", X, Y, Z)), "x * (x * y + z)"),
    (apply("where", apply("where", P, Q, R, dtype=BOOL), A, B, dtype=I32), "A if (A < C if A < B else A < 1) else B"),
    (Cast(I32, X), "int(x)"),
    (Cast(I64, A), "A"),
    (Const(F32, math.inf), 'float("inf")'),
    (Const(F32, 3), "3.0"),
]


@pytest.mark.parametrize(("e", "code"), PYTHON, ids=[code for _, code in PYTHON])
def test_python(e: Expr, code: str) -> None:
    assert python_expr(e) == code


def test_python_renames_and_refuses() -> None:
    assert python_expr(apply("add", A, X), {"A": "q.shape[0]"}) == "q.shape[0] + x"
    with pytest.raises(TypeError, match="Pos has no value on the host"):
        python_expr(Pos(I32, "m"))


def test_python_keeps_the_tree() -> None:
    """Every pair of integer operators nested either way evaluates as the tree says."""
    ops = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
    env = {"A": 17, "B": 5, "C": 3}
    for outer, inner in itertools.product(ops, repeat=2):
        left = eval(f"(A {ops[inner]} B) {ops[outer]} C", env)
        right = eval(f"A {ops[outer]} (B {ops[inner]} C)", env)
        assert eval(python_expr(apply(outer, apply(inner, A, B), C)), env) == left
        assert eval(python_expr(apply(outer, A, apply(inner, B, C))), env) == right


TRITON = [
    (apply("sub", X, apply("sub", Y, Z)), (), "x - (y - z)"),
    (apply("floordiv", A, B), (), "floor_div(A, B)"),
    (apply("mul", apply("quot", A, B), C), (), "A // B * C"),
    (apply("quot", apply("add", A, integer(15)), integer(16)), (), "tl.cdiv(A, 16)"),
    (apply("quot", apply("add", A, integer(15)), integer(8)), (), "(A + 15) // 8"),
    (apply("and", P, apply("or", Q, R)), (), "(A < B) & ((A < C) | (A < 1))"),
    (apply("not", P), (), "not A < B"),
    (apply("and", apply("not", P), Q), (), "(not A < B) & (A < C)"),
    (apply("minimum", A, B), (), "min(A, B)"),
    (compare("eq", P, Q), (), "(A < B) == (A < C)"),
    (Cast(I64, apply("add", A, B)), (), "tl.cast(A + B, tl.int64)"),
    (Const(F32, -math.inf), (), 'float("-inf")'),
    (value("s", "m", "n"), ("m", "n"), "s"),
    (value("s", "n", "m"), ("m", "n"), "tl.trans(s)"),
    (value("row", "m"), ("m", "n"), "row[:, None]"),
    (value("col", "n"), ("m", "n"), "col[None, :]"),
    (value("scalar"), ("m", "n"), "scalar"),
    (Pos(I32, "b"), ("m",), "b"),
    (Start(I32, "m"), ("m",), "m_start"),
    (apply("not", compare("lt", Pos(I32, "m"), A)), ("m",), "~(m < A)"),
    (
        apply("mul", apply("sub", value("s", "m", "n"), value("row", "m")), X),
        ("m", "n"),
        "(s - row[:, None]) * x",
    ),
    (Cast(F16, apply("neg", value("row", "m"))), ("m",), "(-row).to(tl.float16)"),
    (Cast(BOOL, apply("sub", value("row", "m"), X)), ("m",), "row - x != 0"),
    (apply("and", Cast(BOOL, value("row", "m")), compare("lt", Pos(I32, "m"), A)), ("m",), "(row != 0) & (m < A)"),
    (apply("isnan", value("row", "m"), dtype=BOOL), ("m",), "row != row"),
    (
        apply("maximum", value("row", "m"), Const(F32, 0.0)),
        ("m",),
        "tl.maximum(row, 0.0, propagate_nan=tl.PropagateNan.ALL)",
    ),
    (apply("where", P, Const(F32, 0.0), Const(F32, 1.0), dtype=F32), (), "tl.where(A < B, 0.0, 1.0)"),
    (
        apply("where", P, Const(F64, 0.5), Const(F64, 0.1), dtype=F64),
        (),
        "tl.where(A < B, tl.full([], 0.5, tl.float64), tl.full([], 0.1, tl.float64))",
    ),
    (
        apply("maximum", value("w", "m", dtype=F64), Const(F64, 0.1)),
        ("m",),
        "tl.maximum(w, tl.full([], 0.1, tl.float64), propagate_nan=tl.PropagateNan.ALL)",
    ),
    (Cast(BF16, Const(F32, 1.0)), (), "tl.full([], 1.0, tl.bfloat16)"),
]


@pytest.mark.parametrize(("e", "axes", "code"), TRITON, ids=[code for _, _, code in TRITON])
def test_triton(e: Expr, axes: tuple[str, ...], code: str) -> None:
    assert triton(e, axes) == code


def test_lowered_nodes_only() -> None:
    for node in (Load(F32, "x", (A,)), Ref(F32, "s", ()), Reduce(F32, "sum", "sum", ("n",), None, X)):
        with pytest.raises(TypeError, match="must be lowered by the tile stage"):
            triton(node)
    with pytest.raises(ValueError, match="does not fit"):
        triton(value("s", "m", "n"), ("m",))


def test_dump_shows_every_expression() -> None:
    load = Load(F16, "x", (Pos(I32, "b"), apply("add", Pos(I32, "n"), integer(1))))
    guard = compare("le", Pos(I32, "n"), Pos(I32, "m"))
    reduced = Reduce(F32, "softmax", "online", ("n",), guard, Cast(F32, load), (("sink", X),), True)
    assert dump_expr(reduced) == "softmax[n if n <= m by online](cast[f32](x[b, n + 1]), sink=x)"
    assert dump_expr(apply("neg", apply("pow", Ref(F32, "s", ("m",)), Const(F32, 2.0)))) == "-s[m]**2.0"
    assert dump_expr(apply("pow", apply("neg", X), Y)) == "(-x)**y"
    assert dump_expr(apply("not", compare("eq", A, Start(I32, "m")))) == "not A == start(m)"
    assert dump_expr(apply("fma", X, value("s", "m"), Const(F32, -math.inf))) == "fma(x, $s, -inf)"


def test_wrap_breaks_at_the_weakest_operator() -> None:
    assert wrap("x = a + b", 4) == ["    x = a + b"]
    assert wrap("x = (a * b) + c * d", 0, 12) == ["x = (", "    (a * b)", "    + c * d", ")"]
    assert wrap("y = f(aaaa, g(b, c), k=1)", 0, 20) == ["y = f(", "    aaaa,", "    g(b, c),", "    k=1,", ")"]
    assert wrap("t = (aa < b) | (c < d) & (e < f)", 0, 22) == [
        "t = (",
        "    (aa < b)",
        "    | (",
        "        (c < d)",
        "        & (e < f)",
        "    )",
        ")",
    ]
    for width in range(12, 60):
        code = "t = f((aa < b) | (cccc < d) & (e < f - g * (h + i)), [p, q])[:, None] + other(1, 2)"
        text = "\n".join(wrap(code, 0, width))
        assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(code)), text
