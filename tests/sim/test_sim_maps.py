"""Tensor maps refuse what cuTensorMapEncodeTiled would, and late completion shows what races=False hides."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from kgen import sim
from kgen.errors import KgenError

from .case import mismatch
from .hand_kernels import product_case
from .test_sim_primitives import simulate
from .tiles import TILE_CASES

GOOD = torch.zeros(40, 64)


@pytest.mark.parametrize(
    ("tensor", "box", "swizzle", "words"),
    [
        (GOOD, (8, 32, 1), 0, "a box of as many"),
        (torch.zeros(()), (), 0, "1 to 5 dimensions"),
        (torch.zeros(0, 64), (8, 32), 0, "empty"),
        (GOOD.T, (32, 8), 0, "stride 64 instead of 1"),
        (torch.zeros(40, 65)[:, :64], (8, 32), 0, "multiples of 16 bytes"),
        (torch.zeros(40, 68)[:, 1:65], (8, 32), 0, "address"),
        (torch.zeros(1, 64).expand(40, 64), (8, 32), 0, "positive"),
        (torch.zeros(400, 64), (257, 32), 0, "1 to 256"),
        (GOOD, (8, 32), 48, "spans 0, 32, 64 or 128"),
        (GOOD, (8, 3), 0, "rows of 12 bytes"),
        (GOOD, (8, 32), 64, "exceed the swizzle's span"),
    ],
)
def test_impossible_maps(tensor: torch.Tensor, box: tuple[int, ...], swizzle: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sim.TensorMapArg("x", tensor, "in", box, swizzle)


def test_a_map_is_not_a_pointer(cache_dir: Path) -> None:
    case = TILE_CASES[0]
    kernel = sim.compile(case.text, case.entry, cache_dir=cache_dir)
    args = [sim.TensorArg(name, x, "in") for name, x in {**case.inputs(), **case.outputs()}.items()]
    with pytest.raises(KgenError, match=r"takes \(tensor map, pointer\).*x: pointer"):
        sim.launch(kernel, 1, 64, case.smem, args)


def test_padding_beyond_a_row_that_is_no_multiple_of_16_bytes(cache_dir: Path) -> None:
    """The hardware cuts stored rows only at 16 bytes, so such a store hits what lies between the view's rows."""
    case = next(case for case in TILE_CASES if case.entry == "store_2d_span128")
    kernel = sim.compile(case.text, case.entry, cache_dir=cache_dir)
    for columns, ok in ((40, True), (37, False)):
        y = torch.full((20, 40), 5.0)[:, :columns]
        args = [sim.TensorMapArg("y", y, "inout", *case.maps["y"]), sim.TensorArg("z", torch.zeros(64), "out")]
        report = sim.launch(kernel, 1, 64, case.smem, args)
        assert report.ok == ok
    assert report.faults[0].kind == "out_of_bounds" and "between the elements of the view" in report.faults[0].message


def test_counted_bytes_of_tiles(cache_dir: Path) -> None:
    case = TILE_CASES[0]  # rows 8 to 19 of 20 are inside, of 64 halves each
    report, _, _ = simulate(case, cache_dir)
    x = report.counters.tensors["x"]
    assert (x.loaded, x.distinct_loaded) == (12 * 64 * 2, 12 * 64 * 2)
    assert report.counters.instructions["tma_load"] == 1


@pytest.mark.parametrize("seed", [None, 1])
def test_late_completion_turns_a_lost_wait_into_a_wrong_result(seed: int | None, cache_dir: Path) -> None:
    case = product_case(64, 64, 64)
    lost = dataclasses.replace(case, text=case.text.replace("cp_async_wait<1>();", "cp_async_wait<2>();"))
    for options, right in ((sim.Options(races=False), True), (sim.Options(races=False, lazy=True, seed=seed), False)):
        report, outputs, inputs = simulate(lost, cache_dir, options)
        assert report.ok, str(report)
        assert (mismatch(lost, outputs, inputs) is None) == right
