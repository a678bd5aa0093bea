"""Steps: how the elements of one tile join the states and carried sums of a fold."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.algebra import conjunction, conjuncts, factors
from kgen.errors import Diagnostic, SpecError
from kgen.folded import Carried, Fold
from kgen.ir import Assign
from kgen.terms import Apply, Cast, Const, Expr, Get, Var, walk
from kgen.tile_naming import Naming
from kgen.tile_record import Step, masked_input, plain_sum, position_of
from kgen.tile_sums import Summand, sum_into
from kgen.tile_values import Predicate, Values
from kgen.types import DType

States = Mapping[Var, Var]  # the kernel variable of each state and carried sum


class Steps:
    """Emits the steps of folds through `values`."""

    def __init__(self, values: Values, naming: Naming) -> None:
        self.values, self.naming = values, naming

    def step(self, f: Fold, state: States) -> Predicate:
        """Emit one iteration of a fold; return the lowered guard's parts (true in the loop's interior)."""
        scopes = self.values.scopes
        with self.values.statement(self.naming.owner(f), "state"):
            new, guard, _ = self._join(f, state)
            for var in f.states:
                if new[var] != get(state[var]):
                    scopes.emit(scopes.top, Assign(self.values.label("state"), state[var], new[var]))
        return guard

    def at_once(self, f: Fold) -> tuple[dict[Var, Var], Expr | None]:
        """Emit a fold whose axes are whole: one tile holds all elements. Return its results and its weight, if any."""
        found = {}
        with self.values.statement(self.naming.owner(f), "state"):
            new, _, weight = self._join(f, None)
            for var, e in new.items():
                bound = e if isinstance(e, Get) else self.values.bind(e, self.naming.state(f, var))
                assert isinstance(bound, Get)
                found[var] = bound.var
        return found, weight

    def _join(self, f: Fold, state: States | None) -> tuple[dict[Var, Expr], Predicate, Expr | None]:
        """Return new values of states and sums, the guard's parts, and the elements' weight if it was needed."""
        mask, guard = self._mask(f)
        if plain_sum(f.record):
            (var,) = f.states
            wish = self.naming.state(f, var) if state is None else "sum_tile"
            summand = Summand(factors(f.arg), f.axes, mask, guard, wish)
            return {var: sum_into(self.values, summand, state[var] if state is not None else None)}, guard, None
        step = self._element_step(f, state, mask, guard)
        new = step.run()
        found = {v: new[s.name] for s, v in zip(f.record.states, f.states, strict=True)}
        for c in f.carried:
            found[c.var] = self._carry(f, step, c, state, mask, guard)
        return found, guard, step.env.get("weight")

    def _mask(self, f: Fold) -> tuple[Expr | None, Predicate]:
        """Return the mask of a fold's elements (None if all exist), and the lowered parts of its guard."""
        with self.values.statement(None, "mask"):
            guard = None if f.guard is None else self.values.lower(f.guard)
            inner = [a for a in f.axes if a in self.values.tile]
            mask = conjunction([guard, *(self.values.frame.validity(a) for a in inner)])
            if mask is not None and len(conjuncts(mask)) > 1:
                mask = self.values.bind(mask, "mask")
        return mask, conjuncts(guard)

    def _element_step(self, f: Fold, state: States | None, mask: Expr | None, guard: Predicate) -> Step:
        arg = self.values.lower(f.arg, guard)
        z, rest = masked_input(self.values, f, arg, mask, self.naming.element(f))
        names = [s.name for s in f.record.states]
        old = None if state is None else {n: get(state[v]) for n, v in zip(names, f.states, strict=True)}
        step = Step(self.values, f, z, rest, old, self.naming.weight(f))
        if any(isinstance(n, Get) and n.var.name == "index" for _, e in f.record.lift for n in walk(e)):
            step.env["index"] = position_of(_single_axis(f))
        return step

    def _carry(
        self, f: Fold, step: Step, c: Carried, state: States | None, mask: Expr | None, guard: Predicate
    ) -> Expr:
        """Emit acc = acc * rescale + sum(weight * expr).

        A weight is 0 for an element that does not exist, but what it weighs may be infinite there: the sum selects.
        """
        values, weight = self.values, converted(step.need("weight"), c.var.dtype)
        if step.mask is not None:
            weight = values.bind(Apply(weight.dtype, "where", (step.mask, weight, Const(weight.dtype, 0.0))), "weight")
        mine = None if state is None else state[c.var]
        if mine is not None:
            with values.statement(self.naming.users.get(c.var), "rescale"):
                scaled = Apply(mine.dtype, "mul", (get(mine), converted(step.need("rescale"), mine.dtype)))
                values.scopes.emit(values.scopes.top, Assign(values.label(), mine, scaled))
        others = tuple(converted(p, c.var.dtype) for p in factors(c.expr) if p != Const(c.expr.dtype, 1.0))
        with values.statement(self.naming.users.get(c.var), "carry"):
            wish = self.naming.state(f, c.var)
            summand = Summand((weight, *others), f.axes, mask, guard, wish, weight, c.cast)
            return sum_into(values, summand, mine)


def _single_axis(f: Fold) -> tuple[str, ...]:
    if len(f.axes) != 1:
        message = f"{f.record.name} reads positions, so it reduces over one axis, not over {' and '.join(f.axes)}"
        raise SpecError([Diagnostic(f.span, message)])
    return f.axes


def converted(e: Expr, dtype: DType) -> Expr:
    """Return the value in another type."""
    return e if e.dtype == dtype else Cast(dtype, e)


def get(var: Var) -> Get:
    """Return the value of a variable."""
    return Get(var.dtype, var)
