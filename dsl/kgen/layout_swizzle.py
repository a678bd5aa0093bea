"""Swizzles, which permute addresses by XOR, and layouts composed with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from kgen.layout_algebra import Layout, coalesce, composition, contiguity, flat_modes
from kgen.layout_tuple import IntTuple, LayoutError, product


@dataclass(frozen=True)
class Swizzle:
    """The permutation x -> x XOR (the `bits` bits of x from bit base + shift on, moved down to bit base).

    With a negative shift, the bits from `base` on are moved up to bit base - shift. Applied twice, it is the identity.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits:
            raise LayoutError(f"{self}: needs bits >= 0, base >= 0 and |shift| >= bits")

    def __call__(self, x: int) -> int:
        source = self.base + max(self.shift, 0)
        target = self.base + max(-self.shift, 0)
        field = (x >> source) & ((1 << self.bits) - 1)
        return x ^ (field << target)

    @property
    def span(self) -> int:
        """The number of addresses after which the permutation repeats."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    @property
    def chunk(self) -> int:
        """How many consecutive addresses, from a multiple of it on, stay together."""
        return 1 << self.base


@dataclass(frozen=True)
class ComposedLayout:
    """The function c -> outer(offset + inner(c)); its domain is that of `inner`."""

    outer: Swizzle | Layout
    offset: int
    inner: AnyLayout

    def __call__(self, *where: IntTuple) -> int:
        return self.outer(self.offset + self.inner(*where))

    def __str__(self) -> str:
        match self.outer:
            case Swizzle(bits=bits, base=base, shift=shift):
                outer = f"Swizzle({bits},{base},{shift})"
            case Layout():
                outer = str(self.outer)
        return f"{outer} o {self.offset} o {self.inner}"

    @property
    def shape(self) -> IntTuple:
        return self.inner.shape

    @property
    def size(self) -> int:
        return product(self.shape)

    def values(self) -> Iterator[int]:
        return map(self, range(self.size))


AnyLayout: TypeAlias = Layout | ComposedLayout


def compose_right(a: AnyLayout, b: Layout) -> AnyLayout:
    """Return a o b: the algebra acts on the innermost layout of `a`. Raises LayoutError as `composition` does."""
    match a:
        case Layout():
            return composition(a, b)
        case ComposedLayout(outer=outer, offset=offset, inner=inner):
            return ComposedLayout(outer, offset, compose_right(inner, b))


def shifted(a: AnyLayout, by: int) -> AnyLayout:
    """Return `a` with `by` added to the values of its innermost layout (below any swizzle)."""
    match a:
        case ComposedLayout(outer=outer, offset=offset, inner=Layout() as inner):
            return ComposedLayout(outer, offset + by, inner)
        case ComposedLayout(outer=outer, offset=offset, inner=inner):
            return ComposedLayout(outer, offset, shifted(inner, by))
        case Layout():
            return ComposedLayout(Swizzle(0, 0, 0), by, a)


def vector_width(a: AnyLayout, mode: int) -> int:
    """Return the widest vector along a mode: v elements, at a multiple of v and consecutive, for every coordinate.

    v divides the run of stride 1 that the mode begins with, every other stride, every offset, and the chunk of every
    swizzle; it is the greatest such number.
    """
    if isinstance(a, Layout):
        return _plain_width(a, mode)
    return gcd(vector_width(a.inner, mode), a.offset, _kept_together(a.outer))


def _kept_together(outer: Swizzle | Layout) -> int:
    """Return the largest n so that `outer` keeps aligned runs of n together and aligned; 0 stands for any n."""
    match outer:
        case Swizzle(bits=0):
            return 0
        case Swizzle(chunk=chunk):
            return chunk
        case Layout():
            return gcd(contiguity(outer), *(d for _, d in flat_modes(coalesce(outer))[1:]))


def _plain_width(layout: Layout, mode: int) -> int:
    along = flat_modes(coalesce(layout.modes[mode]))
    others = [m for i, x in enumerate(layout.modes) if i != mode for m in flat_modes(coalesce(x))]
    run = along[0][0] if along[0][1] == 1 else 1
    return gcd(run, *(d for s, d in [*along[1:], *others] if s > 1))
