"""Compiles CUDA text by nvcc, where NVRTC is not installed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kgen.build.toolchain import ToolFailure, nvcc_path

NAME = "kernel.cu"


def compile_text(text: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Return (cubin, log). Raises ToolFailure with the compiler's log.

    nvcc runs in a temporary folder whose path does not appear in its arguments: the text is named `kernel.cu`.
    """
    path = nvcc_path()
    if path is None:
        raise ToolFailure("nvcc was not found")
    with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
        Path(folder, NAME).write_text(text, encoding="utf-8")
        command = [path, "-cubin", "-o", "kernel.cubin", *options, NAME]
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
        log = done.stdout + done.stderr
        if done.returncode != 0:
            raise ToolFailure(log)
        return Path(folder, "kernel.cubin").read_bytes(), log
