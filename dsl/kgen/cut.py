"""Cut: materialised intermediates split a spec into kernels that hand tensors on through global memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kgen.math import Math, Stmt, Tensor, Values
from kgen.terms import Cast, Expr, Load, Pos, Ref, rewrite, walk
from kgen.types import I32, DType, compute_dtype

Spaces = Mapping[str, Tensor]  # the workspace of each materialised intermediate


@dataclass(frozen=True)
class Piece:
    """One kernel's share of a spec: `name` is the intermediate it produces, or the spec's name for the outputs."""

    name: str
    math: Math


def cut_math(math: Math, materialized: Mapping[str, DType], alone: Collection[str] = ()) -> list[Piece]:
    """Return the pieces in launch order: materialised intermediates, outputs with a kernel of their own, the others."""
    inner = [s for s in math.statements if s.name in materialized]
    spaces = {s.name: _workspace(math, s, materialized[s.name]) for s in inner}
    named = {t.name: t for t in spaces.values()}
    whole = replace(math, tensors=math.tensors | named, workspaces=frozenset(named))
    pieces = [Piece(s.name, _piece(whole, [_stored(s, spaces[s.name])], spaces)) for s in inner]
    outputs = [s for s in math.statements if s.tensor is not None]
    pieces += [Piece(s.name, _piece(whole, [s], spaces)) for s in outputs if s.name in alone]
    rest = [s for s in outputs if s.name not in alone]
    return [*pieces, Piece(math.name, _piece(whole, rest, spaces))] if rest else pieces


def _workspace(math: Math, s: Stmt, dtype: DType) -> Tensor:
    name = f"ws_{s.name}"
    while name in math.tensors or name in math.sizes or name in math.params:
        name += "_"
    dims = tuple(math.axes[a].extent for a in s.axes)
    return Tensor(name, dims, dtype, True, Values((("normal", ()),)), (len(dims) - 1,) if dims else ())


def _stored(s: Stmt, space: Tensor) -> Stmt:
    """Return the statement of an intermediate, storing to its workspace."""
    value = s.expr if s.expr.dtype == space.dtype else Cast(space.dtype, s.expr)
    return replace(s, expr=value, tensor=space.name, index=tuple(Pos(I32, a) for a in s.axes))


def _piece(math: Math, targets: list[Stmt], spaces: Spaces) -> Math:
    """Return the part of the spec that computes `targets`, reading other materialised intermediates from memory."""
    by_name = {s.name: s for s in math.statements}
    own = {t.name for t in targets}

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Ref) or e.name not in spaces or e.name in own:
            return None
        return _loaded(spaces[e.name], by_name[e.name].axes, e.dtype)

    found: dict[str, Stmt] = {}

    def visit(s: Stmt) -> None:
        if s.name in found:
            return
        new = replace(s, expr=rewrite(s.expr, rule), index=tuple(rewrite(i, rule) for i in s.index))
        for n in (n for e in (new.expr, *new.index) for n in walk(e)):
            if isinstance(n, Ref):
                visit(by_name[n.name])
        found[s.name] = new

    for t in targets:
        visit(t)
    tensors = {n: t for n, t in math.tensors.items() if n not in math.workspaces or _touches(found.values(), n)}
    return replace(math, statements=tuple(found.values()), tensors=tensors)


def _loaded(space: Tensor, axes: tuple[str, ...], dtype: DType) -> Expr:
    """Return the stored value of a materialised intermediate, in the type it is computed with."""
    load = Load(space.dtype, space.name, tuple(Pos(I32, a) for a in axes))
    wide = compute_dtype(space.dtype)
    value = load if wide == space.dtype else Cast(wide, load)
    return value if value.dtype == dtype else Cast(dtype, value)


def _touches(statements: Iterable[Stmt], tensor: str) -> bool:
    return any(
        s.tensor == tensor
        or any(isinstance(n, Load) and n.tensor == tensor for e in (s.expr, *s.index) for n in walk(e))
        for s in statements
    )
