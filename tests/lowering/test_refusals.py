"""What cannot be lowered is refused with a place in the spec and the reason, never with an error of kgen itself."""

from __future__ import annotations

import pytest

from kgen.errors import SpecError
from kgen.pipeline import Target, lower
from kgen.resolve import resolve
from kgen.resolve_variants import variants
from kgen.spec import load
from kgen.specialise import Specialisation

ROWS = "m: {extent: M, tile: 16}"
WALKED = "n: {extent: N, tile: 16, stream: true}"
SPLIT = "n: {extent: N, tile: 16, stream: true, split: {count: 2}}"
ONE = "tensors: {x: {dims: [m, n], dtype: f32}, y: {dims: [m], dtype: f32, out: true}}\n"
THREE = "tensors: {x: {dims: [b, m, n], dtype: f32}, y: {dims: [b], dtype: TYPE, out: true}}\n"
REFUSED = {
    "axis of the grid": (
        f"axes: {{{ROWS}, n: {{extent: N, tile: 16}}}}\n{ONE}compute: y[m] = sum[n](x[m, n])\n",
        "sum[n](x[m, n])",
        "an axis of the grid",
    ),
    "position over two axes": (
        f"axes: {{b: {{extent: B}}, m: {{extent: M, stream: true}}, {WALKED}}}\n"
        f"{THREE.replace('TYPE', 'i64')}compute: y[b] = argmax[m, n](x[b, m, n])\n",
        "argmax[m, n](x[b, m, n])",
        "reduces over one axis",
    ),
    "two splits": (
        f"axes: {{b: {{extent: B}}, {SPLIT.replace('n:', 'm:').replace('N', 'M')}, {SPLIT}}}\n"
        f"{THREE.replace('TYPE', 'f32')}compute: y[b] = sum[m, n](x[b, m, n])\n",
        "n",
        "only one axis of a kernel can be split",
    ),
    "split in a loop": (
        f"axes: {{b: {{extent: B}}, m: {{extent: M, stream: true}}, {SPLIT}}}\n"
        f"{THREE.replace('TYPE', 'f32')}compute: y[b] = sum[m](max[n](x[b, m, n]))\n",
        "max[n](x[b, m, n])",
        "cannot be split",
    ),
    "split in two passes": (
        f"axes: {{{ROWS}, {SPLIT}}}\n{ONE}compute: y[m] = sum[n](abs(x[m, n] - max[n](x[m, n])))\n",
        "sum[n](abs(x[m, n] - max[n](x[m, n])))",
        "cannot be split",
    ),
    "axis left free": (
        f"axes: {{{ROWS}, {WALKED}}}\n{ONE}compute: y[m] = softmax[n](x[m, n])\n",
        "softmax[n](x[m, n])",
        "neither on the left side nor reduced",
    ),
}


@pytest.mark.parametrize("backend", ("triton", "cuda"))
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, backend: str) -> None:
    text, place, words = REFUSED[name]
    with pytest.raises(SpecError) as caught:
        spec = load(f"kernel: refused\n{text}")
        variant = variants(spec)[0]
        math = resolve(spec, variant.dtypes)
        units = {n: len(t.dims) - 1 for n, t in math.tensors.items()}
        lower(spec, Specialisation(variant.dtypes, variant.sizes, variant.params, units), Target(backend, "sm_90"))
    (found,) = caught.value.diagnostics
    assert words in found.message
    assert found.span is not None
    line = found.span.source.text.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith(place)
