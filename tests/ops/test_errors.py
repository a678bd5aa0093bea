"""Arguments that do not fit: each is refused with a message that names it, says what came and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.ops import specs
from tests.ops.packages import OnCpu, private, write
from torch import Tensor

from kgen.errors import KgenError
from kgen.ops import checks
from kgen.ops.checks import ArgumentError
from kgen.ops.variants import ready_on_gpu

Package = Callable[[str], ModuleType]


def ones(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    return torch.ones(shape, dtype=dtype, device=device)


WRONG: list[tuple[str, str, tuple[Any, ...], str]] = [
    (specs.HEADS, "ops_heads", (ones(4), ones(2, 8)), "q must have 2 dimensions [H, N], not 1: (4,)"),
    (specs.HEADS, "ops_heads", (ones(4, 8), ones(2, 9)), "k has 9 elements in dimension 1; it must have N = 8"),
    (specs.HEADS, "ops_heads", (ones(4, 8), ones(3, 8)), "the arguments must satisfy H % HK == 0; here H = 4, HK = 3"),
    (specs.HEADS, "ops_heads", (ones(4, 8), ones(0, 8)), "HK is 0, and the spec divides by it in G = H // HK"),
    (specs.HEADS, "ops_heads", (ones(4, 8), ones(2, 8, dtype=torch.float16)), "k is float16, but q is float32"),
    (specs.HEADS, "ops_heads", (ones(4, 8, dtype=torch.int32), ones(2, 8)), "q is int32; allowed: float32"),
    (specs.HEADS, "ops_heads", (ones(4, 8), ones(2, 8, device="meta")), "k is on meta, but q is on cpu"),
    (specs.TOTAL, "ops_total", (ones(4), ones(1)), "a must have 0 dimensions [], not 1: (1,)"),
    (specs.TOTAL, "ops_total", (ones(4), ones(dtype=torch.float64)), "a is float64; allowed: float32"),
    (specs.REPEAT, "ops_repeat", (ones(4), -1), "S = -1 is negative"),
    (specs.REPEAT, "ops_repeat", (ones(4), 2**31), "the size S = 2147483648 is too large; at most 2147483647"),
    (specs.CONVOLUTION, "ops_valid", (ones(9), ones(4)), "W = 4 is not one of the sizes this op is made for: 3, 5"),
    (specs.CONVOLUTION, "ops_valid", (ones(2), ones(5)), "T_ = -2 is negative"),
]


@pytest.mark.parametrize(("text", "name", "args", "message"), WRONG, ids=[w[3][:40] for w in WRONG])
def test_wrong_arguments(package: Package, text: str, name: str, args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        getattr(package(text), name)(*args)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 1e39}, "a = 1e+39 is too large for f32"),
        ({"k": 2**31}, "k = 2147483648 does not fit i32 (-2147483648 to 2147483647)"),
        ({"k": -(2**31) - 1}, "k = -2147483649 does not fit i32"),
    ],
)
def test_params_out_of_range(package: Package, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        package(specs.REPEAT).ops_repeat(ones(4), 2, **given)
    assert message in str(error.value)


def test_infinite_params_are_allowed(package: Package) -> None:
    found = package(specs.REPEAT).ops_repeat(ones(4), 1, a=float("inf"))
    assert bool((found == float("inf")).all())


def test_a_tensor_longer_than_kernels_count(package: Package) -> None:
    x = torch.ones(1).expand(2**31)
    op = private(package(specs.TOTAL), OnCpu())
    with pytest.raises(ArgumentError, match="x has 2147483648 elements in dimension 0; at most 2147483647"):
        op.run(x, ones())


def test_overwritten_tensors_lie_apart(package: Package) -> None:
    op = private(package(specs.ADD_INTO), OnCpu())
    with pytest.raises(ArgumentError, match="r is overwritten, but some of its elements share memory"):
        op.run(ones(1, 8).expand(3, 8), ones(3, 8))
    r = ones(3, 8)
    with pytest.raises(ArgumentError, match="r is overwritten, but x is the same memory"):
        op.run(r, r)


def test_backends_are_checked(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    module = package(specs.TOTAL)
    op = private(module, ready_on_gpu)
    with pytest.raises(KgenError, match="backend is 'tritn'; it must be triton or cuda"):
        op.use("tritn")
    with pytest.raises(KgenError, match="backend is 'cudda'; it must be triton or cuda"):
        op.run(ones(3), ones(), "cudda")
    monkeypatch.setenv("KGEN_BACKEND", "cuda")
    assert private(module, OnCpu()).backend == "cuda"
    monkeypatch.setenv("KGEN_BACKEND", "hip")
    with pytest.raises(KgenError, match="KGEN_BACKEND is 'hip'"):
        private(module, OnCpu())


def test_quotients_are_those_of_ieee_754() -> None:
    inf = float("inf")
    assert (checks.quotient(1, 4), checks.quotient(1.0, 0.0), checks.quotient(-1.0, 0.0)) == (0.25, inf, -inf)
    assert checks.quotient(1.0, -0.0) == -inf
    assert checks.quotient(0.0, 0.0) != checks.quotient(0.0, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "axes: {i: {extent: N}}\ntensors: {y: {dims: [i], dtype: f32, out: true}}\ncompute: y[i] = 1.0",
            "needs an input",
        ),
        (
            "axes: {i: {extent: N}}\nparams: {backend: {dtype: f32}}\n"
            "tensors: {x: {dims: [i], dtype: f32}, y: {dims: [i], dtype: f32, out: true}}\n"
            "compute: y[i] = x[i] * backend",
            "the generated op uses the name 'backend' itself",
        ),
        (
            "dtypes: {T: [f32], U: [f32, f16]}\naxes: {i: {extent: N}}\n"
            "tensors: {x: {dims: [i], dtype: T}, y: {dims: [i], dtype: U, out: true}}\ncompute: y[i] = x[i]",
            "no input is of type U",
        ),
    ],
    ids=["no input", "taken name", "free type"],
)
def test_specs_without_an_op(tmp_path: Any, text: str, message: str) -> None:
    with pytest.raises(KgenError, match=message):
        write(f"kernel: ops_refused\n{text}\n", tmp_path)
