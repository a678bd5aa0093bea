"""Sums of products inside a tile: a Dot where the product has two sides, else element-wise and a TileReduce."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.algebra import conjunction, product
from kgen.ir import Assign, Dot, TileReduce
from kgen.terms import Apply, Cast, Const, Expr, Get, Load, Var
from kgen.tile_products import Parts, Product, match_product
from kgen.tile_values import Predicate, Values
from kgen.types import F32, F64, DType


@dataclass(frozen=True)
class Summand:
    """A product summed over `axes` where `mask` (all of guard and validity) holds.

    `pred` are the lowered parts of the guard alone. `weight`: a factor that is zero wherever the mask is false;
    `cast`: the type it is rounded to as an operand of a Dot, if the spec says so.
    """

    parts: tuple[Expr, ...]
    axes: tuple[str, ...]
    mask: Expr | None
    pred: Predicate
    wish: str
    weight: Expr | None = None
    cast: DType | None = None


def sum_into(values: Values, s: Summand, state: Var | None) -> Expr:
    """Add the sum to mutable `state` (and return it), or return it as a new value if there is no state."""
    found = match_product(values.frame, s.parts, s.axes, s.pred if s.weight is None else ())
    if found is not None:
        return _dot(values, s, found, state)
    total = reduce_tile(values, "sum", _masked_product(values, s), s.axes, s.wish)
    if state is None:
        return total
    new = Apply(state.dtype, "add", (Get(state.dtype, state), total))
    values.scopes.emit(values.scopes.top, Assign(values.label("state"), state, new))
    return Get(state.dtype, state)


def _masked_product(values: Values, s: Summand) -> Expr:
    made = product(s.parts)
    e = values.lower(made if made is not None else Const(F32, 1.0), s.pred)
    return e if s.mask is None else Apply(e.dtype, "where", (s.mask, e, Const(e.dtype, 0)))


def reduce_tile(values: Values, op: str, e: Expr, axes: tuple[str, ...], wish: str) -> Expr:
    """Reduce a lowered expression over those of `axes` that are tile axes, one after the other."""
    inner = [a for a in axes if a in values.tile]
    missing = [a for a in inner if a not in values.axes(e)]
    if missing:
        order = [a for a in values.tile if a in (*values.axes(e), *missing)]
        e = values.bind(e, f"{wish}_tile", axes=order)
    for i, axis in enumerate(inner):
        depth = max(values.scopes.depth(e), values.scopes.depth_of_axis(axis))
        kept = tuple(a for a in values.axes(e) if a != axis)
        var = Var(values.names.new(wish if i == len(inner) - 1 else f"{wish}_{axis}"), e.dtype, kept)
        values.scopes.emit(depth, TileReduce(values.label(), var, op, e, axis))
        values.scopes.define(var, depth)
        e = Get(var.dtype, var)
    return e


# -- Dots


def _dot(values: Values, s: Summand, p: Product, state: Var | None) -> Expr:
    left_type, right_type = _operand_types(values, s, p)
    a = _operand(values, s, p, p.left, left_type)
    b = _operand(values, s, p, p.right, right_type)
    precision = values.folded.math.conventions.f32_dot
    depth = max(values.scopes.depth(Get(v.dtype, v)) for v in (a, b))
    if state is not None:
        values.scopes.emit(values.scopes.top, Dot(values.label(), state, a, b, p.contract, True, precision))
        return Get(state.dtype, state)
    order = tuple(x for x in values.tile if x in (p.row, p.col))
    dst = Var(values.names.new(s.wish), F64 if left_type is F64 else F32, order)
    values.scopes.emit(depth, Dot(values.label(), dst, a, b, p.contract, False, precision))
    values.scopes.define(dst, depth)
    return Get(dst.dtype, dst)


def _loaded(parts: tuple[Expr, ...]) -> Load | None:
    """Return the load if the operand is a tile as loaded (with at most the widening of the compute type)."""
    match parts:
        case (Load() as load,):
            return load
        case (Cast(arg=Load() as load),) if load.dtype.is_float:
            return load
        case _:
            return None


def _operand_types(values: Values, s: Summand, p: Product) -> tuple[DType, DType]:
    """Both operands share one type: a 16-bit type if a loaded or cast operand has it, else f32 or f64."""
    loaded = [_loaded(side) for side in (p.left, p.right)]
    casts = [_cast(values, s, side) for side in (p.left, p.right)]
    own = [c or (x.dtype if x is not None else None) for x, c in zip(loaded, casts, strict=True)]
    wide = F64 if any(e.dtype is F64 for e in (*p.left, *p.right)) else F32
    left, right = own[0] or own[1] or wide, own[1] or own[0] or wide
    return (left, right) if left == right else (wide, wide)


def _cast(values: Values, s: Summand, side: Parts) -> DType | None:
    """Return the type that the spec's casts give an operand."""
    if s.weight in side:
        return s.cast
    return values.folded.casts.get(side[0]) if len(side) == 1 else None


def _operand(values: Values, s: Summand, p: Product, parts: tuple[Expr, ...], dtype: DType) -> Var:
    """Return the variable of an operand, zero wherever the contracted element does not exist."""
    axes = {p.contract, *p.side(parts)}
    carried = () if s.weight in parts else tuple(g for g in s.pred if set(values.axes(g)) <= axes)
    load = _loaded(parts)
    if load is not None and load.dtype == dtype:
        return values.load(load, s.pred, natural=True, where=carried)
    made = product(parts)
    assert made is not None
    e = values.lower(made, s.pred)
    valid = values.frame.validity(p.contract) if load is None and s.weight not in parts else None
    exists = conjunction([valid, *carried])
    if exists is not None:
        e = Apply(e.dtype, "where", (exists, e, Const(e.dtype, 0.0)))
    if isinstance(e, Get) and e.dtype == dtype and set(e.var.axes) == axes:
        return e.var
    wish = e.var.name if isinstance(e, Get) else "operand"
    order = tuple(a for a in values.tile if a in axes)
    bound = values.bind(Cast(dtype, e) if e.dtype != dtype else e, f"{wish}_{dtype}", axes=order)
    assert isinstance(bound, Get)
    return bound.var
