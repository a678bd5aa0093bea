"""Tile IR as Triton text: each operation, the grid, addresses, and whole modules."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from pathlib import Path

import pytest
from tests.emit import kernels

from kgen.emit.diff import groups
from kgen.emit.dump import dump_program
from kgen.emit.grid import decode
from kgen.emit.header import Header
from kgen.emit.labels import labels
from kgen.emit.names import constant_values, names_of
from kgen.emit.python import python_expr
from kgen.emit.render import render
from kgen.emit.traverse import walk_ops
from kgen.emit.triton import ModuleView, TritonOptions, print_program
from kgen.emit.triton_ops import Body
from kgen.ir import (
    Arg,
    Assign,
    Buffer,
    Combine,
    Dot,
    GridAxis,
    Init,
    Kernel,
    Label,
    Let,
    LoadTile,
    Loop,
    Op,
    Segment,
    Store,
    TileAxis,
    TileReduce,
)
from kgen.terms import Const, Expr, Get, Pos, Size, Start, Var, apply, integer, rewrite
from kgen.types import BOOL, F16, F32, F64, I32, I64, DType

HEAD = Header("op", "", "specs/op.yaml", "00", "kgen gen specs/op.yaml", (("s1", "y[i] = x[i] + w[i]"),))
LABEL = Label(("s1",), "state")
INF = float("inf")
ONE = Const(F32, 1.0)
TILES = {"m": 32, "n": 64, "d": 16}
M, N = Pos(I32, "m"), Pos(I32, "n")


def buffer(name: str, dims: int, unit: bool = True) -> Buffer:
    return Buffer(name, tuple(Size(I32, s) for s in "ABC"[:dims]), F32, "in", dims - 1 if unit else None, True)


def kernel(
    body: tuple[Op, ...], *buffers: Buffer, offsets: DType = I32, grid: tuple[GridAxis, ...] | None = None
) -> Kernel:
    args = [Arg("tensor", b.name, b.dtype, b.name) for b in buffers if b.role != "workspace"]
    args += [
        Arg("stride", f"{b.name}_s{d}", offsets, b.name, d)
        for b in buffers
        for d in range(len(b.dims))
        if d != b.unit and b.role != "workspace"
    ]
    args += [Arg("tensor", b.name, b.dtype, b.name) for b in buffers if b.role == "workspace"]
    args += [Arg("size", s, I32) for s in "ABC"]
    return Kernel(
        "k",
        grid or (GridAxis("b", 1, Size(I32, "B")), GridAxis("m", 32, kernels.tiles(Size(I32, "A"), 32))),
        {a: TileAxis(a, s) for a, s in TILES.items()},
        tuple(args),
        {b.name: b for b in buffers},
        {},
        body,
        offsets,
    )


def lines(*body: Op, buffers: tuple[Buffer, ...] = (), **options: object) -> list[str]:
    k = kernel(body, *buffers, **options)  # type: ignore[arg-type]
    text = Body(k, names_of(k), {}, None, {op: "merge" for op in walk_ops(body) if isinstance(op, Combine)})
    text.ops(body)
    return [line.strip() for line in text.lines if "# [" not in line]


def var(name: str, axes: str = "", dtype: DType = F32) -> Var:
    return Var(name, dtype, tuple(axes))


def value(v: Var) -> Get:
    return Get(v.dtype, v)


def test_the_whole_module_of_a_small_kernel() -> None:
    text = print_program(kernels.program(kernels.vector_add(tile=128)), TritonOptions(), HEAD)
    assert text == (Path(__file__).parent / "golden" / "vector_add.py.txt").read_text()


BODIES = {
    "let": ((Let(LABEL, var("y", "mn"), apply("add", value(var("x", "mn")), value(var("x", "mn")))),), ["y = x + x"]),
    "let broadcasts": (
        (Let(LABEL, var("y", "mn"), value(var("r", "m"))),),
        ["y = tl.broadcast_to(r[:, None], [BLOCK_M, BLOCK_N])"],
    ),
    "let of a literal": ((Let(LABEL, var("y", "m"), Const(F32, 1.0)),), ["y = tl.full([BLOCK_M], 1.0, tl.float32)"]),
    "init": ((Init(LABEL, var("y", "m"), Const(F32, -INF)),), ['y = tl.full([BLOCK_M], float("-inf"), tl.float32)']),
    "init 0": ((Init(LABEL, var("y", "mn", F64), Const(F64, 0)),), ["y = tl.zeros([BLOCK_M, BLOCK_N], tl.float64)"]),
    "init scalar": ((Init(LABEL, var("y", dtype=I64), Const(I64, -1)),), ["y = tl.full([], -1, tl.int64)"]),
    "sum": ((TileReduce(LABEL, var("y", "m"), "sum", value(var("x", "mn")), "n"),), ["y = tl.sum(x, axis=1)"]),
    "sum of narrow": (
        (TileReduce(LABEL, var("y", "m", I32), "sum", value(var("f", "nm", BOOL)), "n"),),
        ["y = tl.sum(f.to(tl.int32), axis=0)"],
    ),
    "max": ((TileReduce(LABEL, var("y", "m"), "max", value(var("x", "mn")), "n"),), ["y = tl.reduce(x, 1, nan_max)"]),
    "min": (
        (TileReduce(LABEL, var("y", "", I32), "min", value(var("x", "n", I32)), "n"),),
        ["y = tl.min(x, axis=0)"],
    ),
    "any": (
        (TileReduce(LABEL, var("y", "n", BOOL), "any", value(var("x", "mn", BOOL)), "m"),),
        ["y = tl.max(x.to(tl.int32), axis=0) != 0"],
    ),
    "all": (
        (TileReduce(LABEL, var("y", "", BOOL), "all", apply("lt", N, Size(I32, "B"), dtype=BOOL), "n"),),
        ["y = tl.min((n < B).to(tl.int32), axis=0) != 0"],
    ),
    "combine": (
        (Combine(LABEL, (var("c", "m"), var("s", "m")), (ONE, value(var("x", "mn"))), "n", ("c", "s"), ()),),
        ["c, s = tl.reduce((tl.full([BLOCK_M, BLOCK_N], 1.0, tl.float32), x), 1, merge)"],
    ),
    "dot": (
        (Dot(LABEL, var("y", "mn"), var("a", "md", F16), var("w", "nd", F16), "d", False),),
        ["y = tl.dot(a, tl.trans(w))"],
    ),
    "dot of f32": (
        (Dot(LABEL, var("y", "mn"), var("a", "dm"), var("w", "dn"), "d", True, "tf32"),),
        ['y = tl.dot(tl.trans(a), w, y, input_precision="tf32")'],
    ),
    "dot of f64": (
        (Dot(LABEL, var("y", "mn", F64), var("a", "md", F64), var("w", "dn", F64), "d", True),),
        [
            "# a sum of products: tl.dot has no form for this type or size",
            "y = y + tl.sum(a[:, :, None] * w[None, :, :], axis=1)",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_operations(name: str) -> None:
    body, expected = BODIES[name]
    # values that the operations read are defined by loads elsewhere: declare them so that they have names
    reads = {v.name: v for op in body for v in _reads(op)}
    sources = tuple(Init(LABEL, v, Const(v.dtype, 0)) for v in reads.values())
    assert lines(*sources, *body)[len(sources) :] == expected


def _reads(op: Op) -> list[Var]:
    if isinstance(op, Dot):
        return [op.a, op.b, *([op.dst] if op.accumulate else [])]
    found: list[Var] = []

    def see(e: Expr) -> None:
        if isinstance(e, Get):
            found.append(e.var)

    for e in getattr(op, "srcs", ()) or [getattr(op, n) for n in ("expr", "src") if hasattr(op, n)]:
        rewrite(e, see)
    return found


LESS = apply("lt", M, Size(I32, "A"), dtype=BOOL)


@pytest.mark.parametrize(
    ("index", "axes", "expected"),
    [
        (
            (M, Pos(I32, "d")),
            "md",
            ["x_base = x + tl.cast(m_start, tl.int64) * x_s0", "x_base + m_off[:, None] * x_s0 + d[None, :]"],
        ),
        ((Pos(I32, "d"), M), "md", ["x_base = x + m_start", "x_base + d[None, :] * x_s0 + m_off[:, None]"]),
        ((Pos(I32, "b"), integer(0)), "", ["x + tl.cast(b, tl.int64) * x_s0"]),
        ((integer(0), Pos(I32, "d")), "d", ["x + d"]),
        (
            (apply("sub", apply("mul", integer(2), M), integer(1)), Pos(I32, "b")),
            "m",
            ["x_base = x + tl.cast(2 * m_start - 1, tl.int64) * x_s0 + b", "x_base + 2 * m_off * x_s0"],
        ),
        (
            (integer(3), apply("quot", M, integer(4))),
            "m",
            ["x_base = x + 3 * tl.cast(x_s0, tl.int64)", "x_base + m // 4"],
        ),
        ((value(Var("p", I32, ("m",))), Pos(I32, "b")), "m", ["x_base = x + b", "x_base + p.to(tl.int64) * x_s0"]),
    ],
)  # fmt: skip
def test_addresses(index: tuple[Expr, ...], axes: str, expected: list[str]) -> None:
    pages = Init(LABEL, Var("p", I32, ("m",)), integer(0))
    found = lines(pages, LoadTile(LABEL, var("t", axes), "x", index, None), buffers=(buffer("x", 2),))[1:]
    assert found == [*expected[:-1], f"t = tl.load({expected[-1]})"]


def test_wide_offsets_need_no_casts() -> None:
    load = LoadTile(LABEL, var("t", "m"), "x", (Pos(I32, "b"), M), LESS, float("-inf"))
    assert lines(load, buffers=(buffer("x", 2, unit=False),), offsets=I64) == [
        "x_base = x + b * x_s0 + m_start * x_s1",
        't = tl.load(x_base + m_off * x_s1, mask=m < A, other=float("-inf"))',
    ]


def test_a_workspace_is_contiguous() -> None:
    space = Buffer("ws", (Size(I32, "A"), Size(I32, "B"), Size(I32, "C")), F32, "workspace", 2, True)
    store = Store(LABEL, "ws", (Pos(I32, "b"), M, Pos(I32, "d")), value(var("t", "md")), LESS)
    found = lines(Init(LABEL, var("t", "md"), Const(F32, 0)), store, buffers=(space,))[1:]
    wide = "tl.cast(C, tl.int64)"
    assert found[0] == f"ws_base = ws + b * (tl.cast(B, tl.int64) * C) + m_start * {wide}"
    assert found[1] == f"tl.store(ws_base + m_off[:, None] * {wide} + d[None, :], t, mask=m[:, None] < A)"
    fixed = dataclasses.replace(space, dims=(Size(I32, "A"), Size(I32, "B"), integer(16)))
    again = lines(Init(LABEL, var("t", "md"), Const(F32, 0)), store, buffers=(fixed,))[1:]
    wide = "tl.cast(B, tl.int64)"
    assert again[0] == f"ws_base = ws + b * ({wide} * 16) + tl.cast(m_start, tl.int64) * 16"
    assert again[1] == "tl.store(ws_base + m_off[:, None] * 16 + d[None, :], t, mask=m[:, None] < A)"


def test_masks_are_tiles() -> None:
    scalar = apply("lt", Pos(I32, "b"), Size(I32, "A"), dtype=BOOL)
    load = LoadTile(LABEL, var("t", "d"), "x", (Pos(I32, "d"),), scalar)
    assert lines(load, buffers=(buffer("x", 1),)) == [
        "t = tl.load(x + d, mask=tl.full([BLOCK_D], b < A, tl.int1), other=0.0)"
    ]
    always = LoadTile(LABEL, var("t", "d"), "x", (Pos(I32, "d"),), Const(BOOL, True))
    assert lines(always, buffers=(buffer("x", 1),)) == ["t = tl.load(x + d)"]


def test_bases_move_out_of_loops() -> None:
    row, col = Pos(I32, "g"), Pos(I32, "n")
    load = LoadTile(LABEL, var("t", "n"), "x", (Pos(I32, "b"), row, col), None)
    state = var("acc", "n")
    add = Assign(LABEL, state, apply("add", value(state), value(var("t", "n"))))
    inner = Loop(LABEL, "n", 64, (Segment(integer(0), Size(I32, "C"), "plain", (load, add)),))
    outer = Loop(LABEL, "g", 1, (Segment(integer(0), Size(I32, "B"), "plain", (inner,)),))
    assert lines(Init(LABEL, state, Const(F32, 0)), outer, buffers=(buffer("x", 3),)) == [
        "acc = tl.zeros([BLOCK_N], tl.float32)",
        "x_base = x + tl.cast(b, tl.int64) * x_s0",
        "for g in tl.range(0, B):",
        "x_base_2 = x_base + tl.cast(g, tl.int64) * x_s1",
        "for n_start in tl.range(0, C, BLOCK_N):",
        "t = tl.load(x_base_2 + n_start + n_off)",
        "acc = acc + t",
    ]


THREE, FIVE = integer(3), integer(5)
SIZE_A, SIZE_B, SIZE_C = (Size(I32, s) for s in "ABC")
GRIDS = [
    (GridAxis("a", 1, THREE), GridAxis("b", 1, SIZE_B), GridAxis("c", 1, SIZE_C)),
    (GridAxis("a", 1, SIZE_A, desc=True), GridAxis("b", 1, THREE), GridAxis("c", 1, SIZE_C, desc=True)),
    (GridAxis("a", 1, SIZE_A), GridAxis("b", 1, SIZE_B, group=2), GridAxis("c", 1, SIZE_C)),
    (GridAxis("a", 1, SIZE_A, group=4, desc=True), GridAxis("b", 1, SIZE_B), GridAxis("c", 1, SIZE_C)),
    (GridAxis("a", 1, SIZE_A, group=2), GridAxis("b", 1, FIVE)),
    (GridAxis("a", 1, FIVE), GridAxis("b", 1, SIZE_B, group=2)),
]


@pytest.mark.parametrize("grid", GRIDS)
def test_every_program_has_its_own_tile(grid: tuple[GridAxis, ...]) -> None:
    counts = {"A": 7, "B": 5, "C": 4}
    shape = [counts[g.count.name] if isinstance(g.count, Size) else int(g.count.value) for g in grid]
    steps = decode(kernel((), grid=grid))
    tiles = []
    for pid in range(_product(shape)):
        env = counts | {"pid": pid}
        for step in steps:
            env[_name(step.target)] = eval(python_expr(rewrite(step.value, _as_size)), dict(env))
        tiles.append(tuple(env[g.name] for g in grid))
    assert sorted(tiles) == sorted(itertools.product(*(range(s) for s in shape)))
    if not any(g.group for g in grid):
        key = [tuple(-x if g.desc else x for g, x in zip(grid, t, strict=True)) for t in tiles]
        assert key == sorted(key)


def test_a_group_shares_its_operands() -> None:
    """Programs of one wave of 2 x 5 touch 2 rows and 5 columns."""
    env: dict[str, int] = {"A": 7, "B": 5}
    grid = (GridAxis("a", 1, Size(I32, "A"), group=2), GridAxis("b", 1, Size(I32, "B")))
    seen = []
    for env["pid"] in range(10):
        local = dict(env)
        for step in decode(kernel((), grid=grid)):
            local[_name(step.target)] = eval(python_expr(rewrite(step.value, _as_size)), dict(local))
        seen.append((local["a"], local["b"]))
    assert seen[:4] == [(0, 0), (1, 0), (0, 1), (1, 1)] and {a for a, _ in seen} == {0, 1}


def _product(shape: list[int]) -> int:
    total = 1
    for s in shape:
        total *= s
    return total


def _name(target: Expr) -> str:
    assert isinstance(target, Get | Pos | Start)
    return target.var.name.removeprefix("grid.") if isinstance(target, Get) else target.axis


def _as_size(e: Expr) -> Expr | None:
    return Size(I32, _name(e)) if isinstance(e, Get) else None


ALL = ["vector_add", "row_softmax", "column_argmax", "matmul", "attention"]


@pytest.mark.parametrize("name", ALL)
def test_modules_are_tidy_python(name: str) -> None:
    made = getattr(kernels, name)()
    text = print_program(kernels.program(made), TritonOptions({"attention": 3}), HEAD)
    ast.parse(text)
    assert text.endswith("\n") and "\t" not in text and "\n\n\n\n" not in text
    assert all(len(line) <= 110 and line == line.rstrip() for line in text.splitlines())
    wanted = {op.label for op in walk_ops(made.body) if not isinstance(op, Loop)}
    assert set(labels(text)) == wanted and sum(map(len, groups(text).values())) > 10
    assert (", num_stages=3" in text.replace("\n", "").replace("        num", " num")) == (name == "attention")
    assert dump_program(kernels.program(made)).count("[s1 ") == sum(
        op.label.stmts == ("s1",) for op in walk_ops(made.body)
    )


def test_names_do_not_clash() -> None:
    x = Buffer("lambda", (Size(I32, "A"),), F32, "in", 0, True)
    body = (
        LoadTile(LABEL, var("m", "m"), "lambda", (M,), LESS),
        Store(LABEL, "lambda", (M,), value(var("m", "m")), LESS),
    )
    k = kernel(body, x)
    names = names_of(k)
    assert (names.arguments["lambda"], names.position["m"], names.values["m"]) == ("lambda_", "m", "m_2")
    assert constant_values(k) == {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_D": 16}
    assert "m_2 = tl.load(lambda_" in print_program(kernels.program(k), TritonOptions(), HEAD)


def test_views_are_closed() -> None:
    with pytest.raises(TypeError, match="differ in head"):
        render("triton/kernel.py.j2", ModuleView((), (), ()))
