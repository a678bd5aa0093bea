"""Every spec of the repository through both backends on the CPU, judged by the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from subjects import CpuSubject

from kgen.configure import configure
from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.resolve_variants import Variant, dtype_choices, variants
from kgen.spec import Spec, load
from kgen.verify.cases import Case, cases_for
from kgen.verify.run import verify

ROOT = Path(__file__).parents[2]
OTHERS = {"predicates.yaml"}
SHIPPED, OWN = (sorted(p for p in (ROOT / d).glob("*.yaml") if p.name not in OTHERS) for d in ("specs", "tests/specs"))
SPECS = SHIPPED + OWN
BACKENDS = ("triton", "cuda")
SLOW = [pytest.param(p, "cuda", id=f"{p.stem}-cuda", marks=pytest.mark.long) for p in OWN]
QUICK = [pytest.param(p, b, id=f"{p.stem}-{b}") for p in SPECS for b in BACKENDS if b == "triton" or p in SHIPPED]
LARGEST = 256  # quick cases have extents as if no tile were larger


def cases_of(spec: Spec, variant: Variant, target: Target, quick: bool) -> list[Case]:
    math = resolve(spec, variant.dtypes)
    config = configure(
        math,
        spec,
        backend=target.backend,
        arch=target.arch,
        dtypes=variant.dtypes,
        sizes=variant.sizes,
        params=variant.params,
    )
    tiles = {a: x.tile for a, x in config.axes.items() if isinstance(x.tile, int)}
    if quick:
        tiles = {a: min(t, LARGEST) for a, t in tiles.items()}
    return cases_for(math, tiles, quick, fixed=variant.sizes)


def all_dtypes(spec: Spec) -> list[Variant]:
    """Return the variants of a spec, and the first one with each dtype that a type variable can have."""
    found = variants(spec)
    choices = dtype_choices(spec)
    for name, dtypes in choices.items():
        for dtype in dtypes:
            variant = replace(found[0], dtypes=found[0].dtypes | {name: dtype})
            if variant not in found:
                found.append(variant)
    return found


def assert_right(spec: Spec, variant: Variant, target: Target, folder: Path, cases: list[Case]) -> None:
    subject = CpuSubject(spec, variant, target, folder)
    report = verify(resolve(spec, variant.dtypes), [subject], cases, smallest=False)
    assert report.ok, report


@pytest.mark.parametrize(("path", "backend"), QUICK + SLOW)
def test_spec(path: Path, backend: str, simulator_cache: Path) -> None:
    spec = load(path)
    target = Target(backend, "sm_90")
    variant = min(variants(spec), key=lambda v: sum(v.sizes.values()))
    cases = [c for c in cases_of(spec, variant, target, quick=True) if c.kind == "typical"]
    assert_right(spec, variant, target, simulator_cache, cases[:2])


@pytest.mark.long
@pytest.mark.parametrize("arch", ("sm_80", "sm_90"))
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", SPECS, ids=[p.stem for p in SPECS])
def test_spec_thoroughly(path: Path, backend: str, arch: str, simulator_cache: Path) -> None:
    spec = load(path)
    target = Target(backend, arch)
    for variant in all_dtypes(spec):
        assert_right(spec, variant, target, simulator_cache, cases_of(spec, variant, target, quick=False))
