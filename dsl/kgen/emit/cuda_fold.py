"""Reductions in CUDA text: a thread's registers, then the lanes of its warp, then the warps through shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgen.emit.cuda_expr import CudaPrinter, literal
from kgen.emit.cuda_scope import PRODUCT, Context, Nest, block, byte_address, indented, unrolled
from kgen.emit.printer import Text
from kgen.ir import Combine, TileReduce
from kgen.schedule_homes import defined
from kgen.schedule_steps import Fold, Scratch
from kgen.terms import Apply, Expr, Get, Var, walk
from kgen.types import DType

# any and all join by | and &: the short-circuit operators would let some lanes skip a shuffle.
_JOIN = {"sum": "{0} + {1}", "any": "{0} | {1}", "all": "{0} & {1}", "max": "max({0}, {1})", "min": "min({0}, {1})"}
_FLOAT_JOIN = {"max": "max_nan({0}, {1})", "min": "min_nan({0}, {1})"}


@dataclass(frozen=True)
class Merge:
    """The merge of a Combine as a struct and a device function of the file."""

    struct: str
    function: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class _Folding:
    """How partial results are named and joined; `shuffled` and `loaded` give a partner's part."""

    dtype: str
    start: str
    join: Callable[[str, str], str]
    shuffled: Callable[[str], str]
    dsts: tuple[Var, ...]
    fields: tuple[str, ...]


def merge_of(op: Combine, name: str) -> Merge:
    """Return the text of a merge: the state as a struct, its rule as a function of two states."""
    struct = "".join(part.capitalize() for part in name.split("_")) + "State"
    fields = dict(zip(op.states, op.dsts, strict=True))
    printer = CudaPrinter(_merge_leaf)
    lines = [f"struct {struct} {{", *indented(f"{v.dtype.cuda} {n};" for n, v in fields.items()), "};", ""]
    lines.append(f"KG_DEVICE {struct} merge_{name}({struct} a, {struct} b) {{")
    lines += indented(f"const {e.dtype.cuda} {n} = {printer.text(e)};" for n, e in op.merge)
    return Merge(struct, f"merge_{name}", (*lines, f"    return {{{', '.join(op.states)}}};", "}"))


def _merge_leaf(e: Expr) -> Text:
    if isinstance(e, Get):
        return Text(e.var.name)
    raise TypeError(f"a merge reads two states only, not {type(e).__name__}")


def fold(context: Context, step: Fold, merge: Merge | None, bases: tuple[str, ...]) -> list[str]:
    """Return the lines of a reduction; its results are declared, and held by every thread of the group."""
    op = step.op
    dsts = defined(op)
    how = _reduce_folding(op) if isinstance(op, TileReduce) else _combine_folding(op, merge)
    nest = Nest(context, dsts[0].axes)
    looped = bool(context.held_dims(dsts[0].axes))
    part = nest.at(dsts[0]) if isinstance(op, TileReduce) else context.scope.give("part")
    typed = "" if isinstance(op, TileReduce) and looped else f"{how.dtype} "
    declared = [f"{context.declaration(v)};" for v in dsts if looped]
    body = [*_registers(context, op, nest, how, part, typed), *_lanes(step, how, part)]
    if not step.scratch:
        body += _same_for_all(step, how, part)
        return [*declared, *nest.lines([*body, *_results(nest, how, part, looped)])]
    write = nest.lines([*body, *_write_parts(context, step, nest, how, part, bases)])
    again = Nest(context, dsts[0].axes)
    renewed = typed if looped else ""
    read = [*_read_parts(step, again, how, part, bases, renewed), *_results(again, how, part, looped)]
    return [*declared, *write, "sync_threads();", *again.lines(read)]


def _reduce_folding(op: TileReduce) -> _Folding:
    dtype = op.dst.dtype
    form = (_FLOAT_JOIN if dtype.is_float else {}).get(op.op) or _JOIN[op.op]
    start = literal(dtype, _identity(op.op, dtype))
    return _Folding(dtype.cuda, start, form.format, lambda p: f"shfl_xor({p}, bit)", (op.dst,), ("",))


def _identity(op: str, dtype: DType) -> int | float | bool:
    match op:
        case "sum" | "any":
            return 0
        case "all":
            return 1
        case "max":
            return float("-inf") if dtype.is_float else 0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))
        case "min":
            return float("inf") if dtype.is_float else 2 ** (dtype.bits - (dtype.kind != "uint")) - 1
        case _:
            raise TypeError(f"no reduction named {op}")


def _combine_folding(op: Combine, merge: Merge | None) -> _Folding:
    assert merge is not None
    struct, function = merge.struct, merge.function

    def shuffled(part: str) -> str:
        return f"{struct}{{{', '.join(f'shfl_xor({part}.{s}, bit)' for s in op.states)}}}"

    fields = tuple(f".{s}" for s in op.states)
    return _Folding(struct, "", lambda a, b: f"{function}({a}, {b})", shuffled, op.dsts, fields)


