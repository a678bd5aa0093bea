"""Addresses of tiles: a scalar 64-bit part that moves the base pointer, and the offsets inside the tile.

Every index is a sum of scalar terms (grid, loops, sizes, loaded scalars) and tile terms. The position of a tile axis
counts as its tile's start (scalar) plus the position inside the tile, so tile offsets stay small: with i32 offsets it
is enough that one tile's extent times its stride fits, whatever the tensor's size. A tile term that is not linear keeps
the absolute position; one that depends on loaded data is multiplied in 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kgen.emit.names import fixed_axes, offset, whole_axes
from kgen.ir import Buffer, Kernel
from kgen.terms import Apply, Cast, Const, Expr, Get, Pos, Size, Start, apply, free_axes, integer, walk
from kgen.types import I32, I64


@dataclass(frozen=True)
class Term:
    """`index` * `stride`, in elements; `stride` None is 1. `dim` is the buffer's dimension it came from."""

    dim: int
    index: Expr
    stride: Expr | None


@dataclass(frozen=True)
class Address:
    """`base` terms are scalar, `tile` terms depend on a position inside the tile."""

    buffer: str
    base: tuple[Term, ...]
    tile: tuple[Term, ...]


def address(kernel: Kernel, buffer: str, index: tuple[Expr, ...]) -> Address:
    """Return the address of buffer[index] taken apart."""
    base: list[Term] = []
    tile: list[Term] = []
    for dim, e in enumerate(index):
        step = stride(kernel, kernel.buffers[buffer], dim)
        for part in _summands(kernel, e):
            target = tile if is_tile(kernel, part) else base
            target.append(Term(dim, part, step))
    return Address(buffer, tuple(base), tuple(tile))


def stride(kernel: Kernel, buffer: Buffer, dim: int) -> Expr | None:
    """Return the stride of a dim: an argument (by name), None for 1, or the product of the later dims if contiguous."""
    for a in kernel.args:
        if a.kind == "stride" and a.buffer == buffer.name and a.dim == dim:
            return Size(a.dtype, a.name)
    later = buffer.dims[dim + 1 :]
    if buffer.unit == dim or not later:
        return None
    known = math.prod(int(d.value) for d in later if isinstance(d, Const))
    factors = [d for d in later if not isinstance(d, Const)]
    if not factors:
        return Const(I64, known)
    product = _wide(factors[0])
    for d in (*factors[1:], *([integer(known)] if known != 1 else [])):
        product = apply("mul", product, d)
    return product


def is_tile(kernel: Kernel, e: Expr) -> bool:
    """Return whether a value has more than one element in a program of `kernel`."""
    return any(a in kernel.tile_axes for a in free_axes(e))


def grouped(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Return the terms with those of one dim added up, so that each stride is multiplied once."""
    out: dict[int, Term] = {}
    for t in terms:
        known = out.get(t.dim)
        out[t.dim] = t if known is None else replace(known, index=_plus(known.index, t.index))
    return tuple(out.values())


def product(term: Term) -> Expr:
    """Return index * stride: positions in the stride's type; scalars and data-dependent indexes in 64 bits."""
    if term.stride is None:
        return term.index
    inside = any(isinstance(x, Pos) or (isinstance(x, Get) and x.var.name.startswith("off.")) for x in walk(term.index))
    loaded = any(isinstance(x, Get) and not x.var.name.startswith("off.") for x in walk(term.index))
    if inside and not loaded:
        return apply("mul", term.index, term.stride)
    return _wide_product(term.index, term.stride)


def scalar_product(term: Term) -> Expr:
    """Return index * stride of a base term, in 64 bits."""
    return term.index if term.stride is None else _wide_product(term.index, term.stride)


def depends(e: Expr, axes: frozenset[str], variables: frozenset[str]) -> bool:
    """Return whether `e` reads the position or start of one of `axes`, or one of `variables`."""
    return any(
        x.axis in axes if isinstance(x, Pos | Start) else isinstance(x, Get) and x.var.name in variables
        for x in walk(e)
    )


def _wide_product(index: Expr, step: Expr) -> Expr:
    """index * step in 64 bits: the factor that decides the type is widened, a literal has none of its own."""
    if step.dtype is I64 and not isinstance(step, Const):
        return apply("mul", index, step, dtype=I64)
    if isinstance(index, Const):
        return apply("mul", index, _wide(step), dtype=I64)
    return apply("mul", _wide(index), step, dtype=I64)


def _wide(e: Expr) -> Expr:
    if isinstance(e, Const):
        return Const(I64, e.value)
    return e if e.dtype is I64 else Cast(I64, e)


def _plus(a: Expr, b: Expr) -> Expr:
    if isinstance(b, Apply) and b.fn == "neg":
        return apply("sub", a, b.args[0])
    return apply("add", a, b)


def _summands(kernel: Kernel, e: Expr) -> list[Expr]:
    """The terms whose sum is `e`, zeros left out, linear positions split into start and offset."""
    match e:
        case Const(value=0):
            return []
        case Apply(fn="add", args=(a, b)):
            return _summands(kernel, a) + _summands(kernel, b)
        case Apply(fn="sub", args=(a, b)):
            return _summands(kernel, a) + [_negative(t) for t in _summands(kernel, b)]
        case Apply(fn="neg", args=(a,)):
            return [_negative(t) for t in _summands(kernel, a)]
        case Apply(fn="mul", args=(a, b)) if is_tile(kernel, e):
            if not is_tile(kernel, b):
                return [apply("mul", t, b) for t in _summands(kernel, a)]
            if not is_tile(kernel, a):
                return [apply("mul", a, t) for t in _summands(kernel, b)]
            return [e]
        case Cast(arg=a) if e.dtype is I64 and a.dtype is I32 and is_tile(kernel, e):
            return [t if isinstance(t, Get | Pos) else Cast(I64, t) for t in _summands(kernel, a)]
        case Pos(axis=axis) if axis in fixed_axes(kernel):
            return []
        case Pos(axis=axis) if axis in kernel.tile_axes and axis not in whole_axes(kernel):
            return [Start(I32, axis), offset(axis)]
        case _:
            return [e]


def _negative(e: Expr) -> Expr:
    return e.args[0] if isinstance(e, Apply) and e.fn == "neg" else apply("neg", e)
