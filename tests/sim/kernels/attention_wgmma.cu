// Flash attention by TMA and wgmma: a producer warp fills a ring of two stages of keys and values for two consumer
// warpgroups of 64 queries each. q, k, v: maps of bf16 [heads, S, D] in boxes of 1 x 64 x 64, swizzled over 128 bytes;
// o: bf16 [heads, S, D], contiguous; lse: f32 [heads, S], natural logarithm.
#include "kgen.cuh"

#ifndef LENGTH
#define LENGTH 200
#define WIDTH 64
#define IS_CAUSAL 1
#endif

constexpr int S = LENGTH, D = WIDTH, BM = 128, BN = 64, PANELS = D / 64, STAGES = 2, ROW_BLOCKS = (S + BM - 1) / BM;
constexpr bool CAUSAL = IS_CAUSAL;
constexpr u32 PANEL = 64 * 128, Q_BYTES = 2 * PANELS * PANEL, KV_BYTES = PANELS * PANEL, STAGE = 2 * KV_BYTES;
constexpr u32 SWIZZLE_128 = 1, UNUSED = 16, EIGHT_ROWS = 1024;
constexpr float SCALE = D == 64 ? 0.125f * 1.44269504f : 0.08838834765f * 1.44269504f;
constexpr float LN2 = 0.69314718f, LOWEST = -1e30f;

// Shared memory: mbarriers (queries, then full and empty of each stage), queries, stages of keys and values.
struct Places {
    u32 base;
    KG_DEVICE u32 q_full() const { return base; }
    KG_DEVICE u32 full(int s) const { return base + 8 + 8 * s; }
    KG_DEVICE u32 empty(int s) const { return base + 8 + 8 * (STAGES + s); }
    KG_DEVICE u32 queries(int half, int panel) const { return base + 1024 + (half * PANELS + panel) * PANEL; }
    KG_DEVICE u32 keys(int s, int panel) const { return base + 1024 + Q_BYTES + s * STAGE + panel * PANEL; }
    KG_DEVICE u32 values(int s, int panel) const { return keys(s, panel) + KV_BYTES; }
};

KG_DEVICE void produce(Places at, const tensor_map& q, const tensor_map& k, const tensor_map& v, int m0, int head,
                       int tiles) {
    mbar_arrive_tx(at.q_full(), Q_BYTES);
    for (int half = 0; half < 2; ++half) {
        for (int p = 0; p < PANELS; ++p) tma_load_3d(at.queries(half, p), q, at.q_full(), 64 * p, m0 + 64 * half, head);
    }
    for (int tile = 0; tile < tiles; ++tile) {
        const int s = tile % STAGES;
        mbar_wait(at.empty(s), tile / STAGES % 2 ^ 1);
        mbar_arrive_tx(at.full(s), STAGE);
        for (int p = 0; p < PANELS; ++p) {
            tma_load_3d(at.keys(s, p), k, at.full(s), 64 * p, tile * BN, head);
            tma_load_3d(at.values(s, p), v, at.full(s), 64 * p, tile * BN, head);
        }
    }
}

// Turns scores into unnormalised weights; keeps the running maximum and sum of the lane's two rows.
KG_DEVICE void soften(float (&s)[BN / 2], float (&acc)[D / 2], float (&high)[2], float (&sum)[2], int row, int column) {
    KG_UNROLL
    for (int half = 0; half < 2; ++half) {
        float top = high[half], added = 0;
        KG_UNROLL
        for (int e = 0; e < BN / 4; ++e) {
            const int at = e / 2 * 4 + 2 * half + e % 2, key = column + e / 2 * 8 + e % 2;
            const bool valid = key < S && (!CAUSAL || key <= row + 8 * half);
            s[at] = valid ? s[at] * SCALE : LOWEST;
            top = max_num(top, s[at]);
        }
        top = max_num(top, shfl_xor(top, 1));
        top = max_num(top, shfl_xor(top, 2));
        const float shrink = ex2(high[half] - top);
        KG_UNROLL
        for (int e = 0; e < BN / 4; ++e) {
            const int at = e / 2 * 4 + 2 * half + e % 2;
            s[at] = ex2(s[at] - top);
            added += s[at];
        }
        sum[half] = sum[half] * shrink + added;
        high[half] = top;
        KG_UNROLL
        for (int e = 0; e < D / 4; ++e) acc[e / 2 * 4 + 2 * half + e % 2] *= shrink;
    }
}

