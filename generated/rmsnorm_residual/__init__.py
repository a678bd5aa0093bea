"""Residual addition and root-mean-square normalisation in one pass (the pair at the start of each
transformer block).
"""

from .op import OP, rmsnorm_residual

__all__ = ["OP", "rmsnorm_residual"]