def _registers(
    context: Context, op: TileReduce | Combine, nest: Nest, how: _Folding, part: str, typed: str
) -> list[str]:
    """Fold the thread's own elements into `part`."""
    inner = Nest(context, (op.axis,), parent=nest)
    texts = [inner.text(e) for e in ((op.src,) if isinstance(op, TileReduce) else op.srcs)]
    item = texts[0] if isinstance(op, TileReduce) else f"{how.dtype}{{{', '.join(texts)}}}"
    if not context.held_dims((op.axis,)):
        return [f"{typed}{part} = {item};"]
    if isinstance(op, TileReduce):
        return [f"{typed}{part} = {how.start};", *inner.lines([f"{part} = {how.join(part, inner.text(op.src, 11))};"])]
    step = f"{part} = {inner.register(op.axis)} == 0 ? item : {how.join(part, 'item')};"
    return [f"{typed}{part} = {{}};", *inner.lines([f"const {how.dtype} item = {item};", step])]


def _lanes(step: Fold, how: _Folding, part: str) -> list[str]:
    if step.lanes == 1:
        return []
    stride = step.group.stride
    head = f"KG_UNROLL for (int bit = {stride}; bit < {stride * step.lanes}; bit *= 2)"
    return block(head, [f"{part} = {how.join(part, how.shuffled(part))};"])


def _same_for_all(step: Fold, how: _Folding, part: str) -> list[str]:
    """Rounding makes a merge of floats depend on the order of its arguments, which differs between lanes: take the
    first lane's result, so that all copies of a value are equal."""
    if not isinstance(step.op, Combine) or step.lanes == 1 or not _rounds(step.op):
        return []
    others = (step.lanes - 1) * step.group.stride
    first = f"threadIdx.x % 32 & ~{others}"
    return [f"{part} = {how.dtype}{{{', '.join(f'shfl_idx({part}.{s}, {first})' for s in step.op.states)}}};"]


def _rounds(op: Combine) -> bool:
    exact = ("where", "maximum", "minimum", "neg", "abs")
    nodes = [e for _, root in op.merge for e in walk(root)]
    return any(isinstance(e, Apply) and e.dtype.is_float and e.fn not in exact for e in nodes)


def _results(nest: Nest, how: _Folding, part: str, looped: bool) -> list[str]:
    """Unpack a state into its values; a plain reduction is made in its value's own place."""
    if how.fields == ("",):
        return []
    lines = []
    for var, name in zip(how.dsts, how.fields, strict=True):
        declare = "" if looped else f"const {var.dtype.cuda} "
        lines.append(f"{declare}{nest.at(var)} = {part}{name};")
    return lines


def _slot(context: Context, nest: Nest, scratch: Scratch, base: str, row: Text, axes: tuple[str, ...]) -> str:
    """Return the address of a warp's part for the current element."""
    terms = [] if row.code == "0" else [_scaled(row, scratch.slots)]
    pitch = scratch.slots
    for axis in axes:
        pitch //= context.kernel.tile_axes[axis].size
        place = nest.offset(axis)
        if place.code != "0":
            terms.append(_scaled(place, pitch))
    return byte_address(base, terms, scratch.dtype.bytes)


def _scaled(place: Text, factor: int) -> str:
    if factor == 1:
        return place.code
    return f"{place.code if place.prec >= PRODUCT else f'({place.code})'} * {factor}"


def _write_parts(
    context: Context, step: Fold, nest: Nest, how: _Folding, part: str, bases: tuple[str, ...]
) -> list[str]:
    """The first lane of each warp writes the warp's part; copies keep silent."""
    axis, axes = step.op.axis, how.dsts[0].axes
    layout = context.map.axes[axis]
    thread = context.coordinate(step.group, layout.threads)
    lane = [f"{thread.code} % {step.lanes} == 0"] if step.lanes > 1 else []
    row = Text(f"{thread.code} / {step.lanes}", PRODUCT) if step.lanes > 1 else thread
    owner = [*lane, *context.owner((*axes, axis))]
    stores = [
        f"sts<{s.dtype.cuda}>({_slot(context, nest, s, base, row, axes)}, {part}{name});"
        for s, base, name in zip(step.scratch, bases, how.fields, strict=True)
    ]
    return block(f"if ({' && '.join(owner)})", stores) if owner else stores


def _read_parts(step: Fold, nest: Nest, how: _Folding, part: str, bases: tuple[str, ...], typed: str) -> list[str]:
    """Every thread joins the parts of all warps, in order."""
    context, axes = nest.context, how.dsts[0].axes

    def loaded(row: str) -> str:
        at = Text(row)
        places = [_slot(context, nest, s, b, at, axes) for s, b in zip(step.scratch, bases, strict=True)]
        texts = [f"lds<{s.dtype.cuda}>({p})" for s, p in zip(step.scratch, places, strict=True)]
        return texts[0] if how.fields == ("",) else f"{how.dtype}{{{', '.join(texts)}}}"

    warps = step.scratch[0].warps
    first = f"{typed}{part} = {loaded('0')};"
    return [first, *unrolled("warp", warps, [f"{part} = {how.join(part, loaded('warp'))};"], first=1)]
