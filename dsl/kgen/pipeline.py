"""The pipeline: the stages in their order, each a pure function of the one before.

    parse       text -> Spec, syntax trees             kgen.spec, kgen.parse
    resolve     Spec -> Math (typed, named)            kgen.resolve
    accumulate  Math -> Folded (no reductions left)    kgen.specialise, kgen.cut, kgen.accumulate
    tile        Folded -> Program                      kgen.tile
    mask        Program -> Program (segments)          kgen.segment
    simplify    Program -> Program (indices)           kgen.simplify
    schedule    Kernel -> Plan (CUDA layouts)          kgen.schedule
    emit        Program, Plans -> text                 kgen.emit

From accumulate on, a stage sees one specialisation and one target. `check.check` holds after tile, mask and simplify.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgen import accumulators
from kgen.accumulate import accumulate
from kgen.check import check
from kgen.check_access import check_access, check_loops
from kgen.configure import Config, configure
from kgen.configure_triton import check_elements, check_tiles
from kgen.cut import Piece, cut_math
from kgen.folded import Folded
from kgen.ir import Kernel, Program
from kgen.math import Math
from kgen.resolve import resolve
from kgen.segment import cut
from kgen.simplify import simplify_kernel
from kgen.spec import Spec
from kgen.specialise import Specialisation, specialise
from kgen.tile import Part, tile
from kgen.tile_frame import Frame
from kgen.tile_serial import serialise
from kgen.tile_signature import signed

STAGES = ("parse", "resolve", "accumulate", "tile", "mask", "simplify", "schedule", "emit")


@dataclass(frozen=True)
class Target:
    """What is compiled for: backend "triton" or "cuda", arch such as "sm_90"."""

    backend: str
    arch: str


@dataclass(frozen=True)
class Lowered:
    """The results of the stages up to simplify, kept for `kgen show`.

    `config` is that of the kernel with the outputs, `configs` those of all kernels by name.
    """

    math: Math
    folded: tuple[Folded, ...]
    config: Config
    configs: Mapping[str, Config]
    tiled: Program
    masked: Program
    program: Program


def lower(spec: Spec, key: Specialisation, target: Target) -> Lowered:
    """Lower a spec for one specialisation and target; raise SpecError or KgenError for what the user can mend."""
    math = specialise(resolve(spec, dict(key.dtypes)), key)
    _prove_records(math)
    parts = _parts(spec, math, key, target)
    kernels = [(k, p.frame) for p in parts for k in tile(p)]
    frames = [f for _, f in kernels]
    if target.backend == "triton":
        for kernel, frame in kernels:
            check_elements(kernel, frame.config, frame.math)
    tiled = _program(math.name, (k for k, _ in kernels))
    masked = _program(math.name, (signed(cut(k, f), f.math, key) for k, f in kernels))
    simplified = (simplify_kernel(k, f) for k, f in zip(masked.kernels, frames, strict=True))
    program = _program(math.name, (signed(k, f.math, key) for k, f in zip(simplified, frames, strict=True)))
    for kernel, frame in kernels:
        check_access(kernel, frame)
    for kernel, frame in zip(masked.kernels, frames, strict=True):
        check_loops(kernel, frame.sizes)
    configs = {k.name: f.config for k, f in kernels}
    return Lowered(math, tuple(p.folded for p in parts), parts[-1].frame.config, configs, tiled, masked, program)


def _program(name: str, kernels: Iterable[Kernel]) -> Program:
    """Return a checked program of kernels in launch order."""
    found = tuple(kernels)
    program = Program(name, {b.name: b for k in found for b in k.buffers.values()}, found)
    check(program)
    return program


def _parts(spec: Spec, math: Math, key: Specialisation, target: Target) -> list[Part]:
    """Return one part per kernel: materialised intermediates, outputs with a schedule of their own, the others."""
    config = configure(
        math,
        spec,
        backend=target.backend,
        arch=target.arch,
        dtypes=key.dtypes,
        sizes=key.sizes,
        params=key.params,
    )
    pieces = cut_math(math, {name: m.dtype for name, m in config.materialize.items()}, set(config.kernels))
    return [_part(p, config.kernels.get(p.name, config), key, target) for p in pieces]


def _part(piece: Piece, config: Config, key: Specialisation, target: Target) -> Part:
    math = piece.math
    if target.backend == "triton":
        check_tiles(math, config)
    name = math.name if piece.name == math.name else f"{math.name}_{piece.name}"
    return Part(name, *serialise(accumulate(math), Frame(math, key, config, target.backend)))


def _prove_records(math: Math) -> None:
    """Every record is proved before its first use."""
    records = accumulators.load_records(math.records)
    for name in sorted({n.record for n in math.reductions()}):
        accumulators.prove(records[name])
