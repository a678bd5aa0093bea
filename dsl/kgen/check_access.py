"""Rules that need facts: accesses are in bounds where their predicates hold, loops step from tile to tile."""

from __future__ import annotations

from kgen.algebra import conjuncts, substitute
from kgen.check import InternalError
from kgen.index import Facts, is_multiple
from kgen.ir import Kernel, Let, LoadTile, Loop, Store
from kgen.ir_walk import ops
from kgen.terms import Apply, Cast, Expr, Get, Pos, free_axes
from kgen.tile_frame import Frame
from kgen.types import I32


def check_access(kernel: Kernel, frame: Frame) -> None:
    """Raise InternalError unless each load and store of a tiled kernel stays inside its buffer.

    Every tile axis that an index varies with has its validity in the predicate, and every index is shown to be inside
    the tensor for valid positions, or both of its bounds are tested.
    """
    body = list(ops(kernel.body))
    values: dict[Expr, Expr] = {}
    for op in body:
        if isinstance(op, Let):
            values[Get(op.dst.dtype, op.dst)] = substitute(op.expr, values)
    for access in body:
        if isinstance(access, LoadTile | Store):
            _check(kernel, frame, access, values)


def _check(kernel: Kernel, frame: Frame, access: LoadTile | Store, values: dict[Expr, Expr]) -> None:
    where = set(conjuncts(access.where))
    index = tuple(substitute(i, values) for i in access.index)
    for axis in frozenset().union(*(free_axes(i) for i in index)) & frame.tile.keys():
        valid = frame.validity(axis)
        if valid is not None and valid not in where:
            raise _broken(kernel, access, f"positions beyond the extent of {axis} are accessed")
    tested = {substitute(c, values) for c in where}
    for i, extent in zip(index, kernel.buffers[access.buffer].dims, strict=True):
        inside = frame.in_bounds(i, extent) or _counted(kernel, i, extent) or _tested(i, extent, tested)
        if not inside:
            raise _broken(kernel, access, "an index may lie outside")


def _counted(kernel: Kernel, index: Expr, extent: Expr) -> bool:
    """Is the index the number of a part of a split, and the extent how many there are?"""
    counts: dict[Expr, Expr] = {Pos(I32, g.name): g.count for g in kernel.grid if g.tile == 1}
    loops = (op for op in ops(kernel.body) if isinstance(op, Loop) and op.tile == 1)
    ends: dict[Expr, Expr] = {Pos(I32, op.axis): op.segments[-1].hi for op in loops}
    return extent == (counts | ends).get(index)


def _tested(index: Expr, extent: Expr, where: set[Expr]) -> bool:
    low = any(isinstance(c, Apply) and c.fn == "ge" and c.args[0] == index for c in where)
    return low and any(isinstance(c, Apply) and c.fn == "lt" and c.args == (index, extent) for c in where)


def check_loops(kernel: Kernel, facts: Facts) -> None:
    """Raise InternalError unless every segment of every loop starts and ends at the start of a tile."""
    for loop in ops(kernel.body):
        if isinstance(loop, Loop) and loop.tile > 1:
            for s in loop.segments:
                if not all(_is_start(end, loop.tile, facts) for end in (s.lo, s.hi)):
                    name = f"{s.kind} segment of the loop over {loop.axis}"
                    raise InternalError(f"kernel {kernel.name}, {name}: an end is no multiple of {loop.tile}")


def _is_start(e: Expr, tile: int, facts: Facts) -> bool:
    match e:
        case Cast(arg=arg):
            return _is_start(arg, tile, facts)
        case Apply(fn="minimum" | "maximum", args=args) | Apply(fn="where", args=(_, *args)):
            return all(_is_start(a, tile, facts) for a in args)
        case _:
            return is_multiple(e, tile, facts)


def _broken(kernel: Kernel, access: LoadTile | Store, message: str) -> InternalError:
    return InternalError(f"kernel {kernel.name}, {type(access).__name__} of {access.buffer}: {message}")
