"""Stores in 16-byte pieces of rows in CUDA text: each turn reads what other threads have made, and does the rest."""

from __future__ import annotations

from collections.abc import Mapping

from kgen.emit.address import address
from kgen.emit.cuda_memory import place, pointer
from kgen.emit.cuda_scope import SUM, Context, indented, unrolled
from kgen.emit.cuda_shared import Turn, address_of, turn_let, turn_load, turns_of
from kgen.ir import LoadTile
from kgen.schedule_steps import Finish, SharedTile
from kgen.terms import Get

PIECE_BYTES = 16


def finish(context: Context, step: Finish, shared: Mapping[str, str]) -> list[str]:
    """Return the lines of a store in turns: exchanged values first, then loads and Lets, then the piece of a row."""
    context.scope.open()
    turn = Turn(context, step.stage)
    axes = dict.fromkeys((step.stage.along, step.stage.across))
    turn.offset_names = {a: context.scope.give(f"{a}_at") for a in axes}
    before: list[str] = []
    body: list[str] = []
    for tile in step.tiles:
        body += _exchanged(turn, tile, shared[tile.name])
    for op, form in zip(step.stage.ops, step.stage.forms, strict=True):
        if isinstance(op, LoadTile):
            assert form is not None
            parts = address(context.kernel, op.buffer, op.index)
            lines, base = pointer(context, op, parts)
            before += lines
            body += turn_load(turn, op, form, parts, base)
        else:
            body += turn_let(turn, op)
    lines, stored = _store(turn, step)
    context.scope.close()
    return ["{", *indented([*before, *lines, *turns_of(turn, [*body, *stored])]), "}"]


def _exchanged(turn: Turn, tile: SharedTile, base: str) -> list[str]:
    """Read a run of a row; chunks of a row lie apart in a swizzled tile, so each has an address of its own."""
    run, dtype = turn.step.run, tile.dtype.cuda
    name = turn.context.scope.give(f"{turn.context.names.values[tile.name]}_row")
    turn.renamed[tile.name] = name
    turn.vectors.add(tile.name)
    piece = PIECE_BYTES // tile.dtype.bytes
    if run == piece:
        at = address_of(tile, base, turn.offset(tile.outer).code, turn.offset(tile.inner).code)
        return [f"const auto {name} = lds_vec<{dtype}, {run}>({at});"]
    turn.within = "j"
    at = address_of(tile, base, turn.offset(tile.outer).code, turn.offset(tile.inner).code)
    turn.within = "0"
    fill = unrolled("u", piece, [f"{name}[j + u] = piece[u];"])
    body = [f"const auto piece = lds_vec<{dtype}, {piece}>({at});", *fill]
    return [f"{dtype} {name}[{run}];", *unrolled("j", run, body, piece)]


def _store(turn: Turn, step: Finish) -> tuple[list[str], list[str]]:
    """Return the lines that declare the pointer, and those of one piece."""
    context, op, form = turn.context, step.write.op, step.write.form
    parts = address(context.kernel, op.buffer, op.index)
    before, base = pointer(context, op, parts)
    at = place(turn.text, parts, base)
    dtype = context.kernel.buffers[op.buffer].dtype
    value, made = _piece(turn, step)
    if form.bound is not None:
        position = turn.position(step.stage.along)
        left = f"{turn.text(form.bound, SUM)} - {position.code if position.prec > SUM else f'({position.code})'}"
        valid = left if form.uniform is None else f"{turn.text(form.uniform, 3)} ? {left} : 0"
        return before, [*made, f"stg_head({at}, {value}, {valid});"]
    if form.uniform is not None:
        return before, [*made, f"stg_vec_if({at}, {value}, {turn.text(form.uniform)});"]
    assert dtype.bytes * step.stage.run == PIECE_BYTES
    return before, [*made, f"stg_vec({at}, {value});"]


def _piece(turn: Turn, step: Finish) -> tuple[str, list[str]]:
    """Return the name of the vector that is stored, and the lines that make it."""
    op, run = step.write.op, step.stage.run
    dtype = turn.context.kernel.buffers[op.buffer].dtype
    if isinstance(op.value, Get) and op.value.var.name in turn.vectors:
        var = op.value.var
        return turn.renamed.get(var.name) or turn.context.value(var), []
    name = turn.context.scope.give(f"{turn.context.names.arguments[op.buffer]}_run")
    turn.within = "j"
    fill = unrolled("j", run, [f"{name}[j] = {turn.text(op.value)};"])
    turn.within = "0"
    return name, [f"vec<{dtype.cuda}, {run}> {name};", *fill]
