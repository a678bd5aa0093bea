"""Accumulators: reductions as data (specs/accumulators/*.yaml), loaded, proved, and made ready to print."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from kgen import resources
from kgen.accumulators_elaborate import elaborate
from kgen.accumulators_read import read_record
from kgen.accumulators_record import Record, State, input_dtype
from kgen.source import Source
from kgen.types import BOOL, F32, F64, I32, I64, DType

__all__ = ["Record", "State", "load_record", "load_records"]
INPUTS: tuple[DType, ...] = (F32, F64, I32, I64, BOOL)


def load_records(folder: Path | None = None) -> dict[str, Record]:
    """Return the records of a folder (default: the shipped ones) by name, typed for f32; raise SpecError."""
    folder = folder or resources.path("specs") / "accumulators"
    return {path.stem: load_record(path) for path in sorted(folder.glob("*.yaml"))}


def load_record(path: Path) -> Record:
    """Return one record, typed for f32 (bool where it reduces bools); raise SpecError."""
    return parse_record(path.stem, Source(str(path), path.read_text()))


@lru_cache(maxsize=256)
def parse_record(name: str, source: Source) -> Record:
    """Return the record that `source` holds, checked for every input type it accepts; raise SpecError."""
    syntax = read_record(name, source)
    return [elaborate(syntax, t) for t in INPUTS[::-1] if input_dtype(syntax, t) is t][-1]
