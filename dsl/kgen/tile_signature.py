"""Signatures: the arguments and constants that a kernel reads, anew after each stage."""

from __future__ import annotations

from dataclasses import replace

from kgen.ir import Arg, Buffer, Kernel
from kgen.ir_walk import expressions, ops
from kgen.math import Math
from kgen.specialise import Specialisation
from kgen.terms import Param, Size, walk
from kgen.types import I32, DType


def signed(kernel: Kernel, math: Math, spec: Specialisation) -> Kernel:
    """Return the kernel with what it reads: pointers, strides, sizes, params in signature order, and static sizes."""
    exprs = [e for op in ops(kernel.body) for e in expressions(op)] + [g.count for g in kernel.grid]
    nodes = [n for e in exprs for n in walk(e)]
    sizes = {n.name for n in nodes if isinstance(n, Size)}
    params = {n.name for n in nodes if isinstance(n, Param)}
    parts = sorted(sizes - math.sizes.keys())  # numbers of parts of a split, chosen at a call
    buffers = kernel.buffers.values()
    args = (
        *(Arg("tensor", b.name, b.dtype, b.name) for b in buffers),
        *(stride for b in buffers for stride in _strides(b, spec.offset)),
        *(Arg("size", s, I32) for s in (*math.sizes, *parts) if s in sizes and s not in spec.sizes),
        *(Arg("param", p.name, p.dtype) for p in math.params.values() if p.name in params),
    )
    return replace(kernel, args=args, constants={s: v for s, v in spec.sizes.items() if s in sizes})


def _strides(b: Buffer, dtype: DType) -> list[Arg]:
    return [Arg("stride", f"{b.name}_s{i}", dtype, b.name, i) for i in range(len(b.dims)) if i != b.unit]
