"""Where shared tiles lie, and where barriers must stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from kgen.schedule_steps import (
    Barrier,
    Finish,
    Fold,
    Load,
    Memory,
    MmaMultiply,
    Multiply,
    Ring,
    Spill,
    Stage,
    Step,
    Walk,
    Write,
    all_steps,
    reads,
    writes,
)

EASY_BYTES = 48 * 1024  # up to here tiles do not share memory: sharing costs barriers
Interval = tuple[int, int]
Place = Memory | str  # shared memory, or a buffer by name


def place(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], int]:
    """Give every tile an offset; return the steps with placed tiles and the bytes needed. Tiles never in use together
    share memory only if all tiles side by side would be too large."""
    memory: dict[str, Memory] = {}
    for m in (m for step in all_steps(steps) for m in (*writes(step), *reads(step))):
        memory[m.name] = max(memory.get(m.name, m), m, key=lambda x: x.bytes)
    side_by_side = _first_fit(memory, {name: [(0, 1)] for name in memory})
    offsets = side_by_side if _end(memory, side_by_side) <= EASY_BYTES else _first_fit(memory, _live(steps, memory))
    return tuple(_moved(step, offsets) for step in steps), _end(memory, offsets)


def _end(memory: dict[str, Memory], offsets: dict[str, int]) -> int:
    return max((offsets[n] + m.bytes for n, m in memory.items()), default=0)


def _first_fit(memory: dict[str, Memory], live: dict[str, list[Interval]]) -> dict[str, int]:
    """Place the largest tiles first, each at the lowest offset free while it lives."""
    offsets: dict[str, int] = {}
    for name in sorted(memory, key=lambda n: -memory[n].bytes):
        taken = sorted((offsets[o], offsets[o] + memory[o].bytes) for o in offsets if _overlap(live[o], live[name]))
        at, aligned = 0, memory[name].alignment
        for low, high in taken:
            if at + memory[name].bytes <= low:
                break
            at = max(at, -(-high // aligned) * aligned)
        offsets[name] = at
    return offsets


def _overlap(a: list[Interval], b: list[Interval]) -> bool:
    return any(x[0] <= y[1] and y[0] <= x[1] for x in a for y in b)


def _live(steps: tuple[Step, ...], memory: dict[str, Memory]) -> dict[str, list[Interval]]:
    number = {id(step): n for n, step in enumerate(all_steps(steps))}
    return {name: _intervals(steps, name, number) for name in memory}


def _touches(step: Step, name: str) -> bool:
    if isinstance(step, Walk) and any(_touches(s, name) for body in step.bodies for s in body):
        return True
    return any(m.name == name for m in (*writes(step), *reads(step)))


def _intervals(steps: tuple[Step, ...], name: str, number: dict[int, int]) -> list[Interval]:
    """Return when a tile is in use: within single loop bodies if it is made and used there, else from first to last."""
    touching = [s for s in steps if _touches(s, name)]
    walks = [s for s in touching if isinstance(s, Walk)]
    if touching and len(walks) == len(touching):
        bodies = [b for w in walks for b in w.bodies if any(_touches(s, name) for s in b)]
        if all(_written_first(b, name) for b in bodies):
            return [i for b in bodies for i in _intervals(b, name, number)]
    last = max(number[id(s)] for top in touching for s in all_steps((top,)))
    return [(number[id(touching[0])], last)]


def _written_first(body: tuple[Step, ...], name: str) -> bool:
    first = next(s for s in body if _touches(s, name))
    if isinstance(first, Walk):
        return all(_written_first(b, name) for b in first.bodies if any(_touches(s, name) for s in b))
    return any(m.name == name for m in writes(first))


def _moved(step: Step, offsets: dict[str, int]) -> Step:
    match step:
        case Stage(tiles=tiles):
            return replace(step, tiles=tuple(replace(t, offset=offsets[t.name]) for t in tiles))
        case Spill(tile=tile):
            return replace(step, tile=replace(tile, offset=offsets[tile.name]))
        case Multiply(a=a, b=b):
            return replace(step, a=replace(a, offset=offsets[a.name]), b=replace(b, offset=offsets[b.name]))
        case Fold(scratch=scratch):
            return replace(step, scratch=tuple(replace(s, offset=offsets[s.name]) for s in scratch))
        case Finish(tiles=tiles):
            return replace(step, tiles=tuple(replace(t, offset=offsets[t.name]) for t in tiles))
        case MmaMultiply(a=a, b=b):
            left = None if a is None else replace(a, offset=offsets[a.name])
            return replace(step, a=left, b=replace(b, offset=offsets[b.name]))
        case Walk(bodies=bodies, ring=ring):
            moved = tuple(tuple(_moved(s, offsets) for s in b) for b in bodies)
            return replace(step, bodies=moved, ring=None if ring is None else _moved_ring(ring, offsets))
        case _:
            return step


def _moved_ring(ring: Ring, offsets: dict[str, int]) -> Ring:
    fills = (replace(f, tiles=tuple(replace(t, offset=offsets[t.name]) for t in f.tiles)) for f in ring.fills)
    return replace(ring, fills=tuple(fills))


@dataclass(frozen=True)
class Since:
    """What was written and read since the last barrier on some way to this point."""

    written: frozenset[Place] = frozenset()
    read: frozenset[Place] = frozenset()

    def __or__(self, other: Since) -> Since:
        return Since(self.written | other.written, self.read | other.read)


def with_barriers(steps: tuple[Step, ...], exchanged: frozenset[str]) -> tuple[Step, ...]:
    """Insert the barriers that order every pair of conflicting accesses of placed tiles, and of `exchanged` buffers:
    those through which threads of a block pass values to each other."""
    return _Inserter(exchanged).insert(steps, Since())[0]


@dataclass(frozen=True)
class _Inserter:
    exchanged: frozenset[str]

    def insert(self, steps: tuple[Step, ...], since: Since) -> tuple[tuple[Step, ...], Since]:
        out: list[Step] = []
        for step in steps:
            if isinstance(step, Walk):
                if self.conflicts(step, since):
                    out.append(Barrier())
                    since = Since()
                walked, since = self.walk(step, since)
                out.append(walked)
                continue
            if self.conflicts(step, since):
                out.append(Barrier())
                since = Since()
            out.append(step)
            since = self.after(step, since)
        return tuple(out), since

    def walk(self, walk: Walk, since: Since) -> tuple[Walk, Since]:
        """Each body may follow what came before the loop, an earlier body, or itself. The bodies of a loop with a ring
        follow a barrier; what its fills write is ordered by construction."""
        if walk.ring is not None:
            done, ends = zip(*(self.insert(body, Since()) for body in walk.bodies), strict=True)
            return replace(walk, bodies=tuple(done)), reduce(or_, ends, since)
        bodies = []
        for body in walk.bodies:
            entry = since
            while True:
                done, end = self.insert(body, entry)
                if entry | end == entry:
                    break
                entry = entry | end
            bodies.append(done)
            since = entry
        return replace(walk, bodies=tuple(bodies)), since

    def written(self, step: Step) -> frozenset[Place]:
        if isinstance(step, Write) and step.op.buffer in self.exchanged:
            return frozenset((step.op.buffer,))
        return frozenset(writes(step))

    def read(self, step: Step) -> frozenset[Place]:
        if isinstance(step, Load) and step.op.buffer in self.exchanged:
            return frozenset((step.op.buffer,))
        return frozenset(reads(step))

    def conflicts(self, step: Step, since: Since) -> bool:
        new, old = self.written(step), frozenset() if isinstance(step, Fold) else self.read(step)
        return any(_meet(a, b) for a in new for b in since.written | since.read) or any(
            _meet(a, b) for a in old for b in since.written
        )

    def after(self, step: Step, since: Since) -> Since:
        if isinstance(step, Fold):  # has a barrier of its own between writing and reading
            return Since(read=frozenset(step.scratch)) if step.scratch else since
        return Since(since.written | self.written(step), since.read | self.read(step))


def _meet(a: Place, b: Place) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return a == b
    return a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
