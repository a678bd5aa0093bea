"""No field is ignored: two values of any field of an axis or of a schedule give different plans, or one is an error."""

from __future__ import annotations

import re

import pytest

from kgen.errors import KgenError
from kgen.spec import load
from kgen.spec_model import AxisModel, AxisStructure, KernelFields, LevelModel, Model, SplitModel
from kgen.workflow.check import check
from kgen.workflow.instance import instances
from kgen.workflow.progress import Silent
from kgen.workflow.texts import Origin, identity, texts_for
from marked_errors import errors

HELD = ["axes.k.tile=full", "axes.k.stream="]
PRODUCT = """\
kernel: product
dtypes: {T: [bf16, f32]}
axes:
  b: {extent: B}
  m: {extent: M, tile: 32}
  n: {extent: N, tile: 32}
  k: {extent: K, tile: 16, stream: true}
  g: {extent: G, tile: 16, stream: true}
tensors:
  x: {dims: [b, m, k], dtype: T}
  w: {dims: [k, n], dtype: T}
  c: {dims: [g, m], dtype: f32}
  y: {dims: [b, m, n], dtype: T, out: true}
  z: {dims: [m], dtype: f32, out: true}
compute: |
  s = x[b, m, k] * 2
  y[b, m, n] = sum[k](s * w[k, n])
  z[m] = sum[g](c[g, m])
variants: [{T: bf16}]
"""
NESTED = PRODUCT.replace("z[m] = sum[g](c[g, m])", "z[m] = sum[b, g, k](c[g, m] * x[b, m, k])")
NESTED = NESTED.replace("{extent: B}", "{extent: B, stream: true}").replace("y: {dims: [b", "y: {dims: [b")
STATIC = PRODUCT.replace("g: {extent: G, tile: 16, stream: true}", "g: {extent: G, in: [16, 32]}")
STAGED = PRODUCT + "schedule: {materialize: {s: {in: global}}, kernels: {s: {axes: {k: {stream: false}}}}}\n"
TRITON, CUDA = ("triton",), ("cuda",)
BOTH = (*TRITON, *CUDA)

