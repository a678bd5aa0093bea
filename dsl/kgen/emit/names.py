"""The identifiers of a kernel's text: one rule for every language, so that the two texts name the same thing alike.

Raw keys: an argument, size, parameter or value by its own name; "tile.<axis>" the constant tile size, "off.<axis>" the
positions inside a tile, "grid.<x>" a step of the decoding of the program id.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass

from kgen.emit.traverse import defined, walk_ops
from kgen.ir import Kernel, Loop
from kgen.terms import Expr, Get, Size, Var, integer
from kgen.types import I32

_CPP = """
alignas alignof asm auto bool break case catch char class concept const constexpr continue decltype default delete
do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new
noexcept nullptr operator private protected public register requires restrict return short signed sizeof static
struct switch template this throw true try typedef typeid typename union unsigned using virtual void volatile
wchar_t bf16 f16 f32 f64 i8 u8 i16 i32 i64 threadIdx blockIdx blockDim gridDim main linux unix
"""
_PYTHON = "tl triton float int bool range min max abs floor_div floor_mod nan_max nan_min power"
RESERVED = frozenset((*keyword.kwlist, *keyword.softkwlist, *_PYTHON.split(), *_CPP.split()))


@dataclass(frozen=True)
class Names:
    """Identifiers by raw key. `position`, `start` are by axis; for an axis walked one by one both are the same name."""

    arguments: dict[str, str]
    constants: dict[str, str]
    position: dict[str, str]
    start: dict[str, str]
    values: dict[str, str]

    def size(self, name: str) -> str:
        """Return the identifier of a size, parameter or stride: an argument or a constant, else KeyError."""
        return self.arguments[name] if name in self.arguments else self.constants[name]


class _Scope:
    def __init__(self) -> None:
        self.taken = set(RESERVED)

    def give(self, preferred: str) -> str:
        """Return `preferred`, made an identifier and unique with the least change."""
        name = preferred if preferred not in RESERVED else f"{preferred}_"
        number = 1
        while name in self.taken:
            number += 1
            name = f"{preferred}_{number}"
        self.taken.add(name)
        return name


def tile_constant(axis: str) -> str:
    """Return the preferred name of an axis's tile size."""
    return f"BLOCK_{axis.upper()}"


def block(kernel: Kernel, axis: str, elements: int) -> Expr:
    """Return `elements` of an axis as the name of its tile size where they are equal, else as a literal."""
    from_tile = axis in kernel.tile_axes and kernel.tile_axes[axis].size == elements
    return Size(I32, f"tile.{axis}") if from_tile else integer(elements)


def offset(axis: str) -> Get:
    """Return the positions inside a tile of an axis, counted from 0 (i32)."""
    return Get(I32, Var(f"off.{axis}", I32, (axis,)))


def whole_axes(kernel: Kernel) -> tuple[str, ...]:
    """Return the tile axes that one tile covers: neither in the grid nor walked by a loop."""
    walked = {a.name for a in kernel.grid} | {op.axis for op in walk_ops(kernel.body) if isinstance(op, Loop)}
    return tuple(a for a in kernel.tile_axes if a not in walked)


def fixed_axes(kernel: Kernel) -> frozenset[str]:
    """Return the axes of which a kernel knows only position 0: no tile, no part of the grid, no loop."""
    return frozenset(kernel.extents) - frozenset(_axes(kernel))


def constant_values(kernel: Kernel) -> dict[str, int]:
    """Return the constexpr constants of a kernel's signature by identifier, in signature order."""
    names, raw = names_of(kernel), _raw_constants(kernel)
    return {names.constants[key]: value for key, value in raw.items()}


def names_of(kernel: Kernel) -> Names:
    """Return the identifiers of a kernel, unique over arguments, constants, positions and values."""
    scope = _Scope()
    arguments = {a.name: scope.give(a.name) for a in kernel.args}
    constants = {key: scope.give(_preferred(key)) for key in _raw_constants(kernel)}
    axes = _axes(kernel)
    position = {a: scope.give(a if a not in scope.taken else f"{a}_pos") for a in axes}
    position |= dict.fromkeys(fixed_axes(kernel), "0")
    single = _single(kernel)
    start = {a: position[a] if a in single else scope.give(f"{a}_start") for a in axes}
    values: dict[str, str] = {}
    for a in kernel.tile_axes:
        values[f"off.{a}"] = position[a] if a in whole_axes(kernel) else scope.give(f"{a}_off")
    grid = ["pid", *(f"num_{g.name}" for g in kernel.grid), "plane", "group_first", "group_size", "in_group"]
    values |= {f"grid.{g}": scope.give(g) for g in grid}
    for var in (v for op in walk_ops(kernel.body) for v in defined(op)):
        if var.name not in values:
            values[var.name] = scope.give(var.name.replace(".", "_"))
    return Names(arguments, constants, position, start, values)


def _raw_constants(kernel: Kernel) -> dict[str, int]:
    tiles = {f"tile.{a.name}": a.size for a in kernel.tile_axes.values()}
    return kernel.constants | tiles


def _preferred(key: str) -> str:
    return tile_constant(key.removeprefix("tile.")) if key.startswith("tile.") else key


def _axes(kernel: Kernel) -> tuple[str, ...]:
    loops = (op.axis for op in walk_ops(kernel.body) if isinstance(op, Loop))
    return _unique((*(g.name for g in kernel.grid), *loops, *kernel.tile_axes))


def _single(kernel: Kernel) -> frozenset[str]:
    """Axes whose position is a scalar."""
    grid = (g.name for g in kernel.grid if g.tile == 1)
    loops = (op.axis for op in walk_ops(kernel.body) if isinstance(op, Loop) and op.tile == 1)
    return frozenset((*grid, *loops)) - kernel.tile_axes.keys()


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))
