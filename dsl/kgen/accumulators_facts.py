"""What a compiler may rely on in a record, found by trial on the values that decide cases."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from kgen.accumulators_machine import Machine, States, elements
from kgen.accumulators_numeric import bounds, compute, exact, number_type
from kgen.accumulators_record import Record
from kgen.accumulators_safe import safe_record
from kgen.accumulators_samples import random_rows, triples
from kgen.terms import Apply, Expr, Get, walk


@lru_cache(maxsize=256)
def neutral(record: Record) -> int | float | bool | None:
    """Return an input that is as good as no element: its lift is the identity, its weight 0 under every state.

    Such a value can replace guarded-out elements once, before all reductions. None if there is none.
    """
    low, high = bounds(record.input_dtype)
    return next((c for c in (low, high, 0) if _is_neutral(record, c)), None)


def _is_neutral(record: Record, value: int | float) -> bool:
    record = safe_record(record)
    machine, states = Machine(record, ieee=True), _states(record)
    xs = elements(np.full((1, 2), value, number_type(record.input_dtype)))
    lifted, one = machine.lift(xs), machine.identity()
    if not all((lifted[name].value == one[name].value).all() for name in one):
        return False
    if record.weight is None:
        return True
    return all(not machine.weight(xs, state)[0].any() for state in (one, states))


def _states(record: Record) -> States:
    """Return states without NaN: of elements, and of rows of elements."""
    machine = Machine(record, ieee=True)
    rows = np.concatenate([triples(record), random_rows(record)[:, :3]])
    rows = rows[~np.isnan(rows.astype(np.float64)).any(axis=-1)]
    return machine.fold(machine.identity(), elements(rows))


def undefined(e: Expr, at: Mapping[Expr, int | float | bool]) -> bool:
    """Return whether `e` is NaN, or divides by zero, where the variables in it have the values `at` (0 / 0, 1 / 0).

    Of a result at the identity state: whether it has no value of its own without elements.
    """
    env = {
        get.var.name: exact(np.full((1, 1), value, number_type(get.dtype)))
        for get, value in at.items()
        if isinstance(get, Get)
    }
    divisors = [x.args[1] for x in walk(e) if isinstance(x, Apply) and x.fn == "div"]
    zero = any((compute(d, env, False).value == 0).any() for d in divisors)
    value = compute(e, env, False).value
    return zero or bool(np.isnan(value.astype(np.float64)).any())
