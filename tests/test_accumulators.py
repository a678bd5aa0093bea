"""Accumulator records: what is shipped is proved and right, what is corrupted is refused with values that show it."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from accumulator_mutants import mutants, show
from kgen import accumulators_base2, resources
from kgen.accumulators import (
    LOG2E,
    AccumulatorError,
    Record,
    evaluate,
    load_records,
    neutral,
    parse_record,
    prove,
    safe,
    safe_record,
    to_base2,
    undefined,
)
from kgen.accumulators_machine import Machine, elements
from kgen.accumulators_numeric import FUNCTIONS
from kgen.errors import KgenError, SpecError
from kgen.functions import table
from kgen.source import Source
from kgen.terms import Apply, Get, walk
from kgen.types import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8

INF, NAN = math.inf, math.nan
RECORDS = load_records()
FOLDER = resources.path("specs") / "accumulators"
SPLITS = (1, 2, 7, 50)


def text(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text()


def corrupted(name: str, old: str, new: str) -> Record:
    """Return a shipped record with a part of its file replaced."""
    assert old in text(name)
    return parse_record(name, Source(f"{name}.yaml", text(name).replace(old, new)))


# -- the shipped records


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_shipped_records_are_proved(name: str) -> None:
    prove(RECORDS[name])


def test_results_on_offer() -> None:
    offered = {name: record.names for name, record in RECORDS.items()}
    assert offered == {
        "all": ("all",),
        "any": ("any",),
        "argmax": ("argmax", "max"),
        "max": ("max",),
        "mean": ("mean",),
        "min": ("min",),
        "online_softmax": ("softmax", "logsumexp", "max"),
        "online_softmax_sink": ("softmax", "logsumexp"),
        "sum": ("sum",),
        "welford": ("mean", "var"),
    }


ROWS = (
    [0.5, -1.0, 2.0, 2.0, -3.5, 0.25, 1.0, -0.75, 4.0],
    [-INF, -INF, 3.0, -INF, -1.0, -INF, -INF, -INF, 0.0],
    [1e30, -1e30, 1e30, 0.0, 1e30, 1.0, 2.0, 3.0, 4.0],
    [133120.0**2] * 9,
    [1.0, NAN, 3.0, NAN, 2.0, 0.0, 0.0, 0.0, 0.0],
    [-INF] * 9,
)
TORCH = {
    "softmax": lambda x: torch.softmax(x, -1),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "max": lambda x: x.amax(-1),
    "min": lambda x: x.amin(-1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1, correction=0),
    "argmax": lambda x: x.argmax(-1),
}


@pytest.mark.parametrize("splits", SPLITS)
@pytest.mark.parametrize("name", ["argmax", "max", "mean", "min", "online_softmax", "sum", "welford"])
def test_results_equal_torch(name: str, splits: int) -> None:
    rows = np.array(ROWS[:4] if name == "welford" else ROWS)
    rows = rows[np.isfinite(rows).all(-1)] if name == "welford" else rows
    found = evaluate(RECORDS[name], rows, splits, tile=2)
    for result, value in found.items():
        wanted = TORCH[result](torch.from_numpy(rows)).numpy()
        assert value.shape == wanted.shape
        scale = np.abs(rows[np.isfinite(rows)]).max() if result in ("sum", "mean") else 1.0
        np.testing.assert_allclose(value, wanted, rtol=1e-12, atol=1e-14 * scale, err_msg=f"{name}.{result}")


def test_a_late_finite_element_among_minus_infinities() -> None:
    """Many tiles hold nothing before the only finite element comes (flash-attention issue 1930)."""
    row = np.full(512, -INF)
    row[257] = 10.0
    for splits in SPLITS:
        found = evaluate(RECORDS["online_softmax"], row, splits, tile=64)
        assert found["logsumexp"] == 10.0
        assert found["softmax"].tolist() == (row == 10.0).tolist()


def test_merging_empty_parts_changes_no_bit() -> None:
    """flashinfer issue 4051: two empty parts merge to an empty part, and an empty part leaves the other as it is."""
    machine = Machine(RECORDS["online_softmax"])
    empty, part = machine.identity(), machine.fold(machine.identity(), elements(np.array([[0.1, 0.7, -0.3]])))
    both = machine.merge(empty, empty)
    assert both["m"].value == -INF and both["l"].value == 0
    for merged in (machine.merge(empty, part), machine.merge(part, empty)):
        assert all(merged[name].value == part[name].value for name in part)


@pytest.mark.parametrize("splits", SPLITS)
def test_sink_counts_once_in_any_number_of_parts(splits: int) -> None:
    x = np.array(ROWS[0])
    for sink in (-INF, -2.0, 0.0, 50.0):
        found = evaluate(RECORDS["online_softmax_sink"], x, splits, tile=2, operands={"sink": sink})
        with_sink = torch.tensor([*x, sink], dtype=torch.float64)
        np.testing.assert_allclose(found["softmax"], torch.softmax(with_sink, -1)[:-1].numpy(), rtol=1e-12)
        np.testing.assert_allclose(found["logsumexp"], torch.logsumexp(with_sink, -1).item(), rtol=1e-12)
    nothing = evaluate(RECORDS["online_softmax_sink"], np.full(4, -INF), splits, operands={"sink": -INF})
    assert nothing["softmax"].tolist() == [0, 0, 0, 0] and nothing["logsumexp"] == -INF


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(-1e3, 1e3) | st.sampled_from([-INF, 0.0, 1.0, NAN]), min_size=1, max_size=12),
    st.integers(1, 15),
    st.integers(1, 5),
)
def test_splits_and_tiles_do_not_change_results(xs: list[float], splits: int, tile: int) -> None:
    for name in ("argmax", "max", "online_softmax"):
        whole, parts = (evaluate(RECORDS[name], np.array(xs), *how) for how in ((1, 12), (splits, tile)))
        for result in whole:
            np.testing.assert_allclose(parts[result], whole[result], rtol=1e-12, atol=1e-13)


# -- element types


def test_states_follow_the_type_of_the_input() -> None:
    softmax, total, largest = RECORDS["online_softmax"], RECORDS["sum"], RECORDS["max"]
    assert {s.dtype for s in softmax.at(BF16).states} == {F32} and softmax.at(F16) is softmax
    assert {s.dtype for s in softmax.at(F64).states} == {F64} and softmax.finish_dtype("logsumexp", F64) is F64
    assert {e.dtype for _, e in softmax.at(F64).merge} == {F64}
    assert [total.finish_dtype("sum", t) for t in (U8, I8, BOOL, I64, BF16)] == [I32, I32, I32, I64, F32]
    assert [largest.at(t).states[0].identity for t in (F32, I32, I64)] == [-INF, -(2**31), -(2**63)]
    assert RECORDS["min"].at(I32).states[0].identity == 2**31 - 1
    assert RECORDS["argmax"].finish_dtype("argmax", F32) is I64
    assert RECORDS["any"].accepts(BOOL) and not RECORDS["any"].accepts(I32)
    with pytest.raises(KgenError, match="'any' reduces bool values, not f32"):
        RECORDS["any"].at(F32)


def test_integers_are_exact() -> None:
    big = np.array([2**53 + 1, 2, -5, 2**60])
    assert evaluate(RECORDS["sum"].at(I64), big, 2)["sum"] == big.sum()
    assert evaluate(RECORDS["argmax"].at(I64), np.array([-(2**63), -(2**63)]), 2)["argmax"] == 0
    assert evaluate(RECORDS["max"].at(I64), np.array([2**53, 2**53 + 1]), 2)["max"] == 2**53 + 1


def test_which_results_carry_a_sum() -> None:
    softmax = RECORDS["online_softmax"]
    assert softmax.elementwise("softmax") and softmax.carries("softmax")
    assert not softmax.elementwise("logsumexp") and not softmax.carries("logsumexp")
    assert show(softmax.carry_factor("softmax")) == "div(1, l)"
    factor = RECORDS["online_softmax_sink"].carry_factor("softmax")
    assert show(factor) == "safe_div(1, add(l, exp(sub(sink, m))))"
    product = corrupted("online_softmax", "softmax: weight / l", "softmax: l * weight")
    assert show(product.carry_factor("softmax")) == "l"
    assert not corrupted("online_softmax", "weight / l", "weight / (l + s)").carries("softmax")
    with pytest.raises(ValueError, match="'var' of 'welford' is not a weight"):
        RECORDS["welford"].carry_factor("var")


def test_neutral_inputs() -> None:
    found = {name: neutral(record) for name, record in RECORDS.items()}
    assert found == {
        "all": True,
        "any": False,
        "max": -INF,
        "min": INF,
        "sum": 0,
        "argmax": None,
        "mean": None,
        "welford": None,
        "online_softmax": -INF,
        "online_softmax_sink": -INF,
    }
    assert neutral(RECORDS["max"].at(I32)) == -(2**31)
    counted = corrupted("online_softmax", "where(s == -inf, 0, 1)", "1")
    assert neutral(counted) is None, "an element at -inf that counts is no absent element"


def test_undefined_results_without_elements() -> None:
    found = {}
    for name, record in RECORDS.items():
        at = {Get(s.dtype, e.var): s.identity for s in record.states for e in state_gets(record, s.name)}
        for result in record.names:
            if not record.elementwise(result) and not record.operands:
                found[name, result] = undefined(record.entry(result), at)
        if record.carries("softmax" if "softmax" in record.names else record.names[0]) and not record.operands:
            found[name, "factor"] = undefined(record.carry_factor("softmax"), at)
    empty = {("mean", "mean"), ("welford", "mean"), ("welford", "var"), ("online_softmax", "factor")}
    assert {key for key, value in found.items() if value} == empty


def state_gets(record: Record, state: str) -> list[Get]:
    return [e for _, f in record.finish for e in walk(f) if isinstance(e, Get) and e.var.name == state]


# -- refused records

# Changes that alter no value: squares forget a sign, and two parts never hold the same position.
EQUIVALENT = {
    "argmax": [("merge.take", "le(a.i, b.i) -> lt(a.i, b.i)")] * 2,
    "welford": [
        ("merge.M2", "sub(b.mu, a.mu) -> sub(a.mu, b.mu)"),
        ("update_tile.M2", "sub(x, mu) -> sub(mu, x)"),
        ("direct.var", "sub(x, div(sum[.](x), cast(count[.](x)))) -> sub(div(sum[.](x), cast(count[.](x))), x)"),
    ],
}
LEAST = {"all": 9, "any": 9, "argmax": 60, "max": 13, "mean": 33, "min": 13, "online_softmax": 110, "sum": 13}
LEAST |= {"online_softmax_sink": 190, "welford": 110}


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_every_corruption_is_refused_or_changes_nothing(name: str) -> None:
    count, survivors = 0, []
    for mutant in mutants(RECORDS[name]):
        count += 1
        try:
            prove(mutant.record)
            survivors.append((mutant.field, mutant.change))
        except AccumulatorError as e:
            left, right = e.counterexample.left[1], e.counterexample.right[1]
            assert left != right and e.counterexample.values, f"{mutant.field}: {mutant.change}: {e}"
            assert e.diagnostics[0].span is not None
    assert survivors == EQUIVALENT.get(name, [])
    assert count >= LEAST[name]


def test_the_argmax_merge_that_loses_a_row_of_minus_infinities() -> None:
    """An identity that is taken for an element at -inf wins with its position -1."""
    merge = text("argmax").split("take: ")[1].split("\n")[0]
    wrong = corrupted("argmax", merge, "isnan(a.v) or a.v > b.v or (a.v == b.v and a.i <= b.i)")
    with pytest.raises(AccumulatorError) as e:
        prove(wrong)
    assert e.value.counterexample.values == {"a": "(v: -inf, i: 2)"}
    assert e.value.counterexample.left == ("merge(identity, a) i", "-1")
    assert e.value.counterexample.right == ("a i", "2")
    assert "argmax.yaml:10:3: error: accumulator 'argmax': the identity is not neutral" in str(e.value)


@pytest.mark.parametrize(
    ("name", "old", "new", "law", "value"),
    [
        ("online_softmax", "domain: [-inf, nan]", "domain: [-inf, nan, inf]", "", "inf"),
        ("welford", "domain: [nan]", "domain: [-inf]", "", "-inf"),
        ("welford", "where(n == 0, nan, mu)", "mu", "the finished fold differs from the direct formula", "[]"),
        ("online_softmax", "m + log(l)", "log(l * exp(m))", "the finished fold differs", "1e+30"),
        ("online_softmax", "l: {identity: 0}", "l: {identity: 0.5}", "the identity is not neutral", "l: 0.5"),
        ("mean", "a.s + b.s", "a.s + b.s * 1.000000001", "", "s:"),
        ("argmax", "not isnan(b.v) or a.i <= b.i", "true", "merge is not commutative", "nan"),
    ],
)
def test_counterexamples_show_the_value_that_decides(name: str, old: str, new: str, law: str, value: str) -> None:
    with pytest.raises(AccumulatorError) as e:
        prove(corrupted(name, old, new))
    assert law in e.value.counterexample.law
    assert value in str(e.value.counterexample)


NAIVE = """
inputs: [s]
state: {l: {identity: 0}}
lift: {l: exp(s)}
merge: {l: a.l + b.l}
weight: exp(s)
rescale: exp(old.l - old.l)
finish: {softmax: weight / l}
direct: {softmax: "exp(s - max[.](s)) / sum[.](exp(s - max[.](s)))"}
"""


def test_softmax_without_a_running_maximum_is_refused() -> None:
    with pytest.raises(AccumulatorError, match=r"1e\+30"):
        prove(parse_record("naive", Source("naive.yaml", NAIVE)))


EXTREMES = """
inputs: {x: number}
domain: [-inf, inf, nan]
state: {low: {identity: inf, dtype: input}, high: {identity: -inf, dtype: input}}
lift: {low: x, high: x}
merge: {low: "min(a.low, b.low)", high: "max(a.high, b.high)"}
finish: {lowest: low, highest: high}
direct: {lowest: "min[.](x)", highest: "max[.](x)"}
"""


def test_a_record_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "extremes.yaml").write_text(EXTREMES)
    record = load_records(tmp_path)["extremes"]
    prove(record)
    assert neutral(record) is None and to_base2(record) is None
    found = evaluate(record.at(I32), np.array([[3, -1, 7], [2, 2, 2]]), 2)
    assert found["lowest"].tolist() == [-1, 2] and found["highest"].tolist() == [7, 2]


# -- errors of the file


@pytest.mark.parametrize(
    ("name", "old", "new", "wanted"),
    [
        (
            "sum",
            "finish:",
            "finsh:",
            ["1:1: error: record 'sum' lacks finish", "8:1: error: unknown field 'finsh'", "'finish'"],
        ),
        (
            "sum",
            "merge: {s: a.s + b.s}",
            "merge: {s: a.s + c.s}",
            ["6:18: error: unknown name 'c.s'", "did you mean 'b.s'?"],
        ),
        ("sum", "x: number", "x: numbr", ["2:13: error: unknown class of input 'numbr'", "did you mean 'number'?"]),
        ("sum", "dtype: input", "dtype: inpt", ["4:33: error: unknown state dtype 'inpt'", "did you mean 'input'?"]),
        ("sum", "identity: 0", "identity: x", ["4:23: error: unknown name 'x'"]),
        ("sum", "lift: {s: x}", "lift: {t: x}", ["5:8: error: unknown state 't'"]),
        ("sum", "lift: {s: x}", "lift: {s: x +}", ["5:14: error: the line ends too early"]),
        ("sum", '"old.s + sum[.](x)"', "old.s + sum[.](x)", ["7:", "quote an expression that holds"]),
        ("sum", "a.s + b.s", "'sum[.](a.s)'", ["6:13: error: no reduction is possible here"]),
        ("argmax", "i: index}", "i: 0.5}", ["error: state 'i' of type i64 cannot hold a value of type f32"]),
        ("mean", "n: a.n + b.n, ", "", ["6:1: error: 'merge' gives no value for state 'n'"]),
        ("sum", "sum[.](x)", "sum[.](old.s)", ["7:22: error: the argument of 'sum[.]' does not vary"]),
        ("sum", "sum[.](x)", "total[.](x)", ["7:22: error: unknown reduction 'total'"]),
        ("sum", "a.s + b.s", "sum[.](a.s)", ["6:15: error: expected ',' or '}'", "hint: quote an expression"]),
        ("sum", "finish: {sum: s}", "finish: {total: s}", ["8:10: error: unknown builtin result 'total'"]),
        ("sum", "dtype: input", "dtype: i32", ["5:11: error: state 's' of type i32 cannot hold a value of type i64"]),
        ("sum", "domain: [-inf, inf", "domain: [-inf, infinity", ["3:16: error: unknown value 'infinity'"]),
        ("argmax", "dtype: i64", "dtype: i32", ["error: state 'i' of type i32 cannot hold a value of type i64"]),
        ("max", '"max(a.m, b.m)"', '"max(a.m)"', ["6:13: error: 'max' takes 2 arguments, not 1"]),
        ("max", '"max(a.m, b.m)"', '"maxi(a.m, b.m)"', ["6:13: error: unknown function 'maxi'", "did you mean 'max'?"]),
        ("any", "a.t or b.t", "a.t + 1", ["error: '+' needs numbers"]),
        ("online_softmax", "rescale: exp(old.m - new.m)\n", "", ["error: weight and rescale come together"]),
        ("online_softmax", "  max: max[.](s)\n", "", ["error: 'direct' gives no formula for 'max'"]),
        ("online_softmax", "l: {identity: 0}", "m2: 0", ["error: state 'm2' needs an identity"]),
        (
            "online_softmax",
            'm: "max(old.m, max[.](s))", l: "old.l * rescale + sum[.](weight)"',
            'l: "old.l * rescale + sum[.](weight)", m: "max(old.m, max[.](s))"',
            ["reads the new 'm', which comes after 'l'"],
        ),
        ("welford", "then: merge", "then: add", ["10:1: error: expected update: {tile: {...}, then: merge}"]),
    ],
)
def test_errors_are_placed(name: str, old: str, new: str, wanted: list[str]) -> None:
    with pytest.raises(SpecError) as e:
        corrupted(name, old, new)
    for part in wanted:
        assert part in str(e.value)
    assert all(d.span is not None for d in e.value.diagnostics)


def test_a_state_that_would_round_integers_is_refused() -> None:
    with pytest.raises(SpecError, match="state 's' of type f32 cannot hold a value of type i64"):
        corrupted("sum", ", dtype: input", "")


# -- printable and base-2 forms


def test_safe_leaves_nothing_that_does_not_print() -> None:
    for record in RECORDS.values():
        for field in ("lift", "merge", "update", "update_tile", "finish", "direct"):
            for _, e in getattr(safe_record(record), field) or ():
                assert "safe_div" not in {x.fn for x in walk(e) if isinstance(x, Apply)}


def test_safe_spells_out_the_conventions() -> None:
    softmax, welford = RECORDS["online_softmax"], RECORDS["welford"]
    assert softmax.weight is not None
    assert show(safe(softmax.weight)) == "exp(sub(s, where(eq(m, -inf), 0, m)))"
    mu = dict(welford.merge)["mu"]
    assert show(safe(mu)) == ("add(a.mu, mul(sub(b.mu, a.mu), where(eq(n, 0), 0, div(b.n, where(eq(n, 0), 1, n)))))")
    assert {x.fn for x in walk(safe(dict(welford.merge)["M2"])) if isinstance(x, Apply)} >= {"mul"}
    assert "pow" not in show(safe(dict(welford.merge)["M2"]))


def test_the_printable_form_is_part_of_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it -inf - -inf is NaN, and the proof must see that."""
    monkeypatch.setattr("kgen.accumulators_prove.safe_record", lambda record: record)
    record = replace(RECORDS["online_softmax"], doc="not proved before")
    with pytest.raises(AccumulatorError, match=r"as printed(.|\n)*-inf"):
        prove(record)


