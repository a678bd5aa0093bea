"""The resolved spec: what a kernel computes, typed, every name bound. Made by resolve, read by all later stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kgen.source import Source, Span
from kgen.terms import Expr, Reduce, walk
from kgen.types import DType


@dataclass(frozen=True)
class Axis:
    """A named axis. `extent` is an i32 expression over sizes; `choices` its allowed values if it is static (`in:`).

    `tile`, `stream` and `split` are the spec's default structure; `configure` decides what holds for a target.
    """

    name: str
    extent: Expr
    choices: tuple[int, ...] | None = None
    tile: int | str | None = None
    stream: bool = False
    split: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Values:
    """The contract of a tensor's values: a union of alternatives such as ("index", (V,)) or ("literal", (-100,))."""

    parts: tuple[tuple[str, tuple[Expr, ...]], ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor argument. `dims`: i32 extents over sizes. `fast`: dims with a unit-stride fast path."""

    name: str
    dims: tuple[Expr, ...]
    dtype: DType
    out: bool
    values: Values
    fast: tuple[int, ...]
    inplace: str | None = None
    fill: float | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class SizeDef:
    """A size: bound by `dim` of `tensor` (`solve`: the size as an expression over Size("_") = that dim's extent, for
    linear dims such as 2 * J), or computed (`definition`), or an int argument of the op (neither)."""

    name: str
    tensor: str | None = None
    dim: int | None = None
    solve: Expr | None = None
    definition: Expr | None = None
    choices: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ParamDef:
    """A parameter; `default` is an expression over sizes, None if the caller must give it."""

    name: str
    dtype: DType
    default: Expr | None
    static: bool


@dataclass(frozen=True)
class Check:
    """A condition that the op checks at a call, with the text it is reported as.

    `implied`: nobody wrote it; the left side of a statement demands it.
    """

    condition: Expr
    text: str
    implied: bool = False


@dataclass(frozen=True)
class Stmt:
    """`name[axes] = expr`. For an output, `tensor` and `index` say where the element is stored.

    `id` ("s1", "s2", ...) is given in source order and never renumbered. `text` is the source line.
    """

    id: str
    name: str
    axes: tuple[str, ...]
    expr: Expr
    text: str
    tensor: str | None = None
    index: tuple[Expr, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Conventions:
    """`empty`: what a finished reduction over no elements gives; `f32_dot`: precision of f32 Dots."""

    empty: str  # "zero" | "nan", the default already decided
    f32_dot: str = "ieee"


@dataclass(frozen=True)
class Math:
    """A spec with all names bound for one choice of dtypes. Statements are in dependence order of the source."""

    name: str
    doc: str
    source: Source
    dtypes: dict[str, DType]
    axes: dict[str, Axis]
    sizes: dict[str, SizeDef]
    tensors: dict[str, Tensor]
    params: dict[str, ParamDef]
    checks: tuple[Check, ...]
    statements: tuple[Stmt, ...]
    casts: dict[str, DType]
    conventions: Conventions
    reference: str | None
    masked: bool = False  # the spec has a top-level mask or a data-dependent extent
    workspaces: frozenset[str] = frozenset()  # tensors that are materialised intermediates, made by the compiler
    records: Path | None = None  # the folder of records beside the spec

    def statement(self, name: str) -> Stmt:
        """Return the statement that defines `name`."""
        return next(s for s in self.statements if s.name == name)

    def reductions(self) -> Iterator[Reduce]:
        """Yield every reduction of every statement."""
        return (n for s in self.statements for n in walk(s.expr) if isinstance(n, Reduce))
