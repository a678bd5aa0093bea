"""The operations of a kernel as Triton statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kgen.emit.address import Address, Term, address, depends, grouped, product, scalar_product
from kgen.emit.labels import label_text
from kgen.emit.names import Names, block
from kgen.emit.traverse import changed, defined, walk_ops
from kgen.emit.triton_expr import TritonPrinter
from kgen.emit.wrap import STEP, wrap
from kgen.ir import (
    Assign,
    Combine,
    Dot,
    Init,
    Kernel,
    Label,
    Let,
    LoadTile,
    Loop,
    Op,
    Segment,
    Store,
    TileReduce,
)
from kgen.terms import Cast, Const, Expr, Get, Pos, Var, walk
from kgen.types import BOOL, F64, I32, DType

SMALLEST_DOT = 16  # tl.dot takes no smaller side


def uses(lines: list[str], name: str) -> bool:
    """Return whether an identifier occurs in `lines`."""
    return re.search(rf"\b{re.escape(name)}\b", "\n".join(lines)) is not None


class Body:
    """Collects the lines of a kernel's body. `merges` gives the name of each Combine's merge function."""

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        statements: Mapping[str, str],
        stages: int | None,
        merges: Mapping[Combine, str],
    ) -> None:
        self.kernel, self.names, self.statements, self.stages, self.merges = kernel, names, statements, stages, merges
        self.scalar = TritonPrinter(kernel, names)
        self.pointers = {a.buffer or a.name: names.arguments[a.name] for a in kernel.args if a.kind == "tensor"}
        self.lines: list[str] = []
        self.depth = 1
        self.label: Label | None = None
        self.shown: set[tuple[str, ...]] = set()
        self.bases: list[tuple[Address, str]] = []
        self.mutable = frozenset(v.name for op in walk_ops(kernel.body) for v in changed(op))
        self.taken = {
            *names.values.values(),
            *names.arguments.values(),
            *names.position.values(),
            *names.start.values(),
        }

    def add(self, code: str) -> None:
        """Append a statement, broken into lines if it is long."""
        self.lines += wrap(code, STEP * self.depth)

    def ops(self, body: tuple[Op, ...]) -> None:
        """Append operations, with a label's comment before each group that shares it."""
        for op in body:
            if op.label != self.label:
                if self.lines and self.depth == 1:
                    self.lines.append("")
                self.comment(self.label_of(op.label))
                self.label = op.label
            self.op(op)

    def comment(self, text: str) -> None:
        """Append a comment."""
        self.lines.append(f"{' ' * STEP * self.depth}# {text}")

    def label_of(self, label: Label) -> str:
        """Return a label's text, with the source line of its statement when the block first comes to it."""
        shown = label.stmts in self.shown
        self.shown.add(label.stmts)
        return label_text(label, {} if shown else self.statements)

    def op(self, op: Op) -> None:
        """Append one operation."""
        match op:
            case Let(dst=dst, expr=e) | Assign(dst=dst, expr=e):
                self.set(dst, self.value(dst, e, state=dst.name in self.mutable))
            case Init(dst=dst, value=e):
                self.set(dst, self.initial(dst, e))
            case LoadTile():
                self.load(op)
            case Store():
                self.store(op)
            case Dot():
                self.dot(op)
            case TileReduce():
                self.reduce(op)
            case Combine():
                self.combine(op)
            case Loop():
                self.loop(op)
            case _:
                raise TypeError(f"unknown operation {type(op).__name__}")

    def set(self, dst: Var, code: str) -> None:
        """Append `dst = code`."""
        self.add(f"{self.names.values[dst.name]} = {code}")

    def value(self, dst: Var, e: Expr, state: bool = False) -> str:
        """Return `e` with the axes and type of `dst`."""
        printer = self.scalar.over(dst.axes)
        return printer.full(e) if dst.axes or state or dst.dtype.bytes == 8 else printer.text(e)

    def initial(self, dst: Var, e: Expr) -> str:
        """Return the first value of mutable state, typed, for a loop carries it."""
        printer = self.scalar.over(dst.axes)
        if isinstance(e, Const) and e.value == 0 and dst.axes and dst.dtype is not BOOL:
            return f"tl.zeros({printer.shape()}, {dst.dtype.tl})"
        shape = printer.shape() if dst.axes else "[]"
        return f"tl.full({shape}, {self.scalar.text(e)}, {dst.dtype.tl})"

    def load(self, op: LoadTile) -> None:
        """Append a load; masked-off elements are `op.other`."""
        pointer = self.pointer(address(self.kernel, op.buffer, op.index), op.dst.axes)
        mask = self.mask(op.where, op.dst.axes)
        other = self.scalar.text(Const(op.dst.dtype, op.other))
        tail = f", mask={mask}, other={other}" if mask else ""
        self.set(op.dst, f"tl.load({pointer}{tail})")

    def store(self, op: Store) -> None:
        """Append a store, its value spread over the axes of the index."""
        axes = order_of(self.kernel, (*op.index, op.value))
        pointer = self.pointer(address(self.kernel, op.buffer, op.index), axes)
        mask = self.mask(op.where, axes)
        value = self.scalar.over(axes).full(op.value)
        self.add(f"tl.store({pointer}, {value}{f', mask={mask}' if mask else ''})")

    def mask(self, where: Expr | None, axes: tuple[str, ...]) -> str | None:
        """Return a predicate for a tile, None if it always holds. A tile's mask must be a tile too."""
        if where is None or where == Const(BOOL, True):
            return None
        printer = self.scalar.over(axes)
        return printer.text(where) if printer.tile_axes(where) else printer.full(where)

    def pointer(self, a: Address, axes: tuple[str, ...]) -> str:
        """Return the pointers of a tile; its scalar part gets a line of its own outside loops."""
        done, name = self.known_base(a)
        left = tuple(t for t in a.base if t not in done)
        if left and self.depth == 1 and a.tile:
            name, left = self.define_base(a, a.base), ()
        code = self.scalar.sum(name, [scalar_product(t) for t in grouped(left)])
        code = self.scalar.over(axes).sum(code, [product(t) for t in grouped(a.tile)])
        covered = {x for t in a.tile for x in self.scalar.tile_axes(t.index)}
        return f"tl.broadcast_to({code}, {self.scalar.over(axes).shape()})" if covered < set(axes) else code

    def known_base(self, a: Address) -> tuple[tuple[Term, ...], str]:
        """Return the largest part of the base that has a name already, and the name."""
        fits = [(b.base, n) for b, n in self.bases if b.buffer == a.buffer and set(b.base) <= set(a.base)]
        return max(fits, key=lambda b: len(b[0]), default=((), self.pointers[a.buffer]))

    def define_base(self, a: Address, terms: tuple[Term, ...]) -> str:
        """Append a line that names the base pointer of a buffer moved by `terms`."""
        done, start = self.known_base(Address(a.buffer, terms, ()))
        name = self.fresh(f"{self.pointers[a.buffer]}_base")
        more = [scalar_product(t) for t in grouped(t for t in terms if t not in done)]
        self.add(f"{name} = {self.scalar.sum(start, more)}")
        if not any(depends(t.index, frozenset(), self.mutable) for t in terms):
            self.bases.append((Address(a.buffer, terms, ()), name))
        return name

    def fresh(self, preferred: str) -> str:
        """Return an identifier not yet used."""
        name, number = preferred, 1
        while name in self.taken:
            number += 1
            name = f"{preferred}_{number}"
        self.taken.add(name)
        return name

    def dot(self, op: Dot) -> None:
        """Append a product; tl.dot where it exists for the type and the sides are large enough."""
        *batch, row, col = op.dst.axes
        a = self.scalar.over((*batch, row, op.contract)).text(Get(op.a.dtype, op.a))
        b = self.scalar.over((*batch, op.contract, col)).text(Get(op.b.dtype, op.b))
        dst = self.names.values[op.dst.name]
        sides = (self.kernel.tile_axes[x].size for x in (row, col, op.contract))
        if op.dst.dtype is F64 or min(sides) < SMALLEST_DOT or len(batch) > 1:
            return self.summed_dot(op)
        carried = f", {dst}" if op.accumulate else ""
        precision = f', input_precision="{op.precision}"' if op.a.dtype.bits == 32 else ""
        return self.add(f"{dst} = tl.dot({a}, {b}{carried}{precision})")

    def summed_dot(self, op: Dot) -> None:
        """Append a product as a sum of products, for what tl.dot does not take."""
        *batch, row, col = op.dst.axes
        axes = (*batch, row, op.contract, col)
        self.comment("a sum of products: tl.dot has no form for this type or size")
        factors = (
            Get(v.dtype, v) if v.dtype is op.dst.dtype else Cast(op.dst.dtype, Get(v.dtype, v)) for v in (op.a, op.b)
        )
        a, b = (self.scalar.over(axes).text(f, 11) for f in factors)
        total = f"tl.sum({a} * {b}, axis={len(axes) - 2})"
        dst = self.names.values[op.dst.name]
        self.add(f"{dst} = {f'{dst} + ' if op.accumulate else ''}{total}")

    def reduce(self, op: TileReduce) -> None:
        """Append a reduction of a tile along one axis. tl.max and tl.min drop NaN, so floats use their own combiner."""
        axes = self.reduced_order(op.dst.axes, op.axis, (op.src,))
        at = axes.index(op.axis)
        printer = self.scalar.over(axes)
        if op.op in ("any", "all"):
            code = f"tl.{'max' if op.op == 'any' else 'min'}({printer.full(Cast(I32, op.src))}, axis={at}) != 0"
        elif op.op == "sum":
            code = f"tl.sum({printer.full(_converted(op.src, op.dst.dtype))}, axis={at})"
        elif op.src.dtype.is_float:
            code = f"tl.reduce({printer.full(op.src)}, {at}, nan_{op.op})"
        else:
            code = f"tl.{op.op}({printer.full(op.src)}, axis={at})"
        self.set(op.dst, code)

    def combine(self, op: Combine) -> None:
        """Append a fold of a state tuple along one axis."""
        axes = self.reduced_order(op.dsts[0].axes, op.axis, op.srcs)
        srcs = [self.scalar.over(axes).full(s) for s in op.srcs]
        state = f"({', '.join(srcs)})" if len(srcs) > 1 else srcs[0]
        dsts = ", ".join(self.names.values[d.name] for d in op.dsts)
        self.add(f"{dsts} = tl.reduce({state}, {axes.index(op.axis)}, {self.merges[op]})")

    def reduced_order(self, kept: tuple[str, ...], axis: str, srcs: tuple[Expr, ...]) -> tuple[str, ...]:
        """Return the axes to reduce over: those kept as in the result, the reduced one where the operands have it."""
        natural = order_of(self.kernel, srcs)
        if tuple(a for a in natural if a != axis) == kept and axis in natural:
            return natural
        return (*kept, axis)

    def loop(self, op: Loop) -> None:
        """Append one `for` per segment. What does not change in the loop moves before it."""
        inside = [o for s in op.segments for o in walk_ops(s.body)]
        axes = frozenset((op.axis, *(o.axis for o in inside if isinstance(o, Loop))))
        made = frozenset(v.name for o in inside for v in defined(o)) | self.mutable
        for o in inside:
            if isinstance(o, LoadTile | Store):
                a = address(self.kernel, o.buffer, o.index)
                fixed = tuple(t for t in a.base if not depends(t.index, axes, made))
                if fixed and len(self.known_base(Address(a.buffer, fixed, ()))[0]) < len(fixed):
                    self.define_base(a, fixed)
        for number, segment in enumerate(op.segments, 1):
            self.segment(op, segment, number)

    def segment(self, op: Loop, segment: Segment, number: int) -> None:
        """Append the loop over one segment."""
        lo, hi = self.scalar.text(segment.lo), self.scalar.text(segment.hi)
        step = "" if op.tile == 1 else f", {self.scalar.text(block(self.kernel, op.axis, op.tile))}"
        stages = f", num_stages={self.stages}" if self.stages and any(isinstance(o, Dot) for o in segment.body) else ""
        if len(op.segments) > 1:
            self.comment(f"segment {number} of {len(op.segments)}: {segment.kind}")
        self.add(f"for {self.names.start[op.axis]} in tl.range({lo}, {hi}{step}{stages}):")
        with self.inner():
            head = len(self.lines)
            self.ops(segment.body)
            if op.axis in self.kernel.tile_axes and uses(self.lines[head:], self.names.position[op.axis]):
                position, start = self.names.position[op.axis], self.names.start[op.axis]
                line = f"{position} = {start} + {self.names.values[f'off.{op.axis}']}"
                self.lines.insert(head, " " * STEP * self.depth + line)

    @contextmanager
    def inner(self) -> Iterator[None]:
        """One level deeper; names of bases made there end with it, and the next operation repeats its label."""
        bases, shown, self.label = list(self.bases), self.shown, None
        self.shown = set()
        self.depth += 1
        yield
        self.depth -= 1
        self.bases, self.shown, self.label = bases, shown, None


def order_of(kernel: Kernel, exprs: tuple[Expr, ...]) -> tuple[str, ...]:
    """Return the tile axes of some expressions: in the order of the largest value, then of first occurrence."""
    seen: list[tuple[str, ...]] = []
    for x in (x for e in exprs for x in walk(e)):
        if isinstance(x, Get):
            seen.append(x.var.axes)
        elif isinstance(x, Pos) and x.axis in kernel.tile_axes:
            seen.append((x.axis,))
    return tuple(dict.fromkeys(a for axes in sorted(seen, key=len, reverse=True) for a in axes))


def _converted(e: Expr, dtype: DType) -> Expr:
    return e if e.dtype is dtype else Cast(dtype, e)
