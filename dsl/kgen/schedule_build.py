"""Tile IR operations to steps: where each value is made, what is staged or spilled, how wide each access is."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from kgen.ir import Assign, Combine, Dot, Init, Kernel, Let, LoadTile, Loop, Op, Store, TileReduce
from kgen.layout import ThreadMap
from kgen.schedule_access import ACCESS_BYTES, Form, access_form
from kgen.schedule_demand import unit_axis
from kgen.schedule_homes import Homes, defined, operations, reads
from kgen.schedule_shared import Filling, choose_tile, load_width, step_of, store_width
from kgen.schedule_steps import (
    Elementwise,
    Fold,
    Load,
    Multiply,
    Scratch,
    SharedTile,
    Spill,
    Stage,
    Step,
    Walk,
    Write,
)
from kgen.terms import Var


@dataclass
class Builder:
    """Builds the steps of one kernel. `flat` holds the operations of staged values, `pending` the tiles to stage."""

    kernel: Kernel
    homes: Homes
    threads: ThreadMap
    tiles: dict[str, SharedTile] = field(default_factory=dict)
    flat: dict[str, Let | LoadTile] = field(default_factory=dict)
    pending: list[Var] = field(default_factory=list)

    def build(self, body: tuple[Op, ...]) -> tuple[Step, ...]:
        """Return the steps of a body, in the order of its operations."""
        steps: list[Step] = []
        for op in body:
            self._add(steps, op)
        steps += self._stage_pending()
        return tuple(steps)

    def _add(self, steps: list[Step], op: Op) -> None:
        if isinstance(op, Let | LoadTile) and op.dst.name in self.homes.flat:
            self.flat.pop(op.dst.name, None)
            self.flat[op.dst.name] = op
            if op.dst.name in self.homes.staged:
                self.pending.append(op.dst)
            if op.dst.name not in self.homes.registers:
                return
        if isinstance(op, Loop) or (isinstance(op, Dot) and {op.a, op.b} & set(self.pending)):
            steps += self._stage_pending()
        if isinstance(op, Dot):
            steps += [self._spill(v) for v in dict.fromkeys((op.a, op.b)) if self._spilled(v, mutable=True)]
        _append(steps, self._step(op))
        steps += [self._spill(v) for v in defined(op) if self._spilled(v, mutable=False)]

    def _spilled(self, var: Var, mutable: bool) -> bool:
        return var.name in self.homes.spilled and (var.name in self.homes.mutable) == mutable

    def _step(self, op: Op) -> Step:
        match op:
            case Let() | Init() | Assign():
                return Elementwise(op.dst.axes, (op,))
            case LoadTile():
                return Load(op, self._form(op))
            case Store():
                return Write(op, self._form(op))
            case Dot():
                return self._multiply(op)
            case TileReduce() | Combine():
                return self._fold(op)
            case Loop(segments=segments):
                return Walk(op, tuple(Builder.build(self, s.body) for s in segments))
            case _:
                raise TypeError(f"the simt schedule has no step for {type(op).__name__}")

    def _form(self, op: LoadTile | Store) -> Form:
        """Return the widest access of the register layout."""
        axis = unit_axis(self.kernel, self.kernel.buffers[op.buffer], op.index)
        held = self.threads.axes.get(axis) if axis is not None else None
        return access_form(self.kernel, op, axis if held else None, held.vector if held else 1)

    def _dots(self, var: Var) -> tuple[Dot, ...]:
        return tuple(op for op in operations(self.kernel.body) if isinstance(op, Dot) and var in (op.a, op.b))

    def _tile(self, var: Var, filling: Filling) -> SharedTile:
        if var.name not in self.tiles:
            self.tiles[var.name] = choose_tile(self.kernel, self.threads, var, self._dots(var), filling)
        return self.tiles[var.name]

    def _spill(self, var: Var) -> Spill:
        tile = self._tile(var, Filling(None, 1))
        return Spill(var, tile, store_width(tile, self.threads.axes[tile.inner].vector))

    def _multiply(self, op: Dot) -> Multiply:
        a, b = self.tiles[op.a.name], self.tiles[op.b.name]
        step = step_of(self.kernel, self.threads, op, a, b)
        width_a, width_b = (
            min(step, load_width(self.kernel, self.threads, t, op)) if t.inner == op.contract
            else load_width(self.kernel, self.threads, t, op)
            for t in (a, b)
        )  # fmt: skip
        return Multiply(op, a, b, step, width_a, width_b)

    def _fold(self, op: TileReduce | Combine) -> Fold:
        group, layout = self.threads.group_of(op.axis), self.threads.axes[op.axis]
        lanes = min(group.lanes, layout.threads)
        warps = layout.threads // lanes
        dsts = defined(op)
        if warps == 1:
            return Fold(op, group, lanes, ())
        slots = prod(self.kernel.tile_axes[a].size for a in dsts[0].axes)
        return Fold(op, group, lanes, tuple(Scratch(f"{v.name}_parts", v.dtype, warps, slots) for v in dsts))

    def _stage_pending(self) -> list[Stage]:
        """Stage what is pending; tiles over the same axes that share loads are made together."""
        groups: list[tuple[list[Var], dict[str, Let | LoadTile]]] = []
        for var in self.pending:
            need = self._needs(var)
            mates = [g for g in groups if set(g[0][0].axes) == set(var.axes) and need.keys() & g[1].keys()]
            for mate in mates:
                groups.remove(mate)
            members = [v for g in mates for v in g[0]]
            groups.append(([*members, var], {n: o for g in mates for n, o in g[1].items()} | need))
        self.pending.clear()
        return [self._stage(members, need) for members, need in groups]

    def _needs(self, var: Var) -> dict[str, Let | LoadTile]:
        """Return the operations that `var` is computed by, by name."""
        op = self.flat[var.name]
        found: dict[str, Let | LoadTile] = {}
        for read in sorted(reads(op), key=lambda v: v.name):
            if read.axes:
                found |= self._needs(read)
        return found | {var.name: op}

    def _stage(self, members: list[Var], need: dict[str, Let | LoadTile]) -> Stage:
        ops = tuple(op for name, op in self.flat.items() if name in need)
        along, run = self._turns(members, ops)
        across = next((a for a in members[0].axes if a != along), along)
        tiles = tuple(self._tile(v, Filling(along, run)) for v in members)
        forms = tuple(self._turn_form(op, along, run) for op in ops)
        return Stage(tiles, ops, forms, along, across, run)

    def _turn_form(self, op: Let | LoadTile, along: str, run: int) -> Form | None:
        if isinstance(op, Let):
            return None
        return access_form(self.kernel, op, along if along in op.dst.axes else None, run)

    def _turns(self, members: list[Var], ops: tuple[Let | LoadTile, ...]) -> tuple[str, int]:
        """Return the axis and the run in which staged elements are made: the widest contiguous loads decide."""
        widest = ACCESS_BYTES // max(v.dtype.bytes for v in members)
        best = (members[0].axes[-1], 1)
        for op in ops:
            if not isinstance(op, LoadTile) or set(op.dst.axes) != set(members[0].axes):
                continue
            axis = unit_axis(self.kernel, self.kernel.buffers[op.buffer], op.index)
            if axis in op.dst.axes:
                width = access_form(self.kernel, op, axis, widest).width
                if width > best[1] or best[1] == 1:
                    best = (axis, width)
        return best


def _append(steps: list[Step], step: Step) -> None:
    """Add a step; elementwise steps of one label over the same axes become one."""
    last = steps[-1] if steps else None
    if (
        isinstance(step, Elementwise)
        and isinstance(last, Elementwise)
        and (step.axes, step.ops[0].label) == (last.axes, last.ops[0].label)
    ):
        steps[-1] = Elementwise(step.axes, last.ops + step.ops)
    else:
        steps.append(step)
