"""Keys of variants and of calls."""

from __future__ import annotations

import torch
from tests.workflow.conftest import ROWS

from kgen.ops.key import Key
from kgen.spec import load
from kgen.workflow.instance import Instance, call_key, expected_key, instances

SIZES = {"M": 3, "N": 1000, "D": 32}
PARAMS = {"scale": 2.0, "flip": True}


def key_of(instance: Instance, x: torch.Tensor, y: torch.Tensor) -> Key:
    sizes = dict(zip("MND", x.shape, strict=True))
    return call_key(instance, "sm_90", {"x": x, "y": y}, sizes, PARAMS)


def tensor(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def test_the_expected_key_is_that_of_aligned_contiguous_tensors(rows: Instance) -> None:
    key = expected_key(rows, "sm_90")
    assert key == key_of(rows, tensor(3, 1000, 32), tensor(3, 1000, 32))
    assert key == Key(
        dtypes=(("T", "bf16"),),
        sizes=(("D", 32),),
        params=(("flip", True),),
        units=(("x", 2), ("y", 2)),
        aligned=("x", "y"),
        offset="i32",
        buckets=(("n", 1024),),
    )


def test_views_have_keys_of_their_own(rows: Instance) -> None:
    y = tensor(3, 1000, 32)
    odd = tensor(3 * 1000 * 32 + 1)[1:].view(3, 1000, 32)
    strided = tensor(3, 1000, 64)[..., ::2]
    keys = [key_of(rows, x, y) for x in (y, odd, strided)]
    assert [k.aligned for k in keys] == [("x", "y"), ("y",), ("y",)]
    assert [dict(k.units)["x"] for k in keys] == [2, 2, None]


def test_only_the_bucket_of_a_run_time_extent_is_in_the_key(rows: Instance) -> None:
    few, many = (key_of(rows, tensor(3, n, 32), tensor(3, n, 32)) for n in (17, 1025))
    assert few.buckets == (("n", 32),)
    assert many.buckets == (("n", 2048),)


def test_an_axis_that_one_backend_holds_whole_is_in_the_key_of_both() -> None:
    text = ROWS.replace("tile: full", "tile: 16") + "schedule: {cuda: {axes: {n: {tile: full}}}}\n"
    assert dict(expected_key(instances(load(text))[0], "sm_90").buckets) == {"n": 1024}


def test_a_case_may_differ_from_the_variant_in_params(rows: Instance) -> None:
    x = tensor(3, 8, 32)
    key = call_key(rows, "sm_90", {"x": x, "y": x}, {"M": 3, "N": 8, "D": 32}, {**PARAMS, "flip": False})
    assert key.params == (("flip", False),)


def test_variants_are_told_apart_in_words() -> None:
    assert [i.words for i in instances(load(ROWS))] == ["T=bf16, D=32, flip=True", "T=f32, D=16, flip=False"]
