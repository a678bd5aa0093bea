"""Resolve: types, names, sizes, masks, stores, and every error with its place."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from kgen import resources
from kgen.errors import SpecError
from kgen.math import Math
from kgen.resolve import Variant, dtype_choices, resolve, variants
from kgen.resolve_constants import evaluate
from kgen.spec import load
from kgen.terms import Apply, Cast, Const, Expr, Load, Param, Pos, Reduce, Ref, Size, walk
from kgen.types import BF16, BOOL, DTYPES, F16, F32, F64, I32, I64, U8, DType
from marked_errors import errors

SPECS = [
    *sorted(p for p in resources.path("specs").glob("*.yaml") if p.stem != "predicates"),
    *sorted((Path(__file__).parent / "specs").glob("worked_*.yaml")),
]
T = {"T": BF16}


def spec_text(compute: str, extra: str = "", tensors: str = "") -> str:
    """Return a spec over axes b, m, n with one statement or more."""
    lines = "\n".join(f"  {line}" for line in compute.split("\n"))
    return f"""\
kernel: test
dtypes: {{T: [bf16, f16, f32, f64]}}
axes: {{b: {{extent: B}}, m: {{extent: M}}, n: {{extent: N, tile: 64, stream: true}}}}
tensors:
  x: {{dims: [b, m, n], dtype: T}}
  w: {{dims: [n], dtype: f32}}
  u: {{dims: [n], dtype: u8, values: index(16)}}
  j: {{dims: [b, m], dtype: i64, values: index(N)}}
  c: {{dims: [b, m, n], dtype: bool}}
{tensors}
  y: {{dims: [b, m], dtype: T, out: true}}
params: {{a: {{dtype: f32, default: 1 / sqrt(N)}}, k: {{dtype: i64, default: 3}}}}
{extra}
compute: |
{lines}
"""


def run(text: str, dtype: DType = BF16) -> Math:
    return resolve(load(text), {"T": dtype})


def value(expression: str, dtype: DType = BF16, extra: str = "") -> Expr:
    """Return an expression over b, m, n as the first statement's."""
    return (
        run(spec_text(f"v = {expression}\ny[b, m] = sum[n](where(c[b, m, n], x[b, m, n], 0))", extra), dtype)
        .statement("v")
        .expr
    )


X = Load(BF16, "x", (Pos(I32, "b"), Pos(I32, "m"), Pos(I32, "n")))
U = Cast(I32, Load(U8, "u", (Pos(I32, "n"),)))
W = Load(F32, "w", (Pos(I32, "n"),))


# -- types

TYPES: dict[str, Expr] = {
    "x[b, m, n]": Cast(F32, X),
    "x[b, m, n] * w[n]": Apply(F32, "mul", (Cast(F32, X), W)),
    "u[n]": U,
    "u[n] + 1": Apply(I32, "add", (U, Const(I32, 1))),
    "u[n] * 2.0": Apply(F32, "mul", (Cast(F32, U), Const(F32, 2.0))),
    "w[n] * 2": Apply(F32, "mul", (W, Const(F32, 2.0))),
    "w[n] + u[n]": Apply(F32, "add", (W, Cast(F32, U))),
    "k + u[n]": Apply(I64, "add", (Param(I64, "k"), Cast(I64, U))),
    "k + 1": Apply(I64, "add", (Param(I64, "k"), Const(I64, 1))),
    "u[n] / 2": Apply(F32, "div", (Cast(F32, U), Const(F32, 2.0))),
    "u[n] // 2": Apply(I32, "floordiv", (U, Const(I32, 2))),
    "-w[n]": Apply(F32, "neg", (W,)),
    "w[n] - -1": Apply(F32, "sub", (W, Const(F32, -1.0))),
    "where(u[n] < 8, w[n], 0)": Apply(F32, "where", (Apply(BOOL, "lt", (U, Const(I32, 8))), W, Const(F32, 0.0))),
    "w[n] * where(u[n] < 8, 1, 0)": Apply(
        F32, "mul", (W, Apply(F32, "where", (Apply(BOOL, "lt", (U, Const(I32, 8))), Const(F32, 1.0), Const(F32, 0.0))))
    ),
    "n <= m": Apply(BOOL, "le", (Pos(I32, "n"), Pos(I32, "m"))),
    "cast[T](w[n])": Cast(BF16, W),
    "cast[T](w[n]) + 1": Apply(F32, "add", (Cast(F32, Cast(BF16, W)), Const(F32, 1.0))),
    "cast[f32](u[n])": Cast(F32, U),
    "w[n] == -inf": Apply(BOOL, "eq", (W, Const(F32, float("-inf")))),
    "max(w[n], 0)": Apply(F32, "maximum", (W, Const(F32, 0.0))),
    "w[n] ** 2": Apply(F32, "pow", (W, Const(F32, 2.0))),
    "(u[n] >> 4) & 15": Apply(I32, "bitand", (Apply(I32, "shr", (U, Const(I32, 4))), Const(I32, 15))),
    "M + 1": Apply(I32, "add", (Size(I32, "M"), Const(I32, 1))),
    "size(n) - n": Apply(I32, "sub", (Size(I32, "N"), Pos(I32, "n"))),
    "sqrt(N)": Apply(F32, "sqrt", (Cast(F32, Size(I32, "N")),)),
    "3000000000 + u[n]": Apply(I64, "add", (Const(I64, 3000000000), Cast(I64, U))),
}


