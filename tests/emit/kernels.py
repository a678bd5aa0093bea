"""Hand-built tile IR for the tests of both emitters: the shapes of kernels that lowering produces, without lowering."""

from __future__ import annotations

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
    Program,
    Segment,
    Store,
    TileAxis,
    TileReduce,
)
from kgen.terms import Apply, Cast, Const, Expr, Get, Param, Pos, Size, Start, Var, apply, integer
from kgen.types import BOOL, F32, I32, I64, DType, compute_dtype

INF = float("inf")


def size(name: str) -> Size:
    return Size(I32, name)


def pos(axis: str) -> Pos:
    return Pos(I32, axis)


def start(axis: str) -> Start:
    return Start(I32, axis)


def less(a: Expr, b: Expr) -> Apply:
    return apply("lt", a, b, dtype=BOOL)


def both(*parts: Expr) -> Expr:
    whole = parts[0]
    for part in parts[1:]:
        whole = apply("and", whole, part)
    return whole


def get(var: Var) -> Expr:
    """Return the value of `var` in the type it is computed in."""
    wide = compute_dtype(var.dtype)
    return Get(var.dtype, var) if wide is var.dtype else Cast(wide, Get(var.dtype, var))


def cast(dtype: DType, e: Expr) -> Expr:
    return e if e.dtype is dtype else Cast(dtype, e)


def real(value: float) -> Const:
    return Const(F32, value)


def tiles(extent: Expr, tile: int) -> Expr:
    """Return the number of tiles that cover `extent` positions."""
    return apply("quot", apply("add", extent, integer(tile - 1)), integer(tile))


def arguments(
    buffers: dict[str, Buffer], sizes: tuple[str, ...], params: tuple[tuple[str, DType], ...] = ()
) -> tuple[Arg, ...]:
    """Return pointers, then strides of every dim that is not the unit dim, then sizes, then params."""
    out = [Arg("tensor", b.name, b.dtype, b.name) for b in buffers.values()]
    for b in buffers.values():
        out += [Arg("stride", f"{b.name}_s{d}", I32, b.name, d) for d in range(len(b.dims)) if d != b.unit]
    out += [Arg("size", s, I32) for s in sizes]
    return tuple(out + [Arg("param", name, dtype) for name, dtype in params])


def program(kernel: Kernel) -> Program:
    return Program(kernel.name, kernel.buffers, (kernel,))


def vector_add(dtype: DType = F32, tile: int = 1024, aligned: bool = True) -> Kernel:
    """y[i] = x[i] + w[i], ragged end."""
    buffers = {n: Buffer(n, (size("N"),), dtype, "out" if n == "y" else "in", 0, aligned) for n in ("x", "w", "y")}
    x, w = Var("x_t", dtype, ("i",)), Var("w_t", dtype, ("i",))
    inside = less(pos("i"), size("N"))
    load, label = Label(("s1",), "load"), Label(("s1",), "store")
    body = (
        LoadTile(load, x, "x", (pos("i"),), inside),
        LoadTile(load, w, "w", (pos("i"),), inside),
        Store(label, "y", (pos("i"),), cast(dtype, apply("add", get(x), get(w))), inside),
    )
    return Kernel(
        "vector_add", (GridAxis("i", tile, tiles(size("N"), tile)),), {"i": TileAxis("i", tile)},
        arguments(buffers, ("N",)), buffers, {}, body, I32,
    )  # fmt: skip


