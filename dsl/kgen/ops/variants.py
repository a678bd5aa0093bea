"""Gets the kernels of a key ready for a GPU: packaged texts, or compiled on demand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kgen.errors import KgenError
from kgen.ops.execute import Backend
from kgen.ops.key import Key
from kgen.ops.plan import LaunchPlan

BACKENDS = ("triton", "cuda")
WITH_OWN_FEATURES = ("sm_90",)  # wgmma


class Ready(NamedTuple):
    """Kernels that can be launched. `programs` is how many an automatic split aims at."""

    plan: LaunchPlan
    backend: Backend
    programs: int


def ready_on_gpu(folder: Path, manifest: Mapping[str, Any], key: Key, backend: str, device: int) -> Ready:
    """Return the kernels for a key on a GPU. Raises KgenError for an unknown backend, and while a graph is captured."""
    known_backend(backend)
    if torch.cuda.is_current_stream_capturing():
        raise KgenError(
            f"{manifest['name']}: the first call with these types, static sizes or layouts cannot be captured in a "
            "CUDA graph, because it compiles and loads the kernels; make one such call before the capture"
        )
    gpu = torch.cuda.get_device_properties(device)
    arch, programs = arch_of(gpu.major, gpu.minor), 2 * gpu.multi_processor_count
    found = packaged(manifest, key, backend, arch)
    if found is not None:
        from kgen.ops import prepare  # compilers and launchers, wanted only at the first call of a variant

        plan, file = found
        return Ready(plan, prepare.packaged(folder / file, plan, backend, arch), programs)
    from kgen.ops import on_demand  # the compiler

    return Ready(*on_demand.verified_variant(folder, key, backend, arch), programs)


def arch_of(major: int, minor: int) -> str:
    """Return the architecture to lower and compile for on a GPU: with the features that are its alone, where used."""
    name = f"sm_{major}{minor}"
    return f"{name}a" if name in WITH_OWN_FEATURES else name


def known_backend(backend: str, source: str = "backend") -> str:
    """Return the backend; raise KgenError, which names where it came from, if there is none of that name."""
    if backend not in BACKENDS:
        raise KgenError(f"{source} is '{backend}'; it must be {' or '.join(BACKENDS)}")
    return backend


def packaged(manifest: Mapping[str, Any], key: Key, backend: str, arch: str = "") -> tuple[LaunchPlan, str] | None:
    """Return the launch plan and the file of the packaged variant that serves a key, None if none does.

    A text for `arch` alone goes before that for all.
    """
    for v in manifest["variants"]:
        text = v.get(f"{backend} {arch}", v.get(backend))
        if text is not None and Key.from_json(v["key"]).serves(key):
            return LaunchPlan.from_json(text["launch"]), text["file"]
    return None
