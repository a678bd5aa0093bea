// Tensor cores by warp: ldmatrix, stmatrix, mma.sync. Every lane passes pointers to its registers; the last lane to
// arrive executes for all.
#pragma once

#include "collective.hpp"

namespace kg {

struct MatrixRow {
    u32* registers;
    u32 address;
};

struct Fragments {
    f32* d;
    const u32* a;
    const u32* b;
};

enum class Operand : u8 { bf16, f16, tf32 };
template <class T> constexpr Operand operand = same<T, ::bf16> ? Operand::bf16 : Operand::f16;

// In tensor.cpp.
template <int COUNT, bool TRANS> void load_matrices(Worker& w, const u64* lanes, u32 line);
template <int COUNT, bool TRANS> void store_matrices(Worker& w, const u64* lanes, u32 line);
template <Operand KIND> void multiply(Worker& w, const u64* lanes, u32 line);

template <int COUNT, bool TRANS>
KG_DEVICE void load_matrix(u32* r, u32 address, u32 line) {
    MatrixRow row = {r, address};
    meet(Op::ldmatrix, reinterpret_cast<u64>(&row), line, load_matrices<COUNT, TRANS>);
}

template <int COUNT, bool TRANS>
KG_DEVICE void store_matrix(u32 address, const u32* r, u32 line) {
    MatrixRow row = {const_cast<u32*>(r), address};
    meet(Op::stmatrix, reinterpret_cast<u64>(&row), line, store_matrices<COUNT, TRANS>);
}

template <Operand KIND>
KG_DEVICE void mma(Op op, f32* d, const u32* a, const u32* b, u32 line) {
    Fragments mine = {d, a, b};
    meet(op, reinterpret_cast<u64>(&mine), line, multiply<KIND>);
}

}  // namespace kg

KG_DEVICE void ldmatrix_x1(u32* r, u32 a, u32 line = __builtin_LINE()) { kg::load_matrix<1, false>(r, a, line); }
KG_DEVICE void ldmatrix_x2(u32* r, u32 a, u32 line = __builtin_LINE()) { kg::load_matrix<2, false>(r, a, line); }
KG_DEVICE void ldmatrix_x4(u32* r, u32 a, u32 line = __builtin_LINE()) { kg::load_matrix<4, false>(r, a, line); }
KG_DEVICE void ldmatrix_x1_trans(u32* r, u32 a, u32 line = __builtin_LINE()) { kg::load_matrix<1, true>(r, a, line); }
KG_DEVICE void ldmatrix_x2_trans(u32* r, u32 a, u32 line = __builtin_LINE()) { kg::load_matrix<2, true>(r, a, line); }
KG_DEVICE void ldmatrix_x4_trans(u32* r, u32 a, u32 line = __builtin_LINE()) { kg::load_matrix<4, true>(r, a, line); }
KG_DEVICE void stmatrix_x4(u32 a, const u32* r, u32 line = __builtin_LINE()) { kg::store_matrix<4, false>(a, r, line); }
KG_DEVICE void stmatrix_x4_trans(u32 a, const u32* r, u32 line = __builtin_LINE()) { kg::store_matrix<4, true>(a, r, line); }

template <class T>
KG_DEVICE void mma_m16n8k16(f32* d, const u32* a, const u32* b, u32 line = __builtin_LINE()) {
    static_assert(kg::is_half<T>);
    kg::mma<kg::operand<T>>(kg::Op::mma_m16n8k16, d, a, b, line);
}

KG_DEVICE void mma_m16n8k8(f32* d, const u32* a, const u32* b, u32 line = __builtin_LINE()) {
    kg::mma<kg::Operand::tf32>(kg::Op::mma_m16n8k8, d, a, b, line);
}

KG_DEVICE u32 to_tf32(f32 x) {
    u32 bits = std::bit_cast<u32>(x);
    return (bits & 0x7f800000) == 0x7f800000 ? bits : (bits + 0x1000) & 0xffffe000;
}

template <class T>
KG_DEVICE u32 pack2(f32 low, f32 high) {
    static_assert(kg::is_half<T>);
    return static_cast<u32>(from_f32<T>(low).bits) | static_cast<u32>(from_f32<T>(high).bits) << 16;
}
