"""Runs the command line in this process, in a folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgen.cli.main import main

SMALL = """\
kernel: small
doc: Twice the sum of each row.
dtypes: {T: [f32, bf16]}
axes: {m: {extent: M, tile: 16}, n: {extent: N, tile: 16, stream: true}}
tensors: {x: {dims: [m, n], dtype: T}, s: {dims: [m], dtype: f32, out: true}}
compute: s[m] = 2 * sum[n](x[m, n])
"""


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    out: str
    err: str


Kgen = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Binaries and the simulator's runtime are kept between runs of the tests; all else is in a new folder."""
    cache = request.config.cache
    assert cache is not None
    monkeypatch.setenv("KGEN_CACHE_DIR", str(cache.mkdir("kgen-cli")))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def kgen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kgen:
    """Return a function that runs `kgen WORDS...`."""

    def run(*words: str | Path) -> Answer:
        monkeypatch.setattr(sys, "argv", ["kgen", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Answer(ended.value.code, out, err)

    return run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A spec of one variant that builds in a second."""
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path
