"""The sum of each row of a matrix, accumulated in f32.
"""

from .op import OP, row_sum

__all__ = ["OP", "row_sum"]
