"""Simplify: integer expressions of the tile IR by ranges and divisibility, with every change provable (index.py)."""

from __future__ import annotations

from functools import cache

from kgen.index import Facts, simplify
from kgen.ir import Kernel
from kgen.ir_walk import map_kernel
from kgen.terms import Expr, children, with_children


def simplify_kernel(kernel: Kernel, facts: Facts) -> Kernel:
    """Return the kernel with simplified integer expressions. `facts` hold at every position of a tile, valid or not."""

    @cache
    def deep(e: Expr) -> Expr:
        if e.dtype.is_int and children(e):
            return simplify(e, facts)
        return with_children(e, tuple(deep(c) for c in children(e)))

    return map_kernel(kernel, deep)
