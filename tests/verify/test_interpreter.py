"""Triton's interpreter after correction, and the faults that make corrections necessary."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
import triton

from kgen.build.interpret import run_interpreted
from kgen.verify.interpreter import CORRECTIONS, PROBES, N, ensure_correct, probe
from kgen.verify.narrow_floats import E4M3, E5M2, Float8, bf16_to_f32, f32_to_bf16

ALWAYS_FAULTY = {"bfloat16 casts", "bfloat16 dot", "bfloat16 arithmetic", "8-bit float casts", "loop variables"}


@pytest.fixture(scope="module", autouse=True)
def corrected() -> None:
    ensure_correct()


def test_corrections_are_installed_once_and_only_where_needed() -> None:
    script = """
import json
from kgen.verify import interpreter
def failing():
    return [c.name for c in interpreter.CORRECTIONS if not c.holds()]
faulty = failing()
first, second = interpreter.ensure_correct(), interpreter.ensure_correct()
print(json.dumps([faulty, [c.name for c in first], first is second, failing()]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    faulty, installed, same, left = json.loads(done.stdout)
    assert installed == faulty
    assert same
    assert left == []
    assert all(c.description.endswith(".") for c in CORRECTIONS)
    if tuple(map(int, triton.__version__.split(".")[:2])) <= (3, 9):
        assert set(faulty) >= ALWAYS_FAULTY, "a self-test no longer shows a fault that this Triton has"


def test_masked_lanes_do_not_touch_memory() -> None:
    """Lanes that are masked off point outside every mapping; touching one would end the process."""
    script = f"""
import torch
from pathlib import Path
from kgen.build.interpret import run_interpreted
a, out = torch.arange(4.0), torch.full((4,), -1.0)
for offset in (0, 2**40, -(2**40)):
    args = dict(a=a, out=out, n=0 if offset else 4, offset=offset)
    run_interpreted(Path({str(PROBES)!r}), "masked_copy", (1,), args, dict(N=16))
print(out.tolist())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[0.0, 1.0, 2.0, 3.0]"), done.stderr


def test_masked_loads_read_other_in_nan_storage() -> None:
    a, out = torch.full((N,), float("nan")), torch.zeros(N)
    a[:3] = torch.tensor([1.0, 2.0, 3.0])
    probe("masked_copy", a=a, out=out, n=3, offset=0)
    assert out.tolist() == [1, 2, 3] + [0] * (N - 3)


def test_integers_wrap_at_32_bits_and_not_at_64() -> None:
    a, b = 319, 7864320
    out = torch.zeros(4, dtype=torch.int64)
    probe("wide_product", out=out, a=a, b=b, constexprs={})
    assert out.tolist() == [2508718080, -1786249216, -3, -1]


def test_row_max_skips_nan_as_a_gpu_does() -> None:
    a, out = torch.arange(float(N)), torch.zeros(1)
    a[3] = float("nan")
    probe("row_max", a=a, out=out)
    assert out.item() == N - 1
    probe("row_max", a=torch.full((N,), float("nan")), out=out)
    assert out.isnan().all()


def test_a_reduction_over_a_pair_of_tensors() -> None:
    a, tops, sums = torch.randn(N, N), torch.zeros(N), torch.zeros(N)
    probe("softmax_state", a=a, tops=tops, sums=sums)
    assert torch.equal(tops, a.amax(1))
    torch.testing.assert_close(sums, torch.exp2(a - tops[:, None]).sum(1))


def test_a_scan_over_a_pair_of_tensors() -> None:
    a, b, out = torch.rand(N, N), torch.randn(N, N), torch.zeros(N, N)
    probe("recurrence", a=a, b=b, out=out)
    state, expected = torch.zeros(N), torch.zeros(N, N)
    for j in range(N):
        state = state * a[:, j] + b[:, j]
        expected[:, j] = state
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dot(dtype: torch.dtype) -> None:
    a, b = torch.randn(2, N, N).to(dtype)
    out = torch.zeros(N, N)
    probe("dot", a=a, b=b, out=out)
    torch.testing.assert_close(out, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casts_round_to_nearest_even(dtype: torch.dtype) -> None:
    """Every tie between neighbours near 1, both sides of it, overflow, infinities and NaN."""
    step = torch.finfo(dtype).eps
    ties = 1 + step * (torch.arange(5) + 0.5)
    special = torch.tensor([torch.finfo(torch.float32).max, float("inf"), -float("inf"), float("nan"), 1e-8, -0.0])
    values = torch.cat([ties, -(ties + 1e-6), special])
    out = torch.zeros(N, dtype=dtype)
    assert len(values) == N
    probe("cast", source=values, out=out)
    torch.testing.assert_close(out, values.to(dtype), rtol=0, atol=0, equal_nan=True)


def test_bf16_conversions_equal_those_of_torch() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20000, dtype=np.uint32)
    values = torch.from_numpy(bits.view(np.float32).copy())
    expected, got = values.bfloat16(), torch.from_numpy(f32_to_bf16(bits.view(np.float32)).view(np.int16).copy())
    torch.testing.assert_close(got.view(torch.bfloat16), expected, rtol=0, atol=0, equal_nan=True)
    every = np.arange(2**16, dtype=np.uint16)
    wide = torch.from_numpy(every.view(np.int16)).view(torch.bfloat16).float()
    torch.testing.assert_close(torch.from_numpy(bf16_to_f32(every)), wide, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("form", "dtype"), [(E4M3, torch.float8_e4m3fn), (E5M2, torch.float8_e5m2)])
def test_float8_conversions_equal_those_of_torch(form: Float8, dtype: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(dtype).float().numpy()
    np.testing.assert_array_equal(form.values, codes)
    largest = torch.finfo(dtype).max
    generator = torch.Generator().manual_seed(0)
    values = torch.cat([torch.randn(20000, generator=generator) * 2.0**k for k in (-14, -6, 0, 6)])
    values = torch.cat([values, torch.from_numpy(codes[np.isfinite(codes)])]).clamp(-largest, largest)
    np.testing.assert_array_equal(form.encode(values.numpy()), values.to(dtype).view(torch.uint8).numpy())
    beyond = np.array([np.inf, -np.inf, 2 * largest, np.nan], dtype=np.float32)
    np.testing.assert_array_equal(form.decode(form.encode(beyond)), np.array([largest, -largest, largest, np.nan]))


def test_a_program_of_several_launches_sees_the_corrections() -> None:
    a, out = torch.tensor([1.0, 2.0] * 8).bfloat16(), torch.zeros(N, dtype=torch.bfloat16)
    compared = torch.zeros(N, dtype=torch.bool)
    run_interpreted(PROBES, "narrow_arithmetic", (2,), {"a": a, "b": a, "out": out, "compared": compared}, {"N": N})
    assert torch.equal(out, -(a * a) + a)
