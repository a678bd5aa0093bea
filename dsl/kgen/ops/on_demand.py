"""What an op needs the compiler for: variants that are not packaged, and CPU tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from kgen.build.cache import Cache, digest
from kgen.build.triton import triton_version
from kgen.errors import KgenError
from kgen.generate import Emitted, generate
from kgen.math import Math
from kgen.ops import prepare
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import Backend
from kgen.ops.key import Key
from kgen.ops.plan import LaunchPlan
from kgen.ops.proof import failure_of
from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.spec import Spec, load
from kgen.types import DTYPES
from kgen.verify import oracle
from kgen.verify.binding import Scalar

Ready = Callable[[Emitted, str], Backend]


@lru_cache(maxsize=64)
def _spec(folder: Path) -> Spec:
    return load(folder / "spec.yaml")


@lru_cache(maxsize=256)
def _math(folder: Path, types: tuple[tuple[str, str], ...]) -> Math:
    return resolve(_spec(folder), {k: DTYPES[v] for k, v in types})


def verified_variant(
    folder: Path, key: Key, backend: str, arch: str, *, ready: Ready | None = None, device: str = "cuda"
) -> tuple[LaunchPlan, Backend]:
    """Generate and compile the variant for a key that the package does not hold, and run one small case through it.

    The verdict is remembered by contents, so that this happens once on a machine. Raises KgenError if the outputs are
    not what the spec says. `ready` makes an emitted text ready to launch (default: for the GPU).
    """
    emitted = generate(_spec(folder), key, Target(backend, arch), path="spec.yaml")
    runner = (ready or _compiled)(emitted, arch)
    cache, verdict = Cache(), _verdict_key(folder, emitted, key, device)
    if cache.get(verdict) is None:
        failure = failure_of(_math(folder, key.dtypes), key, emitted, runner, device)
        if failure:
            raise KgenError(
                f"{emitted.lowered.math.name}: the {backend} kernel compiled for this call does not compute its spec "
                f"({failure}). Nothing was run with your arguments; please report this, and use the other backend"
            )
        cache.put(verdict, {"passed": b""})
    return emitted.launch, runner


def _verdict_key(folder: Path, emitted: Emitted, key: Key, device: str) -> str:
    return digest(
        {
            "kind": "first case",
            "spec": _spec(folder).text,
            "text": emitted.text,
            "launch": emitted.launch.to_json(),
            "key": key.to_json(),
            "tools": [torch.__version__, triton_version()],
            "device": torch.cuda.get_device_name() if device == "cuda" else device,
        }
    )


def _compiled(emitted: Emitted, arch: str) -> Backend:
    if emitted.target.backend == "cuda":
        return prepare.cuda_backend(emitted.text, emitted.launch, arch)
    return TritonBackend(module_file(emitted.text), emitted.launch)


def module_file(text: str) -> Path:
    """Return a file in the cache that holds an emitted Triton module (Triton reads its functions' source)."""
    cache, key = Cache(), digest({"kind": "triton text", "text": text})
    found = cache.get(key) or cache.put(key, {"kernel.py": text.encode()})
    return found / "kernel.py"


def evaluate_on_cpu(
    folder: Path,
    types: Mapping[str, str],
    sizes: Mapping[str, int],
    params: Mapping[str, Scalar],
    inputs: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return the outputs of the spec's math for CPU tensors, in float64."""
    return oracle.evaluate(_math(folder, tuple(types.items())), inputs, params, sizes)
