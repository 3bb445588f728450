/* SPDX-License-Identifier: MIT */
/* test_attn: attention on the GPU, by both kernels and both sizes of tiles.
 *
 * Exact: sequences of 1 to 8192 tokens in one batch, NaN behind the last row, compared sequence by
 * sequence with a plain kernel in f32; a sequence full of NaN spoils no other; the bits of a
 * sequence are the same alone, among others, and with tiles of either size.
 * Fast: times of the shapes that encoders meet.  `test_attn quick` leaves them out. */
#include "gpu/gk_test.cuh"

#include <string.h>

namespace
{

const float F16_BOUND = 1e-3f, BF16_BOUND = 6e-3f, E4M3_BOUND = 4e-2f;
enum {
    ROTATE = 2,
    LAUNCHES = 4 /* a sample */,
    GRAPH_LAUNCHES = 24,
    TILES_MORE = 5, /* than there are */
    CORPUS_TEXTS = 4096,
    CORPUS_BATCH = 32768
};

typedef cudaError_t (*attn_fn)(const struct gk_attn *, cudaStream_t);
const struct way {
    const char *name;
    attn_fn fn;
    int rows;
} ways[] = { { "sm80/64", gk_attn_sm80, GK_ATTN_ROWS },
             { "sm80/128", gk_attn_sm80, GK_ATTN_ROWS_LONG },
             { "sm90/64", gk_attn_sm90, GK_ATTN_ROWS },
             { "sm90/128", gk_attn_sm90, GK_ATTN_ROWS_LONG } };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* ---- batches ---- */
/* Sequences one behind the other in the order of `lengths`; tiles longest first. */
struct batch {
    std::vector<int> lengths, starts;
    int rows;
    struct gk_tile *tiles[2]; /* by size of tile, device */
    int count[2];
    int32_t *counts[2]; /* the same, device */
};

struct batch batch_make(const std::vector<int> &lengths)
{
    struct batch b = { lengths, {}, 0, { NULL, NULL }, { 0, 0 }, { NULL, NULL } };
    std::vector<size_t> order;

    for (size_t i = 0; i < lengths.size(); i++) {
        b.starts.push_back(b.rows);
        b.rows += lengths[i];
        order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return lengths[x] > lengths[y]; });
    for (int k = 0; k < 2; k++) {
        int step = k ? GK_ATTN_ROWS_LONG : GK_ATTN_ROWS;
        std::vector<struct gk_tile> t;
        for (size_t i : order)
            for (int q = 0; q < lengths[i]; q += step)
                t.push_back({ (uint32_t)b.starts[i], (uint32_t)lengths[i], (uint32_t)q });
        b.count[k] = (int)t.size();
        MUST(cudaMalloc((void **)&b.tiles[k], (t.size() + TILES_MORE) * sizeof(t[0])));
        MUST(cudaMemcpy(b.tiles[k], t.data(), t.size() * sizeof(t[0]), cudaMemcpyHostToDevice));
        MUST(cudaMalloc((void **)&b.counts[k], sizeof(int32_t)));
        MUST(cudaMemcpy(b.counts[k], &b.count[k], sizeof(int32_t), cudaMemcpyHostToDevice));
    }
    return b;
}
void batch_free(struct batch *b)
{
    for (int k = 0; k < 2; k++) {
        MUST(cudaFree(b->tiles[k]));
        MUST(cudaFree(b->counts[k]));
    }
}

int padded(int rows)
{
    return (rows + GK_ROWS_PAD - 1) / GK_ROWS_PAD * GK_ROWS_PAD;
}

struct gk_attn work(const struct batch &b, const struct way &w, enum gk_type type, int heads,
                    int dim, const void *qkv, void *out, const float *rel)
{
    struct gk_attn a = {};
    int k = w.rows == GK_ATTN_ROWS_LONG;

    a.type = a.out_type = type;
    a.heads = heads;
    a.head_dim = dim;
    a.qkv = qkv;
    a.out = out;
    a.ld = (size_t)(3 * heads * dim);
    a.ldout = (size_t)(heads * dim);
    a.row_cap = padded(b.rows);
    a.scale = 1.0f / sqrtf((float)dim);
    a.rel = rel;
    a.tiles = b.tiles[k];
    a.tile_max = b.count[k];
    a.tile_rows = w.rows;
    return a;
}

