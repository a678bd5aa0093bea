"""`kgen new`."""

from __future__ import annotations

from pathlib import Path

from kgen.cli.console import Out
from kgen.cli.errors import OK
from kgen.workflow.starter import write_starter


def run(name: str) -> int:
    """Write NAME.yaml in this folder."""
    path = write_starter(name, Path())
    Out().line(f"wrote {path}; next: kgen build {path}")
    return OK
