"""kgen: readable, verified GPU kernels from declarative tile specs."""

__version__ = "0.1.0"
