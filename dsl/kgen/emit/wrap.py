"""Long lines of Python text broken at brackets and operators, as a person would break them."""

from __future__ import annotations

import re
from itertools import pairwise

WIDTH = 110
STEP = 4
_OPENING, _CLOSING = "([{", ")]}"
_LEVELS = (
    (" or ",),
    (" and ",),
    (" == ", " != ", " < ", " <= ", " > ", " >= "),
    (" | ",),
    (" ^ ",),
    (" & ",),
    (" << ", " >> "),
    (" + ", " - "),
    (" * ", " / ", " // ", " % "),
)


def wrap(code: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Return one statement as lines: whole if it fits, else with its outermost bracket or operators broken open."""
    if indent + len(code) <= width:
        return [" " * indent + code]
    head, body = _head(code)
    parts = _operands(body)
    if len(parts) > 1:
        cut = [line for p in parts for line in wrap(p, indent + STEP, width)]
        return [" " * indent + head + "(", *cut, " " * indent + ")"]
    opened = _bracket(body)
    if opened is None:
        return [" " * indent + code]
    first, last = opened
    inside, tail = body[first + 1 : last], body[last:]
    items = _split(inside, ", ")
    commas = len(items) > 1 or inside.endswith(",")
    inner: list[str] = []
    for piece in (i.rstrip(",") for i in items) if commas else _operands(inside):
        inner += wrap(piece, indent + STEP, width - commas)
        inner[-1] += "," * commas
    return [" " * indent + head + body[: first + 1], *inner, " " * indent + tail]


def _head(code: str) -> tuple[str, str]:
    """`code` cut after what must stay before an opened bracket: a target, a keyword's name, or a leading operator."""
    leading = next((op.lstrip() for ops in _LEVELS for op in ops if code.startswith(op.lstrip())), None)
    if leading is not None:
        return leading, code[len(leading) :]
    keyword = re.match(r"\w+=(?!=)", code)
    if keyword is not None:
        return keyword[0], code[keyword.end() :]
    pieces = _split(code, " = ")
    return (f"{pieces[0]} = ", " = ".join(pieces[1:])) if len(pieces) > 1 else ("", code)


def _operands(body: str) -> list[str]:
    """`body` cut before its weakest operators outside brackets; a single piece if there are none."""
    for operators in _LEVELS:
        cuts = _positions(body, operators)
        if cuts:
            edges = [0, *cuts, len(body)]
            return [body[a:b].strip() for a, b in pairwise(edges)]
    return [body]


def _positions(body: str, operators: tuple[str, ...]) -> list[int]:
    """Where one of `operators` stands outside brackets."""
    depth, found = 0, []
    for at, char in enumerate(body):
        depth += (char in _OPENING) - (char in _CLOSING)
        if depth == 0 and body.startswith(operators, at):
            found.append(at)
    return found


def _split(body: str, separator: str) -> list[str]:
    edges = _positions(body, (separator,))
    starts = [0, *(at + len(separator) for at in edges)]
    return [body[a:b] for a, b in zip(starts, [*edges, len(body)], strict=True)]


def _bracket(body: str) -> tuple[int, int] | None:
    """The places of the longest outermost round bracket."""
    depth, start, best = 0, 0, None
    for at, char in enumerate(body):
        if char in _OPENING:
            start = at if depth == 0 else start
            depth += 1
        elif char in _CLOSING:
            depth -= 1
            if depth == 0 and body[start] == "(" and (best is None or at - start > best[1] - best[0]):
                best = (start, at)
    return best
