"""More hand-built tile IR: computed operands, lookups, integers, state in memory, scalars, three axes."""

from __future__ import annotations

from tests.emit.kernels import arguments, both, cast, get, integer, less, pos, real, size, tiles

from kgen.ir import (
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
    Segment,
    Store,
    TileAxis,
    TileReduce,
)
from kgen.terms import Const, Get, Param, Var, apply
from kgen.types import BF16, BOOL, F16, F32, F64, I32, I64, U8, DType

S1 = Label(("s1",), "state")
LOAD = Label(("s1",), "load")
STORE = Label(("s1",), "store")


def quantised_matmul(dtype: DType = F16, tile: tuple[int, int, int] = (16, 64, 64), group: int = 32) -> Kernel:
    """y[m, n] = sum over k of x[m, k] * ((nibble k % 2 of wq[n, k // 2]) - 8) * sc[n, k // group]."""
    tm, tn, tk = tile
    buffers = {
        "x": Buffer("x", (size("M"), size("K")), dtype, "in", 1, True),
        "wq": Buffer("wq", (size("N"), size("K2")), U8, "in", 1, True),
        "sc": Buffer("sc", (size("N"), size("KG")), dtype, "in", 1, False),
        "y": Buffer("y", (size("M"), size("N")), dtype, "out", 1, False),
    }
    x, byte, scale = Var("x_t", dtype, ("m", "k")), Var("byte", U8, ("n", "k")), Var("sc_t", dtype, ("n", "k"))
    w, acc = Var("w", dtype, ("n", "k")), Var("acc", F32, ("m", "n"))
    m_in, n_in, k_in = (less(pos(a), size(a.upper())) for a in "mnk")
    shift = apply("mul", integer(4), apply("rem", pos("k"), integer(2)))
    nibble = apply("bitand", apply("shr", get(byte), shift), integer(15))
    real_w = apply("mul", cast(F32, apply("sub", nibble, integer(8))), get(scale))
    body = (
        Init(S1, acc, real(0.0)),
        Loop(S1, "k", tk, (
            Segment(integer(0), size("K"), "tail", (
                LoadTile(LOAD, x, "x", (pos("m"), pos("k")), both(m_in, k_in)),
                LoadTile(LOAD, byte, "wq", (pos("n"), apply("quot", pos("k"), integer(2))), both(n_in, k_in)),
                LoadTile(LOAD, scale, "sc", (pos("n"), apply("quot", pos("k"), integer(group))), both(n_in, k_in)),
                Let(S1, w, cast(dtype, real_w)),
                Dot(S1, acc, x, w, "k", True),
            )),
        )),
        Store(STORE, "y", (pos("m"), pos("n")), cast(dtype, get(acc)), both(m_in, n_in)),
    )  # fmt: skip
    grid = (GridAxis("m", tm, tiles(size("M"), tm)), GridAxis("n", tn, tiles(size("N"), tn)))
    axes = {a: TileAxis(a, s) for a, s in zip("mnk", tile, strict=True)}
    return Kernel("quantised", grid, axes, arguments(buffers, ("M", "N", "K")), buffers, {}, body, I32)


