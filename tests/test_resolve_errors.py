"""Errors of resolve: each message, hint and place."""

from __future__ import annotations

import pytest

from kgen.errors import SpecError
from kgen.resolve import resolve
from kgen.spec import load
from kgen.types import F32, I32
from marked_errors import errors
from resolve_cases import GOOD, run, spec_text

STATEMENTS: list[tuple[str, str, str | None]] = [
    ("y[b, m] = sum[n](«xx[b, m, n]»)", "unknown tensor 'xx'", "did you mean 'x'?"),
    ("val = x[b, m, n]\ny[b, m] = sum[n](«vol»)", "unknown name 'vol'", "did you mean 'val'?"),
    ("y[b, m] = sum[«k2»](x[b, m, n])", "unknown axis 'k2'", None),
    ("y[b, m] = «smu[n](x[b, m, n])»", "unknown reduction 'smu'", "did you mean 'sum'?"),
    ("y[b, m] = «ext(j[b, m])»", "unknown function 'ext'", "did you mean 'exp'?"),
    ("y[b, m] = «sum(j[b, m])»", "'sum' is a reduction", "name the axis it reduces: sum[n](...)"),
    ("y[b, m] = «w(m)»", "'w' is a tensor: write w[...] with square brackets", None),
    ("y[b, m] = «j»", "'j' is a tensor: write j[...] for an element of it", None),
    ("y[b, m] = «w[b, m]»", "'w' has 1 dimensions, and 2 indices are given", None),
    ("y[b, m] = x[b, m, «w[m]»]", "expected an integer, not a value of type f32", None),
    ("y[b, m] = x[b, m, «n»]", "the axis 'n' is neither on the left side nor reduced here", None),
    ("y[b, m] = «exp(1, 2)»", "'exp' takes 1 argument, not 2", None),
    ("y[b, m] = «k and c[b, m, 0]»", "'and' needs bool operands, not i64 and bool", "compare first, such as 'x != 0'"),
    ("y[b, m] = «c[b, m, 0] + 1»", "'+' needs numbers, not bool and i32", "write where(condition, 1, 0) for a number"),
    ("y[b, m] = «w[m] >> 2»", "'>>' needs integer operands, not f32 and i32", "write cast[i32](x) to convert"),
    ("y[b, m] = «where(m, 1, 2)»", "the condition of 'where' must be bool, not i32", None),
    ("y[b, m] = «c[b, m, 0]»", "a value of type bool cannot be stored in 'y' of type bf16", None),
    ("y[b, m] = any[n](«x[b, m, n]»)", "'any' cannot reduce values of type f32", "compare first, such as 'x != 0'"),
    ("y[b, m] = sum[n if «n»](x[b, m, n])", "a guard must be bool, not i32", None),
    ("y[b, m] = «sum[n, n](x[b, m, n])»", "'sum' reduces over an axis twice", None),
    ("y[b, m] = «cast[q8](j[b, m])»", "'q8' is no dtype and no type variable", "did you mean 'u8'?"),
    ("y[b, m] = «cast[bool](j[b, m])»", "a number is not cast to bool", "compare it, such as 'x != 0'"),
    ("y[b, m] = «T»", "'T' is a type variable", "cast[T](x) converts to it"),
    ("y[b, m] = «r» + j[b, m]\nr = m + 1", "'r' is used before it is defined, in line 16", None),
    ("y[b, m] = «y[b, m]» + 1", "the output 'y' is read before the statement that writes it", None),
    (
        "y[b, m] = j[b, m]\nv = «y[b, 0]»",
        "the output 'y' is a value here, and can be read at its own positions only",
        "write it as on its left side: y[b, m]",
    ),
    ("f(t) = «f(t)» + 1\ny[b, m] = f(m)", "'f' calls itself: f -> f", None),
    ("f(t) = g(t)\ng(t) = «f(t)»\ny[b, m] = f(m)", "'f' calls itself: f -> g -> f", None),
    ("f(t, u) = t + u\ny[b, m] = «f(m)»", "'f' takes 2 arguments, not 1", "it is f(t, u)"),
    ("y[b, m] = j[b, m]\n«y»[b, m] = 1", "'y' is defined twice, first in line 15", None),
    ("v = m\n«v» = m + 1\ny[b, m] = v", "'v' is defined twice, first in line 15", None),
    ("«m» = 1\ny[b, m] = j[b, m]", "'m' is an axis already", "choose another name"),
    ("«exp» = 1\ny[b, m] = j[b, m]", "'exp' is a function and cannot be a name", None),
    ("«y» = m", "'y' is an output: write y[...] = ...", None),
    ("«w»[n] = 1", "'w' is an input: outputs have out: true", None),
    ("«yy»[b, m] = 1", "'yy' is no tensor", "did you mean 'y'?"),
    ("«y»[b] = 1", "'y' has 2 dimensions, and 1 indices are given", None),
    ("v = m\ny[b, m] = «v[b, m]»", "'v' is a named intermediate: write it without indices", None),
    ("y[b, m] = «page(m)»", "not built yet: paged axes, which define 'page(...)'", None),
    ("y[b, m] = «99999999999999999999»", "the integer 99999999999999999999 does not fit 64 bits", None),
    ("y[b, m] = «1e999»", "the number does not fit 64 bits", "write inf for infinity"),
    ("y[b, m] = size(«x»)", "'x' is a tensor: write x[...] for an element of it", None),
    ("y[b, m] = «size(m, n)»", "size(...) takes one axis", None),
]


