"""Whole kernels: correct in every mode, exactly counted, and broken noticeably by the loss of any synchronisation."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

import pytest
import torch
from _pytest.mark.structures import ParameterSet

from kgen import sim

from .case import Case, mismatch
from .hand_kernels import attention_case, attention_wgmma_case, product_case, wgmma_case
from .test_sim_primitives import simulate

SYNCHRONISATION = re.compile(
    r"\b(sync_threads|bar_sync|cp_async_commit|cp_async_wait<\d>|mbar_init|mbar_wait|mbar_arrive|mbar_arrive_tx|"
    r"fence_mbar_init|fence_proxy_async|wgmma_fence|wgmma_commit|wgmma_wait<\d>|tma_commit|tma_wait_read<\d>)\([^;]*\);"
)
ATTENTION, PRODUCT = attention_case(1, 200, 64, False), product_case(100, 72, 136)
WGMMA = wgmma_case(100, 72, 320)
ATTENTION_WGMMA = attention_wgmma_case(1, 200, 64, False)
KERNELS = [ATTENTION, PRODUCT, WGMMA, ATTENTION_WGMMA]
FOUND = {"race", "uninitialised", "deadlock", "barrier", "missing_fence", "in_flight"}


def grid(*lengths: int) -> list[ParameterSet]:
    """Return (length, causal, width): two of them always run, the others are long, for each is compiled by itself."""
    quick = {(lengths[0], False, 128), (lengths[-1], True, 64)}
    every = itertools.product(lengths, (False, True), (64, 128))
    return [pytest.param(*key, marks=() if key in quick else pytest.mark.long) for key in every]


def check(case: Case, cache_dir: Path, options: sim.Options | None = None) -> sim.Report:
    report, outputs, inputs = simulate(case, cache_dir, options)
    assert report.ok, str(report)
    assert mismatch(case, outputs, inputs) is None
    return report


@pytest.mark.parametrize(("length", "causal", "width"), grid(1, 63, 129))
def test_attention(length: int, causal: bool, width: int, cache_dir: Path) -> None:
    check(attention_case(2, length, width, causal), cache_dir)


@pytest.mark.parametrize(("length", "causal", "width"), grid(1, 127, 193))
def test_attention_by_wgmma(length: int, causal: bool, width: int, cache_dir: Path) -> None:
    report = check(attention_wgmma_case(2, length, width, causal), cache_dir)
    assert report.counters.bank_conflicts == 0


@pytest.mark.parametrize("shape", [(64, 64, 64), (65, 8, 8), (1, 136, 40)])
def test_product(shape: tuple[int, int, int], cache_dir: Path) -> None:
    check(product_case(*shape), cache_dir)


@pytest.mark.parametrize("shape", [(64, 64, 64), (65, 8, 72), (1, 136, 320)])
def test_wgmma(shape: tuple[int, int, int], cache_dir: Path) -> None:
    report = check(wgmma_case(*shape), cache_dir)
    m, n, k = shape
    blocks, steps = -(-m // 64) * -(-n // 64), -(-k // 64)
    instructions = report.counters.instructions
    assert instructions["wgmma"] == blocks * steps * 4 * 4  # 4 warps, 4 steps of 16
    assert (instructions["tma_load"], instructions["tma_store"]) == (2 * blocks * steps, blocks)
    assert report.counters.bank_conflicts == 0


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.entry)
def test_late_completion_and_random_order_change_nothing(case: Case, cache_dir: Path) -> None:
    results = []
    for seed in (None, 1, 2, 3):
        report, outputs, _ = simulate(case, cache_dir, sim.Options(seed=seed, lazy=seed != 3, races=seed == 1))
        assert report.ok, str(report)
        results.append(outputs)
    assert all(torch.equal(found[name], results[0][name]) for found in results for name in found)


def with_choice(case: Case) -> str:
    """Return the text with one more parameter, the number of the synchronising call to leave out (-1: none)."""
    numbers = itertools.count()
    text = SYNCHRONISATION.sub(lambda call: f"if (lost != {next(numbers)}) {call[0]}", case.text)
    text = re.sub(rf"(void {case.entry}\([^{{]*)\) {{\n", r"\1, int chosen) {\n    lost = chosen;\n", text)
    return text.replace('#include "kgen.cuh"\n', '#include "kgen.cuh"\nstatic int lost;\n')


def launch_without(case: Case, which: int, cache_dir: Path) -> sim.Report:
    kernel = sim.compile(with_choice(case), case.entry, cache_dir=cache_dir)
    args = [*case.arguments(case.inputs(), case.outputs()), sim.ScalarArg("chosen", "i32", which)]
    return sim.launch(kernel, case.grid, case.block, case.smem, args)


def deletions() -> list[tuple[Case, int]]:
    return [(case, i) for case in KERNELS for i in range(len(SYNCHRONISATION.findall(case.text)))]


@pytest.mark.parametrize(("case", "which"), deletions(), ids=lambda value: getattr(value, "entry", str(value)))
def test_a_lost_call_is_found(case: Case, which: int, cache_dir: Path) -> None:
    report = launch_without(case, which, cache_dir)
    assert {fault.kind for fault in report.faults} <= FOUND and not report.ok


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.entry)
def test_no_lost_call_is_no_fault(case: Case, cache_dir: Path) -> None:
    report = launch_without(case, -1, cache_dir)
    assert report.ok, str(report)


def test_attention_is_fast_and_counted(cache_dir: Path) -> None:
    case = attention_case(2, 256, 128, False)
    simulate(case, cache_dir)
    start = time.process_time()
    report = check(case, cache_dir)
    assert time.process_time() - start < 2, "the check of one attention case takes too long"
    # 8 blocks x 4 tiles x 4 warps, each 2 x (64/8) x (128/16) products; Q once per block.
    assert report.counters.instructions["mma_m16n8k16"] == 8 * 4 * 4 * 128
    assert report.counters.instructions["ldmatrix"] == 8 * 4 * (4 * (32 + 32) + 8)
    assert report.counters.tensors["k"].loaded == 4 * 2 * 256 * 128 * 2