@pytest.mark.parametrize("expression", TYPES)
def test_types(expression: str) -> None:
    assert value(expression) == TYPES[expression]


def test_literals_keep_full_precision_beside_f64() -> None:
    third = Apply(F64, "div", (Const(F64, 1.0), Const(F64, 3.0)))
    assert value("x[b, m, n] * (1 / 3)", F64) == Apply(F64, "mul", (Load(F64, "x", X.index), third))
    assert value("w[n] * (1 / 3)").dtype is F32


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [
        ("sum[n](x[b, m, n])", F32),
        ("sum[n](u[n])", I32),
        ("sum[n](u[n] + k)", I64),
        ("sum[n](1)", I32),
        ("max[n](u[n])", I32),
        ("any[n](c[b, m, n])", BOOL),
        ("argmax[n](x[b, m, n])", I64),
        ("mean[n](u[n])", F32),
        ("var[n](x[b, m, n])", F32),
        ("softmax[n](u[n])", F32),
        ("logsumexp[n](x[b, m, n])", F32),
    ],
)
def test_types_of_reductions(expression: str, dtype: DType) -> None:
    assert value(expression).dtype is dtype


def test_reductions_of_f64_are_f64() -> None:
    for name in ("sum", "mean", "var", "softmax", "logsumexp", "max"):
        assert value(f"{name}[n](x[b, m, n])", F64).dtype is F64


def test_a_record_that_computes_in_floats_gets_floats() -> None:
    reduction = value("mean[n](u[n])")
    assert isinstance(reduction, Reduce) and reduction.arg == Cast(F32, U)


def test_a_store_casts_outermost() -> None:
    math = run(spec_text("y[b, m] = sum[n](x[b, m, n])"))
    expr = math.statement("y").expr
    assert isinstance(expr, Cast) and expr.dtype is BF16 and isinstance(expr.arg, Reduce)
    assert isinstance(run(spec_text("y[b, m] = sum[n](x[b, m, n])"), F32).statement("y").expr, Reduce)


# -- statements, helpers, records


def test_statements_have_ids_axes_and_references() -> None:
    text = spec_text("f(t) = t * t\nv = f(x[b, m, n]) + w[n]\nq = sum[n](v)\ny[b, m] = q + j[b, m]")
    math = run(text)
    assert [(s.id, s.name, s.axes) for s in math.statements] == [
        ("s1", "v", ("b", "m", "n")),
        ("s2", "q", ("b", "m")),
        ("s3", "y", ("b", "m")),
    ]
    assert math.statement("q").expr == Reduce(F32, "sum", "sum", ("n",), None, Ref(F32, "v", ("b", "m", "n")))
    assert Apply(F32, "mul", (Cast(F32, X), Cast(F32, X))) in list(walk(math.statement("v").expr))


def test_an_output_read_again_is_its_stored_value() -> None:
    math = run(
        spec_text(
            "y[b, m] = sum[n](x[b, m, n])\nz[b, m] = y[b, m] + 1", tensors="  z: {dims: [b, m], dtype: f32, out: true}"
        )
    )
    expected = Apply(F32, "add", (Cast(F32, Ref(BF16, "y", ("b", "m"))), Const(F32, 1.0)))
    assert math.statement("z").expr == expected


