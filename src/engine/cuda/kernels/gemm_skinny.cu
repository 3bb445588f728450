/* SPDX-License-Identifier: MIT */
/* gemm_skinny: products of few rows, where reading the weights is the work.
 *
 * A CTA owns NT * 8 rows of w and one of `splits` stretches of k; its warps cut that stretch
 * further, so that every number of a and of w is read once in a CTA:
 *
 *     k ->   | warp 0 | warp 1 | ... | warp 7 |        of one split
 *     w rows |  the weights of a warp lie in shared memory, each lane's for itself |
 *     a rows |  straight from L2 into the registers of the warp that wants them    |
 *
 * The order of things is what makes it fast.  A kernel of a chain is launched while the one
 * before it runs (programmatic dependent launch): it asks for all of its weights, a little at a
 * time so that others are not held up, and only then waits for the rows of a.  It lets the next
 * one come when it has read a: all CTAs read the same rows through L2, which is what limits
 * them, and weights that come at the same time would be in the way.  Nothing of the weights is
 * held in registers while waiting, so that the next kernel fits beside this one.
 *
 * Tokens are the 16 rows of mma m16n8k16, weight rows its 8 columns.  The order of k inside a
 * sum is free as long as both sides agree: lane (g, t) takes the 16 consecutive bytes at 8t of
 * a group of 32 columns of its rows, which are its operands of two steps.  So there is no
 * ldmatrix, no swizzle, and no barrier before the sums: a lane reads what it itself fetched.
 *
 * Last the warps' sums meet in shared memory and are added in the order of the warps.  Which
 * sums are added in which order depends on n, k and splits alone: a row has the same bits
 * whatever m is. */
#include "engine/cuda/kernels/gk_dev.cuh"

namespace
{

enum {
    GROUP = 32,      /* columns of k that a lane's 16 bytes are part of: two steps of mma */
    FRAGMENT = 512,  /* bytes of 8 weight rows of a group */
    WARPS = 8,       /* of a CTA, each with a part of its k */
    TILES_MAX = 4,   /* of 8 weight rows of a CTA */
    SPLIT_MIN = 192, /* columns of k of a split, if possible */
    SPLIT_MAX = 512,
    SHARED_MAX = 96 << 10, /* what any GPU since sm_80 gives a CTA */
    CARVEOUT = 100 /* per cent: SMs keep one division of L1 and shared memory all the time */
};

/* How a product is laid out. */
struct skinny_plan {
    int tiles;  /* NT: weight rows of a CTA, in eights */
    int splits; /* of k over CTAs */
};

struct skinny_args {
    const void *a, *w;
    void *out;
    float *partial;
    const float *bias;
    const int32_t *rows;
    uint32_t lda, ldout; /* bytes */
    int m, n, k, splits, act;
    int groups;                    /* of k */
    int split_groups, warp_groups; /* of a split, of a warp: at most */
    int warp_bytes;                /* room of a warp in shared memory */
};

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void copy16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
                 : "memory");
}
__device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}
/* Closes a group of copies, and goes on when all but the last group have arrived. */
__device__ __forceinline__ void copies_pace(void)
{
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
}
/* How many rows there are, which nothing waits for before it is used. */
__device__ __forceinline__ int load_rows(const int32_t *rows, int most)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.u64 p, %1, 0;\n@p ld.global.cg.s32 %0, [%1];\n}"
                 : "+r"(most)
                 : "l"(rows)
                 : "memory");
    return most;
}
__device__ __forceinline__ void store4(void *p, uint32_t v, bool real)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p st.global.b32 [%0], %1;\n}" ::"l"(p),
                 "r"(v), "r"((int)real)
                 : "memory");
}
__device__ __forceinline__ void store8(void *p, float x, float y, bool real)
{
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\n@p st.global.v2.f32 [%0], {%1,%2};\n}" ::"l"(p),
        "f"(x), "f"(y), "r"((int)real)
        : "memory");
}

__device__ __forceinline__ void activate(int act, float v[4])
{
    switch (act) {
    case GK_ACT_GELU:
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = gk_gelu(v[i]);
        break;
    case GK_ACT_GELU_TANH:
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = gk_gelu_tanh(v[i]);
        break;
    case GK_ACT_RELU:
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = fmaxf(v[i], 0.0f);
        break;
    default:
        break;
    }
}

/* The groups of 32 columns that are this warp's. */
struct k_stretch {
    int first, count;
};
__device__ __forceinline__ struct k_stretch my_groups(const struct skinny_args &p)
{
    int mine = threadIdx.x / 32 * p.warp_groups, first = blockIdx.y * p.split_groups + mine;

    return { first, min(min(p.warp_groups, p.split_groups - mine), p.groups - first) };
}

/* Asks for the weights of a warp, each lane for its own. */
template <int NT>
__device__ __forceinline__ void fetch_weights(const struct skinny_args &p, struct k_stretch s,
                                              uint32_t to)
{
    int lane = threadIdx.x % 32, row = blockIdx.x * NT * 8 + lane / 4;
    size_t step = (size_t)p.k * 16;
    const char *w = (const char *)p.w + (size_t)row * p.k * 2 + s.first * GROUP * 2 + lane % 4 * 16;

#pragma unroll 1
    for (int i = 0; i < s.count; i++, w += GROUP * 2, to += NT * FRAGMENT) {
#pragma unroll
        for (int j = 0; j < NT; j++)
            copy16(to + j * FRAGMENT, w + j * step);
        copies_pace();
    }
}

