"""Compares a subject's outputs with what is expected of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from kgen.math import Math
from kgen.verify.binding import Sizes
from kgen.verify.budget import Choices, Expected
from kgen.verify.layouts import BAND, contiguous_strides, embed, poison


@dataclass(frozen=True)
class Verdict:
    """Result for one case. `worst`: largest error / limit (inf where no error is allowed), at `index` of `output`."""

    ok: bool
    worst: float
    output: str = ""
    index: tuple[int, ...] = ()
    got: float | int | bool | None = None
    expected: float | int | bool | None = None
    reason: str = ""
    bad: int = 0


@dataclass(frozen=True)
class Guarded:
    """An output buffer inside bands of poison, itself poisoned."""

    view: Tensor
    storage: Tensor

    def intact(self) -> bool:
        """Do the bands still hold what they were filled with?"""
        before, after = self.storage[:BAND], self.storage[len(self.storage) - BAND :]
        fresh = torch.full((BAND,), poison(self.view.dtype), dtype=self.view.dtype, device=self.view.device)
        return all(same_bits(band, fresh) for band in (before, after))


def poisoned_outputs(math: Math, call: Sizes, device: str = "cpu") -> dict[str, Guarded]:
    """Return a buffer for every output that overwrites no input: poison within, canaries around."""
    found = {}
    for t in math.tensors.values():
        if t.out and t.inplace is None:
            dtype, shape = getattr(torch, t.dtype.torch), call.shapes[t.name]
            inner = torch.full(shape, poison(dtype), dtype=dtype, device=device)
            view = embed(inner, contiguous_strides(shape), BAND, BAND)
            whole = view.as_strided((view.untyped_storage().nbytes() // view.element_size(),), (1,), 0)
            found[t.name] = Guarded(view, whole)
    return found


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Are two tensors equal bit for bit (NaN included)?"""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype is torch.bool:
        return bool(torch.equal(a, b))
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    return bool(torch.equal(a.contiguous().view(width), b.contiguous().view(width)))


def check(outputs: Mapping[str, Tensor], expected: Mapping[str, Expected]) -> Verdict:
    """Return the verdict on all outputs: the first failing one, else the one nearest its limit."""
    verdicts = []
    for name, wanted in expected.items():
        if name not in outputs:
            return Verdict(False, float("inf"), name, reason="output is missing")
        verdicts.append(check_output(name, outputs[name].detach().cpu(), wanted))
    failing = [v for v in verdicts if not v.ok]
    if failing:
        return max(failing, key=lambda v: v.worst)
    return max(verdicts, key=lambda v: v.worst, default=Verdict(True, 0.0))


def check_output(name: str, got: Tensor, wanted: Expected) -> Verdict:
    """Compare one output: shape and dtype, NaN and infinities by class, the rest by its limit; not all zero."""
    stored = getattr(torch, wanted.dtype.torch)
    if got.dtype is not stored or got.shape != wanted.reference.shape:
        have, want = f"{got.dtype} {tuple(got.shape)}", f"{stored} {tuple(wanted.reference.shape)}"
        return Verdict(False, float("inf"), name, reason=f"is {have}, expected {want}")
    if got.numel() == 0:
        return Verdict(True, 0.0, name)
    if not wanted.dtype.is_float:
        ratio = torch.where(_equal_or_tied(got, wanted), 0.0, _beyond_edges(got, wanted)).to(torch.float64)
        return _worst(name, ratio, got, wanted)
    ratio = _ratios(got, wanted)
    verdict = _worst(name, ratio, got, wanted)
    if verdict.ok and bool((got == 0).all()) and bool((wanted.reference.abs() > wanted.noise).any()):
        at = _unravel(int(wanted.reference.abs().argmax()), got.shape)
        value = float(wanted.reference[at])
        return Verdict(False, float("inf"), name, at, 0.0, value, "all zero", got.numel())
    return verdict


def _ratios(got: Tensor, wanted: Expected) -> Tensor:
    """Return error / limit; inf where NaN or an infinity is on one side only."""
    top = float(torch.finfo(got.dtype).max)
    reference, limit, value = wanted.reference, wanted.limit, got.to(torch.float64)
    stored = reference.to(got.dtype).to(torch.float64)
    allowed = torch.where(limit > 0, limit, torch.finfo(torch.float64).tiny)
    ratio = (value - reference).abs() / allowed
    ratio = torch.where(value == stored, ratio.nan_to_num(nan=0.0, posinf=0.0).clamp(max=1.0), ratio)
    # Near the largest number of a type, a correct kernel may round to an infinity or not.
    overflowed = value.isinf() & reference.isfinite() & (value.sign() == reference.sign())
    ratio = torch.where(overflowed & (reference.abs() + limit >= top), 1.0, ratio)
    agree = value.isnan() & reference.isnan()
    ratio = torch.where(agree, 0.0, ratio)
    return ratio.nan_to_num(nan=float("inf"), posinf=float("inf"))


def _beyond_edges(got: Tensor, wanted: Expected) -> Tensor:
    """Return error / limit of unequal integers: 1 for what another rounding of floats explains, else inf."""
    error = (got.to(torch.float64) - wanted.reference.to(torch.float64)).abs()
    return torch.where(error <= wanted.limit, 1.0, float("inf"))


def _equal_or_tied(got: Tensor, wanted: Expected) -> Tensor:
    same = got.to(wanted.reference.dtype) == wanted.reference
    return same if wanted.choices is None else same | _tied(got.to(torch.int64), wanted.reference, wanted.choices)


def _tied(got: Tensor, best: Tensor, choices: Choices) -> Tensor:
    """Is the position in range, of an element that exists, and its value the best one's?"""
    count = choices.values.shape[-1]
    if count == 0:
        return torch.zeros(got.shape, dtype=torch.bool)
    inside = (got >= 0) & (got < count) & (best >= 0)
    at = got.clamp(0, count - 1).unsqueeze(-1)
    exists = choices.exists.gather(-1, at).squeeze(-1)
    mine = choices.values.gather(-1, at).squeeze(-1)
    top = choices.values.gather(-1, best.clamp(0, count - 1).unsqueeze(-1)).squeeze(-1)
    near = (mine == top) | ((mine - top).abs() <= choices.slack) | (mine.isnan() & top.isnan())
    return inside & exists & near


def _worst(name: str, ratio: Tensor, got: Tensor, wanted: Expected) -> Verdict:
    """Return the verdict at the largest ratio; the first such element if none is allowed."""
    flat = ratio.reshape(-1)
    at = _unravel(int(flat.argmax()), got.shape)
    worst, bad = float(flat.max()), int((flat > 1).sum())
    value, reference = got[at].item(), wanted.reference[at].item()
    reason = "" if bad == 0 else _reason(value, reference)
    return Verdict(bad == 0, worst, name, at, value, reference, reason, bad)


def _reason(got: float | int | bool, reference: float | int | bool) -> str:
    if isinstance(got, float) and isinstance(reference, float):
        if (got != got) != (reference != reference):
            return "NaN where a number is expected" if got != got else "a number where NaN is expected"
        if abs(got) == float("inf") or abs(reference) == float("inf"):
            return "wrong infinity"
        return "error over the limit"
    return "wrong value"


def _unravel(flat: int, shape: torch.Size) -> tuple[int, ...]:
    index = []
    for n in reversed(shape):
        index.append(flat % n)
        flat //= n
    return tuple(reversed(index))
