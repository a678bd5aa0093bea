"""Matrix products in CUDA text: fragments of both operands, then mma.sync on the registers of the result."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.emit.cuda_expr import conversion
from kgen.emit.cuda_scope import Context, Nest, indented, unrolled
from kgen.emit.cuda_shared import address_of
from kgen.layout import WARP
from kgen.schedule_mma_map import ROW_LANES
from kgen.schedule_steps import MmaMultiply, Pack, SharedTile
from kgen.terms import Cast, Expr, Var
from kgen.types import F32

DEPTH = 16  # of one product
EIGHT = 8  # rows of a matrix that ldmatrix loads; its columns too

SWIZZLE = """
// Place of a byte in a tile with rows of PITCH bytes. The chunks of a row (8 elements) are permuted by the
// row's number, so that the same chunk of rows that follow each other lies in different banks.
template <int PITCH, int CHUNK = 16>
KG_DEVICE constexpr u32 swizzled(u32 row, u32 byte) {
    constexpr u32 chunks = PITCH / CHUNK, banks = 128 / CHUNK;
    constexpr u32 permuted = chunks % banks == 0 ? banks : chunks & -chunks;
    return row * PITCH + (byte ^ row / (banks / permuted) % permuted * CHUNK);
}"""

MMA_ADD = """
// d += a * b for 16 rows and 8 columns: a thread has two columns of each of two rows.
template <class T>
KG_DEVICE void mma_add(f32& upper0, f32& upper1, f32& lower0, f32& lower1, const u32* a, const u32* b) {
    f32 d[4] = {upper0, upper1, lower0, lower1};
    mma_m16n8k16<T>(d, a, b);
    upper0 = d[0], upper1 = d[1], lower0 = d[2], lower1 = d[3];
}"""


@dataclass(frozen=True)
class _Loads:
    """How the lanes of a warp read one operand's tile: `free` is the axis of the result that it holds.

    Four matrices of 8 x 8 are loaded at once, two along each axis. `free_first`: the second matrix is the next along
    the free axis (a left operand), else along the summed one.
    """

    tile: SharedTile
    free: str
    deep: str
    free_first: bool

    @property
    def transposed(self) -> bool:
        """The instruction wants the summed axis contiguous in a left and in a right operand."""
        return self.tile.inner == self.free


def pack(context: Context, step: Pack) -> list[str]:
    """Return the lines that compute an operand in registers, two neighbours along `along` to a register."""
    var, along = step.op.dst, step.along
    nest = Nest(context, var.axes, {along: 2})
    low = _float(nest, step.op.expr)
    nest.within[along] = "1"
    high = _float(nest, step.op.expr)
    dims = "".join(f"[{n}]" for _, n in _pair_dims(context, var, along))
    place = context.value(var) + "".join(f"[{context.index_names[a]}]" for a, _ in _pair_dims(context, var, along))
    return [f"u32 {context.value(var)}{dims};", *nest.lines([f"{place} = pack2<{var.dtype.cuda}>({low}, {high});"])]


def _pair_dims(context: Context, var: Var, along: str) -> list[tuple[str, int]]:
    return [(a, context.map.axes[a].registers // (2 if a == along else 1)) for a in var.axes]


def _float(nest: Nest, e: Expr) -> str:
    """Return the text of a value before it is rounded to 16 bits; packing rounds it."""
    inner = e.arg if isinstance(e, Cast) and e.arg.dtype is F32 else e
    return conversion(F32, inner.dtype, nest.text(inner))


def multiply(context: Context, step: MmaMultiply, base_a: str | None, base_b: str) -> list[str]:
    """Return the lines of a Dot; a Dot that does not accumulate declares its result."""
    op = step.op
    context.scope.open()
    at = context.scope.give(f"{op.contract}_at")
    b = _Loads(step.b, step.col, op.contract, False)
    before, load_b, frag_b = _loads(context, b, base_b, at)
    if step.a is None:
        load_a, frag_a = _packed(context, step, at)
    else:
        assert base_a is not None
        places, load_a, frag_a = _loads(context, _Loads(step.a, step.row, op.contract, True), base_a, at)
        before = [*places, *before]
    down = context.map.axes[step.row].registers
    products = [_product(context, step, frag_a, frag_b, n) for n in (0, 1)]
    inner = [*load_b, *unrolled(context.index_names[step.row], down, products, 2)]
    across = context.map.axes[step.col].registers
    body = [*load_a, *unrolled(context.index_names[step.col], across, inner, 4)]
    context.scope.close()
    declare = [] if op.accumulate else [f"{context.declaration(op.dst)} = {{}};"]
    whole = [*before, *unrolled(at, context.kernel.tile_axes[op.contract].size, body, DEPTH)]
    return [*declare, "{", *indented(whole), "}"]


def _product(context: Context, step: MmaMultiply, a: str, b: str, half: int) -> str:
    """Return one call: 16 rows by the first or second 8 of 16 columns."""
    row, col = context.index_names[step.row], context.index_names[step.col]
    cells = []
    for r, c in ((0, 0), (0, 1), (1, 0), (1, 1)):
        at = {step.row: _plus(row, r), step.col: _plus(col, 2 * half + c)}
        cells.append(context.value(step.op.dst) + "".join(f"[{at[x]}]" for x in step.op.dst.axes))
    right = b if half == 0 else f"{b} + 2"
    return f"mma_add<{step.b.dtype.cuda}>({', '.join(cells)}, {a}, {right});"


def _plus(index: str, n: int) -> str:
    return f"{index} + {n}" if n else index


def _packed(context: Context, step: MmaMultiply, at: str) -> tuple[list[str], str]:
    """Return the lines that gather the left fragments of this depth from packed registers, and a fragment's text."""
    row = context.index_names[step.row]
    name = context.scope.give(f"{context.value(step.left)}_frag")
    parts = []
    for deep, low in ((0, 0), (0, 1), (1, 0), (1, 1)):
        index = {step.row: _plus(row, low), step.op.contract: _plus(f"{at} / 8", deep)}
        parts.append(context.value(step.left) + "".join(f"[{index[a]}]" for a in step.left.axes))
    down = context.map.axes[step.row].registers // 2
    fill = [f"{name}[{row} / 2][{n}] = {part};" for n, part in enumerate(parts)]
    return [f"u32 {name}[{down}][4];", *unrolled(row, 2 * down, fill, 2)], f"{name}[{row} / 2]"