/* ---- a bias at random, by distance and as the kernels want it; NULL where none is wanted ---- */
struct bias {
    float *plain, *spread;
};
struct bias bias_make(int heads, bool wanted, float sd)
{
    const size_t row = 2 * GK_REACH + 1;
    struct bias b = { NULL, NULL };
    std::vector<float> h, wide((size_t)heads * GK_REL);

    if (!wanted)
        return b;
    b.plain = gk_random<float>((size_t)heads * row, sd, 7);
    h = gk_host(b.plain, (size_t)heads * row);
    for (int i = 0; i < heads; i++)
        gk_rel_spread(&h[i * row], &wide[(size_t)i * GK_REL]);
    MUST(cudaMalloc((void **)&b.spread, wide.size() * sizeof(float)));
    MUST(cudaMemcpy(b.spread, wide.data(), wide.size() * sizeof(float), cudaMemcpyHostToDevice));
    return b;
}
void bias_free(struct bias *b)
{
    MUST(cudaFree(b->plain));
    MUST(cudaFree(b->spread));
}

/* ---- the plain way: a block a row and head ---- */
template <typename T>
__global__ void plain_kernel(const T *qkv, size_t ld, int heads, int dim, float scale,
                             const float *rel, const int *seq_first, const int *seq_count,
                             float *out)
{
    extern __shared__ float p[];
    __shared__ float part[32];
    int row = blockIdx.x, head = blockIdx.y, first = seq_first[row], count = seq_count[row];
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, warps = blockDim.x >> 5;
    const T *q = qkv + (size_t)row * ld + head * dim, *k = qkv + (heads + head) * dim,
            *v = k + heads * dim;
    float top = -INFINITY, sum = 0;

    for (int j = threadIdx.x; j < count; j += blockDim.x) {
        float s = 0;
        int d = min(max(j - (row - first), -(int)GK_REACH), (int)GK_REACH);
        for (int i = 0; i < dim; i++)
            s = fmaf(gk_float<T>(q[i]), gk_float<T>(k[(size_t)(first + j) * ld + i]), s);
        p[j] = s = s * scale + (rel ? rel[head * (2 * GK_REACH + 1) + d + GK_REACH] : 0.0f);
        top = fmaxf(top, s);
    }
    top = gk_warp_max(top);
    if (lane == 0)
        part[warp] = top;
    __syncthreads();
    for (int i = 0; i < warps; i++)
        top = fmaxf(top, part[i]);
    __syncthreads();
    for (int j = threadIdx.x; j < count; j += blockDim.x)
        sum += p[j] = expf(p[j] - top);
    sum = gk_warp_sum(sum);
    if (lane == 0)
        part[warp] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < warps; i++)
        sum += part[i];
    /* each group of `dim` threads takes its share of the keys */
    int groups = blockDim.x / dim, col = threadIdx.x % dim, group = threadIdx.x / dim;
    float o = 0;
    for (int j = group; j < count; j += groups)
        o = fmaf(p[j], gk_float<T>(v[(size_t)(first + j) * ld + col]), o);
    __syncthreads();
    p[threadIdx.x] = o;
    __syncthreads();
    if (group == 0) {
        for (int i = 1; i < groups; i++)
            o += p[i * dim + col];
        out[(size_t)row * heads * dim + head * dim + col] = o / sum;
    }
}

