"""Variants that are not packaged: made on the first call, and proved by one small case before they touch real data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.ops import specs
from tests.ops.packages import ARCH, OnCpu, private, simulated_or_interpreted
from torch import Tensor

from kgen.errors import KgenError
from kgen.generate import Emitted, generate
from kgen.ops import on_demand, proof
from kgen.ops.execute import Backend
from kgen.ops.key import Key, memory_key
from kgen.ops.plan import KernelPlan
from kgen.ops.variants import packaged
from kgen.pipeline import Target
from kgen.resolve import resolve
from kgen.spec import load
from kgen.types import DTYPES
from kgen.verify.binding import bind

Package = Callable[[str], ModuleType]


def base(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype)


def far(*shape: int) -> Tensor:
    """Return a matrix whose rows are more than 2^31 elements apart."""
    return torch.empty_strided(shape, (2**31 + 8, 1), device="meta")


CALLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "aligned rows": (specs.SOFTMAX, (base(3, 100),)),
    "rows off alignment": (specs.SOFTMAX, (base(3, 101),)),
    "no dim of stride 1": (specs.SOFTMAX, (base(100, 3).t(),)),
    "longest of a bucket": (specs.SOFTMAX, (base(2, 64, dtype=torch.bfloat16),)),
    "shortest of a bucket": (specs.SOFTMAX, (base(2, 3),)),
    "transposed operand": (specs.MATMUL, (base(40, 32), base(24, 32).t())),
    "operand in pieces": (specs.MATMUL, (base(40, 32), base(32, 48)[:, ::2])),
    "far apart": (specs.MATMUL, (far(2, 16), torch.empty(16, 16, device="meta"))),
    "static size, unaligned": (specs.CONVOLUTION, (base(31), base(8)[1:6])),
    "static param": (specs.REPEAT, (base(20), 3, 1.0, 2, True)),
    "tied sizes": (specs.HEADS, (base(6, 20), base(3, 20))),
    "overwritten": (specs.ADD_INTO, (base(3, 16), base(3, 32)[:, 3:19])),
    "no dims": (specs.TOTAL, (base(50), base(3)[1])),
    "split": (specs.SPLIT, (base(2, 64),)),
}


def made(module: ModuleType, args: tuple[Any, ...], backend: str = "triton") -> tuple[Key, Emitted]:
    op = private(module, OnCpu())
    key = op.key(*args)
    return key, generate(load(op.folder / "spec.yaml"), key, Target(backend, ARCH))


@pytest.mark.parametrize("call", list(CALLS))
def test_the_case_lies_in_memory_as_the_call_did(package: Package, call: str) -> None:
    text, args = CALLS[call]
    key, emitted = made(package(text), args)
    math = resolve(load(_folder(package(text)) / "spec.yaml"), {k: DTYPES[v] for k, v in key.dtypes})
    chosen = proof.smallest_case(math, key, emitted)
    assert chosen is not None
    case, tensors = chosen
    bound = bind(math, case.sizes, case.params)
    outs = {t.name: t for t in math.tensors.values() if t.out}
    fresh = {
        n: tensors[t.inplace] if t.inplace else torch.empty(bound.shapes[n], dtype=getattr(torch, t.dtype.torch))
        for n, t in outs.items()
    }
    listed = [(n, t, math.tensors[n].fast) for n, t in {**tensors, **fresh}.items()]
    units, aligned, _ = memory_key(listed)
    assert (dict(units), set(aligned)) == (dict(key.units), set(key.aligned))
    assert {n: bound.sizes[n] for n, _ in key.sizes} == dict(key.sizes)
    assert {n: bound.params[n] for n, _ in key.params} == dict(key.params)
    assert all(t.numel() > 0 for t in tensors.values())
    assert sum(t.numel() for t in tensors.values()) < 20000
    tiles = {n: a.tile for n, a in emitted.config.axes.items() if isinstance(a.tile, int)}
    assert all(bound.extents[axis] > tile for axis, tile in tiles.items()), "loops and last tiles are run"


def _folder(module: ModuleType) -> Path:
    return Path(module.op.__file__).parent


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


class Counted:
    """A backend that counts its launches, and spoils an output if it is told to."""

    launches = 0

    def __init__(self, inner: Backend, spoil: bool = False) -> None:
        self.inner, self.spoil = inner, spoil

    def launch(self, kernel: KernelPlan, grid: int, values: list[Any]) -> None:
        Counted.launches += 1
        self.inner.launch(kernel, grid, values)
        if self.spoil:
            next(v for a, v in zip(kernel.args, values, strict=True) if a.name == "y").view(-1)[-1] += 0.5


@pytest.mark.parametrize("backend", ["triton", "cuda"])
@pytest.mark.parametrize("call", ["rows off alignment", "transposed operand", "overwritten", "no dims"])
def test_a_variant_is_verified_once(package: Package, cold_cache: Path, call: str, backend: str) -> None:
    text, args = CALLS[call]
    module = package(text)
    key, _ = made(module, args, backend)
    Counted.launches = 0

    def get() -> None:
        on_demand.verified_variant(
            _folder(module), key, backend, ARCH, ready=lambda e, _: Counted(simulated_or_interpreted(e)), device="cpu"
        )

    get()
    assert Counted.launches == 1
    get()
    assert Counted.launches == 1, "the verdict is remembered"


def test_a_wrong_variant_is_refused_each_time(package: Package, cold_cache: Path) -> None:
    module = package(specs.SOFTMAX)
    key, _ = made(module, (base(3, 101),))
    for _ in range(2):
        with pytest.raises(KgenError) as error:
            on_demand.verified_variant(
                _folder(module),
                key,
                "triton",
                ARCH,
                ready=lambda e, _: Counted(simulated_or_interpreted(e), spoil=True),
                device="cpu",
            )
        assert "ops_softmax: the triton kernel compiled for this call does not compute its spec" in str(error.value)
        assert "y[" in str(error.value)
        assert "expected" in str(error.value)


def test_keys_are_in_the_order_of_the_spec(package: Package) -> None:
    op = private(package(specs.OUTPUT_FIRST), OnCpu())
    key = op.key(base(16), base(16))
    assert [name for name, _ in key.units] == ["y", "b", "s", "a"]
    assert packaged(op.manifest, key, "triton") is not None


def test_packaged_variants_are_found_by_their_keys(package: Package) -> None:
    op = private(package(specs.ADD_INTO), OnCpu())
    aligned, odd = op.key(base(3, 16), base(3, 16)), op.key(base(3, 15), base(3, 15))
    for backend, ending in (("triton", ".py"), ("cuda", ".cu")):
        found = packaged(op.manifest, aligned, backend)
        assert found is not None
        assert (op.folder / found[1]).is_file()
        assert found[1].endswith(ending)
        assert found[0].kernels[0].name == "ops_add_into"
        assert packaged(op.manifest, odd, backend) is None
