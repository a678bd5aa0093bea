"""One cache of compiled kernels for the emitters' tests, kept between runs and shared with the simulator's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache_dir(request: pytest.FixtureRequest) -> Path:
    cache = request.config.cache
    assert cache is not None
    return cache.mkdir("kgen-sim")
