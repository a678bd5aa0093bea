"""The cache: whole entries only, whatever builders do at the same time or leave behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgen.build.cache import ENVIRONMENT, MANIFEST, Cache, default_root, digest

BUILDER = """
import sys
from pathlib import Path
from kgen.build.cache import Cache, digest
cache = Cache(Path(sys.argv[1]))
for round in range(20):
    key = digest({"round": round})
    content = (str(round) * 20000).encode()
    entry = cache.put(key, {"kernel.cubin": content, "facts.json": b"{}"})
    if (entry / "kernel.cubin").read_bytes() != content or cache.get(key) != entry:
        raise SystemExit(f"round {round}: a broken entry was returned")
"""

HOLDER = """
import sys, time
from pathlib import Path
from kgen.build.cache import Cache
cache = Cache(Path(sys.argv[1]))
with cache.locked([sys.argv[2]]):
    (cache.root / sys.argv[2][:2] / "half.tmp").mkdir()
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(params=["plain", 'a b "q" $HOME %20 ü'])
def cache(tmp_path: Path, request: pytest.FixtureRequest) -> Cache:
    return Cache(tmp_path / request.param)


def test_returns_what_was_put(cache: Cache) -> None:
    key = digest({"text": "x"})
    assert cache.get(key) is None
    entry = cache.put(key, {"a": b"1", "b": b"2"})
    assert cache.get(key) == entry
    assert (entry / "a").read_bytes() == b"1"


def test_keeps_the_first_entry(cache: Cache) -> None:
    key = digest({"text": "x"})
    cache.put(key, {"a": b"first"})
    assert (cache.put(key, {"a": b"second"}) / "a").read_bytes() == b"first"


@pytest.mark.parametrize("harm", ["truncate", "flip", "no file", "no manifest", "bad manifest"])
def test_damaged_entries_are_absent_and_rebuilt(cache: Cache, harm: str) -> None:
    key = digest({"text": "x"})
    entry = cache.put(key, {"a": b"content"})
    match harm:
        case "truncate":
            (entry / "a").write_bytes(b"cont")
        case "flip":
            (entry / "a").write_bytes(b"contenT")
        case "no file":
            (entry / "a").unlink()
        case "no manifest":
            (entry / MANIFEST).unlink()
        case "bad manifest":
            (entry / MANIFEST).write_text("[1]")
    assert cache.get(key) is None
    assert (cache.put(key, {"a": b"new"}) / "a").read_bytes() == b"new"
    assert _temporaries(cache) == []


def test_a_copied_cache_hits(cache: Cache, tmp_path: Path) -> None:
    key = digest({"text": "x"})
    cache.put(key, {"a": b"1"})
    shutil.copytree(cache.root, tmp_path / "elsewhere")
    assert Cache(tmp_path / "elsewhere").get(key) is not None


def test_concurrent_builders_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILDER, str(tmp_path / "cache")]
    builders = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    errors = [builder.communicate(timeout=60)[1] for builder in builders]
    assert [builder.returncode for builder in builders] == [0] * 6, errors
    cache = Cache(tmp_path / "cache")
    assert all(cache.get(digest({"round": i})) for i in range(20))
    assert _temporaries(cache) == []


def test_a_killed_builder_blocks_nobody(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path), digest({"text": "x"})
    command = [sys.executable, "-c", HOLDER, str(tmp_path), key]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline().strip() == "held"
    assert _temporaries(cache)
    holder.kill()
    holder.wait()
    start = time.monotonic()
    cache.put(key, {"a": b"1"})
    assert time.monotonic() - start < 5
    assert cache.get(key) is not None
    assert _temporaries(cache) == []


def test_the_key_depends_on_contents_alone() -> None:
    assert digest({"a": 1, "b": "ü"}) == digest({"b": "ü", "a": 1})
    assert digest({"scale": 0.5}) != digest({"scale": 0.25})
    assert digest({"n": 1}) != digest({"n": "1"})
    script = "from kgen.build.cache import digest; print(digest({'b': [1, 2.5, None], 'a': {'x': True, 'w': '\\xfc'}}))"
    keys = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": "C", "PYTHONUTF8": seed}
        keys.add(
            subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True).stdout
        )
    assert len(keys) == 1


def test_the_environment_chooses_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "here"))
    assert default_root() == tmp_path / "here"
    monkeypatch.delenv(ENVIRONMENT)
    assert default_root().name == "kgen"


def _temporaries(cache: Cache) -> list[Path]:
    return list(cache.root.rglob("*.tmp"))
