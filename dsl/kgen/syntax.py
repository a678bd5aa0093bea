"""Syntax trees of expressions and statements, as written: untyped, names unresolved, every node with its span."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgen.source import Span


@dataclass(frozen=True)
class Node:
    """Base of syntax trees. Trees compare by structure; `span` is ignored."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Number(Node):
    value: int | float


@dataclass(frozen=True)
class Name(Node):
    name: str


@dataclass(frozen=True)
class Operator(Node):
    """A unary or binary operator by its row name in functions.yaml ("add", "lt", "neg", ...)."""

    fn: str
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Call(Node):
    """`name(args)`: a function, a helper, a macro, or page/slot/row/size."""

    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True)
class Convert(Node):
    """`cast[type](arg)`."""

    dtype: str
    arg: Node


@dataclass(frozen=True)
class Element(Node):
    """`tensor[index, ...]`."""

    tensor: str
    index: tuple[Node, ...]


@dataclass(frozen=True)
class Reduction(Node):
    """`name[axis, ... if guard](arg)`; in accumulator records the only axis is "."."""

    name: str
    axes: tuple[Name, ...]
    guard: Node | None
    arg: Node


@dataclass(frozen=True)
class Define(Node):
    """`name = value`: a named intermediate."""

    name: str
    value: Node
    text: str


@dataclass(frozen=True)
class StoreTo(Node):
    """`tensor[index, ...] = value`: an output element."""

    tensor: str
    index: tuple[Node, ...]
    value: Node
    text: str


@dataclass(frozen=True)
class Helper(Node):
    """`name(params) = body`: a pure function, inlined where it is called."""

    name: str
    params: tuple[str, ...]
    body: Node
    text: str


Statement = Define | StoreTo | Helper


@dataclass(frozen=True)
class ValueSet(Node):
    """One alternative of a `values` contract: `kind(args)`, or kind "literal" with the values."""

    kind: str
    args: tuple[Node, ...]