def rotated_product(d: int = 32, tm: int = 32, tn: int = 32) -> Kernel:
    """s[m, n] = sum over j of ((a * c - b) + (b * c + a)) * k, a and b halves of x[m, :], loaded for two operands."""
    buffers = {
        "x": Buffer("x", (size("M"), size("D2")), BF16, "in", 1, True),
        "c": Buffer("c", (size("M"), size("D")), BF16, "in", 1, True),
        "k": Buffer("k", (size("N"), size("D")), BF16, "in", 1, True),
        "s": Buffer("s", (size("M"), size("N")), F32, "out", 1, False),
    }
    a, b, c = (Var(n, BF16, ("m", "j")) for n in ("a", "b", "c_t"))
    x, y, k = Var("x1", BF16, ("m", "j")), Var("x2", BF16, ("m", "j")), Var("k_t", BF16, ("n", "j"))
    acc = Var("acc", F32, ("m", "n"))
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    body = (
        LoadTile(LOAD, a, "x", (pos("m"), pos("j")), m_in),
        LoadTile(LOAD, b, "x", (pos("m"), apply("add", size("D"), pos("j"))), m_in),
        LoadTile(LOAD, c, "c", (pos("m"), pos("j")), m_in),
        LoadTile(LOAD, k, "k", (pos("n"), pos("j")), n_in),
        Let(S1, x, cast(BF16, apply("sub", apply("mul", get(a), get(c)), get(b)))),
        Let(S1, y, cast(BF16, apply("add", apply("mul", get(b), get(c)), get(a)))),
        Init(S1, acc, real(0.0)),
        Dot(S1, acc, x, k, "j", True),
        Dot(S1, acc, y, k, "j", True),
        Store(STORE, "s", (pos("m"), pos("n")), get(acc), both(m_in, n_in)),
    )
    grid = (GridAxis("m", tm, tiles(size("M"), tm)), GridAxis("n", tn, tiles(size("N"), tn)))
    axes = {"m": TileAxis("m", tm), "n": TileAxis("n", tn), "j": TileAxis("j", d)}
    return Kernel("rotated", grid, axes, arguments(buffers, ("M", "N")), buffers, {"D": d, "D2": 2 * d}, body, I64)


def gradient_products(dtype: DType = F32, tm: int = 32, tn: int = 32, d: int = 64) -> Kernel:
    """p = exp(q k^T - lse) over [m, n]; dv[n, e] = p^T do, dk[n, d] = (p * m)^T q. One tile has two contract axes."""
    buffers = {
        "q": Buffer("q", (size("M"), size("D")), dtype, "in", 1, True),
        "k": Buffer("k", (size("N"), size("D")), dtype, "in", 1, True),
        "do": Buffer("do", (size("M"), size("D")), dtype, "in", 1, True),
        "lse": Buffer("lse", (size("M"),), F32, "in", 0, False),
        "dv": Buffer("dv", (size("N"), size("D")), dtype, "out", 1, True),
        "dk": Buffer("dk", (size("N"), size("D")), dtype, "out", 1, True),
    }
    q, k, do = Var("q_t", dtype, ("m", "d")), Var("k_t", dtype, ("n", "d")), Var("do", dtype, ("m", "e"))
    lse, s, p = Var("lse_t", F32, ("m",)), Var("s", F32, ("m", "n")), Var("p", F32, ("m", "n"))
    pc, ds = Var("p_cast", dtype, ("m", "n")), Var("ds", dtype, ("m", "n"))
    dv, dk = Var("dv_t", F32, ("n", "e")), Var("dk_t", F32, ("n", "d"))
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    weight = apply("exp", apply("sub", get(s), get(lse)))
    body = (
        LoadTile(LOAD, k, "k", (pos("n"), pos("d")), n_in),
        Init(S1, dv, real(0.0)),
        Init(S1, dk, real(0.0)),
        Loop(S1, "m", tm, (
            Segment(integer(0), apply("mul", tiles(size("M"), tm), integer(tm)), "tail", (
                LoadTile(LOAD, q, "q", (pos("m"), pos("d")), m_in),
                Dot(S1, s, q, k, "d", False),
                LoadTile(LOAD, lse, "lse", (pos("m"),), m_in),
                Let(S1, p, apply("where", m_in, weight, real(0.0), dtype=F32)),
                LoadTile(LOAD, do, "do", (pos("m"), pos("e")), m_in),
                Let(S1, pc, cast(dtype, get(p))),
                Dot(S1, dv, pc, do, "m", True),
                Let(S1, ds, cast(dtype, apply("mul", get(p), cast(F32, pos("m"))))),
                Dot(S1, dk, ds, q, "m", True),
            )),
        )),
        Store(STORE, "dv", (pos("n"), pos("e")), cast(dtype, get(dv)), n_in),
        Store(STORE, "dk", (pos("n"), pos("d")), cast(dtype, get(dk)), n_in),
    )  # fmt: skip
    axes = {"m": TileAxis("m", tm), "n": TileAxis("n", tn), "d": TileAxis("d", d), "e": TileAxis("e", d)}
    grid = (GridAxis("n", tn, tiles(size("N"), tn)),)
    return Kernel("gradient", grid, axes, arguments(buffers, ("M", "N")), buffers, {"D": d}, body, I32)


