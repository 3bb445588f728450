/* SPDX-License-Identifier: MIT */
/* rows: what is done to each row by itself: embedding, residual + LayerNorm, and the copies
 * between f32 and what the device computes in.
 *
 * A row lies in registers as chunks of 256 columns, a lane of a warp having 8 neighbours of each
 * chunk: 16 bytes of 16-bit numbers.  There are two forms:
 *
 *     many rows   a warp a row, which has all chunks (up to 4): the memory is kept busy by the
 *                 rows of many warps, and nothing waits for a barrier
 *     few rows    a CTA a row, a warp a chunk: the loads of a row are spread over the SM, and
 *                 one barrier brings the chunks together
 *
 * Both compute the same bits, since the statistics are those of the chunks in either: mean of
 * each chunk and squared distances from it by the same shuffles, then merged in order, in f32.
 *
 * Parts of a product (only few rows) are added in their order, then the bias, then x.  The
 * second of the launch bounds is there for the registers it grants: with fewer the compiler
 * waits for one part before it asks for the next, and each costs a trip to L2. */
#include "engine/cuda/kernels/gk_dev.cuh"

namespace
{

enum {
    LANE = 8,            /* columns of a lane */
    CHUNK = 32 * LANE,   /* columns of a warp */
    WARP_CHUNKS_MAX = 4, /* of a row that one warp has */
    CHUNKS_MAX = 16,     /* of a row that a CTA has */
    WARP_FORM_ROWS = 1024,
    TWO_PASSES_ROWS = 256, /* up to so many rows every CTA is there before its turn comes */
    WARP_FORM_WARPS = 8,
    CARVEOUT = 100 /* as gemm_skinny.cu's: SMs in a chain of small kernels keep one division */
};
#define E4M3_LARGEST 448.0f

/* What both kinds of rows need to end. */
struct norm_args {
    int m, hidden;
    size_t ld;
    const int32_t *rows;
    const float *gamma, *beta;
    float eps;
    void *x, *x8;
    float *x8_scale;
    float inverse, last_inverse; /* 1 / columns of a row, of its last chunk */
    int passes;                  /* of a CTA: see add_cta_kernel() */
};
struct add_args {
    struct norm_args norm;
    const void *y;
    const float *partial, *bias;
    int splits;
};
struct embed_args {
    struct norm_args norm;
    const uint32_t *ids, *positions;
    const uint8_t *types;
    const void *word, *position, *token_type;
};

/* ---- a lane's 8 columns ---- */

__device__ __forceinline__ void store16(void *p, uint4 v, bool real)
{
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
                 "@p st.global.v4.u32 [%0], {%1,%2,%3,%4};\n}" ::"l"(p),
                 "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"((int)real)
                 : "memory");
}
template <typename T> __device__ __forceinline__ void widen8(uint4 u, float v[LANE])
{
    uint32_t w[4] = { u.x, u.y, u.z, u.w };
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = gk_unpair<T>(w[i]);
        v[2 * i] = f.x, v[2 * i + 1] = f.y;
    }
}
/* Weights of a row: `valid` of them, then zeros.  EXACT: widths are multiples of 8, so that a
 * lane has all or none. */
template <bool EXACT>
__device__ __forceinline__ void load_weights(const float *p, int valid, float v[LANE])
{
#pragma unroll
    for (int i = 0; i < LANE; i++)
        v[i] = 0.0f;
    if (EXACT ? valid > 0 : valid == LANE) {
        float4 a = *(const float4 *)p, b = *(const float4 *)(p + 4);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
    } else if (!EXACT) {
#pragma unroll
        for (int i = 0; i < LANE; i++)
            if (i < valid)
                v[i] = p[i];
    }
}
__device__ __forceinline__ int valid_from(int column, int hidden)
{
    return min(max(hidden - column, 0), (int)LANE);
}

/* True columns of a chunk; 0 behind the last one. */
__device__ __forceinline__ float columns_of(const struct norm_args &p, int chunk)
{
    return (float)min(max(p.hidden - chunk * CHUNK, 0), (int)CHUNK);
}
__device__ __forceinline__ float inverse_of(const struct norm_args &p, int chunk)
{
    return p.hidden - chunk * CHUNK >= CHUNK ? 1.0f / CHUNK : p.last_inverse;
}

