"""The softmax of each row of a matrix, for rows that do not fit into registers.
"""

from .op import OP, softmax_online

__all__ = ["OP", "softmax_online"]
