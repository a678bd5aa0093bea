"""Verdicts as text and as JSON."""

from __future__ import annotations

import json
from typing import Any

from kgen.cli.console import Out
from kgen.verify.report import render
from kgen.workflow.verdict import Verdict


def print_verdict(out: Out, v: Verdict) -> None:
    """Print the table of a verdict, and its failures."""
    first, *rest = render(v.report).splitlines()
    head = f"{first.replace(': ok', ': verified')}{f' ({v.words})' if v.words else ''}{' (cached)' if v.cached else ''}"
    out.line(head, "ok" if v.ok else "bad")
    for line in rest:
        out.line(line)


def verdict_json(v: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON data."""
    return {"variant": v.words, "cached": v.cached, **json.loads(v.report.to_json())}
