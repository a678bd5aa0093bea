"""Steps of the `wgmma` skeleton: tiles in spans, operands packed for one instruction, fences between proxies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kgen.ir import Dot, Let, Op
from kgen.layout_shared import span_of
from kgen.schedule_mma_build import MmaBuilder
from kgen.schedule_shared import Filling
from kgen.schedule_steps import (
    MmaMultiply,
    Pack,
    ProxyFence,
    SharedTile,
    Spill,
    Stage,
    Step,
    Walk,
    WgmmaMultiply,
    writes,
)
from kgen.terms import Var


@dataclass
class WgmmaBuilder(MmaBuilder):
    """Builds the steps of one kernel, as the `mma` skeleton does, for the instructions of warpgroups."""

    def _step(self, op: Op) -> Step:
        step = super()._step(op)
        if isinstance(step, Pack) and isinstance(op, Let):
            return replace(step, together=True)
        return step

    def _product(self, op: Dot) -> MmaMultiply:
        m = super()._product(op)
        return WgmmaMultiply(m.op, m.row, m.col, m.left, m.right, m.a, m.b)

    def _tile(self, var: Var, filling: Filling) -> SharedTile:
        if var.name not in self.tiles:
            tile = super()._tile(var, filling)
            self.tiles[var.name] = replace(tile, swizzled=False, span=span_of(tile.pitch * tile.dtype.bytes))
        return self.tiles[var.name]


def fenced(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Insert the fences after which wgmma may read, past the next barrier, what threads have written."""
    out: list[Step] = []
    for n, step in enumerate(steps):
        out.append(_fenced_walk(step) if isinstance(step, Walk) else step)
        following = steps[n + 1] if n + 1 < len(steps) else None
        if _for_products(step) and not _for_products(following):
            out.append(ProxyFence())
    return tuple(out)


def _for_products(step: Step | None) -> bool:
    """Return whether a step writes a tile that products read."""
    return isinstance(step, Stage | Spill) and any(isinstance(m, SharedTile) and m.span for m in writes(step))


def _fenced_walk(walk: Walk) -> Walk:
    ring = None if walk.ring is None else replace(walk.ring, fenced=True)
    return replace(walk, bodies=tuple(fenced(b) for b in walk.bodies), ring=ring)
