"""Texts that mark where an error must point: «...» surrounds what the caret must underline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgen.errors import SpecError


def marked(text: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the text without marks, and (line, column, length) of each mark, in order."""
    places, lines = [], []
    for number, line in enumerate(text.split("\n"), 1):
        while "«" in line:
            start, end = line.index("«"), line.index("»") - 1
            line = line.replace("«", "", 1).replace("»", "", 1)
            places.append((number, start + 1, end - start))
        lines.append(line)
    return "\n".join(lines), places


def errors(run: Callable[[str], Any], text: str) -> list[tuple[str, str | None]]:
    """Run on the text without marks, which must fail at exactly the marked places; return (message, hint) of each."""
    plain, places = marked(text)
    with pytest.raises(SpecError) as caught:
        run(plain)
    diagnostics = caught.value.diagnostics
    found = [(d.span.line, d.span.column, d.span.length) for d in diagnostics if d.span is not None]
    assert found == places, str(caught.value)
    return [(d.message, d.hint) for d in diagnostics]
