"""Implementations of the hand-built specs in plain torch, computing in float32, and wrong ones made of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
INF = float("inf")


@dataclass(frozen=True)
class Attention:
    """Attention in tiles over the keys, as a kernel does it: f32 state, weights rounded to the values' type.

    Each field but the first is a mistake.
    """

    tile: int = 16
    scaled: bool = True
    mask_shift: int = 0
    skip_last: bool = False
    round_weights: bool = True
    low_sums: bool = False
    head: str = "grouped"
    empty_nan: bool = False

    def __call__(self, tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
        q, k, v = (tensors[n].float() for n in ("q", "k", "v"))
        h = torch.arange(sizes["H"])
        heads = h // sizes["G"] if self.head == "grouped" else h % max(sizes["HK"], 1)
        k, v = k[:, heads], v[:, heads]
        return self.tiled(q, k, v, params, tensors["q"].dtype)

    def tiled(self, q: Tensor, k: Tensor, v: Tensor, params: dict[str, float], dtype: torch.dtype) -> Tensors:
        state = torch.bfloat16 if self.low_sums else torch.float32
        m = torch.full((*q.shape[:3], 1), -INF)
        total = torch.zeros((*q.shape[:3], 1))
        acc = torch.zeros((*q.shape[:3], v.shape[-1]))
        ends = range(0, k.shape[2], self.tile)
        for start in ends[:-1] if self.skip_last else ends:
            s = self.scores(q, k[:, :, start : start + self.tile], start, k.shape[2], params)
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            base = torch.where(new == -INF, 0.0, new)
            p, rescale = (s - base).exp(), (m - base).exp()
            total = (total * rescale + p.sum(-1, keepdim=True)).to(state).float()
            p = p.to(dtype).float() if self.round_weights else p
            acc = (acc * rescale + p @ v[:, :, start : start + self.tile]).to(state).float()
            m = new
        o = acc / total if self.empty_nan else torch.where(total > 0, acc / total, 0.0)
        return {"o": o.to(dtype), "lse": (m + total.log())[..., 0]}

    def scores(self, q: Tensor, k: Tensor, start: int, n: int, params: dict[str, float]) -> Tensor:
        s = q @ k.transpose(-1, -2)
        s = s * params["scale"] if self.scaled else s
        rows, columns = torch.arange(q.shape[2])[:, None], start + torch.arange(k.shape[2])
        allowed = columns <= rows + n - q.shape[2] + self.mask_shift
        return s.masked_fill(~allowed, -INF) if params["causal"] else s


def matmul(tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
    """Serial over k, one product at a time: the longest chain there is."""
    x, w = tensors["x"].float(), tensors["w"].float()
    acc = torch.zeros(x.shape[0], w.shape[1])
    for k in range(x.shape[1]):
        acc = acc + x[:, k, None] * w[k]
    return {"y": (acc + tensors["bias"].float()).to(tensors["x"].dtype)}


def softmax(tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
    x = tensors["x"]
    return {"y": torch.softmax(x.float(), 1).to(x.dtype)}


def layernorm(tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
    x = tensors["x"].float()
    mu = x.mean(1)
    rs = torch.rsqrt(((x - mu[:, None]) ** 2).mean(1) + params["eps"])
    y = (x - mu[:, None]) * rs[:, None] * tensors["w"].float() + tensors["c"].float()
    return {"y": y.to(tensors["x"].dtype), "mu": mu, "rs": rs}


def argmax(tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
    x = tensors["x"].float()
    return {"i": x.argmax(0) if x.shape[0] else torch.full((x.shape[1],), -1)}


def cross_entropy(tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
    x, label = tensors["x"].float(), tensors["label"]
    lse = x.logsumexp(1) if x.shape[1] else torch.full((x.shape[0],), -INF)
    used = label != int(params["ignore"])
    picked = x.gather(1, label.clamp(min=0)[:, None])[:, 0] if x.shape[1] else torch.zeros(x.shape[0])
    return {"lse": lse, "loss": torch.where(used, lse - picked, 0.0)}


def integer_sum(tensors: Tensors, sizes: dict[str, int], params: dict[str, float]) -> Tensors:
    return {"y": tensors["x"].sum(1, dtype=torch.int32)}
