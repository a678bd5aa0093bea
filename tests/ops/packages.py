"""Packages made from small specs, and their ops run on the CPU: Triton text in the interpreter, CUDA text simulated."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kgen.build import default_root
from kgen.generate import Emitted, generate
from kgen.ops import on_demand
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import Backend
from kgen.ops.key import Key
from kgen.ops.plan import KernelPlan
from kgen.ops.runtime import Op
from kgen.ops.simulated import SimulatedBackend
from kgen.ops.variants import Ready
from kgen.package import PackagedVariant, write_package
from kgen.pipeline import Target
from kgen.spec import Spec, load
from kgen.verify.interpreter import ensure_correct
from kgen.workflow.instance import instances
from kgen.workflow.texts import Origin, texts_for

ARCH = "sm_90"
SIMULATOR = default_root() / "simulator"  # kept between runs: compiling takes seconds


def variants_of(spec: Spec, origin: Origin | None = None) -> list[PackagedVariant]:
    """Return the variants of a spec with both texts."""
    made = [texts_for(i, ("triton", "cuda"), (ARCH,), origin or Origin()) for i in instances(spec)]
    return [PackagedVariant(t.key, t.main("triton"), t.main("cuda")) for t in made]


def write(text: str, folder: Path) -> Path:
    """Write the package of a spec's text below a folder and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source.yaml"
    source.write_text(text)
    spec = load(source)
    write_package(spec, variants_of(spec), folder / "packages", "kgen build source.yaml")
    return folder / "packages" / spec.name


def imported(package: Path) -> ModuleType:
    """Import a package under a name of its own, so that one can be loaded from several folders."""
    name = f"loaded_{package.name}_{abs(hash(str(package)))}"
    spec = importlib.util.spec_from_file_location(
        name, package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def simulated_or_interpreted(emitted: Emitted, arch: str = ARCH) -> Backend:
    """Return the launcher of a text on the CPU."""
    if emitted.target.backend == "cuda":
        return SimulatedBackend(emitted.text, emitted.launch, SIMULATOR)
    ensure_correct()
    return TritonBackend(on_demand.module_file(emitted.text), emitted.launch, interpreted=True)


class OnCpu:
    """Makes variants ready on the CPU, each from the spec in the package's folder, and remembers the keys."""

    def __init__(self, programs: int = 8) -> None:
        self.keys: list[Key] = []
        self.backends: list[Backend] = []
        self.programs = programs

    def __call__(self, folder: Path, manifest: Mapping[str, Any], key: Key, backend: str, device: int) -> Ready:
        emitted = generate(load(folder / "spec.yaml"), key, Target(backend, ARCH))
        self.keys.append(key)
        self.backends.append(simulated_or_interpreted(emitted))
        return Ready(emitted.launch, self.backends[-1], self.programs)

    def faults(self) -> list[str]:
        return [str(f) for b in self.backends if isinstance(b, SimulatedBackend) for f in b.faults]


class Recorder:
    """A backend that computes nothing and remembers its launches."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, int, list[Any]]] = []

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None:
        self.launches.append((kernel.name, grid, values))


def private(module: ModuleType, ready: Any) -> Op:
    """Return an op of a package that `ready` serves, not registered with torch."""
    generated = module.op
    return Op(Path(generated.__file__).parent, generated.sizes, getattr(generated, "params", None), ready=ready)
