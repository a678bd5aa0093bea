"""One step of a fold: a tile of elements joins a record's state, as primitive reductions or by the record's merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.accumulators import Record, neutral, safe, safe_record
from kgen.accumulators_record import Entries
from kgen.algebra import fold_state, substitute
from kgen.folded import Fold
from kgen.ir import Combine
from kgen.terms import Apply, Cast, Const, Expr, Get, Pos, Reduce, Var, walk
from kgen.tile_sums import reduce_tile
from kgen.tile_values import Values
from kgen.types import I32, I64

_FILL: dict[str, float | bool] = {"sum": 0, "max": float("-inf"), "min": float("inf"), "any": False, "all": True}


@dataclass
class Step:
    """What a step works with: the elements `z`, their `mask`, and the old state (identities if there is none)."""

    values: Values
    fold: Fold
    z: Expr
    mask: Expr | None
    old: Mapping[str, Expr] | None
    weight_name: str = "weight"
    env: dict[str, Expr] = field(default_factory=dict)

    @property
    def record(self) -> Record:
        return safe_record(self.fold.record)

    def run(self) -> dict[str, Expr]:
        """Emit the step and return the new state by name; `env` then also holds `weight` and `rescale` if used."""
        self.env[self.record.input] = self.z
        for s in self.record.states:
            self.env[f"old.{s.name}"] = self.old[s.name] if self.old else Const(s.dtype, s.identity)
        if self.record.update:
            return self._update()
        tile = self._tile_state()
        return tile if self.old is None else self._merge(self.old, tile)

    # -- the three ways a tile joins

    def _update(self) -> dict[str, Expr]:
        new: dict[str, Expr] = {}
        for name, formula in self.record.update:
            new[name] = self._named(self.formula(formula), f"{name}_new")
            self.env[name] = self.env[f"new.{name}"] = new[name]
        return new

    def _tile_state(self) -> dict[str, Expr]:
        """Return the state of this tile alone, by the record's tile formulas or by lifting and combining."""
        if not self.record.update_tile:
            return self._combine()
        outer, state = dict(self.env), {}
        for name, formula in self.record.update_tile:
            state[name] = self._named(self.formula(formula), f"{name}_tile" if self.old else f"{name}_i")
            self.env[name] = state[name]
        self.env = outer
        return state

    def _combine(self) -> dict[str, Expr]:
        lifted = []
        for s, (_, formula) in zip(self.record.states, self.record.lift, strict=True):
            e = self.formula(formula)
            if self.mask is not None:
                e = Apply(e.dtype, "where", (self.mask, e, Const(e.dtype, s.identity)))
            lifted.append(e)
        for axis in [a for a in self.fold.axes if a in self.values.tile]:
            lifted = self._combine_axis(lifted, axis)
        return {s.name: e for s, e in zip(self.record.states, lifted, strict=True)}

    def _combine_axis(self, lifted: list[Expr], axis: str) -> list[Expr]:
        v = self.values
        axes = v.axes(*lifted, Pos(I32, axis))
        kept = tuple(a for a in axes if a != axis)
        depth = max(v.scopes.depth_of_axis(axis), *(v.scopes.depth(e) for e in lifted))
        lifted = [e if v.axes(e) == axes else v.bind(e, "lifted", axes=axes) for e in lifted]
        dsts = tuple(Var(v.names.new(f"{s.name}_tile"), s.dtype, kept) for s in self.record.states)
        states = tuple(s.name for s in self.record.states)
        v.scopes.emit(depth, Combine(v.label(), dsts, tuple(lifted), axis, states, self.record.merge))
        for d in dsts:
            v.scopes.define(d, depth)
        return [Get(d.dtype, d) for d in dsts]

    def _merge(self, a: Mapping[str, Expr], b: Mapping[str, Expr]) -> dict[str, Expr]:
        merged = merge_states(self.values, self.record, a, b)
        self.env.update(merged)
        self.env.update({f"new.{k}": x for k, x in merged.items()})
        return {s.name: merged[s.name] for s in self.record.states}

    # -- formulas

    def formula(self, e: Expr) -> Expr:
        """Return a record's formula over kernel variables, its tile reductions emitted."""
        for name in ("weight", "rescale"):
            if name not in self.env and any(isinstance(n, Get) and n.var.name == name for n in walk(e)):
                self.need(name)
        return self._reduced(_put(e, self.env))

    def need(self, name: str) -> Expr:
        """Return the weight or the rescale factor under the new state, computed once."""
        if name not in self.env:
            formula = self.record.weight if name == "weight" else self.record.rescale
            if formula is None:
                raise ValueError(f"record {self.record.name} has no {name}")
            self.env[name] = self._named(
                self._reduced(_put(formula, self.env)), self.weight_name if name == "weight" else name
            )
        return self.env[name]

    def _named(self, e: Expr, wish: str) -> Expr:
        e = self.values.lower(e)
        return e if isinstance(e, Get | Const) else self.values.bind(e, wish)

    def _reduced(self, e: Expr) -> Expr:
        """Emit the tile reductions of `e`, innermost first, and return what is left."""
        found = next((n for n in walk(e) if isinstance(n, Reduce)), None)
        if found is None:
            return self.values.lower(fold_state(e))
        return self._reduced(fold_state(substitute(e, {found: self._primitive(found)})))

    def _primitive(self, r: Reduce) -> Expr:
        if r.name == "count":
            return self._count(r)
        e = self._reduced(r.arg)
        if self.mask is not None:
            e = Apply(e.dtype, "where", (self.mask, e, Const(e.dtype, _FILL[r.name])))
        return reduce_tile(self.values, r.name, e, self.fold.axes, f"{r.name}_tile")

    def _count(self, r: Reduce) -> Expr:
        if self.mask is None:
            count = 1
            for a in self.fold.axes:
                count *= self.values.tile[a].size if a in self.values.tile else 1
            return Const(r.dtype, float(count) if r.dtype.is_float else count)
        one, zero = Const(r.dtype, 1), Const(r.dtype, 0)
        return reduce_tile(self.values, "sum", Apply(r.dtype, "where", (self.mask, one, zero)), self.fold.axes, "count")


