"""`kgen build` and `kgen verify`: what is written, what is remembered, and what happens when something is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import SMALL, Kgen

from kgen.generate import Emitted, generate
from kgen.workflow import subjects


def rows(text: str, backend: str) -> list[list[str]]:
    """Return the words of a backend's rows in a table of cases."""
    return [line.split() for line in text.splitlines() if line.startswith(f"  {backend} ")]


def test_a_build_compiles_verifies_and_writes_the_package(kgen: Kgen, small: Path) -> None:
    answer = kgen("build", small, "--out", "made")
    assert answer.code == 0, answer.out + answer.err
    assert answer.out.startswith("small: ok\n")
    for target in ("sm_80", "sm_90", "gfx942"):
        assert f"small   {target}" in answer.out
    for backend in ("triton", "cuda", "reference"):
        for words in rows(answer.out, backend):
            cases, passed = [w for w in words if w.isdigit()][:2]
            assert int(cases) >= 5 and passed == cases
    assert len(rows(answer.out, "triton")) == len(rows(answer.out, "cuda")) == 1
    written = {p.name for p in Path("made/small").iterdir()}
    assert {"triton_kernel.py", "kernel.cu", "op.py", "manifest.json"} <= written
    assert {p.name for p in Path("made").iterdir()} == {"small"}


def test_what_is_written_does_not_depend_on_the_folder(kgen: Kgen, small: Path) -> None:
    kgen("build", "small.yaml", "--no-verify", "--out", "a")
    kgen("build", small, "--no-verify", "--out", "b")
    for path in Path("a/small").iterdir():
        assert path.read_text() == (Path("b/small") / path.name).read_text()
        assert str(small.parent) not in path.read_text()


def test_a_second_build_is_remembered(kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
    words = ("build", small, "--backend", "triton", "--target", "sm_90", "--json")
    first, second = (json.loads(kgen(*words).out) for _ in range(2))
    assert [c["cached"] for c in first["compiled"]] == [False]
    assert [c["cached"] for c in second["compiled"]] == [True]
    assert [v["cached"] for v in first["verdicts"] + second["verdicts"]] == [False, True]
    assert first["files"] == second["files"]
    other = json.loads(kgen(*words, "--set", "compute=s[m] = 3 * sum[n](x[m, n])").out)
    assert [v["cached"] for v in other["verdicts"]] == [False]


def test_json_holds_resources_and_rows(kgen: Kgen, small: Path) -> None:
    made = json.loads(kgen("build", small, "--target", "sm_90", "--no-verify", "--json").out)
    assert made["ok"] and made["verdicts"] == []
    for kernel in made["compiled"]:
        assert kernel["resources"]["registers"] > 0 and kernel["error"] == ""
    assert [c["backend"] for c in made["compiled"]] == ["triton", "cuda"]


def test_a_wrong_reference_fails_the_build_and_leaves_the_old_files(kgen: Kgen, small: Path) -> None:
    small.write_text(SMALL + "reference: small\n")
    references = small.parent / "references.py"
    references.write_text("def small(x):\n    return 2 * x.sum(1).float()\n")
    words = ("build", small, "--backend", "triton", "--target", "sm_90")
    assert kgen(*words).code == 0
    before = {p.name: p.read_text() for p in Path("generated/small").iterdir()}
    references.write_text("def small(x):\n    return 3 * x.sum(1).float()\n")
    answer = kgen(*words, "--set", "doc=another")
    assert answer.code == 1
    assert "reference fails" in answer.out and "nothing was written" in answer.out
    assert {p.name: p.read_text() for p in Path("generated/small").iterdir()} == before


def test_a_failed_verdict_is_not_remembered(kgen: Kgen, small: Path) -> None:
    small.write_text(SMALL + "reference: small\n")
    (small.parent / "references.py").write_text("def small(x):\n    return x.sum(1).float()\n")
    words = ("build", small, "--backend", "triton", "--target", "sm_90", "--json")
    for _ in range(2):
        assert [v["cached"] for v in json.loads(kgen(*words).out)["verdicts"]] == [False]


def test_a_kernel_that_does_not_compile_is_shown_with_its_line(
    kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mutate(monkeypatch, "kgen.workflow.texts.generate", "extern", "extren")
    answer = kgen("build", small, "--backend", "cuda", "--no-verify")
    assert answer.code == 1
    assert "extren" in answer.out and "for sm_90" in answer.out and "for sm_80" in answer.out
    assert not Path("generated").exists()


def test_a_wrong_kernel_fails_with_its_smallest_case(kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _mutate(monkeypatch, "kgen.workflow.subjects.generate", " 2.0", " 3.0")
    answer = kgen("verify", small)
    assert answer.code == 1
    for backend in ("triton sm_90 (interpreter)", "cuda sm_90 (simulator)"):
        assert f"{backend} fails" in answer.out
    assert "sizes M=1, N=1" in answer.out


def test_a_fault_is_shown_with_its_thread_line_and_statement(
    kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mutate(monkeypatch, "kgen.workflow.subjects.generate", "x_ptr = x +", "x_ptr = x + 4096 +")
    answer = kgen("verify", small, "--backend", "cuda")
    assert answer.code == 1
    fault = next(line for line in answer.out.splitlines() if "fault: out_of_bounds" in line)
    for word in ("kernel small", "block", "thread", "line"):
        assert word in fault
    assert "in s1: s[m] = 2 * sum[n](x[m, n])" in answer.out


def test_another_seed_and_more_cases(kgen: Kgen, small: Path) -> None:
    words = ("verify", small, "--backend", "triton", "--json")
    (quick,), (full,) = (json.loads(kgen(*words, *more).out) for more in ((), ("--full", "--seed", "9")))
    assert full["rows"][0]["cases"] > quick["rows"][0]["cases"]
    assert full["rows"][0]["passed"] == full["rows"][0]["cases"]


def _mutate(monkeypatch: pytest.MonkeyPatch, place: str, old: str, new: str) -> None:
    """Change emitted texts where `place` generates them."""

    def mutated(*args: Any, **options: Any) -> Emitted:
        made = generate(*args, **options)
        assert old in made.text
        return replace(made, text=made.text.replace(old, new))

    monkeypatch.setattr(place, mutated)


def test_mutants_are_made_where_subjects_generate() -> None:
    assert subjects.generate is generate