def squared_product(tile: int = 16) -> Kernel:
    """y = (x^T x)^T x in f64: the second Dot reads a state that the first one makes."""
    n = integer(tile)
    buffers = {b: Buffer(b, (n, n), F64, role, 1, False) for b, role in (("x", "in"), ("y", "out"))}
    x, z = Var("x_t", F64, ("k", "m")), Var("z", F64, ("k", "n"))
    g, y = Var("g", F64, ("m", "n")), Var("y_t", F64, ("n", "p"))
    u = Var("u", F64, ("m", "p"))
    body = (
        LoadTile(LOAD, x, "x", (pos("k"), pos("m")), None),
        LoadTile(LOAD, z, "x", (pos("k"), pos("n")), None),
        LoadTile(LOAD, u, "x", (pos("m"), pos("p")), None),
        Init(S1, g, Const(F64, 0.0)),
        Dot(S1, g, x, z, "k", True),
        Dot(S1, y, g, u, "m", False),
        Store(STORE, "y", (pos("n"), pos("p")), get(y), None),
    )
    axes = {a: TileAxis(a, tile) for a in "kmnp"}
    return Kernel("squared", (GridAxis("b", 1, integer(1)),), axes, arguments(buffers, ()), buffers, {}, body, I32)


def gather_rows(tm: int = 8, tn: int = 64) -> Kernel:
    """y[m, n] = x[row[m], n], zero where row[m] is negative; rows may lie beyond 2^31 elements."""
    buffers = {
        "x": Buffer("x", (size("R"), size("N")), F32, "in", 1, True),
        "row": Buffer("row", (size("M"),), I64, "in", 0, False),
        "y": Buffer("y", (size("M"), size("N")), F32, "out", 1, True),
    }
    row, x = Var("row_t", I64, ("m",)), Var("x_t", F32, ("m", "n"))
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    known = both(m_in, n_in, apply("ge", get(row), Const(I64, 0), dtype=BOOL))
    body = (
        LoadTile(LOAD, row, "row", (pos("m"),), m_in, -1),
        LoadTile(LOAD, x, "x", (get(row), pos("n")), known),
        Store(STORE, "y", (pos("m"), pos("n")), get(x), both(m_in, n_in)),
    )
    grid = (GridAxis("m", tm, tiles(size("M"), tm)), GridAxis("n", tn, tiles(size("N"), tn)))
    axes = {"m": TileAxis("m", tm), "n": TileAxis("n", tn)}
    return Kernel("gather", grid, axes, arguments(buffers, ("M", "N")), buffers, {}, body, I32)


def integer_folds(dtype: DType = I32, rows: int = 2, cols: int = 256) -> Kernel:
    """lo[m], hi[m], any[m] (x > 90), all[m] (x > 5) of x[m, n]; rows that fit no tile are left out."""
    names = {
        "x": (dtype, "in"),
        "lo": (dtype, "out"),
        "hi": (dtype, "out"),
        "some": (BOOL, "out"),
        "every": (BOOL, "out"),
    }
    buffers = {
        n: Buffer(n, (size("M"), size("N")) if n == "x" else (size("M"),), t, role, 1 if n == "x" else 0, n == "x")
        for n, (t, role) in names.items()
    }
    x = Var("x_t", dtype, ("m", "n"))
    wide = get(x).dtype
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    body = [LoadTile(LOAD, x, "x", (pos("m"), pos("n")), both(m_in, n_in), 50)]
    for name, op, e in (
        ("lo", "min", get(x)),
        ("hi", "max", get(x)),
        ("some", "any", apply("gt", get(x), Const(wide, 90), dtype=BOOL)),
        ("every", "all", apply("gt", get(x), Const(wide, 5), dtype=BOOL)),
    ):
        dst = Var(name, e.dtype, ("m",))
        body.append(TileReduce(S1, dst, op, e, "n"))
        body.append(Store(STORE, name, (pos("m"),), cast(buffers[name].dtype, get(dst)), m_in))
    axes = {"m": TileAxis("m", rows), "n": TileAxis("n", cols)}
    grid = (GridAxis("m", rows, tiles(size("M"), rows)),)
    return Kernel("folds", grid, axes, arguments(buffers, ("M", "N")), buffers, {}, tuple(body), I32)


