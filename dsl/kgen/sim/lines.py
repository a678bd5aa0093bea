"""From a machine instruction of a compiled kernel back to a line of its text."""

from __future__ import annotations

import shutil
import subprocess

from kgen.sim.build import SimKernel


def kernel_line(kernel: SimKernel, code_offset: int) -> int | None:
    """Return the 1-based line of the kernel text that the instruction belongs to, or None if it cannot be told."""
    tool = shutil.which("addr2line")
    if code_offset == 0 or tool is None:
        return None
    command = [tool, "-i", "-e", str(kernel.library), hex(code_offset)]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    text = str(kernel.library.with_suffix(".cu"))
    for place in output.splitlines():  # innermost inlined call first
        path, _, number = place.split(" ")[0].rpartition(":")
        if path == text and number.isdigit():
            return int(number)
    return None
