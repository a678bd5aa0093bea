"""Fragments, shared tiles, descriptors and bank conflicts: formulas of the hardware against the layouts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgen.layout_algebra import Layout, coalesce, composition, left_inverse
from kgen.layout_banks import Access, access, bank, ldmatrix_access, ldmatrix_tile, total, vector_access
from kgen.layout_descriptors import Descriptor, descriptor
from kgen.layout_fragments import (
    Fragment,
    Ldmatrix,
    loaded,
    mma_a,
    mma_b,
    mma_c,
    registers,
    repeat,
    transpose,
    wgmma_a,
    wgmma_d,
)
from kgen.layout_shared import SharedTile, ldmatrix_addresses, row_major_tile, span_of, swizzled_tile, tma_tile
from kgen.layout_swizzle import compose_right
from kgen.layout_tuple import LayoutError

HEAD_DIMS = range(16, 257, 16)
BF16 = 2
X4, X4_TRANS = Ldmatrix(4), Ldmatrix(4, transposed=True)
Element = Callable[[int, int], tuple[int, int]]


def a_16(lane: int, v: int) -> tuple[int, int]:
    i, half = divmod(v, 2)
    return lane // 4 + 8 * (i & 1), 2 * (lane % 4) + 8 * (i >> 1) + half


def b_16(lane: int, v: int) -> tuple[int, int]:
    i, half = divmod(v, 2)
    return lane // 4, 2 * (lane % 4) + 8 * i + half


def c_32(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)


def a_tf32(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + 8 * (i & 1), lane % 4 + 4 * (i >> 1)


def b_tf32(lane: int, i: int) -> tuple[int, int]:
    return lane // 4, lane % 4 + 4 * i


def a_8(lane: int, i: int) -> tuple[int, int]:
    return lane // 4 + (8 if 4 <= i < 8 or i >= 12 else 0), 4 * (lane % 4) + (i & 3) + (16 if i >= 8 else 0)


def b_8(lane: int, i: int) -> tuple[int, int]:
    return lane // 4, 4 * (lane % 4) + (i & 3) + (16 if i >= 4 else 0)


def d_64(thread: int, v: int) -> tuple[int, int]:
    warp, lane = divmod(thread, 32)
    j, i = divmod(v, 4)
    return 16 * warp + lane // 4 + 8 * (i >> 1), 8 * j + 2 * (lane % 4) + (i & 1)


def a_64(thread: int, v: int) -> tuple[int, int]:
    row, col = a_16(thread % 32, v)
    return 16 * (thread // 32) + row, col


@pytest.mark.parametrize(
    "fragment, formula, rows, cols, threads",
    [
        (mma_a(), a_16, 16, 16, 32),
        (mma_b(), b_16, 8, 16, 32),
        (mma_c(), c_32, 16, 8, 32),
        (mma_a(32), a_tf32, 16, 8, 32),
        (mma_b(32), b_tf32, 8, 8, 32),
        (mma_a(8), a_8, 16, 32, 32),
        (mma_b(8), b_8, 8, 32, 32),
        (wgmma_a(), a_64, 64, 16, 128),
        *((wgmma_d(n), d_64, 64, n, 128) for n in (8, 64, 80, 176, 256)),
    ],
    ids=lambda x: x.name if isinstance(x, Fragment) else "",
)
def test_fragments_follow_the_formulas(
    fragment: Fragment, formula: Element, rows: int, cols: int, threads: int
) -> None:
    assert (fragment.rows, fragment.cols, fragment.threads) == (rows, cols, threads)
    assert fragment.values == rows * cols // threads
    for thread, value in product(range(threads), range(fragment.values)):
        where = formula(thread, value)
        assert fragment.element(thread, value) == where
        assert fragment.holder(*where) == (thread, value)


def test_malformed_fragments_are_refused() -> None:
    with pytest.raises(LayoutError, match="its holders"):
        Fragment("doubled", 16, 8, Layout(((4, 8), (2, 2)), ((32, 1), (16, 16))))
    with pytest.raises(LayoutError, match="N = 12"):
        wgmma_d(12)
    with pytest.raises(LayoutError, match="64 bits"):
        mma_a(64)


# From one product to the next


def test_c_is_the_next_products_a_without_a_move() -> None:
    """Two C fragments side by side are one A fragment, register by register: inverse(A) o C is the identity."""
    pair = repeat(mma_c(), across=2)
    assert coalesce(composition(left_inverse(mma_a().layout), pair.layout)) == Layout(256, 1)


@pytest.mark.parametrize("keys", [16, 64, 80, 128])
def test_scores_of_all_keys_are_the_a_fragments_of_every_step(keys: int) -> None:
    """a[i] of step kk packs scores 8kk + 2i and 8kk + 2i + 1, for mma and for wgmma alike."""
    for scores, operand in [
        (repeat(mma_c(), across=keys // 8), repeat(mma_a(), across=keys // 16)),
        (wgmma_d(keys), repeat(wgmma_a(), across=keys // 16)),
    ]:
        found = registers(scores, operand)
        assert found is not None
        for step, i, half in product(range(keys // 16), range(4), range(2)):
            assert found(8 * step + 2 * i + half) == 8 * step + 2 * i + half


def test_a_permutation_of_registers_is_found() -> None:
    """Rows of two A fragments, held in another order of copies."""
    down_first = repeat(mma_a(), down=2, across=2)
    across_first = repeat(repeat(mma_a(), across=2), down=2)
    found = registers(down_first, across_first)
    assert found is not None
    held = [across_first.element(5, v) for v in range(across_first.values)]
    assert [down_first.element(5, found(v)) for v in range(across_first.values)] == held
    assert held != [down_first.element(5, v) for v in range(across_first.values)]


def test_fragments_that_need_shuffles_are_told_apart() -> None:
    assert registers(repeat(mma_c(), across=2), transpose(mma_a())) is None
    assert registers(mma_c(), mma_a(32)) is None
    with pytest.raises(LayoutError, match="different tiles"):
        registers(mma_c(), mma_a())


# ldmatrix


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_follows_the_formula(count: int, transposed: bool) -> None:
    load = Ldmatrix(count, transposed)
    assert [load.lanes(lane) for lane in range(8 * count)] == [n % 8 + 64 * (n // 8) for n in range(8 * count)]
    for lane, i, half in product(range(32), range(count), range(2)):
        row, col = lane // 4, 2 * (lane % 4) + half
        row, col = (col, row) if transposed else (row, col)
        assert load.values(lane, half + 2 * i) == row + 8 * col + 64 * i


def test_ldmatrix_recipes_leave_the_operands() -> None:
    """Q as A; K as B of two n tiles; V, stored [k][n], as B of two n tiles by a transposing load."""
    assert loaded(X4, 2, 2).layout == Layout(((4, 8), (2, (2, 2))), ((32, 1), (16, (8, 128))))
    assert registers(loaded(X4, 2, 2), mma_a()) == Layout((2, 2, 2), (1, 2, 4))
    two_n_tiles = repeat(mma_b(), down=2)
    for fragment in (loaded(X4, 2, 2, down_first=False), transpose(loaded(X4_TRANS, 2, 2))):
        found = registers(fragment, two_n_tiles)
        assert found is not None and coalesce(found) == Layout(8, 1)
    with pytest.raises(LayoutError, match="2 x 1"):
        loaded(X4, 2, 1)


def test_ldmatrix_addresses_of_the_recipes() -> None:
    tile = swizzled_tile(64, 64, BF16)
    for j, kk in product(range(4), range(4)):
        q = [tile.address(16 * j + n % 16, 16 * kk + 8 * (n // 16)) for n in range(32)]
        k = [tile.address(16 * j + n // 16 * 8 + n % 8, 16 * kk + 8 * (n // 8 % 2)) for n in range(32)]
        assert ldmatrix_addresses(tile, X4, 2, 2, 16 * j, 16 * kk) == q
        assert ldmatrix_addresses(tile, X4, 2, 2, 16 * j, 16 * kk, down_first=False) == k


def test_a_fragment_composed_with_a_tile_gives_its_addresses() -> None:
    tile = swizzled_tile(16, 16, BF16)
    held = compose_right(tile.layout, mma_a().layout)
    for lane, v in product(range(32), range(8)):
        assert held(lane, v) == tile.address(*a_16(lane, v))


# Shared tiles


@pytest.mark.parametrize("cols", HEAD_DIMS)
def test_swizzled_tile_permutes_chunks_within_its_rows(cols: int) -> None:
    tile = swizzled_tile(32, cols, BF16)
    span = span_of(cols * BF16)
    for row, col in product(range(32), range(cols)):
        chunk, within = divmod(col * BF16, 16)
        moved = chunk ^ (row // (128 // span) % (span // 16))
        assert tile.address(row, col) == row * cols * BF16 + 16 * moved + within
    assert sorted(tile.layout.values()) == list(range(0, tile.bytes, BF16))
    assert tile.vector == 16


@pytest.mark.parametrize("element", [1, 2, 4])
def test_swizzled_tiles_of_every_element_size_are_permutations(element: int) -> None:
    for row_bytes in range(16, 513, 16):
        tile = swizzled_tile(8, row_bytes // element, element)
        assert sorted(tile.layout.values()) == list(range(0, tile.bytes, element))


def test_row_major_tiles() -> None:
    assert row_major_tile(16, 40, BF16, pad=16).address(3, 5) == 3 * 96 + 10
    assert row_major_tile(16, 40, BF16, pad=16).bytes == 16 * 96
    assert [row_major_tile(16, cols, BF16, pad).vector for cols, pad in [(64, 0), (64, 8), (64, 4), (33, 0)]] == [
        16,
        8,
        4,
        2,
    ]
    assert tma_tile(16, 128, BF16, 128, base=1152).vector == 16
    with pytest.raises(LayoutError, match="whole chunks"):
        swizzled_tile(16, 12, BF16)


@pytest.mark.parametrize("span, mask", [(128, 0x70), (64, 0x30), (32, 0x10)])
@pytest.mark.parametrize("base", [0, 128, 1024, 1152])
def test_tma_image(span: int, mask: int, base: int) -> None:
    """Rows in box order, one box after the other, chunks exchanged on absolute addresses."""
    rows, per_box = 24, span // BF16
    tile = tma_tile(rows, 2 * per_box, BF16, span, base)
    for row, col in product(range(rows), range(2 * per_box)):
        plain = base + (col // per_box) * rows * span + row * span + col % per_box * BF16
        assert tile.address(row, col) == plain ^ (plain >> 3 & mask)


def test_tma_image_of_a_short_row_keeps_the_pitch_of_the_span() -> None:
    tile = tma_tile(16, 40, BF16, 128)
    assert [tile.address(row, 0) for row in (0, 1, 8)] == [0, 128 + 16, 1024]
    assert tile.bytes == 16 * 128


@pytest.mark.parametrize("cols, span, base", [(96, 128, 0), (64, 48, 0), (64, 128, 64)])
def test_tma_tiles_that_cannot_be_are_refused(cols: int, span: int, base: int) -> None:
    with pytest.raises(LayoutError):
        tma_tile(16, cols, BF16, span, base)


# wgmma descriptors

MASKS = {16: 0, 32: 0x10, 64: 0x30, 128: 0x70}


def read_by_hardware(d: int, major: str, mn: int, k: int) -> int:
    """Return the shared address of an element, from the bits of a descriptor."""
    start, lbo, sbo = (d & 0x3FFF) << 4, (d >> 16 & 0x3FFF) << 4, (d >> 32 & 0x3FFF) << 4
    w = {0: 16, 1: 128, 2: 64, 3: 32}[d >> 62]
    e = w // 2
    if w > 16 and major == "k":
        a = start + mn % 8 * w + mn // 8 * sbo + 2 * k
    elif w > 16:
        a = start + 2 * (mn % e) + mn // e * lbo + k % 8 * w + k // 8 * sbo
    elif major == "k":
        a = start + mn % 8 * 16 + mn // 8 * sbo + k // 8 * lbo + 2 * (k % 8)
    else:
        a = start + 2 * (mn % 8) + mn // 8 * sbo + k % 8 * 16 + k // 8 * lbo
    return a ^ (a >> 3 & MASKS[w])


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["k", "mn"]),
    st.sampled_from([16, 32, 64, 128]),
    st.sampled_from([8, 64, 128]),
    *(st.integers(0, 600).map(lambda x: 16 * x) for _ in range(3)),
)
def test_descriptor_images(major: str, span: int, mn: int, start: int, lbo: int, sbo: int) -> None:
    fields = Descriptor(major, span, start, lbo, sbo)
    image, bits = fields.image(mn), fields.encode()
    for i, k in product(range(mn), range(16)):
        assert image(i, k) == read_by_hardware(bits, major, i, k)


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("rows", [64, 80, 176])
def test_descriptors_read_tma_tiles(span: int, rows: int) -> None:
    """K major: [mn][k] by columns; MN major: [k][mn] by rows. Every step reads the elements it should."""
    cols = 128
    tile = tma_tile(rows, cols, BF16, span, base=2048)
    for step in range(cols // 16):
        image = descriptor(tile, "k", step).image(rows)
        assert all(image(i, k) == tile.address(i, 16 * step + k) for i, k in product(range(rows), range(16)))
    for step in range(rows // 16):
        image = descriptor(tile, "mn", step).image(cols)
        assert all(image(i, k) == tile.address(16 * step + k, i) for i, k in product(range(cols), range(16)))


def test_descriptor_fields_known_to_work() -> None:
    keys = tma_tile(176, 128, BF16, 128)
    assert descriptor(keys, "k", 1) == Descriptor("k", 128, 32, 16, 1024)
    assert descriptor(keys, "k", 4).start == 176 * 128
    assert descriptor(keys, "mn", 1) == Descriptor("mn", 128, 2048, 176 * 128, 1024)
    for tile in (row_major_tile(64, 64, BF16), swizzled_tile(64, 128, BF16), tma_tile(64, 8, BF16, 16)):
        with pytest.raises(LayoutError):
            descriptor(tile, "k")


# Bank conflicts


def counted(addresses: list[int | None], width: int) -> int:
    """Count wavefronts cycle by cycle: each bank hands out one of its words a cycle."""
    cycles = 0
    lanes = {16: 8, 8: 16}.get(width, 32)
    for first in range(0, len(addresses), lanes):
        pending = {
            a // 4 + w for a in addresses[first : first + lanes] if a is not None for w in range(max(1, width // 4))
        }
        while pending:
            pending -= set({word % 32: word for word in pending}.values())
            cycles += 1
    return cycles


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.none() | st.integers(0, 255), min_size=32, max_size=32))
def test_wavefronts_are_cycles(width: int, places: list[int | None]) -> None:
    addresses = [None if p is None else p * width for p in places]
    cost = access(addresses, width)
    assert cost.wavefronts == counted(addresses, width)
    assert cost.conflicts >= 0


@pytest.mark.parametrize(
    "stride, width, ways", [(0, 4, 1), (1, 4, 1), (2, 4, 2), (3, 4, 1), (8, 4, 8), (32, 4, 32), (33, 4, 1), (1, 16, 1)]
)
def test_strided_accesses(stride: int, width: int, ways: int) -> None:
    cost = access([lane * stride * width for lane in range(32)], width)
    assert cost.ways == ways
    assert cost.wavefronts == ways * (width // 4)
    assert [bank(4 * 33), bank(127)] == [1, 31]


def test_misaligned_accesses_are_refused() -> None:
    with pytest.raises(LayoutError, match="aligned"):
        access([2], 4)
    with pytest.raises(LayoutError, match="12 bytes"):
        access([0], 12)


@pytest.mark.parametrize("cols", HEAD_DIMS)
def test_ldmatrix_is_free_of_conflicts_on_the_swizzled_tile_only(cols: int) -> None:
    """Plain rows of r bytes collide gcd(r, 128) / 16 ways: 8 ways for D = 64, 128, 192 and 256."""
    rows = 64
    plain, swizzled = row_major_tile(rows, cols, BF16), swizzled_tile(rows, cols, BF16)
    boxes = tma_tile(rows, cols, BF16, span_of(cols * BF16), base=1024)
    ideal = rows * cols * BF16 // 128
    for load, down_first in [(X4, True), (X4, False), (X4_TRANS, True)]:
        assert ldmatrix_tile(swizzled, load, 2, 2, down_first) == Access(ideal, ideal, 1)
        assert ldmatrix_tile(boxes, load, 2, 2, down_first) == Access(ideal, ideal, 1)
        collided = ldmatrix_tile(plain, load, 2, 2, down_first)
        ways = span_of(cols * BF16) // 16
        assert collided == Access(ways * ideal, ideal, ways)
    if cols % 64 == 0:
        assert ldmatrix_access(plain, X4, 2, 2).ways == 8


@pytest.mark.parametrize("cols", HEAD_DIMS)
def test_a_padding_of_one_chunk_also_serves(cols: int) -> None:
    tile = row_major_tile(64, cols, BF16, pad=16)
    assert ldmatrix_tile(tile, X4, 2, 2).conflicts == 0
    assert tile.bytes == swizzled_tile(64, cols, BF16).bytes + 64 * 16


@pytest.mark.parametrize("cols", HEAD_DIMS)
def test_copies_of_whole_chunks_into_the_swizzled_tile_are_free(cols: int) -> None:
    """A warp's cp.async of 16 bytes a lane, rows walked left to right."""
    tile = swizzled_tile(64, cols, BF16)
    across = span_of(cols * BF16) // 16
    assert vector_access(tile, 16, across).conflicts == 0


def test_plain_stores_of_a_c_fragment() -> None:
    """Pairs of a packed C fragment, 4 bytes a lane: eight rows of four lanes, colliding unless swizzled."""

    def stores(tile: SharedTile) -> Access:
        return total(access([tile.address(*c_32(lane, 2 * half)) for lane in range(32)], 4) for half in range(2))

    assert stores(row_major_tile(16, 64, BF16)).ways == 8
    assert stores(swizzled_tile(16, 64, BF16)).ways == 1
