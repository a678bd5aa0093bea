"""The emitted CUDA text itself: labels, names, widths, frame; and that it compiles without spills."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.emit import kernels, kernels_edge
from tests.emit.cuda_sim import HEADER, launch, run

from kgen import resources
from kgen.build.ptxas import parse_report
from kgen.emit.cuda import print_kernel, print_program
from kgen.emit.cuda_expr import CudaPrinter, conversion, literal
from kgen.emit.cuda_wrap import WIDTH
from kgen.emit.labels import labels
from kgen.emit.printer import Text
from kgen.ir import Kernel, Loop, Program
from kgen.schedule import plan
from kgen.schedule_homes import operations
from kgen.terms import Const, Size, apply
from kgen.types import BF16, BOOL, F16, F32, F64, I32, I64, U8

ALL = {
    k.name: k
    for k in (
        kernels.vector_add(),
        kernels.row_softmax(BF16, 1024, 4, True, True),
        kernels.column_argmax(),
        kernels.matmul(BF16, (64, 64, 32), 0, True),
        kernels.attention(BF16, aligned=True),
        kernels_edge.quantised_matmul(),
        kernels_edge.rotated_product(),
        kernels_edge.gradient_products(),
        kernels_edge.squared_product(),
        kernels_edge.gather_rows(),
        kernels_edge.integer_folds(),
        kernels_edge.row_moments(),
        kernels_edge.middle_sum(),
        kernels_edge.transposed_copy(),
        kernels_edge.merge_parts(),
        kernels_edge.state_in_memory(),
    )
}


def text_of(kernel: Kernel) -> str:
    return print_kernel(kernel, plan(kernel, arch="sm_80", threads=None), HEADER)


@pytest.mark.parametrize("name", ALL)
def test_every_operation_is_labelled(name: str) -> None:
    kernel = ALL[name]
    wanted = {op.label for op in operations(kernel.body)}
    assert set(labels(text_of(kernel))) == wanted


@pytest.mark.parametrize("name", ALL)
def test_lines_are_short_and_names_are_used(name: str) -> None:
    text = text_of(ALL[name])
    assert max(map(len, text.splitlines())) <= WIDTH
    assert all(line == line.rstrip() for line in text.splitlines())
    for declared in re.findall(r"(?:constexpr|const) (?:int|u32) (\w+) =", text):
        assert len(re.findall(rf"\b{declared}\b", text)) > 1, declared


def test_text_is_a_function_of_its_input() -> None:
    assert text_of(kernels.attention()) == text_of(kernels.attention())


def test_names_that_c_or_kgen_own_are_changed(cache_dir: Path) -> None:
    """A tensor called `vec`, another called `do`: legal in a spec, not in C++."""
    plain = kernels.vector_add()
    rename = {"x": "vec", "w": "do"}
    kernel = replace(
        plain,
        args=tuple(
            replace(a, name=rename.get(a.name, a.name), buffer=rename.get(a.buffer or "", a.buffer)) for a in plain.args
        ),
        buffers={rename.get(n, n): replace(b, name=rename.get(n, n)) for n, b in plain.buffers.items()},
        body=tuple(replace(op, buffer=rename.get(op.buffer, op.buffer)) for op in plain.body),  # type: ignore[attr-defined, type-var]
    )
    x, w, y = torch.randn(100), torch.randn(100), torch.empty(100)
    run(kernel, {"vec": x, "do": w, "y": y}, {"N": 100}, cache_dir)
    assert torch.equal(y, x + w)


def test_a_file_holds_all_kernels_and_each_helper_once() -> None:
    program = Program("all", {}, tuple(ALL.values()))
    plans = {k.name: plan(k, arch="sm_80", threads=None) for k in ALL.values()}
    text = print_program(program, plans, HEADER)
    assert text.count('extern "C" KG_GLOBAL_BOUNDS(') == len(ALL)
    assert text.count("vec<T, N> ldg_head(") == 1
    assert text.count("struct VIState {") == 1
    assert text.index("void vector_add(") < text.index("void in_memory(")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_text_compiles_for_gpus_without_spills(arch: str, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    names = ("vector_add", "row_softmax", "column_argmax", "matmul", "attention", "quantised")
    program = Program("some", {}, tuple(ALL[n] for n in names))
    plans = {n: plan(ALL[n], arch=arch, threads=None) for n in names}
    source = tmp_path / "all.cu"
    source.write_text(print_program(program, plans, HEADER))
    folder = resources.path("templates") / "cuda"
    command = [
        "nvcc",
        "-std=c++17",
        f"-arch={arch}",
        "-Xptxas",
        "-v",
        f"-I{folder}",
        "-cubin",
        "-o",
        "all.cubin",
        "all.cu",
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    found = parse_report(done.stderr)
    assert set(found) == set(names)
    assert {n: r.spill_bytes for n, r in found.items() if r.spill_bytes} == {}


def barriers(text: str) -> list[int]:
    return [m.start() for m in re.finditer(r"sync_threads\(\);", text)]


@pytest.mark.parametrize("which", range(5))
def test_every_barrier_is_needed(which: int, cache_dir: Path) -> None:
    """Each barrier of attention (two in each of two segments) and of a cross-warp fold: without it a fault is found."""
    if which < 4:
        kernel = kernels.attention(BF16, aligned=True)
        q = torch.randn(1, 80, 64).bfloat16()
        tensors = {"q": q, "k": q, "v": q, "o": torch.empty_like(q), "lse": torch.empty(1, 80)}
        values = {"H": 1, "M": 80, "N": 80, "scale": 0.1}
    else:
        kernel, which = kernels.row_softmax(), 0
        tensors, values = {"x": torch.randn(1, 200), "y": torch.empty(1, 200)}, {"M": 1, "N": 200}
    made = plan(kernel, arch="sm_80", threads=None)
    text = print_kernel(kernel, made, HEADER)
    at = barriers(text)[which]
    mutant = text[:at] + ";" + text[at + len("sync_threads();") :]
    report = launch(kernel, made, mutant, tensors, values, cache_dir)
    assert {f.kind for f in report.faults} & {"race", "uninitialised"}


def test_literals() -> None:
    assert literal(F32, 0.1) == "0.1f"
    assert literal(F32, float("-inf")) == "-INF"
    assert literal(F64, float("inf")) == "double(INF)"
    assert literal(F32, float("nan")) == "QUIET_NAN"
    assert literal(I64, -(2**63)) == "(-9223372036854775807LL - 1)"
    assert literal(I32, -5) == "-5"
    assert literal(BOOL, 1) == "true"
    assert literal(BF16, 1.0) == "from_f32<bf16>(1.0f)"


def test_conversions() -> None:
    assert conversion(F32, BF16, "x") == "to_f32(x)"
    assert conversion(F16, F32, "x") == "from_f32<f16>(x)"
    assert conversion(I32, F32, "x") == "convert<int>(x)"
    assert conversion(F32, U8, "x") == "float(x)"
    assert conversion(I64, I32, "x") == "i64(x)"
    assert conversion(I32, I32, "x") == "x"


def test_expressions_keep_only_needed_parentheses() -> None:
    printer = CudaPrinter(lambda e: Text(e.name))  # type: ignore[attr-defined]
    a, b = Size(I32, "a"), Size(I32, "b")
    product = apply("mul", apply("add", a, b), a)
    assert printer.text(product) == "(a + b) * a"
    assert printer.text(apply("sub", a, apply("sub", b, Const(I32, 1)))) == "a - (b - 1)"
    both = apply("and", apply("lt", a, b, dtype=BOOL), apply("eq", a, b, dtype=BOOL))
    assert printer.text(both) == "a < b && a == b"
    assert printer.text(apply("bitand", a, apply("shr", a, b))) == "a & a >> b"


def test_loops_are_numbered_and_masked_tiles_marked() -> None:
    kernel = kernels.attention()
    text = text_of(kernel)
    loops = [op for op in operations(kernel.body) if isinstance(op, Loop)]
    assert len(loops) == 1
    assert re.findall(r"KG_TILE\((\d+), n_start, (\w+)\)", text) == [("0", "false"), ("0", "true")]
