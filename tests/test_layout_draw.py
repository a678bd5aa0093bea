"""Drawings of layouts: every cell says what the layout computes, in the terminal and in SVG."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import product

import pytest

from kgen.layout_algebra import Layout, row_major
from kgen.layout_draw import draw_svg, draw_text
from kgen.layout_fragments import Fragment, mma_a, mma_b, mma_c, transpose, wgmma_d
from kgen.layout_grid import Drawable, values_in_a_row
from kgen.layout_shared import SharedTile, row_major_tile, swizzled_tile, tma_tile
from kgen.layout_tuple import LayoutError

SVG = "{http://www.w3.org/2000/svg}"
ANSI = re.compile(r"\x1b\[[0-9;]*m")
SUBJECTS = [
    mma_a(),
    wgmma_d(16),
    swizzled_tile(16, 80, 2),
    row_major_tile(8, 9, 4),
    tma_tile(16, 64, 2, 128),
    Layout((4, (2, 3)), (1, (12, 4))),
]


def drawn_cells(text: str) -> list[list[str]]:
    """Return the cells of the table rows: what follows the row number, split where columns are apart."""
    rows = [line for line in text.splitlines()[2:] if re.match(r" *\d+  ", line) and not line.startswith("  first")]
    return [re.split(r" {2,}", row.strip())[1:] for row in rows]


def test_a_c_fragment_in_the_terminal() -> None:
    text = draw_text(mma_c(), rows=2)
    assert text == (
        "mma C: 16 x 8, 32 threads x 4 values\n"
        "         0        2        4        6\n"
        "0  T0 v0-1  T1 v0-1  T2 v0-1  T3 v0-1\n"
        "1  T4 v0-1  T5 v0-1  T6 v0-1  T7 v0-1\n"
        "  (thread, value) -> row + 16 col: ((4,8),(2,2)):((32,1),(16,8))\n"
        "  first 2 of 16 rows, first 8 of 8 columns\n"
    )


def test_a_swizzled_tile_in_the_terminal() -> None:
    text = draw_text(swizzled_tile(64, 16, 2), rows=5)
    assert text == (
        "row-major, swizzled in 32 bytes: 64 x 16 elements of 2 bytes, 2048 bytes\n"
        "         0        8\n"
        "0     0 b0    16 b4\n"
        "1    32 b8   48 b12\n"
        "2   64 b16   80 b20\n"
        "3   96 b24  112 b28\n"
        "4   144 b4   128 b0\n"
        "  (row, col) -> byte: Swizzle(1,4,3) o 0 o (64,16):(32,2)\n"
        "  ldmatrix.x4: 16 wavefronts, at best 16: no bank conflicts\n"
        "  first 5 of 64 rows, first 16 of 16 columns\n"
    )


@pytest.mark.parametrize(
    "fragment", [mma_a(), mma_b(32), mma_a(8), transpose(mma_c()), wgmma_d(24)], ids=lambda f: f.name
)
def test_fragment_cells_name_the_holders(fragment: Fragment) -> None:
    run = values_in_a_row(fragment)
    cells = drawn_cells(draw_text(fragment))
    assert (len(cells), len(cells[0])) == (fragment.rows, fragment.cols // run)
    for row, col in product(range(fragment.rows), range(fragment.cols)):
        thread, first, last = re.fullmatch(r"T(\d+) v(\d+)(?:-(\d+))?", cells[row][col // run]).groups()
        assert last is None or int(last) == int(first) + run - 1
        assert fragment.element(int(thread), int(first) + col % run) == (row, col)


@pytest.mark.parametrize("tile", SUBJECTS[2:5], ids=lambda t: t.name)
def test_tile_cells_name_addresses_and_banks(tile: SharedTile) -> None:
    cells = drawn_cells(draw_text(tile))
    run = tile.cols // len(cells[0])
    for row, col in product(range(tile.rows), range(0, tile.cols, run)):
        address = tile.address(row, col)
        assert cells[row][col // run] == f"{address} b{address // 4 % 32}"


def test_layout_cells_are_values() -> None:
    assert drawn_cells(draw_text(row_major(2, 3))) == [["0", "1", "2"], ["3", "4", "5"]]
    assert drawn_cells(draw_text(Layout(3, 5))) == [["0", "5", "10"]]
    with pytest.raises(LayoutError, match="3 modes"):
        draw_text(row_major(2, 3, 4))


def test_conflicts_are_told() -> None:
    assert "8-way bank conflicts" in draw_text(row_major_tile(64, 64, 2))
    assert "no bank conflicts" in draw_text(row_major_tile(64, 64, 2, pad=16))
    assert "ldmatrix" not in draw_text(row_major_tile(64, 64, 4))


@pytest.mark.parametrize("what", SUBJECTS, ids=str)
def test_colour_changes_nothing_but_colour(what: Drawable) -> None:
    plain, coloured = draw_text(what), draw_text(what, colour=True)
    assert "\x1b" not in plain
    assert ANSI.sub("", coloured) == plain
    assert len(ANSI.findall(coloured)) == 2 * sum(map(len, drawn_cells(plain)))


@pytest.mark.parametrize("what", SUBJECTS, ids=str)
def test_svg_shows_the_same_cells_within_its_frame(what: Drawable) -> None:
    svg = draw_svg(what, rows=8)
    root = ET.fromstring(svg)
    boxes = root.findall(f"{SVG}g")
    shown = [cell for row in drawn_cells(draw_text(what, rows=8)) for cell in row]
    assert [box.findtext(f"{SVG}text") for box in boxes] == shown
    assert all(box.findtext(f"{SVG}title") for box in boxes)
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", 0)) + float(rect.get("width")) <= width
        assert float(rect.get("y", 0)) + float(rect.get("height")) <= height
    assert "href" not in svg and "<script" not in svg


def test_svg_colours_tell_threads_apart() -> None:
    root = ET.fromstring(draw_svg(mma_c()))
    colours: dict[str, set[str]] = {}
    for box in root.findall(f"{SVG}g"):
        thread = box.findtext(f"{SVG}text").split()[0]
        colours.setdefault(thread, set()).add(box.find(f"{SVG}rect").get("fill"))
    assert len(colours) == 32
    assert all(len(found) == 1 for found in colours.values())
    assert len(set.union(*colours.values())) == 32
