"""Variants: the choices of dtypes, static sizes and static params that a spec asks to be built and verified."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.errors import Diagnostic, SpecError, fail, nearest
from kgen.math import Math
from kgen.resolve_constants import Number, evaluate, static_values
from kgen.resolve_math import resolve
from kgen.spec import Spec
from kgen.types import BOOL, DTYPES, DType


@dataclass(frozen=True)
class Variant:
    """One choice: a dtype per type variable, a value per static size and per static param."""

    dtypes: dict[str, DType]
    sizes: dict[str, int]
    params: dict[str, Number]


def dtype_choices(spec: Spec) -> dict[str, tuple[DType, ...]]:
    """Return the dtypes that each type variable of the spec can be."""
    return {name: tuple(DTYPES[c] for c in choices) for name, choices in spec.model.dtypes.items()}


def variants(spec: Spec) -> list[Variant]:
    """Return the variants of the spec, by default one: the first value of every list, the defaults of static params.

    Raise SpecError for entries that are not choices of the spec, and for a spec that does not resolve.
    """
    math = resolve(spec, {name: choices[0] for name, choices in dtype_choices(spec).items()})
    found, diagnostics = [], list[Diagnostic]()
    for i, entries in enumerate(spec.model.variants or ({},)):
        try:
            found.append(_variant(spec, math, i, entries))
        except SpecError as e:
            diagnostics += e.diagnostics
    if diagnostics:
        raise SpecError(diagnostics)
    return found


def _variant(spec: Spec, math: Math, i: int, entries: dict[str, bool | int | str]) -> Variant:
    static = {n: z.choices for n, z in math.sizes.items() if z.choices is not None}
    params = {n for n, p in math.params.items() if p.static}
    for name in entries:
        known = [*spec.model.dtypes, *static, *params]
        if name not in known:
            message = f"'{name}' is no type variable, static size or static param"
            raise fail(spec.span("variants", i, name, key=True), message, nearest(name, known))
    dtypes = {n: _dtype(spec, i, n, entries.get(n, choices[0].name)) for n, choices in dtype_choices(spec).items()}
    sizes = {n: _size(spec, i, n, entries.get(n, choices[0]), choices) for n, choices in static.items()}
    known_sizes = static_values(math, sizes)
    values = {n: _param(spec, math, i, n, entries.get(n), known_sizes) for n in math.params if n in params}
    return Variant(dtypes, sizes, values)


def _dtype(spec: Spec, i: int, name: str, value: object) -> DType:
    choices = spec.model.dtypes[name]
    if value not in choices:
        place = spec.span("variants", i, name)
        raise fail(place, f"the type variable '{name}' cannot be {value}", f"it can be {', '.join(choices)}")
    return DTYPES[str(value)]


def _size(spec: Spec, i: int, name: str, value: object, choices: tuple[int, ...]) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in choices:
        place = spec.span("variants", i, name)
        raise fail(place, f"the static size '{name}' cannot be {value}", f"it can be {', '.join(map(str, choices))}")
    return value


def _param(spec: Spec, math: Math, i: int, name: str, value: object, sizes: dict[str, Number]) -> Number:
    param = math.params[name]
    if value is None:
        default = None if param.default is None else evaluate(param.default, sizes)
        if default is None:
            message = f"the static param '{name}' has no default that is known at compile time"
            raise fail(spec.span("params", name, key=True), message, "list it in 'variants'")
        return default
    if not isinstance(value, bool | int) or isinstance(value, bool) != (param.dtype is BOOL):
        raise fail(spec.span("variants", i, name), f"{value} is no value of type {param.dtype}")
    return float(value) if param.dtype.is_float else value
