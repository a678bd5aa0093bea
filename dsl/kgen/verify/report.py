"""The result of a verification: frozen, JSON-able, and as text for people."""

from __future__ import annotations

import json
import math as numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One backend over all cases. `worst` is its largest error / limit, in `worst_case`."""

    backend: str
    cases: int = 0
    passed: int = 0
    worst: float = 0.0
    worst_case: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A failing case, as small as shrinking got it, and its worst element."""

    backend: str
    label: str
    sizes: Mapping[str, int]
    params: Mapping[str, int | float | bool]
    kind: str
    seed: int
    original_sizes: Mapping[str, int]
    output: str
    index: tuple[int, ...]
    got: str
    expected: str
    ratio: float
    bad: int
    reason: str
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Agreement:
    """Two backends over all cases: largest difference relative to both limits, and elements equal bit for bit."""

    a: str
    b: str
    worst: float = 0.0
    equal: int = 0
    total: int = 0


@dataclass(frozen=True)
class Report:
    """The verdict on a kernel."""

    kernel: str
    ok: bool
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...] = ()
    agreements: tuple[Agreement, ...] = ()

    def to_json(self) -> str:
        """Return the report as JSON; infinities and NaN become strings."""
        return json.dumps(_plain(asdict(self)), indent=2)


def render(report: Report) -> str:
    """Return the report as text: a table of backends, their agreement, and each failure."""
    lines = [f"{report.kernel}: {'ok' if report.ok else 'FAILED'}", *_table(report.rows)]
    for a in report.agreements:
        share = f"{100 * a.equal / a.total:.1f} %" if a.total else "no"
        lines.append(f"{a.a} and {a.b}: difference / limit {_number(a.worst)}, {share} of elements equal")
    for f in report.failures:
        lines += ["", *_failure(f)]
    return "\n".join(lines)


def _table(rows: tuple[Row, ...]) -> list[str]:
    head = ("backend", "cases", "passed", "error / limit", "in case", "seconds")
    cells = [head] + [
        (r.backend, str(r.cases), str(r.passed), _number(r.worst), r.worst_case, f"{r.seconds:.2f}") for r in rows
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return ["  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def _failure(f: Failure) -> list[str]:
    lines = [f"{f.backend} fails '{f.label}': {f.reason}"]
    if f.output:
        place = f"{f.output}[{', '.join(map(str, f.index))}]"
        lines.append(f"  {place}: got {f.got}, expected {f.expected}, error / limit {_number(f.ratio)}")
        lines.append(f"  {f.bad} elements are wrong")
    if f.sizes != f.original_sizes:
        lines.append(f"  smallest failing sizes {_words(f.sizes)} (first seen at {_words(f.original_sizes)})")
    else:
        lines.append(f"  sizes {_words(f.sizes)}")
    lines.append(f"  inputs '{f.kind}', seed {f.seed}" + (f", {_words(f.params)}" if f.params else ""))
    lines += [f"  fault: {fault}" for fault in f.faults]
    return lines


def _words(values: Mapping[str, int | float | bool]) -> str:
    return ", ".join(f"{k}={v}" for k, v in values.items())


def _number(x: float) -> str:
    return f"{x:.3g}" if numbers.isfinite(x) else str(x)


def _plain(x: Any) -> Any:
    match x:
        case dict():
            return {str(k): _plain(v) for k, v in x.items()}
        case list() | tuple():
            return [_plain(v) for v in x]
        case float() if not numbers.isfinite(x):
            return str(x)
        case _:
            return x
