"""Types of the expressions in accumulator records: syntax trees to typed expressions over the names of a scope."""

from __future__ import annotations

from collections.abc import Mapping

from kgen import syntax as s
from kgen.errors import fail, nearest
from kgen.functions import argument_dtypes, result_dtype, table
from kgen.terms import Apply, Cast, Const, Expr, Get, Reduce, Var
from kgen.types import BOOL, DTYPES, F32, F64, I32, DType, compute_dtype

INF = float("inf")
CONSTANTS: dict[str, tuple[DType, float | bool]] = {
    "inf": (F32, INF),
    "nan": (F32, float("nan")),
    "true": (BOOL, True),
    "false": (BOOL, False),
}
REDUCERS = ("sum", "max", "min", "count", "any", "all")
_ALIASES = {"max": "maximum", "min": "minimum"}
SAFE_DIV = "safe_div"  # x / y, and 0 where y is 0; expanded by `safe`


def type_expr(node: s.Node, scope: Mapping[str, DType], elements: frozenset[str] | None) -> Expr:
    """Return `node` typed. Names are looked up in `scope`.

    `elements`: the names that vary over a tile's elements, for reductions; None where there may be no reduction.
    """
    return _Typer(scope, elements).expr(node)


def convert(e: Expr, dtype: DType) -> Expr:
    """Return `e` as a value of `dtype`; literals, also as branches of a `where`, change type without a conversion."""
    if e.dtype is dtype:
        return e
    match e:
        case Const(value=value) if (value is True or value is False) == (dtype is BOOL):
            return Const(dtype, float(value) if dtype.is_float else value, span=e.span)
        case Apply(fn="where", args=(c, a, b)) if isinstance(a, Const) and isinstance(b, Const):
            return Apply(dtype, "where", (c, convert(a, dtype), convert(b, dtype)), span=e.span)
    return Cast(dtype, e, span=e.span)


def varies(e: Expr, elements: frozenset[str]) -> bool:
    """Return whether `e` has its own value for each element (a finished reduction has not)."""
    match e:
        case Get(var=var):
            return var.name in elements
        case Apply(args=args):
            return any(varies(x, elements) for x in args)
        case Cast(arg=arg):
            return varies(arg, elements)
    return False


class _Typer:
    def __init__(self, scope: Mapping[str, DType], elements: frozenset[str] | None) -> None:
        self.scope = scope
        self.elements = elements

    def expr(self, node: s.Node) -> Expr:
        match node:
            case s.Number(value=value):
                return Const(I32 if isinstance(value, int) else F32, value, span=node.span)
            case s.Name():
                return self.name(node)
            case s.Operator(fn=fn, args=args):
                return self.apply(fn, tuple(self.expr(a) for a in args), node.span)
            case s.Call():
                return self.call(node)
            case s.Convert(dtype=dtype, arg=arg):
                if dtype not in DTYPES:
                    raise fail(node.span, f"unknown type '{dtype}'", nearest(dtype, DTYPES))
                return convert(self.expr(arg), compute_dtype(DTYPES[dtype]))
            case s.Reduction():
                return self.reduction(node)
        raise fail(node.span, "a record has no tensors to access")

    def name(self, node: s.Name) -> Expr:
        if node.name in CONSTANTS:
            dtype, value = CONSTANTS[node.name]
            return Const(dtype, value, span=node.span)
        if node.name not in self.scope:
            hint = nearest(node.name, self.scope) or "known here: " + ", ".join(self.scope)
            raise fail(node.span, f"unknown name '{node.name}'", hint)
        return Get(self.scope[node.name], Var(node.name, self.scope[node.name], ()), span=node.span)

    def call(self, node: s.Call) -> Expr:
        args = tuple(self.expr(a) for a in node.args)
        if node.name == SAFE_DIV:
            self.count(node, 2)
            dtype = F64 if F64 in (a.dtype for a in args) else F32
            return Apply(dtype, SAFE_DIV, tuple(convert(a, dtype) for a in args), span=node.span)
        names = {f.name for f in table().values() if f.operator is None and not f.internal}
        fn = _ALIASES.get(node.name, node.name)
        if fn not in names:
            raise fail(node.span, f"unknown function '{node.name}'", nearest(node.name, {*names, *_ALIASES, SAFE_DIV}))
        self.count(node, table()[fn].args)
        return self.apply(fn, args, node.span)

    @staticmethod
    def count(node: s.Call, wanted: int) -> None:
        if len(node.args) != wanted:
            raise fail(node.span, f"'{node.name}' takes {wanted} arguments, not {len(node.args)}")

    def apply(self, fn: str, args: tuple[Expr, ...], span: s.Span) -> Expr:
        row = table()[fn]
        try:
            dtypes = argument_dtypes(row, tuple(a.dtype for a in args))
        except ValueError as e:
            raise fail(span, str(e)) from None
        if fn == "isnan" and not args[0].dtype.is_float:
            return Const(BOOL, False, span=span)
        converted = tuple(convert(a, t) for a, t in zip(args, dtypes, strict=True))
        return _fold(Apply(result_dtype(row, dtypes), fn, converted, span=span))

    def reduction(self, node: s.Reduction) -> Expr:
        if self.elements is None:
            raise fail(node.span, "no reduction is possible here", "`update` and `direct` see more than one element")
        if node.name not in REDUCERS:
            raise fail(node.span, f"unknown reduction '{node.name}'", nearest(node.name, REDUCERS))
        if tuple(a.name for a in node.axes) != (".",) or node.guard is not None:
            raise fail(node.span, "a record reduces over its elements alone", f"write {node.name}[.](...)")
        arg = self.expr(node.arg)
        if not varies(arg, self.elements):
            raise fail(node.span, f"the argument of '{node.name}[.]' does not vary over the elements")
        if node.name in ("any", "all") and arg.dtype is not BOOL:
            raise fail(node.span, f"'{node.name}[.]' needs a bool, not {arg.dtype}")
        dtype = I32 if node.name == "count" else arg.dtype
        return Reduce(dtype, node.name, ".", (".",), None, arg, span=node.span)


def _fold(e: Apply) -> Expr:
    """Return `e` without what its literals decide: signs, and bools left by tests that an integer cannot fail."""
    match e:
        case Apply(fn="neg", args=(Const(value=value),)):
            return Const(e.dtype, -value, span=e.span)
        case Apply(fn="not", args=(Const(value=value),)):
            return Const(BOOL, not value, span=e.span)
        case (
            Apply(fn="and" | "or" as fn, args=(Const(value=value), other))
            | Apply(fn="and" | "or" as fn, args=(other, Const(value=value)))
        ):
            return other if value == (fn == "and") else Const(BOOL, bool(value), span=e.span)
    return e
