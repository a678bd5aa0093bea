"""Emitted CUDA text of the wgmma skeleton, run in the simulator with all its checks, against torch."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from tests.emit import kernels, kernels_edge, kernels_mma
from tests.emit.cuda_sim import HEADER, Values, launch
from tests.emit.test_cuda import TORCH, close, padded

from kgen import resources, sim
from kgen.build.ptxas import parse_report
from kgen.emit.cuda import print_kernel, print_program
from kgen.emit.cuda_wrap import WIDTH
from kgen.emit.labels import labels
from kgen.ir import Kernel, Program
from kgen.schedule import Plan, plan
from kgen.schedule_homes import operations
from kgen.types import BF16, F16, F32, DType

INF = float("inf")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def planned(kernel: Kernel, stages: int = 2, consumers: int | None = None) -> Plan:
    return plan(kernel, arch="sm_90a", threads=None, skeleton="wgmma", stages=stages, consumers=consumers)


def run(
    kernel: Kernel, tensors: dict[str, torch.Tensor], values: Values, cache: Path, made: Plan | None = None
) -> sim.Report:
    """Run as early and as late as copies and products may land; outputs are the same, faults fail the test."""
    made = made or planned(kernel)
    text = print_kernel(kernel, made, HEADER)
    outputs = [tensors[b.name] for b in kernel.buffers.values() if b.role == "out"]
    first: list[torch.Tensor] = []
    for lazy in (True, False):
        report = launch(kernel, made, text, tensors, values, cache, seed=1 if lazy else None, lazy=lazy)
        assert report.ok, "\n".join(str(f) for f in report.faults[:3])
        first = first or [t.clone() for t in outputs]
    assert all(torch.equal(a, b) for a, b in zip(first, outputs, strict=True))
    return report


@pytest.mark.parametrize(
    ("dtype", "tile", "w_unit", "aligned", "shape", "consumers", "stages"),
    [
        (BF16, (128, 64, 64), 1, True, (130, 72, 88), None, 3),  # a row of a tile is one span of 128 bytes
        (BF16, (64, 32, 32), 0, True, (70, 50, 33), None, 4),  # 64 bytes
        (F16, (192, 80, 16), None, False, (33, 85, 40), None, 2),  # 32 bytes; three warpgroups
        (F16, (128, 272, 128), 1, True, (129, 280, 133), 2, 1),  # two instructions across, two spans deep
        (BF16, (128, 48, 128), 0, True, (150, 40, 120), 1, 2),  # two instructions down
        (BF16, (64, 16, 16), 1, True, (1, 1, 1), None, 2),
    ],
)
def test_matmul(
    dtype: DType,
    tile: tuple[int, int, int],
    w_unit: int | None,
    aligned: bool,
    shape: tuple[int, int, int],
    consumers: int | None,
    stages: int,
    cache_dir: Path,
) -> None:
    m, n, k = shape
    x, w, bias = (torch.randn(s).to(TORCH[dtype]) for s in ((m, k), (k, n), (n,)))
    y = torch.zeros(m, n, dtype=TORCH[dtype])
    rows = padded if aligned else torch.Tensor.contiguous
    w = {1: rows(w), 0: rows(w.t()).t(), None: torch.stack([w, w], 2)[:, :, 0]}[w_unit]
    x, y = rows(x), rows(y)
    kernel = kernels.matmul(dtype, tile, w_unit, aligned)
    made = planned(kernel, stages, consumers)
    run(kernel, {"x": x, "w": w, "bias": bias, "y": y}, {"M": m, "N": n, "K": k}, cache_dir, made)
    close(y, (x.double() @ w.double() + bias.double()).relu(), dtype)


def test_rows_by_columns_in_memory_can_be_the_left_operand(cache_dir: Path) -> None:
    """The rows of the result are the columns of w, which is contiguous along them: a left operand not along k."""
    m, n, k = 40, 130, 70
    x, w, bias = padded(torch.randn(m, k).half()), padded(torch.randn(k, n).half()), torch.randn(n).half()
    y = padded(torch.zeros(m, n).half())
    kernel = kernels.matmul(F16, (32, 128, 32), 1, True)
    text = print_kernel(kernel, planned(kernel), HEADER)
    assert "wgmma_ss<f16, 32, 1, 0>" in text
    run(kernel, {"x": x, "w": w, "bias": bias, "y": y}, {"M": m, "N": n, "K": k}, cache_dir)
    close(y, (x.double() @ w.double() + bias.double()).relu(), F16)


@pytest.mark.parametrize(
    ("dtype", "tiles", "shape", "causal", "consumers", "stages"),
    [
        (BF16, (64, 64, 64), (100, 130), True, None, 2),
        (F16, (192, 32, 80), (70, 100), False, None, 3),
        (BF16, (128, 48, 16), (33, 17), True, 1, 1),
        (F16, (128, 64, 128), (140, 40), True, 2, 2),
    ],
)
def test_attention(
    dtype: DType,
    tiles: tuple[int, int, int],
    shape: tuple[int, int],
    causal: bool,
    consumers: int | None,
    stages: int,
    cache_dir: Path,
) -> None:
    """Weights stay in registers; rows without a key give 0; a loop without a tile does nothing."""
    (m, n), (tm, tn, d) = shape, tiles
    q, k, v = (torch.randn(2, rows, d).to(TORCH[dtype]) for rows in (m, n, n))
    o, lse = torch.empty(2, m, d, dtype=TORCH[dtype]), torch.empty(2, m)
    kernel = kernels.attention(dtype, tm, tn, d, True, causal)
    made = planned(kernel, stages, consumers)
    assert made.homes.fragments == {"p"}
    values = {"H": 2, "M": m, "N": n, "scale": 0.125}
    run(kernel, {"q": q, "k": k, "v": v, "o": o, "lse": lse}, values, cache_dir, made)
    s = q.double() @ k.double().transpose(1, 2) * 0.125
    if causal:
        s = s.masked_fill(torch.arange(n) > torch.arange(m)[:, None] + n - m, -INF)
    close(o, (s.softmax(-1) @ v.double()).nan_to_num(0), dtype)
    close(lse, s.logsumexp(-1), F32)


def test_gradient_products(cache_dir: Path) -> None:
    """Both products over m take their left side from registers: the scores are computed transposed."""
    m, n, d = 50, 70, 32
    q, do = torch.randn(m, d).bfloat16(), torch.randn(m, d).bfloat16()
    k, lse = (0.2 * torch.randn(n, d)).bfloat16(), torch.randn(m) + 7
    dv, dk = torch.empty(n, d).bfloat16(), torch.empty(n, d).bfloat16()
    kernel = kernels_edge.gradient_products(BF16, 64, 64, d)
    tensors = {"q": q, "k": k, "do": do, "lse": lse, "dv": dv, "dk": dk}
    run(kernel, tensors, {"M": m, "N": n}, cache_dir)
    p = (q.double() @ k.double().T - lse.double()[:, None]).exp()
    close(dv, p.T @ do.double(), BF16)
    close(dk, (p * torch.arange(m)[:, None]).T @ q.double(), BF16)


def test_a_value_used_both_ways_goes_through_shared_memory(cache_dir: Path) -> None:
    m, n, d = 30, 27, 64
    q, k, v, u = (torch.randn(s, d).bfloat16() for s in (m, n, n, m))
    y, z = torch.empty(m, d), torch.empty(n, d)
    kernel = kernels_mma.both_ways(BF16, 64, 64, d)
    assert planned(kernel).homes.spilled == {"p"}
    run(kernel, {"q": q, "k": k, "v": v, "u": u, "y": y, "z": z}, {"M": m, "N": n}, cache_dir)
    p = (q.double() @ k.double().T).relu().bfloat16().double()
    torch.testing.assert_close(y.double(), p @ v.double(), rtol=1e-2, atol=0.1)
    torch.testing.assert_close(z.double(), p.T @ u.double(), rtol=1e-2, atol=0.1)


@pytest.mark.parametrize(("shape", "stages"), [((70, 72, 96), 3), ((5, 8, 0), 3)])
def test_products_share_a_tile_and_segments_share_a_ring(
    shape: tuple[int, int, int], stages: int, cache_dir: Path
) -> None:
    m, n, k = shape
    x, a, b = (padded(torch.randn(s).bfloat16()) for s in ((m, k), (k, n), (n, k)))
    y = padded(torch.zeros(m, n).bfloat16())
    kernel = kernels_mma.gated()
    made = planned(kernel, stages)
    run(kernel, {"x": x, "a": a, "b": b, "y": y}, {"M": m, "N": n, "K": k}, cache_dir, made)
    close(y, (x.double() @ a.double()) * (x.double() @ b.double().T).relu(), BF16)


SYNCHRONISATION = (
    "sync_threads();",
    "cp_async_wait<1>();",
    "cp_async_commit();",
    "fence_proxy_async();",
    "wgmma_fence();",
    "wgmma_commit();",
    "wgmma_wait<0>();",
)


def test_every_synchronisation_is_needed(cache_dir: Path) -> None:
    """Each barrier, wait, commit and fence of attention: without it a fault is found, or the result is wrong.

    But for the fence after the tile of q: those at the head of the loop come later, and before the same barrier.
    """
    kernel = kernels.attention(BF16, 64, 16, 32, True)
    q = torch.randn(1, 96, 32).bfloat16()
    tensors = {"q": q, "k": q, "v": q, "o": torch.empty_like(q), "lse": torch.empty(1, 96)}
    values = {"H": 1, "M": 96, "N": 96, "scale": 0.1}
    made = planned(kernel, 3)
    text = print_kernel(kernel, made, HEADER)
    places = [m for word in SYNCHRONISATION for m in re.finditer(re.escape(word), text)]
    assert len(places) == 22
    assert launch(kernel, made, text, tensors, values, cache_dir, lazy=True).ok
    right = tensors["o"].clone()
    unseen = []
    for place in places:
        mutant = text[: place.start()] + ";" + text[place.end() :]
        report = launch(kernel, made, mutant, tensors, values, cache_dir, lazy=True)
        if report.ok and torch.equal(tensors["o"], right):
            unseen.append((place[0], text[: place.end()].count("\n") + 1))
    assert unseen == [("fence_proxy_async();", text[: text.index("fence_proxy_async();")].count("\n") + 1)]


def test_every_synchronisation_of_products_in_flight_is_needed(cache_dir: Path) -> None:
    """The loop keeps products in flight over its barrier; they read a slot until the wait of the next iteration."""
    x, w, bias = torch.randn(64, 160).bfloat16(), torch.randn(160, 64).bfloat16(), torch.randn(64).bfloat16()
    tensors = {"x": x, "w": w, "bias": bias, "y": torch.zeros(64, 64).bfloat16()}
    kernel, values = kernels.matmul(BF16, (64, 64, 32), 1, True), {"M": 64, "N": 64, "K": 160}
    made = planned(kernel, 3)
    text = print_kernel(kernel, made, HEADER)
    assert launch(kernel, made, text, tensors, values, cache_dir, lazy=True).ok
    right = tensors["y"].clone()
    words = ("sync_threads();", "cp_async_wait<0>();", "cp_async_commit();", "fence_proxy_async();", "wgmma_fence();")
    places = [
        m for word in (*words, "wgmma_wait<1>();", "wgmma_wait<0>();") for m in re.finditer(re.escape(word), text)
    ]
    unseen = []
    for place in places:
        mutant = text[: place.start()] + ";" + text[place.end() :]
        report = launch(kernel, made, mutant, tensors, values, cache_dir, lazy=True)
        if report.ok and torch.equal(tensors["y"], right):
            unseen.append((place[0], text[: place.end()].count("\n") + 1))
    assert (len(places), unseen) == (9, [])


ALL = {
    k.name: k
    for k in (
        kernels.matmul(BF16, (128, 128, 64), 0, True),
        kernels.attention(BF16, 128, 128, 128, True),
        kernels_edge.gradient_products(BF16, 64, 64),
        kernels_edge.quantised_matmul(),
        kernels_mma.both_ways(BF16, 64, 64, 64),
        kernels_mma.gated(BF16, (128, 64, 32)),
    )
}


@pytest.mark.parametrize("name", ALL)
def test_text_is_labelled_short_and_without_unused_names(name: str) -> None:
    kernel = ALL[name]
    text = print_kernel(kernel, planned(kernel), HEADER)
    assert set(labels(text)) == {op.label for op in operations(kernel.body)}
    assert max(map(len, text.splitlines())) <= WIDTH
    for declared in re.findall(r"(?:constexpr|const) (?:int|u32|u64) (\w+) =", text):
        assert len(re.findall(rf"\b{declared}\b", text)) > 1, declared


def test_text_compiles_without_spills_or_serialised_products(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    plans = {n: planned(k) for n, k in ALL.items()}
    (tmp_path / "all.cu").write_text(print_program(Program("all", {}, tuple(ALL.values())), plans, HEADER))
    folder = resources.path("templates") / "cuda"
    command = ["nvcc", "-std=c++17", "-arch=sm_90a", "-Xptxas", "-v", f"-I{folder}", "-cubin", "all.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    assert not re.findall(r"C75\d\d", done.stderr)
    found = parse_report(done.stderr)
    assert set(found) == set(ALL)
    assert {n: r.spill_bytes for n, r in found.items() if r.spill_bytes} == {}