KG_DEVICE void consume(Places at, float (&acc)[D / 2], float (&high)[2], float (&sum)[2], int group, int row,
                       int tiles) {
    float s[BN / 2];
    const int column = threadIdx.x % 4 * 2;
    mbar_wait(at.q_full(), 0);
    for (int tile = 0; tile < tiles; ++tile) {
        const int stage = tile % STAGES;
        mbar_wait(at.full(stage), tile / STAGES % 2);
        wgmma_fence();
        KG_UNROLL
        for (int kk = 0; kk < D / 16; ++kk) {
            const u64 a = smem_desc(at.queries(group, kk / 4) + 32 * (kk % 4), UNUSED, EIGHT_ROWS, SWIZZLE_128);
            const u64 b = smem_desc(at.keys(stage, kk / 4) + 32 * (kk % 4), UNUSED, EIGHT_ROWS, SWIZZLE_128);
            wgmma_ss<bf16, BN, 0, 0>(s, a, b, kk > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(s);
        soften(s, acc, high, sum, row, tile * BN + column);
        u32 p[BN / 16][4];
        KG_UNROLL
        for (int i = 0; i < BN / 4; ++i) p[i / 4][i % 4] = pack2<bf16>(s[2 * i], s[2 * i + 1]);
        wgmma_hold(acc);
        wgmma_fence();
        KG_UNROLL
        for (int kk = 0; kk < BN / 16; ++kk) {
            const u64 b = smem_desc(at.values(stage, 0) + 2048 * kk, PANEL, EIGHT_ROWS, SWIZZLE_128);
            wgmma_rs<bf16, D, 1>(acc, p[kk], b);
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_hold(acc);
        mbar_arrive(at.empty(stage));
    }
}

KG_DEVICE void write(bf16* o, float* lse, float (&acc)[D / 2], float (&high)[2], float (&sum)[2], i64 head, int row) {
    KG_UNROLL
    for (int half = 0; half < 2; ++half) {
        const bool inside = row + 8 * half < S;
        const i64 at = head * S + row + 8 * half;
        sum[half] += shfl_xor(sum[half], 1);
        sum[half] += shfl_xor(sum[half], 2);
        stg_if(lse + at, (high[half] + lg2(sum[half])) * LN2, inside && threadIdx.x % 4 == 0);
        KG_UNROLL
        for (int j = 0; j < D / 8; ++j) {
            const float* pair = acc + 4 * j + 2 * half;
            u32* target = reinterpret_cast<u32*>(o + at * D + j * 8 + threadIdx.x % 4 * 2);
            stg_if(target, pack2<bf16>(pair[0] / sum[half], pair[1] / sum[half]), inside);
        }
    }
}

extern "C" KG_GLOBAL_BOUNDS(384, 1) void attention_wgmma(KG_TENSOR_MAP(q), KG_TENSOR_MAP(k), KG_TENSOR_MAP(v),
                                                         bf16* o, float* lse) {
    KG_SMEM(smem);
    const Places at = {smem};
    const int head = blockIdx.x / ROW_BLOCKS, m0 = blockIdx.x % ROW_BLOCKS * BM, group = int(threadIdx.x / 128) - 1;
    const int tiles = ceil_div(CAUSAL ? min(S, m0 + BM) : S, BN);
    if (threadIdx.x == 0) {
        mbar_init(at.q_full(), 1);
        for (int s = 0; s < STAGES; ++s) {
            mbar_init(at.full(s), 1);
            mbar_init(at.empty(s), 256);
        }
        fence_mbar_init();
    }
    sync_threads();
    if (group < 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x < 32 && elect_one()) produce(at, q, k, v, m0, head, tiles);
    } else {
        setmaxnreg_inc<232>();
        float acc[D / 2], high[2] = {LOWEST, LOWEST}, sum[2] = {};
        KG_UNROLL
        for (int e = 0; e < D / 2; ++e) acc[e] = 0;
        const int row = m0 + group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
        consume(at, acc, high, sum, group, row, tiles);
        write(o, lse, acc, high, sum, head, row);
    }
}