def test_helpers_take_axes_for_reductions_and_macros() -> None:
    helper = "norm(t, i) = sqrt(sum[i](t * t))\nv = norm(x[b, m, n], n)\ny[b, m] = v"
    (reduction,) = [e for e in walk(run(spec_text(helper)).statement("v").expr) if isinstance(e, Reduce)]
    assert reduction.axes == ("n",)
    bound = Apply(I32, "sub", (Apply(I32, "add", (Pos(I32, "m"), Size(I32, "N"))), Size(I32, "M")))
    assert value("causal(m, n)") == Apply(BOOL, "le", (Pos(I32, "n"), bound))


def test_windows_are_inclusive_counts_aligned_bottom_right() -> None:
    window = value("window(m, n, 2, 1)")
    for rows, columns in ((4, 4), (2, 5)):
        for m, n in product(range(rows), range(columns)):
            expr = _at(window, {"m": m, "n": n})
            centre = m + columns - rows
            assert evaluate(expr, {"M": rows, "N": columns}) is (centre - 2 <= n <= centre + 1)


def _at(e: Expr, positions: dict[str, int]) -> Expr:
    match e:
        case Pos(axis=axis):
            return Const(I32, positions[axis])
        case Apply(dtype=dtype, fn=fn, args=args):
            return Apply(dtype, fn, tuple(_at(a, positions) for a in args))
    return e


def records(extra: str, expression: str = "mean[n](x[b, m, n])") -> list[str]:
    return [e.record for e in walk(value(expression, extra=extra)) if isinstance(e, Reduce)]


def test_choice_of_records() -> None:
    assert records("") == ["mean"]
    assert records("accumulate: {mean: welford}") == ["welford"]
    assert records("", "var[n](x[b, m, n])") == ["welford"]
    assert records("", "max[n](x[b, m, n])") == ["max"]
    assert records("", "softmax[n](x[b, m, n])") == ["online_softmax"]


def test_operands_of_a_record_are_expressions() -> None:
    extra = 'accumulate: {softmax: {use: online_softmax_sink, sink: "a + 1"}}'
    reduction = value("softmax[n](x[b, m, n])", extra=extra)
    assert isinstance(reduction, Reduce) and reduction.elementwise
    assert reduction.operands == (("sink", Apply(F32, "add", (Param(F32, "a"), Const(F32, 1.0)))),)


# -- masks and guards


MASK = Apply(BOOL, "le", (Pos(I32, "n"), Pos(I32, "m")))


def guards(compute: str, extra: str = "mask: n <= m") -> list[Expr | None]:
    math = run(spec_text(compute, extra))
    return [e.guard for s in math.statements for e in walk(s.expr) if isinstance(e, Reduce)]


def test_the_mask_joins_reductions_over_its_axes() -> None:
    assert guards("y[b, m] = sum[n](x[b, m, n])") == [MASK]
    assert guards("y[b, m] = sum[n](w[n])") == [MASK]  # m is on the left side
    assert guards("v = softmax[n](x[b, m, n])\ny[b, m] = sum[n](v * w[n])") == [MASK, MASK]
    own = Apply(BOOL, "lt", (Pos(I32, "n"), Const(I32, 5)))
    assert guards("y[b, m] = sum[n if n < 5](x[b, m, n])") == [Apply(BOOL, "and", (own, MASK))]
    assert guards("y[b, m] = sum[n if n < 5](x[b, m, n])", "") == [own]


def test_the_mask_leaves_other_reductions_alone() -> None:
    tensors = "  z: {dims: [m, n], dtype: f32, out: true}"
    compute = "y[b, m] = sum[n](x[b, m, n])\nz[m, n] = sum[b](x[b, m, n])"
    math = run(spec_text(compute, "mask: n <= m", tensors))
    (reduction,) = [e for e in walk(math.statement("z").expr) if isinstance(e, Reduce)]
    assert reduction.guard is None


def test_results_of_empty_rows() -> None:
    compute = "y[b, m] = sum[n](x[b, m, n])"
    assert run(spec_text(compute)).conventions.empty == "nan"
    assert run(spec_text(compute, "mask: n <= m")).conventions.empty == "zero"
    assert run(spec_text(compute, "mask: n <= m\nconventions: {empty: nan}")).conventions.empty == "nan"
    assert run(spec_text(compute, "mask: n <= m")).masked and not run(spec_text(compute)).masked


# -- sizes


