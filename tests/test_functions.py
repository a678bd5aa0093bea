"""The table of functions: numbers of every float function in both languages, and its use on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from kgen import functions
from kgen.build.binary import Binary
from kgen.build.cache import Cache
from kgen.build.triton import TritonJob, compile_triton_batch
from kgen.emit.names import constant_values
from kgen.emit.python import python_expr
from kgen.errors import SpecError
from kgen.functions import Function, host_function, table
from kgen.resolve_constants import evaluate
from kgen.spec import load
from kgen.types import F32
from kgen.verify.subject import Call
from kgen.workflow.instance import instances
from kgen.workflow.subjects import CudaSimulator, TritonInterpreter
from kgen.workflow.texts import Origin, texts_for
from marked_errors import errors
from resolve_cases import GOOD, run, spec_text

COUNT = 4096


def line(low: float, high: float) -> Tensor:
    return torch.linspace(low, high, COUNT)


def steps(low: float, high: float) -> Tensor:
    """Magnitudes from 2^low to 2^high, of both signs."""
    size = torch.logspace(low, high, COUNT // 2, base=2.0)
    return torch.cat((-size, size))


# Row -> arguments, and the largest error in units in the last place of f32 that either language may make there. Sines
# are compared where their value is not small beside the argument: a kernel reduces the argument in f32.
RANGES: dict[str, tuple[tuple[Tensor, ...], float]] = {
    "div": ((steps(-30, 30), line(0.1, 9)), 1),
    "pow": ((line(0.1, 9), line(-15, 15)), 1),
    "exp": ((line(-87, 88),), 3),
    "exp2": ((line(-126, 127),), 3),
    "log": ((steps(-126, 127).abs(),), 2),
    "log2": ((steps(-126, 127).abs(),), 2),
    "sqrt": ((steps(-126, 127).abs(),), 0.5),
    "rsqrt": ((steps(-126, 127).abs(),), 2),
    "sin": ((line(0.1, 3),), 2),
    "cos": ((line(-1.5, 1.5),), 2),
    "erf": ((steps(-60, 3),), 2),
    "tanh": ((steps(-60, 6),), 4),
    "sigmoid": ((line(-80, 80),), 3),
    "floor": ((line(-9, 9),), 0),
    "ceil": ((line(-9, 9),), 0),
    "fma": ((line(-9, 9), line(3, 5), line(1, 2)), 0.5),
}


def written(row: Function, args: list[str]) -> str:
    """Return a call of the row as a spec writes it."""
    if row.operator is None:
        return f"{row.name}({', '.join(args)})"
    return f" {row.operator} ".join(args)


def spec_of(rows: dict[str, int]) -> str:
    """Return a spec with an output for each row, computed of inputs of its own (as many as given)."""
    inputs = [f"{name}_{i}" for name, count in rows.items() for i in range(count)]
    tensors = [f"  {x}: {{dims: [i], dtype: f32}}" for x in inputs]
    tensors += [f"  {name}_out: {{dims: [i], dtype: f32, out: true}}" for name in rows]
    lines = [
        f"  {name}_out[i] = {written(table()[name], [f'{name}_{i}[i]' for i in range(count)])}"
        for name, count in rows.items()
    ]
    head = "kernel: numbers\naxes: {i: {extent: N, tile: 512}}\ntensors:\n"
    return head + "\n".join(tensors) + "\ncompute: |\n" + "\n".join(lines) + "\n"


ROWS = {name: len(args) for name, (args, _) in RANGES.items()}


def test_every_float_function_is_tested() -> None:
    assert set(RANGES) == {name for name, row in table().items() if row.types == "float"}


def ulps(got: Tensor, want: Tensor) -> float:
    """Return the largest error in units in the last place of the exact value as f32."""
    size = want.abs().clamp(min=2.0**-126)
    return float(((got.double() - want).abs() / torch.exp2(torch.floor(torch.log2(size)) - 23)).max())


def call() -> Call:
    """Return the call with all ranges, the outputs wrong at first."""
    inputs = {f"{name}_{i}": x for name, (args, _) in RANGES.items() for i, x in enumerate(args)}
    return Call(inputs, {"N": COUNT}, {}, {f"{name}_out": torch.full((COUNT,), 7.0) for name in RANGES})


@pytest.mark.parametrize("subject", [TritonInterpreter, CudaSimulator])
def test_values_of_float_functions(subject: Callable[..., TritonInterpreter | CudaSimulator]) -> None:
    made = call()
    subject(instances(load(spec_of(ROWS)))[0], "sm_90").run(made)
    found = {name: ulps(made.outputs[f"{name}_out"], exact(name, args)) for name, (args, _) in RANGES.items()}
    assert {name: error for name, error in found.items() if error > RANGES[name][1]} == {}


def exact(name: str, args: tuple[Tensor, ...]) -> Tensor:
    """Return the row's torch form in float64."""
    form = str(table()[name].form("torch", F32)).format(*(f"args[{i}].double()" for i in range(len(args))))
    value: Tensor = eval(form, {"torch": torch, "args": args})
    return value


