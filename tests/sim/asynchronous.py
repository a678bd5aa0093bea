"""cp.async of kgen.cuh, as cases for the simulator and for a GPU."""

from __future__ import annotations

import torch

from .case import Case, kernel

COPY_CASE = Case(
    entry="copies",
    text=kernel(
        "const float* x, const float* y, float* a, float* b, float* c, float* d",
        """    KG_SMEM(smem);
    u32 one = smem + 4 * tid, two = smem + 256 + 8 * tid, four = smem + 1024 + 16 * tid;
    cp_async4(one, x + tid, tid % 3 != 0);
    cp_async_commit();
    cp_async8(two, x + 64 + 2 * tid, tid < 40);
    cp_async_commit();
    cp_async16(four, y + 4 * tid, tid != 5);
    cp_async_commit();
    cp_async_wait<2>();
    stg(a + tid, lds<float>(one));
    cp_async_wait<1>();
    stg_vec<2>(b + 2 * tid, lds_vec<float, 2>(two));
    cp_async_wait<0>();
    sync_threads();
    stg_vec<4>(c + 4 * tid, lds_vec<float, 4>(four));
    sync_threads();
    for (int turn = 0; turn < 4; ++turn) {
        cp_async16(smem + 1024 * (turn % 2) + 16 * tid, y + 4 * ((tid + turn) % 64));
        cp_async_commit();
        if (turn == 0) continue;
        cp_async_wait<1>();
        sync_threads();
        u32 other = smem + 1024 * ((turn - 1) % 2) + 16 * (63 - tid);
        stg(d + 64 * (turn - 1) + tid, lds<float>(other));
        sync_threads();
    }
    cp_async_wait<0>();
""",
        "copies",
    ),
    inputs=lambda: {"x": torch.arange(192.0) + 0.5, "y": torch.arange(256.0) - 100},
    outputs=lambda: {"a": torch.zeros(64), "b": torch.zeros(64, 2), "c": torch.zeros(64, 4), "d": torch.zeros(3, 64)},
    expected=lambda t: {
        "a": t["x"][:64] * (torch.arange(64) % 3 != 0),
        "b": t["x"][64:].view(64, 2) * (torch.arange(64) < 40).view(64, 1),
        "c": t["y"].view(64, 4) * (torch.arange(64) != 5).view(64, 1),
        "d": torch.stack([t["y"].view(64, 4)[(63 - torch.arange(64) + turn) % 64, 0] for turn in range(3)]),
    },
    smem=2048,
)

ASYNC_CASES = [COPY_CASE]
