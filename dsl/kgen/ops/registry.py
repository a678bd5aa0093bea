"""The operators of this process: `torch.ops.kgen.<name>`, each made from one spec."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from kgen.errors import KgenError

_LIBRARY = torch.library.Library("kgen", "FRAGMENT")
_REGISTERED: dict[str, tuple[tuple[str, str], Path]] = {}
_LOCK = threading.Lock()


def register(
    name: str,
    manifest: Mapping[str, Any],
    on_cuda: Callable[..., Any],
    on_cpu: Callable[..., Any],
    fake: Callable[..., Any],
    folder: Path,
) -> None:
    """Register an op with torch. The same spec loaded again changes nothing; another spec of that name is refused."""
    identity = (manifest["spec_hash"], manifest["schema"])
    with _LOCK:
        known, place = _REGISTERED.get(name, (None, folder))
        if known is None:
            _LIBRARY.define(manifest["schema"])
            _LIBRARY.impl(name, on_cuda, "CUDA")
            _LIBRARY.impl(name, on_cpu, "CPU")
            torch.library.register_fake(f"kgen::{name}", fake, lib=_LIBRARY)
            _REGISTERED[name] = (identity, folder)
        elif known != identity:
            raise KgenError(
                f"an op named '{name}' made from another spec is loaded already, from {place}; this one is from "
                f"{folder}. Rename one of the kernels, or use two processes"
            )
