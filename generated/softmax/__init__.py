"""The softmax of each row of a matrix, the row read once.
"""

from .op import OP, softmax

__all__ = ["OP", "softmax"]
