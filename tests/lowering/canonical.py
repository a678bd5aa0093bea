"""What a program computes, apart from names and from orders that do not matter: for comparing plans of reworded specs.

Every value is described by how it is made: a `let` by its expression, the arguments of commutative functions in sorted
order. State is described by its first value and everything that changes it, to a depth that tells states apart. The
operations of a body are compared as a multiset, without `let`s: naming a value is no operation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from kgen.ir import Assign, Combine, Dot, Init, Kernel, Let, LoadTile, Loop, Op, Program, Store, TileReduce
from kgen.ir_walk import ops, writes
from kgen.math import Math
from kgen.terms import Apply, Cast, Const, Expr, Get, Param, Pos, Size, Start, Var

COMMUTATIVE = {"add", "mul", "maximum", "minimum", "and", "or", "eq", "ne"}
ROUNDS = 3

Form = tuple[object, ...]


def canonical(program: Program, math: Math) -> Form:
    """Return a value that is equal for programs which differ in names and irrelevant orders only."""
    names = _numbers(program, math)
    return tuple(_Kernel(k, names).form() for k in program.kernels)


def _numbers(program: Program, math: Math) -> dict[str, str]:
    """Number what the spec names, by kind; workspaces in order."""
    found: dict[str, str] = {}
    for kind, items in (("a", math.axes), ("z", math.sizes), ("p", math.params), ("t", math.tensors)):
        found |= {name: f"{kind}{i}" for i, name in enumerate(items)}
    found |= {f"{a}_each": f"{found[a]}.each" for a in math.axes} | {f"{a}_part": f"{found[a]}.part" for a in math.axes}
    found |= {f"{a}_parts": f"{found[a]}.parts" for a in math.axes}
    spaces = [b for b in program.buffers if b not in math.tensors]
    return found | {b: f"w{i}" for i, b in enumerate(spaces)}


@dataclass
class _Kernel:
    kernel: Kernel
    names: dict[str, str]
    made: dict[Var, Op] = field(default_factory=dict)
    colours: dict[Var, Form] = field(default_factory=dict)

    def form(self) -> Form:
        body = list(ops(self.kernel.body))
        self.made = {v: op for op in body for v in writes(op) if not isinstance(op, Assign | Loop) and not _adds(op)}
        states = {op.dst: op for op in body if isinstance(op, Init)}
        self.colours = {v: ("state", self.expr(op.value), self.axes(v.axes), v.dtype) for v, op in states.items()}
        for _ in range(ROUNDS):
            changes = {v: [self.op(op) for op in body if v in writes(op) and op is not states[v]] for v in states}
            self.colours = {v: (self.colours[v][:4], hash(tuple(sorted(map(repr, c))))) for v, c in changes.items()}
        grid = tuple((self.names[g.name], g.tile, self.expr(g.count), g.desc, g.group) for g in self.kernel.grid)
        sizes = sorted((self.names[a], t.size) for a, t in self.kernel.tile_axes.items())
        return grid, tuple(sizes), self.body(self.kernel.body)

    def body(self, body: tuple[Op, ...]) -> Form:
        found = Counter(repr(self.op(op)) for op in body if not isinstance(op, Let | Init))
        return tuple(sorted(found.items()))

    def axes(self, axes: tuple[str, ...]) -> Form:
        return tuple(sorted(self.names[a] for a in axes))

    def var(self, v: Var) -> Form:
        if v in self.colours:
            return self.colours[v]
        op = self.made[v]
        if isinstance(op, Let):
            return self.expr(op.expr)
        return self.op(op)

    def op(self, op: Op) -> Form:
        match op:
            case Assign(dst=dst, expr=e):
                return "assign", self.var(dst)[:1] if dst not in self.colours else self.colours[dst], self.expr(e)
            case LoadTile(buffer=b, index=index, where=where, other=other):
                condition = None if where is None else self.expr(where)
                return "load", self.names[b], tuple(map(self.expr, index)), condition, other
            case Store(buffer=b, index=index, value=value, where=where):
                condition = None if where is None else self.expr(where)
                return "store", self.names[b], tuple(map(self.expr, index)), self.expr(value), condition
            case Dot(dst=dst, a=a, b=b, contract=k, accumulate=adds, precision=precision):
                into = self.colours[dst] if adds else None
                return "dot", into, self.var(a), self.var(b), self.names[k], precision
            case TileReduce(op=name, src=src, axis=axis):
                return "reduce", name, self.expr(src), self.names[axis]
            case Combine(srcs=srcs, axis=axis, states=states):
                return "combine", tuple(map(self.expr, srcs)), self.names[axis], states
            case Loop(axis=axis, tile=tile, segments=segments):
                parts = tuple((self.expr(s.lo), self.expr(s.hi), s.kind, self.body(s.body)) for s in segments)
                return "loop", self.names[axis], tile, parts
            case Init(value=value, dst=dst):
                return "init", self.expr(value), self.axes(dst.axes)
            case _:
                raise TypeError(f"no form for {op}")

    def expr(self, e: Expr) -> Form:
        match e:
            case Get(var=var):
                return self.var(var)
            case Pos(axis=axis) | Start(axis=axis):
                return type(e).__name__, self.names[axis]
            case Size(name=name) | Param(name=name):
                return type(e).__name__, self.names[name]
            case Const(value=value, dtype=dtype):
                return "const", repr(value), dtype
            case Cast(arg=arg, dtype=dtype):
                return "cast", dtype, self.expr(arg)
            case Apply(fn=fn, args=args, dtype=dtype):
                flat = self.flat(fn, args) if fn in COMMUTATIVE else [self.expr(a) for a in args]
                return fn, dtype, tuple(sorted(flat, key=repr) if fn in COMMUTATIVE else flat)
            case _:
                raise TypeError(f"no form for {e}")

    def flat(self, fn: str, args: tuple[Expr, ...]) -> list[Form]:
        """Return the arguments of nested applications of an associative function."""
        found: list[Form] = []
        for a in args:
            while isinstance(a, Get) and a.var not in self.colours and isinstance(let := self.made[a.var], Let):
                a = let.expr
            nested = isinstance(a, Apply) and a.fn == fn and fn not in ("eq", "ne")
            found += self.flat(fn, a.args) if isinstance(a, Apply) and nested else [self.expr(a)]
        return found


def _adds(op: Op) -> bool:
    return isinstance(op, Dot) and op.accumulate
