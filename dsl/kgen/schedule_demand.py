"""What a kernel asks of a thread map: values, global accesses, products and folds in registers, each with a weight."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kgen.ir import Buffer, Combine, Dot, Kernel, LoadTile, Loop, Op, Store, TileReduce
from kgen.schedule_homes import Homes, defined
from kgen.terms import Expr, Var, free_axes

LOOP_WEIGHT = 8  # a loop body counts as often as this: trip counts are not known


@dataclass(frozen=True)
class Access:
    """A global access of a register value. `unit` is the tile axis along the buffer's unit-stride dim, if any."""

    axes: tuple[str, ...]
    unit: str | None
    itemsize: int
    aligned: bool
    store: bool
    weight: int


@dataclass(frozen=True)
class Product:
    """A Dot: `row` and `col` are the accumulator's axes of its two operands."""

    row: tuple[str, ...]
    col: tuple[str, ...]
    depth: int
    itemsize: int
    weight: int


@dataclass(frozen=True)
class Fold:
    """A reduction of `axis`, for every element over `kept`."""

    kept: tuple[str, ...]
    axis: str
    states: int
    weight: int


@dataclass(frozen=True)
class Demand:
    """All that the choice of a thread map depends on."""

    values: frozenset[Var]
    together: frozenset[frozenset[str]]
    accesses: tuple[Access, ...]
    products: tuple[Product, ...]
    folds: tuple[Fold, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """All axes held in registers, in the order of their names."""
        return tuple(sorted(frozenset().union(*self.together)))


def tile_axes_of(kernel: Kernel, *exprs: Expr | None) -> frozenset[str]:
    """Return the tile axes on which any of the expressions depends."""
    found = frozenset[str]().union(*(free_axes(e) for e in exprs if e is not None))
    return found & frozenset(kernel.tile_axes)


def unit_axis(kernel: Kernel, buffer: Buffer, index: tuple[Expr, ...]) -> str | None:
    """Return the tile axis along which the accessed elements are contiguous, if the unit dim is indexed by just one."""
    if buffer.unit is None:
        return None
    axes = tile_axes_of(kernel, index[buffer.unit])
    return next(iter(axes)) if len(axes) == 1 else None


def collect(kernel: Kernel, homes: Homes) -> Demand:
    """Return the demand of all operations computed in registers."""
    parts: list[Access | Product | Fold] = []
    together: set[frozenset[str]] = set()
    values: set[Var] = set()
    _visit(kernel, homes, kernel.body, 1, parts, together, values)
    return Demand(
        values=frozenset(values),
        together=frozenset(t for t in together if t),
        accesses=tuple(p for p in parts if isinstance(p, Access)),
        products=tuple(p for p in parts if isinstance(p, Product)),
        folds=tuple(p for p in parts if isinstance(p, Fold)),
    )


def _visit(
    kernel: Kernel,
    homes: Homes,
    body: tuple[Op, ...],
    weight: int,
    parts: list[Access | Product | Fold],
    together: set[frozenset[str]],
    values: set[Var],
) -> None:
    for op in body:
        if isinstance(op, Loop):
            for segment in op.segments:
                _visit(kernel, homes, segment.body, weight * LOOP_WEIGHT, parts, together, values)
            continue
        held = [v for v in defined(op) if not v.axes or v.name in homes.registers]
        if defined(op) and not held:
            continue
        values.update(v for v in held if v.axes)
        together.add(_axes_at_once(kernel, op))
        part = _part(kernel, op, weight)
        if part is not None:
            parts.append(part)


def _axes_at_once(kernel: Kernel, op: Op) -> frozenset[str]:
    axes = frozenset(a for v in defined(op) for a in v.axes)
    match op:
        case TileReduce(src=src, axis=axis):
            return axes | tile_axes_of(kernel, src) | {axis}
        case Combine(srcs=srcs, axis=axis):
            return axes | tile_axes_of(kernel, *srcs) | {axis}
        case Store(index=index, value=value, where=where):
            return tile_axes_of(kernel, *index, value, where)
        case _:
            return axes


def _part(kernel: Kernel, op: Op, weight: int) -> Access | Product | Fold | None:
    match op:
        case LoadTile(dst=dst, buffer=name, index=index):
            buffer = kernel.buffers[name]
            unit = unit_axis(kernel, buffer, index)
            return Access(dst.axes, unit, buffer.dtype.bytes, buffer.aligned, False, weight)
        case Store(buffer=name, index=index, value=value, where=where):
            buffer = kernel.buffers[name]
            axes = tuple(sorted(tile_axes_of(kernel, *index, value, where)))
            return Access(axes, unit_axis(kernel, buffer, index), buffer.dtype.bytes, buffer.aligned, True, weight)
        case Dot(dst=dst, a=a, b=b, contract=contract):
            row = tuple(x for x in a.axes if x != contract)
            col = tuple(x for x in b.axes if x != contract)
            return Product(row, col, kernel.tile_axes[contract].size, a.dtype.bytes, weight)
        case TileReduce(dst=dst, axis=axis):
            return Fold(dst.axes, axis, 1, weight)
        case Combine(dsts=dsts, axis=axis):
            return Fold(dsts[0].axes, axis, len(dsts), weight)
        case _:
            return None


def elements(kernel: Kernel, axes: tuple[str, ...]) -> int:
    """Return the number of elements of a tile value with these axes."""
    return prod(kernel.tile_axes[a].size for a in axes)
