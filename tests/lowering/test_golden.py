"""What each stage makes of three specs, against the files under tests/golden (`--update-golden` rewrites them)."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.spec import load
from kgen.workflow.instance import instances
from kgen.workflow.show import show
from kgen.workflow.texts import Origin

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"
SPECS = ("softmax_online", "matmul", "flash_attn")
OF_SPEC = ("resolve", "accumulate")  # the same for every backend
OF_BACKEND = ("tile", "mask", "simplify", "schedule", "emit")
FILES = [(s, stage, "triton") for s in SPECS for stage in OF_SPEC]
FILES += [(s, stage, backend) for s in SPECS for stage in OF_BACKEND for backend in ("triton", "cuda")]


@pytest.mark.parametrize(("spec", "stage", "backend"), FILES)
def test_golden(spec: str, stage: str, backend: str, request: pytest.FixtureRequest) -> None:
    instance = instances(load(ROOT / f"specs/{spec}.yaml"))[0]
    text = show(instance, stage, backend, "sm_90", Origin(f"specs/{spec}.yaml", f"kgen build specs/{spec}.yaml"))
    path = GOLDEN / spec / (f"{stage}.txt" if stage in OF_SPEC else f"{stage}.{backend}.txt")
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"{path} is missing: run pytest --update-golden"
    assert text == path.read_text(), f"{path} differs: if that is meant, run pytest --update-golden"
