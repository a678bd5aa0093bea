"""Products under a sum: which factors move out of it, which is a weight that a fold carries, and which make a Dot."""

from __future__ import annotations

from kgen import accumulators
from kgen.accumulators import Record
from kgen.algebra import conjuncts, factors, fold, product, substitute
from kgen.folded import Operands
from kgen.terms import Cast, Const, Expr, Get, Reduce, free_axes, parts, walk


def in_base2(record: Record, arg: Expr, operands: Operands) -> tuple[Record, Expr, Operands]:
    """Use the record in powers of two where it has that form: exp(x) = exp2(x * log2(e)), joined to the input."""
    rewritten = accumulators.to_base2(record)
    if rewritten is None:
        return record, arg, operands
    log2e = Const(arg.dtype, accumulators.LOG2E)
    scaled = tuple((k, _times_constant(x, log2e) if k in rewritten.scaled else x) for k, x in operands)
    return rewritten, _times_constant(arg, log2e), scaled


def _times_constant(e: Expr, c: Expr) -> Expr:
    """Return e * c with c joined to the factors that vary with no axis, so that the product of those is made once."""
    given = factors(e)
    fixed = product((*(p for p in given if not free_axes(p)), c))
    made = product((*(p for p in given if free_axes(p)), *((fixed,) if fixed is not None else ())))
    return fold(made) if made is not None else c


def is_product_of_two(term: Expr, e: Reduce) -> bool:
    """Would this term alone be a Dot: two factors over the reduced axes with different other axes?"""
    reduced = frozenset(e.axes)
    sides = {free_axes(f) - reduced for f in factors(term) if free_axes(f) & reduced}
    return len(sides) > 1


def constant_factors(e: Reduce) -> tuple[Expr, Expr] | None:
    """Split a summed product into factors that do not depend on the reduced axes, and the rest.

    Results of other reductions move out for the sake of a Dot only: they may be infinite, and infinity times a sum of
    no elements is no number.
    """
    if not e.arg.dtype.is_float:
        return None
    reduced = frozenset(e.axes)
    movable = [
        p for p in factors(e.arg) if not free_axes(p) & reduced and (is_product_of_two(e.arg, e) or _is_plain(p))
    ]
    outside = [p for p in factors(e.arg) if p in movable]
    inside = [p for p in factors(e.arg) if p not in movable]
    if not outside or not inside:
        return None
    out, kept = product(outside), product(inside)
    return None if out is None or kept is None else (out, kept)


def _is_plain(e: Expr) -> bool:
    return not any(isinstance(n, Reduce) for n in parts(e))


def weight_factor(term: Expr, e: Reduce) -> tuple[Reduce, Expr] | None:
    """Return (the one element-wise reduction over the axes of `e` among the factors, the product of the others)."""
    found = [(p, _uncast(p)) for p in factors(term)]
    hits = [
        (p, r) for p, r in found if isinstance(r, Reduce) and r.elementwise and r.axes == e.axes and _guards_agree(r, e)
    ]
    if len(hits) != 1:
        return None
    ((hit, inner),) = hits
    rest = product(p for p, _ in found if p is not hit)
    return inner, rest if rest is not None else Const(e.arg.dtype, 1.0)


def _uncast(e: Expr) -> Expr:
    """Look through a conversion that loses nothing."""
    widens = isinstance(e, Cast) and e.dtype.is_float and e.arg.dtype.is_float and e.dtype.bits >= e.arg.dtype.bits
    return e.arg if isinstance(e, Cast) and widens else e


def _guards_agree(inner: Reduce, outer: Reduce) -> bool:
    return outer.guard is None or set(conjuncts(inner.guard)) <= set(conjuncts(outer.guard))


def joined(a: Expr, b: Expr) -> Expr:
    made = product((a, *factors(b)))
    return a if made is None else made


def put(formula: Expr, names: dict[str, Expr]) -> Expr:
    """Put expressions for a record's names, in the form that prints directly."""
    found: dict[Expr, Expr] = {
        n: names[n.var.name] for n in walk(formula) if isinstance(n, Get) and n.var.name in names
    }
    return fold(substitute(accumulators.safe(formula), found))
