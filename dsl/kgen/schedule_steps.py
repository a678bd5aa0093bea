"""The steps of a planned kernel: what the threads of a block do, in order, with barriers made explicit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kgen.ir import Assign, Combine, Dot, Init, Let, LoadTile, Loop, Op, Store, TileReduce
from kgen.layout import ThreadGroup
from kgen.schedule_access import Form
from kgen.terms import Var
from kgen.types import DType

ALIGNMENT = 16


@dataclass(frozen=True)
class SharedTile:
    """A tile in shared memory: element (outer, inner) lies at `offset + (outer * pitch + inner) * dtype.bytes`.

    `swizzled`: the 16-byte chunks of each row are permuted, so that eight rows are read without bank conflicts.
    `span` > 0: rows are cut into pieces of that many bytes, each piece's rows follow each other and are permuted alone:
    the image that TMA writes and wgmma reads.
    `slots` copies of the tile follow each other, `slot_bytes` apart.
    """

    name: str
    dtype: DType
    outer: str
    inner: str
    rows: int
    pitch: int
    offset: int = 0
    swizzled: bool = False
    slots: int = 1
    span: int = 0

    @property
    def alignment(self) -> int:
        """Bytes of which the offset must be a multiple: eight rows of a span, which the permutation takes together."""
        return 8 * self.span if self.span else ALIGNMENT

    @property
    def slot_bytes(self) -> int:
        return self.rows * self.pitch * self.dtype.bytes

    @property
    def bytes(self) -> int:
        return self.slots * self.slot_bytes


@dataclass(frozen=True)
class Elementwise:
    """Let, Init and Assign of values over the same axes: one pass over the registers."""

    axes: tuple[str, ...]
    ops: tuple[Let | Init | Assign, ...]


@dataclass(frozen=True)
class Load:
    """Global memory to registers."""

    op: LoadTile
    form: Form


@dataclass(frozen=True)
class Write:
    """Registers to global memory."""

    op: Store
    form: Form


@dataclass(frozen=True)
class Stage:
    """Tiles evaluated by all threads in turns of `run` elements along `along`, and written to shared memory.

    Turn c of a thread is element `((c // (size of along / run)), c % (...) * run)` of the axes (across, along).
    `copied`: the tile is a load as it is, moved past the registers by asynchronous copies.
    """

    tiles: tuple[SharedTile, ...]
    ops: tuple[Let | LoadTile, ...]
    forms: tuple[Form | None, ...]
    along: str
    across: str
    run: int
    copied: bool = False


@dataclass(frozen=True)
class Spill:
    """A register value copied to its shared tile, `width` elements an access."""

    var: Var
    tile: SharedTile
    width: int


@dataclass(frozen=True)
class Multiply:
    """A Dot of two shared tiles: `step` of the contract axis at a time, `width_a` and `width_b` elements a load."""

    op: Dot
    a: SharedTile
    b: SharedTile
    step: int
    width_a: int
    width_b: int


@dataclass(frozen=True)
class Pack:
    """A value computed in registers as the left operand of matrix instructions: pairs along `along` in one register.

    `together`: the four registers that one instruction takes follow each other.
    """

    op: Let
    along: str
    together: bool = False


@dataclass(frozen=True)
class MmaMultiply:
    """A Dot by matrix instructions of 16 x 8 x 16: `left` holds `row`, `right` holds `col`, the axes of the result.

    `a` is the shared tile of `left`, or None if it is packed in registers; `b` is the shared tile of `right`.
    """

    op: Dot
    row: str
    col: str
    left: Var
    right: Var
    a: SharedTile | None
    b: SharedTile


@dataclass(frozen=True)
class WgmmaMultiply(MmaMultiply):
    """A Dot by instructions of a warpgroup: 64 rows by up to 256 columns by 16; shared tiles are read in spans.

    It is done after a WgmmaWait.
    """


@dataclass(frozen=True)
class WgmmaWait:
    """Till at most `pending` products are in flight; those that gave `results`, by name, are done."""

    pending: int
    results: tuple[str, ...]


@dataclass(frozen=True)
class ProxyFence:
    """What a thread has written to shared memory may be read by asynchronous instructions after the next barrier."""


@dataclass(frozen=True)
class Finish:
    """A store in turns, those of a Stage without tiles of its own: `tiles` hold what other threads have made."""

    stage: Stage
    tiles: tuple[SharedTile, ...]
    write: Write


@dataclass(frozen=True)
class Scratch:
    """Shared memory in which the warps of a group exchange partial results: one row of `slots` elements per warp."""

    name: str
    dtype: DType
    warps: int
    slots: int
    offset: int = 0
    alignment: ClassVar[int] = ALIGNMENT

    @property
    def bytes(self) -> int:
        return self.warps * self.slots * self.dtype.bytes


@dataclass(frozen=True)
class Fold:
    """A reduction over one axis: registers, then `lanes` by shuffles, then warps through `scratch` (one per state)."""

    op: TileReduce | Combine
    group: ThreadGroup
    lanes: int
    scratch: tuple[Scratch, ...]


@dataclass(frozen=True)
class Barrier:
    """All threads of the block wait for each other."""


@dataclass(frozen=True)
class Ring:
    """Tiles that a loop fills ahead: tile t of the loop lies in slot `t % stages`, and is made in iteration
    `t - (stages - 1)`. Every iteration begins with a barrier, which all uses of the slots rely on. `fenced`: with a
    ProxyFence before that barrier. `kept`: iterations for which a tile is still read after its own; it is then made as
    much later."""

    stages: int
    fills: tuple[Stage, ...]
    fenced: bool = False
    kept: int = 0

    @property
    def ahead(self) -> int:
        """How many iterations before its use a tile is made."""
        return self.stages - 1 - self.kept

    @property
    def tiles(self) -> tuple[SharedTile, ...]:
        return tuple(t for fill in self.fills for t in fill.tiles)


@dataclass(frozen=True)
class Walk:
    """A loop: its segments, each with its own steps."""

    op: Loop
    bodies: tuple[tuple[Step, ...], ...]
    ring: Ring | None = None


Step = (
    Elementwise
    | Load
    | Write
    | Stage
    | Spill
    | Finish
    | Pack
    | Multiply
    | MmaMultiply
    | Fold
    | Barrier
    | ProxyFence
    | WgmmaWait
    | Walk
)
Memory = SharedTile | Scratch


def operations_of(step: Step) -> tuple[Op, ...]:
    """Return the operations that a step carries out."""
    match step:
        case Elementwise(ops=ops) | Stage(ops=ops):
            return ops
        case Spill() | Barrier() | ProxyFence() | WgmmaWait():
            return ()
        case Finish(stage=stage, write=write):
            return (*stage.ops, write.op)
        case _:
            return (step.op,)


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Yield all steps in order, loops before their bodies."""
    for step in steps:
        yield step
        if isinstance(step, Walk):
            for body in step.bodies:
                yield from all_steps(body)


def writes(step: Step) -> tuple[Memory, ...]:
    """Return the shared memory that a step writes (its own barriers not counted)."""
    match step:
        case Stage(tiles=tiles):
            return tiles
        case Spill(tile=tile):
            return (tile,)
        case Fold(scratch=scratch):
            return scratch
        case Walk(ring=Ring() as ring):
            return ring.tiles
        case _:
            return ()


def reads(step: Step) -> tuple[Memory, ...]:
    """Return the shared memory that a step reads at its end."""
    match step:
        case Multiply(a=a, b=b):
            return (a, b)
        case MmaMultiply(a=a, b=b):
            return (b,) if a is None else (a, b)
        case Finish(tiles=tiles):
            return tiles
        case Fold(scratch=scratch):
            return scratch
        case _:
            return ()
