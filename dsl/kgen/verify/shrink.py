"""Makes a failing case small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kgen.errors import KgenError
from kgen.math import Math
from kgen.verify.binding import bind, holds
from kgen.verify.cases import Case
from kgen.verify.subject import Trial

TRIES = 12


def shrink(math: Math, case: Case, trial: Trial, rerun: Callable[[Case], Trial]) -> tuple[Case, Trial]:
    """Return the smallest case found that still fails, by halving one size at a time, at most TRIES runs."""
    tries = 0
    shrinking = True
    while shrinking:
        shrinking = False
        for smaller in halved(math, case):
            if tries == TRIES:
                return case, trial
            tries += 1
            found = rerun(smaller)
            if not found.ok:
                case, trial, shrinking = smaller, found, True
                break
    return case, trial


def halved(math: Math, case: Case) -> list[Case]:
    """Return legal cases with one size halved (a static one: its next smaller choice), the largest size first."""
    found = []
    for name, value in sorted(case.sizes.items(), key=lambda item: -item[1]):
        if name in case.fixed:
            continue
        choices = math.sizes[name].choices if name in math.sizes else None
        lower = [c for c in choices if c < value] if choices else [value // 2] * (value > 1)
        if not lower:
            continue
        sizes = {**case.sizes, name: max(lower)}
        try:
            if holds(math, bind(math, sizes, case.params)):
                found.append(replace(case, sizes=sizes))
        except KgenError:
            continue
    return found
