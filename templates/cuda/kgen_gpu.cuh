// kgen_gpu.cuh: the GPU half of kgen.cuh, for nvcc and NVRTC, sm_80 and newer. Include kgen.cuh, not this file.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KG_GLOBAL __global__
#define KG_GLOBAL_BOUNDS(...) __global__ __launch_bounds__(__VA_ARGS__)
#define KG_DEVICE __device__ __forceinline__
#define KG_UNROLL _Pragma("unroll")
#define KG_TILE(loop_id, tile_start, masked) ((void)0)

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
using bf16 = __nv_bfloat16;
using f16 = __half;

// N elements moved by one access. Aligned to its size, so a pointer to one must be too.
template <class T, int N>
struct alignas(sizeof(T) * N) vec {
    T data[N];
    KG_DEVICE T& operator[](int i) { return data[i]; }
    KG_DEVICE const T& operator[](int i) const { return data[i]; }
};

namespace kg {

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T> constexpr bool is_half = same<T, bf16> || same<T, f16>;
template <class T> constexpr bool is_float = same<T, f32> || same<T, f64>;

// T, but not deduced from the argument: stg(float*, 0) stores a float.
template <class T> struct identity { using type = T; };
template <class T> using just = typename identity<T>::type;

// The machine type that moves BYTES bytes in one instruction.
template <int BYTES> struct raw;
template <> struct raw<1> { using type = unsigned char; };
template <> struct raw<2> { using type = unsigned short; };
template <> struct raw<4> { using type = unsigned int; };
template <> struct raw<8> { using type = uint2; };
template <> struct raw<16> { using type = uint4; };

template <class T>
KG_DEVICE T load(const void* p) {
    using R = typename raw<sizeof(T)>::type;
    R bits = *static_cast<const R*>(p);
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
}

template <class T>
KG_DEVICE void store(void* p, const T& value) {
    using R = typename raw<sizeof(T)>::type;
    R bits;
    memcpy(&bits, &value, sizeof(T));
    *static_cast<R*>(p) = bits;
}

template <class T>
KG_DEVICE T zero() {
    T value;
    memset(&value, 0, sizeof(T));
    return value;
}

KG_DEVICE u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
KG_DEVICE void* shared_pointer(u32 address) { return __cvta_shared_to_generic(address); }

constexpr u32 full_warp = 0xffffffffu;

// cvt.rzi saturates at the width of its target; narrower types keep the low bits of the 32-bit result.
template <class To, class From>
KG_DEVICE To float_to_int(From x) {
    if (x != x) return To(0);
    if constexpr (same<To, i64> || same<To, u64> || same<To, u32>) return static_cast<To>(x);
    return static_cast<To>(static_cast<i32>(x));
}

}  // namespace kg

#define KG_SMEM(name)                                                     \
    extern __shared__ __align__(1024) unsigned char kg_dynamic_shared[];  \
    const u32 name = kg::shared_address(kg_dynamic_shared)

// --- global memory -------------------------------------------------------------------------------------------------
template <class T> KG_DEVICE T ldg(const T* p) { return *p; }
template <class T> KG_DEVICE T ldg_if(const T* p, bool pred) { return pred ? *p : kg::zero<T>(); }
template <int N, class T> KG_DEVICE vec<T, N> ldg_vec(const T* p) { return kg::load<vec<T, N>>(p); }

template <int N, class T>
KG_DEVICE vec<T, N> ldg_vec_if(const T* p, bool pred) {
    return pred ? kg::load<vec<T, N>>(p) : kg::zero<vec<T, N>>();
}

template <class T> KG_DEVICE void stg(T* p, kg::just<T> v) { *p = v; }

template <class T>
KG_DEVICE void stg_if(T* p, kg::just<T> v, bool pred) {
    if (pred) *p = v;
}

template <int N, class T> KG_DEVICE void stg_vec(T* p, const vec<T, N>& v) { kg::store(p, v); }

template <int N, class T>
KG_DEVICE void stg_vec_if(T* p, const vec<T, N>& v, bool pred) {
    if (pred) kg::store(p, v);
}

