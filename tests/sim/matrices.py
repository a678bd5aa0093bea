"""ldmatrix, stmatrix and mma.sync of kgen.cuh: operands are small integers, so results are exact in any rounding."""

from __future__ import annotations

import torch

from .case import Case, Tensors, kernel

LANE = torch.arange(32)
GROUP, TURN = LANE // 4, LANE % 4


def _draw(seed: int, *shape: int, low: int = -8, high: int = 9) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


LOADS = [("x4", 4), ("x2", 2), ("x1", 1), ("x4_trans", 4), ("x2_trans", 2), ("x1_trans", 1)]


def _load_body() -> str:
    lines = [
        """    KG_SMEM(smem);
    int lane = tid;
    for (int j = 0; j < 8; ++j) sts<i32>(smem + 4 * (lane + 32 * j), ldg(x + lane + 32 * j));
    sync_warp();
    u32 r[4];
    u32 address = smem + ldg(rows + lane) * 16;
"""
    ]
    for i, (suffix, count) in enumerate(LOADS):
        lines.append(f"    ldmatrix_{suffix}(r, address);\n")
        lines += [f"    stg(y + {128 * i + 32 * m} + lane, i32(r[{m}]));\n" for m in range(count)]
        lines += [f"    stg(y + {128 * i + 32 * m} + lane, 0);\n" for m in range(count, 4)]
    return "".join(lines)


def _load_expected(t: Tensors) -> Tensors:
    elements = t["x"].view(torch.int16).view(64, 8)
    matrices = elements[t["rows"].long()].view(4, 8, 8)
    found = torch.zeros(len(LOADS), 4, 32, 2, dtype=torch.int16)
    for i, (suffix, count) in enumerate(LOADS):
        turned = matrices.transpose(1, 2) if "trans" in suffix else matrices
        found[i, :count] = torch.stack([turned[:, GROUP, 2 * TURN], turned[:, GROUP, 2 * TURN + 1]], -1)[:count]
    return {"y": found.view(torch.int32).reshape(len(LOADS), 4, 32)}


LOAD_CASE = Case(
    entry="loads",
    text=kernel("const i32* x, const i32* rows, i32* y", _load_body(), "loads"),
    inputs=lambda: {"x": torch.arange(512).short().view(torch.int32), "rows": _draw(4, 32, low=0, high=64).int()},
    outputs=lambda: {"y": torch.zeros(len(LOADS), 4, 32, dtype=torch.int32)},
    expected=_load_expected,
    block=32,
    smem=1024,
)

STORE_CASE = Case(
    entry="stores",
    text=kernel(
        "const i32* x, const i32* rows, i32* y, i32* z",
        """    KG_SMEM(smem);
    u32 r[4], address = smem + ldg(rows + tid) * 16;
    for (int m = 0; m < 4; ++m) r[m] = u32(ldg(x + 32 * m + tid));
    stmatrix_x4(address, r);
    sync_warp();
    for (int j = 0; j < 4; ++j) stg(y + 32 * j + tid, lds<i32>(smem + 4 * (32 * j + tid)));
    sync_warp();
    stmatrix_x4_trans(address, r);
    sync_warp();
    for (int j = 0; j < 4; ++j) stg(z + 32 * j + tid, lds<i32>(smem + 4 * (32 * j + tid)));
""",
        "stores",
    ),
    inputs=lambda: {
        "x": torch.arange(256).short().view(torch.int32),
        "rows": torch.randperm(32, generator=torch.Generator().manual_seed(3)).int(),
    },
    outputs=lambda: {name: torch.zeros(32, 4, dtype=torch.int32) for name in ("y", "z")},
    expected=lambda t: {"y": _stored(t, False), "z": _stored(t, True)},
    block=32,
    smem=512,
    architecture=90,
)