@pytest.mark.parametrize(("compute", "message", "hint"), STATEMENTS)
def test_statement_errors(compute: str, message: str, hint: str | None) -> None:
    found = errors(run, spec_text(compute))
    assert found[0][0] == message
    assert hint is None or found[0][1] == hint


def test_a_failed_definition_is_reported_once() -> None:
    assert len(errors(run, spec_text("v = «zz» + 1\nq = v * 2\ny[b, m] = q"))) == 1


def test_what_follows_from_a_broken_name_is_not_reported() -> None:
    broken_axis = spec_text(GOOD).replace("b: {extent: B}", "b: {extent: «1.5»}")
    assert [m for m, _ in errors(run, broken_axis)] == ["expected an integer, not a value of type f32"]
    overwritten = spec_text(GOOD).replace("x: {dims: [b, m, n], dtype: T}", "x: {dims: [b, m, n], dtype: «TT»}")
    overwritten = overwritten.replace("dtype: T, out: true", "dtype: T, out: true, inplace: x")
    assert len(errors(run, overwritten)) == 1


def test_all_errors_are_reported_in_order() -> None:
    text = spec_text(
        "v = «zz» + 1\ny[b, m] = «yy»", "mask: «mm» < 1\nrequire: [«ZZ» > 0]", "  t: {dims: [«q»], dtype: f32}"
    )
    assert [m for m, _ in errors(run, text)] == [
        "there is no axis or size 'q'",
        "unknown name 'mm'",
        "unknown size 'ZZ'",
        "unknown name 'zz'",
        "unknown name 'yy'",
    ]


EXTRAS: list[tuple[str, str, str | None]] = [
    ("mask: «m + 1»", "the mask must be bool, not i32", None),
    ("mask: «M < N»", "the mask names no axis, so it says nothing about any element", None),
    ("require: [«M + 1»]", "a requirement must be bool, not i32", None),
    ("require: [«m» < 2]", "'m' is an axis, and here only sizes are known", "use the size it extends over"),
    ("sizes: {«G»: G + 1}", "the size 'G' is defined by itself, directly or in a circle", None),
    ("accumulate: {«men»: welford}", "no accumulator offers 'men'", "did you mean 'mean'?"),
    ("accumulate: {mean: «welfrd»}", "unknown accumulator 'welfrd'", "did you mean 'welford'?"),
    ("accumulate: {«sum»: welford}", "accumulator 'welford' has no result 'sum'", "it has mean, var"),
    (
        "accumulate: {«softmax»: online_softmax_sink}",
        "accumulator 'online_softmax_sink' needs the operand 'sink'",
        None,
    ),
    (
        "accumulate: {softmax: {use: online_softmax, «sink»: 1}}",
        "accumulator 'online_softmax' has no operand 'sink'",
        None,
    ),
    ("casts: {«v»: T}", "'casts' names intermediates, and 'v' is none", None),
    ("layouts: {«xx»: [m]}", "unknown tensor 'xx'", "did you mean 'x'?"),
    ("layouts: {w: [«m»]}", "'w' has no such dimension", "write it as in 'dims'"),
    ("conventions: {empty: «none»}", "expected 'zero' or 'nan', not 'none'", None),
]


@pytest.mark.parametrize(("extra", "message", "hint"), EXTRAS)
def test_errors_outside_statements(extra: str, message: str, hint: str | None) -> None:
    ((found, given),) = errors(run, spec_text(GOOD, extra))
    assert found == message
    assert hint is None or given == hint


TENSORS: list[tuple[str, str]] = [
    ("  «t»: {dims: [b], dtype: i32}", "the integer tensor 't' needs 'values'"),
    ("  t: {dims: [b], dtype: i32, values: «normal»}", "'normal' are not values of type i32"),
    ("  t: {dims: [b], dtype: i32, values: «indx(3)»}", "unknown values 'indx'"),
    ("  t: {dims: [b], dtype: i32, values: '«index(1, 2)»'}", "'index' takes 1 argument, not 2"),
    ("  t: {dims: [b], dtype: «f31»}", "'f31' is no dtype and no type variable"),
    ("  t: {dims: [b], dtype: f32, «fill»: 0}", "'fill' is for outputs (out: true)"),
    ("  «t»: {dims: [b], dtype: f32, out: true}", "no statement writes the output 't'"),
    ("  t: {dims: ['«kv[b]»'], dtype: f32}", "not built yet: extents that depend on data"),
    ("  «m»: {dims: [b], dtype: f32}", "'m' names two things, in 'axes' and in 'tensors'"),
]


@pytest.mark.parametrize(("tensor", "message"), TENSORS)
def test_errors_of_tensors(tensor: str, message: str) -> None:
    assert errors(run, spec_text(GOOD, tensors=tensor))[0][0] == message


def test_an_axis_that_nothing_uses_is_an_error() -> None:
    text = spec_text(GOOD).replace("axes: {b:", "axes: {«z»: {extent: Z}, b:")
    ((message, _),) = errors(run, text)
    assert message == "no statement uses the axis 'z'"


def test_a_mask_over_an_axis_out_of_scope_is_explained() -> None:
    ((message, hint),) = errors(run, spec_text("v = «sum[n](w[n])»\ny[b, m] = v", "mask: n <= m"))
    assert message == "the mask relates 'n' to 'm', which is not in scope here"
    assert hint == "use 'm' in the reduction, or write guards, sum[n if ...](...), for the mask"


def test_dtypes_must_be_choices_of_the_spec() -> None:
    spec = load(spec_text(GOOD))
    for bad in ({"T": I32}, {}, {"T": F32, "U": F32}):
        with pytest.raises(SpecError):
            resolve(spec, bad)
