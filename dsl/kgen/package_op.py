"""The text of a generated op: its signature, the checks of its arguments, and its torch schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kgen.emit.header import Header
from kgen.emit.python import python_expr
from kgen.emit.render import render
from kgen.generate import spec_hash
from kgen.math import Math, ParamDef, SizeDef, Tensor
from kgen.resolve import resolve
from kgen.spec import Spec
from kgen.terms import Const, Expr, Size, walk
from kgen.types import BOOL, DTYPES, DType


@dataclass(frozen=True)
class OpView:
    """What the template shows; every field is finished text."""

    head: tuple[str, ...]
    name: str
    arguments: tuple[str, ...]
    parameters: tuple[str, ...]
    signature: tuple[str, ...]
    doc: tuple[str, ...]
    bind: tuple[str, ...]


def whole(spec: Spec, math: Math) -> Math:
    """Return the spec with its static parameters, which a specialisation has put in."""
    return resolve(spec, dict(math.dtypes))


def op_text(spec: Spec, math: Math, command: str) -> str:
    """Return op.py."""
    math = whole(spec, math)
    statements = tuple((s.id, s.text) for s in math.statements)
    head = Header(f"{spec.name}: an operator of PyTorch", math.doc, spec.source.name, spec_hash(spec), command, statements)
    view = OpView(
        head=head.lines(),
        name=spec.name,
        arguments=tuple(_arguments(math)),
        parameters=tuple(a for a in _signature(math) if a != "*"),
        signature=tuple(_signature(math)),
        doc=tuple(_doc(spec, math)),
        bind=tuple(_bind(spec, math)),
    )
    return render("op/op.py.j2", view)


def _inputs(math: Math) -> list[Tensor]:
    return [t for t in math.tensors.values() if not t.out]


def _free_sizes(math: Math) -> list[SizeDef]:
    """Sizes that no shape binds and nothing defines: int arguments."""
    return [s for s in math.sizes.values() if s.tensor is None and s.definition is None]


def _arguments(math: Math) -> Iterator[str]:
    yield from (t.name for t in _inputs(math))
    yield from (s.name for s in _free_sizes(math))
    yield from math.params


def _signature(math: Math) -> Iterator[str]:
    yield from (t.name for t in _inputs(math))
    yield from (s.name for s in _free_sizes(math))
    if math.params:
        yield "*"
    for p in math.params.values():
        yield p.name if p.default is None else f"{p.name}={_default(p)}"


def _default(p: ParamDef) -> str:
    """Return a literal default; None stands for one that depends on sizes."""
    return "None" if p.default is None or _computed(p) else python_expr(p.default)


def _computed(p: ParamDef) -> bool:
    return p.default is not None and any(isinstance(n, Size) for n in walk(p.default))


def _doc(spec: Spec, math: Math) -> Iterator[str]:
    yield math.doc.strip() or spec.name
    yield ""
    for t in math.tensors.values():
        dims = ", ".join(python_expr(d) for d in t.dims)
        written = spec.model.tensors[t.name].dtype
        choices = spec.model.dtypes.get(written)
        names = " or ".join(str(c) for c in choices) if choices else str(written)
        yield f"{'returns ' if t.out and not t.inplace else ''}{t.name}: [{dims}] {names}" + _inplace(t)
    for p in math.params.values():
        tail = "" if p.default is None else f", default {python_expr(p.default)}"
        yield f"{p.name}: {p.dtype}{tail}{' (compiled in)' if p.static else ''}"
    yield ""
    yield "Raises ArgumentError for arguments that do not fit."


def _inplace(t: Tensor) -> str:
    return f" (overwrites {t.inplace})" if t.inplace else ""


# -- bind


def _bind(spec: Spec, math: Math) -> Iterator[str]:
    inputs = _inputs(math)
    for t in inputs:
        dims = ", ".join(python_expr(d) for d in t.dims)
        yield f'checks.rank("{t.name}", {t.name}, "{dims}", {len(t.dims)})'
    if len(inputs) > 1:
        yield f"checks.one_device({_by_name(inputs)})"
    yield from _dtypes(spec, inputs)
    yield from _sizes(math)
    yield from _extents(math, inputs)
    for s in math.sizes.values():
        if s.choices is not None:
            yield f'checks.choice("{s.name}", {s.name}, {_choices(s.choices)})'
    for c in math.checks:
        known = sorted({n.name for n in walk(c.condition) if isinstance(n, Size)})
        yield f'checks.require({python_expr(c.condition)}, "{c.text}", {_names(known)})'
    for p in math.params.values():
        yield from _param(p)
    variables = [v for v in spec.model.dtypes if _of_type(spec, inputs, v)]
    dtypes = "{" + ", ".join(f'"{v}": {v}_type' for v in variables) + "}"
    yield f"return Bound({_names(list(math.sizes))}, {_names(list(math.params))}, {dtypes})"


def _choices(values: tuple[int, ...]) -> str:
    steps = {b - a for a, b in zip(values, values[1:], strict=False)}
    if len(values) > 3 and len(steps) == 1:
        step = steps.pop()
        return f"range({values[0]}, {values[-1] + step}, {step})"
    return str(tuple(values))


def _names(names: list[str]) -> str:
    return "{" + ", ".join(f'"{n}": {n}' for n in names) + "}"


def _by_name(tensors: list[Tensor]) -> str:
    return _names([t.name for t in tensors])


def _of_type(spec: Spec, inputs: list[Tensor], variable: str) -> list[Tensor]:
    return [t for t in inputs if spec.model.tensors[t.name].dtype == variable]


def _dtypes(spec: Spec, inputs: list[Tensor]) -> Iterator[str]:
    for variable, choices in spec.model.dtypes.items():
        same = _of_type(spec, inputs, variable)
        if same:
            allowed = {DTYPES[str(c)].torch: str(c) for c in choices}
            yield f'{variable}_type = checks.dtype_of("{variable}", {_by_name(same)}, {allowed})'.replace("'", '"')
    for t in inputs:
        written = str(spec.model.tensors[t.name].dtype)
        if written not in spec.model.dtypes:
            yield f'checks.dtype_is("{t.name}", {t.name}, "{DTYPES[written].torch}")'


def _sizes(math: Math) -> Iterator[str]:
    """Bind sizes: bare dims first, then linear ones, then definitions, each after what it reads."""
    known = {s.name for s in _free_sizes(math)}
    pending = [s for s in math.sizes.values() if s.name not in known]
    while pending:
        ready = [s for s in pending if _reads(s) <= known]
        for s in ready:
            yield f"{s.name} = {_size(s)}"
        if not ready:
            raise ValueError(f"sizes depend on each other: {', '.join(s.name for s in pending)}")
        known |= {s.name for s in ready}
        pending = [s for s in pending if s.name not in known]


def _reads(s: SizeDef) -> set[str]:
    e: Expr | None = s.definition if s.tensor is None else s.solve
    return set() if e is None else {n.name for n in walk(e) if isinstance(n, Size)} - {"_"}


def _size(s: SizeDef) -> str:
    if s.tensor is None:
        return python_expr(s.definition) if s.definition is not None else s.name
    shape = f"{s.tensor}.shape[{s.dim}]"
    return shape if s.solve is None else python_expr(s.solve, {"_": shape})


def _extents(math: Math, inputs: list[Tensor]) -> Iterator[str]:
    """Check every dim that did not bind a size by itself."""
    bound = {(s.tensor, s.dim) for s in math.sizes.values() if s.solve is None or isinstance(s.solve, Size)}
    for t in inputs:
        for i, d in enumerate(t.dims):
            if (t.name, i) not in bound:
                text = python_expr(d)
                yield f'checks.extent("{t.name}", {i}, {t.name}.shape[{i}], "{text}", {text})'


def _param(p: ParamDef) -> Iterator[str]:
    if p.default is not None and _computed(p):
        yield f"{p.name} = {python_expr(p.default)} if {p.name} is None else {p.name}"
    yield f"{p.name} = {_kind(p.dtype)}({p.name})"


def _kind(t: DType) -> str:
    return "bool" if t is BOOL else "float" if t.is_float else "int"


# -- schema


def schema(spec: Spec, math: Math) -> str:
    """Return the schema for torch.library, e.g. `add(Tensor x, float? scale=None) -> Tensor`."""
    math = whole(spec, math)
    overwritten = [t.inplace for t in math.tensors.values() if t.inplace]
    marks = {name: f"({chr(ord('a') + i)}!)" for i, name in enumerate(overwritten)}
    items = [f"Tensor{marks.get(t.name, '')} {t.name}" for t in _inputs(math)]
    items += [f"int {s.name}" for s in _free_sizes(math)]
    items += [_schema_param(p) for p in math.params.values()]
    made = [t for t in math.tensors.values() if t.out and not t.inplace]
    result = "Tensor" if len(made) == 1 else "(" + ", ".join("Tensor" for _ in made) + ")"
    return f"{spec.name}({', '.join(items)}) -> {result}"


def _schema_param(p: ParamDef) -> str:
    kind = _kind(p.dtype)
    if p.default is None:
        return f"{kind} {p.name}"
    if _computed(p):
        return f"{kind}? {p.name}=None"
    return f"{kind} {p.name}={_schema_literal(p.default)}"


def _schema_literal(e: Expr) -> Any:
    return e.value if isinstance(e, Const) else eval(python_expr(e), {"__builtins__": {}})
