"""The direct formulas of the accumulator records, as the dense evaluation wants them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from kgen import terms
from kgen.accumulators import Record, load_records
from kgen.types import BOOL
from kgen.verify.values import Direct


@cache
def direct_formula(record: str, name: str, beside: Path | None = None) -> Direct | None:
    """Return the plain formula of a record's result, None for one that the evaluation computes itself.

    `beside`: the folder of records beside the spec.
    """
    found = load_records(beside)[record]
    if found.direct is None:
        return None
    return Direct(found.inputs, dict(found.direct)[name], null_element(found))


def null_element(record: Record) -> terms.Expr:
    """Return the condition on the input under which lifting an element gives the identity of every state."""
    lifted = dict(record.lift)
    tests = [
        terms.Apply(BOOL, "eq", (lifted[s.name], terms.Const(s.dtype, s.identity)))
        for s in record.states
        if s.name in lifted
    ]
    condition: terms.Expr = terms.Const(BOOL, True)
    for test in tests:
        condition = terms.Apply(BOOL, "and", (condition, test))
    return condition
