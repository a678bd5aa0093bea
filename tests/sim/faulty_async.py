"""Faulty uses of cp.async and their repaired twins, in the form of faulty.py."""

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

ASYNC = [*COPIES]
