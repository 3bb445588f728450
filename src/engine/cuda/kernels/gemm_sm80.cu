/* SPDX-License-Identifier: MIT */
/* gemm_sm80: out = act(a w^T + bias) by mma.sync, for Ampere and everything newer.
 *
 * A block of 128 threads makes one tile of `out`; its four warps stand two by two.  Both operands
 * come through shared memory in steps of 32 columns of k, STAGES steps in flight:
 *
 *     device memory --cp.async--> ring of stages --ldmatrix--> registers --mma--> f32 sums
 *
 * A row of a stage is 64 bytes, four chunks of 16.  Chunk c of row r stands at c ^ (r / 2 % 4):
 * the eight rows that one phase of ldmatrix reads lie in eight different sets of banks.
 *
 * A tile of 128 x 128 has warps of 64 x 64, which read 32 bytes of shared memory for each
 * mma's 2048 products: the tensor cores, not the shared memory, are the limit.  When there are too
 * few such tiles for the chip, tiles of 64 x 64 take their place.  Either adds up k in steps of 16
 * from 0 up, in one accumulator: a row has the same bits in every batch.
 *
 * Sums become numbers of 16 bits in shared memory (which the stages need no more), so that rows
 * are written in whole lines. */
#include "engine/cuda/kernels/gk_dev.cuh"

