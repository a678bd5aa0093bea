"""What a simulated launch found and counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Fault:
    """One reason why the kernel is wrong.

    kind: out_of_bounds, misaligned, uninitialised, race, cross_block, coverage, deadlock, diverged, crash, timeout,
    barrier, missing_fence, in_flight, tma or wgmma; docs/simulator.md says when each is found.
    block, thread: None where the fault belongs to the whole launch.
    line: 1-based line of the kernel text, None if unknown.
    """

    kind: str
    message: str
    kernel: str
    block: int | None
    thread: int | None
    line: int | None
    source: str

    def __str__(self) -> str:
        place = [f"kernel {self.kernel}"]
        place += [] if self.block is None else [f"block {self.block}"]
        place += [] if self.thread is None else [f"thread {self.thread}"]
        place += [] if self.line is None else [f"line {self.line}"]
        head = f"{self.kind}: {self.message} [{', '.join(place)}]"
        return f"{head}\n    {self.source.strip()}" if self.source else head


@dataclass(frozen=True)
class TensorTraffic:
    """Global memory traffic of one tensor: bytes as requested by threads, 32-byte sectors per warp instruction.

    distinct_loaded, distinct_stored: bytes of the elements that were loaded, or stored or updated, at least once.
    """

    loaded: int
    stored: int
    atomics: int
    load_sectors: int
    store_sectors: int
    distinct_loaded: int = 0
    distinct_stored: int = 0


@dataclass(frozen=True)
class LineAccess:
    """What the warp instructions of one line of the text cost in memory.

    access: load, store, atomic, cp_async (pieces are 32-byte sectors), shared_load, shared_store, ldmatrix or stmatrix
    (pieces are wavefronts: more than `ideal` are bank conflicts). ideal: the least that as many bytes could take.
    """

    line: int
    access: str
    instructions: int
    pieces: int
    ideal: int


@dataclass(frozen=True)
class Counters:
    """Counts over the launch. barriers: completed per block; collectives: completed per warp.

    instructions: of warps, by the name of the primitive without its size suffix (ldmatrix, mma_m16n8k16, shfl_xor).
    special_functions: calls by threads of ex2, lg2, expf, logf, sqrtf, rsqrtf, sinf, cosf, tanhf, exp2f and log2f.
    """

    tensors: Mapping[str, TensorTraffic]
    barriers: int
    collectives: int
    blocks: int
    instructions: Mapping[str, int]
    lines: tuple[LineAccess, ...]
    special_functions: int

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared memory beyond the ideal."""
        shared = ("shared_load", "shared_store", "ldmatrix", "stmatrix")
        return sum(row.pieces - row.ideal for row in self.lines if row.access in shared)


@dataclass(frozen=True)
class Report:
    """Result of a launch. `tile_rows` is int64 [n, 4]: block, loop id, tile start, masked; in order within a block."""

    faults: tuple[Fault, ...]
    counters: Counters
    tile_rows: npt.NDArray[np.int64]

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.faults

    @property
    def tiles(self) -> dict[int, tuple[int, int]]:
        """Loop id -> (tiles executed, tiles of these masked), over all blocks."""
        rows = self.tile_rows
        loops = {int(loop): rows[rows[:, 1] == loop] for loop in np.unique(rows[:, 1])}
        return {loop: (len(found), int(found[:, 3].sum())) for loop, found in loops.items()}

    def tile_starts(self, block: int, loop: int) -> list[int]:
        """Return the starts of the tiles that a block executed in a loop, in order."""
        rows = self.tile_rows
        return [int(start) for start in rows[(rows[:, 0] == block) & (rows[:, 1] == loop), 2]]

    def __str__(self) -> str:
        return "\n".join(str(fault) for fault in self.faults) or "ok"
