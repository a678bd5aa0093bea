"""Scalar expressions as Python text for host code: sizes, checks, grid counts, parameter defaults."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.emit.printer import ANY, ATOM, Printer, Text, python_literal, signed
from kgen.functions import HOST, Function, table
from kgen.terms import Apply, Cast, Const, Expr, Param, Size


class PythonPrinter(Printer):
    """Prints with Python's operators; `names` maps a size or parameter to its Python expression (an atom)."""

    language = HOST

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def applied(self, e: Apply) -> Text:
        """Return an operator or a call; ValueError for a function that has no form for the host."""
        if self.language not in table()[e.fn].forms:
            raise ValueError(f"'{e.fn}' has no form in Python")
        return super().applied(e)

    def needed(self, row: Function, form: str, i: int, prec: int) -> int:
        """Return how tightly argument `i` must bind: not at all inside parentheses, and `a if c else b` goes right."""
        if f"({{{i}}}" in form or f"{{{i}}})" in form:
            return ANY
        if row.types == "where":
            return prec + (i < 2)
        return super().needed(row, form, i, prec)

    def const(self, e: Const) -> Text:
        """Return a Python literal."""
        return signed(python_literal(e))

    def cast(self, e: Cast) -> Text:
        """Return a conversion between kinds; a change of width alone is nothing, Python's numbers are wide enough."""
        if e.dtype.kind == e.arg.dtype.kind or (e.dtype.is_int and e.arg.dtype.is_int):
            return self.piece(e.arg)
        kind = "bool" if e.dtype.kind == "bool" else "float" if e.dtype.is_float else "int"
        return Text(f"{kind}({self.text(e.arg)})")

    def leaf(self, e: Expr) -> Text:
        """Return the name of a size or parameter; nothing else has a value on the host."""
        match e:
            case Size(name=name) | Param(name=name):
                return Text(self.names.get(name, name), ATOM)
        raise TypeError(f"{type(e).__name__} has no value on the host")


def python_expr(e: Expr, names: Mapping[str, str] | None = None) -> str:
    """Return a scalar expression as Python text; it may use `math`. `names` renames sizes and parameters (to atoms)."""
    return PythonPrinter(names or {}).text(e)
