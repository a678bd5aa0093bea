"""Typed expressions: the one expression language of every stage after parsing.

Nodes are frozen and compare by structure (`span` is ignored), so equal expressions are one key of a `dict` or `set`.
`Load`, `Ref` and `Reduce` occur only until the tile stage has turned them into operations, `Start` only after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeVar

from kgen.source import Span
from kgen.types import I32, DType

T = TypeVar("T")


def _hashed_once(cls: type[T]) -> type[T]:
    """Let each node keep its hash: expressions share parts, and would hash each part once for every use."""
    compute = cls.__hash__

    def __hash__(self: object) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self.__dict__["_hash"] = compute(self)
        return found

    cls.__hash__ = __hash__  # type: ignore[method-assign]
    return cls


@dataclass(frozen=True)
class Expr:
    """Base of all expressions. `dtype` is the type the value is computed in."""

    dtype: DType
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)


@_hashed_once
@dataclass(frozen=True)
class Const(Expr):
    """A literal; for floats also inf, -inf and nan."""

    value: int | float | bool


@_hashed_once
@dataclass(frozen=True)
class Pos(Expr):
    """The position of the current element along an axis (i32)."""

    axis: str


@_hashed_once
@dataclass(frozen=True)
class Start(Expr):
    """Tile IR: the first position of the current tile of an axis (i32, scalar)."""

    axis: str


@_hashed_once
@dataclass(frozen=True)
class Size(Expr):
    """A named size, from an argument's shape or an int argument."""

    name: str


@_hashed_once
@dataclass(frozen=True)
class Param(Expr):
    """A parameter of the op."""

    name: str


@_hashed_once
@dataclass(frozen=True)
class Load(Expr):
    """One element of a tensor; `dtype` is the tensor's storage type."""

    tensor: str
    index: tuple[Expr, ...]


@_hashed_once
@dataclass(frozen=True)
class Ref(Expr):
    """The value of a named statement (an intermediate, or an output read again), at the same positions of its axes."""

    name: str
    axes: tuple[str, ...]


@_hashed_once
@dataclass(frozen=True)
class Apply(Expr):
    """A row of functions.yaml applied to arguments; operators are rows too ("add", "lt", "and", "where", ...)."""

    fn: str
    args: tuple[Expr, ...]


@_hashed_once
@dataclass(frozen=True)
class Cast(Expr):
    """Conversion to `dtype` (round to nearest even)."""

    arg: Expr


@_hashed_once
@dataclass(frozen=True)
class Reduce(Expr):
    """The result `name` (a finish name, e.g. "sum", "softmax") of an accumulator record over `axes` of `arg`.

    Elements whose `guard` is false do not exist. `operands` are the record's extra operands by name.
    Results such as softmax that use the element's weight have the reduced axes free again; all others do not.
    """

    name: str
    record: str
    axes: tuple[str, ...]
    guard: Expr | None
    arg: Expr
    operands: tuple[tuple[str, Expr], ...] = ()
    elementwise: bool = False


@dataclass(frozen=True)
class Var:
    """A value of a kernel: `axes` are its tile axes in order; a scalar has none."""

    name: str
    dtype: DType
    axes: tuple[str, ...]


@_hashed_once
@dataclass(frozen=True)
class Get(Expr):
    """Tile IR: the value of a variable."""

    var: Var


def children(e: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions of `e` (a guard and operands included)."""
    match e:
        case Apply(args=args):
            return args
        case Cast(arg=arg):
            return (arg,)
        case Load(index=index):
            return index
        case Reduce():
            guard = () if e.guard is None else (e.guard,)
            return (e.arg, *guard, *(x for _, x in e.operands))
        case _:
            return ()


def with_children(e: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return `e` with its direct sub-expressions replaced, the same object when nothing changed."""
    if all(a is b for a, b in zip(children(e), new, strict=True)):
        return e
    match e:
        case Apply():
            return replace(e, args=new)
        case Cast():
            return replace(e, arg=new[0])
        case Load():
            return replace(e, index=new)
        case Reduce():
            guarded = e.guard is not None
            operands = tuple((k, x) for (k, _), x in zip(e.operands, new[1 + guarded :], strict=True))
            return replace(e, arg=new[0], guard=new[1] if guarded else None, operands=operands)
        case _:
            return e


def rewrite(e: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite bottom-up: `rule` sees each node after its children, once, and returns a replacement or None."""
    return _rewrite(e, rule, {})


def _rewrite(e: Expr, rule: Callable[[Expr], Expr | None], done: dict[Expr, Expr]) -> Expr:
    known = done.get(e)
    if known is None:
        new = with_children(e, tuple(_rewrite(c, rule, done) for c in children(e)))
        found = rule(new)
        known = done[e] = new if found is None else found
    return known


def walk(e: Expr) -> Iterator[Expr]:
    """Yield `e` and all its sub-expressions, parents first."""
    yield e
    for c in children(e):
        yield from walk(c)


def parts(e: Expr) -> Iterator[Expr]:
    """Yield `e` and its sub-expressions, each once however often it is used, parents first."""
    seen: set[Expr] = set()
    todo = [e]
    while todo:
        n = todo.pop()
        if n not in seen:
            seen.add(n)
            yield n
            todo.extend(reversed(children(n)))


def variables(e: Expr) -> Iterator[Var]:
    """Yield the variables that an expression reads, each once."""
    return (n.var for n in parts(e) if isinstance(n, Get))


@cache
def free_axes(e: Expr) -> frozenset[str]:
    """Return the axes whose position the value of `e` depends on."""
    match e:
        case Pos(axis=axis):
            return frozenset((axis,))
        case Ref(axes=axes):
            return frozenset(axes)
        case Get(var=var):
            return frozenset(var.axes)
        case Reduce():
            inner = free_axes(e.arg) | (free_axes(e.guard) if e.guard is not None else frozenset())
            kept = inner if e.elementwise else inner - frozenset(e.axes)
            return kept.union(*(free_axes(x) for _, x in e.operands))
        case _:
            return frozenset().union(*(free_axes(c) for c in children(e)))


def integer(value: int) -> Const:
    """Return an i32 literal."""
    return Const(I32, value)


def apply(fn: str, *args: Expr, dtype: DType | None = None) -> Apply:
    """Return `fn(args)`, typed as its first argument unless `dtype` is given."""
    return Apply(dtype or args[0].dtype, fn, args)
