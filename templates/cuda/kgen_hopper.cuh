// kgen_hopper.cuh: mbarriers, TMA and wgmma for kgen.cuh, sm_90 and sm_90a. Include kgen.cuh, not this file.
#pragma once

// What the host passes for a tensor: the bytes of a CUtensorMap.
struct alignas(64) tensor_map {
    u64 opaque[16];
};

#define KG_TENSOR_MAP(name) const __grid_constant__ tensor_map name

// --- mbarriers and fences ------------------------------------------------------------------------------------------
KG_DEVICE void mbar_init(u32 a, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(a), "r"(count) : "memory");
}

KG_DEVICE void mbar_arrive(u32 a) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(a) : "memory"); }

KG_DEVICE void mbar_arrive_tx(u32 a, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(a), "r"(bytes) : "memory");
}

KG_DEVICE void mbar_wait(u32 a, u32 parity) {
    u32 done;
    do {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
            : "=r"(done)
            : "r"(a), "r"(parity)
            : "memory");
    } while (!done);
}

KG_DEVICE void fence_mbar_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
KG_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- TMA -----------------------------------------------------------------------------------------------------------
// Instruction texts hold the operands in the order target or source, map, mbarrier, coordinates.
#define KG_TMA_LOAD(dims, coordinates, ...)                                                                          \
    asm volatile("cp.async.bulk.tensor." dims ".shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {"    \
                 coordinates "}], [%2];" ::"r"(dst), "l"(&map), "r"(bar), __VA_ARGS__ : "memory")
#define KG_TMA_STORE(dims, coordinates, ...)                                                                         \
    asm volatile("cp.async.bulk.tensor." dims ".global.shared::cta.bulk_group [%1, {" coordinates "}], [%0];" ::     \
                     "r"(src), "l"(&map), __VA_ARGS__ : "memory")

KG_DEVICE void tma_load_2d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y) {
    KG_TMA_LOAD("2d", "%3, %4", "r"(x), "r"(y));
}

KG_DEVICE void tma_load_3d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, i32 z) {
    KG_TMA_LOAD("3d", "%3, %4, %5", "r"(x), "r"(y), "r"(z));
}

KG_DEVICE void tma_load_4d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, i32 z, i32 u) {
    KG_TMA_LOAD("4d", "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u));
}

KG_DEVICE void tma_load_5d(u32 dst, const tensor_map& map, u32 bar, i32 x, i32 y, i32 z, i32 u, i32 v) {
    KG_TMA_LOAD("5d", "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}

KG_DEVICE void tma_store_2d(const tensor_map& map, u32 src, i32 x, i32 y) {
    KG_TMA_STORE("2d", "%2, %3", "r"(x), "r"(y));
}

KG_DEVICE void tma_store_3d(const tensor_map& map, u32 src, i32 x, i32 y, i32 z) {
    KG_TMA_STORE("3d", "%2, %3, %4", "r"(x), "r"(y), "r"(z));
}

KG_DEVICE void tma_store_4d(const tensor_map& map, u32 src, i32 x, i32 y, i32 z, i32 u) {
    KG_TMA_STORE("4d", "%2, %3, %4, %5", "r"(x), "r"(y), "r"(z), "r"(u));
}

KG_DEVICE void tma_store_5d(const tensor_map& map, u32 src, i32 x, i32 y, i32 z, i32 u, i32 v) {
    KG_TMA_STORE("5d", "%2, %3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}

#undef KG_TMA_LOAD
#undef KG_TMA_STORE

KG_DEVICE void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> KG_DEVICE void tma_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }

template <int N>
KG_DEVICE void tma_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// --- warps ---------------------------------------------------------------------------------------------------------
KG_DEVICE bool elect_one() {
    u32 chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen != 0;
}

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int REGISTERS>
KG_DEVICE void setmaxnreg_inc() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
KG_DEVICE void setmaxnreg_dec() {
    static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256, "a multiple of 8 from 24 to 256");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

KG_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
KG_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> KG_DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }

// Keeps work on the accumulators d on its side of this line: the compiler does not know that wgmma is asynchronous.
template <int N>
KG_DEVICE void wgmma_hold(f32 (&d)[N]) {
    KG_UNROLL for (int j = 0; j < N; ++j) asm volatile("" : "+f"(d[j])::"memory");
}

#include "kgen_wgmma.cuh"

template <class T, int N, int TA, int TB>
KG_DEVICE void wgmma_ss(f32* d, u64 a, u64 b, bool accumulate = true) {
    kg::wgmma<N>::template ss<T, TA, TB>(d, a, b, accumulate);
}

template <class T, int N, int TB>
KG_DEVICE void wgmma_rs(f32* d, const u32* a, u64 b, bool accumulate = true) {
    kg::wgmma<N>::template rs<T, TB>(d, a, b, accumulate);
}
#endif
