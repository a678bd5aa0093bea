"""Rings: staged tiles of a loop, filled some iterations ahead of their use."""

from __future__ import annotations

from dataclasses import replace

from kgen.ir import Kernel, Let, LoadTile
from kgen.schedule_access import Form, conjuncts
from kgen.schedule_homes import defined, reads
from kgen.schedule_steps import MmaMultiply, Ring, SharedTile, Stage, Step, Walk, operations_of

COPY_BYTES = (4, 8, 16)
Body = tuple[Step, ...]


def with_ring(kernel: Kernel, walk: Walk, stages: int) -> Walk:
    """Return the loop with the tiles that it stages moved into a ring of `stages` slots, where that can be.

    A tile can be made ahead if it reads nothing that the loop defines, and if all segments stage it alike. Loops
    around other loops stay as they are.
    """
    if stages < 2 or any(isinstance(s, Walk) for body in walk.bodies for s in body):
        return walk
    fills = []
    for first in (s for s in walk.bodies[0] if isinstance(s, Stage)):
        alike = [s for body in walk.bodies for s in body if isinstance(s, Stage) and s.tiles == first.tiles]
        merged = _merged(alike) if len(alike) == len(walk.bodies) else None
        if merged is not None and not _inner_reads(walk, merged):
            fills.append(_in_slots(merged, stages))
    if not fills:
        return walk
    ring = Ring(stages, tuple(fills))
    slotted = {t.name: t for t in ring.tiles}
    return replace(walk, ring=ring, bodies=tuple(_without(body, slotted) for body in walk.bodies))


def _inner_reads(walk: Walk, stage: Stage) -> bool:
    """Return whether a stage reads values that the loop's body defines, other than those it evaluates itself."""
    inner = {v.name for body in walk.bodies for s in body for op in operations_of(s) for v in defined(op)}
    own = {op.dst.name for op in stage.ops}
    return any(v.name in inner - own for op in stage.ops for v in reads(op))


def _merged(stages: list[Stage]) -> Stage | None:
    """Return one stage that is right for the tiles of all segments: the one whose loads are the most guarded.

    A segment leaves out the conditions that hold everywhere in it, so the longest list of them serves all.
    """
    ops: list[Let | LoadTile] = []
    forms: list[Form | None] = []
    for same in zip(*(zip(s.ops, s.forms, strict=True) for s in stages), strict=False):
        op, form = max(same, key=lambda x: len(_conditions(x[0])))
        if not all(_serves(op, other) for other, _ in same):
            return None
        ops.append(op)
        forms.append(form)
    if any(len(s.ops) != len(ops) for s in stages):
        return None
    return replace(stages[0], ops=tuple(ops), forms=tuple(forms))


def _conditions(op: Let | LoadTile) -> frozenset[object]:
    return frozenset(conjuncts(op.where)) if isinstance(op, LoadTile) else frozenset()


def _serves(op: Let | LoadTile, other: Let | LoadTile) -> bool:
    if isinstance(op, LoadTile) and isinstance(other, LoadTile):
        return replace(op, where=None) == replace(other, where=None) and _conditions(op) >= _conditions(other)
    return op == other


def _in_slots(stage: Stage, stages: int) -> Stage:
    tiles = tuple(replace(t, slots=stages) for t in stage.tiles)
    return replace(stage, tiles=tiles, copied=_can_copy(stage))


def _can_copy(stage: Stage) -> bool:
    """Return whether the stage is one load in whole runs that fit an asynchronous copy."""
    if len(stage.tiles) != 1 or stage.tiles[0].inner != stage.along:
        return False
    op, form, tile = stage.ops[-1], stage.forms[-1], stage.tiles[0]
    if not isinstance(op, LoadTile) or form is None or op.dst.name != tile.name:
        return False
    whole = form.width == stage.run and stage.run * tile.dtype.bytes in COPY_BYTES
    return whole and (op.where is None or op.other == 0)


def _without(body: Body, slotted: dict[str, SharedTile]) -> Body:
    """Return a body without the stages of the ring's tiles, its products reading their slots."""
    out: list[Step] = []
    for step in body:
        if isinstance(step, Stage) and step.tiles[0].name in slotted:
            continue
        if isinstance(step, MmaMultiply):
            a = None if step.a is None else slotted.get(step.a.name, step.a)
            step = replace(step, a=a, b=slotted.get(step.b.name, step.b))
        out.append(step)
    return tuple(out)
