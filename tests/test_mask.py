"""Hulls, interiors and segments of guards against brute force over every element of every tile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgen.index import Facts, Range, evaluate
from kgen.mask import Interval, SegmentBounds, bounds_between, bounds_of, named_segments, segments, tile_interval
from kgen.terms import Apply, Cast, Const, Expr, Get, Load, Param, Pos, Size, Var, apply, free_axes, integer, walk
from kgen.types import BOOL, I32, I64

m, n, b = Pos(I32, "m"), Pos(I32, "n"), Pos(I32, "b")
M, N, W = Size(I32, "M"), Size(I32, "N"), Param(I32, "W")
OFFSET = apply("sub", N, M)
FACTS = Facts(ranges={"M": Range(0, None), "N": Range(0, None), "W": Range(1, None)})


def op(fn: str, *args: Expr | int) -> Expr:
    return apply(fn, *(integer(a) if isinstance(a, int) else a for a in args))


def test(fn: str, *args: Expr | int) -> Expr:  # a condition
    return Apply(BOOL, fn, op(fn, *args).args)  # type: ignore[attr-defined]


test.__test__ = False  # type: ignore[attr-defined]

CAUSAL = test("le", n, op("sub", op("add", m, N), M))
NOT_CAUSAL = test("not", test("lt", m, op("sub", n, OFFSET)))
STEEP = test("le", op("mul", 2, n), op("add", op("mul", 3, m), 1))
BLOCKS = test("le", op("floordiv", n, 4), op("floordiv", m, 4))
WINDOW = test("and", test("lt", op("sub", m, n), W), test("le", n, m))
OFFSET_ROW = op("add", m, OFFSET)
OFFSET_WINDOW = test("and", test("lt", op("sub", OFFSET_ROW, n), W), test("le", n, OFFSET_ROW))
SINK = test("and", test("le", n, m), test("or", test("lt", op("sub", m, n), W), test("lt", n, 4)))
OFFSET_SINK = test(
    "and", test("le", n, OFFSET_ROW), test("or", test("lt", op("sub", OFFSET_ROW, n), W), test("lt", n, 4))
)
EXACT = {
    "causal": CAUSAL,
    "causal by not": NOT_CAUSAL,
    "steep": STEEP,
    "blocks": BLOCKS,
    "window": WINDOW,
    "window, bottom right": OFFSET_WINDOW,
    "window or first": SINK,
    "window or first, bottom right": OFFSET_SINK,
    "window to both sides": test(
        "and", test("ge", n, op("sub", OFFSET_ROW, 1)), test("le", n, op("add", OFFSET_ROW, 1))
    ),
    "strictly above": test("gt", n, m),
    "from a row on": test("ge", n, op("sub", m, 3)),
    "not equal": test("ne", n, m),
    "equal": test("eq", n, op("add", m, 2)),
    "same block": test("eq", op("floordiv", n, 4), op("floordiv", m, 4)),
    "rows": test("lt", m, 5),
    "falling": test("le", op("add", m, n), 9),
    "shifted blocks": test("ge", op("floordiv", op("sub", n, 2), 3), op("sub", m, 4)),
}


@dataclass
class Count:
    executed: int = 0
    masked: int = 0
    least_executed: int = 0
    least_masked: int = 0


def tiles_of(found: tuple[SegmentBounds, ...], env: Mapping[str, int], tile: int) -> Iterator[tuple[int, str]]:
    """Yield (first position, kind) of each tile that the segments visit."""
    for s in found:
        lo, hi = evaluate(s.lo, env), evaluate(s.hi, env)
        assert lo >= hi or (lo % tile == 0 and hi % tile == 0), (s, lo, hi)
        yield from ((start, s.kind) for start in range(int(lo), int(hi), tile))


def check(guard: Expr | None, found: tuple[SegmentBounds, ...], env: Mapping[str, int], bm: int, bn: int) -> Count:
    """Check the segments for all tiles of m in one environment, and count tiles against the fewest possible."""
    total = Count()
    for start in range(0, env["M"], bm):
        rows = range(start, min(start + bm, env["M"]))
        visited = list(tiles_of(found, {**env, "m_start": start}, bn))
        assert [t for t, _ in visited] == sorted({t for t, _ in visited}), f"{visited}: a tile twice or out of order"
        kinds = dict(visited)
        for t in range(0, env["N"], bn):
            held = [
                c < env["N"] and (guard is None or bool(evaluate(guard, {**env, "m": r, "n": c})))
                for r in rows
                for c in range(t, t + bn)
            ]
            kind = kinds.pop(t, None)
            assert kind is not None or not any(held), f"tile {t} of rows {rows} is missing with {env}"
            assert kind != "plain" or all(held), f"tile {t} of rows {rows} is plain with {env}"
            in_extent = all(h for h, c in zip(held, itertools.cycle(range(t, t + bn))) if c < env["N"])
            assert kind != "tail" or in_extent, f"tile {t} of rows {rows} is a tail with {env}"
            total.executed += kind is not None
            total.masked += kind in ("masked", "tail")
            total.least_executed += any(held)
            total.least_masked += any(held) and not all(held)
        assert not kinds, f"tiles {kinds} are outside the extent"
    return total


def found_for(guard: Expr | None, bm: int, bn: int, facts: Facts = FACTS) -> tuple[SegmentBounds, ...]:
    bounds = bounds_of(guard, "n", N, {"m": tile_interval("m", bm, M)}, facts)
    found = segments(bounds, tile=bn)
    assert len(bounds.hull) <= 4
    assert all(x.dtype is I32 and not free_axes(x) for s in found for x in (s.lo, s.hi))
    return found


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("bm", "bn"), [(4, 4), (8, 4), (3, 5), (1, 4), (4, 1)])
def test_counts_are_exact(name: str, bm: int, bn: int) -> None:
    guard = EXACT[name]
    found = found_for(guard, bm, bn)
    for rows, columns, width in itertools.product((1, 4, 7, 13), (0, 3, 8, 17), (1, 5)):
        env = {"M": rows, "N": columns, "W": width}
        count = check(guard, found, env, bm, bn)
        assert (count.executed, count.masked) == (count.least_executed, count.least_masked), (env, found)


def affine(draw: st.DrawFn, stream: bool) -> Expr:
    coefficient = st.sampled_from([-3, -2, -1, 1, 2, 3])
    e: Expr = integer(draw(st.integers(-6, 6)))
    for leaf in draw(st.lists(st.sampled_from([m, n, M, N, W] if stream else [m, M, N, W]), min_size=1, max_size=3)):
        e = op("add", e, op("mul", draw(coefficient), leaf))
    if draw(st.integers(0, 3)) == 0:
        e = op(draw(st.sampled_from(["floordiv", "floordiv", "mod"])), e, draw(st.sampled_from([2, 3, 4])))
    return e


@st.composite
def guards(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Comparisons of (floor divided) affine expressions, and their combinations."""
    kind = draw(st.sampled_from(["comparison", "and", "or", "not"])) if depth else "comparison"
    if kind == "comparison":
        fn = draw(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]))
        left = n if draw(st.booleans()) else affine(draw, True)
        return test(fn, left, affine(draw, draw(st.integers(0, 4)) == 0))
    parts = [draw(guards(depth=depth - 1)) for _ in range(1 if kind == "not" else 2)]
    return test(kind, *parts)


