"""Drawings of layouts: plain text for a terminal, and self-contained SVG."""

from __future__ import annotations

from html import escape

from kgen.layout_grid import Cell, Drawable, Grid, grid

PASTELS = (224, 153, 117, 183, 229, 158, 218, 195, 223, 189, 150, 216, 159, 222, 182, 193)
"""Light colours of the 256-colour terminal palette, on which black text reads well."""
RESET = "\x1b[0m"
GOLDEN_ANGLE = 137.508
CHARACTER, LINE_HEIGHT, PAD = 7, 18, 6


def draw_text(what: Drawable, rows: int | None = None, cols: int | None = None, colour: bool = False) -> str:
    """Return a table of the first rows and columns, with element indices at its edges (see `layout_grid.grid`).

    With `colour`, cells have ANSI background colours: by thread for fragments, by bank for shared tiles.
    """
    table = grid(what, rows, cols)
    width = _widest(table)
    margin = len(str(len(table.rows)))
    head = " " * margin + "".join(f"  {col:>{width}}" for col in table.columns)
    body = (
        f"{row:>{margin}}" + "".join("  " + _coloured(cell, width, colour) for cell in cells)
        for row, cells in enumerate(table.rows)
    )
    return "\n".join([table.title, head, *body, *(f"  {note}" for note in table.notes)]) + "\n"


def draw_svg(what: Drawable, rows: int | None = None, cols: int | None = None) -> str:
    """Return an SVG picture of the same table; pointing at a cell shows its elements."""
    table = grid(what, rows, cols)
    cell = _widest(table) * CHARACTER + 2 * PAD
    margin = len(str(len(table.rows))) * CHARACTER + 2 * PAD
    lines = [table.title, *table.notes]
    width = max(margin + cell * len(table.columns), max(map(len, lines)) * CHARACTER) + 2 * PAD
    top = 2 * LINE_HEIGHT
    bottom = top + len(table.rows) * LINE_HEIGHT
    height = bottom + len(table.notes) * LINE_HEIGHT + PAD
    parts = [_text(PAD, LINE_HEIGHT - 5, table.title, "start", bold=True)]
    parts += [_text(margin + cell * (i + 0.5), top - 5, str(c)) for i, c in enumerate(table.columns)]
    for r, cells in enumerate(table.rows):
        y = top + r * LINE_HEIGHT
        parts.append(_text(margin - PAD, y + 13, str(r), "end"))
        parts += [_box(margin + cell * i, y, cell, c) for i, c in enumerate(cells)]
    parts += [_text(PAD, bottom + (i + 1) * LINE_HEIGHT - 5, note, "start") for i, note in enumerate(table.notes)]
    frame = f'<rect width="{width}" height="{height}" fill="white"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    style = 'font-family="monospace" font-size="11" text-anchor="middle" fill="#111"'
    return "\n".join([f"{head} {style}>", frame, *parts, "</svg>"]) + "\n"


def _widest(table: Grid) -> int:
    return max(len(cell.text) for cells in table.rows for cell in cells)


def _coloured(cell: Cell, width: int, colour: bool) -> str:
    text = f"{cell.text:>{width}}"
    return f"\x1b[30;48;5;{PASTELS[cell.key % len(PASTELS)]}m{text}{RESET}" if colour else text


def _text(x: float, y: float, text: str, anchor: str = "middle", bold: bool = False) -> str:
    extra = (f' text-anchor="{anchor}"' if anchor != "middle" else "") + (' font-weight="bold"' if bold else "")
    return f'<text x="{x:g}" y="{y:g}"{extra}>{escape(text)}</text>'


def _box(x: float, y: float, width: int, cell: Cell) -> str:
    hue = round(cell.key * GOLDEN_ANGLE % 360)
    rect = f'<rect x="{x:g}" y="{y:g}" width="{width}" height="{LINE_HEIGHT}" fill="hsl({hue},65%,84%)" stroke="#fff"/>'
    return f"<g><title>{escape(cell.remark)}</title>{rect}{_text(x + width / 2, y + 13, cell.text)}</g>"
