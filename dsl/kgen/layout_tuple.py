"""Nested tuples of integers: the shapes, strides and coordinates of layouts.

A coordinate is read in colexicographic order: the first mode varies fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TypeAlias

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"


class LayoutError(ValueError):
    """An operation that no layout can represent, or arguments that do not fit together."""


def leaves(tree: IntTuple) -> Iterator[int]:
    """Yield the integers of `tree` from left to right."""
    if isinstance(tree, int):
        yield tree
        return
    for branch in tree:
        yield from leaves(branch)


def product(tree: IntTuple) -> int:
    """Return the product of all integers in `tree`: the size of a shape."""
    return prod(leaves(tree))


def congruent(a: IntTuple, b: IntTuple) -> bool:
    """Whether `a` and `b` are nested alike."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int)
    return len(a) == len(b) and all(map(congruent, a, b))


def branches(tree: IntTuple) -> tuple[IntTuple, ...]:
    """Return the top-level modes of `tree`; an integer is its own single mode."""
    return (tree,) if isinstance(tree, int) else tree


def compact_strides(shape: IntTuple, step: int = 1) -> IntTuple:
    """Return the strides that lay `shape` out without holes, first mode fastest, starting at `step`."""
    if isinstance(shape, int):
        return step
    strides: list[IntTuple] = []
    for branch in shape:
        strides.append(compact_strides(branch, step))
        step *= product(branch)
    return tuple(strides)


def coordinate(index: int, shape: IntTuple) -> IntTuple:
    """Return the coordinate congruent with `shape` at position `index`; the last mode takes what is left over."""
    if isinstance(shape, int):
        return index
    found: list[IntTuple] = []
    for branch in shape[:-1]:
        found.append(coordinate(index % product(branch), branch))
        index //= product(branch)
    return (*found, coordinate(index, shape[-1])) if shape else ()


def offset(where: IntTuple, shape: IntTuple, stride: IntTuple) -> int:
    """Return the inner product of a coordinate with `stride`; an integer inside `where` counts through its mode.

    Raises LayoutError if `where` is nested deeper than, or has another rank than, `shape`.
    """
    if isinstance(where, int):
        where = coordinate(where, shape)
    if isinstance(where, int) and isinstance(stride, int):
        return where * stride
    if isinstance(where, int) or isinstance(shape, int) or isinstance(stride, int) or len(where) != len(shape):
        raise LayoutError(f"coordinate {render(where)} does not fit shape {render(shape)}")
    return sum(map(offset, where, shape, stride))


def render(tree: IntTuple) -> str:
    """Return `tree` in the notation of layouts, such as `(4,(2,8))`."""
    return str(tree) if isinstance(tree, int) else "(" + ",".join(map(render, tree)) + ")"
