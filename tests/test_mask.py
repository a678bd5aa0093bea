"""Hulls, interiors and segments of guards against brute force over every element of every tile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from kgen.index import Facts, Range, evaluate
from kgen.mask import SegmentBounds, bounds_of, segments, tile_interval
from kgen.terms import Apply, Expr, Param, Pos, Size, apply, integer
from kgen.types import BOOL, I32

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
    return segments(bounds, tile=bn)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize(("bm", "bn"), [(4, 4), (8, 4), (3, 5), (1, 4), (4, 1)])
def test_counts_are_exact(name: str, bm: int, bn: int) -> None:
    guard = EXACT[name]
    found = found_for(guard, bm, bn)
    for rows, columns, width in itertools.product((1, 4, 7, 13), (0, 3, 8, 17), (1, 5)):
        env = {"M": rows, "N": columns, "W": width}
        count = check(guard, found, env, bm, bn)
        assert (count.executed, count.masked) == (count.least_executed, count.least_masked), (env, found)
