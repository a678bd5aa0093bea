"""Memory, shuffles and atomics of kgen.cuh; CASES holds these and all others."""

from __future__ import annotations

import torch

from .asynchronous import ASYNC_CASES
from .barriers import BARRIER_CASES
from .case import Case, Tensors, kernel
from .matrices import MATRIX_CASES
from .numerics import NUMERICS
from .products import WGMMA_CASES
from .tiles import TILE_CASES

VECTORS = [("bf16", 8), ("bf16", 4), ("bf16", 2), ("bf16", 1), ("f16", 8), ("float", 4), ("float", 2)]
VECTORS += [("double", 2), ("i8", 16), ("u8", 8), ("u8", 2), ("i32", 4), ("i64", 2), ("bool", 4)]
DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}
THREADS = 64
KEPT = 50  # threads whose predicate is true


def _vector_parameters() -> str:
    inputs = [f"const {name}* x{i}" for i, (name, _) in enumerate(VECTORS)]
    return ", ".join(inputs + [f"{name}* y{i}" for i, (name, _) in enumerate(VECTORS)])


def _vector_body() -> str:
    """Each thread copies N elements, reversed, through shared memory; the last 14 threads read zeros."""
    lines = ["    KG_SMEM(smem);\n    u32 a = smem + 16 * (tid ^ 1);\n"]
    for i, (name, n) in enumerate(VECTORS):
        lines.append(f"""    {{
        vec<{name}, {n}> v = ldg_vec_if<{n}>(x{i} + tid * {n}, tid < {KEPT}), r;
        for (int e = 0; e < {n}; ++e) r[e] = v[{n} - 1 - e];
        sync_threads();
        sts_vec(smem + 16 * tid, r);
        sync_threads();
        stg_vec<{n}>(y{i} + tid * {n}, lds_vec<{name}, {n}>(a));
    }}
""")
    return "".join(lines)


def _vector_inputs() -> Tensors:
    generator = torch.Generator().manual_seed(2)
    draw = {n: torch.randint(0, 100, (THREADS, n), generator=generator) for _, n in VECTORS}
    return {f"x{i}": draw[n].to(DTYPES[name]) for i, (name, n) in enumerate(VECTORS)}


