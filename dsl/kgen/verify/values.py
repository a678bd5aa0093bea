"""Values of the dense evaluation, the arithmetic they are computed in, and the functions of the table in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import torch
from torch import Tensor

from kgen import terms
from kgen.functions import table
from kgen.types import DType
from kgen.verify.magnitude import TorchFunction

SAFE_DIV = "safe_div"  # in records only: x / y, and 0 where y is 0
INNER = "."  # the record name, and the axis, of a reduction inside a record's direct formula


@dataclass(frozen=True)
class Value:
    """`data` by the spec's axes; `mag` its magnitude (only if asked for).

    `hollow` marks results of an empty row that the convention makes NaN: they stay NaN through sums that skip them.
    """

    data: Tensor
    mag: Tensor | None = None
    hollow: Tensor | None = None


@dataclass(frozen=True)
class Arithmetic:
    """How values are computed. `rounding`: casts and Dot operands round as the spec says, instead of being exact.

    `magnitudes` are computed as well, `conditioned` (see magnitude.py) or as plain sums of absolute terms.
    """

    real: torch.dtype = torch.float64
    rounding: bool = False
    magnitudes: bool = False
    conditioned: bool = False

    def torch_dtype(self, dtype: DType) -> torch.dtype:
        """Return the type that values of `dtype` are held in."""
        if dtype.is_float:
            return torch.float64 if dtype.bits == 64 else self.real
        return torch.bool if dtype.kind == "bool" else torch.int64


@dataclass(frozen=True)
class Direct:
    """The plain formula of a record's result: `expr` over the inputs and operands as `Get`s, with reductions over ".".

    `null` (a bool expression over the inputs) says that an element leaves the state at its identity, as if absent.
    """

    inputs: tuple[str, ...]
    expr: terms.Expr
    null: terms.Expr | None = None


Formulas = Callable[[str, str], Direct | None]


@dataclass(frozen=True)
class Window:
    """The part of the axes under evaluation: `ranges[axis]` = (first, past the last)."""

    ranges: Mapping[str, tuple[int, int]]

    def extent(self, axis: str) -> int:
        first, end = self.ranges[axis]
        return end - first


@dataclass(frozen=True)
class Scope:
    """Where a record's direct formula is evaluated: its names, the axes it reduces, and which elements exist."""

    names: Mapping[str, Value]
    axes: tuple[str, ...]
    exists: Tensor | None
    memo: dict[terms.Expr, Value] = field(default_factory=dict)


@cache
def torch_function(name: str, dtype: DType) -> TorchFunction:
    """Return the row's torch form as a Python function. The text is the function table's, never a spec's."""
    row = table()[name]
    letters = "abcdefgh"[: row.args]
    form = row.form("torch", dtype).format(*(f"({x})" for x in letters))
    function: TorchFunction = eval(f"lambda {', '.join(letters)}: {form}", {"torch": torch})
    return function


def safe_div(a: Tensor, b: Tensor) -> Tensor:
    """Return a / b, 0 where b is 0."""
    zero = b == 0
    divisor = torch.where(zero, torch.ones((), dtype=b.dtype), b)
    return torch.where(zero, torch.zeros((), dtype=a.dtype), a / divisor)


def minus_infinity_stays(data: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """In a record's formula -inf - -inf is -inf, so that an element at -inf has weight 0."""
    if not data.is_floating_point():
        return data
    low = float("-inf")
    return torch.where((a == low) & (b == low), torch.full((), low, dtype=data.dtype), data)
