"""The base-2 form of a record: exponentials as exp2 over an input scaled by log2(e).

Every expression has a degree in the scale of the input: 1 if it grows with it (a logit, a running maximum), 0 if it
does not change (a weight, a sum of weights). The rewrite turns exp of degree 1 into exp2, and takes results of degree 1
back to the input's own scale by ln 2. It applies where all of a record's fields have a degree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kgen.accumulators_check import require
from kgen.accumulators_machine import Machine, elements
from kgen.accumulators_numeric import UNIT, Array, Bounded
from kgen.accumulators_prove import SPLITS
from kgen.accumulators_record import Entries, Record
from kgen.accumulators_samples import operands, random_rows, triples
from kgen.terms import Apply, Cast, Const, Expr, Get, Reduce, apply, walk

LN2 = math.log(2)
LOG2E = 1 / LN2


@lru_cache(maxsize=64)
def to_base2(record: Record) -> Record | None:
    """Return the record over `scaled` names times log2(e), proved equal; None if it has no exponentials to rewrite.

    Results stay in the scale of the unscaled input. Raises AccumulatorError if the two forms differ.
    """
    if record.scaled or not any(isinstance(e, Apply) and e.fn == "exp" for e in _weighing(record)):
        return None
    for linear in _subsets(record.operands):
        try:
            new = _rewritten(record, linear)
        except _NoDegree:
            continue
        _prove_equal(record, new)
        return new
    return None


def _weighing(record: Record) -> list[Expr]:
    fields = [*(e for _, e in record.merge), record.weight, record.rescale]
    return [x for e in fields if e is not None for x in walk(e)]


def _subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return all subsets, the largest first: operands are scaled where they can be."""
    return [s for n in range(len(names), -1, -1) for s in itertools.combinations(names, n)]


class _NoDegree(Exception):
    """An expression changes with the scale of the input in another way than in proportion to it."""


@dataclass(frozen=True)
class _Scaled:
    """A rewritten expression and its degree; None for literals that are the same at any scale (0, infinities, NaN)."""

    expr: Expr
    degree: int | None


def _rewritten(record: Record, linear: tuple[str, ...]) -> Record:
    scaled = dict.fromkeys((record.input, *linear), 1)
    lift, states = _entries(record.lift, scaled)
    degrees = {s.name: states[s.name] or 0 for s in record.states}
    if any(degrees[s.name] and not _any_scale(s.identity) for s in record.states):
        raise _NoDegree
    named = {f"{p}.{name}": d for p in ("a", "b", "old", "new") for name, d in degrees.items()}
    merge, update, tile = (
        _checked(entries, {**named, **scaled}, degrees) for entries in (record.merge, record.update, record.update_tile)
    )
    return replace(
        record,
        lift=lift,
        merge=merge,
        update=update,
        update_tile=tile,
        weight=_invariant(record.weight, {**scaled, **degrees}),
        rescale=_invariant(record.rescale, named),
        finish=_results(record.finish, {**scaled, **degrees}),
        direct=None if record.direct is None else _results(record.direct, scaled),
        scaled=(record.input, *linear),
        retype=lambda dtype: to_base2(record.at(dtype)) or record,
    )


def _entries(entries: Entries, degrees: Mapping[str, int]) -> tuple[Entries, dict[str, int | None]]:
    found: list[tuple[str, Expr]] = []
    known: dict[str, int | None] = {}
    for name, e in entries:
        new = _scale(e, {**degrees, **{k: v or 0 for k, v in known.items()}}, False)
        known[name] = new.degree
        found.append((name, new.expr))
    return tuple(found), known


def _checked(entries: Entries, degrees: Mapping[str, int], states: Mapping[str, int]) -> Entries:
    new, known = _entries(entries, degrees)
    if any(known[name] not in (degree, None) for name, degree in states.items() if name in known):
        raise _NoDegree
    return new


def _invariant(e: Expr | None, degrees: Mapping[str, int]) -> Expr | None:
    if e is None:
        return None
    new = _scale(e, degrees, False)
    if new.degree == 1:
        raise _NoDegree
    return new.expr


