"""Which sizes, parameters and kinds of input a spec is tested with: small ones, chosen from the tiles, cheap first."""

from __future__ import annotations

import itertools
import math as numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kgen import terms
from kgen.errors import KgenError
from kgen.math import Math
from kgen.types import BOOL
from kgen.verify.binding import Scalar, Sizes, bind, holds
from kgen.verify.inputs import special_tensors

SMALL = (3, 2, 4)  # extents of axes without a tile, by turn
BATCH = (2, 1)  # the same beside tied sizes, which multiply them
# Sizes that a check or definition ties together: ratios 3, 5 and 17 are no powers of two, 17 is above a small tile.
DIVIDENDS = (6, 3, 5, 17, 4, 2, 1)
DIVISORS = (2, 1, 1, 1, 3)
WHOLE = 16  # stands for the tile of a reduced axis that has none
TRIES = 4000


@dataclass(frozen=True)
class Case:
    """One call: free sizes (definitions follow from them), parameters, the kind and seed of its inputs.

    `fixed` names the sizes that belong to the variant under test: shrinking leaves them.
    """

    sizes: dict[str, int]
    params: dict[str, Scalar]
    kind: str
    seed: int
    label: str
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """What a case wants: an extent for each tiled size by name, and an index into the other sizes' preferences.

    `single`: 1 for those.
    """

    label: str
    tiled: Mapping[str, int]
    turn: int = 0
    params: Mapping[str, Scalar] = field(default_factory=dict)
    kind: str = "typical"
    single: bool = False


def cases_for(
    math: Math,
    tiles: Mapping[str, int],
    quick: bool,
    fixed: Mapping[str, int] | None = None,
    fixed_params: Mapping[str, Scalar] | None = None,
) -> list[Case]:
    """Return about 7 (`quick`) or 25 cases, cheap first.

    `tiles` gives the tile of each tiled axis; `fixed` and `fixed_params` are what a variant has at compile time. Sizes
    that the spec's checks tie are searched for; a case that no sizes satisfy is left out. KgenError if none is left.
    """
    sizes, given = _Sizes(math, tiles, fixed or {}), dict(fixed_params or {})
    found: dict[tuple[object, ...], Case] = {}
    for seed, plan in enumerate(_quick_plans(math, sizes) if quick else _plans(math, sizes)):
        if given.keys() & plan.params.keys():
            continue
        params = {**given, **plan.params}
        chosen = sizes.search(plan, params)
        if chosen is None:
            continue
        case = Case(chosen, params, plan.kind, seed, plan.label, frozenset(fixed or {}))
        key = (tuple(sorted(chosen.items())), tuple(sorted(params.items())), plan.kind)
        found.setdefault(key, case)
    if not found:
        raise KgenError(f"{math.name}: no sizes found that satisfy the spec's checks")
    return sorted(found.values(), key=lambda c: _cost(math, c))


def _quick_plans(math: Math, sizes: _Sizes) -> Iterator[Plan]:
    ragged = sizes.all_tiled(lambda t: t + 1)
    yield Plan("one element", sizes.all_tiled(lambda t: 1), single=True)
    yield Plan("tile + 1", ragged)
    yield from itertools.islice(_uneven(sizes), 2)
    yield from itertools.islice(_empty(math, sizes), 1)
    yield from itertools.islice(_params(math, ragged), 1)
    yield Plan("strided", ragged, kind="strided")
    yield Plan("huge", sizes.all_tiled(lambda t: t - 1), turn=1, kind="huge")


