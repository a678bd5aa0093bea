"""Rings of tiles in CUDA text: a function that fills one slot, called ahead of the loop and in every iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kgen.emit.cuda_scope import Context, indented
from kgen.schedule_steps import Ring, SharedTile, Stage, Walk

COPY_HEAD = """
// Copies the first `valid` of N elements at p to shared address a, zeros after them. Pieces of less than 16
// bytes are copied whole or not at all, else made at once.
template <int N, class T>
KG_DEVICE void copy_head(u32 a, const T* p, int valid) {
    if constexpr (N * sizeof(T) == 16) return cp_async16_head(a, p, min(valid, N) * int(sizeof(T)));
    if (valid >= N || valid <= 0) return copy_async<N>(a, p, valid > 0);
    vec<T, N> out;
    KG_UNROLL for (int j = 0; j < N; ++j) out[j] = ldg_if(p + j, j < valid);
    sts_vec(a, out);
}"""

COPY_ASYNC = """
// Copies N elements at p to shared address a, zeros if not pred; done when its group has been waited for.
template <int N, class T>
KG_DEVICE void copy_async(u32 a, const T* p, bool pred = true) {
    if constexpr (N * sizeof(T) == 16) cp_async16(a, p, pred);
    else if constexpr (N * sizeof(T) == 8) cp_async8(a, p, pred);
    else cp_async4(a, p, pred);
}"""


@dataclass(frozen=True)
class OpenRing:
    """Names of a ring in use: the function that fills a slot, the number of this tile and of all, slot addresses."""

    ring: Ring
    fill: str
    tile: str
    tiles: str
    slots: dict[str, str]


def open_ring(
    context: Context,
    walk: Walk,
    bounds: list[tuple[str, str]],
    shared: dict[str, str],
    printed: Callable[[tuple[Stage, ...], dict[str, str]], list[str]],
) -> tuple[OpenRing, list[str]]:
    """Return the ring and the lines before the loop. `bounds` are the texts of each segment's ends; `printed` prints
    the fills with the given shared addresses."""
    ring, axis = walk.ring, walk.op.axis
    assert ring is not None
    names = [context.scope.give(n) for n in (f"{axis}_tiles", f"fill_{axis}", f"{axis}_tile")]
    tiles, fill, number = names
    step = _step_text(context, walk)
    counts, befores = _counts(context, axis, bounds, step, tiles)
    context.scope.open()
    slots = {t.name: context.scope.give(f"{context.names.values[t.name]}_slot") for t in ring.tiles}
    at = context.scope.give("t")
    body = [
        *_position(context, axis, bounds, step, at, befores),
        *slot_lines(ring, shared, slots, at),
        *printed(ring.fills, slots),
    ]
    context.scope.close()
    opened = OpenRing(ring, fill, number, tiles, slots)
    ahead = ring.ahead
    first = [
        f"KG_UNROLL for (int t = 0; t < {ahead}; ++t) {{",
        *indented([f"if (t < {tiles}) {fill}(t);", "cp_async_commit();"]),
        "}",
        f"int {number} = 0;",
    ]
    lines = [*counts, f"const auto {fill} = [&](int {at}) {{  // makes tile t of {axis}", *indented(body), "};", *first]
    return opened, lines


def _step_text(context: Context, walk: Walk) -> str:
    tile = context.kernel.tile_axes.get(walk.op.axis)
    named = tile is not None and tile.size == walk.op.tile
    return context.names.size(f"tile.{walk.op.axis}") if named else str(walk.op.tile)


def _counts(
    context: Context, axis: str, bounds: list[tuple[str, str]], step: str, total: str
) -> tuple[list[str], list[str]]:
    """Return the lines that count tiles, and for each segment the text of the number of tiles before it."""
    lines, befores = [], ["0"]
    for n, (low, high) in enumerate(bounds):
        last = n + 1 == len(bounds)
        name = total if last else context.scope.give(f"{axis}_tiles_before")
        left = f"max({high} - {low}, 0)" if low != "0" else f"max({high}, 0)"
        count = left if step == "1" else f"ceil_div({left}, {step})"
        lines.append(f"const int {name} = {count if befores[-1] == '0' else f'{befores[-1]} + {count}'};")
        befores.append(name)
    return lines, befores[:-1]


def _position(
    context: Context, axis: str, bounds: list[tuple[str, str]], step: str, at: str, befores: list[str]
) -> list[str]:
    """Return the lines that give the position at which tile `at` begins."""
    texts = [_place(low, at, before, step) for (low, _), before in zip(bounds, befores, strict=True)]
    whole = texts[0]
    for text, before in zip(texts[1:], befores[1:], strict=True):
        whole = f"{at} >= {before} ? {text} : {whole}"
    return [f"const int {context.names.start[axis]} = {whole};"]


def _place(low: str, at: str, before: str, step: str) -> str:
    number = at if before == "0" else f"({at} - {before})"
    moved = number if step == "1" else f"{number} * {step}"
    return moved if low == "0" else f"{low} + {moved}"


def slot_lines(ring: Ring, shared: dict[str, str], slots: dict[str, str], at: str) -> list[str]:
    """Return the lines that name the slots of tile `at`."""
    return [f"const u32 {slots[t.name]} = {_slot(t, shared[t.name], ring.stages, at)};" for t in ring.tiles]


def _slot(tile: SharedTile, base: str, stages: int, at: str) -> str:
    return f"{base} + {at} % {stages} * {tile.slot_bytes}"


def next_tile(opened: OpenRing, shared: dict[str, str]) -> list[str]:
    """Return the lines that begin an iteration: this tile has arrived, the slot of the last one is free again."""
    ahead = opened.ring.ahead
    return [
        f"cp_async_wait<{ahead - 1}>();",
        "sync_threads();",
        f"if ({opened.tile} + {ahead} < {opened.tiles}) {opened.fill}({opened.tile} + {ahead});",
        "cp_async_commit();",
        *slot_lines(opened.ring, shared, opened.slots, opened.tile),
        f"++{opened.tile};",
    ]
