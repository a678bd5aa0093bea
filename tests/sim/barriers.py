"""Named barriers and mbarriers of kgen.cuh, without TMA."""

from __future__ import annotations

import torch

from .case import Case, kernel

NAMED_CASE = Case(
    entry="named_barriers",
    text=kernel(
        "const float* x, float* y",
        """    KG_SMEM(smem);
    u32 mine = smem + 4 * tid, partner = smem + 4 * (tid % 64 ^ 33);
    if (tid < 64) {
        for (int turn = 0; turn < 3; ++turn) {
            if (turn > 0) bar_sync(2, 128);  // the others have read
            sts<float>(mine, ldg(x + 64 * turn + tid));
            bar_sync(3, 64);
            float v = lds<float>(partner);
            bar_sync(3, 64);
            sts<float>(mine, v + 1);
            bar_arrive(1, 128);
        }
    } else {
        for (int turn = 0; turn < 3; ++turn) {
            bar_sync(1, 128);
            stg(y + 64 * turn + tid - 64, lds<float>(partner));
            if (turn < 2) bar_arrive(2, 128);
        }
    }
""",
        "named_barriers",
    ),
    inputs=lambda: {"x": torch.arange(192.0)},
    outputs=lambda: {"y": torch.zeros(3, 64)},
    expected=lambda t: {"y": t["x"].view(3, 64) + 1},
    block=128,
    smem=256,
)

RING_CASE = Case(
    entry="mbarrier_ring",
    text=kernel(
        "const float* x, float* y",
        """    KG_SMEM(smem);
    constexpr int STAGES = 2, TURNS = 7;
    const u32 full = smem, empty = smem + 8 * STAGES, data = smem + 128;
    if (tid == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbar_init(full + 8 * s, 32);
            mbar_init(empty + 8 * s, 64);
        }
    }
    sync_threads();
    for (int turn = 0; turn < TURNS; ++turn) {
        const int s = turn % STAGES, phase = turn / STAGES % 2;
        if (tid < 32) {
            mbar_wait(empty + 8 * s, phase ^ 1);
            sts<float>(data + 128 * s + 4 * tid, ldg(x + 32 * turn + tid));
            mbar_arrive(full + 8 * s);
        } else {
            mbar_wait(full + 8 * s, phase);
            float v = lds<float>(data + 128 * s + 4 * (tid % 32 ^ 7));
            mbar_arrive(empty + 8 * s);
            stg(y + 64 * turn + tid - 32, v);
        }
    }
""",
        "mbarrier_ring",
    ),
    inputs=lambda: {"x": torch.arange(224.0)},
    outputs=lambda: {"y": torch.zeros(7, 64)},
    expected=lambda t: {"y": t["x"].view(7, 32)[:, torch.arange(64) % 32 ^ 7]},
    block=96,
    smem=512,
    architecture=90,
)

BARRIER_CASES = [NAMED_CASE, RING_CASE]
