"""The optional PyTorch reference of a spec, written independently of it, held against the oracle."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from kgen.math import Math
from kgen.verify.binding import Scalar, Sizes, bind
from kgen.verify.budget import Expected, accumulation_roundoff, growth, magnitude_of
from kgen.verify.cases import Case
from kgen.verify.compare import Verdict, check
from kgen.verify.subject import Trial

Reference = Callable[..., Tensor | tuple[Tensor, ...]]


def run_reference(
    math: Math,
    reference: Reference,
    case: Case,
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Expected],
) -> Trial:
    """Run the reference on float64 tensors; it may differ by float32 noise, as it may compute in float32 itself.

    It takes the op's tensors in spec order, int sizes and parameters by name (those that it has), and returns the
    outputs in spec order.
    """
    bound = bind(math, case.sizes, case.params)
    wide = [t.to(torch.float64) if t.is_floating_point() else t.clone() for t in tensors.values()]
    started = time.perf_counter()
    try:
        made = reference(*wide, **_accepted(reference, _scalars(math, bound)))
    except (RuntimeError, ValueError, TypeError, LookupError) as e:
        return _failed(f"{type(e).__name__}: {e}")
    seconds = time.perf_counter() - started
    outs = made if isinstance(made, tuple) else (made,)
    names = [t.name for t in math.tensors.values() if t.out]
    if len(outs) != len(names):
        return _failed(f"returns {len(outs)} of {len(names)} outputs")
    c = growth(math, bound.extents, None)
    loose = {n: _loosened(expected[n], out.dtype, c) for n, out in zip(names, outs, strict=True)}
    stored = {n: out.to(getattr(torch, expected[n].dtype.torch)) for n, out in zip(names, outs, strict=True)}
    return Trial(check(stored, loose), seconds, stored)


def _failed(reason: str) -> Trial:
    return Trial(Verdict(False, float("inf"), reason=reason), 0.0, {})


def _scalars(math: Math, bound: Sizes) -> dict[str, Scalar]:
    free = [s.name for s in math.sizes.values() if s.tensor is None and s.definition is None]
    return {name: bound.sizes[name] for name in free} | bound.params


def _accepted(function: Callable[..., object], scalars: dict[str, Scalar]) -> dict[str, Scalar]:
    """Return the scalars that the function has parameters for."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return scalars
    return {k: v for k, v in scalars.items() if k in parameters}


def _loosened(wanted: Expected, returned: torch.dtype, c: float) -> Expected:
    """Return the limit for a reference: noise of float32 computing, and rounding to the type that it returns."""
    if not returned.is_floating_point:
        return wanted
    unit = float(torch.finfo(returned).eps) / 2
    slack = unit * magnitude_of(wanted.reference) + c * accumulation_roundoff(wanted.dtype) * wanted.magnitude
    return replace(wanted, limit=wanted.noise + slack)