namespace
{

enum {
    STEP_K = 32,       /* columns of k in a stage */
    ROW_BYTES = 64,    /* of a stage: STEP_K numbers of 16 bits */
    ROW_CHUNKS = 4,    /* of 16 bytes */
    CHUNK = 8,         /* numbers of 16 bits in 16 bytes */
    THREADS = 128,     /* of a block */
    PAD_BYTES = 16,    /* behind a row of results: rows begin in different banks */
    GRID_ROWS = 65535, /* the most tiles of rows in a launch */
    STAGES = 4
};

template <typename T> struct product {
    const T *a, *w;
    T *out;
    const float *bias;
    const int32_t *rows;
    int m, n, k;
    size_t lda, ldout;
};

/* A tile of BM x BN, in warps of half of each. */
template <int BM, int BN> struct shape {
    enum {
        WM = BM / 2,
        WN = BN / 2,
        MI = WM / 16, /* mma's of a warp */
        NI = WN / 8,
        A_BYTES = BM * ROW_BYTES,
        STAGE_BYTES = (BM + BN) * ROW_BYTES,
        OUT_ROW = WN * 2 + PAD_BYTES,
        OUT_BYTES = WM * OUT_ROW, /* of a warp's results */
        SHARED = STAGES * STAGE_BYTES > 4 * OUT_BYTES ? STAGES *STAGE_BYTES : 4 * OUT_BYTES
    };
};

__device__ __forceinline__ uint32_t shared_at(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ uint32_t swizzled(int row, int chunk)
{
    return (uint32_t)(row * ROW_BYTES + ((chunk ^ (row >> 1 & 3)) << 4));
}

__device__ __forceinline__ void copy16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ __forceinline__ void wait_all_but(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t v[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(at)
                 : "memory");
}

/* ROWS rows of one stage; those from `end` on repeat the last one there is. */
template <int ROWS, typename T>
__device__ __forceinline__ void fetch(uint32_t to, const T *from, size_t ld, int end)
{
    int row = threadIdx.x / ROW_CHUNKS, chunk = threadIdx.x % ROW_CHUNKS;

#pragma unroll
    for (int i = 0; i < ROWS / (THREADS / ROW_CHUNKS); i++, row += THREADS / ROW_CHUNKS) {
        int r = row < end ? row : end - 1;

        copy16(to + swizzled(row, chunk), from + (size_t)r * ld + chunk * CHUNK);
    }
}

/* What a lane reads of a stage: its places in both operands, for the first 16 columns of k; the
 * other 16 are two chunks further, which the swizzle makes an exclusive or. */
struct gemm80_places {
    uint32_t a, b;
};

template <int BM, int BN> __device__ __forceinline__ struct gemm80_places places_of(void)
{
    using S = shape<BM, BN>;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    struct gemm80_places p;

    p.a = swizzled(warp / 2 * S::WM + lane % 16, lane / 16);
    p.b = S::A_BYTES + swizzled(warp % 2 * S::WN + lane % 8 + lane / 16 * 8, lane / 8 % 2);
    return p;
}

/* Operands of 16 columns of k in registers. */
template <int MI, int NI> struct fragments {
    uint32_t a[MI][4], b[NI / 2][4];
};

template <int MI, int NI>
__device__ __forceinline__ void load(struct fragments<MI, NI> &f, uint32_t stage,
                                     const struct gemm80_places &p, int k)
{
#pragma unroll
    for (int i = 0; i < MI; i++)
        load_matrices(f.a[i], stage + (p.a ^ (uint32_t)(k * 32)) + i * 16 * ROW_BYTES);
#pragma unroll
    for (int j = 0; j < NI / 2; j++)
        load_matrices(f.b[j], stage + (p.b ^ (uint32_t)(k * 32)) + j * 16 * ROW_BYTES);
}

template <typename T, int MI, int NI>
__device__ __forceinline__ void multiply(float acc[MI][NI][4], const struct fragments<MI, NI> &f)
{
#pragma unroll
    for (int i = 0; i < MI; i++)
#pragma unroll
        for (int j = 0; j < NI; j++)
            gk_mma<T>(acc[i][j], f.a[i], &f.b[j / 2][j % 2 * 2]);
}

template <int ACT> __device__ __forceinline__ float activate(float x)
{
    return ACT == GK_ACT_GELU ? gk_gelu_lean(x) : gk_act<ACT>(x);
}

/* A warp's sums into its own piece of shared memory, finished. */
template <typename T, int ACT, int MI, int NI>
__device__ __forceinline__ void finish(const float acc[MI][NI][4], const float *bias, char *to,
                                       int row_bytes)
{
    int lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4 * 2;

#pragma unroll
    for (int j = 0; j < NI; j++) {
        float2 add = bias ? *(const float2 *)(bias + j * 8 + pair) : make_float2(0.0f, 0.0f);

#pragma unroll
        for (int i = 0; i < MI; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float lo = activate<ACT>(acc[i][j][half * 2] + add.x);
                float hi = activate<ACT>(acc[i][j][half * 2 + 1] + add.y);
                int row = i * 16 + half * 8 + group;

                *(uint32_t *)(to + row * row_bytes + (j * 8 + pair) * 2) = gk_pair<T>(lo, hi);
            }
    }
}

/* From there to device memory: 16 bytes a thread, a row's neighbours beside each other. */
template <typename T, int WM, int WN>
__device__ __forceinline__ void store(T *out, size_t ldout, int rows, const char *from,
                                      int row_bytes)
{
    enum { CHUNKS = WN / CHUNK, ROWS = 32 / CHUNKS };
    int lane = threadIdx.x % 32, chunk = lane % CHUNKS;

#pragma unroll
    for (int i = 0; i < WM / ROWS; i++) {
        int row = i * ROWS + lane / CHUNKS;

        if (row < rows)
            *(uint4 *)(out + (size_t)row * ldout + chunk * CHUNK) =
                *(const uint4 *)(from + row * row_bytes + chunk * 16);
    }
}

/* The first STAGES - 1 steps on their way, the weights before anything that waits. */
template <typename T, int BM, int BN>
__device__ __forceinline__ void begin(const product<T> &p, uint32_t ring, const T *a, const T *w,
                                      int end)
{
    using S = shape<BM, BN>;
    int steps = p.k / STEP_K;

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        if (s < steps)
            fetch<BN>(ring + s * S::STAGE_BYTES + S::A_BYTES, w + s * STEP_K, p.k, end);
    gk_wait_before(); /* weights do not depend on the kernel before this one */
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            fetch<BM>(ring + s * S::STAGE_BYTES, a + s * STEP_K, p.lda, BM);
        commit();
    }
}

/* The k loop.  While one step is multiplied, STAGES - 1 are on their way to shared memory, and the
 * next 16 columns to registers. */
template <typename T, int BM, int BN>
__device__ __forceinline__ void sum_up(float acc[shape<BM, BN>::MI][shape<BM, BN>::NI][4],
                                       const product<T> &p, uint32_t ring, int row, int col)
{
    using S = shape<BM, BN>;
    const T *w = p.w + (size_t)col * p.k, *a = p.a + (size_t)row * p.lda;
    int steps = p.k / STEP_K;
    struct gemm80_places at = places_of<BM, BN>();
    struct fragments<S::MI, S::NI> first, second;
    uint32_t here = ring, last = ring + (STAGES - 1) * S::STAGE_BYTES, to = last;

    begin<T, BM, BN>(p, ring, a, w, p.n - col);
    wait_all_but<STAGES - 2>();
    __syncthreads();
    load(first, here, at, 0);
    for (int s = 0; s < steps; s++) {
        int next = s + STAGES - 1;

        load(second, here, at, 1);
        if (next < steps) {
            fetch<BM>(to, a + next * STEP_K, p.lda, BM);
            fetch<BN>(to + S::A_BYTES, w + next * STEP_K, p.k, p.n - col);
        }
        commit();
        multiply<T, S::MI, S::NI>(acc, first);
        to = here; /* what is multiplied now is filled again in the next round */
        here = here == last ? ring : here + S::STAGE_BYTES;
        wait_all_but<STAGES - 2>();
        __syncthreads();
        if (s + 1 < steps)
            load(first, here, at, 0);
        multiply<T, S::MI, S::NI>(acc, second);
    }
}

template <typename T, int ACT, int BM, int BN>
__global__ void __launch_bounds__(THREADS) gemm(const __grid_constant__ product<T> p)
{
    using S = shape<BM, BN>;
    extern __shared__ __align__(128) char shared[];
    float acc[S::MI][S::NI][4] = {};
    int warp = threadIdx.x / 32, row = blockIdx.y * BM, col = blockIdx.x * BN, rows;
    char *mine = shared + warp * S::OUT_BYTES;

    if (p.rows) { /* another kernel may have written it */
        gk_wait_before();
        rows = *p.rows;
    } else {
        rows = p.m;
    }
    if (row >= rows) {
        gk_let_next();
        return;
    }
    sum_up<T, BM, BN>(acc, p, shared_at(shared), row, col);
    gk_let_next();
    wait_all_but<0>();
    __syncthreads();
    row += warp / 2 * S::WM;
    col += warp % 2 * S::WN;
    if (col >= p.n || row >= rows)
        return;
    finish<T, ACT, S::MI, S::NI>(acc, p.bias ? p.bias + col : nullptr, mine, S::OUT_ROW);
    __syncwarp();
    store<T, S::WM, S::WN>(p.out + (size_t)row * p.ldout + col, p.ldout, rows - row, mine,
                           S::OUT_ROW);
}

template <typename T, int ACT, int BM, int BN>
cudaError_t start(const struct gk_gemm *g, cudaStream_t s)
{
    using S = shape<BM, BN>;
    product<T> p = {
        (const T *)g->a, (const T *)g->w, (T *)g->out, g->bias, g->rows, g->m, g->n, g->k,
        g->lda,          g->ldout
    };
    dim3 grid((unsigned)((g->n + BN - 1) / BN), (unsigned)((g->m + BM - 1) / BM));
    cudaError_t e;

    if (grid.y > GRID_ROWS)
        return cudaErrorInvalidValue;
    e = cudaFuncSetAttribute(gemm<T, ACT, BM, BN>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             S::SHARED);
    if (e != cudaSuccess)
        return e;
    return gk_launch(gemm<T, ACT, BM, BN>, grid, dim3(THREADS), S::SHARED, s, g->pdl, p);
}

/* Large tiles when they fill the chip, small ones otherwise. */
template <typename T, int ACT> cudaError_t start_tiles(const struct gk_gemm *g, cudaStream_t s)
{
    int device = 0, sms = 0;
    cudaError_t e = cudaGetDevice(&device);

    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (e != cudaSuccess)
        return e;
    if ((size_t)((g->m + 127) / 128) * (size_t)((g->n + 127) / 128) >= (size_t)sms)
        return start<T, ACT, 128, 128>(g, s);
    return start<T, ACT, 64, 64>(g, s);
}

template <typename T> cudaError_t start_act(const struct gk_gemm *g, cudaStream_t s)
{
    switch (g->act) {
    case GK_ACT_NONE:
        return start_tiles<T, GK_ACT_NONE>(g, s);
    case GK_ACT_GELU:
        return start_tiles<T, GK_ACT_GELU>(g, s);
    case GK_ACT_GELU_TANH:
        return start_tiles<T, GK_ACT_GELU_TANH>(g, s);
    case GK_ACT_RELU:
        return start_tiles<T, GK_ACT_RELU>(g, s);
    }
    return cudaErrorInvalidValue;
}

} // namespace

extern "C" cudaError_t gk_gemm_sm80(const struct gk_gemm *g, cudaStream_t s)
{
    if (g->m <= 0)
        return g->m ? cudaErrorInvalidValue : cudaSuccess;
    if (g->out_type != g->type || g->n <= 0 || g->k <= 0 || g->n % GK_PAD || g->k % GK_PAD)
        return cudaErrorInvalidValue;
    if (g->type == GK_F16)
        return start_act<__half>(g, s);
    if (g->type == GK_BF16)
        return start_act<__nv_bfloat16>(g, s);
    return cudaErrorNotSupported;
}