/* ---- statistics: of a chunk, then of a row ---- */

/* Around one of the chunk's own numbers, which is at most sqrt(256) deviations from its mean: so
 * one pass over the lanes is as good as two, up to a factor of 256 on an error of 2^-24. */
struct row_stats {
    float mean, squares; /* of the distances from that mean */
};
template <bool EXACT>
__device__ __forceinline__ struct row_stats chunk_stats(const float v[LANE], int valid,
                                                        float columns, float inverse)
{
    float s = 0, q = 0, near = __shfl_sync(0xffffffffu, v[0], 0);

#pragma unroll
    for (int i = 0; i < LANE; i++) {
        float d = EXACT || i < valid ? __fsub_rn(v[i], near) : 0.0f;

        s = __fadd_rn(s, d);
        q = __fmaf_rn(d, d, q);
    }
    if (EXACT && valid == 0)
        s = q = 0;
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        s = __fadd_rn(s, __shfl_xor_sync(0xffffffffu, s, o));
        q = __fadd_rn(q, __shfl_xor_sync(0xffffffffu, q, o));
    }
    s = __fmul_rn(s, inverse);
    return { __fadd_rn(near, s), fmaxf(__fmaf_rn(__fmul_rn(-s, s), columns, q), 0.0f) };
}
struct moments {
    float mean, scale;
};
/* Of CHUNKS chunks; the last of them may have no columns. */
template <int CHUNKS>
__device__ __forceinline__ struct moments row_moments(const struct norm_args &p,
                                                      const struct row_stats s[CHUNKS])
{
    float sum = 0, squares = 0, mean;

#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        sum = __fmaf_rn(s[c].mean, columns_of(p, c), sum);
    mean = __fmul_rn(sum, p.inverse);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        float d = __fsub_rn(s[c].mean, mean);

        squares = __fadd_rn(squares, __fmaf_rn(__fmul_rn(d, d), columns_of(p, c), s[c].squares));
    }
    return { mean, rsqrtf(__fmaf_rn(squares, p.inverse, p.eps)) };
}
/* Columns behind the true ones become 0, as their gamma and beta are. */
__device__ __forceinline__ void normalise(float v[LANE], struct moments m, const float gamma[LANE],
                                          const float beta[LANE])
{
#pragma unroll
    for (int i = 0; i < LANE; i++)
        v[i] = __fmaf_rn(__fmul_rn(__fsub_rn(v[i], m.mean), m.scale), gamma[i], beta[i]);
}
__device__ __forceinline__ float largest8(const float v[LANE])
{
    float most = 0;
#pragma unroll
    for (int i = 0; i < LANE; i++)
        most = fmaxf(most, fabsf(v[i]));
    return most;
}

/* ---- storing ---- */
template <typename T>
__device__ __forceinline__ void store8(void *x, size_t at, const float v[LANE], bool real)
{
    uint4 u = make_uint4(gk_pair<T>(v[0], v[1]), gk_pair<T>(v[2], v[3]), gk_pair<T>(v[4], v[5]),
                         gk_pair<T>(v[6], v[7]));
    store16((T *)x + at, u, real);
}
__device__ __forceinline__ uint32_t pack_e4m3(const float v[4], float by)
{
    uint32_t lo =
        __nv_cvt_float2_to_fp8x2(make_float2(v[0] * by, v[1] * by), __NV_SATFINITE, __NV_E4M3);
    uint32_t hi =
        __nv_cvt_float2_to_fp8x2(make_float2(v[2] * by, v[3] * by), __NV_SATFINITE, __NV_E4M3);
    return lo | hi << 16;
}
__device__ __forceinline__ void store8_e4m3(void *x8, size_t at, const float v[LANE], float most)
{
    float by = most > 0 ? E4M3_LARGEST / most : 1.0f;
    *(uint2 *)((uint8_t *)x8 + at) = make_uint2(pack_e4m3(v, by), pack_e4m3(v + 4, by));
}
__device__ __forceinline__ float scale_of(float most)
{
    return most > 0 ? most / E4M3_LARGEST : 1.0f;
}

