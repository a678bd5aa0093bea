"""No field without an effect: what a schedule names must be something that the kernel it is for has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kgen.configure_config import Config
from kgen.configure_levels import Levels
from kgen.configure_roles import reduced_axes, used_axes
from kgen.errors import fail
from kgen.math import Stmt
from kgen.source import Span
from kgen.terms import Reduce, free_axes, walk

Statements = tuple[Stmt, ...]


def check_effects(levels: Levels, config: Config, rest: Statements, kernels: Mapping[str, Statements]) -> None:
    """Raise SpecError for a field that no kernel reads. `rest`: statements of the kernel of `config` itself.

    `kernels`: those of the kernels of their own.
    """
    made = [(config, rest), *((config.kernels[n], statements) for n, statements in kernels.items())]
    _check_grid(levels, [c for c, _ in made])
    _check_loops(levels, made)
    _check_split(levels, made)
    for name, statements in kernels.items():
        own = levels.own(name)
        _check_axes(own, name, statements)
        _check_grid(own, [config.kernels[name]])
        _check_loops(own, [(config.kernels[name], statements)])


def _check_grid(levels: Levels, configs: list[Config]) -> None:
    """Every axis that `grid` and `grid_swizzle` name is in the grid of a kernel, and a swizzle moves programs."""
    used = {a for c in configs for a, _ in c.grid}
    for name, place in (*_listed(levels, "grid"), *_listed(levels, "grid_swizzle")):
        if name not in used:
            raise fail(place, f"'{name}' is no axis of the grid", f"it is a {configs[0].roles[name]} axis")
    slower = {a for c in configs for a, _ in c.grid[:-1]}
    swizzled = list(_listed(levels, "grid_swizzle"))
    for name, place in swizzled:
        if name not in slower:
            message = f"'{name}' varies fastest in the grid: its programs run together already"
            raise fail(place, message, f"group {' or '.join(sorted(slower))}" if slower else "remove 'grid_swizzle'")
        if len(swizzled) > 1:
            raise fail(place, "one axis of the grid can be grouped, and this names several")


def _listed(levels: Levels, field: str) -> Iterator[tuple[str, Span]]:
    given = levels.value(field)
    for item in given[0] if given else ():
        yield (item if isinstance(item, str) else item[0]), given[1]  # type: ignore[index]


def _check_axes(own: Levels, kernel: str, statements: Statements) -> None:
    """Every axis that `kernels.<name>.axes` names is one of that kernel."""
    axes = sorted(used_axes(statements))
    for level in own.levels:
        for name in level.fields.axes:
            if name not in axes:
                place = own.spec.span(*level.path, "axes", name, key=True)
                raise fail(place, f"the kernel of '{kernel}' has no axis '{name}'", f"it has {', '.join(axes)}")


def _check_loops(levels: Levels, made: list[tuple[Config, Statements]]) -> None:
    """The order of loops says something only where one is inside another."""
    given = levels.value("loops")
    if given is None or any(len(streams) > 1 for config, statements in made for streams in _nests(config, statements)):
        return
    raise fail(given[1], "no loop is inside another here, so 'loops' has no effect", "remove 'loops'")


def _nests(config: Config, statements: Statements) -> Iterator[set[str]]:
    """Yield the stream axes of each output and of each reduction with what it keeps."""
    streams = {a for a, r in config.roles.items() if r == "stream"}
    for statement in statements:
        yield streams & set(statement.axes)
        for e in walk(statement.expr):
            if isinstance(e, Reduce):
                yield streams & ({*e.axes} | free_axes(e))


def _check_split(levels: Levels, made: list[tuple[Config, Statements]]) -> None:
    """Something is reduced over every axis that is split."""
    split = {a for config, statements in made for a in used_axes(statements) if config.axes[a].split is not None}
    reduced = {a for c, statements in made for a in reduced_axes(statements) if c.axes[a].split is not None}
    for name in sorted(split - reduced):
        given = levels.axis(name, "split") or next(
            g for n in made[0][0].kernels if (g := levels.kernel(n).axis(name, "split")) is not None
        )
        raise fail(given.span, f"nothing is reduced over '{name}', so 'split' has no effect", "remove 'split'")
