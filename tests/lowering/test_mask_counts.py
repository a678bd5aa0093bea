"""Which tiles a loop runs, and which of them masked: against the dense mask, in the IR and as the simulator counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from predicates import Mask, Predicate, random_predicate
from subjects import CpuSubject

from kgen.index import evaluate
from kgen.ir import Kernel, Loop
from kgen.pipeline import Target, lower
from kgen.resolve_variants import variants
from kgen.spec import Spec, load
from kgen.specialise import Specialisation
from kgen.verify.subject import Call

BM, BN = 16, 8
SIZES = ((48, 40), (33, 50), (16, 8), (5, 3), (64, 17), (3, 90), (1, 1), (40, 0), (0, 40))
TEXT = f"""kernel: masked_sum
axes: {{m: {{extent: M, tile: {BM}}}, n: {{extent: N, tile: {BN}, stream: true}}}}
tensors: {{x: {{dims: [m, n], dtype: f32}}, y: {{dims: [m], dtype: f32, out: true}}}}
compute: y[m] = sum[n if PREDICATE](x[m, n])
"""
EXACT: dict[str, Callable[[int, int], Mask]] = {
    "not (m < n - (N - M))": lambda M, N: np.fromfunction(lambda m, n: ~(m < n - (N - M)), (M, N), dtype=int),
    "2 * n <= 3 * m + 1": lambda M, N: np.fromfunction(lambda m, n: 2 * n <= 3 * m + 1, (M, N), dtype=int),
    "n // 16 <= m // 16": lambda M, N: np.fromfunction(lambda m, n: n // 16 <= m // 16, (M, N), dtype=int),
    "n <= m and (m - n < 12 or n < 4)": lambda M, N: np.fromfunction(
        lambda m, n: (n <= m) & ((m - n < 12) | (n < 4)), (M, N), dtype=int
    ),
}


def spec_of(predicate: str) -> Spec:
    return load(TEXT.replace("PREDICATE", predicate))


def tiles(start: int, stop: int) -> range:
    return range(start // BN * BN, stop, BN)


def needed(mask: Mask) -> tuple[set[int], set[int]]:
    """Return the starts of tiles with an element that exists, and of whole tiles of such elements, for some rows."""
    columns = mask.shape[1]
    found = {t: mask[:, t : t + BN] for t in range(0, columns, BN)}
    some = {t for t, part in found.items() if part.any()}
    return some, {t for t in some if found[t].all() and t + BN <= columns}


def walked(kernel: Kernel, rows: range, M: int, N: int) -> list[tuple[int, bool]]:
    """Return (start, masked) of the tiles that the loop runs for a tile of rows."""
    loop = next(op for op in kernel.body if isinstance(op, Loop))
    env = {"M": M, "N": N, "m_start": rows.start}
    return [
        (t, s.kind != "plain")
        for s in loop.segments
        for t in range(int(evaluate(s.lo, env)), int(evaluate(s.hi, env)), BN)
    ]


def row_tiles(M: int) -> Iterator[range]:
    return (range(m, min(m + BM, M)) for m in range(0, M, BM))


def kernel_of(spec: Spec) -> Kernel:
    key = Specialisation({}, units={"x": 1, "y": 0}, aligned=frozenset({"x", "y"}))
    return lower(spec, key, Target("cuda", "sm_90")).program.kernels[0]


def assert_sound(run: list[tuple[int, bool]], mask: Mask) -> None:
    starts = [t for t, _ in run]
    some, whole = needed(mask)
    assert len(set(starts)) == len(starts), "a tile runs twice"
    assert some <= set(starts), "a tile with elements does not run"
    assert {t for t, masked in run if not masked} <= whole, "a plain tile has elements that do not exist"


@pytest.mark.parametrize("predicate", EXACT)
def test_exact_in_ir(predicate: str) -> None:
    kernel = kernel_of(spec_of(predicate))
    for M, N in SIZES:
        mask = EXACT[predicate](M, N)
        for rows in row_tiles(M):
            run = walked(kernel, rows, M, N)
            some, whole = needed(mask[rows.start : rows.stop])
            assert_sound(run, mask[rows.start : rows.stop])
            assert ({t for t, _ in run}, {t for t, masked in run if not masked}) == (some, whole), (M, N, rows)


@pytest.mark.parametrize("predicate", EXACT)
def test_exact_in_simulator(predicate: str, simulator_cache: Path) -> None:
    spec = spec_of(predicate)
    subject = CpuSubject(spec, variants(spec)[0], Target("cuda", "sm_90"), simulator_cache)
    for M, N in SIZES[:4]:
        mask = EXACT[predicate](M, N)
        x = torch.randn(M, N)
        result = subject.run(Call({"x": x}, {"M": M, "N": N}, {}, {"y": torch.full((M,), float("nan"))}))
        assert not result.faults
        torch.testing.assert_close(result.outputs["y"], torch.where(torch.from_numpy(mask), x, 0).sum(1))
        (report,) = subject.reports
        parts = [needed(mask[rows.start : rows.stop]) for rows in row_tiles(M)]
        expected = (sum(len(some) for some, _ in parts), sum(len(some) - len(whole) for some, whole in parts))
        assert report.tiles.get(0, (0, 0)) == expected, (M, N)
        for block, (some, _) in enumerate(parts):
            assert sorted(report.tile_starts(block, 0)) == sorted(some)


def assert_by_rule(predicate: Predicate) -> None:
    """Sound, and no wider in hull nor (for one interval) narrower in interior than joining the comparisons' intervals.

    Of several intervals, a tile at the seam of two counts as masked.
    """
    several = " or " in predicate.text or "not" in predicate.text
    kernel = kernel_of(spec_of(predicate.text))
    for M, N in SIZES:
        mask = predicate.dense(M, N)
        for rows in row_tiles(M):
            run = walked(kernel, rows, M, N)
            assert_sound(run, mask[rows.start : rows.stop])
            hull, interior = predicate.rule(rows, N)
            allowed, _ = needed(hull[None])
            _, plain = needed(interior[None])
            assert {t for t, _ in run} <= allowed, (predicate.text, M, N, rows)
            assert several or plain <= {t for t, masked in run if not masked}, (predicate.text, M, N, rows)


@pytest.mark.parametrize("seed", range(12))
def test_compositions(seed: int) -> None:
    assert_by_rule(random_predicate(random.Random(seed)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_compositions(seed: int) -> None:
    assert_by_rule(random_predicate(random.Random(seed), depth=3))


@pytest.mark.parametrize("seed", (1, 5))
def test_compositions_in_simulator(seed: int, simulator_cache: Path) -> None:
    predicate = random_predicate(random.Random(seed))
    spec = spec_of(predicate.text)
    subject = CpuSubject(spec, variants(spec)[0], Target("cuda", "sm_90"), simulator_cache)
    kernel = kernel_of(spec)
    for M, N in ((33, 50), (5, 3)):
        x = torch.randn(M, N)
        result = subject.run(Call({"x": x}, {"M": M, "N": N}, {}, {"y": torch.full((M,), float("nan"))}))
        assert not result.faults
        expected = torch.where(torch.from_numpy(predicate.dense(M, N)), x, 0).sum(1)
        torch.testing.assert_close(result.outputs["y"], expected, rtol=1e-4, atol=1e-5)
        for block, rows in enumerate(row_tiles(M)):
            assert subject.reports[0].tile_starts(block, 0) == [t for t, _ in walked(kernel, rows, M, N)]
