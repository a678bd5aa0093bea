"""Lower expressions: loads become LoadTile, shared and invariant parts Let, each in the outermost possible block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kgen.algebra import conjunction, less
from kgen.folded import Folded
from kgen.ir import Label, Let, LoadTile
from kgen.terms import (
    Apply,
    Cast,
    Const,
    Expr,
    Get,
    Load,
    Param,
    Pos,
    Size,
    Start,
    Var,
    children,
    free_axes,
    walk,
    with_children,
)
from kgen.tile_frame import Frame
from kgen.tile_names import Names
from kgen.tile_scope import Scopes
from kgen.types import BOOL, I32

_LEAVES = (Const, Pos, Start, Size, Param, Get)
Predicate = tuple[Expr, ...]


class Values:
    """Lowers expressions of one kernel. `demand` gives the kernel variable that holds a fold's result."""

    def __init__(self, frame: Frame, folded: Folded, scopes: Scopes, names: Names) -> None:
        self.frame, self.folded, self.scopes, self.names = frame, folded, scopes, names
        self.tile = frame.tile
        self.demand: Callable[[Var], Var] = lambda var: var
        self.range_of: dict[str, tuple[Expr, Expr]] = {}  # what part of a stream axis this kernel walks, if not all
        self.made_by: dict[Expr, Var] = {}  # expressions that computing a fold makes anyway: its elements' weights
        self._stmt: list[str] = []
        self._part = "compute"
        self._uses = _count_uses(folded)
        self._ids = {s.name: s.id for s in folded.math.statements}

    # -- labels

    @contextmanager
    def statement(self, name: str | None, part: str | None = None) -> Iterator[None]:
        """Label what is emitted inside with a statement's id (None: the current one) and a part."""
        old = self._part
        self._part = part or old
        if name is not None:
            self._stmt.append(name)
        yield
        if name is not None:
            self._stmt.pop()
        self._part = old

    def label(self, part: str | None = None) -> Label:
        stmts = (self._ids[self._stmt[-1]],) if self._stmt else ()
        return Label(stmts, part or self._part)

    # -- expressions

    def lower(self, e: Expr, pred: Predicate = ()) -> Expr:
        """Return `e` over kernel variables; `pred` predicates loads that are not provably in bounds."""
        key = (e, pred if self._risky(e) else ())
        if e in self.made_by:
            self.demand(self.made_by[e])
        known = self.scopes.known(key)
        if known is not None:
            return known
        name = self.folded.origin.get(e)
        with self.statement(name if not isinstance(e, _LEAVES) else None):
            value = self._node(e, pred)
            if isinstance(value, Apply | Cast) and (name or self._uses[e] > 1) and self._worth_naming(value):
                value = self.bind(value, self._wish(name, value))
        self.scopes.remember(key, value, self.scopes.depth(value))
        return value

    def _wish(self, name: str | None, value: Expr) -> str:
        if name is None:
            return _wish(value)
        return f"{name}_tile" if name in self.folded.math.tensors else name

    def _worth_naming(self, e: Expr) -> bool:
        return bool(self.axes(e)) or e.dtype.is_float

    def _node(self, e: Expr, pred: Predicate) -> Expr:
        match e:
            case Get(var=var):
                return Get(var.dtype, self.demand(var))
            case Load():
                return Get(e.dtype, self.load(e, pred))
            case Apply(fn="where", args=(c, a, b)) if self._risky(a) or self._risky(b):
                cond = self.lower(c, pred)
                yes = self.lower(a, (*pred, cond))
                no = self.lower(b, (*pred, Apply(BOOL, "not", (cond,))))
                return self._joined(e, (cond, yes, no))
            case Apply() | Cast():
                return self._joined(e, tuple(self.lower(c, pred) for c in children(e)))
            case _:
                return e

    def _joined(self, e: Expr, parts: tuple[Expr, ...]) -> Expr:
        """Join lowered operands; an operand that is invariant, or has fewer axes, is computed once before."""
        whole = with_children(e, parts)
        depth, axes = self.scopes.depth(whole), set(self.axes(whole))
        return with_children(whole, tuple(self._hoisted(p, depth, axes) for p in parts))

    def _hoisted(self, part: Expr, depth: int, axes: set[str]) -> Expr:
        if not isinstance(part, Apply | Cast) or not _computes(part):
            return part
        known = self.scopes.known(part)
        if known is not None:
            return known
        mine = set(self.axes(part))
        invariant = self.scopes.depth(part) < depth and (mine or part.dtype.is_float)
        if not invariant and not (mine and mine < axes):
            return part
        bound = self.bind(part, _wish(part))
        self.scopes.remember(part, bound, self.scopes.depth(bound))
        return bound

    def bind(self, value: Expr, wish: str, *, axes: Sequence[str] | None = None, part: str | None = None) -> Expr:
        """Emit `wish = value` in the outermost block possible and return the variable."""
        depth = self.scopes.depth(value)
        var = Var(self.names.new(wish), value.dtype, tuple(axes) if axes is not None else self.axes(value))
        self.scopes.emit(depth, Let(self.label(part), var, value))
        self.scopes.define(var, depth)
        return Get(var.dtype, var)

    def axes(self, *exprs: Expr) -> tuple[str, ...]:
        """Return the tile axes of lowered expressions, in the spec's order."""
        free = frozenset().union(*(free_axes(e) for e in exprs))
        return tuple(a for a in self.tile if a in free)

    # -- loads

    def load(self, e: Load, pred: Predicate = (), *, natural: bool = False, where: Predicate = ()) -> Var:
        """Emit the load of a tile (once per block and predicate) and return its variable, of the storage type.

        It is 0 where a position is not valid or a condition in `where` is false; `pred` joins where an index needs it.
        Axes are in the spec's order, or, `natural`, in that of the tensor's dims (for Dot operands, read in any order).
        """
        index = tuple(self.lower(i, pred) for i in e.index)
        axes = self._natural(index) if natural else self.axes(*index)
        fitting = [p for p in pred if set(self.axes(p)) <= set(axes)]
        extra = (*fitting, *self._bounds(e, index)) if self._risky(e) else ()
        exists = conjunction([*(self.frame.validity(a) for a in axes), *extra, *where])
        key = ("load", e.tensor, index, exists, axes)
        known = self.scopes.known(key)
        if isinstance(known, Get):
            return known.var
        depth = max((self.scopes.depth(x) for x in (*index, *([exists] if exists else []))), default=0)
        var = Var(self.names.new(f"{e.tensor}_tile" if axes else f"{e.tensor}_value"), e.dtype, axes)
        self.scopes.emit(depth, LoadTile(self.label("load"), var, e.tensor, index, exists))
        self.scopes.define(var, depth)
        self.scopes.remember(key, Get(var.dtype, var), depth)
        return var

    def _natural(self, index: tuple[Expr, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a for i in index for a in self.axes(i)))

    def _bounds(self, e: Load, lowered: tuple[Expr, ...]) -> list[Expr]:
        """Conditions that keep the indices that are not provably in bounds inside the tensor."""
        dims = self.folded.math.tensors[e.tensor].dims
        tests: list[Expr] = []
        for written, index, extent in zip(e.index, lowered, dims, strict=True):
            if not self.frame.in_bounds(written, extent):
                tests += [Apply(BOOL, "ge", (index, Const(I32, 0))), less(index, extent)]
        return tests

    def _risky(self, e: Expr) -> bool:
        """Does the expression load at an index that is not provably inside the tensor?"""
        return any(isinstance(n, Load) and not self._safe(n) for n in walk(e))

    def _safe(self, e: Load) -> bool:
        dims = self.folded.math.tensors[e.tensor].dims
        return all(self.frame.in_bounds(i, d) for i, d in zip(e.index, dims, strict=True))


