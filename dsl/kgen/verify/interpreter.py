"""Makes Triton's interpreter compute what a GPU computes, where a self-test shows that it does not.

The interpreter itself is corrected (in this process), never an emitted kernel. What remains different from a GPU, and
so is not proven by an interpreted run:

- masked lanes of a load without `other` read 0 (undefined on a GPU), and `tl.dot` accepts tiles below 16;
- `input_precision` has no effect: float32 products are always IEEE;
- sums are in NumPy's order and precision; bfloat16 `tl.sum` adds in float32 and rounds once (a GPU rounds every step);
- exp, exp2, log, sin, division are NumPy's, correctly rounded or nearly so (a GPU's are within 2 ulp);
- a float beyond the integer range is cast as C does (a GPU saturates, NaN gives 0);
- argmax over NaN alone raises, and its choice among NaN and numbers is NumPy's;
- float64 to bfloat16 rounds twice, by way of float32;
- programs run one after the other, so races between programs do not show; warps and threads do not exist.

Checked to be the same: masked-off addresses are not touched, however far outside; `tl.max` skips NaN; int32 wraps and
int64 does not; `//` and `%` truncate; float32 to float16 and bfloat16 rounds to nearest even, NaN stays NaN.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kgen.build.interpret import run_interpreted
from kgen.errors import KgenError
from kgen.verify import interpreter_patches as patches

PROBES = Path(__file__).with_name("interpreter_probes.py")
N = 16
_NAN = float("nan")


@dataclass(frozen=True)
class Correction:
    """A fault of the interpreter: what it concerns, the self-test that shows it, and what installs the correction."""

    name: str
    is_right: Callable[[], bool]
    install: Callable[[], None]

    @property
    def description(self) -> str:
        """One sentence: how it is after the correction."""
        return (inspect.getdoc(self.install) or "").split("\n\n")[0].replace("\n", " ")

    def holds(self) -> bool:
        """Run the self-test. An interpreter that raises has the fault too."""
        try:
            return self.is_right()
        except Exception:  # any error of the interpreter, of whatever type, is the fault looked for
            return False


@functools.cache
def ensure_correct() -> tuple[Correction, ...]:
    """Correct the interpreter of this process and return what needed correction. Later calls return the same.

    Raises KgenError if a self-test still fails: then this version of Triton is not one that kgen can verify with.
    """
    installed = []
    for correction in CORRECTIONS:
        if not correction.holds():
            correction.install()
            installed.append(correction)
    failing = [correction.name for correction in CORRECTIONS if not correction.holds()]
    if failing:
        raise KgenError(
            f"the interpreter of this Triton computes wrongly and cannot be corrected: {', '.join(failing)}"
        )
    return tuple(installed)


def probe(function: str, *, constexprs: dict[str, Any] | None = None, **args: Any) -> None:
    """Run one program of a probe kernel."""
    run_interpreted(PROBES, function, (1,), args, {"N": N} if constexprs is None else constexprs)


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def _index_is_right() -> bool:
    out = torch.zeros(1, dtype=torch.int32)
    probe("bounded_loop", out=out, bound=3, constexprs={})
    return out.tolist() == [3]


def _loop_is_right() -> bool:
    out = torch.zeros(1, dtype=torch.int64)
    probe("loop", out=out, bound=10, step=4, constexprs={})
    return out.tolist() == [12 + 45]


def _bool_is_right() -> bool:
    out = torch.zeros(1, dtype=torch.int32)
    probe("bool_argument", out=out, flag=True, constexprs={})
    return out.tolist() == [1]


def _conditions_are_right() -> bool:
    out = torch.zeros(N, dtype=torch.int32)
    probe("scalar_condition", out=out, flag=1)
    return out.tolist() == [7] * (N // 2) + [0] * (N // 2)


def _casts_are_right() -> bool:
    ends = torch.tensor([0.0, -0.0, 1.99999, 3.3895e38, float("inf"), -float("inf"), _NAN, 1.00390625, -1.01171875])
    values = torch.cat([ends, _numbers(N - len(ends))])
    to_bf16 = _cast(values, torch.bfloat16)
    integers = torch.arange(-8, 8, dtype=torch.int32)
    constant = torch.zeros(N, dtype=torch.bfloat16)
    probe("constant", out=constant)
    return (
        _same(to_bf16, values.bfloat16())
        and _same(_cast(to_bf16, torch.float32), to_bf16.float())
        and _same(_cast(to_bf16, torch.float16), to_bf16.half())
        and _same(_cast(integers, torch.bfloat16), integers.bfloat16())
        and bool((constant == 1.0).all())
    )


def _float8_casts_are_right() -> bool:
    values = torch.tensor(
        [448, 464, 465, 1000, -1000, float("inf"), _NAN, 124.737, 0.001, -0.002, 0, 1.0625, 17, 18, 19, 20]
    )
    e4m3 = torch.zeros(N, dtype=torch.float8_e4m3fn)
    probe("cast", source=values, out=e4m3)
    return _same(e4m3.float(), values.clamp(-448, 448).to(torch.float8_e4m3fn).float())


def _cast(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.zeros(N, dtype=dtype)
    probe("cast", source=values, out=out)
    return out


def _arithmetic_is_right() -> bool:
    a, b = _numbers(2, N, dtype=torch.bfloat16)
    out, compared = torch.zeros_like(a), torch.zeros(N, dtype=torch.bool)
    probe("narrow_arithmetic", a=a, b=b, out=out, compared=compared)
    return _same(out, -(a * b) + a) and bool((compared == (a > b)).all())


def _dot_is_right() -> bool:
    a, b = _numbers(2, N, N, dtype=torch.bfloat16)
    out = torch.zeros(N, N)
    probe("dot", a=a, b=b, out=out)
    return torch.allclose(out, a.float() @ b.float(), atol=1e-5)


def _float8_dot_is_right() -> bool:
    a, b = _numbers(2, N, N).to(torch.float8_e4m3fn)
    out = torch.zeros(N, N)
    probe("dot", a=a, b=b, out=out)
    return torch.allclose(out, a.float() @ b.float(), atol=1e-5)


def _reductions_are_right() -> bool:
    a = torch.randint(-8, 8, (N, N), generator=torch.Generator().manual_seed(0)).bfloat16()
    sums, tops, scans = torch.zeros(N), torch.zeros(N), torch.zeros(N, N)
    probe("reductions", a=a, sums=sums, tops=tops, scans=scans)
    wide = a.float()
    return _same(sums, wide.sum(1)) and _same(tops, wide.amax(1)) and _same(scans, wide.cumsum(1))


def _reductions_are_fast() -> bool:
    """True if a reduction of N rows of N numbers calls its function at most N times, and is right."""
    a, calls = _numbers(N, N), 0
    tops, sums = torch.zeros(N), torch.zeros(N)
    builder = patches.InterpreterBuilder
    maximum = builder.create_maxnumf

    def counting(self: Any, lhs: Any, rhs: Any) -> Any:
        nonlocal calls
        calls += 1
        return maximum(self, lhs, rhs)

    builder.create_maxnumf = counting
    try:
        probe("softmax_state", a=a, tops=tops, sums=sums)
    finally:
        builder.create_maxnumf = maximum
    return calls <= N and _same(tops, a.amax(1)) and torch.allclose(sums, torch.exp2(a - tops[:, None]).sum(1))


def _minmax_is_right() -> bool:
    a = torch.tensor([1.0, _NAN, 2.0, _NAN] * (N // 4))
    b = torch.tensor([_NAN, 1.0, 3.0, _NAN] * (N // 4))
    tops, bottoms = torch.zeros(N), torch.zeros(N)
    probe("minmax", a=a, b=b, tops=tops, bottoms=bottoms)
    return _same(tops, torch.fmax(a, b)) and _same(bottoms, torch.fmin(a, b))


def _fma_is_right() -> bool:
    a, out = torch.full((N,), 1 + 2.0**-12), torch.zeros(N)
    probe("fma", a=a, b=a, c=torch.full((N,), -1 - 2.0**-11), out=out)
    return bool((out == 2.0**-24).all())


def _power_is_right() -> bool:
    a, out = _numbers(N).abs(), torch.zeros(N)
    probe("power", a=a, b=torch.full((N,), 2.5), out=out)
    return torch.allclose(out, a**2.5)


def _same(got: torch.Tensor, expected: torch.Tensor) -> bool:
    return got.dtype == expected.dtype and torch.allclose(got.double(), expected.double(), 0, 0, equal_nan=True)


CORRECTIONS = (
    Correction("loop bounds", _index_is_right, patches.correct_scalar_index),
    Correction("bool arguments", _bool_is_right, patches.correct_bool_arguments),
    Correction("loop variables", _loop_is_right, patches.correct_loop_variables),
    Correction("conditions of scalars", _conditions_are_right, patches.correct_scalar_conditions),
    Correction("maximum and minimum of NaN", _minmax_is_right, patches.correct_minmax_of_nan),
    Correction("fma", _fma_is_right, patches.correct_fma),
    Correction("bfloat16 casts", _casts_are_right, patches.correct_bf16_casts),
    Correction("8-bit float casts", _float8_casts_are_right, patches.correct_float8_casts),
    Correction("bfloat16 arithmetic", _arithmetic_is_right, patches.correct_narrow_arithmetic),
    Correction("bfloat16 dot", _dot_is_right, patches.correct_bf16_dot),
    Correction("8-bit float dot", _float8_dot_is_right, patches.correct_float8_dot),
    Correction("bfloat16 reductions", _reductions_are_right, patches.correct_narrow_reductions),
    Correction("reductions by own functions", _reductions_are_fast, patches.correct_slow_reductions),
    Correction("external functions", _power_is_right, patches.correct_external_functions),
)
