"""The schedule stage: tile IR, architecture and skeleton to a plan, or a refusal that names what would fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kgen.errors import KgenError
from kgen.ir import Dot, Kernel, LoadTile, Loop, Op, Store
from kgen.layout import WARP, AxisLayout, ThreadMap
from kgen.schedule_build import Builder
from kgen.schedule_demand import collect, tile_axes_of
from kgen.schedule_homes import Homes, find_homes, operations
from kgen.schedule_memory import place, with_barriers
from kgen.schedule_mma import choose as choose_mma
from kgen.schedule_mma_build import MmaBuilder
from kgen.schedule_show import describe
from kgen.schedule_steps import Step
from kgen.schedule_threads import DEFAULT_THREADS, MAX_THREADS, choose
from kgen.schedule_wgmma import choose as choose_wgmma
from kgen.schedule_wgmma_build import WgmmaBuilder, fenced
from kgen.schedule_wgmma_flight import in_flight
from kgen.terms import Var

KIB = 1024
SHARED_LIMIT = {80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99}  # KiB a block can have
MAX_REGISTERS = 255
Skeleton = Literal["simt", "mma", "wgmma"]


@dataclass(frozen=True)
class Plan:
    """A planned kernel. `registers` is a proven lower bound for a thread; `steps` are in program order."""

    kernel: str
    arch: str
    skeleton: str
    threads: int
    smem_bytes: int
    registers: int
    map: ThreadMap
    homes: Homes
    steps: tuple[Step, ...]

    @property
    def layouts(self) -> dict[str, AxisLayout]:
        """The layout of every axis held in registers."""
        return dict(self.map.axes)

    def describe(self) -> str:
        """Return the plan as readable text: thread groups, layouts, homes, shared memory, steps."""
        head = f"plan of {self.kernel} for {self.arch}: {self.skeleton}, {self.threads} threads"
        head += f", {self.smem_bytes} bytes shared, >= {self.registers} registers"
        return describe(head, self.map, self.homes, self.steps)

    def __str__(self) -> str:
        return self.describe()


@dataclass(frozen=True)
class Wish:
    """What a schedule asks of the plan. `threads` and `consumers` None let the scheduler choose; `stages` is for rings
    of tiles, `consumers` counts the warpgroups of wgmma."""

    skeleton: Skeleton = "simt"
    threads: int | None = None
    stages: int = 1
    consumers: int | None = None


def plan(
    kernel: Kernel,
    *,
    arch: str,
    threads: int | None,
    skeleton: Skeleton = "simt",
    stages: int = 1,
    consumers: int | None = None,
) -> Plan:
    """Plan a kernel for an architecture ("sm_80", "sm_90a", ...); `threads` None lets the scheduler choose, and so does
    `consumers`, the warpgroups of a `wgmma` plan (which takes its threads from them).

    Raises KgenError if the threads are not a power of two from 32 to 1024, if the skeleton cannot serve the kernel, or
    if shared memory or the registers of the accumulators cannot fit; the message names the nearest tile sizes that do.
    """
    _check_threads(threads)
    limit = shared_limit(arch)
    wish = Wish(skeleton, threads, stages, consumers)
    made = _plan(kernel, arch, wish)
    if made.smem_bytes > limit:
        have = f"kernel '{kernel.name}' needs {made.smem_bytes} bytes of shared memory; {arch} has {limit} a block"
        raise KgenError(f"{have}{_remedy(kernel, arch, wish, limit)}")
    if made.registers > MAX_REGISTERS:
        have = f"the accumulators of kernel '{kernel.name}' need {made.registers} registers a thread of {MAX_REGISTERS}"
        raise KgenError(f"{have} with {made.threads} threads{_remedy(kernel, arch, wish, limit)}")
    return made


def shared_limit(arch: str) -> int:
    """Return the bytes of shared memory a block can have; KgenError for an unknown architecture."""
    digits = arch.removeprefix("sm_").rstrip("af")
    if not arch.startswith("sm_") or not digits.isdigit() or int(digits) not in SHARED_LIMIT:
        known = ", ".join(f"sm_{n}" for n in SHARED_LIMIT)
        raise KgenError(f"unknown architecture '{arch}' (known: {known})")
    return SHARED_LIMIT[int(digits)] * KIB


def _check_threads(threads: int | None) -> None:
    if threads is None or (32 <= threads <= MAX_THREADS and threads & (threads - 1) == 0):
        return
    legal = [32 << n for n in range(6)]
    near = min(legal, key=lambda n: abs(n - threads))
    raise KgenError(f"threads must be a power of two from 32 to {MAX_THREADS}, not {threads} (nearest: {near})")


def _plan(kernel: Kernel, arch: str, wish: Wish) -> Plan:
    builder = _builder(kernel, wish)
    homes, map_ = builder.homes, builder.threads
    steps, smem = place(builder.build(kernel.body))
    barred = with_barriers(steps, _exchanged(kernel, map_))
    if wish.skeleton == "wgmma":
        barred = in_flight(fenced(barred))
    registers = _accumulators(kernel.body, homes, map_)
    return Plan(kernel.name, arch, wish.skeleton, map_.threads, smem, registers, map_, homes, barred)


def _builder(kernel: Kernel, wish: Wish) -> Builder:
    homes = find_homes(kernel)
    if wish.skeleton == "simt":
        return Builder(kernel, homes, choose(kernel, collect(kernel, homes), wish.threads))
    if wish.skeleton == "wgmma":
        threads, own, sides = choose_wgmma(kernel, homes, wish.consumers)
        return WgmmaBuilder(kernel, own, threads, sides=sides, stages=wish.stages)
    threads, own, sides = choose_mma(kernel, homes, (wish.threads or DEFAULT_THREADS) // WARP)
    return MmaBuilder(kernel, own, threads, sides=sides, stages=wish.stages)


def _exchanged(kernel: Kernel, threads: ThreadMap) -> frozenset[str]:
    """Return the buffers in which a thread may read what another has written, or write what another has yet to read:
    those both loaded and stored, unless every access moves the same elements by the same threads."""
    found = set()
    moves = [op for op in operations(kernel.body) if isinstance(op, LoadTile | Store)]
    for name in {op.buffer for op in moves if isinstance(op, Store)}:
        mine = [op for op in moves if op.buffer == name]
        axes = tile_axes_of(kernel, *mine[0].index)
        alone = all(a in threads.axes for a in axes) and threads.copies(axes) == 1
        if any(isinstance(op, LoadTile) for op in mine) and not (alone and len({op.index for op in mine}) == 1):
            found.add(name)
    return frozenset(found)


def _accumulators(body: tuple[Op, ...], homes: Homes, threads: ThreadMap) -> int:
    """Return the registers of the tile state that lives through some loop, with the largest product made inside it."""
    most = 0
    for op in operations(body):
        if not isinstance(op, Loop):
            continue
        inside = [o for segment in op.segments for o in operations(segment.body)]
        state = {v for o in inside for v in _changed(o) if v.name in homes.mutable}
        products = [_words(o.dst, threads) for o in inside if isinstance(o, Dot) and not o.accumulate]
        most = max(most, sum(_words(v, threads) for v in state) + max(products, default=0))
    return most


def _changed(op: Op) -> tuple[Var, ...]:
    dst = getattr(op, "dst", None)
    return (dst,) if isinstance(dst, Var) else ()


def _words(var: Var, threads: ThreadMap) -> int:
    return threads.registers(var.axes) * max(1, var.dtype.bytes // 4)


def _remedy(kernel: Kernel, arch: str, wish: Wish, limit: int) -> str:
    """Return the nearest smaller tile of each axis that makes the plan fit on its own, as a hint."""
    found = []
    for axis in kernel.tile_axes:
        fitting = next((s for s in _smaller(kernel, axis) if _fits(kernel, arch, wish, limit, axis, s)), None)
        if fitting is not None:
            found.append(f"{axis}: {fitting}")
    return f"; tiles that fit: {' or '.join(found)}" if found else ""


def _smaller(kernel: Kernel, axis: str) -> Iterator[int]:
    stepped = {g.name for g in kernel.grid if g.tile > 1}
    stepped |= {op.axis for op in operations(kernel.body) if isinstance(op, Loop) and op.tile > 1}
    size = kernel.tile_axes[axis].size
    while axis in stepped and size % 2 == 0 and size > 8:
        size //= 2
        yield size


def _fits(kernel: Kernel, arch: str, wish: Wish, limit: int, axis: str, size: int) -> bool:
    smaller = replace(
        kernel,
        tile_axes={**kernel.tile_axes, axis: replace(kernel.tile_axes[axis], size=size)},
        grid=tuple(replace(g, tile=size) if g.name == axis else g for g in kernel.grid),
    )
    try:
        made = _plan(smaller, arch, wish)
    except KgenError:  # the skeleton has no use for so small a tile
        return False
    return made.smem_bytes <= limit and made.registers <= MAX_REGISTERS
