"""A spec to put statements and keys into, for the tests of resolve."""

from __future__ import annotations

from kgen.math import Math
from kgen.resolve import resolve
from kgen.spec import load
from kgen.types import BF16, DType

GOOD = "y[b, m] = sum[n](x[b, m, n])"


def spec_text(compute: str, extra: str = "", tensors: str = "") -> str:
    """Return a spec over axes b, m, n with one statement or more."""
    lines = "\n".join(f"  {line}" for line in compute.split("\n"))
    return f"""\
kernel: test
dtypes: {{T: [bf16, f16, f32, f64]}}
axes: {{b: {{extent: B}}, m: {{extent: M}}, n: {{extent: N, tile: 64, stream: true}}}}
tensors:
  x: {{dims: [b, m, n], dtype: T}}
  w: {{dims: [n], dtype: f32}}
  u: {{dims: [n], dtype: u8, values: index(16)}}
  j: {{dims: [b, m], dtype: i64, values: index(N)}}
  c: {{dims: [b, m, n], dtype: bool}}
{tensors}
  y: {{dims: [b, m], dtype: T, out: true}}
params: {{a: {{dtype: f32, default: 1 / sqrt(N)}}, k: {{dtype: i64, default: 3}}}}
{extra}
compute: |
{lines}
"""


def run(text: str, dtype: DType = BF16) -> Math:
    return resolve(load(text), {"T": dtype})
