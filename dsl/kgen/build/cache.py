"""Content-addressed cache of binaries, shared safely by processes.

An entry is a folder `<root>/<key[:2]>/<key>` holding files and a manifest of their digests. It appears by one rename,
is never changed afterwards, and is checked when read, so an incomplete or damaged entry counts as absent. Keys are made
of contents alone: no times, no paths, so that a moved or copied cache still hits.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock

MANIFEST = "manifest.json"
ENVIRONMENT = "KGEN_CACHE_DIR"


def digest(parts: Mapping[str, Any]) -> str:
    """Return the sha256 (hex) of a mapping of JSON values, the same in every process and on every machine."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True, allow_nan=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def default_root() -> Path:
    """Return $KGEN_CACHE_DIR, else the user's cache folder for kgen."""
    chosen = os.environ.get(ENVIRONMENT)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("kgen", appauthor=False))


class Cache:
    """The entries below one root folder (created on first write)."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else default_root()

    def get(self, key: str) -> Path | None:
        """Return the entry's folder if it is whole, else None."""
        entry = self._entry(key)
        return entry if _is_whole(entry) else None

    def put(self, key: str, files: Mapping[str, bytes]) -> Path:
        """Store files under a key and return the entry's folder. A whole entry of that key is kept as it is."""
        with self.locked([key]):
            return self.put_locked(key, files)

    def put_locked(self, key: str, files: Mapping[str, bytes]) -> Path:
        """As `put`, for a caller that holds the key's lock: every temporary beside the entry is then a dead one."""
        entry = self._entry(key)
        if _is_whole(entry):
            return entry
        for stale in entry.parent.glob("*.tmp"):
            shutil.rmtree(stale, ignore_errors=True)
        temporary = entry.parent / f"{uuid.uuid4().hex}.tmp"
        _write_entry(temporary, files)
        if entry.exists():
            os.replace(entry, entry.parent / f"{uuid.uuid4().hex}.tmp")
        os.replace(temporary, entry)
        for damaged in entry.parent.glob("*.tmp"):
            shutil.rmtree(damaged, ignore_errors=True)
        return entry

    @contextlib.contextmanager
    def locked(self, keys: Iterable[str]) -> Iterator[None]:
        """Hold the locks of these keys. They are the system's own, so a killed holder releases them."""
        shards = sorted({key[:2] for key in keys})
        with contextlib.ExitStack() as stack:
            for shard in shards:
                folder = self.root / shard
                folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(FileLock(str(folder / "lock")))
            yield

    def _entry(self, key: str) -> Path:
        return self.root / key[:2] / key


def _write_entry(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    manifest = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    (folder / MANIFEST).write_text(json.dumps(manifest, sort_keys=True), encoding="utf-8")


def _is_whole(entry: Path) -> bool:
    try:
        manifest = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
        return all(hashlib.sha256((entry / name).read_bytes()).hexdigest() == seal for name, seal in manifest.items())
    except (OSError, ValueError, AttributeError):
        return False
