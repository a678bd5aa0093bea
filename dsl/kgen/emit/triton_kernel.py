"""One kernel as Triton text: signature, glossary, grid, positions, body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from kgen.emit.grid import Step, decode
from kgen.emit.names import Names, block, constant_values, names_of
from kgen.emit.python import python_expr
from kgen.emit.triton_expr import TritonPrinter, ceil_parts
from kgen.emit.triton_ops import Body, uses
from kgen.emit.wrap import STEP, wrap
from kgen.ir import Arg, Buffer, Combine, Kernel
from kgen.terms import Get, Pos, Start

_ROLES = {"in": "read", "out": "written", "inout": "read and written", "workspace": "workspace"}
_LINE = 100


@dataclass(frozen=True)
class KernelView:
    """What the template shows of a kernel; every field is finished text."""

    name: str
    signature: tuple[str, ...]
    doc: tuple[str, ...]
    body: tuple[str, ...]


def kernel_view(
    kernel: Kernel, statements: Mapping[str, str], stages: int | None, merges: Mapping[Combine, str]
) -> KernelView:
    """Return the text of a kernel."""
    names = names_of(kernel)
    body = Body(kernel, names, statements, stages, merges)
    body.ops(kernel.body)
    lines = [*_positions(kernel, names, body.lines), "", *body.lines]
    lines = [*_grid(kernel, names, lines), *lines]
    return KernelView(kernel.name, _signature(kernel, names), _glossary(kernel), tuple(lines))


def _positions(kernel: Kernel, names: Names, later: list[str]) -> list[str]:
    """The position vectors that `later` lines use; those of loops are made at the loop's head."""
    grid = {g.name for g in kernel.grid}
    found: list[str] = []
    for axis in kernel.tile_axes:
        inside, position = names.values[f"off.{axis}"], names.position[axis]
        mine = axis in grid and inside != position and uses(later, position)
        if mine or uses(later, inside):
            found.append(f"{inside} = tl.arange(0, {names.constants[f'tile.{axis}']})")
        if mine:
            found.append(f"{position} = {names.start[axis]} + {inside}")
    return [" " * STEP + line for line in found]


def _grid(kernel: Kernel, names: Names, later: list[str]) -> list[str]:
    """The decoding of the program id, without the steps that nothing uses."""
    printer = TritonPrinter(kernel, names)
    lines: list[str] = []
    for step in reversed(decode(kernel)):
        name = _target(names, step.target)
        if uses([*lines, *later], name):
            lines = [*wrap(f"{name} = {_step(kernel, printer, step)}", STEP), *lines]
    pid = names.values["grid.pid"]
    first = [f"{' ' * STEP}{pid} = tl.program_id(0)"] if uses(lines, pid) else []
    return [*first, *lines]


def _step(kernel: Kernel, printer: TritonPrinter, step: Step) -> str:
    """The value of a step; the number of an axis's tiles by the name of the tile size."""
    ceil = ceil_parts(step.value)
    for g in kernel.grid:
        if ceil is not None and step.value == g.count and ceil[1] == g.tile:
            return f"tl.cdiv({printer.text(ceil[0])}, {printer.text(block(kernel, g.name, g.tile))})"
    return printer.text(step.value)


def _target(names: Names, target: object) -> str:
    match target:
        case Get(var=var):
            return names.values[var.name]
        case Pos(axis=axis):
            return names.position[axis]
        case Start(axis=axis):
            return names.start[axis]
    raise TypeError(f"a grid step cannot define {type(target).__name__}")


def _signature(kernel: Kernel, names: Names) -> tuple[str, ...]:
    """The parameter lines: neighbours of one kind (and one tensor, for strides) share a line."""

    def kind(a: Arg) -> tuple[str, str | None]:
        return a.kind, a.buffer if a.kind == "stride" else None

    groups = [[names.arguments[a.name] for a in group] for _, group in groupby(kernel.args, kind)]
    groups.append([f"{c}: tl.constexpr" for c in constant_values(kernel)])
    return tuple(line for g in groups for line in _filled(g))


def _filled(items: list[str]) -> list[str]:
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + len(item) + 3 <= _LINE:
            lines[-1] += f" {item},"
        else:
            lines.append(f"{item},")
    return lines


def _glossary(kernel: Kernel) -> tuple[str, ...]:
    """What each buffer is."""
    pointers = {a.name for a in kernel.args if a.kind == "tensor"}
    return tuple(_entry(b) for b in kernel.buffers.values() if b.name in pointers)


def _entry(b: Buffer) -> str:
    dims = ", ".join(python_expr(d) for d in b.dims)
    return f"{b.name}: {b.dtype} [{dims}], {_ROLES[b.role]}"
