"""Comparison of the two sides of a law, and the error that shows where they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kgen.accumulators_machine import States
from kgen.accumulators_numeric import Array, agree
from kgen.accumulators_read import RecordSyntax
from kgen.accumulators_record import Record
from kgen.errors import Diagnostic, SpecError
from kgen.source import Span

Shown = Mapping[str, States | Array]
Side = tuple[str, States]


@dataclass(frozen=True)
class Counterexample:
    """Values for which a law fails: the law, the values by name, and what its two sides gave."""

    law: str
    values: dict[str, str]
    left: tuple[str, str]
    right: tuple[str, str]

    def __str__(self) -> str:
        given = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"for {given}: {' is '.join(self.left)}, but {' is '.join(self.right)}"


class AccumulatorError(SpecError):
    """A record that contradicts itself, with the values that show it."""

    def __init__(self, record: str, span: Span, found: Counterexample) -> None:
        self.counterexample = found
        super().__init__([Diagnostic(span, f"accumulator '{record}': {found.law}", str(found))])


def require(record: Record, field: str, law: str, left: Side, right: Side, shown: Shown, exactly: bool = False) -> None:
    """Raise AccumulatorError at `field` unless both sides agree on all rows; `shown`: the values of a counterexample.

    A state with a NaN on both sides has NaN results: its other floats may differ, its integers may not.
    """
    lost = _both_nan(left[1], right[1])
    for name, value in left[1].items():
        bad = ~agree(value, right[1][name], exactly)
        if value.value.dtype.kind == "f":
            bad = bad & ~lost
        if bad.any():
            shape = np.broadcast_shapes(bad.shape, *(x.shape for x in _arrays(shown)))
            row, column = np.argwhere(np.broadcast_to(bad, (*shape[:-1], bad.shape[-1])))[0]
            values = {key: _show(item, row, column) for key, item in shown.items()}
            sides = [(f"{text} {name}".strip(), _at(state[name].value, row, column)) for text, state in (left, right)]
            raise AccumulatorError(record.name, _place(record.syntax, field, name), Counterexample(law, values, *sides))


def _both_nan(left: States, right: States) -> Array:
    floats = [name for name, x in left.items() if x.value.dtype.kind == "f"]
    lost = np.zeros((1, 1), np.bool_)
    for name in floats:
        lost = lost | (np.isnan(left[name].value) & np.isnan(right[name].value))
    return lost


def _arrays(shown: Shown) -> list[Array]:
    states = [item for item in shown.values() if isinstance(item, dict)]
    return [b.value for s in states for b in s.values()] + [x for x in shown.values() if not isinstance(x, dict)]


def _place(syntax: RecordSyntax, field: str, name: str) -> Span:
    """Return the place of an entry of a field, or of the field."""
    entries = getattr(syntax, field)
    if isinstance(entries, tuple):
        return next((entry.span for entry in entries if entry.name == name), syntax.span(field))
    return syntax.span(field)


def _show(item: States | Array, row: int, column: int) -> str:
    if isinstance(item, dict):
        return "(" + ", ".join(f"{name}: {_at(b.value, row, column)}" for name, b in item.items()) + ")"
    values = [_number(v) for v in item[min(row, len(item) - 1)]]
    return values[0] if len(values) == 1 else "[" + ", ".join(values) + "]"


def _at(values: Array, row: int, column: int) -> str:
    return _number(values[min(row, values.shape[0] - 1), min(column, values.shape[1] - 1)])


def _number(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value or value != value else repr(float(value))
