"""Shared-memory bank conflicts, counted from the addresses of a warp's lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kgen.layout_fragments import MATRIX, Ldmatrix
from kgen.layout_shared import CHUNK, LINE, SharedTile, ldmatrix_addresses
from kgen.layout_tuple import LayoutError

BANKS = 32
WORD = 4


@dataclass(frozen=True)
class Access:
    """What one shared-memory instruction of a warp, or several of them, costs.

    wavefronts: cycles of the shared memory. ideal: cycles if the words asked for were spread evenly over the banks.
    ways: the most different words that one bank delivers for one group of lanes (1: no conflict).
    """

    wavefronts: int
    ideal: int
    ways: int

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the ideal."""
        return self.wavefronts - self.ideal

    def __add__(self, other: Access) -> Access:
        return Access(self.wavefronts + other.wavefronts, self.ideal + other.ideal, max(self.ways, other.ways))


def bank(address: int) -> int:
    """Return the bank of a byte address."""
    return address // WORD % BANKS


def access(addresses: Sequence[int | None], width: int) -> Access:
    """Return the cost of `width` bytes a lane at these byte addresses, in lane order; None is an idle lane.

    A warp is served in groups of 32, 16 or 8 lanes for up to 4, 8 or 16 bytes. A group costs as many wavefronts as the
    fullest bank has different words; lanes that read the same word share it. Matches Nsight Compute on an H200.
    Raises LayoutError for a width or an alignment that the hardware does not have.
    """
    if width not in (1, 2, 4, 8, 16):
        raise LayoutError(f"no shared-memory access of {width} bytes: 1, 2, 4, 8 or 16")
    at_once = LINE // max(width, WORD)
    groups = [addresses[i : i + at_once] for i in range(0, len(addresses), at_once)]
    return total(_group(group, width) for group in groups)


def total(parts: Iterable[Access]) -> Access:
    """Return the sum of several accesses."""
    return sum(parts, Access(0, 0, 0))


def _group(addresses: Sequence[int | None], width: int) -> Access:
    words: set[int] = set()
    for address in addresses:
        if address is None:
            continue
        if address % width:
            raise LayoutError(f"address {address} is not aligned to {width} bytes")
        words.update((address + byte) // WORD for byte in range(0, width, WORD))
    ways = max(Counter(word % BANKS for word in words).values(), default=0)
    return Access(ways, -(-len(words) // BANKS), ways)


def ldmatrix_access(
    tile: SharedTile, load: Ldmatrix, down: int, across: int, row: int = 0, col: int = 0, down_first: bool = True
) -> Access:
    """Return the cost of one ldmatrix of down x across matrices from (row, col) of a tile on."""
    return access(ldmatrix_addresses(tile, load, down, across, row, col, down_first), CHUNK)


def ldmatrix_tile(tile: SharedTile, load: Ldmatrix, down: int, across: int, down_first: bool = True) -> Access:
    """Return the cost of loading a whole tile of 16-bit elements by ldmatrix of down x across matrices."""

    def each() -> Iterator[Access]:
        for row in range(0, tile.rows, MATRIX * down):
            for col in range(0, tile.cols, MATRIX * across):
                yield ldmatrix_access(tile, load, down, across, row, col, down_first)

    return total(each())


def vector_access(tile: SharedTile, width: int, lanes_across: int, row: int = 0, col: int = 0) -> Access:
    """Return the cost of a warp's vectors of `width` bytes at (row, col): lane l takes vector l % lanes_across of row
    row + l / lanes_across."""
    step = width // tile.element
    places = [divmod(lane, lanes_across) for lane in range(BANKS)]
    return access([tile.address(row + down, col + across * step) for down, across in places], width)
