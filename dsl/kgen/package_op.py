"""The text of a generated op: its signature, the checks of its arguments, and its torch schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite

from kgen.emit.header import Header
from kgen.emit.printer import Text
from kgen.emit.python import PythonPrinter, python_expr
from kgen.emit.render import render
from kgen.errors import KgenError
from kgen.generate import spec_hash
from kgen.math import Math, ParamDef, SizeDef, Tensor
from kgen.package_checks import condition_lines, reads_params, size_lines, type_constants
from kgen.package_lines import items, prose, quoted, wrapped
from kgen.resolve import resolve
from kgen.resolve_constants import evaluate
from kgen.spec import Spec
from kgen.terms import Apply, Const, Expr
from kgen.types import BOOL, DType

# What the generated module and its compiled expressions call their own.
_TAKEN = frozenset({"OP", "Op", "Path", "Tensor", "backend", "bucket", "checks", "math", "params", "sizes", "torch"})


@dataclass(frozen=True)
class OpView:
    """What the template shows; every field is finished text."""

    head: tuple[str, ...]
    uses_math: bool
    constants: tuple[str, ...]
    size_arguments: tuple[str, ...]
    size_lines: tuple[str, ...]
    param_arguments: tuple[str, ...]
    param_lines: tuple[str, ...]
    signature: tuple[str, ...]
    doc: tuple[str, ...]
    call: tuple[str, ...]


def whole(spec: Spec, math: Math) -> Math:
    """Return the spec with its static parameters, which a specialisation has put in."""
    return resolve(spec, dict(math.dtypes))


def op_text(spec: Spec, math: Math, command: str) -> str:
    """Return op.py. Raises KgenError for a spec without inputs, or with a name that the module needs."""
    math = whole(spec, math)
    _check_names(math)
    statements = tuple((s.id, s.text) for s in math.statements)
    head = Header(f"{spec.name}: an operator of PyTorch", math.doc, "spec.yaml", spec_hash(spec), command, statements)
    params = tuple(_wrapped(_params(math)))
    lines = tuple(_wrapped(size_lines(spec, math)))
    return render(
        "op/op.py.j2",
        OpView(
            head=tuple(quoted(line) for line in head.lines()),
            uses_math=any("math." in line for line in (*params, *lines)),
            constants=tuple(t for line in type_constants(spec, math) for t in wrapped(line)),
            size_arguments=(*(t.name for t in inputs(math)), *(s.name for s in free_sizes(math))),
            size_lines=lines,
            param_arguments=(*math.sizes, *(_parameter(p) for p in math.params.values())),
            param_lines=params,
            signature=tuple(wrapped(_signature(math))),
            doc=tuple(quoted(line) for line in _doc(spec, math)),
            call=tuple(_wrapped(_call(math))),
        ),
    )


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from wrapped(line, 4)


def _check_names(math: Math) -> None:
    if not inputs(math):
        raise KgenError(f"{math.name}: an op needs an input tensor, which says on what device it runs")
    for name in (math.name, *math.tensors, *math.sizes, *math.params):
        if name in _TAKEN:
            raise KgenError(f"{math.name}: the generated op uses the name '{name}' itself; choose another in the spec")


def inputs(math: Math) -> list[Tensor]:
    """Return the tensors that the caller gives."""
    return [t for t in math.tensors.values() if not t.out]


def outputs(math: Math) -> list[Tensor]:
    """Return the outputs, without intermediates that the compiler stores."""
    return [t for t in math.tensors.values() if t.out and t.name not in math.workspaces]


def free_sizes(math: Math) -> list[SizeDef]:
    """Return the sizes that no shape binds and nothing defines: int arguments."""
    return [s for s in math.sizes.values() if s.tensor is None and s.definition is None]


# -- the function that users call


def _signature(math: Math) -> str:
    given = [f"{t.name}: Tensor" for t in inputs(math)] + [f"{s.name}: int" for s in free_sizes(math)]
    named = [_annotated(p) for p in math.params.values()] + ["backend: str | None = None"]
    count = len(outputs(math))
    result = "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"
    return f"def {math.name}({', '.join([*given, '*', *named])}) -> {result}:"


def _annotated(p: ParamDef) -> str:
    kind = _kind(p.dtype)
    if p.default is None:
        return f"{p.name}: {kind}"
    return f"{p.name}: {kind} | None = None" if _computed(p) else f"{p.name}: {kind} = {python_expr(p.default)}"


def _doc(spec: Spec, math: Math) -> Iterator[str]:
    yield from prose(math.doc or spec.name)
    yield ""
    tensors = [t for t in math.tensors.values() if t.name not in math.workspaces]
    for t in tensors:
        role = f", overwrites {t.inplace}" if t.inplace else ""
        yield f"{'returns ' if t.out else ''}{t.name}: {_shaped(spec, t)}{role}"
    yield from (f"{s.name}: a size" for s in free_sizes(math))
    for p in math.params.values():
        tail = "" if p.default is None else f", default {_written(spec, p)}"
        yield f"{p.name}: {p.dtype}{tail}{', compiled in' if p.static else ''}"
    yield 'backend: "triton" or "cuda"; by default what OP.use() or KGEN_BACKEND chose, else "triton"'
    yield ""
    yield "Raises kgen.ops.checks.ArgumentError for arguments that do not fit."


def _shaped(spec: Spec, t: Tensor) -> str:
    written = spec.model.tensors[t.name].dtype
    choices = spec.model.dtypes.get(written)
    kinds = " or ".join(str(c) for c in choices) if choices else str(written)
    return f"[{', '.join(python_expr(d) for d in t.dims)}] {kinds}"


def _written(spec: Spec, p: ParamDef) -> str:
    """Return a default as the spec has it."""
    node = spec.model.params[p.name].default
    assert node is not None
    return node.span.source.line(node.span.line)[node.span.column - 1 :][: node.span.length]


def _call(math: Math) -> Iterator[str]:
    given = [t.name for t in inputs(math)] + [s.name for s in free_sizes(math)] + [*math.params, "backend"]
    call = f"torch.ops.kgen.{math.name}({', '.join(given)})"
    made = [t.name for t in outputs(math) if not t.inplace]
    if len(made) == len(outputs(math)):
        yield f"return {call}"
        return
    yield f"{', '.join(made)} = {call}" if made else call
    yield f"return {', '.join(t.inplace or t.name for t in outputs(math))}"


# -- params


def _params(math: Math) -> Iterator[str]:
    for p in math.params.values():
        if p.default is not None and _computed(p):
            yield f"if {p.name} is None:"
            yield f"    {p.name} = {_DefaultPrinter({}).text(p.default)}"
    yield from condition_lines([c for c in math.checks if reads_params(c.condition)], set())
    if math.params:
        yield f"return {items([_held(p) for p in math.params.values()])}"


class _DefaultPrinter(PythonPrinter):
    """Divides as the kernels do: by zero to an infinity, so that a default of empty tensors is no error."""

    def applied(self, e: Apply) -> Text:
        match e.fn, e.args:
            case "div", (a, b) if not isinstance(b, Const):
                return Text(f"checks.quotient({self.text(a)}, {self.text(b)})")
            case "rsqrt", (a,):
                return Text(f"checks.quotient(1.0, math.sqrt({self.text(a)}))")
        return super().applied(e)


def _held(p: ParamDef) -> str:
    """Return the parameter as a number of its type."""
    if p.dtype is BOOL:
        return f"bool({p.name})"
    check = "real" if p.dtype.is_float else "integer"
    return f'checks.{check}("{p.name}", {p.name}, "{p.dtype}")'


def _parameter(p: ParamDef) -> str:
    if p.default is None:
        return p.name
    return f"{p.name}=None" if _computed(p) else f"{p.name}={python_expr(p.default)}"


def _computed(p: ParamDef) -> bool:
    """Is the default computed at a call? One of sizes is, and one that no schema can write."""
    if p.default is None:
        return False
    value = evaluate(p.default, {})
    return value is None or not isfinite(value)


def _kind(t: DType) -> str:
    return "bool" if t is BOOL else "float" if t.is_float else "int"


# -- schema


def schema(spec: Spec, math: Math) -> str:
    """Return the schema for torch.library, e.g. `add(Tensor x, float? scale=None, str? backend=None) -> Tensor`."""
    math = whole(spec, math)
    overwritten = [t.inplace for t in outputs(math) if t.inplace]
    marks = {name: f"({chr(ord('a') + i)}!)" for i, name in enumerate(overwritten)}
    given = [f"Tensor{marks.get(t.name, '')} {t.name}" for t in inputs(math)]
    given += [f"SymInt {s.name}" for s in free_sizes(math)]
    given += [_schema_param(p) for p in math.params.values()]
    made = [t for t in outputs(math) if not t.inplace]
    result = "Tensor" if len(made) == 1 else "(" + ", ".join("Tensor" for _ in made) + ")"
    return f"{spec.name}({', '.join([*given, 'str? backend=None'])}) -> {result}"


def _schema_param(p: ParamDef) -> str:
    kind = _kind(p.dtype)
    if kind == "int" and not p.static:
        kind = "SymInt"
    if p.default is None:
        return f"{kind} {p.name}"
    return f"{kind}? {p.name}=None" if _computed(p) else f"{kind} {p.name}={_literal(p.default)}"


def _literal(e: Expr) -> str:
    """Return a default without sizes as a literal: schemas know no expressions."""
    return repr(evaluate(e, {}))
