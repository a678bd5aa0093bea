"""Hand-built tile IR for the tests of the mma skeleton: chains and pairs of products."""

from __future__ import annotations

from tests.emit.kernels import arguments, both, cast, get, less, pos, real, size, tiles

from kgen.ir import Buffer, Dot, GridAxis, Init, Kernel, Label, Let, LoadTile, Loop, Segment, Store, TileAxis
from kgen.terms import Var, apply, integer
from kgen.types import BF16, F32, I32, DType

STATE, LOAD, STORE = Label(("s1",), "state"), Label(("s1",), "load"), Label(("s1",), "store")


def both_ways(dtype: DType = BF16, tm: int = 32, tn: int = 32, d: int = 32) -> Kernel:
    """p = relu(q k^T); y[m, e] = p v and z[n, e] = p^T u: one of the two cannot take p from registers."""
    shapes = {"q": "M", "k": "N", "v": "N", "u": "M", "y": "M", "z": "N"}
    buffers = {
        b: Buffer(b, (size(s), size("D")), F32 if b in "yz" else dtype, "out" if b in "yz" else "in", 1, True)
        for b, s in shapes.items()
    }
    q, k, v = Var("q_t", dtype, ("m", "d")), Var("k_t", dtype, ("n", "d")), Var("v_t", dtype, ("n", "e"))
    u, s, p = Var("u_t", dtype, ("m", "f")), Var("s", F32, ("m", "n")), Var("p", dtype, ("m", "n"))
    y, z = Var("y_t", F32, ("m", "e")), Var("z_t", F32, ("n", "f"))
    m_in, n_in = less(pos("m"), size("M")), less(pos("n"), size("N"))
    body = (
        LoadTile(LOAD, q, "q", (pos("m"), pos("d")), m_in),
        LoadTile(LOAD, k, "k", (pos("n"), pos("d")), n_in),
        Dot(STATE, s, q, k, "d", False),
        Let(STATE, p, cast(dtype, apply("maximum", get(s), real(0.0)))),
        LoadTile(LOAD, v, "v", (pos("n"), pos("e")), n_in),
        LoadTile(LOAD, u, "u", (pos("m"), pos("f")), m_in),
        Dot(STATE, y, p, v, "n", False),
        Dot(STATE, z, p, u, "m", False),
        Store(STORE, "y", (pos("m"), pos("e")), get(y), m_in),
        Store(STORE, "z", (pos("n"), pos("f")), get(z), n_in),
    )
    axes = {"m": tm, "n": tn, "d": d, "e": d, "f": d}
    return Kernel(
        "both_ways", (GridAxis("g", 1, integer(1)),), {a: TileAxis(a, n) for a, n in axes.items()},
        arguments(buffers, ("M", "N")), buffers, {"D": d}, body, I32,
    )  # fmt: skip


def gated(dtype: DType = BF16, tile: tuple[int, int, int] = (64, 64, 32), aligned: bool = True) -> Kernel:
    """y = (x a) * relu(x b): two products of one loop share the tile of x; whole tiles first, then the ragged end."""
    tm, tn, tk = tile
    shapes = {"x": ("M", "K"), "a": ("K", "N"), "b": ("N", "K"), "y": ("M", "N")}
    buffers = {
        n: Buffer(n, (size(r), size(c)), dtype, "out" if n == "y" else "in", 1, aligned) for n, (r, c) in shapes.items()
    }
    x, a, b = Var("x_t", dtype, ("m", "k")), Var("a_t", dtype, ("k", "n")), Var("b_t", dtype, ("n", "k"))
    left, right = Var("left", F32, ("m", "n")), Var("right", F32, ("m", "n"))
    m_in, n_in, k_in = (less(pos(i), size(i.upper())) for i in "mnk")

    def body(ragged: bool) -> tuple[LoadTile | Dot, ...]:
        def where(part: object) -> object:
            return both(part, k_in) if ragged else part  # type: ignore[arg-type]

        return (
            LoadTile(LOAD, x, "x", (pos("m"), pos("k")), where(m_in)),  # type: ignore[arg-type]
            LoadTile(LOAD, a, "a", (pos("k"), pos("n")), where(n_in)),  # type: ignore[arg-type]
            Dot(STATE, left, x, a, "k", True),
            LoadTile(LOAD, b, "b", (pos("n"), pos("k")), where(n_in)),  # type: ignore[arg-type]
            Dot(STATE, right, x, b, "k", True),
        )

    whole = apply("mul", apply("quot", size("K"), integer(tk)), integer(tk))
    end = apply("mul", tiles(size("K"), tk), integer(tk))
    result = apply("mul", get(left), apply("maximum", get(right), real(0.0)))
    steps = (
        Init(STATE, left, real(0.0)),
        Init(STATE, right, real(0.0)),
        Loop(
            STATE, "k", tk,
            (Segment(integer(0), whole, "plain", body(False)), Segment(whole, end, "tail", body(True))),
        ),
        Store(STORE, "y", (pos("m"), pos("n")), cast(dtype, result), both(m_in, n_in)),
    )  # fmt: skip
    grid = (GridAxis("m", tm, tiles(size("M"), tm)), GridAxis("n", tn, tiles(size("N"), tn)))
    axes = {i: TileAxis(i, n) for i, n in zip("mnk", tile, strict=True)}
    return Kernel("gated", grid, axes, arguments(buffers, ("M", "N", "K")), buffers, {}, steps, I32)