KG_DEVICE f32 atomic_add(f32* p, f32 v) { return atomicAdd(p, v); }
KG_DEVICE i32 atomic_add(i32* p, i32 v) { return atomicAdd(p, v); }
KG_DEVICE i64 atomic_add(i64* p, i64 v) {
    return static_cast<i64>(atomicAdd(reinterpret_cast<u64*>(p), static_cast<u64>(v)));
}
KG_DEVICE void atomic_max(i32* p, i32 v) { atomicMax(p, v); }
KG_DEVICE void atomic_min(i32* p, i32 v) { atomicMin(p, v); }

// Order of floats as integers: non-negative floats as signed, negative ones reversed as unsigned. No NaN.
KG_DEVICE void atomic_max(f32* p, f32 v) {
    if (__float_as_int(v) >= 0) {
        atomicMax(reinterpret_cast<i32*>(p), __float_as_int(v));
    } else {
        atomicMin(reinterpret_cast<u32*>(p), __float_as_uint(v));
    }
}

KG_DEVICE void atomic_min(f32* p, f32 v) {
    if (__float_as_int(v) >= 0) {
        atomicMin(reinterpret_cast<i32*>(p), __float_as_int(v));
    } else {
        atomicMax(reinterpret_cast<u32*>(p), __float_as_uint(v));
    }
}

// --- shared memory -------------------------------------------------------------------------------------------------
template <class T> KG_DEVICE T lds(u32 a) { return kg::load<T>(kg::shared_pointer(a)); }
template <class T> KG_DEVICE void sts(u32 a, kg::just<T> v) { kg::store(kg::shared_pointer(a), v); }
template <class T, int N> KG_DEVICE vec<T, N> lds_vec(u32 a) { return kg::load<vec<T, N>>(kg::shared_pointer(a)); }
template <class T, int N> KG_DEVICE void sts_vec(u32 a, const vec<T, N>& v) { kg::store(kg::shared_pointer(a), v); }

// --- asynchronous copies -------------------------------------------------------------------------------------------
KG_DEVICE void cp_async4(u32 a, const void* p, bool pred = true) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(a), "l"(p), "r"(pred ? 4 : 0) : "memory");
}

KG_DEVICE void cp_async8(u32 a, const void* p, bool pred = true) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(a), "l"(p), "r"(pred ? 8 : 0) : "memory");
}

KG_DEVICE void cp_async16(u32 a, const void* p, bool pred = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(a), "l"(p), "r"(pred ? 16 : 0) : "memory");
}

KG_DEVICE void cp_async16_head(u32 a, const void* p, i32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(a), "l"(p), "r"(min(max(bytes, 0), 16))
                 : "memory");
}

KG_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> KG_DEVICE void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// --- threads -------------------------------------------------------------------------------------------------------
KG_DEVICE void sync_threads() { __syncthreads(); }
KG_DEVICE void sync_warp() { __syncwarp(); }
template <class T> KG_DEVICE T shfl_xor(T v, int mask) { return __shfl_xor_sync(kg::full_warp, v, mask); }
template <class T> KG_DEVICE T shfl_down(T v, int n) { return __shfl_down_sync(kg::full_warp, v, n); }
template <class T> KG_DEVICE T shfl_idx(T v, int lane) { return __shfl_sync(kg::full_warp, v, lane); }
template <> KG_DEVICE bool shfl_xor(bool v, int mask) { return __shfl_xor_sync(kg::full_warp, int(v), mask) != 0; }
template <> KG_DEVICE bool shfl_down(bool v, int n) { return __shfl_down_sync(kg::full_warp, int(v), n) != 0; }
template <> KG_DEVICE bool shfl_idx(bool v, int lane) { return __shfl_sync(kg::full_warp, int(v), lane) != 0; }
namespace kg {
KG_DEVICE u32 ballot_warp(bool pred) { return __ballot_sync(full_warp, pred); }
}  // namespace kg
#define ballot(pred) kg::ballot_warp(pred)  // a macro: CUDA's headers still define the pre-Volta function ballot(bool)
KG_DEVICE bool any_sync(bool pred) { return __any_sync(kg::full_warp, pred) != 0; }
KG_DEVICE bool all_sync(bool pred) { return __all_sync(kg::full_warp, pred) != 0; }
KG_DEVICE void bar_sync(u32 id, u32 count) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory"); }
KG_DEVICE void bar_arrive(u32 id, u32 count) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory"); }

