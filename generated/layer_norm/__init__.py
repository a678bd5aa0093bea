"""Layer normalisation of each row, with the mean and the reciprocal deviation that a backward pass
needs.
"""

from .op import OP, layer_norm

__all__ = ["OP", "layer_norm"]
