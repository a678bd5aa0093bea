"""The checks of a generated op: how sizes are bound from shapes, and what else must hold."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator

from kgen.emit.python import python_expr
from kgen.errors import KgenError
from kgen.math import Check, Math, SizeDef, Tensor
from kgen.package_lines import items, names
from kgen.spec import Spec
from kgen.terms import Apply, Const, Expr, Param, Size, walk
from kgen.types import DTYPES


def size_lines(spec: Spec, math: Math) -> Iterator[str]:
    """Yield the body of the function that binds sizes and types from tensors and int arguments."""
    tensors = [t for t in math.tensors.values() if not t.out]
    for t in tensors:
        dims = ", ".join(python_expr(d) for d in t.dims)
        call = f'checks.shape("{t.name}", {t.name}, "{dims}", {len(t.dims)})'
        targets = [_target(math, t, i) for i in range(len(t.dims))]
        bound = items(targets) if len(targets) == 1 else ", ".join(targets)
        yield f"{bound} = {call}" if targets else call
    if len(tensors) > 1:
        yield f"checks.one_device({names([t.name for t in tensors])})"
    yield from _types(spec, math, tensors)
    divided: set[str] = set()
    yield from _sizes(math, divided)
    yield from _extents(math, tensors, divided)
    for s in math.sizes.values():
        if s.choices is not None:
            yield f'checks.choice("{s.name}", {s.name}, {_choices(s.choices)})'
    yield from condition_lines([c for c in math.checks if not reads_params(c.condition)], divided)
    yield f"return {items(list(math.sizes))}, {items([_type(spec, math, v) for v in spec.model.dtypes])}"


def reads_params(e: Expr) -> bool:
    """Return whether a condition needs parameters."""
    return any(isinstance(n, Param) for n in walk(e))


def condition_lines(checks: Iterable[Check], divided: set[str]) -> Iterator[str]:
    """Yield the lines that test conditions of the spec. `divided`: divisors that are known not to be 0."""
    for c in checks:
        yield from _divisors(c.condition, c.text, divided)
        known = sorted({n.name for n in walk(c.condition) if isinstance(n, Size | Param)})
        yield f"checks.require({python_expr(c.condition)}, {json.dumps(c.text)}, {names(known)})"


def _choices(values: tuple[int, ...]) -> str:
    steps = {b - a for a, b in itertools.pairwise(values)}
    if len(values) > 3 and len(steps) == 1:
        step = steps.pop()
        return f"range({values[0]}, {values[-1] + step}, {step})"
    return str(tuple(values))


# -- types


def type_constants(spec: Spec, math: Math) -> Iterator[str]:
    """Yield a constant for each type variable that an input has: what it can be, by torch's types."""
    for variable in spec.model.dtypes:
        if _of_type(spec, math, variable):
            choices = spec.model.dtypes[variable]
            pairs = ", ".join(f'torch.{DTYPES[str(c)].torch}: "{c}"' for c in choices)
            yield f"{variable}_TYPES = {{{pairs}}}"


def _of_type(spec: Spec, math: Math, variable: str) -> list[str]:
    return [t.name for t in math.tensors.values() if not t.out and spec.model.tensors[t.name].dtype == variable]


def _types(spec: Spec, math: Math, tensors: list[Tensor]) -> Iterator[str]:
    for variable in spec.model.dtypes:
        same = _of_type(spec, math, variable)
        if same:
            yield f"_{variable} = checks.dtype({names(same)}, {variable}_TYPES)"
    for t in tensors:
        written = str(spec.model.tensors[t.name].dtype)
        if written not in spec.model.dtypes:
            yield f'checks.dtype({names([t.name])}, {{torch.{DTYPES[written].torch}: "{written}"}})'


def _type(spec: Spec, math: Math, variable: str) -> str:
    """Return the expression of a type variable's choice. One that no input has can only be the one it lists."""
    if _of_type(spec, math, variable):
        return f"_{variable}"
    choices = spec.model.dtypes[variable]
    if len(choices) > 1:
        raise KgenError(f"{math.name}: no input is of type {variable}, so a call cannot choose among {list(choices)}")
    return f'"{choices[0]}"'


# -- sizes


def _target(math: Math, t: Tensor, dim: int) -> str:
    """Return the name that an extent gets: that of the size it binds, else a name that no spec can have."""
    for s in math.sizes.values():
        if (s.tensor, s.dim) == (t.name, dim) and _is_bare(s):
            return s.name
    return f"_{t.name}{dim}"


def _is_bare(s: SizeDef) -> bool:
    return s.solve is None or isinstance(s.solve, Size)


def _sizes(math: Math, divided: set[str]) -> Iterator[str]:
    """Bind the sizes that no bare dim binds: int arguments, linear dims, then definitions, each after what it reads."""
    free = [s for s in math.sizes.values() if s.tensor is None and s.definition is None]
    yield from (f'checks.size("{s.name}", {s.name})' for s in free)
    known = {s.name for s in free} | {s.name for s in math.sizes.values() if s.tensor is not None and _is_bare(s)}
    pending = [s for s in math.sizes.values() if s.name not in known]
    while pending:
        ready = [s for s in pending if _reads(s) <= known]
        if not ready:
            raise KgenError(f"{math.name}: sizes depend on each other: {', '.join(s.name for s in pending)}")
        for s in ready:
            yield from _bound(s, divided)
        known |= {s.name for s in ready}
        pending = [s for s in pending if s.name not in known]


def _bound(s: SizeDef, divided: set[str]) -> Iterator[str]:
    e = s.definition if s.tensor is None else s.solve
    if e is not None:
        text = python_expr(e, {"_": f"_{s.tensor}{s.dim}"})
        yield from _divisors(e, f"{s.name} = {text}", divided)
        yield f"{s.name} = {text}"
        if _can_be_negative(e):
            yield f'checks.size("{s.name}", {s.name})'


def _can_be_negative(e: Expr) -> bool:
    return any(isinstance(n, Apply) and n.fn in ("sub", "neg") for n in walk(e))


def _reads(s: SizeDef) -> set[str]:
    e = s.definition if s.tensor is None else s.solve
    return set() if e is None else {n.name for n in walk(e) if isinstance(n, Size)} - {"_"}


def _extents(math: Math, tensors: list[Tensor], divided: set[str]) -> Iterator[str]:
    """Check every dim that did not bind a size by itself, and that no output's dim is negative."""
    for t in tensors:
        for i, d in enumerate(t.dims):
            got = _target(math, t, i)
            if got.startswith("_"):
                text = python_expr(d)
                yield from _divisors(d, f"the dims of {t.name}", divided)
                yield f'checks.extent("{t.name}", {i}, {got}, "{text}", {text})'
    for d in dict.fromkeys(d for t in math.tensors.values() if t.out for d in t.dims if _can_be_negative(d)):
        yield f'checks.size("{python_expr(d)}", {python_expr(d)})'


def _divisors(e: Expr, where: str, divided: set[str]) -> Iterator[str]:
    """Check each size that `e` divides by, once: Python would raise an error that names no argument."""
    for n in walk(e):
        if isinstance(n, Apply) and n.fn in ("floordiv", "mod", "quot", "rem") and not isinstance(n.args[1], Const):
            text = python_expr(n.args[1])
            if text not in divided:
                divided.add(text)
                yield f'checks.divisor("{text}", {text}, "{where}")'
