"""Operands of wgmma in shared memory: what the fields of a matrix descriptor make the hardware read.

An operand is a tile of mn x 16 elements of 16 bits: mn counts rows of A or columns of B, k the contraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kgen.layout_algebra import Layout
from kgen.layout_shared import CHUNK, SharedTile, span_swizzle
from kgen.layout_swizzle import ComposedLayout
from kgen.layout_tuple import LayoutError

Major = Literal["k", "mn"]
ELEMENT = 2
STEP = 16
"""Elements of the contraction that one wgmma of 16-bit operands takes."""
LAYOUT_CODES = {CHUNK: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True)
class Descriptor:
    """The fields of a 64-bit matrix descriptor, in bytes; `span` is the swizzle span, 16 for none.

    `start` is the shared address of the first element. Which of `leading` (LBO) and `stride` (SBO) steps along which
    axis depends on the major axis and on whether there is a swizzle; `image` says how.
    """

    major: Major
    span: int
    start: int
    leading: int
    stride: int

    def encode(self) -> int:
        """Return the 64 bits."""
        fields = (self.start & 0x3FFFF) >> 4 | (self.leading >> 4) << 16 | (self.stride >> 4) << 32
        return fields | LAYOUT_CODES[self.span] << 62

    def image(self, mn: int) -> ComposedLayout:
        """Return (mn, k) -> shared byte address for mn x 16 elements."""
        leading, stride, span = self.leading, self.stride, self.span
        wide = min(mn, span // ELEMENT)
        match self.major, span:
            case "k", 16:
                inner = Layout(((8, mn // 8), (8, 2)), ((16, stride), (ELEMENT, leading)))
            case "mn", 16:
                inner = Layout(((8, mn // 8), (8, 2)), ((ELEMENT, stride), (16, leading)))
            case "k", _:
                inner = Layout(((8, mn // 8), STEP), ((span, stride), ELEMENT))
            case _:
                inner = Layout(((wide, mn // wide), (8, 2)), ((ELEMENT, leading), (span, stride)))
        return ComposedLayout(span_swizzle(span), self.start, inner)


def descriptor(tile: SharedTile, major: Major, step: int = 0) -> Descriptor:
    """Return the descriptor of k step `step` of a swizzled TMA tile of 16-bit elements.

    major "k": the tile is [mn][k], and step is counted in 16 columns. major "mn": the tile is [k][mn], and step is
    counted in 16 rows. Raises LayoutError if the tile is not one that TMA writes with a swizzle.
    """
    image = tile.layout
    if not isinstance(image, ComposedLayout) or not isinstance(image.inner, Layout) or tile.element != ELEMENT:
        raise LayoutError(f"{tile.name}: not a swizzled tile of 16-bit elements")
    inner = image.inner
    span = inner(1, 0)
    if image.outer != span_swizzle(span) or span == CHUNK:
        raise LayoutError(f"{tile.name}: wgmma reads no tile with this swizzle")
    along = inner(0, STEP * step) if major == "k" else inner(STEP * step, 0)
    leading = inner(0, span // ELEMENT) if major == "mn" and tile.cols > span // ELEMENT else CHUNK
    return Descriptor(major, span, image.offset + along, leading, inner(8, 0))
