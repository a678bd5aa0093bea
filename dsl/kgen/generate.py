"""Generate: one variant of a spec to emitted text and the plan of its launches, for one backend and architecture."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from kgen.configure import Config
from kgen.emit import cuda as emit_cuda
from kgen.emit import triton as emit_triton
from kgen.emit.header import Header
from kgen.emit.names import constant_values, names_of
from kgen.emit.python import python_expr
from kgen.ir import Arg, Kernel, LoadTile, Program, Store
from kgen.ir_walk import ops
from kgen.ops.key import Key
from kgen.ops.plan import ArgPlan, KernelPlan, LaunchPlan, Workspace
from kgen.pipeline import Lowered, Target, lower
from kgen.schedule import Plan
from kgen.schedule_road import plan_all
from kgen.spec import Spec
from kgen.specialise import Specialisation
from kgen.types import DTYPES


@dataclass(frozen=True)
class Emitted:
    """The text of one backend with what is needed to compile and launch it. `plans` are CUDA's, by kernel."""

    target: Target
    text: str
    launch: LaunchPlan
    lowered: Lowered
    plans: Mapping[str, Plan]

    @property
    def config(self) -> Config:
        return self.lowered.config

    @property
    def program(self) -> Program:
        return self.lowered.program


def specialisation(key: Key) -> Specialisation:
    """Return the key in the compiler's terms."""
    return Specialisation(
        dtypes={k: DTYPES[v] for k, v in key.dtypes},
        sizes=dict(key.sizes),
        params=dict(key.params),
        units=dict(key.units),
        aligned=frozenset(key.aligned),
        offset=DTYPES[key.offset],
        buckets=dict(key.buckets),
    )


def generate(spec: Spec, key: Key, target: Target, *, path: str = "", command: str = "") -> Emitted:
    """Lower and emit; raise KgenError for what the user can mend. `path` and `command` are for the head of the text."""
    lowered = lower(spec, specialisation(key), target)
    header = header_of(spec, key, lowered, path, command)
    if target.backend == "triton":
        options = emit_triton.TritonOptions({name: c.stages for name, c in lowered.configs.items()})
        text = emit_triton.print_program(lowered.program, options, header)
        return Emitted(target, text, _launch(lowered, {}), lowered, {})
    plans, notes = _plans(lowered, target.arch)
    config = replace(lowered.config, target=replace(lowered.config.target, notes=(*lowered.config.notes, *notes)))
    lowered = replace(lowered, config=config)
    text = emit_cuda.print_program(lowered.program, plans, header)
    return Emitted(target, text, _launch(lowered, plans), lowered, plans)


def _plans(lowered: Lowered, arch: str) -> tuple[dict[str, Plan], list[str]]:
    """Return the plan of every kernel by its own configuration, and notes on what the plans could not do."""
    plans: dict[str, Plan] = {}
    notes: list[str] = []
    for kernel in lowered.program.kernels:
        config = lowered.configs[kernel.name]
        made, after = plan_all([kernel], arch, config)
        plans |= made
        notes += after.notes[len(config.notes) :]
    return plans, notes


def spec_hash(spec: Spec) -> str:
    """Return the short hash that stands in the head of generated files."""
    return hashlib.sha256(spec.text.encode()).hexdigest()[:16]


def header_of(spec: Spec, key: Key, lowered: Lowered, path: str, command: str) -> Header:
    words = [f"{k}={v}" for group in (key.dtypes, key.sizes, key.params) for k, v in group]
    words += [f"{k} <= {v}" for k, v in key.buckets]
    title = f"{spec.name}: {', '.join(words)}" if words else spec.name
    statements = tuple((s.id, s.text) for s in lowered.math.statements)
    return Header(title, lowered.math.doc, path or spec.source.name, spec_hash(spec), command, statements)


def _launch(lowered: Lowered, plans: Mapping[str, Plan]) -> LaunchPlan:
    program = lowered.program
    spaces = tuple(
        Workspace(b.name, tuple(python_expr(d) for d in b.dims), b.dtype.torch)
        for b in program.buffers.values()
        if b.role == "workspace"
    )
    begun = {t.name for t in lowered.math.tensors.values() if t.fill is not None or t.inplace is not None}
    kernels = tuple(_kernel(k, lowered.configs[k.name], plans.get(k.name), begun) for k in program.kernels)
    return LaunchPlan(kernels, spaces, _parts(lowered))


def _parts(lowered: Lowered) -> dict[str, str]:
    """Sizes named `<axis>_parts` are chosen at a call; at most one part per tile is useful."""
    found = {}
    for config in (*lowered.configs.values(), lowered.config):
        for name, axis in config.axes.items():
            if axis.split == "auto":
                step = axis.tile if isinstance(axis.tile, int) else 1
                found[f"{name}_parts"] = f"-(-({python_expr(lowered.math.axes[name].extent)}) // {step})"
    return found


def _kernel(k: Kernel, config: Config, plan: Plan | None, begun: Set[str]) -> KernelPlan:
    """Return how a kernel is launched. `begun`: outputs that hold values before; the kernel may leave some of them."""
    identifiers = names_of(k).arguments
    stored = [op.buffer for op in ops(k.body) if isinstance(op, Store)]
    loaded = {op.buffer for op in ops(k.body) if isinstance(op, LoadTile)}
    return KernelPlan(
        name=k.name,
        grid=" * ".join(f"({python_expr(g.count)})" for g in k.grid) or "1",
        args=tuple(_arg(a, identifiers[a.name]) for a in k.args),
        constants=constant_values(k),
        warps=config.warps,
        stages=config.stages,
        threads=plan.threads if plan else 32 * config.warps,
        shared=plan.smem_bytes if plan else 0,
        writes=tuple(dict.fromkeys(stored)),
        updates=tuple(b for b in dict.fromkeys(stored) if b in loaded or b in begun),
    )


def _arg(a: Arg, identifier: str) -> ArgPlan:
    return ArgPlan(identifier, a.kind, a.buffer or a.name, a.dtype.name, a.dim or 0)
