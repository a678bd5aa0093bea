"""Register fragments of tensor-core instructions, as layouts (thread, value) -> element of a tile.

Elements of a tile of R rows are numbered row + R * column, so that a fragment composes with any layout of that tile:
with a shared tile's it gives the address that each thread reads, with another fragment's inverse the registers that
hold the same elements. The coordinates are those of the PTX ISA; g = lane / 4 and t = lane % 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from kgen.layout_algebra import Layout, coalesce, composition, concat, flat_modes, left_inverse, right_inverse
from kgen.layout_tuple import IntTuple, LayoutError

WARP = 32
REGISTER_BITS = 32
MATRIX = 8
"""Rows, and 16-bit elements in a row, of the small matrices that ldmatrix moves."""


@dataclass(frozen=True)
class Fragment:
    """A tile of `rows` x `cols` elements held by the threads of a warp or warpgroup.

    `layout` maps (thread, value) to row + rows * column. Values count elements, not registers: a 32-bit register of
    16-bit elements holds values 2i (low half) and 2i + 1. Threads may hold copies: modes of stride 0.
    """

    name: str
    rows: int
    cols: int
    layout: Layout

    def __post_init__(self) -> None:
        size = self.rows * self.cols
        if self.layout.rank != 2 or self.inverse.size != size or self.layout.cosize != size:
            raise LayoutError(f"{self.name}: {self.layout} does not give each of {size} elements its holders")

    @cached_property
    def inverse(self) -> Layout:
        """Element -> thread + threads * value, the first holder among copies."""
        return right_inverse(self.layout)

    @property
    def threads(self) -> int:
        return self.layout.modes[0].size

    @property
    def values(self) -> int:
        """How many elements a thread holds."""
        return self.layout.modes[1].size

    @property
    def copies(self) -> int:
        """How many threads hold each element."""
        return self.layout.size // (self.rows * self.cols)

    def element(self, thread: int, value: int) -> tuple[int, int]:
        """Return (row, column) of a value of a thread."""
        col, row = divmod(self.layout(thread, value), self.rows)
        return row, col

    def holder(self, row: int, col: int) -> tuple[int, int]:
        """Return the first (thread, value) that holds an element."""
        value, thread = divmod(self.inverse(row + self.rows * col), self.threads)
        return thread, value


def mma_a(bits: int = 16) -> Fragment:
    """Return A of mma.m16n8k(256/bits), 16 x k: register i holds row g + 8 * (i % 2), columns from p*t + 4p * (i / 2).

    p = 32 / bits elements to a register: k = 8 for tf32, 16 for bf16 and f16, 32 for 8-bit types.
    """
    p = _packed(bits)
    return Fragment(f"mma A {bits}-bit", 16, 8 * p, Layout(((4, 8), (p, 2, 2)), ((16 * p, 1), (16, 8, 64 * p))))


def mma_b(bits: int = 16) -> Fragment:
    """Return B of mma.m16n8k(256/bits) as a tile of n x k: register i holds n = g, k from p*t + 4p * i."""
    p = _packed(bits)
    return Fragment(f"mma B {bits}-bit", 8, 8 * p, Layout(((4, 8), (p, 2)), ((8 * p, 1), (8, 32 * p))))


def mma_c() -> Fragment:
    """Return C and D of mma.m16n8k*, 16 x 8: register i holds row g + 8 * (i / 2), column 2t + i % 2."""
    return Fragment("mma C", 16, 8, Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))))


def wgmma_a(bits: int = 16) -> Fragment:
    """Return A of wgmma.m64nNk(256/bits) from registers, 64 x k: warp w holds the mma A of rows 16w to 16w + 15."""
    p = _packed(bits)
    layout = Layout(((4, 8, 4), (p, 2, 2)), ((64 * p, 1, 16), (64, 8, 256 * p)))
    return Fragment(f"wgmma A {bits}-bit", 64, 8 * p, layout)


def wgmma_d(n: int) -> Fragment:
    """Return D of wgmma.m64nN, 64 x n.

    Register 4j + i of warp w holds row 16w + g + 8 * (i / 2), column 8j + 2t + i % 2.
    Raises LayoutError unless n is a multiple of 8 from 8 to 256.
    """
    if n % 8 or not 8 <= n <= 256:
        raise LayoutError(f"wgmma has no N = {n}: multiples of 8 up to 256")
    return Fragment(f"wgmma D n={n}", 64, n, Layout(((4, 8, 4), (2, 2, n // 8)), ((128, 1, 16), (64, 8, 512))))


def _packed(bits: int) -> int:
    if bits not in (8, 16, 32):
        raise LayoutError(f"no tensor-core operand of {bits} bits: 8, 16 or 32")
    return REGISTER_BITS // bits


def repeat(piece: Fragment, down: int = 1, across: int = 1) -> Fragment:
    """Return down x across copies of a fragment side by side.

    The copies are the last mode of the value, counted down first.
    """
    rows, cols = piece.rows * down, piece.cols * across
    thread, value = composition(Layout((piece.rows, piece.cols), (1, rows)), piece.layout).modes
    copies = Layout((down, across), (piece.rows, rows * piece.cols))
    return Fragment(f"{piece.name} x ({down}, {across})", rows, cols, concat(thread, concat(value, copies)))


def transpose(fragment: Fragment) -> Fragment:
    """Return the fragment of the transposed tile: the same holders, rows and columns exchanged."""
    flip = Layout((fragment.rows, fragment.cols), (fragment.cols, 1))
    return Fragment(f"{fragment.name} transposed", fragment.cols, fragment.rows, composition(flip, fragment.layout))


def registers(source: Fragment, target: Fragment) -> Layout | None:
    """Return the layout value of `target` -> value of `source` that holds the same element in the same thread.

    None if some element would have to move between threads. Raises LayoutError if the tiles differ in size or `source`
    holds copies.
    """
    if (source.rows, source.cols) != (target.rows, target.cols):
        raise LayoutError(f"{source.name} and {target.name} are fragments of different tiles")
    thread, value = composition(left_inverse(source.layout), target.layout).modes
    stays = source.threads == target.threads and coalesce(thread) == Layout(source.threads, 1)
    if not stays or any(d % source.threads for _, d in flat_modes(value)):
        return None
    return Layout(value.shape, _divided(value.stride, source.threads))


def _divided(stride: IntTuple, by: int) -> IntTuple:
    return stride // by if isinstance(stride, int) else tuple(_divided(d, by) for d in stride)


@dataclass(frozen=True)
class Ldmatrix:
    """ldmatrix.x`count`: `count` matrices of 8 x 8 16-bit elements, element (row, col, i) numbered row + 8 col + 64 i.

    Lane l supplies the address of row l % 8 of matrix l / 8. Register i of a thread receives M_i[g][2t] and
    M_i[g][2t + 1]; if transposed, M_i[2t][g] and M_i[2t + 1][g].
    """

    count: Literal[1, 2, 4]
    transposed: bool = False

    @property
    def lanes(self) -> Layout:
        """The lanes whose addresses count -> the first element of the row that each of them points to."""
        return Layout((MATRIX, self.count), (1, MATRIX * MATRIX))

    @property
    def values(self) -> Layout:
        """(thread, (half, register)) -> element."""
        thread, half = ((16, 1), 8) if not self.transposed else ((2, 8), 1)
        return Layout(((4, 8), (2, self.count)), (thread, (half, MATRIX * MATRIX)))


def placement(rows: int, down: int, across: int, down_first: bool = True) -> Layout:
    """Return where the matrices of an ldmatrix lie in a tile of `rows` rows: (8, 8, matrix) -> row + rows * column.

    down x across matrices, numbered down first or across first.
    """
    below, beside = (down, MATRIX), (across, MATRIX * rows)
    (s0, d0), (s1, d1) = (below, beside) if down_first else (beside, below)
    return Layout((MATRIX, MATRIX, (s0, s1)), (1, rows, (d0, d1)))


def loaded(load: Ldmatrix, down: int, across: int, down_first: bool = True) -> Fragment:
    """Return the fragment that an ldmatrix of down x across neighbouring matrices leaves in the registers.

    Rows and columns are those of the tile in shared memory, also if the load is transposed.
    """
    if down * across != load.count:
        raise LayoutError(f"ldmatrix.x{load.count} does not load {down} x {across} matrices")
    rows = MATRIX * down
    layout = composition(placement(rows, down, across, down_first), load.values)
    return Fragment(f"ldmatrix.x{load.count}{'.trans' * load.transposed}", rows, MATRIX * across, layout)
