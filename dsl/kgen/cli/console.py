"""What commands print on stdout: plain when piped, with colour on a terminal. Progress goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

STYLES = {"ok": "green", "bad": "bold red", "note": "yellow", "head": "bold", "dim": "dim"}


class Out:
    """Prints results."""

    def __init__(self) -> None:
        self.terminal = Console(highlight=False, soft_wrap=True) if sys.stdout.isatty() else None

    def line(self, text: str = "", style: str = "") -> None:
        """Print a line; `style` is one of STYLES."""
        if self.terminal is None:
            sys.stdout.write(f"{text}\n")
        else:
            self.terminal.print(Text(text, style=STYLES.get(style, "")))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> None:
        """Print rows in columns."""
        if self.terminal is None:
            for line in columns([head, *rows], indent):
                self.line(line)
        else:
            self.terminal.print(_rich_table(head, rows))


def columns(rows: Sequence[Sequence[str]], indent: str) -> list[str]:
    """Return rows of text in columns of equal width."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [indent + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def _rich_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Any:
    table = Table(box=None, pad_edge=True, header_style="dim")
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
