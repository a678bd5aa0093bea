"""Runs subjects over cases, compares them with the oracle, the reference and each other, and reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor

from kgen.math import Math
from kgen.verify import inputs as generate
from kgen.verify.budget import Expected, limits
from kgen.verify.cases import Case
from kgen.verify.reference import Reference, run_reference
from kgen.verify.report import Agreement, Failure, Report, Row
from kgen.verify.shrink import shrink
from kgen.verify.subject import Call, FunctionSubject, Result, Subject, Trial, run_trial

__all__ = ["Call", "FunctionSubject", "Result", "Subject", "verify"]
REFERENCE = "reference"


def verify(
    math: Math,
    subjects: Sequence[Subject],
    cases: Iterable[Case],
    *,
    reference: Reference | None = None,
    chain: int | None = None,
    device: str = "cpu",
    smallest: bool = True,
) -> Report:
    """Run every subject on every case and report.

    `chain` is the longest serial chain of additions in a subject. With `smallest`, a subject that fails a case is run
    on smaller sizes to find a smaller case that fails.
    """
    session = _Session(math, subjects, reference, chain, device)
    with _one_thread() if device == "cpu" else nullcontext():
        for case in cases:
            session.case(case, smallest)
    return session.report()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Cases on a CPU are small: waking torch's threads costs several times more than the work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Session:
    def __init__(
        self,
        math: Math,
        subjects: Sequence[Subject],
        reference: Reference | None,
        chain: int | None,
        device: str,
    ) -> None:
        self.math = math
        self.subjects = subjects
        self.reference = reference
        self.chain = chain
        self.device = device
        names = [s.name for s in subjects] + ([REFERENCE] if reference else [])
        self.rows = {name: Row(name) for name in names}
        self.failures: list[Failure] = []
        self.agreements: dict[tuple[str, str], Agreement] = {}

    def report(self) -> Report:
        agreements = tuple(self.agreements.values())
        ok = not self.failures and all(a.worst <= 1 for a in agreements)
        return Report(self.math.name, ok, tuple(self.rows.values()), tuple(self.failures), agreements)

    def case(self, case: Case, smallest: bool) -> None:
        """Run one case on all subjects and the reference."""
        tensors, expected = self._prepare(case)
        trials = {s.name: run_trial(self.math, s, case, tensors, expected, self.device) for s in self.subjects}
        for subject in self.subjects:
            trial = trials[subject.name]
            self._count(subject.name, case, trial)
            if not trial.ok:
                found = self._shrunk(subject, case, trial) if smallest else (case, trial)
                self.failures.append(_failure(subject.name, case, *found))
        if self.reference is not None:
            trial = run_reference(self.math, self.reference, case, tensors, expected)
            self._count(REFERENCE, case, trial)
            if not trial.ok:
                self.failures.append(_failure(REFERENCE, case, case, trial))
        self._agree(trials, expected)

    def _shrunk(self, subject: Subject, case: Case, trial: Trial) -> tuple[Case, Trial]:
        def rerun(smaller: Case) -> Trial:
            return run_trial(self.math, subject, smaller, *self._prepare(smaller), self.device)

        return shrink(self.math, case, trial, rerun)

    def _prepare(self, case: Case) -> tuple[dict[str, Tensor], dict[str, Expected]]:
        tensors = generate.make(self.math, case.sizes, case.params, case.seed, kind=case.kind)
        return tensors, limits(self.math, tensors, case.params, case.sizes, chain=self.chain)

    def _count(self, name: str, case: Case, trial: Trial) -> None:
        row = self.rows[name]
        worse = trial.verdict.worst > row.worst or row.cases == 0
        self.rows[name] = replace(
            row,
            cases=row.cases + 1,
            passed=row.passed + trial.ok,
            worst=max(row.worst, trial.verdict.worst),
            worst_case=case.label if worse else row.worst_case,
            seconds=row.seconds + trial.seconds,
        )

    def _agree(self, trials: dict[str, Trial], expected: dict[str, Expected]) -> None:
        """Compare each pair of subjects that both gave outputs."""
        names = [s.name for s in self.subjects if trials[s.name].outputs]
        for at, a in enumerate(names):
            for b in names[at + 1 :]:
                old = self.agreements.get((a, b), Agreement(a, b))
                self.agreements[a, b] = _agreement(old, trials[a].outputs, trials[b].outputs, expected)


def _failure(name: str, original: Case, case: Case, trial: Trial) -> Failure:
    v = trial.verdict
    reason = v.reason if not v.ok else "; ".join(trial.faults)
    return Failure(
        backend=name,
        label=original.label,
        sizes=case.sizes,
        params=case.params,
        kind=case.kind,
        seed=case.seed,
        original_sizes=original.sizes,
        output=v.output,
        index=v.index,
        got=repr(v.got),
        expected=repr(v.expected),
        ratio=v.worst,
        bad=v.bad,
        reason=reason,
        faults=trial.faults,
    )


def _agreement(
    old: Agreement, a: Mapping[str, Tensor], b: Mapping[str, Tensor], expected: Mapping[str, Expected]
) -> Agreement:
    """Add a case: differences relative to the sum of both budgets, and how many elements are equal bit for bit."""
    worst, equal, total = old.worst, old.equal, old.total
    for name, wanted in expected.items():
        x, y = a.get(name), b.get(name)
        if x is None or y is None or x.shape != y.shape or x.numel() == 0:
            continue
        same = (x == y) | (x.isnan() & y.isnan())
        equal, total = equal + int(same.sum()), total + x.numel()
        if wanted.dtype.is_float:
            difference = (x.to(torch.float64) - y.to(torch.float64)).abs() / (2 * wanted.limit)
            known = torch.where(same, 0.0, difference).nan_to_num(nan=float("inf"))
            worst = max(worst, float(known.max()))
    return replace(old, worst=worst, equal=equal, total=total)
