// The arithmetic of tensor cores: D (16 x columns) += A (16 x depth) * B (depth x columns), all row-major floats.
#pragma once

#include "tensor.hpp"

namespace kg {

template <Operand KIND>
KG_DEVICE f32 low_value(u32 bits) {
    if constexpr (KIND == Operand::bf16) return std::bit_cast<f32>(bits << 16);
    else if constexpr (KIND == Operand::f16) return to_f32(f16{static_cast<u16>(bits)});
    else return std::bit_cast<f32>(bits & 0xffffe000);  // tf32: the hardware ignores the low bits
}

template <Operand KIND>
KG_DEVICE f32 high_value(u32 bits) {
    if constexpr (KIND == Operand::bf16) return std::bit_cast<f32>(bits & 0xffff0000);
    else return to_f32(f16{static_cast<u16>(bits >> 16)});
}

// One lane's four registers of A. 16-bit elements: (g + 8 * (i % 2), 2t + 8 * (i / 2)) and the next column;
// tf32: (g + 8 * (i % 2), t + 4 * (i / 2)).
template <Operand KIND>
KG_DEVICE void spread_a(const u32* r, u32 lane, f32* a) {
    u32 group = lane / 4, turn = lane % 4;
    for (u32 i = 0; i < 4; ++i) {
        u32 row = group + 8 * (i % 2);
        if constexpr (KIND == Operand::tf32) {
            a[row * 8 + turn + 4 * (i / 2)] = low_value<KIND>(r[i]);
        } else {
            f32* at = a + row * 16 + 2 * turn + 8 * (i / 2);
            at[0] = low_value<KIND>(r[i]);
            at[1] = high_value<KIND>(r[i]);
        }
    }
}

using Floats = f32 __attribute__((vector_size(32), aligned(4), may_alias));

// Products are exact; sums are rounded one after another, in order of k. `columns` is a multiple of 8.
template <u32 DEPTH>
inline void accumulate(const f32* a, const f32* b, f32* d, u32 columns) {
    for (u32 row = 0; row < 16; ++row) {
        for (u32 column = 0; column < columns; column += 8) {
            auto* target = reinterpret_cast<Floats*>(d + row * columns + column);
            Floats sum = *target;
            for (u32 k = 0; k < DEPTH; ++k) {
                sum += a[row * DEPTH + k] * *reinterpret_cast<const Floats*>(b + k * columns + column);
            }
            *target = sum;
        }
    }
}

// In accumulate.cpp: bit for bit what an H200 computes from moderate normal numbers. Depth 16.
void accumulate_as_hopper(const f32* a, const f32* b, f32* d, u32 columns);

}  // namespace kg