def _plans(math: Math, sizes: _Sizes) -> Iterator[Plan]:
    ragged = sizes.all_tiled(lambda t: t + 1)
    yield Plan("one element", sizes.all_tiled(lambda t: 1), single=True)
    yield Plan("one tile", sizes.all_tiled(lambda t: t))
    yield Plan("tile - 1", sizes.all_tiled(lambda t: t - 1), turn=1)
    yield Plan("tile + 1", ragged)
    yield Plan("2 tiles + 3", sizes.all_tiled(lambda t: 2 * t + 3), turn=1)
    yield from _uneven(sizes)
    yield from _many(math, sizes)
    yield from _empty(math, sizes)
    yield from _params(math, ragged)
    yield from _choices(math, sizes, ragged)
    yield from (Plan(f"tied sizes {turn}", ragged, turn=turn) for turn in range(2, 4) if sizes.tied)
    for kind in ("strided", "integers", "huge", "infinite", "nan"):
        if kind not in ("infinite", "nan") or special_tensors(math, kind):
            yield Plan(kind, ragged, turn=1, kind=kind)
    yield Plan("strided, uneven", sizes.all_tiled(lambda t: 2 * t + 3), turn=1, kind="strided")
    yield Plan("huge, one tile", sizes.all_tiled(lambda t: t), turn=1, kind="huge")


