"""The inputs on which records are proved: every triple of special values, and seeded random rows with ties."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np

from kgen.accumulators_numeric import Array, Bounded, bounds, exact, number_type
from kgen.accumulators_record import Record
from kgen.types import BOOL, DType

FINITE = (0.0, 1.0, -2.5, 1e30, -1e30)
OPERANDS = (0.5, -math.inf, 40.0, -3.0, 0.0, 1e30, -1e30)
ROWS, LENGTH = 48, 8


def specials(record: Record) -> tuple[float, ...]:
    """Return the values that decide cases: of floats zero, huge ones and those of the domain; of integers the ends."""
    if record.input_dtype is BOOL:
        return (False, True)
    if record.input_dtype.is_int:
        return (0, 1, -7, *bounds(record.input_dtype))
    return (*FINITE, *(float(v) for v in record.domain))


@cache
def _triples(values: tuple[float, ...], dtype: DType) -> Array:
    return np.array(list(itertools.product(values, repeat=3)), number_type(dtype))


def triples(record: Record) -> Array:
    """Return [rows, 3]: every triple of special values."""
    return _triples(specials(record), record.input_dtype)


def random_rows(record: Record) -> Array:
    """Return [3 * ROWS, LENGTH]: a third without ties, a third of few values, a third of few values and specials."""
    return _random_rows(specials(record), record.input_dtype)


@cache
def _random_rows(values: tuple[float, ...], dtype: DType) -> Array:
    rng = np.random.default_rng(20240229)
    shape = (ROWS, LENGTH)
    free: Array = rng.normal(0, 3, shape) if dtype.is_float else rng.integers(-1000, 1000, shape)
    ties: Array = rng.integers(-2, 2, shape)
    if dtype is BOOL:
        free, ties = rng.random(shape) < 0.1, rng.random(shape) < 0.9
    seeded = np.where(rng.random(shape) < 0.5, rng.choice(np.array(values), shape), ties)
    return np.concatenate([free, ties, seeded]).astype(number_type(dtype))


def operands(record: Record, rows: int) -> dict[str, Bounded]:
    """Return a value [rows, 1] for every operand, walking through ordinary, huge and absent (-inf) ones."""
    found = {}
    for i, name in enumerate(record.operands):
        cycle = np.resize(np.roll(np.array(OPERANDS), i), rows)
        found[name] = exact(cycle[:, None])
    return found