# field -> (spec, backends, overrides of one run, overrides of the other)
Case = tuple[str, tuple[str, ...], list[str], list[str]]
AXIS: dict[str, list[Case]] = {
    "extent": [(PRODUCT, BOTH, [], ["axes.g.extent=2 * G"])],
    "in": [(STATIC, BOTH, [], ["axes.g.in=[32, 16]"]), (PRODUCT, BOTH, [], ["axes.m.in=[64, 128]"])],
    "tile": [(PRODUCT, BOTH, [], [f"axes.{a}.tile={size}"]) for a in "mnkg" for size in (8, 64, "full")]
    + [(STATIC, BOTH, [], ["axes.g.tile=16"])],
    "stream": [(PRODUCT, BOTH, [], [f"axes.{a}.stream={value}"]) for a, value in (("m", "true"), ("k", "false"))]
    + [(PRODUCT, BOTH, HELD, HELD[:1])]
    + [(PRODUCT, BOTH, ["axes.k.split={count: 2}"], ["axes.k.split={count: 2}", "axes.k.stream=false"])],
    "split": [
        (PRODUCT, BOTH, [], ["axes.g.split={count: 2}"]),
        (PRODUCT, BOTH, [], ["axes.n.split={count: 2}"]),
        (PRODUCT, BOTH, HELD, [*HELD, "axes.k.split={count: 2}"]),
    ],
}
SPLIT: dict[str, list[Case]] = {
    "count": [(PRODUCT, BOTH, ["axes.g.split={count: 2}"], [f"axes.g.split={{count: {n}}}"]) for n in (3, "auto")],
    "combine": [(PRODUCT, BOTH, ["axes.g.split={count: 2}"], ["axes.g.split={count: 2, combine: atomic}"])],
}
KERNEL: dict[str, list[Case]] = {
    "axes": [
        (PRODUCT, BOTH, [], ["schedule.axes.m.tile=64"]),
        (PRODUCT, BOTH, [], ["schedule.triton.axes.m.tile=64", "schedule.cuda.axes.m.tile=64"]),
        (STAGED, BOTH, [], ["schedule.kernels.s.axes.m.tile=64"]),
        (STAGED, BOTH, [], ["schedule.kernels.s.axes.n.tile=64"]),
    ],
    "grid": [
        (PRODUCT, BOTH, ["schedule.grid=[b, m, n]"], ["schedule.grid=[n, b, m]"]),
        (PRODUCT, BOTH, ["schedule.grid=[b, m, n]"], ["schedule.grid=[b, m desc, n]"]),
        (PRODUCT, BOTH, [], ["schedule.grid=[b, m, n, k]"]),
        (STAGED, BOTH, [], ["schedule.kernels.s.grid=[k, b, m]"]),
        (STAGED, BOTH, [], ["schedule.kernels.s.grid=[n, b, m]"]),
    ],
    "grid_swizzle": [
        (PRODUCT, BOTH, [], ["schedule.grid_swizzle={m: 4}"]),
        (PRODUCT, BOTH, ["schedule.grid_swizzle={m: 8}"], ["schedule.grid_swizzle={m: 4}"]),
        (PRODUCT, BOTH, [], ["schedule.grid_swizzle={n: 4}"]),
        (PRODUCT, BOTH, ["schedule.grid_swizzle={m: 4}"], ["schedule.grid_swizzle={m: 4, b: 2}"]),
        (STAGED, BOTH, [], ["schedule.kernels.s.grid_swizzle={k: 4}"]),
    ],
    "loops": [
        (PRODUCT, BOTH, [], ["schedule.loops=[g, k]"]),
        (NESTED, BOTH, ["schedule.loops=[b, k, g]"], ["schedule.loops=[g, b, k]"]),
    ],
    "skeleton": [
        (PRODUCT, CUDA, [], ["schedule.cuda.skeleton=mma"]),
        (PRODUCT, TRITON, [], ["schedule.triton.skeleton=mma"]),
    ],
    "warps": [
        (PRODUCT, TRITON, ["schedule.triton.warps=2"], ["schedule.triton.warps=8"]),
        (PRODUCT, TRITON, ["schedule.triton.warps=2"], ["schedule.triton.warps=3"]),
        (PRODUCT, CUDA, [], ["schedule.cuda.warps=8"]),
        (PRODUCT, CUDA, ["schedule.cuda={skeleton: mma, warps: 2}"], ["schedule.cuda={skeleton: mma, warps: 4}"]),
        (STAGED, TRITON, ["schedule.triton.kernels.s.warps=2"], ["schedule.triton.kernels.s.warps=8"]),
    ],
    "stages": [
        (PRODUCT, TRITON, ["schedule.triton.stages=2"], ["schedule.triton.stages=3"]),
        (PRODUCT, CUDA, [], ["schedule.cuda.stages=3"]),
        (STAGED, TRITON, ["schedule.triton.kernels.s.stages=1"], ["schedule.triton.kernels.s.stages=3"]),
    ],
    "threads": [
        (PRODUCT, CUDA, ["schedule.cuda.threads=64"], ["schedule.cuda.threads=128"]),
        (PRODUCT, CUDA, ["schedule.cuda.threads=64"], ["schedule.cuda.threads=96"]),
        (PRODUCT, TRITON, [], ["schedule.triton.threads=64"]),
        (STAGED, CUDA, ["schedule.cuda.kernels.s.threads=64"], ["schedule.cuda.kernels.s.threads=128"]),
    ],
    "consumers": [(PRODUCT, CUDA, [], ["schedule.cuda.consumers=2"])],
    "overlap": [(PRODUCT, CUDA, [], ["schedule.cuda.overlap=softmax"])],
}
LEVEL: dict[str, list[Case]] = {
    "materialize": [
        (PRODUCT, BOTH, [], ["schedule={materialize: {s: {in: global}}, kernels: {s: {axes: {k: {stream: false}}}}}"]),
        (STAGED, BOTH, [], ["schedule.materialize={s: {in: global, dtype: bf16}}"]),
        (PRODUCT, BOTH, [], ["schedule.materialize={y: {in: global}}"]),
    ],
    "kernels": [
        (PRODUCT, BOTH, [], ["schedule.kernels={z: {axes: {m: {tile: 16}}}}"]),
        (PRODUCT, BOTH, [], ["schedule.kernels={s: {axes: {m: {tile: 16}}}}"]),
    ],
    "cases": [(PRODUCT, BOTH, [], ["schedule.cases=[{when: T == bf16, axes: {m: {tile: 16}}}]"])],
}
NOT_BUILT = {"max", "paged", "ragged", "fuse", "size", "balance", "parts", "thread_tile", "vector", "map", "shared",
             "reduce", "persistent", "state", "finish", "warps_along"}  # fmt: skip


