"""Functions that generated Triton modules carry when they use them."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.emit.names import Names
from kgen.emit.printer import Text
from kgen.emit.traverse import walk_ops
from kgen.emit.triton_expr import TritonPrinter
from kgen.emit.wrap import STEP, wrap
from kgen.ir import Combine, Kernel, Program
from kgen.terms import Expr, Get, Var

HELPERS = {
    "floor_div": '''@triton.jit
def floor_div(a, b):
    """a divided by b, rounded down: // alone rounds towards zero."""
    q = a // b
    r = a - q * b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
''',
    "floor_mod": '''@triton.jit
def floor_mod(a, b):
    """The remainder of floor_div, with the sign of b: % alone has the sign of a."""
    r = a % b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
''',
    "nan_max": '''@triton.jit
def nan_max(a, b):
    """The greater of two, or NaN if one is NaN: tl.max drops it."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "nan_min": '''@triton.jit
def nan_min(a, b):
    """The smaller of two, or NaN if one is NaN: tl.min drops it."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)
''',
    "power": '''@triton.jit
def power(x, y):
    """x ** y as in C: a negative x needs an integer y, else NaN. In f64, so that an f32 result is right to rounding."""
    x, y = tl.cast(x, tl.float64), tl.cast(y, tl.float64)
    size = tl.where(y == 0, 1.0, tl.exp2(y * tl.log2(tl.abs(x))))
    odd = tl.floor(y * 0.5) * 2 != y
    signed = tl.where(tl.floor(y) != y, float("nan"), tl.where(odd, -size, size))
    return tl.where(x < 0, signed, size)
''',
    "tanh": '''@triton.jit
def tanh(x):
    """tanh(x): near 0, where the quotient of exponentials cancels, by the continued fraction up to 13."""
    a, s = tl.abs(x), x * x
    top = 135135 + s * (17325 + s * (378 + s))
    near = a * top / (135135 + s * (62370 + s * (3150 + s * 28)))
    e = tl.exp(-2 * a)
    size = tl.where(a < 0.4, near, (1 - e) / (1 + e))
    return tl.where(x < 0, -size, size)
''',
}


class _MergePrinter(TritonPrinter):
    """Prints a merge's expressions: states by name, "a.m" as a_m. They may be tiles, whatever their axes say."""

    def tile_axes(self, e: Expr) -> frozenset[str]:
        return frozenset(("state",))

    def leaf(self, e: Expr) -> Text:
        if isinstance(e, Get):
            return Text(merge_name(e.var))
        return super().leaf(e)


def merge_name(var: Var) -> str:
    """Return the identifier of a state or local name in a merge function."""
    return var.name.replace(".", "_")


def merge_function(kernel: Kernel, names: Names, op: Combine, name: str) -> str:
    """Return the text of the function that merges two states of a Combine."""
    printer = _MergePrinter(kernel, names)
    arguments = [f"{side}_{s}" for side in "ab" for s in op.states]
    lines = [
        "@triton.jit",
        f"def {name}({', '.join(arguments)}):",
        f'    """Merge two states ({", ".join(op.states)})."""',
    ]
    types = dict(zip(op.states, (s.dtype for s in op.srcs), strict=True))
    for key, e in op.merge:
        code = printer.full(e) if key in types else printer.text(e)
        lines += wrap(f"{key} = {code}", STEP)
    return "\n".join([*lines, f"    return {', '.join(op.states)}", ""])


def merge_names(program: Program) -> dict[Combine, str]:
    """Return a name for the merge of every Combine; equal merges share one."""
    known: dict[tuple[object, ...], str] = {}
    out: dict[Combine, str] = {}
    for kernel in program.kernels:
        for op in walk_ops(kernel.body):
            if isinstance(op, Combine):
                key = (op.states, op.merge)
                taken = set(known.values())
                if key not in known:
                    known[key] = _unique(f"merge_{'_'.join(op.states)}", taken)
                out[op] = known[key]
    return out


def _unique(preferred: str, taken: Iterable[str]) -> str:
    name, number = preferred, 1
    while name in taken:
        number += 1
        name = f"{preferred}_{number}"
    return name
