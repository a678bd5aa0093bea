"""PyTorch references of the shipped specs, written without regard to how kgen computes them.

Each takes the arguments of the op by position, tensors first, then params, and returns its outputs in order. 16-bit
inputs are computed in float32, float64 inputs in float64; results are rounded once, at the end, to the output's dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype is torch.float64 else x.float()


def vector_add(x: Tensor, y: Tensor) -> Tensor:
    """x + y."""
    return torch.add(x, y)


def row_sum(x: Tensor) -> Tensor:
    """Sum over the last dim, in f32."""
    return torch.sum(_wide(x), dim=-1)


def softmax(x: Tensor) -> Tensor:
    """Softmax over the last dim."""
    return functional.softmax(_wide(x), dim=-1).to(x.dtype)


def rmsnorm_residual(x: Tensor, r: Tensor, w: Tensor, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """(x + r, rms_norm(x + r) * w)."""
    h = _wide(x) + _wide(r)
    return h.to(x.dtype), functional.rms_norm(h, (h.shape[-1],), _wide(w), eps).to(x.dtype)


def layer_norm(x: Tensor, w: Tensor, b: Tensor, eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]:
    """(layer_norm(x), mean, reciprocal standard deviation)."""
    wide = _wide(x)
    y = functional.layer_norm(wide, (x.shape[-1],), _wide(w), _wide(b), eps)
    return y.to(x.dtype), wide.mean(-1), torch.rsqrt(wide.var(-1, correction=0) + eps)


def matmul(x: Tensor, w: Tensor, bias: Tensor, r: Tensor) -> Tensor:
    """gelu(x @ w + bias) + r."""
    return (functional.gelu(torch.bmm(_wide(x), _wide(w)) + _wide(bias)) + _wide(r)).to(x.dtype)


def flash_attn(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, causal: bool = True
) -> tuple[Tensor, Tensor]:
    """(attention, log-sum-exp of the scores); rows that see no key give 0 and -inf."""
    groups = q.shape[1] // k.shape[1]
    keys, values = (_wide(x).repeat_interleave(groups, dim=1) for x in (k, v))
    scores = torch.einsum("bhmd,bhnd->bhmn", _wide(q), keys) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        rows, columns = scores.shape[-2:]
        allowed = torch.ones(rows, columns, dtype=torch.bool, device=q.device).tril(columns - rows)
        scores = scores.masked_fill(~allowed, float("-inf"))
        empty = ~allowed.any(dim=-1, keepdim=True)
    else:
        empty = torch.full((scores.shape[-2], 1), scores.shape[-1] == 0, device=q.device)
    weights = torch.softmax(scores, dim=-1).masked_fill(empty, 0.0)
    return (weights @ values).to(q.dtype), torch.logsumexp(scores, dim=-1)
