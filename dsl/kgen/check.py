"""The rules of the tile IR, executable: a broken one is an error of the compiler, with the kernel and the operation."""

from __future__ import annotations

from kgen.ir import Assign, Combine, Dot, Init, Kernel, LoadTile, Loop, Op, Program, Store, TileReduce
from kgen.ir_walk import expressions, ops, reads, writes
from kgen.terms import Expr, Load, Param, Pos, Reduce, Ref, Size, Start, Var, free_axes, walk
from kgen.types import BOOL


class InternalError(Exception):
    """A rule of the IR is broken: a fault of kgen itself, not of the spec."""


def check(program: Program) -> None:
    """Raise InternalError if the program breaks a rule."""
    for kernel in program.kernels:
        _Check(kernel).run()


class _Check:
    """Walks a kernel with the variables and loops that are open at each operation."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.state: set[Var] = set()

    def run(self) -> None:
        self.arguments()
        self.body(self.kernel.body, set(), frozenset(g.name for g in self.kernel.grid))

    def arguments(self) -> None:
        """Every size, param and buffer that the kernel reads is an argument or a constant."""
        kernel = self.kernel
        given = {a.name for a in kernel.args} | kernel.constants.keys()
        exprs = [e for op in ops(kernel.body) for e in expressions(op)] + [g.count for g in kernel.grid]
        for name in {n.name for e in exprs for n in walk(e) if isinstance(n, Size | Param)} - given:
            raise InternalError(f"kernel {kernel.name}: {name} is read and is no argument")

    def body(self, body: tuple[Op, ...], defined: set[Var], walked: frozenset[str]) -> None:
        for op in body:
            self.op(op, defined, walked)
            if isinstance(op, Loop):
                for segment in op.segments:
                    self.body(segment.body, set(defined), walked | {op.axis})
            defined.update(writes(op))

    def op(self, op: Op, defined: set[Var], walked: frozenset[str]) -> None:
        for var in reads(op):
            self.require(var in defined, op, f"{var.name} is read before it is defined")
        for e in expressions(op):
            self.expression(e, op, walked)
        if isinstance(op, Init):
            self.state.add(op.dst)
        self.definition(op, defined)
        self.shape(op)

    def definition(self, op: Op, defined: set[Var]) -> None:
        changes = isinstance(op, Assign) or (isinstance(op, Dot) and op.accumulate)
        for var in writes(op):
            if changes:
                self.require(var in self.state, op, f"{var.name} is changed but is no state")
            else:
                self.require(var not in defined, op, f"{var.name} is defined twice")

    def expression(self, e: Expr, op: Op, walked: frozenset[str]) -> None:
        for n in walk(e):
            self.require(not isinstance(n, Load | Reduce | Ref), op, f"{type(n).__name__} was not lowered")
            if isinstance(n, Pos | Start):
                known = n.axis in walked or n.axis in self.kernel.tile_axes
                self.require(known, op, f"position on {n.axis} outside its loop")

    def shape(self, op: Op) -> None:
        tile = self.kernel.tile_axes
        match op:
            case LoadTile(dst=dst, buffer=buffer, index=index):
                self.access(op, buffer, index)
                self.require(dst.dtype == self.kernel.buffers[buffer].dtype, op, "loaded type differs")
                covered = frozenset().union(*(free_axes(e) for e in expressions(op))) & tile.keys()
                self.require(covered <= set(dst.axes), op, "the value lacks axes")
            case Store(buffer=buffer, index=index, value=value, where=where):
                self.access(op, buffer, index)
                covered = frozenset().union(*(free_axes(i) for i in index)) & tile.keys()
                self.require(free_axes(value) & tile.keys() <= covered, op, "the value has axes its index lacks")
                self.require(value.dtype == self.kernel.buffers[op.buffer].dtype, op, "stored type differs")
                self.require(where is None or where.dtype is BOOL, op, "predicate is no bool")
            case Dot(dst=dst, a=a, b=b, contract=k):
                sides = (set(a.axes) - {k}, set(b.axes) - {k})
                self.require(k in a.axes and k in b.axes, op, f"an operand lacks {k}")
                self.require(set(dst.axes) == sides[0] | sides[1] and not sides[0] & sides[1], op, "axes do not fit")
                self.require(a.dtype == b.dtype, op, "operands differ in type")
            case TileReduce(dst=dst, src=src, axis=axis):
                self.require(axis in free_axes(src), op, f"nothing to reduce over {axis}")
                self.require(set(dst.axes) == (free_axes(src) & tile.keys()) - {axis}, op, "axes do not fit")
            case Combine(dsts=dsts, srcs=srcs):
                self.require(len(dsts) == len(srcs) == len(op.states), op, "states do not match")
            case _:
                for e in expressions(op):
                    for v in writes(op):
                        extra = free_axes(e) & tile.keys() - set(v.axes)
                        self.require(not extra, op, f"{v.name} lacks axes {sorted(extra)}")

    def access(self, op: Op, buffer: str, index: tuple[Expr, ...]) -> None:
        self.require(buffer in self.kernel.buffers, op, "no such buffer")
        self.require(len(index) == len(self.kernel.buffers[buffer].dims), op, "an index for each dim is needed")

    def require(self, ok: bool, op: Op, message: str) -> None:
        if not ok:
            names = ", ".join(v.name for v in writes(op)) or getattr(op, "buffer", getattr(op, "axis", ""))
            raise InternalError(f"kernel {self.kernel.name}, {type(op).__name__} {names}: {message}")
