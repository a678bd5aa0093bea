"""Emitted CUDA text of the mma skeleton, run in the simulator with all its checks, against torch."""

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


def planned(kernel: Kernel, warps: int = 4, stages: int = 2, arch: str = "sm_80") -> Plan:
    return plan(kernel, arch=arch, threads=32 * warps, skeleton="mma", stages=stages)


def run(
    kernel: Kernel, tensors: dict[str, torch.Tensor], values: Values, cache: Path, warps: int, stages: int
) -> sim.Report:
    """Run as early and as late as copies may land; outputs are the same, faults fail the test."""
    made = planned(kernel, warps, stages)
    text = print_kernel(kernel, made, HEADER)
    outputs = [tensors[b.name] for b in kernel.buffers.values() if b.role == "out"]
    first: list[torch.Tensor] = []
    for lazy in (True, False):
        report = launch(kernel, made, text, tensors, values, cache, seed=1 if lazy else None, lazy=lazy)
        assert report.ok, "\n".join(str(f) for f in report.faults[:3])
        first = first or [t.clone() for t in outputs]
    assert all(torch.equal(a, b) for a, b in zip(first, outputs, strict=True))
    return report


def conflicts(report: sim.Report) -> list[object]:
    """Return the loads of fragments with bank conflicts."""
    return [x for x in report.counters.lines if x.access == "ldmatrix" and x.pieces > x.ideal]


