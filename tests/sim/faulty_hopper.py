"""Faulty uses of TMA and wgmma and their repaired twins: `broken` chooses; the line to be reported is marked HERE.

mx maps an input of 32 x 32 floats, mz an inout one of the same shape, both in boxes of 8 x 32 swizzled over 128 bytes.
One block of 128 threads, 16 KB of shared memory; y has 128 elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from .faulty import Faulty

HEAD = """#include "kgen.cuh"
extern "C" KG_GLOBAL void faulty(KG_TENSOR_MAP(mx), KG_TENSOR_MAP(mz), float* y, int broken) {
    KG_SMEM(smem);
    const int t = threadIdx.x;
    [[maybe_unused]] const u32 bar = smem, tile = smem + 1024;
"""


@dataclass(frozen=True)
class HopperFaulty(Faulty):
    """A faulty kernel with tensor maps."""

    architecture: int = 90
    head: str = HEAD


_READY = """
    if (t == 0) {
        mbar_init(bar, 1);
        fence_mbar_init();
    }
    sync_threads();
"""
_END = "\n    stg(y + t, lds<float>(tile + 4 * t));\n"
_FILL = "\n    for (int j = t; j < 256; j += 128) sts<float>(tile + 4 * j, 1.0f);\n"

LOADS = [
    HopperFaulty(
        "mbarrier not fenced for TMA",
        "missing_fence",
        f"""
    if (t == 0) {{
        mbar_init(bar, 1);
        if (!broken) fence_mbar_init();
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile, mx, bar, 0, 0);  // HERE
    }}
    sync_threads();
    mbar_wait(bar, 0);{_END}""",
        ("mbarrier at shared address 1024", "fence_mbar_init"),
    ),
    HopperFaulty(
        "too many bytes expected",
        "deadlock",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, broken ? 1040 : 1024);
        tma_load_2d(tile, mx, bar, 0, 0);
    }}
    mbar_wait(bar, 0);  // HERE{_END}""",
        ("end of parity 0", "0 of 1 arrivals and 16 bytes are missing"),
    ),
    HopperFaulty(
        "too few bytes expected",
        "deadlock",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, broken ? 512 : 1024);
        tma_load_2d(tile, mx, bar, 0, 0);
    }}
    mbar_wait(bar, 0);  // HERE{_END}""",
        ("0 of 1 arrivals and -512 bytes are missing",),
    ),
    HopperFaulty(
        "tile read before its wait",
        "race",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile, mx, bar, 0, 0);
    }}
    sync_threads();
    if (!broken) mbar_wait(bar, 0);
    stg(y + t, lds<float>(tile + 4 * t));  // HERE
""",
        ("load", "TMA load"),
    ),
    HopperFaulty(
        "wait on the mbarrier of another tile",
        "race",
        f"""
    if (t == 0) mbar_init(bar + 8, 1);{_READY}
    if (t == 0) {{
        fence_mbar_init();
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile, mx, bar, 0, 0);
        mbar_arrive_tx(bar + 8, 1024);
        tma_load_2d(tile + 1024, mx, bar + 8, 0, 8);
    }}
    mbar_wait(bar, 0);
    if (!broken) mbar_wait(bar + 8, 0);
    stg(y + t, lds<float>(tile + 1024 + 4 * t));  // HERE
    mbar_wait(bar + 8, 0);
""",
        ("load", "TMA load"),
    ),
    HopperFaulty(
        "tile loaded over what others may still read",
        "race",
        f"""{_READY}{_FILL}
    sync_threads();
    if (t != 0) stg(y + t, lds<float>(tile + 4 * t));
    if (!broken) sync_threads();
    if (t == 127) {{
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile, mx, bar, 0, 0);  // HERE
    }}
    mbar_wait(bar, 0);
    if (t == 0) stg(y, 0);
""",
        ("TMA load of", "load by thread"),
    ),
    HopperFaulty(
        "tile that nobody waits for",
        "in_flight",
        f"""{_READY}
    if (t == 0 && broken) {{
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile, mx, bar, 0, 0);  // HERE
    }}
    stg(y + t, 0);
""",
        ("without having waited", "mbarrier at shared address 1024"),
    ),
    HopperFaulty(
        "innermost coordinate that is no multiple of 16 bytes",
        "tma",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile, mx, bar, 2 * broken, 3);  // HERE
    }}
    mbar_wait(bar, 0);{_END}""",
        ("byte 8 of the innermost dimension", "multiple of 16"),
    ),
    HopperFaulty(
        "tile at an odd place in shared memory",
        "misaligned",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(tile + 64 * broken, mx, bar, 0, 0);  // HERE
    }}
    mbar_wait(bar, 0);{_END}""",
        ("TMA load", "multiple of 128"),
    ),
    HopperFaulty(
        "tile past the end of shared memory",
        "out_of_bounds",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, 1024);
        tma_load_2d(broken ? smem + 15 * 1024 + 512 : tile, mx, bar, 0, 0);  // HERE
    }}
    mbar_wait(bar, 0);{_END}""",
        ("1024 bytes", "byte 15872"),
    ),
    HopperFaulty(
        "map of another rank",
        "tma",
        f"""{_READY}
    if (t == 0) {{
        mbar_arrive_tx(bar, 1024);
        if (broken) tma_load_3d(tile, mx, bar, 0, 0, 0);  // HERE
        else tma_load_2d(tile, mx, bar, 0, 0);
    }}
    mbar_wait(bar, 0);{_END}""",
        ("3 dimensions", "map of 2"),
    ),
]

