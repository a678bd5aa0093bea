"""Batched matrix product with bias, GELU and residual.
"""

from .op import OP, matmul

__all__ = ["OP", "matmul"]
