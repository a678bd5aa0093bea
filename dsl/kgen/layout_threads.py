"""The thread map of a kernel in the layout algebra: (thread, register) -> element of a tile value."""

from __future__ import annotations

from collections.abc import Sequence

from kgen.layout import AxisLayout, ThreadMap
from kgen.layout_algebra import Layout, coalesce, concat
from kgen.layout_fragments import Fragment
from kgen.layout_tuple import LayoutError


def axis_registers(axis: AxisLayout, step: int = 1) -> Layout:
    """Return register -> step * element for the thread at coordinate 0: runs of `vector`, threads * vector apart."""
    if axis.between > 1:
        runs = axis.registers // axis.between
        return Layout((axis.between, runs), (step * axis.near, step * axis.threads * axis.between))
    runs = axis.registers // axis.vector
    return Layout((axis.vector, runs), (step, step * axis.threads * axis.vector))


def held(threads: ThreadMap, axes: Sequence[str]) -> Fragment:
    """Return what each thread holds of a value with one axis (drawn as a row) or two (rows and columns).

    Registers are counted as the kernel declares them, last axis fastest. Groups take bits of the thread index, so a
    thread's element is a sum over the bits that are set. Raises LayoutError for more axes or a block that is no power
    of two.
    """
    if len(axes) not in (1, 2):
        raise LayoutError(f"a value with axes {', '.join(axes)}: only one or two axes make a table")
    if threads.threads & (threads.threads - 1):
        raise LayoutError(f"{threads.threads} threads: thread groups take bits of a power of two")
    sizes = [threads.axes[a].size for a in axes]
    rows, cols = sizes if len(axes) == 2 else (1, sizes[0])
    steps = (1, rows)[-len(axes) :]
    bits = [1 << b for b in range((threads.threads - 1).bit_length())] or [0]
    moved = [sum(threads.element(a, bit, 0) * step for a, step in zip(axes, steps, strict=True)) for bit in bits]
    registers = [axis_registers(threads.axes[a], step) for a, step in zip(axes, steps, strict=True)]
    thread = coalesce(Layout((2 if threads.threads > 1 else 1,) * len(bits), tuple(moved)))
    value = registers[0] if len(axes) == 1 else concat(*reversed(registers))
    return Fragment(f"[{', '.join(axes)}]", rows, cols, concat(thread, value))
