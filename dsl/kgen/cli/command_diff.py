"""`kgen diff`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from kgen.cli.console import Out
from kgen.cli.errors import OK
from kgen.cli.shared import instance_of, origin_of, spec_of
from kgen.workflow.side_by_side import PIPED_WIDTH, side_by_side
from kgen.workflow.targets import parse_targets
from kgen.workflow.texts import texts_for


def run(spec: Path, variant: int, target: str, width: int | None, overrides: Sequence[str]) -> int:
    """Print both texts of one variant, aligned."""
    targets = parse_targets(target)
    instance = instance_of(spec_of(spec, overrides), variant)
    texts = texts_for(instance, ("triton", "cuda"), targets[:1], origin_of(spec, overrides))
    both = [t.emitted.text for t in texts.texts]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPED_WIDTH
    out = Out()
    for style, line in side_by_side(both[0], both[1], width or columns):
        out.line(line, style)
    return OK