def _loads(context: Context, loads: _Loads, base: str, at: str) -> tuple[list[str], list[str], str]:
    """Return the lines that place this lane, the loads of one depth, and a fragment's text."""
    tile, free = loads.tile, loads.free
    value, index = context.names.values[tile.name], context.index_names[free]
    row, depth = context.scope.give(f"{value}_{free}"), context.scope.give(f"{value}_{loads.deep}")
    frag = context.scope.give(f"{value}_frag")
    places = [
        f"const int {row} = {_free_place(context, loads)};",
        f"const int {depth} = {_deep_place(loads)};",
    ]
    step = _register_step(context, free)
    along = f"{row} + {index} * {step}" if context.map.axes[free].registers > (2 if loads.free_first else 4) else row
    where = {free: along, loads.deep: f"{depth} + {at}"}
    address = address_of(tile, base, where[tile.outer], where[tile.inner])
    kind = "_trans" if loads.transposed else ""
    if not loads.free_first:
        return places, [f"u32 {frag}[4];", f"ldmatrix_x4{kind}({frag}, {address});"], frag
    down = context.map.axes[free].registers // 2
    load = unrolled(index, 2 * down, [f"ldmatrix_x4{kind}({frag}[{index} / 2], {address});"], 2)
    return places, [f"u32 {frag}[{down}][4];", *load], f"{frag}[{index} / 2]"


def _register_step(context: Context, axis: str) -> int:
    """Return how far apart two registers of an axis lie that hold the same place of their matrices."""
    layout = context.map.axes[axis]
    return layout.threads if layout.vector == 1 else layout.threads * layout.vector // 2


def _free_place(context: Context, loads: _Loads) -> str:
    """Return this lane's place along the axis of the result: its warp's eight, the matrix, and the row in it."""
    layout, group = context.map.axes[loads.free], context.map.group_of(loads.free)
    lanes = ROW_LANES if layout.vector == 1 else group.lanes
    eights = layout.threads // lanes  # warps over which the axis is spread
    terms = []
    if eights > 1:
        name = context.group_names[group.name]
        warp = f"{name} / {lanes}" + (f" % {eights}" if layout.threads < group.count else "")
        terms.append(f"{warp} * {EIGHT}")
    matrix = "lane / 8 % 2" if loads.free_first else "lane / 16"
    terms.append(f"{matrix} * {eights * EIGHT}")
    return " + ".join(terms if loads.transposed else [*terms, "lane % 8"])


def _deep_place(loads: _Loads) -> str:
    matrix = "lane / 16" if loads.free_first else "lane / 8 % 2"
    return f"{matrix} * {EIGHT}" + (" + lane % 8" if loads.transposed else "")


def lane_line() -> str:
    return f"const int lane = threadIdx.x % {WARP};"