def row_softmax(dtype: DType = F32, tile: int = 256, rows: int = 1, unit: bool = True, aligned: bool = False) -> Kernel:
    """y[m, n] = softmax over n of x[m, n], a row in one tile; `rows` rows a program; `unit` False: n has a stride."""
    dims = (size("M"), size("N"))
    buffers = {n: Buffer(n, dims, dtype, role, 1 if unit else None, aligned) for n, role in (("x", "in"), ("y", "out"))}
    row = ("m",) if rows > 1 else ()
    x, s = Var("x_t", dtype, (*row, "n")), Var("s", F32, (*row, "n"))
    top, e, total = Var("top", F32, row), Var("e", F32, (*row, "n")), Var("total", F32, row)
    inside = less(pos("n"), size("N"))
    if rows > 1:
        inside = both(less(pos("m"), size("M")), inside)
    part = Label(("s1",), "state")
    body = (
        LoadTile(Label(("s1",), "load"), x, "x", (pos("m"), pos("n")), inside),
        Let(Label(("s1",), "mask"), s, apply("where", less(pos("n"), size("N")), get(x), real(-INF), dtype=F32)),
        TileReduce(part, top, "max", get(s), "n"),
        Let(part, e, apply("exp", apply("sub", get(s), get(top)))),
        TileReduce(part, total, "sum", get(e), "n"),
        Store(
            Label(("s1",), "store"), "y", (pos("m"), pos("n")), cast(dtype, apply("div", get(e), get(total))), inside
        ),
    )
    axes = {"n": TileAxis("n", tile)} | ({"m": TileAxis("m", rows)} if rows > 1 else {})
    grid = (GridAxis("m", rows, tiles(size("M"), rows) if rows > 1 else size("M")),)
    return Kernel("row_softmax", grid, axes, arguments(buffers, ("M", "N")), buffers, {}, body, I32)


def column_argmax(dtype: DType = F32, rows: int = 16, cols: int = 64) -> Kernel:
    """i[n] = argmax over m of x[m, n], rows walked in a loop, merged by Combine; NaN wins, ties go to the first row."""
    buffers = {
        "x": Buffer("x", (size("M"), size("N")), dtype, "in", 1, False),
        "i": Buffer("i", (size("N"),), I64, "out", 0, False),
    }
    x = Var("x_t", dtype, ("m", "n"))
    v, i = Var("v", F32, ("n",)), Var("at", I64, ("n",))
    tv, ti = Var("tile_v", F32, ("n",)), Var("tile_at", I64, ("n",))
    inside = both(less(pos("m"), size("M")), less(pos("n"), size("N")))
    state, merge = Label(("s1",), "state"), Label(("s1",), "merge")
    rules = _argmax_merge()
    fold = {"a.v": get(v), "a.i": get(i), "b.v": get(tv), "b.i": get(ti)}
    take = Var("take", BOOL, ("n",))
    body = (
        Init(state, v, real(-INF)),
        Init(state, i, Const(I64, -1)),
        Loop(state, "m", rows, (
            Segment(integer(0), apply("mul", tiles(size("M"), rows), integer(rows)), "tail", (
                LoadTile(Label(("s1",), "load"), x, "x", (pos("m"), pos("n")), inside),
                Combine(
                    merge, (tv, ti),
                    (apply("where", less(pos("m"), size("M")), get(x), real(-INF), dtype=F32),
                     apply("where", less(pos("m"), size("M")), Cast(I64, pos("m")), Const(I64, -1), dtype=I64)),
                    "m", ("v", "i"), rules,
                ),
                Let(merge, take, _replace(rules[0][1], fold)),
                Assign(merge, v, apply("where", get(take), get(v), get(tv), dtype=F32)),
                Assign(merge, i, apply("where", get(take), get(i), get(ti), dtype=I64)),
            )),
        )),
        Store(Label(("s1",), "store"), "i", (pos("n"),), get(i), less(pos("n"), size("N"))),
    )  # fmt: skip
    return Kernel(
        "column_argmax", (GridAxis("n", cols, tiles(size("N"), cols)),),
        {"m": TileAxis("m", rows), "n": TileAxis("n", cols)}, arguments(buffers, ("M", "N")), buffers, {}, body, I32,
    )  # fmt: skip


def _argmax_merge() -> tuple[tuple[str, Expr], ...]:
    av, bv = Get(F32, Var("a.v", F32, ())), Get(F32, Var("b.v", F32, ()))
    ai, bi = Get(I64, Var("a.i", I64, ())), Get(I64, Var("b.i", I64, ()))
    take = Get(BOOL, Var("take", BOOL, ()))
    nan_a, nan_b = apply("isnan", av, dtype=BOOL), apply("isnan", bv, dtype=BOOL)
    first = apply("le", ai, bi, dtype=BOOL)

    def either(a: Expr, b: Expr) -> Expr:
        return apply("or", a, b)

    wins = either(
        both(nan_a, either(apply("not", nan_b), first)),
        both(
            apply("not", nan_b), either(apply("gt", av, bv, dtype=BOOL), both(apply("eq", av, bv, dtype=BOOL), first))
        ),
    )
    none = Const(I64, 0)
    return (
        ("take", either(less(bi, none), both(apply("ge", ai, none, dtype=BOOL), wins))),
        ("v", apply("where", take, av, bv, dtype=F32)),
        ("i", apply("where", take, ai, bi, dtype=I64)),
    )


