"""The primitives of kgen.cuh, and whole kernels, on a GPU: what PyTorch and the simulator compute, bit for bit.

The kernel is compiled with nvcc into a small shared library that launches it.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

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
APPROXIMATE = {"functions": 4e-6, "attention_mma": 0.01, "attention_wgmma": 0.01}

LAUNCHER = """
#include <cuda.h>
#include <cuda_runtime.h>

// dims, strides and box: innermost dimension first; strides in bytes, without the innermost. Returns 0 on success.
extern "C" int encode(void* map, void* base, int item, int rank, const unsigned long long* dims,
                      const unsigned long long* strides, const unsigned* box, int swizzle) {{
    void* found = nullptr;
    cudaDriverEntryPointQueryResult status;
    cudaFree(nullptr);
    const char* name = "cuTensorMapEncodeTiled";
    if (cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status)) return -1;
    auto function = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
    auto type = item == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                : item == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                : item == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                            : CU_TENSOR_MAP_DATA_TYPE_UINT64;
    auto span = swizzle == 0    ? CU_TENSOR_MAP_SWIZZLE_NONE
                : swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                : swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                : CU_TENSOR_MAP_SWIZZLE_128B;
    const cuuint32_t ones[5] = {{1, 1, 1, 1, 1}};
    return function(static_cast<CUtensorMap*>(map), type, rank, base, reinterpret_cast<const cuuint64_t*>(dims),
                    reinterpret_cast<const cuuint64_t*>(strides), box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, span,
                    CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}}

extern "C" int launch(int grid, int block, int shared, void** arguments) {{
    auto kernel = reinterpret_cast<const void*>(&{entry});
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    cudaLaunchKernel(kernel, dim3(grid), dim3(block), arguments, shared, 0);
    return cudaDeviceSynchronize();
}}
"""


def _architecture() -> str:
    """Return the device's architecture, with the features that only it has (wgmma, setmaxnreg) from 9.0 on."""
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def run_on_gpu(case: Case, folder: Path) -> Tensors:
    """Return the outputs of a case, on the CPU, after running it on the current GPU."""
    stem = f"{case.entry}-{abs(hash(case.text))}"
    source, library = folder / f"{stem}.cu", folder / f"{stem}.so"
    source.write_text(case.text + LAUNCHER.format(entry=case.entry))
    include = resources.path("templates") / "cuda"
    flags = ["-std=c++17", f"-arch={_architecture()}", "-shared", "-Xcompiler", "-fPIC", f"-I{include}"]
    subprocess.run([str(_NVCC), *flags, "-o", str(library), str(source)], check=True)
    tensors = {name: tensor.cuda() for name, tensor in {**case.inputs(), **case.outputs()}.items()}
    loaded = ctypes.CDLL(str(library))
    values = [_value(loaded, case, name, tensor) for name, tensor in tensors.items()]
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    torch.cuda.synchronize()
    assert loaded.launch(case.grid, case.block, case.smem, arguments) == 0
    return {name: tensors[name].cpu() for name in case.outputs()}


def _value(library: ctypes.CDLL, case: Case, name: str, tensor: torch.Tensor) -> Any:
    """Return a kernel argument: a pointer, or the bytes of a tensor map, aligned to 64."""
    if name not in case.maps:
        return ctypes.c_void_p(tensor.data_ptr())
    box, swizzle = case.maps[name]
    rank, item = tensor.dim(), tensor.element_size()
    room = (ctypes.c_uint8 * 192)()
    start = -ctypes.addressof(room) % 64
    value = (ctypes.c_uint8 * 128).from_buffer(room, start)
    dims = (ctypes.c_uint64 * 5)(*reversed(tensor.shape))
    strides = (ctypes.c_uint64 * 5)(*(stride * item for stride in reversed(tensor.stride()[:-1])))
    boxes = (ctypes.c_uint32 * 5)(*reversed(box))
    base = ctypes.c_void_p(tensor.data_ptr())
    assert library.encode(value, base, item, rank, dims, strides, boxes, swizzle) == 0
    return value


def run_on_cpu(case: Case, folder: Path) -> Tensors:
    """Return the outputs of a case in the simulator."""
    outputs = case.outputs()
    args = case.arguments(case.inputs(), outputs)
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
