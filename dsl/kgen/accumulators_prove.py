"""Proofs that a record's fields agree with one another; where they do not, the error shows values that tell.

A law is checked on every triple of the values that decide cases (zero, huge, -inf, and infinity and NaN where the
record's domain has them), on seeded random rows with ties, and on no elements at all. Two sides differ only if they
differ by more than their rounding errors explain.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache

import numpy as np

from kgen.accumulators_check import AccumulatorError, Counterexample, Shown, require
from kgen.accumulators_machine import Elements, Machine, States, elements
from kgen.accumulators_numeric import Bounded, compute, exact
from kgen.accumulators_record import Record, input_dtype
from kgen.accumulators_safe import safe, safe_record
from kgen.accumulators_samples import operands, random_rows, triples
from kgen.accumulators_typing import type_expr
from kgen.parse import parse_expr
from kgen.source import Source
from kgen.terms import Expr
from kgen.types import F64, I32, I64

__all__ = ["AccumulatorError", "Counterexample", "prove"]
SPLITS = ((1, 2), (2, 1), (7, 2), (11, 3))  # parts, elements in a tile: one, several, more parts than tiles


def prove(record: Record) -> None:
    """Prove a record for its own input type and for the integers it accepts; raise AccumulatorError."""
    for dtype in (record.input_dtype, I32, I64):
        if input_dtype(record.syntax, dtype) is dtype:
            _prove(record.at(dtype))


@lru_cache(maxsize=256)
def _prove(record: Record) -> None:
    _prove_states(replace(record, finish=(), direct=None, operands=()))
    rows = triples(record), random_rows(record)
    for xs in map(elements, (*rows, rows[0][:, :1], rows[0][:, :0])):
        for machine in (Machine(record), Machine(safe_record(record), ieee=True)):
            results(record, machine, xs)


@lru_cache(maxsize=256)
def _prove_states(record: Record) -> None:
    """Prove what does not depend on a record's results."""
    for xs in map(elements, (triples(record), random_rows(record))):
        identity_laws(record, xs)
        merge_laws(record, xs)
        update_laws(record, xs)
        if record.weight is not None:
            weight_laws(record, xs)


def identity_laws(record: Record, xs: Elements) -> None:
    """The identity changes no element on either side, nor itself: exactly, so that an empty part changes no bit."""
    machine = Machine(record)
    one = machine.identity()
    for a in (machine.lift(xs), machine.fold(one, xs), one):
        for text, merged in (
            ("merge(identity, a)", machine.merge(one, a)),
            ("merge(a, identity)", machine.merge(a, one)),
        ):
            require(record, "merge", "the identity is not neutral", (text, merged), ("a", a), {"a": a}, exactly=True)


