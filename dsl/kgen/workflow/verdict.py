"""Whether a variant computes its spec: run once, and remembered by content while nothing that matters changes."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch

from kgen import resources, sim
from kgen.accumulators import own_records
from kgen.build import Cache, digest
from kgen.build.triton import triton_version
from kgen.ops.variants import arch_of
from kgen.spec_reference import load_reference
from kgen.verify.cases import Case, cases_for
from kgen.verify.report import Agreement, Failure, Report, Row
from kgen.workflow.instance import config_for
from kgen.workflow.progress import Progress
from kgen.workflow.texts import Texts

_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = (".py", ".yaml", ".lark", ".j2", ".cuh", ".hpp", ".cpp")


@dataclass(frozen=True)
class Verdict:
    """The report on one variant, and whether it was remembered from an earlier run."""

    words: str
    report: Report
    cached: bool

    @property
    def ok(self) -> bool:
        return self.report.ok


def verdict(texts: Texts, *, quick: bool, seed: int, progress: Progress, fresh: bool = False) -> Verdict:
    """Return the verdict on a variant. Only passes are remembered; `fresh` runs all cases whatever is remembered."""
    instance = texts.instance
    cases = cases_of(texts, quick=quick, seed=seed)
    key = digest(_contents(texts, cases))
    folder = None if fresh else Cache().get(key)
    if folder is not None:
        raw = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        return Verdict(instance.words, report_from_json(raw), True)
    gpu = _gpu_arch()
    where = "on the GPU" if gpu else "by interpreter and simulator"
    words = f" ({instance.words})" if instance.words else ""
    progress.stage(f"verifying {instance.spec.name}{words} {where}", len(cases))
    # Subjects import Triton, which takes a second that a remembered verdict does not need.
    trials = importlib.import_module("kgen.workflow.trials")
    report: Report = trials.run_trials(instance, _targets(texts), cases, gpu, progress)
    if report.ok:
        Cache().put(key, {"report.json": json.dumps(asdict(report)).encode()})
    return Verdict(instance.words, report, False)


def cases_of(texts: Texts, *, quick: bool, seed: int) -> list[Case]:
    """Return the cases of a variant: sizes from its tiles, its static sizes and params."""
    instance = texts.instance
    variant = instance.variant
    arch = texts.texts[0].arch
    config = config_for(instance, texts.texts[0].backend, arch, variant.sizes, variant.params)
    tiles = {n: a.tile for n, a in config.axes.items() if isinstance(a.tile, int)}
    cases = cases_for(instance.math, tiles, quick, variant.sizes)
    return [replace(c, seed=c.seed + seed, params={**variant.params, **c.params}) for c in cases]


def _targets(texts: Texts) -> tuple[tuple[str, str], ...]:
    return tuple((t.backend, t.arch) for t in texts.texts)


def _gpu_arch() -> str | None:
    if not torch.cuda.is_available():
        return None
    return arch_of(*torch.cuda.get_device_capability())


def _contents(texts: Texts, cases: list[Case]) -> dict[str, Any]:
    """Return all that a verdict follows from."""
    reference = load_reference(texts.instance.spec)
    code = "" if reference is None else Path(reference.__code__.co_filename).read_text(encoding="utf-8")
    return {
        "kind": "verdict",
        "kgen": kgen_digest(),
        "spec": texts.instance.spec.text,
        "records": {name: record.text for name, record in own_records(texts.instance.spec.records).items()},
        "variant": texts.instance.words,
        "texts": [(t.backend, t.arch, t.emitted.text, t.emitted.launch.to_json()) for t in texts.texts],
        "cases": [_case(c) for c in cases],
        "reference": code,
        "tools": _tools(),
    }


def _case(case: Case) -> dict[str, Any]:
    """Return a case as JSON values: sets as sorted lists."""
    return {k: sorted(v) if isinstance(v, frozenset) else v for k, v in asdict(case).items()}


@functools.cache
def kgen_digest() -> str:
    """Return a digest of kgen's own sources: they decide the texts of all keys that the cases reach."""
    roots = [_PACKAGE, resources.path("templates"), resources.path("specs") / "accumulators"]
    found = {}
    for root in roots:
        for path in _sources(root):
            found[f"{root.name}/{path.relative_to(root).as_posix()}"] = path.read_text(encoding="utf-8")
    return digest(found)


def _sources(root: Path) -> Iterable[Path]:
    return sorted(p for p in root.rglob("*") if p.suffix in _SOURCES and p.is_file())


@functools.cache
def _tools() -> dict[str, str]:
    found = {"torch": torch.__version__, "numpy": numpy.__version__, "triton": triton_version()}
    if torch.cuda.is_available():
        return {**found, "gpu": torch.cuda.get_device_name()}
    compiler = subprocess.run([sim.build.compiler(), "--version"], capture_output=True, text=True, check=True)
    return {**found, "c++": compiler.stdout}


def report_from_json(raw: dict[str, Any]) -> Report:
    """Return a report from `dataclasses.asdict` of one."""
    failures = tuple(
        Failure(**{**f, "index": tuple(f["index"]), "faults": tuple(f["faults"])}) for f in raw["failures"]
    )
    rows, agreements = tuple(Row(**r) for r in raw["rows"]), tuple(Agreement(**a) for a in raw["agreements"])
    return Report(raw["kernel"], raw["ok"], rows, failures, agreements)