/* ---- what a row begins as ---- */

/* A row of each table, and a lane's columns of the three. */
struct tables_row {
    const char *word, *position, *type; /* type: NULL where there is none */
};
struct tables_lane {
    uint4 word, position, type;
};
template <typename T>
__device__ __forceinline__ struct tables_row find_rows(const struct embed_args &e, uint32_t row)
{
    size_t ld = e.norm.ld * sizeof(T), id = e.ids[row], place = e.positions[row];
    size_t type = e.types && e.token_type ? e.types[row] : 0;

    return { (const char *)e.word + id * ld, (const char *)e.position + place * ld,
             e.token_type ? (const char *)e.token_type + type * ld : NULL };
}
template <typename T>
__device__ __forceinline__ struct tables_lane read_tables(struct tables_row r, int column)
{
    struct tables_lane l = {};

    l.word = *(const uint4 *)(r.word + column * sizeof(T));
    l.position = *(const uint4 *)(r.position + column * sizeof(T));
    if (r.type)
        l.type = *(const uint4 *)(r.type + column * sizeof(T));
    return l;
}
template <typename T>
__device__ __forceinline__ void add_tables(struct tables_lane l, float v[LANE])
{
    float type[LANE], position[LANE];

    widen8<T>(l.word, v);
    widen8<T>(l.type, type);
    widen8<T>(l.position, position);
#pragma unroll
    for (int i = 0; i < LANE; i++)
        v[i] = __fadd_rn(__fadd_rn(v[i], type[i]), position[i]);
}
/* v += the parts of a product, PARTS of them read at once. */
template <int PARTS>
__device__ __forceinline__ void add_parts(const float *from, size_t step, float v[LANE])
{
    uint4 part[PARTS][2];

#pragma unroll
    for (int s = 0; s < PARTS; s++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            part[s][h] = gk_load16(from + s * step + h * 4);
    __syncwarp(); /* keeps the loads together: the compiler would wait between them */
#pragma unroll
    for (int s = 0; s < PARTS; s++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            v[h * 4 + 0] += __uint_as_float(part[s][h].x);
            v[h * 4 + 1] += __uint_as_float(part[s][h].y);
            v[h * 4 + 2] += __uint_as_float(part[s][h].z);
            v[h * 4 + 3] += __uint_as_float(part[s][h].w);
        }
}
__device__ __forceinline__ void add_all_parts(const float *from, size_t step, int splits,
                                              float v[LANE])
{
    if (splits == 8) {
        add_parts<8>(from, step, v);
        return;
    }
    if (splits >= 4) {
        add_parts<4>(from, step, v);
        from += 4 * step, splits -= 4;
    }
    if (splits >= 2) {
        add_parts<2>(from, step, v);
        from += 2 * step;
    }
    if (splits & 1)
        add_parts<1>(from, step, v);
}

/* ---- few rows: a CTA a row, a warp a chunk ---- */

/* Brings the warps' numbers together; all see all of them. */
template <typename V> __device__ __forceinline__ void exchange(V *shared, V mine)
{
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = mine;
    __syncthreads();
}
template <typename T, int CHUNKS, bool EXACT>
__device__ __forceinline__ void cta_finish(const struct norm_args &p, uint32_t row, int column,
                                           const float gamma[LANE], const float beta[LANE],
                                           float v[LANE], bool real)
{
    __shared__ struct row_stats shared_stats[CHUNKS_MAX];
    __shared__ float shared_most[CHUNKS_MAX];
    int chunk = threadIdx.x / 32, chunks = blockDim.x / 32;
    struct row_stats s[CHUNKS];
    struct moments m;
    float most = 0;

    exchange(shared_stats, chunk_stats<EXACT>(v, valid_from(column, p.hidden), columns_of(p, chunk),
                                              inverse_of(p, chunk)));
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        s[c] = c < chunks ? shared_stats[c] : row_stats{ 0, 0 };
    m = row_moments<CHUNKS>(p, s);
    normalise(v, m, gamma, beta);
    store8<T>(p.x, row * p.ld + column, v, real);
    if (!p.x8)
        return;
    exchange(shared_most, gk_warp_max(largest8(v)));
    for (int c = 0; c < chunks; c++)
        most = fmaxf(most, shared_most[c]);
    if (real)
        store8_e4m3(p.x8, row * p.ld + column, v, most);
    if (real && threadIdx.x == 0)
        p.x8_scale[row] = scale_of(most);
}
/* How many rows there are, which nothing waits for before it is used. */
__device__ __forceinline__ int load_rows(const struct norm_args &p)
{
    int rows = p.m;
    asm volatile("{\n.reg .pred p;\nsetp.ne.u64 p, %1, 0;\n@p ld.global.cg.s32 %0, [%1];\n}"
                 : "+r"(rows)
                 : "l"(p.rows)
                 : "memory");
    return rows;
}
/* Two passes, of which the first reads and stores nothing: it brings the code into the
 * instruction caches while there is nothing to do but wait. */
template <typename T, int CHUNKS, bool EXACT>
__global__ void __launch_bounds__(CHUNKS * 32, CHUNKS <= 4 ? 4 : 1)
    add_cta_kernel(const struct add_args p)
{
    uint32_t row = blockIdx.x;
    int column = threadIdx.x * LANE, valid = valid_from(column, p.norm.hidden);
    bool inside = column < p.norm.ld;
    size_t at = row * p.norm.ld + (inside ? column : 0);
    float gamma[LANE], beta[LANE], bias[LANE];

    gk_let_next();
    load_weights<EXACT>(p.norm.gamma + column, valid, gamma);
    load_weights<EXACT>(p.norm.beta + column, valid, beta);
    load_weights<EXACT>(p.bias + column, p.bias && !p.y ? valid : 0, bias);
#pragma unroll 1
    for (int pass = p.norm.passes; pass > 0; pass--) {
        float v[LANE] = {}, x[LANE];
        int rows = 0;

        if (pass == 1) {
            gk_wait_before();
            rows = load_rows(p.norm);
            uint4 was = gk_load16((const T *)p.norm.x + at);

            if (p.y)
                widen8<T>(gk_load16((const T *)p.y + at), v);
            else
                add_all_parts(p.partial + at, p.norm.m * p.norm.ld, p.splits, v);
            widen8<T>(was, x);
#pragma unroll
            for (int i = 0; i < LANE; i++)
                v[i] = inside ? v[i] + bias[i] + x[i] : 0.0f;
        }
        cta_finish<T, CHUNKS, EXACT>(p.norm, row, column, gamma, beta, v,
                                     inside && (int)row < rows);
        if (pass > 1) /* what the warps exchanged has been read */
            __syncthreads();
    }
}
template <typename T, int CHUNKS, bool EXACT>
__global__ void __launch_bounds__(CHUNKS * 32, CHUNKS <= 4 ? 4 : 1)
    embed_cta_kernel(const struct embed_args p)
{
    uint32_t row = blockIdx.x;
    int column = threadIdx.x * LANE, valid = valid_from(column, p.norm.hidden);
    float gamma[LANE], beta[LANE], v[LANE] = {};
    bool real;

    gk_let_next();
    load_weights<EXACT>(p.norm.gamma + column, valid, gamma);
    load_weights<EXACT>(p.norm.beta + column, valid, beta);
    gk_wait_before();
    real = (int)row < load_rows(p.norm) && column < p.norm.ld;
    if (real)
        add_tables<T>(read_tables<T>(find_rows<T>(p, row), column), v);
    cta_finish<T, CHUNKS, EXACT>(p.norm, row, column, gamma, beta, v, real);
}

/* ---- many rows: a warp a row ---- */
template <typename T, int CHUNKS, bool EXACT>
__device__ __forceinline__ void warp_finish(const struct norm_args &p, uint32_t row,
                                            float v[CHUNKS][LANE])
{
    int lane = threadIdx.x % 32;
    struct row_stats s[CHUNKS];
    struct moments m;
    float most = 0;

#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        s[c] = chunk_stats<EXACT>(v[c], valid_from(c * CHUNK + lane * LANE, p.hidden),
                                  columns_of(p, c), inverse_of(p, c));
    m = row_moments<CHUNKS>(p, s);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        int column = c * CHUNK + lane * LANE, valid = valid_from(column, p.hidden);
        float gamma[LANE], beta[LANE];

        load_weights<EXACT>(p.gamma + column, valid, gamma);
        load_weights<EXACT>(p.beta + column, valid, beta);
        normalise(v[c], m, gamma, beta);
        store8<T>(p.x, row * p.ld + column, v[c], column < p.ld);
        most = fmaxf(most, largest8(v[c]));
    }
    if (!p.x8)
        return;
    most = gk_warp_max(most);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        if (c * CHUNK + lane * LANE < p.ld)
            store8_e4m3(p.x8, row * p.ld + c * CHUNK + lane * LANE, v[c], most);
    if (lane == 0)
        p.x8_scale[row] = scale_of(most);
}
__device__ __forceinline__ bool warp_row(const struct norm_args &p, uint32_t *row)
{
    gk_let_next();
    gk_wait_before();
    *row = blockIdx.x * WARP_FORM_WARPS + threadIdx.x / 32;
    return (int)*row < min(load_rows(p), p.m);
}
template <typename T, int CHUNKS, bool EXACT>
__global__ void __launch_bounds__(WARP_FORM_WARPS * 32) add_warp_kernel(const struct add_args p)
{
    int lane = threadIdx.x % 32;
    uint4 x[CHUNKS], y[CHUNKS];
    float v[CHUNKS][LANE], w[LANE];
    uint32_t row;

    if (!warp_row(p.norm, &row))
        return;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        size_t at = row * p.norm.ld + c * CHUNK + lane * LANE;

        x[c] = y[c] = make_uint4(0, 0, 0, 0);
        if (c * CHUNK + lane * LANE < p.norm.ld) {
            x[c] = gk_load16((const T *)p.norm.x + at);
            y[c] = gk_load16((const T *)p.y + at);
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        widen8<T>(y[c], v[c]);
        widen8<T>(x[c], w);
#pragma unroll
        for (int i = 0; i < LANE; i++)
            v[c][i] += w[i];
    }
    warp_finish<T, CHUNKS, EXACT>(p.norm, row, v);
}
template <typename T, int CHUNKS, bool EXACT>
__global__ void __launch_bounds__(WARP_FORM_WARPS * 32) embed_warp_kernel(const struct embed_args p)
{
    int lane = threadIdx.x % 32;
    struct tables_lane l[CHUNKS] = {};
    float v[CHUNKS][LANE];
    struct tables_row r;
    uint32_t row;

    if (!warp_row(p.norm, &row))
        return;
    r = find_rows<T>(p, row);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        if (c * CHUNK + lane * LANE < p.norm.ld)
            l[c] = read_tables<T>(r, c * CHUNK + lane * LANE);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        add_tables<T>(l[c], v[c]);
    warp_finish<T, CHUNKS, EXACT>(p.norm, row, v);
}

