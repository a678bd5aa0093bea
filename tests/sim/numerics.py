"""Conversions, integer division and mathematical functions of kgen.cuh."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from .case import Case, Tensors, kernel


def awkward_floats() -> torch.Tensor:
    """Return 4096 float32 values: every magnitude, ties of 16-bit rounding, subnormals, infinities and NaN."""
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (4096,), generator=generator, dtype=torch.int64).to(torch.int32)
    values = bits.view(torch.float32).clone()
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 65504.0, 65519.9, 65520.0, -65520.0, 2**-14, 2**-24, 2**-25]
    special += [1.5 * 2**-24, 2**-126, 2**-149, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 3.4e38, -3.4e38]
    values[: len(special)] = torch.tensor(special)
    values[64:1024] = torch.randn(960, generator=generator)
    values[1024:1536] *= 0
    values[1024:1536] += torch.randn(512, generator=generator) * 2.0**-15
    return values


def _canonical(x: torch.Tensor) -> torch.Tensor:
    """Return 16-bit floats as their bits, with the hardware's one NaN."""
    return torch.where(x.isnan(), torch.tensor(0x7FFF, dtype=torch.int16), x.view(torch.int16))


CONVERT_CASE = Case(
    entry="conversions",
    text=kernel(
        "const float* x, const bf16* h, const f16* g, i16* b, i16* f, float* hf, float* gf, i16* hg, bool* z",
        """    float v = ldg(x + tid);
    bf16 b16 = from_f32<bf16>(v);
    f16 f16v = convert<f16>(double(v));
    i16 bits[2];
    memcpy(bits, &b16, 2);
    memcpy(bits + 1, &f16v, 2);
    stg(b + tid, bits[0]);
    stg(f + tid, bits[1]);
    stg(hf + tid, to_f32(ldg(h + tid)));
    stg(gf + tid, convert<float>(ldg(g + tid)));
    bf16 hg16 = convert<bf16>(ldg(g + tid));
    memcpy(bits, &hg16, 2);
    stg(hg + tid, bits[0]);
    stg(z + tid, convert<bool>(v));
""",
        "conversions",
    ),
    inputs=lambda: {
        "x": awkward_floats(),
        "h": torch.arange(4096, dtype=torch.int16).mul(16).view(torch.bfloat16),
        "g": torch.arange(4096, dtype=torch.int16).mul(16).view(torch.float16),
    },
    outputs=lambda: {
        **{name: torch.zeros(4096, dtype=torch.int16) for name in ("b", "f")},
        **{name: torch.zeros(4096) for name in ("hf", "gf")},
        "hg": torch.zeros(4096, dtype=torch.int16),
        "z": torch.zeros(4096, dtype=torch.bool),
    },
    expected=lambda t: {
        "b": _canonical(t["x"].bfloat16()),
        "f": _canonical(t["x"].half()),
        "hf": t["h"].float(),
        "gf": t["g"].float(),
        "hg": _canonical(t["g"].float().bfloat16()),
        "z": t["x"] != 0,
    },
    grid=64,
)


EDGES = [math.nan, 3e9, -3e9, 5e9, -1.0, 300.7, -300.7, 2.0**61]  # of conversions to integers


def _int_expected(tensors: Tensors) -> Tensors:
    x = tensors["x"].double()
    whole = torch.where(x.isnan(), torch.zeros(()), x).trunc()
    n = tensors["n"]
    divisor = torch.where(torch.arange(64) % 2 == 0, 7, -7)
    wide = n * 2**33
    return {
        "i": whole.clamp(-(2.0**31), 2.0**31 - 1).long().int(),
        "u": whole.clamp(0, 2.0**32 - 1).long().to(torch.int32),
        "c": whole.clamp(-(2.0**31), 2.0**31 - 1).long().to(torch.int8),
        "l": whole.clamp(-(2.0**62), 2.0**62).long(),
        "q": torch.div(n, divisor, rounding_mode="floor").int(),
        "r": torch.remainder(n, divisor).int(),
        "w": torch.div(wide, divisor, rounding_mode="floor") + torch.remainder(wide, divisor),
    }


