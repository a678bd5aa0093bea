"""Reads the report that `ptxas -v` prints for each kernel."""

from __future__ import annotations

import re

from kgen.build.binary import Resources

_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse_report(report: str) -> dict[str, Resources]:
    """Return the resources of every kernel in a report, by symbol. A kernel whose section is incomplete is left out.

    Properties of device functions that were not inlined follow their kernel's in the report; the first frame after
    "Compiling entry function" is the kernel's own.
    """
    sections = _KERNEL.split(report)[1:]
    found = {}
    for kernel, section in zip(sections[::2], sections[1::2], strict=True):
        frame, registers, shared = _FRAME.search(section), _REGISTERS.search(section), _SHARED.search(section)
        if frame is None or registers is None:
            continue
        local, stores, loads = (int(number) for number in frame.groups())
        size = int(shared[1]) if shared else 0
        found[kernel] = Resources(int(registers[1]), stores + loads, size, local, "ptxas")
    return found
