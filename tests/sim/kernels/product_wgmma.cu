// Matrix product by TMA and wgmma: a producer warp fills a ring of two stages, a consumer warpgroup multiplies 64 x 64.
// a: bf16 [M, K], b: bf16 [N, K], c: bf16 [M, N]; maps in boxes of 64 x 64, swizzled over 128 bytes.
#include "kgen.cuh"

#ifndef SIZE_K
#define SIZE_N 72
#define SIZE_K 320
#endif

constexpr int BM = 64, BN = 64, BK = 64, STAGES = 2, STEPS = (SIZE_K + BK - 1) / BK, COLUMNS = (SIZE_N + BN - 1) / BN;
constexpr u32 TILE = 64 * 64 * 2, STAGE = 2 * TILE, FIRST_STAGE = 1024, C_TILE = FIRST_STAGE + STAGES * STAGE;
constexpr u32 SWIZZLE_128 = 1, UNUSED = 16, EIGHT_ROWS = 1024;

KG_DEVICE void produce(u32 smem, const tensor_map& a, const tensor_map& b, int m0, int n0) {
    for (int step = 0; step < STEPS; ++step) {
        const u32 s = step % STAGES, tile = smem + FIRST_STAGE + s * STAGE;
        const u32 full = smem + 8 * s, empty = smem + 16 + 8 * s;
        mbar_wait(empty, step / STAGES % 2 ^ 1);
        mbar_arrive_tx(full, STAGE);
        tma_load_2d(tile, a, full, step * BK, m0);
        tma_load_2d(tile + TILE, b, full, step * BK, n0);
    }
}

KG_DEVICE void consume(u32 smem, float (&d)[BN / 2]) {
    for (int step = 0; step < STEPS; ++step) {
        const u32 s = step % STAGES, tile = smem + FIRST_STAGE + s * STAGE;
        const u32 full = smem + 8 * s, empty = smem + 16 + 8 * s;
        mbar_wait(full, step / STAGES % 2);
        wgmma_fence();
        KG_UNROLL
        for (int kk = 0; kk < BK / 16; ++kk) {
            const u64 a = smem_desc(tile + 32 * kk, UNUSED, EIGHT_ROWS, SWIZZLE_128);
            const u64 b = smem_desc(tile + TILE + 32 * kk, UNUSED, EIGHT_ROWS, SWIZZLE_128);
            wgmma_ss<bf16, BN, 0, 0>(d, a, b, step > 0 || kk > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(d);
        mbar_arrive(empty);
    }
}

extern "C" KG_GLOBAL_BOUNDS(256, 1) void product_wgmma(KG_TENSOR_MAP(a), KG_TENSOR_MAP(b), KG_TENSOR_MAP(c)) {
    KG_SMEM(smem);
    const int m0 = blockIdx.x / COLUMNS * BM, n0 = blockIdx.x % COLUMNS * BN;
    const int thread = threadIdx.x % 128, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbar_init(smem + 8 * s, 1);
            mbar_init(smem + 16 + 8 * s, 128);
        }
        fence_mbar_init();
    }
    sync_threads();
    if (threadIdx.x < 128) {
        setmaxnreg_dec<40>();
        if (threadIdx.x < 32 && elect_one()) produce(smem, a, b, m0, n0);
    } else {
        setmaxnreg_inc<232>();
        float d[BN / 2];
        consume(smem, d);
        KG_UNROLL
        for (int i = 0; i < BN / 4; ++i) {
            const int row = thread / 32 * 16 + lane / 4 + 8 * (i % 2), chunk = i / 2 ^ (row & 7);
            sts<u32>(smem + C_TILE + row * 128 + chunk * 16 + lane % 4 * 4, pack2<bf16>(d[2 * i], d[2 * i + 1]));
        }
        fence_proxy_async();
        bar_sync(1, 128);
        if (thread == 0) {
            tma_store_2d(c, smem + C_TILE, n0, m0);
            tma_commit();
            tma_wait_read<0>();
        }
    }
}
