"""Finds the headers that a CUDA text includes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def included(text: str, include_dirs: Sequence[Path]) -> dict[str, str]:
    """Return name -> text of every header that `text` includes, directly or not, and that lies in `include_dirs`.

    Headers found nowhere belong to the toolkit. Conditions of the preprocessor are not evaluated, so the result may
    hold a header more than the compiler reads: right for a cache key.
    """
    found: dict[str, str] = {}
    waiting = list(_INCLUDE.findall(text))
    while waiting:
        name = waiting.pop()
        path = next((d / name for d in include_dirs if (d / name).is_file()), None)
        if path is None or name in found:
            continue
        found[name] = path.read_text(encoding="utf-8")
        waiting.extend(_INCLUDE.findall(found[name]))
    return found