def _results(entries: Entries, degrees: Mapping[str, int]) -> Entries:
    return tuple((name, _unscaled(_scale(e, degrees, True))) for name, e in entries)


def _unscaled(x: _Scaled) -> Expr:
    return apply("mul", x.expr, Const(x.expr.dtype, LN2)) if x.degree == 1 else x.expr


def _any_scale(value: float) -> bool:
    return value == 0 or not math.isfinite(value)


def _scale(e: Expr, degrees: Mapping[str, int], result: bool) -> _Scaled:
    """Rewrite `e`. `result`: terms of degree 1 that meet invariant ones are taken back to the input's own scale."""
    match e:
        case Const(value=value):
            return _Scaled(e, None if _any_scale(value) else 0)
        case Get(var=var):
            return _Scaled(e, degrees.get(var.name, 0))
        case Cast(arg=arg):
            inner = _scale(arg, degrees, result)
            return _Scaled(replace(e, arg=inner.expr), inner.degree)
        case Reduce(name=name, arg=arg):
            inner = _scale(arg, degrees, result)
            return _Scaled(replace(e, arg=inner.expr), inner.degree if name in ("sum", "max", "min") else 0)
        case Apply(args=args):
            return _scale_apply(e, [_scale(a, degrees, result) for a in args], result)
    raise _NoDegree


def _scale_apply(e: Apply, args: list[_Scaled], result: bool) -> _Scaled:
    new = replace(e, args=tuple(a.expr for a in args))
    degrees = [a.degree for a in args]
    match e.fn:
        case "exp" if degrees == [1]:
            return _Scaled(replace(new, fn="exp2"), 0)
        case "mul" if 1 in degrees and degrees != [1, 1]:
            return _Scaled(new, 1)
        case "div" | "safe_div" if degrees[1] != 1:
            return _Scaled(new, degrees[0])
        case "div" | "safe_div" if degrees == [1, 1]:
            return _Scaled(new, 0)
        case "neg" | "abs":
            return _Scaled(new, degrees[0])
        case "where":
            branches, degree = _joined(args[1:], result)
            return _Scaled(replace(new, args=(args[0].expr, *branches)), degree)
        case "add" | "sub" | "maximum" | "minimum":
            branches, degree = _joined(args, result)
            return _Scaled(replace(new, args=branches), degree)
        case "lt" | "le" | "gt" | "ge" | "eq" | "ne":
            branches, _ = _joined(args, result)
            return _Scaled(replace(new, args=branches), 0)
        case "isnan":
            return _Scaled(new, 0)
    if 1 in degrees:
        raise _NoDegree
    return _Scaled(new, 0)


def _joined(args: list[_Scaled], result: bool) -> tuple[tuple[Expr, ...], int | None]:
    """Return operands of one degree, and that degree."""
    degrees = {a.degree for a in args} - {None}
    if len(degrees) < 2:
        return tuple(a.expr for a in args), next(iter(degrees), None)
    if not result:
        raise _NoDegree
    return tuple(_unscaled(a) for a in args), 0


def _prove_equal(record: Record, new: Record) -> None:
    """Require that both records finish alike, in several parts, the new one over scaled inputs and operands."""
    for rows in (triples(record), random_rows(record), triples(record)[:, :0]):
        given = operands(record, len(rows))
        scaled = {name: _times_log2e(x.value) if name in new.scaled else x for name, x in given.items()}
        xs, x2 = elements(rows), _times_log2e(rows)
        for splits, tile in SPLITS:
            old, over = Machine(record, given), Machine(new, scaled)
            left, right = over.split(elements(*x2), splits, tile), old.split(xs, splits, tile)
            for name in record.names:
                sides = {name: over.finish(name, left, elements(*x2))}, {name: old.finish(name, right, xs)}
                law = "its base-2 form differs"
                require(record, "finish", law, ("base 2", sides[0]), ("base e", sides[1]), {record.input: rows})


def _times_log2e(x: Array) -> Bounded:
    y = x * LOG2E
    return Bounded(y, np.where(np.isfinite(y), UNIT * np.abs(y), 0.0))
