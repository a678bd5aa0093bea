"""The tile IR: what each program of a kernel does, with named tile axes, before layouts and memory are chosen.

A kernel is printed twice from this IR. Values are immutable `Var`s (defined once by Let, Load, Dot, TileReduce,
Combine) or mutable state (defined by Init, changed by Assign and by Dots that accumulate into it). Scalars are Vars
without axes. Padding is explicit: a TileAxis whose `size` may exceed the extent has its validity in every `where`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kgen.terms import Expr, Var
from kgen.types import DType


@dataclass(frozen=True)
class Label:
    """Which statements a line belongs to. `part` names the piece: load, mask, state, rescale, carry, finish, store."""

    stmts: tuple[str, ...]
    part: str


@dataclass(frozen=True)
class Buffer:
    """Memory a kernel touches. `unit` is the dim known to have stride 1 (its stride is no argument), if any.

    `aligned`: base and all other strides are multiples of 16 bytes. Workspaces are contiguous f32/i64/... and aligned.
    """

    name: str
    dims: tuple[Expr, ...]
    dtype: DType
    role: Literal["in", "out", "inout", "workspace"]
    unit: int | None
    aligned: bool


@dataclass(frozen=True)
class TileAxis:
    """An axis that is a dimension of tile values: `size` elements (already padded for the backend)."""

    name: str
    size: int


@dataclass(frozen=True)
class GridAxis:
    """One digit of the program id: `count` tiles of `tile` positions; `tile` 1 means Pos(axis) is a scalar.

    `desc`: walked from the last tile. `group` > 0: programs run in groups of that many tiles of this axis (L2 reuse).
    """

    name: str
    tile: int
    count: Expr
    desc: bool = False
    group: int = 0


@dataclass(frozen=True)
class Arg:
    """A kernel argument, in signature order. tensor: pointer; stride: of a dim of `buffer`; size, param: by name."""

    kind: Literal["tensor", "stride", "size", "param"]
    name: str
    dtype: DType
    buffer: str | None = None
    dim: int | None = None


@dataclass(frozen=True)
class Op:
    """Base of operations."""

    label: Label


@dataclass(frozen=True)
class Let(Op):
    """dst = expr, elementwise; operands broadcast by axis name. dst.axes may have more axes than expr (broadcast)."""

    dst: Var
    expr: Expr


@dataclass(frozen=True)
class Init(Op):
    """Declare mutable state: dst = value (a scalar expression, broadcast)."""

    dst: Var
    value: Expr


@dataclass(frozen=True)
class Assign(Op):
    """Change mutable state: dst = expr (elementwise, may read dst itself)."""

    dst: Var
    expr: Expr


@dataclass(frozen=True)
class LoadTile(Op):
    """dst = buffer[index] where `where` holds (or None: everywhere), else `other`. dst.dtype is the storage type."""

    dst: Var
    buffer: str
    index: tuple[Expr, ...]
    where: Expr | None
    other: int | float | bool = 0


@dataclass(frozen=True)
class Store(Op):
    """buffer[index] = value where `where` holds. `value` has the buffer's dtype; `index` has at least its axes."""

    buffer: str
    index: tuple[Expr, ...]
    value: Expr
    where: Expr | None


@dataclass(frozen=True)
class Dot(Op):
    """dst[.., row, col] (+)= sum over `contract` of a * b, in dst.dtype (f32 or f64).

    a.axes = {row, contract}, b.axes = {contract, col} in any order. `accumulate`: dst is mutable state, added to;
    else dst is defined. `precision`: "ieee" or "tf32" for f32 operands.
    """

    dst: Var
    a: Var
    b: Var
    contract: str
    accumulate: bool
    precision: str = "ieee"


@dataclass(frozen=True)
class TileReduce(Op):
    """dst = op over `axis` of an expression: "sum", "max", "min", "any" or "all". max and min let NaN through."""

    dst: Var
    op: str
    src: Expr
    axis: str


@dataclass(frozen=True)
class Combine(Op):
    """dsts = fold over `axis` of the state tuple `srcs` by an associative, commutative merge.

    `merge` is a list of (name, expression): expressions read Get(Var("a.<state>")), Get(Var("b.<state>")) and earlier
    names Get(Var("<name>")); the entries named in `states` (same order as srcs and dsts) are the results.
    """

    dsts: tuple[Var, ...]
    srcs: tuple[Expr, ...]
    axis: str
    states: tuple[str, ...]
    merge: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class Segment:
    """Tiles of a loop that share a body: positions lo (inclusive) to hi (exclusive), both multiples of the tile."""

    lo: Expr
    hi: Expr
    kind: str  # "plain", "masked", "tail": shown in comments and counted by the simulator
    body: tuple[Op, ...]


@dataclass(frozen=True)
class Guarded:
    """What the mask stage knows of a loop before it is cut into segments.

    The loop runs over positions lo <= p < hi (`hi` also bounds the valid positions). No tile outside `hull` need run;
    where `interior` holds for a whole tile, the lowered conditions `guards` are true. None: true everywhere.
    `validity` is the lowered `p < hi`, None if every tile is whole.
    """

    lo: Expr
    hi: Expr
    hull: Expr | None
    interior: Expr | None
    guards: tuple[Expr, ...]
    validity: Expr | None


@dataclass(frozen=True)
class Loop(Op):
    """Walk `axis` in steps of `tile`, segment after segment. `tile` 1: Pos(axis) is a scalar in the body.

    Until the mask stage there is one segment, right for every tile, and `guarded` says what may be dropped where.
    """

    axis: str
    tile: int
    segments: tuple[Segment, ...]
    guarded: Guarded | None = None


@dataclass(frozen=True)
class Kernel:
    """One launch. `constants` are static sizes and tile sizes by name (printed as constexpr)."""

    name: str
    grid: tuple[GridAxis, ...]
    tile_axes: dict[str, TileAxis]
    args: tuple[Arg, ...]
    buffers: dict[str, Buffer]
    constants: dict[str, int]
    body: tuple[Op, ...]
    offset_dtype: DType  # i32 or i64: type of strides and offsets inside a tile; bases are always i64
    extents: dict[str, Expr] = field(default_factory=dict)  # valid extent of each axis the kernel uses


@dataclass(frozen=True)
class Program:
    """All kernels of an op in launch order, with the workspaces they share."""

    name: str
    buffers: dict[str, Buffer]
    kernels: tuple[Kernel, ...]
