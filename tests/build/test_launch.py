"""Launching cubins: the parameter block everywhere, launches where there is a GPU."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from kgen.build import Cache, compile_cuda
from kgen.ops import cuda_driver, launch_cuda
from kgen.ops.launch_cuda import CudaError, CudaKernel

TEXT = """
extern "C" __global__ void fill(float* out, bool twice, double a, int n, long long step, float b) {
  extern __shared__ float tile[];
  long long i = blockIdx.x * step + threadIdx.x;
  tile[threadIdx.x] = a + b;
  __syncthreads();
  if (i < n) out[i] = twice ? 2 * tile[threadIdx.x] : tile[threadIdx.x];
}
extern "C" __global__ void fault(int* out) { out[threadIdx.x] = 1; __trap(); }
"""
TYPES = ("ptr", "bool", "f64", "i32", "i64", "f32")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class _Parameters(ctypes.Structure):
    _fields_ = (
        ("out", ctypes.c_void_p),
        ("twice", ctypes.c_bool),
        ("a", ctypes.c_double),
        ("n", ctypes.c_int),
        ("step", ctypes.c_longlong),
        ("b", ctypes.c_float),
    )


class _FakeDriver:
    """Stands in for libcuda: keeps the values that a launch's pointers lead to."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.seen: list[tuple[object, ...]] = []

    def cuLaunchKernelEx(self, config_address: int, function: int, pointers: int, extra: None) -> int:
        config = cuda_driver.LaunchConfig.from_address(config_address)
        array = (ctypes.c_void_p * len(TYPES)).from_address(pointers)
        kinds = [kind for _, kind in _Parameters._fields_]
        values = [kind.from_address(place).value for kind, place in zip(kinds, array, strict=True)]
        shape = (config.grid_x, config.block_x, config.shared_bytes, config.stream)
        self.seen.append((function, *shape, *values))
        return self.status


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> _FakeDriver:
    fake = _FakeDriver()
    monkeypatch.setattr(launch_cuda, "driver", lambda: fake)
    monkeypatch.setattr(launch_cuda, "load_function", lambda cubin, entry, shared: 77)
    monkeypatch.setattr(launch_cuda, "use_primary_context", lambda device: None)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: 0, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 5, raising=False)
    return fake


@pytest.fixture
def kernel(tmp_path: Path) -> CudaKernel:
    (tmp_path / "kernel.cubin").write_bytes(b"")
    return CudaKernel(tmp_path / "kernel.cubin", "fill", 128, 256)


def test_parameters_lie_as_in_c() -> None:
    offsets = launch_cuda._layout(TYPES).offsets
    assert offsets == tuple(getattr(_Parameters, name).offset for name, _ in _Parameters._fields_)


def test_the_driver_gets_the_arguments(fake: _FakeDriver, kernel: CudaKernel) -> None:
    kernel.launch(3, list(zip(TYPES, (4096, True, 1.5, -7, 2**40, 0.25), strict=True)))
    kernel.launch(2**31 - 1, list(zip(TYPES, (None, False, -1.5, 7, -(2**40), 0.5), strict=True)))
    assert fake.seen == [
        (77, 3, 128, 256, 5, 4096, True, 1.5, -7, 2**40, 0.25),
        (77, 2**31 - 1, 128, 256, 5, None, False, -1.5, 7, -(2**40), 0.5),
    ]


def test_threads_do_not_share_a_parameter_block(fake: _FakeDriver, kernel: CudaKernel) -> None:
    launch = kernel.prepare(TYPES)

    def work(number: int) -> None:
        for _ in range(200):
            launch(1, number, False, float(number), number, number, float(number))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(fake.seen) == 800
    assert all(len({row[5], row[7], row[8], row[9], row[10]}) == 1 for row in fake.seen)


@pytest.mark.parametrize("n", [2**31, -(2**31) - 1, "1", 1.5])
def test_values_outside_their_type_are_refused(fake: _FakeDriver, kernel: CudaKernel, n: object) -> None:
    with pytest.raises(CudaError, match="do not fit the types"):
        kernel.launch(1, list(zip(TYPES, (0, True, 1.5, n, 0, 0.5), strict=True)))
    assert fake.seen == []


