"""Emitted Triton modules run by the interpreter against torch, and compiled for three targets without a GPU."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from tests.emit import kernels
from tests.emit.kernels import get, less, pos, size

from kgen.build.binary import Binary
from kgen.build.cache import Cache
from kgen.build.interpret import run_interpreted
from kgen.build.triton import TritonJob, compile_triton_batch
from kgen.emit.header import Header
from kgen.emit.names import constant_values
from kgen.emit.python import python_expr
from kgen.emit.triton import TritonOptions, print_program
from kgen.emit.triton_helpers import HELPERS
from kgen.ir import Buffer, Combine, GridAxis, Kernel, Label, Let, LoadTile, Store, TileAxis, TileReduce
from kgen.terms import Const, Expr, Get, Var, apply
from kgen.types import BF16, BOOL, F16, F32, F64, I32, DType
from kgen.verify.interpreter import ensure_correct

HEAD = Header("op", "", "specs/op.yaml", "00", "kgen gen specs/op.yaml")
LABEL = Label(("s1",), "state")
INF = math.inf


@pytest.fixture(autouse=True, scope="module")
def _correct_interpreter() -> None:
    ensure_correct()


def run(
    kernel: Kernel, folder: Path, tensors: Mapping[str, torch.Tensor], sizes: Mapping[str, int], **params: float
) -> None:
    """Print `kernel`, run all its programs in the interpreter, results in place."""
    path = folder / f"{kernel.name}.py"
    path.write_text(print_program(kernels.program(kernel), TritonOptions(), HEAD))
    args: dict[str, object] = {}
    for a in kernel.args:
        match a.kind:
            case "tensor":
                args[a.name] = tensors[a.name]
            case "stride":
                args[a.name] = tensors[a.buffer or ""].stride(a.dim or 0)
            case "size":
                args[a.name] = sizes[a.name]
            case "param":
                args[a.name] = params[a.name]
    grid = math.prod(eval(python_expr(g.count), dict(sizes)) for g in kernel.grid)
    run_interpreted(path, kernel.name, (grid,), args, constant_values(kernel))


TOLERANCE = {F32: 1e-5, F16: 2e-3, BF16: 1.6e-2, F64: 1e-12}
TORCH = {F32: torch.float32, F16: torch.float16, BF16: torch.bfloat16, F64: torch.float64}


def close(a: torch.Tensor, b: torch.Tensor, dtype: DType = F32, scale: float = 1) -> None:
    bound = TOLERANCE[dtype] * scale
    torch.testing.assert_close(a.double(), b.double(), rtol=bound, atol=bound, equal_nan=True)


def random(*shape: int, dtype: DType = F32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(TORCH[dtype])


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_vector_add(tmp_path: Path, dtype: DType) -> None:
    x, w = random(300, dtype=dtype), random(300, dtype=dtype, seed=1)
    y = torch.full((310,), 7, dtype=x.dtype)
    run(kernels.vector_add(dtype, tile=128), tmp_path, {"x": x, "w": w, "y": y[:300]}, {"N": 300})
    assert torch.equal(y[:300], x + w) and (y[300:] == 7).all()


@pytest.mark.parametrize(("rows", "unit"), [(1, True), (2, False)])
def test_row_softmax(tmp_path: Path, rows: int, unit: bool) -> None:
    x = random(5, 100) if unit else random(100, 5).T
    x[2, 3], x[1, 4], x[3] = math.nan, -INF, -INF
    y = torch.full_like(x, 7)
    run(kernels.row_softmax(tile=128, rows=rows, unit=unit), tmp_path, {"x": x, "y": y}, {"M": 5, "N": 100})
    close(y, x.softmax(1))


def test_argmax_takes_the_first_of_equals_and_nan(tmp_path: Path) -> None:
    x = random(40, 70).round()
    x[3, 4], x[9, 4], x[:, 5] = math.nan, math.nan, -INF
    i = torch.full((70,), 7)
    run(kernels.column_argmax(), tmp_path, {"x": x, "i": i}, {"M": 40, "N": 70})
    assert torch.equal(i, x.argmax(0))


@pytest.mark.parametrize(("dtype", "group", "unit"), [(F32, 4, 1), (F16, 2, 0), (BF16, 0, None)])
def test_ragged_matmul(tmp_path: Path, dtype: DType, group: int, unit: int | None) -> None:
    x, bias = random(70, 40, dtype=dtype), random(50, dtype=dtype, seed=2)
    w = random(40, 50, dtype=dtype, seed=1) if unit == 1 else random(50, 40, dtype=dtype, seed=1).T
    w = torch.stack((w, w), 2)[:, :, 1] if unit is None else w
    y = torch.full((70, 50), 7, dtype=x.dtype)
    kernel = kernels.matmul(dtype, (32, 16, 16), unit, group=group)
    run(kernel, tmp_path, {"x": x, "w": w, "bias": bias, "y": y}, {"M": 70, "N": 50, "K": 40})
    close(y, (x.double() @ w.double() + bias.double()).relu(), dtype, 8)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    s = q.double() @ k.double().mT * 0.125
    m, n = s.shape[1:]
    if causal:
        s = s.masked_fill(torch.arange(n) > torch.arange(m)[:, None] + n - m, -INF)
    return s.softmax(-1).nan_to_num(0) @ v.double(), s.logsumexp(-1)


@pytest.mark.parametrize(
    ("m", "n", "causal", "dtype"),
    [(40, 100, True, F32), (100, 40, True, F32), (40, 64, False, F16), (33, 70, True, BF16)],
)
def test_attention_of_two_segments(tmp_path: Path, m: int, n: int, causal: bool, dtype: DType) -> None:
    q, k, v = (
        random(2, m, 16, dtype=dtype),
        random(2, n, 16, dtype=dtype, seed=1),
        random(2, n, 16, dtype=dtype, seed=2),
    )
    o, lse = torch.full_like(q, 7), torch.full((2, m), 7.0)
    kernel = kernels.attention(dtype, 32, 32, 16, causal=causal)
    run(kernel, tmp_path, {"q": q, "k": k, "v": v, "o": o, "lse": lse}, {"H": 2, "M": m, "N": n}, scale=0.125)
    want, want_lse = attention(q, k, v, causal)
    close(o, want, dtype, 4)
    close(lse, want_lse, F32, 10)


def layer_norm(dtype: DType = F32, tile: int = 64) -> Kernel:
    """y[m, n] = (x - mean) / sqrt(var + eps) by Welford states merged over the row; `all_ok[m]`: all of x finite."""
    dims = (size("M"), size("N"))
    buffers = {n: Buffer(n, dims, dtype, "in" if n == "x" else "out", 1, False) for n in ("x", "y")}
    buffers["ok"] = Buffer("ok", (size("M"),), BOOL, "out", 0, False)
    x, inside = Var("x_t", dtype, ("n",)), less(pos("n"), size("N"))
    zero, one = Const(F64 if dtype is F64 else F32, 0.0), Const(F64 if dtype is F64 else F32, 1.0)
    kind = zero.dtype
    count, mean, m2 = (Var(n, kind, ()) for n in ("count", "mean", "m2"))

    def side(name: str) -> Expr:
        return Get(kind, Var(name, kind, ()))

    def ratio(a: Expr, b: Expr) -> Expr:
        return apply("where", apply("eq", b, zero, dtype=BOOL), zero, apply("div", a, b), dtype=kind)

    delta = apply("sub", side("b.mu"), side("a.mu"))
    merge = (
        ("n", apply("add", side("a.n"), side("b.n"))),
        ("mu", apply("add", side("a.mu"), apply("mul", delta, ratio(side("b.n"), side("n"))))),
        (
            "M2",
            apply(
                "add",
                apply("add", side("a.M2"), side("b.M2")),
                apply("mul", apply("mul", delta, delta), ratio(apply("mul", side("a.n"), side("b.n")), side("n"))),
            ),
        ),
    )
    ok = Var("ok_t", BOOL, ())
    finite = apply("eq", apply("sub", get(x), get(x)), zero, dtype=BOOL)
    rstd = Var("rstd", kind, ())
    eps = Const(kind, 1e-5)
    y = apply("mul", apply("sub", get(x), get(mean)), get(rstd))
    body = (
        LoadTile(Label(("s1",), "load"), x, "x", (pos("m"), pos("n")), inside),
        Combine(
            LABEL,
            (count, mean, m2),
            (apply("where", inside, one, zero, dtype=kind), get(x), zero),
            "n",
            ("n", "mu", "M2"),
            merge,
        ),
        TileReduce(LABEL, ok, "all", finite, "n"),
        Let(LABEL, rstd, apply("rsqrt", apply("add", apply("div", get(m2), get(count)), eps))),
        Store(Label(("s2",), "store"), "y", (pos("m"), pos("n")), kernels.cast(dtype, y), inside),
        Store(Label(("s3",), "store"), "ok", (pos("m"),), get(ok), None),
    )
    args = kernels.arguments(buffers, ("M", "N"))
    axes, grid = {"n": TileAxis("n", tile)}, (GridAxis("m", 1, size("M")),)
    return Kernel("layer_norm", grid, axes, args, buffers, {}, body, I32)


@pytest.mark.parametrize("dtype", [F32, BF16, F64])
def test_layer_norm_by_merged_states(tmp_path: Path, dtype: DType) -> None:
    x = random(4, 50, dtype=dtype) + 3
    x[2, 7] = INF
    y, ok = torch.full_like(x, 7), torch.zeros(4, dtype=torch.bool)
    run(layer_norm(dtype), tmp_path, {"x": x, "y": y, "ok": ok}, {"M": 4, "N": 50})
    wide = x.double()
    want = (wide - wide.mean(1, keepdim=True)) * (wide.var(1, keepdim=True, unbiased=False) + 1e-5).rsqrt()
    rows = [0, 1, 3]
    close(y[rows], want[rows], dtype, 10)
    assert ok.tolist() == [True, True, False, True]


INTEGERS = [(-7, 2), (7, 2), (-8, 3), (5, -3), (-6, 3), (0, 5), (2**31 - 1, 2), (-(2**31), 3)]


def test_integer_division_floors(tmp_path: Path) -> None:
    buffers = {n: Buffer(n, (size("N"),), I32, "in" if n in "ab" else "out", 0, False) for n in ("a", "b", "q", "r")}
    a, b = Var("a_t", I32, ("i",)), Var("b_t", I32, ("i",))
    inside = less(pos("i"), size("N"))
    body = (
        LoadTile(LABEL, a, "a", (pos("i"),), inside, 1),
        LoadTile(LABEL, b, "b", (pos("i"),), inside, 1),
        Store(LABEL, "q", (pos("i"),), apply("floordiv", get(a), get(b)), inside),
        Store(LABEL, "r", (pos("i"),), apply("mod", get(a), get(b)), inside),
    )
    args, grid = kernels.arguments(buffers, ("N",)), (GridAxis("i", 16, Const(I32, 1)),)
    kernel = Kernel("divide", grid, {"i": TileAxis("i", 16)}, args, buffers, {}, body, I32)
    left, right = (torch.tensor(v, dtype=torch.int32) for v in zip(*INTEGERS, strict=True))
    q, r = torch.zeros_like(left), torch.zeros_like(left)
    run(kernel, tmp_path, {"a": left, "b": right, "q": q, "r": r}, {"N": len(INTEGERS)})
    assert q.tolist() == [x // y for x, y in INTEGERS] and r.tolist() == [x % y for x, y in INTEGERS]


CASES = {
    "vector_add": kernels.vector_add,
    "row_softmax": functools.partial(kernels.row_softmax, BF16, 256, 2),
    "column_argmax": kernels.column_argmax,
    "matmul": kernels.matmul,
    "matmul f16": functools.partial(kernels.matmul, F16, w_unit=0),
    "attention": functools.partial(kernels.attention, BF16, 64, 32, 32),
    "layer_norm": layer_norm,
    "layer_norm f64": functools.partial(layer_norm, F64),
}


def test_every_kernel_compiles_for_every_target(tmp_path: Path) -> None:
    jobs = [_job(make(), target) for make in CASES.values() for target in ("sm_80", "sm_90", "gfx942")]
    results = compile_triton_batch(jobs, Cache(tmp_path))
    failed = [f"{j.function} {j.target}: {r}" for j, r in zip(jobs, results, strict=True) if not isinstance(r, Binary)]
    assert not failed, "\n\n".join(failed)


def _job(kernel: Kernel, target: str) -> TritonJob:
    source = print_program(kernels.program(kernel), TritonOptions({"attention": 2}), HEAD)
    signature = {a.name: ("*" if a.kind == "tensor" else "") + a.dtype.triton for a in kernel.args}
    return TritonJob(source, kernel.name, signature, constant_values(kernel), target=target)


def test_power_is_that_of_c(tmp_path: Path) -> None:
    """The helper for `**`, by a module that calls it: signs, zeros, NaN, and f32 results right to rounding."""
    code = "import triton\nimport triton.language as tl\n\n\n" + HELPERS["power"]
    code += "\n\n@triton.jit\ndef go(x, y, z, N: tl.constexpr):\n    i = tl.arange(0, N)\n"
    code += "    tl.store(z + i, power(tl.load(x + i), tl.load(y + i)).to(tl.float32))\n"
    (tmp_path / "power.py").write_text(code)
    pairs = [(2, 10), (-2, 3), (-2, 2), (-2, 0.5), (0, 0), (0, 2), (7.3, 11.9), (1e-3, -9.7)]
    x, y = (torch.tensor(v, dtype=torch.float32) for v in zip(*pairs, strict=True))
    z = torch.zeros_like(x)
    run_interpreted(tmp_path / "power.py", "go", (1,), {"x": x, "y": y, "z": z}, {"N": len(pairs)})
    torch.testing.assert_close(z, x.double().pow(y.double()).float(), rtol=1e-7, atol=0, equal_nan=True)
