"""Integers of computed floats: either side of an edge is right there, and nowhere else."""

from __future__ import annotations

import pytest
import torch

from kgen.math import Math
from kgen.resolve import resolve
from kgen.spec import load
from kgen.types import F32
from kgen.verify.budget import limits
from kgen.verify.compare import check

SPEC = """\
kernel: integers
dtypes: {T: [f32]}
axes: {m: {extent: M}, n: {extent: N, tile: 16, stream: true}}
tensors:
  x: {dims: [m], dtype: T}
  w: {dims: [m, n], dtype: T}
  q: {dims: [m], dtype: DTYPE, out: true}
compute: |
  LINES
"""
SIZES = {"M": 4, "N": 3}
QUANTISED = "q[m] = cast[i8](floor(min(max(x[m] / 0.1, -127), 127) + 0.5))"


def math_of(line: str, dtype: str = "i8") -> Math:
    text = SPEC.replace("LINES", line).replace("DTYPE", dtype)
    text = text if "w[m" in line else text.replace("  w: {dims: [m, n], dtype: T}\n", "")
    text = text if "w[m" in line else text.replace(", n: {extent: N, tile: 16, stream: true}", "")
    return resolve(load(text), {"T": F32})


def right(line: str, x: list[float], got: list[int], dtype: str = "i8") -> bool:
    """Return whether the verifier takes `got` for these `x` (and w: ones)."""
    inputs = {"x": torch.tensor(x), "w": torch.ones(4, 3)}
    math = math_of(line, dtype)
    given = {name: value for name, value in inputs.items() if name in math.tensors}
    out = torch.tensor(got, dtype={"i8": torch.int8, "i32": torch.int32}[dtype])
    sizes = {name: value for name, value in SIZES.items() if name in math.sizes}
    return check({"q": out}, limits(math, given, {}, sizes)).ok


EDGE = [0.25, 0.31, -0.75, 30.0]  # / 0.1: 2.5, 3.1, -7.5, 300


@pytest.mark.parametrize("got", [[3, 3, -7, 127], [2, 3, -7, 127], [3, 3, -8, 127], [2, 3, -8, 127]])
def test_either_side_of_an_edge_is_right(got: list[int]) -> None:
    assert right(QUANTISED, EDGE, got)


@pytest.mark.parametrize("got", [[5, 3, -7, 127], [1, 3, -7, 127], [3, 4, -7, 127], [3, 2, -7, 127], [3, 3, -7, 126]])
def test_elsewhere_the_integer_is_demanded(got: list[int]) -> None:
    assert not right(QUANTISED, EDGE, got)


def test_what_no_rounding_decides_is_exact() -> None:
    whole = [1.0, 2.0, -3.0, 0.0]
    assert right("q[m] = cast[i8](x[m])", whole, [1, 2, -3, 0])
    assert not right("q[m] = cast[i8](x[m])", whole, [1, 2, -2, 0])
    assert not right("q[m] = cast[i8](floor(x[m]) * 2 + 1)", whole, [3, 5, -5, 2])
    assert not right("q[m] = sum[n](w[m, n] > 0)", whole, [3, 3, 2, 3], "i32")


def test_counts_of_computed_floats_differ_by_the_elements_on_edges() -> None:
    line = "q[m] = sum[n](w[m, n] * x[m] * 10 > 1)"
    on_edge = [0.1, 0.1, 0.2, 0.05]
    assert right(line, on_edge, [3, 0, 3, 0], "i32") and right(line, on_edge, [2, 1, 3, 0], "i32")
    assert not right(line, on_edge, [3, 0, 2, 0], "i32") and not right(line, on_edge, [3, 0, 3, 1], "i32")
