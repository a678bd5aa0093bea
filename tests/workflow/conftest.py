"""Specs and a cache for the workflow's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgen.spec import load
from kgen.workflow.instance import Instance, instances

ROWS = """\
kernel: rows
dtypes: {T: [f32, bf16]}
axes: {m: {extent: M}, n: {extent: N, tile: full}, d: {extent: D, in: [16, 32]}}
tensors: {x: {dims: [m, n, d], dtype: T}, y: {dims: [m, n, d], dtype: T, out: true}}
params: {scale: {dtype: f32, default: 2}, flip: {dtype: bool, static: true, default: false}}
compute: y[m, n, d] = where(flip, -1, scale) * x[m, n, d]
variants: [{T: bf16, D: 32, flip: true}, {T: f32}]
"""


@pytest.fixture
def rows() -> Instance:
    """A variant with a static size, a static param and an axis that is held whole."""
    return instances(load(ROWS))[0]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path / "cache"))
