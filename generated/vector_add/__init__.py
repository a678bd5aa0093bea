"""The sum of two vectors.
"""

from .op import OP, vector_add

__all__ = ["OP", "vector_add"]
