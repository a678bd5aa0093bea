"""Accumulators: reductions as data (specs/accumulators/*.yaml), loaded, proved, and made ready to print."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from kgen import resources
from kgen.accumulators_base2 import LN2, LOG2E, to_base2
from kgen.accumulators_check import AccumulatorError, Counterexample
from kgen.accumulators_elaborate import elaborate
from kgen.accumulators_facts import neutral, undefined
from kgen.accumulators_machine import Machine, elements
from kgen.accumulators_numeric import Array, exact, number_type
from kgen.accumulators_prove import prove
from kgen.accumulators_read import read_record
from kgen.accumulators_record import Record, State, input_dtype
from kgen.accumulators_safe import safe, safe_record
from kgen.source import Source
from kgen.types import BOOL, F32, F64, I32, I64, DType

__all__ = [
    "LN2",
    "LOG2E",
    "AccumulatorError",
    "Counterexample",
    "Record",
    "State",
    "evaluate",
    "load_record",
    "load_records",
    "neutral",
    "parse_record",
    "prove",
    "safe",
    "safe_record",
    "to_base2",
    "undefined",
]
INPUTS: tuple[DType, ...] = (I64, I32, F64, BOOL, F32)


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
    return [elaborate(syntax, t) for t in INPUTS if input_dtype(syntax, t) is t][-1]


def evaluate(
    record: Record, xs: Array, splits: int, tile: int = 4, operands: Mapping[str, float] | None = None
) -> dict[str, Array]:
    """Return every result of the elements `xs` ([n] or [rows, n]), in float64 or int64.

    The tiles are dealt to `splits` parts, each folded from the identity, and merged in order (parts without tiles too).
    A result has the shape of `xs`, without its last axis unless it is elementwise.
    """
    rows: Array = np.atleast_2d(np.asarray(xs, number_type(record.input_dtype)))
    given = {name: exact(np.full((1, 1), value, np.float64)) for name, value in (operands or {}).items()}
    machine, parts = Machine(record, given), elements(rows)
    state = machine.split(parts, splits, tile)
    found = {}
    for name in record.names:
        value = machine.finish(name, state, parts).value
        shape = rows.shape if record.elementwise(name) else (len(rows), 1)
        full = np.broadcast_to(value, shape).reshape(np.shape(xs)[:-1] + shape[1:])
        found[name] = full if record.elementwise(name) else full[..., 0]
    return found
