"""Layouts as functions from coordinates to integers, and their algebra.

A layout `S:D` has a shape S and strides D, nested alike. It maps the coordinate (c0, c1, ...) to c0*D0 + c1*D1 + ...;
an integer in place of a coordinate counts through the shape, first mode fastest. Layouts compose like functions, so
"which thread holds which element" and "where does an element lie" are values that can be combined and tested.

Definitions follow the public documentation of CuTe (NVIDIA CUTLASS, "CuTe Layouts" and "CuTe Layout Algebra"). Where
CuTe leaves the result undefined (modes whose sum carries from one mode into the next), these functions raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgen.layout_tuple import (
    IntTuple,
    LayoutError,
    branches,
    compact_strides,
    congruent,
    leaves,
    offset,
    product,
    render,
)

Mode = tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """The function c -> sum of c_i * stride_i over the coordinates c of `shape`.

    Extents are at least 1, strides at least 0. Raises LayoutError if shape and stride are not nested alike.
    """

    shape: IntTuple
    stride: IntTuple

    def __post_init__(self) -> None:
        if not congruent(self.shape, self.stride):
            raise LayoutError(f"shape {render(self.shape)} and stride {render(self.stride)} are not nested alike")
        if any(s < 1 for s in leaves(self.shape)) or any(d < 0 for d in leaves(self.stride)):
            raise LayoutError(f"{self}: extents must be at least 1 and strides at least 0")

    def __call__(self, *where: IntTuple) -> int:
        return offset(where[0] if len(where) == 1 else where, self.shape, self.stride)

    def __str__(self) -> str:
        return f"{render(self.shape)}:{render(self.stride)}"

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return product(self.shape)

    @property
    def cosize(self) -> int:
        """One more than the largest value: sum of (S_i - 1) * D_i, plus 1."""
        return sum((s - 1) * d for s, d in flat_modes(self)) + 1

    @property
    def modes(self) -> tuple[Layout, ...]:
        """The top-level modes, each a layout of its own."""
        return tuple(map(Layout, branches(self.shape), branches(self.stride)))

    @property
    def rank(self) -> int:
        return len(branches(self.shape))

    def values(self) -> Iterator[int]:
        """Yield L(0), L(1), ..., L(size - 1)."""
        return map(self, range(self.size))


def compact(shape: IntTuple) -> Layout:
    """Return the layout of `shape` without holes, first mode fastest: the identity on indices."""
    return Layout(shape, compact_strides(shape))


def row_major(*extents: int) -> Layout:
    """Return the layout without holes whose last mode is fastest."""
    strides = branches(compact_strides(tuple(reversed(extents))))
    return Layout(extents, tuple(reversed(strides)))


def concat(*layouts: Layout) -> Layout:
    """Return the layout whose modes are `layouts`: (c0, c1, ...) -> L0(c0) + L1(c1) + ..."""
    return Layout(tuple(x.shape for x in layouts), tuple(x.stride for x in layouts))


def flat_modes(layout: Layout) -> list[Mode]:
    """Return the (extent, stride) pairs of all leaves."""
    return list(zip(leaves(layout.shape), leaves(layout.stride), strict=True))


def from_modes(modes: Sequence[Mode]) -> Layout:
    """Return the flat layout of these (extent, stride) pairs; no pair gives 1:0, a single one no tuple."""
    match modes:
        case []:
            return Layout(1, 0)
        case [(extent, stride)]:
            return Layout(extent, stride)
        case _:
            return Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))


def coalesce(layout: Layout) -> Layout:
    """Return the flat layout with the fewest modes that is the same function of the index.

    Modes of extent 1 go, and (s0, s1):(d0, s0*d0) is s0*s1:d0.
    """
    modes: list[Mode] = []
    for extent, stride in flat_modes(layout):
        if extent == 1:
            continue
        if modes and stride == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * extent, modes[-1][1])
        else:
            modes.append((extent, stride))
    return from_modes(modes)


def coalesce_modes(layout: Layout) -> Layout:
    """Return `layout` with each of its top-level modes coalesced, so that its rank stays."""
    return concat(*map(coalesce, layout.modes))


@dataclass(frozen=True)
class _Pick:
    """Every `step`-th position of one digit of a mixed-radix number, `count` of them."""

    digit: int
    step: int
    count: int


def _picks(radices: Sequence[int], count: int, step: int) -> Iterator[_Pick]:
    """Yield how the numbers 0, step, ..., (count - 1) * step read as digits of the given radices.

    The last digit is unbounded. Raises LayoutError where the digits do not advance independently.
    """
    if count == 1 or step == 0:
        return
    for digit, radix in enumerate(radices[:-1]):
        if (count - 1) * step < radix:
            yield _Pick(digit, step, count)
            return
        if step % radix == 0:
            step //= radix
            continue
        taken, left = divmod(radix, step)
        if left or count % taken:
            raise LayoutError(f"{count} positions {step} apart do not divide a mode of {radix} evenly")
        yield _Pick(digit, step, taken)
        count, step = count // taken, 1
    yield _Pick(len(radices) - 1, step, count)


def composition(a: Layout, b: Layout) -> Layout:
    """Return R = a o b: R(c) = a(b(c)) for every coordinate c of `b`. Each leaf of `b` becomes a mode of R.

    A leaf s:d of `b` visits every d-th position of `a`, s times; read in the mixed radix of a's shape, that takes
    d-th positions of one mode, then whole modes. Beyond its size, `a` goes on along its last mode.
    Raises LayoutError if the positions divide no mode evenly, or if b's modes together carry from one of a's modes
    into the next, where no layout of b's profile is the composition.
    """
    inner = flat_modes(coalesce(a))
    radices = [extent for extent, _ in inner]
    picked = [tuple(_picks(radices, s, d)) for s, d in flat_modes(b)]
    reach = [sum((p.count - 1) * p.step for ps in picked for p in ps if p.digit == i) for i in range(len(radices))]
    if any(r >= radix for r, radix in zip(reach[:-1], radices[:-1], strict=True)):
        raise LayoutError(f"the modes of {b} carry from one mode of {a} into the next")
    parts = iter(
        from_modes([(p.count, p.step * inner[p.digit][1]) for p in ps]) if ps else Layout(s, 0)
        for ps, s in zip(picked, leaves(b.shape), strict=True)
    )
    return _nest(b.shape, parts)


def _nest(profile: IntTuple, parts: Iterator[Layout]) -> Layout:
    """Return `parts` concatenated as `profile` is nested."""
    return next(parts) if isinstance(profile, int) else concat(*(_nest(p, parts) for p in profile))


def complement(layout: Layout, extent: int = 1) -> Layout:
    """Return the layout C whose values, added to those of `layout`, reach each of 0, 1, 2, ... up to `extent` once.

    C fills the holes of `layout` in order of stride and then repeats the whole. With extent 1, C is only the holes.
    Raises LayoutError if values of `layout` overlap or lie irregularly, so that no C exists.
    """
    modes: list[Mode] = []
    filled = 1
    for stride, count in sorted((d, s) for s, d in flat_modes(layout) if s > 1 and d > 0):
        if stride % filled:
            raise LayoutError(f"{layout} has no complement: stride {stride} is no multiple of {filled}")
        modes.append((stride // filled, filled))
        filled = stride * count
    return coalesce(from_modes([*modes, (max(1, -(-extent // filled)), filled)]))


def right_inverse(layout: Layout) -> Layout:
    """Return the largest layout R with layout(R(i)) = i for i = 0, 1, ..., size of R - 1."""
    starts = leaves(compact_strides(layout.shape))
    by_stride = sorted((d, s, start) for (s, d), start in zip(flat_modes(layout), starts, strict=True) if s > 1 and d)
    modes: list[Mode] = []
    reached = 1
    for stride, extent, start in by_stride:
        if stride != reached:
            break
        modes.append((extent, start))
        reached *= extent
    return coalesce(from_modes(modes))


def left_inverse(layout: Layout) -> Layout:
    """Return a layout R with R(layout(i)) = i for every index i.

    The right inverse of (layout, complement): a bijection, whose inverse serves from both sides.
    Raises LayoutError if `layout` is not injective or has no complement.
    """
    if any(d == 0 for s, d in flat_modes(layout) if s > 1):
        raise LayoutError(f"{layout} is not injective")
    return right_inverse(concat(layout, complement(layout)))


def is_injective(layout: Layout) -> bool:
    """Whether different coordinates have different values."""
    modes = sorted((d, s) for s, d in flat_modes(layout) if s > 1)
    below = 0
    for stride, extent in modes:
        if stride <= below:
            return len(set(layout.values())) == layout.size
        below += stride * (extent - 1)
    return True


def contiguity(layout: Layout) -> int:
    """Return the largest n with layout(i) = layout(0) + i for i < n that is an extent of the coalesced layout."""
    extent, stride = flat_modes(coalesce(layout))[0]
    return extent if stride == 1 else 1


def common_vector(a: Layout, b: Layout) -> int:
    """Return how many elements lie in the same order, without gaps, in both `a` and `b`: the vector of a copy.

    `a` and `b` have the same domain; the elements counted are those at the lowest addresses of `b`.
    """
    return contiguity(composition(a, right_inverse(b)))
