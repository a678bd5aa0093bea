"""Filling shared tiles in CUDA text: staging from global memory, and spilling from registers."""

from __future__ import annotations

from kgen.emit.address import Address, address
from kgen.emit.cuda_expr import CudaPrinter
from kgen.emit.cuda_memory import AND, element, place, pointer, run_of
from kgen.emit.cuda_scope import SUM, Context, Nest, block, byte_address, indented, unrolled
from kgen.emit.printer import Text
from kgen.ir import Let, LoadTile
from kgen.schedule_access import Form
from kgen.schedule_shared import store_width
from kgen.schedule_steps import SharedTile, Spill, Stage
from kgen.terms import Expr, Get, Param, Pos, Size, Start

MAX_UNROLLED = 8  # more turns stay a loop: their loads would need too many registers at once


def address_of(tile: SharedTile, base: str, outer: str, inner: str) -> str:
    """Return the shared address of an element; `outer` and `inner` are texts of its place, "0" for none."""
    if tile.swizzled or tile.span:
        size = tile.dtype.bytes
        byte = f"({inner}) * {size}" if " + " in inner or " % " in inner else f"{inner} * {size}"
        swizzled = f"swizzled<{tile.pitch * size}{', 32' if size == 4 else ''}>"
        place = f"spanned<{tile.span}, {tile.rows}>" if tile.span else swizzled
        return f"{base} + {place}({outer}, {'0' if inner == '0' else byte})"
    terms = []
    if outer != "0":
        terms.append(f"{outer if ' ' not in outer else f'({outer})'} * {tile.pitch}")
    if inner != "0":
        terms.append(inner)
    return byte_address(base, terms, tile.dtype.bytes)


def spill(context: Context, step: Spill, base: str) -> list[str]:
    """Return the lines that copy a register value to its tile, by one owner for each element."""
    tile, var = step.tile, step.var
    order = tuple(sorted(var.axes, key=lambda a: a == tile.inner))
    nest = Nest(context, order, {tile.inner: step.width} if step.width > 1 else {})
    at = address_of(tile, base, nest.offset(tile.outer).code, nest.offset(tile.inner).code)
    if step.width == 1:
        body = [f"sts<{tile.dtype.cuda}>({at}, {nest.at(var)});"]
    else:
        run = context.scope.give(f"{context.value(var)}_run")
        nest.within[tile.inner] = "j"
        fill = unrolled("j", step.width, [f"{run}[j] = {nest.at(var)};"])
        body = [f"vec<{tile.dtype.cuda}, {step.width}> {run};", *fill, f"sts_vec({at}, {run});"]
    owner = context.owner(var.axes)
    lines = nest.lines(body)
    return block(f"if ({' && '.join(owner)})", lines) if owner else lines


class Turn:
    """The text of one turn of staging: places are computed from the turn's number, values are by element of the run."""

    def __init__(self, context: Context, step: Stage) -> None:
        self.context, self.step = context, step
        self.printer = CudaPrinter(self._leaf)
        self.within = "0"
        self.vectors: set[str] = set()
        self.offset_names: dict[str, str] = {}
        self.renamed: dict[str, str] = {}  # values that have another name here than elsewhere

    def text(self, e: Expr, need: int = 0) -> str:
        return self.printer.text(e, need)

    def offset(self, axis: str) -> Text:
        name = self.offset_names[axis]
        if axis != self.step.along or self.within == "0":
            return Text(name)
        return Text(f"{name} + {self.within}", SUM)

    def position(self, axis: str) -> Text:
        if self.context.whole(axis):
            return self.offset(axis)
        return Text(f"{self.context.names.start[axis]} + {self.offset(axis).code}", SUM)

    def _leaf(self, e: Expr) -> Text:
        names = self.context.names
        match e:
            case Pos(axis=axis) if axis in self.context.kernel.tile_axes:
                return self.position(axis)
            case Pos(axis=axis):
                return Text(names.position[axis])
            case Start(axis=axis):
                return Text("0") if self.context.whole(axis) else Text(names.start[axis])
            case Size(name=name) | Param(name=name):
                return Text(names.size(name))
            case Get(var=var) if var.name.startswith("off."):
                return self.offset(var.name.removeprefix("off."))
            case Get(var=var):
                name = self.renamed.get(var.name) or self.context.value(var)
                return Text(f"{name}[{self.within}]" if var.name in self.vectors else name)
            case _:
                raise TypeError(f"no CUDA text for {type(e).__name__}")


def stage(context: Context, step: Stage, bases: dict[str, str]) -> list[str]:
    """Return the lines that make shared tiles: pointers first, then the turns of all threads."""
    context.scope.open()
    turn = Turn(context, step)
    names = context.names.values
    turn.offset_names = {a: context.scope.give(f"{a}_at") for a in dict.fromkeys((step.along, step.across))}
    before: list[str] = []
    body: list[str] = []
    for op, form in zip(step.ops, step.forms, strict=True):
        if isinstance(op, LoadTile):
            assert form is not None
            parts = address(context.kernel, op.buffer, op.index)
            lines, base = pointer(context, op, parts)
            before += lines
            if step.copied and op.dst.name == step.tiles[0].name:
                body += _turn_copy(turn, form, place(turn.text, parts, base), bases[op.dst.name])
            else:
                body += turn_load(turn, op, form, parts, base)
        else:
            body += turn_let(turn, op)
    for tile in step.tiles if not step.copied else ():
        body += _turn_store(turn, tile, bases[tile.name], names[tile.name])
    context.scope.close()
    turns = turns_of(turn, body)
    if turns[0] == "{":  # a single turn: the block is there already
        return ["{", *indented(before), *turns[1:]]
    scoped = before or not turns[0].endswith("{")
    return ["{", *indented([*before, *turns]), "}"] if scoped else turns


