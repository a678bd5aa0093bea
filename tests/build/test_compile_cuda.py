"""CUDA text to cubins, by each compiler of this machine."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.build import Cache, CompileError, available_compilers, compile_cuda
from kgen.build import cuda as cuda_module
from kgen.build.elf import kernel_names, read_resources
from kgen.errors import KgenError

TEXT = """
#include <cuda_bf16.h>
#include "scale.cuh"
// reverses a block, größer skaliert
extern "C" __global__ void __launch_bounds__(128) reverse(float* out, const __nv_bfloat16* in, int n) {
  __shared__ float tile[128];
  float held[KEPT];
  for (int i = 0; i < KEPT; i++) held[i] = scaled(float(in[i * n + threadIdx.x]));
  tile[threadIdx.x] = held[INDEX];
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""
HEADER = "__device__ float scaled(float x) { return x * 2; }\n"
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* out, const float* in) {
  float x[96];
  #pragma unroll
  for (int i = 0; i < 96; i++) x[i] = in[i * 1024 + threadIdx.x];
  __syncthreads();
  float sum = 0;
  #pragma unroll
  for (int i = 0; i < 96; i++) { sum = sum * x[i] + x[95 - i]; out[i * 1024 + threadIdx.x] = sum * x[(i * 7) % 96]; }
}
"""
INDEXED = """
extern "C" __global__ void indexed(float* out, const int* in, int n) {
  float held[64] = {};
  for (int i = 0; i < n; i++) held[in[i] & 63] += held[in[i + 1] & 63] + 1;
  out[threadIdx.x] = held[threadIdx.x & 63];
}
"""
CONSTANTS = {"KEPT": 8, "INDEX": 3}


@pytest.fixture(params=["nvrtc", "nvcc"])
def compiler(request: pytest.FixtureRequest) -> cuda_module.Compiler:
    if request.param not in available_compilers():
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def include(tmp_path: Path) -> Path:
    folder = tmp_path / 'a b "q" $HOME %20 ü'
    folder.mkdir()
    (folder / "scale.cuh").write_text(HEADER)
    return folder


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_resources_are_read_back(compiler: cuda_module.Compiler, arch: str, cache: Cache, include: Path) -> None:
    binary = compile_cuda(
        TEXT, "reverse", arch=arch, defines=CONSTANTS, include_dirs=[include], cache=cache, compiler=compiler
    )
    found = binary.resources
    assert (binary.backend, binary.target, binary.kernel, binary.cached) == ("cuda", arch, "reverse", False)
    assert found.source == "ptxas"
    assert 8 <= found.registers <= 64
    assert (found.shared_bytes, found.spill_bytes, found.local_bytes) == (512, 0, 0)
    assert binary.seconds > 0


def test_a_dynamically_indexed_array_is_local_memory(compiler: cuda_module.Compiler, cache: Cache) -> None:
    binary = compile_cuda(INDEXED, "indexed", arch="sm_90", cache=cache, compiler=compiler)
    assert (binary.resources.local_bytes, binary.resources.spill_bytes) == (256, 0)


def test_spills_are_counted_and_the_cubin_agrees(compiler: cuda_module.Compiler, cache: Cache) -> None:
    binary = compile_cuda(SPILLING, "spill", arch="sm_90", cache=cache, compiler=compiler)
    assert binary.resources.registers == 32
    assert binary.resources.spill_bytes > binary.resources.local_bytes > 0
    recorded = read_resources(binary.path.read_bytes(), "spill")
    assert recorded.registers == binary.resources.registers
    assert recorded.local_bytes == binary.resources.local_bytes
    assert recorded.source == "elf"
    assert kernel_names(binary.path.read_bytes()) == ("spill",)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_the_cubin_agrees_with_the_report(
    compiler: cuda_module.Compiler, arch: str, cache: Cache, include: Path
) -> None:
    options = {"defines": CONSTANTS, "include_dirs": [include], "cache": cache, "compiler": compiler}
    binary = compile_cuda(TEXT, "reverse", arch=arch, **options)
    recorded = read_resources(binary.path.read_bytes(), "reverse")
    assert dataclasses.replace(recorded, source=binary.resources.source) == binary.resources


def test_the_second_build_hits(compiler: cuda_module.Compiler, cache: Cache, include: Path) -> None:
    def build(text: str = TEXT, **defines: int) -> bool:
        constants = {**CONSTANTS, **defines}
        options = {"defines": constants, "include_dirs": [include], "cache": cache, "compiler": compiler}
        return compile_cuda(text, "reverse", arch="sm_80", **options).cached

    assert not build()
    assert build()
    assert not build(KEPT=9)
    assert not build(TEXT.replace("127 -", "126 -"))
    (include / "scale.cuh").write_text(HEADER.replace("2", "3"))
    os.utime(include / "scale.cuh", (0, 0))
    assert not build()


def test_an_error_names_the_line(compiler: cuda_module.Compiler, cache: Cache, include: Path) -> None:
    text = TEXT.replace("held[INDEX];", "hold[INDEX];")
    with pytest.raises(CompileError) as caught:
        compile_cuda(text, "reverse", arch="sm_90a", defines=CONSTANTS, include_dirs=[include], compiler=compiler)
    assert caught.value.line_text.strip() == "tile[threadIdx.x] = hold[INDEX];"
    assert text.splitlines()[caught.value.line - 1] == caught.value.line_text
    assert '"hold" is undefined' in str(caught.value)


def test_entries_are_found_by_their_name_in_the_text(compiler: cuda_module.Compiler, cache: Cache) -> None:
    text = "__global__ void one(int* p) { *p = 1; }\n__global__ void two(int* p) { *p = 2; }\n"
    assert compile_cuda(text, "two", arch="sm_80", cache=cache, compiler=compiler).kernel == "_Z3twoPi"
    with pytest.raises(CompileError, match="_Z3onePi"):
        compile_cuda(text, "three", arch="sm_80", cache=cache, compiler=compiler)


def test_a_bad_architecture_is_refused(cache: Cache) -> None:
    with pytest.raises(KgenError, match="sm_90a"):
        compile_cuda(TEXT, "reverse", arch="hopper", cache=cache)


def test_without_a_compiler_the_remedies_are_named(monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
    monkeypatch.setattr(cuda_module.nvrtc, "version", lambda: None)
    monkeypatch.setattr(cuda_module, "nvcc_version", lambda: None)
    with pytest.raises(KgenError, match=r"kgen-dsl\[cu13\].*nvcc"):
        compile_cuda(TEXT, "reverse", arch="sm_80", cache=cache)


def test_keys_are_the_same_in_every_process_and_locale(tmp_path: Path) -> None:
    if not available_compilers():
        pytest.skip("no CUDA compiler is installed")
    include = tmp_path / "include"
    include.mkdir()
    (include / "scale.cuh").write_text(HEADER)
    (tmp_path / "text.cu").write_text(TEXT, encoding="utf-8")
    script = f"""
from pathlib import Path
from kgen.build import Cache, compile_cuda
text = Path({str(tmp_path / "text.cu")!r}).read_text(encoding="utf-8")
binary = compile_cuda(text, "reverse", arch="sm_80", defines={CONSTANTS}, include_dirs=[Path({str(include)!r})],
                      cache=Cache(Path({str(tmp_path / "shared")!r})))
print(binary.cached)
"""
    hits = []
    for seed, folder in (("0", tmp_path), ("1", include)):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C", "PYTHONUTF8": "0"}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        hits.append(done.stdout.strip())
    assert hits == ["False", "True"]
