"""TMA of kgen.cuh: images of loaded tiles in shared memory, and stored tiles, for ranks 2 to 5 and every swizzle."""

from __future__ import annotations

import itertools

import torch

from .case import Case, kernel

SPANS = {0: "plain", 32: "span32", 64: "span64", 128: "span128"}


def image(tensor: torch.Tensor, box: tuple[int, ...], at: tuple[int, ...], swizzle: int, size: int) -> torch.Tensor:
    """Return `size` bytes of shared memory, zero before, after a load of the tile of `tensor` at `at` to its start.

    Dimensions in the order of the tensor; shared memory starts at an address that is a multiple of 1024.
    """
    item, memory = tensor.element_size(), torch.zeros(size, dtype=torch.uint8)
    pitch = swizzle or box[-1] * item
    for row, index in enumerate(itertools.product(*map(range, box[:-1]))):
        place = [start + i for start, i in zip(at[:-1], index, strict=True)]
        values = torch.zeros(box[-1], dtype=tensor.dtype)
        if all(0 <= p < n for p, n in zip(place, tensor.shape[:-1], strict=True)):
            kept = tensor[tuple(place)][at[-1] : at[-1] + box[-1]]
            values[: len(kept)] = kept
        for byte, value in enumerate(values.view(torch.uint8)):
            address = row * pitch + byte
            memory[address ^ (address >> 3 & max(0, swizzle - 16))] = value
    return memory


def _call(name: str, first: str, second: str, at: tuple[int, ...]) -> str:
    return f"{name}_{len(at)}d({first}, {second}" + "".join(f", {i}" for i in reversed(at)) + ");"


def load_case(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], swizzle: int, dtype: torch.dtype
) -> Case:
    """Return the case of one loaded tile, whose whole image is compared."""
    rows = torch.Size(box[:-1]).numel()
    item = dtype.itemsize
    size = -(-rows * (swizzle or box[-1] * item) // 256) * 256
    name = f"load_{len(shape)}d_{SPANS[swizzle]}"
    body = f"""    KG_SMEM(smem);
    const u32 bar = smem, tile = smem + 1024;
    if (tid == 0) {{
        mbar_init(bar, 1);
        fence_mbar_init();
    }}
    for (int i = tid; i < {size // 4}; i += 64) sts<i32>(tile + 4 * i, 0);
    fence_proxy_async();
    sync_threads();
    if (tid < 32 && elect_one()) {{
        mbar_arrive_tx(bar, {rows * box[-1] * item});
        {_call("tma_load", "tile", "x, bar", at)}
    }}
    mbar_wait(bar, 0);
    for (int i = tid; i < {size // 4}; i += 64) stg(y + i, lds<i32>(tile + 4 * i));
"""
    return Case(
        entry=name,
        text=kernel("KG_TENSOR_MAP(x), i32* y", body, name),
        inputs=lambda: {"x": _counted(shape, dtype)},
        outputs=lambda: {"y": torch.zeros(size // 4, dtype=torch.int32)},
        expected=lambda t: {"y": image(t["x"], box, at, swizzle, size).view(torch.int32)},
        smem=1024 + size,
        architecture=90,
        maps={"x": (box, swizzle)},
    )


def store_case(shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], swizzle: int) -> Case:
    """Return the case of one stored float tile, partly outside; elements that it does not reach keep 5."""
    rows = torch.Size(box[:-1]).numel()
    pitch, name = swizzle or box[-1] * 4, f"store_{len(shape)}d_{SPANS[swizzle]}"
    body = f"""    KG_SMEM(smem);
    for (int i = tid; i < {rows * box[-1]}; i += 64) {{
        u32 a = i / {box[-1]} * {pitch} + i % {box[-1]} * 4;
        sts<float>(smem + (a ^ (a >> 3 & {max(0, swizzle - 16)})), float(i));
    }}
    fence_proxy_async();
    sync_threads();
    if (tid < 32 && elect_one()) {{
        {_call("tma_store", "y", "smem", at)}
        tma_commit();
        tma_wait<0>();
    }}
    stg(z + tid, 0);
"""
    return Case(
        entry=name,
        text=kernel("KG_TENSOR_MAP(y), float* z", body, name),
        inputs=dict,
        outputs=lambda: {"y": torch.full(shape, 5.0), "z": torch.zeros(64)},
        expected=lambda t: {"y": _stored(shape, box, at), "z": torch.zeros(64)},
        smem=-(-rows * pitch // 1024) * 1024,
        architecture=90,
        initial=True,
        maps={"y": (box, swizzle)},
    )


def _stored(shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...]) -> torch.Tensor:
    found = torch.full(shape, 5.0)
    for number, index in enumerate(itertools.product(*map(range, box))):
        place = tuple(start + i for start, i in zip(at, index, strict=True))
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            found[place] = number
    return found


def _counted(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return (torch.arange(torch.Size(shape).numel()) % 251).to(dtype).view(shape)


TILE_CASES = [
    load_case((20, 64), (16, 64), (8, 0), 128, torch.float16),
    load_case((20, 40), (16, 16), (-1, 32), 32, torch.float16),
    load_case((4, 20, 40), (2, 8, 16), (1, 15, 16), 64, torch.float16),
    load_case((3, 4, 10, 32), (2, 2, 3, 8), (2, 1, 8, 24), 0, torch.float32),
    load_case((2, 3, 4, 5, 16), (1, 2, 2, 3, 16), (1, 2, 1, 3, 0), 128, torch.float32),
    store_case((20, 40), (16, 32), (8, 16), 128),
    store_case((3, 20, 8), (2, 16, 8), (2, 8, 0), 32),
    store_case((3, 20, 16), (2, 16, 16), (1, 8, 0), 64),
    store_case((2, 2, 5, 12), (1, 2, 4, 8), (1, 1, 2, 8), 0),
]
