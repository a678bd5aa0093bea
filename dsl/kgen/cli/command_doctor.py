"""`kgen doctor`."""

from __future__ import annotations

import json

from kgen.cli.console import Out
from kgen.cli.errors import FAILED, OK
from kgen.cli.progress import progress
from kgen.workflow.doctor import examine


def run(as_json: bool) -> int:
    """Print what this machine has; exit with 1 if something that kgen needs is missing."""
    with progress() as shown:
        findings = examine(shown)
    out = Out()
    if as_json:
        out.line(json.dumps([f.__dict__ for f in findings], indent=2))
    else:
        out.table(("", "what", "found"), [("ok" if f.ok else "!!", f.name, f.text) for f in findings], indent="")
    return OK if all(f.ok or not f.needed for f in findings) else FAILED
