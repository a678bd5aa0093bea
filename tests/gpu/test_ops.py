"""Generated ops on a GPU: both backends against specs and references; streams, graphs, compilation, views, devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.ops.packages import imported, private, variants_of
from torch import Tensor

from kgen.errors import KgenError
from kgen.math import Math
from kgen.ops.runtime import Op
from kgen.ops.variants import packaged, ready_on_gpu
from kgen.package import write_package
from kgen.package_op import free_sizes
from kgen.spec import Spec, load
from kgen.spec_reference import load_reference
from kgen.verify import inputs
from kgen.verify.cases import cases_for
from kgen.verify.run import FunctionSubject, verify
from kgen.workflow.instance import instances

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

SPECS = Path(__file__).resolve().parents[2] / "specs"
NAMES = [p.stem for p in sorted(SPECS.glob("*.yaml")) if "\nkernel:" in "\n" + p.read_text()]
BACKENDS = ("triton", "cuda")


@dataclass(frozen=True)
class Shipped:
    """A shipped spec: its package, and its math for the first variant."""

    spec: Spec
    module: ModuleType
    math: Math
    static: dict[str, int]
    params: dict[str, Any]

    @property
    def function(self) -> Callable[..., Any]:
        return getattr(self.module, self.spec.name)

    def subject(self, backend: str) -> FunctionSubject:
        """Return the op as a subject of the verifier."""
        outs = [t.name for t in self.math.tensors.values() if t.out]

        def run(given: dict[str, Tensor], sizes: dict[str, int], params: dict[str, Any]) -> dict[str, Tensor]:
            free = [sizes[s.name] for s in free_sizes(self.math)]
            made = self.function(*given.values(), *free, **params, backend=backend)
            torch.cuda.synchronize()
            return dict(zip(outs, made if isinstance(made, tuple) else (made,), strict=True))

        return FunctionSubject(f"op, {backend}", run)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Shipped]:
    """Return a function that gives a shipped spec by name."""
    made: dict[str, Shipped] = {}
    folder = tmp_path_factory.mktemp("generated")

    def get(name: str) -> Shipped:
        if name not in made:
            spec = load(SPECS / f"{name}.yaml")
            write_package(spec, variants_of(spec), folder, f"kgen build specs/{name}.yaml")
            first = instances(spec)[0]
            v = first.variant
            made[name] = Shipped(spec, imported(folder / name), first.math, dict(v.sizes), dict(v.params))
        return made[name]

    return get


Get = Callable[[str], Shipped]


@pytest.mark.parametrize("name", NAMES)
def test_both_backends_compute_the_spec(shipped: Get, name: str) -> None:
    """Small awkward cases, strided ones among them; each key that is not packaged is compiled and proved on the way."""
    one = shipped(name)
    tiles = {a.name: a.tile for a in one.math.axes.values() if isinstance(a.tile, int)}
    cases = cases_for(one.math, tiles, True, one.static, one.params)
    subjects = [one.subject(b) for b in BACKENDS]
    report = verify(one.math, subjects, cases, reference=load_reference(one.spec), device="cuda", smallest=False)
    assert report.ok, report


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype, device="cuda")


def attention_inputs(dtype: torch.dtype = torch.bfloat16, heads: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    d = 128 if dtype is torch.bfloat16 else 64
    return randn(2, heads, 300, d, dtype=dtype), randn(2, 2, 400, d, dtype=dtype), randn(2, 2, 400, d, dtype=dtype)


@pytest.mark.parametrize("backend", BACKENDS)
def test_packaged_attention(shipped: Get, backend: str) -> None:
    one = shipped("flash_attn")
    q, k, v = attention_inputs()
    op: Op = one.module.OP
    assert packaged(op.manifest, op.key(q, k, v, None, True), backend) is not None
    o, lse = one.function(q, k, v, backend=backend)
    reference = load_reference(one.spec)
    assert reference is not None
    wanted, wanted_lse = reference(q.double(), k.double(), v.double())
    torch.testing.assert_close(o.double(), wanted, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(lse.double(), wanted_lse, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_are_the_same_bit_for_bit_in_every_call(shipped: Get, backend: str) -> None:
    function, args = shipped("flash_attn").function, attention_inputs()
    first = function(*args, backend=backend)
    for _ in range(10):
        for a, b in zip(first, function(*args, backend=backend), strict=True):
            assert torch.equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_launches_follow_the_current_stream(shipped: Get, backend: str) -> None:
    """On a side stream, after work that writes the input late: a launch on another stream would read the old values."""
    function = shipped("row_sum").function
    x, stream = torch.zeros(64, 512, device="cuda"), torch.cuda.Stream()
    function(x, backend=backend)
    torch.cuda.synchronize()
    for turn in range(1, 21):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000)
            x.fill_(float(turn))
            s = function(x, backend=backend)
        stream.synchronize()
        assert torch.equal(s, torch.full_like(s, 512.0 * turn))


@pytest.fixture
def no_sync() -> Iterator[None]:
    """Any call that waits for the GPU raises."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_neither_wait_nor_leak(shipped: Get, backend: str, request: pytest.FixtureRequest) -> None:
    function, args = shipped("flash_attn").function, attention_inputs()
    function(*args, backend=backend)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    request.getfixturevalue("no_sync")
    for _ in range(5):
        function(*args, backend=backend)
    assert torch.cuda.memory_allocated() == before


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["flash_attn", "softmax"])
def test_captured_in_a_graph(shipped: Get, name: str, backend: str) -> None:
    function = shipped(name).function
    args = attention_inputs() if name == "flash_attn" else (randn(64, 1000),)

    def call() -> Tensor:
        made = function(*args, backend=backend)
        return made[0] if isinstance(made, tuple) else made

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    for _ in range(3):
        args[0].copy_(torch.randn_like(args[0]))
        graph.replay()
        assert torch.equal(captured, call())