def test_base2_applies_where_exponentials_are_linear_in_the_input() -> None:
    found = {name: to_base2(record) for name, record in RECORDS.items()}
    assert {name: r.scaled for name, r in found.items() if r is not None} == {
        "online_softmax": ("s",),
        "online_softmax_sink": ("s", "sink"),
    }
    for record in found.values():
        if record is not None:
            prove(record)
            assert neutral(record) == -INF and to_base2(record) is None
            assert {s.dtype for s in record.at(F64).states} == {F64} and record.at(F64).scaled == record.scaled


def test_base2_text() -> None:
    new = to_base2(RECORDS["online_softmax"])
    assert new is not None and new.weight is not None and new.rescale is not None
    assert show(new.weight) == "exp2(sub(s, m))" and show(new.rescale) == "exp2(sub(old.m, new.m))"
    assert show(new.entry("logsumexp")) == "add(mul(m, 0.693147), log(l))"
    assert show(dict(new.merge)["l"]) == "add(mul(a.l, exp2(sub(a.m, m))), mul(b.l, exp2(sub(b.m, m))))"
    assert new.entry("softmax") == RECORDS["online_softmax"].entry("softmax")


@pytest.mark.parametrize("splits", SPLITS)
def test_base2_results(splits: int) -> None:
    record = RECORDS["online_softmax_sink"]
    new, x = to_base2(record), np.array(ROWS[:2])
    assert new is not None
    base_e = evaluate(record, x, splits, operands={"sink": 1.5})
    base_2 = evaluate(new, x * LOG2E, splits, operands={"sink": 1.5 * LOG2E})
    for name, value in base_e.items():
        np.testing.assert_allclose(base_2[name], value, rtol=1e-13)


def test_a_wrong_base2_rewrite_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulators_base2, "LN2", 0.6931)
    with pytest.raises(AccumulatorError, match="its base-2 form differs"):
        to_base2(replace(RECORDS["online_softmax"], doc="not rewritten before"))


@pytest.mark.parametrize(
    ("old", "new"),
    [("weight: exp(s - m)", "weight: exp(s - m) * s"), ("weight: exp(s - m)", "weight: exp((s - m) * (s - m))")],
)
def test_base2_does_not_apply_where_the_weight_is_no_plain_exponential(old: str, new: str) -> None:
    assert to_base2(corrupted("online_softmax", old, new)) is None


# -- the numeric side


def test_every_function_has_a_numeric_form() -> None:
    assert {name for name, row in table().items() if not row.internal} <= set(FUNCTIONS)


def test_records_load_without_torch() -> None:
    proving = "for r in load_records().values(): prove(r)"
    code = f"import sys\nfrom kgen.accumulators import *\n{proving}\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
