"""Dots in CUDA text: fragments of both shared tiles, then multiply-adds in registers."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.emit.cuda_expr import conversion
from kgen.emit.cuda_scope import Context, Nest, indented, unrolled
from kgen.emit.cuda_shared import address_of
from kgen.ir import Dot
from kgen.schedule_steps import Multiply, SharedTile
from kgen.types import F64


@dataclass(frozen=True)
class _Fragment:
    """A thread's part of one operand, in the accumulator's type: `name[depth][register]`.

    `run` names what one access loads. `free` is the operand's other axis.
    """

    tile: SharedTile
    base: str
    name: str
    run: str
    width: int
    depth: int
    free: tuple[str, ...]
    deep: bool  # the contract axis is contiguous in the tile

    def at(self, context: Context, nest: Nest, depth: str) -> str:
        index = f"[{depth}]" if self.depth > 1 else ""
        return self.name + index + "".join(f"[{nest.register(a)}]" for a in context.held_dims(self.free))


def multiply(context: Context, step: Multiply, base_a: str, base_b: str) -> list[str]:
    """Return the lines of a Dot; a Dot that does not accumulate declares its result."""
    op = step.op
    context.scope.open()
    at = context.scope.give(f"{op.contract}_at")
    a = _fragment(context, step, step.a, base_a, step.width_a)
    b = _fragment(context, step, step.b, base_b, step.width_b)
    body = [*_loads(context, op, a, at), *_loads(context, op, b, at), *_multiply_adds(context, op, a, b)]
    context.scope.close()
    declare = [] if op.accumulate else [f"{context.declaration(op.dst)} = {{}};"]
    depth = context.kernel.tile_axes[op.contract].size
    return [*declare, f"for (int {at} = 0; {at} < {depth}; {at} += {step.step}) {{", *indented(body), "}"]


def _fragment(context: Context, step: Multiply, tile: SharedTile, base: str, width: int) -> _Fragment:
    free = tuple(a for a in dict.fromkeys((tile.outer, tile.inner)) if a != step.op.contract)
    value = context.names.values[tile.name]
    name, run = context.scope.give(f"{value}_part"), context.scope.give(f"{value}_run")
    return _Fragment(tile, base, name, run, width, step.step, free, tile.inner == step.op.contract)


def _loads(context: Context, op: Dot, part: _Fragment, at: str) -> list[str]:
    """Return the declaration of a fragment and its loads, `width` elements each."""
    dims = "".join(f"[{context.map.axes[a].registers}]" for a in context.held_dims(part.free))
    depth = f"[{part.depth}]" if part.depth > 1 else ""
    turn = part.width if part.deep else 1
    single = part.depth == turn
    nest = Nest(context, part.free, {a: part.width for a in part.free if part.width > 1 and not part.deep})
    body = nest.lines(_load(context, op, part, nest, at if single else f"{at} + u", "" if single else "u"))
    if not single:
        body = unrolled("u", part.depth, body, turn)
    return [f"{op.dst.dtype.cuda} {part.name}{depth}{dims};", *body]


def _load(context: Context, op: Dot, part: _Fragment, nest: Nest, deep: str, u: str) -> list[str]:
    tile, to = part.tile, op.dst.dtype
    row = nest.offset(part.free[0]).code if part.free else "0"
    where = address_of(tile, part.base, row, deep) if part.deep else address_of(tile, part.base, deep, row)
    if part.width == 1:
        value = conversion(to, tile.dtype, f"lds<{tile.dtype.cuda}>({where})")
        return [f"{part.at(context, nest, u or '0')} = {value};"]
    run = part.run
    index = (f"{u} + j" if u else "j") if part.deep else u or "0"
    if not part.deep:
        nest.within[part.free[0]] = "j"
    target = part.at(context, nest, index)
    fill = unrolled("j", part.width, [f"{target} = {conversion(to, tile.dtype, f'{run}[j]')};"])
    return [f"const auto {run} = lds_vec<{tile.dtype.cuda}, {part.width}>({where});", *fill]


def _multiply_adds(context: Context, op: Dot, a: _Fragment, b: _Fragment) -> list[str]:
    nest = Nest(context, op.dst.axes)
    fma = "fma" if op.dst.dtype is F64 else "fmaf"
    acc = nest.at(op.dst)
    x, y = a.at(context, nest, "u"), b.at(context, nest, "u")
    body = nest.lines([f"{acc} = {fma}({x}, {y}, {acc});"])
    return body if a.depth == 1 else unrolled("u", a.depth, body)
