"""Configure: what the schedule of a spec decides for one target and one choice of dtypes, static sizes and params.

A field's value is the last of: the axis itself, `schedule`, `schedule.<backend>`, `schedule.<backend>.<arch>` (the
newest listed one the target can run), and the first of `cases` that holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kgen.configure_axis import AxisConfig, structure
from kgen.configure_config import Config, Materialize
from kgen.configure_effect import check_effects
from kgen.configure_levels import BACKENDS, Levels, check_axis_names, levels_for
from kgen.configure_roles import Role, check_reductions, closure, output_axes, role
from kgen.configure_target import Target, target_fields
from kgen.configure_triton import check_warps
from kgen.configure_when import Facts
from kgen.errors import KgenError, SpecError, fail, nearest
from kgen.math import Math, Stmt
from kgen.resolve_constants import Number, evaluate, static_values
from kgen.spec import Spec
from kgen.spec_model import MaterializeModel
from kgen.types import DTYPES, DType

__all__ = ["AxisConfig", "Config", "Materialize", "Target", "configure"]


def configure(
    math: Math,
    spec: Spec,
    *,
    backend: str,
    arch: str,
    dtypes: Mapping[str, DType],
    sizes: Mapping[str, int],
    params: Mapping[str, Number],
) -> Config:
    """Return the configuration of `math` for a target; raise SpecError for fields that mean nothing there.

    `sizes`: every size with a list of values; `params`: static params.
    """
    if backend not in BACKENDS:
        raise KgenError(f"unknown backend '{backend}' (backends are {', '.join(BACKENDS)})")
    known = static_values(math, sizes)
    run_time = frozenset({*math.sizes, *math.params} - set(known) - set(params))
    levels = levels_for(spec, backend, arch, Facts({**dtypes, **known, **params}, run_time))
    return _Configure(math, spec, backend, arch, dtypes, known, levels).run()


@dataclass(frozen=True)
class _Configure:
    math: Math
    spec: Spec
    backend: str
    arch: str
    dtypes: Mapping[str, DType]
    known: Mapping[str, Number]
    levels: Levels

    def run(self) -> Config:
        materialize = self.materialize()
        overridden = self.levels.kernel_names()
        outputs = [x.name for x in self.math.statements if x.tensor is not None]
        for name, place in overridden.items():
            if name not in materialize and name not in outputs:
                known = [*outputs, *materialize]
                raise fail(
                    place, f"no kernel produces '{name}'", nearest(name, known) or f"kernels produce {', '.join(known)}"
                )
        cut = frozenset(materialize)
        own = {
            n: self.one(self.levels.kernel(n), (n,), cut)
            for n in [*materialize, *outputs]
            if n in cut or n in overridden
        }
        rest = [n for n in outputs if n not in own]
        config = self.one(self.levels, rest, cut, materialize, own)
        statements = {n: closure(self.math, (n,), cut) for n in own}
        check_effects(self.levels, config, closure(self.math, rest, cut), statements)
        return config

    def one(
        self,
        levels: Levels,
        roots: Any,
        cut: frozenset[str],
        materialize: dict[str, Materialize] | None = None,
        kernels: dict[str, Config] | None = None,
    ) -> Config:
        """Return the configuration of the kernel that produces `roots`."""
        check_axis_names(levels, tuple(self.math.axes))
        check_warps(levels, self.arch)
        statements = closure(self.math, roots, cut)
        axes = {name: structure(levels, name) for name in self.math.axes}
        roles = {n: role(a.tile, a.stream, a.split, self.math.axes[n].extent, self.known) for n, a in axes.items()}
        static = {n for n, a in self.math.axes.items() if evaluate(a.extent, self.known) is not None}
        if found := check_reductions(roles, static, statements):
            raise SpecError(found)
        grid = self.grid(
            levels, [a for a in self.math.axes if roles[a] == "grid" and a in output_axes(statements, roots)]
        )
        return Config(
            backend=self.backend,
            arch=self.arch,
            axes=axes,
            roles=roles,
            grid=grid,
            grid_swizzle=self.swizzle(levels, grid),
            loops=self.loops(levels, statements, roles),
            target=target_fields(levels, self.backend),
            materialize=materialize or {},
            kernels=kernels or {},
        )

    def grid(self, levels: Levels, wanted: list[str]) -> tuple[tuple[str, bool], ...]:
        """Return the order of the grid: as given, then the axes that this kernel alone has in its grid."""
        given = levels.value("grid")
        if given is None:
            return tuple((a, False) for a in wanted)
        order, place = given
        names = [a for a, _ in order]
        for name in names:
            if name not in self.math.axes:
                raise fail(place, f"unknown axis '{name}' in the grid", nearest(name, self.math.axes))
            if names.count(name) > 1:
                raise fail(place, f"the axis '{name}' stands twice in the grid")
        return (*((a, d) for a, d in order if a in wanted), *((a, False) for a in wanted if a not in names))

    def swizzle(self, levels: Levels, grid: tuple[tuple[str, bool], ...]) -> dict[str, int]:
        given = levels.value("grid_swizzle")
        return {a: n for a, n in (given[0] if given else {}).items() if any(a == g for g, _ in grid)}

    def loops(self, levels: Levels, statements: tuple[Stmt, ...], roles: Mapping[str, Role]) -> tuple[str, ...]:
        given = levels.value("loops")
        if given is None:
            return ()
        order, place = given
        streams = [a for a, r in roles.items() if r == "stream"]
        for name in order:
            if roles[name] != "stream":
                raise fail(
                    place,
                    f"'{name}' is no stream axis: it is not walked in a loop",
                    f"stream axes are {', '.join(streams)}",
                )
        missing = [a for a in streams if a not in order]
        if missing or len(set(order)) != len(order):
            raise fail(
                place, "'loops' names every stream axis once, outermost first", f"stream axes are {', '.join(streams)}"
            )
        return tuple(order)

    def materialize(self) -> dict[str, Materialize]:
        given = self.levels.value("materialize")
        found = {}
        for name, model in (given[0] if given else {}).items():
            found[name] = self.one_materialized(name, model)
        return found

    def one_materialized(self, name: str, model: MaterializeModel) -> Materialize:
        path = next(x.path for x in reversed(self.levels.levels) if getattr(x.fields, "materialize", None) is not None)
        place = self.spec.span(*path, "materialize", name, key=True)
        intermediates = [x.name for x in self.math.statements if x.tensor is None]
        if name not in intermediates:
            raise fail(place, f"'{name}' is no named intermediate", nearest(name, intermediates))
        dtype = self.dtypes.get(model.dtype) or DTYPES.get(model.dtype)
        if dtype is None:
            words = [*DTYPES, *self.dtypes]
            raise fail(
                self.spec.span(*path, "materialize", name, "dtype"),
                f"'{model.dtype}' is no dtype",
                nearest(model.dtype, words),
            )
        return Materialize("global", dtype)
