"""Plain dumps of expressions, of the tile IR and of the resolved spec, able to show every node."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.emit.printer import Printer, Text, python_literal, signed
from kgen.functions import table
from kgen.ir import (
    Assign,
    Buffer,
    Combine,
    Dot,
    GridAxis,
    Guarded,
    Init,
    Kernel,
    Let,
    LoadTile,
    Loop,
    Op,
    Program,
    Store,
    TileReduce,
)
from kgen.math import Axis, Math, SizeDef, Tensor
from kgen.terms import Apply, Cast, Const, Expr, Get, Load, Param, Pos, Reduce, Ref, Size, Start, Var

_INFIX = {
    "or": 2, "and": 3, "lt": 5, "le": 5, "gt": 5, "ge": 5, "eq": 5, "ne": 5, "bitor": 6, "bitxor": 7, "bitand": 8,
    "shl": 9, "shr": 9, "add": 10, "sub": 10, "mul": 11, "div": 11, "floordiv": 11, "mod": 11,
}  # fmt: skip
_PREFIX = {"not": ("not ", 4), "neg": ("-", 12)}
_COMPARE, _POWER = 5, 13


class DumpPrinter(Printer):
    """Prints expressions in the notation of specs; functions without an operator as calls of their row."""

    language = "spec"

    def piece(self, e: Expr) -> Text:
        """Return the text of any node."""
        match e:
            case Load(tensor=name, index=index):
                return Text(f"{name}[{', '.join(self.text(i) for i in index)}]")
            case Ref(name=name, axes=axes):
                return Text(f"{name}[{', '.join(axes)}]")
            case Reduce():
                return self.reduction(e)
            case _:
                return super().piece(e)

    def applied(self, e: Apply) -> Text:
        """Return an operator or a call."""
        operator = table()[e.fn].operator if e.fn in table() else None
        if e.fn in _INFIX:
            prec = _INFIX[e.fn]
            left = self.text(e.args[0], prec + (prec == _COMPARE))
            return Text(f"{left} {operator} {self.text(e.args[1], prec + 1)}", prec)
        if e.fn in _PREFIX:
            sign, prec = _PREFIX[e.fn]
            return Text(f"{sign}{self.text(e.args[0], prec + (e.fn == 'neg'))}", prec)
        if e.fn == "pow":
            return Text(f"{self.text(e.args[0], _POWER + 1)}**{self.text(e.args[1], _POWER - 1)}", _POWER)
        return Text(f"{e.fn}({', '.join(self.text(a) for a in e.args)})")

    def reduction(self, e: Reduce) -> Text:
        """Return name[axes if guard](arg); the record where its name differs; operands by name."""
        guard = "" if e.guard is None else f" if {self.text(e.guard)}"
        record = "" if e.record == e.name else f" by {e.record}"
        operands = "".join(f", {k}={self.text(x)}" for k, x in e.operands)
        return Text(f"{e.name}[{', '.join(e.axes)}{guard}{record}]({self.text(e.arg)}{operands})")

    def const(self, e: Const) -> Text:
        """Return a literal; non-finite floats by their plain names."""
        code = python_literal(e)
        return signed(code[7:-2] if code.startswith("float(") else code)

    def cast(self, e: Cast) -> Text:
        """Return a conversion."""
        return Text(f"cast[{e.dtype}]({self.text(e.arg)})")

    def leaf(self, e: Expr) -> Text:
        """Return a name; starts and values are marked, so that they differ from axes and sizes."""
        match e:
            case Pos(axis=axis):
                return Text(axis)
            case Start(axis=axis):
                return Text(f"start({axis})")
            case Size(name=name) | Param(name=name):
                return Text(name)
            case Get(var=var):
                return Text(f"${var.name}")
        raise TypeError(f"no printed form for {type(e).__name__}")


_PRINTER = DumpPrinter()


def dump_expr(e: Expr) -> str:
    """Return an expression in the notation of specs; `$x` is a kernel's value, `start(m)` a tile's first position."""
    return _PRINTER.text(e)


def dump_program(program: Program) -> str:
    """Return all kernels of a program with buffers, grids and operations."""
    lines = [f"program {program.name}"]
    lines += [f"  {_buffer(b)}" for b in program.buffers.values()]
    for kernel in program.kernels:
        lines += ["", *_kernel(kernel)]
    return "\n".join(lines) + "\n"


def _buffer(b: Buffer) -> str:
    dims = ", ".join(dump_expr(d) + (":1" if i == b.unit else "") for i, d in enumerate(b.dims))
    return f"buffer {b.name}[{dims}] {b.dtype} {b.role}{' aligned' if b.aligned else ''}"


def _kernel(kernel: Kernel) -> list[str]:
    args = ", ".join(f"{a.kind} {a.name}: {a.dtype}" for a in kernel.args)
    lines = [f"kernel {kernel.name}({args})", f"  offsets {kernel.offset_dtype}"]
    lines += [f"  buffer {name}" for name in kernel.buffers]
    lines += [f"  constant {name} = {value}" for name, value in kernel.constants.items()]
    lines += [f"  tile {t.name}: {t.size}" for t in kernel.tile_axes.values()]
    lines += [f"  extent {axis}: {dump_expr(e)}" for axis, e in kernel.extents.items()]
    lines += [f"  grid {_grid(g)}" for g in kernel.grid]
    return lines + _ops(kernel.body, "  ")


def _grid(g: GridAxis) -> str:
    extra = (" desc" if g.desc else "") + (f" group {g.group}" if g.group else "")
    return f"{g.name}: {dump_expr(g.count)} x {g.tile}{extra}"


def _ops(body: Iterable[Op], indent: str) -> list[str]:
    lines: list[str] = []
    for op in body:
        label = f"[{','.join(op.label.stmts) or '*'} {op.label.part}]"
        if isinstance(op, Loop):
            lines.append(f"{indent}{label} loop {op.axis} step {op.tile}")
            lines += [] if op.guarded is None else [f"{indent}  {_guarded(op.guarded)}"]
            for s in op.segments:
                lines.append(f"{indent}  {s.kind} {dump_expr(s.lo)} .. {dump_expr(s.hi)}")
                lines += _ops(s.body, f"{indent}    ")
        else:
            lines.append(f"{indent}{label} {_op(op)}")
    return lines


def _guarded(g: Guarded) -> str:
    facts = {"hull": g.hull, "interior": g.interior, "validity": g.validity} | {
        f"guard {i}": e for i, e in enumerate(g.guards, 1)
    }
    shown = "; ".join(f"{name}: {dump_expr(e)}" for name, e in facts.items() if e is not None)
    return f"guarded {dump_expr(g.lo)} .. {dump_expr(g.hi)}{f' ({shown})' if shown else ''}"


def _var(v: Var) -> str:
    return f"{v.name}: {v.dtype}[{', '.join(v.axes)}]"


def _op(op: Op) -> str:
    match op:
        case Let(dst=dst, expr=e):
            return f"let {_var(dst)} = {dump_expr(e)}"
        case Init(dst=dst, value=e):
            return f"init {_var(dst)} = {dump_expr(e)}"
        case Assign(dst=dst, expr=e):
            return f"set {dst.name} = {dump_expr(e)}"
        case LoadTile(dst=dst, buffer=buffer, index=index, where=where, other=other):
            masked = "" if where is None else f" where {dump_expr(where)} else {other}"
            return f"load {_var(dst)} = {buffer}[{', '.join(map(dump_expr, index))}]{masked}"
        case Store(buffer=buffer, index=index, value=value, where=where):
            masked = "" if where is None else f" where {dump_expr(where)}"
            return f"store {buffer}[{', '.join(map(dump_expr, index))}] = {dump_expr(value)}{masked}"
        case Dot(dst=dst, a=a, b=b, contract=contract, accumulate=accumulate, precision=precision):
            target = f"{dst.name} +=" if accumulate else f"{_var(dst)} ="
            return f"dot {target} {a.name} . {b.name} over {contract} ({precision})"
        case TileReduce(dst=dst, op=name, src=src, axis=axis):
            return f"reduce {_var(dst)} = {name}[{axis}]({dump_expr(src)})"
        case Combine(dsts=dsts, srcs=srcs, axis=axis, states=states, merge=merge):
            rules = "; ".join(f"{name} = {dump_expr(e)}" for name, e in merge)
            sources = ", ".join(f"{s}={dump_expr(e)}" for s, e in zip(states, srcs, strict=True))
            return f"combine {', '.join(map(_var, dsts))} = [{axis}]({sources}) by {{{rules}}}"
    raise TypeError(f"unknown operation {type(op).__name__}")


def dump_math(math: Math) -> str:
    """Return a resolved spec: types, axes, sizes, tensors, params, checks, statements."""
    lines = [f"math {math.name}" + (" masked" if math.masked else "")]
    lines += [f"  type {name} = {dtype}" for name, dtype in math.dtypes.items()]
    lines += [f"  axis {_axis(a)}" for a in math.axes.values()]
    lines += [f"  size {_size(s)}" for s in math.sizes.values()]
    lines += [f"  tensor {_tensor(t)}" for t in math.tensors.values()]
    for p in math.params.values():
        default = "" if p.default is None else f" = {dump_expr(p.default)}"
        lines.append(f"  param {p.name}: {p.dtype}{default}{' static' if p.static else ''}")
    lines += [f"  check {dump_expr(c.condition)}" for c in math.checks]
    lines += [f"  cast {name}: {dtype}" for name, dtype in math.casts.items()]
    lines.append(f"  empty {math.conventions.empty}, f32 dots {math.conventions.f32_dot}")
    for s in math.statements:
        target = s.name if s.tensor is None else f"{s.tensor}[{', '.join(map(dump_expr, s.index))}] = {s.name}"
        lines.append(f"  {s.id} {target}[{', '.join(s.axes)}]: {s.expr.dtype} = {dump_expr(s.expr)}")
    return "\n".join(lines) + "\n"


def _axis(a: Axis) -> str:
    choices = "" if a.choices is None else f" in {list(a.choices)}"
    tile = "" if a.tile is None else f" tile {a.tile}"
    return f"{a.name}: {dump_expr(a.extent)}{choices}{tile}{' stream' if a.stream else ''}" + (
        "" if a.split is None else f" split {a.split}"
    )


def _size(s: SizeDef) -> str:
    choices = "" if s.choices is None else f" in {list(s.choices)}"
    if s.definition is not None:
        return f"{s.name} = {dump_expr(s.definition)}{choices}"
    if s.tensor is None:
        return f"{s.name} argument{choices}"
    solved = "" if s.solve is None else f" by {dump_expr(s.solve)}"
    return f"{s.name} from {s.tensor} dim {s.dim}{solved}{choices}"


def _tensor(t: Tensor) -> str:
    values = " | ".join(f"{name}({', '.join(map(dump_expr, args))})" if args else name for name, args in t.values.parts)
    extra = (" out" if t.out else "") + ("" if t.inplace is None else f" inplace {t.inplace}")
    extra += "" if t.fill is None else f" fill {t.fill}"
    return f"{t.name}[{', '.join(map(dump_expr, t.dims))}] {t.dtype}{extra} fast {list(t.fast)} values {values}"
