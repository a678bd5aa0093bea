"""A program as one Triton module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgen.emit.header import Header
from kgen.emit.names import names_of
from kgen.emit.render import render
from kgen.emit.traverse import walk_ops
from kgen.emit.triton_helpers import HELPERS, merge_function, merge_names
from kgen.emit.triton_kernel import KernelView, kernel_view
from kgen.emit.triton_ops import uses
from kgen.ir import Combine, Program


@dataclass(frozen=True)
class TritonOptions:
    """`stages`: pipeline depth of the loops that hold a Dot, by kernel name (left to the launch if absent)."""

    stages: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ModuleView:
    """What the template shows of a module; every field is finished text."""

    head: tuple[str, ...]
    helpers: tuple[str, ...]
    kernels: tuple[KernelView, ...]


def print_program(program: Program, options: TritonOptions, header: Header) -> str:
    """Return a Python module with one @triton.jit function per kernel, in launch order.

    A kernel takes its `args` in order, then its constants (`names.constant_values`) as constexpr. Its grid is 1-D.
    """
    merges = merge_names(program)
    statements = dict(header.statements)
    kernels = tuple(kernel_view(k, statements, options.stages.get(k.name), merges) for k in program.kernels)
    helpers = _helpers(program, merges, kernels)
    return render("triton/module.py.j2", ModuleView(_docstring(header), helpers, kernels))


def _helpers(program: Program, merges: Mapping[Combine, str], kernels: tuple[KernelView, ...]) -> tuple[str, ...]:
    """The functions that the kernels call: merges of states, then what those and the kernels use of HELPERS."""
    functions: dict[str, str] = {}
    for kernel in program.kernels:
        for op in walk_ops(kernel.body):
            if isinstance(op, Combine) and merges[op] not in functions:
                functions[merges[op]] = merge_function(kernel, names_of(kernel), op, merges[op])
    text = [*functions.values(), *(line for k in kernels for line in k.body)]
    return (*(code for name, code in HELPERS.items() if uses(text, name)), *functions.values())


def _docstring(header: Header) -> tuple[str, ...]:
    return tuple(line.replace("\\", "\\\\").replace('"""', r"\"\"\"") for line in header.lines())
