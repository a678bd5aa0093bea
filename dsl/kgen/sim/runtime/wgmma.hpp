// wgmma: asynchronous products of 64 rows by the four warps of a warpgroup. Each warp needs only its own 16 rows of A,
// so every warp executes alone.
#pragma once

#include "tensor.hpp"

namespace kg {

struct ProductArguments {
    f32* d;
    const u32* a;  // null: A is in shared memory
    u64 a_descriptor, b_descriptor;
    u32 columns;
    Operand operand;
    bool a_transposed, b_transposed, accumulate;
};

// In wgmma.cpp.
void start_product(Worker& w, const u64* lanes, u32 line);
void fence_products(Worker& w, const u64* lanes, u32 line);
void commit_products(Worker& w, const u64* lanes, u32 line);
void wait_for_products(Worker& w, const u64* lanes, u32 line);

template <class T, int N>
KG_DEVICE void product(ProductArguments arguments, u32 line) {
    static_assert(is_half<T> && N % 8 == 0 && N >= 8 && N <= 256);
    meet(Op::wgmma, reinterpret_cast<u64>(&arguments), line, start_product);
}

}  // namespace kg

KG_DEVICE void wgmma_fence(u32 line = __builtin_LINE()) { kg::meet(kg::Op::wgmma_fence, 0, line, kg::fence_products); }
KG_DEVICE void wgmma_commit(u32 line = __builtin_LINE()) { kg::meet(kg::Op::wgmma_commit, 0, line, kg::commit_products); }
template <int N> KG_DEVICE void wgmma_wait(u32 line = __builtin_LINE()) { kg::meet(kg::Op::wgmma_wait, N, line, kg::wait_for_products); }

template <int N> KG_DEVICE void wgmma_hold(f32 (&)[N]) {}

template <class T, int N, int TA, int TB>
KG_DEVICE void wgmma_ss(f32* d, u64 a, u64 b, bool accumulate = true, u32 line = __builtin_LINE()) {
    kg::product<T, N>({d, nullptr, a, b, N, kg::operand<T>, TA != 0, TB != 0, accumulate}, line);
}

template <class T, int N, int TB>
KG_DEVICE void wgmma_rs(f32* d, const u32* a, u64 b, bool accumulate = true, u32 line = __builtin_LINE()) {
    kg::product<T, N>({d, a, 0, b, N, kg::operand<T>, false, TB != 0, accumulate}, line);
}
