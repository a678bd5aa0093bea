"""The frame of a kernel: which axes are tiles, how large, how the grid walks them, what is known about positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from kgen.algebra import ceil_div, fold, less, substitute
from kgen.configure import AxisConfig, Config
from kgen.index import Facts, Range, prove
from kgen.ir import GridAxis, TileAxis
from kgen.math import Axis, Math
from kgen.specialise import Specialisation
from kgen.terms import Apply, Const, Expr, Pos, Size, free_axes
from kgen.tile_bounds import Reach
from kgen.types import BOOL, I32

DOT_MINIMUM = 16  # smallest tile extent tl.dot takes


@dataclass(frozen=True)
class Frame:
    """Axes of one kernel for one specialisation and backend."""

    math: Math
    spec: Specialisation
    config: Config
    backend: str
    serial: Mapping[str, str] = field(default_factory=dict)  # axes that walk another one position by position

    def axis(self, name: str) -> Axis:
        return self.math.axes[name]

    def role(self, name: str) -> str:
        """Return "grid", "stream" or "whole"."""
        return self.config.roles[name]

    def step(self, name: str) -> int:
        """Return how many positions of a grid or stream axis one program or iteration takes."""
        tile = self.config.axes[name].tile
        return tile if isinstance(tile, int) else 1

    def size(self, name: str) -> int:
        """Return the tile extent of an axis in this backend, padded; 1 means positions are scalars."""
        if self.role(name) != "whole":
            return self.step(name)
        extent = self.static_extent(name)
        if extent is None:
            return self.spec.buckets[name]
        return max(DOT_MINIMUM, _next_power(extent)) if self.backend == "triton" else extent

    def static_extent(self, name: str) -> int | None:
        """Return the extent if it is known when compiling."""
        value = fold_sizes(self.axis(name).extent, self.spec.sizes)
        return int(value.value) if isinstance(value, Const) else None

    def validity(self, name: str) -> Expr | None:
        """Return `position < extent`, or None where every position of a tile is provably valid."""
        if self.size(name) == 1:
            return None
        extent = self.static_extent(name)
        if extent is not None and extent % self.size(name) == 0:
            return None
        return less(Pos(I32, name), self.axis(name).extent)

    @cached_property
    def tile(self) -> dict[str, TileAxis]:
        """Return the axes of tile values with their sizes, in the spec's order."""
        return {a: TileAxis(a, self.size(a)) for a in self.math.axes if self.size(a) > 1}

    def walked_singly(self, axis: str) -> tuple[str, Frame]:
        """Return an axis that walks the positions of `axis` one by one in a loop, and the frame that has it."""
        name = f"{axis}_each"
        while name in self.math.axes and name not in self.serial:
            name += "_"
        if name in self.math.axes:
            return name, self
        axes: dict[str, Axis] = {}
        for a, x in self.math.axes.items():
            axes |= {a: x} | ({name: replace(x, name=name)} if a == axis else {})
        loops = tuple(x for a in self.config.loops for x in ((a, name) if a == axis else (a,)))
        config = replace(
            self.config,
            axes=self.config.axes | {name: AxisConfig(None, True, None)},
            roles=self.config.roles | {name: "stream"},
            loops=loops if axis in loops else (*loops, *((name,) if loops else ())),
        )
        math = replace(self.math, axes=axes)
        return name, replace(self, math=math, config=config, serial={**self.serial, name: axis})

    def grid(self) -> tuple[GridAxis, ...]:
        swizzle = self.config.grid_swizzle
        return tuple(
            GridAxis(a, self.step(a), ceil_div(self.axis(a).extent, self.step(a)), desc, swizzle.get(a, 0))
            for a, desc in self.config.grid
        )

    def valid_at(self, axes: Iterable[str]) -> Facts:
        """Return what holds at valid positions of `axes`: these are less than the extents, so no extent is 0."""
        return self._facts(frozenset(a for a in axes if a in self.math.axes))

    def always_at(self, axes: Iterable[str]) -> Facts:
        """Return what holds at every position, valid or not, where loops over `axes` (or programs) run."""
        return self._facts(frozenset(a for a in axes if a in self.math.axes and self.validity(a) is None))

    def _facts(self, axes: frozenset[str]) -> Facts:
        if axes not in self._known:
            self._known[axes] = self.sizes.assuming(*(less(Pos(I32, a), self.axis(a).extent) for a in sorted(axes)))
        return self._known[axes]

    @cached_property
    def _known(self) -> dict[frozenset[str], Facts]:
        return {}

    @cached_property
    def sizes(self) -> Facts:
        """Return what the spec's checks and definitions say of sizes."""
        ranges: Mapping[Expr | str, Range] = {s: Range(0, None) for s in self.math.sizes}
        checks = tuple(c.condition for c in self.math.checks)
        equal = tuple(
            Apply(BOOL, "eq", (Size(I32, s.name), s.definition))
            for s in self.math.sizes.values()
            if s.definition is not None
        )
        return Facts(ranges=ranges, constants=dict(self.spec.sizes)).assuming(*checks, *equal)

    def in_bounds(self, index: Expr, extent: Expr) -> bool:
        """Is 0 <= index < extent proven for all valid positions?"""
        if (index, extent) not in self._shown:
            self._shown[index, extent] = self._in_bounds(index, extent)
        return self._shown[index, extent]

    @cached_property
    def _shown(self) -> dict[tuple[Expr, Expr], bool]:
        return {}

    def _in_bounds(self, index: Expr, extent: Expr) -> bool:
        if self._reach.inside(index, extent):
            return True
        facts = self.valid_at([*free_axes(index), *(a for a, _ in self.config.grid)])
        low = prove(Apply(BOOL, "ge", (index, Const(I32, 0))), facts)
        return bool(low and prove(less(index, extent), facts))

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self.math)


def fold_sizes(e: Expr, sizes: Mapping[str, int]) -> Expr:
    """Put static sizes in and fold."""
    from_names: dict[Expr, Expr] = {Size(I32, k): Const(I32, v) for k, v in sizes.items()}
    return fold(substitute(e, from_names))


def _next_power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
