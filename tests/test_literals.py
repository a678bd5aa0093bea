"""Literals: what they may be written as, what they mean, and that they reach the op as defaults."""

from __future__ import annotations

import math

import pytest
import torch

from kgen.package import PackagedVariant, package_files
from kgen.resolve import resolve
from kgen.resolve_constants import Number, evaluate
from kgen.spec import load
from kgen.verify import oracle
from kgen.workflow.instance import instances
from kgen.workflow.texts import Origin, texts_for
from marked_errors import errors
from resolve_cases import run, spec_text

VALUES = [
    ("inf", math.inf), ("-inf", -math.inf), ("nan", math.nan), ("+3", 3), ("- +2", -2), ("0x1F", 31), ("0X1f + 1", 32),
    ("1e3", 1000), (".5", 0.5), ("3.", 3), ("where(true, 1, 2)", 1), ("where(not false, 1, 2)", 1), ("2**3**2", 512),
    ("-2**2", -4), ("7 // -2", -4), ("7 % -3", -2), ("min(inf, 3)", 3), ("where(inf == inf, 1, 0)", 1),
]  # fmt: skip


@pytest.mark.parametrize(("written", "value"), VALUES)
def test_values(written: str, value: float) -> None:
    text = "kernel: one\naxes: {m: {extent: M}}\ntensors: {y: {dims: [m], dtype: f64, out: true}}\n"
    made = resolve(load(f"{text}compute: y[m] = {written}\n"), {})
    found = oracle.evaluate(made, {}, {}, {"M": 1})["y"]
    torch.testing.assert_close(found, torch.full((1,), float(value), dtype=torch.float64), equal_nan=True)


@pytest.mark.parametrize(
    ("default", "dtype", "value"),
    [("inf", "f32", math.inf), ("-inf", "f32", -math.inf), ("0x10", "i32", 16), ("+1", "i32", 1), ("abs(-2)", "f32", 2),
     ("not true", "bool", False), ("floor(2.5)", "f32", 2)],
)  # fmt: skip
def test_defaults_reach_the_op(default: str, dtype: str, value: Number) -> None:
    text = f"""\
kernel: scaled
axes: {{m: {{extent: M, tile: 16}}}}
tensors: {{x: {{dims: [m], dtype: f32}}, y: {{dims: [m], dtype: f32, out: true}}}}
params: {{a: {{dtype: {dtype}, default: {default}}}}}
compute: y[m] = {"where(a, x[m], 1)" if dtype == "bool" else "x[m] * a"}
"""
    spec = load(text)
    instance = instances(spec)[0]
    given = instance.math.params["a"].default
    assert given is not None and evaluate(given, {}) == value
    made = texts_for(instance, ("triton",), ("sm_90",), Origin())
    files = package_files(spec, [PackagedVariant(made.key, made.main("triton"), None)], "kgen build")
    compile(files["op.py"], "op.py", "exec")
    schema = files["manifest.json"].split('"schema": "')[1].split('"')[0]
    parsed = torch._C.parse_schema(schema)
    default_of = next(a for a in parsed.arguments if a.name == "a").default_value
    assert default_of == (value if math.isfinite(value) else None)


@pytest.mark.parametrize(
    ("written", "message"),
    [("«007»", "an integer does not begin with 0"), ("«00»", "an integer does not begin with 0"),
     ("«True»", "unknown name 'True'"), ("1«_000»", "unexpected '_000'"), ("m «if» n else 2", "unexpected 'if'")],
)  # fmt: skip
def test_other_spellings_are_errors(written: str, message: str) -> None:
    assert errors(run, spec_text(f"y[b, m] = sum[n](x[b, m, n])\nv = {written}"))[0][0] == message
