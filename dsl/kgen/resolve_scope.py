"""What the names of a spec mean while it is resolved, and the diagnostics found so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from kgen import syntax as s
from kgen.accumulators import Record
from kgen.errors import Diagnostic, SpecError, fail, nearest
from kgen.math import Axis, ParamDef, Stmt, Tensor
from kgen.source import Span
from kgen.spec import Spec
from kgen.terms import Expr
from kgen.types import DTYPES, DType


class Bulk(NamedTuple):
    """How large an expression is with helpers and intermediates written out."""

    nodes: int
    depth: int


@dataclass
class Scope:
    """The names known so far. `sizes` is the set of size names; `broken` are names whose definition had an error.

    `bulk` is that of the statements.
    """

    spec: Spec
    dtypes: Mapping[str, DType]
    records: Mapping[str, Record]
    macros: Mapping[str, s.Helper]
    sizes: set[str] = field(default_factory=set)
    axes: dict[str, Axis] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    params: dict[str, ParamDef] = field(default_factory=dict)
    helpers: dict[str, s.Helper] = field(default_factory=dict)
    statements: dict[str, Stmt] = field(default_factory=dict)
    bulk: dict[str, Bulk] = field(default_factory=dict)
    mask: Expr | None = None
    broken: set[str] = field(default_factory=set)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    @contextmanager
    def collect(self, *names: str) -> Iterator[None]:
        """Keep the diagnostics of a failing block and go on; what `names` mean is then unknown."""
        try:
            yield
        except SpecError as e:
            self.diagnostics += e.diagnostics
            self.broken.update(names)

    def report(self, span: Span | None, message: str, hint: str | None = None) -> None:
        self.diagnostics.append(Diagnostic(span, message, hint))

    def dtype(self, name: str, span: Span) -> DType:
        """Return the dtype called `name`, or the one chosen for that type variable."""
        if name in self.dtypes:
            return self.dtypes[name]
        if name in DTYPES:
            return DTYPES[name]
        raise fail(
            span, f"'{name}' is no dtype and no type variable", nearest(name, [*DTYPES, *self.spec.model.dtypes])
        )

    def names(self) -> list[str]:
        """Return every name an expression can use here."""
        inputs = [t for t in self.tensors if t not in self.statements]
        return [*self.axes, *self.sizes, *self.params, *self.statements, *inputs]


def silent() -> SpecError:
    """Return an error without diagnostics: its cause has been reported already."""
    return SpecError([])