def sizes_of(dims: str, extra: str = "", y: str = "[i]") -> Math:
    text = f"""\
kernel: test
axes: {{i: {{extent: I}}}}
tensors: {{x: {{dims: {dims}, dtype: f32}}, y: {{dims: {y}, dtype: f32, out: true}}}}
{extra}
compute: y[i] = x[{"i" + ", i" * dims.count(",")}]
"""
    return resolve(load(text), {})


def bound(math: Math, shapes: dict[tuple[str, int], int], given: dict[str, int] | None = None) -> dict[str, int]:
    """Return the sizes as an op finds them."""
    values: dict[str, int] = dict(given or {})
    for size in math.sizes.values():
        if size.solve is not None:
            found = evaluate(size.solve, {**values, "_": shapes[size.tensor or "", size.dim or 0]})
        elif size.definition is not None:
            found = evaluate(size.definition, values)
        else:
            found = values[size.name]
        assert isinstance(found, int), size.name
        values[size.name] = found
    return values


def test_bare_dims_bind_first_then_linear_equations_then_definitions() -> None:
    math = sizes_of("[S + W - 1, W, 2 * I]", "sizes: {G: S // W}")
    assert bound(math, {("x", 0): 9, ("x", 1): 4, ("x", 2): 10}) == {"W": 4, "S": 6, "I": 5, "G": 1}


def test_linear_forms_are_solved() -> None:
    for dim, extent in (
        ("I + 3", 10),
        ("3 + I", 10),
        ("20 - I", 13),
        ("I - 3", 4),
        ("2 * I + 1", 15),
        ("(I + 1) * 2", 16),
    ):
        assert bound(sizes_of(f"['{dim}']"), {("x", 0): extent})["I"] == 7, dim


def test_other_sizes_are_arguments() -> None:
    math = sizes_of("[I // GS]", "sizes: {GS: {in: [32, 64]}}")
    assert {n: (z.tensor, z.choices) for n, z in math.sizes.items()} == {"GS": (None, (32, 64)), "I": (None, None)}


def test_static_sizes_come_from_axes_too() -> None:
    text = spec_text("y[b, m] = sum[n](x[b, m, n])").replace("b: {extent: B}", "b: {extent: B, in: 2..6 step 2}")
    math = run(text)
    assert math.sizes["B"].choices == math.axes["b"].choices == (2, 4, 6)


def test_dims_of_axes_are_their_extents() -> None:
    math = run(spec_text("y[b, m] = sum[n](x[b, m, n])"))
    assert math.tensors["x"].dims == (Size(I32, "B"), Size(I32, "M"), Size(I32, "N"))
    assert math.tensors["x"].fast == (2,)


# -- left sides


def stored(left: str, dims: str, extra: str = "") -> Math:
    text = f"""\
kernel: test
axes: {{h: {{extent: H}}, g: {{extent: G}}}}
tensors: {{x: {{dims: [h, g], dtype: f32}}, y: {{dims: {dims}, dtype: f32, out: true{extra}}}}}
compute: {left} = x[h, g]
"""
    return resolve(load(text), {})


def test_packed_and_shifted_left_sides() -> None:
    for left in ("y[h * G + g]", "y[g + h * G]", "y[G * h + g]"):
        math = stored(left, "[Q]")
        assert math.statements[0].axes == ("h", "g")
        (check,) = math.checks
        assert check.text == "y, dimension 0: every element is written once (H * G == Q)"
        assert evaluate(check.condition, {"H": 3, "G": 4, "Q": 12}) is True
        assert evaluate(check.condition, {"H": 3, "G": 4, "Q": 13}) is False
    assert stored("y[h, g]", "[h, g]").checks == ()
    low, high = stored("y[h + 2, g]", "[Q, g]", ", fill: 0").checks
    assert evaluate(low.condition, {}) is True
    assert evaluate(high.condition, {"H": 3, "Q": 5}) is True and evaluate(high.condition, {"H": 4, "Q": 5}) is False


def fails_to_store(left: str, dims: str, extra: str = "") -> str:
    with pytest.raises(SpecError) as caught:
        stored(left, dims, extra)
    (diagnostic,) = caught.value.diagnostics
    return diagnostic.message


