"""What a verdict is remembered by, and adding up reports."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from tests.workflow.conftest import ROWS

from kgen.spec import load
from kgen.verify.report import Agreement, Failure, Report, Row
from kgen.workflow import verdict as verdicts
from kgen.workflow.instance import instances
from kgen.workflow.progress import Silent
from kgen.workflow.subjects import statement_at, subjects_for
from kgen.workflow.texts import Origin, Texts, texts_for
from kgen.workflow.trials import added
from kgen.workflow.verdict import cases_of, report_from_json, verdict

FAILURE = Failure(
    "b", "tile", {"M": 1}, {}, "typical", 0, {"M": 2}, "y", (0, 1), "nan", "1.0", float("inf"), 1, "NaN", ("race",)
)


def texts(spec: str = ROWS) -> Texts:
    return texts_for(instances(load(spec))[0], ("triton",), ("sm_90",), Origin())


def judged(made: Texts, seed: int = 0, fresh: bool = False) -> bool:
    """Return whether the verdict on a variant was remembered."""
    found = verdict(made, quick=True, seed=seed, progress=Silent(), fresh=fresh)
    assert found.ok
    return found.cached


def test_a_verdict_is_remembered_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [judged(texts()) for _ in range(2)] == [False, True]
    assert not judged(texts(), fresh=True)
    assert not judged(texts(), seed=1)
    assert not judged(texts(ROWS.replace("where(flip, -1,", "where(flip, -3,")))
    monkeypatch.setattr(verdicts, "kgen_digest", lambda: "another version")
    assert not judged(texts())


def test_cases_have_the_static_sizes_and_params_of_the_variant() -> None:
    for case in cases_of(texts(), quick=True, seed=5):
        assert case.sizes["D"] == 32
        assert case.seed >= 5
    flips = {case.params["flip"] for case in cases_of(texts(), quick=True, seed=0)}
    assert True in flips


def test_every_text_has_a_subject() -> None:
    made = texts_for(instances(load(ROWS))[0], ("triton", "cuda"), ("sm_90",), Origin())
    targets = tuple((t.backend, t.arch) for t in made.texts)
    names = [s.name for s in subjects_for(made.instance, targets, None)]
    assert names == ["triton sm_90 (interpreter)", "cuda sm_90 (simulator)"]


def test_a_line_belongs_to_the_statement_above_it() -> None:
    emitted = texts().texts[0].emitted
    lines = emitted.text.splitlines()
    store = next(i for i, line in enumerate(lines, 1) if "tl.store" in line)
    assert statement_at(emitted, store).startswith("s1: y[m, n, d] = where(flip")
    assert statement_at(emitted, 1) == statement_at(emitted, None) == ""


def test_reports_are_added_up() -> None:
    a = Report("k", True, (Row("b", 1, 1, 0.5, "one", 1.0),), (), (Agreement("b", "c", 0.5, 3, 4),))
    b = Report("k", False, (Row("b", 1, 0, 2.0, "two", 2.0),), (FAILURE,), (Agreement("b", "c", 0.25, 1, 4),))
    both = added(a, b)
    assert both.rows == (Row("b", 2, 1, 2.0, "two", 3.0),)
    assert both.agreements == (Agreement("b", "c", 0.5, 4, 8),)
    assert not both.ok and both.failures == (FAILURE,)
    assert added(b, a).rows == both.rows


def test_a_report_comes_back_from_json() -> None:
    report = Report("k", False, (Row("b", 2, 1, 2.0, "two", 3.0),), (FAILURE,), (Agreement("b", "c", 0.5, 4, 8),))
    assert report_from_json(json.loads(json.dumps(asdict(report)))) == report
