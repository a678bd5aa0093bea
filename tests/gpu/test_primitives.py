"""The primitives of kgen.cuh, and whole kernels, on a GPU: what PyTorch and the simulator compute, bit for bit.

The kernel is compiled with nvcc into a small shared library that launches it.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from kgen import resources, sim
from sim.case import Case, Tensors, mismatch
from sim.hand_kernels import HAND_CASES
from sim.primitives import CASES

_NVCC = shutil.which("nvcc")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.skipif(_NVCC is None, reason="no nvcc on the PATH"),
]

# ex2, lg2, the library's functions and sums of tensor cores differ in the last bits; everything else must be equal.
APPROXIMATE = {"functions": 4e-6, "attention_mma": 0.01}

LAUNCHER = """
extern "C" int launch(int grid, int block, int shared, void** arguments) {{
    auto kernel = reinterpret_cast<const void*>(&{entry});
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaLaunchKernel(kernel, dim3(grid), dim3(block), arguments, shared, 0);
    return cudaDeviceSynchronize();
}}
"""


def run_on_gpu(case: Case, folder: Path) -> Tensors:
    """Return the outputs of a case, on the CPU, after running it on the current GPU."""
    stem = f"{case.entry}-{abs(hash(case.text))}"
    source, library = folder / f"{stem}.cu", folder / f"{stem}.so"
    source.write_text(case.text + LAUNCHER.format(entry=case.entry))
    include = resources.path("templates") / "cuda"
    flags = ["-std=c++17", "-arch=native", "-shared", "-Xcompiler", "-fPIC", f"-I{include}"]
    subprocess.run([str(_NVCC), *flags, "-o", str(library), str(source)], check=True)
    tensors = {name: tensor.cuda() for name, tensor in {**case.inputs(), **case.outputs()}.items()}
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in tensors.values()]
    arguments = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(pointer) for pointer in pointers))
    torch.cuda.synchronize()
    assert ctypes.CDLL(str(library)).launch(case.grid, case.block, case.smem, arguments) == 0
    return {name: tensors[name].cpu() for name in case.outputs()}


def run_on_cpu(case: Case, folder: Path) -> Tensors:
    """Return the outputs of a case in the simulator."""
    outputs = case.outputs()
    role: sim.args.Role = "inout" if case.initial else "out"
    args: list[sim.Arg] = [sim.TensorArg(name, x, "in") for name, x in case.inputs().items()]
    args += [sim.TensorArg(name, y, role) for name, y in outputs.items()]
    report = sim.launch(sim.compile(case.text, case.entry, cache_dir=folder), case.grid, case.block, case.smem, args)
    assert report.ok, str(report)
    return outputs


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("primitives")


@pytest.mark.parametrize("case", [*CASES, *HAND_CASES], ids=lambda case: case.entry)
def test_gpu_agrees_with_pytorch_and_the_simulator(case: Case, folder: Path) -> None:
    major, minor = torch.cuda.get_device_capability()
    if 10 * major + minor < case.architecture:
        pytest.skip(f"needs sm_{case.architecture}, and this device is sm_{major}{minor}")
    found, simulated = run_on_gpu(case, folder), run_on_cpu(case, folder)
    assert mismatch(case, found, case.inputs()) is None
    tolerance = APPROXIMATE.get(case.entry, 0.0)
    for name, want in simulated.items():
        torch.testing.assert_close(found[name], want, rtol=tolerance, atol=tolerance, equal_nan=True)
