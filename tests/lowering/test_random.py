"""Random specs: each is right in both backends, or refused with a place in its text."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_specs import random_spec
from subjects import CpuSubject

from kgen.errors import SpecError
from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.resolve_variants import variants
from kgen.spec import load
from kgen.verify.cases import Case
from kgen.verify.run import verify

SHAPES = ({"M": 17, "N": 33, "K": 20}, {"M": 5, "N": 9, "K": 37}, {"M": 1, "N": 1, "K": 0})


def assert_right(seed: int, backend: str, folder: Path) -> None:
    text = random_spec(seed)
    spec = load(text)
    variant = variants(spec)[0]
    math = resolve(spec, variant.dtypes)
    subject = CpuSubject(spec, variant, Target(backend, "sm_90"), folder)
    try:
        padded = subject.padded()
    except SpecError as refused:
        assert all(d.span is not None for d in refused.diagnostics)
        return
    assert isinstance(padded, list)
    sizes = [{n: v for n, v in shape.items() if n in math.sizes} | variant.sizes for shape in SHAPES]
    cases = [Case(s, {}, "typical", seed + i, f"{s}") for i, s in enumerate(sizes)]
    report = verify(math, [subject], cases, smallest=False)
    assert report.ok, f"{text}\n{report}"


@pytest.mark.parametrize("seed", range(20))
def test_random_in_triton(seed: int, tmp_path: Path) -> None:
    assert_right(seed, "triton", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1100))
def test_many_in_triton(seed: int, tmp_path: Path) -> None:
    assert_right(seed, "triton", tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2000, 2060))
def test_many_in_cuda(seed: int, simulator_cache: Path) -> None:
    assert_right(seed, "cuda", simulator_cache)
