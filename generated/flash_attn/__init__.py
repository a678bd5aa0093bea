"""Exact attention in one pass over K and V (FlashAttention-2), causal or not, with grouped heads and
log-sum-exp.
"""

from .op import OP, flash_attn

__all__ = ["OP", "flash_attn"]
