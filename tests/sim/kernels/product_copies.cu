// Matrix product by mma.sync: 4 warps of 32 x 32 each, operands in two stages of cp.async.
// a: f16 [M, K], b: f16 [K, N], c: f32 [M, N], contiguous; K and N are multiples of 8.
#include "kgen.cuh"

#ifndef SIZE_M
#define SIZE_M 100
#define SIZE_N 72
#define SIZE_K 136
#endif

constexpr int M = SIZE_M, N = SIZE_N, K = SIZE_K;
constexpr int BM = 64, BN = 64, BK = 32, THREADS = 128;
constexpr u32 A_TILE = BM * BK * 2, B_TILE = BK * BN * 2, STAGE = A_TILE + B_TILE;

// Rows of 64 bytes: two share the banks of a line, so pairs of rows are permuted. Rows of 128 bytes: every row is.
KG_DEVICE u32 a_at(u32 tile, int row, int chunk) { return tile + row * 64 + (chunk ^ (row / 2 % 4)) * 16; }
KG_DEVICE u32 b_at(u32 tile, int row, int chunk) { return tile + A_TILE + row * 128 + (chunk ^ (row % 8)) * 16; }

KG_DEVICE void stage_operands(u32 tile, const f16* a, const f16* b, int m0, int n0, int k0) {
    KG_UNROLL
    for (int i = threadIdx.x; i < BM * BK / 8; i += THREADS) {
        int row = i / 4, chunk = i % 4, m = m0 + row, k = k0 + chunk * 8;
        cp_async16(a_at(tile, row, chunk), a + i64(m) * K + k, m < M && k < K);
    }
    KG_UNROLL
    for (int i = threadIdx.x; i < BK * BN / 8; i += THREADS) {
        int row = i / 8, chunk = i % 8, k = k0 + row, n = n0 + chunk * 8;
        cp_async16(b_at(tile, row, chunk), b + i64(k) * N + n, k < K && n < N);
    }
}

KG_DEVICE void multiply_stage(float (&acc)[2][4][4], u32 tile, int m, int n, int lane) {
    KG_UNROLL
    for (int kk = 0; kk < BK / 16; ++kk) {
        u32 a[2][4], b[4][2];
        KG_UNROLL
        for (int i = 0; i < 2; ++i) ldmatrix_x4(a[i], a_at(tile, m + 16 * i + lane % 16, 2 * kk + lane / 16));
        KG_UNROLL
        for (int j = 0; j < 2; ++j) {
            ldmatrix_x4_trans(b[2 * j], b_at(tile, kk * 16 + lane % 16, n / 8 + 2 * j + lane / 16));
        }
        KG_UNROLL
        for (int i = 0; i < 2; ++i) {
            KG_UNROLL
            for (int j = 0; j < 4; ++j) mma_m16n8k16<f16>(acc[i][j], a[i], b[j]);
        }
    }
}

extern "C" KG_GLOBAL_BOUNDS(THREADS) void product_copies(const f16* a, const f16* b, float* c) {
    KG_SMEM(smem);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, columns = ceil_div(N, BN);
    const int m0 = blockIdx.x / columns * BM, n0 = blockIdx.x % columns * BN;
    const int m = warp / 2 * 32, n = warp % 2 * 32;
    float acc[2][4][4] = {};
    stage_operands(smem, a, b, m0, n0, 0);
    cp_async_commit();
    for (int k0 = 0; k0 < K; k0 += BK) {
        const u32 stage = k0 / BK % 2 * STAGE;
        stage_operands(smem + STAGE - stage, a, b, m0, n0, k0 + BK);
        cp_async_commit();
        cp_async_wait<1>();
        sync_threads();
        multiply_stage(acc, smem + stage, m, n, lane);
        sync_threads();
    }
    KG_UNROLL
    for (int i = 0; i < 2; ++i) {
        KG_UNROLL
        for (int j = 0; j < 4; ++j) {
            KG_UNROLL
            for (int half = 0; half < 2; ++half) {
                const int row = m0 + m + 16 * i + lane / 4 + 8 * half, column = n0 + n + 8 * j + lane % 4 * 2;
                vec<float, 2> pair = {{acc[i][j][2 * half], acc[i][j][2 * half + 1]}};
                stg_vec_if<2>(c + i64(row) * N + column, pair, row < M && column < N);
            }
        }
    }
}
