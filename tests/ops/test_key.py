"""Keys: which dim has stride 1, what is aligned to 16 bytes, when offsets need 64 bits, buckets."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from kgen.ops.key import Key, bucket, memory_key

FAST = (1,)


def one(t: Tensor, fast: tuple[int, ...] = FAST) -> tuple[int | None, bool, str]:
    units, aligned, offset = memory_key([("x", t, fast)])
    return units[0][1], aligned == ("x",), offset


def base(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("t", "unit", "aligned"),
    [
        (base(4, 8), 1, True),
        (base(4, 6), 1, False),
        (base(4, 6)[:, 1:], 1, False),
        (base(4, 8)[:, 4:], 1, True),
        (base(4, 8)[:, 2:], 1, False),
        (base(4, 8, dtype=torch.bfloat16), 1, True),
        (base(4, 4, dtype=torch.bfloat16), 1, False),
        (base(1, 6), 1, True),
        (base(4, 1), 1, False),
        (base(8, 4).t(), None, False),
        (base(4, 16)[:, ::2], None, False),
        (base(1, 8).expand(4, 8), 1, True),
        (base(4, 1).expand(4, 8), None, False),
        (base(4, 0), 1, True),
        (base(0, 7), 1, True),
    ],
)
def test_units_and_alignment_of_a_matrix(t: Tensor, unit: int | None, aligned: bool) -> None:
    assert one(t) == (unit, aligned, "i32")


def test_either_of_two_fast_dims() -> None:
    assert one(base(4, 8), (1, 0)) == (1, True, "i32")
    assert one(base(4, 8).t(), (1, 0)) == (0, True, "i32")
    assert one(base(4, 16)[:, ::2], (1, 0)) == (None, False, "i32")


def test_tensors_without_dims() -> None:
    assert one(base(), ()) == (None, True, "i32")
    assert one(base(5)[1], ()) == (None, False, "i32")


def meta(shape: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
    return torch.empty_strided(shape, strides, dtype=torch.int8, device="meta")


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((2, 2**30), (2**30, 1), "i32"),
        ((2, 2**30 + 1), (2**30 + 1, 1), "i64"),
        ((2**16, 2**15), (2**15, 1), "i32"),
        ((2**16 + 1, 2**15), (2**15, 1), "i64"),
        ((2**20, 2**20), (0, 1), "i32"),
        ((2, 4), (2**31 - 4, 1), "i32"),
        ((2, 4), (2**31, 1), "i64"),
        ((1, 4), (2**31, 1), "i64"),
        ((0, 4), (2**40, 1), "i32"),
    ],
)
def test_offsets(shape: tuple[int, int], strides: tuple[int, int], offset: str) -> None:
    assert one(meta(shape, strides))[2] == offset


def test_one_far_tensor_decides_for_all() -> None:
    near, far = base(2, 2), meta((2, 2), (2**31, 1))
    assert memory_key([("x", near, FAST), ("y", far, FAST)])[2] == "i64"
    assert memory_key([("y", far, FAST), ("x", near, FAST)])[2] == "i64"


def test_buckets() -> None:
    assert [bucket(n) for n in (0, 1, 16, 17, 32, 33, 1000, 1024, 1025)] == [16, 16, 16, 32, 32, 64, 1024, 1024, 2048]


def key(**changes: object) -> Key:
    raw = {"dtypes": (("T", "f32"),), "sizes": (("D", 64),), "params": (("causal", True),), "units": (("x", 1),)}
    return Key(**{**raw, "aligned": ("x",), "offset": "i32", "buckets": (("n", 64),), **changes})  # type: ignore[arg-type]


def test_json_round_trip() -> None:
    assert Key.from_json(json.loads(json.dumps(key().to_json()))) == key()


def test_a_key_serves_its_calls_and_those_with_buckets_it_does_not_know() -> None:
    assert key().serves(key())
    assert key(buckets=()).serves(key())
    for changes in (
        {"dtypes": (("T", "f16"),)},
        {"sizes": (("D", 32),)},
        {"params": (("causal", False),)},
        {"units": (("x", None),)},
        {"aligned": ()},
        {"offset": "i64"},
        {"buckets": (("n", 128),)},
    ):
        assert not key().serves(key(**changes))
