"""Launches a compiled kernel on guarded copies of its tensors and reports what happened."""

from __future__ import annotations

import ctypes
import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from kgen.errors import KgenError
from kgen.sim import native
from kgen.sim.args import Arg, ScalarArg, TensorArg, TensorMapArg
from kgen.sim.build import SimKernel
from kgen.sim.lines import kernel_line
from kgen.sim.report import Counters, Fault, LineAccess, Report, TensorTraffic

MAX_BLOCK = 1024
_LAUNCHES = threading.Lock()  # the runtime holds one launch at a time
_ROLES = {"in": 0, "out": 1, "inout": 2}


@dataclass(frozen=True)
class Options:
    """How to simulate.

    workers: OS threads that blocks are spread over. races: check shared memory for races and uninitialised reads.
    outputs: check that every element of an output is written, and by one block.
    sectors: count sectors, wavefronts and distinct bytes.
    seed: None runs threads first come, first served; a number runs them in that random order.
    lazy: asynchronous operations happen at the last legal moment, with a seed some of them.
    tensor_cores: "plain" adds products in float32 one by one, "hopper" rounds 16-bit products as an H200 does.
    time_limit: seconds.
    """

    workers: int = 2
    races: bool = True
    outputs: bool = True
    sectors: bool = True
    seed: int | None = None
    lazy: bool = False
    tensor_cores: Literal["plain", "hopper"] = "plain"
    time_limit: float = 60.0


def launch(
    kernel: SimKernel, grid: int, block: int, smem_bytes: int, args: Sequence[Arg], *, options: Options | None = None
) -> Report:
    """Run `grid` blocks of `block` threads with `smem_bytes` of dynamic shared memory; write outputs back.

    A fault of the kernel ends the launch and is in the report. Raises KgenError if the arguments do not fit the
    kernel's signature or the launch's shape is not a legal one.
    """
    options = options or Options()
    runtime = native.runtime(kernel.runtime)
    library = native.kernel(kernel.library)
    _check_shape(grid, block, smem_bytes)
    _check_names([arg.name for arg in args])
    _check_signature(kernel.entry, library.kgen_signature().decode(), args)
    tensors = [arg for arg in args if isinstance(arg, TensorArg)]
    requests = (native.TensorRequest * max(1, len(tensors)))(*map(_request, tensors))
    settings = _settings(grid, block, smem_bytes, options)
    with _LAUNCHES:
        handle = runtime.kgs_open(ctypes.byref(settings), requests, len(tensors))
        if not handle:
            raise KgenError(f"no memory for the tensors of simulated kernel '{kernel.entry}'")
        try:
            _copy_in(tensors, requests)
            _run(runtime, library, handle, args, requests)
            _copy_out(tensors, requests)
            return _report(runtime, handle, kernel)
        finally:
            runtime.kgs_close(handle)


def _check_shape(grid: int, block: int, smem_bytes: int) -> None:
    if not 0 <= grid < 2**31:
        raise KgenError(f"a grid has 0 to 2^31 - 1 blocks, not {grid}")
    if block % 32 or not 32 <= block <= MAX_BLOCK:
        raise KgenError(f"a block has 32 to {MAX_BLOCK} threads, in whole warps of 32, not {block}")
    if not 0 <= smem_bytes <= 227 * 1024:
        raise KgenError(f"a block has 0 to {227 * 1024} bytes of shared memory, not {smem_bytes}")


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise KgenError(f"arguments of a simulated launch need names of their own; '{twice[0]}' is given twice")


def _check_signature(entry: str, letters: str, args: Sequence[Arg]) -> None:
    given = "".join(arg.letter for arg in args)
    if given != letters:
        names = {
            "p": "pointer",
            "i": "i32",
            "l": "i64",
            "f": "f32",
            "d": "f64",
            "b": "bool",
            "m": "tensor map",
            "?": "other",
        }
        wanted = ", ".join(names[letter] for letter in letters)
        got = ", ".join(f"{arg.name}: {names[arg.letter]}" for arg in args)
        raise KgenError(f"kernel '{entry}' takes ({wanted}), but the launch gives ({got})")


