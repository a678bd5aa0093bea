"""Launches: arguments, views, counters, tiles, options, caching, and what the compiler refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from kgen import sim
from kgen.errors import KgenError

HEAD = '#include "kgen.cuh"\n'
COPY = (
    HEAD
    + """extern "C" KG_GLOBAL void copy(const float* x, float* y, i64 rows, i64 sx, i64 sy) {
    i64 i = blockIdx.x * blockDim.x + threadIdx.x;
    i64 r = floor_div(i, 4LL), c = floor_mod(i, 4LL);
    stg_if(y + r * sy + c, ldg_if(x + r * sx + c, r < rows), r < rows);
}
"""
)


def copy_args(x: torch.Tensor, y: torch.Tensor) -> list[sim.Arg]:
    strides = [sim.ScalarArg(name, "i64", t.stride(0)) for name, t in (("sx", x), ("sy", y))]
    return [sim.TensorArg("x", x, "in"), sim.TensorArg("y", y, "out"), sim.ScalarArg("rows", "i64", len(x)), *strides]


def test_strided_views_are_copied_and_their_gaps_stay(cache_dir: Path) -> None:
    kernel = sim.compile(COPY, "copy", cache_dir=cache_dir)
    x = torch.arange(80.0).view(10, 8)[:, 3:7]
    whole = torch.full((10, 6), -1.0)
    y = whole[:, 1:5]
    report = sim.launch(kernel, 1, 64, 0, copy_args(x, y))
    assert report.ok, str(report)
    assert torch.equal(y, x)
    assert torch.equal(whole[:, [0, 5]], torch.full((10, 2), -1.0))


def test_store_between_the_elements_of_a_view_is_a_fault(cache_dir: Path) -> None:
    kernel = sim.compile(COPY, "copy", cache_dir=cache_dir)
    x, y = torch.ones(10, 4), torch.zeros(10, 6)[:, :4]
    args = copy_args(x, y)
    args[4] = sim.ScalarArg("sy", "i64", 5)
    report = sim.launch(kernel, 1, 64, 0, args)
    assert [f.kind for f in report.faults] == ["out_of_bounds"]
    assert "element 5" in report.faults[0].message or "element 10" in report.faults[0].message
    assert "between the elements of the view" in report.faults[0].message


def test_registered_is_only_the_range_of_the_view(cache_dir: Path) -> None:
    kernel = sim.compile(COPY, "copy", cache_dir=cache_dir)
    x = torch.ones(10, 4)[:9]
    args = copy_args(x, torch.zeros(10, 4))
    args[2] = sim.ScalarArg("rows", "i64", 10)
    report = sim.launch(kernel, 1, 64, 0, args)
    assert report.faults[0].kind == "out_of_bounds" and "'x' (144 bytes)" in report.faults[0].message


def test_a_view_keeps_its_alignment(cache_dir: Path) -> None:
    text = (
        HEAD
        + """extern "C" KG_GLOBAL void wide(const float* x, float* y) {
    vec<float, 4> v = ldg_vec<4>(x + 4 * threadIdx.x);
    stg_vec<4>(y + 4 * threadIdx.x, v);
}
"""
    )
    kernel = sim.compile(text, "wide", cache_dir=cache_dir)
    base = torch.arange(140.0)
    for offset, ok in ((0, True), (4, True), (1, False), (2, False)):
        y = torch.zeros(128)
        x = base[offset : offset + 128]
        report = sim.launch(kernel, 1, 32, 0, [sim.TensorArg("x", x, "in"), sim.TensorArg("y", y, "out")])
        assert report.ok == ok, offset
        assert torch.equal(x, y) == ok
        if not ok:
            assert report.faults[0].kind == "misaligned"


def test_counters_and_sectors(cache_dir: Path) -> None:
    text = (
        HEAD
        + """extern "C" KG_GLOBAL void count(const float* x, float* y, float* s) {
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float v = ldg(x + 2 * i);
    sync_threads();
    v += ldg_if(x, t < 32);
    if (t % 2) v += ldg(x + t);
    stg(y + i, v);
    atomic_add(s, shfl_xor(v, 1));
}
"""
    )
    kernel = sim.compile(text, "count", cache_dir=cache_dir)
    x, y, s = torch.ones(256), torch.zeros(128), torch.zeros(1)
    args = [sim.TensorArg("x", x, "in"), sim.TensorArg("y", y, "out"), sim.TensorArg("s", s, "inout")]
    report = sim.launch(kernel, 2, 64, 0, args)
    assert report.ok, str(report)
    # Per block: 64 strided loads (2 warps x 8 sectors), 32 of one element (1 sector), 32 odd ones (2 x 4 sectors).
    assert report.counters.tensors["x"] == sim.TensorTraffic(
        2 * 4 * (64 + 32 + 32), 0, 0, 2 * (16 + 1 + 8), 0, 4 * (128 + 32)
    )
    assert report.counters.tensors["y"] == sim.TensorTraffic(0, 512, 0, 0, 16, 0, 512)
    assert report.counters.tensors["s"].atomics == 512
    assert (report.counters.barriers, report.counters.collectives, report.counters.blocks) == (2, 4, 2)
    quiet = sim.launch(kernel, 2, 64, 0, args, options=sim.Options(sectors=False))
    assert quiet.counters.tensors["x"] == dataclasses.replace(
        report.counters.tensors["x"], load_sectors=0, distinct_loaded=0
    )


def test_tiles_are_counted_once_per_block(cache_dir: Path) -> None:
    text = (
        HEAD
        + """extern "C" KG_GLOBAL void tiles(float* y, int n) {
    for (int k = 0; k <= blockIdx.x * 16; k += 16) KG_TILE(3, k, k == 16);
    if (threadIdx.x >= 32) KG_TILE(5, 7, false);
    stg(y + blockIdx.x * 64 + threadIdx.x, 0);
}
"""
    )
    kernel = sim.compile(text, "tiles", cache_dir=cache_dir)
    report = sim.launch(kernel, 3, 64, 0, [sim.TensorArg("y", torch.zeros(192), "out"), sim.ScalarArg("n", "i32", 3)])
    assert report.tiles == {3: (6, 2), 5: (3, 0)}
    assert [report.tile_starts(block, 3) for block in range(3)] == [[0], [0, 16], [0, 16, 32]]
    assert report.tile_rows.dtype == np.int64


def test_every_block_of_a_large_grid_runs_once(cache_dir: Path) -> None:
    body = "stg_if(y + blockIdx.x, i32(gridDim.x), threadIdx.x == 0);"
    text = HEAD + f'extern "C" KG_GLOBAL void mark(i32* y) {{ {body} }}\n'
    kernel = sim.compile(text, "mark", cache_dir=cache_dir)
    y = torch.zeros(70000, dtype=torch.int32)
    assert sim.launch(kernel, 70000, 32, 0, [sim.TensorArg("y", y, "out")]).ok
    assert torch.equal(y, torch.full_like(y, 70000))


def test_empty_grid_and_empty_tensors(cache_dir: Path) -> None:
    kernel = sim.compile(COPY, "copy", cache_dir=cache_dir)
    x, y = torch.zeros(0, 4), torch.zeros(0, 4)
    assert sim.launch(kernel, 1, 32, 0, copy_args(x, y)).ok
    assert sim.launch(kernel, 0, 32, 0, copy_args(x, y)).ok


def test_unwritten_register_arrays_hold_nan(cache_dir: Path) -> None:
    text = (
        HEAD
        + """extern "C" KG_GLOBAL void sum(const float* x, float* y, int n, int initialise) {
    float acc[8][4];
    if (initialise) for (int i = 0; i < 8; ++i) for (int j = 0; j < 4; ++j) acc[i][j] = 0;
    for (int k = 0; k < n; ++k)
        for (int i = 0; i < 8; ++i) for (int j = 0; j < 4; ++j) acc[i][j] = acc[i][j] * 0.0f + ldg(x + k);
    float total = 0;
    for (int i = 0; i < 8; ++i) for (int j = 0; j < 4; ++j) total += acc[i][j];
    stg(y + blockIdx.x * 32 + threadIdx.x, total);
}
"""
    )
    kernel = sim.compile(text, "sum", cache_dir=cache_dir)
    for initialise in (0, 1):
        x, y = torch.ones(4), torch.zeros(96)
        args = [sim.TensorArg("x", x, "in"), sim.TensorArg("y", y, "out"), sim.ScalarArg("n", "i32", 4)]
        assert sim.launch(kernel, 3, 32, 0, [*args, sim.ScalarArg("init", "i32", initialise)]).ok
        assert y.isnan().all() if not initialise else torch.equal(y, torch.full((96,), 32.0))


def test_sanitizer_finds_an_index_overrun(cache_dir: Path) -> None:
    text = (
        HEAD
        + """extern "C" KG_GLOBAL void over(float* y, int n) {
    float acc[4];
    for (int i = 0; i < n; ++i)
        acc[i] = i;  // the fifth is outside
    stg(y + threadIdx.x, acc[threadIdx.x % 4]);
}
"""
    )
    kernel = sim.compile(text, "over", cache_dir=cache_dir, sanitize=True)
    for n, ok in ((4, True), (5, False)):
        args = [sim.TensorArg("y", torch.zeros(32), "out"), sim.ScalarArg("n", "i32", n)]
        report = sim.launch(kernel, 1, 32, 0, args)
        assert report.ok == ok
    assert (report.faults[0].kind, report.faults[0].line) == ("crash", 5)
    assert "sanitizer" in report.faults[0].message


def test_deep_recursion_is_a_fault(cache_dir: Path) -> None:
    text = (
        HEAD
        + """__attribute__((noinline)) float deep(float v) { return v < 0 ? v : deep(v + 1) + v; }