def _uneven(sizes: _Sizes) -> Iterator[Plan]:
    """Extents of tiled axes that differ, both ways: under a causal mask, rows and tiles that are fully masked, and
    several that are not masked at all."""
    for name in sizes.tiled:
        others = {n: max(1, t // 2) for n, t in sizes.tiled.items()}
        yield Plan(f"long {name}", {**others, name: 3 * sizes.tiled[name] + 3}, turn=1)


def _many(math: Math, sizes: _Sizes) -> Iterator[Plan]:
    """More tiles of an output's axis than programs are grouped by, two of the others, little to reduce."""
    reduced = reduced_axes(math)
    outer = [n for n in sizes.tiled if sizes.axis_of[n] not in reduced]
    for name in outer:
        little = {n: sizes.tiled[n] + 1 if n in outer else 2 for n in sizes.tiled}
        yield Plan(f"10 tiles of {name}", {**little, name: 9 * sizes.tiled[name] + 1}, turn=1)


def _empty(math: Math, sizes: _Sizes) -> Iterator[Plan]:
    """One size 0 at a time, reduced axes first."""
    reduced = reduced_axes(math)
    names = [n for n, axis in sizes.axis_of.items() if n not in sizes.choices]
    for name in sorted(names, key=lambda n: sizes.axis_of[n] not in reduced):
        yield Plan(f"empty {name}", {**sizes.all_tiled(lambda t: t - 1), name: 0}, turn=1)


def _params(math: Math, extents: Mapping[str, int]) -> Iterator[Plan]:
    """Each bool parameter at the values that are not its default."""
    for p in math.params.values():
        if p.dtype is BOOL:
            default = p.default.value if isinstance(p.default, terms.Const) else None
            values = [v for v in (False, True) if v is not default]
            yield from (Plan(f"{p.name} {v}", extents, turn=1, params={p.name: v}) for v in values)


def _choices(math: Math, sizes: _Sizes, extents: Mapping[str, int]) -> Iterator[Plan]:
    """The second and the last allowed value of each static size."""
    for name, values in sizes.choices.items():
        for value in dict.fromkeys((values[min(1, len(values) - 1)], values[-1])):
            if value <= 128 and value != values[0]:
                yield Plan(f"{name} = {value}", {**extents, name: value}, turn=1)


def reduced_axes(math: Math) -> set[str]:
    """Return the axes that a reduction runs over."""
    nodes = [n for s in math.statements for n in terms.walk(s.expr)]
    return {a for n in nodes if isinstance(n, terms.Reduce) for a in n.axes}


def _cost(math: Math, case: Case) -> tuple[int, int]:
    extents = bind(math, case.sizes, case.params).extents
    return numbers.prod(max(1, n) for n in extents.values()), case.seed


class _Sizes:
    """The free sizes of a spec: which follow a tile, which have choices, which are tied by checks."""

    def __init__(self, math: Math, tiles: Mapping[str, int], fixed: Mapping[str, int]) -> None:
        self.math = math
        self.fixed = fixed
        defs = {s.name: s for s in math.sizes.values() if s.definition is None}
        self.free = [n for n in defs if n not in fixed]
        self.axis_of = {
            a.extent.name: a.name
            for a in math.axes.values()
            if isinstance(a.extent, terms.Size) and a.extent.name in self.free
        }
        axis_choices = {n: math.axes[a].choices for n, a in self.axis_of.items()}
        self.choices: dict[str, tuple[int, ...]] = {}
        for name in self.free:
            values = defs[name].choices or axis_choices.get(name)
            if values:
                self.choices[name] = values
        walked = {a: tiles.get(a, WHOLE) for a in reduced_axes(math) | set(tiles)}
        self.tiled = {n: walked[a] for n, a in self.axis_of.items() if a in walked and n not in self.choices}
        self.tied = self._tied()
        self.divisors = self._divisors()

    def all_tiled(self, rule: Callable[[int], int]) -> dict[str, int]:
        """Return the extent that `rule` gives for the tile of each tiled size."""
        return {n: max(1, rule(t)) for n, t in self.tiled.items()}

    def search(self, plan: Plan, params: Mapping[str, Scalar]) -> dict[str, int] | None:
        """Return the sizes nearest to the plan that satisfy the checks and give no negative size, None if none do."""
        options = [self._options(n, plan) for n in self.free]
        for combo in itertools.islice(_nearest_first(options), TRIES):
            sizes = dict(self.fixed) | dict(zip(self.free, combo, strict=True))
            if self._legal(sizes, params):
                return sizes
        return None

    def _legal(self, sizes: dict[str, int], params: Mapping[str, Scalar]) -> bool:
        try:
            call = bind(self.math, sizes, params)
            return holds(self.math, call) and _sane(call)
        except KgenError:
            return False

    def _options(self, name: str, plan: Plan) -> list[int]:
        """Return the values to try for a size, the preferred one first."""
        if name in plan.tiled:
            wanted = plan.tiled[name]
            alone = wanted == 0 or name in self.choices
            return [wanted] if alone else [wanted, *self._repairs(name, wanted)]
        if name in self.choices:
            return list(self.choices[name][:4])
        if name not in self.tied:
            small = BATCH if self.tied else SMALL
            return [1 if plan.single else small[min(plan.turn, len(small) - 1)]]
        base = DIVISORS if name in self.divisors else DIVIDENDS
        turn = plan.turn % len(base)
        return list(dict.fromkeys((*((1,) if plan.single else ()), *base[turn:], *base[:turn])))

    def _repairs(self, name: str, wanted: int) -> list[int]:
        """Return other extents for a tiled size that a check ties: multiples of 2 and of tiles, other tiles."""
        if name not in self.tied:
            return []
        tile = self.tiled.get(name, 1)
        return list(dict.fromkeys([wanted + wanted % 2, tile, 2 * tile, 2 * wanted, *self.tiled.values()]))

    def _tied(self) -> frozenset[str]:
        """Return the sizes that a check or a definition with another size reads."""
        exprs = [c.condition for c in self.math.checks]
        exprs += [s.definition for s in self.math.sizes.values() if s.definition is not None]
        return frozenset(n for e in exprs for n in _names(e))

    def _divisors(self) -> frozenset[str]:
        """Return the tied sizes that another is divided by."""
        exprs = [c.condition for c in self.math.checks]
        exprs += [s.definition for s in self.math.sizes.values() if s.definition is not None]
        nodes = [n for e in exprs for n in terms.walk(e) if isinstance(n, terms.Apply)]
        return frozenset(n for a in nodes if a.fn in ("floordiv", "mod") for n in _names(a.args[1]))


def _names(e: terms.Expr) -> set[str]:
    return {n.name for n in terms.walk(e) if isinstance(n, terms.Size)}


def _nearest_first(options: list[list[int]]) -> Iterator[tuple[int, ...]]:
    """Yield all combinations of one value from each list, in order of how far down their lists they go together."""
    for depth in range(sum(len(o) - 1 for o in options) + 1):
        yield from _at_depth(options, depth)


def _at_depth(options: list[list[int]], depth: int) -> Iterator[tuple[int, ...]]:
    if not options:
        if depth == 0:
            yield ()
        return
    first, rest = options[0], options[1:]
    for at, value in enumerate(first[: depth + 1]):
        for tail in _at_depth(rest, depth - at):
            yield (value, *tail)


def _sane(call: Sizes) -> bool:
    return all(n >= 0 for n in call.sizes.values()) and numbers.prod(max(1, n) for n in call.extents.values()) < 10**9
