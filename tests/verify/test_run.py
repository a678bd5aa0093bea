"""Whole verifications: correct subjects pass every case, and each planted mistake is caught by the cases alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import subjects_by_hand as by_hand
import torch
import verify_specs as specs
from torch import Tensor

from kgen.math import Math
from kgen.types import BF16, F16, F32, DType
from kgen.verify.cases import Case, cases_for
from kgen.verify.report import Report, render
from kgen.verify.run import Call, FunctionSubject, Result, verify

TILES = {"m": 16, "n": 16, "k": 16}
Function = Callable[..., dict[str, Tensor]]


def run(math: Math, function: Function, *, quick: bool = True, smallest: bool = False) -> Report:
    tiles = {a: t for a, t in TILES.items() if a in math.axes and isinstance(math.axes[a].tile, int)}
    subject = FunctionSubject("torch", function)
    return verify(math, [subject], cases_for(math, tiles, quick), smallest=smallest)


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
def test_correct_attention_passes_all_cases(dtype: DType) -> None:
    report = run(specs.attention(dtype), by_hand.Attention(), quick=False)
    assert report.ok, render(report)
    assert 0.01 < report.rows[0].worst < 1


@pytest.mark.parametrize("name", ["matmul", "softmax", "layernorm", "argmax", "cross_entropy"])
@pytest.mark.parametrize("dtype", [BF16, F32])
def test_correct_kernels_pass_all_cases(name: str, dtype: DType) -> None:
    report = run(getattr(specs, name)(dtype), getattr(by_hand, name), quick=False)
    assert report.ok, render(report)
    assert report.rows[0].cases == report.rows[0].passed >= 10


def test_integers_pass() -> None:
    assert run(specs.integer_sum(), by_hand.integer_sum, quick=False).ok


@pytest.mark.parametrize("dtype", [BF16, F32])
@pytest.mark.parametrize(
    "mistake",
    [
        {"scaled": False},
        {"mask_shift": 1},
        {"mask_shift": -1},
        {"skip_last": True},
        {"low_sums": True},
        {"head": "modulo"},
        {"empty_nan": True},
    ],
    ids=str,
)
def test_mistakes_in_attention_are_caught(mistake: dict[str, object], dtype: DType) -> None:
    report = run(specs.attention(dtype), by_hand.Attention(**mistake))  # type: ignore[arg-type]
    assert not report.ok
    assert report.failures and report.rows[0].passed < report.rows[0].cases


def wrong_matmul(kind: str) -> Function:
    def function(t: dict[str, Tensor], sizes: dict[str, int], params: dict[str, float]) -> dict[str, Tensor]:
        x, w, bias = t["x"].float(), t["w"].float(), t["bias"].float()
        k = x.shape[1]
        match kind:
            case "last tile":
                x = x[:, : k // 16 * 16]
                y = x @ w[: x.shape[1]] + bias
            case "bias":
                y = x @ w
            case "zeros":
                y = torch.zeros(x.shape[0], w.shape[1])
            case "contiguous":
                flat = t["w"].as_strided(t["w"].shape, (t["w"].shape[1], 1), t["w"].storage_offset())
                y = x @ flat.float() + bias
            case "low products":
                y = (t["x"].to(torch.bfloat16) @ t["w"].to(torch.bfloat16)).float() + bias
            case "one element":
                y = x @ w + bias
                y[-1:, -1:] += 0.05
        return {"y": y.to(t["x"].dtype)}

    return function


@pytest.mark.parametrize("kind", ["last tile", "bias", "zeros", "contiguous", "low products", "one element"])
def test_mistakes_in_a_product_are_caught(kind: str) -> None:
    report = run(specs.matmul(F32), wrong_matmul(kind))
    assert not report.ok


def test_a_cast_that_is_missing_before_a_sum_is_caught() -> None:
    def sum_in_storage(t: dict[str, Tensor], sizes: dict[str, int], params: dict[str, float]) -> dict[str, Tensor]:
        good = by_hand.layernorm(t, sizes, params)
        mu = torch.zeros(t["x"].shape[0], dtype=t["x"].dtype)
        for n in range(t["x"].shape[1]):
            mu = mu + t["x"][:, n]
        return good | {"mu": mu.float() / t["x"].shape[1]}

    assert not run(specs.layernorm(BF16), sum_in_storage).ok


@dataclass(frozen=True)
class Writing:
    """A correct matmul that writes to the buffers it is given, and then does harm."""

    harm: Callable[[Call], None]
    name: str = "writing"

    def run(self, call: Call) -> Result:
        call.outputs["y"].copy_(by_hand.matmul(call.inputs, call.sizes, call.params)["y"])
        self.harm(call)
        return Result(call.outputs)


def stray(call: Call) -> None:
    y = call.outputs["y"]
    y.as_strided((1,), (1,), y.storage_offset() + y.numel())[0] = 7.0


def unwritten(call: Call) -> None:
    call.outputs["y"][-1:] = float("nan")


def spoil(call: Call) -> None:
    call.inputs["x"].add_(1.0)


@pytest.mark.parametrize(
    ("harm", "words"), [(stray, "wrote outside output 'y'"), (unwritten, "NaN"), (spoil, "changed input 'x'")]
)
def test_harm_beside_correct_outputs_is_caught(harm: Callable[[Call], None], words: str) -> None:
    math = specs.matmul(F32)
    case = Case({"M": 3, "K": 4, "N": 5}, {}, "typical", 1, "plain")
    assert verify(math, [Writing(lambda call: None)], [case]).ok
    report = verify(math, [Writing(harm)], [case], smallest=False)
    assert not report.ok
    assert words in report.failures[0].reason


def test_an_output_left_as_given_is_caught() -> None:
    @dataclass(frozen=True)
    class Idle:
        name: str = "idle"

        def run(self, call: Call) -> Result:
            return Result(call.outputs)

    for math in (specs.matmul(F32), specs.integer_sum()):
        sizes = {"M": 2, "K": 2, "N": 2}
        case = Case({n: sizes[n] for n in math.sizes}, {}, "typical", 1, "plain")
        assert not verify(math, [Idle()], [case], smallest=False).ok


def test_faults_fail_although_outputs_are_right() -> None:
    @dataclass(frozen=True)
    class Racing:
        name: str = "racing"

        def run(self, call: Call) -> Result:
            return Result(by_hand.matmul(call.inputs, call.sizes, call.params), ("race on shared memory",))

    case = Case({"M": 2, "K": 2, "N": 2}, {}, "typical", 1, "plain")
    report = verify(specs.matmul(F32), [Racing()], [case], smallest=False)
    assert not report.ok and "race on shared memory" in render(report)


def test_an_exception_is_a_failure_with_its_text() -> None:
    def broken(t: dict[str, Tensor], sizes: dict[str, int], params: dict[str, float]) -> dict[str, Tensor]:
        raise ValueError("no kernel for this shape")

    report = run(specs.softmax(), broken)
    assert not report.ok and "ValueError: no kernel for this shape" in render(report)


def test_a_failing_case_is_shrunk_while_its_checks_hold() -> None:
    math = specs.attention(F32)
    case = Case({"B": 2, "H": 6, "HK": 2, "M": 20, "N": 35, "D": 16, "E": 16}, {}, "typical", 1, "long")
    report = verify(math, [FunctionSubject("torch", by_hand.Attention(head="modulo"))], [case])
    failure = report.failures[0]
    assert failure.original_sizes == case.sizes
    assert failure.sizes["M"] * failure.sizes["N"] < 100
    assert failure.sizes["H"] % failure.sizes["HK"] == 0 and failure.sizes["HK"] > 1
    assert "smallest failing sizes" in render(report)


def test_reports_are_json_and_text() -> None:
    report = run(specs.matmul(F32), wrong_matmul("bias"))
    data = json.loads(report.to_json())
    assert data["kernel"] == "matmul" and data["ok"] is False
    assert data["failures"][0]["output"] == "y" and data["failures"][0]["seed"] == report.failures[0].seed
    text = render(report)
    assert "FAILED" in text and f"seed {report.failures[0].seed}" in text and "error / limit" in text


def test_subjects_are_compared_with_each_other() -> None:
    math = specs.attention(F32)
    subjects = [FunctionSubject("a", by_hand.Attention()), FunctionSubject("b", by_hand.Attention(tile=7))]
    report = verify(math, subjects, cases_for(math, {"m": 16, "n": 16}, True))
    pair = report.agreements[0]
    assert report.ok and (pair.a, pair.b) == ("a", "b")
    assert 0 < pair.worst < 1 and pair.total // 10 < pair.equal < pair.total
    assert "a and b" in render(report)


def by_torch(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool = True) -> tuple[Tensor, Tensor]:
    ratio = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(ratio, 1), v.repeat_interleave(ratio, 1)
    s = scale * q @ k.transpose(-1, -2)
    m, n = s.shape[-2:]
    if causal:
        s = s.masked_fill(~torch.ones(m, n).tril(n - m).bool(), -float("inf"))
    return s.softmax(-1).nan_to_num() @ v, s.logsumexp(-1)


def top_left(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool = True) -> tuple[Tensor, Tensor]:
    o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=True)
    return o, by_torch(q, k, v, scale, causal)[1]


def test_the_reference_is_held_against_the_oracle() -> None:
    math = specs.attention(BF16)
    cases = cases_for(math, {"m": 16, "n": 16}, True)
    good = verify(math, [FunctionSubject("torch", by_hand.Attention())], cases, reference=by_torch)
    assert good.ok, render(good)
    assert good.rows[1].backend == "reference" and good.rows[1].cases == len(cases)
    bad = verify(math, [], cases, reference=top_left)
    assert not bad.ok and {f.label for f in bad.failures} >= {"long N"}
