"""Each primitive of kgen.cuh, in the simulator, computes what PyTorch computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen import sim

from .asynchronous import ASYNC_CASES
from .barriers import BARRIER_CASES
from .case import Case, Tensors, mismatch
from .primitives import CASES, HOPPER_CASES, SHUFFLE_CASE


def simulate(case: Case, cache_dir: Path, options: sim.Options | None = None) -> tuple[sim.Report, Tensors, Tensors]:
    kernel = sim.compile(case.text, case.entry, cache_dir=cache_dir)
    inputs, outputs = case.inputs(), case.outputs()
    args = case.arguments(inputs, outputs)
    return sim.launch(kernel, case.grid, case.block, case.smem, args, options=options), outputs, inputs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.entry)
def test_primitive(case: Case, cache_dir: Path) -> None:
    report, outputs, inputs = simulate(case, cache_dir)
    assert report.ok, str(report)
    assert mismatch(case, outputs, inputs) is None


@pytest.mark.parametrize("case", [*ASYNC_CASES, *BARRIER_CASES, *HOPPER_CASES], ids=lambda case: case.entry)
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_late_completion_changes_nothing(case: Case, seed: int | None, cache_dir: Path) -> None:
    report, outputs, inputs = simulate(case, cache_dir, sim.Options(seed=seed, lazy=True))
    assert report.ok, str(report)
    assert mismatch(case, outputs, inputs) is None


@pytest.mark.parametrize("seed", [1, 2])
def test_random_thread_order_changes_nothing(seed: int, cache_dir: Path) -> None:
    report, outputs, inputs = simulate(SHUFFLE_CASE, cache_dir, sim.Options(seed=seed))
    assert report.ok, str(report)
    assert mismatch(SHUFFLE_CASE, outputs, inputs) is None