// --- tensor cores --------------------------------------------------------------------------------------------------
#define KG_LDMATRIX(name, kind)                                                                                       \
    KG_DEVICE void ldmatrix_x1##name(u32* r, u32 a) {                                                                 \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" kind ".shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(a) : "memory"); \
    }                                                                                                                 \
    KG_DEVICE void ldmatrix_x2##name(u32* r, u32 a) {                                                                 \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" kind ".shared.b16 {%0, %1}, [%2];"                               \
                     : "=r"(r[0]), "=r"(r[1]) : "r"(a) : "memory");                                                   \
    }                                                                                                                 \
    KG_DEVICE void ldmatrix_x4##name(u32* r, u32 a) {                                                                 \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0, %1, %2, %3}, [%4];"                       \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a) : "memory");                           \
    }
KG_LDMATRIX(, "")
KG_LDMATRIX(_trans, ".trans")
#undef KG_LDMATRIX

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
KG_DEVICE void stmatrix_x4(u32 a, const u32* r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

KG_DEVICE void stmatrix_x4_trans(u32 a, const u32* r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(a), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
#endif

template <class T>
KG_DEVICE void mma_m16n8k16(f32* d, const u32* a, const u32* b) {
    static_assert(kg::is_half<T>, "bf16 or f16");
    if constexpr (kg::same<T, bf16>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
}

KG_DEVICE void mma_m16n8k8(f32* d, const u32* a, const u32* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// --- conversions and math ------------------------------------------------------------------------------------------
KG_DEVICE f32 to_f32(bf16 x) { return __bfloat162float(x); }
KG_DEVICE f32 to_f32(f16 x) { return __half2float(x); }
template <class T> KG_DEVICE f32 to_f32(T x) { return static_cast<f32>(x); }

template <class T> KG_DEVICE T from_f32(f32 x) { return static_cast<T>(x); }
template <> KG_DEVICE bf16 from_f32<bf16>(f32 x) { return __float2bfloat16_rn(x); }
template <> KG_DEVICE f16 from_f32<f16>(f32 x) { return __float2half_rn(x); }

template <class T>
KG_DEVICE u32 pack2(f32 low, f32 high) {
    T both[2] = {from_f32<T>(low), from_f32<T>(high)};
    u32 bits;
    memcpy(&bits, both, 4);
    return bits;
}

KG_DEVICE u32 to_tf32(f32 x) {
    u32 y;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
    return y;
}

KG_DEVICE f32 ex2(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

KG_DEVICE f32 lg2(f32 x) {
    f32 y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

KG_DEVICE f32 max_nan(f32 a, f32 b) {
    f32 y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

KG_DEVICE f32 min_nan(f32 a, f32 b) {
    f32 y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}

KG_DEVICE f64 max_nan(f64 a, f64 b) { return a != a ? a : b != b ? b : fmax(a, b); }
KG_DEVICE f64 min_nan(f64 a, f64 b) { return a != a ? a : b != b ? b : fmin(a, b); }
KG_DEVICE i32 max_nan(i32 a, i32 b) { return a > b ? a : b; }
KG_DEVICE i32 min_nan(i32 a, i32 b) { return a < b ? a : b; }
KG_DEVICE i64 max_nan(i64 a, i64 b) { return a > b ? a : b; }
KG_DEVICE i64 min_nan(i64 a, i64 b) { return a < b ? a : b; }
KG_DEVICE f32 max_num(f32 a, f32 b) { return fmaxf(a, b); }
KG_DEVICE f32 min_num(f32 a, f32 b) { return fminf(a, b); }
KG_DEVICE f64 max_num(f64 a, f64 b) { return fmax(a, b); }
KG_DEVICE f64 min_num(f64 a, f64 b) { return fmin(a, b); }
KG_DEVICE i32 max_num(i32 a, i32 b) { return a > b ? a : b; }
KG_DEVICE i32 min_num(i32 a, i32 b) { return a < b ? a : b; }
KG_DEVICE i64 max_num(i64 a, i64 b) { return a > b ? a : b; }
KG_DEVICE i64 min_num(i64 a, i64 b) { return a < b ? a : b; }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include "kgen_hopper.cuh"
#endif
