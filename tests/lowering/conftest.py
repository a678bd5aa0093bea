from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def simulator_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled texts, so that the simulator's runtime is compiled once."""
    return tmp_path_factory.mktemp("simulator")
