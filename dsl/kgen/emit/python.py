"""Scalar expressions as Python text for host code: sizes, checks, grid counts, parameter defaults."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.emit.printer import ATOM, UNARY, Printer, Text, python_literal, signed
from kgen.terms import Apply, Cast, Const, Expr, Param, Size

_OPERATORS = {
    "add": ("+", 10), "sub": ("-", 10), "mul": ("*", 11), "div": ("/", 11), "floordiv": ("//", 11), "mod": ("%", 11),
    "quot": ("//", 11), "rem": ("%", 11), "shl": ("<<", 9), "shr": (">>", 9), "bitand": ("&", 8), "bitxor": ("^", 7),
    "bitor": ("|", 6), "lt": ("<", 5), "le": ("<=", 5), "gt": (">", 5), "ge": (">=", 5), "eq": ("==", 5),
    "ne": ("!=", 5), "and": ("and", 3), "or": ("or", 2),
}  # fmt: skip
_COMPARE = 5
_NOT = 4
_CONDITIONAL = 1
_POWER = 13
_CALLS = {
    "maximum": "max", "minimum": "min", "abs": "abs", "exp": "math.exp", "exp2": "math.exp2", "log": "math.log",
    "log2": "math.log2", "sqrt": "math.sqrt", "sin": "math.sin", "cos": "math.cos", "erf": "math.erf",
    "tanh": "math.tanh", "floor": "math.floor", "ceil": "math.ceil", "isnan": "math.isnan",
}  # fmt: skip


class PythonPrinter(Printer):
    """Prints with Python's operators; `names` maps a size or parameter to its Python expression (an atom)."""

    language = "python"

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def applied(self, e: Apply) -> Text:
        """Return an operator or a call; ValueError for a function that has no scalar Python form."""
        if e.fn in _OPERATORS:
            operator, prec = _OPERATORS[e.fn]
            left = self.text(e.args[0], prec + 1 if prec == _COMPARE else prec)
            return Text(f"{left} {operator} {self.text(e.args[1], prec + 1)}", prec)
        if e.fn in _CALLS:
            return Text(f"{_CALLS[e.fn]}({', '.join(self.text(a) for a in e.args)})")
        match e.fn, e.args:
            case "neg", (x,):
                return Text(f"-{self.text(x, UNARY + 1)}", UNARY)
            case "not", (x,):
                return Text(f"not {self.text(x, _NOT)}", _NOT)
            case "pow", (x, y):
                return Text(f"{self.text(x, _POWER + 1)} ** {self.text(y, UNARY)}", _POWER)
            case "where", (c, x, y):
                inner = _CONDITIONAL + 1
                return Text(
                    f"{self.text(x, inner)} if {self.text(c, inner)} else {self.text(y, _CONDITIONAL)}", _CONDITIONAL
                )
            case "rsqrt", (x,):
                return Text(f"1 / math.sqrt({self.text(x)})", 11)
            case "sigmoid", (x,):
                return Text(f"1 / (1 + math.exp(-{self.text(x, UNARY + 1)}))", 11)
            case "fma", (x, y, z):
                return Text(f"{self.text(x, 11)} * {self.text(y, 12)} + {self.text(z, 11)}", 10)
        raise ValueError(f"'{e.fn}' has no scalar Python form")

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
