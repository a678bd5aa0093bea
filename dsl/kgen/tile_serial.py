"""Serial loops: a reduction over values of too many axes walks one of them position by position, on smaller values.

No value gets more tile axes than backends hold well; a sum that is a Dot needs no such value. The walked axis becomes
an axis of its own (`k_each`), a stream of tile 1, in the fold and in copies of the folds that it needs there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kgen.algebra import conjuncts, factors
from kgen.folded import Carried, Fold, Folded
from kgen.terms import Apply, Expr, Get, Pos, Var, children, free_axes, with_children
from kgen.tile_frame import Frame
from kgen.tile_products import Parts, match_product
from kgen.tile_record import plain_sum
from kgen.types import I32, DType

MAX_RANK = 2  # a value with more tile axes than this is computed by a serial loop over the reduced one


def serialise(folded: Folded, frame: Frame) -> tuple[Folded, Frame]:
    """Return folds that need no values of more than MAX_RANK tile axes, and the frame with the axes they walk."""
    work = _Serial(folded, frame, dict(folded.origin), dict(folded.casts))
    for f in folded.folds:
        work.add(f)
    folds = tuple(work.folds.values())
    return replace(folded, math=work.frame.math, folds=folds, origin=work.origin, casts=work.casts), work.frame


@dataclass
class _Serial:
    folded: Folded
    frame: Frame
    origin: dict[Expr, str]
    casts: dict[Expr, DType]
    folds: dict[str, Fold] = field(default_factory=dict)

    def add(self, f: Fold) -> None:
        while (axis := serial_axis(self.frame, f)) is not None:
            f = self._walked(f, axis)
        self.folds[f.name] = f

    def _walked(self, f: Fold, axis: str) -> Fold:
        """Return the fold with `axis` walked by a scalar position of its own."""
        each, self.frame = self.frame.walked_singly(axis)
        carried = tuple(replace(c, expr=self._renamed(c.expr, axis, each)) for c in f.carried)
        guard = None if f.guard is None else self._renamed(f.guard, axis, each)
        return replace(
            f,
            axes=tuple(each if a == axis else a for a in f.axes),
            guard=guard,
            source=self._renamed(f.source, axis, each),
            arg=self._renamed(f.arg, axis, each),
            carried=carried,
        )

    def _renamed(self, e: Expr, axis: str, each: str) -> Expr:
        if axis not in free_axes(e):
            return e
        match e:
            case Pos():
                new: Expr = Pos(I32, each)
            case Get(var=var):
                new = Get(var.dtype, self._copied(var, axis, each))
            case _:
                new = with_children(e, tuple(self._renamed(c, axis, each) for c in children(e)))
        if e in self.origin:
            self.origin.setdefault(new, self.origin[e])
        if e in self.casts:
            self.casts.setdefault(new, self.casts[e])
        return new

    def _copied(self, var: Var, axis: str, each: str) -> Var:
        """Return the variable of a copy, along the serial axis, of the fold that `var` belongs to."""
        f = next(f for f in self.folds.values() if var in (*f.states, *(c.var for c in f.carried)))
        name = f"{f.name}_{each}"
        if name not in self.folds:
            self.add(self._copy(f, name, axis, each))
        return _moved(var, name, axis, each)

    def _copy(self, f: Fold, name: str, axis: str, each: str) -> Fold:
        def put(e: Expr) -> Expr:
            return self._renamed(e, axis, each)

        return replace(
            f,
            name=name,
            guard=None if f.guard is None else put(f.guard),
            source=put(f.source),
            arg=put(f.arg),
            states=tuple(_moved(v, name, axis, each) for v in f.states),
            carried=tuple(Carried(_moved(c.var, name, axis, each), put(c.expr), c.cast) for c in f.carried),
            operands=tuple((k, put(x)) for k, x in f.operands),
            weight=None,
        )


def _moved(var: Var, fold: str, axis: str, each: str) -> Var:
    axes = tuple(each if a == axis else a for a in var.axes)
    return Var(f"{fold}.{var.name.split('.', 1)[1]}", var.dtype, axes)


def serial_axis(frame: Frame, f: Fold) -> str | None:
    """Return the tile axis to walk one by one because a value over it would have too many axes, if any."""
    inner = [a for a in f.axes if a in frame.tile]
    if not inner:
        return None
    guard = conjuncts(f.guard)
    own = free_axes(f.arg).union(*(free_axes(g) for g in guard))
    is_dot = plain_sum(f.record) and match_product(frame, factors(f.arg), f.axes, guard) is not None
    if _rank(frame, own) > MAX_RANK and not is_dot:
        return inner[-1]
    for c in f.carried:
        too_many = _rank(frame, own | free_axes(c.expr)) > MAX_RANK
        if too_many and match_product(frame, _weighted(f, c.expr), f.axes) is None:
            return inner[-1]
    return None


def _rank(frame: Frame, axes: frozenset[str]) -> int:
    return sum(a in frame.tile for a in axes)


def _weighted(f: Fold, e: Expr) -> Parts:
    """Return the factors of a carried sum; the first stands for the weight: only its axes matter here."""
    weight = f.arg if f.guard is None else Apply(f.arg.dtype, "where", (f.guard, f.arg, f.arg))
    return (weight, *factors(e))
