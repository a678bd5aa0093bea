"""Structure of an axis in one kernel: the last values of tile, stream and split, and which cannot stand together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kgen.configure_levels import Given, Levels
from kgen.errors import fail
from kgen.source import Span
from kgen.spec_model import SplitModel


@dataclass(frozen=True)
class AxisConfig:
    """Structure of an axis: positions per program or iteration, whether it is a loop, in how many parts it is split.

    `span` is the place of the tile.
    """

    tile: int | Literal["full"] | None
    stream: bool
    split: int | Literal["auto"] | None
    span: Span | None = field(default=None, compare=False, repr=False)


def structure(levels: Levels, axis: str) -> AxisConfig:
    """Return the structure of an axis; raise SpecError if a field would have no effect beside another.

    `tile: full` sets aside the stream and split of earlier levels.
    """
    tile, stream, split = (levels.axis(axis, name) for name in ("tile", "stream", "split"))
    place = tile.span if tile else None
    if tile is not None and tile.value == "full":
        for name, other in (("stream", stream), ("split", split)):
            if other is not None and other.value and other.rank >= tile.rank:
                message = f"'{name}' has no effect beside 'tile: full': '{axis}' is held whole, and not walked"
                raise fail(other.span, message, f"remove '{name}', or give '{axis}' a tile such as 64")
        return AxisConfig("full", False, None, place)
    _check_split(stream, split)
    parts: SplitModel | None = split.value if split else None
    return AxisConfig(
        tile.value if tile else None, bool(stream and stream.value), parts.count if parts else None, place
    )


def _check_split(stream: Given | None, split: Given | None) -> None:
    if stream and split and not stream.value and stream.rank >= split.rank:
        raise fail(
            stream.span, "'stream: false' has no effect beside 'split': parts are walked", "remove 'stream' or 'split'"
        )