/* ---- launching ---- */
template <typename P>
cudaError_t rows_launch(void (*cta)(P), void (*const warp[WARP_CHUNKS_MAX])(P), bool by_cta,
                        const P &p, bool pdl, cudaStream_t s)
{
    unsigned chunks = (unsigned)((p.norm.ld + CHUNK - 1) / CHUNK);
    cudaError_t e;

    if (!by_cta)
        return gk_launch(warp[chunks - 1],
                         dim3((unsigned)(p.norm.m + WARP_FORM_WARPS - 1) / WARP_FORM_WARPS),
                         dim3(WARP_FORM_WARPS * 32), 0, s, pdl, p);
    e = cudaFuncSetAttribute(cta, cudaFuncAttributePreferredSharedMemoryCarveout, CARVEOUT);
    return e == cudaSuccess
               ? gk_launch(cta, dim3((unsigned)p.norm.m), dim3(chunks * 32), 0, s, pdl, p)
               : e;
}
void set_inverses(struct norm_args *p)
{
    p->inverse = 1.0f / (float)p->hidden;
    p->last_inverse = 1.0f / (float)(p->hidden % CHUNK ? p->hidden % CHUNK : CHUNK);
}
/* Which form: the CTA's for few rows, for parts, and for rows too wide for a warp. */
bool by_cta(const struct norm_args &p, bool parts)
{
    return parts || p.m < WARP_FORM_ROWS || p.ld > WARP_CHUNKS_MAX * CHUNK;
}
bool norm_fits(enum gk_type type, const struct norm_args &p)
{
    return (type == GK_F16 || type == GK_BF16) && p.m > 0 && p.hidden > 0 && p.ld % GK_PAD == 0 &&
           p.ld <= CHUNKS_MAX * CHUNK && (size_t)p.hidden <= p.ld && (!p.x8 || p.x8_scale);
}
template <typename T, bool EXACT>
cudaError_t add_run(const struct add_args &p, bool cta, bool pdl, cudaStream_t s)
{
    void (*const warp[])(
        struct add_args) = { add_warp_kernel<T, 1, EXACT>, add_warp_kernel<T, 2, EXACT>,
                             add_warp_kernel<T, 3, EXACT>, add_warp_kernel<T, 4, EXACT> };
    return rows_launch(p.norm.ld <= WARP_CHUNKS_MAX * CHUNK
                           ? add_cta_kernel<T, WARP_CHUNKS_MAX, EXACT>
                           : add_cta_kernel<T, CHUNKS_MAX, EXACT>,
                       warp, cta, p, pdl, s);
}
template <typename T, bool EXACT>
cudaError_t embed_run(const struct embed_args &p, bool cta, bool pdl, cudaStream_t s)
{
    void (*const warp[])(
        struct embed_args) = { embed_warp_kernel<T, 1, EXACT>, embed_warp_kernel<T, 2, EXACT>,
                               embed_warp_kernel<T, 3, EXACT>, embed_warp_kernel<T, 4, EXACT> };
    return rows_launch(p.norm.ld <= WARP_CHUNKS_MAX * CHUNK
                           ? embed_cta_kernel<T, WARP_CHUNKS_MAX, EXACT>
                           : embed_cta_kernel<T, CHUNKS_MAX, EXACT>,
                       warp, cta, p, pdl, s);
}