def _replace(e: Expr, values: dict[str, Expr]) -> Expr:
    if isinstance(e, Get):
        return values[e.var.name]
    return Apply(e.dtype, e.fn, tuple(_replace(a, values) for a in e.args)) if isinstance(e, Apply) else e


def matmul(
    dtype: DType = F32,
    tile: tuple[int, int, int] = (64, 64, 16),
    w_unit: int | None = 1,
    aligned: bool = False,
    group: int = 4,
) -> Kernel:
    """y[m, n] = relu(sum over k of x[m, k] * w[k, n] + bias[n]), ends ragged. `w_unit`: the contiguous dim of w."""
    tm, tn, tk = tile
    buffers = {
        "x": Buffer("x", (size("M"), size("K")), dtype, "in", 1, aligned),
        "w": Buffer("w", (size("K"), size("N")), dtype, "in", w_unit, aligned),
        "bias": Buffer("bias", (size("N"),), dtype, "in", 0, aligned),
        "y": Buffer("y", (size("M"), size("N")), dtype, "out", 1, aligned),
    }
    x, w, bias = Var("x_t", dtype, ("m", "k")), Var("w_t", dtype, ("k", "n")), Var("bias_t", dtype, ("n",))
    acc = Var("acc", F32, ("m", "n"))
    m_in, n_in, k_in = (less(pos(a), size(a.upper())) for a in "mnk")
    load, state = Label(("s1",), "load"), Label(("s1",), "state")
    result = apply("maximum", apply("add", get(acc), get(bias)), real(0.0))
    body = (
        Init(state, acc, real(0.0)),
        Loop(state, "k", tk, (
            Segment(integer(0), apply("mul", tiles(size("K"), tk), integer(tk)), "tail", (
                LoadTile(load, x, "x", (pos("m"), pos("k")), both(m_in, k_in)),
                LoadTile(load, w, "w", (pos("k"), pos("n")), both(k_in, n_in)),
                Dot(state, acc, x, w, "k", True),
            )),
        )),
        LoadTile(Label(("s1",), "load"), bias, "bias", (pos("n"),), n_in),
        Store(Label(("s1",), "store"), "y", (pos("m"), pos("n")), cast(dtype, result), both(m_in, n_in)),
    )  # fmt: skip
    grid = (GridAxis("m", tm, tiles(size("M"), tm), group=group), GridAxis("n", tn, tiles(size("N"), tn)))
    axes = {a: TileAxis(a, s) for a, s in zip("mnk", tile, strict=True)}
    return Kernel("matmul", grid, axes, arguments(buffers, ("M", "N", "K")), buffers, {}, body, I32)


def attention(
    dtype: DType = F32, tm: int = 64, tn: int = 64, d: int = 64, aligned: bool = False, causal: bool = True
) -> Kernel:
    """o[h, m, e] and lse[h, m] of exact attention in one pass, heads h; whole tiles first, then a masked segment."""
    rows, cols = size("M"), size("N")
    heads = size("H")
    buffers = {
        "q": Buffer("q", (heads, rows, size("D")), dtype, "in", 2, aligned),
        "k": Buffer("k", (heads, cols, size("D")), dtype, "in", 2, aligned),
        "v": Buffer("v", (heads, cols, size("D")), dtype, "in", 2, aligned),
        "o": Buffer("o", (heads, rows, size("D")), dtype, "out", 2, aligned),
        "lse": Buffer("lse", (heads, rows), F32, "out", 1, False),
    }
    q, m, total = Var("q_t", dtype, ("m", "d")), Var("top", F32, ("m",)), Var("total", F32, ("m",))
    acc = Var("acc", F32, ("m", "e"))
    state, finish = Label(("s2",), "state"), Label(("s3",), "finish")
    m_in = less(pos("m"), rows)
    shift = apply("sub", cols, rows)
    past = apply("mul", tiles(cols, tn), integer(tn))
    hull = apply(
        "minimum", past, apply("mul", tiles(_above(apply("add", start("m"), integer(tm)), shift), tn), integer(tn))
    )
    whole = apply("mul", apply("quot", cols, integer(tn)), integer(tn))
    inner = _above(apply("add", start("m"), integer(1)), shift)
    full = apply("minimum", whole, apply("mul", apply("quot", inner, integer(tn)), integer(tn))) if causal else whole
    end = hull if causal else past
    mask = _attention_mask(cols, shift, causal)
    lse = apply("add", get(m), apply("log", get(total)))
    body = (
        LoadTile(Label(("s1",), "load"), q, "q", (pos("h"), pos("m"), pos("d")), m_in),
        Init(state, m, real(-INF)),
        Init(state, total, real(0.0)),
        Init(state, acc, real(0.0)),
        Loop(state, "n", tn, (
            Segment(integer(0), full, "plain", _attention_tile(dtype, q, m, total, acc, None)),
            Segment(full, end, "masked", _attention_tile(dtype, q, m, total, acc, mask)),
        )),
        Store(finish, "o", (pos("h"), pos("m"), pos("e")), cast(dtype, _divide(get(acc), get(total))), m_in),
        Store(Label(("s4",), "finish"), "lse", (pos("h"), pos("m")), lse, m_in),
    )  # fmt: skip
    axes = {"m": TileAxis("m", tm), "n": TileAxis("n", tn), "d": TileAxis("d", d), "e": TileAxis("e", d)}
    grid = (GridAxis("h", 1, heads), GridAxis("m", tm, tiles(rows, tm), desc=True))
    args = arguments(buffers, ("H", "M", "N"), (("scale", F32),))
    return Kernel("attention", grid, axes, args, buffers, {"D": d}, body, I32)


