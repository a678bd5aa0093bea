"""Emitted CUDA text, run in the simulator with all its checks, against torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.emit import kernels
from tests.emit.cuda_sim import run

from kgen.types import BF16, F16, F32, DType

TORCH = {F32: torch.float32, BF16: torch.bfloat16, F16: torch.float16}
NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def padded(values: torch.Tensor) -> torch.Tensor:
    """Return the values as a view whose rows start at multiples of 16 bytes, NaN between them."""
    rows, cols = values.shape
    room = torch.full((rows, -(-cols // 8) * 8), NAN, dtype=values.dtype)
    room[:, :cols] = values
    return room[:, :cols]


def close(found: torch.Tensor, expected: torch.Tensor, dtype: DType) -> None:
    """Compare in f64: f32 sums of a hundred terms to 1e-4, 16-bit results to a few units in the last place."""
    tolerance = 1e-4 if dtype is F32 else 2e-2
    torch.testing.assert_close(found.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize(
    ("dtype", "aligned", "n", "threads"),
    [(F32, True, 1500, None), (F32, False, 1023, 64), (BF16, True, 3001, None), (F16, True, 1024, 1024)],
)
def test_vector_add(dtype: DType, aligned: bool, n: int, threads: int | None, cache_dir: Path) -> None:
    x, w = torch.randn(n).to(TORCH[dtype]), torch.randn(n).to(TORCH[dtype])
    y = torch.empty_like(x)
    run(kernels.vector_add(dtype, 1024, aligned), {"x": x, "w": w, "y": y}, {"N": n}, cache_dir, threads=threads)
    assert torch.equal(y, x + w)


@pytest.mark.parametrize(
    ("rows", "tile", "dtype", "unit", "aligned", "threads"),
    [
        (1, 4096, F32, True, True, None),
        (4, 256, BF16, True, True, None),
        (8, 128, F16, False, False, 256),
        (3, 96, F32, True, False, None),
        (1, 64, F32, True, False, 1024),
    ],
)
def test_row_softmax(
    rows: int, tile: int, dtype: DType, unit: bool, aligned: bool, threads: int | None, cache_dir: Path
) -> None:
    m, n = 9, tile - 8
    x = torch.randn(m, n if unit else 2 * n).to(TORCH[dtype])[:, :: 1 if unit else 2]
    y = torch.empty(m, n, dtype=x.dtype) if unit else torch.empty(n, m, dtype=x.dtype).t()
    x[2, 3], x[3, 3] = NAN, -INF
    kernel = kernels.row_softmax(dtype, tile, rows, unit, aligned)
    run(kernel, {"x": x, "y": y}, {"M": m, "N": n}, cache_dir, threads=threads)
    close(y, x.double().softmax(1), dtype)


@pytest.mark.parametrize(("rows", "cols", "threads"), [(16, 64, None), (64, 16, None), (32, 128, 512), (16, 64, 32)])
def test_column_argmax(rows: int, cols: int, threads: int | None, cache_dir: Path) -> None:
    x = torch.randint(0, 5, (50, 100)).float()
    x[3, 4], x[7, 4], x[:, 9] = NAN, NAN, -INF
    i = torch.empty(100, dtype=torch.int64)
    kernel = kernels.column_argmax(F32, rows, cols)
    report = run(kernel, {"x": x, "i": i}, {"M": 50, "N": 100}, cache_dir, threads=threads)
    assert torch.equal(i, x.argmax(0))
    assert report.tiles[0][0] == -(-50 // rows) * -(-100 // cols)


@pytest.mark.parametrize(
    ("dtype", "tile", "w_unit", "aligned", "shape", "threads"),
    [
        (F32, (64, 64, 16), 1, False, (70, 50, 33), 32),
        (F32, (64, 64, 16), 1, True, (130, 140, 33), 256),
        (BF16, (32, 64, 32), 0, True, (70, 50, 33), None),
        (F16, (64, 32, 32), None, False, (33, 65, 40), 512),
        (BF16, (16, 128, 64), 1, True, (17, 129, 65), None),
        (F32, (48, 80, 24), 0, True, (50, 90, 30), 64),
        (F32, (16, 16, 16), 1, False, (1, 1, 1), 1024),
    ],
)
def test_matmul(
    dtype: DType,
    tile: tuple[int, int, int],
    w_unit: int | None,
    aligned: bool,
    shape: tuple[int, int, int],
    threads: int | None,
    cache_dir: Path,
) -> None:
    m, n, k = shape
    x, w, bias = (torch.randn(s).to(TORCH[dtype]) for s in ((m, k), (k, n), (n,)))
    y = torch.zeros(m, n, dtype=TORCH[dtype])
    rows = padded if aligned else torch.Tensor.contiguous
    w = {1: rows(w), 0: rows(w.t()).t(), None: torch.stack([w, w], 2)[:, :, 0]}[w_unit]
    x, y = rows(x), rows(y)
    kernel = kernels.matmul(dtype, tile, w_unit, aligned)
    run(kernel, {"x": x, "w": w, "bias": bias, "y": y}, {"M": m, "N": n, "K": k}, cache_dir, threads=threads)
    close(y, (x.double() @ w.double() + bias.double()).relu(), dtype)


@pytest.mark.parametrize(
    ("dtype", "tiles", "shape", "causal", "aligned", "threads"),
    [
        (F32, (64, 64, 64), (100, 130), True, False, None),
        (F32, (16, 32, 80), (40, 100), True, True, None),
        (BF16, (64, 64, 64), (100, 130), True, True, 64),
        (F16, (32, 64, 128), (50, 50), False, True, 256),
        (BF16, (16, 16, 16), (33, 17), True, False, None),
    ],
)
def test_attention(
    dtype: DType,
    tiles: tuple[int, int, int],
    shape: tuple[int, int],
    causal: bool,
    aligned: bool,
    threads: int | None,
    cache_dir: Path,
) -> None:
    (m, n), (tm, tn, d) = shape, tiles
    q, k, v = (torch.randn(2, rows, d).to(TORCH[dtype]) for rows in (m, n, n))
    o, lse = torch.empty(2, m, d, dtype=TORCH[dtype]), torch.empty(2, m)
    kernel = kernels.attention(dtype, tm, tn, d, aligned, causal)
    values = {"H": 2, "M": m, "N": n, "scale": 0.125}
    run(kernel, {"q": q, "k": k, "v": v, "o": o, "lse": lse}, values, cache_dir, threads=threads)
    s = q.double() @ k.double().transpose(1, 2) * 0.125
    if causal:
        s = s.masked_fill(torch.arange(n) > torch.arange(m)[:, None] + n - m, -INF)
    close(o, (s.softmax(-1) @ v.double()).nan_to_num(0), dtype)
    close(lse, s.logsumexp(-1), F32)


def test_index_overruns_of_register_arrays_would_be_found(cache_dir: Path) -> None:
    """The text has none: g++'s undefined-behaviour checks stay silent over every loop of a large kernel."""
    q = torch.randn(1, 40, 80)
    o, lse = torch.empty(1, 40, 80), torch.empty(1, 40)
    kernel = kernels.attention(F32, 16, 32, 80, True, True)
    tensors = {"q": q, "k": q, "v": q, "o": o, "lse": lse}
    run(kernel, tensors, {"H": 1, "M": 40, "N": 40, "scale": 0.1}, cache_dir, sanitize=True)
    assert not o.isnan().any()