/* ---- copies between f32 and what the device computes in ---- */
enum { COPY_THREADS = 256 };

template <typename T> __global__ void widen_kernel(const T *x, size_t ld, int hidden, float *out)
{
    size_t row = blockIdx.x;

    for (int c = threadIdx.x; c < hidden; c += COPY_THREADS)
        out[row * hidden + c] = gk_float<T>(x[row * ld + c]);
}
__device__ float cta_max(float v)
{
    __shared__ float shared[COPY_THREADS / 32];

    exchange(shared, gk_warp_max(v));
    v = 0;
    for (int i = 0; i < COPY_THREADS / 32; i++)
        v = fmaxf(v, shared[i]);
    return v;
}
/* The largest number of each row, rows of padding having none. */
__global__ void row_max_kernel(const float *w, int n, int k, float *scale)
{
    int row = blockIdx.x;
    float most = 0;

    if (row < n)
        for (int c = threadIdx.x; c < k; c += COPY_THREADS)
            most = fmaxf(most, fabsf(w[(size_t)row * k + c]));
    most = cta_max(most);
    if (threadIdx.x == 0)
        scale[row] = most;
}
/* From largest numbers to scales: each row's, or the whole tensor's. */
__global__ void scales_kernel(float *scale, int n, bool by_row)
{
    float most = 0;

    if (!by_row) {
        for (int i = threadIdx.x; i < n; i += COPY_THREADS)
            most = fmaxf(most, scale[i]);
        most = cta_max(most);
    }
    for (int i = threadIdx.x; i < n; i += COPY_THREADS)
        scale[i] = scale_of(by_row ? scale[i] : most);
}
template <typename T>
__global__ void pack_kernel(const float *w, int n, int k, int k_pad, T *out, const float *scale)
{
    size_t row = blockIdx.x;
    float by = scale ? 1.0f / scale[row] : 1.0f;

    for (int c = threadIdx.x; c < k_pad; c += COPY_THREADS)
        out[row * k_pad + c] = gk_from<T>(row < n && c < k ? w[row * k + c] * by : 0.0f);
}
template <typename T>
cudaError_t pack_run(const float *w, int n, int k, int n_pad, int k_pad, void *out,
                     const float *scale, cudaStream_t s)
{
    pack_kernel<T><<<(unsigned)n_pad, COPY_THREADS, 0, s>>>(w, n, k, k_pad, (T *)out, scale);
    return cudaGetLastError();
}
cudaError_t scales_run(const float *w, int n, int k, int n_pad, float *scale, bool by_row,
                       cudaStream_t s)
{
    row_max_kernel<<<(unsigned)n_pad, COPY_THREADS, 0, s>>>(w, n, k, scale);
    scales_kernel<<<1, COPY_THREADS, 0, s>>>(scale, n_pad, by_row);
    return cudaGetLastError();
}

} // namespace