def _computes(e: Expr) -> bool:
    """Is there an operation worth a name (not just a conversion or a sign of a leaf)?"""
    return any(isinstance(n, Apply) and n.fn != "neg" for n in walk(e))


def _wish(e: Expr) -> str:
    leaf = next((n for n in walk(e) if isinstance(n, Get | Param | Pos)), None)
    name = leaf.var.name if isinstance(leaf, Get) else getattr(leaf, "name", getattr(leaf, "axis", "t"))
    match e:
        case Apply(fn="where", args=(Apply(fn="eq"), _, _)):
            return f"{name}_safe"
        case Apply(fn="mul") if not free_axes(e):
            return f"{name}_scaled"
        case _ if e.dtype.is_int:
            return f"{name}_shifted"
        case _ if e.dtype is BOOL:
            return f"{name}_ok"
        case _:
            return f"{name}_t"


def _count_uses(folded: Folded) -> Counter[Expr]:
    """Count the distinct parents of every sub-expression."""
    uses: Counter[Expr] = Counter()
    seen: set[Expr] = set()
    todo = [r.expr for r in folded.results] + [x for f in folded.folds for x in (f.arg, *(c.expr for c in f.carried))]
    uses.update(todo)
    while todo:
        e = todo.pop()
        if e in seen:
            continue
        seen.add(e)
        uses.update(children(e))
        todo.extend(children(e))
    return uses
