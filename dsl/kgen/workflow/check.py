"""Check: everything that can be known of a spec without a compiler."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgen import accumulators
from kgen.math import Math
from kgen.resolve import resolve
from kgen.resolve_variants import dtype_choices
from kgen.spec import Spec
from kgen.spec_reference import load_reference
from kgen.types import DType
from kgen.workflow.instance import instances
from kgen.workflow.progress import Progress
from kgen.workflow.texts import Origin, Text, Texts, texts_for


@dataclass(frozen=True)
class Checked:
    """What was checked. `rows`: variant, backend, architecture, kernels and shared memory of each lowered text."""

    kernel: str
    dtypes: tuple[str, ...]
    statements: int
    accumulators: tuple[str, ...]
    rows: tuple[tuple[str, str, str, str, str], ...]
    notes: tuple[str, ...]


def check(spec: Spec, backends: tuple[str, ...], targets: tuple[str, ...], progress: Progress) -> Checked:
    """Resolve a spec for every dtype choice, prove its accumulators, lower every variant; raise KgenError."""
    choices = list(_dtype_choices(spec))
    progress.stage(f"resolving {spec.name}", len(choices))
    maths = [resolve(spec, c) for c in choices]
    load_reference(spec)
    records = _prove(spec, {r.record for m in maths for r in m.reductions()}, progress)
    found = instances(spec)
    progress.stage(f"lowering {spec.name}", len(found))
    texts = []
    for instance in found:
        texts.append(texts_for(instance, backends, targets, Origin()))
        progress.step(instance.words)
    words = tuple(", ".join(f"{k}={v}" for k, v in c.items()) for c in choices if c)
    rows = tuple(row for t in texts for row in _rows(t))
    return Checked(spec.name, words, len(maths[0].statements), records, rows, (*_demands(maths[0]), *notes_of(texts)))


def notes_of(texts: Sequence[Texts]) -> tuple[str, ...]:
    """Return what the schedules ask for and is done otherwise, once each."""
    found = [f"{t.backend}: {n}" for x in texts for t in x.texts for n in _notes(t)]
    return tuple(dict.fromkeys(found))


def _demands(math: Math) -> list[str]:
    """Return what a call must fulfil although the spec does not say so."""
    return [f"{c.text}, checked at every call" for c in math.checks if c.implied]


def _notes(text: Text) -> Iterator[str]:
    config = text.emitted.config
    for c in (config, *config.kernels.values()):
        yield from c.notes


def _dtype_choices(spec: Spec) -> Iterator[dict[str, DType]]:
    choices = dtype_choices(spec)
    for combination in itertools.product(*choices.values()):
        yield dict(zip(choices, combination, strict=True))


def _prove(spec: Spec, names: set[str], progress: Progress) -> tuple[str, ...]:
    records = accumulators.load_records(spec.records)
    ordered = tuple(sorted(names))
    progress.stage("proving accumulators", len(ordered))
    for name in ordered:
        accumulators.prove(records[name])
        progress.step(name)
    return ordered


def _rows(texts: Texts) -> Iterator[tuple[str, str, str, str, str]]:
    for t in texts.texts:
        kernels = t.emitted.launch.kernels
        shared = f"{max(k.shared for k in kernels)} bytes" if t.backend == "cuda" else "-"
        names = ", ".join(k.name for k in kernels)
        yield texts.instance.words or "-", t.backend, ", ".join(t.targets or (t.arch,)), names, shared
