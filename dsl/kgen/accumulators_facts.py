"""What a compiler may rely on in a record, found by trial on the values that decide cases."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from kgen.accumulators_machine import Machine, States, elements
from kgen.accumulators_numeric import Array, bounds, number_type
from kgen.accumulators_record import Record
from kgen.accumulators_safe import safe_record
from kgen.accumulators_samples import random_rows, triples
from kgen.terms import Apply, Const, Expr, Get, Var
from kgen.types import BOOL


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


@lru_cache(maxsize=256)
def empty_test(record: Record) -> Expr:
    """Return the condition, over the states, that the state is the identity; a test of one of them if that decides it."""
    machine, states = Machine(record), _states(record)
    one = machine.identity()
    equal = {name: states[name].value == one[name].value for name in one}
    everything = np.logical_and.reduce(np.broadcast_arrays(*equal.values()))
    deciding = [
        s for s in record.states if np.array_equal(np.broadcast_to(equal[s.name], everything.shape), everything)
    ]
    tests = [_equals_identity(record, s.name) for s in ([*deciding[-1:]] or record.states)]
    condition = tests[0]
    for test in tests[1:]:
        condition = Apply(BOOL, "and", (condition, test))
    return condition


def _equals_identity(record: Record, name: str) -> Expr:
    state = next(s for s in record.states if s.name == name)
    value = Get(state.dtype, Var(name, state.dtype, ()))
    if state.dtype is BOOL:
        return value if state.identity else Apply(BOOL, "not", (value,))
    return Apply(BOOL, "eq", (value, Const(state.dtype, state.identity)))


@lru_cache(maxsize=256)
def has_empty_value(record: Record, name: str) -> bool:
    """Return whether a result has a value of its own without elements (a sum has, a mean has not)."""
    machine = Machine(record, {op: elements(np.zeros((1, 1))).x for op in record.operands})
    nothing: Array = np.zeros((1, 0), number_type(record.input_dtype))
    if record.elementwise(name):
        return bool(record.operands)
    return not np.isnan(machine.direct(name, elements(nothing)).value.astype(np.float64)).any()
