"""Split axes: every record with one part, several, and more parts than there are tiles."""

from __future__ import annotations

from pathlib import Path

import pytest
from record_specs import USES, spec_of
from subjects import CpuSubject

from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.resolve_variants import variants
from kgen.verify.cases import Case
from kgen.verify.run import verify

COUNTS = (1, 2, 7, "auto")  # 7 is more than there are tiles


def assert_right(record: str, parts: int | str, backend: str, folder: Path) -> None:
    spec = spec_of(record, parts)
    variant = variants(spec)[0]
    math = resolve(spec, variant.dtypes)
    shapes = [{"M": 5, "N": 40}, {"M": 17, "N": 0}, {"M": 1, "N": 1}]
    cases = [Case(s | variant.sizes, {}, "typical", i, f"{s}") for i, s in enumerate(shapes)]
    cases.append(Case(shapes[0] | variant.sizes, {}, "infinite" if "softmax" in record else "huge", 9, "special"))
    report = verify(math, [CpuSubject(spec, variant, Target(backend, "sm_90"), folder)], cases, smallest=False)
    assert report.ok, report


@pytest.mark.parametrize("parts", COUNTS)
@pytest.mark.parametrize("record", USES)
def test_parts_in_triton(record: str, parts: int | str, tmp_path: Path) -> None:
    assert_right(record, parts, "triton", tmp_path)


@pytest.mark.parametrize("record", ("sum", "online_softmax", "welford", "argmax"))
def test_parts_in_cuda(record: str, simulator_cache: Path) -> None:
    assert_right(record, 7, "cuda", simulator_cache)


@pytest.mark.long
@pytest.mark.parametrize("parts", COUNTS)
@pytest.mark.parametrize("record", USES)
def test_all_parts_in_cuda(record: str, parts: int | str, simulator_cache: Path) -> None:
    assert_right(record, parts, "cuda", simulator_cache)
