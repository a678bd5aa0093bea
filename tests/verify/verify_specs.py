"""Resolved specs built by hand, for the verifier's own tests: they need no parser."""

from __future__ import annotations

from kgen.math import Axis, Check, Conventions, Math, ParamDef, SizeDef, Stmt, Tensor, Values
from kgen.source import Source
from kgen.terms import Apply, Cast, Const, Expr, Load, Param, Pos, Reduce, Ref, Size, integer
from kgen.types import BF16, BOOL, F32, I32, I64, DType, compute_dtype, promote

NORMAL = Values((("normal", ()),))
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not")


def fn(name: str, *args: Expr | float) -> Apply:
    """Apply a function; Python numbers become literals of the other argument's type."""
    typed = [a for a in args if isinstance(a, Expr)]
    dtype = compute_dtype(typed[-1].dtype)
    for a in typed:
        dtype = promote(dtype, compute_dtype(a.dtype)) if a.dtype is not BOOL else dtype
    full = tuple(a if isinstance(a, Expr) else Const(dtype, a) for a in args)
    return Apply(BOOL if name in _COMPARE else dtype, name, full)


def pos(axis: str) -> Pos:
    return Pos(I32, axis)


def size(name: str) -> Size:
    return Size(I32, name)


def load(tensor: str, dtype: DType, *index: Expr | str) -> Load:
    return Load(dtype, tensor, tuple(pos(i) if isinstance(i, str) else i for i in index))


def reduce(
    name: str,
    axes: str,
    arg: Expr,
    *,
    record: str | None = None,
    guard: Expr | None = None,
    elementwise: bool = False,
    dtype: DType | None = None,
    operands: tuple[tuple[str, Expr], ...] = (),
) -> Reduce:
    return Reduce(
        dtype or compute_dtype(arg.dtype), name, record or name, tuple(axes), guard, arg, operands, elementwise
    )


def axis(name: str, extent: str, **fields: object) -> Axis:
    return Axis(name, size(extent), **fields)  # type: ignore[arg-type]


def tensor(name: str, dims: str, dtype: DType, *, out: bool = False, values: Values = NORMAL) -> Tensor:
    sizes = tuple(size(d) for d in dims.split())
    return Tensor(name, sizes, dtype, out, values, (len(sizes) - 1,))


def output(stmt_id: str, name: str, axes: str, expr: Expr) -> Stmt:
    return Stmt(stmt_id, name, tuple(axes), expr, f"{name} = ...", name, tuple(pos(a) for a in axes))


def let(stmt_id: str, name: str, axes: str, expr: Expr) -> Stmt:
    return Stmt(stmt_id, name, tuple(axes), expr, f"{name} = ...")


def math(
    name: str,
    axes: list[Axis],
    tensors: list[Tensor],
    statements: list[Stmt],
    *,
    sizes: dict[str, Expr | tuple[int, ...] | None] | None = None,
    params: list[ParamDef] | None = None,
    checks: tuple[Check, ...] = (),
    casts: dict[str, DType] | None = None,
    empty: str = "nan",
    masked: bool = False,
) -> Math:
    """Build a spec; sizes are those that dims and `sizes` name (an Expr defines, a tuple lists choices)."""
    defs: dict[str, SizeDef] = {}
    for t in tensors:
        for dim, d in enumerate(t.dims):
            if isinstance(d, Size) and d.name not in defs and not t.out:
                defs[d.name] = SizeDef(d.name, t.name, dim)
    for key, what in (sizes or {}).items():
        old = defs.get(key, SizeDef(key))
        definition = what if isinstance(what, Expr) else None
        choices = what if isinstance(what, tuple) else None
        defs[key] = SizeDef(key, old.tensor, old.dim, None, definition, choices)
    return Math(
        name=name,
        doc="",
        source=Source(f"{name}.yaml", ""),
        dtypes={},
        axes={a.name: a for a in axes},
        sizes=defs,
        tensors={t.name: t for t in tensors},
        params={p.name: p for p in params or []},
        checks=checks,
        statements=tuple(statements),
        casts=casts or {},
        conventions=Conventions(empty),
        reference=None,
        masked=masked,
    )


def softmax(dtype: DType = F32) -> Math:
    body = reduce("softmax", "n", load("x", dtype, "m", "n"), record="online_softmax", elementwise=True)
    return math(
        "softmax",
        [axis("m", "M"), axis("n", "N", tile=16, stream=True)],
        [tensor("x", "M N", dtype), tensor("y", "M N", dtype, out=True)],
        [output("s1", "y", "mn", body)],
    )


def logsumexp(dtype: DType = F32) -> Math:
    body = reduce("logsumexp", "n", load("x", dtype, "m", "n"), record="online_softmax")
    return math(
        "logsumexp",
        [axis("m", "M"), axis("n", "N", tile=16, stream=True)],
        [tensor("x", "M N", dtype), tensor("y", "M", F32, out=True)],
        [output("s1", "y", "m", body)],
    )


