"""Faulty uses of cp.async and of tensor cores, and their repaired twins, in the form of faulty.py."""

from __future__ import annotations

from .faulty import Faulty

COPIES = [
    Faulty(
        "copy read before its wait",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    cp_async_commit();
    if (!broken) cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 4 * t));  // HERE
""",
        ("load", "cp.async by thread"),
    ),
    Faulty(
        "copies of others read without a barrier",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    cp_async_commit();
    cp_async_wait<0>();
    if (!broken) sync_threads();
    stg(y + i, lds<float>(smem + 4 * (t & ~1)));  // HERE
""",
        ("load", "cp.async by thread"),
    ),
    Faulty(
        "barrier before the wait, not after it",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    cp_async_commit();
    if (broken) sync_threads();
    cp_async_wait<0>();
    if (!broken) sync_threads();
    stg(y + i, lds<float>(smem + 4 * (t & ~1)));  // HERE
""",
        ("load", "cp.async by thread"),
    ),
    Faulty(
        "wait for a copy that no group holds",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    if (!broken) cp_async_commit();
    cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 4 * t));  // HERE
""",
        ("load", "cp.async by thread"),
    ),
    Faulty(
        "wait that leaves one group too many in flight",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    cp_async_commit();
    cp_async8(smem + 1024 + 8 * t, x + 2 * (t % 8));
    cp_async_commit();
    if (broken) cp_async_wait<1>();
    else cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 4 * t) + lds<float>(smem + 1024 + 8 * t));  // HERE
""",
        ("load", "byte 1024", "cp.async by thread"),
    ),
    Faulty(
        "stage overwritten while others may read it",
        "race",
        """
    sts<float>(smem + 4 * t, ldg(x + i));
    sync_threads();
    stg(y + i, lds<float>(smem + 4 * (t | 1)));
    if (!broken) sync_threads();
    cp_async4(smem + 4 * t, x + i);  // HERE
    cp_async_commit();
    cp_async_wait<0>();
""",
        ("cp.async", "load by thread"),
    ),
    Faulty(
        "store over a copy in flight",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    cp_async_commit();
    if (!broken) cp_async_wait<0>();
    sts<float>(smem + 4 * t, 1.0f);  // HERE
    cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 4 * t));
""",
        ("store", "cp.async by thread"),
    ),
    Faulty(
        "copy over a copy in flight",
        "race",
        """
    cp_async4(smem + 4 * t, x + i);
    if (!broken) cp_async_commit();
    if (!broken) cp_async_wait<0>();
    cp_async4(smem + 4 * t, x + i);  // HERE
    cp_async_commit();
    cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 4 * t));
""",
        ("cp.async of", "cp.async by thread"),
    ),
    Faulty(
        "copy to an address that is not a multiple of 16",
        "misaligned",
        """
    cp_async16(smem + 16 * t + 4 * broken, x + 4 * (t % 8));  // HERE
    cp_async_commit();
    cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 16 * t + 4 * broken));
""",
        ("store of 16 bytes", "multiple of 16"),
    ),
    Faulty(
        "copy from past the end",
        "out_of_bounds",
        """
    cp_async16(smem + 16 * t, x + 4 * t, broken || t < 32);  // HERE
    cp_async_commit();
    cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 16 * t));
""",
        ("cp.async of 16 bytes", "byte offset 512", "'x'"),
    ),
]

HEADS = [
    Faulty(
        "head of a copy that is longer than the tensor",
        "out_of_bounds",
        """
    cp_async16_head(smem + 16 * t, x + 4 * t + (t == 31 && broken ? 4 : 0), t < 32 ? 12 : 0);  // HERE
    cp_async_commit();
    cp_async_wait<0>();
    stg(y + i, lds<float>(smem + 16 * t));
""",
        ("cp.async of 12 bytes", "byte offset 512", "'x'"),
    ),
]

MATRICES = [
    Faulty(
        "matrix loaded without a barrier after others' stores",
        "race",
        """
    sts_vec(smem + 16 * t, vec<float, 4>{{1, 2, 3, 4}});
    if (!broken) sync_threads();
    u32 r[4];
    ldmatrix_x4(r, smem + 16 * (t % 32));  // HERE
    stg(y + i, float(r[0]));
""",
        ("ldmatrix", "store by thread"),
    ),
    Faulty(
        "row overwritten by the lane that gave its address, without a barrier",
        "race",
        """
    sts_vec(smem + 16 * t, vec<float, 4>{{1, 2, 3, 4}});
    sync_warp();
    u32 r[4];
    ldmatrix_x4(r, smem + 16 * t);
    if (!broken) sync_warp();
    sts<float>(smem + 16 * t, 2.0f);  // HERE
    stg(y + i, float(r[0]));
""",
        ("store", "load by thread"),
    ),
    Faulty(
        "matrix row that no store reached",
        "uninitialised",
        """
    sts_vec(smem + 16 * t, vec<float, 4>{{1, 2, 3, 4}});
    sync_threads();
    u32 r[4];
    ldmatrix_x4(r, smem + 16 * (t + broken));  // HERE
    stg(y + i, float(r[0]));
""",
        ("ldmatrix", "byte 1024"),
    ),
    Faulty(
        "matrix row that is not aligned",
        "misaligned",
        """
    for (int j = 0; j < 5; ++j) sts<float>(smem + 4 * (t + 64 * j), 1.0f);
    sync_threads();
    u32 r[2];
    ldmatrix_x2(r, smem + 16 * t + (broken && t == 9 ? 4 : 0));  // HERE
    stg(y + i, float(r[0]));
""",
        ("load of 16 bytes", "multiple of 16"),
    ),
    Faulty(
        "matrix stored past the end",
        "out_of_bounds",
        """
    u32 r[4] = {};
    stmatrix_x4(smem + 16 * t + (broken ? 4096 : 0), r);  // HERE
    stg(y + i, 0);
""",
        ("store of 16 bytes", "byte 4096"),
        architecture=90,
    ),
    Faulty(
        "stored matrix read by others without a barrier",
        "race",
        """
    u32 r[4] = {};
    stmatrix_x4(smem + 16 * t, r);
    if (!broken) sync_warp();
    stg(y + i, lds<float>(smem + 16 * (t ^ 1)));  // HERE
""",
        ("load", "store by thread"),
        architecture=90,
    ),
    Faulty(
        "accumulators that were never set",
        "coverage",
        """
    float d[4];
    if (!broken) for (int j = 0; j < 4; ++j) d[j] = 0;
    u32 a[4] = {}, b[2] = {};
    mma_m16n8k16<bf16>(d, a, b);
    stg_if(y + i, 1.0f, d[0] == 0.0f);
    // HERE is no line
""",
        ("128 elements", "'y'"),
        block=None,
    ),
    Faulty(
        "half of a warp multiplies",
        "deadlock",
        """
    float d[4] = {};
    u32 a[4] = {}, b[2] = {};
    if (!broken || t % 32 < 16) mma_m16n8k16<f16>(d, a, b);  // HERE
    stg(y + i, d[0]);
""",
        ("mma_m16n8k16", "have exited"),
    ),
]

ASYNC = [*COPIES, *HEADS, *MATRICES]