def test_left_sides_that_miss_or_repeat_elements_are_refused() -> None:
    assert "stands twice" in fails_to_store("y[h, h, g]", "[h, h, g]")
    assert "are left out" in fails_to_store("y[h + 2, g]", "[Q, g]")
    for index in ("h * 2", "h * H + g", "h // 2", "h + g", "0"):
        assert "cannot show" in fails_to_store(
            f"y[{index}, g]" if "g" not in index else f"y[{index}]", "[Q, g]" if "g" not in index else "[Q]"
        )


# -- errors of statements

GOOD = "y[b, m] = sum[n](x[b, m, n])"
STATEMENTS: list[tuple[str, str, str | None]] = [
    ("y[b, m] = sum[n](«xx[b, m, n]»)", "unknown tensor 'xx'", "did you mean 'x'?"),
    ("val = x[b, m, n]\ny[b, m] = sum[n](«vol»)", "unknown name 'vol'", "did you mean 'val'?"),
    ("y[b, m] = sum[«k2»](x[b, m, n])", "unknown axis 'k2'", None),
    ("y[b, m] = «smu[n](x[b, m, n])»", "unknown reduction 'smu'", "did you mean 'sum'?"),
    ("y[b, m] = «ext(j[b, m])»", "unknown function 'ext'", "did you mean 'exp'?"),
    ("y[b, m] = «sum(j[b, m])»", "'sum' is a reduction", "name the axis it reduces: sum[n](...)"),
    ("y[b, m] = «w(m)»", "'w' is a tensor: write w[...] with square brackets", None),
    ("y[b, m] = «j»", "'j' is a tensor: write j[...] for an element of it", None),
    ("y[b, m] = «w[b, m]»", "'w' has 1 dimensions, and 2 indices are given", None),
    ("y[b, m] = x[b, m, «w[m]»]", "expected an integer, not a value of type f32", None),
    ("y[b, m] = x[b, m, «n»]", "the axis 'n' is neither on the left side nor reduced here", None),
    ("y[b, m] = «exp(1, 2)»", "'exp' takes 1 argument, not 2", None),
    ("y[b, m] = «k and c[b, m, 0]»", "'and' needs bool operands, not i64 and bool", "compare first, such as 'x != 0'"),
    ("y[b, m] = «c[b, m, 0] + 1»", "'+' needs numbers, not bool and i32", "write where(condition, 1, 0) for a number"),
    ("y[b, m] = «w[m] >> 2»", "'>>' needs integer operands, not f32 and i32", "write cast[i32](x) to convert"),
    ("y[b, m] = «where(m, 1, 2)»", "the condition of 'where' must be bool, not i32", None),
    ("y[b, m] = «c[b, m, 0]»", "a value of type bool cannot be stored in 'y' of type bf16", None),
    ("y[b, m] = any[n](«x[b, m, n]»)", "'any' cannot reduce values of type f32", "compare first, such as 'x != 0'"),
    ("y[b, m] = sum[n if «n»](x[b, m, n])", "a guard must be bool, not i32", None),
    ("y[b, m] = «sum[n, n](x[b, m, n])»", "'sum' reduces over an axis twice", None),
    ("y[b, m] = «cast[q8](j[b, m])»", "'q8' is no dtype and no type variable", "did you mean 'u8'?"),
    ("y[b, m] = «cast[bool](j[b, m])»", "a number is not cast to bool", "compare it, such as 'x != 0'"),
    ("y[b, m] = «T»", "'T' is a type variable", "cast[T](x) converts to it"),
    ("y[b, m] = «r» + j[b, m]\nr = m + 1", "'r' is used before it is defined, in line 16", None),
    ("y[b, m] = «y[b, m]» + 1", "the output 'y' is read before the statement that writes it", None),
    (
        "y[b, m] = j[b, m]\nv = «y[b, 0]»",
        "the output 'y' is a value here, and can be read at its own positions only",
        "write it as on its left side: y[b, m]",
    ),
    ("f(t) = «f(t)» + 1\ny[b, m] = f(m)", "'f' calls itself: f -> f", None),
    ("f(t) = g(t)\ng(t) = «f(t)»\ny[b, m] = f(m)", "'f' calls itself: f -> g -> f", None),
    ("f(t, u) = t + u\ny[b, m] = «f(m)»", "'f' takes 2 arguments, not 1", "it is f(t, u)"),
    ("y[b, m] = j[b, m]\n«y»[b, m] = 1", "'y' is defined twice, first in line 15", None),
    ("v = m\n«v» = m + 1\ny[b, m] = v", "'v' is defined twice, first in line 15", None),
    ("«m» = 1\ny[b, m] = j[b, m]", "'m' is an axis already", "choose another name"),
    ("«exp» = 1\ny[b, m] = j[b, m]", "'exp' is a function and cannot be a name", None),
    ("«y» = m", "'y' is an output: write y[...] = ...", None),
    ("«w»[n] = 1", "'w' is an input: outputs have out: true", None),
    ("«yy»[b, m] = 1", "'yy' is no tensor", "did you mean 'y'?"),
    ("«y»[b] = 1", "'y' has 2 dimensions, and 1 indices are given", None),
    ("v = m\ny[b, m] = «v[b, m]»", "'v' is a named intermediate: write it without indices", None),
    ("y[b, m] = «page(m)»", "not built yet: paged axes, which define 'page(...)'", None),
    ("y[b, m] = «99999999999999999999»", "the integer 99999999999999999999 does not fit 64 bits", None),
    ("y[b, m] = «1e999»", "the number does not fit 64 bits", "write inf for infinity"),
    ("y[b, m] = size(«x»)", "'x' is a tensor: write x[...] for an element of it", None),
    ("y[b, m] = «size(m, n)»", "size(...) takes one axis", None),
]


