"""The shipped specs: the oracle and the PyTorch references, written independently, agree on every case."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from kgen import resources
from kgen.resolve import resolve, variants
from kgen.spec import load
from kgen.verify.cases import cases_for
from kgen.verify.report import render
from kgen.verify.run import verify

FOLDER = resources.path("specs")
SPECS = sorted(p.stem for p in FOLDER.glob("*.yaml") if "\nreference: " in p.read_text())


def references() -> ModuleType:
    spec = importlib.util.spec_from_file_location("references", FOLDER / "references.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_specs_have_references() -> None:
    assert {"flash_attn", "matmul", "softmax"} <= set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_oracle_and_reference_agree(name: str) -> None:
    """Over no elements they need not: there torch's functions follow no common rule, a spec its conventions."""
    spec = load(Path(FOLDER / f"{name}.yaml"))
    for variant in variants(spec):
        math = resolve(spec, variant.dtypes)
        tiles = {a.name: min(a.tile, 16) for a in math.axes.values() if isinstance(a.tile, int)}
        cases = cases_for(math, tiles, False, fixed={n: min(v, 32) for n, v in variant.sizes.items()})
        full = [c for c in cases if all(c.sizes.values())]
        assert len(full) >= 8
        assert math.reference is not None
        report = verify(math, [], full, reference=getattr(references(), math.reference))
        assert report.ok, render(report)
        assert report.rows[0].passed == len(full)
