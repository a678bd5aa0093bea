"""Runs emitted CUDA text on the CPU: every access checked, every block executed. See docs/simulator.md."""

from kgen.sim.args import Arg, ScalarArg, TensorArg, TensorMapArg
from kgen.sim.build import SimCompileError, SimKernel, compile
from kgen.sim.launch import Options, launch
from kgen.sim.report import Counters, Fault, LineAccess, Report, TensorTraffic

__all__ = [
    "Arg",
    "Counters",
    "Fault",
    "LineAccess",
    "Options",
    "Report",
    "ScalarArg",
    "SimCompileError",
    "SimKernel",
    "TensorArg",
    "TensorMapArg",
    "TensorTraffic",
    "compile",
    "launch",
]
