"""Split: the tiles of a stream axis are shared out to programs that write partial states; a second kernel merges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.algebra import ceil_div, conjunction
from kgen.errors import Diagnostic, SpecError
from kgen.folded import Fold, Folded
from kgen.ir import Assign, Buffer, GridAxis, LoadTile, Loop, Op, Segment, Store
from kgen.terms import Apply, Const, Expr, Get, Pos, Size, Var
from kgen.tile_folds import Folds, once
from kgen.tile_frame import Frame, fold_sizes
from kgen.tile_record import merge_states, rescale_between
from kgen.tile_steps import converted, get
from kgen.tile_values import Values
from kgen.types import I32, DType

ALIGNMENT = 16  # bytes of the widest vector access


@dataclass(frozen=True)
class Split:
    """`axis` is cut into `parts` runs of whole tiles; `part` is the name of the grid axis that counts them."""

    frame: Frame
    axis: str
    part: str
    parts: Expr
    partial_grid: tuple[GridAxis, ...]


def split_axis(folded: Folded, frame: Frame) -> str | None:
    """Return the axis that is split and folded over here, if any; SpecError if two are."""
    names = [
        a for a, c in frame.config.axes.items() if c.split is not None and any(_over(f, a, frame) for f in folded.folds)
    ]
    if len(names) > 1:
        span = frame.axis(names[1]).span
        raise SpecError([Diagnostic(span, f"only one axis of a kernel can be split, not {' and '.join(names)}")])
    return names[0] if names else None


def _over(f: Fold, axis: str, frame: Frame) -> bool:
    """Does the fold reduce over the axis, in tiles or position by position?"""
    return any(frame.serial.get(a, a) == axis for a in f.axes)


def split_frame(frame: Frame, axis: str) -> Split:
    """Return how the kernel of the partial states is launched: the parts vary slowest."""
    wanted = frame.config.axes[axis].split
    parts: Expr = Size(I32, f"{axis}_parts") if wanted == "auto" else Const(I32, int(wanted or 1))
    part = f"{axis}_part"
    return Split(frame, axis, part, parts, (GridAxis(part, 1, parts), *frame.grid()))


def partial_body(values: Values, split: Split, axis: str) -> dict[str, Buffer]:
    """Emit the kernel that folds one part of the axis and stores the states; return the workspaces."""
    step = split.frame.step(axis)
    tiles = ceil_div(split.frame.axis(axis).extent, step)
    chunk = ceil_div_expr(tiles, split.parts)
    part = Pos(I32, split.part)
    lo, hi = (_tile_start(p, chunk, tiles, step) for p in (part, Apply(I32, "add", (part, Const(I32, 1)))))
    values.range_of[axis] = (lo, hi)
    for each in (e for e, a in split.frame.serial.items() if a == axis):
        values.range_of[each] = (lo, Apply(I32, "minimum", (hi, split.frame.axis(axis).extent)))
    folds = Folds(values, ())
    spaces: dict[str, Buffer] = {}
    for f in _split_folds(values.folded, axis, split.frame, folds):
        for var in _state(f):
            mine = folds.demand(var)
            space = _workspace(values, split, f, var)
            spaces[space.name] = space
            with values.statement(folds.naming.owner(f), "store"):
                _store_state(values, split, space, var, mine)
    return spaces


def _split_folds(folded: Folded, axis: str, frame: Frame, folds: Folds) -> list[Fold]:
    found = [f for f in folded.folds if _over(f, axis, frame)]
    for f in found:
        group = folds.passes.of[f.name]
        if group.number > 1 or group.outer or len(group.streams) > 1:
            message = f"{axis} cannot be split: this needs more than one pass over it, or a loop around it"
            raise SpecError([Diagnostic(f.span, message, f"remove 'split' from the axis {axis}")])
    return found


def _state(f: Fold) -> tuple[Var, ...]:
    return (*f.states, *(c.var for c in f.carried))


def _workspace(values: Values, split: Split, f: Fold, var: Var) -> Buffer:
    """One state: [parts, its axes]."""
    math = values.folded.math
    dims = (split.parts, *(math.axes[a].extent for a in var.axes))
    return workspace(f"ws_{var.name.replace('.', '_')}", dims, var.dtype, split.frame.spec.sizes)


def workspace(name: str, dims: tuple[Expr, ...], dtype: DType, sizes: Mapping[str, int]) -> Buffer:
    """Return contiguous scratch memory; its rows are aligned if their length is known to be."""
    if not dims:
        return Buffer(name, dims, dtype, "workspace", None, True)
    row = fold_sizes(dims[-1], sizes)
    aligned = isinstance(row, Const) and int(row.value) * dtype.bytes % ALIGNMENT == 0
    return Buffer(name, dims, dtype, "workspace", len(dims) - 1, aligned)


def _state_index(split: Split, var: Var) -> tuple[Expr, ...]:
    return (Pos(I32, split.part), *(Pos(I32, a) for a in var.axes))


def _store_state(values: Values, split: Split, space: Buffer, var: Var, mine: Var) -> None:
    where = conjunction([*(split.frame.validity(a) for a in mine.axes), *once(values, frozenset(var.axes))])
    store = Store(values.label(), space.name, _state_index(split, var), get(mine), where)
    values.scopes.emit(values.scopes.top, store)


def merge_body(values: Values, split: Split, axis: str, spaces: dict[str, Buffer]) -> None:
    """Emit the kernel that merges the parts in order and stores the results."""
    folds = Folds(values, values.folded.results)
    found = [f for f in values.folded.folds if _over(f, axis, split.frame)]
    states = {f.name: folds.declare(f) for f in found}
    values.scopes.push(split.part)
    for f in found:
        with values.statement(folds.naming.owner(f), "merge"):
            _merge_part(values, split, f, states[f.name])
    body: tuple[Op, ...] = tuple(values.scopes.pop())
    with values.statement(folds.naming.owner(found[0]), "merge"):
        segment = Segment(Const(I32, 0), split.parts, "plain", body)
        values.scopes.emit(0, Loop(values.label(), split.part, 1, (segment,)))
    for f in found:
        folds.finished(folds.passes.of[f.name], states[f.name], 0)
    folds.finish()


def _merge_part(values: Values, split: Split, f: Fold, state: dict[Var, Var]) -> None:
    """One part joins: states by the record's merge, carried sums rescaled to the new state and added."""
    for mine in state.values():
        values.scopes.define(mine, values.scopes.top)
    loaded = {v: _load_state(values, split, v) for v in _state(f)}
    a = {s.name: Get(v.dtype, state[v]) for s, v in zip(f.record.states, f.states, strict=True)}
    b = {s.name: loaded[v] for s, v in zip(f.record.states, f.states, strict=True)}
    merged = merge_states(values, f.record, a, b)
    new = {s.name: merged[s.name] for s in f.record.states}
    for c in f.carried:
        old, dtype = get(state[c.var]), c.var.dtype
        ours = converted(rescale_between(values, f.record, a, new, "rescale"), dtype)
        theirs = converted(rescale_between(values, f.record, b, new, "rescale_part"), dtype)
        left = Apply(dtype, "mul", (old, ours))
        right = Apply(dtype, "mul", (loaded[c.var], theirs))
        values.scopes.emit(values.scopes.top, Assign(values.label(), state[c.var], Apply(dtype, "add", (left, right))))
    for s, v in zip(f.record.states, f.states, strict=True):
        values.scopes.emit(values.scopes.top, Assign(values.label(), state[v], new[s.name]))


def _load_state(values: Values, split: Split, var: Var) -> Expr:
    axes = tuple(a for a in values.tile if a in var.axes)
    where = conjunction(split.frame.validity(a) for a in axes)
    name = f"ws_{var.name.replace('.', '_')}"
    mine = Var(values.names.new(f"{var.name.split('.', 1)[1]}_part"), var.dtype, axes)
    values.scopes.emit(values.scopes.top, LoadTile(values.label(), mine, name, _state_index(split, var), where))
    values.scopes.define(mine, values.scopes.top)
    return Get(var.dtype, mine)


def _tile_start(part: Expr, chunk: Expr, tiles: Expr, step: int) -> Expr:
    """Return the first position of a part: whole tiles, so that the last parts may be empty."""
    first = Apply(I32, "minimum", (Apply(I32, "mul", (part, chunk)), tiles))
    return Apply(I32, "mul", (first, Const(I32, step)))


def ceil_div_expr(a: Expr, b: Expr) -> Expr:
    """Return ceil(a / b) for non-negative a and positive b."""
    if isinstance(b, Const):
        return ceil_div(a, int(b.value))
    top = Apply(I32, "add", (a, Apply(I32, "sub", (b, Const(I32, 1)))))
    return Apply(I32, "quot", (top, b))