extern "C" cudaError_t gk_embed(const struct gk_embed *e, cudaStream_t s)
{
    struct embed_args p = { { e->m, e->hidden, e->ld, e->rows, e->gamma, e->beta, e->eps, e->x,
                              e->x8, e->x8_scale, 0, 0, 1 },
                            e->ids,
                            e->positions,
                            e->types,
                            e->word,
                            e->position,
                            e->token_type };
    bool cta = by_cta(p.norm, false), exact = e->hidden % LANE == 0;

    if (!norm_fits(e->type, p.norm))
        return cudaErrorInvalidValue;
    set_inverses(&p.norm);
    if (e->type == GK_F16)
        return exact ? embed_run<__half, true>(p, cta, e->pdl, s)
                     : embed_run<__half, false>(p, cta, e->pdl, s);
    return exact ? embed_run<__nv_bfloat16, true>(p, cta, e->pdl, s)
                 : embed_run<__nv_bfloat16, false>(p, cta, e->pdl, s);
}

extern "C" cudaError_t gk_add_norm(const struct gk_norm *n, cudaStream_t s)
{
    struct add_args p = { { n->m, n->hidden, n->ld, n->rows, n->gamma, n->beta, n->eps, n->x, n->x8,
                            n->x8_scale, 0, 0, n->pdl && n->m <= TWO_PASSES_ROWS ? 2 : 1 },
                          n->y,
                          n->partial,
                          n->bias,
                          n->splits };
    bool cta = by_cta(p.norm, !n->y), exact = n->hidden % LANE == 0;

    if (!norm_fits(n->type, p.norm) ||
        (!n->y && (!n->partial || n->splits < 1 || n->splits > GK_SPLITS_MAX)))
        return cudaErrorInvalidValue;
    set_inverses(&p.norm);
    if (n->type == GK_F16)
        return exact ? add_run<__half, true>(p, cta, n->pdl, s)
                     : add_run<__half, false>(p, cta, n->pdl, s);
    return exact ? add_run<__nv_bfloat16, true>(p, cta, n->pdl, s)
                 : add_run<__nv_bfloat16, false>(p, cta, n->pdl, s);
}