STORES = [
    HopperFaulty(
        "stored tile not fenced",
        "missing_fence",
        f"""{_FILL}
    if (!broken) fence_proxy_async();
    sync_threads();
    if (t == 0) {{
        tma_store_2d(mz, tile, 0, 0);  // HERE
        tma_commit();
        tma_wait<0>();
    }}
    stg(y + t, 0);
""",
        ("TMA store", "fence_proxy_async", "store by thread"),
    ),
    HopperFaulty(
        "store of a tile that others are still writing",
        "race",
        f"""{_FILL}
    fence_proxy_async();
    if (!broken) sync_threads();
    if (t == 127) {{
        tma_store_2d(mz, tile, 0, 0);  // HERE
        tma_commit();
        tma_wait<0>();
    }}
    stg(y + t, 0);
""",
        ("TMA store of", "store by thread"),
    ),
    HopperFaulty(
        "tile overwritten while it is being stored",
        "race",
        f"""{_FILL}
    fence_proxy_async();
    sync_threads();
    if (t == 0) {{
        tma_store_2d(mz, tile, 0, 0);
        tma_commit();
        if (!broken) tma_wait_read<0>();
    }}
    sync_threads();
    sts<float>(tile + 4 * t, 2.0f);  // HERE
    if (t == 0) tma_wait<0>();
    stg(y + t, 0);
""",
        ("store", "TMA store by warp 0"),
    ),
    HopperFaulty(
        "store that is not committed",
        "in_flight",
        f"""{_FILL}
    fence_proxy_async();
    sync_threads();
    if (t == 0) {{
        tma_store_2d(mz, tile, 0, 0);  // HERE
        if (!broken) tma_commit();
        tma_wait<0>();
    }}
    stg(y + t, 0);
""",
        ("tma_commit and tma_wait",),
    ),
]

_OPERANDS = """
    float d[4];
    for (int j = 0; j < 4; ++j) d[j] = 0;
    for (int j = t; j < 3584; j += 128) sts<u32>(tile + 4 * j, 0);
"""
_PRODUCT = "wgmma_ss<bf16, 8, 0, 0>(d, smem_desc(tile, 16, 1024, 1), smem_desc(tile + 8192, 16, 1024, 1));"
_READ = "\n    stg_if(y + t, d[0] + d[3], d[0] + d[3] == 0.0f);\n"

PRODUCTS = [
    HopperFaulty(
        "operands not fenced for wgmma",
        "missing_fence",
        f"""{_OPERANDS}
    if (!broken) fence_proxy_async();
    sync_threads();
    wgmma_fence();
    {_PRODUCT}  // HERE
    wgmma_commit();
    wgmma_wait<0>();{_READ}""",
        ("wgmma reads", "fence_proxy_async", "store by thread"),
    ),
    HopperFaulty(
        "operands that other warps are still storing",
        "race",
        f"""{_OPERANDS}
    fence_proxy_async();
    if (broken) sync_warp();
    else sync_threads();
    wgmma_fence();
    if (t >= 96) sync_warp();
    {_PRODUCT}  // HERE
    wgmma_commit();
    wgmma_wait<0>();{_READ}""",
        ("wgmma of", "store by thread"),
    ),
    HopperFaulty(
        "registers not fenced for wgmma",
        "missing_fence",
        f"""{_OPERANDS}
    fence_proxy_async();
    sync_threads();
    if (!broken) wgmma_fence();
    {_PRODUCT}  // HERE
    wgmma_commit();
    wgmma_wait<0>();{_READ}""",
        ("wgmma_fence",),
    ),
    HopperFaulty(
        "product that no group holds",
        "in_flight",
        f"""{_OPERANDS}
    fence_proxy_async();
    sync_threads();
    wgmma_fence();
    {_PRODUCT}  // HERE
    if (!broken) wgmma_commit();
    wgmma_wait<0>();
    stg(y + t, 0);
""",
        ("wgmma_commit and wgmma_wait",),
    ),
    HopperFaulty(
        "accumulators changed in flight",
        "in_flight",
        f"""{_OPERANDS}
    fence_proxy_async();
    sync_threads();
    wgmma_fence();
    {_PRODUCT}
    wgmma_commit();
    if (broken) d[2] = 1;
    wgmma_wait<0>();  // HERE
    stg(y + t, d[1]);
""",
        ("accumulator 2 of lane 0", "changed while the wgmma at line"),
    ),
    HopperFaulty(
        "accumulators read in flight",
        "coverage",
        f"""{_OPERANDS}
    fence_proxy_async();
    sync_threads();
    wgmma_fence();
    {_PRODUCT}
    wgmma_commit();
    if (!broken) wgmma_wait<0>();{_READ}
    wgmma_wait<0>();
    // HERE is no line
""",
        ("128 elements", "'y'"),
        block=None,
    ),
    HopperFaulty(
        "operand overwritten in flight",
        "race",
        f"""{_OPERANDS}
    fence_proxy_async();
    sync_threads();
    wgmma_fence();
    {_PRODUCT}
    wgmma_commit();
    if (!broken) wgmma_wait<0>();
    sync_threads();
    if (t < 8) sts<u32>(tile + 8192 + 4 * t, 1);  // HERE
    wgmma_wait<0>();
    stg(y + t, 0);
""",
        ("store", "wgmma by warp"),
    ),
    HopperFaulty(
        "descriptor that leaves shared memory",
        "out_of_bounds",
        f"""{_OPERANDS}
    fence_proxy_async();
    sync_threads();
    wgmma_fence();
    u64 a = smem_desc(tile, 16, broken ? 4096 : 1024, 1);
    wgmma_ss<bf16, 8, 0, 0>(d, a, smem_desc(tile + 8192, 16, 1024, 1));  // HERE
    wgmma_commit();
    wgmma_wait<0>();{_READ}""",
        ("load of 16 bytes", "out of bounds"),
    ),
]

HOPPER = [*LOADS, *STORES, *PRODUCTS]
