"""The end of a kernel in a layout of its own: results pass through shared memory, rows are stored in 16-byte pieces.

Fragments hold two neighbours of a row, so that a warp's accesses of global memory would use half of each sector. What
only reads such results, elementwise, is done after the exchange, together with its loads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgen.ir import Kernel, Let, LoadTile, Store
from kgen.schedule_access import ACCESS_BYTES, access_form
from kgen.schedule_demand import tile_axes_of, unit_axis
from kgen.schedule_homes import reads
from kgen.schedule_steps import (
    Elementwise,
    Finish,
    Load,
    MmaMultiply,
    Spill,
    Stage,
    Step,
    Walk,
    Write,
    all_steps,
    operations_of,
)
from kgen.terms import Get, Var

Made = dict[str, Let | LoadTile]


@dataclass(frozen=True)
class Tail:
    """The steps after the last product: where they begin, and what they make by name."""

    begin: int
    made: Made


def tail_of(steps: tuple[Step, ...]) -> Tail:
    """Return the tail of a kernel. Of values made in it, those of one step of loads or Lets each can move."""
    begin = 1 + max(
        (n for n, s in enumerate(steps) if any(isinstance(x, MmaMultiply | Walk) for x in all_steps((s,)))), default=-1
    )
    made: Made = {}
    for step in steps[begin:]:
        if isinstance(step, Elementwise | Load):
            made |= {op.dst.name: op for op in operations_of(step) if isinstance(op, Let | LoadTile)}
    return Tail(begin, made)


def finish_of(kernel: Kernel, write: Write, tail: Tail) -> tuple[Stage, tuple[Var, ...], Write] | None:
    """Return what is done after the exchange, the values exchanged, and the store in wide pieces; None to leave all."""
    store, dtype = write.op, kernel.buffers[write.op.buffer].dtype
    axes = tile_axes_of(kernel, *store.index, store.value, store.where)
    along = unit_axis(kernel, kernel.buffers[store.buffer], store.index)
    if along is None or len(axes) != 2 or tile_axes_of(kernel, store.value) != axes:
        return None
    run = ACCESS_BYTES // dtype.bytes
    form = access_form(kernel, store, along, run)
    if form.width != run or form.width <= write.form.width or kernel.tile_axes[along].size % run:
        return None
    moved = _moved(store, tail.made)
    crossing = _crossing(store, moved)
    if not crossing or any(set(v.axes) != axes for v in crossing):
        return None
    (across,) = axes - {along}
    ops = tuple(op for name, op in tail.made.items() if name in moved)
    forms = tuple(
        access_form(kernel, op, along if along in op.dst.axes else None, run) if isinstance(op, LoadTile) else None
        for op in ops
    )
    return Stage((), ops, forms, along, across, run), crossing, replace(write, form=form)


def _moved(store: Store, made: Made) -> Made:
    """Return what is evaluated after the exchange. A value that is there as it will be stored takes the fewest bytes:
    nothing is moved for it unless loads of whole tiles gain."""
    found: Made = {}
    for read in reads(store):
        found |= _needs(read, made)
    while True:  # what reads rows or columns of the fragments' layout stays there
        bad = [n for n, op in found.items() if any(len(v.axes) == 1 and v.name not in found for v in reads(op))]
        if not bad:
            break
        kept = {n: op for n, op in made.items() if n not in bad}
        found = {n: op for n, op in found.items() if n in kept}
    gains = any(isinstance(op, LoadTile) and len(op.dst.axes) == 2 for op in found.values())
    return found if gains or not isinstance(store.value, Get) else {}


def _needs(value: Var, made: Made) -> Made:
    if value.name not in made:
        return {}
    op = made[value.name]
    found: Made = {value.name: op}
    for read in reads(op):
        found |= _needs(read, made)
    return found


def _crossing(store: Store, moved: Made) -> tuple[Var, ...]:
    """Return the values of the fragments' layout that are read after the exchange, scalars left out."""
    wanted = {v for op in (store, *moved.values()) for v in reads(op) if v.axes}
    return tuple(sorted((v for v in wanted if v.name not in moved), key=lambda v: v.name))


def without(steps: tuple[Step, ...], tail: Tail, unused: frozenset[str]) -> tuple[Step, ...]:
    """Return the steps without what makes `unused` values in the tail."""
    out: list[Step] = list(steps[: tail.begin])
    for step in steps[tail.begin :]:
        if isinstance(step, Load) and step.op.dst.name in unused:
            continue
        if isinstance(step, Elementwise):
            kept = tuple(op for op in step.ops if op.dst.name not in unused)
            if not kept:
                continue
            step = replace(step, ops=kept)
        out.append(step)
    return tuple(out)


def unused_after(steps: tuple[Step, ...], tail: Tail) -> frozenset[str]:
    """Return the values of the tail that no remaining step reads."""
    unused: frozenset[str] = frozenset()
    while True:
        read = {v.name for s in without(steps, tail, unused)[tail.begin :] for v in _read(s)}
        found = frozenset(tail.made) - read
        if found == unused:
            return unused
        unused = found


def _read(step: Step) -> set[Var]:
    if isinstance(step, Finish):
        return set()
    found = {v for op in operations_of(step) for v in reads(op)}
    return found | ({step.var} if isinstance(step, Spill) else set())
