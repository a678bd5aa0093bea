"""The program id decoded into the grid's axes, as expressions that each language prints in its own way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kgen.emit.names import block
from kgen.ir import GridAxis, Kernel
from kgen.terms import Const, Expr, Get, Pos, Start, Var, apply, integer
from kgen.types import I32


@dataclass(frozen=True)
class Step:
    """`target` (a Get of a grid value, the Pos of a scalar axis, or the Start of a tile) = `value`, i32 scalars."""

    target: Expr
    value: Expr


def decode(kernel: Kernel) -> tuple[Step, ...]:
    """Return the steps in order; they read Get(Var("grid.pid")), the id of the program. The last axis varies fastest.

    An axis with `group` > 0 and faster axes after it shares its plane with them: programs fill blocks of `group` tiles
    of this axis by all tiles of the faster ones, so that they reuse the same operands. Unused steps may be left out.
    """
    steps = [Step(_count(a), a.count) for a in kernel.grid if not isinstance(a.count, Const)]
    at = next((i for i, a in enumerate(kernel.grid[:-1]) if a.group > 0), None)
    pid = grid_value("pid")
    if at is None:
        digits = _digits(pid, kernel.grid)
    else:
        grouped, inner = _grouped(kernel.grid[at:], pid if at == 0 else grid_value("plane"))
        if at > 0:
            size = _product(kernel.grid[at:])
            steps.append(Step(grid_value("plane"), apply("rem", pid, size)))
            digits = _digits(apply("quot", pid, size), kernel.grid[:at])
        else:
            digits = []
        steps += grouped
        digits += inner
    return (*steps, *(_place(kernel, axis, digit) for axis, digit in digits))


def grid_value(name: str) -> Get:
    """Return a scalar of the decoding by its name."""
    return Get(I32, Var(f"grid.{name}", I32, ()))


def _count(axis: GridAxis) -> Expr:
    """The number of tiles, by name unless it is a literal."""
    return axis.count if isinstance(axis.count, Const) else grid_value(f"num_{axis.name}")


def _product(axes: tuple[GridAxis, ...]) -> Expr:
    known = math.prod(int(a.count.value) for a in axes if isinstance(a.count, Const))
    named = [_count(a) for a in axes if not isinstance(a.count, Const)]
    factors = named if named and known == 1 else [*named, integer(known)]
    product = factors[0]
    for f in factors[1:]:
        product = apply("mul", product, f)
    return product


def _digits(source: Expr, axes: tuple[GridAxis, ...]) -> list[tuple[GridAxis, Expr]]:
    """Mixed radix: the first axis takes what is left, so it needs no remainder."""
    out: list[tuple[GridAxis, Expr]] = []
    for i, axis in enumerate(axes):
        rest = axes[i + 1 :]
        digit = apply("quot", source, _product(rest)) if rest else source
        out.append((axis, apply("rem", digit, _count(axis)) if i else digit))
    return out


def _grouped(axes: tuple[GridAxis, ...], local: Expr) -> tuple[list[Step], list[tuple[GridAxis, Expr]]]:
    axis, faster = axes[0], axes[1:]
    first, size, within = (grid_value(n) for n in ("group_first", "group_size", "in_group"))
    group = integer(axis.group)
    span = apply("mul", group, _product(faster))
    steps = [
        Step(first, apply("mul", apply("quot", local, span), group)),
        Step(size, apply("minimum", apply("sub", _count(axis), first), group)),
        Step(within, apply("rem", local, span)),
    ]
    digit = apply("add", first, apply("rem", within, size))
    return steps, [(axis, digit), *_digits(apply("quot", within, size), faster)]


def _place(kernel: Kernel, axis: GridAxis, digit: Expr) -> Step:
    if axis.desc:
        digit = apply("sub", apply("sub", _count(axis), integer(1)), digit)
    if axis.tile == 1 and axis.name not in kernel.tile_axes:
        return Step(Pos(I32, axis.name), digit)
    return Step(Start(I32, axis.name), apply("mul", digit, block(kernel, axis.name, axis.tile)))