def _above(a: Expr, b: Expr) -> Expr:
    return apply("maximum", apply("add", a, b), integer(0))


def _divide(a: Expr, b: Expr) -> Expr:
    return apply("where", apply("gt", b, real(0.0), dtype=BOOL), apply("div", a, b), real(0.0), dtype=F32)


def _attention_mask(cols: Expr, shift: Expr, causal: bool) -> Expr:
    inside = less(pos("n"), cols)
    seen = apply("le", pos("n"), apply("add", pos("m"), shift), dtype=BOOL)
    return both(inside, seen) if causal else inside


def _attention_tile(dtype: DType, q: Var, m: Var, total: Var, acc: Var, mask: Expr | None) -> tuple[object, ...]:
    k, v = Var("k_t", dtype, ("n", "d")), Var("v_t", dtype, ("n", "e"))
    s, z = Var("s", F32, ("m", "n")), Var("z", F32, ("m", "n"))
    top, new, fix = Var("tile_top", F32, ("m",)), Var("new_top", F32, ("m",)), Var("fix", F32, ("m",))
    w, part, p = Var("w", F32, ("m", "n")), Var("tile_total", F32, ("m",)), Var("p", dtype, ("m", "n"))
    inside = None if mask is None else less(pos("n"), size("N"))
    load, score, state, carry = (
        Label(("s2",), "load"),
        Label(("s1",), "state"),
        Label(("s2",), "state"),
        Label(("s3",), "carry"),
    )
    scaled = apply("mul", get(s), Param(F32, "scale"))
    hidden = scaled if mask is None else apply("where", mask, scaled, real(-INF), dtype=F32)
    never = apply("eq", get(new), real(-INF), dtype=BOOL)

    def weight(x: Expr) -> Expr:
        return apply("where", never, real(0.0), apply("exp", apply("sub", x, get(new))), dtype=F32)

    return (
        LoadTile(Label(("s1",), "load"), k, "k", (pos("h"), pos("n"), pos("d")), inside),
        Dot(score, s, q, k, "d", False),
        Let(Label(("s1",), "mask"), z, hidden),
        TileReduce(state, top, "max", get(z), "n"),
        Let(state, new, apply("maximum", get(m), get(top))),
        Let(Label(("s2",), "rescale"), fix, weight(get(m))),
        Let(state, w, weight(get(z))),
        TileReduce(state, part, "sum", get(w), "n"),
        Assign(state, total, apply("add", apply("mul", get(total), get(fix)), get(part))),
        Assign(state, m, get(new)),
        LoadTile(load, v, "v", (pos("h"), pos("n"), pos("e")), inside),
        Let(carry, p, cast(dtype, get(w))),
        Assign(Label(("s3",), "rescale"), acc, apply("mul", get(acc), get(fix))),
        Dot(carry, acc, p, v, "n", True),
    )
