"""Layouts as grids of labelled cells, ready to be drawn: who holds an element, and where it lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from kgen.layout_algebra import Layout, coalesce, composition, flat_modes
from kgen.layout_banks import WORD, bank, ldmatrix_tile
from kgen.layout_fragments import Fragment, Ldmatrix
from kgen.layout_shared import CHUNK, SharedTile
from kgen.layout_swizzle import AnyLayout
from kgen.layout_tuple import LayoutError, branches, product

Drawable: TypeAlias = Fragment | SharedTile | AnyLayout


@dataclass(frozen=True)
class Cell:
    """One or more neighbouring elements of a row: what to write, which colour (equal keys, equal colours), a remark."""

    text: str
    key: int
    remark: str


@dataclass(frozen=True)
class Grid:
    """A table. `notes` are lines below it; `columns` are the first element columns of the cells."""

    title: str
    notes: tuple[str, ...]
    columns: tuple[int, ...]
    rows: tuple[tuple[Cell, ...], ...]


def grid(what: Drawable, rows: int | None = None, cols: int | None = None) -> Grid:
    """Return the cells of the first `rows` rows and `cols` element columns (None: all).

    Fragment: the thread and values that hold each run of elements, by thread. SharedTile: byte address and first bank
    of each 16-byte chunk, by bank. Layout: the value at each coordinate of its two modes.
    """
    match what:
        case Fragment():
            return _fragment_grid(what, _within(rows, what.rows), _within(cols, what.cols))
        case SharedTile():
            return _tile_grid(what, _within(rows, what.rows), _within(cols, what.cols))
        case _:
            return _layout_grid(what, rows, cols)


def _within(asked: int | None, size: int) -> int:
    return size if asked is None else max(1, min(asked, size))


def _cut(rows: int, cols: int, all_rows: int, all_cols: int) -> tuple[str, ...]:
    """Return a note if not the whole is shown."""
    if (rows, cols) == (all_rows, all_cols):
        return ()
    return (f"first {rows} of {all_rows} rows, first {cols} of {all_cols} columns",)


def _cells(rows: int, cols: int, run: int, cell: Callable[[int, int], Cell]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(cell(row, col) for col in range(0, cols, run)) for row in range(rows))


def values_in_a_row(fragment: Fragment) -> int:
    """Return how many neighbouring elements of a row one thread holds as consecutive values, everywhere alike."""
    along = composition(fragment.inverse, Layout(fragment.cols, fragment.rows))
    extent, stride = flat_modes(coalesce(along))[0]
    return extent if stride == fragment.threads else 1


def _fragment_grid(fragment: Fragment, rows: int, cols: int) -> Grid:
    run = values_in_a_row(fragment)

    def cell(row: int, col: int) -> Cell:
        thread, value = fragment.holder(row, col)
        span = f"{value}-{value + run - 1}" if run > 1 else f"{value}"
        where = f"({row}, {col})" if run == 1 else f"({row}, {col}..{col + run - 1})"
        return Cell(f"T{thread} v{span}", thread, f"{where}: thread {thread}, values {span}")

    title = f"{fragment.name}: {fragment.rows} x {fragment.cols}, {fragment.threads} threads x {fragment.values} values"
    title += f", {fragment.copies} copies of each (the first is shown)" if fragment.copies > 1 else ""
    formula = f"(thread, value) -> row + {fragment.rows} col: {fragment.layout}"
    notes = _cut(rows, cols, fragment.rows, fragment.cols)
    return Grid(title, (formula, *notes), tuple(range(0, cols, run)), _cells(rows, cols, run, cell))


def _tile_grid(tile: SharedTile, rows: int, cols: int) -> Grid:
    width = tile.vector if tile.vector >= tile.element else tile.element
    run = width // tile.element
    banks = max(1, width // WORD)

    def cell(row: int, col: int) -> Cell:
        address = tile.address(row, col)
        first = bank(address)
        last = f"-{first + banks - 1}" if banks > 1 else ""
        elements = f"{col}..{col + run - 1}" if run > 1 else f"{col}"
        return Cell(f"{address} b{first}", first // banks, f"({row}, {elements}): byte {address}, bank {first}{last}")

    title = f"{tile.name}: {tile.rows} x {tile.cols} elements of {tile.element} bytes, {tile.bytes} bytes"
    notes = (f"(row, col) -> byte: {tile.layout}", *_ldmatrix_note(tile), *_cut(rows, cols, tile.rows, tile.cols))
    return Grid(title, notes, tuple(range(0, cols, run)), _cells(rows, cols, run, cell))


def _ldmatrix_note(tile: SharedTile) -> tuple[str, ...]:
    """Return what loading the tile by ldmatrix.x4 costs, where that is possible."""
    if tile.element != 2 or tile.vector < CHUNK or tile.rows % 16 or tile.cols % 16:
        return ()
    cost = ldmatrix_tile(tile, Ldmatrix(4), 2, 2)
    verdict = "no bank conflicts" if cost.conflicts == 0 else f"{cost.ways}-way bank conflicts"
    return (f"ldmatrix.x4: {cost.wavefronts} wavefronts, at best {cost.ideal}: {verdict}",)


def _layout_grid(layout: AnyLayout, rows: int | None, cols: int | None) -> Grid:
    extents = [product(s) for s in branches(layout.shape)]
    if len(extents) > 2:
        raise LayoutError(f"{layout} has {len(extents)} modes; only layouts of one or two can be drawn")
    height, width = extents if len(extents) == 2 else (1, extents[0])

    def cell(row: int, col: int) -> Cell:
        value = layout(row + height * col)
        return Cell(str(value), value, f"({row}, {col}) -> {value}")

    shown = _within(rows, height), _within(cols, width)
    return Grid(str(layout), _cut(*shown, height, width), tuple(range(shown[1])), _cells(*shown, 1, cell))