SIZES = st.fixed_dictionaries({"M": st.integers(0, 11), "N": st.integers(0, 14), "W": st.integers(1, 6)})
TILES = st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 4, 5]))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(guards(), TILES, st.lists(SIZES, min_size=4, max_size=4))
def test_any_guard_is_sound(guard: Expr, tiles: tuple[int, int], sizes: list[dict[str, int]]) -> None:
    found = found_for(guard, *tiles)
    for env in sizes:
        check(guard, found, env, *tiles)


def rising(draw: st.DrawFn) -> Expr:
    """An end that never falls as m grows."""
    e = op("add", op("mul", draw(st.integers(0, 3)), m), draw(st.integers(-9, 9)))
    e = op("add", e, draw(st.sampled_from([integer(0), M, N, OFFSET, op("neg", W)])))
    return op("floordiv", e, draw(st.sampled_from([1, 1, 2, 3])))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), TILES, st.lists(SIZES, min_size=4, max_size=4))
def test_monotone_comparisons_in_one_direction_are_exact(
    data: st.DataObject, tiles: tuple[int, int], sizes: list[dict[str, int]]
) -> None:
    fns = data.draw(st.sampled_from([["le", "lt"], ["ge", "gt"]]))
    scale = data.draw(st.sampled_from([1, 2, 3]))
    parts = [test(data.draw(st.sampled_from(fns)), op("mul", scale, n), rising(data.draw)) for _ in range(2)]
    guard = test("and", *parts) if data.draw(st.booleans()) else parts[0]
    found = found_for(guard, *tiles)
    for env in sizes:
        count = check(guard, found, env, *tiles)
        assert (count.executed, count.masked) == (count.least_executed, count.least_masked), (env, found)


UNSPLIT = {"none": None, "causal": CAUSAL, "window": OFFSET_WINDOW, "sink": OFFSET_SINK, "unequal": test("ne", n, m)}


