"""One specialisation of a spec: what is fixed at compile time, and the spec with it put in."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kgen.algebra import fold
from kgen.math import Math, Stmt
from kgen.terms import Const, Expr, Param, rewrite
from kgen.types import I32, DType


@dataclass(frozen=True)
class Specialisation:
    """The compile-time key of a variant.

    `sizes`: static sizes; `params`: static parameters; `units`: per tensor the dim of stride 1 (None: general strides);
    `aligned`: tensors whose base and strides are multiples of 16 bytes; `offset`: type of offsets inside a tile.
    `buckets`: per `tile: full` axis of run-time extent, the padded size.
    """

    dtypes: Mapping[str, DType]
    sizes: Mapping[str, int] = field(default_factory=dict)
    params: Mapping[str, int | float | bool] = field(default_factory=dict)
    units: Mapping[str, int | None] = field(default_factory=dict)
    aligned: frozenset[str] = frozenset()
    offset: DType = I32
    buckets: Mapping[str, int] = field(default_factory=dict)

    def parts(self) -> tuple[str, ...]:
        """Return the key as readable words, e.g. ("T=bf16", "D=64", "causal=True")."""
        words = [f"{k}={v}" for group in (self.dtypes, self.sizes, self.params) for k, v in group.items()]
        words += [f"{k}<={v}" for k, v in self.buckets.items()]
        words += [f"{k} stride 1 in dim {v}" if v is not None else f"{k} strided" for k, v in self.units.items()]
        words += [f"{k} unaligned" for k in self.units if k not in self.aligned]
        return (*words, f"offsets {self.offset}")

    def tag(self) -> str:
        """Return a short stable name for files and caches."""
        return hashlib.sha256(" ".join(self.parts()).encode()).hexdigest()[:12]


def specialise(math: Math, spec: Specialisation) -> Math:
    """Put static parameters in as constants and fold what they decide (`not causal or ...`)."""
    values = {name: Const(math.params[name].dtype, value) for name, value in spec.params.items()}

    def rule(e: Expr) -> Expr | None:
        return values.get(e.name) if isinstance(e, Param) else None

    def put(e: Expr) -> Expr:
        return fold(rewrite(e, rule))

    def statement(s: Stmt) -> Stmt:
        return replace(s, expr=put(s.expr), index=tuple(put(i) for i in s.index))

    params = {k: p for k, p in math.params.items() if k not in values}
    return replace(math, statements=tuple(statement(s) for s in math.statements), params=params)
