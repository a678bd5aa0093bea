"""Operand homes: which values live in registers, which are staged into shared memory, which are spilled there.

A Dot reads both operands from shared memory. An operand computed elementwise from loads, positions and scalars alone,
and read by nothing but Dots, is *staged*: evaluated by a distribution of its own and written to its tile. Every other
operand is *spilled*: computed in registers and copied to its tile, or a *fragment*: used from registers as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kgen.ir import Assign, Combine, Dot, Init, Kernel, Let, LoadTile, Loop, Op, Store, TileReduce
from kgen.terms import Expr, Get, Var, walk


@dataclass(frozen=True)
class Homes:
    """Names of tile values by home; a name may be in several sets. `mutable` holds state, scalars included."""

    registers: frozenset[str]
    staged: frozenset[str]
    spilled: frozenset[str]
    flat: frozenset[str]
    mutable: frozenset[str]
    fragments: frozenset[str] = frozenset()


def operations(body: tuple[Op, ...]) -> Iterator[Op]:
    """Yield all operations in program order, loops before their bodies."""
    for op in body:
        yield op
        if isinstance(op, Loop):
            for segment in op.segments:
                yield from operations(segment.body)


def defined(op: Op) -> tuple[Var, ...]:
    """Return the variables that an operation defines or changes."""
    match op:
        case Let(dst=dst) | Init(dst=dst) | Assign(dst=dst) | LoadTile(dst=dst) | Dot(dst=dst) | TileReduce(dst=dst):
            return (dst,)
        case Combine(dsts=dsts):
            return dsts
        case _:
            return ()


def expressions(op: Op) -> tuple[Expr, ...]:
    """Return the expressions that an operation evaluates, without a Dot's operands."""
    match op:
        case Let(expr=expr) | Assign(expr=expr):
            return (expr,)
        case Init(value=value):
            return (value,)
        case LoadTile(index=index, where=where):
            return (*index, *(() if where is None else (where,)))
        case Store(index=index, value=value, where=where):
            return (*index, value, *(() if where is None else (where,)))
        case TileReduce(src=src):
            return (src,)
        case Combine(srcs=srcs):
            return srcs
        case Loop(segments=segments):
            return tuple(e for s in segments for e in (s.lo, s.hi))
        case _:
            return ()


def reads(op: Op) -> set[Var]:
    """Return the variables that an operation's expressions read."""
    return {e.var for root in expressions(op) for e in walk(root) if isinstance(e, Get)}


def find_homes(kernel: Kernel) -> Homes:
    """Decide the home of every tile value of a kernel."""
    ops = list(operations(kernel.body))
    mutable = frozenset(v.name for op in ops if isinstance(op, Init | Assign) for v in defined(op))
    flat = _flat_able(kernel, ops, mutable)
    operands = {v.name for op in ops if isinstance(op, Dot) for v in (op.a, op.b)}
    registers = _needed_in_registers(ops, flat, operands)
    staged = frozenset(operands & flat - registers)
    return Homes(
        registers=registers,
        staged=staged,
        spilled=frozenset(operands - staged),
        flat=_closure(ops, staged),
        mutable=mutable,
    )


def _flat_able(kernel: Kernel, ops: list[Op], mutable: frozenset[str]) -> frozenset[str]:
    """Return the values that can be evaluated for any element by any thread, at any later time."""
    written = {op.buffer for op in ops if isinstance(op, Store)}
    flat: set[str] = set()
    barred: set[str] = set()
    for op in ops:
        pure = isinstance(op, Let) or (isinstance(op, LoadTile) and op.buffer not in written)
        ok = pure and all(v.name in flat if v.axes else v.name not in mutable for v in reads(op))
        for var in defined(op):
            if var.axes:
                (flat if ok else barred).add(var.name)
    return frozenset(flat - barred - mutable)


def _needed_in_registers(ops: list[Op], flat: frozenset[str], operands: set[str]) -> frozenset[str]:
    """Return the tile values that some register computation reads, and all that have no other home."""
    needed = {v.name for op in ops for v in defined(op) if v.axes and v.name not in flat}
    read_by_any = {v.name for op in ops for v in reads(op)} | operands
    needed |= {v.name for op in ops for v in defined(op) if v.axes and v.name not in read_by_any}
    while True:
        before = len(needed)
        for op in ops:
            names = [v.name for v in defined(op) if v.axes]
            if not names or any(n in needed for n in names):
                needed |= {v.name for v in reads(op) if v.axes}
        if len(needed) == before:
            return frozenset(needed)


def _closure(ops: list[Op], staged: frozenset[str]) -> frozenset[str]:
    """Return `staged` and every tile value that its members are computed from."""
    found = set(staged)
    for op in reversed(ops):
        if any(v.name in found for v in defined(op)):
            found |= {v.name for v in reads(op) if v.axes}
    return frozenset(found)
