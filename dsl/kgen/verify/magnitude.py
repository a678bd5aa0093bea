"""Magnitudes: for each value, the sum of the absolute values of the terms it was made of.

A rounding error of relative size u in every operation changes a value by about u times its magnitude, to first order.
Sums and differences add magnitudes (so cancellation shows); a product of plain values has its own absolute value, and
of values conditioned worse, |a| B + A |b| - |a b|; any other function passes on the magnitude of its argument
through its slope: an error of u * A in x is an error of u * A * exp(x) in exp(x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

TorchFunction = Callable[..., Tensor]


def plain(data: Tensor) -> Tensor:
    """Return |data| in float64; an infinity or a NaN is exact, so it has no magnitude."""
    return data.to(torch.float64).abs().nan_to_num(nan=0.0, posinf=0.0)


def of_function(
    name: str, function: TorchFunction, args: tuple[Tensor, ...], mags: tuple[Tensor, ...], *, conditioned: bool
) -> Tensor:
    """Return the magnitude of `function(*args)`; `mags` are the arguments' own magnitudes, all float64.

    Unless `conditioned`, functions that are no sum, product or quotient forget their arguments' magnitudes.
    """
    match name:
        case "add" | "sub":
            return mags[0] + mags[1]
        case "mul":
            return of_product(args, mags)
        case "neg" | "abs":
            return mags[0]
        case "div":
            inverse = 1 / args[1].abs()
            return of_product((args[0], inverse), (mags[0], product(mags[1], inverse * inverse)))
        case "where":
            return torch.where(args[0], mags[1], mags[2])
        case _ if conditioned:
            return _through_slopes(function, args, mags)
        case _:
            return plain(function(*args))


def of_product(factors: Sequence[Tensor], mags: Sequence[Tensor]) -> Tensor:
    """Return the magnitude of a product: the sum over factors of its magnitude times the others, each term once."""
    out = None
    for at, mag in enumerate(mags):
        excess = mag - factors[at].abs() if at else mag
        term = excess.nan_to_num(nan=0.0, posinf=float("inf"))
        for other, factor in enumerate(factors):
            term = product(term, factor.abs()) if other != at else term
        out = term if out is None else out + term
    assert out is not None
    return out


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return a * b with NaN (0 * inf, 0 / 0) as 0: a factor that is exactly 0 carries no error on."""
    return torch.nan_to_num(a * b, nan=0.0, posinf=float("inf"))


def _through_slopes(function: TorchFunction, args: tuple[Tensor, ...], mags: tuple[Tensor, ...]) -> Tensor:
    """Return max(|f|, sum of |df/dx| * magnitude of x), the slopes by automatic differentiation."""
    with torch.enable_grad():
        leaves = [a.detach().clone() for a in torch.broadcast_tensors(*args)]
        floats = [i for i, leaf in enumerate(leaves) if leaf.is_floating_point()]
        for i in floats:
            leaves[i].requires_grad_(True)
        out = function(*leaves)
        if not out.requires_grad:
            return plain(out.detach())
        slopes = torch.autograd.grad(out.sum(), [leaves[i] for i in floats], allow_unused=True)
    carried = torch.zeros_like(out)
    for i, slope in zip(floats, slopes, strict=True):
        if slope is not None:
            carried = carried + product(slope.abs(), mags[i])
    known = torch.isfinite(out.detach())
    return torch.where(known, torch.maximum(plain(out.detach()), carried), 0.0)
