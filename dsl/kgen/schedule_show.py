"""Plans as text, for `kgen show --stage schedule` and `--stage layout`."""

from __future__ import annotations

from collections.abc import Iterator

from kgen.layout import ThreadGroup, ThreadMap
from kgen.schedule_access import Form
from kgen.schedule_homes import Homes
from kgen.schedule_steps import (
    Barrier,
    Elementwise,
    Finish,
    Fold,
    Load,
    Memory,
    MmaMultiply,
    Multiply,
    Pack,
    ProxyFence,
    SharedTile,
    Spill,
    Stage,
    Step,
    Walk,
    WgmmaMultiply,
    WgmmaWait,
    Write,
    all_steps,
    writes,
)


def describe(head: str, threads: ThreadMap, homes: Homes, steps: tuple[Step, ...]) -> str:
    """Return the text of a plan, one section per kind of fact."""
    parts = [head, *layout_lines(threads), *_home_lines(homes), *_memory_lines(steps), "steps", *_step_lines(steps, 1)]
    return "\n".join(parts)


def layout_lines(threads: ThreadMap) -> Iterator[str]:
    """Yield the thread groups and what each thread holds of each axis."""
    yield "threads"
    for group in threads.groups:
        spread = f"{group.lanes} lanes" + (f" x {group.warps} warps" if group.warps > 1 else "")
        yield f"  {group.name} = {_coordinate(group)}  ({spread}): {', '.join(group.axes)}"
    if threads.spare > 1:
        yield f"  {threads.spare} copies of every value"
    yield "layouts"
    for name, axis in threads.axes.items():
        runs = f" in runs of {axis.vector}" if axis.vector > 1 else ""
        runs += f", {axis.between} of them {axis.near} apart" if axis.between > 1 else ""
        yield f"  {name}: {axis.size} = {axis.threads} threads of {axis.group} x {axis.registers} registers{runs}"


def _coordinate(group: ThreadGroup) -> str:
    if not group.warp_stride:
        return f"thread / {group.stride} % {group.count}"
    far = f"thread / {group.warp_stride} % {group.count // group.near} * {group.near}"
    return f"thread / {group.stride} % {group.near} + {far}"


def _home_lines(homes: Homes) -> Iterator[str]:
    for title in ("registers", "staged", "spilled", "fragments"):
        names = sorted(getattr(homes, title))
        if names:
            yield f"{title}: {', '.join(names)}"


def _memory_lines(steps: tuple[Step, ...]) -> Iterator[str]:
    memory: dict[str, Memory] = {m.name: m for step in all_steps(steps) for m in writes(step)}
    if memory:
        yield "shared memory"
    for m in memory.values():
        if isinstance(m, SharedTile):
            shape = f"{f'[{m.slots}]' if m.slots > 1 else ''}[{m.outer}: {m.rows}][{m.inner}: {m.pitch}]"
            shape += " swizzled" if m.swizzled else ""
            shape += f" in spans of {m.span} bytes" if m.span else ""
        else:
            shape = f"[{m.warps}][{m.slots}]"
        yield f"  {m.offset:>6}  {m.name}{shape} {m.dtype}, {m.bytes} bytes"


def _step_lines(steps: tuple[Step, ...], depth: int) -> Iterator[str]:
    for step in steps:
        yield "  " * depth + step_text(step)
        if isinstance(step, Walk):
            for fill in step.ring.fills if step.ring else ():
                yield "  " * (depth + 1) + f"ahead: {step_text(fill)}"
            for segment, body in zip(step.op.segments, step.bodies, strict=True):
                yield "  " * (depth + 1) + f"segment {segment.kind}"
                yield from _step_lines(body, depth + 2)


def step_text(step: Step) -> str:
    """Return one line about a step."""
    match step:
        case Elementwise(axes=axes, ops=ops):
            return f"compute {', '.join(o.dst.name for o in ops)}[{', '.join(axes)}]"
        case Load(op=op, form=form):
            return f"load {op.dst.name} from {op.buffer}, {_width(form)}"
        case Write(op=op, form=form):
            return f"store {op.buffer}, {_width(form)}"
        case Stage(tiles=tiles, along=along, run=run):
            how = "copy" if step.copied else "stage"
            return f"{how} {', '.join(t.name for t in tiles)} along {along}, {run} elements a turn"
        case Spill(var=var, width=width):
            return f"spill {var.name}, {width} elements a store"
        case Multiply(op=op, step=step_size, width_a=a, width_b=b):
            sides = f"{op.a.name} ({a} wide), {op.b.name} ({b} wide)"
            return f"dot {op.dst.name} from {sides}, {op.contract} by {step_size}"
        case Finish(stage=stage, tiles=tiles, write=write):
            made = ", ".join(t.name for t in tiles)
            return f"finish {write.op.buffer} from {made} along {stage.along}, {_width(write.form)}"
        case Pack(op=op, along=along):
            return f"pack {op.dst.name} by pairs along {along}"
        case WgmmaMultiply(op=op, a=a, left=left, right=right):
            where = "registers" if a is None else "shared memory"
            return f"wgmma {op.dst.name} from {left.name} ({where}), {right.name} over {op.contract}"
        case MmaMultiply(op=op, a=a, left=left, right=right):
            where = "registers" if a is None else "shared memory"
            return f"mma {op.dst.name} from {left.name} ({where}), {right.name} over {op.contract}"
        case Fold(op=op, lanes=lanes, scratch=scratch):
            through = f", {scratch[0].warps} warps" if scratch else ""
            return f"reduce over {op.axis}: {lanes} lanes{through}"
        case Barrier():
            return "barrier"
        case WgmmaWait(pending=pending, results=results):
            done = f", so {', '.join(results)} is whole" if results else ""
            return f"wait until {pending or 'no'} products are in flight{done}"
        case ProxyFence():
            return "what is written so far becomes visible to wgmma"
        case Walk(op=op, ring=ring):
            return f"loop over {op.axis} by {op.tile}" + (f", {ring.stages} tiles in a ring" if ring else "")


def _width(form: Form) -> str:
    return f"{form.width} elements" + (f" along {form.axis}" if form.width > 1 else "")
