"""`kgen show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kgen.cli.console import Out
from kgen.cli.errors import OK
from kgen.cli.shared import instance_of, origin_of, spec_of
from kgen.errors import KgenError
from kgen.workflow.show import check_stage, show, show_parsed
from kgen.workflow.targets import parse_backends, parse_targets


def run(spec: Path, stage: str, backend: str, target: str, variant: int, overrides: Sequence[str]) -> int:
    """Print a stage of one variant."""
    check_stage(stage)
    backends, targets = parse_backends(backend), parse_targets(target)
    if len(backends) > 1:
        raise KgenError("--backend: show takes one backend; for both side by side, see kgen diff")
    loaded = spec_of(spec, overrides)
    if stage == "parse":
        text = show_parsed(loaded)
    else:
        text = show(instance_of(loaded, variant), stage, backends[0], targets[0], origin_of(spec, overrides))
    Out().line(text.rstrip("\n"))
    return OK
