"""Runs the cases of one variant on its subjects, one after another, and adds up the reports."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace

from kgen.spec_reference import load_reference
from kgen.verify.cases import Case
from kgen.verify.report import Agreement, Report, Row
from kgen.verify.run import verify
from kgen.workflow.instance import Instance
from kgen.workflow.progress import Progress
from kgen.workflow.subjects import subjects_for


def run_trials(
    instance: Instance,
    targets: tuple[tuple[str, str], ...],
    cases: list[Case],
    gpu: str | None,
    progress: Progress,
) -> Report:
    """Return the report over all cases. Only the first failing one is shrunk: one small case is what people need."""
    subjects = subjects_for(instance, targets, gpu)
    reference = load_reference(instance.spec)
    report: Report | None = None
    for case in cases:
        first = report is None or report.ok
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of empty and overflowing tensors, which are cases here
            one = verify(
                instance.math,
                subjects,
                [case],
                reference=reference,
                device="cpu" if gpu is None else "cuda",
                smallest=first,
            )
        report = one if report is None else added(report, one)
        progress.step(case.label)
    return report or Report(instance.spec.name, True, ())


def added(a: Report, b: Report) -> Report:
    """Return the report over the cases of both."""
    agreements = tuple(_agreements([*a.agreements, *b.agreements]))
    rows = tuple(_rows([*a.rows, *b.rows]))
    return Report(a.kernel, a.ok and b.ok, rows, (*a.failures, *b.failures), agreements)


def _rows(rows: Iterable[Row]) -> list[Row]:
    found: dict[str, Row] = {}
    for row in rows:
        old = found.get(row.backend)
        found[row.backend] = row if old is None else _row(old, row)
    return list(found.values())


def _row(a: Row, b: Row) -> Row:
    worse = a if a.worst >= b.worst else b
    return Row(a.backend, a.cases + b.cases, a.passed + b.passed, worse.worst, worse.worst_case, a.seconds + b.seconds)


def _agreements(agreements: Iterable[Agreement]) -> list[Agreement]:
    found: dict[tuple[str, str], Agreement] = {}
    for one in agreements:
        old = found.get((one.a, one.b), Agreement(one.a, one.b))
        worst, equal, total = max(old.worst, one.worst), old.equal + one.equal, old.total + one.total
        found[one.a, one.b] = replace(old, worst=worst, equal=equal, total=total)
    return list(found.values())