def row_moments(rows: int = 4, cols: int = 64) -> Kernel:
    """mu[m], m2[m]: mean and sum of squared deviations of x[m, :], merged by Welford's rule, and dev[m, n] = x - mu."""
    names = {"x": "in", "mu": "out", "m2": "out", "dev": "out"}
    buffers = {
        n: Buffer(n, (size("M"), size("N")) if n in ("x", "dev") else (size("M"),), F32, role, None, False)
        for n, role in names.items()
    }
    x, count, mean, m2 = (
        Var("x_t", F32, ("m", "n")),
        Var("count", F32, ("m",)),
        Var("mean", F32, ("m",)),
        Var("m2", F32, ("m",)),
    )
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    state = {f"{side}.{s}": Get(F32, Var(f"{side}.{s}", F32, ())) for side in "ab" for s in ("n", "mu", "M2")}
    n, share, delta = (Get(F32, Var(v, F32, ())) for v in ("n", "share", "delta"))
    empty = apply("eq", n, real(0.0), dtype=BOOL)
    part = apply("where", empty, real(0.0), apply("div", state["b.n"], n), dtype=F32)
    spread = apply("mul", apply("mul", apply("mul", delta, delta), state["a.n"]), share)
    merge = (
        ("n", apply("add", state["a.n"], state["b.n"])),
        ("share", part),
        ("delta", apply("sub", state["b.mu"], state["a.mu"])),
        ("mu", apply("add", state["a.mu"], apply("mul", delta, share))),
        ("M2", apply("add", apply("add", state["a.M2"], state["b.M2"]), spread)),
    )
    here = apply("where", n_in, real(1.0), real(0.0), dtype=F32)
    body = (
        LoadTile(LOAD, x, "x", (pos("m"), pos("n")), both(m_in, n_in)),
        Combine(S1, (count, mean, m2), (here, get(x), real(0.0)), "n", ("n", "mu", "M2"), merge),
        Store(STORE, "mu", (pos("m"),), get(mean), m_in),
        Store(STORE, "m2", (pos("m"),), get(m2), m_in),
        Store(STORE, "dev", (pos("m"), pos("n")), apply("sub", get(x), get(mean)), both(m_in, n_in)),
    )
    axes = {"m": TileAxis("m", rows), "n": TileAxis("n", cols)}
    grid = (GridAxis("m", rows, tiles(size("M"), rows)),)
    return Kernel("moments", grid, axes, arguments(buffers, ("M", "N")), buffers, {}, body, I32)


def middle_sum(a: int = 4, b: int = 16, c: int = 32) -> Kernel:
    """y[a, c] = sum over b of x[a, b, c] * w[b]: a value with three axes, reduced along the middle one."""
    dims = tuple(integer(n) for n in (a, b, c))
    buffers = {
        "x": Buffer("x", dims, BF16, "in", 2, True),
        "w": Buffer("w", dims[1:2], F32, "in", 0, True),
        "y": Buffer("y", (dims[0], dims[2]), F32, "out", 1, True),
    }
    x, w, y = Var("x_t", BF16, ("a", "b", "c")), Var("w_t", F32, ("b",)), Var("y_t", F32, ("a", "c"))
    body = (
        LoadTile(LOAD, x, "x", (pos("a"), pos("b"), pos("c")), None),
        LoadTile(LOAD, w, "w", (pos("b"),), None),
        TileReduce(S1, y, "sum", apply("mul", get(x), get(w)), "b"),
        Store(STORE, "y", (pos("a"), pos("c")), get(y), None),
    )
    axes = {n: TileAxis(n, s) for n, s in (("a", a), ("b", b), ("c", c))}
    return Kernel("middle", (GridAxis("g", 1, integer(1)),), axes, arguments(buffers, ()), buffers, {}, body, I32)


