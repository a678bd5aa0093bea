"""Show: what each stage of the pipeline makes of a variant, as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from kgen.configure import Config
from kgen.emit.dump import dump_expr, dump_math, dump_program
from kgen.errors import KgenError, nearest
from kgen.folded import Fold, Folded
from kgen.generate import Emitted, generate
from kgen.pipeline import Target
from kgen.schedule_show import layout_lines
from kgen.spec import Spec
from kgen.syntax import Node
from kgen.workflow.instance import Instance, expected_key
from kgen.workflow.texts import Origin

STAGES = ("parse", "resolve", "accumulate", "tile", "mask", "simplify", "schedule", "layout", "emit")


def check_stage(stage: str) -> None:
    """Raise KgenError if there is no such stage."""
    if stage not in STAGES:
        hint = nearest(stage, STAGES)
        named = f"--stage: unknown stage '{stage}'" + (f", {hint}" if hint else "")
        raise KgenError(f"{named}\n      expected {', '.join(STAGES)}")


def show_parsed(spec: Spec) -> str:
    """Return the spec as one document, `extends` and overrides applied, and the syntax trees of its statements."""
    lines = [spec.text.rstrip("\n"), "", "# syntax trees"]
    for statement in spec.statements:
        lines += ["", f"# {getattr(statement, 'text', '').strip()}", *(f"# {x}" for x in _tree(statement, ""))]
    return "\n".join(lines) + "\n"


def show(instance: Instance, stage: str, backend: str, arch: str, origin: Origin) -> str:
    """Return a stage after parse of one variant, for one backend and architecture."""
    check_stage(stage)
    if stage == "resolve":
        return dump_math(instance.math)
    key = expected_key(instance, arch)
    emitted = generate(instance.spec, key, Target(backend, arch), path=origin.path, command=origin.command)
    lowered = emitted.lowered
    match stage:
        case "accumulate":
            return "\n".join(line for folded in lowered.folded for line in folded_lines(folded)) + "\n"
        case "tile":
            return dump_program(lowered.tiled)
        case "mask":
            return dump_program(lowered.masked)
        case "simplify":
            return dump_program(lowered.program)
        case "schedule":
            return "\n".join(schedule_lines(emitted)) + "\n"
        case "layout":
            return "\n".join(_layouts(emitted)) + "\n"
    return emitted.text


def folded_lines(folded: Folded) -> Iterator[str]:
    """Yield what accumulate made: every fold with its record, state and carried sums, and every result."""
    yield f"folded {folded.math.name}"
    for fold in folded.folds:
        yield from _fold_lines(fold)
    for result in folded.results:
        index = ", ".join(dump_expr(i) for i in result.index)
        yield f"  result {result.stmt.id} {result.stmt.tensor}[{index}] = {dump_expr(result.expr)}"


def _fold_lines(fold: Fold) -> Iterator[str]:
    guard = "" if fold.guard is None else f" if {dump_expr(fold.guard)}"
    yield f"  fold {fold.name}: {fold.record.name} over {', '.join(fold.axes)}{guard}"
    yield f"    of {dump_expr(fold.source)}"
    if fold.arg != fold.source:
        yield f"    taken as {dump_expr(fold.arg)}"
    for name, value in fold.operands:
        yield f"    with {name} = {dump_expr(value)}"
    for var, state in zip(fold.states, fold.record.states, strict=True):
        yield f"    state {var.name}: {var.dtype}[{', '.join(var.axes)}], at first {state.identity}"
    if fold.weight is not None:
        yield f"    weight {dump_expr(fold.weight)}"
    for carried in fold.carried:
        var = carried.var
        yield f"    carries {var.name}: {var.dtype}[{', '.join(var.axes)}] = sum of weight * {dump_expr(carried.expr)}"


def schedule_lines(emitted: Emitted) -> Iterator[str]:
    """Yield what the schedule decided for each kernel: axes, grid, target fields, and the plan of CUDA kernels."""
    config = emitted.config
    yield from _config_lines(emitted.program.name, config)
    for name, own in config.kernels.items():
        yield ""
        yield from _config_lines(f"{emitted.program.name}, {name}", own)
    for plan in emitted.plans.values():
        yield ""
        yield plan.describe()


def _config_lines(name: str, config: Config) -> Iterator[str]:
    yield f"schedule of {name} for {config.backend} {config.arch}"
    for axis, role in config.roles.items():
        own = config.axes[axis]
        tile = "" if own.tile is None else f", tile {own.tile}"
        yield f"  axis {axis}: {role}{tile}{'' if own.split is None else f', split {own.split}'}"
    yield f"  grid {', '.join(a + (' desc' if d else '') for a, d in config.grid) or '(one program)'}"
    for axis, group in config.grid_swizzle.items():
        yield f"  grid_swizzle {axis}: {group}"
    if config.loops:
        yield f"  loops {', '.join(config.loops)}"
    for made, where in config.materialize.items():
        yield f"  materialize {made}: {where.where} memory, {where.dtype}"
    threads = f"threads {config.threads or 'chosen'}"
    yield f"  skeleton {config.skeleton}, " + (
        f"warps {config.warps}, stages {config.stages}" if config.skeleton != "simt" else threads
    )
    for note in config.notes:
        yield f"  note: {note}"


def _layouts(emitted: Emitted) -> Iterator[str]:
    if not emitted.plans:
        raise KgenError("--stage layout: Triton lays out its tiles itself; ask for --backend cuda")
    for plan in emitted.plans.values():
        yield f"layouts of {plan.kernel} for {plan.arch}"
        yield from layout_lines(plan.map)


def _tree(node: object, indent: str) -> Iterator[str]:
    """Yield a syntax tree, a line for each node: its kind, what it says itself, then its children indented."""
    if not isinstance(node, Node):
        return
    values = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in ("span", "text")}
    inner = {k: v for k, v in values.items() if isinstance(v, Node) or (isinstance(v, tuple) and _nodes(v))}
    own = " ".join(f"{k}={v!r}" for k, v in values.items() if k not in inner and v not in (None, ()))
    yield f"{indent}{type(node).__name__} {own}".rstrip()
    for value in inner.values():
        for child in value if isinstance(value, tuple) else (value,):
            yield from _tree(child, indent + "  ")


def _nodes(values: tuple[object, ...]) -> bool:
    return bool(values) and all(isinstance(v, Node) for v in values)
