"""Cases are legal, small, ordered, and cover what kernels get wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
import verify_specs as specs

from kgen.errors import KgenError
from kgen.math import Check, Math
from kgen.terms import integer
from kgen.verify.binding import bind, holds
from kgen.verify.cases import Case, cases_for
from kgen.verify.shrink import halved

TILES = {"m": 16, "n": 16, "k": 16}
EVEN = specs.fn("mod", specs.size("N"), specs.integer(2))
ALL = (specs.attention, specs.matmul, specs.softmax, specs.layernorm, specs.argmax, specs.cross_entropy)


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("quick", [True, False])
def test_few_legal_and_ordered_by_cost(make: type[Math], quick: bool) -> None:
    math = make()
    tiles = {a: t for a, t in TILES.items() if math.axes.get(a) and isinstance(math.axes[a].tile, int)}
    cases = cases_for(math, tiles, quick)
    low, high = (5, 9) if quick else (10, 28)
    assert low <= len(cases) <= high
    costs = []
    for c in cases:
        bound = bind(math, c.sizes, c.params)
        assert holds(math, bound)
        product = 1
        for n in bound.extents.values():
            product *= max(1, n)
        costs.append(product)
    assert costs == sorted(costs)
    assert len({(tuple(c.sizes.items()), tuple(c.params.items()), c.kind) for c in cases}) == len(cases)


def attention_cases(quick: bool = False) -> list[Case]:
    return cases_for(specs.attention(), {"m": 16, "n": 16}, quick)


@pytest.mark.parametrize("quick", [True, False])
def test_what_kernels_get_wrong_is_covered(quick: bool) -> None:
    cases = attention_cases(quick)
    sizes = [c.sizes for c in cases]
    assert any(s["M"] > s["N"] > 0 for s in sizes) and any(0 < s["M"] < s["N"] for s in sizes)
    assert any(s["N"] == 0 for s in sizes)
    assert any(s["H"] // s["HK"] == 3 for s in sizes) and any(s["HK"] > 1 for s in sizes)
    assert any(s["M"] % 16 == 1 and s["M"] > 16 for s in sizes) and any(s["M"] == s["N"] == 1 for s in sizes)
    assert {c.params.get("causal", True) for c in cases} == {True, False}
    assert {"strided", "huge"} <= {c.kind for c in cases}
    assert any(s["B"] > 1 for s in sizes)


def test_full_covers_more() -> None:
    cases = attention_cases()
    sizes = [c.sizes for c in cases]
    assert any(s["M"] == 15 for s in sizes) and any(s["M"] == 16 == s["N"] for s in sizes)
    assert any(s["M"] == 35 == s["N"] for s in sizes) and any(s["M"] == 0 for s in sizes)
    assert any(s["H"] // s["HK"] == 17 for s in sizes)
    assert any(s["D"] == 32 for s in sizes) and any(s["D"] != s["E"] for s in sizes)


def test_fixed_sizes_stay() -> None:
    cases = cases_for(specs.attention(), {"m": 16, "n": 16}, False, fixed={"D": 32, "E": 16})
    assert {(c.sizes["D"], c.sizes["E"]) for c in cases} == {(32, 16)}
    assert all(n not in ("D", "E") for c in cases for n, v in differing(c))


def differing(case: Case) -> list[tuple[str, int]]:
    """Return the sizes in which the smaller versions of a case differ from it."""
    smaller = halved(specs.attention(), case)
    return [(n, v) for c in smaller for n, v in c.sizes.items() if v != case.sizes[n]]


def test_static_parameters_of_a_variant_stay() -> None:
    cases = cases_for(specs.attention(), {"m": 16, "n": 16}, False, fixed_params={"causal": False})
    assert {c.params["causal"] for c in cases} == {False}


def test_kinds_follow_what_the_spec_allows() -> None:
    assert {"infinite", "nan"} <= {c.kind for c in cases_for(specs.softmax(), {"n": 16}, False)}
    assert not {"infinite", "nan"} & {c.kind for c in attention_cases()}


@pytest.mark.parametrize(
    ("condition", "legal"),
    [
        (Check(specs.fn("eq", specs.size("M"), specs.size("N")), "M == N"), lambda s: s["M"] == s["N"]),
        (Check(specs.fn("eq", EVEN, integer(0)), "N % 2 == 0"), lambda s: s["N"] % 2 == 0),
        (Check(specs.fn("le", specs.size("M"), specs.size("N")), "M <= N"), lambda s: s["M"] <= s["N"]),
    ],
)
def test_checks_between_tiled_sizes_are_repaired(condition: Check, legal) -> None:  # type: ignore[no-untyped-def]
    math = replace(specs.attention(), checks=(*specs.attention().checks, condition))
    cases = cases_for(math, {"m": 16, "n": 16}, False)
    assert len(cases) >= 10
    assert all(legal(c.sizes) for c in cases)
    assert any(c.sizes["M"] > 16 for c in cases)


def test_impossible_checks_are_an_error() -> None:
    never = Check(specs.fn("lt", specs.size("M"), specs.integer(0)), "M < 0")
    with pytest.raises(KgenError, match="satisfy"):
        cases_for(replace(specs.softmax(), checks=(never,)), {"n": 16}, True)
