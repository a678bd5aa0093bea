"""Shared tiles of Dot operands: orientation and padding by counted bank conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from kgen.ir import Dot, Kernel
from kgen.layout import WARP, ThreadMap, wavefronts
from kgen.schedule_steps import SharedTile
from kgen.terms import Var

PADS = (0, 4, 8, 16, 32, 64)  # bytes tried at the end of a row
ACCESS_BYTES = 16
MAX_FRAGMENT = 96  # operand elements held at once by a thread


@dataclass(frozen=True)
class Filling:
    """How a tile is written: by turns of `run` along `along` (staged), or from the register layout (`along` None)."""

    along: str | None
    run: int


def choose_tile(kernel: Kernel, threads: ThreadMap, var: Var, dots: tuple[Dot, ...], filling: Filling) -> SharedTile:
    """Return the tile with the fewest shared-memory cycles for `dots`, all of which read `var`; ties to the smaller."""
    tiles = [t for inner in var.axes for pad in PADS if (t := _tile(kernel, var, inner, pad)) is not None]
    return min(tiles, key=lambda t: (_cycles(kernel, threads, t, var, dots, filling), t.bytes))


def _tile(kernel: Kernel, var: Var, inner: str, pad: int) -> SharedTile | None:
    outer = next((a for a in var.axes if a != inner), inner)
    row = kernel.tile_axes[inner].size * var.dtype.bytes + pad
    if row % var.dtype.bytes:
        return None
    return SharedTile(var.name, var.dtype, outer, inner, kernel.tile_axes[outer].size, row // var.dtype.bytes)


def load_width(kernel: Kernel, threads: ThreadMap, tile: SharedTile, dot: Dot) -> int:
    """Return how many elements of a row a thread can load at once: along the contract axis, or of its own run."""
    aligned = gcd(tile.pitch * tile.dtype.bytes, ACCESS_BYTES) // tile.dtype.bytes
    if tile.inner == dot.contract:
        return gcd(aligned, kernel.tile_axes[tile.inner].size)
    return gcd(aligned, threads.axes[tile.inner].vector)


def step_of(kernel: Kernel, threads: ThreadMap, dot: Dot, a: SharedTile, b: SharedTile) -> int:
    """Return how much of the contract axis is loaded at once."""
    rows = sum(threads.registers(x for x in t if x != dot.contract) for t in (dot.a.axes, dot.b.axes))
    step = max([load_width(kernel, threads, t, dot) for t in (a, b) if t.inner == dot.contract], default=1)
    while step > 1 and rows * step > MAX_FRAGMENT:
        step //= 2
    return step


def store_width(tile: SharedTile, run: int) -> int:
    """Return how many elements of a run along the inner axis one shared store can move."""
    return gcd(gcd(tile.pitch * tile.dtype.bytes, ACCESS_BYTES) // tile.dtype.bytes, run)


def _cycles(
    kernel: Kernel, threads: ThreadMap, tile: SharedTile, var: Var, dots: tuple[Dot, ...], filling: Filling
) -> int:
    reading = sum(_read_cycles(kernel, threads, tile, var, dot) for dot in dots)
    return reading + _write_cycles(kernel, threads, tile, var, filling)


def _read_cycles(kernel: Kernel, threads: ThreadMap, tile: SharedTile, var: Var, dot: Dot) -> int:
    """Return the cycles of one warp for its part of one Dot."""
    width = load_width(kernel, threads, tile, dot)
    free = next((a for a in var.axes if a != dot.contract), None)
    rows = 1 if free is None else threads.axes[free].registers
    depth = kernel.tile_axes[dot.contract].size
    addresses = []
    for lane in range(min(WARP, threads.threads)):
        row = 0 if free is None else threads.element(free, lane, 0)
        addresses.append((row if tile.inner == free else row * tile.pitch) * tile.dtype.bytes)
    return rows * depth // width * (1 + wavefronts(addresses, width * tile.dtype.bytes))


def _write_cycles(kernel: Kernel, threads: ThreadMap, tile: SharedTile, var: Var, filling: Filling) -> int:
    """Return the cycles of one warp for writing its part of the tile once."""
    lanes = range(min(WARP, threads.threads))
    if filling.along is None:
        width = store_width(tile, threads.axes[tile.inner].vector)
        places = [(threads.element(tile.outer, t, 0) * tile.pitch, threads.element(tile.inner, t, 0)) for t in lanes]
        addresses = [sum(p) * tile.dtype.bytes for p in places]
        return threads.registers(var.axes) // width * wavefronts(addresses, width * tile.dtype.bytes)
    turns_in_row = kernel.tile_axes[filling.along].size // filling.run
    starts = [divmod(t, turns_in_row) for t in lanes]
    straight = tile.inner == filling.along
    width = store_width(tile, filling.run) if straight else 1
    addresses = [
        (across * tile.pitch + turn * filling.run if straight else turn * filling.run * tile.pitch + across)
        * tile.dtype.bytes
        for across, turn in starts
    ]
    size = kernel.tile_axes[tile.outer].size * kernel.tile_axes[tile.inner].size
    return -(-size // threads.threads) // width * wavefronts(addresses, width * tile.dtype.bytes)