extern "C" cudaError_t gk_widen(enum gk_type type, const void *x, size_t ld, int m, int hidden,
                                float *out, cudaStream_t s)
{
    unsigned rows = (unsigned)m;

    if (type == GK_F16)
        widen_kernel<<<rows, COPY_THREADS, 0, s>>>((const __half *)x, ld, hidden, out);
    else if (type == GK_BF16)
        widen_kernel<<<rows, COPY_THREADS, 0, s>>>((const __nv_bfloat16 *)x, ld, hidden, out);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

extern "C" cudaError_t gk_pack(enum gk_type type, const float *w, int n, int k, int n_pad,
                               int k_pad, void *out, float *scale, bool by_row, cudaStream_t s)
{
    cudaError_t e;

    switch (type) {
    case GK_F16:
        return pack_run<__half>(w, n, k, n_pad, k_pad, out, NULL, s);
    case GK_BF16:
        return pack_run<__nv_bfloat16>(w, n, k, n_pad, k_pad, out, NULL, s);
    case GK_E4M3:
        if (!scale)
            return cudaErrorInvalidValue;
        e = scales_run(w, n, k, n_pad, scale, by_row, s);
        return e == cudaSuccess ? pack_run<__nv_fp8_e4m3>(w, n, k, n_pad, k_pad, out, scale, s) : e;
    default:
        return cudaErrorInvalidValue;
    }
}
