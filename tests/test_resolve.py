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
from resolve_cases import GOOD, run, spec_text

SPECS = [
    *sorted(p for p in resources.path("specs").glob("*.yaml") if p.stem != "predicates"),
    *sorted((Path(__file__).parent / "specs").glob("worked_*.yaml")),
]
T = {"T": BF16}


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


def test_summing_booleans_counts_them() -> None:
    reduction = value("sum[n](c[b, m, n])")
    assert isinstance(reduction, Reduce) and reduction.dtype is I32 and reduction.arg.dtype is I32


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
