"""Counters of memory accesses: wavefronts and sectors per line, distinct bytes, special functions."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
import torch

from kgen import sim

from .hand_kernels import attention_case
from .test_sim_kernels import check

HEAD = (
    '#include "kgen.cuh"\nextern "C" KG_GLOBAL void count(const float* x, float* y, int pitch) {\n    KG_SMEM(smem);\n'
)


def run(body: str, cache_dir: Path, pitch: int = 0) -> sim.Counters:
    kernel = sim.compile(HEAD + body + "}\n", "count", cache_dir=cache_dir)
    args = [sim.TensorArg("x", torch.ones(4096), "in"), sim.TensorArg("y", torch.zeros(64), "out")]
    options = sim.Options(races=False, outputs=False)
    report = sim.launch(kernel, 1, 32, 32768, [*args, sim.ScalarArg("pitch", "i32", pitch)], options=options)
    assert report.ok, str(report)
    return report.counters


def wavefronts(pitch: int, size: int) -> int:
    """Return what 32 lanes take that access `size` bytes every `pitch` bytes: by group, the busiest bank's words."""
    lanes, total = 32 // max(1, size // 4), 0
    for first in range(0, 32, lanes):
        starts = [lane * pitch for lane in range(first, first + lanes)]
        words = {(start + byte) // 4 for start in starts for byte in range(size)}
        total += max(Counter(word % 32 for word in words).values())
    return total


@pytest.mark.parametrize(("kind", "size"), [("u8", 1), ("bf16", 2), ("float", 4), ("float2", 8), ("float4", 16)])
@pytest.mark.parametrize("steps", [0, 1, 2, 3, 8, 32, 33])
def test_wavefronts_of_strided_accesses(kind: str, size: int, steps: int, cache_dir: Path) -> None:
    value = {"float2": "vec<float, 2>", "float4": "vec<float, 4>"}.get(kind, kind)
    body = f"    u32 a = smem + threadIdx.x * pitch;\n    sts<{value}>(a, {value}{{}});\n    lds<{value}>(a);\n"
    counters = run(body, cache_dir, steps * size)
    ideal, expected = max(1, size // 4), wavefronts(steps * size, size)
    assert counters.lines == (
        sim.LineAccess(5, "shared_store", 1, expected, ideal),
        sim.LineAccess(6, "shared_load", 1, expected, ideal),
    )
    assert counters.bank_conflicts == 2 * (expected - ideal)


def test_lines_of_global_accesses(cache_dir: Path) -> None:
    body = """    int t = threadIdx.x;
    float v = ldg(x + t) + ldg(x + 8 * t);
    for (int j = 0; j < 3; ++j) stg_if(y + 2 * t, v, t < 16);
    cp_async16(smem + 16 * t, x + 4 * t, t < 8);
    vec<float, 4> w = ldg_vec<4>(x + 4);
"""
    counters = run(body, cache_dir)
    assert counters.lines == (
        sim.LineAccess(5, "load", 2, 4 + 32, 4 + 4),
        sim.LineAccess(6, "store", 3, 3 * 4, 3 * 2),
        sim.LineAccess(7, "cp_async", 1, 4, 4),
        sim.LineAccess(8, "load", 1, 1, 1),
    )
    x = counters.tensors["x"]
    assert (x.loaded, x.load_sectors) == (4 * 64 + 16 * 8 + 16 * 32, 4 + 32 + 4 + 1)
    assert x.distinct_loaded == 4 * len({*range(32), *range(0, 256, 8)})
    assert counters.tensors["y"].distinct_stored == 4 * 16


def test_the_head_of_a_copy_counts_by_what_exists(cache_dir: Path) -> None:
    body = """    int t = threadIdx.x;
    cp_async16_head(smem + 16 * t, x + 4064 + 4 * t, t < 7 ? 16 : t == 7 ? 12 : -4);
    stg(y + t, 0);
"""
    x = run(body, cache_dir).tensors["x"]
    assert (x.loaded, x.distinct_loaded, x.load_sectors) == (7 * 16 + 12, 7 * 16 + 12, 4)


def test_special_functions_are_counted_by_call(cache_dir: Path) -> None:
    body = """    float v = ldg(x + threadIdx.x);
    v = ex2(v) + lg2(v) + expf(v) + rsqrtf(v) + sqrtf(v) + tanhf(v) + fmaf(v, v, v) + fabsf(v);
    if (threadIdx.x < 4) v += ::sinf(v);
    stg(y + threadIdx.x, v);
"""
    assert run(body, cache_dir).special_functions == 32 * 6 + 4


def test_a_missing_permutation_shows_as_bank_conflicts(cache_dir: Path) -> None:
    case = attention_case(1, 128, 64, False)
    good = check(case, cache_dir).counters
    assert good.bank_conflicts == 0
    plain = dataclasses.replace(case, text=case.text.replace("(chunk ^ (row & 7))", "chunk"))
    assert plain.text != case.text
    bad = check(plain, cache_dir).counters
    loads = [sum(row.pieces for row in found.lines if row.access == "ldmatrix") for found in (good, bad)]
    assert loads[1] == 8 * loads[0]  # eight rows of 128 bytes begin in one bank


def test_attention_stores_waste_half_of_each_sector(cache_dir: Path) -> None:
    counters = check(attention_case(1, 128, 64, False), cache_dir).counters
    stores = [row for row in counters.lines if row.access == "store" and row.instructions > 100]
    assert [row.pieces / row.ideal for row in stores] == [2.0]
    for name in "qkvo":
        found = counters.tensors[name]
        assert found.distinct_loaded + found.distinct_stored == 128 * 64 * 2
