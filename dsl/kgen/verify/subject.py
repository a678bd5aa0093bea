"""Subjects: implementations of a spec under test, and one trial of one on one case."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from kgen.math import Math
from kgen.verify.binding import Scalar, bind
from kgen.verify.budget import Expected
from kgen.verify.cases import Case
from kgen.verify.compare import Verdict, check, poisoned_outputs, same_bits


@dataclass(frozen=True)
class Call:
    """What a subject gets. `outputs` are poisoned buffers to write (an output that overwrites an input is that input).

    `sizes` holds all sizes, definitions included, and `params` all parameters.
    """

    inputs: dict[str, Tensor]
    sizes: dict[str, int]
    params: dict[str, Scalar]
    outputs: dict[str, Tensor]


@dataclass(frozen=True)
class Result:
    """What a subject returns: its outputs (the buffers of the call or its own), and faults such as races it found."""

    outputs: dict[str, Tensor]
    faults: tuple[str, ...] = ()


class Subject(Protocol):
    """An implementation of a spec: a compiled or simulated backend."""

    @property
    def name(self) -> str: ...

    def run(self, call: Call) -> Result: ...


@dataclass(frozen=True)
class FunctionSubject:
    """A subject made of a function (inputs, sizes, params) -> outputs."""

    name: str
    function: Callable[[dict[str, Tensor], dict[str, int], dict[str, Scalar]], dict[str, Tensor]]

    def run(self, call: Call) -> Result:
        return Result(self.function(call.inputs, call.sizes, call.params))


@dataclass(frozen=True)
class Trial:
    """One subject's run of one case."""

    verdict: Verdict
    seconds: float
    outputs: dict[str, Tensor]
    faults: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.verdict.ok and not self.faults


def run_trial(
    math: Math,
    subject: Subject,
    case: Case,
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, Expected],
    device: str = "cpu",
) -> Trial:
    """Run a subject on its own copy of the inputs; judge its outputs, the canaries, and that it changed no input."""
    bound = bind(math, case.sizes, case.params)
    mine = {name: _copy(t, device) for name, t in tensors.items()}
    guarded = poisoned_outputs(math, bound, device)
    overwritten = {t.name: t.inplace for t in math.tensors.values() if t.inplace is not None}
    outputs = {n: g.view for n, g in guarded.items()} | {n: mine[i] for n, i in overwritten.items()}
    started = time.perf_counter()
    try:
        result = subject.run(Call(mine, dict(bound.sizes), dict(bound.params), outputs))
        if device != "cpu":
            torch.cuda.synchronize(device)
    except Exception as e:  # whatever goes wrong in a subject is the subject's failure, and the others still run
        verdict = Verdict(False, float("inf"), reason=f"{type(e).__name__}: {e}")
        return Trial(verdict, time.perf_counter() - started, {})
    seconds = time.perf_counter() - started
    strays = [f"wrote outside output '{n}'" for n, g in guarded.items() if not g.intact()]
    kept = [n for n in tensors if n not in overwritten.values()]
    strays += [f"changed input '{n}'" for n in kept if not same_bits(mine[n].cpu(), tensors[n])]
    found = {n: t.detach().cpu() for n, t in result.outputs.items()}
    return Trial(check(found, expected), seconds, found, (*result.faults, *strays))


def _copy(t: Tensor, device: str) -> Tensor:
    """Copy a view with its storage and strides, so that gaps stay poisoned."""
    flat = t.as_strided((t.untyped_storage().nbytes() // t.element_size(),), (1,), 0)
    return flat.clone().to(device).as_strided(t.shape, t.stride(), t.storage_offset())
