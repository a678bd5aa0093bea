"""Interpreted and compiled forms of one module in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction

from kgen.build.interpret import load_interpreted, run_interpreted
from kgen.errors import KgenError
from kgen.ops.launch_triton import TritonKernel, load_compiled
from kgen.verify.interpreter import ensure_correct

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def halved(x):
    return x / 2


@triton.jit
def row_means(x, out, columns, weight, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for block in range(tl.cdiv(columns, BLOCK)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out + row, halved(tl.sum(total, axis=0)) * weight)
"""


@pytest.fixture(scope="module", autouse=True)
def corrected() -> None:
    """Without its corrections Triton 3.6 cannot run a loop with NumPy 2.4 at all."""
    ensure_correct()


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / 'a b "q" ü' / "triton_kernel.py"
    path.parent.mkdir()
    path.write_text(SOURCE, encoding="utf-8")
    return path


def run(module: Path, rows: int = 5, columns: int = 37) -> tuple[torch.Tensor, torch.Tensor]:
    x, out = torch.randn(rows, columns), torch.full((rows,), float("nan"))
    args = {"x": x, "out": out, "columns": columns, "weight": 0.5}
    run_interpreted(module, "row_means", (rows,), args, {"BLOCK": 16})
    return out, x.sum(1) / 4


def test_helpers_and_library_functions_are_interpreted(module: Path) -> None:
    torch.testing.assert_close(*run(module))


def test_the_language_is_as_before_afterwards(module: Path) -> None:
    owners = (tl, tl.core, tl.standard, tl.core.tensor, tl.math, tl.dtype)
    before = [{name: id(member) for name, member in vars(owner).items()} for owner in owners]
    run(module)
    run(module)
    for owner, members in zip(owners, before, strict=True):
        after = {name: id(member) for name, member in vars(owner).items() if name in members}
        assert {name for name in members if after.get(name) != members[name]} == set(), owner
    assert isinstance(tl.sum, JITFunction)


def test_the_compiled_form_stays_compiled(module: Path) -> None:
    run(module)
    assert isinstance(load_compiled(module).row_means, JITFunction)
    assert isinstance(TritonKernel(module, "row_means", num_warps=4, num_stages=3).jit, JITFunction)
    assert not isinstance(load_interpreted(module)["row_means"], JITFunction)
    assert load_compiled(module) is load_compiled(module)


def test_a_changed_file_is_loaded_anew(module: Path) -> None:
    run(module)
    module.write_text(SOURCE.replace("x / 2", "x / 4"), encoding="utf-8")
    out, expected = run(module)
    torch.testing.assert_close(out, expected / 2)


def test_an_empty_grid_runs_nothing(module: Path) -> None:
    out = torch.full((1,), 7.0)
    args = {"x": torch.zeros(0), "out": out, "columns": 0, "weight": 1.0}
    run_interpreted(module, "row_means", (0,), args, {"BLOCK": 16})
    assert out.item() == 7.0


def test_floats_are_rounded_as_a_launch_does(module: Path) -> None:
    x, out = torch.ones(1, 2, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    args = {"x": x, "out": out, "columns": 2, "weight": 0.1}
    run_interpreted(module, "row_means", (1,), args, {"BLOCK": 16})
    assert out.item() == pytest.approx(0.10000000149011612, abs=1e-12)


def test_an_unknown_kernel_is_an_error(module: Path) -> None:
    with pytest.raises(KgenError, match="no Triton kernel 'rows'"):
        run_interpreted(module, "rows", (1,), {}, {})
    with pytest.raises(KgenError, match="no Triton kernel 'rows'"):
        _ = TritonKernel(module, "rows", num_warps=4, num_stages=3).jit


def test_a_process_that_only_interprets_works_too_and_says_what_it_cannot(module: Path) -> None:
    script = f"""
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch
from pathlib import Path
from kgen.errors import KgenError
from kgen.ops.launch_triton import TritonKernel
from kgen.verify.interpreter import ensure_correct
ensure_correct()
kernel = TritonKernel(Path({str(module)!r}), "row_means", num_warps=4, num_stages=3)
out = torch.zeros(1)
kernel.interpret((1,), dict(x=torch.ones(1, 20), out=out, columns=20, weight=1.0), dict(BLOCK=16))
print(out.item())
try:
    kernel.jit
except KgenError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("10.0\n")
    assert "TRITON_INTERPRET is set" in done.stdout


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_compiled_and_interpreted_agree_on_a_gpu(module: Path) -> None:
    kernel = TritonKernel(module, "row_means", num_warps=4, num_stages=2)
    x = torch.randint(-8, 8, (5, 37), device="cuda").float()
    out, expected = torch.zeros(5, device="cuda"), torch.zeros(5)
    kernel.launch((5,), {"x": x, "out": out, "columns": 37, "weight": 0.5}, {"BLOCK": 16})
    kernel.interpret((5,), {"x": x.cpu(), "out": expected, "columns": 37, "weight": 0.5}, {"BLOCK": 16})
    assert torch.equal(out.cpu(), expected)
    assert triton.runtime.driver.active.get_current_device() == 0
