"""Registers generated kernels as operators of PyTorch and launches them."""
