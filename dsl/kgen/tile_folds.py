"""Folds of a kernel, computed on demand: in a loop over their stream axes, or at once where their axes are whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kgen.accumulate import Fold, Result
from kgen.algebra import conjunction, conjuncts, disjunction, factors
from kgen.errors import KgenError
from kgen.ir import Assign, Guarded, Init, Loop, Op, Segment, Store
from kgen.terms import Apply, Const, Expr, Get, Pos, Start, Var, free_axes, rewrite, walk
from kgen.tile_record import Step, masked_input, plain_sum, position_of
from kgen.tile_sums import Summand, match_product, sum_into
from kgen.tile_values import Values
from kgen.types import BOOL, I32

MAX_RANK = 2  # a value with more tile axes than this is computed by a serial loop over the reduced one


@dataclass(frozen=True)
class Group:
    """Folds and results that share a loop: the streamed axes, the loops around it, and the pass over those axes."""

    streams: tuple[str, ...]
    outer: tuple[str, ...]
    number: int
    serial: str | None = None


class Folds:
    """Computes the folds of one kernel through `values`, and stores results that need a loop in the right pass."""

    def __init__(self, values: Values, results: tuple[Result, ...]) -> None:
        self.values, self.frame, self.scopes = values, values.frame, values.scopes
        self.folded = values.folded
        self.defined: dict[Var, Var] = {}
        self.weights: dict[str, Expr] = {}
        self.groups: dict[Group, tuple[list[Fold], list[Result]]] = {}
        self.group_of: dict[str, Group] = {}
        for f in self.folded.folds:
            self._enlist(f)
        self.done: set[Group] = set()
        self.later = [r for r in results if not self._enlist_result(r)]
        values.demand = self.demand

    # -- grouping

    def _streams(self, axes: frozenset[str] | tuple[str, ...]) -> tuple[str, ...]:
        order = self.frame.config.loops or tuple(self.folded.math.axes)
        return tuple(a for a in order if a in axes and self.frame.role(a) == "stream")

    def _enlist(self, f: Fold) -> None:
        serial = self._serial_axis(f)
        streams = self._streams(f.axes)
        if not streams and serial is None:
            if f.weight is not None:
                self.values.made_by[f.weight] = f.states[0]
            return
        outer = self._streams(frozenset().union(*(v.axes for v in (*f.states, *(c.var for c in f.carried)))))
        number = 1 + max((g.number for g in self._needed(f) if (g.streams, g.outer) == (streams, outer)), default=0)
        group = Group(streams, outer, number, serial)
        self.group_of[f.name] = group
        self.groups.setdefault(group, ([], []))[0].append(f)

    def _enlist_result(self, r: Result) -> bool:
        free = free_axes(r.expr).union(*(free_axes(i) for i in r.index))
        streams = self._streams(free)
        if not streams:
            return False
        needed = self._needed_by([r.expr, *r.index])
        number = 1 + max((g.number for g in needed if g.streams == streams and not g.outer), default=0)
        self.groups.setdefault(Group(streams, (), number), ([], []))[1].append(r)
        return True

    def _needed(self, f: Fold) -> set[Group]:
        return self._needed_by([f.arg, *([f.guard] if f.guard else []), *(c.expr for c in f.carried)])

    def _needed_by(self, exprs: list[Expr]) -> set[Group]:
        """Return the groups of all streamed folds that the expressions need, also through folds without a loop."""
        found: set[Group] = set()
        for n in (n for e in exprs for n in walk(e) if isinstance(n, Get)):
            f = self.folded.fold_of(n.var)
            if f.name in self.group_of:
                found.add(self.group_of[f.name])
            found |= self._needed(f)
        return found

    def _serial_axis(self, f: Fold) -> str | None:
        """Return the tile axis to walk one by one because a value over it would have too many axes, if any."""
        tile = self.values.tile
        inner = [a for a in f.axes if a in tile]
        if not inner:
            return None
        summed = [f.arg] if not f.carried else [f.arg, *(c.expr for c in f.carried)]
        for e in summed:
            rank = sum(a in tile for a in free_axes(e) | free_axes(f.arg if f.carried else e))
            if rank > MAX_RANK and match_product(self.values, self._parts(f, e), f.axes) is None:
                return inner[-1]
        return None

    def _parts(self, f: Fold, e: Expr) -> tuple[Expr, ...]:
        """Return the factors that a sum over the fold's elements multiplies."""
        if e is f.arg:
            return factors(e)
        weight = Apply(e.dtype, "exp2", (f.arg,))  # stands for any weight: only its axes matter here
        return (weight, *factors(e))

    # -- computing

    def demand(self, var: Var) -> Var:
        """Return the kernel variable that holds a fold's state or carried sum, computing the fold if it is not yet."""
        if "." not in var.name:
            return var
        if var not in self.defined:
            f = self.folded.fold_of(var)
            if f.name in self.group_of:
                self.lower_group(self.group_of[f.name])
            else:
                self._at_once(f)
        return self.defined[var]

    def finish(self) -> None:
        """Store all results: those that need a loop in their pass, the others at the end."""
        for group in [g for g in self.groups if self.groups[g][1]]:
            self.lower_group(group)
        for r in self.later:
            self._store(r)

    def _at_once(self, f: Fold) -> None:
        """Compute a fold whose axes are whole: one tile holds all elements."""
        with self.values.statement(self._owner(f), "state"):
            mask, pred = self._mask(f)
            names = self._new_state(f, None, mask, pred)
            if f.weight is not None and (weight := self.weights.get(f.name)) is not None:
                self.scopes.remember((f.weight, ()), weight, self.scopes.depth(weight))
        for var, e in names.items():
            if not isinstance(e, Get):
                e = self.values.bind(e, self._wish(f, var))
            assert isinstance(e, Get)
            self.defined[var] = e.var

    def lower_group(self, group: Group) -> None:
        """Emit the loop of a group: all its folds and results in one pass."""
        if group in self.done:
            return
        self.done.add(group)
        folds, results = self.groups[group]
        wanted = [x for f in folds for x in (f.arg, *([f.guard] if f.guard else []), *(c.expr for c in f.carried))]
        for needed in self._needed_by([*wanted, *(r.expr for r in results)]) - {group}:
            if set(needed.outer) <= set(group.outer):
                self.lower_group(needed)
        self._loop(group, folds, results)

    def _loop(self, group: Group, folds: list[Fold], results: list[Result]) -> None:
        outside = self.scopes.top
        walked = [*group.streams, *([f"{group.serial}_each"] if group.serial else [])]
        states = {f.name: self._declare(f) for f in folds}
        for axis in walked:
            self.scopes.push(axis)
        for var in (v for s in states.values() for v in s.values()):
            self.scopes.define(var, self.scopes.top)
        guards = [self._step(self._renamed(f, group.serial), states[f.name]) for f in folds]
        for r in results:
            self._store(r)
        self._close(group, walked, folds, bool(results), tuple(g for gs in guards for g in gs))
        for f in folds:
            for var, kernel_var in states[f.name].items():
                self.scopes.define(kernel_var, outside)
                self.defined[var] = kernel_var

    def _close(self, group: Group, walked: list[str], folds: list[Fold], stores: bool, guards: tuple[Expr, ...]) -> None:
        """Wrap the finished bodies into loops, innermost first. Only the innermost is cut by the guards."""
        innermost = True
        for axis in reversed(walked):
            body = tuple(self.scopes.pop())
            with self.values.statement(self._owner(folds[0]) if folds else None, "loop"):
                loop = self._make_loop(axis, group, body, folds, stores, guards if innermost else ())
            self.scopes.emit(self.scopes.top, loop)
            innermost = False

    def _make_loop(
        self, axis: str, group: Group, body: tuple[Op, ...], folds: list[Fold], stores: bool, guards: tuple[Expr, ...]
    ) -> Loop:
        label = self.values.label()
        if group.serial and axis == f"{group.serial}_each":
            lo, hi = self._serial_range(group.serial)
            return Loop(label, axis, 1, (Segment(lo, hi, "plain", body),))
        extent = self.frame.axis(axis).extent
        lo, hi = self.values.range_of.get(axis, (Const(I32, 0), extent))
        conditions = [f.guard for f in folds] if axis == group.streams[-1] else [None]
        whole = stores or any(c is None for c in conditions)
        hull = None if whole else disjunction([c for c in conditions if c is not None])
        interior = conjunction(conditions)
        validity = self.frame.validity(axis)
        guarded = Guarded(lo, hi, hull, interior, guards, validity)
        return Loop(label, axis, self.frame.step(axis), (Segment(lo, hi, "masked", body),), guarded)

    def _serial_range(self, axis: str) -> tuple[Expr, Expr]:
        extent = self.frame.axis(axis).extent
        if self.frame.role(axis) != "stream":
            return Const(I32, 0), extent
        start = Start(I32, axis)
        end = Apply(I32, "add", (start, Const(I32, self.frame.step(axis))))
        return start, Apply(I32, "minimum", (end, extent))

    def _renamed(self, f: Fold, serial: str | None) -> Fold:
        """Walk the serial axis by a scalar position of its own."""
        if serial is None:
            return f

        def rule(e: Expr) -> Expr | None:
            return Pos(I32, f"{serial}_each") if isinstance(e, Pos) and e.axis == serial else None

        axes = tuple(f"{a}_each" if a == serial else a for a in f.axes)
        carried = tuple(replace(c, expr=rewrite(c.expr, rule)) for c in f.carried)
        guard = None if f.guard is None else rewrite(f.guard, rule)
        return replace(f, axes=axes, arg=rewrite(f.arg, rule), guard=guard, carried=carried)

    # -- one step

    def _declare(self, f: Fold) -> dict[Var, Var]:
        """Emit the initial state of a fold and return its mutable variables."""
        declared = {}
        with self.values.statement(self._owner(f), "init"):
            identities = [Const(s.dtype, s.identity) for s in f.record.states]
            zeros = [Const(c.var.dtype, 0.0) for c in f.carried]
            for var, value in zip((*f.states, *(c.var for c in f.carried)), (*identities, *zeros), strict=True):
                axes = tuple(a for a in self.values.tile if a in var.axes)
                mine = Var(self.values.names.new(self._wish(f, var)), var.dtype, axes)
                self.scopes.emit(self.scopes.top, Init(self.values.label(), mine, value))
                declared[var] = mine
        return declared

    def _step(self, f: Fold, state: dict[Var, Var]) -> tuple[Expr, ...]:
        """Emit one iteration of a fold; return the lowered guard's parts (true in the loop's interior)."""
        with self.values.statement(self._owner(f), "state"):
            mask, pred = self._mask(f)
            new = self._new_state(f, state, mask, pred)
            for var in f.states:
                if new[var] != Get(var.dtype, state[var]):
                    self.scopes.emit(self.scopes.top, Assign(self.values.label("state"), state[var], new[var]))
        return conjuncts(None if f.guard is None else self.values.lower(f.guard))

    def _mask(self, f: Fold) -> tuple[Expr | None, tuple[Expr, ...]]:
        """Return the mask of a fold's elements (None if all exist), and the predicate for its loads."""
        with self.values.statement(None, "mask"):
            guard = None if f.guard is None else self.values.lower(f.guard)
            inner = [a for a in f.axes if a in self.values.tile]
            valid = [self.frame.validity(a) for a in inner]
            mask = conjunction([guard, *valid])
            if mask is not None and len(conjuncts(mask)) > 1:
                mask = self.values.bind(mask, "mask")
        return mask, () if guard is None else (guard,)

    def _new_state(
        self, f: Fold, state: Mapping[Var, Var] | None, mask: Expr | None, pred: tuple[Expr, ...]
    ) -> dict[Var, Expr]:
        if plain_sum(f.record):
            return self._plain_sum(f, state, mask, pred)
        arg = self.values.lower(f.arg, pred)
        z, rest = masked_input(self.values, f, arg, mask, self._element_name(f))
        old = None if state is None else {s.name: _get(state[v]) for s, v in zip(f.record.states, f.states, strict=True)}
        step = Step(self.values, f, z, rest, old, self._weight_name(f))
        if any(isinstance(n, Get) and n.var.name == "index" for _, e in f.record.lift for n in walk(e)):
            step.env["index"] = position_of(self._single_axis(f))
        new = step.run()
        if "weight" in step.env:
            self.weights[f.name] = step.env["weight"]
        out = {v: new[s.name] for s, v in zip(f.record.states, f.states, strict=True)}
        for c in f.carried:
            out[c.var] = self._carry(f, step, c.var, c.expr, state, rest, pred)
        return out

    def _single_axis(self, f: Fold) -> tuple[str, ...]:
        if len(f.axes) != 1:
            raise KgenError(f"{f.record.name} reads positions, so it reduces over one axis, not {', '.join(f.axes)}")
        return f.axes

    def _plain_sum(
        self, f: Fold, state: Mapping[Var, Var] | None, mask: Expr | None, pred: tuple[Expr, ...]
    ) -> dict[Var, Expr]:
        (var,) = f.states
        summand = Summand(factors(f.arg), f.axes, mask, pred, self._wish(f, var) if state is None else "sum_tile")
        return {var: sum_into(self.values, summand, state[var] if state is not None else None)}

    def _carry(
        self, f: Fold, step: Step, var: Var, e: Expr, state: Mapping[Var, Var] | None, mask: Expr | None, pred: tuple[Expr, ...]
    ) -> Expr:
        """Emit acc = acc * rescale + sum(weight * e)."""
        weight = step.need("weight")
        if state is not None:
            mine = _get(state[var])
            with self.values.statement(None, "rescale"):
                scaled = Apply(mine.dtype, "mul", (mine, step.need("rescale")))
                self.scopes.emit(self.scopes.top, Assign(self.values.label(), state[var], scaled))
        parts = tuple(p for p in factors(e) if p != Const(e.dtype, 1.0))
        with self.values.statement(None, "carry"):
            summand = Summand((weight, *parts), f.axes, mask, pred, self._wish(f, var), weight)
            return sum_into(self.values, summand, state[var] if state is not None else None)

    # -- results

    def _store(self, r: Result) -> None:
        values, tensor = self.values, self.folded.math.tensors[r.stmt.tensor or ""]
        with values.statement(r.stmt.name, "finish"):
            value = values.lower(r.expr)
            index = tuple(values.lower(i) for i in r.index)
        axes = values.axes(*index)
        where = conjunction([*(self.frame.validity(a) for a in axes), *self._once(r)])
        with values.statement(r.stmt.name, "store"):
            self.scopes.emit(self.scopes.top, Store(values.label(), tensor.name, index, value, where))

    def _once(self, r: Result) -> list[Expr]:
        """Programs that differ only in grid axes the result does not have compute it alike: the first one stores it."""
        used = frozenset().union(*(free_axes(i) for i in r.index))
        idle = [a for a, _ in self.frame.config.grid if a not in used]
        zero = Const(I32, 0)
        return [Apply(BOOL, "eq", (Start(I32, a) if a in self.values.tile else Pos(I32, a), zero)) for a in idle]

    # -- names and labels

    def _owner(self, f: Fold) -> str | None:
        """Return the statement a fold belongs to: the first one that uses its result."""
        for stmt_expr, name in self.folded.origin.items():
            if any(isinstance(n, Get) and n.var.name.startswith(f"{f.name}.") for n in walk(stmt_expr)):
                return name
        return None

    def _element_name(self, f: Fold) -> str:
        """Elements are named after their statement; "_log2" where they were scaled for powers of two."""
        name = self.folded.origin.get(f.source)
        return "elements" if name is None else f"{name}_log2" if f.record.scaled else name

    def _weight_name(self, f: Fold) -> str:
        """The weights are named after the statement they make up to a factor (p = softmax[n](s)), if there is one."""
        owner = self._owner(f)
        return owner if owner and owner not in self.folded.math.tensors else "weight"

    def _wish(self, f: Fold, var: Var) -> str:
        part = var.name.split(".", 1)[1]
        owner = self._owner(f)
        if part.startswith("acc"):
            users = [n for e, n in self.folded.origin.items() if any(isinstance(x, Get) and x.var == var for x in walk(e))]
            return f"acc_{users[0]}" if users else "acc"
        if plain_sum(f.record):
            exact = next((n for e, n in self.folded.origin.items() if e == Get(var.dtype, var)), None)
            return exact or (f"acc_{owner}" if owner else "acc")
        return f"{part}_i"


def _get(var: Var) -> Get:
    return Get(var.dtype, var)

