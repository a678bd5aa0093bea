// kgen.cuh: the vocabulary of every CUDA kernel that kgen emits.
//
// The same kernel text is compiled twice: by nvcc or NVRTC for a GPU (kgen_gpu.cuh), and by g++ for the simulator
// (kgen_sim.hpp, chosen by -DKGEN_SIM). This file holds what is the same on both sides. Each half provides:
//
//   types        bf16 f16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64, vec<T, N> (N * sizeof(T) = 2, 4, 8 or 16 bytes)
//   entry        KG_GLOBAL, KG_GLOBAL_BOUNDS(threads), KG_GLOBAL_BOUNDS(threads, 1) (which setmaxnreg needs),
//                KG_DEVICE (helpers), KG_UNROLL, KG_SMEM(name)
//   global       ldg(p)  ldg_if(p, pred)  ldg_vec<N>(p)  ldg_vec_if<N>(p, pred)
//                stg(p, v)  stg_if(p, v, pred)  stg_vec<N>(p, v)  stg_vec_if<N>(p, v, pred)
//                atomic_add (f32, i32, i64)  atomic_max  atomic_min (f32, i32)
//   shared       lds<T>(a)  sts<T>(a, v)  lds_vec<T, N>(a)  sts_vec(a, v)      a: 32-bit shared address in bytes
//   copies       cp_async4(a, p, pred)  cp_async8  cp_async16: 4, 8, 16 bytes from p to shared address a, or zeros
//                cp_async16_head(a, p, bytes): 16 bytes, of which the first `bytes` (0 if negative) exist, then zeros
//                cp_async_commit()  cp_async_wait<N>(): till at most N of this thread's groups are in flight
//   threads      sync_threads()  sync_warp()  shfl_xor(v, mask)  shfl_down(v, n)  shfl_idx(v, lane)
//                ballot(pred)  any_sync(pred)  all_sync(pred)                  all 32 lanes must call
//   matrices     ldmatrix_x1(r, a)  _x2  _x4, and with _trans: 8x8 matrices of 16-bit elements into u32 r[1], [2], [4];
//                lane l gives the address of row l % 8 of matrix l / 8. stmatrix_x4(a, r), _trans (sm_90)
//                mma_m16n8k16<bf16 or f16>(d, a, b): f32 d[4] += A * B, u32 a[4], b[2]    mma_m16n8k8(d, a, b): tf32
//                pack2<T>(low, high): two floats as a register of T    to_tf32(x)         all 32 lanes must call
//   barriers     bar_sync(id, count)  bar_arrive(id, count): named barriers 1 to 15, of `count` threads
//
// and for Hopper (sm_90; wgmma and setmaxnreg: sm_90a), in kgen_hopper.cuh:
//
//   mbarriers    mbar_init(a, count)  mbar_arrive(a)  mbar_arrive_tx(a, bytes)
//                mbar_wait(a, parity): till the phase of that parity has ended
//   fences       fence_mbar_init()  fence_proxy_async(): before TMA or wgmma reads what threads stored
//   tiles        KG_TENSOR_MAP(name): a parameter
//                tma_load_2d(a, map, mbarrier, x, y) .. _5d: by one thread, x innermost
//                tma_store_2d(map, a, x, y) .. _5d  tma_commit()  tma_wait<N>()  tma_wait_read<N>(): `a` may be reused
//   products     wgmma_fence()  wgmma_commit()  wgmma_wait<N>()
//                wgmma_ss<T, N, TA, TB>(d, desc_a, desc_b, accumulate)  wgmma_rs<T, N, TB>(d, a, desc_b, accumulate):
//                f32 d[N / 2] (+)= A * B, 64 x N x 16; TA, TB: 1 if the operand is not contiguous along k
//                wgmma_hold(d): before the first wgmma on d and after its wait, so that no work on d is moved across
//   warps        elect_one(): true in one lane    setmaxnreg_inc<R>()  setmaxnreg_dec<R>()
//
//   conversions  to_f32(x)  from_f32<T>(x)  convert<To>(x)
//   math         ex2  lg2 (approximate), max_nan  min_nan  max_num  min_num, and CUDA's own names (expf, rsqrtf, ...)
//   simulator    KG_TILE(loop_id, tile_start, masked): counts an executed tile; nothing on a GPU
#pragma once

#ifdef KGEN_SIM
#include "kgen_sim.hpp"
#else
#include "kgen_gpu.cuh"
#endif

// Floor division and modulus with the sign rules of Python; b != 0.
KG_DEVICE i32 floor_div(i32 a, i32 b) {
    i32 q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

KG_DEVICE i64 floor_div(i64 a, i64 b) {
    i64 q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

KG_DEVICE i64 floor_div(i64 a, i32 b) { return floor_div(a, static_cast<i64>(b)); }
KG_DEVICE i64 floor_div(i32 a, i64 b) { return floor_div(static_cast<i64>(a), b); }

KG_DEVICE i32 floor_mod(i32 a, i32 b) {
    i32 r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

KG_DEVICE i64 floor_mod(i64 a, i64 b) {
    i64 r = a % b;
    return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

KG_DEVICE i64 floor_mod(i64 a, i32 b) { return floor_mod(a, static_cast<i64>(b)); }
KG_DEVICE i64 floor_mod(i32 a, i64 b) { return floor_mod(static_cast<i64>(a), b); }

KG_DEVICE constexpr i32 ceil_div(i32 a, i32 b) { return (a + b - 1) / b; }  // a >= 0, b > 0
KG_DEVICE constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

// Conversion between any two element types. To 16-bit floats always through float, as PyTorch does; float to integer
// truncates and saturates at 32 or 64 bits (NaN gives 0), then keeps the low bits for narrower types.
template <class To, class From>
KG_DEVICE To convert(From x) {
    if constexpr (kg::same<To, From>) {
        return x;
    } else if constexpr (kg::is_half<From>) {
        return convert<To>(to_f32(x));
    } else if constexpr (kg::is_half<To>) {
        return from_f32<To>(convert<f32>(x));
    } else if constexpr (kg::same<To, bool>) {
        return x != From(0);
    } else if constexpr (kg::is_float<From> && !kg::is_float<To>) {
        return kg::float_to_int<To>(x);
    } else {
        return static_cast<To>(x);
    }
}

// Descriptor of a wgmma operand: byte address and strides, multiples of 16; layout 0: no swizzle, 1: 128 bytes, 2: 64,
// 3: 32. K-major and swizzled: `stride` is from 8 rows to the next, `leading` unused. Transposed and swizzled:
// `leading` from one span of the contiguous dimension to the next, `stride` from 8 steps of k to the next.
KG_DEVICE u64 smem_desc(u32 address, u32 leading, u32 stride, u32 layout) {
    u64 fields = static_cast<u64>(leading >> 4 & 0x3fff) << 16 | static_cast<u64>(stride >> 4 & 0x3fff) << 32;
    return (address >> 4 & 0x3fff) | fields | static_cast<u64>(layout) << 62;
}
