"""Layouts: which thread holds which element of a tile value, and where elements lie in shared memory.

The bits of the thread index are dealt out to thread groups; every tile axis held in registers belongs to one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

WARP = 32
BANK_BYTES = 4
BANKS = 32
SECTOR_BYTES = 32


@dataclass(frozen=True)
class ThreadGroup:
    """Bits of the thread index: the group's coordinate is `thread // stride % count`.

    With a `warp_stride` the bits of warps lie apart from those of lanes: the coordinate is
    `thread // stride % near + near * (thread // warp_stride % (count // near))`.
    """

    name: str
    count: int
    stride: int
    axes: tuple[str, ...]
    near: int = 0
    warp_stride: int = 0

    def coordinate(self, thread: int) -> int:
        if not self.warp_stride:
            return thread // self.stride % self.count
        far = thread // self.warp_stride % (self.count // self.near)
        return thread // self.stride % self.near + self.near * far

    @property
    def lanes(self) -> int:
        """How many of the group's threads lie in one warp."""
        return self.near if self.warp_stride else max(1, min(self.count, WARP // self.stride))

    @property
    def warps(self) -> int:
        """Over how many warps the group is spread."""
        return self.count // self.lanes


@dataclass(frozen=True)
class AxisLayout:
    """An axis of `size` elements over the first `threads` coordinates of a group, in runs of `vector` elements.

    Thread t holds element `i // vector * (threads * vector) + t * vector + i % vector` as its register i. Coordinates
    of the group beyond `threads` hold copies.

    With `between` > 1, the first `near` coordinates hold neighbours, and `between` registers lie between them and the
    others: element `i // between * (threads * between) + t // near * (near * between) + i % between * near + t % near`.
    """

    axis: str
    size: int
    group: str
    threads: int
    vector: int = 1
    near: int = 0
    between: int = 1

    @property
    def registers(self) -> int:
        return self.size // self.threads

    def element(self, coordinate: int, register: int) -> int:
        """Return the element that register `register` of the thread at `coordinate` holds."""
        if self.between > 1:
            far, lane = divmod(coordinate % self.threads, self.near)
            run, row = divmod(register, self.between)
            return ((run * (self.threads // self.near) + far) * self.between + row) * self.near + lane
        run, within = divmod(register, self.vector)
        return run * self.threads * self.vector + coordinate % self.threads * self.vector + within


@dataclass(frozen=True)
class ThreadMap:
    """All thread groups and axis layouts of a kernel; threads beyond the product of the groups hold copies."""

    threads: int
    groups: tuple[ThreadGroup, ...]
    axes: Mapping[str, AxisLayout]

    @property
    def spare(self) -> int:
        """How many copies of the whole kernel's values the block holds (1: no thread is spare)."""
        return self.threads // prod(g.count for g in self.groups)

    def group_of(self, axis: str) -> ThreadGroup:
        return next(g for g in self.groups if g.name == self.axes[axis].group)

    def registers(self, axes: Iterable[str]) -> int:
        """Return how many elements of a value with these axes a thread holds."""
        return prod(self.axes[a].registers for a in axes)

    def used(self, group: ThreadGroup, axes: Iterable[str]) -> int:
        """Return how many coordinates of `group` hold different elements of a value with these axes."""
        return max((self.axes[a].threads for a in axes if self.axes[a].group == group.name), default=1)

    def element(self, axis: str, thread: int, register: int) -> int:
        return self.axes[axis].element(self.group_of(axis).coordinate(thread), register)

    def copies(self, axes: Iterable[str]) -> int:
        """Return how many threads hold each element of a value with these axes."""
        held = tuple(axes)
        return self.threads // prod(self.used(g, held) for g in self.groups)


def power_of_two_divisor(size: int) -> int:
    """Return the largest power of two that divides `size`."""
    return size & -size


def wavefronts(addresses: Iterable[int], width: int) -> int:
    """Return the shared-memory cycles of one access by a warp: `width` bytes a lane at these byte addresses.

    A warp is served in groups of 32, 16 or 8 lanes for up to 4, 8 or 16 bytes; a group costs the largest number of
    different words in one bank.
    """
    lanes = list(addresses)
    step = WARP * BANK_BYTES // max(width, BANK_BYTES)
    total = 0
    for first in range(0, len(lanes), step):
        words = {(a + b) // BANK_BYTES for a in lanes[first : first + step] for b in range(0, width, BANK_BYTES)}
        per_bank = [0] * BANKS
        for word in words:
            per_bank[word % BANKS] += 1
        total += max(per_bank)
    return total


def sectors(addresses: Iterable[int], width: int) -> int:
    """Return the 32-byte sectors that one global access of a warp touches."""
    return len({(a + b) // SECTOR_BYTES for a in addresses for b in range(0, width, min(width, SECTOR_BYTES))})
