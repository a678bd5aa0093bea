"""The optional model of an H200's tensor cores, against exact arithmetic in Python."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import torch

from kgen import sim

from .matrices import product_case


def hopper_sum(terms: list[tuple[float, float]], c: float) -> float:
    """Return c + the sum of products: aligned to the largest exponent, cut at 25 bits, added, cut to 24 bits."""
    pairs = [*terms, (c, 1.0)]
    top = max(math.frexp(x)[1] + math.frexp(y)[1] - 2 for x, y in pairs if x and y)
    unit = Fraction(2) ** (top - 25)
    total = sum(math.trunc(Fraction(x) * Fraction(y) / unit) for x, y in pairs)
    excess = max(0, abs(total).bit_length() - 24)
    cut = (abs(total) >> excess << excess) * unit
    return float(cut if total >= 0 else -cut)


def test_hopper_rounding(cache_dir: Path) -> None:
    generator = torch.Generator().manual_seed(9)
    a, b, c = (torch.randn(shape, generator=generator) for shape in ((16, 16), (16, 8), (16, 8)))
    a, b = a.bfloat16().float(), b.bfloat16().float()
    case, found = product_case("bf16"), {}
    kernel = sim.compile(case.text, case.entry, cache_dir=cache_dir)
    for model in ("plain", "hopper"):
        z = torch.zeros(16, 8)
        args = [sim.TensorArg(name, x, "in") for name, x in (("a", a), ("b", b), ("c", c))]
        report = sim.launch(
            kernel, 1, 32, 0, [*args, sim.TensorArg("z", z, "out")], options=sim.Options(tensor_cores=model)
        )
        assert report.ok, str(report)
        found[model] = z
    rows = [
        [hopper_sum(list(zip(a[i].tolist(), b[:, j].tolist(), strict=True)), c[i, j].item()) for j in range(8)]
        for i in range(16)
    ]
    assert torch.equal(found["hopper"], torch.tensor(rows))
    assert not torch.equal(found["plain"], found["hopper"])
    assert torch.allclose(found["plain"], found["hopper"], atol=1e-5)
