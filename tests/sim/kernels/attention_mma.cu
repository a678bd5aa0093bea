// Flash attention by mma.sync: 4 warps of 16 queries each, keys and values in two stages of cp.async.
// q, k, v, o: bf16 [HEADS, S, D], contiguous; lse: f32 [HEADS, S], natural logarithm.
#include "kgen.cuh"

#ifndef LENGTH
#define LENGTH 200
#define WIDTH 64
#define IS_CAUSAL 1
#endif

constexpr int S = LENGTH, D = WIDTH;
constexpr bool CAUSAL = IS_CAUSAL;
constexpr int BM = 64, BN = 64, THREADS = 128, CHUNKS = D / 8, ROW_BYTES = 2 * D;
constexpr float SCALE = D == 64 ? 0.125f * 1.44269504f : 0.08838834765f * 1.44269504f;
constexpr float LN2 = 0.69314718f, LOWEST = -1e30f;

// Chunks of 16 bytes are permuted within every eight rows, so that ldmatrix meets each bank once.
KG_DEVICE u32 chunk_at(u32 tile, int row, int chunk) { return tile + row * ROW_BYTES + (chunk ^ (row & 7)) * 16; }

// Starts the copy of rows [first, first + 64) to shared memory; rows from S on become zeros.
KG_DEVICE void stage_rows(u32 tile, const bf16* source, int first) {
    KG_UNROLL
    for (int i = threadIdx.x; i < BM * CHUNKS; i += THREADS) {
        int row = i / CHUNKS, chunk = i % CHUNKS;
        cp_async16(chunk_at(tile, row, chunk), source + i64(first + row) * D + chunk * 8, first + row < S);
    }
}

KG_DEVICE void scores_of(float (&s)[BN / 8][4], const u32 (&q)[D / 16][4], u32 keys, int lane) {
    KG_UNROLL
    for (int j = 0; j < BN / 16; ++j) {
        KG_UNROLL
        for (int i = 0; i < 4; ++i) s[2 * j][i] = s[2 * j + 1][i] = 0;
        KG_UNROLL
        for (int kk = 0; kk < D / 16; ++kk) {
            u32 b[4];
            ldmatrix_x4(b, chunk_at(keys, j * 16 + lane / 16 * 8 + lane % 8, 2 * kk + lane / 8 % 2));
            mma_m16n8k16<bf16>(s[2 * j], q[kk], b);
            mma_m16n8k16<bf16>(s[2 * j + 1], q[kk], b + 2);
        }
    }
}

// Turns scores into unnormalised weights; keeps the running maximum and sum of the lane's two rows.
KG_DEVICE void soften(float (&s)[BN / 8][4], float (&acc)[D / 8][4], float (&high)[2], float (&sum)[2], int row,
                      int column) {
    KG_UNROLL
    for (int half = 0; half < 2; ++half) {
        float top = high[half], added = 0;
        KG_UNROLL
        for (int j = 0; j < BN / 8; ++j) {
            KG_UNROLL
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
                int key = column + j * 8 + i % 2;
                bool valid = key < S && (!CAUSAL || key <= row + 8 * half);
                s[j][i] = valid ? s[j][i] * SCALE : LOWEST;
                top = max_num(top, s[j][i]);
            }
        }
        top = max_num(top, shfl_xor(top, 1));
        top = max_num(top, shfl_xor(top, 2));
        float shrink = ex2(high[half] - top);
        KG_UNROLL
        for (int j = 0; j < BN / 8; ++j) {
            KG_UNROLL
            for (int i = 2 * half; i < 2 * half + 2; ++i) {
                s[j][i] = ex2(s[j][i] - top);
                added += s[j][i];
            }
        }
        sum[half] = sum[half] * shrink + added;
        high[half] = top;
        KG_UNROLL
        for (int j = 0; j < D / 8; ++j) {
            acc[j][2 * half] *= shrink;
            acc[j][2 * half + 1] *= shrink;
        }
    }
}

KG_DEVICE void add_values(float (&acc)[D / 8][4], const float (&p)[BN / 8][4], u32 values, int lane) {
    KG_UNROLL
    for (int kk = 0; kk < BN / 16; ++kk) {
        u32 a[4];
        KG_UNROLL
        for (int i = 0; i < 4; ++i) {
            const float* pair = p[2 * kk + i / 2] + 2 * (i % 2);
            a[i] = pack2<bf16>(pair[0], pair[1]);
        }
        KG_UNROLL
        for (int j = 0; j < D / 16; ++j) {
            u32 b[4];
            ldmatrix_x4_trans(b, chunk_at(values, kk * 16 + lane % 16, 2 * j + lane / 16));
            mma_m16n8k16<bf16>(acc[2 * j], a, b);
            mma_m16n8k16<bf16>(acc[2 * j + 1], a, b + 2);
        }
    }
}

extern "C" KG_GLOBAL_BOUNDS(THREADS) void attention_mma(const bf16* q, const bf16* k, const bf16* v, bf16* o,
                                                        float* lse) {
    KG_SMEM(smem);
    constexpr int TILE = BN * ROW_BYTES;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row_blocks = ceil_div(S, BM);
    const i64 head = blockIdx.x / row_blocks * i64(S);
    const int m0 = blockIdx.x % row_blocks * BM, row = m0 + warp * 16 + lane / 4;
    const int tiles = ceil_div(CAUSAL ? min(S, m0 + BM) : S, BN);
    const u32 keys = smem + TILE, values = keys + 2 * TILE;
    float acc[D / 8][4] = {}, s[BN / 8][4], high[2] = {LOWEST, LOWEST}, sum[2] = {};
    u32 fragments[D / 16][4];
    stage_rows(smem, q + head * D, m0);
    stage_rows(keys, k + head * D, 0);
    stage_rows(values, v + head * D, 0);
    cp_async_commit();
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % 2 * TILE, other = TILE - stage;
        if (tile + 1 < tiles) {
            stage_rows(keys + other, k + head * D, (tile + 1) * BN);
            stage_rows(values + other, v + head * D, (tile + 1) * BN);
        }
        cp_async_commit();
        cp_async_wait<1>();
        sync_threads();
        if (tile == 0) {
            KG_UNROLL
            for (int kk = 0; kk < D / 16; ++kk) {
                ldmatrix_x4(fragments[kk], chunk_at(smem, warp * 16 + lane % 16, 2 * kk + lane / 16));
            }
        }
        scores_of(s, fragments, keys + stage, lane);
        soften(s, acc, high, sum, row, tile * BN + lane % 4 * 2);
        add_values(acc, s, values + stage, lane);
        sync_threads();
    }
    KG_UNROLL
    for (int half = 0; half < 2; ++half) {
        const bool inside = row + 8 * half < S;
        sum[half] += shfl_xor(sum[half], 1);
        sum[half] += shfl_xor(sum[half], 2);
        stg_if(lse + head + row + 8 * half, (high[half] + lg2(sum[half])) * LN2, inside && lane % 4 == 0);
        KG_UNROLL
        for (int j = 0; j < D / 8; ++j) {
            u32* target = reinterpret_cast<u32*>(o + (head + row + 8 * half) * D + j * 8 + lane % 4 * 2);
            stg_if(target, pack2<bf16>(acc[j][2 * half] / sum[half], acc[j][2 * half + 1] / sum[half]), inside);
        }
    }
}
