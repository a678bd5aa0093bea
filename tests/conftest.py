"""Options of the tests: `--long` runs what takes minutes, `--update-golden` rewrites the files under tests/golden."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run the tests marked long")
    parser.addoption("--update-golden", action="store_true", help="rewrite the files under tests/golden")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if "long" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="runs only with --long"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how long each suite took: seconds of its tests, added up over the workers."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                parts = report.nodeid.split("::")[0].split("/")
                seconds[parts[1] if len(parts) > 2 else "tests"] += report.duration
    terminalreporter.section("seconds of each suite")
    for suite, total in seconds.most_common():
        terminalreporter.write_line(f"{total:7.1f}  {suite}")
