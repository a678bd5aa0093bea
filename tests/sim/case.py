"""What a test kernel is: its text, its tensors, and what PyTorch says it computes.

Cases run in the simulator (tests/sim) and on a GPU (tests/gpu), so they use nothing but the kernel text and tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from kgen import sim

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A kernel `entry` whose parameters are `inputs` then `outputs`, in order: pointers or tensor maps, no scalars.

    `expected` maps the inputs and the initial outputs to the final outputs. `tolerance` is relative; 0 is exact.
    Tensors named in `maps` are passed as tensor maps: (box, span of the swizzle in bytes).
    With `initial`, outputs keep their starting values, for atomics. `architecture`: the oldest that can run it.
    """

    entry: str
    text: str
    inputs: Callable[[], Tensors]
    outputs: Callable[[], Tensors]
    expected: Callable[[Tensors], Tensors]
    grid: int = 1
    block: int = 64
    smem: int = 0
    tolerance: float = 0.0
    initial: bool = False
    architecture: int = 80
    maps: Mapping[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)

    def arguments(self, inputs: Tensors, outputs: Tensors) -> list[sim.Arg]:
        """Return the arguments of a simulated launch on these tensors."""
        roles: dict[str, sim.args.Role] = dict.fromkeys(inputs, "in")
        roles |= dict.fromkeys(outputs, "inout" if self.initial else "out")
        args: list[sim.Arg] = []
        for name, tensor in {**inputs, **outputs}.items():
            if name in self.maps:
                args.append(sim.TensorMapArg(name, tensor, roles[name], *self.maps[name]))
            else:
                args.append(sim.TensorArg(name, tensor, roles[name]))
        return args


def kernel(parameters: str, body: str, entry: str) -> str:
    """Return the text of a kernel whose body sees `tid` and the parameters."""
    head = f'#include "kgen.cuh"\nextern "C" KG_GLOBAL void {entry}({parameters}) {{\n'
    return head + "    int tid = blockIdx.x * blockDim.x + threadIdx.x;\n" + body + "}\n"


def mismatch(case: Case, found: Tensors, inputs: Tensors) -> str | None:
    """Return the name of the first output that differs from the expectation, with the largest error, or None."""
    for name, want in case.expected(inputs).items():
        got = found[name].reshape(want.shape)
        if case.tolerance == 0:
            same = got.dtype == want.dtype and torch.equal(got.nan_to_num(nan=-7.0), want.nan_to_num(nan=-7.0))
        else:
            same = torch.allclose(got, want, rtol=case.tolerance, atol=case.tolerance, equal_nan=True)
        if not same:
            wrong = (got != want).nonzero()[:4].tolist()
            return f"output {name} differs at {wrong}: {got[got != want][:4]} instead of {want[got != want][:4]}"
    return None
