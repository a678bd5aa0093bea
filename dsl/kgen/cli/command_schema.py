"""`kgen schema`."""

from __future__ import annotations

import json

from kgen.cli.console import Out
from kgen.cli.errors import OK
from kgen.schema import json_schema


def run() -> int:
    """Print the JSON Schema of specs."""
    Out().line(json.dumps(json_schema(), indent=2))
    return OK
