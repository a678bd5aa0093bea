"""Emitted CUDA text for computed operands, lookups, integers, memory state, scalars and three axes, simulated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.emit import kernels_edge
from tests.emit.cuda_sim import run

from kgen.types import BF16, F32, I32, I64, U8, DType

TORCH = {I32: torch.int32, I64: torch.int64, U8: torch.uint8}


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("threads", [None, 512])
def test_an_operand_is_unpacked_while_it_is_staged(threads: int | None, cache_dir: Path) -> None:
    m, n, k = 20, 70, 128
    x, sc = torch.randn(m, k).half(), torch.rand(n, k // 32).half()
    wq = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    y = torch.empty(m, n).half()
    tensors = {"x": x, "wq": wq, "sc": sc, "y": y}
    run(kernels_edge.quantised_matmul(), tensors, {"M": m, "N": n, "K": k}, cache_dir, threads=threads)
    nibbles = torch.stack([wq & 15, wq >> 4], -1).reshape(n, k).float() - 8
    w = (nibbles * sc.float().repeat_interleave(32, 1)).half().float()
    torch.testing.assert_close(y.float(), x.float() @ w.t(), rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("threads", [None, 32])
def test_operands_that_share_loads_are_staged_together(threads: int | None, cache_dir: Path) -> None:
    m, n, d = 40, 50, 32
    x, c, k = torch.randn(m, 2 * d).bfloat16(), torch.randn(m, d).bfloat16(), torch.randn(n, d).bfloat16()
    s = torch.empty(m, n)
    run(kernels_edge.rotated_product(d), {"x": x, "c": c, "k": k, "s": s}, {"M": m, "N": n}, cache_dir, threads=threads)
    a, b = x[:, :d].float(), x[:, d:].float()
    left = (a * c.float() - b).bfloat16().float() @ k.float().t()
    right = (b * c.float() + a).bfloat16().float() @ k.float().t()
    torch.testing.assert_close(s, left + right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("dtype", "threads"), [(F32, None), (F32, 32), (BF16, 256)])
def test_one_tile_serves_two_contract_axes(dtype: DType, threads: int | None, cache_dir: Path) -> None:
    m, n, d = 50, 40, 64
    kind = torch.float32 if dtype is F32 else torch.bfloat16
    q, k, do = (torch.randn(rows, d).mul(0.3).to(kind) for rows in (m, n, m))
    s = q.float() @ k.float().t()
    lse = s.logsumexp(1)
    dv, dk = torch.empty(n, d, dtype=kind), torch.empty(n, d, dtype=kind)
    tensors = {"q": q, "k": k, "do": do, "lse": lse, "dv": dv, "dk": dk}
    run(kernels_edge.gradient_products(dtype), tensors, {"M": m, "N": n}, cache_dir, threads=threads)
    p = (s - lse[:, None]).exp()
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype is F32 else {"rtol": 3e-2, "atol": 3e-1}
    torch.testing.assert_close(dv.float(), p.t() @ do.float(), **close)
    torch.testing.assert_close(dk.float(), (p * torch.arange(m)[:, None]).t() @ q.float(), **close)


def test_a_dot_reads_the_state_of_another_in_f64(cache_dir: Path) -> None:
    x = torch.randn(16, 16, dtype=torch.float64)
    y = torch.empty_like(x)
    run(kernels_edge.squared_product(), {"x": x, "y": y}, {}, cache_dir)
    torch.testing.assert_close(y, x.t() @ x @ x, rtol=1e-12, atol=1e-12)


def test_rows_are_looked_up(cache_dir: Path) -> None:
    x, row, y = torch.randn(30, 100), torch.randint(-1, 30, (21,)), torch.empty(21, 100)
    run(kernels_edge.gather_rows(), {"x": x, "row": row, "y": y}, {"M": 21, "N": 100}, cache_dir)
    assert torch.equal(y, torch.where(row[:, None] >= 0, x[row], 0.0))


@pytest.mark.parametrize(("dtype", "rows", "threads"), [(I32, 2, None), (I64, 1, 512), (U8, 4, 32)])
def test_integer_and_boolean_folds(dtype: DType, rows: int, threads: int | None, cache_dir: Path) -> None:
    kind = TORCH[dtype]
    x = torch.randint(6, 90, (5, 240)).to(kind)
    x[1, 7], x[2, 9] = 3, 99
    out = {"lo": torch.empty(5, dtype=kind), "hi": torch.empty(5, dtype=kind)}
    out |= {name: torch.empty(5, dtype=torch.bool) for name in ("some", "every")}
    run(kernels_edge.integer_folds(dtype, rows), {"x": x, **out}, {"M": 5, "N": 240}, cache_dir, threads=threads)
    assert torch.equal(out["lo"], x.amin(1))
    assert torch.equal(out["hi"], x.amax(1))
    assert torch.equal(out["some"], (x > 90).any(1))
    assert torch.equal(out["every"], (x > 5).all(1))


@pytest.mark.parametrize(("cols", "threads"), [(64, None), (256, 512)])
def test_all_threads_hold_the_same_bits_of_a_merged_state(cols: int, threads: int | None, cache_dir: Path) -> None:
    """dev = x - mu is computed by every thread of a row, mu is stored by one: their copies of mu are equal."""
    x, dev = torch.randn(7, cols - 3) * torch.randn(7, cols - 3).mul(3).exp(), torch.empty(7, cols - 3)
    mu, m2 = torch.empty(7), torch.empty(7)
    tensors = {"x": x, "mu": mu, "m2": m2, "dev": dev}
    run(kernels_edge.row_moments(4, cols), tensors, {"M": 7, "N": cols - 3}, cache_dir, threads=threads)
    assert torch.equal(dev, x - mu[:, None])
    torch.testing.assert_close(mu, x.mean(1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(m2, x.var(1, correction=0) * x.shape[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("threads", [None, 512])
def test_a_middle_axis_is_summed(threads: int | None, cache_dir: Path) -> None:
    x, w, y = torch.randn(4, 16, 32).bfloat16(), torch.randn(16), torch.empty(4, 32)
    run(kernels_edge.middle_sum(), {"x": x, "w": w, "y": y}, {}, cache_dir, threads=threads)
    torch.testing.assert_close(y, (x.float() * w[:, None]).sum(1), rtol=1e-5, atol=1e-5)


def test_transposed_copy(cache_dir: Path) -> None:
    x, y = torch.randn(40, 72), torch.empty(72, 40)
    run(kernels_edge.transposed_copy(), {"x": x, "y": y}, {"M": 40, "N": 72}, cache_dir)
    assert torch.equal(y, x.t())


def test_scalars_alone(cache_dir: Path) -> None:
    w, y = torch.randn(5, 7), torch.empty(7)
    run(kernels_edge.merge_parts(5), {"w": w, "y": y}, {"H": 7, "scale": 2.0}, cache_dir)
    torch.testing.assert_close(y, 2 * w.sum(0))


@pytest.mark.parametrize("threads", [None, 512])
def test_state_in_memory_is_exchanged_behind_barriers(threads: int | None, cache_dir: Path) -> None:
    x, total = torch.randn(20, 96), torch.ones(20)
    run(kernels_edge.state_in_memory(), {"x": x, "total": total}, {"M": 20, "N": 96}, cache_dir, threads=threads)
    torch.testing.assert_close(total, x.sum(1) + 1)