template <typename T>
float *plain(const struct batch &b, const T *qkv, int heads, int dim, const float *rel)
{
    std::vector<int> first, count;
    int *d = NULL;
    float *out = NULL;
    size_t n = (size_t)b.rows;

    for (size_t i = 0; i < b.lengths.size(); i++)
        for (int r = 0; r < b.lengths[i]; r++) {
            first.push_back(b.starts[i]);
            count.push_back(b.lengths[i]);
        }
    MUST(cudaMalloc((void **)&d, 2 * n * sizeof(int)));
    MUST(cudaMemcpy(d, first.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(d + n, count.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    MUST(cudaMalloc((void **)&out, n * heads * dim * sizeof(float)));
    plain_kernel<T><<<dim3(b.rows, heads), 256, 8192 * sizeof(float)>>>(
        qkv, (size_t)(3 * heads * dim), heads, dim, 1.0f / sqrtf((float)dim), rel, d, d + n, out);
    MUST(cudaGetLastError());
    MUST(cudaDeviceSynchronize());
    MUST(cudaFree(d));
    return out;
}

/* ---- comparing, sequence by sequence ---- */
struct verdict {
    double worst, all; /* relative error of one sequence; of everything */
    int worst_length;
    size_t bad; /* not finite */
};
void say_bad(const std::vector<float> &o, const std::vector<float> &r, int start, int length, int n,
             double rel)
{
    int said = 0;

    printf("#   length %d start %d: error %.3g\n", length, start, rel);
    for (int i = 0; i < length && said < 4; i++)
        for (int j = 0; j < n && said < 4; j++) {
            size_t at = (size_t)(start + i) * n + j;
            if (fabsf(o[at] - r[at]) <= 0.02f * (fabsf(r[at]) + 0.05f))
                continue;
            printf("#     row %d col %d: %g, should be %g\n", i, j, o[at], r[at]);
            said++;
        }
}
template <typename T>
struct verdict judge(const struct batch &b, const T *out, const std::vector<float> &r, int n,
                     float by, float bound)
{
    std::vector<T> raw = gk_host(out, (size_t)b.rows * n);
    std::vector<float> o(raw.size());
    struct verdict v = { 0, 0, 0, 0 };
    double num_all = 0, den_all = 0;
    int said = 0;

    for (size_t i = 0; i < raw.size(); i++)
        o[i] = float(raw[i]) * by;
    for (size_t i = 0; i < b.lengths.size(); i++) {
        double num = 0, den = 0, rel;
        for (size_t x = (size_t)b.starts[i] * n; x < (size_t)(b.starts[i] + b.lengths[i]) * n;
             x++) {
            v.bad += !isfinite(o[x]);
            num += (double)(o[x] - r[x]) * (o[x] - r[x]);
            den += (double)r[x] * r[x];
        }
        num_all += num;
        den_all += den;
        rel = sqrt(num / den);
        if (!(rel <= v.worst)) {
            v.worst = isfinite(rel) ? rel : INFINITY;
            v.worst_length = b.lengths[i];
        }
        if (!(rel <= bound) && said++ < 3)
            say_bad(o, r, b.starts[i], b.lengths[i], n, rel);
    }
    v.all = sqrt(num_all / den_all);
    return v;
}

/* Rows behind the last one must be as they were. */
template <typename T> bool untouched(const T *out, int from, int to, int n)
{
    std::vector<T> h = gk_host(out + (size_t)from * n, (size_t)(to - from) * n);
    const unsigned char *p = (const unsigned char *)h.data();

    for (size_t i = 0; i < h.size() * sizeof(T); i++)
        if (p[i] != 0xff)
            return false;
    return true;
}

/* qkv with NaN behind the last row. */
template <typename T> T *inputs(const struct batch &b, int width, float sd, uint32_t seed)
{
    size_t used = (size_t)b.rows * width, room = (size_t)padded(b.rows) * width;
    T *p = gk_random<T>(room, sd, seed);

    MUST(cudaMemset(p + used, 0xff, (room - used) * sizeof(T)));
    return p;
}

template <typename T>
void exact_e4m3(const struct batch &b, const struct way &w, struct gk_attn a,
                const std::vector<float> &ref)
{
    int n = a.heads * a.head_dim;
    __nv_fp8_e4m3 *out = gk_poisoned<__nv_fp8_e4m3>((size_t)padded(b.rows) * n);
    float scale = 0.02f, *d = NULL;
    struct verdict v;

    MUST(cudaMalloc((void **)&d, sizeof(float)));
    MUST(cudaMemcpy(d, &scale, sizeof(float), cudaMemcpyHostToDevice));
    a.out_type = GK_E4M3;
    a.out = out;
    a.out_scale = d;
    MUST(w.fn(&a, 0));
    MUST(cudaDeviceSynchronize());
    v = judge(b, out, ref, n, scale, E4M3_BOUND);
    gk_ok(v.worst <= E4M3_BOUND && !v.bad && untouched(out, b.rows, padded(b.rows), n),
          "%s %dx%d e4m3 out: %.3g, worst %.3g at %d tokens", w.name, a.heads, a.head_dim, v.all,
          v.worst, v.worst_length);
    MUST(cudaFree(out));
    MUST(cudaFree(d));
}

template <typename T>
void exact(enum gk_type type, int heads, int dim, bool with_rel, float sd, uint32_t seed)
{
    const std::vector<int> lengths = { 33,  1,   2,   512, 7,   15,   16,  17,   31, 32,  63,  64,
                                       65,  100, 127, 128, 129, 8192, 255, 1000, 4,  511, 513, 90,
                                       192, 193, 320, 48,  49,  5,    37,  96,   97, 160, 161 };
    struct batch b = batch_make(lengths);
    int n = heads * dim;
    float bound = type == GK_F16 ? F16_BOUND : BF16_BOUND;
    T *qkv = inputs<T>(b, 3 * n, sd, seed);
    struct bias rel = bias_make(heads, with_rel, 2.0f);
    float *r = plain<T>(b, qkv, heads, dim, rel.plain);
    std::vector<float> ref = gk_host(r, (size_t)b.rows * n);
    T *first = NULL;

    for (int i = 0; i < WAYS; i++) {
        T *out = gk_poisoned<T>((size_t)padded(b.rows) * n);
        struct gk_attn a = work(b, ways[i], type, heads, dim, qkv, out, rel.spread);
        struct verdict v;
        a.tile_count = b.counts[ways[i].rows == GK_ATTN_ROWS_LONG]; /* and more than there are */
        a.tile_max += TILES_MORE;
        MUST(ways[i].fn(&a, 0));
        MUST(cudaDeviceSynchronize());
        v = judge(b, out, ref, n, 1.0f, bound);
        gk_ok(v.worst <= bound && !v.bad && untouched(out, b.rows, padded(b.rows), n),
              "%s %s %dx%d%s sd %g: %.3g, worst %.3g at %d tokens", ways[i].name,
              type == GK_F16 ? "f16" : "bf16", heads, dim, with_rel ? " bias" : "", sd, v.all,
              v.worst, v.worst_length);
        if (type == GK_F16 && !with_rel)
            exact_e4m3<T>(b, ways[i], a, ref);
        if (i % 2) {
            std::vector<T> x = gk_host(first, (size_t)b.rows * n);
            std::vector<T> y = gk_host(out, (size_t)b.rows * n);
            gk_ok(!memcmp(x.data(), y.data(), x.size() * sizeof(T)),
                  "%s: the bits of the smaller tiles", ways[i].name);
            MUST(cudaFree(first));
            MUST(cudaFree(out));
        } else {
            first = out;
        }
    }
    MUST(cudaFree(qkv));
    MUST(cudaFree(r));
    bias_free(&rel);
    batch_free(&b);
}

/* A sequence alone, and between two that are nothing but NaN. */
void alone(int dim)
{
    const int heads = 4, n = heads * dim;
    int wrong[WAYS] = { 0 }, tried = 0;

    for (int length : { 1, 9, 32, 50, 64, 77, 128, 200, 500 }) {
        struct batch one = batch_make({ length }), many = batch_make({ 70, length, 3, 100 });
        __half *x = inputs<__half>(one, 3 * n, 1.0f, (uint32_t)length);
        __half *y = gk_poisoned<__half>((size_t)padded(many.rows) * 3 * n);
        __half *o1 = gk_poisoned<__half>((size_t)padded(one.rows) * n);
        __half *o2 = gk_poisoned<__half>((size_t)padded(many.rows) * n);
        size_t bytes = (size_t)length * n * sizeof(__half);
        tried++;
        MUST(cudaMemcpy(y + (size_t)70 * 3 * n, x, 3 * bytes, cudaMemcpyDeviceToDevice));
        for (int i = 0; i < WAYS; i++) {
            struct gk_attn a = work(one, ways[i], GK_F16, heads, dim, x, o1, NULL);
            struct gk_attn b = work(many, ways[i], GK_F16, heads, dim, y, o2, NULL);
            MUST(cudaMemset(o1, 0xff, bytes));
            MUST(cudaMemset(o2 + (size_t)70 * n, 0xff, bytes));
            MUST(ways[i].fn(&a, 0));
            MUST(ways[i].fn(&b, 0));
            std::vector<__half> h1 = gk_host(o1, (size_t)length * n);
            std::vector<__half> h2 = gk_host(o2 + (size_t)70 * n, (size_t)length * n);
            bool same = !memcmp(h1.data(), h2.data(), bytes);
            for (__half v : h1)
                same = same && isfinite(float(v));
            if (!same)
                printf("# %s length %d differs among NaN\n", ways[i].name, length);
            wrong[i] += !same;
        }
        MUST(cudaFree(x));
        MUST(cudaFree(y));
        MUST(cudaFree(o1));
        MUST(cudaFree(o2));
        batch_free(&one);
        batch_free(&many);
    }
    for (int i = 0; i < WAYS; i++)
        gk_ok(!wrong[i], "%s heads of %d: %d sequences have the same bits alone and among NaN",
              ways[i].name, dim, tried);
}

/* ---- times ---- */
double flops_of(const struct batch &b, int heads, int dim)
{
    double f = 0;

    for (int l : b.lengths)
        f += 4.0 * l * l * dim * heads;
    return f;
}

struct buffers {
    __half *qkv[ROTATE], *out[ROTATE];
};
struct buffers buffers_make(int rows, int n)
{
    struct buffers u;

    for (int i = 0; i < ROTATE; i++) {
        u.qkv[i] = gk_random<__half>((size_t)padded(rows) * 3 * n, 1.0f, 11 + i);
        u.out[i] = gk_poisoned<__half>((size_t)padded(rows) * n);
    }
    return u;
}
void buffers_free(struct buffers *u)
{
    for (int i = 0; i < ROTATE; i++) {
        MUST(cudaFree(u->qkv[i]));
        MUST(cudaFree(u->out[i]));
    }
}
float time_of(const struct batch &b, const struct way &w, int heads, int dim,
              const struct buffers &u, const float *rel, int times)
{
    return gk_time(
               [&](int i) {
                   for (int k = i * LAUNCHES; k < (i + 1) * LAUNCHES; k++) {
                       struct gk_attn a = work(b, w, GK_F16, heads, dim, u.qkv[k % ROTATE],
                                               u.out[k % ROTATE], rel);
                       MUST(w.fn(&a, 0));
                   }
               },
               2, times) /
           LAUNCHES;
}

void time_shape(const char *name, const std::vector<int> &lengths, int heads, int dim,
                bool with_rel)
{
    struct batch b = batch_make(lengths);
    struct buffers u = buffers_make(b.rows, heads * dim);
    struct bias rel = bias_make(heads, with_rel, 1.0f);
    double bytes = (double)b.rows * heads * dim * 8;

    for (int i = 0; i < WAYS; i++) {
        float ms = time_of(b, ways[i], heads, dim, u, rel.spread, 11);
        printf("# time %s %dx%d%s %s: %.4f ms %.0f TFLOP/s %.2f TB/s\n", name, heads, dim,
               with_rel ? " bias" : "", ways[i].name, ms, flops_of(b, heads, dim) / ms / 1e9,
               bytes / ms / 1e9);
        fflush(stdout);
    }
    buffers_free(&u);
    bias_free(&rel);
    batch_free(&b);
}

/* Lengths as texts have them, sorted, in batches of so many tokens. */
std::vector<std::vector<int>> corpus(void)
{
    std::vector<int> l;
    std::vector<std::vector<int>> out(1);
    int sum = 0;

    for (uint32_t i = 0; i < CORPUS_TEXTS; i++) {
        float x = roundf(expf(logf(90.0f) + 0.8f * gk_normal(i, 1)));
        l.push_back((int)fminf(fmaxf(x, 4.0f), 512.0f));
    }
    std::sort(l.begin(), l.end(), [](int a, int b) { return a > b; });
    for (int x : l) {
        if (sum + x > CORPUS_BATCH) {
            out.push_back({});
            sum = 0;
        }
        out.back().push_back(x);
        sum += x;
    }
    return out;
}
void time_corpus(int heads, int dim, bool with_rel, bool each)
{
    struct buffers u = buffers_make(CORPUS_BATCH, heads * dim);
    struct bias rel = bias_make(heads, with_rel, 1.0f);
    double sum[WAYS] = { 0 }, best = 0, bytes = 0, flops = 0;
    std::vector<std::vector<int>> all = corpus();

    for (const std::vector<int> &l : all) {
        struct batch b = batch_make(l);
        float ms[WAYS], least = INFINITY;
        for (int i = 0; i < WAYS; i++) {
            ms[i] = time_of(b, ways[i], heads, dim, u, rel.spread, 7);
            sum[i] += ms[i];
            least = fminf(least, ms[i]);
        }
        best += least;
        bytes += (double)b.rows * heads * dim * 8;
        flops += flops_of(b, heads, dim);
        if (each)
            printf("# batch of %d rows, %zu texts of %d..%d: %.1f %.1f %.1f %.1f us\n", b.rows,
                   l.size(), l.back(), l.front(), ms[0] * 1e3, ms[1] * 1e3, ms[2] * 1e3,
                   ms[3] * 1e3);
        batch_free(&b);
    }
    for (int i = 0; i < WAYS; i++)
        printf("# time corpus %dx%d%s %s: %.4f ms a batch %.2f TB/s %.0f TFLOP/s\n", heads, dim,
               with_rel ? " bias" : "", ways[i].name, sum[i] / all.size(), bytes / sum[i] / 1e9,
               flops / sum[i] / 1e9);
    printf("# time corpus %dx%d%s best of each batch: %.4f ms a batch %.2f TB/s\n", heads, dim,
           with_rel ? " bias" : "", best / all.size(), bytes / best / 1e9);
    fflush(stdout);
    buffers_free(&u);
    bias_free(&rel);
}

/* One short text, launches one behind the other in a graph. */
void time_one(int length, int heads, int dim, bool with_rel)
{
    struct batch b = batch_make({ length });
    struct buffers u = buffers_make(b.rows, heads * dim);
    struct bias rel = bias_make(heads, with_rel, 1.0f);
    cudaStream_t s;

    MUST(cudaStreamCreate(&s));
    for (int i = 0; i < WAYS; i++)
        for (int pdl = 0; pdl < 2; pdl++) {
            struct gk_attn a = work(b, ways[i], GK_F16, heads, dim, u.qkv[0], u.out[0], rel.spread);
            cudaGraph_t g;
            cudaGraphExec_t x;
            a.pdl = pdl;
            MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
            for (int k = 0; k < GRAPH_LAUNCHES; k++)
                MUST(ways[i].fn(&a, s));
            MUST(cudaStreamEndCapture(s, &g));
            MUST(cudaGraphInstantiate(&x, g, 0));
            float ms = gk_time([&](int) { MUST(cudaGraphLaunch(x, 0)); }, 3, 15);
            printf("# time 1 text of %d %dx%d%s %s%s: %.2f us a launch\n", length, heads, dim,
                   with_rel ? " bias" : "", ways[i].name, pdl ? " pdl" : "",
                   ms * 1e3 / GRAPH_LAUNCHES);
            MUST(cudaGraphExecDestroy(x));
            MUST(cudaGraphDestroy(g));
        }
    fflush(stdout);
    MUST(cudaStreamDestroy(s));
    buffers_free(&u);
    bias_free(&rel);
    batch_free(&b);
}

void times(void)
{
    time_shape("128 x 512", std::vector<int>(128, 512), 16, 64, false);
    time_corpus(16, 64, false, true);
    time_corpus(12, 64, true, false);
    time_corpus(12, 32, false, true);
    time_one(32, 16, 64, false);
    time_one(32, 12, 32, false);
    time_shape("128 x 512", std::vector<int>(128, 512), 12, 64, true);
    time_shape("100 x 128", std::vector<int>(100, 128), 16, 64, false);
    time_shape("2 x 8192", std::vector<int>(2, 8192), 16, 64, false);
}

} // namespace

int main(int argc, char **argv)
{
    exact<__half>(GK_F16, 3, 64, false, 1.0f, 1);
    exact<__half>(GK_F16, 3, 32, false, 2.0f, 2);
    exact<__half>(GK_F16, 3, 64, true, 2.0f, 3);
    exact<__nv_bfloat16>(GK_BF16, 3, 64, false, 2.0f, 4);
    exact<__nv_bfloat16>(GK_BF16, 3, 32, true, 1.0f, 5);
    /* scores of several hundred: beyond what powers without a maximum can hold */
    exact<__nv_bfloat16>(GK_BF16, 3, 64, false, 7.0f, 6);
    exact<__nv_bfloat16>(GK_BF16, 3, 32, true, 9.0f, 7);
    exact<__half>(GK_F16, 3, 64, true, 7.0f, 8);
    exact<__half>(GK_F16, 3, 32, true, 9.0f, 9);
    alone(64);
    alone(32);
    if (argc < 2 || strcmp(argv[1], "quick") != 0)
        times();
    return gk_done();
}
