"""Packages of the small specs, written and imported once for all tests of ops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.ops import packages


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ModuleType]:
    """Return a function that gives the imported package of a spec's text."""
    made: dict[str, ModuleType] = {}
    folder: Path = tmp_path_factory.mktemp("ops")

    def get(text: str) -> ModuleType:
        if text not in made:
            made[text] = packages.imported(packages.write(text, folder / str(len(made))))
        return made[text]

    return get
