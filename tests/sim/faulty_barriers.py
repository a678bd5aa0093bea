"""Faulty uses of named barriers and mbarriers and their repaired twins, in the form of faulty.py."""

from __future__ import annotations

from .faulty import Faulty

NAMED = [
    Faulty(
        "two counts for one barrier",
        "barrier",
        """
    bar_sync(1, broken && t >= 32 ? 32 : 64);  // HERE
    stg(y + i, 0);
""",
        ("barrier 1", "32 threads", "64", "line 5"),
    ),
    Faulty(
        "a barrier that does not exist",
        "barrier",
        """
    bar_sync(broken ? 16 : 15, 64);  // HERE
    stg(y + i, 0);
""",
        ("no named barrier 16",),
    ),
    Faulty(
        "half a warp at a barrier",
        "barrier",
        """
    bar_sync(2, broken ? 48 : 64);  // HERE
    stg(y + i, 0);
""",
        ("whole warps", "not 48"),
    ),
    Faulty(
        "a producer that never arrives",
        "deadlock",
        """
    if (t < 32 && !broken) bar_arrive(3, 64);
    if (t >= 32) bar_sync(3, 64);  // HERE
    stg(y + i, 0);
""",
        ("threads 32-63 wait in bar_sync for barrier 3 (32 of 64 have arrived)", "threads 0-31 have exited"),
    ),
    Faulty(
        "consumers of another barrier",
        "race",
        """
    if (t < 32) {
        sts<float>(smem + 4 * t, 1.0f);
        bar_arrive(3, 64);
    } else {
        bar_sync(3, 64);
    }
    if (broken || t >= 32) stg(y + i, lds<float>(smem + 4 * (t & 30)));  // HERE
    else stg(y + i, 0);
""",
        ("load", "store by thread 0"),
    ),
]

_READY = """
    if (t == 0) mbar_init(smem, 64);
    sync_threads();
"""

MBARRIERS = [
    Faulty(
        "wait where there is no mbarrier",
        "barrier",
        f"""{_READY}
    mbar_arrive(smem);
    mbar_wait(smem + 8 * broken, 0);  // HERE
    stg(y + i, 0);
""",
        ("mbar_wait at shared address 1032", "no mbarrier"),
        architecture=90,
    ),
    Faulty(
        "an mbarrier initialised twice",
        "barrier",
        """
    if (t <= broken) mbar_init(smem, 64);  // HERE
    stg(y + i, 0);
""",
        ("initialised twice",),
        architecture=90,
    ),
    Faulty(
        "more arrivals than the phase has",
        "barrier",
        """
    if (t == 0) mbar_init(smem, broken ? 63 : 64);
    sync_threads();
    if (t < 32) mbar_arrive_tx(smem, 16);
    else mbar_arrive(smem);  // HERE
    stg(y + i, 0);
""",
        ("more than the 63 arrivals", "512 bytes"),
        architecture=90,
    ),
    Faulty(
        "no barrier after the initialisation",
        "race",
        """
    if (t == 0) mbar_init(smem, 64);
    if (!broken) sync_threads();
    mbar_arrive(smem);  // HERE
    stg(y + i, 0);
""",
        ("mbar_arrive", "not ordered after its mbar_init by thread 0"),
        architecture=90,
    ),
    Faulty(
        "a store to the bytes of an mbarrier",
        "race",
        f"""{_READY}
    if (t == 9) sts<float>(smem + (broken ? 4 : 8), 1.0f);  // HERE
    stg(y + i, 0);
""",
        ("store", "mbar_init"),
        architecture=90,
    ),
    Faulty(
        "wait for the wrong parity in the second phase",
        "deadlock",
        f"""{_READY}
    mbar_arrive(smem);
    mbar_wait(smem, 0);
    mbar_arrive(smem);
    mbar_wait(smem, broken ? 0 : 1);  // HERE
    stg(y + i, 0);
""",
        ("wait in mbar_wait for the end of parity 0", "in its phase of parity 0", "64 of 64 arrivals"),
        architecture=90,
    ),
    Faulty(
        "wait for a parity that has passed already",
        "race",
        """
    if (t == 0) mbar_init(smem, 1);
    sync_threads();
    sts<float>(smem + 64 + 4 * t, 1.0f);
    sync_warp();
    if (t == 0) mbar_arrive(smem);
    mbar_wait(smem, broken ? 1 : 0);
    stg(y + i, lds<float>(smem + 64 + 4 * (t % 32)));  // HERE
""",
        ("load", "store by thread"),
        architecture=90,
    ),
    Faulty(
        "stores of lanes that do not arrive",
        "race",
        """
    if (t == 0) mbar_init(smem, 1);
    sync_threads();
    sts<float>(smem + 64 + 4 * t, 1.0f);
    if (!broken) sync_warp();
    if (t == 0) mbar_arrive(smem);
    mbar_wait(smem, 0);
    stg(y + i, lds<float>(smem + 64 + 4 * (t % 32)));  // HERE
""",
        ("load", "store by thread"),
        architecture=90,
    ),
]

BARRIERS = [*NAMED, *MBARRIERS]