def _settings(grid: int, block: int, smem_bytes: int, options: Options) -> native.Options:
    return native.Options(
        grid=grid,
        block=block,
        shared_bytes=smem_bytes,
        workers=max(1, min(options.workers, os.cpu_count() or 1)),
        check_races=options.races,
        check_outputs=options.outputs,
        count_sectors=options.sectors,
        lazy=options.lazy,
        hopper=options.tensor_cores == "hopper",
        seed=0 if options.seed is None else options.seed * 2 + 1,
        time_limit=options.time_limit,
    )


def _request(arg: TensorArg) -> native.TensorRequest:
    rank = arg.tensor.dim()
    return native.TensorRequest(
        name=arg.name.encode(),
        bytes=arg.bytes,
        misalignment=arg.misalignment,
        item=arg.tensor.element_size(),
        role=_ROLES[arg.role],
        rank=rank,
        sizes=(ctypes.c_int64 * rank)(*arg.tensor.shape),
        strides=(ctypes.c_int64 * rank)(*arg.tensor.stride()),
    )


def _copy_in(tensors: Sequence[TensorArg], requests: ctypes.Array[Any]) -> None:
    for arg, request in zip(tensors, requests, strict=False):
        if arg.role == "out":
            ctypes.memset(request.address, 0xFF, arg.bytes)
        else:
            ctypes.memmove(request.address, arg.tensor.data_ptr(), arg.bytes)


def _copy_out(tensors: Sequence[TensorArg], requests: ctypes.Array[Any]) -> None:
    """Copy only the elements of the view: what lies between them in memory belongs to others."""
    for arg, request in zip(tensors, requests, strict=False):
        if arg.role == "in" or arg.bytes == 0:
            continue
        buffer = (ctypes.c_uint8 * arg.bytes).from_address(request.address)
        flat = torch.frombuffer(buffer, dtype=arg.tensor.dtype)
        with torch.no_grad():
            arg.tensor.copy_(flat.as_strided(arg.tensor.shape, arg.tensor.stride()))


def _run(runtime: Any, library: Any, handle: int, args: Sequence[Arg], requests: ctypes.Array[Any]) -> None:
    addresses = iter(request.address for request in requests)
    values = [_value(arg, addresses) for arg in args]
    pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(value) for value in values))
    runtime.kgs_run(handle, ctypes.cast(library.kgen_entry, ctypes.c_void_p), pointers)


def _value(arg: Arg, addresses: Iterator[int]) -> Any:
    match arg:
        case ScalarArg():
            return arg.native()
        case TensorMapArg():
            return arg.native(next(addresses))
        case _:
            return ctypes.c_uint64(next(addresses))


def _report(runtime: Any, handle: int, kernel: SimKernel) -> Report:
    raw = json.loads(runtime.kgs_report(handle))
    faults = sorted((_fault(kernel, item) for item in raw["faults"]), key=lambda f: (f.block or 0, f.thread or 0))
    tensors = {name: TensorTraffic(**counts) for name, counts in raw["tensors"].items()}
    lines = tuple(LineAccess(**row) for row in raw["lines"])
    names = ("barriers", "collectives", "blocks", "instructions", "special_functions")
    counters = Counters(tensors, lines=lines, **{name: raw[name] for name in names})
    return Report(tuple(faults), counters, _tile_rows(runtime, handle))


def _fault(kernel: SimKernel, raw: dict[str, Any]) -> Fault:
    line = raw["line"] or kernel_line(kernel, raw["code_offset"])
    lines = kernel.text.splitlines()
    source = lines[line - 1] if line and line <= len(lines) else ""
    block, thread = (None if raw[key] < 0 else raw[key] for key in ("block", "thread"))
    return Fault(raw["kind"], raw["message"], kernel.entry, block, thread, line, source)


def _tile_rows(runtime: Any, handle: int) -> npt.NDArray[np.int64]:
    first = ctypes.POINTER(ctypes.c_int64)()
    count = runtime.kgs_tiles(handle, ctypes.byref(first))
    if count == 0:
        return np.zeros((0, 4), np.int64)
    rows = np.ctypeslib.as_array(first, (count, 4)).copy()
    return rows[np.argsort(rows[:, 0], kind="stable")]
