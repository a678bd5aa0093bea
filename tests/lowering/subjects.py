"""Both backends of a spec on the CPU, as subjects of the verifier: lowered, emitted and run for each key of a call."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from kgen.configure import configure
from kgen.generate import Emitted, generate
from kgen.math import Math
from kgen.ops.backends import TritonBackend
from kgen.ops.execute import execute
from kgen.ops.key import Key, bucket, memory_key
from kgen.ops.simulated import SimulatedBackend
from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.resolve_variants import Variant
from kgen.sim import Report
from kgen.spec import Spec
from kgen.verify.binding import bind
from kgen.verify.interpreter import ensure_correct
from kgen.verify.subject import Call, Result


@dataclass
class Built:
    """One specialisation, ready to run."""

    emitted: Emitted
    backend: TritonBackend | SimulatedBackend


@dataclass
class CpuSubject:
    """A variant of a spec for one target, run by the interpreter or the simulator. `reports`: the last launches."""

    spec: Spec
    variant: Variant
    target: Target
    folder: Path
    parts: Mapping[str, int] = field(default_factory=dict)
    built: dict[Key, Built] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.target.backend} {self.target.arch}"

    @property
    def math(self) -> Math:
        return resolve(self.spec, self.variant.dtypes)

    def run(self, call: Call) -> Result:
        """Run the kernels of one call."""
        tensors = {**call.inputs, **call.outputs}
        key = self.key(tensors, call.sizes, call.params)
        if key not in self.built:
            self.built[key] = self._build(key)
        built = self.built[key]
        if isinstance(built.backend, SimulatedBackend):
            built.backend.clear()
        execute(built.emitted.launch, tensors, {**call.sizes, **call.params}, built.backend)
        if not isinstance(built.backend, SimulatedBackend):
            return Result(call.outputs)
        self.reports = list(built.backend.reports)
        return Result(call.outputs, tuple(str(f) for f in built.backend.faults))

    def key(self, tensors: Mapping[str, Tensor], sizes: Mapping[str, int], params: Mapping[str, object]) -> Key:
        math, v = self.math, self.variant
        units, aligned, offset = memory_key([(n, t, math.tensors[n].fast) for n, t in tensors.items()])
        extents = bind(math, sizes, params).extents  # type: ignore[arg-type]
        buckets = tuple((a, bucket(extents[a])) for a in self.padded())
        dtypes = tuple((k, d.name) for k, d in v.dtypes.items())
        static = tuple((k, params.get(k, x)) for k, x in v.params.items())
        return Key(dtypes, tuple(v.sizes.items()), static, units, aligned, offset, buckets)

    def padded(self) -> list[str]:
        """Return the axes held whole whose extent a call brings."""
        math, v = self.math, self.variant
        config = configure(
            math,
            self.spec,
            backend=self.target.backend,
            arch=self.target.arch,
            dtypes=v.dtypes,
            sizes=v.sizes,
            params=v.params,
        )
        full = {a for c in (config, *config.kernels.values()) for a, x in c.axes.items() if x.tile == "full"}
        return [a for a in math.axes if a in full]

    def _build(self, key: Key) -> Built:
        emitted = generate(self.spec, key, self.target)
        if self.target.backend == "cuda":
            return Built(emitted, SimulatedBackend(emitted.text, emitted.launch, self.folder))
        ensure_correct()
        stem = re.sub(r"\W", "_", f"{self.spec.name}_{self.target.arch}_{abs(hash(key)):x}")
        module = Path(tempfile.mkdtemp(dir=self.folder)) / f"{stem}.py"
        module.write_text(emitted.text)
        return Built(emitted, TritonBackend(module, emitted.launch, interpreted=True))
