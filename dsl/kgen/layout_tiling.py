"""Dividing layouts into tiles and repeating them (CuTe's products and divisions).

A tiler is a layout, an integer n (short for n:1), or a tuple of tilers, one for each of the first modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kgen.layout_algebra import Layout, complement, composition, concat
from kgen.layout_tuple import LayoutError

Tiler: TypeAlias = "Layout | int | tuple[Tiler, ...]"


def compose(a: Layout, tiler: Tiler) -> Layout:
    """Return a o tiler; a tuple composes with a's modes one by one and keeps the modes beyond it."""
    if isinstance(tiler, tuple):
        return _by_mode(a, tiler, compose)
    return composition(a, _layout(tiler))


def logical_divide(a: Layout, tiler: Tiler) -> Layout:
    """Return a o (tiler, rest): mode 0 walks within a tile, mode 1 from tile to tile.

    The rest is the tiler's complement in the size of `a`, so that the two modes together reach every element once.
    """
    if isinstance(tiler, tuple):
        return _by_mode(a, tiler, logical_divide)
    tile = _layout(tiler)
    return composition(a, concat(tile, complement(tile, a.size)))


def zipped_divide(a: Layout, tiler: Tiler) -> Layout:
    """Return logical_divide with all tile modes gathered in mode 0 and all rest modes in mode 1."""
    return _zipped(logical_divide(a, tiler), tiler)


def tiled_divide(a: Layout, tiler: Tiler) -> Layout:
    """Return zipped_divide with the rest modes at the top: (tile, rest0, rest1, ...)."""
    return _spread(zipped_divide(a, tiler))


def logical_product(a: Layout, tiler: Tiler) -> Layout:
    """Return (a, complement(a) o tiler): mode 0 is `a`, mode 1 lays out copies of `a` as the tiler says."""
    if isinstance(tiler, tuple):
        return _by_mode(a, tiler, logical_product)
    copies = _layout(tiler)
    return concat(a, composition(complement(a, a.size * copies.cosize), copies))


def zipped_product(a: Layout, tiler: Tiler) -> Layout:
    """Return logical_product with all modes of one copy in mode 0 and all modes over copies in mode 1."""
    return _zipped(logical_product(a, tiler), tiler)


def tiled_product(a: Layout, tiler: Tiler) -> Layout:
    """Return zipped_product with the modes over copies at the top."""
    return _spread(zipped_product(a, tiler))


def blocked_product(block: Layout, copies: Layout) -> Layout:
    """Return copies of `block` side by side: mode i is (mode i of the block, mode i of the copies).

    Raises LayoutError if the ranks differ.
    """
    return _interleave(*_product_modes(block, copies))


def raked_product(block: Layout, copies: Layout) -> Layout:
    """Return copies of `block` interleaved: mode i is (mode i of the copies, mode i of the block)."""
    inner, outer = _product_modes(block, copies)
    return _interleave(outer, inner)


def _layout(tiler: Layout | int) -> Layout:
    return Layout(tiler, 1) if isinstance(tiler, int) else tiler


def _by_mode(a: Layout, tiler: tuple[Tiler, ...], apply: Callable[[Layout, Tiler], Layout]) -> Layout:
    modes = a.modes
    if len(tiler) > len(modes):
        raise LayoutError(f"{len(tiler)} tilers for {a}, which has {len(modes)} modes")
    return concat(*map(apply, modes, tiler), *modes[len(tiler) :])


def _zipped(split: Layout, tiler: Tiler) -> Layout:
    """Gather the first and the second halves of a layout split by `tiler`; modes without a tiler are rest."""
    if not isinstance(tiler, tuple):
        return split
    pairs = [_zipped(mode, t).modes for mode, t in zip(split.modes, tiler, strict=False)]
    rest = split.modes[len(tiler) :]
    return concat(concat(*(inner for inner, _ in pairs)), concat(*(outer for _, outer in pairs), *rest))


def _spread(zipped: Layout) -> Layout:
    inner, outer = zipped.modes
    return concat(inner, *outer.modes)


def _product_modes(block: Layout, copies: Layout) -> tuple[tuple[Layout, ...], tuple[Layout, ...]]:
    if block.rank != copies.rank:
        raise LayoutError(f"{block} and {copies} differ in rank")
    outer = logical_product(block, copies).modes[1]
    return block.modes, (outer,) if isinstance(copies.shape, int) else outer.modes


def _interleave(first: tuple[Layout, ...], second: tuple[Layout, ...]) -> Layout:
    return concat(*(concat(a, b) for a, b in zip(first, second, strict=True)))
