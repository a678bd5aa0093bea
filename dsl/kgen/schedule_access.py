"""Global accesses: how an index splits into a sum, and how many elements one access may move."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from kgen.ir import Buffer, Kernel, LoadTile, Loop, Store
from kgen.schedule_demand import tile_axes_of
from kgen.schedule_homes import operations
from kgen.terms import Apply, Cast, Const, Expr, Pos, Size, Start, apply, integer

ACCESS_BYTES = 16
_ANY = 1 << 30  # divisibility of zero


@dataclass(frozen=True)
class Split:
    """An index as `sum(scalar) + sum(coefficient * Pos(axis)) + sum(lookups)`; lookups use tile axes in other ways."""

    scalar: tuple[Expr, ...]
    linear: tuple[tuple[str, int], ...]
    lookups: tuple[Expr, ...]


@dataclass(frozen=True)
class Form:
    """One access moves `width` elements along `axis`. Those at positions below `bound` exist, if `uniform` holds.

    With width 1 there is no bound and `uniform` is the whole predicate.
    """

    width: int
    axis: str | None
    bound: Expr | None
    uniform: Expr | None


def split_index(kernel: Kernel, index: Expr) -> Split:
    """Split an index expression into the parts that are added up."""
    scalar: list[Expr] = []
    linear: dict[str, int] = {}
    lookups: list[Expr] = []
    for term, factor in _terms(index, 1):
        axes = tile_axes_of(kernel, term)
        if isinstance(term, Pos) and axes:
            linear[term.axis] = linear.get(term.axis, 0) + factor
        else:
            scaled = term if factor == 1 else apply("mul", integer(factor), term, dtype=term.dtype)
            (lookups if axes else scalar).append(scaled)
    return Split(tuple(scalar), tuple((a, c) for a, c in linear.items() if c), tuple(lookups))


def _terms(e: Expr, factor: int) -> list[tuple[Expr, int]]:
    match e:
        case Apply(fn="add", args=(a, b)):
            return _terms(a, factor) + _terms(b, factor)
        case Apply(fn="sub", args=(a, b)):
            return _terms(a, factor) + _terms(b, -factor)
        case Apply(fn="neg", args=(a,)):
            return _terms(a, -factor)
        case Apply(fn="mul", args=(Const(value=int(c)), a)) | Apply(fn="mul", args=(a, Const(value=int(c)))):
            return _terms(a, factor * c)
        case Cast(dtype=to, arg=arg) if to.is_int and arg.dtype.is_int and to.bits >= arg.dtype.bits:
            return _terms(arg, factor)
        case Const(value=0):
            return []
        case _:
            return [(e, factor)]


def access_form(kernel: Kernel, op: LoadTile | Store, axis: str | None, run: int) -> Form:
    """Return how `op` may move elements that lie in runs of `run` along the tile axis `axis`."""
    scalar = Form(1, None, None, op.where)
    buffer = kernel.buffers[op.buffer]
    if axis is None or buffer.unit is None or not buffer.aligned:
        return scalar
    parts = [split_index(kernel, i) for i in op.index]
    unit = parts.pop(buffer.unit)
    if (
        dict(unit.linear) != {axis: 1}
        or unit.lookups
        or any(axis in tile_axes_of(kernel, i) for i in _others(op, buffer.unit))
    ):
        return scalar
    width = gcd(run, ACCESS_BYTES // buffer.dtype.bytes, divisor(kernel, Start(op.index[0].dtype, axis)))
    for term in (*unit.scalar, *_contiguous_strides(kernel, buffer)):
        width = gcd(width, divisor(kernel, term))
    if width == 1:
        return scalar
    return _with_bound(kernel, op, axis, width) or scalar


def _contiguous_strides(kernel: Kernel, buffer: Buffer) -> list[Expr]:
    """Return the strides of a buffer that has none as arguments: products of the later dims, aligned only by chance."""
    passed = {a.dim for a in kernel.args if a.kind == "stride" and a.buffer == buffer.name}
    strides: list[Expr] = []
    for dim in range(len(buffer.dims)):
        if dim != buffer.unit and dim not in passed:
            stride: Expr = integer(1)
            for later in buffer.dims[dim + 1 :]:
                stride = apply("mul", stride, later)
            strides.append(stride)
    return strides


def _others(op: LoadTile | Store, unit: int) -> list[Expr]:
    return [e for d, e in enumerate(op.index) if d != unit]


def _with_bound(kernel: Kernel, op: LoadTile | Store, axis: str, width: int) -> Form | None:
    """Return the wide form if the predicate cuts a run at most by one bound of `axis`."""
    cuts: list[Expr] = []
    uniform: list[Expr] = []
    for part in conjuncts(op.where):
        (cuts if axis in tile_axes_of(kernel, part) else uniform).append(part)
    bounds = [b for b in (_bound(kernel, c, axis) for c in cuts) if b is not None]
    if len(bounds) != len(cuts) or len(set(bounds)) > 1:
        return None
    if bounds and divisor(kernel, bounds[0]) % width == 0:
        return Form(width, axis, None, conjunction((*uniform, *cuts)))
    return Form(width, axis, bounds[0] if bounds else None, conjunction(tuple(uniform)))


def _bound(kernel: Kernel, part: Expr, axis: str) -> Expr | None:
    match part:
        case Apply(fn="lt", args=(Pos(axis=a), end)) | Apply(fn="gt", args=(end, Pos(axis=a))) if a == axis:
            return None if tile_axes_of(kernel, end) else end
        case _:
            return None


def conjuncts(e: Expr | None) -> tuple[Expr, ...]:
    """Return the parts of a condition that must all hold; none for None."""
    match e:
        case None:
            return ()
        case Apply(fn="and", args=(a, b)):
            return conjuncts(a) + conjuncts(b)
        case _:
            return (e,)


def conjunction(parts: tuple[Expr, ...]) -> Expr | None:
    """Return the condition that all parts hold; None if there are none."""
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = apply("and", whole, part)
    return whole


def tile_of(kernel: Kernel, axis: str) -> int | None:
    """Return the step in which a grid digit or a loop walks `axis`; None if nothing does and it starts at 0."""
    steps = [g.tile for g in kernel.grid if g.name == axis]
    steps += [op.tile for op in operations(kernel.body) if isinstance(op, Loop) and op.axis == axis]
    return gcd(*steps) if steps else None


def divisor(kernel: Kernel, e: Expr) -> int:
    """Return a number that provably divides the value of an integer expression."""
    match e:
        case Const(value=value):
            return abs(int(value)) or _ANY
        case Size(name=name):
            return abs(kernel.constants.get(name, 1)) or _ANY
        case Start(axis=axis):
            return tile_of(kernel, axis) or _ANY
        case Apply(fn="add" | "sub", args=(a, b)):
            return gcd(divisor(kernel, a), divisor(kernel, b))
        case Apply(fn="mul", args=(a, b)):
            return min(_ANY, divisor(kernel, a) * divisor(kernel, b))
        case Apply(fn="neg", args=(a,)) | Cast(arg=a):
            return divisor(kernel, a)
        case _:
            return 1
