"""Typed accumulator records from their syntax: scopes of names, states and their types, completeness."""

from __future__ import annotations

from functools import lru_cache, partial

from kgen.accumulators_read import Entry, RecordSyntax, StateEntry
from kgen.accumulators_record import Entries, Record, State
from kgen.accumulators_typing import INF, convert, type_expr
from kgen.errors import fail, nearest
from kgen.syntax import Node
from kgen.terms import Const, Expr, Get, walk
from kgen.types import BOOL, DTYPES, F32, F64, I64, DType

BUILTIN = ("sum", "max", "min", "any", "all", "argmax")


@lru_cache(maxsize=256)
def elaborate(syntax: RecordSyntax, dtype: DType) -> Record:
    """Type a record for inputs of the compute type `dtype`; raise SpecError."""
    return _Elaborate(syntax, dtype).record()


class _Elaborate:
    def __init__(self, syntax: RecordSyntax, dtype: DType) -> None:
        self.syntax = syntax
        self.element = {syntax.input: dtype, "index": I64}
        self.float = F64 if dtype is F64 else F32
        self.operands = dict.fromkeys(syntax.operands, self.float)
        self.states = {s.name: self.state_dtype(s.dtype) for s in syntax.states}
        self.weights = {name: self.float for name, e in (("weight", syntax.weight), ("rescale", syntax.rescale)) if e}
        old, new = self.prefixed("old"), self.prefixed("new")
        self.weight = self.weighing(syntax.weight, {**self.element, **self.states})
        self.rescale = self.weighing(syntax.rescale, {**old, **new})

    def state_dtype(self, name: str | None) -> DType:
        match name:
            case "input":
                return self.element[self.syntax.input]
            case None:
                return self.float
        return DTYPES[name]

    def record(self) -> Record:
        x = self.syntax
        self.check_names()
        lift = self.entries("lift", x.lift, self.element, False)
        merge = self.entries("merge", x.merge, {**self.prefixed("a"), **self.prefixed("b")}, False)
        outside = {} if x.tiled else {**self.prefixed("old"), **self.weights}
        update = self.entries("update", x.update, {**outside, **self.element}, True)
        return Record(
            name=x.name,
            doc=x.doc,
            input=x.input,
            input_dtype=self.element[x.input],
            operands=x.operands,
            domain=x.domain if self.element[x.input].is_float else (),
            states=tuple(self.state(s) for s in x.states),
            lift=lift,
            merge=merge,
            update=() if x.tiled else update,
            update_tile=update if x.tiled else (),
            weight=self.weight,
            rescale=self.rescale,
            finish=self.results(x.finish, {**self.element, **self.states, **self.operands, **self.weights}, None),
            direct=self.direct(),
            syntax=x,
            retype=partial(elaborate, x),
        )

    def check_names(self) -> None:
        x = self.syntax
        names = [x.input, *x.operands, *(s.name for s in x.states)]
        for name in names:
            if names.count(name) > 1 or name in ("index", "weight", "rescale") or "." in name:
                raise fail(x.span("state"), f"'{name}' cannot name two things", "rename the state, input or operand")
        if (x.weight is None) != (x.rescale is None):
            raise fail(x.span("weight" if x.weight else "rescale"), "weight and rescale come together")

    def prefixed(self, prefix: str) -> dict[str, DType]:
        return {f"{prefix}.{name}": dtype for name, dtype in self.states.items()}

    def state(self, s: StateEntry) -> State:
        return State(s.name, self.identity(s.identity, self.states[s.name]), self.states[s.name])

    def identity(self, node: Node, dtype: DType) -> int | float | bool:
        e = type_expr(node, {}, None)
        if not isinstance(e, Const) or (e.dtype is BOOL) != (dtype is BOOL):
            raise fail(node.span, f"the identity of a state of type {dtype} must be a literal of that type")
        if dtype.is_int and abs(e.value) == INF:
            low = -(2 ** (dtype.bits - 1))
            return low if e.value < 0 else -low - 1
        return float(e.value) if dtype.is_float else e.value

    def entries(self, field: str, entries: tuple[Entry, ...], scope: dict[str, DType], reduces: bool) -> Entries:
        """Type entries computed in order; all states must be among them, if there are any."""
        scope, found = dict(scope), list[tuple[str, Expr]]()
        elements = frozenset((*self.element, "weight")) if reduces else None
        if field == "lift":
            self.only(entries, self.states, "state")
        for entry in entries:
            value = self.stored(type_expr(entry.value, scope, elements), entry)
            scope[entry.name] = value.dtype
            found.append((entry.name, value))
        missing = [name for name in self.states if name not in dict(found)]
        if missing and (entries or field != "update"):
            raise fail(self.syntax.span(field), f"'{field}' gives no value for state '{missing[0]}'")
        self.check_weight_order(field, tuple(found), entries)
        return tuple(found)

    def check_weight_order(self, field: str, found: Entries, entries: tuple[Entry, ...]) -> None:
        """`weight` and `rescale` read new states: an update may use them only after those are computed."""
        reads = {"weight": _names(self.weight), "rescale": {n.removeprefix("new.") for n in _names(self.rescale)}}
        done: set[str] = set()
        for (name, value), entry in zip(found, entries, strict=True):
            for used in _names(value) & set(self.weights):
                late = (reads[used] & set(self.states)) - done
                if field == "update" and late:
                    raise fail(entry.span, f"'{used}' reads the new '{min(late)}', which comes after '{name}'")
            done.add(name)

    def stored(self, e: Expr, entry: Entry) -> Expr:
        dtype = self.states.get(entry.name, e.dtype)
        exact = e.dtype is dtype or (e.dtype is not BOOL and dtype is not BOOL)
        lossy = (e.dtype.is_float and not dtype.is_float) or (e.dtype is I64 and dtype is not I64)
        literal = isinstance(e, Const) and float(e.value).is_integer()
        if not exact or (lossy and not literal):
            raise fail(entry.value.span, f"state '{entry.name}' of type {dtype} cannot hold a value of type {e.dtype}")
        return convert(e, dtype)

    def only(self, entries: tuple[Entry, ...], choices: dict[str, DType], what: str) -> None:
        for entry in entries:
            if entry.name not in choices:
                raise fail(entry.span, f"unknown {what} '{entry.name}'", nearest(entry.name, choices))

    def weighing(self, node: Node | None, scope: dict[str, DType]) -> Expr | None:
        return None if node is None else convert(type_expr(node, scope, None), self.float)

    def results(self, entries: tuple[Entry, ...], scope: dict[str, DType], elements: frozenset[str] | None) -> Entries:
        return tuple((entry.name, type_expr(entry.value, scope, elements)) for entry in entries)

    def direct(self) -> Entries | None:
        x = self.syntax
        names = {entry.name: self.float for entry in x.finish}
        if x.direct is None:
            self.only(x.finish, dict.fromkeys(BUILTIN, self.float), "builtin result")
            return None
        self.only(x.direct, names, "result")
        missing = [name for name in names if name not in {d.name for d in x.direct}]
        if missing:
            raise fail(x.span("direct"), f"'direct' gives no formula for '{missing[0]}'")
        return self.results(x.direct, {**self.element, **self.operands}, frozenset(self.element))


def _names(e: Expr | None) -> set[str]:
    return set() if e is None else {x.var.name for x in walk(e) if isinstance(x, Get)}
