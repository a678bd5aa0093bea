"""Comparison of outputs: classes of values, exactness, ties, canaries, shapes."""

from __future__ import annotations

from dataclasses import replace

import torch
import verify_specs as specs
from torch import Tensor

from kgen.types import BF16, F16, F32, I32, I64
from kgen.verify.binding import bind
from kgen.verify.budget import Choices, Expected, limits
from kgen.verify.compare import check, check_output, poisoned_outputs, same_bits

INF, NAN = float("inf"), float("nan")


def floats(values: list[float], limit: float = 1e-3) -> Expected:
    reference = torch.tensor(values, dtype=torch.float64)
    full = torch.full(reference.shape, limit, dtype=torch.float64)
    return Expected(F32, reference, full, full / 2, full)


def test_the_worst_element_is_reported() -> None:
    v = check_output("y", torch.tensor([1.0, 2.0005, 3.004]), floats([1.0, 2.0, 3.0]))
    assert (v.ok, v.index, v.bad, v.reason) == (False, (2,), 1, "error over the limit")
    assert 3.9 < v.worst < 4.1
    assert v.expected == 3.0
    assert check_output("y", torch.tensor([1.0, 2.0005, 3.0]), floats([1.0, 2.0, 3.0])).ok


def test_nan_and_infinities_match_by_class() -> None:
    wanted = floats([1.0, NAN, INF, -INF])
    assert check_output("y", torch.tensor([1.0, NAN, INF, -INF]), wanted).ok
    for at, value in ((0, NAN), (1, 1.0), (2, -INF), (2, 1e30), (3, NAN), (0, INF)):
        got = torch.tensor([1.0, NAN, INF, -INF])
        got[at] = value
        v = check_output("y", got, wanted)
        assert not v.ok and v.index == (at,) and v.worst == INF, (at, value)


def test_overflow_of_the_output_type_may_go_either_way_only_near_its_largest_number() -> None:
    near = torch.tensor([65519.0, 70000.0, 60000.0], dtype=torch.float64)
    limit = torch.full((3,), 40.0, dtype=torch.float64)
    wanted = Expected(F16, near, limit, limit, near)
    assert check_output("y", torch.tensor([65504.0, INF, 60000.0], dtype=torch.float16), wanted).ok
    assert check_output("y", torch.tensor([INF, INF, 60000.0], dtype=torch.float16), wanted).ok
    assert not check_output("y", torch.tensor([65504.0, INF, INF], dtype=torch.float16), wanted).ok
    assert not check_output("y", torch.tensor([65504.0, 65504.0, 60000.0], dtype=torch.float16), wanted).ok


def test_all_zero_fails_even_under_a_wide_limit() -> None:
    wanted = replace(floats([0.5, 0.25], limit=10.0), noise=torch.full((2,), 1e-6, dtype=torch.float64))
    v = check_output("y", torch.zeros(2), wanted)
    assert (v.ok, v.reason) == (False, "all zero")
    assert check_output("y", torch.zeros(2), floats([0.0, 0.0])).ok


def test_shape_dtype_and_missing_outputs() -> None:
    assert "float64" in check_output("y", torch.zeros(1, dtype=torch.float64), floats([0.0])).reason
    assert "(2,)" in check_output("y", torch.zeros(2), floats([0.0])).reason
    assert check({}, {"y": floats([0.0])}).reason == "output is missing"
    assert check({"y": torch.zeros(0)}, {"y": floats([])}).ok


def test_the_last_output_fails_too() -> None:
    wanted = {"a": floats([1.0]), "b": floats([2.0])}
    assert check({"a": torch.ones(1), "b": torch.ones(1)}, wanted).output == "b"


def test_integers_are_exact() -> None:
    zero = torch.zeros(2, dtype=torch.float64)
    wanted = Expected(I32, torch.tensor([2**30, -5]), zero, zero, zero)
    assert check_output("y", torch.tensor([2**30, -5], dtype=torch.int32), wanted).ok
    v = check_output("y", torch.tensor([2**30 + 1, -5], dtype=torch.int32), wanted)
    assert (v.ok, v.index, v.got) == (False, (0,), 2**30 + 1)


def argmax_of(x: Tensor, got: list[int]) -> bool:
    math = specs.argmax()
    wanted = limits(math, {"x": x}, {}, {"M": x.shape[0], "N": x.shape[1]})
    return check({"i": torch.tensor(got)}, wanted).ok


def test_argmax_ties_go_by_value() -> None:
    x = torch.tensor([[1.0, NAN], [3.0, 2.0], [3.0, NAN]])
    assert argmax_of(x, [1, 0])
    assert argmax_of(x, [2, 2])
    assert not argmax_of(x, [0, 0])
    assert not argmax_of(x, [1, 1])
    assert not argmax_of(x, [-1, 0])
    assert not argmax_of(x, [3, 0])
    assert argmax_of(x[:0], [-1, -1])
    assert not argmax_of(x[:0], [0, -1])


def test_a_tie_with_an_element_that_does_not_exist_is_wrong() -> None:
    choices = Choices(torch.tensor([[1.0, 1.0]]), torch.tensor([[True, False]]), 0.0)
    zero = torch.zeros(1, dtype=torch.float64)
    wanted = Expected(I64, torch.tensor([0]), zero, zero, zero, choices)
    assert check_output("i", torch.tensor([0]), wanted).ok
    assert not check_output("i", torch.tensor([1]), wanted).ok


def test_canaries_see_every_stray_write() -> None:
    math = specs.softmax(BF16)
    call = bind(math, {"M": 3, "N": 5}, {})
    guarded = poisoned_outputs(math, call)["y"]
    assert guarded.view.isnan().all() and guarded.view.is_contiguous() and guarded.intact()
    guarded.view.zero_()
    assert guarded.intact()
    before, size = guarded.view.storage_offset(), guarded.view.numel()
    for at in (0, before - 1, before + size, len(guarded.storage) - 1):
        kept = guarded.storage[at].clone()
        guarded.storage[at] = 1.0
        assert not guarded.intact()
        guarded.storage[at] = kept


def test_same_bits_tells_nan_and_signed_zero() -> None:
    assert same_bits(torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([0.0], dtype=torch.float16))