/* Asks for the bias of the CTA's columns, which is wanted last. */
template <int NT>
__device__ __forceinline__ void fetch_bias(const struct skinny_args &p, uint32_t to)
{
    int at = threadIdx.x * 4;

    if (p.bias && at < NT * 8)
        copy16(to + at * 4, p.bias + blockIdx.x * NT * 8 + at);
}

/* One group of rows a times weight rows 8j .. 8j + 16 (or + 8, where these are the last).  No
 * step of mma waits for the one before it: the second steps follow all the first ones. */
template <typename T, int MT, int NT>
__device__ __forceinline__ void multiply_group(const uint4 *room, const uint4 x[MT][2], int j,
                                               float sums[MT][NT][4])
{
    uint4 w[2];

#pragma unroll
    for (int i = 0; i < 2; i++)
        if (j + i < NT)
            w[i] = room[i * 32];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int step = i / 2, tile = i % 2;

        if (j + tile >= NT)
            continue;
        uint32_t b[2] = { step ? w[tile].z : w[tile].x, step ? w[tile].w : w[tile].y };
#pragma unroll
        for (int h = 0; h < MT; h++) {
            uint4 lo = x[h][0], hi = x[h][1];
            uint32_t a[4] = { step ? lo.z : lo.x, step ? hi.z : hi.x, step ? lo.w : lo.y,
                              step ? hi.w : hi.y };

            gk_mma<T>(sums[h][j + tile], a, b);
        }
    }
}

/* sums += a w' over the warp's groups. */
template <typename T, int MT, int NT>
__device__ __forceinline__ void multiply(const struct skinny_args &p, struct k_stretch s,
                                         const uint4 *room, float sums[MT][NT][4])
{
    int lane = threadIdx.x % 32;
    const char *a = (const char *)p.a + lane / 4 * p.lda + s.first * GROUP * 2 + lane % 4 * 16;

    room += lane;
#pragma unroll 1
    for (int left = s.count; left > 0; left--, a += GROUP * 2, room += NT * 32) {
        uint4 x[MT][2];

#pragma unroll
        for (int h = 0; h < MT * 2; h++)
            x[h / 2][h % 2] = gk_load16(a + h * 8 * p.lda);
        __syncwarp(); /* keeps the loads above together: the compiler would wait between them */
        copies_wait();
#pragma unroll
        for (int j = 0; j < NT; j += 2)
            multiply_group<T, MT, NT>(room + j * 32, x, j, sums);
    }
}

/* Sums of two neighbours in two rows to where they belong. */
template <typename T>
__device__ __forceinline__ void store(const struct skinny_args &p, int rows, int row, int column,
                                      float v[4])
{
    if (p.splits > 1) {
        float *out = p.partial + (size_t)((blockIdx.y * p.m + row) * p.n + column);

        store8(out, v[0], v[1], row < rows);
        store8(out + 8 * p.n, v[2], v[3], row + 8 < rows);
        return;
    }
    char *out = (char *)p.out + (row * p.ldout + column * 2);

    activate(p.act, v);
    store4(out, gk_pair<T>(v[0], v[1]), row < rows);
    store4(out + 8 * p.ldout, gk_pair<T>(v[2], v[3]), row + 8 < rows);
}

/* Adds the warps' sums and stores them.  A warp's lie where its weights were, each lane's where
 * its own were; so the only barrier is the one between writing and reading. */
template <typename T, int MT, int NT>
__device__ __forceinline__ void reduce(const struct skinny_args &p, const char *room, char *mine,
                                       const float *bias, const float sums[MT][NT][4], int rows)
{
    int lane = threadIdx.x % 32;

#pragma unroll
    for (int i = 0; i < MT * NT; i++) {
        const float *c = sums[i / NT][i % NT];
        ((float4 *)mine)[i * 32 + lane] = make_float4(c[0], c[1], c[2], c[3]);
    }
    __syncthreads();
    rows = min(rows, p.m);
#pragma unroll 1
    for (int slot = threadIdx.x; slot < MT * NT * 32; slot += WARPS * 32) {
        int tile = slot / 32 % NT * 8 + lane % 4 * 2, row = slot / (32 * NT) * 16 + lane / 4;
        float v[4] = {};
        float4 c[WARPS];

        if (p.bias && p.splits == 1) {
            float2 add = *(const float2 *)(bias + tile);
            v[0] = v[2] = add.x, v[1] = v[3] = add.y;
        }
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            c[w] = *(const float4 *)(room + w * p.warp_bytes + slot * 16);
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            v[0] += c[w].x, v[1] += c[w].y, v[2] += c[w].z, v[3] += c[w].w;
        store<T>(p, rows, row, blockIdx.x * NT * 8 + tile, v);
    }
}

