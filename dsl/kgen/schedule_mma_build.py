"""Steps of the `mma` skeleton: swizzled tiles, packed operands, matrix products, rings of tiles."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgen.ir import Dot, Let, Loop, Op
from kgen.schedule_build import Builder
from kgen.schedule_mma import Sides, sides_of
from kgen.schedule_mma_finish import Tail, finish_of, tail_of, unused_after, without
from kgen.schedule_mma_ring import with_ring
from kgen.schedule_shared import Filling
from kgen.schedule_steps import Finish, MmaMultiply, Pack, SharedTile, Step, Walk, Write
from kgen.terms import Var


@dataclass
class MmaBuilder(Builder):
    """Builds the steps of one kernel. `stages`: slots of the tiles that a loop fills ahead."""

    sides: Sides = field(kw_only=True)
    stages: int = 1

    def build(self, body: tuple[Op, ...]) -> tuple[Step, ...]:
        """Return the steps of the whole kernel, its results stored in a layout of their own where that gains."""
        steps = super().build(body)
        tail = tail_of(steps)
        out: list[Step] = list(steps[: tail.begin])
        for step in steps[tail.begin :]:
            out += self._finished(step, tail) if isinstance(step, Write) else [step]
        return without(tuple(out), tail, unused_after(tuple(out), tail))

    def _finished(self, write: Write, tail: Tail) -> list[Step]:
        """Return a store, or the exchange of values through tiles with the store's rows and the store after it."""
        found = finish_of(self.kernel, write, tail)
        if found is None:
            return [write]
        stage, crossing, wide = found
        tiles = [MmaBuilder._tile(self, v, Filling(stage.along, stage.run)) for v in crossing]
        if any(t.inner != stage.along for t in tiles):  # an operand too, with rows of its own
            return [write]
        return [*(self._spill(v) for v in crossing), Finish(stage, tuple(tiles), wide)]

    def _step(self, op: Op) -> Step:
        match op:
            case Let() if op.dst.name in self.homes.fragments:
                return Pack(op, next(a for a in op.dst.axes if a in self.sides.cols))
            case Dot():
                return self._product(op)
            case Loop():
                walk = super()._step(op)
                assert isinstance(walk, Walk)
                return with_ring(self.kernel, walk, self.stages)
            case _:
                return super()._step(op)

    def _product(self, op: Dot) -> MmaMultiply:
        left, right = sides_of(op, self.sides.rows)
        row = next(a for a in left.axes if a != op.contract)
        col = next(a for a in right.axes if a != op.contract)
        a = None if left.name in self.homes.fragments else self.tiles[left.name]
        return MmaMultiply(op, row, col, left, right, a, self.tiles[right.name])

    def _tile(self, var: Var, filling: Filling) -> SharedTile:
        """A tile staged in runs has them along its rows; one copied from registers has the lanes' pairs there."""
        if var.name not in self.tiles:
            inner = filling.along or next(a for a in reversed(var.axes) if a in self.sides.cols)
            outer = next(a for a in var.axes if a != inner)
            sizes = self.kernel.tile_axes
            self.tiles[var.name] = SharedTile(
                var.name, var.dtype, outer, inner, sizes[outer].size, sizes[inner].size, swizzled=True
            )
        return self.tiles[var.name]
