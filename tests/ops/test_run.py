"""Calls of generated ops: sizes, keys, outputs and launches, run by interpreter and simulator and by the eager path."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.ops import specs
from tests.ops.packages import OnCpu, Recorder, private
from torch import Tensor

from kgen.ops.execute import Launcher

Package = Callable[[str], ModuleType]
BACKENDS = ("triton", "cuda")


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def both(module: ModuleType, *args: Any) -> list[Any]:
    """Return what the eager path and both backends give for a call."""
    ready = OnCpu()
    op = private(module, ready)
    results = [op.eager(*_copies(args))]
    for backend in BACKENDS:
        op.use(backend)
        results.append(op.run(*_copies(args)))
    assert ready.faults() == []
    return results


def _copies(args: tuple[Any, ...]) -> list[Any]:
    """Return the arguments with tensors copied, strides and gaps included."""
    return [_copy(a) if isinstance(a, Tensor) else a for a in args]


def _copy(t: Tensor) -> Tensor:
    whole = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return whole.clone().as_strided(t.shape, t.stride(), t.storage_offset())


def same(results: list[Any], wanted: Tensor | tuple[Tensor, ...], tolerance: float = 1e-5) -> None:
    for result in results:
        torch.testing.assert_close(result, wanted, rtol=tolerance, atol=tolerance, check_stride=True)


@pytest.mark.parametrize("n", [0, 1, 16, 37])
def test_output_that_overwrites_an_input(package: Package, n: int) -> None:
    module = package(specs.ADD_INTO)
    r, x = randn(3, n), randn(3, n) + 1
    same(both(module, r, x), r - x)
    for backend in BACKENDS:
        mine = r.clone()
        private(module, OnCpu()).run(mine, x, backend)  # the schema's last argument
        torch.testing.assert_close(mine, r + x)
    mine = r.clone()
    d, y = module.ops_add_into(mine, x)
    assert y is mine
    torch.testing.assert_close((d, y), (r - x, r + x))


def test_op_with_no_new_output(package: Package) -> None:
    module = package(specs.ONLY_INPLACE)
    r = randn(21)
    assert both(module, r, 3.0) == [None] * 3
    mine = r.clone()
    assert module.ops_scale_inplace(mine, a=3.0) is mine
    torch.testing.assert_close(mine, r * 3)


def test_outputs_may_come_first_in_a_spec(package: Package) -> None:
    module = package(specs.OUTPUT_FIRST)
    b, a = randn(20), randn(20) + 1
    torch.testing.assert_close(module.ops_difference(b, a), (b - a, a + b))
    op = private(module, OnCpu())
    torch.testing.assert_close(op.run(b, a), (b - a, a + b))


def test_elements_left_out_are_filled(package: Package) -> None:
    module = package(specs.SHIFT)
    for n in (0, 5, 40):
        x = randn(n)
        same(both(module, x), torch.cat([torch.tensor([7.0]), x, torch.tensor([7.0])]))


def test_int_size_params_and_defaults(package: Package) -> None:
    module = package(specs.REPEAT)
    x = randn(20)
    same(both(module, x, 3), (x / 20**0.5 + 3).expand(3, 20).contiguous())
    same(both(module, x, 2, 2.0, -1, True), (x * 4 - 1).expand(2, 20).contiguous())
    same(both(module, x, 0), torch.empty(0, 20))
    same(both(module, randn(0), 2), torch.empty(2, 0))
    torch.testing.assert_close(module.ops_repeat(x, 2, a=1.0, k=0, twice=True), (x * 2).expand(2, 20).contiguous())


@pytest.mark.parametrize("n", [0, 1, 50])
def test_tensors_without_dims(package: Package, n: int) -> None:
    x, a = randn(n), torch.tensor(2.5)
    same(both(package(specs.TOTAL), x, a), x.sum() * 2.5)


@pytest.mark.parametrize("shape", [(2, 100), (2, 0), (0, 20), (1, 17)])
def test_automatic_split(package: Package, shape: tuple[int, int]) -> None:
    x = randn(*shape)
    same(both(package(specs.SPLIT), x), x.sum(1))


def test_split_has_more_parts_when_there_are_fewer_programs(package: Package) -> None:
    module = package(specs.SPLIT)
    ready = OnCpu(programs=8)
    op = private(module, ready)
    plan = ready(op.folder, op.manifest, op.key(randn(2, 100)), "triton", 0).plan
    for rows, programs in ((2, 8), (4, 8), (100, 100), (1, 7)):
        recorder = Recorder()
        tensors = [randn(rows, 100), torch.empty(rows)]
        Launcher(plan, op.names, op.scalars, recorder, 8)(tensors, (rows, 100))
        assert recorder.launches[0][1] == programs, "of the 7 tiles of a row"


def test_size_solved_from_a_sum(package: Package) -> None:
    module = package(specs.CONVOLUTION)
    for t, w in ((30, 3), (1, 5), (0, 3)):
        x, f = randn(t + w - 1), randn(w)
        wanted = torch.stack([x[i : i + w] @ f for i in range(t)]) if t else torch.empty(0)
        same(both(module, x, f), wanted)


@pytest.mark.parametrize("n", [1, 16, 17, 100])
def test_padded_axis(package: Package, n: int) -> None:
    module = package(specs.SOFTMAX)
    x = randn(3, n)
    same(both(module, x), x.softmax(1))
    assert private(module, OnCpu()).key(x).buckets == (("n", max(16, 1 << (n - 1).bit_length())),)


def layouts(t: Tensor) -> dict[str, Tensor]:
    """Return views with the values of a matrix in memory of other shapes."""
    rows, columns = t.shape
    wide = torch.full((rows, columns + 3), float("nan"), dtype=t.dtype)
    wide[:, 1 : columns + 1] = t
    apart = torch.full((rows, 2 * columns), float("nan"), dtype=t.dtype)
    apart[:, ::2] = t
    return {
        "contiguous": t,
        "transposed": t.t().contiguous().t(),
        "rows apart, off alignment": wide[:, 1 : columns + 1],
        "every second column": apart[:, ::2],
        "expanded": t[:1].expand(rows, columns),
    }


@pytest.mark.parametrize("layout", list(layouts(torch.empty(1, 1))))
def test_views(package: Package, layout: str) -> None:
    x, w = layouts(randn(20, 33))[layout], layouts(randn(33, 18))[layout]
    same(both(package(specs.MATMUL), x, w), x @ w, 1e-4)
    same(both(package(specs.SOFTMAX), x), x.softmax(1))


@pytest.mark.parametrize(("m", "n", "k"), [(2, 3, 0), (0, 3, 4), (2, 0, 4)])
def test_empty_products(package: Package, m: int, n: int, k: int) -> None:
    same(both(package(specs.MATMUL), randn(m, k), randn(k, n)), torch.zeros(m, n))


def test_outputs_are_new_and_inputs_are_kept(package: Package) -> None:
    module = package(specs.HEADS)
    q, k = randn(4, 20), randn(2, 20)
    before = q.clone(), k.clone()
    wanted = q * k.repeat_interleave(2, 0)
    same(both(module, q, k), wanted)
    op = private(module, OnCpu())
    first, second = op.run(q, k), op.run(q, k)
    assert len({t.data_ptr() for t in (q, k, first, second)}) == 4
    torch.testing.assert_close((q, k), before, rtol=0, atol=0)


def test_a_key_is_made_ready_once(package: Package) -> None:
    ready = OnCpu()
    op = private(package(specs.SOFTMAX), ready)
    for x in (randn(3, 60), randn(5, 64), randn(1, 33)):
        op.run(x)
    assert [(k.aligned, k.buckets) for k in ready.keys] == [(("x", "y"), (("n", 64),))]
    op.run(randn(2, 33))
    assert [(k.aligned, k.buckets) for k in ready.keys[1:]] == [((), (("n", 64),))]
    op.run(randn(3, 60), "cuda")
    assert len(ready.keys) == 3