INTEGER_CASE = Case(
    entry="integers",
    text=kernel(
        "const float* x, const i64* n, i32* i, i32* u, i8* c, i64* l, i32* q, i32* r, i64* w",
        """    float v = ldg(x + tid);
    stg(i + tid, convert<i32>(v));
    stg(u + tid, i32(convert<u32>(double(v))));
    stg(c + tid, convert<i8>(v));
    stg(l + tid, convert<i64>(v));
    i64 a = ldg(n + tid), b = tid % 2 == 0 ? 7 : -7;
    stg(q + tid, floor_div(i32(a), i32(b)));
    stg(r + tid, floor_mod(i32(a), i32(b)));
    a *= 1LL << 33;
    stg(w + tid, floor_div(a, b) + floor_mod(a, b));
""",
        "integers",
    ),
    inputs=lambda: {
        "x": torch.cat([torch.tensor(EDGES), torch.linspace(-1234.5, 2345.6, 56)]),
        "n": torch.arange(64) - 32,
    },
    outputs=lambda: {
        "i": torch.zeros(64, dtype=torch.int32),
        "u": torch.zeros(64, dtype=torch.int32),
        "c": torch.zeros(64, dtype=torch.int8),
        "l": torch.zeros(64, dtype=torch.int64),
        "q": torch.zeros(64, dtype=torch.int32),
        "r": torch.zeros(64, dtype=torch.int32),
        "w": torch.zeros(64, dtype=torch.int64),
    },
    expected=_int_expected,
)

PAIRS = [(1.0, 2.0), (2.0, 1.0), (math.nan, 1.0), (1.0, math.nan), (-math.inf, 3.0), (math.inf, math.nan)]


def _extremes(tensors: Tensors) -> Tensors:
    a, b = tensors["a"], tensors["b"]
    rows = [torch.maximum(a, b), torch.minimum(a, b), torch.fmax(a, b), torch.fmin(a, b)]
    return {"y": torch.stack(rows), "z": torch.stack(rows).double()}


EXTREME_CASE = Case(
    entry="extremes",
    text=kernel(
        "const float* a, const float* b, float* y, double* z",
        """    float p = ldg(a + tid), q = ldg(b + tid);
    double dp = p, dq = q;
    stg(y + tid, max_nan(p, q));
    stg(y + 64 + tid, min_nan(p, q));
    stg(y + 128 + tid, max_num(p, q));
    stg(y + 192 + tid, min_num(p, q));
    stg(z + tid, max_nan(dp, dq));
    stg(z + 64 + tid, min_nan(dp, dq));
    stg(z + 128 + tid, max_num(dp, dq));
    stg(z + 192 + tid, min_num(dp, dq));
""",
        "extremes",
    ),
    inputs=lambda: {
        "a": torch.tensor([PAIRS[i % len(PAIRS)][0] for i in range(64)]),
        "b": torch.tensor([PAIRS[i % len(PAIRS)][1] for i in range(64)]),
    },
    outputs=lambda: {"y": torch.zeros(4, 64), "z": torch.zeros(4, 64, dtype=torch.float64)},
    expected=_extremes,
)

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ex2": torch.exp2,
    "lg2": torch.log2,
    "expf": torch.exp,
    "logf": torch.log,
    "sqrtf": torch.sqrt,
    "rsqrtf": torch.rsqrt,
    "erff": torch.erf,
    "tanhf": torch.tanh,
    "sinf": torch.sin,
    "cosf": torch.cos,
    "fabsf": torch.abs,
    "floorf": torch.floor,
    "ceilf": torch.ceil,
    "exp2f": torch.exp2,
    "log1pf": torch.log1p,
}

MATH_CASE = Case(
    entry="functions",
    text=kernel(
        "const float* x, float* y",
        "    float v = ldg(x + tid);\n"
        + "".join(f"    stg(y + {64 * i} + tid, {name}(v));\n" for i, name in enumerate(FUNCTIONS))
        + f"    stg(y + {64 * len(FUNCTIONS)} + tid, powf(v, 1.5f) + fmaf(v, v, -1.0f) + float(exp(double(v))));\n",
        "functions",
    ),
    inputs=lambda: {"x": torch.linspace(0.05, 6, 64)},
    outputs=lambda: {"y": torch.zeros(len(FUNCTIONS) + 1, 64)},
    expected=lambda t: {
        "y": torch.stack(
            [f(t["x"].double()).float() for f in FUNCTIONS.values()]
            + [(t["x"].double() ** 1.5 + t["x"].double() ** 2 - 1 + t["x"].double().exp()).float()]
        )
    },
    tolerance=2e-6,
)

FLUSH_CASE = Case(
    entry="flush",
    text=kernel(
        "const float* x, float* y, float* z",
        "    stg(y + tid, ex2(ldg(x + tid)));\n    stg(z + tid, lg2(ldg(x + tid)));\n",
        "flush",
    ),
    inputs=lambda: {"x": torch.tensor([-math.inf, -150.0, -126.5, -140.0, 0.0, 1e-40, -1e-40, math.inf] * 8)},
    outputs=lambda: {"y": torch.zeros(64), "z": torch.zeros(64)},
    expected=lambda t: {
        "y": torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, math.inf] * 8),
        "z": torch.tensor([math.nan, math.nan, math.nan, math.nan, -math.inf, -math.inf, -math.inf, math.inf] * 8),
    },
)

NUMERICS = [CONVERT_CASE, INTEGER_CASE, EXTREME_CASE, MATH_CASE, FLUSH_CASE]
