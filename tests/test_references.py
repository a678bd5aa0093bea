"""The shipped references against torch's own operators and against hand-made cases."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
import torch
from torch.nn import functional

from kgen import resources


@pytest.fixture(scope="module")
def references() -> ModuleType:
    found = importlib.util.spec_from_file_location("references", resources.path("specs") / "references.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_agrees_with_torch(references: ModuleType, causal: bool) -> None:
    q, k, v = normal(2, 6, 5, 16), normal(2, 2, 5, 16), normal(2, 2, 5, 8)
    o, lse = references.flash_attn(q, k, v, causal=causal)
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(o, expected)
    assert lse.shape == (2, 6, 5)


def test_attention_is_aligned_bottom_right(references: ModuleType) -> None:
    q, k, v = normal(1, 1, 3, 16), normal(1, 1, 5, 16), normal(1, 1, 5, 16)
    o, _ = references.flash_attn(q, k, v)
    last, _ = references.flash_attn(q[:, :, -1:], k, v, causal=False)
    torch.testing.assert_close(o[:, :, -1:], last)


def test_rows_without_keys_give_zero_and_minus_infinity(references: ModuleType) -> None:
    q, k, v = normal(1, 1, 4, 16), normal(1, 1, 2, 16), normal(1, 1, 2, 16)
    o, lse = references.flash_attn(q, k, v)
    assert torch.all(o[0, 0, :2] == 0) and torch.all(lse[0, 0, :2] == -torch.inf)
    assert torch.all(torch.isfinite(lse[0, 0, 2:]))
    o, lse = references.flash_attn(q, k[:, :, :0], v[:, :, :0], causal=False)
    assert torch.all(o == 0) and torch.all(lse == -torch.inf)


def test_a_nan_input_stays_a_nan(references: ModuleType) -> None:
    q, k, v = normal(1, 1, 4, 16), normal(1, 1, 4, 16), normal(1, 1, 4, 16)
    k[0, 0, 0, 0] = torch.nan
    assert torch.all(torch.isnan(references.flash_attn(q, k, v)[0]))


def test_sixteen_bit_results_are_rounded_once(references: ModuleType) -> None:
    x, r, w = (normal(*s, dtype=torch.bfloat16) for s in ((4, 64), (4, 65), (64,)))
    h, y = references.rmsnorm_residual(x, r[:, :64], w, 1e-6)
    total = x.double() + r[:, :64].double()
    exact = total * torch.rsqrt((total**2).mean(-1, keepdim=True) + 1e-6) * w.double()
    assert torch.equal(h, total.bfloat16())
    assert torch.sum(y != exact.bfloat16()) <= 2  # f32 in between: rarely another neighbour


def test_layer_norm_statistics(references: ModuleType) -> None:
    x, w, b = normal(3, 40) * 2 + 5, normal(40), normal(41)[:40]
    y, mu, rs = references.layer_norm(x, w, b)
    torch.testing.assert_close(mu, x.mean(-1))
    torch.testing.assert_close(rs, torch.rsqrt(x.var(-1, correction=0) + 1e-5))
    torch.testing.assert_close(y, (x - mu[:, None]) * rs[:, None] * w + b)


def test_matmul_takes_transposed_views(references: ModuleType) -> None:
    x, weight, bias, r = normal(2, 3, 8), normal(2, 5, 8), normal(5), normal(2, 3, 5)
    product = torch.einsum("bmk,bnk->bmn", x, weight) + bias
    exact = 0.5 * product * (1 + torch.erf(product / 2**0.5)) + r
    torch.testing.assert_close(references.matmul(x, weight.transpose(1, 2), bias, r), exact)


def test_small_ones(references: ModuleType) -> None:
    x = normal(3, 7)
    torch.testing.assert_close(references.softmax(x), torch.exp(x) / torch.exp(x).sum(-1, keepdim=True))
    torch.testing.assert_close(references.row_sum(x), x @ torch.ones(7, dtype=x.dtype))
    assert torch.equal(references.vector_add(x, x), 2 * x)
