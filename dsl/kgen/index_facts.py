"""What is known about the leaves of integer expressions: ranges, divisors, constants and relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from kgen.terms import Expr, Get, Load, Param, Pos, Size, Start


@dataclass(frozen=True)
class Range:
    """The integers from `lo` to `hi`, both included; None is unbounded."""

    lo: int | None = None
    hi: int | None = None


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts about leaves, compared by identity (a Facts object is never changed).

    Keys are leaves (any Expr) or their names: a size's or parameter's name, the axis of a Pos, `<axis>_start` for a
    Start, a variable's name for a Get, a tensor's name for a Load.
    `ranges`: possible values. `multiples`: a divisor of the value. `constants`: values known when compiling.
    `holds`: integer comparisons that are true wherever an expression is used, such as `Start(m) < M`.
    Without an entry, positions and tile starts are at least 0 and everything else is unbounded.
    """

    ranges: Mapping[Expr | str, Range] = field(default_factory=dict)
    multiples: Mapping[Expr | str, int] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    holds: tuple[Expr, ...] = ()

    def assuming(self, *conditions: Expr) -> Facts:
        """Return the same facts with more conditions that hold (the same object for the same conditions)."""
        return _assuming(self, conditions)


@lru_cache(maxsize=256)
def _assuming(facts: Facts, conditions: tuple[Expr, ...]) -> Facts:
    return replace(facts, holds=facts.holds + conditions) if conditions else facts


def leaf_name(leaf: Expr) -> str | None:
    """Return the name a leaf is described under, None if it has none."""
    match leaf:
        case Size(name=name) | Param(name=name):
            return name
        case Pos(axis=axis):
            return axis
        case Start(axis=axis):
            return f"{axis}_start"
        case Get(var=var):
            return var.name
        case Load(tensor=tensor):
            return tensor
        case _:
            return None


def constant_of(leaf: Expr, facts: Facts) -> int | None:
    """Return the known value of a size or parameter."""
    return facts.constants.get(leaf.name) if isinstance(leaf, Size | Param) else None


def range_of_leaf(leaf: Expr, facts: Facts) -> Range:
    """Return the range of a leaf, rounded inward to its divisor."""
    value = constant_of(leaf, facts)
    if value is not None:
        return Range(value, value)
    found = facts.ranges.get(leaf) or facts.ranges.get(leaf_name(leaf) or "")
    if found is None:
        found = Range(0, None) if isinstance(leaf, Pos | Start) else Range()
    step = multiple_of_leaf(leaf, facts)
    lo = None if found.lo is None else -(-found.lo // step) * step
    hi = None if found.hi is None else found.hi // step * step
    return Range(lo, hi)


def multiple_of_leaf(leaf: Expr, facts: Facts) -> int:
    """Return a positive integer known to divide the leaf (for a constant 0, 1)."""
    value = constant_of(leaf, facts)
    if value is not None:
        return abs(value) or 1
    return facts.multiples.get(leaf) or facts.multiples.get(leaf_name(leaf) or "") or 1