@pytest.mark.parametrize(("compute", "message", "hint"), STATEMENTS)
def test_statement_errors(compute: str, message: str, hint: str | None) -> None:
    found = errors(run, spec_text(compute))
    assert found[0][0] == message
    assert hint is None or found[0][1] == hint


def test_summing_booleans_counts_them() -> None:
    reduction = value("sum[n](c[b, m, n])")
    assert isinstance(reduction, Reduce) and reduction.dtype is I32 and reduction.arg.dtype is I32


def test_a_failed_definition_is_reported_once() -> None:
    assert len(errors(run, spec_text("v = «zz» + 1\nq = v * 2\ny[b, m] = q"))) == 1


def test_all_errors_are_reported_in_order() -> None:
    text = spec_text(
        "v = «zz» + 1\ny[b, m] = «yy»", "mask: «mm» < 1\nrequire: [«ZZ» > 0]", "  t: {dims: [«q»], dtype: f32}"
    )
    assert [m for m, _ in errors(run, text)] == [
        "there is no axis or size 'q'",
        "unknown name 'mm'",
        "unknown size 'ZZ'",
        "unknown name 'zz'",
        "unknown name 'yy'",
    ]


EXTRAS: list[tuple[str, str, str | None]] = [
    ("mask: «m + 1»", "the mask must be bool, not i32", None),
    ("mask: «M < N»", "the mask names no axis, so it says nothing about any element", None),
    ("require: [«M + 1»]", "a requirement must be bool, not i32", None),
    ("require: [«m» < 2]", "'m' is an axis, and here only sizes are known", "use the size it extends over"),
    ("sizes: {«G»: G + 1}", "the size 'G' is defined by itself, directly or in a circle", None),
    ("accumulate: {«men»: welford}", "no accumulator offers 'men'", "did you mean 'mean'?"),
    ("accumulate: {mean: «welfrd»}", "unknown accumulator 'welfrd'", "did you mean 'welford'?"),
    ("accumulate: {«sum»: welford}", "accumulator 'welford' has no result 'sum'", "it has mean, var"),
    (
        "accumulate: {«softmax»: online_softmax_sink}",
        "accumulator 'online_softmax_sink' needs the operand 'sink'",
        None,
    ),
    (
        "accumulate: {softmax: {use: online_softmax, «sink»: 1}}",
        "accumulator 'online_softmax' has no operand 'sink'",
        None,
    ),
    ("casts: {«v»: T}", "'casts' names intermediates, and 'v' is none", None),
    ("layouts: {«xx»: [m]}", "unknown tensor 'xx'", "did you mean 'x'?"),
    ("layouts: {w: [«m»]}", "'w' has no such dimension", "write it as in 'dims'"),
    ("conventions: {empty: «none»}", "expected 'zero' or 'nan', not 'none'", None),
]


@pytest.mark.parametrize(("extra", "message", "hint"), EXTRAS)
def test_errors_outside_statements(extra: str, message: str, hint: str | None) -> None:
    ((found, given),) = errors(run, spec_text(GOOD, extra))
    assert found == message
    assert hint is None or given == hint


