"""The GPU half of kgen.cuh compiles, under nvcc and NVRTC, for the oldest and the newest supported architecture.

The simulator never sees that half, so this is a check of its own; tests/gpu runs it where there is a GPU.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kgen import resources

from .case import Case
from .faulty import FAULTY
from .faulty_async import ASYNC
from .faulty_barriers import BARRIERS
from .faulty_hopper import HOPPER
from .hand_kernels import DISTINCT_HAND_CASES as HAND_CASES
from .primitives import CASES

ARCHITECTURES = ["sm_80", "sm_90a"]
INCLUDE = resources.path("templates") / "cuda"


def all_kernels(architecture: str) -> str:
    """Return one text with every test kernel that is meant for a GPU (GNU assembler syntax is the simulator's only)."""
    version = int(architecture[3:5])
    faulty = [
        c.text for c in [*FAULTY, *ASYNC, *BARRIERS, *HOPPER] if "asm" not in c.text and c.architecture <= version
    ]
    renamed = [text.replace("faulty(", f"faulty{i}(") for i, text in enumerate(faulty)]
    cases = [case.text for case in CASES if case.architecture <= version]
    return "\n".join([*cases, *renamed, *(isolated(case.text, i) for i, case in enumerate(hand_cases(version)))])


def hand_cases(version: int) -> list[Case]:
    return [case for case in HAND_CASES if case.architecture <= version]


def isolated(text: str, number: int) -> str:
    """Return a whole kernel's text in a namespace of its own, its macros ended; kgen.cuh is included already."""
    macros = re.findall(r"^#define (\w+)", text, re.MULTILINE)
    body = text.replace('#include "kgen.cuh"\n', f"namespace kernel{number} {{\n")
    return body + "}\n" + "".join(f"#undef {macro}\n" for macro in dict.fromkeys(macros))


def nvrtc_headers() -> Path | None:
    """Return the folder of cuda_fp16.h in NVIDIA's wheel, or None if it or cuda.core is not installed."""
    spec = importlib.util.find_spec("nvidia")
    if spec is None or importlib.util.find_spec("cuda.core") is None:
        return None
    found = [path / "cu13/include" for path in map(Path, spec.submodule_search_locations or [])]
    return next((path for path in found if (path / "cuda_fp16.h").exists()), None)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvcc(architecture: str, tmp_path: Path) -> None:
    source, output = tmp_path / "all.cu", tmp_path / "all.cubin"
    source.write_text(all_kernels(architecture))
    command = ["nvcc", "-std=c++17", f"-arch={architecture}", f"-I{INCLUDE}", "-cubin", "-o", str(output)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr


@pytest.mark.skipif(nvrtc_headers() is None, reason="no NVRTC (extra cu13) or no CUDA headers")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc(architecture: str) -> None:
    from cuda.core import Program, ProgramOptions  # optional, absent without the extra

    options = ProgramOptions(std="c++17", arch=architecture, include_path=[str(INCLUDE), str(nvrtc_headers())])
    code = Program(all_kernels(architecture), "c++", options).compile("cubin").code
    version = int(architecture[3:5])
    cases = [case for case in CASES if case.architecture <= version] + hand_cases(version)
    assert all(case.entry.encode() in bytes(code) for case in cases)