def _fields(model: type[Model]) -> set[str]:
    return {f.alias or n for n, f in model.model_fields.items()} - NOT_BUILT


def test_every_field_is_in_the_tables() -> None:
    assert set(AXIS) == _fields(AxisModel) and _fields(AxisStructure) < set(AXIS)
    assert set(SPLIT) == _fields(SplitModel)
    assert set(KERNEL) == _fields(KernelFields)
    assert set(LEVEL) == _fields(LevelModel) - _fields(KernelFields)


def plan(text: str, backend: str, overrides: list[str]) -> str | None:
    """Return the kernels of a spec and how they are launched; None if it is refused."""
    try:
        instance = instances(load(text, overrides))[0]
        return "".join(identity(t.emitted) for t in texts_for(instance, (backend,), ("sm_90",), Origin()).texts)
    except KgenError:
        return None


CASES = [
    pytest.param(text, backend, one, other, id=f"{backend}-{field}-{' '.join(other)}")
    for table in (AXIS, SPLIT, KERNEL, LEVEL)
    for field, cases in table.items()
    for text, backends, one, other in cases
    for backend in backends
]


@pytest.mark.parametrize(("text", "backend", "one", "other"), CASES)
def test_two_values_give_two_plans_or_an_error(text: str, backend: str, one: list[str], other: list[str]) -> None:
    first, second = plan(text, backend, one), plan(text, backend, other)
    assert first is not None, "the first of the two must be right"
    assert _body(first) != _body(second or "")


def test_the_same_value_gives_the_same_plan() -> None:
    for backend in BOTH:
        assert _body(plan(PRODUCT, backend, ["axes.g.tile=16"]) or "") == _body(plan(PRODUCT, backend, []) or "?")


TRITON_LIMITS = [
    ("m: {extent: M, tile: «24»}", "Triton's tiles are powers of two, and 24 is none",
     "nearest are 16 and 32; for CUDA alone write it under schedule.cuda"),
    ("m: {extent: M, tile: «65536»}",
     "Triton's values have at most 1048576 elements, and a tile of 65536 of m * 32 of n has 2097152",
     "at most 32768 of 'm' fit; for CUDA alone write it under schedule.cuda"),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "message", "hint"), TRITON_LIMITS)
def test_tiles_that_triton_refuses_are_refused_at_the_field(axis: str, message: str, hint: str) -> None:
    def lowered(text: str) -> None:
        texts_for(instances(load(text))[0], TRITON, ("sm_90",), Origin())

    assert errors(lowered, PRODUCT.replace("m: {extent: M, tile: 32}", axis)) == [(message, hint)]


def test_cuda_alone_takes_tiles_of_any_size() -> None:
    assert plan(PRODUCT, "cuda", ["axes.m.tile=24"]) is not None
    below = plan(PRODUCT, "triton", ["schedule.cuda.axes.m.tile=24"])
    assert _body(below or "") == _body(plan(PRODUCT, "triton", []) or "?")


def _body(text: str) -> str:
    """Return a text without the hash of its spec."""
    return re.sub(r"sha256 \w+", "", text)


def test_a_demand_that_the_spec_does_not_write_is_noted() -> None:
    text = PRODUCT.replace("y[b, m, n] = sum[k](s * w[k, n])", "y[b, n, m] = sum[k](s * w[k, n])")
    assert check(load(PRODUCT), CUDA, ("sm_90",), Silent()).notes == ()
    assert check(load(text), CUDA, ("sm_90",), Silent()).notes == (
        "y, dimension 1: every element is written once (N == M), checked at every call",
        "y, dimension 2: every element is written once (M == N), checked at every call",
    )