def _stored(t: Tensors, trans: bool) -> torch.Tensor:
    pairs = t["x"].view(torch.int16).view(4, 32, 2)
    matrices = torch.zeros(4, 8, 8, dtype=torch.int16)
    matrices[:, GROUP, 2 * TURN] = pairs[:, :, 0]
    matrices[:, GROUP, 2 * TURN + 1] = pairs[:, :, 1]
    rows = (matrices.transpose(1, 2) if trans else matrices).reshape(32, 8)
    memory = torch.zeros(32, 8, dtype=torch.int16)
    memory[t["rows"].long()] = rows
    return memory.view(torch.int32)


_PRODUCT = """    u32 x[4], y[2];
    float d[4];
    int g = tid / 4, t = tid % 4;
    for (int i = 0; i < 4; ++i) {
        int row = g + 8 * (i % 2), column = 2 * t + 8 * (i / 2);
        x[i] = pack2<TYPE>(ldg(a + row * 16 + column), ldg(a + row * 16 + column + 1));
        d[i] = ldg(c + (g + 8 * (i / 2)) * 8 + 2 * t + i % 2);
    }
    for (int i = 0; i < 2; ++i) {
        int k = 2 * t + 8 * i;
        y[i] = pack2<TYPE>(ldg(b + k * 8 + g), ldg(b + (k + 1) * 8 + g));
    }
    mma_m16n8k16<TYPE>(d, x, y);
    for (int i = 0; i < 4; ++i) stg(z + (g + 8 * (i / 2)) * 8 + 2 * t + i % 2, d[i]);
"""


def _product_inputs() -> Tensors:
    return {"a": _draw(5, 16, 16).float(), "b": _draw(6, 16, 8).float(), "c": _draw(7, 16, 8).float()}


def product_case(name: str) -> Case:
    """Return a 16 x 8 x 16 product of `name` (bf16 or f16) operands by one mma."""
    return Case(
        entry=f"product_{name}",
        text=kernel(
            "const float* a, const float* b, const float* c, float* z",
            _PRODUCT.replace("TYPE", name),
            f"product_{name}",
        ),
        inputs=_product_inputs,
        outputs=lambda: {"z": torch.zeros(16, 8)},
        expected=lambda t: {"z": t["c"] + t["a"] @ t["b"]},
        block=32,
    )


TF32_CASE = Case(
    entry="product_tf32",
    text=kernel(
        "const float* a, const float* b, const float* c, float* z, i32* rounded",
        """    u32 x[4], y[2];
    float d[4];
    int g = tid / 4, t = tid % 4;
    for (int i = 0; i < 4; ++i) {
        float v = ldg(a + (g + 8 * (i % 2)) * 8 + t + 4 * (i / 2));
        memcpy(x + i, &v, 4);
        d[i] = ldg(c + (g + 8 * (i / 2)) * 8 + 2 * t + i % 2);
    }
    for (int i = 0; i < 2; ++i) y[i] = to_tf32(ldg(b + (t + 4 * i) * 8 + g));
    mma_m16n8k8(d, x, y);
    for (int i = 0; i < 4; ++i) stg(z + (g + 8 * (i / 2)) * 8 + 2 * t + i % 2, d[i]);
    stg(rounded + tid, i32(to_tf32(1.0f + float(tid) / 8192.0f)));
""",
        "product_tf32",
    ),
    inputs=lambda: {
        "a": _draw(5, 16, 8).float() * (1 + 2.0**-20),  # the hardware drops what does not fit
        "b": _draw(6, 8, 8).float() * (1 + 2.0**-20),  # and so does rounding
        "c": _draw(7, 16, 8).float(),
    },
    outputs=lambda: {"z": torch.zeros(16, 8), "rounded": torch.zeros(32, dtype=torch.int32)},
    expected=lambda t: {
        "z": t["c"] + t["a"].round() @ t["b"].round(),
        "rounded": (1 + torch.floor(LANE / 8 + 0.5) / 1024).float().view(torch.int32),
    },
    block=32,
)

MATRIX_CASES = [LOAD_CASE, STORE_CASE, product_case("bf16"), product_case("f16"), TF32_CASE]
