"""Expressions to text with the fewest parentheses, over the table of functions. One subclass per language."""

from __future__ import annotations

import math
from typing import NamedTuple

from kgen.functions import ATOM, Function, table
from kgen.terms import Apply, Cast, Const, Expr, Get, Load, Param, Pos, Reduce, Ref, Size, Start
from kgen.types import DType

UNARY = 12  # precedence of a sign; all binary operators bind weaker
ANY = 0  # needs no parentheses whatever it holds


class Text(NamedTuple):
    """A piece of code and how tightly its outermost operator binds."""

    code: str
    prec: int = ATOM


class Printer:
    """Prints typed expressions. `language` names the column of functions.yaml.

    Subclasses give leaves, literals and conversions; `text` is the only entry.
    """

    language: str

    def text(self, e: Expr, need: int = ANY) -> str:
        """Return the code of `e`, in parentheses if its operator binds weaker than `need`."""
        code, prec = self.piece(e)
        return code if prec >= need else f"({code})"

    def piece(self, e: Expr) -> Text:
        """Return the code of `e` and its precedence; TypeError for a node that an earlier stage should have removed."""
        match e:
            case Const():
                return self.const(e)
            case Apply():
                return self.applied(e)
            case Cast():
                return self.cast(e)
            case Pos() | Start() | Size() | Param() | Get():
                return self.leaf(e)
            case Load() | Ref() | Reduce():
                raise TypeError(f"{type(e).__name__} must be lowered by the tile stage before it can be printed")
            case _:
                raise TypeError(f"no printed form for {type(e).__name__}")

    def applied(self, e: Apply) -> Text:
        """Return a row of the table applied to its printed arguments."""
        row = table()[e.fn]
        form, prec = row.form(self.language, self.form_dtype(e)), row.prec(self.language)
        needs = (self.needed(row, form, i, prec) for i in range(len(e.args)))
        return Text(form.format(*(self.text(a, n) for a, n in zip(e.args, needs, strict=True))), prec)

    def needed(self, row: Function, form: str, i: int, prec: int) -> int:
        """Return how tightly argument `i` must bind where the form puts it."""
        if prec == ATOM:
            return ANY
        if row.args >= 3:  # `c ? a : b`, `a * b + c`: a form of several operators
            return UNARY if prec else prec + 1
        first_of_chain = i == 0 and row.args == 2 and row.types not in ("compare", "test")
        return prec if first_of_chain and row.assoc == "left" else prec + 1

    def form_dtype(self, e: Apply) -> DType:
        """Return the type that chooses the form: that of the first argument that is not a condition."""
        return e.args[1].dtype if e.fn == "where" else e.args[0].dtype

    def const(self, e: Const) -> Text:
        """Return a literal."""
        raise NotImplementedError

    def cast(self, e: Cast) -> Text:
        """Return a conversion."""
        raise NotImplementedError

    def leaf(self, e: Expr) -> Text:
        """Return a name."""
        raise NotImplementedError


def signed(code: str) -> Text:
    """Return a literal, which binds as a unary operator when it starts with a sign."""
    return Text(code, UNARY if code.startswith("-") else ATOM)


def python_literal(e: Const) -> str:
    """Return a Python literal of the value as `e.dtype` holds it; non-finite floats as calls of `float`."""
    if e.dtype.kind == "bool":
        return str(bool(e.value))
    if not e.dtype.is_float:
        return str(int(e.value))
    value = float(e.value)
    return repr(value) if math.isfinite(value) else f'float("{value}")'
