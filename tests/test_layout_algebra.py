"""The layout algebra against its definitions, coordinate by coordinate, and against pycute where it is installed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import prod

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from kgen.layout_algebra import (
    Layout,
    coalesce,
    coalesce_modes,
    common_vector,
    compact,
    complement,
    composition,
    concat,
    contiguity,
    flat_modes,
    is_injective,
    left_inverse,
    right_inverse,
    row_major,
)
from kgen.layout_swizzle import AnyLayout, ComposedLayout, Swizzle, compose_right, shifted, vector_width
from kgen.layout_tiling import (
    Tiler,
    blocked_product,
    compose,
    logical_divide,
    logical_product,
    raked_product,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from kgen.layout_tuple import IntTuple, LayoutError, coordinate, leaves, product

try:
    import pycute
except ImportError:
    pycute = None

needs_pycute = pytest.mark.skipif(pycute is None, reason="pycute is not installed (pip install nvidia-cutlass)")
some = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])

extents = st.integers(1, 6)
strides = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 60])
shapes = st.recursive(extents, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=4)


def with_strides(shape: IntTuple, found: st.SearchStrategy[int]) -> st.SearchStrategy[IntTuple]:
    if isinstance(shape, int):
        return found
    return st.tuples(*(with_strides(s, found) for s in shape))


def zipped_with(shape: IntTuple, order: list[int], gaps: list[int]) -> Layout:
    """Return an injective layout: the leaves of `shape` compact in the given order, with gaps between them."""
    flat = list(leaves(shape))
    found, step = [0] * len(flat), 1
    for leaf in order:
        step *= gaps[leaf]
        found[leaf] = step
        step *= flat[leaf]
    nested = iter(found)

    def nest(tree: IntTuple) -> IntTuple:
        return next(nested) if isinstance(tree, int) else tuple(nest(t) for t in tree)

    return Layout(shape, nest(shape))


@st.composite
def any_layouts(draw: st.DrawFn) -> Layout:
    shape = draw(shapes)
    return Layout(shape, draw(with_strides(shape, strides)))


@st.composite
def regular_layouts(draw: st.DrawFn, gaps: tuple[int, ...] = (1, 1, 2, 3)) -> Layout:
    shape = draw(shapes)
    count = len(list(leaves(shape)))
    order = draw(st.permutations(range(count)))
    return zipped_with(shape, order, draw(st.lists(st.sampled_from(gaps), min_size=count, max_size=count)))


def natural(layout: AnyLayout, index: int) -> int:
    """Evaluate by hand: the digits of `index`, first leaf fastest, times the strides."""
    total = 0
    for extent, stride in flat_modes(layout):
        total += index % extent * stride
        index //= extent
    return total


def table(layout: AnyLayout) -> list[int]:
    return list(layout.values())


def pycute_values(theirs: object) -> list[int]:
    return [theirs(i) for i in range(pycute.size(theirs))]


def to_pycute(layout: Layout) -> object:
    return pycute.Layout(layout.shape, layout.stride)


# Evaluation


@some
@given(any_layouts())
def test_values_are_digits_times_strides(layout: Layout) -> None:
    assert table(layout) == [natural(layout, i) for i in range(layout.size)]
    assert layout.cosize == max(table(layout)) + 1
    assert layout.size == prod(leaves(layout.shape))


@some
@given(any_layouts())
def test_index_and_coordinate_agree(layout: Layout) -> None:
    found = [coordinate(i, layout.shape) for i in range(layout.size)]
    assert len(set(found)) == layout.size
    assert [layout(c) for c in found] == table(layout)
    assert compact(layout.shape)(found[-1]) == layout.size - 1


def test_partial_coordinates_count_through_their_mode() -> None:
    layout = Layout((2, (3, 4)), (100, (1, 10)))
    assert layout(1, 5) == layout((1, (2, 1))) == 100 + 2 + 10
    assert str(layout) == "(2,(3,4)):(100,(1,10))"
    assert layout.modes == (Layout(2, 100), Layout((3, 4), (1, 10)))
    assert row_major(2, 3, 4) == Layout((2, 3, 4), (12, 4, 1))


@pytest.mark.parametrize("where", [(0, 0, 0), ((0, 0), 0), (0, (0, 0, 0))])
def test_coordinates_that_do_not_fit_are_refused(where: IntTuple) -> None:
    with pytest.raises(LayoutError, match="does not fit"):
        Layout((2, (3, 4)), (100, (1, 10)))(where)


@pytest.mark.parametrize(
    "shape, stride", [((2, 3), 1), (2, (1,)), ((2, (3, 4)), (1, 2)), (0, 1), (4, -1), ((2, 0), (1, 2))]
)
def test_malformed_layouts_are_refused(shape: IntTuple, stride: IntTuple) -> None:
    with pytest.raises(LayoutError):
        Layout(shape, stride)


# Coalesce


@some
@given(any_layouts())
def test_coalesce_is_the_same_function_with_fewest_modes(layout: Layout) -> None:
    short = coalesce(layout)
    assert table(short) == table(layout)
    modes = flat_modes(short)
    assert all(s > 1 for s, _ in modes) or modes == [(1, 0)]
    assert all(d1 != s0 * d0 for (s0, d0), (_, d1) in itertools.pairwise(modes))
    assert coalesce(short) == short


@some
@given(any_layouts())
def test_coalesce_modes_keeps_the_rank(layout: Layout) -> None:
    short = coalesce_modes(layout)
    assert short.rank == layout.rank
    assert table(short) == table(layout)
    assert [m.size for m in short.modes] == [m.size for m in layout.modes]


# Composition


@some
@given(any_layouts(), any_layouts())
def test_composition_is_the_composed_function(a: Layout, b: Layout) -> None:
    assume(b.cosize <= a.size)
    try:
        composed = composition(a, b)
    except LayoutError:
        assume(False)
    assert [composed(coordinate(i, b.shape)) for i in range(b.size)] == [a(b(i)) for i in range(b.size)]
    assert composed.size == b.size


@some
@given(regular_layouts(), st.data())
def test_tiles_that_divide_the_modes_always_compose(a: Layout, data: st.DataObject) -> None:
    """From a divisor of one mode to a divisor of the same or a later one, every tile composes."""
    radices = [s for s, _ in flat_modes(coalesce(a))]
    first = data.draw(st.integers(0, len(radices) - 1))
    last = data.draw(st.integers(first, len(radices) - 1))
    start = data.draw(st.sampled_from(divisors(radices[first])))
    reach = radices[first] // start if last > first else 1
    within = radices[last] // (start if last == first else 1)
    count = reach * prod(radices[first + 1 : last]) * data.draw(st.sampled_from(divisors(within)))
    tile = Layout(count, prod(radices[:first]) * start)
    assert table(composition(a, tile)) == [a(tile(i)) for i in range(count)]


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def test_composition_refuses_carries_and_uneven_cuts() -> None:
    a = Layout((2, 2), (1, 10))
    with pytest.raises(LayoutError, match="carry"):
        composition(a, Layout((2, 2), (1, 1)))
    with pytest.raises(LayoutError, match="evenly"):
        composition(Layout((6, 10), (1, 100)), Layout(4, 4))
    with pytest.raises(LayoutError, match="evenly"):
        composition(Layout((4, 5), (1, 10)), Layout(6, 1))


def test_composition_of_the_documented_example() -> None:
    assert composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))) == Layout(((2, 2), 3), ((24, 2), 8))


@some
@given(regular_layouts())
def test_identities(a: Layout) -> None:
    assert table(composition(a, compact(a.shape))) == table(a)
    assert table(composition(compact((a.cosize,)), a)) == table(a)


# Complement and inverses


@some
@given(any_layouts(), st.integers(1, 60))
def test_complement_reaches_every_number_once(layout: Layout, extent: int) -> None:
    try:
        rest = complement(layout, extent)
    except LayoutError:
        assume(False)
    own = coalesce(Layout(tuple(leaves(layout.shape)), tuple(leaves(layout.stride))))
    distinct = sorted(set(table(own)))
    sums = sorted(x + y for x in distinct for y in table(rest))
    assert sums == list(range(len(sums)))
    assert len(sums) >= extent
    assert table(rest) == sorted(table(rest))


@some
@given(regular_layouts(), st.integers(1, 200))
def test_regular_layouts_have_complements(layout: Layout, extent: int) -> None:
    """Never a refusal, and never more copies of the whole than the extent needs."""
    holes, rest = complement(layout), complement(layout, extent)
    whole = layout.size * holes.size
    assert layout.size * rest.size == whole * max(1, -(-extent // whole))


def test_layouts_without_complement_are_refused() -> None:
    with pytest.raises(LayoutError, match="no complement"):
        complement(Layout((2, 2), (2, 3)))
    with pytest.raises(LayoutError, match="no complement"):
        complement(Layout((4, 2), (1, 2)))


@some
@given(any_layouts())
def test_right_inverse(layout: Layout) -> None:
    inverse = right_inverse(layout)
    assert [layout(inverse(i)) for i in range(inverse.size)] == list(range(inverse.size))


@some
@given(regular_layouts(gaps=(1,)))
def test_right_inverse_of_a_bijection_is_whole(layout: Layout) -> None:
    inverse = right_inverse(layout)
    assert inverse.size == layout.size
    assert [inverse(layout(i)) for i in range(layout.size)] == list(range(layout.size))


@some
@given(regular_layouts())
def test_left_inverse(layout: Layout) -> None:
    inverse = left_inverse(layout)
    assert [inverse(layout(i)) for i in range(layout.size)] == list(range(layout.size))


@pytest.mark.parametrize("layout", [Layout((2, 2), (1, 1)), Layout((4, 2), (1, 0))])
def test_left_inverse_needs_injectivity(layout: Layout) -> None:
    with pytest.raises(LayoutError):
        left_inverse(layout)


@some
@given(any_layouts())
def test_is_injective(layout: Layout) -> None:
    assert is_injective(layout) == (len(set(table(layout))) == layout.size)


@some
@given(any_layouts())
def test_contiguity_is_a_run(layout: Layout) -> None:
    run = contiguity(layout)
    assert [layout(i) for i in range(run)] == list(range(run))
    assert layout.size % run == 0


def test_common_vector() -> None:
    rows, columns = row_major(8, 8), compact((8, 8))
    assert common_vector(rows, rows) == 64
    assert common_vector(rows, columns) == 1
    assert common_vector(Layout((8, 8), (16, 1)), rows) == 8


# Products and divisions


@some
@given(regular_layouts(), st.integers(1, 6), st.integers(1, 3))
def test_logical_divide_reaches_every_element_once(a: Layout, count: int, step: int) -> None:
    tile = Layout(count, step)
    assume(a.size % (count * step) == 0)
    try:
        divided = logical_divide(a, tile)
    except LayoutError:
        assume(False)
    assert sorted(table(divided)) == sorted(table(a))
    assert [divided(i, 0) for i in range(count)] == [a(tile(i)) for i in range(count)]


@some
@given(regular_layouts(), st.integers(1, 5), st.integers(1, 4))
def test_logical_product_repeats(a: Layout, count: int, step: int) -> None:
    try:
        repeated = logical_product(a, Layout(count, step))
    except LayoutError:
        assume(False)
    assert repeated.modes[0] == a
    shifts = [repeated(0, j) for j in range(count)]
    blocks = [{v + s for v in table(a)} for s in shifts]
    assert len(set().union(*blocks)) == a.size * count
    assert [{repeated(i, j) for i in range(a.size)} for j in range(count)] == blocks


def test_tiles_of_a_matrix() -> None:
    matrix = row_major(8, 12)
    zipped = zipped_divide(matrix, (4, 3))
    for i, j in itertools.product(range(8), range(12)):
        assert zipped((i % 4, j % 3), (i // 4, j // 3)) == matrix(i, j)
    assert tiled_divide(matrix, (4, 3))((1, 2), 1, 3) == matrix(5, 11)
    assert zipped_divide(matrix, (4,))((1,), (1, 7)) == matrix(5, 7)
    assert compose(matrix, (4, Layout(3, 4)))(3, 2) == matrix(3, 8)
    with pytest.raises(LayoutError, match="2 modes"):
        logical_divide(matrix, (2, 2, 2))


def test_products_of_the_documented_examples() -> None:
    block, copies = Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))
    blocked, raked = blocked_product(block, copies), raked_product(block, copies)
    assert blocked.size == raked.size == 120
    for i, j, p, q in itertools.product(range(2), range(5), range(3), range(4)):
        value = block(i, j) + 10 * copies(p, q)
        assert blocked(i + 2 * p, j + 5 * q) == value
        assert raked(p + 3 * i, q + 4 * j) == value
    assert zipped_product(block, copies)(7, 5) == block(7) + 10 * copies(5)
    assert tiled_product(block, copies)(7, 2, 1) == block(7) + 10 * copies(2, 1)
    with pytest.raises(LayoutError, match="rank"):
        blocked_product(block, Layout(3, 1))


def test_product_in_a_column_with_holes() -> None:
    blocked = blocked_product(Layout(2, 4), Layout(8, 1))
    assert [blocked(2 * p) for p in range(8)] == [0, 1, 2, 3, 8, 9, 10, 11]


# Swizzles


swizzles = st.builds(
    lambda bits, base, more, sign: Swizzle(bits, base, sign * (bits + more)),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 2),
    st.sampled_from([1, -1]),
)


@some
@given(swizzles)
def test_swizzle_is_an_involution_within_its_span(swizzle: Swizzle) -> None:
    image = [swizzle(x) for x in range(2 * swizzle.span)]
    assert [swizzle(y) for y in image] == list(range(2 * swizzle.span))
    assert image[swizzle.span :] == [y + swizzle.span for y in image[: swizzle.span]]
    assert all(swizzle(x) - x == swizzle(x - x % swizzle.chunk) - (x - x % swizzle.chunk) for x in range(swizzle.span))


@pytest.mark.parametrize("bits, mask", [(3, 0x70), (2, 0x30), (1, 0x10)])
def test_swizzle_of_the_hardware(bits: int, mask: int) -> None:
    assert [Swizzle(bits, 4, 3)(a) for a in range(4096)] == [a ^ ((a >> 3) & mask) for a in range(4096)]


@pytest.mark.parametrize("fields", [(-1, 0, 3), (3, -1, 3), (3, 0, 2), (2, 0, -1)])
def test_swizzle_fields_are_checked(fields: tuple[int, int, int]) -> None:
    with pytest.raises(LayoutError):
        Swizzle(*fields)


@some
@given(swizzles, st.integers(0, 64), regular_layouts(), st.data())
def test_composed_layouts_compose_on_the_right(
    swizzle: Swizzle, offset: int, inner: Layout, data: st.DataObject
) -> None:
    whole = ComposedLayout(swizzle, offset, inner)
    assert table(whole) == [swizzle(offset + inner(i)) for i in range(inner.size)]
    assert table(shifted(whole, 5)) == [swizzle(offset + 5 + inner(i)) for i in range(inner.size)]
    b = data.draw(any_layouts())
    assume(b.cosize <= inner.size)
    try:
        composed = compose_right(whole, b)
    except LayoutError:
        assume(False)
    assert table(composed) == [whole(b(i)) for i in range(b.size)]


@some
@given(regular_layouts(), swizzles, st.sampled_from([0, 4, 6, 32]), st.booleans(), st.data())
def test_vector_width_holds_everywhere(
    layout: Layout, swizzle: Swizzle, offset: int, composed: bool, data: st.DataObject
) -> None:
    shape = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    mode = data.draw(st.integers(0, len(shape) - 1))
    layout = layout if isinstance(layout.shape, tuple) else concat(layout)
    whole: AnyLayout = ComposedLayout(swizzle, offset, layout) if composed else layout
    width = vector_width(whole, mode)
    assert vectors_hold(whole, mode, width)
    wider = [w for w in range(width + 1, product(shape[mode]) + 1) if product(shape[mode]) % w == 0]
    assert composed or not any(vectors_hold(whole, mode, w) for w in wider)


def test_vector_width_of_offsets_pitches_and_chunks() -> None:
    rows = Layout((4, 16), (24, 1))
    assert vector_width(rows, 1) == 8
    assert vector_width(rows, 0) == 1
    assert [vector_width(shifted(rows, by), 1) for by in (0, 4, 6, 32)] == [8, 4, 2, 8]
    assert vector_width(ComposedLayout(Swizzle(2, 2, 3), 0, rows), 1) == 4
    assert vector_width(ComposedLayout(Layout((32, 8), (1, 36)), 0, row_major(4, 16)), 1) == 4


def vectors_hold(layout: AnyLayout, mode: int, width: int) -> bool:
    """Whether every aligned group of `width` coordinates along `mode` is consecutive and aligned."""
    extents = [product(s) for s in layout.shape]
    for where in itertools.product(*map(range, extents)):
        start = where[mode] - where[mode] % width
        first = layout(*where[:mode], start, *where[mode + 1 :])
        if first % width or layout(*where) != first + where[mode] - start:
            return False
    return True


# pycute

UNARY: list[tuple[str, Callable[[Layout], Layout]]] = [("coalesce", coalesce), ("complement", complement)]
BINARY: list[tuple[str, Callable[[Layout, Tiler], Layout]]] = [
    ("logical_divide", logical_divide),
    ("zipped_divide", zipped_divide),
    ("tiled_divide", tiled_divide),
    ("logical_product", logical_product),
    ("zipped_product", zipped_product),
    ("tiled_product", tiled_product),
]


@needs_pycute
@some
@given(any_layouts())
def test_pycute_evaluates_alike(layout: Layout) -> None:
    theirs = to_pycute(layout)
    assert pycute_values(theirs) == table(layout)
    assert pycute.cosize(theirs) == layout.cosize


@needs_pycute
@pytest.mark.parametrize("name, ours", UNARY)
@some
@given(regular_layouts())
def test_pycute_unary(name: str, ours: Callable[[Layout], Layout], layout: Layout) -> None:
    theirs = getattr(pycute, name)(to_pycute(layout))
    found = ours(layout)
    assert (theirs.shape, theirs.stride) == (found.shape, found.stride)


@needs_pycute
@some
@given(regular_layouts())
def test_pycute_inverses(layout: Layout) -> None:
    for theirs, ours in [
        (pycute.right_inverse(to_pycute(layout)), right_inverse(layout)),
        (pycute.left_inverse(to_pycute(layout)), left_inverse(layout)),
    ]:
        assert (theirs.shape, theirs.stride) == (ours.shape, ours.stride)


@needs_pycute
@some
@given(any_layouts(), any_layouts())
def test_pycute_composition(a: Layout, b: Layout) -> None:
    """Wherever pycute's composition is the composed function, so is ours, and it is the same layout."""
    assume(b.cosize <= a.size)
    try:
        theirs = pycute.composition(to_pycute(a), to_pycute(b))
    except AssertionError:
        assume(False)
    assume(pycute_values(theirs) == [a(b(i)) for i in range(b.size)])
    assert table(composition(a, b)) == pycute_values(theirs)


@needs_pycute
@pytest.mark.parametrize("name, ours", BINARY)
@some
@given(regular_layouts(), st.integers(1, 4), st.integers(1, 4))
def test_pycute_binary(name: str, ours: Callable[[Layout, Tiler], Layout], a: Layout, count: int, step: int) -> None:
    tile = Layout(count, step)
    assume("product" in name or a.size % (count * step) == 0)
    try:
        found = ours(a, tile)
        theirs = getattr(pycute, name)(to_pycute(a), to_pycute(tile))
    except (LayoutError, AssertionError):
        assume(False)
    assert table(found) == pycute_values(theirs)


@needs_pycute
@some
@given(swizzles)
def test_pycute_swizzle(swizzle: Swizzle) -> None:
    assume(swizzle.shift != 0)  # pycute does not terminate there
    theirs = pycute.Swizzle(swizzle.bits, swizzle.base, swizzle.shift)
    assert [theirs(x) for x in range(1024)] == [swizzle(x) for x in range(1024)]
