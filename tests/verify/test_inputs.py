"""Inputs keep their contracts, and awkward storage shows what a kernel must not read."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import verify_specs as specs

from kgen.errors import KgenError
from kgen.math import Math, Values
from kgen.terms import Const
from kgen.types import BOOL, F32, I32, I64, DType
from kgen.verify import inputs
from kgen.verify.layouts import poison, strided


def one_tensor(values: Values, dtype: DType, count: int) -> tuple[Math, dict[str, int]]:
    tensors = [specs.tensor("x", "N", dtype, values=values), specs.tensor("y", "N", F32, out=True)]
    return specs.math("one", [specs.axis("n", "N")], tensors, []), {"N": count}


def draw(part: tuple[str, tuple[float, ...]], dtype: DType, count: int, kind: str = "typical") -> torch.Tensor:
    name, args = part
    literals = tuple(Const(I64 if isinstance(a, int) else F32, a) for a in args)
    math, sizes = one_tensor(Values(((name, literals),)), dtype, count)
    return inputs.make(math, sizes, {}, 3, kind=kind)["x"]


def test_equal_arguments_give_equal_bits() -> None:
    sizes = {"M": 3, "N": 5}
    a, b = (inputs.make(specs.softmax(), sizes, {}, 1)["x"] for _ in range(2))
    assert torch.equal(a, b)
    assert not torch.equal(a, inputs.make(specs.softmax(), sizes, {}, 2)["x"])


@pytest.mark.parametrize("kind", ["typical", "integers", "huge", "strided"])
def test_contracts_hold_for_every_kind(kind: str) -> None:
    index = draw(("index", (7,)), I32, 200, kind)
    assert index.dtype is torch.int32
    assert (int(index.min()), int(index.max())) == (0, 6)
    lengths = draw(("lengths", (5,)), I32, 200, kind)
    assert (int(lengths.min()), int(lengths.max())) == (0, 5)
    order = draw(("permutation", (50,)), I32, 40, kind)
    assert len(set(order.tolist())) == 40
    assert 0 <= min(order.tolist()) <= max(order.tolist()) < 50
    offsets = draw(("offsets", (30,)), I32, 6, kind)
    assert (int(offsets[0]), int(offsets[-1])) == (0, 30)
    assert bool((offsets.diff() >= 0).all())
    uniform = draw(("uniform", (-2.0, 3.0)), F32, 300, kind)
    assert float(uniform.min()) >= -2 and float(uniform.max()) <= 3


def test_ends_of_the_range_are_hit() -> None:
    assert set(draw(("uniform", (-2.0, 3.0)), F32, 50, "huge").tolist()) == {-2.0, 3.0}
    assert set(draw(("index", (9,)), I64, 50, "huge").tolist()) == {0, 8}
    bools = draw(("bool", (0.9,)), BOOL, 40, "huge")
    assert not bools[:20].any() and bools[20:].any()


def test_unions_hold_every_alternative() -> None:
    labels = inputs.make(specs.cross_entropy(), {"M": 60, "V": 5}, {}, 1)["label"]
    assert set(labels.tolist()) == {-100, 0, 1, 2, 3, 4}


def test_huge_reaches_ten_thousand_only_where_nothing_multiplies() -> None:
    assert inputs.make(specs.softmax(), {"M": 4, "N": 50}, {}, 1, kind="huge")["x"].abs().max() > 1e4
    x = inputs.make(specs.matmul(), {"M": 4, "N": 5, "K": 30}, {}, 1, kind="huge")["x"]
    assert 100 < float(x.abs().max()) < 1e3


def test_infinities_only_where_every_reader_allows_them() -> None:
    assert inputs.special_tensors(specs.softmax(), "infinite") == {"x"}
    assert inputs.special_tensors(specs.attention(), "infinite") == set()
    assert inputs.special_tensors(specs.layernorm(), "infinite") == set()
    x = inputs.make(specs.softmax(), {"M": 4, "N": 50}, {}, 1, kind="infinite")["x"]
    assert bool((x[0] == float("-inf")).all())
    assert 0 < int((x[1:] == float("-inf")).sum()) < 75
    assert inputs.make(specs.softmax(), {"M": 4, "N": 50}, {}, 1, kind="nan")["x"].isnan().any()


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 5), (7,), (), (0, 3), (1, 1)])
@pytest.mark.parametrize("turn", range(4))
def test_strided_views_hold_the_values_and_poison_around(shape: tuple[int, ...], turn: int) -> None:
    values = torch.randn(shape)
    view = strided(values, turn, expandable=False)
    assert torch.equal(view, values)
    whole = view.as_strided((view.untyped_storage().nbytes() // 4,), (1,), 0)
    assert int(whole.isnan().sum()) == whole.numel() - values.numel()
    assert view.storage_offset() > 0


def test_strided_inputs_have_every_kind_of_storage() -> None:
    sizes = {"B": 2, "H": 2, "HK": 2, "M": 3, "N": 4, "D": 16, "E": 16}
    found = [inputs.make(specs.attention(F32), sizes, {}, seed, kind="strided") for seed in range(4)]
    strides = [t.stride() for case in found for t in case.values()]
    assert any(s[0] == 0 for s in strides)
    assert any(s[-1] == 2 for s in strides)
    assert any(s[0] == 1 for s in strides)
    assert any(s[-1] == 1 and s[-2] == 19 for s in strides)


def test_tensors_with_a_contract_between_elements_are_not_expanded() -> None:
    order = Values((("permutation", (Const(I64, 100),)),))
    tensors = [specs.tensor("x", "M N", I32, values=order)]
    math = specs.math("p", [specs.axis("m", "M"), specs.axis("n", "N")], tensors, [])
    for seed in range(4):
        x = inputs.make(math, {"M": 4, "N": 5}, {}, seed, kind="strided")["x"]
        assert len(set(x.flatten().tolist())) == 20


def test_contiguous_inputs_lie_between_bands_of_poison_and_stay_aligned() -> None:
    x = inputs.make(specs.softmax(), {"M": 3, "N": 5}, {}, 1)["x"]
    whole = x.as_strided((x.untyped_storage().nbytes() // 4,), (1,), 0)
    assert x.is_contiguous() and x.data_ptr() % 16 == 0
    assert whole[: x.storage_offset()].isnan().all() and whole[x.storage_offset() + 15 :].isnan().all()
    assert len(whole) > 15 + 2 * 64


def test_poison_shows() -> None:
    assert poison(torch.int32) == 2**31 - 1
    assert poison(torch.float16) != poison(torch.float16)
    assert poison(torch.bool) is True


def test_unknown_kinds_and_values_are_errors() -> None:
    with pytest.raises(KgenError, match="'odd'"):
        inputs.make(specs.softmax(), {"M": 1, "N": 1}, {}, 0, kind="odd")
    math, sizes = one_tensor(Values((("gamma", ()),)), F32, 1)
    with pytest.raises(KgenError, match="'gamma'"):
        inputs.make(replace(math), sizes, {}, 0)
