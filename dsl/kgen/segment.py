"""Mask: cut each loop into segments, and drop from a segment's body what is always true there.

The tile stage leaves one body, right for every tile. Where the guard's interior covers whole tiles the mask, its loads
and the tail check fold away ("plain"); where it covers all but the last, ragged tile the tail check stays ("tail").
"""

from __future__ import annotations

from dataclasses import replace

from kgen.algebra import TRUE, conjuncts, fold, substitute, times
from kgen.ir import Dot, Guarded, Kernel, Let, LoadTile, Loop, Op, Segment, TileReduce
from kgen.ir_walk import map_op, ops, reads, writes
from kgen.mask import Interval, SegmentBounds, bounds_between, segments, tile_interval
from kgen.terms import Apply, Const, Expr, Get, Var, free_axes
from kgen.tile_frame import Frame
from kgen.types import BOOL, I32


def cut(kernel: Kernel, frame: Frame) -> Kernel:
    """Return the kernel with its loops cut into segments."""
    walked = frozenset(g.name for g in kernel.grid)
    body = tuple(_cut_op(op, kernel, frame, walked) for op in kernel.body)
    return replace(kernel, body=remove_dead(body))


def _cut_op(op: Op, kernel: Kernel, frame: Frame, walked: frozenset[str]) -> Op:
    """`walked`: the axes of the grid and of the loops around the operation; all others are held whole."""
    if not isinstance(op, Loop):
        return op
    bodies = [tuple(_cut_op(o, kernel, frame, walked | {op.axis}) for o in s.body) for s in op.segments]
    if op.guarded is None:
        kept = tuple(replace(s, body=b) for s, b in zip(op.segments, bodies, strict=True))
        return replace(op, segments=kept)
    found = _segments(op, op.guarded, kernel, frame, walked)
    return replace(op, segments=tuple(_segment(b, op.guarded, bodies[0], kernel) for b in found), guarded=None)


def _segments(
    loop: Loop, g: Guarded, kernel: Kernel, frame: Frame, walked: frozenset[str]
) -> tuple[SegmentBounds, ...]:
    extent = kernel.extents[loop.axis]
    sizes = {a: t.size for a, t in kernel.tile_axes.items() if a != loop.axis}
    tiles = {a: _valid(a, size, kernel.extents[a], a in walked) for a, size in sizes.items()}
    facts = frame.valid_at(walked)
    bounds = bounds_between(g.hull, g.interior, loop.axis, extent, tiles, facts)
    upper = None if g.hi == extent else g.hi
    return segments(bounds, tile=loop.tile, lower=g.lo, upper=upper)


def _valid(axis: str, size: int, extent: Expr, walked: bool) -> Interval:
    """Return the valid positions of an axis in a tile; of one held whole, which may have none, the first one too."""
    if walked:
        return tile_interval(axis, size, extent)
    return Interval(
        Const(I32, 0), extent if isinstance(extent, Const) else Apply(I32, "maximum", (extent, Const(I32, 1)))
    )


def _segment(b: SegmentBounds, g: Guarded, body: tuple[Op, ...], kernel: Kernel) -> Segment:
    known: tuple[Expr, ...] = () if b.kind == "masked" else g.guards
    if b.kind == "plain" and g.validity is not None:
        known = (*known, g.validity)
    return Segment(b.lo, b.hi, b.kind, assume(body, known, kernel))


def assume(body: tuple[Op, ...], known: tuple[Expr, ...], kernel: Kernel) -> tuple[Op, ...]:
    """Put true for conditions known to hold, fold, and drop variables that became constants."""
    values: dict[Expr, Expr] = dict.fromkeys((c for k in known for c in conjuncts(k)), TRUE)
    return _assume(body, values, kernel) if values else body


def _assume(body: tuple[Op, ...], values: dict[Expr, Expr], kernel: Kernel) -> tuple[Op, ...]:
    kept: list[Op] = []
    for op in body:
        new = _without_true(map_op(op, lambda e: fold(substitute(e, values))))
        if isinstance(new, Dot):
            new = replace(new, a=_renamed(new.a, values), b=_renamed(new.b, values))
        if isinstance(new, Loop):
            new = replace(new, segments=tuple(replace(s, body=_assume(s.body, values, kernel)) for s in new.segments))
        for part in _narrowed(new, kernel) if isinstance(new, TileReduce) else (new,):
            if isinstance(part, Let) and _replaceable(part):
                values[Get(part.dst.dtype, part.dst)] = part.expr
            else:
                kept.append(part)
    return tuple(kept)


def _renamed(var: Var, values: dict[Expr, Expr]) -> Var:
    """Return the variable that an operand of a Dot became."""
    found = values.get(Get(var.dtype, var))
    return found.var if isinstance(found, Get) else var


def _narrowed(op: TileReduce, kernel: Kernel) -> tuple[Op, ...]:
    """Reduce over what a mask leaves: fewer axes than it had are reduced first and spread out afterwards."""
    free = free_axes(op.src)
    if op.axis not in free:
        return (_of_equals(op, kernel.tile_axes[op.axis].size),)
    left = tuple(a for a in op.dst.axes if a in free)
    if left == op.dst.axes:
        return (op,)
    alone = Var(f"{op.dst.name}_alike", op.dst.dtype, left)
    return replace(op, dst=alone), Let(op.label, op.dst, Get(alone.dtype, alone))


def _of_equals(op: TileReduce, count: int) -> Let:
    """Return the reduction of `count` equal elements: a count of elements in a tile of which none is masked."""
    if op.op != "sum":
        return Let(op.label, op.dst, op.src)
    factor = Const(op.src.dtype, float(count) if op.src.dtype.is_float else count)
    return Let(op.label, op.dst, times(op.src, factor))


def _replaceable(op: Let) -> bool:
    """A constant, or a select that became its argument, needs no variable of its own."""
    if isinstance(op.expr, Const):
        return not op.dst.axes or op.expr.dtype is BOOL
    return isinstance(op.expr, Get) and op.expr.var.axes == op.dst.axes


def _without_true(op: Op) -> Op:
    where = getattr(op, "where", None)
    return replace(op, where=None) if where == TRUE else op  # type: ignore[call-arg]


def remove_dead(body: tuple[Op, ...]) -> tuple[Op, ...]:
    """Remove loads and lets whose variable nothing reads."""
    while True:
        read: set[Var] = {v for op in ops(body) for v in reads(op)}
        new = _live(body, read)
        if new == body:
            return body
        body = new


def _live(body: tuple[Op, ...], read: set[Var]) -> tuple[Op, ...]:
    kept: list[Op] = []
    for op in body:
        if isinstance(op, Loop):
            op = replace(op, segments=tuple(replace(s, body=_live(s.body, read)) for s in op.segments))
        if isinstance(op, Let | LoadTile) and not any(v in read for v in writes(op)):
            continue
        kept.append(op)
    return tuple(kept)
