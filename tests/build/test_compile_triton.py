"""Triton text to binaries of three targets, without a GPU."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from kgen.build import Binary, Cache, CompileError, TritonJob, compile_triton, compile_triton_batch
from kgen.build.triton import parse_target
from kgen.errors import KgenError

TARGETS = ("sm_80", "sm_90", "gfx942")
SOURCE = '''"""Sums rows, größer skaliert."""
import triton
import triton.language as tl


@triton.jit
def doubled(x):
    return x * 2


@triton.jit
def row_sums(x, out, columns, BLOCK: tl.constexpr, DTYPE: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += doubled(tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32))
    tl.store(out + row, tl.sum(total, axis=0).to(DTYPE))
'''
JOB = TritonJob(
    SOURCE,
    "row_sums",
    {"x": "*bf16", "out": "*fp32", "columns": "i32"},
    {"BLOCK": 256, "DTYPE": "tl.float32"},
    {"x": 16, "columns": 16},
)
FAULTY = {
    "unknown name": (SOURCE.replace("tl.sum(total, axis=0)", "tl.summ(total)"), "tl.summ(total)"),
    "in a called function": (SOURCE.replace("x * 2", "x * 2 + missing"), "return x * 2 + missing"),
    "syntax": (SOURCE.replace("total += ", "total +== "), "total +=="),
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("triton") / 'a b "q" $HOME ü')


@pytest.fixture(scope="module")
def results(cache: Cache) -> list[Binary | CompileError]:
    """One batch for most tests: three targets, three faulty texts, one that ends its process, one after it."""
    good = [dataclasses.replace(JOB, target=target) for target in TARGETS]
    faulty = [dataclasses.replace(JOB, source=source) for source, _ in FAULTY.values()]
    abrupt = dataclasses.replace(JOB, source=SOURCE + "\nimport os\nos.write(2, b'last words')\nos.abort()\n")
    after = dataclasses.replace(JOB, num_warps=8)
    return compile_triton_batch([*good, *faulty, abrupt, after], cache)


@pytest.mark.parametrize("target", TARGETS)
def test_resources_are_read_back(results: list[Binary | CompileError], target: str) -> None:
    binary = results[TARGETS.index(target)]
    assert isinstance(binary, Binary)
    assert (binary.backend, binary.target, binary.kernel, binary.cached) == ("triton", target, "row_sums", False)
    assert binary.path.read_bytes().startswith(b"\x7fELF")
    found = binary.resources
    assert found.source == ("amdgcn" if target == "gfx942" else "ptxas")
    assert 4 <= found.registers <= 128
    assert 0 < found.shared_bytes <= 4096
    assert (found.spill_bytes, found.local_bytes) == (0, 0)


@pytest.mark.parametrize("fault", FAULTY)
def test_an_error_names_the_line(results: list[Binary | CompileError], fault: str) -> None:
    error = results[len(TARGETS) + list(FAULTY).index(fault)]
    assert isinstance(error, CompileError)
    assert FAULTY[fault][1] in error.line_text
    assert "sm_90" in str(error)


def test_a_compiler_that_dies_fails_alone(results: list[Binary | CompileError]) -> None:
    died, after = results[-2:]
    assert isinstance(died, CompileError)
    assert "last words" in str(died)
    assert isinstance(after, Binary)


def test_the_second_build_hits(cache: Cache, results: list[Binary | CompileError]) -> None:
    binary = compile_triton(JOB.source, JOB.function, JOB.signature, JOB.constexprs, attrs=JOB.attrs, cache=cache)
    assert binary.cached
    first = results[TARGETS.index("sm_90")]
    assert isinstance(first, Binary)
    assert binary == dataclasses.replace(first, cached=True)


@pytest.mark.parametrize(
    "change", [{"num_warps": 2}, {"constexprs": {"BLOCK": 512, "DTYPE": "tl.float32"}}, {"attrs": {}}]
)
def test_every_option_is_in_the_key(
    change: dict[str, object], cache: Cache, results: list[Binary | CompileError]
) -> None:
    changed = compile_triton_batch([dataclasses.replace(JOB, **change)], cache)[0]
    assert isinstance(changed, Binary)
    assert not changed.cached


def test_compiles_although_this_process_interprets(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(SOURCE, encoding="utf-8")
    script = f"""
import os
os.environ["TRITON_INTERPRET"] = "1"
import triton
from pathlib import Path
from kgen.build import Cache, compile_triton
source = Path({str(tmp_path / "kernel.py")!r}).read_text(encoding="utf-8")
binary = compile_triton(source, "row_sums", {dict(JOB.signature)}, {dict(JOB.constexprs)}, target="sm_80",
                        cache=Cache(Path({str(tmp_path / "cache")!r})))
print(binary.kernel)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "row_sums"


def test_targets() -> None:
    assert parse_target("sm_80") == ("cuda", 80)
    assert parse_target("sm_90a") == ("cuda", 90)
    assert parse_target("gfx90a") == ("hip", "gfx90a")
    with pytest.raises(KgenError, match="gfx942"):
        parse_target("h200")
