"""Names of what folds compute, after the statements of the spec they belong to."""

from __future__ import annotations

from kgen.folded import Fold, Folded
from kgen.terms import Get, Var, variables
from kgen.tile_record import plain_sum


class Naming:
    """Names by statement. The owner of a fold is the first statement that uses its result."""

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self.users: dict[Var, str] = {}
        self.exact: dict[Var, str] = {}
        for e, name in folded.origin.items():
            if isinstance(e, Get):
                self.exact.setdefault(e.var, name)
            for var in variables(e):
                self.users.setdefault(var, name)
        names = list(folded.origin.values())
        self.order = {name: names.index(name) for name in dict.fromkeys(names)}

    def owner(self, f: Fold) -> str | None:
        """Return the statement a fold belongs to, None if no statement uses it by itself."""
        found = [self.users[v] for v in (*f.states, *(c.var for c in f.carried)) if v in self.users]
        return min(found, key=self.order.__getitem__, default=None)

    def element(self, f: Fold) -> str:
        """Elements are named after their statement; "_log2" where they were scaled for powers of two."""
        name = self.folded.origin.get(f.source)
        return "elements" if name is None else f"{name}_log2" if f.record.scaled else name

    def weight(self, f: Fold) -> str:
        """The weights are named after the statement they make up to a factor (p = softmax[n](s)), if there is one."""
        owner = self.owner(f)
        return owner if owner and owner not in self.folded.math.tensors else "weight"

    def state(self, f: Fold, var: Var) -> str:
        """Return the name of a state or carried sum."""
        part = var.name.split(".", 1)[1]
        if part.startswith("acc"):
            return f"acc_{self.users[var]}" if var in self.users else "acc"
        if not plain_sum(f.record):
            return f"{part}_i"
        owner = self.owner(f)
        return self.exact.get(var) or (f"acc_{owner}" if owner else "acc")
