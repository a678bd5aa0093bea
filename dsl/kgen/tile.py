"""Tile: from folds to kernels. Grid and loops are chosen, tiles loaded; values get named tile axes and validity."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.folded import Folded
from kgen.ir import Buffer, GridAxis, Kernel, LoadTile, Loop, Op, Store
from kgen.ir_walk import expressions, ops, writes
from kgen.math import Math
from kgen.specialise import Specialisation
from kgen.terms import free_axes
from kgen.tile_folds import Folds
from kgen.tile_frame import Frame
from kgen.tile_names import Names
from kgen.tile_scope import Scopes
from kgen.tile_signature import signed
from kgen.tile_split import merge_body, partial_body, split_axis, split_frame, workspace
from kgen.tile_values import Values


@dataclass(frozen=True)
class Part:
    """One cut of a spec (the whole spec if nothing is materialised): its name, its folds, its frame."""

    name: str
    folded: Folded
    frame: Frame


def tile(part: Part) -> list[Kernel]:
    """Return the kernels of a part in launch order: one, or two where an axis is split."""
    axis = split_axis(part.folded, part.frame)
    if axis is None:
        values = _values(part)
        Folds(values, part.folded.results).finish()
        return [_kernel(part.name, part, values, part.frame.grid(), {})]
    first, second = _values(part), _values(part)
    outer = split_frame(part.frame, axis)
    spaces = partial_body(first, outer, axis)
    merge_body(second, outer, axis, spaces)
    partial = _kernel(f"{part.name}_partial", part, first, outer.partial_grid, spaces)
    return [partial, _kernel(f"{part.name}_merge", part, second, part.frame.grid(), spaces)]


def _values(part: Part) -> Values:
    math = part.folded.math
    strides = [f"{t}_s{i}" for t, x in math.tensors.items() for i in range(len(x.dims))]
    blocks = [f"BLOCK_{a.upper()}" for a in math.axes]
    starts = [f"{a}_{suffix}" for a in math.axes for suffix in ("start", "each", "part", "parts")]
    taken = [*math.axes, *math.tensors, *math.sizes, *math.params, *strides, *blocks, *starts]
    taken += [f"{t}_base" for t in math.tensors]
    return Values(part.frame, part.folded, Scopes(), Names(taken))


def _kernel(name: str, part: Part, values: Values, grid: tuple[GridAxis, ...], spaces: dict[str, Buffer]) -> Kernel:
    body = tuple(values.scopes.stack[0].ops)
    math, spec = part.folded.math, part.frame.spec
    used = _buffers(body, math, spec, spaces)
    present = _axes(body, grid)
    tile_axes = {a: t for a, t in values.tile.items() if a in present}
    extents = {a: x.extent for a, x in math.axes.items() if a in present}
    return signed(Kernel(name, grid, tile_axes, (), used, {}, body, spec.offset, extents), math, spec)


def _axes(body: tuple[Op, ...], grid: tuple[GridAxis, ...]) -> set[str]:
    """Return the axes of the grid, of loops and of values."""
    named = {op.axis for op in ops(body) if isinstance(op, Loop)} | {g.name for g in grid}
    return named.union(
        *(v.axes for op in ops(body) for v in writes(op)), *(free_axes(e) for op in ops(body) for e in expressions(op))
    )


def _buffers(body: tuple[Op, ...], math: Math, spec: Specialisation, spaces: dict[str, Buffer]) -> dict[str, Buffer]:
    names = {op.buffer for op in ops(body) if isinstance(op, LoadTile | Store)}
    found = {t: _buffer(math, spec, t) for t in math.tensors if t in names}
    return found | {n: b for n, b in spaces.items() if n in names}


def _buffer(math: Math, spec: Specialisation, name: str) -> Buffer:
    t = math.tensors[name]
    role = "inout" if t.inplace else "out" if t.out else "in"
    if name in math.workspaces:
        return workspace(name, t.dims, t.dtype, spec.sizes)
    default = len(t.dims) - 1 if t.dims else None
    return Buffer(name, t.dims, t.dtype, role, spec.units.get(name, default), name in spec.aligned)  # type: ignore[arg-type]
