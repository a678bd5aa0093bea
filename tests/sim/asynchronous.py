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

HEAD_CASE = Case(
    entry="copy_heads",
    text=kernel(
        "const bf16* x, const i32* bytes, bf16* y",
        """    KG_SMEM(smem);
    cp_async16_head(smem + 16 * tid, x + 8 * tid, ldg(bytes + tid));
    cp_async_commit();
    cp_async_wait<0>();
    stg_vec<8>(y + 8 * tid, lds_vec<bf16, 8>(smem + 16 * tid));
""",
        "copy_heads",
    ),
    inputs=lambda: {"x": (torch.arange(505) % 99).bfloat16(), "bytes": _head_bytes()},
    outputs=lambda: {"y": torch.zeros(64, 8, dtype=torch.bfloat16)},
    expected=lambda t: {
        "y": torch.nn.functional.pad(t["x"], (0, 7)).view(64, 8)
        * (2 * torch.arange(8) < t["bytes"].view(64, 1)).bfloat16()
    },
    smem=1024,
)


def _head_bytes() -> torch.Tensor:
    """Return even counts from -4 to 18; the last thread's is what exists."""
    bytes_ = 2 * (torch.arange(64) % 12) - 4
    bytes_[-1] = 2
    return bytes_.int()


ASYNC_CASES = [COPY_CASE, HEAD_CASE]
