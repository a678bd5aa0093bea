"""Simplify: integer expressions of the tile IR by ranges and divisibility, with every change provable (index.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kgen.index import Facts, simplify
from kgen.ir import Kernel, Loop, Op
from kgen.ir_walk import Rewrite, map_op
from kgen.terms import Expr, children, with_children
from kgen.tile_frame import Frame


def simplify_kernel(kernel: Kernel, frame: Frame) -> Kernel:
    """Return the kernel with simplified indices, bounds and integer conditions.

    What is known of the position of a loop is used inside the loop only: outside, there may be no position.
    """
    walked = tuple(g.name for g in kernel.grid)
    count = _simplifier(frame.sizes)
    grid = tuple(replace(g, count=count(g.count)) for g in kernel.grid)
    return replace(kernel, grid=grid, body=_body(kernel.body, frame, walked))


def _body(body: tuple[Op, ...], frame: Frame, walked: tuple[str, ...]) -> tuple[Op, ...]:
    rule = _simplifier(frame.always_at(walked))
    return tuple(_loop(op, rule, frame, walked) if isinstance(op, Loop) else map_op(op, rule) for op in body)


def _loop(loop: Loop, rule: Rewrite, frame: Frame, walked: tuple[str, ...]) -> Loop:
    inner = (*walked, loop.axis)
    segments = tuple(replace(s, lo=rule(s.lo), hi=rule(s.hi), body=_body(s.body, frame, inner)) for s in loop.segments)
    return replace(loop, segments=segments)


def _simplifier(facts: Facts) -> Rewrite:
    @cache
    def deep(e: Expr) -> Expr:
        if e.dtype.is_int and children(e):
            return simplify(e, facts)
        return with_children(e, tuple(deep(c) for c in children(e)))

    return deep