def attention(dtype: DType = BF16, *, causal: bool = True, empty: str = "zero", sink: bool = False) -> Math:
    """Grouped attention with a bottom-right causal mask, output and log-sum-exp."""
    hk = fn("floordiv", pos("h"), size("G"))
    bound = fn("sub", fn("add", pos("m"), size("N")), size("M"))
    allowed = fn("or", fn("not", Param(BOOL, "causal")), fn("le", pos("n"), bound))
    dot = reduce("sum", "d", fn("mul", load("q", dtype, "b", "h", "m", "d"), load("k", dtype, "b", hk, "n", "d")))
    s = Ref(F32, "s", ("b", "h", "m", "n"))
    p = Ref(F32, "p", ("b", "h", "m", "n"))
    record = "online_softmax_sink" if sink else "online_softmax"
    operands: tuple[tuple[str, Expr], ...] = (("sink", load("sink", F32, "h")),) if sink else ()
    guarded = {"record": record, "guard": allowed, "operands": operands}
    weighted = fn("mul", p, load("v", dtype, "b", hk, "n", "e"))
    tensors = [
        tensor("q", "B H M D", dtype),
        tensor("k", "B HK N D", dtype),
        tensor("v", "B HK N E", dtype),
        *([tensor("sink", "H", F32)] if sink else []),
        tensor("o", "B H M E", dtype, out=True),
        tensor("lse", "B H M", F32, out=True),
    ]
    return math(
        "attention",
        [
            axis("b", "B"),
            axis("h", "H"),
            axis("m", "M", tile=16),
            axis("n", "N", tile=16, stream=True),
            axis("d", "D"),
            axis("e", "E"),
        ],
        tensors,
        [
            let("s1", "s", "bhmn", fn("mul", Param(F32, "scale"), dot)),
            let("s2", "p", "bhmn", reduce("softmax", "n", s, elementwise=True, **guarded)),  # type: ignore[arg-type]
            output("s3", "o", "bhme", reduce("sum", "n", weighted, guard=allowed)),
            output("s4", "lse", "bhm", reduce("logsumexp", "n", s, **guarded)),  # type: ignore[arg-type]
        ],
        sizes={"G": fn("floordiv", size("H"), size("HK")), "D": (16, 32), "E": (16, 32)},
        params=[
            ParamDef("scale", F32, fn("div", Const(F32, 1.0), fn("sqrt", Cast(F32, size("D")))), False),
            ParamDef("causal", BOOL, Const(BOOL, causal), True),
        ],
        checks=(Check(fn("eq", fn("mod", size("H"), size("HK")), integer(0)), "H % HK == 0"),),
        empty=empty,
        masked=True,
    )


def matmul(dtype: DType = BF16, out: DType | None = None) -> Math:
    """y = x @ w + bias."""
    dot = reduce("sum", "k", fn("mul", load("x", dtype, "m", "k"), load("w", dtype, "k", "n")))
    return math(
        "matmul",
        [axis("m", "M", tile=16), axis("n", "N", tile=16), axis("k", "K", tile=16, stream=True)],
        [
            tensor("x", "M K", dtype),
            tensor("w", "K N", dtype),
            tensor("bias", "N", dtype),
            tensor("y", "M N", out or dtype, out=True),
        ],
        [output("s1", "y", "mn", fn("add", dot, load("bias", dtype, "n")))],
    )


def layernorm(dtype: DType = F32) -> Math:
    x = load("x", dtype, "m", "n")
    mu, rs = Ref(F32, "mu", ("m",)), Ref(F32, "rs", ("m",))
    var = reduce("var", "n", x, record="welford")
    normal = fn("mul", fn("mul", fn("sub", x, mu), rs), load("w", dtype, "n"))
    return math(
        "layernorm",
        [axis("m", "M"), axis("n", "N", tile="full")],
        [
            tensor("x", "M N", dtype),
            tensor("w", "N", dtype),
            tensor("c", "N", dtype),
            tensor("y", "M N", dtype, out=True),
            tensor("mu", "M", F32, out=True),
            tensor("rs", "M", F32, out=True),
        ],
        [
            output("s1", "mu", "m", reduce("mean", "n", x, record="welford")),
            output("s2", "rs", "m", fn("rsqrt", fn("add", var, Param(F32, "eps")))),
            output("s3", "y", "mn", fn("add", normal, load("c", dtype, "n"))),
        ],
        params=[ParamDef("eps", F32, Const(F32, 1e-5), False)],
    )


def argmax(dtype: DType = F32) -> Math:
    """i[n] = argmax over rows."""
    body = reduce("argmax", "m", load("x", dtype, "m", "n"), dtype=I64)
    return math(
        "argmax",
        [axis("m", "M", tile=16, stream=True), axis("n", "N", tile=16)],
        [tensor("x", "M N", dtype), tensor("i", "N", I64, out=True)],
        [output("s1", "i", "n", body)],
    )


def cross_entropy(dtype: DType = F32) -> Math:
    label = load("label", I64, "m")
    values = Values((("index", (size("V"),)), ("literal", (Const(I64, -100),))))
    lse = Ref(F32, "lse", ("m",))
    picked = fn("sub", lse, load("x", dtype, "m", label))
    ignored = fn("eq", label, Param(I64, "ignore"))
    return math(
        "cross_entropy",
        [axis("m", "M"), axis("n", "V", tile=16, stream=True)],
        [
            tensor("x", "M V", dtype),
            tensor("label", "M", I64, values=values),
            tensor("loss", "M", F32, out=True),
            tensor("lse", "M", F32, out=True),
        ],
        [
            output("s1", "lse", "m", reduce("logsumexp", "n", load("x", dtype, "m", "n"), record="online_softmax")),
            output("s2", "loss", "m", Apply(F32, "where", (ignored, Const(F32, 0.0), picked))),
        ],
        params=[ParamDef("ignore", I64, Const(I64, -100), False)],
    )


def integer_sum() -> Math:
    """y[m] = sum over n of x (int32)."""
    values = Values((("uniform", (Const(I32, -50), Const(I32, 50))),))
    return math(
        "integer_sum",
        [axis("m", "M"), axis("n", "N", tile=16, stream=True)],
        [tensor("x", "M N", I32, values=values), tensor("y", "M", I32, out=True)],
        [output("s1", "y", "m", reduce("sum", "n", load("x", I32, "m", "n")))],
    )