def _vector_expected(tensors: Tensors) -> Tensors:
    found = {}
    for i in range(len(VECTORS)):
        kept = tensors[f"x{i}"].clone()
        kept[KEPT:] = 0
        found[f"y{i}"] = kept.flip(1).view(THREADS // 2, 2, -1).flip(1).reshape(THREADS, -1)
    return found


VECTOR_CASE = Case(
    entry="vectors",
    text=kernel(_vector_parameters(), _vector_body(), "vectors"),
    inputs=_vector_inputs,
    outputs=lambda: {f"y{i}": torch.zeros(THREADS, n, dtype=DTYPES[name]) for i, (name, n) in enumerate(VECTORS)},
    expected=_vector_expected,
    block=THREADS,
    smem=16 * THREADS,
)

SCALAR_CASE = Case(
    entry="scalars",
    text=kernel(
        "const bf16* x, const i64* n, bf16* y, float* z, bool* b, i64* m",
        """    KG_SMEM(smem);
    sts<i64>(smem + 8 * tid, ldg_if(n + tid, tid < 40));
    sync_threads();
    stg(m + tid, lds<i64>(smem + 8 * (63 - tid)));
    stg_if(y + tid, ldg(x + tid), true);
    stg(z + tid, to_f32(ldg_if(x + tid, tid % 2 == 0)));
    stg(b + tid, tid % 3 == 0);
    stg_if(z + 1000000, 1.0f, false);
""",
        "scalars",
    ),
    inputs=lambda: {"x": torch.arange(64).bfloat16(), "n": torch.arange(64) * 2**40 - 7},
    outputs=lambda: {
        "y": torch.zeros(64, dtype=torch.bfloat16),
        "z": torch.zeros(64),
        "b": torch.zeros(64, dtype=torch.bool),
        "m": torch.zeros(64, dtype=torch.int64),
    },
    expected=lambda t: {
        "y": t["x"],
        "z": t["x"].float() * (torch.arange(64) % 2 == 0),
        "b": torch.arange(64) % 3 == 0,
        "m": (t["n"] * (torch.arange(64) < 40)).flip(0),
    },
    smem=8 * 64,
)


def _shuffle_expected(tensors: Tensors) -> Tensors:
    x = tensors["x"].view(2, 32)
    lane = torch.arange(32)
    down = x[:, torch.where(lane + 5 < 32, lane + 5, lane)]
    positive = x > 0
    votes = (positive.long() << lane).sum(1)
    return {
        "f": x[:, lane ^ 3].reshape(-1),
        "d": down.double().reshape(-1),
        "i": x.int()[:, (lane * 7) % 32].reshape(-1),
        "l": (x.long() * 2**33)[:, lane ^ 16].reshape(-1),
        "b": positive[:, lane ^ 1].reshape(-1),
        "s": torch.stack([x.sum(1), votes.float(), positive.any(1).float(), positive.all(1).float()], 1),
    }


SHUFFLE_CASE = Case(
    entry="shuffles",
    text=kernel(
        "const float* x, float* f, double* d, i32* i, i64* l, bool* b, float* s",
        """    int lane = threadIdx.x % 32;
    float v = ldg(x + tid);
    stg(f + tid, shfl_xor(v, 3));
    stg(d + tid, shfl_down(double(v), 5));
    stg(i + tid, shfl_idx(i32(v), lane * 7 % 32));
    stg(l + tid, shfl_xor(i64(v) * (1LL << 33), 16));
    stg(b + tid, shfl_xor(v > 0, 1));
    u32 votes = ballot(v > 0);
    bool any = any_sync(v > 0), all = all_sync(v > 0);
    float sum = v;
    for (int offset = 16; offset > 0; offset /= 2) sum += shfl_xor(sum, offset);
    float* row = s + tid / 32 * 4;
    stg_if(row, sum, lane == 0);
    stg_if(row + 1, float(votes), lane == 0);
    stg_if(row + 2, float(any), lane == 0);
    stg_if(row + 3, float(all), lane == 0);
""",
        "shuffles",
    ),
    inputs=lambda: {"x": torch.cat([torch.arange(32.0) - 10, torch.arange(32.0) + 1])},
    outputs=lambda: {
        "f": torch.zeros(64),
        "d": torch.zeros(64, dtype=torch.float64),
        "i": torch.zeros(64, dtype=torch.int32),
        "l": torch.zeros(64, dtype=torch.int64),
        "b": torch.zeros(64, dtype=torch.bool),
        "s": torch.zeros(2, 4),
    },
    expected=_shuffle_expected,
)

ATOMIC_CASE = Case(
    entry="atomics",
    text=kernel(
        "const float* x, float* f, i32* i, i64* l",
        """    float v = ldg(x + tid);
    atomic_add(f, v);
    atomic_max(f + 1, v);
    atomic_min(f + 2, v);
    atomic_add(i, i32(v));
    atomic_max(i + 1, i32(v));
    atomic_min(i + 2, i32(v));
    atomic_add(l, i64(v) * (1LL << 33));
""",
        "atomics",
    ),
    inputs=lambda: {"x": torch.arange(256.0).roll(100) - 77},
    outputs=lambda: {
        "f": torch.tensor([5.0, -1e9, 1e9]),
        "i": torch.tensor([3, -1000, 1000], dtype=torch.int32),
        "l": torch.tensor([9]),
    },
    expected=lambda t: {
        "f": torch.stack([5 + t["x"].sum(), t["x"].max(), t["x"].min()]),
        "i": torch.stack([3 + t["x"].sum(), t["x"].max(), t["x"].min()]).int(),
        "l": 9 + t["x"].long().sum().view(1) * 2**33,
    },
    grid=4,
    initial=True,
)


HOPPER_CASES = [*TILE_CASES, *WGMMA_CASES]
CASES = [
    VECTOR_CASE,
    SCALAR_CASE,
    SHUFFLE_CASE,
    ATOMIC_CASE,
    *NUMERICS,
    *ASYNC_CASES,
    *MATRIX_CASES,
    *BARRIER_CASES,
    *HOPPER_CASES,
]
