"""Index simplification against Python's own integers, and the proofs that the compiler relies on."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest
import z3

from kgen.index import (
    Facts,
    Range,
    bounds,
    enumerate_equal,
    evaluate,
    fits_i32,
    is_multiple,
    leaf_name,
    prove,
    simplify,
)
from kgen.terms import Apply, Cast, Const, Expr, Get, Load, Param, Pos, Size, Start, Var, integer, walk
from kgen.types import BOOL, F32, I32, I64

m, n = Pos(I32, "m"), Pos(I32, "n")
s = Start(I32, "n")
H, HK, M, N, P = (Size(I32, name) for name in ("H", "HK", "M", "N", "P"))
DIVISIONS = ("floordiv", "mod", "quot", "rem")


def op(fn: str, *args: Expr | int) -> Apply:
    return Apply(I32, fn, tuple(integer(a) if isinstance(a, int) else a for a in args))


def cond(fn: str, *args: Expr | int) -> Apply:
    return Apply(BOOL, fn, op(fn, *args).args)


def text(e: Expr) -> str:
    match e:
        case Const(value=value):
            return str(value)
        case Apply(fn=fn, args=args):
            return f"{fn}({', '.join(text(a) for a in args)})"
        case Cast(arg=arg, dtype=dtype):
            return f"{dtype}({text(arg)})"
        case _:
            return leaf_name(e) or "?"


SMALL = Facts(
    ranges={"n": Range(0, 15), "N": Range(1, None), "H": Range(1, None), "HK": Range(1, None)},
    multiples={"n_start": 64},
    constants={"P": 16},
)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (op("floordiv", op("add", op("mul", s, 64), n), 16), "mul(n_start, 4)"),
        (op("floordiv", op("add", s, n), P), "quot(n_start, 16)"),
        (op("mod", op("add", s, n), P), "n"),
        (op("floordiv", op("add", s, n), 64), "quot(n_start, 64)"),
        (op("mod", op("mod", op("mul", 2, m), 64), 64), "rem(mul(m, 2), 64)"),
        (op("floordiv", op("floordiv", m, 4), 8), "quot(m, 32)"),
        (op("floordiv", op("floordiv", m, 4), N), "quot(m, mul(N, 4))"),
        (op("add", op("mul", op("floordiv", m, N), N), op("mod", m, N)), "m"),
        (op("floordiv", op("add", op("mul", m, N), op("mod", n, N)), N), "m"),
        (op("mod", op("add", op("mul", m, N), op("mod", n, N)), N), "rem(n, N)"),
        (op("floordiv", m, P), "quot(m, P)"),
        (op("floordiv", m, op("floordiv", H, HK)), "quot(m, quot(H, HK))"),
        (op("floordiv", op("sub", m, 1), 16), "floordiv(sub(m, 1), 16)"),
        (op("floordiv", op("neg", op("neg", m)), 4), "quot(m, 4)"),
        (op("minimum", op("add", m, 3), m), "m"),
        (op("mul", op("floordiv", op("mul", 8, m), 4), 1), "mul(m, 2)"),
        (op("mod", op("mul", 128, op("mod", m, 3)), 356), "mul(rem(m, 3), 128)"),
        (op("sub", op("add", m, n), m), "n"),
        (op("add", m, n), "add(m, n)"),
        (op("floordiv", op("add", op("mul", 4, m), op("mod", n, 4)), 8), "quot(m, 2)"),
    ],
)
def test_rewritings(expr: Expr, expected: str) -> None:
    assert text(simplify(expr, SMALL)) == expected


def test_truncating_division_only_without_signs() -> None:
    signed = Facts(ranges={"m": Range(-8, 8)})
    halves = simplify(op("floordiv", op("add", op("mul", 4, m), 3), 4), signed)
    assert halves == m
    assert text(simplify(op("floordiv", m, 2), signed)) == "floordiv(m, 2)"
    assert text(simplify(op("mod", m, 2), signed)) == "mod(m, 2)"
    table = {x: (evaluate(op("floordiv", x, 2), {}), evaluate(op("mod", x, 2), {})) for x in (-7, 7, -8, 5)}
    assert table == {-7: (-4, 1), 7: (3, 1), -8: (-4, 0), 5: (2, 1)}
    assert [evaluate(op("quot", -7, 2), {}), evaluate(op("rem", -7, 2), {})] == [-3, -1]


@pytest.mark.parametrize("x", [0, 1, 5, 7, 63])
def test_nested_remainders_that_sympy_gets_wrong(x: int) -> None:
    for e in (
        op("mod", op("mul", 128, op("mod", m, 3)), 356),
        op("mod", op("mod", op("mul", 2, m), 64), 64),
        op("mod", op("mul", 128, op("mod", m, 6)), 6),
        op("mod", op("sub", 4, op("mod", m, 4)), 4),
    ):
        assert evaluate(simplify(e, Facts()), {"m": x}) == evaluate(e, {"m": x})


def random_expression(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([m, n, N, M, s, integer(rng.randint(-9, 9))])
    kind = rng.random()
    left = random_expression(rng, depth - 1)
    if kind < 0.45:
        return op(rng.choice(["add", "sub"]), left, random_expression(rng, depth - 1))
    if kind < 0.6:
        return op("mul", left, rng.choice([-3, -1, 2, 3, 4, 8]))
    if kind < 0.95:
        divisor = rng.choice([-2, 2, 3, 4, 6, 8, 16]) if rng.random() < 0.7 else rng.choice([N, M])
        return op(rng.choice(["floordiv", "mod"]), left, divisor)
    return op(rng.choice(["minimum", "maximum"]), left, random_expression(rng, depth - 1))


def environment(facts: Facts, *used: Expr) -> dict[str, range]:
    names = {leaf_name(leaf) for e in used for leaf in walk(e)}
    points = {}
    for name, r in facts.ranges.items():
        if name in names and isinstance(name, str) and r.lo is not None and r.hi is not None:
            points[name] = range(r.lo, r.hi + 1, facts.multiples.get(name, 1))
    return points


POSITIVE = Facts(
    ranges={"m": Range(0, 6), "n": Range(0, 5), "N": Range(1, 4), "M": Range(2, 2), "n_start": Range(0, 12)},
    multiples={"n_start": 4},
    constants={"M": 2},
)
SIGNED = Facts(
    ranges={"m": Range(-5, 4), "n": Range(-3, 3), "N": Range(-2, 3), "M": Range(2, 2), "n_start": Range(0, 12)},
    multiples={"n_start": 4},
)


def divisions(e: Expr) -> int:
    return sum(isinstance(x, Apply) and x.fn in DIVISIONS for x in walk(e))


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    changed = 0
    for facts in itertools.islice(itertools.cycle((POSITIVE, SIGNED)), 100):
        e = random_expression(rng, rng.randint(1, 5))
        found = simplify(e, facts)
        changed += found != e
        points = environment(facts, e)
        assert enumerate_equal(e, found, points) is None, (text(e), text(found))
        assert divisions(found) <= divisions(e)
        assert simplify(found, facts) == found or divisions(simplify(found, facts)) <= divisions(found)
        check_bounds(e, facts, points)
    assert changed > 30


def check_bounds(e: Expr, facts: Facts, points: Mapping[str, range]) -> None:
    found = bounds(e, facts)
    for values in itertools.product(*points.values()):
        try:
            value = evaluate(e, dict(zip(points, values, strict=True)))
        except ZeroDivisionError:
            continue
        assert (found.lo is None or found.lo <= value) and (found.hi is None or value <= found.hi), (text(e), found)


def test_enumeration_finds_a_wrong_rewriting() -> None:
    wrong = enumerate_equal(op("floordiv", m, 2), op("quot", m, 2), {"m": range(-3, 3)})
    assert wrong is not None and wrong["m"] in (-3, -1)
    assert enumerate_equal(op("floordiv", m, 2), op("quot", m, 2), {"m": range(9)}) is None


def to_z3(e: Expr) -> z3.ArithRef:
    """z3 divides as Python does where the divisor is positive, as it is in every use here."""
    match e:
        case Const(value=value):
            return z3.IntVal(value)
        case Apply(fn="minimum" | "maximum" as fn, args=(a, b)):
            x, y = to_z3(a), to_z3(b)
            return z3.If((x <= y) if fn == "minimum" else (x >= y), x, y)
        case Apply(fn=fn, args=args):
            x, y = (to_z3(a) for a in args)
            return {"add": x + y, "sub": x - y, "mul": x * y}[fn] if fn in ("add", "sub", "mul") else divided(fn, x, y)
        case _:
            return z3.Int(leaf_name(e) or "?")


def divided(fn: str, x: z3.ArithRef, y: z3.ArithRef) -> z3.ArithRef:
    return x / y if fn in ("floordiv", "quot") else x % y


@pytest.mark.parametrize("seed", range(10))
def test_z3_agrees_without_limits(seed: int) -> None:
    """Rewritings by constants hold for all integers, not only for small ones."""
    rng = random.Random(300 + seed)
    e: Expr = op("add", op("mul", m, rng.choice([3, 8, 16])), n)
    for _ in range(2):
        e = op(rng.choice(["floordiv", "mod", "floordiv"]), e, rng.choice([2, 4, 8, 12, 16]))
        e = op("add", op("mul", e, rng.choice([1, 2, 8])), rng.choice([m, n, integer(rng.randint(-20, 20))]))
    facts = Facts(ranges={"m": Range(None, None), "n": Range(0, 7)})
    solver = z3.Solver()
    solver.set("timeout", 8000)
    solver.add(z3.Int("n") >= 0, z3.Int("n") <= 7, to_z3(e) != to_z3(simplify(e, facts)))
    assert solver.check() == z3.unsat, (text(e), text(simplify(e, facts)))


def test_bounds_keep_related_summands_together() -> None:
    facts = Facts(ranges={"N": Range(0, None), "m": Range(0, 9)})
    assert bounds(op("sub", N, op("mul", op("floordiv", N, 64), 64)), facts) == Range(0, 63)
    assert bounds(op("sub", op("minimum", op("add", m, 4), N), m), facts).hi == 4
    assert bounds(op("mul", m, m), facts) == Range(0, 81)
    assert bounds(op("mul", op("sub", m, 5), op("sub", m, 5)), Facts(ranges={"m": Range(0, 9)})).hi is not None


def test_divisibility() -> None:
    facts = Facts(multiples={"n_start": 64, "H": 8}, constants={"N": 96})
    assert is_multiple(op("add", op("mul", m, 32), s), 16, facts)
    assert is_multiple(op("mul", H, op("mul", m, 2)), 16, facts)
    assert is_multiple(op("add", N, s), 32, facts)
    assert not is_multiple(op("add", op("mul", m, 32), n), 16, facts)
    assert not is_multiple(N, 64, facts)
    assert is_multiple(integer(0), 64, facts)


def test_divisibility_from_conditions_that_hold() -> None:
    whole = cond("eq", op("mod", H, HK), 0)
    facts = Facts(holds=(whole, cond("eq", op("mod", N, P), 0), cond("eq", op("mod", M, 24), 0)), constants={"P": 16})
    assert simplify(op("mul", op("floordiv", H, HK), HK), facts) == H
    assert simplify(op("mod", H, HK), facts) == integer(0)
    assert simplify(op("mul", op("floordiv", N, 16), 16), facts) == N
    assert is_multiple(N, 8, facts) and is_multiple(M, 8, facts) and not is_multiple(M, 16, facts)
    assert prove(whole, facts) is True
    assert not is_multiple(N, 8, Facts(holds=(cond("le", op("mod", N, 16), 3),)))


def test_proofs() -> None:
    facts = Facts(
        ranges={"M": Range(1, None), "N": Range(1, None)},
        holds=(cond("lt", m, M), cond("le", M, N)),
        constants={"causal": 1},
    )
    assert prove(cond("le", op("mul", op("floordiv", N, 64), 64), N), facts) is True
    assert prove(cond("lt", m, N), facts) is True
    assert prove(cond("ge", m, N), facts) is False
    assert prove(cond("lt", op("mod", n, N), N), facts) is True
    assert prove(cond("lt", op("add", m, op("sub", N, M)), N), facts) is True
    assert prove(cond("eq", op("mul", m, 2), op("add", op("mul", n, 2), 1)), facts) is False
    assert prove(cond("eq", op("add", m, n), op("add", n, m)), facts) is True
    assert prove(cond("lt", n, N), facts) is None
    assert prove(cond("and", cond("lt", n, N), cond("ge", m, N)), facts) is False
    assert prove(cond("or", cond("lt", n, N), cond("lt", m, N)), facts) is True
    assert prove(cond("not", Param(BOOL, "causal")), facts) is False
    assert prove(Param(BOOL, "other"), facts) is None


def test_conditions_inside_expressions_are_decided() -> None:
    load = Load(F32, "x", (op("floordiv", op("add", op("mul", m, 16), n), 16),))
    guarded = Apply(F32, "where", (cond("and", cond("ge", m, 0), cond("lt", n, N)), load, Const(F32, 0.0)))
    found = simplify(guarded, SMALL)
    assert found == Apply(F32, "where", (cond("lt", n, N), Load(F32, "x", (m,)), Const(F32, 0.0)))


def test_decided_choices_are_made() -> None:
    facts = Facts(holds=(cond("lt", n, N),))
    assert simplify(op("add", op("where", cond("lt", n, N), n, 0), 1), facts) == op("add", n, 1)
    chosen = Apply(F32, "where", (cond("ge", n, N), Const(F32, 1.0), Const(F32, 2.0)))
    assert simplify(chosen, facts) == Const(F32, 2.0)


def test_opaque_parts_come_back_unchanged() -> None:
    page = Load(I32, "table", (m,))
    e = op("floordiv", op("add", op("mul", page, 16), op("mod", n, 16)), 16)
    assert simplify(e, Facts()) == page
    state = Get(I64, Var("v", I64, ("m",)))
    assert simplify(Apply(I64, "sub", (Apply(I64, "add", (state, Cast(I64, m))), Cast(I64, m))), Facts()) == state


def test_wide_products_stay_wide() -> None:
    wide = Apply(I64, "mul", (Cast(I64, m), Cast(I64, N)))
    e = Apply(I64, "add", (Apply(I64, "sub", (wide, Cast(I64, n))), Cast(I64, n)))
    found = simplify(e, Facts())
    assert text(found) == "mul(i64(m), i64(N))"
    assert all(x.dtype is I64 for x in walk(found) if isinstance(x, Apply | Cast))


def test_width() -> None:
    facts = Facts(ranges={"m": Range(0, 2**20), "n": Range(0, 2**11), "N": Range(0, 2**10)})
    assert fits_i32(op("add", op("mul", m, N), n), facts)
    assert not fits_i32(op("mul", m, op("mul", N, 2)), facts)
    assert not fits_i32(op("floordiv", op("mul", m, op("mul", N, 2)), 4), facts), "the product overflows first"
    assert fits_i32(n, Facts())
    assert not fits_i32(op("add", n, 1), Facts())
    assert not fits_i32(Get(I64, Var("v", I64, ())), Facts())


def test_evaluate_refuses_what_has_no_value() -> None:
    with pytest.raises(TypeError):
        evaluate(Load(I32, "x", (m,)), {"m": 0, "x": 1})
    with pytest.raises(KeyError):
        evaluate(m, {})
    assert evaluate(cond("or", cond("lt", m, 1), cond("eq", op("floordiv", 1, m), 1)), {"m": 0}) is True
