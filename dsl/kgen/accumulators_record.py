"""The accumulator record: a reduction as data, typed for one input type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kgen.accumulators_read import RecordSyntax
from kgen.errors import KgenError
from kgen.source import Span
from kgen.terms import Apply, Const, Expr, Get, walk
from kgen.types import BOOL, F32, F64, I32, DType, compute_dtype

Entries = tuple[tuple[str, Expr], ...]


@dataclass(frozen=True)
class State:
    """One component of a record's state; `identity` is its value before any element."""

    name: str
    identity: int | float | bool
    dtype: DType


@dataclass(frozen=True)
class Record:
    """How a reduction is computed: one element lifted to a state, states merged, the last state finished.

    Expressions read `Get(Var(name))`: the input and `index` (i64) vary over elements; states are scalars, written `a.s`
    and `b.s` in `merge`, `old.s` in `update` and `rescale`, `new.s` in `rescale`, plain (the new value) elsewhere;
    `weight` and `rescale` name the expressions of those fields. Entries are computed in order, and one that is no state
    is a local name. `update` (a tile of elements joins a state) is empty if the record has none or gives `update_tile`:
    the tile's own state, which `merge` then joins to the old one. `direct` is None where the names are builtin.
    `scaled` lists the input and operands that are given times log2(e) (records made by `to_base2`).
    """

    name: str
    doc: str
    input: str
    input_dtype: DType
    operands: tuple[str, ...]
    domain: tuple[str, ...]
    states: tuple[State, ...]
    lift: Entries
    merge: Entries
    update: Entries
    update_tile: Entries
    weight: Expr | None
    rescale: Expr | None
    finish: Entries
    direct: Entries | None
    syntax: RecordSyntax = field(compare=False, repr=False)
    retype: Callable[[DType], Record] = field(compare=False, repr=False)
    scaled: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.input,)

    @property
    def span(self) -> Span:
        return Span(self.syntax.source, 1, 1)

    @property
    def names(self) -> tuple[str, ...]:
        """The results it offers."""
        return tuple(name for name, _ in self.finish)

    def accepts(self, dtype: DType) -> bool:
        """Return whether elements of `dtype` can be reduced (after a cast to `at(dtype).input_dtype`)."""
        return input_dtype(self.syntax, dtype) is not None

    def at(self, dtype: DType) -> Record:
        """Return the record for inputs of `dtype` (f64 gives f64 states); KgenError if it does not accept them."""
        wanted = input_dtype(self.syntax, dtype)
        if wanted is None:
            raise KgenError(f"accumulator '{self.name}' reduces {self.syntax.input_class} values, not {dtype}")
        if wanted is self.input_dtype:
            return self
        return self.retype(wanted)

    def entry(self, name: str) -> Expr:
        """Return the finish expression of a result."""
        return dict(self.finish)[name]

    def elementwise(self, name: str) -> bool:
        """Return whether a result has its own value for each element."""
        return any(isinstance(e, Get) and e.var.name in (self.input, "weight", "index") for e in walk(self.entry(name)))

    def finish_dtype(self, name: str, dtype: DType) -> DType:
        """Return the type of a result for inputs of `dtype`."""
        return self.at(dtype).entry(name).dtype

    def carries(self, name: str) -> bool:
        """Return whether a result is an element's weight times a function of the state alone."""
        return self._factor(name) is not None

    def carry_factor(self, name: str) -> Expr:
        """Return f for a result weight * f(state), so that sum(result * e) = sum(weight * e) * f; else ValueError."""
        factor = self._factor(name)
        if factor is None:
            raise ValueError(f"'{name}' of '{self.name}' is not a weight times a function of the state")
        return factor

    def _factor(self, name: str) -> Expr | None:
        match self.entry(name):
            case Get(dtype=dtype) as e if _is_weight(e):
                return Const(dtype, 1.0)
            case Apply(fn="mul", args=(weight, f)) if _is_weight(weight):
                factor: Expr = f
            case Apply(fn="mul", args=(f, weight)) if _is_weight(weight):
                factor = f
            case Apply(fn="div" | "safe_div" as fn, args=(weight, f), dtype=dtype) if _is_weight(weight):
                factor = Apply(dtype, fn, (Const(dtype, 1.0), f))
            case _:
                return None
        found = {e.var.name for e in walk(factor) if isinstance(e, Get)}
        return None if found & {self.input, "weight", "index"} else factor


def _is_weight(e: Expr) -> bool:
    return isinstance(e, Get) and e.var.name == "weight"


def input_dtype(syntax: RecordSyntax, dtype: DType) -> DType | None:
    """Return the type in which elements of `dtype` enter the record, None if it does not accept them."""
    match syntax.input_class:
        case "bool":
            return BOOL if dtype is BOOL else None
        case "float":
            return F64 if dtype is F64 else F32
    return I32 if dtype is BOOL else compute_dtype(dtype)