/* NT tiles of 8 weight rows by MT tiles of 16 rows of a. */
template <typename T, int MT, int NT>
__global__ void __launch_bounds__(WARPS * 32, 2) skinny_kernel(const struct skinny_args p)
{
    extern __shared__ __align__(16) char room[];
    char *mine = room + threadIdx.x / 32 * p.warp_bytes, *bias = room + WARPS * p.warp_bytes;
    struct k_stretch s = my_groups(p);
    float sums[MT][NT][4] = {};
    int rows;

    fetch_bias<NT>(p, shared_address(bias));
    fetch_weights<NT>(p, s, shared_address(mine) + threadIdx.x % 32 * 16);
    gk_wait_before();
    rows = load_rows(p.rows, p.m);
    multiply<T, MT, NT>(p, s, (const uint4 *)mine, sums);
    gk_let_next();
    reduce<T, MT, NT>(p, room, mine, (const float *)bias, sums, rows);
}

typedef void (*skinny_fn)(struct skinny_args);

template <typename T, int MT> skinny_fn pick_tiles(int tiles)
{
    static const skinny_fn fns[] = { skinny_kernel<T, MT, 1>, skinny_kernel<T, MT, 2>,
                                     skinny_kernel<T, MT, 3>, skinny_kernel<T, MT, 4> };
    return fns[tiles - 1];
}
template <typename T> skinny_fn pick(int m, int tiles)
{
    return m <= 16   ? pick_tiles<T, 1>(tiles)
           : m <= 32 ? pick_tiles<T, 2>(tiles)
                     : pick_tiles<T, 4>(tiles);
}

int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

cudaError_t skinny_run(const struct gk_gemm *g, float *partial, const struct skinny_plan *plan,
                       cudaStream_t s)
{
    int mt = g->m <= 16 ? 1 : g->m <= 32 ? 2 : 4, groups = g->k / GROUP;
    int split_groups = divide_up(groups, plan->splits);
    int warp_groups = divide_up(split_groups, WARPS);
    int warp_bytes = (warp_groups > mt ? warp_groups : mt) * plan->tiles * FRAGMENT;
    struct skinny_args p = { g->a,
                             g->w,
                             g->out,
                             partial,
                             g->bias,
                             g->rows,
                             (uint32_t)g->lda * 2,
                             (uint32_t)g->ldout * 2,
                             g->m,
                             g->n,
                             g->k,
                             plan->splits,
                             (int)g->act,
                             groups,
                             split_groups,
                             warp_groups,
                             warp_bytes };
    skinny_fn fn = g->type == GK_F16 ? pick<__half>(g->m, plan->tiles)
                                     : pick<__nv_bfloat16>(g->m, plan->tiles);
    int shared = warp_bytes * WARPS + plan->tiles * 32;
    cudaError_t e;

    if (shared > SHARED_MAX || g->n % (plan->tiles * 8))
        return cudaErrorInvalidConfiguration;
    e = cudaFuncSetAttribute(fn, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(fn, cudaFuncAttributePreferredSharedMemoryCarveout, CARVEOUT);
    return e != cudaSuccess
               ? e
               : gk_launch(fn, dim3((unsigned)(g->n / 8 / plan->tiles), (unsigned)plan->splits),
                           dim3((unsigned)WARPS * 32), (size_t)shared, s, g->pdl, p);
}

/* As many weight rows a CTA as leave CTAs for more than half of the SMs: every CTA reads all of
 * its columns of a, and it is L2 that all wait for. */
struct skinny_plan plan_of(int n, int k, int splits, int sms)
{
    struct skinny_plan plan = { TILES_MAX, splits };

    while (plan.tiles > 1 &&
           (n % (plan.tiles * 8) != 0 || n / 8 / plan.tiles * splits < sms * 13 / 24 ||
            plan.tiles * 16 * (k / splits + GROUP * WARPS) > SHARED_MAX))
        plan.tiles--;
    return plan;
}

int sm_count(void)
{
    int device = 0, sms = 0;

    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 0;
    return sms;
}

} // namespace

/* Enough for three CTAs of one tile a SM, and a stretch of k that is not too long; but none so
 * short that adding up costs more than it saves. */
extern "C" int gk_skinny_splits(int n, int k, int sms)
{
    int splits = 1;

    while (splits < GK_SPLITS_MAX && k / splits >= 2 * SPLIT_MIN &&
           (n / 8 * splits < sms * 29 / 10 || k / splits > SPLIT_MAX))
        splits *= 2;
    return splits;
}

extern "C" cudaError_t gk_gemm_skinny(const struct gk_gemm *g, float *partial, int splits,
                                      cudaStream_t s)
{
    struct skinny_plan plan;
    int sms = sm_count();

    if ((g->type != GK_F16 && g->type != GK_BF16) || g->m < 1 || g->m > GK_SKINNY_ROWS ||
        splits < 1 || splits > GK_SPLITS_MAX || (splits > 1 && !partial) || g->k % GK_PAD ||
        g->n % GK_PAD || sms < 1)
        return cudaErrorInvalidValue;
    plan = plan_of(g->n, g->k, splits, sms);
    return skinny_run(g, partial, &plan, s);
}
