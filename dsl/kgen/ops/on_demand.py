"""What an op needs the compiler for: variants that are not packaged, and CPU tensors."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from kgen.build.cache import Cache, digest
from kgen.generate import generate
from kgen.ops import prepare
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import Backend
from kgen.ops.key import Key
from kgen.ops.plan import LaunchPlan
from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.spec import Spec, load
from kgen.types import DTYPES
from kgen.verify import oracle

if TYPE_CHECKING:
    from kgen.ops.runtime import Bound


@lru_cache(maxsize=64)
def _spec(folder: Path) -> Spec:
    return load(folder / "spec.yaml")


def compile_variant(folder: Path, key: Key, backend: str, arch: str) -> tuple[LaunchPlan, Backend]:
    """Generate and compile the variant for a key that the package does not hold."""
    emitted = generate(_spec(folder), key, Target(backend, arch), path="spec.yaml")
    if backend == "cuda":
        return emitted.launch, prepare.cuda_backend(emitted.text, emitted.launch, arch)
    return emitted.launch, TritonBackend(module_file(emitted.text), emitted.launch)


def module_file(text: str) -> Path:
    """Return a file in the cache that holds an emitted Triton module (Triton reads its functions' source)."""
    cache, key = Cache(), digest({"kind": "triton text", "text": text})
    found = cache.get(key) or cache.put(key, {"kernel.py": text.encode()})
    return found / "kernel.py"


def evaluate_on_cpu(folder: Path, bound: Bound, inputs: dict[str, Tensor]) -> dict[str, Any]:
    """Return the outputs of the spec's math for CPU tensors, in float64."""
    math = resolve(_spec(folder), {k: DTYPES[v] for k, v in bound.dtypes.items()})
    return oracle.evaluate(math, inputs, bound.params, bound.sizes)
