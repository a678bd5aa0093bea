"""Binding of sizes and parameters: a spec's definitions, defaults and extents as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from kgen import terms
from kgen.errors import KgenError
from kgen.math import Math, ParamDef
from kgen.resolve_constants import evaluate
from kgen.verify.values import Arithmetic, Value

Scalar = int | float | bool


@dataclass(frozen=True)
class Sizes:
    """All sizes and parameters of a call, the extents of the axes and the shapes of the tensors."""

    sizes: dict[str, int]
    params: dict[str, Scalar]
    extents: dict[str, int]
    shapes: dict[str, tuple[int, ...]]


def bind(math: Math, sizes: Mapping[str, int], params: Mapping[str, Scalar]) -> Sizes:
    """Compute the sizes that are definitions, the defaults of parameters, extents and shapes.

    `sizes` holds the free sizes. KgenError if a size or a parameter without default is missing.
    """
    known = dict(sizes)
    for name, definition in _in_order(math, known):
        known[name] = int(number(math, definition, known))
    values = {p.name: _param(math, p, known, params) for p in math.params.values()}
    extents = {a.name: max(0, int(number(math, a.extent, known, values))) for a in math.axes.values()}
    shapes = {t.name: tuple(max(0, int(number(math, d, known, values))) for d in t.dims) for t in math.tensors.values()}
    return Sizes(known, values, extents, shapes)


def holds(math: Math, call: Sizes) -> bool:
    """Do all checks of the spec hold for these sizes?"""
    return all(bool(number(math, c.condition, call.sizes, call.params)) for c in math.checks)


def number(math: Math, e: terms.Expr, sizes: Mapping[str, int], params: Mapping[str, Scalar] | None = None) -> Scalar:
    """Return the value of an expression over sizes and parameters; KgenError if it has none."""
    found = evaluate(e, {**sizes, **(params or {})})
    if found is None:
        raise KgenError(
            f"{math.name}: an expression reads a size that is not known: {', '.join(sorted(_reads(e) - set(sizes)))}"
        )
    return found


def scalars(
    math: Math, sizes: Mapping[str, int], params: Mapping[str, Scalar], arithmetic: Arithmetic
) -> dict[str, Value]:
    """Return sizes and parameters as values of the rank of the spec's axes."""
    ones = (1,) * len(math.axes)
    found = {name: torch.full(ones, n, dtype=torch.int64) for name, n in sizes.items()}
    for name, x in params.items():
        found[name] = torch.full(ones, x, dtype=arithmetic.torch_dtype(math.params[name].dtype))
    if not arithmetic.magnitudes:
        return {name: Value(t) for name, t in found.items()}
    return {name: Value(t, t.to(torch.float64).abs()) for name, t in found.items()}


def _in_order(math: Math, known: Mapping[str, int]) -> Iterator[tuple[str, terms.Expr]]:
    """Yield the definitions to compute, each after those that it reads."""
    have = set(known)
    pending = [s for s in math.sizes.values() if s.name not in have]
    while pending:
        ready = [(s.name, s.definition) for s in pending if s.definition is not None and _reads(s.definition) <= have]
        if not ready:
            raise KgenError(f"{math.name}: no value for size '{pending[0].name}'")
        for name, definition in ready:
            have.add(name)
            yield name, definition
        pending = [s for s in pending if s.name not in have]


def _reads(e: terms.Expr) -> set[str]:
    return {n.name for n in terms.walk(e) if isinstance(n, terms.Size)}


def _param(math: Math, p: ParamDef, sizes: Mapping[str, int], given: Mapping[str, Scalar]) -> Scalar:
    """Return the parameter as the kernel gets it: rounded to its dtype."""
    if p.name in given:
        value = given[p.name]
    elif p.default is not None:
        value = number(math, p.default, sizes)
    else:
        raise KgenError(f"{math.name}: no value for parameter '{p.name}'")
    rounded: Scalar = torch.tensor(value, dtype=getattr(torch, p.dtype.torch)).item()
    return rounded