def test_a_first_call_cannot_be_captured(shipped: Get) -> None:
    module = shipped("softmax").module
    op = private(module, ready_on_gpu)
    x = randn(8, 1000)
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(KgenError, match="make one such call before the capture"), torch.cuda.graph(graph):
        op.run(x)
    torch.cuda.synchronize()
    torch.testing.assert_close(op.run(x), x.softmax(1))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_whole(shipped: Get, backend: str) -> None:
    function = shipped("flash_attn").function

    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        o, lse = function(q * 2, k.transpose(1, 2).contiguous().transpose(1, 2), v, causal=False, backend=backend)
        return o * 2 + lse.unsqueeze(-1).to(o.dtype)

    args = attention_inputs()
    compiled = torch.compile(model, fullgraph=True)
    torch.testing.assert_close(compiled(*args), model(*args), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(shipped: Get, name: str) -> None:
    one = shipped(name)
    tiles = {a.name: a.tile for a in one.math.axes.values() if isinstance(a.tile, int)}
    case = cases_for(one.math, tiles, True, one.static, one.params)[-1]
    given = [t.cuda() for t in inputs.make(one.math, case.sizes, case.params, 0).values()]
    free = [case.sizes[s.name] for s in free_sizes(one.math)]
    torch.library.opcheck(getattr(torch.ops.kgen, name).default, (*given, *free))


@pytest.mark.parametrize("backend", BACKENDS)
def test_views(shipped: Get, backend: str) -> None:
    """Queries, keys and values cut from one projection, transposed heads, and keys expanded over the batch."""
    function = shipped("flash_attn").function
    mixed = randn(2, 100, 3 * 4 * 64, dtype=torch.float16)
    q, k, v = (t.view(2, 100, 4, 64).transpose(1, 2) for t in mixed.chunk(3, dim=-1))
    wanted = function(q.contiguous(), k.contiguous(), v.contiguous(), backend=backend)
    torch.testing.assert_close(function(q, k, v, backend=backend), wanted, rtol=1e-3, atol=1e-3)
    k, v = k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1)
    wanted = function(q.contiguous(), k.contiguous(), v.contiguous(), backend=backend)
    torch.testing.assert_close(function(q, k, v, backend=backend), wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_more_than_2_to_the_31_elements_apart(shipped: Get, backend: str) -> None:
    if torch.cuda.mem_get_info()[0] < 6 << 30:
        pytest.skip("needs 6 GB of free GPU memory")
    one = shipped("row_sum")
    far = 2**31 + 64
    storage = torch.zeros(far + 512, dtype=torch.bfloat16, device="cuda")
    x = storage.as_strided((2, 300), (far, 1))
    x.copy_(randn(2, 300))
    assert one.module.OP.key(x).offset == "i64"
    torch.testing.assert_close(one.function(x, backend=backend), x.float().sum(1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_device_than_the_current_one(shipped: Get, backend: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    x = torch.randn(5, 300, device="cuda:1")
    s = shipped("row_sum").function(x, backend=backend)
    assert (s.device.index, torch.cuda.current_device()) == (1, 0)
    torch.testing.assert_close(s, x.sum(1), rtol=1e-4, atol=1e-4)


def test_tensors_on_two_devices_are_refused(shipped: Get) -> None:
    with pytest.raises(KgenError, match="y is on cpu, but x is on cuda:0"):
        shipped("vector_add").function(randn(4), torch.ones(4))