extern "C" KG_GLOBAL void recurse(float* y) { stg(y + threadIdx.x, deep(1)); }
"""
    )
    kernel = sim.compile(text, "recurse", cache_dir=cache_dir)
    report = sim.launch(kernel, 1, 32, 0, [sim.TensorArg("y", torch.zeros(32), "out")])
    assert report.faults[0].kind == "crash" and "stack overflow" in report.faults[0].message


def test_arguments_must_fit_the_signature(cache_dir: Path) -> None:
    kernel = sim.compile(COPY, "copy", cache_dir=cache_dir)
    args = copy_args(torch.ones(2, 4), torch.ones(2, 4))
    with pytest.raises(KgenError, match=r"takes \(pointer, pointer, i64, i64, i64\).*sy: i32"):
        sim.launch(kernel, 1, 32, 0, [*args[:4], sim.ScalarArg("sy", "i32", 4)])
    with pytest.raises(KgenError, match="whole warps"):
        sim.launch(kernel, 1, 48, 0, args)
    with pytest.raises(ValueError, match="expanded"):
        sim.TensorArg("y", torch.ones(1, 4).expand(2, 4), "out")


def test_compile_errors_name_the_line(cache_dir: Path) -> None:
    with pytest.raises(sim.SimCompileError, match=r"\.cu:2:.*lost") as caught:
        sim.compile(HEAD + 'extern "C" KG_GLOBAL void bad(float* y) { stg(y, lost); }\n', "bad", cache_dir=cache_dir)
    assert "error" in str(caught.value)
    with pytest.raises(sim.SimCompileError, match="uninitialized"):
        text = HEAD + 'extern "C" KG_GLOBAL void bad(float* y) { float v; stg(y, v); }\n'
        sim.compile(text, "bad", cache_dir=cache_dir)


def test_the_cache_is_keyed_by_everything_that_is_compiled(cache_dir: Path, tmp_path: Path) -> None:
    body = 'extern "C" KG_GLOBAL void k(float* y) { stg(y + threadIdx.x, VALUE + EXTRA); }\n'
    text = HEAD + '#include "extra.cuh"\n' + body
    header = tmp_path / "extra.cuh"
    libraries = []
    for value, extra in ((1, 1), (2, 1), (2, 5), (1, 1)):
        header.write_text(f"#define EXTRA {extra}\n")
        kernel = sim.compile(text, "k", cache_dir=cache_dir, defines={"VALUE": value}, include_dirs=[tmp_path])
        y = torch.zeros(32)
        assert sim.launch(kernel, 1, 32, 0, [sim.TensorArg("y", y, "out")]).ok
        assert y[3] == value + extra
        libraries.append(kernel.library)
    assert libraries[0] == libraries[3] and len(set(libraries)) == 3


def test_kernels_of_two_caches_run_in_one_process(cache_dir: Path, tmp_path: Path) -> None:
    """The second cache has its own copy of the runtime library's file, but one runtime serves the process."""
    first = sim.compile(COPY, "copy", cache_dir=cache_dir)
    x, y = torch.ones(2, 4), torch.zeros(2, 4)
    assert sim.launch(first, 1, 32, 0, copy_args(x, y)).ok
    (tmp_path / first.runtime.name).write_bytes(first.runtime.read_bytes())
    second = sim.compile(COPY, "copy", cache_dir=tmp_path)
    assert second.library.parent == tmp_path
    assert sim.launch(second, 1, 32, 0, copy_args(x, y)).ok
