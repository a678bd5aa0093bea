"""Matrix products in CUDA text by the instructions of warpgroups: operands by descriptor, results in place.

A result is declared as the instructions hold it: 64 rows by all columns are `columns / 2` registers of a thread, eight
columns after eight. Its instructions run asynchronously between a fence and a wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from kgen.emit.cuda_expr import conversion
from kgen.emit.cuda_scope import Context, FragmentOrder, Nest, indented, unrolled
from kgen.layout import ThreadMap
from kgen.layout_descriptors import LAYOUT_CODES
from kgen.schedule_steps import Pack, SharedTile, Step, WgmmaMultiply, WgmmaWait, all_steps
from kgen.schedule_wgmma_map import GROUP, ROW_REGISTERS, ROWS
from kgen.terms import Cast, Expr
from kgen.types import F32

DEPTH = 16  # of one product
WIDEST = 256  # columns of one product
EIGHT = 8  # rows or columns of a matrix in shared memory
UNIT = 16  # bytes in which a descriptor counts

SPANNED = """
// Place of a byte in a tile of ROWS rows, cut into pieces of SPAN bytes: a piece's rows follow each other,
// and the 16-byte chunks of a row are permuted by its number, as TMA writes and wgmma reads them.
template <int SPAN, int ROWS>
KG_DEVICE constexpr u32 spanned(u32 row, u32 byte) {
    const u32 at = byte / SPAN * (ROWS * SPAN) + row * SPAN + byte % SPAN;
    return at ^ (at >> 3 & (SPAN - 16));
}"""


def fragment_orders(steps: tuple[Step, ...]) -> dict[str, FragmentOrder]:
    """Return how the results of all products are declared, by name."""
    found = [s for s in all_steps(steps) if isinstance(s, WgmmaMultiply)]
    return {s.op.dst.name: FragmentOrder(s.row, s.col) for s in found}


@dataclass(frozen=True)
class _Operand:
    """An operand in shared memory: `free` is the axis of the result that it holds, its descriptor is called `name`."""

    tile: SharedTile
    free: str
    name: str

    @property
    def transposed(self) -> bool:
        return self.tile.inner == self.free

    @property
    def piece(self) -> int:
        """Bytes from one span of the contiguous dimension to the next."""
        return self.tile.rows * self.tile.span

    def line(self, base: str) -> str:
        """Return the declaration of the descriptor of a tile or a part of it at address `base`."""
        leading = self.piece if self.transposed else UNIT
        fields = f"{leading}, {EIGHT * self.tile.span}, {LAYOUT_CODES[self.tile.span]}"
        return f"const u64 {self.name} = smem_desc({base}, {fields});"

    def moved(self, first: int) -> int:
        """Return how many bytes further the row or column `first` of the result lies: a multiple of 64."""
        size = self.tile.dtype.bytes
        return first * size // self.tile.span * self.piece if self.transposed else first * self.tile.span

    def at(self, depth: str, deep: int, first: int) -> str:
        """Return the descriptor at depth `depth` of `deep`, from row or column `first` on."""
        span, terms = self.tile.span, [self.name]
        across = span // self.tile.dtype.bytes  # elements of a span
        if self.transposed:
            terms.append(f"{depth} * {span // UNIT}")
        elif deep <= across:
            terms.append(f"{depth} / {EIGHT}")
        else:
            terms += [f"{depth} / {across} * {self.piece // UNIT}", f"{depth} % {across} / {EIGHT}"]
        if first:
            terms.append(str(self.moved(first) // UNIT))
        return " + ".join(terms)


def multiply(context: Context, step: WgmmaMultiply, base_a: str | None, base_b: str) -> list[str]:
    """Return the lines that start a Dot; a Dot that does not accumulate declares its result."""
    op = step.op
    context.scope.open()
    at = context.scope.give(f"{op.contract}_at")
    deep, wide = (context.kernel.tile_axes[a].size for a in (op.contract, step.col))
    right = _Operand(step.b, step.col, context.scope.give(f"{context.value(step.right)}_desc"))
    before = [right.line(base_b)]
    left = None
    if step.a is not None:
        left = _Operand(step.a, step.row, context.scope.give(f"{context.value(step.left)}_desc"))
        before.insert(0, left.line(f"{base_a}{_group_part(context, left)}"))
    calls = []
    for piece in range(context.map.axes[step.row].registers // ROW_REGISTERS):
        for first in range(0, wide, WIDEST):
            calls.append(_call(context, step, left, right, at, (deep, wide, piece, first)))
    result = context.value(op.dst)
    context.scope.close()
    body = [
        *before,
        *([f"wgmma_hold({result});"] if op.accumulate else []),
        "wgmma_fence();",
        *unrolled(at, deep, calls, DEPTH),
        "wgmma_commit();",
    ]
    declare = [] if op.accumulate else [f"{context.declaration(op.dst)};"]
    return [*declare, "{", *indented(body), "}"]


def wait(context: Context, step: WgmmaWait) -> list[str]:
    """Return the wait, and what keeps the uses of finished results behind it."""
    holds = [f"wgmma_hold({context.names.values[name]});" for name in step.results]
    return [f"wgmma_wait<{step.pending}>();", *holds]


def _call(
    context: Context,
    step: WgmmaMultiply,
    left: _Operand | None,
    right: _Operand,
    at: str,
    place: tuple[int, int, int, int],
) -> str:
    """Return one call: 64 rows, numbered `piece` in this warpgroup, by up to 256 columns from `first` on."""
    deep, wide, piece, first = place
    op, dtype = step.op, step.b.dtype.cuda
    columns = min(WIDEST, wide - first)
    begin = (piece * wide + first) // 2
    d = context.value(op.dst) + (f" + {begin}" if begin else "")
    b = right.at(at, deep, first)
    last = "" if op.accumulate else f", {at} > 0"
    if left is None:
        pieces = context.map.axes[step.row].registers // ROW_REGISTERS
        a = f"{context.value(step.left)}{f'[{piece}]' if pieces > 1 else ''}[{at} / {DEPTH}]"
        return f"wgmma_rs<{dtype}, {columns}, {int(right.transposed)}>({d}, {a}, {b}{last});"
    a = left.at(at, deep, piece * ROWS * _groups(context.map, step.row))
    kinds = f"{dtype}, {columns}, {int(left.transposed)}, {int(right.transposed)}"
    return f"wgmma_ss<{kinds}>({d}, {a}, {b}{last});"


def _groups(threads: ThreadMap, row: str) -> int:
    """Return over how many warpgroups an axis of rows is spread."""
    return threads.axes[row].threads * ROW_REGISTERS // ROWS


def _group_part(context: Context, left: _Operand) -> str:
    """Return the text of how much further this warpgroup's rows lie."""
    groups, all_groups = _groups(context.map, left.free), context.map.threads // GROUP
    if groups == 1:
        return ""
    number = f"threadIdx.x / {GROUP}" + (f" % {groups}" if groups < all_groups else "")
    return f" + {number} * {left.moved(ROWS)}"


