"""The steps of a plan as CUDA text: one function per kind of step, labels between groups of lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.emit.cuda_dot import multiply
from kgen.emit.cuda_fold import Merge, fold
from kgen.emit.cuda_memory import load, store
from kgen.emit.cuda_mma import multiply as mma_multiply
from kgen.emit.cuda_mma import pack
from kgen.emit.cuda_mma_finish import finish
from kgen.emit.cuda_mma_ring import OpenRing, next_tile, open_ring
from kgen.emit.cuda_scope import Context, Nest, indented
from kgen.emit.cuda_shared import spill, stage
from kgen.emit.cuda_wgmma import multiply as wgmma_multiply
from kgen.emit.cuda_wgmma import pack as wgmma_pack
from kgen.emit.cuda_wgmma import wait as wgmma_wait
from kgen.emit.labels import label_text
from kgen.ir import Assign, Init, Label, Segment
from kgen.schedule_steps import (
    Barrier,
    Elementwise,
    Finish,
    Fold,
    Load,
    MmaMultiply,
    Multiply,
    Pack,
    ProxyFence,
    Spill,
    Stage,
    Step,
    Walk,
    WgmmaMultiply,
    WgmmaWait,
    Write,
    operations_of,
)
from kgen.terms import Const, Expr, Start
from kgen.types import I32


@dataclass
class Body:
    """Prints the steps of one kernel. `shared` names the address of each tile, `merges` a Combine's function."""

    context: Context
    shared: Mapping[str, str]
    merges: Mapping[object, Merge]
    statements: Mapping[str, str]
    loops: int = 0
    bounds: dict[Expr, str] = field(default_factory=dict)

    def lines(self, steps: tuple[Step, ...]) -> list[str]:
        """Return the lines of steps in one block; a label stands before the first line of each of its groups."""
        out: list[str] = []
        last: tuple[Label, ...] = ()
        for step in steps:
            labels = tuple(dict.fromkeys(op.label for op in operations_of(step)))
            if labels and labels != last:
                out += [*([""] if out else []), *(f"// {label_text(label, self.statements)}" for label in labels)]
                last = labels
            out += self.step(step)
        return out

    def step(self, step: Step) -> list[str]:
        context, shared = self.context, self.shared
        match step:
            case Elementwise():
                return elementwise(context, step)
            case Load(op=op, form=form):
                return load(context, op, form)
            case Write(op=op, form=form):
                return store(context, op, form)
            case Stage():
                return stage(context, step, dict(shared))
            case Spill(tile=tile):
                return spill(context, step, shared[tile.name])
            case Multiply(a=a, b=b):
                return multiply(context, step, shared[a.name], shared[b.name])
            case Finish():
                return finish(context, step, shared)
            case Pack():
                return wgmma_pack(context, step) if step.together else pack(context, step)
            case WgmmaMultiply(a=a, b=b):
                return wgmma_multiply(context, step, None if a is None else shared[a.name], shared[b.name])
            case MmaMultiply(a=a, b=b):
                return mma_multiply(context, step, None if a is None else shared[a.name], shared[b.name])
            case Fold(op=op, scratch=scratch):
                return fold(context, step, self.merges.get(op), tuple(shared[s.name] for s in scratch))
            case Barrier():
                return ["sync_threads();"]
            case WgmmaWait():
                return wgmma_wait(context, step)
            case ProxyFence():
                return ["fence_proxy_async();"]
            case Walk():
                return self.walk(step)

    def walk(self, step: Walk) -> list[str]:
        """Return one `for` for each segment, after what fills the first tiles of a ring."""
        number, self.loops = self.loops, self.loops + 1
        out: list[str] = []
        ring = None
        if step.ring is not None:
            ring, out = self.ring(step)
        for segment, body in zip(step.op.segments, step.bodies, strict=True):
            out += self.segment(step, number, segment, body, ring)
        return out

    def ring(self, step: Walk) -> tuple[OpenRing, list[str]]:
        """Return a ring and the lines before its loop."""
        lines: list[str] = []
        ends: list[tuple[str, str]] = []
        for segment in step.op.segments:
            low, before = self.bound(segment.lo, f"{step.op.axis}_begin")
            high, after = self.bound(segment.hi, f"{step.op.axis}_end")
            lines += [*before, *after]
            ends.append((low, high))
        shared = dict(self.shared)

        def printed(fills: tuple[Stage, ...], slots: dict[str, str]) -> list[str]:
            self.shared = {**shared, **slots}
            text = self.lines(fills)
            self.shared = shared
            return text

        opened, before = open_ring(self.context, step, ends, shared, printed)
        return opened, [*lines, *before]

    def segment(
        self, step: Walk, number: int, segment: Segment, body: tuple[Step, ...], ring: OpenRing | None
    ) -> list[str]:
        context, axis = self.context, step.op.axis
        name = context.names.start[axis]
        low, before = self.bound(segment.lo, f"{axis}_begin")
        high, after = self.bound(segment.hi, f"{axis}_end")
        masked = "false" if segment.kind == "plain" else "true"
        context.scope.open()
        kept = dict(self.bounds)
        inside = [f"KG_TILE({number}, {name}, {masked});"]
        shared = dict(self.shared)
        if ring is not None:
            arrived, *rest = next_tile(ring, shared)
            inside += [arrived, *(["fence_proxy_async();"] if ring.ring.fenced else []), *rest]
            self.shared = {**shared, **ring.slots}
        inside += self.lines(body)
        self.bounds, self.shared = kept, shared
        context.scope.close()
        tile = context.kernel.tile_axes.get(axis)
        by = f"tile.{axis}" if tile is not None and tile.size == step.op.tile else None
        stride = context.names.size(by) if by is not None else str(step.op.tile)
        move = f"++{name}" if step.op.tile == 1 else f"{name} += {stride}"
        head = f"for (int {name} = {low}; {name} < {high}; {move}) {{  // {segment.kind} tiles"
        return [*before, *after, head, *indented(inside), "}"]

    def bound(self, e: Expr, preferred: str) -> tuple[str, list[str]]:
        """Return a bound's text, and the line that names it if it is more than a name or number."""
        if isinstance(e, Const | Start):
            return self.context.scalar(e), []
        if e in self.bounds:
            return self.bounds[e], []
        text = self.context.scalar(e)
        if text.isidentifier():
            return text, []
        name = self.context.scope.give(preferred)
        self.bounds[e] = name
        return name, [f"const {'int' if e.dtype is I32 else e.dtype.cuda} {name} = {text};"]


def elementwise(context: Context, step: Elementwise) -> list[str]:
    """Return one pass over the registers for all operations of a step; new arrays are declared before it."""
    nest = Nest(context, step.axes)
    held = bool(context.held_dims(step.axes))
    declared, body = [], []
    for op in step.ops:
        new = not isinstance(op, Assign)
        value = nest.text(op.value if isinstance(op, Init) else op.expr)
        if new and held:
            declared.append(f"{context.declaration(op.dst)};")
        const = "" if isinstance(op, Init) else "const "
        prefix = f"{const}{op.dst.dtype.cuda} " if new and not held else ""
        body.append(f"{prefix}{nest.at(op.dst)} = {value};")
    return [*declared, *nest.lines(body)]
