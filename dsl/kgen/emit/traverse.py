"""Walks over the operations of a kernel, shared by all emitters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgen.ir import Assign, Combine, Dot, Init, Let, LoadTile, Loop, Op, Store, TileReduce
from kgen.terms import Expr, Get, Var


def walk_ops(body: Iterable[Op]) -> Iterator[Op]:
    """Yield all operations in order, a loop before what it holds."""
    for op in body:
        yield op
        if isinstance(op, Loop):
            for segment in op.segments:
                yield from walk_ops(segment.body)


def defined(op: Op) -> tuple[Var, ...]:
    """Return the variables whose name `op` brings into being."""
    match op:
        case Let(dst=dst) | Init(dst=dst) | LoadTile(dst=dst) | TileReduce(dst=dst):
            return (dst,)
        case Dot(dst=dst, accumulate=False):
            return (dst,)
        case Combine(dsts=dsts):
            return dsts
        case _:
            return ()


def changed(op: Op) -> tuple[Var, ...]:
    """Return the mutable variables that `op` writes after their Init."""
    match op:
        case Assign(dst=dst) | Dot(dst=dst, accumulate=True):
            return (dst,)
        case _:
            return ()


def expressions(op: Op) -> tuple[Expr, ...]:
    """Return the expressions that `op` itself evaluates (those of a loop's body excluded, its bounds included)."""
    match op:
        case Let(expr=e) | Assign(expr=e) | Init(value=e) | TileReduce(src=e):
            return (e,)
        case LoadTile(index=index, where=where):
            return index if where is None else (*index, where)
        case Store(index=index, where=where, value=value):
            return (*index, value) if where is None else (*index, value, where)
        case Dot(a=a, b=b):
            return (Get(a.dtype, a), Get(b.dtype, b))
        case Combine(srcs=srcs):
            return srcs
        case Loop(segments=segments):
            return tuple(e for s in segments for e in (s.lo, s.hi))
        case _:
            raise TypeError(f"unknown operation {type(op).__name__}")
