"""Cut: materialised intermediates split a spec into kernels that hand tensors on through global memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from kgen.math import Math, Stmt, Tensor, Values
from kgen.terms import Cast, Expr, Load, Pos, Ref, rewrite, walk
from kgen.types import I32, DType, compute_dtype


@dataclass(frozen=True)
class Piece:
    """One kernel's share of a spec: `name` is the intermediate it produces, or the spec's name for the outputs."""

    name: str
    math: Math


def cut_math(math: Math, materialized: Mapping[str, DType], alone: Collection[str] = ()) -> list[Piece]:
    """Return the pieces in launch order; one if nothing is materialised and no output is in `alone` (a kernel of its own)."""
    spaces = {n: _workspace(math, math.statement(n), t) for n, t in materialized.items()}
    tensors = math.tensors | spaces
    whole = replace(math, tensors=tensors, workspaces=frozenset(spaces))
    pieces = [Piece(n, _piece(whole, [_stored(math.statement(n), t)], spaces)) for n, t in materialized.items()]
    outputs = [s for s in math.statements if s.tensor is not None]
    pieces += [Piece(s.name, _piece(whole, [s], spaces)) for s in outputs if s.name in alone]
    rest = [s for s in outputs if s.name not in alone]
    return [*pieces, Piece(math.name, _piece(whole, rest, spaces))] if rest else pieces


def _workspace(math: Math, s: Stmt, dtype: DType) -> Tensor:
    name = f"ws_{s.name}"
    dims = tuple(math.axes[a].extent for a in s.axes)
    return Tensor(name, dims, dtype, True, Values((("normal", ()),)), (len(dims) - 1,) if dims else ())


def _stored(s: Stmt, dtype: DType) -> Stmt:
    """Return the statement of an intermediate, storing to its workspace."""
    value = s.expr if s.expr.dtype == dtype else Cast(dtype, s.expr)
    return replace(s, expr=value, tensor=f"ws_{s.name}", index=tuple(Pos(I32, a) for a in s.axes))


def _piece(math: Math, targets: list[Stmt], spaces: Mapping[str, Tensor]) -> Math:
    """Return the part of the spec that computes `targets`, reading other materialised intermediates from memory."""
    by_name = {s.name: s for s in math.statements}
    own = {t.name for t in targets}

    def rule(e: Expr) -> Expr | None:
        if not isinstance(e, Ref) or e.name not in spaces or e.name in own:
            return None
        space = spaces[e.name]
        load = Load(space.dtype, space.name, tuple(Pos(I32, a) for a in by_name[e.name].axes))
        wide = compute_dtype(space.dtype)
        return load if wide == space.dtype else Cast(wide, load)

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
    spaces_named = {f"ws_{n}" for n in spaces}
    tensors = {n: t for n, t in math.tensors.items() if n not in spaces_named or _touches(found.values(), n)}
    return replace(math, statements=tuple(found.values()), tensors=tensors)


def _touches(statements: Iterable[Stmt], tensor: str) -> bool:
    return any(
        s.tensor == tensor or any(isinstance(n, Load) and n.tensor == tensor for n in walk(s.expr))
        for s in statements
    )
