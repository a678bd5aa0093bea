"""Tiles in shared memory: (row, column) -> byte address, row-major, padded, or swizzled in 16-byte chunks."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from kgen.layout_algebra import Layout, composition, concat
from kgen.layout_fragments import Ldmatrix, placement
from kgen.layout_swizzle import AnyLayout, ComposedLayout, Swizzle, vector_width
from kgen.layout_tuple import LayoutError

CHUNK = 16
"""Bytes that a swizzle keeps together: the widest access of a lane, and a row of an ldmatrix matrix."""
CHUNK_BITS = 4
LINE = 128
"""Bytes that all banks together deliver at once."""
SPANS = (128, 64, 32)
"""Bytes within which a swizzle permutes chunks."""


@dataclass(frozen=True)
class SharedTile:
    """A tile of `rows` x `cols` elements of `element` bytes each, in `bytes` bytes of shared memory.

    `layout` maps (row, column), or row + rows * column, to the byte address of an element.
    """

    name: str
    rows: int
    cols: int
    element: int
    bytes: int
    layout: AnyLayout

    def address(self, row: int, col: int) -> int:
        return self.layout(row, col)

    @property
    def vector(self) -> int:
        """The widest access in bytes, at most 16, that is aligned and within one row wherever it starts."""
        return gcd(CHUNK, vector_width(_by_byte(self.layout, self.element), 1))


def _by_byte(layout: AnyLayout, element: int) -> AnyLayout:
    """Return the layout (row, (byte, column)) -> address of the same tile."""
    match layout:
        case Layout():
            row, col = layout.modes
            return concat(row, concat(Layout(element, 1), col))
        case ComposedLayout(outer=outer, offset=offset, inner=inner):
            return ComposedLayout(outer, offset, _by_byte(inner, element))


def span_of(row_bytes: int) -> int:
    """Return the widest swizzle span that divides a row: 128, 64 or 32 bytes, or 16 (nothing to permute).

    Raises LayoutError unless rows are whole chunks.
    """
    if row_bytes % CHUNK:
        raise LayoutError(f"rows of {row_bytes} bytes are not whole chunks of {CHUNK} bytes")
    return next((span for span in SPANS if row_bytes % span == 0), CHUNK)


def span_swizzle(span: int, shift: int = 3) -> Swizzle:
    """Return the swizzle that permutes the chunks of a span; shift 3 is that of TMA and of wgmma descriptors.

    a ^= (a >> 3) & 0x70 for 128 bytes, & 0x30 for 64, & 0x10 for 32; nothing for 16.
    """
    if span not in (*SPANS, CHUNK):
        raise LayoutError(f"no swizzle spans {span} bytes: 32, 64 or 128, or 16 for none")
    return Swizzle((span // CHUNK).bit_length() - 1, CHUNK_BITS, shift)


def row_major_tile(rows: int, cols: int, element: int, pad: int = 0) -> SharedTile:
    """Return a row-major tile whose rows lie row bytes + `pad` bytes apart."""
    pitch = cols * element + pad
    name = f"row-major, {pad} bytes of padding" if pad else "row-major"
    return SharedTile(name, rows, cols, element, rows * pitch, Layout((rows, cols), (pitch, element)))


def swizzled_tile(rows: int, cols: int, element: int) -> SharedTile:
    """Return a row-major tile without padding whose chunks are permuted within each row's spans.

    Chunk c of row r lies at chunk c XOR (r / (128 / span) % (span / 16)): eight neighbouring rows of one chunk column
    fall on all banks once. The XOR is taken in an index space whose row pitch is a power of two, where it is a Swizzle
    of addresses, and the result is laid out with the true pitch.
    """
    row_bytes = cols * element
    span = span_of(row_bytes)
    pitch_bits = (row_bytes - 1).bit_length()
    shift = pitch_bits + (LINE // span).bit_length() - 1 - CHUNK_BITS
    padded = ComposedLayout(span_swizzle(span, shift), 0, Layout((rows, cols), (1 << pitch_bits, element)))
    layout = padded
    if row_bytes != 1 << pitch_bits:
        layout = ComposedLayout(Layout((1 << pitch_bits, rows), (1, row_bytes)), 0, padded)
    return SharedTile(f"row-major, swizzled in {span} bytes", rows, cols, element, rows * row_bytes, layout)


def tma_tile(rows: int, cols: int, element: int, span: int, base: int = 0) -> SharedTile:
    """Return the image that TMA writes at address `base`, in boxes of `span` bytes a row: [boxes][rows][span].

    The swizzle acts on absolute addresses. Rows lie `span` bytes apart also where the box row is shorter (one box).
    Raises LayoutError if the columns are no whole number of boxes, or the base is not aligned to 128 bytes.
    """
    per_box = span // element
    if base % LINE:
        raise LayoutError(f"TMA writes at multiples of {LINE} bytes, not at {base}")
    if cols > per_box and cols % per_box:
        raise LayoutError(f"{cols} columns are not whole boxes of {per_box}")
    across, boxes = min(cols, per_box), max(1, cols // per_box)
    inner = Layout((rows, (across, boxes)), (span, (element, rows * span)))
    layout = ComposedLayout(span_swizzle(span), base, inner)
    return SharedTile(f"TMA, swizzled in {span} bytes", rows, cols, element, boxes * rows * span, layout)


def ldmatrix_addresses(
    tile: SharedTile, load: Ldmatrix, down: int, across: int, row: int, col: int, down_first: bool = True
) -> list[int]:
    """Return the byte addresses that the first 8 * count lanes supply to load the matrices from (row, col) on."""
    pointed = composition(placement(tile.rows, down, across, down_first), load.lanes)
    start = row + tile.rows * col
    return [tile.layout(start + element) for element in pointed.values()]
