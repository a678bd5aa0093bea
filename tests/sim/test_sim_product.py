"""A tiled matrix product: correct, counted exactly, and broken noticeably by the loss of any barrier."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kgen import sim

BM, BN, BK, THREADS = 64, 64, 16, 128
TEXT = """#include "kgen.cuh"
constexpr int BM = 64, BN = 64, BK = 16;

extern "C" KG_GLOBAL_BOUNDS(128) void product(const float* a, const float* b, float* c, int M, int N, int K) {
    KG_SMEM(smem);
    const u32 a_tile = smem, b_tile = smem + BM * BK * 4;
    const int tid = threadIdx.x, ty = tid / 16, tx = tid % 16, columns = ceil_div(N, BN);
    const int m0 = blockIdx.x / columns * BM, n0 = blockIdx.x % columns * BN;
    float acc[8][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        KG_TILE(0, k0, k0 + BK > K);
        KG_UNROLL
        for (int e = tid; e < BM * BK; e += 128) {
            int m = m0 + e / BK, k = k0 + e % BK;
            sts<float>(a_tile + 4 * e, ldg_if(a + i64(m) * K + k, m < M && k < K));
        }
        KG_UNROLL
        for (int e = tid; e < BN * BK; e += 128) {
            int k = k0 + e / BN, n = n0 + e % BN;
            sts<float>(b_tile + 4 * e, ldg_if(b + i64(k) * N + n, k < K && n < N));
        }
        sync_threads();
        for (int k = 0; k < BK; ++k) {
            float x[8], y[4];
            KG_UNROLL
            for (int i = 0; i < 8; ++i) x[i] = lds<float>(a_tile + 4 * ((ty * 8 + i) * BK + k));
            KG_UNROLL
            for (int j = 0; j < 4; ++j) y[j] = lds<float>(b_tile + 4 * (k * BN + tx + j * 16));
            KG_UNROLL
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 4; ++j) acc[i][j] = fmaf(x[i], y[j], acc[i][j]);
        }
        sync_threads();
    }
    KG_UNROLL
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 4; ++j) {
            int m = m0 + ty * 8 + i, n = n0 + tx + j * 16;
            stg_if(c + i64(m) * N + n, acc[i][j], m < M && n < N);
        }
}
"""


def run(text: str, m: int, n: int, k: int, cache_dir: Path) -> tuple[sim.Report, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-4, 5, shape, generator=generator).float() for shape in ((m, k), (k, n)))
    c = torch.zeros(m, n)
    kernel = sim.compile(text, "product", cache_dir=cache_dir)
    args: list[sim.Arg] = [sim.TensorArg("a", a, "in"), sim.TensorArg("b", b, "in"), sim.TensorArg("c", c, "out")]
    args += [sim.ScalarArg(name, "i32", value) for name, value in (("M", m), ("N", n), ("K", k))]
    grid = -(-m // BM) * -(-n // BN)
    return sim.launch(kernel, grid, THREADS, (BM + BN) * BK * 4, args), c, a @ b


@pytest.mark.parametrize("shape", [(64, 64, 64), (65, 127, 33), (1, 1, 1), (130, 64, 16)])
def test_product(shape: tuple[int, int, int], cache_dir: Path) -> None:
    report, c, expected = run(TEXT, *shape, cache_dir)
    assert report.ok, str(report)
    assert torch.equal(c, expected)
    m, n, k = shape
    rows, columns, steps = -(-m // BM), -(-n // BN), -(-k // BK)
    traffic = report.counters.tensors
    assert (traffic["a"].loaded, traffic["b"].loaded) == (4 * m * k * columns, 4 * n * k * rows)
    assert traffic["c"].stored == 4 * m * n
    assert report.counters.barriers == 2 * steps * rows * columns
    assert report.tiles == {0: (steps * rows * columns, rows * columns if k % BK else 0)}


@pytest.mark.parametrize("which", [0, 1])
def test_a_lost_barrier_is_found(which: int, cache_dir: Path) -> None:
    parts = TEXT.split("sync_threads();")
    text = "sync_threads();".join(parts[: which + 1]) + ";" + "sync_threads();".join(parts[which + 1 :])
    assert text.count("sync_threads") == TEXT.count("sync_threads") - 1
    report, _, _ = run(text, 64, 64, 64, cache_dir)
    assert {fault.kind for fault in report.faults} <= {"race", "uninitialised"}
    assert not report.ok


def test_sectors_of_a_long_loop_without_collectives(cache_dir: Path) -> None:
    """Logs of lanes are bounded; the count is as if they were not, also for lanes that leave the loop early."""
    text = """#include "kgen.cuh"
extern "C" KG_GLOBAL void sum(const float* x, float* y, int n) {
    float total = 0;
    int mine = threadIdx.x % 2 ? n : n / 2;
    for (int i = 0; i < mine; ++i) total += ldg(x + i % 64);
    stg(y + threadIdx.x, total);
}
"""
    kernel = sim.compile(text, "sum", cache_dir=cache_dir)
    y, n = torch.zeros(64), 20000
    args = [sim.TensorArg("x", torch.ones(64), "in"), sim.TensorArg("y", y, "out"), sim.ScalarArg("n", "i32", n)]
    for seed in (None, 3):
        report = sim.launch(kernel, 1, 64, 0, args, options=sim.Options(seed=seed))
        assert report.ok and y[:2].tolist() == [n / 2, n]
        assert report.counters.tensors["x"].load_sectors == 2 * n
        assert report.counters.tensors["y"].store_sectors in (8, 16)  # one or two instructions per warp