def merge_laws(record: Record, xs: Elements) -> None:
    """Parts merge in any order and grouping (tiles are reduced by trees)."""
    machine, third = Machine(record), -(-xs.count // 3)
    a, b, c = (machine.fold(machine.identity(), xs.part(i, i + third)) for i in range(0, 3 * third, third))
    ab, ba, bc = machine.merge(a, b), machine.merge(b, a), machine.merge(b, c)
    law = "merge is not commutative"
    require(record, "merge", law, ("merge(a, b)", ab), ("merge(b, a)", ba), {"a": a, "b": b})
    left = "merge(merge(a, b), c)", machine.merge(ab, c)
    right = "merge(a, merge(b, c))", machine.merge(a, bc)
    require(record, "merge", "merge is not associative", left, right, {"a": a, "b": b, "c": c})


def update_laws(record: Record, xs: Elements) -> None:
    """A tile joins a state as its elements do one by one; a tile without elements leaves it."""
    machine = Machine(record)
    first = machine.lift(xs.part(0, 1))
    for old, tile in ((machine.identity(), xs), (first, xs.part(1, None)), (first, xs.part(0, 0))):
        shown: Shown = {"old": old, record.input: tile.x.value}
        sides = ("update", machine.update(old, tile)), ("lift and merge", machine.fold(old, tile))
        require(record, "update", "update differs from lift and merge", *sides, shown)


def weight_laws(record: Record, xs: Elements) -> None:
    """rescale takes an element's weight under a state to its weight under a later one."""
    machine, e = Machine(record), xs.part(0, 1)
    old = machine.lift(e)
    new = machine.fold(old, xs.part(1, None))
    env = {"weight": machine.weight(e, old), "rescale": machine.rescale(old, new)}
    left = "weight(e, new)", {"": machine.weight(e, new)}
    right = "weight(e, old) * rescale(old, new)", {"": compute(law_expr("weight * rescale"), env, False)}
    shown: Shown = {"e": e.x.value, "old": old, "new": new}
    require(record, "rescale", "rescale does not carry a weight to the new state", left, right, shown)


def results(record: Record, machine: Machine, xs: Elements) -> None:
    """Every result of a fold in any number of parts is its direct formula, and so are the carried sums."""
    given = operands(record, len(xs.x.value))
    machine, oracle = Machine(machine.record, given, machine.ieee), Machine(record, given)
    shown: Shown = {record.input: xs.x.value, **{name: value.value for name, value in given.items()}}
    printed = ", as printed," if machine.ieee else ""
    splits = SPLITS if xs.count > 3 else SPLITS[1:2]  # short rows have few tiles to deal
    states = [machine.split(xs, parts, tile) for parts, tile in splits]
    for name in record.names:
        wanted = {name: oracle.direct(name, xs)}
        if record.direct is not None:
            law = f"the direct formula{printed} differs from itself by the conventions of records"
            require(record, "direct", law, ("one", {name: machine.direct(name, xs)}), ("the other", wanted), shown)
        law = f"the finished fold{printed} differs from the direct formula"
        for state in states:
            require(
                record, "finish", law, ("finish", {name: machine.finish(name, state, xs)}), ("direct", wanted), shown
            )
        if record.carries(name) and (xs.count or record.operands):  # without elements a convention decides
            carried_sum(record, machine, name, xs, shown)


def carried_sum(record: Record, machine: Machine, name: str, xs: Elements, shown: Shown) -> None:
    """sum(result * e) is a sum carried with the state, rescaled as it is, and multiplied by a factor at the end."""
    e = np.resize(np.array([1.0, -0.5, 2.0, 0.25, -3.0]), xs.x.value.shape)
    acc, state = exact(np.zeros((len(e), 1))), machine.identity()
    for low in range(0, xs.count, 2):
        part = xs.part(low, low + 2)
        new = machine.update(state, part)
        acc = _carry(acc, machine, state, new, part, e[:, low : low + 2])
        state = new
    factor = record.carry_factor(name)
    env = {"acc": acc, "factor": machine.value(safe(factor) if machine.ieee else factor, state)}
    left = "carried", {name: compute(law_expr("acc * factor"), env, machine.ieee)}
    env = {"weight": machine.direct(name, xs), "e": exact(e)}
    right = "direct", {name: compute(law_expr("sum[.](weight * e)"), env, machine.ieee)}
    require(
        record, "weight", f"the carried sum of '{name}' differs from its direct sum", left, right, {**shown, "e": e}
    )


def _carry(acc: Bounded, machine: Machine, old: States, new: States, part: Elements, e: object) -> Bounded:
    env = {
        "acc": acc,
        "rescale": machine.rescale(old, new),
        "weight": machine.weight(part, new),
        "e": exact(np.asarray(e)),
    }
    return compute(law_expr("acc * rescale + sum[.](weight * e)"), env, machine.ieee)


@cache
def law_expr(text: str) -> Expr:
    """Return one side of a law, over the names weight and e of each element and acc, rescale and factor of a row."""
    names = dict.fromkeys(("acc", "rescale", "factor", "weight", "e"), F64)
    return type_expr(parse_expr(text, Source("law", text), 1, 1), names, frozenset(("weight", "e")))
