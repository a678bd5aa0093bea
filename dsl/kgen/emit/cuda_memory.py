"""Global memory in CUDA text: addresses, loads into registers and stores, in the widths that the plan gives."""

from __future__ import annotations

from collections.abc import Callable

from kgen.emit.address import Address, address, grouped, product, scalar_product
from kgen.emit.cuda_expr import literal
from kgen.emit.cuda_scope import Context, Nest, unrolled
from kgen.ir import LoadTile, Store
from kgen.schedule_access import Form
from kgen.schedule_demand import tile_axes_of
from kgen.terms import Expr
from kgen.types import DType

AND = 3  # binds tighter than &&


def pointer(context: Context, op: LoadTile | Store, parts: Address) -> tuple[list[str], str]:
    """Return the lines that declare a pointer to the tile, and its text; no lines for a single element."""
    base = context.names.arguments[op.buffer]
    if not parts.base:
        return [], base
    terms = [Nest(context, ()).text(scalar_product(t), 10) for t in grouped(parts.base)]
    if not parts.tile:
        return [], summed([base, *terms])
    dtype = context.kernel.buffers[op.buffer].dtype
    const = "const " if isinstance(op, LoadTile) else ""
    name = context.scope.give(f"{base}_ptr")
    return [f"{const}{dtype.cuda}* {name} = {summed([base, *terms])};"], name


def summed(terms: list[str]) -> str:
    """Return the sum of terms, each of which binds as a summand."""
    whole = terms[0] if terms else "0"
    for term in terms[1:]:
        whole += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return whole


def place(nest_text: Callable[[Expr, int], str], parts: Address, base: str) -> str:
    """Return the address of the current element."""
    terms = grouped(parts.tile)
    return summed([base, *(nest_text(t.index if t.stride is None else product(t), 10) for t in terms)])


def load(context: Context, op: LoadTile, form: Form) -> list[str]:
    """Return the lines of a load into registers."""
    parts = address(context.kernel, op.buffer, op.index)
    before, base = pointer(context, op, parts)
    widths = {form.axis: form.width} if form.axis is not None and form.width > 1 else {}
    nest = Nest(context, op.dst.axes, widths)
    target = nest.at(op.dst)
    if form.width > 1:
        assert form.axis is not None
        body = _load_run(context, nest, op, form, place(nest.text, parts, base))
        return [*before, f"{context.declaration(op.dst)};", *nest.lines(body)]
    value = element(nest.text, op, place(nest.text, parts, base))
    if not context.held_dims(op.dst.axes):
        return [*before, f"const {op.dst.dtype.cuda} {target} = {value};"]
    return [*before, f"{context.declaration(op.dst)};", *nest.lines([f"{target} = {value};"])]


def element(text: Callable[..., str], op: LoadTile, at: str) -> str:
    """Return the load of one element, `other` where it does not exist."""
    if op.where is None:
        return f"ldg({at})"
    if _is_zero(op.other):
        return f"ldg_if({at}, {text(op.where)})"
    other = literal(op.dst.dtype, op.other)
    return f"{text(op.where, AND)} ? ldg_if({at}, {text(op.where)}) : {other}"


def _is_zero(value: float) -> bool:
    return value == 0


def run_of(text: Callable[..., str], form: Form, position: str, at: str) -> str:
    """Return a load of `form.width` elements as a vec, zero where they do not exist."""
    if form.bound is not None:
        left = f"{text(form.bound, 10)} - {position}"
        valid = left if form.uniform is None else f"{text(form.uniform, AND)} ? {left} : 0"
        return f"ldg_head<{form.width}>({at}, {valid})"
    if form.uniform is not None:
        return f"ldg_vec_if<{form.width}>({at}, {text(form.uniform)})"
    return f"ldg_vec<{form.width}>({at})"


def _load_run(context: Context, nest: Nest, op: LoadTile, form: Form, at: str) -> list[str]:
    assert form.axis is not None
    run = context.scope.give(f"{context.names.arguments[op.buffer]}_run")
    position = nest.position(form.axis).code if form.bound is not None else ""
    whole = run_of(nest.text, form, f"({position})" if " " in position else position, at)
    nest.within[form.axis] = "j"
    value = f"{run}[j]"
    if op.where is not None and not _is_zero(op.other):
        value = f"{nest.text(op.where, AND)} ? {run}[j] : {literal(op.dst.dtype, op.other)}"
    lines = [f"const vec<{op.dst.dtype.cuda}, {form.width}> {run} = {whole};"]
    return [*lines, *unrolled("j", form.width, [f"{nest.at(op.dst)} = {value};"])]


def store(context: Context, op: Store, form: Form) -> list[str]:
    """Return the lines of a store from registers, by one owner for each element."""
    tile_axes = tile_axes_of(context.kernel, *op.index, op.value, op.where)
    axes = tuple(a for a in context.kernel.tile_axes if a in tile_axes)
    parts = address(context.kernel, op.buffer, op.index)
    before, base = pointer(context, op, parts)
    order = tuple(sorted(axes, key=lambda a: a == form.axis))
    nest = Nest(context, order, {form.axis: form.width} if form.axis is not None and form.width > 1 else {})
    at = place(nest.text, parts, base)
    if form.width > 1:
        return [*before, *nest.lines(_store_run(context, nest, op, form, at, context.owner(axes)))]
    conditions = [*context.owner(axes), *([] if op.where is None else [nest.text(op.where, 2)])]
    value = nest.text(op.value)
    call = f"stg_if({at}, {value}, {' && '.join(conditions)});" if conditions else f"stg({at}, {value});"
    return [*before, *nest.lines([call])]


def _store_run(context: Context, nest: Nest, op: Store, form: Form, at: str, owner: list[str]) -> list[str]:
    assert form.axis is not None
    run = context.scope.give(f"{context.names.arguments[op.buffer]}_run")
    conditions = [*owner, *([] if form.uniform is None else [nest.text(form.uniform, 2)])]
    position = nest.position(form.axis).code if form.bound is not None else ""
    if form.bound is not None:
        left = f"{nest.text(form.bound, 10)} - " + (f"({position})" if " " in position else position)
        valid = left if not conditions else f"{' && '.join(conditions)} ? {left} : 0"
        call = f"stg_head({at}, {run}, {valid});"
    elif conditions:
        call = f"stg_vec_if({at}, {run}, {' && '.join(conditions)});"
    else:
        call = f"stg_vec({at}, {run});"
    nest.within[form.axis] = "j"
    fill = unrolled("j", form.width, [f"{run}[j] = {nest.text(op.value)};"])
    return [f"vec<{_cuda(context, op)}, {form.width}> {run};", *fill, call]


def _cuda(context: Context, op: Store) -> str:
    dtype: DType = context.kernel.buffers[op.buffer].dtype
    return dtype.cuda
