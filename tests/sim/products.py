"""wgmma of kgen.cuh: 64 x N x 16 products through descriptors of every layout; small integers, so results are exact."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .case import Case, kernel

SPANS = {1: 128, 2: 64, 3: 32}
OPERAND_BYTES = 16384  # room of an operand in shared memory; A comes first, then B


@dataclass(frozen=True)
class Layout:
    """Where an operand of 16 steps of k lies: descriptor fields in bytes; `transposed` if contiguous along rows."""

    layout: int
    leading: int
    stride: int
    transposed: bool

    def place(self, mn: int, k: int) -> int:
        """Return the byte offset of an element."""
        if self.layout == 0:
            inner = mn % 8 * 2 + k % 8 * 16 if self.transposed else mn % 8 * 16 + k % 8 * 2
            across, along = mn // 8 * self.stride, k // 8 * self.leading
            return inner + across + along
        span = SPANS[self.layout]
        wide = span // 2
        if self.transposed:
            byte = 2 * (mn % wide) + mn // wide * self.leading + k % 8 * span + k // 8 * self.stride
        else:
            byte = mn % 8 * span + mn // 8 * self.stride + 2 * k
        return byte ^ (byte >> 3 & (span - 16))

    def arrange(self, values: torch.Tensor) -> torch.Tensor:
        """Return the bytes (as int32) of an operand [mn, 16] of a 16-bit type."""
        memory = torch.zeros(OPERAND_BYTES // 2, dtype=values.dtype)
        for mn in range(values.shape[0]):
            for k in range(16):
                memory[self.place(mn, k) // 2] = values[mn, k]
        return memory.view(torch.int32)

    def descriptor(self, address: str) -> str:
        """Return the kernel text of the descriptor."""
        return f"smem_desc({address}, {self.leading}, {self.stride}, {self.layout})"


_REGISTERS = """    u32 r[4];
    for (int i = 0; i < 4; ++i) r[i] = u32(ldg(a + ((row + i % 2 * 8) * 16 + column + i / 2 * 8) / 2));
"""


def product_case(name: str, dtype: torch.dtype, n: int, a: Layout | None, b: Layout) -> Case:
    """Return the case of z = 2 * (A @ B.T) in two instructions; A [64, 16] from registers if `a` is None."""
    kind = {torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
    if a is None:
        call = f"wgmma_rs<{kind}, {n}, {int(b.transposed)}>(d, r, {b.descriptor(f'smem + {OPERAND_BYTES}')}"
    else:
        flags = f"{int(a.transposed)}, {int(b.transposed)}"
        call = f"wgmma_ss<{kind}, {n}, {flags}>(d, {a.descriptor('smem')}, {b.descriptor(f'smem + {OPERAND_BYTES}')}"
    body = f"""    KG_SMEM(smem);
    const int row = tid / 32 * 16 + tid % 32 / 4, column = tid % 4 * 2;
    for (int i = tid; i < {OPERAND_BYTES // 2}; i += 128) sts<i32>(smem + 4 * i, ldg(image + i));
{_REGISTERS if a is None else ""}    fence_proxy_async();
    sync_threads();
    float d[{n // 2}];
    for (int i = 0; i < {n // 2}; ++i) d[i] = 99;
    wgmma_hold(d);
    wgmma_fence();
    {call}, false);
    {call});
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_hold(d);
    for (int i = 0; i < {n // 2}; ++i) stg(z + (row + i / 2 % 2 * 8) * {n} + i / 4 * 8 + column + i % 2, d[i]);
"""
    return Case(
        entry=name,
        text=kernel("const i32* a, const i32* b, const i32* image, float* z", body, name),
        inputs=lambda: _inputs(dtype, n, a, b),
        outputs=lambda: {"z": torch.zeros(64, n)},
        expected=lambda t: {"z": 2 * (t["a"].view(dtype).float() @ t["b"].view(dtype).float().T)},
        block=128,
        smem=2 * OPERAND_BYTES,
        architecture=90,
    )


def _inputs(dtype: torch.dtype, n: int, a: Layout | None, b: Layout) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    left, right = (torch.randint(-8, 9, (rows, 16), generator=generator).to(dtype) for rows in (64, n))
    first = torch.zeros(OPERAND_BYTES // 4, dtype=torch.int32) if a is None else a.arrange(left)
    return {"a": left.view(torch.int32), "b": right.view(torch.int32), "image": torch.cat([first, b.arrange(right)])}


K128, K64, K32 = (Layout(layout, 16, 8 * span, False) for layout, span in SPANS.items())
M128, M64, M32 = (Layout(layout, 2 * 8 * span, 8 * span, True) for layout, span in SPANS.items())
K_PLAIN, M_PLAIN = Layout(0, 2048, 128, False), Layout(0, 128, 256, True)

WGMMA_CASES = [
    product_case("wgmma_k128", torch.bfloat16, 64, K128, K128),
    product_case("wgmma_k64_mn128", torch.float16, 128, K64, M128),
    product_case("wgmma_mn64_k32", torch.bfloat16, 8, M64, K32),
    product_case("wgmma_mn32_plain", torch.float16, 64, M32, K_PLAIN),
    product_case("wgmma_plain_mn", torch.bfloat16, 256, K_PLAIN, M_PLAIN),
    product_case("wgmma_mn_plain", torch.bfloat16, 24, M_PLAIN, M64),
    product_case("wgmma_registers", torch.bfloat16, 128, None, M128),
    product_case("wgmma_registers_f16", torch.float16, 16, None, K64),
]
