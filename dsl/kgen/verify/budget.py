"""What a correct kernel may return: per element a reference value and a limit on the error.

    |err| <= 2 * e + u(out) * |ref| + c * u(acc) * A,      c = 4 + log2(terms) + sqrt(chain)

`ref` is the float64 oracle, u a type's unit roundoff, A the conditioned magnitude (magnitude.py), `terms` the elements
of the largest reduction and `chain` the longest serial chain of additions. e is the error of the spec's math run op by
op at the spec's dtypes. The rounding of a cast differs from kernel to kernel (a rescaled weight is another number): an
element where op by op happens to be exact takes the tensor's largest such error relative to its terms instead of 0.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from kgen import terms
from kgen.math import Math, Stmt
from kgen.types import DType
from kgen.verify import edges, oracle
from kgen.verify.binding import Scalar, bind

FLUSHED = 2.0**-126  # smallest normal float32: below it a GPU may give 0


@dataclass(frozen=True)
class Choices:
    """For a position of an extreme value: the candidates' values (the reduced axis last), and which exist."""

    values: Tensor
    exists: Tensor
    slack: float


@dataclass(frozen=True)
class Expected:
    """One output of a case: `reference` (float64, int64 or bool) and the `limit` of the error.

    `noise` is the part of the limit that is no cast's; `magnitude` is A. Integers have limit 0, but those that computed
    floats decide: what another rounding of these may change (edges.py). Positions with `choices` may differ between
    equal values.
    """

    dtype: DType
    reference: Tensor
    limit: Tensor
    noise: Tensor
    magnitude: Tensor
    choices: Choices | None = None


def limits(
    math: Math,
    inputs: Mapping[str, Tensor],
    params: Mapping[str, Scalar],
    sizes: Mapping[str, int],
    *,
    chain: int | None = None,
) -> dict[str, Expected]:
    """Return what is expected of every output. `chain` defaults to the extent of the longest reduction."""
    args = (math, inputs, params, sizes)
    exact = oracle.run(*args, oracle.CONDITIONED)
    summed = oracle.run(*args, oracle.TERMS).magnitudes
    low = oracle.run(*args, oracle.OP_BY_OP).outputs
    c = growth(math, bind(math, sizes, params).extents, chain)

    @cache
    def nudged() -> list[dict[str, Tensor]]:
        step = 2 * c * 2.0**-24
        return [oracle.run(edges.nudged(math, s), *args[1:], oracle.EXACT).outputs for s in (step, -step)]

    found: dict[str, Expected] = {}
    for name, reference in exact.outputs.items():
        dtype = math.tensors[name].dtype
        if dtype.is_float:
            found[name] = _floats(dtype, reference, low[name], exact.magnitudes[name], summed[name], c)
        else:
            zero = torch.zeros(reference.shape, dtype=torch.float64)
            choices = _choices(math, inputs, params, sizes, name)
            limit = zero
            if dtype.is_int and choices is None and edges.has_edges(math, name):
                limit = _edge_limit(reference, [low[name], *(other[name] for other in nudged())])
            found[name] = Expected(dtype, reference, limit, zero, zero, choices)
    return found


def _edge_limit(reference: Tensor, others: list[Tensor]) -> Tensor:
    """Return the largest difference of integers whose floats were rounded otherwise."""
    return torch.stack([(other - reference).abs().to(torch.float64) for other in others]).amax(0)


def growth(math: Math, extents: Mapping[str, int], chain: int | None) -> float:
    """Return c of the budget."""
    sums = [numbers.prod(extents[a] for a in n.axes) for s in math.statements for n in _reductions(s)]
    terms_summed = max([1, *sums])
    longest = terms_summed if chain is None else max(1, chain)
    return 4 + numbers.log2(terms_summed) + numbers.sqrt(longest)


def roundoff(dtype: DType) -> float:
    """Return the unit roundoff of a float type."""
    return float(torch.finfo(getattr(torch, dtype.torch)).eps) / 2


def accumulation_roundoff(dtype: DType) -> float:
    """Return the unit roundoff of the type that values stored as `dtype` are computed in."""
    return 2.0**-53 if dtype.bits == 64 else 2.0**-24


def _floats(dtype: DType, reference: Tensor, low: Tensor, magnitude: Tensor, summed: Tensor, c: float) -> Expected:
    stored = getattr(torch, dtype.torch)
    noise = roundoff(dtype) * magnitude_of(reference) + c * accumulation_roundoff(dtype) * magnitude
    noise = noise + max(_quantum(dtype) / 2, FLUSHED if dtype.bits < 64 else 0.0)
    unrounded = _error(low.to(torch.float64), reference)
    rounded = _error(low.to(stored).to(torch.float64), reference)
    share = torch.where(summed > 0, unrounded / summed, 0.0)
    pooled = summed * share.max() if share.numel() else summed
    limit = 2 * torch.maximum(rounded, pooled) + noise
    return Expected(dtype, reference, limit, noise, magnitude)


def magnitude_of(reference: Tensor) -> Tensor:
    """Return |reference|, 0 where it is not finite (there the class of the value is compared instead)."""
    return reference.abs().nan_to_num(nan=0.0, posinf=0.0)


def _error(low: Tensor, reference: Tensor) -> Tensor:
    """Return |low - reference|, 0 where either is not finite: an overflow op by op allows nothing."""
    return (low - reference).abs().nan_to_num(nan=0.0, posinf=0.0)


def _quantum(dtype: DType) -> float:
    return float(torch.finfo(getattr(torch, dtype.torch)).smallest_normal) * 2 * roundoff(dtype)


def _choices(
    math: Math,
    inputs: Mapping[str, Tensor],
    params: Mapping[str, Scalar],
    sizes: Mapping[str, int],
    name: str,
) -> Choices | None:
    """Return the candidates of an output that is the position of an extreme value, stored element by element."""
    stmts = [s for s in math.statements if s.tensor == name]
    if len(stmts) != 1 or not isinstance(stmts[0].expr, terms.Reduce):
        return None
    stmt, reduce = stmts[0], stmts[0].expr
    plain = tuple(i.axis for i in stmt.index if isinstance(i, terms.Pos))
    if reduce.name not in ("argmax", "argmin") or len(reduce.axes) != 1 or len(plain) != len(stmt.index):
        return None
    axes = (*plain, *reduce.axes)
    values = oracle.probe(math, inputs, params, sizes, reduce.arg, axes)
    if reduce.guard is None:
        exists = torch.ones(values.shape, dtype=torch.bool)
    else:
        exists = oracle.probe(math, inputs, params, sizes, reduce.guard, axes)
    finite = values.to(torch.float64).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).abs()
    computed = not isinstance(reduce.arg, terms.Load) and bool(values.is_floating_point())
    slack = 16 * 2.0**-24 * float(finite.max()) if computed and finite.numel() else 0.0
    return Choices(values, exists, slack)


def _reductions(stmt: Stmt) -> list[terms.Reduce]:
    return [n for n in terms.walk(stmt.expr) if isinstance(n, terms.Reduce)]