def test_special_values_of_tanh_and_power() -> None:
    cases = {"tanh": [(math.nan,), (math.inf,), (-math.inf,), (0.0,), (1e-40,)],
             "pow": [(0, 0), (0, 2), (0, -1), (-2, 3), (-2, 2), (-2, 0.5), (math.inf, 2), (math.nan, 1)]}  # fmt: skip
    made = call()
    for name, rows in cases.items():
        for i, column in enumerate(zip(*rows, strict=True)):
            made.inputs[f"{name}_{i}"] = torch.tensor(column, dtype=torch.float32).repeat(COUNT)[:COUNT]
    TritonInterpreter(instances(load(spec_of(ROWS)))[0], "sm_90").run(made)
    for name, rows in cases.items():
        want = [torch.tanh(*args) if name == "tanh" else torch.pow(*args) for args in map(_tensors, rows)]
        torch.testing.assert_close(made.outputs[f"{name}_out"][: len(rows)], torch.stack(want), equal_nan=True)


def _tensors(values: tuple[float, ...]) -> list[Tensor]:
    return [torch.tensor(float(v)) for v in values]


def test_every_function_compiles_for_every_target(tmp_path: Path) -> None:
    rows = {n: r.args for n, r in table().items() if r.types in ("float", "test") and n != "isnan"}
    jobs = []
    for text in (spec_of(rows), spec_of(rows).replace("f32", "f64")):
        made = texts_for(instances(load(text))[0], ("triton",), ("sm_90",), Origin()).texts[0].emitted
        kernel = made.program.kernels[0]
        signature = {a.name: ("*" if a.kind == "tensor" else "") + a.dtype.triton for a in kernel.args}
        jobs += [
            TritonJob(made.text, kernel.name, signature, constant_values(kernel), target=target)
            for target in ("sm_90", "gfx942")
        ]
    for job, result in zip(jobs, compile_triton_batch(jobs, Cache(tmp_path)), strict=True):
        assert isinstance(result, Binary), f"{job.target}: {result}"


# -- on the host

HOST_ARGUMENTS = {"shl": (5, 2), "shr": (21, 2), "bitand": (12, 10), "bitor": (12, 10), "bitxor": (12, 10),
                  "and": (True, False), "or": (True, False), "not": (True,), "where": (True, 3, 4)}  # fmt: skip


@pytest.mark.parametrize("name", table())
def test_host_values_are_those_of_torch(name: str) -> None:
    row = table()[name]
    args = HOST_ARGUMENTS.get(name, (7, 2, 3) if row.types in ("int", "compare") else (0.75, 0.5, 0.25))[: row.args]
    tensors = [torch.tensor(a, dtype=torch.float64 if isinstance(a, float) else None) for a in args]
    letters = [f"tensors[{i}]" for i in range(row.args)]
    form = str(row.form("torch", F32)).format(*letters)
    want = eval(form, {"torch": torch, "tensors": tensors})
    function = host_function(name)
    assert function is not None
    assert function(*args) == pytest.approx(want.item())


LOG1P = {"args": 1, "types": "float", "torch": "torch.log1p({0})", "triton": "tl.log(1 + {0})", "cuda": "log1pf({0})"}


def test_a_row_with_a_python_form_serves_defaults_and_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table(), "log1p", functions._row("log1p", LOG1P | {"python": "math.log1p({0})"}))
    default = run(spec_text(GOOD).replace("1 / sqrt(N)", "log1p(N)")).params["a"].default
    assert default is not None
    assert evaluate(default, {"N": 5}) == pytest.approx(math.log(6))
    assert python_expr(default) == "math.log1p(float(N))"


def test_a_row_without_a_python_form_is_for_kernels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table(), "log1p", functions._row("log1p", LOG1P))
    text = spec_text(GOOD).replace("1 / sqrt(N)", "1 / «log1p(N)»")
    assert errors(run, text) == [
        ("'log1p' has no value here: only kernels compute it", "add a python form to 'log1p' in functions.yaml")
    ]
    assert run(spec_text("y[b, m] = sum[n](log1p(x[b, m, n]))")).statements


def test_values_that_do_not_exist_are_errors() -> None:
    default = run(spec_text(GOOD).replace("1 / sqrt(N)", "1 / sqrt(N - 5)")).params["a"].default
    assert default is not None
    with pytest.raises(SpecError, match="this has no value: float division by zero"):
        evaluate(default, {"N": 5})
    choice = "'where(N == 5, 0, 1 / (N - 5))'"
    lazy = run(spec_text(GOOD).replace("1 / sqrt(N)", choice)).params["a"].default
    assert lazy is not None
    assert evaluate(lazy, {"N": 5}) == 0 and eval(python_expr(lazy), {"N": 5}) == 0
