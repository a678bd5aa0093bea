"""`kgen check`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgen.cli.console import Out
from kgen.cli.errors import OK, WRONG_INPUT, say_error
from kgen.cli.progress import progress
from kgen.cli.shared import spec_of
from kgen.errors import KgenError
from kgen.workflow.check import Checked, check
from kgen.workflow.targets import parse_backends, parse_targets


def run(specs: Sequence[Path], overrides: Sequence[str], backend: str, target: str, as_json: bool) -> int:
    """Check every spec and print what was checked, or what is wrong with it."""
    backends, targets = parse_backends(backend), parse_targets(target)
    out = Out()
    found: list[dict[str, Any]] = []
    for path in specs:
        try:
            with progress() as shown:
                checked = check(spec_of(path, overrides), backends, targets, shown)
        except KgenError as error:
            found.append({"spec": str(path), "ok": False, "error": str(error)})
            say_error(str(error))
            continue
        found.append({"spec": str(path), "ok": True, **asdict(checked)})
        if not as_json:
            _print(out, checked)
    if as_json:
        out.line(json.dumps(found, indent=2))
    return OK if all(f["ok"] for f in found) else WRONG_INPUT


def _print(out: Out, checked: Checked) -> None:
    out.line(f"{checked.kernel}: ok", "ok")
    out.line(f"  resolved for {', '.join(checked.dtypes) or 'its dtypes'}: {checked.statements} statements")
    if checked.accumulators:
        out.line(f"  proved accumulators: {', '.join(checked.accumulators)}")
    out.table(("variant", "backend", "arch", "kernels", "shared memory"), checked.rows)
    for note in checked.notes:
        out.line(f"  note: {note}", "note")
