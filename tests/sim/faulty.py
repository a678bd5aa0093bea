"""Faulty kernels and their repaired twins: one text, whose parameter `broken` chooses.

The line that must be reported is marked HERE. Parameters: const float* x, float* y, i32* n, int broken.
x and y have 128 elements each, n has 8; x is an input, y an output, n keeps its values. Blocks of 64 threads.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """#include "kgen.cuh"
extern "C" KG_GLOBAL void faulty(const float* x, float* y, i32* n, int broken) {
    KG_SMEM(smem);
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
"""


@dataclass(frozen=True)
class Faulty:
    """`body` is wrong in the way `kind` says if broken; the message must contain every word of `says`."""

    name: str
    kind: str
    body: str
    says: tuple[str, ...] = ()
    block: int | None = 0
    architecture: int = 80
    head: str = HEAD

    @property
    def text(self) -> str:
        """The whole text of the kernel."""
        return self.head + self.body.lstrip("\n") + "}\n"

    @property
    def line(self) -> int:
        """The 1-based line marked HERE."""
        return next(i for i, line in enumerate(self.text.splitlines(), 1) if "HERE" in line)


GLOBAL = [
    Faulty(
        "load past the end",
        "out_of_bounds",
        """
    stg(y + i, ldg(x + i + (broken && t == 63 ? 1 : 0) * (blockIdx.x == 1)));  // HERE
""",
        ("load of 4 bytes", "byte offset 512", "'x'", "512 bytes"),
        block=1,
    ),
    Faulty(
        "load before the start",
        "out_of_bounds",
        """
    stg(y + i, ldg(x + (broken && i == 0 ? -1 : i)));  // HERE
""",
        ("byte offset -4", "'x'"),
    ),
    Faulty(
        "store far away",
        "out_of_bounds",
        """
    stg(y + i + (broken ? (1LL << 40) : 0), 1.0f);  // HERE
""",
        ("store of 4 bytes", "outside every tensor"),
    ),
    Faulty(
        "vector load not aligned",
        "misaligned",
        """
    vec<float, 4> v = ldg_vec<4>(x + 4 * (t % 8) + broken);  // HERE
    stg(y + i, v[0]);
""",
        ("load of 16 bytes", "byte offset 4", "aligned to 16"),
    ),
    Faulty(
        "store to an input",
        "out_of_bounds",
        """
    stg(broken ? const_cast<float*>(x) + i : y + i, 1.0f);  // HERE
""",
        ("store to element 0", "'x'", "an input"),
    ),
    Faulty(
        "two blocks store one element",
        "cross_block",
        """
    stg(y + i, ldg(x + i));
    stg_if(n + (broken ? 3 : blockIdx.x), 5, t == 0);  // HERE
""",
        ("element 3", "'n'", "block"),
        block=None,
    ),
    Faulty(
        "store beside atomics",
        "cross_block",
        """
    stg(y + i, ldg(x + i));
    atomic_add(n, 1);
    stg_if(n + (broken ? 0 : 1 + blockIdx.x), 5, t == 0);  // HERE
""",
        ("element 0", "atomics"),
        block=None,
    ),
    Faulty(
        "read of what another block wrote",
        "cross_block",
        """
    stg(y + i, ldg(x + i));
    stg_if(n + blockIdx.x, 5, t == 0);
    sync_threads();
    i32 v = ldg(n + (broken ? 0 : blockIdx.x));  // HERE
    stg_if(n + blockIdx.x, v, t == 0);
""",
        ("element 0", "'n'", "block 0"),
        block=1,
    ),
    Faulty(
        "write of what another block read",
        "cross_block",
        """
    stg(y + i, ldg(x + i));
    i32 v = ldg(n + (broken ? 7 : blockIdx.x));
    sync_threads();
    stg_if(n + (broken ? 7 : blockIdx.x), v, t == 0 && blockIdx.x == 1);  // HERE
""",
        ("element 7", "other block"),
        block=1,
    ),
    Faulty(
        "read of an output not yet written",
        "uninitialised",
        """
    float old = broken ? ldg(y + i) : 0.0f;  // HERE
    stg(y + i, old * 0);
""",
        ("'y'", "not yet written"),
    ),
    Faulty(
        "atomics on a poisoned output",
        "uninitialised",
        """
    stg(y + i, 0.0f);
    atomic_add(y + (broken ? (i + 1) % 128 : i), 1.0f);  // HERE
""",
        ("'y'", "no initial value"),
    ),
]

SHARED = [
    Faulty(
        "store past the end",
        "out_of_bounds",
        """
    stg(y + i, ldg(x + i));
    sts<float>(smem + 4 * t + (broken ? 4096 - 4 * 63 : 0), 1.0f);  // HERE
""",
        ("store of 4 bytes", "byte 4096", "4096"),
    ),
    Faulty(
        "load below the start",
        "out_of_bounds",
        """
    stg(y + i, ldg(x + i));
    sts<float>(smem + 4 * t, 1.0f);
    float v = lds<float>(smem + 4 * t - (broken ? 8 : 0));  // HERE
    stg(y + i, v);
""",
        ("load of 4 bytes", "byte -8"),
    ),
    Faulty(
        "vector store not aligned",
        "misaligned",
        """
    stg(y + i, ldg(x + i));
    sts_vec(smem + 16 * t + (broken ? 8 : 0), vec<float, 4>{});  // HERE
""",
        ("store of 16 bytes", "multiple of 16"),
    ),
    Faulty(
        "load of what nobody wrote",
        "uninitialised",
        """
    sts<float>(smem + 4 * t, 1.0f);
    sync_threads();
    stg(y + i, lds<float>(smem + 4 * (t + broken)));  // HERE
""",
        ("byte 256", "no thread"),
    ),
    Faulty(
        "no barrier between store and load",
        "race",
        """
    sts<float>(smem + 4 * t, 1.0f);
    sync_threads();
    sts<float>(smem + 4 * t, 2.0f);  // HERE
    if (!broken) sync_threads();
    stg(y + i, lds<float>(smem + 4 * (63 - t)));
""",
        ("store", "load by thread"),
    ),
    Faulty(
        "no barrier between load and the next store",
        "race",
        """
    sts<float>(smem + 4 * t, 1.0f);
    sync_threads();
    stg(y + i, lds<float>(smem + 4 * (t ^ 1)));  // HERE
    if (!broken) sync_threads();
    sts<float>(smem + 4 * t, 2.0f);
""",
        ("load", "store by thread"),
    ),
    Faulty(
        "no sync_warp between lanes",
        "race",
        """
    sts<float>(smem + 4 * t, ldg(x + i));
    if (!broken) sync_warp();
    float v = shfl_xor(1.0f, 1);
    stg(y + i, v + lds<float>(smem + 4 * (t ^ 1)));  // HERE
""",
        ("load", "store by thread"),
    ),
    Faulty(
        "broadcast read, then a store by a lane of the same warp",
        "race",
        """
    sts<float>(smem + 4 * t, 1.0f);
    sync_threads();
    stg(y + i, lds<float>(smem));
    if (broken) sync_warp();
    else sync_threads();
    if (t == 5) sts<float>(smem, 2.0f);  // HERE
""",
        ("store", "load by thread"),
    ),
    Faulty(
        "neighbouring bytes are not the same byte",
        "race",
        """
    sts<u8>(smem + t, u8(t));
    sts<u8>(smem + 64 + (broken ? t / 2 : t), u8(t));  // HERE
    sync_threads();
    stg(y + i, float(lds<u8>(smem + (t ^ 1))));
""",
        ("store", "store by thread 0"),
    ),
    Faulty(
        "two sizes of access to one word",
        "race",
        """
    sts<u32>(smem + 4 * t, 7);
    sync_threads();
    u16 low = lds<u16>(smem + 4 * t + 2 * (t % 2));  // HERE
    sts<u16>(smem + 4 * (t ^ 1) + 2 * ((t ^ 1) % 2 ^ !broken), low);
    stg(y + i, float(low));
""",
        ("load", "store by thread"),
    ),
]

CONTROL = [
    Faulty(
        "half of the block skips a barrier",
        "deadlock",
        """
    stg(y + i, ldg(x + i));
    if (!broken || t < 32) sync_threads();  // HERE
""",
        ("threads 0-31 wait in sync_threads at line", "threads 32-63 have exited", "32 of 64"),
    ),
    Faulty(
        "a lane leaves before a shuffle",
        "deadlock",
        """
    stg(y + i, ldg(x + i));
    if (broken && t == 7) return;
    float v = shfl_xor(1.0f, 1);  // HERE
    stg(y + i, v);
""",
        ("threads 0-6 wait in shfl_xor", "thread", "7 have exited"),
    ),
    Faulty(
        "lanes in different shuffles",
        "diverged",
        """
    float v = 1;
    if (broken && t % 2) v = shfl_down(v, 1);  // HERE
    else v = shfl_xor(v, 1);
    stg(y + i, v);
""",
        ("shfl_down", "shfl_xor"),
    ),
    Faulty(
        "threads at different barriers",
        "diverged",
        """
    stg(y + i, ldg(x + i));
    if (t < 32 && broken) sync_threads();
    else sync_threads();  // HERE
""",
        ("sync_threads at line",),
    ),
    Faulty(
        "integer division by zero",
        "crash",
        """
    int d = broken ? 0 : 1;
    asm volatile("" : "+r"(d));
    stg(y + i, float(t / d));  // HERE
""",
        ("division by zero",),
    ),
    Faulty(
        "pointer used without ldg",
        "crash",
        """
    float v = 0;
    if (broken) v = *reinterpret_cast<volatile float*>(64);  // HERE
    stg(y + i, v);
""",
        ("invalid memory",),
    ),
    Faulty(
        "endless loop without any call",
        "timeout",
        """
    stg(y + i, ldg(x + i));
    volatile int go = broken;
    while (go) {}  // HERE
""",
        ("time limit",),
    ),
    Faulty(
        "endless loop over a barrier",
        "timeout",
        """
    stg(y + i, ldg(x + i));
    do sync_threads(); while (broken);  // HERE
""",
        ("time limit",),
    ),
    Faulty(
        "an output element without a store",
        "coverage",
        """
    stg_if(y + i, 1.0f, !broken || i != 77);
    // HERE is no line
""",
        ("1 elements", "'y'", "element 77", "byte offset 308"),
        block=None,
    ),
]

FAULTY = [*GLOBAL, *SHARED, *CONTROL]
