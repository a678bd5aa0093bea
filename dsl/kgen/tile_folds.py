"""Folds of a kernel, computed on demand: in a loop over their stream axes, or at once where their axes are whole."""

from __future__ import annotations

from kgen.algebra import conjunction, disjunction
from kgen.folded import Fold, Result
from kgen.ir import Guarded, Init, Loop, Op, Segment, Store
from kgen.terms import Apply, Const, Expr, Get, Load, Pos, Start, Var, free_axes, rewrite
from kgen.tile_naming import Naming
from kgen.tile_passes import Group, Passes
from kgen.tile_steps import Steps, get
from kgen.tile_values import Predicate, Values
from kgen.types import BOOL, I32


class Folds:
    """Computes the folds of one kernel through `values`, and stores results that need a loop in the right pass."""

    def __init__(self, values: Values, results: tuple[Result, ...]) -> None:
        self.values, self.frame, self.scopes = values, values.frame, values.scopes
        self.naming = Naming(values.folded)
        self.steps = Steps(values, self.naming)
        self.passes = Passes(values.folded, values.frame, results)
        values.demand = self.demand
        for f in values.folded.folds:
            if f.weight is not None and f.name not in self.passes.of:
                values.made_by[f.weight] = f.states[0]

    def demand(self, var: Var) -> Var:
        """Return the kernel variable that holds a fold's state or carried sum, computing the fold if it is not yet."""
        if "." not in var.name:
            return var
        known = self.scopes.known(("state", var))
        if known is None:
            f = self.values.folded.fold_of(var)
            if f.name in self.passes.of:
                self.lower_group(self.passes.of[f.name])
            else:
                self._at_once(f)
            known = self.scopes.known(("state", var))
        assert isinstance(known, Get)
        return known.var

    def finish(self) -> None:
        """Store all results: those that need a loop in their pass, the others at the end."""
        for group in [g for g, members in self.passes.groups.items() if members.results]:
            self.lower_group(group)
        for r in self.passes.later:
            self._store(r)

    def finished(self, group: Group | None, states: dict[Var, Var], depth: int) -> None:
        """Remember what a fold's loop has computed, for as long as the block at `depth` is open."""
        for var, mine in states.items():
            self.scopes.define(mine, depth)
            self.scopes.remember(("state", var), get(mine), depth)
        if group is not None:
            self.scopes.remember(("group", group), Const(BOOL, True), depth)

    def _at_once(self, f: Fold) -> None:
        found, weight = self.steps.at_once(f)
        for var, mine in found.items():
            self.scopes.remember(("state", var), get(mine), self.scopes.depth(get(mine)))
        if f.weight is not None and weight is not None:
            self.scopes.remember((f.weight, ()), weight, self.scopes.depth(weight))

    # -- loops

    def lower_group(self, group: Group) -> None:
        """Emit the loops of a group, after those it needs: all its folds and results in one pass."""
        if self.scopes.known(("group", group)) is not None:
            return
        members, outside = self.passes.groups[group], self.scopes.top
        needed = [g for g in self.passes.groups if g in self.passes.before(members.needs)]
        self._lower_open(needed)
        states = {f.name: self.declare(f) for f in members.folds}
        for axis in group.streams:
            self._lower_open(needed)
            self.scopes.push(axis)
        merged = {var: mine for s in states.values() for var, mine in s.items()}
        for mine in merged.values():
            self.scopes.define(mine, self.scopes.top)
        guards = [p for f in members.folds for p in self.steps.step(f, states[f.name])]
        for r in members.results:
            self._store(r)
        self._close(group, members.folds, bool(members.results), tuple(guards))
        self.finished(group, merged, outside)

    def _lower_open(self, groups: list[Group]) -> None:
        """Lower those groups whose outer loops are open here."""
        walked = {b.axis for b in self.scopes.stack}
        for group in groups:
            if walked.issuperset(group.outer):
                self.lower_group(group)

    def _close(self, group: Group, folds: list[Fold], stores: bool, guards: Predicate) -> None:
        """Wrap the finished bodies into loops, innermost first. Only the innermost is cut by the guards."""
        whole = Guarded(Const(I32, 0), Const(I32, 0), None, None, (), None)
        inner = _guarded(folds, stores, guards)
        for axis in reversed(group.streams):
            body = tuple(self.scopes.pop())
            with self.values.statement(self.naming.owner(folds[0]) if folds else None, "loop"):
                self.scopes.emit(self.scopes.top, self._make_loop(axis, body, inner))
            inner = whole

    def _make_loop(self, axis: str, body: tuple[Op, ...], g: Guarded) -> Loop:
        lo, hi = self.values.range_of.get(axis, (Const(I32, 0), self.frame.axis(axis).extent))
        hull, interior = (None if c is None else self._looked_up(c, axis) for c in (g.hull, g.interior))
        guarded = Guarded(lo, hi, hull, interior, g.guards, self.frame.validity(axis))
        return Loop(self.values.label(), axis, self.frame.step(axis), (Segment(lo, hi, "masked", body),), guarded)

    def _looked_up(self, condition: Expr, axis: str) -> Expr:
        """Put variables for the lookups that are one number for the whole loop: its ends may depend on them."""
        varying = {axis, *self.values.tile}

        def rule(e: Expr) -> Expr | None:
            return self.values.lower(e) if isinstance(e, Load) and not free_axes(e) & varying else None

        return rewrite(condition, rule)

    def declare(self, f: Fold) -> dict[Var, Var]:
        """Emit the initial state of a fold and return its mutable variables."""
        declared = {}
        with self.values.statement(self.naming.owner(f), "init"):
            identities = [Const(s.dtype, s.identity) for s in f.record.states]
            zeros = [Const(c.var.dtype, 0.0) for c in f.carried]
            for var, value in zip((*f.states, *(c.var for c in f.carried)), (*identities, *zeros), strict=True):
                axes = tuple(a for a in self.values.tile if a in var.axes)
                mine = Var(self.values.names.new(self.naming.state(f, var)), var.dtype, axes)
                self.scopes.emit(self.scopes.top, Init(self.values.label(), mine, value))
                declared[var] = mine
        return declared

    # -- results

    def _store(self, r: Result) -> None:
        values, tensor = self.values, r.stmt.tensor
        assert tensor is not None
        with values.statement(r.stmt.name, "finish"):
            value = values.lower(r.expr)
            index = tuple(values.lower(i) for i in r.index)
        axes = values.axes(*index)
        used = frozenset().union(*(free_axes(i) for i in r.index))
        where = conjunction([*(self.frame.validity(a) for a in axes), *once(values, used)])
        with values.statement(r.stmt.name, "store"):
            self.scopes.emit(self.scopes.top, Store(values.label(), tensor, index, value, where))


def once(values: Values, used: frozenset[str]) -> list[Expr]:
    """Programs that differ only in grid axes a result does not have compute it alike: the first one stores it."""
    idle = [a for a, _ in values.frame.config.grid if a not in used]
    first = [Start(I32, a) if a in values.tile else Pos(I32, a) for a in idle]
    return [Apply(BOOL, "eq", (p, Const(I32, 0))) for p in first]


def _guarded(folds: list[Fold], stores: bool, guards: Predicate) -> Guarded:
    """Return what the guards of all folds of a loop say together; a loop that stores visits every tile."""
    conditions = [f.guard for f in folds]
    whole = stores or None in conditions
    hull = None if whole else disjunction([c for c in conditions if c is not None])
    return Guarded(Const(I32, 0), Const(I32, 0), hull, conjunction(conditions), guards, None)
