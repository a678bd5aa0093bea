"""Every kind of fault is caught at the right line with the right words, and the repaired twin is not flagged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kgen import sim

from .faulty import FAULTY as SYNCHRONOUS
from .faulty import Faulty
from .faulty_async import ASYNC
from .faulty_barriers import BARRIERS
from .faulty_hopper import HOPPER, HopperFaulty

FAULTY = [*SYNCHRONOUS, *ASYNC, *BARRIERS, *HOPPER]
pytestmark = pytest.mark.filterwarnings("error")


def run(case: Faulty, broken: bool, cache_dir: Path, options: sim.Options) -> sim.Report:
    kernel = sim.compile(case.text, "faulty", cache_dir=cache_dir)
    if isinstance(case, HopperFaulty):
        return sim.launch(kernel, 1, 128, 16384, hopper_args(broken), options=options)
    args = [
        sim.TensorArg("x", torch.arange(128.0), "in"),
        sim.TensorArg("y", torch.zeros(128), "out"),
        sim.TensorArg("n", torch.zeros(8, dtype=torch.int32), "inout"),
        sim.ScalarArg("broken", "i32", int(broken)),
    ]
    return sim.launch(kernel, 2, 64, 4096, args, options=options)


def hopper_args(broken: bool) -> list[sim.Arg]:
    return [
        sim.TensorMapArg("x", torch.ones(32, 32), "in", (8, 32), 128),
        sim.TensorMapArg("z", torch.ones(32, 32), "inout", (8, 32), 128),
        sim.TensorArg("y", torch.zeros(128), "out"),
        sim.ScalarArg("broken", "i32", int(broken)),
    ]


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
def test_fault_is_reported(case: Faulty, cache_dir: Path) -> None:
    limit = 0.3 if case.kind == "timeout" else 20.0
    report = run(case, True, cache_dir, sim.Options(workers=1, time_limit=limit))
    assert [fault.kind for fault in report.faults] == [case.kind], str(report)
    fault = report.faults[0]
    for word in case.says:
        assert word in fault.message, f"'{word}' is not in: {fault.message}"
    if case.kind != "coverage":
        assert (fault.line, fault.kernel) == (case.line, "faulty"), str(report)
        assert "HERE" in fault.source
    if case.block is not None:
        assert fault.block == case.block


@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case.name)
@pytest.mark.parametrize("seed", [None, 5])
def test_repaired_twin_is_not_flagged(case: Faulty, seed: int | None, cache_dir: Path) -> None:
    report = run(case, False, cache_dir, sim.Options(workers=2, seed=seed, lazy=seed is not None))
    assert report.ok, str(report)


@pytest.mark.parametrize("case", [case for case in FAULTY if case.kind == "race"], ids=lambda case: case.name)
@pytest.mark.parametrize("seed", [3, 4])
def test_races_are_found_in_any_thread_order(case: Faulty, seed: int, cache_dir: Path) -> None:
    report = run(case, True, cache_dir, sim.Options(workers=1, seed=seed))
    # What is not ordered may also not have happened yet, or too often.
    assert {fault.kind for fault in report.faults} <= {"race", "uninitialised", "barrier", "deadlock"}
    assert not report.ok