def turns_of(turn: Turn, body: list[str]) -> list[str]:
    step, context = turn.step, turn.context
    size = context.kernel.tile_axes[step.along].size
    across = context.kernel.tile_axes[step.across].size if step.across != step.along else 1
    in_row, threads = size // step.run, context.map.threads
    count = in_row * across
    if across > 1 and threads % in_row == 0 and count % threads == 0 and count > threads:
        return _row_turns(turn, in_row, body)
    places = []
    if step.across != step.along:
        places.append(f"const int {turn.offset_names[step.across]} = turn / {in_row};")
    along = "turn" if across == 1 else f"turn % {in_row}"
    scale = f" * {step.run}" if step.run > 1 else ""
    places.append(f"const int {turn.offset_names[step.along]} = {along}{scale};")
    if count == threads:
        return ["{", *indented(["const int turn = threadIdx.x;", *places, *body]), "}"]
    if count % threads or count // threads > MAX_UNROLLED:
        head = f"for (int turn = threadIdx.x; turn < {count}; turn += {threads}) {{"
    else:
        places.insert(0, "const int turn = first + threadIdx.x;")
        return unrolled("first", count, [*places, *body], threads)
    return [head, *indented([*places, *body]), "}"]


def _row_turns(turn: Turn, in_row: int, body: list[str]) -> list[str]:
    """All threads together make whole rows, so that a thread's place in its row never changes."""
    step, context = turn.step, turn.context
    rows, size = context.map.threads // in_row, context.kernel.tile_axes[step.across].size
    along, across = turn.offset_names[step.along], turn.offset_names[step.across]
    lane = "threadIdx.x" if in_row == context.map.threads else f"threadIdx.x % {in_row}"
    scale = f" * {step.run}" if step.run > 1 else ""
    row = f" + threadIdx.x / {in_row}" if rows > 1 else ""
    unroll = "KG_UNROLL " if step.copied or size // rows <= MAX_UNROLLED else ""
    return [
        f"const int {along} = {lane}{scale};",
        f"{unroll}for (int first = 0; first < {size}; first += {rows}) {{",
        *indented([f"const int {across} = first{row};", *body]),
        "}",
    ]


def _turn_copy(turn: Turn, form: Form, at: str, base: str) -> list[str]:
    """Move a run from global to shared memory, past the registers."""
    (tile,) = turn.step.tiles
    to = address_of(tile, base, turn.offset(tile.outer).code, turn.offset(tile.inner).code)
    if form.bound is not None:
        position = turn.position(turn.step.along)
        left = f"{turn.text(form.bound, SUM)} - {position.code if position.prec > SUM else f'({position.code})'}"
        valid = left if form.uniform is None else f"{turn.text(form.uniform, AND)} ? {left} : 0"
        return [f"copy_head<{form.width}>({to}, {at}, {valid});"]
    pred = "" if form.uniform is None else f", {turn.text(form.uniform)}"
    return [f"copy_async<{form.width}>({to}, {at}{pred});"]


def turn_load(turn: Turn, op: LoadTile, form: Form, parts: Address, base: str) -> list[str]:
    name, run = turn.context.value(op.dst), turn.step.run
    dtype = op.dst.dtype.cuda
    if turn.step.along not in op.dst.axes or run == 1:
        return [f"const {dtype} {name} = {element(turn.text, op, place(turn.text, parts, base))};"]
    turn.vectors.add(op.dst.name)
    if form.width == run and (op.where is None or op.other == 0):
        position = turn.position(turn.step.along)
        left = position.code if position.prec > SUM else f"({position.code})"
        return [f"const vec<{dtype}, {run}> {name} = {run_of(turn.text, form, left, place(turn.text, parts, base))};"]
    turn.within = "j"
    value = element(turn.text, op, place(turn.text, parts, base))
    turn.within = "0"
    return [f"{_array(turn, op)};", *unrolled("j", run, [f"{name}[j] = {value};"])]


def _array(turn: Turn, op: Let | LoadTile) -> str:
    name, dtype, run = turn.context.value(op.dst), op.dst.dtype, turn.step.run
    return f"vec<{dtype.cuda}, {run}> {name}" if run * dtype.bytes <= 16 else f"{dtype.cuda} {name}[{run}]"


def turn_let(turn: Turn, op: Let) -> list[str]:
    name = turn.context.value(op.dst)
    if turn.step.along not in op.dst.axes or turn.step.run == 1:
        return [f"const {op.dst.dtype.cuda} {name} = {turn.text(op.expr)};"]
    turn.within = "j"
    value = turn.text(op.expr)
    turn.within = "0"
    turn.vectors.add(op.dst.name)
    return [f"{_array(turn, op)};", *unrolled("j", turn.step.run, [f"{name}[j] = {value};"])]


def _turn_store(turn: Turn, tile: SharedTile, base: str, name: str) -> list[str]:
    run = turn.step.run
    straight = tile.inner == turn.step.along

    def at() -> str:
        return address_of(tile, base, turn.offset(tile.outer).code, turn.offset(tile.inner).code)

    if run == 1:
        return [f"sts<{tile.dtype.cuda}>({at()}, {name});"]
    if straight and store_width(tile, run) == run:
        return [f"sts_vec({at()}, {name});"]
    turn.within = "j"
    lines = unrolled("j", run, [f"sts<{tile.dtype.cuda}>({at()}, {name}[j]);"])
    turn.within = "0"
    return lines
