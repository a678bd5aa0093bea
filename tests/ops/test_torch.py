"""Generated ops as operators of PyTorch: registration, opcheck, tracing, compilation, and what importing them costs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.ops import specs
from tests.ops.packages import imported, write
from torch import Tensor

from kgen.errors import KgenError

Package = Callable[[str], ModuleType]


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


CALLS: list[tuple[str, str, tuple[Any, ...]]] = [
    (specs.ADD_INTO, "ops_add_into", (randn(3, 8), randn(3, 8))),
    (specs.ONLY_INPLACE, "ops_scale_inplace", (randn(5), 2.0)),
    (specs.SHIFT, "ops_shift", (randn(9),)),
    (specs.REPEAT, "ops_repeat", (randn(9), 2)),
    (specs.REPEAT, "ops_repeat", (randn(9), 2, 1.5, 4, True, "cuda")),
    (specs.TOTAL, "ops_total", (randn(9), randn())),
    (specs.SOFTMAX, "ops_softmax", (randn(4, 9),)),
    (specs.SOFTMAX, "ops_softmax", (randn(9, 4).t(),)),
    (specs.SOFTMAX, "ops_softmax", (randn(4, 9)[:, 2:7],)),
    (specs.SOFTMAX, "ops_softmax", (randn(1, 9).expand(4, 9),)),
    (specs.HEADS, "ops_heads", (randn(4, 9), randn(2, 9))),
]


@pytest.mark.parametrize(("text", "name", "args"), CALLS, ids=[f"{c[1]}{i}" for i, c in enumerate(CALLS)])
def test_opcheck(package: Package, text: str, name: str, args: tuple[Any, ...]) -> None:
    package(text)
    torch.library.opcheck(getattr(torch.ops.kgen, name).default, args)


def test_meta_tensors_give_shapes(package: Package) -> None:
    d, y = package(specs.ADD_INTO).ops_add_into(*(torch.empty(3, 4, device="meta", dtype=torch.bfloat16),) * 2)
    assert (d.shape, d.dtype, d.device.type, y.dtype) == ((3, 4), torch.float32, "meta", torch.bfloat16)
    total = package(specs.TOTAL).ops_total(torch.empty(2**20, device="meta"), torch.empty((), device="meta"))
    assert total.shape == ()


@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_compiled_whole(package: Package, compiler: str) -> None:
    heads = package(specs.HEADS).ops_heads

    def model(q: Tensor, k: Tensor) -> Tensor:
        """Views around the op alone: Inductor then has nothing to compile in C++, which takes a minute."""
        return heads(q.t(), k[:, 1:])[::2]

    q, k = randn(20, 4), randn(2, 21)
    compiled = torch.compile(model, fullgraph=True, backend=compiler)
    torch.testing.assert_close(compiled(q, k), model(q, k))


def test_compiled_with_an_overwritten_input(package: Package) -> None:
    add_into = package(specs.ADD_INTO).ops_add_into

    def model(r: Tensor, x: Tensor) -> Tensor:
        d, y = add_into(r, x)
        return d + y

    r, x = randn(3, 20), randn(3, 20)
    mine, theirs = r.clone(), r.clone()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(mine, x), model(theirs, x))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(("lengths", "most"), [(range(2, 10), 2), ((16, 17, 32, 33, 48), 2), (range(4), 3)])
def test_lengths_do_not_recompile(package: Package, lengths: Sequence[int], most: int) -> None:
    """A length of 0 or 1 is one graph each for torch itself; all others share one after the first."""
    torch._dynamo.reset()
    graphs = []

    def count(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    softmax, repeat = package(specs.SOFTMAX).ops_softmax, package(specs.REPEAT).ops_repeat
    compiled = torch.compile(lambda x, n: (softmax(x), repeat(x[0], n)), fullgraph=True, backend=count)
    for n in lengths:
        compiled(randn(3, n), n)
    assert len(graphs) <= most


def test_the_same_spec_from_two_folders(package: Package, tmp_path: Path) -> None:
    first = package(specs.TOTAL)
    second = imported(write(specs.TOTAL, tmp_path))
    assert second.op.__file__ != first.op.__file__
    torch.testing.assert_close(second.ops_total(randn(4), randn()), first.ops_total(randn(4), randn()))


def test_another_spec_of_a_name_is_refused(package: Package, tmp_path: Path) -> None:
    first = package(specs.TOTAL)
    other = write(specs.TOTAL.replace("x[i])", "x[i] * 2.0)"), tmp_path)
    with pytest.raises(KgenError) as error:
        imported(other)
    assert "'ops_total' made from another spec is loaded already" in str(error.value)
    assert str(Path(first.op.__file__).parent) in str(error.value)
    assert str(other) in str(error.value)


def test_gradients_are_not_silently_wrong(package: Package) -> None:
    x = randn(2, 4).requires_grad_()
    y = package(specs.SOFTMAX).ops_softmax(x)
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        y.sum().backward()


IMPORT = """
import sys, json
sys.path.insert(0, {folder!r})
import torch
from ops_add_into import ops_add_into
from ops_add_into.op import OP
from kgen.ops import prepare, variants
from kgen.ops.execute import Launcher

shapes = [list(t.shape) for t in ops_add_into(torch.empty(3, 4, device="meta"), torch.empty(3, 4, device="meta"))]

class Recorder:
    launched = []
    def launch(self, kernel, grid, values):
        self.launched.append([kernel.name, grid, len(values)])

r = torch.ones(3, 64)
key = OP.key(r, r.clone())
plan, file = variants.packaged(OP.manifest, key, "triton")
backend = prepare.packaged(OP.folder / file, plan, "triton", "sm_90")
compiled = backend.kernels["ops_add_into"].jit.fn.__name__
Launcher(plan, OP.names, OP.scalars, Recorder())([r] * 4, (3, 64))
unwanted = sorted({{m.split(".")[0] for m in sys.modules}} & {{"sympy", "lark", "pydantic", "ruamel", "jinja2"}})
print(json.dumps([shapes, compiled, Recorder.launched, unwanted]))
"""


def test_importing_and_launching_need_no_compiler(package: Package) -> None:
    """All but the launch itself, which needs a GPU: the packaged Triton module is found, imported and its plan run."""
    folder = Path(package(specs.ADD_INTO).op.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", IMPORT.format(folder=str(folder))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shapes, compiled, launched, unwanted = json.loads(done.stdout)
    assert shapes == [[3, 4], [3, 4]]
    assert compiled == "ops_add_into"
    assert launched == [["ops_add_into", 3 * 4, len(launched) and launched[0][2]]]
    assert unwanted == []