@pytest.mark.parametrize(
    ("dtype", "tile", "w_unit", "aligned", "shape", "warps", "stages"),
    [
        (BF16, (64, 64, 32), 1, True, (70, 72, 88), 4, 3),
        (BF16, (32, 64, 32), 0, True, (70, 50, 33), 4, 4),
        (F16, (64, 32, 32), None, False, (33, 65, 40), 8, 2),
        (BF16, (16, 128, 64), 1, True, (17, 129, 65), 4, 1),
        (F16, (48, 80, 48), 0, True, (50, 90, 100), 2, 3),
        (BF16, (16, 16, 16), 1, True, (1, 1, 1), 1, 2),
    ],
)
def test_matmul(
    dtype: DType,
    tile: tuple[int, int, int],
    w_unit: int | None,
    aligned: bool,
    shape: tuple[int, int, int],
    warps: int,
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
    report = run(kernel, {"x": x, "w": w, "bias": bias, "y": y}, {"M": m, "N": n, "K": k}, cache_dir, warps, stages)
    close(y, (x.double() @ w.double() + bias.double()).relu(), dtype)
    if aligned:
        assert not conflicts(report)


@pytest.mark.parametrize(
    ("dtype", "tiles", "shape", "causal", "warps", "stages"),
    [
        (BF16, (64, 64, 64), (100, 130), True, 4, 2),
        (F16, (64, 32, 80), (70, 100), False, 4, 3),
        (BF16, (32, 48, 16), (33, 17), True, 2, 1),
        (F16, (16, 64, 32), (40, 100), True, 4, 4),
        (BF16, (64, 16, 32), (200, 40), True, 4, 2),
    ],
)
def test_attention(
    dtype: DType,
    tiles: tuple[int, int, int],
    shape: tuple[int, int],
    causal: bool,
    warps: int,
    stages: int,
    cache_dir: Path,
) -> None:
    """Weights stay in registers; rows without a key give 0; a loop without a tile does nothing."""
    (m, n), (tm, tn, d) = shape, tiles
    q, k, v = (torch.randn(2, rows, d).to(TORCH[dtype]) for rows in (m, n, n))
    o, lse = torch.empty(2, m, d, dtype=TORCH[dtype]), torch.empty(2, m)
    kernel = kernels.attention(dtype, tm, tn, d, True, causal)
    values = {"H": 2, "M": m, "N": n, "scale": 0.125}
    report = run(kernel, {"q": q, "k": k, "v": v, "o": o, "lse": lse}, values, cache_dir, warps, stages)
    s = q.double() @ k.double().transpose(1, 2) * 0.125
    if causal:
        s = s.masked_fill(torch.arange(n) > torch.arange(m)[:, None] + n - m, -INF)
    close(o, (s.softmax(-1) @ v.double()).nan_to_num(0), dtype)
    close(lse, s.logsumexp(-1), F32)
    assert not conflicts(report)


@pytest.mark.parametrize(("dtype", "tm", "tn", "warps"), [(BF16, 32, 64, 4), (F16, 64, 32, 2)])
def test_gradient_products(dtype: DType, tm: int, tn: int, warps: int, cache_dir: Path) -> None:
    """Both products over m take their left side from registers: the scores are computed transposed."""
    m, n, d = 50, 70, 32
    q, do = torch.randn(m, d).to(TORCH[dtype]), torch.randn(m, d).to(TORCH[dtype])
    k, lse = (0.2 * torch.randn(n, d)).to(TORCH[dtype]), torch.randn(m) + 7
    dv, dk = torch.empty(n, d, dtype=TORCH[dtype]), torch.empty(n, d, dtype=TORCH[dtype])
    kernel = kernels_edge.gradient_products(dtype, tm, tn, d)
    assert planned(kernel, warps).homes.fragments == {"p_cast", "ds"}
    tensors = {"q": q, "k": k, "do": do, "lse": lse, "dv": dv, "dk": dk}
    run(kernel, tensors, {"M": m, "N": n}, cache_dir, warps, 2)
    p = (q.double() @ k.double().T - lse.double()[:, None]).exp()
    close(dv, p.T @ do.double(), dtype)
    close(dk, (p * torch.arange(m)[:, None]).T @ q.double(), dtype)


@pytest.mark.parametrize("warps", [1, 4])
def test_a_value_used_both_ways_goes_through_shared_memory(warps: int, cache_dir: Path) -> None:
    m, n, d = 30, 27, 32
    q, k, v, u = (torch.randn(s, d).bfloat16() for s in (m, n, n, m))
    y, z = torch.empty(m, d), torch.empty(n, d)
    kernel = kernels_mma.both_ways()
    assert planned(kernel, warps).homes.spilled == {"p"}
    run(kernel, {"q": q, "k": k, "v": v, "u": u, "y": y, "z": z}, {"M": m, "N": n}, cache_dir, warps, 1)
    p = (q.double() @ k.double().T).relu().bfloat16().double()
    torch.testing.assert_close(y.double(), p @ v.double(), rtol=1e-2, atol=0.1)
    torch.testing.assert_close(z.double(), p.T @ u.double(), rtol=1e-2, atol=0.1)


@pytest.mark.parametrize(("shape", "stages"), [((70, 72, 96), 3), ((64, 64, 20), 4), ((10, 8, 104), 2), ((5, 8, 0), 3)])
def test_products_share_a_tile_and_segments_share_a_ring(
    shape: tuple[int, int, int], stages: int, cache_dir: Path
) -> None:
    m, n, k = shape
    x, a, b = (padded(torch.randn(s).bfloat16()) for s in ((m, k), (k, n), (n, k)))
    y = padded(torch.zeros(m, n).bfloat16())
    values = {"M": m, "N": n, "K": k}
    run(kernels_mma.gated(), {"x": x, "a": a, "b": b, "y": y}, values, cache_dir, 4, stages)
    close(y, (x.double() @ a.double()) * (x.double() @ b.double().T).relu(), BF16)


@pytest.mark.parametrize("stages", [1, 3])
def test_computed_operands_are_made_in_shared_memory(stages: int, cache_dir: Path) -> None:
    m, n, k, group = 17, 70, 128, 32
    x = torch.randn(m, k).half()
    wq = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    sc = torch.rand(n, k // group).half()
    y = torch.empty(m, n, dtype=torch.float16)
    values = {"M": m, "N": n, "K": k, "K2": k // 2, "KG": k // group}
    run(kernels_edge.quantised_matmul(), {"x": x, "wq": wq, "sc": sc, "y": y}, values, cache_dir, 4, stages)
    nibbles = torch.stack([wq & 15, wq >> 4], 2).reshape(n, k).double()
    w = ((nibbles - 8) * sc.double().repeat_interleave(group, 1)).half().double()
    close(y, x.double() @ w.T, F16)


SYNCHRONISATION = ("sync_threads();", "cp_async_wait<1>();", "cp_async_commit();")


def test_every_synchronisation_is_needed(cache_dir: Path) -> None:
    """Each barrier, wait and commit of attention: without it a fault is found."""
    kernel = kernels.attention(BF16, 32, 16, 32, True)
    q = torch.randn(1, 96, 32).bfloat16()
    tensors = {"q": q, "k": q, "v": q, "o": torch.empty_like(q), "lse": torch.empty(1, 96)}
    values = {"H": 1, "M": 96, "N": 96, "scale": 0.1}
    made = planned(kernel, 2, 3)
    text = print_kernel(kernel, made, HEADER)
    places = [m for word in SYNCHRONISATION for m in re.finditer(re.escape(word), text)]
    assert len(places) == 7  # a commit before the loop; a barrier, a wait and a commit in each of two segments
    for place in places:
        mutant = text[: place.start()] + ";" + text[place.end() :]
        report = launch(kernel, made, mutant, tensors, values, cache_dir, lazy=True)
        assert not report.ok, text[: place.end()].count("\n")


ALL = {
    k.name: k
    for k in (
        kernels.matmul(BF16, (128, 128, 32), 0, True),
        kernels.attention(BF16, 64, 64, 128, True),
        kernels_edge.gradient_products(BF16, 64, 64),
        kernels_edge.quantised_matmul(),
        kernels_edge.rotated_product(),
        kernels_mma.both_ways(),
        kernels_mma.gated(BF16, (128, 64, 32)),
    )
}


@pytest.mark.parametrize("name", ALL)
def test_text_is_labelled_short_and_without_unused_names(name: str) -> None:
    kernel = ALL[name]
    text = print_kernel(kernel, planned(kernel, 8, 3), HEADER)
    assert set(labels(text)) == {op.label for op in operations(kernel.body)}
    assert max(map(len, text.splitlines())) <= WIDTH
    for declared in re.findall(r"(?:constexpr|const) (?:int|u32) (\w+) =", text):
        assert len(re.findall(rf"\b{declared}\b", text)) > 1, declared


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_text_compiles_without_spills(arch: str, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    plans = {n: planned(k, 8 if n in ("matmul", "gated") else 4, 3, arch) for n, k in ALL.items()}
    (tmp_path / "all.cu").write_text(print_program(Program("all", {}, tuple(ALL.values())), plans, HEADER))
    folder = resources.path("templates") / "cuda"
    command = ["nvcc", "-std=c++17", f"-arch={arch}", "-Xptxas", "-v", f"-I{folder}", "-cubin", "all.cu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    found = parse_report(done.stderr)
    assert set(found) == set(ALL)
    assert {n: r.spill_bytes for n, r in found.items() if r.spill_bytes} == {}