def test_doubles_are_rounded_to_f32(fake: _FakeDriver, kernel: CudaKernel) -> None:
    for value in (0.1, 1e50):
        kernel.launch(1, list(zip(TYPES, (0, True, 1.5, 1, 0, value), strict=True)))
    assert [row[-1] for row in fake.seen] == [0.10000000149011612, float("inf")]


def test_grids(fake: _FakeDriver, kernel: CudaKernel) -> None:
    arguments = list(zip(TYPES, (0, True, 1.5, 1, 0, 0.5), strict=True))
    kernel.launch(0, arguments)
    assert fake.seen == []
    for grid in (-1, 2**31):
        with pytest.raises(CudaError, match=str(grid)):
            kernel.launch(grid, arguments)


def test_a_tensor_on_the_cpu_and_an_unknown_type_are_refused(fake: _FakeDriver, kernel: CudaKernel) -> None:
    with pytest.raises(CudaError, match="on the CPU"):
        kernel.launch(1, [("ptr", torch.zeros(1))])
    with pytest.raises(CudaError, match="'u4'"):
        kernel.launch(1, [("u4", 1)])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA driver")
def test_without_a_driver_the_error_says_so() -> None:
    with pytest.raises(CudaError, match="no CUDA driver"):
        cuda_driver.driver()


def test_launching_imports_nothing_heavy() -> None:
    script = """
import sys
import torch
before = set(sys.modules)
import kgen.ops.launch_cuda
print(sorted({name.split(".")[0] for name in set(sys.modules) - before}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"sympy", "lark", "pydantic", "jinja2", "triton"} & set(eval(done.stdout))


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    major, minor = torch.cuda.get_device_capability()
    return compile_cuda(TEXT, "fill", arch=f"sm_{major}{minor}", cache=Cache(tmp_path)).path


@needs_gpu
def test_a_launch_computes(compiled: Path) -> None:
    kernel, out = CudaKernel(compiled, "fill", 128, 512), torch.zeros(1000, device="cuda")
    kernel.launch(9, list(zip(TYPES, (out, True, 1.5, 1000, 128, 0.25), strict=True)))
    assert (out == 3.5).all()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        kernel.launch(8, list(zip(TYPES, (out, False, 1.0, 1000, 128, 0.25), strict=True)))
    stream.synchronize()
    assert (out == 1.25).all()


@needs_gpu
def test_launches_are_captured_in_graphs_and_work_in_new_threads(compiled: Path) -> None:
    out = torch.zeros(128, device="cuda")
    kernel = CudaKernel(compiled, "fill", 128, 100 * 1024)
    arguments = list(zip(TYPES, (out, False, 1.0, 128, 0, 0.5), strict=True))
    worker = threading.Thread(target=kernel.launch, args=(1, arguments))
    worker.start()
    worker.join()
    torch.cuda.synchronize()
    assert (out == 1.5).all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel.launch(1, arguments)
    out.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert (out == 1.5).all()


@needs_gpu
def test_errors_carry_the_drivers_name(compiled: Path) -> None:
    arguments = list(zip(TYPES, (0, False, 1.0, 0, 0, 0.5), strict=True))
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE"):
        CudaKernel(compiled, "fill", 2048, 0).launch(1, arguments)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE"):
        CudaKernel(compiled, "fill", 128, 10**6).launch(1, arguments)
    with pytest.raises(CudaError, match="CUDA_ERROR_NOT_FOUND"):
        CudaKernel(compiled, "absent", 128, 0).launch(1, arguments)


@needs_gpu
def test_a_launch_costs_little(compiled: Path) -> None:
    out = torch.zeros(128, device="cuda")
    launch = CudaKernel(compiled, "fill", 128, 512).prepare(TYPES)
    times = []
    for _ in range(2000):
        start = time.perf_counter()
        launch(1, out, False, 1.0, 128, 0, 0.5)
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    median = sorted(times)[1000] * 1e6
    print(f"median launch: {median:.1f} us")
    assert median < 50
