"""Sums that are a product of two sides: which factors stand on which side, and whether a backend's Dot can take it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kgen.ir import TileAxis
from kgen.terms import Expr, free_axes
from kgen.tile_frame import DOT_MINIMUM, Frame

Parts = tuple[Expr, ...]


@dataclass(frozen=True)
class Product:
    """sum over `contract` of left(row, contract) * right(contract, col); each side is a list of factors."""

    contract: str
    row: str
    col: str
    left: Parts
    right: Parts

    def side(self, parts: Parts) -> tuple[str, ...]:
        """Return which of row and col the factors of a side depend on."""
        return tuple(a for a in (self.row, self.col) if any(a in free_axes(x) for x in parts))


def match_product(frame: Frame, parts: Parts, axes: tuple[str, ...], guard: Parts = ()) -> Product | None:
    """Return the two sides of a Dot, or None if the sum over `axes` is not one (or too small for the backend's Dot).

    Every part of the guard must depend on no more axes than one of the sides, which then carries it.
    """
    tile = frame.tile
    inner = [a for a in axes if a in tile]
    if len(inner) != 1 or not all(p.dtype.is_float for p in parts):
        return None
    contract = inner[0]
    found = _rows_and_columns(tile, parts, contract)
    if found is None:
        return None
    row, col = found
    if frame.backend == "triton" and min(tile[a].size for a in (contract, row, col)) < DOT_MINIMUM:
        return None
    left, right = (tuple(p for p in parts if a in free_axes(p)) for a in (row, col))
    if not all(any(contract in free_axes(p) for p in side) for side in (left, right)):
        return None
    if any({row, col} <= free_axes(g) for g in guard):
        return None
    loose = tuple(p for p in parts if p not in left and p not in right)
    if len(left) > 1:  # a side that is computed anyway takes the factors without an axis of their own
        return Product(contract, row, col, left + loose, right)
    return Product(contract, row, col, left, right + loose)


def _rows_and_columns(tile: Mapping[str, TileAxis], parts: Parts, contract: str) -> tuple[str, str] | None:
    """Return the two axes beside `contract` if each factor depends on at most one of them."""
    order = list(tile)
    sides = {frozenset(a for a in order if a in free_axes(p)) - {contract} for p in parts} - {frozenset()}
    if len(sides) != 2 or any(len(s) != 1 for s in sides):
        return None
    row, col = sorted((a for s in sides for a in s), key=order.index)
    return row, col
