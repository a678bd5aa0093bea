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
from kgen.errors import KgenError, fail
from kgen.source import Source, Span
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
    "own_records",
    "parse_record",
    "prove",
    "safe",
    "safe_record",
    "to_base2",
    "undefined",
]
INPUTS: tuple[DType, ...] = (I64, I32, F64, BOOL, F32)


def load_records(beside: Path | None = None) -> dict[str, Record]:
    """Return the shipped records and those of the folder `beside`, by name, typed for f32; raise SpecError.

    A record of `beside` has a name of its own, unless it is a copy of the shipped one.
    """
    shipped = resources.path("specs") / "accumulators"
    found = {path.stem: load_record(path) for path in sorted(shipped.glob("*.yaml"))}
    for name, source in own_records(beside).items():
        if name not in found:
            found[name] = parse_record(name, source)
        elif found[name].syntax.source.text != source.text:
            raise fail(Span(source, 1, 1), f"there is a shipped record '{name}'", "give this file another name")
    return found


def own_records(beside: Path | None) -> dict[str, Source]:
    """Return the record files of the folder `beside` by name; none if it is the shipped folder or does not exist."""
    if beside is None or not beside.is_dir() or beside.samefile(resources.path("specs") / "accumulators"):
        return {}
    return {path.stem: _source(path) for path in sorted(beside.glob("*.yaml"))}


def load_record(path: Path) -> Record:
    """Return one record, typed for f32 (bool where it reduces bools); raise SpecError."""
    return parse_record(path.stem, _source(path))


def _source(path: Path) -> Source:
    try:
        return Source(str(path), path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise KgenError(f"cannot read the record '{path}': {e}") from None


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
