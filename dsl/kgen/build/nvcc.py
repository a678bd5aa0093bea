"""Compiles CUDA text by nvcc, where NVRTC is not installed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kgen.build.toolchain import ToolFailure, nvcc_path

NAME = "kernel.cu"


def compile_text(text: str, headers: Mapping[str, str], options: Sequence[str]) -> tuple[bytes, str]:
    """Return (cubin, log). `headers` maps names, as the text includes them, to texts. Raises ToolFailure with the log.

    nvcc runs in a temporary folder that holds copies of all it reads: it hands its arguments to a shell, so a quote or
    a dollar in a path would break it.
    """
    path = nvcc_path()
    if path is None:
        raise ToolFailure("nvcc was not found")
    with tempfile.TemporaryDirectory(prefix="kgen-") as folder:
        Path(folder, NAME).write_text(text, encoding="utf-8")
        for name, content in headers.items():
            header = Path(folder, "include", name)
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(content, encoding="utf-8")
        command = [path, "-cubin", "-o", "kernel.cubin", "-Iinclude", *options, NAME]
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", errors="replace", check=False)
        log = done.stdout + done.stderr
        if done.returncode != 0:
            raise ToolFailure(log)
        return Path(folder, "kernel.cubin").read_bytes(), log
