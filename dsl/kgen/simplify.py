"""Simplify: integer expressions of the tile IR by ranges and divisibility, with every change provable (index.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kgen.index import Facts, simplify
from kgen.ir import Program
from kgen.ir_walk import map_kernel
from kgen.terms import Expr, children, with_children


def simplify_program(program: Program, facts: Facts) -> Program:
    """Return the program with simplified indices, bounds and integer conditions."""

    @cache
    def deep(e: Expr) -> Expr:
        if e.dtype.is_int and children(e):
            return simplify(e, facts)
        return with_children(e, tuple(deep(c) for c in children(e)))

    return replace(program, kernels=tuple(map_kernel(k, deep) for k in program.kernels))
