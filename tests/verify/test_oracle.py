"""The oracle against formulas written in plain torch."""

from __future__ import annotations

import pytest
import torch
import verify_specs as specs
from torch import Tensor

from kgen.errors import KgenError
from kgen.terms import Const, Get, Load, Pos, Reduce, Var
from kgen.types import BF16, F16, F32, I32
from kgen.verify import inputs, oracle
from kgen.verify.binding import bind
from kgen.verify.values import Direct

INF = float("inf")


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13, equal_nan=True)


def attention_by_formula(
    t: dict[str, Tensor], scale: float, causal: bool, empty: float = 0.0, sink: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    q, k, v = (t[n].double() for n in ("q", "k", "v"))
    ratio = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(ratio, 1), v.repeat_interleave(ratio, 1)
    s = scale * torch.einsum("bhmd,bhnd->bhmn", q, k)
    m, n = s.shape[-2:]
    allowed = torch.ones(m, n).tril(n - m).bool() if causal else torch.ones(m, n).bool()
    s = s.masked_fill(~allowed, -INF)
    if sink is not None:
        s = torch.cat([s, sink.double()[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    p = s.softmax(-1)[..., :n]
    dead = ~allowed.any(-1)[:, None] if sink is None else torch.zeros(m, 1, dtype=torch.bool)
    o = torch.where(dead, empty, p.nan_to_num() @ v)
    return o, s.logsumexp(-1)


SIZES = {"B": 2, "H": 6, "HK": 2, "D": 16, "E": 16}


@pytest.mark.parametrize(("m", "n"), [(5, 9), (9, 5), (1, 1), (4, 4), (3, 1)])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("empty", ["zero", "nan"])
def test_attention(m: int, n: int, causal: bool, empty: str) -> None:
    sizes = SIZES | {"M": m, "N": n}
    math = specs.attention(F32, empty=empty)
    t = inputs.make(math, sizes, {}, 1)
    got = oracle.evaluate(math, t, {"causal": causal}, sizes)
    o, lse = attention_by_formula(t, 0.25, causal, 0.0 if empty == "zero" else float("nan"))
    close(got["o"], o)
    close(got["lse"], lse)


def test_attention_over_no_keys_follows_the_convention() -> None:
    sizes = SIZES | {"M": 3, "N": 0}
    for empty, value in (("zero", 0.0), ("nan", float("nan"))):
        math = specs.attention(F32, empty=empty)
        got = oracle.evaluate(math, inputs.make(math, sizes, {}, 1), {}, sizes)
        close(got["o"], torch.full((2, 6, 3, 16), value, dtype=torch.float64))
        assert bool((got["lse"] == -INF).all())


def test_sink_finishes_empty_rows_by_its_own_formula() -> None:
    sizes = SIZES | {"M": 7, "N": 4}
    math = specs.attention(F32, sink=True)
    t = inputs.make(math, sizes, {}, 3)
    got = oracle.evaluate(math, t, {}, sizes)
    o, lse = attention_by_formula(t, 0.25, True, sink=t["sink"])
    close(got["o"], o)
    close(got["lse"], lse)
    close(got["lse"][:, :, 0], t["sink"].double().expand(2, 6))


def test_weights_of_masked_elements_are_zero_also_as_an_output() -> None:
    guard = specs.fn("lt", Pos(I32, "n"), specs.integer(2))
    body = specs.reduce(
        "softmax", "n", specs.load("x", F32, "m", "n"), record="online_softmax", guard=guard, elementwise=True
    )
    math = specs.math(
        "w",
        [specs.axis("m", "M"), specs.axis("n", "N")],
        [specs.tensor("x", "M N", F32), specs.tensor("y", "M N", F32, out=True)],
        [specs.output("s1", "y", "mn", body)],
    )
    x = torch.tensor([[1.0, 2.0, float("nan"), 5.0]])
    got = oracle.evaluate(math, {"x": x}, {}, {"M": 1, "N": 4})["y"]
    close(got, torch.cat([x[:, :2].double().softmax(1), torch.zeros(1, 2, dtype=torch.float64)], 1))


@pytest.mark.parametrize("kind", ["typical", "huge", "infinite", "nan"])
def test_softmax_and_logsumexp_as_torch(kind: str) -> None:
    sizes = {"M": 6, "N": 23}
    for math in (specs.softmax(), specs.logsumexp()):
        x = inputs.make(math, sizes, {}, 5, kind=kind)["x"]
        got = oracle.evaluate(math, {"x": x}, {}, sizes)["y"]
        close(got, x.double().softmax(1) if math.name == "softmax" else x.double().logsumexp(1))


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 0, 4), (0, 3, 4)])
def test_matmul(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    math, sizes = specs.matmul(BF16), {"M": m, "K": k, "N": n}
    t = inputs.make(math, sizes, {}, 2)
    got = oracle.evaluate(math, t, {}, sizes)["y"]
    close(got, t["x"].double() @ t["w"].double() + t["bias"].double())


def test_matmul_keeps_nan_of_infinite_factors() -> None:
    math, sizes = specs.matmul(F32), {"M": 1, "K": 2, "N": 1}
    x, w, bias = torch.tensor([[INF, 1.0]]), torch.tensor([[0.0], [1.0]]), torch.zeros(1)
    assert oracle.evaluate(math, {"x": x, "w": w, "bias": bias}, {}, sizes)["y"].isnan().all()


def test_layernorm() -> None:
    math, sizes = specs.layernorm(), {"M": 4, "N": 33}
    t = inputs.make(math, sizes, {}, 2)
    got = oracle.evaluate(math, t, {}, sizes)
    eps = float(torch.tensor(1e-5))
    want = torch.nn.functional.layer_norm(t["x"].double(), (33,), t["w"].double(), t["c"].double(), eps)
    close(got["y"], want)
    close(got["mu"], t["x"].double().mean(1))


def test_argmax_takes_the_first_of_equals_and_nan() -> None:
    math = specs.argmax()
    x = torch.tensor([[1.0, 3.0, -INF], [2.0, float("nan"), -INF], [2.0, 7.0, -INF]])
    got = oracle.evaluate(math, {"x": x}, {}, {"M": 3, "N": 3})["i"]
    assert got.tolist() == [1, 1, 0]
    assert got.tolist() == x.argmax(0).tolist()
    assert oracle.evaluate(math, {"x": x[:0]}, {}, {"M": 0, "N": 3})["i"].tolist() == [-1, -1, -1]


def test_cross_entropy_never_reads_at_an_ignored_label() -> None:
    math, sizes = specs.cross_entropy(), {"M": 40, "V": 11}
    t = inputs.make(math, sizes, {}, 4)
    assert {-100} < set(t["label"].tolist())
    got = oracle.evaluate(math, t, {}, sizes)
    want = torch.nn.functional.cross_entropy(t["x"].double(), t["label"], ignore_index=-100, reduction="none")
    close(got["loss"], want)


def test_large_statements_are_cut_and_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    for empty in ("zero", "nan"):
        math, sizes = specs.attention(F32, empty=empty), SIZES | {"M": 13, "N": 7}
        t = inputs.make(math, sizes, {}, 1)
        whole = oracle.evaluate(math, t, {}, sizes)
        with monkeypatch.context() as patch:
            patch.setattr(oracle, "CHUNK_BYTES", 4096)
            cut = oracle.evaluate(math, t, {}, sizes)
        close(cut["o"], whole["o"])
        close(cut["lse"], whole["lse"])


def test_op_by_op_rounds_the_computed_operand_of_a_dot() -> None:
    math, sizes = specs.attention(BF16), SIZES | {"M": 4, "N": 6}
    t = inputs.make(math, sizes, {}, 1)
    low = oracle.evaluate(math, t, {"causal": False}, sizes, arithmetic=oracle.OP_BY_OP)["o"]
    q, k, v = (t[n].float() for n in ("q", "k", "v"))
    k, v = k.repeat_interleave(3, 1), v.repeat_interleave(3, 1)
    p = (0.25 * q @ k.transpose(-1, -2)).softmax(-1).bfloat16().float()
    torch.testing.assert_close(low, p @ v, rtol=1e-5, atol=2e-6)
    assert low.dtype is torch.float32


def test_absolute_sums_absolute_terms() -> None:
    math, sizes = specs.matmul(F16), {"M": 3, "K": 9, "N": 4}
    t = inputs.make(math, sizes, {}, 2)
    got = oracle.evaluate(math, t, {}, sizes, absolute=True)["y"]
    close(got, t["x"].double().abs() @ t["w"].double().abs() + t["bias"].double().abs())


def test_conditioned_magnitude_bounds_a_perturbation_through_exp() -> None:
    """Perturbing every score by a relative 2^-24 of its terms moves the outputs by less than that of the magnitude."""
    math, sizes = specs.attention(F32), SIZES | {"M": 6, "N": 9}
    t = inputs.make(math, sizes, {}, 1)
    whole = oracle.run(math, t, {}, sizes, oracle.CONDITIONED)
    moved = t | {"q": (t["q"].double() * (1 + 2.0**-20)).float()}
    other = oracle.evaluate(math, moved, {}, sizes)["o"]
    error = (other - whole.outputs["o"]).abs()
    assert bool((error <= 2.0**-20 * 1.1 * whole.magnitudes["o"]).all())
    assert float(error.max()) > 0


def test_indirect_index_outside_reads_zero_and_stores_nothing() -> None:
    x = specs.tensor("x", "N", F32)
    index = (specs.fn("sub", Pos(I32, "n"), specs.integer(1)),)
    stmt = specs.Stmt("s1", "y", ("n",), Load(F32, "x", index), "y = ...", "y", index)
    math = specs.math("shift", [specs.axis("n", "N")], [x, specs.tensor("y", "N", F32, out=True)], [stmt])
    got = oracle.evaluate(math, {"x": torch.tensor([1.0, 2.0, 3.0])}, {}, {"N": 3})["y"]
    assert got.tolist() == [1.0, 2.0, 0.0]


def test_missing_sizes_and_parameters_are_named() -> None:
    with pytest.raises(KgenError, match="no value for size"):
        bind(specs.attention(), {"B": 1, "H": 2, "M": 1, "N": 1, "D": 16, "E": 16}, {})
    assert bind(specs.attention(), SIZES | {"M": 1, "N": 1}, {}).sizes["G"] == 3


def test_reductions_without_an_element() -> None:
    names = {"sum": 0.0, "max": -INF, "min": INF, "mean": float("nan")}
    for name, value in names.items():
        body = Reduce(F32, name, name, ("n",), None, specs.load("x", F32, "m", "n"))
        math = specs.math(
            "r",
            [specs.axis("m", "M"), specs.axis("n", "N")],
            [specs.tensor("x", "M N", F32), specs.tensor("y", "M", F32, out=True)],
            [specs.output("s1", "y", "m", body)],
        )
        got = oracle.evaluate(math, {"x": torch.zeros(2, 0)}, {}, {"M": 2, "N": 0})["y"]
        close(got, torch.full((2,), value, dtype=torch.float64))


def test_a_reduction_counts_an_argument_that_does_not_vary() -> None:
    body = Reduce(F32, "sum", "sum", ("n",), None, Const(F32, 1.0))
    math = specs.math(
        "count",
        [specs.axis("n", "N")],
        [specs.tensor("x", "N", F32), specs.Tensor("y", (), F32, True, specs.NORMAL, ())],
        [specs.output("s1", "y", "", body)],
    )
    assert oracle.evaluate(math, {"x": torch.zeros(5)}, {}, {"N": 5})["y"].item() == 5


def test_a_direct_formula_may_read_the_position() -> None:
    """The centre of mass of each row, as a record could offer it."""
    x, index = (Get(F32, Var(n, F32, ())) for n in ("x", "index"))
    total, moment = (Reduce(F32, "sum", ".", (".",), None, e) for e in (x, specs.fn("mul", x, index)))
    centre = Direct(("x",), specs.fn("div", moment, total))
    body = specs.reduce("centre", "n", specs.load("x", F32, "m", "n"), record="moments")
    math = specs.math(
        "centre",
        [specs.axis("m", "M"), specs.axis("n", "N")],
        [specs.tensor("x", "M N", F32), specs.tensor("y", "M", F32, out=True)],
        [specs.output("s1", "y", "m", body)],
    )
    rows = torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
    got = oracle.evaluate(math, {"x": rows}, {}, {"M": 2, "N": 3}, formulas=lambda record, name: centre)["y"]
    assert got.tolist() == [1.0, 2.0]
