"""`kgen verify`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from kgen.cli.console import Out
from kgen.cli.errors import FAILED, OK
from kgen.cli.progress import progress
from kgen.cli.report import print_verdict, verdict_json
from kgen.cli.shared import origin_of, spec_of
from kgen.workflow.instance import instances
from kgen.workflow.targets import parse_backends, parse_targets
from kgen.workflow.texts import texts_for
from kgen.workflow.verdict import verdict


def run(spec: Path, overrides: Sequence[str], backend: str, target: str, full: bool, seed: int, as_json: bool) -> int:
    """Run the cases of every variant, also of those that passed before."""
    backends, targets = parse_backends(backend), parse_targets(target)
    out, found = Out(), []
    with progress() as shown:
        for instance in instances(spec_of(spec, overrides)):
            texts = texts_for(instance, backends, targets, origin_of(spec, overrides))
            found.append(verdict(texts, quick=not full, seed=seed, progress=shown, fresh=True))
    if as_json:
        out.line(json.dumps([verdict_json(v) for v in found], indent=2))
    else:
        for v in found:
            print_verdict(out, v)
    return OK if all(v.ok for v in found) else FAILED