def transposed_copy(tile: int = 32) -> Kernel:
    """y[n, m] = x[m, n]: the contiguous axes of load and store differ."""
    buffers = {
        "x": Buffer("x", (size("M"), size("N")), F32, "in", 1, True),
        "y": Buffer("y", (size("N"), size("M")), F32, "out", 1, True),
    }
    x = Var("x_t", F32, ("m", "n"))
    inside = both(less(pos("m"), size("M")), less(pos("n"), size("N")))
    body = (
        LoadTile(LOAD, x, "x", (pos("m"), pos("n")), inside),
        Store(STORE, "y", (pos("n"), pos("m")), get(x), inside),
    )
    grid = (GridAxis("m", tile, tiles(size("M"), tile)), GridAxis("n", tile, tiles(size("N"), tile)))
    axes = {"m": TileAxis("m", tile), "n": TileAxis("n", tile)}
    return Kernel("transposed", grid, axes, arguments(buffers, ("M", "N")), buffers, {}, body, I32)


def merge_parts(parts: int = 5) -> Kernel:
    """y[h] = sum over parts s of w[s, h] * scale: scalars only, a loop of single positions."""
    buffers = {
        "w": Buffer("w", (integer(parts), size("H")), F32, "in", 1, False),
        "y": Buffer("y", (size("H"),), F32, "out", 0, False),
    }
    w, acc = Var("w_t", F32, ()), Var("acc", F32, ())
    body = (
        Init(S1, acc, real(0.0)),
        Loop(S1, "s", 1, (
            Segment(integer(0), integer(parts), "plain", (
                LoadTile(LOAD, w, "w", (pos("s"), pos("h")), None),
                Assign(S1, acc, apply("add", get(acc), apply("mul", get(w), Param(F32, "scale")))),
            )),
        )),
        Store(STORE, "y", (pos("h"),), get(acc), None),
    )  # fmt: skip
    args = arguments(buffers, ("H",), (("scale", F32),))
    return Kernel("merge_parts", (GridAxis("h", 1, size("H")),), {}, args, buffers, {}, body, I32)


def state_in_memory(tm: int = 16, tn: int = 32) -> Kernel:
    """total[m] += sum over a tile of n, tile after tile, with the totals in a workspace between the tiles."""
    buffers = {
        "x": Buffer("x", (size("M"), size("N")), F32, "in", 1, False),
        "total": Buffer("total", (size("M"),), F32, "workspace", 0, True),
    }
    x, old, part, new = (
        Var("x_t", F32, ("m", "n")),
        Var("old", F32, ("m",)),
        Var("part", F32, ("m",)),
        Var("new", F32, ("m",)),
    )
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    body = (
        Loop(S1, "n", tn, (
            Segment(integer(0), size("N"), "tail", (
                LoadTile(LOAD, old, "total", (pos("m"),), m_in),
                LoadTile(LOAD, x, "x", (pos("m"), pos("n")), both(m_in, n_in)),
                TileReduce(S1, part, "sum", get(x), "n"),
                Let(S1, new, apply("add", get(old), get(part))),
                Store(STORE, "total", (pos("m"),), get(new), m_in),
            )),
        )),
    )  # fmt: skip
    axes = {"m": TileAxis("m", tm), "n": TileAxis("n", tn)}
    grid = (GridAxis("m", tm, tiles(size("M"), tm)),)
    return Kernel("in_memory", grid, axes, arguments(buffers, ("M", "N")), buffers, {}, body, I32)
