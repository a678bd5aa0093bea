"""Walking and rewriting the tile IR."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kgen.ir import Assign, Combine, Dot, Init, Let, LoadTile, Loop, Op, Segment, Store, TileReduce
from kgen.terms import Expr, Get, Var, walk

Rewrite = Callable[[Expr], Expr]


def ops(body: Iterable[Op]) -> Iterator[Op]:
    """Yield all operations, those inside loops after their loop."""
    for op in body:
        yield op
        if isinstance(op, Loop):
            for segment in op.segments:
                yield from ops(segment.body)


def expressions(op: Op) -> tuple[Expr, ...]:
    """Return the expressions an operation holds itself (not those in a loop's body)."""
    match op:
        case Let(expr=e) | Assign(expr=e) | Init(value=e) | TileReduce(src=e):
            return (e,)
        case LoadTile(index=index, where=where):
            return (*index, *(() if where is None else (where,)))
        case Store(index=index, value=value, where=where):
            return (*index, value, *(() if where is None else (where,)))
        case Combine(srcs=srcs):
            return srcs
        case Loop(segments=segments, guarded=g):
            ends = tuple(e for s in segments for e in (s.lo, s.hi))
            return ends if g is None else (*ends, g.lo, g.hi)
        case _:
            return ()


def reads(op: Op) -> frozenset[Var]:
    """Return the variables an operation reads itself, mutable state it adds to included."""
    found = {n.var for e in expressions(op) for n in walk(e) if isinstance(n, Get)}
    if isinstance(op, Dot):
        found |= {op.a, op.b} | ({op.dst} if op.accumulate else set())
    return frozenset(found)


def writes(op: Op) -> tuple[Var, ...]:
    """Return the variables an operation defines or changes."""
    match op:
        case Let(dst=dst) | Init(dst=dst) | Assign(dst=dst) | LoadTile(dst=dst) | Dot(dst=dst) | TileReduce(dst=dst):
            return (dst,)
        case Combine(dsts=dsts):
            return dsts
        case _:
            return ()


def map_op(op: Op, f: Rewrite) -> Op:
    """Return the operation with `f` applied to its expressions, in loop bodies too."""
    match op:
        case Let() | Assign():
            return replace(op, expr=f(op.expr))
        case Init():
            return replace(op, value=f(op.value))
        case TileReduce():
            return replace(op, src=f(op.src))
        case LoadTile():
            where = None if op.where is None else f(op.where)
            return replace(op, index=tuple(f(i) for i in op.index), where=where)
        case Store():
            where = None if op.where is None else f(op.where)
            return replace(op, index=tuple(f(i) for i in op.index), value=f(op.value), where=where)
        case Combine():
            return replace(op, srcs=tuple(f(e) for e in op.srcs))
        case Loop():
            return replace(op, segments=tuple(_map_segment(s, f) for s in op.segments))
        case _:
            return op


def _map_segment(s: Segment, f: Rewrite) -> Segment:
    return Segment(f(s.lo), f(s.hi), s.kind, tuple(map_op(op, f) for op in s.body))
