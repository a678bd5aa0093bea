"""Rewording a spec changes names and labels only: the same plan, and the same verdict of the verifier."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from canonical import Form, canonical
from subjects import CpuSubject

from kgen.pipeline import Target, lower
from kgen.resolve import resolve
from kgen.resolve_variants import variants
from kgen.spec import Spec, load
from kgen.specialise import Specialisation
from kgen.verify.cases import cases_for
from kgen.verify.run import verify

ROOT = Path(__file__).parents[2]
ATTENTION = (ROOT / "specs/flash_attn.yaml").read_text()
MATMUL = (ROOT / "specs/matmul.yaml").read_text()
AVERAGE = (ROOT / "tests/specs/soft_average.yaml").read_text()
COSINE = (ROOT / "tests/specs/cosine.yaml").read_text()
NORM = (ROOT / "specs/layer_norm.yaml").read_text()
S = "s = scale * sum[d](q[b, h, m, d] * k[b, h // G, n, d])"
O = "o[b, h, m, e] = sum[n](p * v[b, h // G, n, e])"  # noqa: E741
LSE = "lse[b, h, m]  = logsumexp[n](s)"
T_OF_S = "t = beta * s[m, n]"
DOT = "dot = sum[k](x[m, k] * y[n, k])"


def change(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def renamed(text: str, names: str) -> str:
    """Give each of the words in `names` another name, everywhere but in keys and functions of the language."""
    for word in names.split():
        text = re.sub(rf"(?<![\w.]){word}(?![\w(])", f"{word}_r{len(word)}", text)
    return text


REWORDED = {
    "attention, renamed": (ATTENTION, renamed(ATTENTION, "b h m n d e B H HK M N D E G q k v o lse scale causal s p")),
    "attention, factors swapped": (
        ATTENTION,
        change(
            ATTENTION,
            (S, "s = sum[d](k[b, h // G, n, d] * q[b, h, m, d]) * scale"),
            ("p * v[b, h // G, n, e]", "v[b, h // G, n, e] * p"),
        ),
    ),
    "attention, scale in the sum": (
        ATTENTION,
        change(ATTENTION, (S, "s = sum[d](q[b, h, m, d] * scale * k[b, h // G, n, d])")),
    ),
    "attention, scale on q": (
        ATTENTION,
        change(ATTENTION, (S, "qs = q[b, h, m, d] * scale\n  s = sum[d](qs * k[b, h // G, n, d])")),
    ),
    "attention, statements reordered": (ATTENTION, change(ATTENTION, (O, "@"), (LSE, O), ("@", LSE))),
    "attention, inlined": (
        ATTENTION,
        change(ATTENTION, ("  p = softmax[n](s)\n", ""), ("sum[n](p *", "sum[n](softmax[n](s) *")),
    ),
    "attention, more names": (
        ATTENTION,
        change(
            ATTENTION,
            (S, "raw = sum[d](q[b, h, m, d] * k[b, h // G, n, d])\n  s = scale * raw"),
            (O, "pv = p * v[b, h // G, n, e]\n  total = sum[n](pv)\n  o[b, h, m, e] = total"),
        ),
    ),
    "matmul, renamed": (MATMUL, renamed(MATMUL, "b m n k B M N K x w bias r y")),
    "matmul, factors and terms swapped": (
        MATMUL,
        change(
            MATMUL,
            ("sum[k](x[b, m, k] * w[b, k, n]) + bias[n]", "bias[n] + sum[k](w[b, k, n] * x[b, m, k])"),
            ("0.5 * t * (1 + erf(t / sqrt(2)))", "t * (erf(t / sqrt(2)) + 1) * 0.5"),
        ),
    ),
    "matmul, named": (
        MATMUL,
        change(
            MATMUL,
            (
                "y[b, m, n] = gelu(sum[k](x[b, m, k] * w[b, k, n]) + bias[n])",
                "z = sum[k](x[b, m, k] * w[b, k, n])\n  g = gelu(z + bias[n])\n  y[b, m, n] = g",
            ),
        ),
    ),
    "average, inlined": (
        AVERAGE,
        change(AVERAGE, (f"  {T_OF_S}\n", ""), ("(t)", "(beta * s[m, n])"), ("p * t)", "p * (beta * s[m, n]))")),
    ),
    "average, outputs swapped": (
        AVERAGE,
        change(
            AVERAGE,
            ("  o[m, e] = sum[n](p * v[n, e])\n", ""),
            ("- sum[n](p * t)", "- sum[n](t * p)\n  o[m, e] = sum[n](v[n, e] * p)"),
        ),
    ),
    "cosine, reordered": (
        COSINE,
        change(
            COSINE,
            (f"  {DOT}\n", ""),
            ("  c[m, n] =", f"  {DOT}\n  c[m, n] ="),
            ("sqrt(xx) * sqrt(yy)", "sqrt(yy) * sqrt(xx)"),
        ),
    ),
    "norm, renamed": (NORM, renamed(NORM, "m n M N x w b y mu rs eps")),
    "norm, factors swapped": (
        NORM,
        change(NORM, ("(x[m, n] - mu[m]) * rs[m] * w[n] + b[n]", "b[n] + w[n] * ((x[m, n] - mu[m]) * rs[m])")),
    ),
}


def form(text: str, backend: str) -> Form:
    spec = load(text)
    variant = variants(spec)[-1]
    math = resolve(spec, variant.dtypes)
    key = Specialisation(
        variant.dtypes,
        variant.sizes,
        variant.params,
        units={n: len(t.dims) - 1 for n, t in math.tensors.items()},
        aligned=frozenset(math.tensors),
        buckets=dict.fromkeys(math.axes, 64),
    )
    return canonical(lower(spec, key, Target(backend, "sm_90")).program, math)


def passes(spec: Spec, folder: Path) -> bool:
    """Return whether the spec is right in the interpreter, on the cheapest case with more than one element."""
    variant = min(variants(spec), key=lambda v: sum(v.sizes.values()))
    math = resolve(spec, variant.dtypes)
    subject = CpuSubject(spec, variant, Target("triton", "sm_90"), folder)
    found = cases_for(math, dict.fromkeys(math.axes, 8), True, fixed=variant.sizes)
    cases = [c for c in found if c.kind == "typical" and c.label != "one element" and "empty" not in c.label]
    return verify(math, [subject], cases[:1], smallest=False).ok


@pytest.mark.parametrize("backend", ("triton", "cuda"))
@pytest.mark.parametrize("name", REWORDED)
def test_same_plan(name: str, backend: str) -> None:
    old, new = REWORDED[name]
    assert form(old, backend) == form(new, backend)


@pytest.mark.parametrize("name", REWORDED)
def test_same_verdict(name: str, tmp_path: Path) -> None:
    assert passes(load(REWORDED[name][1]), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    (
        (ATTENTION, change(ATTENTION, ("n <= m + N - M", "n < m + N - M"))),
        (ATTENTION, change(ATTENTION, (S, S.replace("scale *", "scale * scale *")))),
        (MATMUL, change(MATMUL, ("+ r[b, m, n]", "- r[b, m, n]"))),
        (AVERAGE, change(AVERAGE, ("sum[n](p * t)", "sum[n](p * p)"))),
    ),
)
def test_the_form_tells_plans_apart(old: str, new: str) -> None:
    assert form(old, "triton") != form(new, "triton")