def pack(context: Context, step: Pack) -> list[str]:
    """Return the lines that compute a left operand in registers: four registers for each 64 rows by 16 columns."""
    var, along = step.op.dst, step.along
    row = next(a for a in var.axes if a != along)
    nest = Nest(context, (row, along), {along: 2})
    low = _float(nest, step.op.expr)
    nest.within[along] = "1"
    high = _float(nest, step.op.expr)
    pieces = context.map.axes[row].registers // ROW_REGISTERS
    i, j, name = context.index_names[row], context.index_names[along], context.value(var)
    depths = context.kernel.tile_axes[along].size // DEPTH
    half, outer = (i, "") if pieces == 1 else (f"{i} % {ROW_REGISTERS}", f"[{i} / {ROW_REGISTERS}]")
    place = f"{name}{outer}[{j} / 2][{j} % 2 * 2 + {half}]"
    declared = f"u32 {name}{f'[{pieces}]' if pieces > 1 else ''}[{depths}][4];"
    return [declared, *nest.lines([f"{place} = pack2<{var.dtype.cuda}>({low}, {high});"])]


def _float(nest: Nest, e: Expr) -> str:
    """Return the text of a value before it is rounded to 16 bits; packing rounds it."""
    inner = e.arg if isinstance(e, Cast) and e.arg.dtype is F32 else e
    return conversion(F32, inner.dtype, nest.text(inner))