TENSORS: list[tuple[str, str]] = [
    ("  «t»: {dims: [b], dtype: i32}", "the integer tensor 't' needs 'values'"),
    ("  t: {dims: [b], dtype: i32, values: «normal»}", "'normal' are not values of type i32"),
    ("  t: {dims: [b], dtype: i32, values: «indx(3)»}", "unknown values 'indx'"),
    ("  t: {dims: [b], dtype: i32, values: '«index(1, 2)»'}", "'index' takes 1 argument, not 2"),
    ("  t: {dims: [b], dtype: «f31»}", "'f31' is no dtype and no type variable"),
    ("  t: {dims: [b], dtype: f32, «fill»: 0}", "'fill' is for outputs (out: true)"),
    ("  «t»: {dims: [b], dtype: f32, out: true}", "no statement writes the output 't'"),
    ("  t: {dims: ['«kv[b]»'], dtype: f32}", "not built yet: extents that depend on data"),
    ("  «m»: {dims: [b], dtype: f32}", "'m' names two things, in 'axes' and in 'tensors'"),
]


@pytest.mark.parametrize(("tensor", "message"), TENSORS)
def test_errors_of_tensors(tensor: str, message: str) -> None:
    assert errors(run, spec_text(GOOD, tensors=tensor))[0][0] == message


def test_an_axis_that_nothing_uses_is_an_error() -> None:
    text = spec_text(GOOD).replace("axes: {b:", "axes: {«z»: {extent: Z}, b:")
    ((message, _),) = errors(run, text)
    assert message == "no statement uses the axis 'z'"


def test_a_mask_over_an_axis_out_of_scope_is_explained() -> None:
    ((message, hint),) = errors(run, spec_text("v = «sum[n](w[n])»\ny[b, m] = v", "mask: n <= m"))
    assert message == "the mask relates 'n' to 'm', which is not in scope here"
    assert hint == "use 'm' in the reduction, or write guards, sum[n if ...](...), for the mask"


def test_dtypes_must_be_choices_of_the_spec() -> None:
    spec = load(spec_text(GOOD))
    for bad in ({"T": I32}, {}, {"T": F32, "U": F32}):
        with pytest.raises(SpecError):
            resolve(spec, bad)


# -- all specs


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_spec_resolves_for_all_its_dtypes(path: Path) -> None:
    spec = load(path)
    choices = dtype_choices(spec)
    for dtypes in product(*choices.values()):
        math = resolve(spec, dict(zip(choices, dtypes, strict=True)))
        outputs = [t.name for t in math.tensors.values() if t.out]
        assert {s.name for s in math.statements if s.tensor} == set(outputs)
        for statement in math.statements:
            assert statement.span is not None
            if statement.tensor is not None:
                assert statement.expr.dtype is math.tensors[statement.tensor].dtype


def test_attention_with_a_sink_and_documents() -> None:
    math = resolve(load(Path(__file__).parent / "specs" / "worked_l.yaml"), T)
    softmax = math.statement("p").expr
    assert isinstance(softmax, Reduce) and softmax.record == "online_softmax_sink"
    assert softmax.operands == (("sink", Load(F32, "sink", (Pos(I32, "h"),))),)
    assert [c.text for c in math.checks] == ["H % HK == 0", "M == N"]


def test_variants() -> None:
    flash = load(resources.path("specs") / "flash_attn.yaml")
    assert variants(flash)[:2] == [
        Variant({"T": BF16}, {"D": 128, "E": 128}, {"causal": True}),
        Variant({"T": F16}, {"D": 64, "E": 64}, {"causal": True}),
    ]
    assert variants(load(spec_text(GOOD))) == [Variant({"T": BF16}, {}, {})]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{T: «f8»}", "the type variable 'T' cannot be f8"),
        ("{«TT»: f32}", "'TT' is no type variable, static size or static param"),
        ("{B: «3»}", "the static size 'B' cannot be 3"),
    ],
)
def test_errors_of_variants(entry: str, message: str) -> None:
    text = spec_text(GOOD, f"variants: [{entry}]").replace("b: {extent: B}", "b: {extent: B, in: [2, 4]}")
    ((found, _),) = errors(lambda t: variants(load(t)), text)
    assert found == message


def test_dtype_names_are_those_of_the_table() -> None:
    assert set(dtype_choices(load(spec_text(GOOD)))["T"]) <= set(DTYPES.values())
