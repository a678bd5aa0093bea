"""What Triton takes: tiles of a power of two, values of at most 2^20 elements, 1024 threads. Refused at the field."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kgen.configure_config import Config
from kgen.configure_levels import Levels
from kgen.configure_roles import used_axes
from kgen.errors import fail
from kgen.ir import Kernel
from kgen.ir_walk import expressions, ops, writes
from kgen.math import Math
from kgen.terms import free_axes, walk

MAX_ELEMENTS = 1 << 20
MAX_WARPS_AMD = 16
_CUDA = "for CUDA alone write it under schedule.cuda"


def check_warps(levels: Levels, arch: str) -> None:
    """Raise SpecError for more warps than a block of the architecture has."""
    given = levels.value("warps")
    if given is not None and arch.startswith("gfx") and given[0] > MAX_WARPS_AMD:
        raise fail(given[1], f"at most {MAX_WARPS_AMD} warps on {arch}: 64 threads are a warp there, not 32")


def check_tiles(piece: Math, config: Config) -> None:
    """Raise SpecError for an axis of a kernel whose tile is no power of two."""
    for name in sorted(used_axes(piece.statements)):
        axis = config.axes[name]
        if isinstance(axis.tile, int) and axis.tile & (axis.tile - 1):
            near = 1 << (axis.tile.bit_length() - 1)
            message = f"Triton's tiles are powers of two, and {axis.tile} is none"
            raise fail(axis.span, message, f"nearest are {near} and {2 * near}; {_CUDA}")


def check_elements(kernel: Kernel, config: Config, piece: Math) -> None:
    """Raise SpecError for the largest value of a kernel, at its largest axis, if it has too many elements."""
    sizes = {n: a.size for n, a in kernel.tile_axes.items()}
    count, axes = max(((math.prod(sizes[a] for a in v), v) for v in _values(kernel)), default=(1, ()))
    if count <= MAX_ELEMENTS:
        return
    name = max(axes, key=lambda a: sizes[a])
    field = config.axes.get(name)
    span = field.span if field and field.span else piece.axes[name].span
    written = " * ".join(f"{sizes[a]} of {a}" for a in axes)
    message = f"Triton's values have at most {MAX_ELEMENTS} elements, and a tile of {written} has {count}"
    fits = sizes[name] * MAX_ELEMENTS // count
    raise fail(span, message, (f"at most {fits} of '{name}' fit" if fits else "make the tiles smaller") + f"; {_CUDA}")


def _values(kernel: Kernel) -> Iterator[tuple[str, ...]]:
    """Yield the tile axes of all values, those inside expressions too."""
    for op in ops(kernel.body):
        found = [frozenset(v.axes) for v in writes(op)] + [free_axes(n) for e in expressions(op) for n in walk(e)]
        yield from (tuple(a for a in kernel.tile_axes if a in axes) for axes in found)