def masked_input(values: Values, f: Fold, arg: Expr, mask: Expr | None, wish: str) -> tuple[Expr, Expr | None]:
    """Return (elements, mask still needed): guarded-out elements become the record's neutral input if it has one."""
    fill = neutral(f.record)
    if mask is None or fill is None:
        return arg, mask
    selected = Apply(arg.dtype, "where", (mask, arg, Const(arg.dtype, fill)))
    return values.bind(selected, wish), None


def merge_states(values: Values, record: Record, a: Mapping[str, Expr], b: Mapping[str, Expr]) -> dict[str, Expr]:
    """Emit the record's merge of two states; return every entry by name (states and locals)."""
    env = {f"a.{k}": x for k, x in a.items()} | {f"b.{k}": x for k, x in b.items()}
    for name, formula in record.merge:
        e = values.lower(fold_state(_put(safe(formula), env)))
        env[name] = e if isinstance(e, Get | Const) else values.bind(e, f"{name}_new")
    return {name: env[name] for name, _ in record.merge}


def rescale_between(
    values: Values, record: Record, old: Mapping[str, Expr], new: Mapping[str, Expr], wish: str
) -> Expr:
    """Emit the factor by which sums carried under `old` are multiplied to stand under `new`."""
    assert record.rescale is not None
    env = {f"old.{k}": x for k, x in old.items()} | {f"new.{k}": x for k, x in new.items()} | dict(new)
    e = values.lower(fold_state(_put(safe(record.rescale), env)))
    return e if isinstance(e, Get | Const) else values.bind(e, wish)


def position_of(axes: tuple[str, ...]) -> Expr:
    """Return the `index` an element has in a record: its position along the single reduced axis, i64."""
    return Cast(I64, Pos(I32, axes[0]))


def _put(e: Expr, env: Mapping[str, Expr]) -> Expr:
    return substitute(e, {n: env[n.var.name] for n in walk(e) if isinstance(n, Get) and n.var.name in env})


def plain_sum(record: Record) -> bool:
    """Is the record one plain sum (state = old + sum of the elements), whatever its name?"""
    entries: Entries = record.update
    if len(record.states) != 1 or len(entries) != 1 or record.weight is not None:
        return False
    state, element = record.states[0], Var(record.input, record.input_dtype, ())
    match entries[0][1]:
        case Apply(fn="add", args=(Get(var=old), Reduce(name="sum", arg=Get(var=x)))):
            return old.name == f"old.{state.name}" and x == element and state.identity == 0
        case _:
            return False
