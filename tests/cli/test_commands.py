"""Commands that look at a spec: check, show, diff, new, schema, doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Kgen

from kgen import configure_target
from kgen.workflow.show import STAGES

SHOWN = {
    "parse": "Reduction name='sum'",
    "resolve": "s1 s[m] = s[m]: f32 = 2.0 * sum[n](",
    "accumulate": "fold f1: sum over n",
    "tile": "loop n step 16",
    "mask": "plain",
    "simplify": "kernel small(",
    "schedule": "axis n: stream, tile 16",
    "layout": "threads of tx",
    "emit": "[s1] s[m] = 2 * sum[n](x[m, n])",
}


@pytest.mark.parametrize("stage", STAGES)
def test_show_prints_every_stage(stage: str, kgen: Kgen, small: Path) -> None:
    answer = kgen("show", small, "--stage", stage, "--backend", "cuda")
    assert answer.code == 0, answer.err
    assert SHOWN[stage] in answer.out


def test_show_prints_triton_by_default_and_cuda_when_asked(kgen: Kgen, small: Path) -> None:
    assert "@triton.jit" in kgen("show", small).out
    assert "KG_GLOBAL_BOUNDS" in kgen("show", small, "--backend", "cuda").out


def test_show_applies_overrides_and_the_variant(kgen: Kgen, small: Path) -> None:
    small.write_text(SMALL + "variants: [{T: f32}, {T: bf16}]\n")
    words = ("show", small, "--variant", "2", "--stage", "mask", "--set", "axes.n.tile=32")
    answer = kgen(*words)
    assert "buffer x[M, N:1] bf16" in answer.out
    assert "step 32" in answer.out


def test_show_plans_of_cuda(kgen: Kgen, small: Path) -> None:
    answer = kgen("show", small, "--stage", "schedule", "--backend", "cuda")
    assert "plan of small for sm_90: simt" in answer.out
    assert "\nsteps\n" in answer.out


def test_diff_aligns_both_texts_within_the_width(kgen: Kgen, small: Path) -> None:
    answer = kgen("diff", small, "--width", "120")
    lines = answer.out.splitlines()
    assert answer.code == 0
    assert lines[0].startswith("Triton") and lines[0].endswith("CUDA")
    assert max(map(len, lines)) <= 120
    loads = [i for i, line in enumerate(lines) if line.startswith("[s1]") and line.rstrip().endswith("(load)")]
    assert loads
    left, right = lines[loads[0] + 1].split(" | ")
    assert "x" in left and "x" in right


def test_check_says_what_was_checked(kgen: Kgen, small: Path) -> None:
    answer = kgen("check", small)
    assert answer.code == 0
    assert "resolved for T=f32, T=bf16" in answer.out
    assert "proved accumulators: sum" in answer.out
    assert [line.split()[1] for line in answer.out.splitlines() if "small" in line and "sm_90" in line] == [
        "triton",
        "cuda",
    ]


def test_check_goes_on_after_a_wrong_spec(kgen: Kgen, small: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(SMALL.replace("kernel: small", "kernel: wrong").replace("dtype: f32", "dtype: f23"))
    answer = kgen("check", wrong, small)
    assert answer.code == 2
    assert "wrong.yaml:5:" in answer.err
    assert "small: ok" in answer.out


def test_check_as_json(kgen: Kgen, small: Path) -> None:
    (found,) = json.loads(kgen("check", small, "--json").out)
    assert found["ok"] and found["kernel"] == "small" and found["accumulators"] == ["sum"]


def test_check_tells_what_gave_way(kgen: Kgen, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configure_target, "BUILT", ("triton", "simt"))
    answer = kgen("check", small, "--set", "schedule.cuda.skeleton=mma")
    (note,) = [line for line in answer.out.splitlines() if "note: " in line]
    assert note.startswith("  note: cuda: skeleton mma ") and "simt is used instead" in note


def test_new_writes_a_spec_that_passes_its_check_and_keeps_what_is_there(kgen: Kgen) -> None:
    assert kgen("new", "mine").code == 0
    assert kgen("check", "mine.yaml").code == 0
    Path("mine.yaml").write_text("precious")
    answer = kgen("new", "mine")
    assert answer.code == 2 and "exists already" in answer.err
    assert Path("mine.yaml").read_text() == "precious"


def test_schema_is_json(kgen: Kgen) -> None:
    assert "kernel" in json.loads(kgen("schema").out)["properties"]


def test_doctor_names_what_it_found(kgen: Kgen) -> None:
    answer = kgen("doctor", "--json")
    found = {f["name"]: f for f in json.loads(answer.out)}
    assert {"kgen", "torch", "triton", "NVRTC", "GPU", "cache", "Triton's interpreter"} <= set(found)
    missing = [f for f in found.values() if f["needed"] and not f["ok"]]
    assert (answer.code == 1) == bool(missing)