@pytest.mark.parametrize("name", UNSPLIT)
@pytest.mark.parametrize("bn", [4, 3])
def test_named_ends_and_splits_visit_the_same_tiles(name: str, bn: int) -> None:
    lo, hi = (Get(I32, Var(x, I32, ())) for x in ("lo", "hi"))
    facts = Facts(ranges={**FACTS.ranges, "lo": Range(0, None)}, multiples={"lo": bn, "hi": bn})
    bounds = bounds_of(UNSPLIT[name], "n", N, {"m": tile_interval("m", 4, M)}, facts)
    lets, short = named_segments(bounds, "n", tile=bn)
    assert {v for v, _ in lets} == {x.var for x in all_parts(short, lets) if isinstance(x, Get)}
    whole, part = segments(bounds, tile=bn), segments(bounds, tile=bn, lower=lo, upper=hi)
    for rows, columns, parts in itertools.product((3, 9), (0, 5, 8, 18), (1, 2, 3)):
        for start in range(0, rows, 4):
            env = {"M": rows, "N": columns, "W": 5, "m_start": start}
            tiles = list(tiles_of(whole, env, bn))
            named = dict(env)
            for var, e in lets:
                named[var.name] = int(evaluate(e, named))
            assert list(tiles_of(short, named, bn)) == tiles
            count = -(-columns // bn)
            each = -(-count // parts)
            cuts = [min(i * each, count) * bn for i in range(parts + 1)]
            pieces = [tiles_of(part, {**env, "lo": a, "hi": b}, bn) for a, b in itertools.pairwise(cuts)]
            assert [t for p in pieces for t in p] == tiles


def all_parts(found: tuple[SegmentBounds, ...], lets: tuple[tuple[Var, Expr], ...]) -> Iterator[Expr]:
    for e in (*(x for s in found for x in (s.lo, s.hi)), *(e for _, e in lets)):
        yield from walk(e)


def kinds(found: tuple[SegmentBounds, ...]) -> list[str]:
    return [s.kind for s in found]


def test_without_a_guard() -> None:
    found = found_for(None, 4, 4)
    assert kinds(found) == ["plain", "tail"]
    assert found[0].hi == found[1].lo == op("mul", op("quot", N, 4), 4)
    whole = Facts(ranges=FACTS.ranges, multiples={"N": 8})
    assert found_for(None, 4, 4, whole) == (SegmentBounds(integer(0), N, "plain"),)
    required = FACTS.assuming(test("eq", op("mod", N, 4), 0))
    assert found_for(None, 4, 4, required) == found_for(None, 4, 4, whole)
    assert kinds(found_for(CAUSAL, 4, 4, whole)) == ["plain", "masked"]
    assert kinds(found_for(test("ge", n, m), 4, 4, whole)) == ["masked", "plain"]


def test_conditions_that_are_the_same_for_the_whole_tile() -> None:
    flag = Param(BOOL, "flag")
    guard = test("or", test("not", flag), CAUSAL)
    known = {value: Facts(ranges=FACTS.ranges, constants={"flag": value}) for value in (0, 1)}
    assert found_for(guard, 4, 4, known[1]) == found_for(CAUSAL, 4, 4)
    assert found_for(guard, 4, 4, known[0]) == found_for(None, 4, 4)
    for rows, columns, value in itertools.product((3, 9), (5, 17), (False, True)):
        env = {"M": rows, "N": columns, "W": 1, "flag": value}
        count = check(guard, found_for(guard, 4, 4), env, 4, 4)
        assert count.executed == count.least_executed
        both = test("and", test("lt", M, 5), CAUSAL)
        count = check(both, found_for(both, 4, 4), env, 4, 4)
        assert (count.executed, count.masked) == (count.least_executed, count.least_masked)
    assert found_for(Const(BOOL, False), 4, 4) == ()
    assert found_for(test("lt", N, 0), 4, 4) == ()


def test_lookups_hold_anywhere_and_nowhere_certainly() -> None:
    documents = test("eq", Load(I32, "doc", (m,)), Load(I32, "doc", (n,)))
    assert kinds(found_for(documents, 4, 4)) == ["masked"]
    causal = found_for(CAUSAL, 4, 4)
    both = found_for(test("and", CAUSAL, documents), 4, 4)
    assert kinds(both) == ["masked"] and both[0].hi == causal[-1].hi
    assert kinds(found_for(test("eq", op("mod", n, 3), 0), 4, 4)) == ["masked"]


def test_scalar_lookups_bound_the_loop() -> None:
    length = Load(I32, "kv_len", (b,))
    bounds = bounds_of(test("lt", n, length), "n", N, {"m": tile_interval("m", 4, M)}, FACTS)
    assert bounds.hull == bounds.interior
    assert length in set(walk(bounds.hull[0].hi))


def test_packed_rows_of_one_position_need_no_mask() -> None:
    """Rows r = m * G + g of a decode step: with M = 1, n <= m + len - M is the extent itself."""
    r, group, length = Pos(I32, "r"), Size(I32, "G"), Get(I32, Var("len", I32, ()))
    guard = test("le", n, op("sub", op("add", op("floordiv", r, group), length), M))
    ranges = {"G": Range(1, None), "len": Range(0, None), "M": Range(1, None)}
    tiles = {"r": tile_interval("r", 16, op("mul", M, group))}
    one = bounds_of(guard, "n", length, tiles, Facts(ranges=ranges, constants={"M": 1}))
    assert one.hull == one.interior == (Interval(integer(0), length),)
    assert kinds(segments(one, tile=64)) == ["plain", "tail"]
    many = bounds_of(guard, "n", length, tiles, Facts(ranges=ranges))
    assert kinds(segments(many, tile=64)) == ["plain", "masked"]


def test_more_than_four_intervals_are_merged() -> None:
    islands = [
        test("and", test("ge", n, op("mul", 10, i)), test("lt", n, op("add", op("mul", 10, i), i + 1)))
        for i in range(6)
    ]
    guard = test("or", *islands)
    found = found_for(guard, 4, 1)
    count = check(guard, found, {"M": 4, "N": 70, "W": 1}, 4, 1)
    assert count.least_executed == 21 < count.executed < 60
    known = found_for(test("or", *islands[:4]), 4, 1)
    count = check(test("or", *islands[:4]), known, {"M": 4, "N": 70, "W": 1}, 4, 1)
    assert count.executed == count.least_executed


def test_window_or_first_tokens_does_not_walk_the_gap() -> None:
    found = found_for(SINK, 8, 8)
    count = check(SINK, found, {"M": 200, "N": 200, "W": 16}, 8, 8)
    assert count.executed < 25 * 5, "a convex hull would walk 325 tiles"


def test_wide_parameters_are_narrowed_after_clamping() -> None:
    width = Param(I64, "W")
    row, column = Cast(I64, m), Cast(I64, n)
    guard = test("and", Apply(BOOL, "lt", (Apply(I64, "sub", (row, column)), width)), test("le", n, m))
    found = found_for(guard, 4, 4)
    for end in (x for s in found for x in (s.lo, s.hi)):
        for part in walk(end):
            assert (
                not isinstance(part, Apply)
                or all(a.dtype in (part.dtype, BOOL) for a in part.args)
                or part.dtype is BOOL
            )
    for value in (1, 5, 2**40):
        count = check(guard, found, {"M": 13, "N": 17, "W": value}, 4, 4)
        assert (count.executed, count.masked) == (count.least_executed, count.least_masked)
    ends = [evaluate(x.arg, {"M": 13, "N": 17, "W": 2**40, "m_start": 8}) for x in all_casts(found)]
    assert ends and all(0 <= x <= 20 for x in ends)


def all_casts(found: tuple[SegmentBounds, ...]) -> list[Cast]:
    parts = (x for s in found for e in (s.lo, s.hi) for x in walk(e))
    return [x for x in parts if isinstance(x, Cast) and x.dtype is I32]


def test_a_loop_shared_by_two_guards() -> None:
    near = test("lt", n, op("add", m, 9))
    tiles = {"m": tile_interval("m", 4, M)}
    found = segments(bounds_between(test("or", CAUSAL, near), test("and", CAUSAL, near), "n", N, tiles, FACTS), tile=4)
    for rows, columns in itertools.product((3, 9), (5, 17)):
        for start in range(0, rows, 4):
            env = {"M": rows, "N": columns, "m_start": start}
            visited = dict(tiles_of(found, env, 4))
            for t in range(0, columns, 4):
                points = itertools.product(range(start, min(start + 4, rows)), range(t, min(t + 4, columns)))
                held = [[evaluate(g, {**env, "m": r, "n": c}) for g in (CAUSAL, near)] for r, c in points]
                assert t in visited or not any(map(any, held))
                assert visited.get(t) != "plain" or all(map(all, held))
    everywhere = segments(bounds_between(None, CAUSAL, "n", N, tiles, FACTS), tile=4)
    assert kinds(everywhere) == ["plain", "masked"]
    assert everywhere[-1].hi == found_for(None, 4, 4)[-1].hi
