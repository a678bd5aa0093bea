"""The budget is honest: correct kernels stay below it, not far below it, and it grows with what it must."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import subjects_by_hand as by_hand
import torch
import verify_specs as specs

from kgen.math import Math
from kgen.types import BF16, F16, F32, F64, DType
from kgen.verify import inputs
from kgen.verify.binding import bind
from kgen.verify.budget import growth, limits, roundoff
from kgen.verify.compare import check

KINDS = ("typical", "integers", "huge")


def worst(
    math: Math, subject: Callable[..., dict[str, torch.Tensor]], sizes: dict[str, int], seed: int, kind: str
) -> float:
    tensors = inputs.make(math, sizes, {}, seed, kind=kind)
    bound = bind(math, sizes, {})
    verdict = check(subject(tensors, bound.sizes, bound.params), limits(math, tensors, {}, sizes))
    assert verdict.ok, (seed, kind, sizes, verdict)
    return verdict.worst


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
@pytest.mark.parametrize("kind", KINDS)
def test_tiled_attention_passes(dtype: DType, kind: str) -> None:
    math = specs.attention(dtype)
    shapes = [(1, 1), (17, 35), (35, 17), (3, 60)]
    found = [
        worst(math, by_hand.Attention(), {"B": 1, "H": 3, "HK": 1, "M": m, "N": n, "D": 16, "E": 16}, seed, kind)
        for seed in range(3)
        for m, n in shapes
    ]
    assert 0.001 < max(found) < 1


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
def test_serial_matmul_passes(dtype: DType) -> None:
    math = specs.matmul(dtype)
    found = [
        worst(math, by_hand.matmul, {"M": m, "K": k, "N": 5}, seed, kind)
        for seed in range(4)
        for kind in ("typical", "integers")
        for m, k in ((1, 1), (4, 33), (3, 200))
    ]
    assert 0.01 < max(found) < 1


def test_float64_kernels_have_a_float64_budget() -> None:
    math, sizes = specs.matmul(F64), {"M": 4, "K": 90, "N": 3}
    tensors = inputs.make(math, sizes, {}, 1)
    expected = limits(math, tensors, {}, sizes)
    good = tensors["x"] @ tensors["w"] + tensors["bias"]
    assert check({"y": good}, expected).ok
    assert not check({"y": good.float().double()}, expected).ok


def test_long_serial_sums_of_positive_terms_pass() -> None:
    math, sizes = specs.matmul(F32), {"M": 4, "K": 3000, "N": 4}
    tensors = {n: t.abs() for n, t in inputs.make(math, sizes, {}, 1).items()}
    verdict = check(by_hand.matmul(tensors, {}, {}), limits(math, tensors, {}, sizes))
    assert verdict.ok and verdict.worst > 0.01


@pytest.mark.parametrize("dtype", [BF16, F16, F32])
@pytest.mark.parametrize("name", ["softmax", "layernorm", "cross_entropy"])
def test_row_kernels_pass(dtype: DType, name: str) -> None:
    math = getattr(specs, name)(dtype)
    size = "V" if name == "cross_entropy" else "N"
    found = [
        worst(math, getattr(by_hand, name), {"M": 4, size: n}, seed, kind)
        for seed in range(4)
        for kind in KINDS
        for n in (1, 2, 33)
    ]
    assert 0.001 < max(found) < 1


def test_limits_are_near_the_output_roundoff_where_only_that_matters() -> None:
    math, sizes = specs.matmul(BF16), {"M": 4, "K": 32, "N": 4}
    found = limits(math, inputs.make(math, sizes, {}, 1), {}, sizes)["y"]
    assert bool((found.limit < 4 * roundoff(BF16) * found.reference.abs() + 1e-3 * found.magnitude).all())


def test_integers_have_no_limit() -> None:
    math, sizes = specs.integer_sum(), {"M": 3, "N": 40}
    found = limits(math, inputs.make(math, sizes, {}, 1), {}, sizes)["y"]
    assert not found.limit.any()
    assert found.reference.dtype is torch.int64


def test_growth_takes_terms_and_chain() -> None:
    math = specs.matmul()
    assert growth(math, {"m": 9, "n": 9, "k": 256}, None) == 4 + 8 + 16
    assert growth(math, {"m": 9, "n": 9, "k": 256}, 4) == 4 + 8 + 2
    assert growth(math, {"m": 9, "n": 9, "k": 0}, None) == 5


def test_tf32_products_are_over_an_ieee_budget() -> None:
    math, sizes = specs.matmul(F32), {"M": 8, "K": 64, "N": 8}
    tensors = inputs.make(math, sizes, {}, 1)

    def cut(t: torch.Tensor) -> torch.Tensor:
        return (t.view(torch.int32) & ~0x1FFF).view(torch.float32)

    rough = {"x": cut(tensors["x"]), "w": cut(tensors["w"]), "bias": tensors["bias"]}
    assert not check(by_hand.matmul(rough, {}, {}), limits(math, tensors, {}, sizes)).ok
