"""Whole kernels written by hand (kernels/*.cu), as cases: sizes are macros in front of the text."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import torch

from .case import Case, Tensors

_FOLDER = Path(__file__).parent / "kernels"


def text_of(name: str, **macros: int) -> str:
    """Return the text of kernels/<name>.cu under the given macros."""
    head = "".join(f"#define {macro} {value}\n" for macro, value in macros.items())
    return head + (_FOLDER / f"{name}.cu").read_text()


def attention_case(heads: int, length: int, width: int, causal: bool, name: str = "attention_mma") -> Case:
    """Return the case of attention over bf16 [heads, length, width]."""
    shape, tile = (heads, length, width), 64 * width * 2
    return Case(
        entry=name,
        text=text_of(name, LENGTH=length, WIDTH=width, IS_CAUSAL=int(causal)),
        inputs=lambda: {n: _normal(i, shape).bfloat16() for i, n in enumerate("qkv")},
        outputs=lambda: {"o": torch.zeros(shape, dtype=torch.bfloat16), "lse": torch.zeros(shape[:2])},
        expected=lambda t: _attention(t, causal),
        grid=heads * -(-length // 64),
        block=128,
        smem=5 * tile,
        tolerance=0.02,
    )


def attention_wgmma_case(heads: int, length: int, width: int, causal: bool) -> Case:
    """Return the same by TMA and wgmma, 128 queries per block."""
    case = attention_case(heads, length, width, causal, "attention_wgmma")
    blocks, stage = -(-length // 128), 2 * 64 * width * 2
    maps = dict.fromkeys("qkv", ((1, 64, 64), 128))
    return dataclasses.replace(case, grid=heads * blocks, block=384, smem=1024 + 3 * stage, architecture=90, maps=maps)


def product_case(m: int, n: int, k: int) -> Case:
    """Return the case of an exact product of small integers, f16 [m, k] by [k, n]."""
    return Case(
        entry="product_copies",
        text=text_of("product_copies", SIZE_M=m, SIZE_N=n, SIZE_K=k),
        inputs=lambda: {"a": _integers(1, (m, k)).half(), "b": _integers(2, (k, n)).half()},
        outputs=lambda: {"c": torch.zeros(m, n)},
        expected=lambda t: {"c": t["a"].float() @ t["b"].float()},
        grid=-(-m // 64) * -(-n // 64),
        block=128,
        smem=2 * (64 * 32 + 32 * 64) * 2,
    )


def wgmma_case(m: int, n: int, k: int) -> Case:
    """Return the case of a product of small integers, bf16 [m, k] by [n, k] transposed: sums are exact."""
    box = ((64, 64), 128)
    return Case(
        entry="product_wgmma",
        text=text_of("product_wgmma", SIZE_N=n, SIZE_K=k),
        inputs=lambda: {"a": _integers(1, (m, k)).bfloat16(), "b": _integers(2, (n, k)).bfloat16()},
        outputs=lambda: {"c": torch.zeros(m, n, dtype=torch.bfloat16)},
        expected=lambda t: {"c": (t["a"].float() @ t["b"].float().T).bfloat16()},
        grid=-(-m // 64) * -(-n // 64),
        block=256,
        smem=1024 + 5 * 8192,
        architecture=90,
        maps={"a": box, "b": box, "c": box},
    )


def _normal(seed: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _integers(seed: int, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed))


def _attention(t: Tensors, causal: bool) -> Tensors:
    q, k, v = (t[name].float() for name in "qkv")
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -math.inf)
    return {"o": (scores.softmax(-1) @ v).bfloat16(), "lse": scores.logsumexp(-1)}


HAND_CASES = [
    attention_case(2, 200, 64, True),
    attention_case(1, 130, 128, False),
    product_case(100, 72, 136),
    wgmma_case(100, 72, 320),
    attention_wgmma_case(2, 200, 64, True),
    attention_wgmma_case(1, 130, 128, False),
]
# One per kernel, for texts that hold them all.
DISTINCT_HAND_CASES = list({case.entry: case for case in HAND_CASES}.values())
