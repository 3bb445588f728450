/* SPDX-License-Identifier: MIT */
/* test_rows: embedding, residual + LayerNorm, packing, pooling and dense layers against plain
 * loops in double on the host; then how fast they are. */
#include "engine/cuda/kernels/calib_int.h"
#include "gpu/gk_test.cuh"

#include <string.h>

namespace
{

const float EPS = 1e-5f;

template <typename V> V *device_copy(const std::vector<V> &v)
{
    V *p = NULL;
    MUST(cudaMalloc((void **)&p, v.size() * sizeof(V)));
    MUST(cudaMemcpy(p, v.data(), v.size() * sizeof(V), cudaMemcpyHostToDevice));
    return p;
}
template <typename T> constexpr enum gk_type type_of()
{
    return sizeof(T) == 1 ? GK_E4M3 : std::is_same<T, __half>::value ? GK_F16 : GK_BF16;
}
template <typename T> double bound_of()
{
    return type_of<T>() == GK_F16 ? 4e-4 : 3e-3;
}

/* ---- rows ---- */
struct rows_case {
    int m, hidden, ld;
    int splits; /* 0: y */
    int rows;   /* there are; 0: m */
    bool e4m3, types;
};

void layer_norm(std::vector<double> &v, const std::vector<float> &gamma,
                const std::vector<float> &beta)
{
    double mean = 0, var = 0, n = (double)v.size();

    for (double x : v)
        mean += x / n;
    for (double x : v)
        var += (x - mean) * (x - mean) / n;
    for (size_t i = 0; i < v.size(); i++)
        v[i] = (v[i] - mean) / sqrt(var + (double)EPS) * gamma[i] + beta[i];
}

/* What came out against rows of doubles. */
struct result {
    double num, den, num8, scale; /* squares of errors; largest relative error of a scale */
    size_t wrong;
};
template <typename T> struct outputs {
    std::vector<T> x;
    std::vector<__nv_fp8_e4m3> x8;
    std::vector<float> scale;
};
template <typename T>
void compare_row(const struct rows_case &c, const outputs<T> &o, size_t row,
                 const std::vector<double> &ref, struct result *r)
{
    double most = 0;

    for (int j = 0; j < c.ld; j++) {
        double x = float(o.x[row * c.ld + j]), y = j < c.hidden ? ref[j] : 0;

        r->wrong += !isfinite(x) || (j >= c.hidden && x != 0);
        r->num += (x - y) * (x - y), r->den += y * y;
        most = fmax(most, fabs(y));
        if (!c.e4m3)
            continue;
        x = float(o.x8[row * c.ld + j]) * (double)o.scale[row];
        r->wrong += !isfinite(x) || (j >= c.hidden && x != 0);
        r->num8 += (x - y) * (x - y);
    }
    if (c.e4m3)
        r->scale = fmax(r->scale, fabs(o.scale[row] * 448.0 / most - 1));
}
template <typename T>
void report(const char *what, const struct rows_case &c, const outputs<T> &o, struct result *r)
{
    int rows = c.rows ? c.rows : c.m;
    double e = sqrt(r->num / r->den), e8 = sqrt(r->num8 / r->den);

    for (size_t i = (size_t)rows * c.ld; i < (size_t)c.m * c.ld; i++)
        if (!strcmp(what, "embed"))
            r->wrong += !isnan(float(o.x[i]));
    gk_ok(r->wrong == 0 && e <= bound_of<T>() && e8 <= 0.04 && r->scale <= 1e-3,
          "%s %s %d x %d of %d, %d splits, rows %d: error %.2g, e4m3 %.2g, scale %.2g, %zu wrong",
          what, type_of<T>() == GK_F16 ? "f16" : "bf16", c.m, c.hidden, c.ld, c.splits, c.rows, e,
          e8, r->scale, r->wrong);
}

template <typename T> void check_add(const struct rows_case &c)
{
    size_t all = (size_t)c.m * c.ld;
    int rows = c.rows ? c.rows : c.m, parts = c.splits ? c.splits : 1;
    T *x = gk_random<T>(all, 1, 1), *y = gk_random<T>(all, 2, 2);
    __nv_fp8_e4m3 *x8 = gk_poisoned<__nv_fp8_e4m3>(all);
    float *scale = gk_poisoned<float>(c.m), *partial = gk_random<float>(all * parts, 1, 3);
    float *bias = gk_random<float>(c.ld, 1, 4), *gamma = gk_random<float>(c.hidden, 1, 5);
    float *beta = gk_random<float>(c.hidden, 1, 6);
    int32_t *count = device_copy(std::vector<int32_t>{ c.rows });
    std::vector<T> hx = gk_host(x, all), hy = gk_host(y, all);
    std::vector<float> hp = gk_host(partial, all * parts), hb = gk_host(bias, c.ld);
    std::vector<float> hg = gk_host(gamma, c.hidden), hbeta = gk_host(beta, c.hidden);
    struct result r = {};
    struct gk_norm n = {};

    n.type = type_of<T>();
    n.m = c.m, n.hidden = c.hidden, n.ld = (size_t)c.ld;
    n.rows = c.rows ? count : NULL;
    n.x = x;
    n.y = c.splits ? NULL : y;
    n.partial = partial, n.splits = c.splits, n.bias = bias;
    n.gamma = gamma, n.beta = beta, n.eps = EPS;
    n.x8 = c.e4m3 ? x8 : NULL, n.x8_scale = scale;
    MUST(gk_add_norm(&n, 0));
    MUST(cudaDeviceSynchronize());
    outputs<T> o = { gk_host(x, all), gk_host(x8, all), gk_host(scale, c.m) };
    for (int i = 0; i < rows; i++) {
        std::vector<double> v(c.hidden);

        for (int j = 0; j < c.hidden; j++) {
            size_t at = (size_t)i * c.ld + j;

            v[j] = float(hx[at]);
            v[j] += c.splits ? hb[j] : float(hy[at]);
            for (int s = 0; s < c.splits; s++)
                v[j] += hp[s * all + at];
        }
        layer_norm(v, hg, hbeta);
        compare_row(c, o, i, v, &r);
    }
    report("add_norm", c, o, &r);
    for (void *p : { (void *)x, (void *)y, (void *)x8, (void *)scale, (void *)partial, (void *)bias,
                     (void *)gamma, (void *)beta, (void *)count })
        MUST(cudaFree(p));
}

template <typename T> void check_embed(const struct rows_case &c)
{
    const int words = 500, places = 300;
    size_t all = (size_t)c.m * c.ld;
    int rows = c.rows ? c.rows : c.m;
    T *word = gk_random<T>((size_t)words * c.ld, 1, 1), *type = gk_random<T>(2 * c.ld, 1, 3);
    T *place = gk_random<T>((size_t)places * c.ld, 1, 2), *x = gk_poisoned<T>(all);
    __nv_fp8_e4m3 *x8 = gk_poisoned<__nv_fp8_e4m3>(all);
    float *scale = gk_poisoned<float>(c.m), *gamma = gk_random<float>(c.hidden, 1, 5);
    float *beta = gk_random<float>(c.hidden, 1, 6);
    std::vector<T> hw = gk_host(word, (size_t)words * c.ld), ht = gk_host(type, 2 * c.ld);
    std::vector<T> hp = gk_host(place, (size_t)places * c.ld);
    std::vector<float> hg = gk_host(gamma, c.hidden), hbeta = gk_host(beta, c.hidden);
    std::vector<uint32_t> ids(c.m), at(c.m);
    std::vector<uint8_t> types(c.m);
    int32_t *count = device_copy(std::vector<int32_t>{ c.rows });
    struct result r = {};
    struct gk_embed e = {};

    for (int i = 0; i < c.m; i++) {
        ids[i] = gk_hash(i, 7) % words, at[i] = gk_hash(i, 8) % places;
        types[i] = gk_hash(i, 9) % 2;
    }
    uint32_t *dids = device_copy(ids), *dat = device_copy(at);
    uint8_t *dtypes = device_copy(types);
    e.type = type_of<T>();
    e.m = c.m, e.hidden = c.hidden, e.ld = (size_t)c.ld;
    e.rows = c.rows ? count : NULL;
    e.ids = dids, e.positions = dat, e.types = c.types ? dtypes : NULL;
    e.word = word, e.position = place, e.token_type = c.splits ? NULL : type;
    e.gamma = gamma, e.beta = beta, e.eps = EPS;
    e.x = x, e.x8 = c.e4m3 ? x8 : NULL, e.x8_scale = scale;
    MUST(gk_embed(&e, 0));
    MUST(cudaDeviceSynchronize());
    outputs<T> o = { gk_host(x, all), gk_host(x8, all), gk_host(scale, c.m) };
    for (int i = 0; i < rows; i++) {
        std::vector<double> v(c.hidden);

        for (int j = 0; j < c.hidden; j++)
            v[j] = (double)float(hw[(size_t)ids[i] * c.ld + j]) +
                   float(hp[(size_t)at[i] * c.ld + j]) +
                   (c.splits ? 0 : float(ht[(c.types ? types[i] : 0) * c.ld + j]));
        layer_norm(v, hg, hbeta);
        compare_row(c, o, i, v, &r);
    }
    report("embed", c, o, &r);
    for (void *p :
         { (void *)word, (void *)type, (void *)place, (void *)x, (void *)x8, (void *)scale,
           (void *)gamma, (void *)beta, (void *)count, (void *)dids, (void *)dat, (void *)dtypes })
        MUST(cudaFree(p));
}

/* A row has the same bits in a small and in a large batch. */
void check_bits(int hidden)
{
    const int many = 5000, few = 40;
    size_t ld = (size_t)(hidden + GK_PAD - 1) / GK_PAD * GK_PAD;
    __half *x = gk_random<__half>(many * ld, 1, 1), *y = gk_random<__half>(many * ld, 2, 2);
    __half *z = gk_random<__half>(many * ld, 1, 1);
    float *gamma = gk_random<float>(hidden, 1, 5), *beta = gk_random<float>(hidden, 1, 6);
    struct gk_norm n = {};

    n.m = many, n.hidden = hidden, n.ld = ld;
    n.x = x, n.y = y;
    n.gamma = gamma, n.beta = beta, n.eps = EPS;
    MUST(gk_add_norm(&n, 0));
    n.m = few;
    n.x = z;
    MUST(gk_add_norm(&n, 0));
    std::vector<__half> a = gk_host(x, few * ld), b = gk_host(z, few * ld);
    gk_ok(memcmp(a.data(), b.data(), few * ld * sizeof(__half)) == 0,
          "add_norm of %d: a row's bits do not depend on the number of rows", hidden);
    for (void *p : { (void *)x, (void *)y, (void *)z, (void *)gamma, (void *)beta })
        MUST(cudaFree(p));
}

/* ---- pooling ---- */
struct pool_host {
    std::vector<double> x; /* [count][ld] of one sequence */
    int count, ld, hidden, skip;
};
double pooled(enum gk_pool_kind kind, const struct pool_host &h, int column)
{
    int skip = std::min(h.skip, h.count), n = h.count - skip;
    double sum = 0, weights = 0, most = -INFINITY;

    for (int t = skip; t < h.count; t++) {
        double v = h.x[(size_t)t * h.ld + column];

        sum += kind == GK_POOL_WEIGHTED ? v * (t + 1) : v;
        weights += t + 1;
        most = fmax(most, v);
    }
    switch (kind) {
    case GK_POOL_MEAN:
        return sum / std::max(n, 1);
    case GK_POOL_MEAN_SQRT:
        return sum / fmax(sqrt((double)n), 1);
    case GK_POOL_WEIGHTED:
        return sum / fmax(weights, 1);
    case GK_POOL_MAX:
        return most;
    case GK_POOL_CLS:
        return h.x[(size_t)(n ? skip : 0) * h.ld + column];
    default:
        return n ? h.x[(size_t)(h.count - 1) * h.ld + column] : 0;
    }
}

template <typename T>
void check_pool(int hidden, const std::vector<enum gk_pool_kind> &kinds, bool skips, bool normalize)
{
    static const int lengths[] = { 1, 2, 3, 32, 5, 8, 300, 31, 64, 600, 1, 17 };
    std::vector<uint32_t> starts{ 0 }, skip;
    size_t ld = (size_t)(hidden + GK_PAD - 1) / GK_PAD * GK_PAD, width = kinds.size() * hidden;
    size_t bad = 0;
    double worst = 0;

    for (int l : lengths) {
        skip.push_back(skip.size() % 3 == 1 ? (uint32_t)l + skip.size() % 2 : (uint32_t)l / 3);
        starts.push_back(starts.back() + (uint32_t)l);
    }
    int sequences = (int)skip.size(), there = sequences - 1;
    T *x = gk_random<T>(starts.back() * ld, 1, 1);
    float *out = gk_poisoned<float>(sequences * width);
    uint32_t *dstarts = device_copy(starts), *dskip = device_copy(skip);
    int32_t *count = device_copy(std::vector<int32_t>{ there });
    std::vector<T> hx = gk_host(x, starts.back() * ld);
    struct gk_pool p = {};

    p.type = type_of<T>();
    p.sequences = sequences, p.count = count;
    p.hidden = hidden, p.ld = ld, p.x = x;
    p.starts = dstarts, p.skip = skips ? dskip : NULL;
    p.kind_count = (int)kinds.size();
    std::copy(kinds.begin(), kinds.end(), p.kinds);
    p.normalize = normalize, p.out = out;
    MUST(gk_pool(&p, 0));
    std::vector<float> o = gk_host(out, sequences * width);
    for (int s = 0; s < sequences; s++) {
        struct pool_host h = {
            {}, (int)(starts[s + 1] - starts[s]), (int)ld, hidden, skips ? (int)skip[s] : 0
        };
        std::vector<double> v(width);
        double norm = 0;

        for (size_t i = starts[s] * ld; i < starts[s + 1] * ld; i++)
            h.x.push_back(float(hx[i]));
        for (size_t j = 0; j < width; j++) {
            v[j] = pooled(kinds[j / hidden], h, (int)(j % hidden));
            norm += v[j] * v[j];
        }
        norm = normalize ? fmax(sqrt(norm), 1e-12) : 1;
        for (size_t j = 0; j < width; j++) {
            double got = o[s * width + j], want = v[j] / norm;

            if (s >= there)
                bad += !isnan(got);
            else if (isfinite(want))
                worst = fmax(worst, isfinite(got) ? fabs(got - want) : INFINITY);
            else
                bad += isnan(want) ? !isnan(got) : got != want;
        }
    }
    gk_ok(bad == 0 && worst <= 3e-6,
          "pool %d, %zu kinds from %d, skip %d, normalize %d: %.2g, %zu wrong", hidden,
          kinds.size(), kinds[0], skips, normalize, worst, bad);
    for (void *q : { (void *)x, (void *)out, (void *)dstarts, (void *)dskip, (void *)count })
        MUST(cudaFree(q));
}

void check_dense(int sequences, int in, int n, enum gk_dense_act act, bool normalize)
{
    float *x = gk_random<float>((size_t)sequences * in, 1, 1);
    float *w = gk_random<float>((size_t)n * in, 1 / sqrtf((float)in), 2);
    float *bias = gk_random<float>(n, 1, 3), *out = gk_poisoned<float>((size_t)sequences * n);
    struct gk_dense d = { sequences, NULL, in, n, x, w, bias, act, normalize, out, false };
    double worst = 0;

    MUST(gk_dense(&d, 0));
    std::vector<float> hx = gk_host(x, (size_t)sequences * in), hw = gk_host(w, (size_t)n * in);
    std::vector<float> hb = gk_host(bias, n), o = gk_host(out, (size_t)sequences * n);
    for (int s = 0; s < sequences; s++) {
        std::vector<double> v(n);
        double norm = 0;

        for (int j = 0; j < n; j++) {
            double y = hb[j];
            for (int i = 0; i < in; i++)
                y += (double)hw[(size_t)j * in + i] * hx[(size_t)s * in + i];
            v[j] = act == GK_DENSE_TANH   ? tanh(y)
                   : act == GK_DENSE_RELU ? fmax(y, 0)
                   : act == GK_DENSE_GELU ? 0.5 * y * (1 + erf(y * M_SQRT1_2))
                                          : y;
            norm += v[j] * v[j];
        }
        for (int j = 0; j < n; j++) {
            double got = o[(size_t)s * n + j], want = v[j] / (normalize ? sqrt(norm) : 1);
            worst = fmax(worst, isfinite(got) ? fabs(got - want) : INFINITY);
        }
    }
    gk_ok(worst <= 5e-6, "dense %d x %d x %d, act %d, normalize %d: %.2g", sequences, n, in, act,
          normalize, worst);
    for (void *p : { (void *)x, (void *)w, (void *)bias, (void *)out })
        MUST(cudaFree(p));
}

/* ---- packing ---- */
template <typename T> void check_pack(int n, int k, bool by_row)
{
    const int n_pad = (n + 63) / 64 * 64, k_pad = (k + 63) / 64 * 64;
    size_t all = (size_t)n_pad * k_pad, bad = 0;
    float *w = gk_random<float>((size_t)n * k, 0.05f, 1), *scale = gk_poisoned<float>(n_pad);
    T *out = gk_poisoned<T>(all);
    double num = 0, den = 0, tensor = 0;

    MUST(gk_pack(type_of<T>(), w, n, k, n_pad, k_pad, out, scale, by_row, 0));
    std::vector<float> hw = gk_host(w, (size_t)n * k), hs = gk_host(scale, n_pad);
    std::vector<T> o = gk_host(out, all);
    for (float v : hw)
        tensor = fmax(tensor, fabs(v));
    for (int i = 0; i < n_pad; i++) {
        double most = 0, s = sizeof(T) == 1 ? hs[i] : 1;

        for (int j = 0; j < k_pad; j++) {
            double y = i < n && j < k ? hw[(size_t)i * k + j] : 0,
                   x = float(o[(size_t)i * k_pad + j]) * s;

            bad += !isfinite(x) || (y == 0 && x != 0);
            num += (x - y) * (x - y), den += y * y;
            most = fmax(most, fabs(y));
        }
        if (sizeof(T) == 1 && (by_row ? i < n : true))
            bad += !(fabs(s * 448 / (by_row ? most : tensor) - 1) < 1e-5);
    }
    gk_ok(bad == 0 && sqrt(num / den) <= (sizeof(T) == 1 ? 0.04 : bound_of<T>()),
          "pack %d x %d, %zu bytes, by row %d: error %.2g, %zu wrong", n, k, sizeof(T), by_row,
          sqrt(num / den), bad);
    for (void *p : { (void *)w, (void *)scale, (void *)out })
        MUST(cudaFree(p));
}
template <typename T> void check_widen(int m, int hidden)
{
    size_t ld = (size_t)(hidden + 63) / 64 * 64, bad = 0;
    T *x = gk_random<T>(m * ld, 1, 1);
    float *out = gk_poisoned<float>((size_t)m * hidden);

    MUST(gk_widen(type_of<T>(), x, ld, m, hidden, out, 0));
    std::vector<T> hx = gk_host(x, m * ld);
    std::vector<float> o = gk_host(out, (size_t)m * hidden);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < hidden; j++)
            bad += !(o[(size_t)i * hidden + j] == float(hx[i * ld + j]));
    gk_ok(bad == 0, "widen %d x %d: %zu wrong", m, hidden, bad);
    MUST(cudaFree(x));
    MUST(cudaFree(out));
}

/* The mean of rows, and the bias with which rounded weights give for it what others gave. */
template <typename T> void check_rebias(int m, int n, int k)
{
    const size_t all = (size_t)n * k;
    T *x = gk_random<T>((size_t)m * k, 1, 1);
    float *w = gk_random<float>(all, 0.05f, 2), *from = gk_random<float>(n, 1, 3);
    float *mean = gk_poisoned<float>(k), *to = gk_poisoned<float>(n);
    float *scale = gk_poisoned<float>(n);
    __nv_fp8_e4m3 *w8 = gk_poisoned<__nv_fp8_e4m3>(all);
    double worst = 0, off = 0;

    MUST(gk_pack(GK_E4M3, w, n, k, n, k, w8, scale, true, 0));
    MUST(gk_mean(type_of<T>(), x, (size_t)k, m, k, mean, 0));
    MUST(gk_rebias(w, w8, scale, n, k, mean, from, to, 0));
    std::vector<T> hx = gk_host(x, (size_t)m * k);
    std::vector<float> hm = gk_host(mean, k), hw = gk_host(w, all), hs = gk_host(scale, n);
    std::vector<float> hf = gk_host(from, n), ht = gk_host(to, n);
    std::vector<__nv_fp8_e4m3> h8 = gk_host(w8, all);
    for (int j = 0; j < k; j++) {
        double sum = 0;

        for (int i = 0; i < m; i++)
            sum += float(hx[(size_t)i * k + j]);
        worst = fmax(worst, isfinite(hm[j]) ? fabs(hm[j] - sum / m) : INFINITY);
    }
    for (int i = 0; i < n; i++) {
        double was = hf[i], is = ht[i];

        for (int j = 0; j < k; j++) {
            was += (double)hw[(size_t)i * k + j] * hm[j];
            is += (double)float(h8[(size_t)i * k + j]) * hs[i] * hm[j];
        }
        off = fmax(off, isfinite(is) ? fabs(is - was) : INFINITY);
    }
    gk_ok(worst <= 1e-5 && off <= 1e-5, "mean of %d rows, bias of %d x %d: %.2g, %.2g", m, n, k,
          worst, off);
    for (void *p : { (void *)x, (void *)w, (void *)from, (void *)mean, (void *)to, (void *)scale,
                     (void *)w8 })
        MUST(cudaFree(p));
}

/* ---- speed ---- */
/* us of one launch in a chain of them that follow each other in a graph, overlapped */
template <typename F> float in_chain(F launch)
{
    const int times = 100;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStream_t s;
    float ms;

    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < times; i++)
        launch(s);
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    ms = gk_time([&](int) { MUST(cudaGraphLaunch(exec, 0)); });
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(s));
    return ms * 1e3f / times;
}

void speed_norm(int m, int hidden, int splits, bool e4m3)
{
    size_t all = (size_t)m * hidden;
    __half *x = gk_random<__half>(all, 1, 1), *y = gk_random<__half>(all, 1, 2);
    uint8_t *x8 = gk_poisoned<uint8_t>(all);
    float *partial = gk_random<float>(splits ? all * splits : 1, 1, 3);
    float *bias = gk_random<float>(hidden, 1, 4), *scale = gk_poisoned<float>(m);
    struct gk_norm n = {};
    float us;

    n.m = m, n.hidden = hidden, n.ld = (size_t)hidden;
    n.x = x, n.y = splits ? NULL : y, n.partial = partial, n.splits = splits;
    n.bias = n.gamma = n.beta = bias, n.eps = EPS;
    n.x8 = e4m3 ? x8 : NULL, n.x8_scale = scale;
    n.pdl = splits > 0;
    us = splits ? in_chain([&](cudaStream_t s) { MUST(gk_add_norm(&n, s)); })
                : 1e3f * gk_time([&](int) { MUST(gk_add_norm(&n, 0)); });
    printf("# add_norm %d x %d, %d splits%s: %.2f us, %.2f TB/s\n", m, hidden, splits,
           e4m3 ? ", e4m3" : "", us,
           (splits ? 4.0 + 4 * splits
            : e4m3 ? 7
                   : 6) *
               all / us * 1e-6);
    fflush(stdout);
    for (void *p :
         { (void *)x, (void *)y, (void *)x8, (void *)partial, (void *)bias, (void *)scale })
        MUST(cudaFree(p));
}
void speed_embed(int m, int hidden)
{
    const int words = 200000;
    __half *word = gk_random<__half>((size_t)words * hidden, 1, 1);
    __half *x = gk_poisoned<__half>((size_t)m * hidden);
    float *bias = gk_random<float>(hidden, 1, 4);
    std::vector<uint32_t> ids(m), at(m);
    struct gk_embed e = {};
    float us;

    for (int i = 0; i < m; i++)
        ids[i] = gk_hash(i, 7) % words, at[i] = i % 512;
    uint32_t *dids = device_copy(ids), *dat = device_copy(at);
    e.m = m, e.hidden = hidden, e.ld = (size_t)hidden;
    e.ids = dids, e.positions = dat, e.word = e.position = e.token_type = word;
    e.gamma = e.beta = bias, e.eps = EPS, e.x = x;
    e.pdl = m <= 64;
    us = m <= 64 ? in_chain([&](cudaStream_t s) { MUST(gk_embed(&e, s)); })
                 : 1e3f * gk_time([&](int) { MUST(gk_embed(&e, 0)); });
    printf("# embed %d x %d: %.2f us, %.2f TB/s\n", m, hidden, us, 4.0 * m * hidden / us * 1e-6);
    for (void *p : { (void *)word, (void *)x, (void *)bias, (void *)dids, (void *)dat })
        MUST(cudaFree(p));
}
void speed_pool(int sequences, int length, int hidden, enum gk_pool_kind kind)
{
    size_t all = (size_t)sequences * length * hidden;
    __half *x = gk_random<__half>(all, 1, 1);
    float *out = gk_poisoned<float>((size_t)sequences * hidden), us;
    std::vector<uint32_t> starts;
    struct gk_pool p = {};

    for (int i = 0; i <= sequences; i++)
        starts.push_back((uint32_t)(i * length));
    uint32_t *d = device_copy(starts);
    p.sequences = sequences, p.hidden = hidden, p.ld = (size_t)hidden, p.x = x, p.starts = d;
    p.kinds[0] = kind, p.kind_count = 1, p.normalize = true, p.out = out, p.pdl = sequences == 1;
    us = sequences == 1 ? in_chain([&](cudaStream_t s) { MUST(gk_pool(&p, s)); })
                        : 1e3f * gk_time([&](int) { MUST(gk_pool(&p, 0)); });
    printf("# pool %d x %d x %d, kind %d: %.2f us, %.2f TB/s\n", sequences, length, hidden, kind,
           us, 2.0 * all / us * 1e-6);
    MUST(cudaFree(x));
    MUST(cudaFree(out));
    MUST(cudaFree(d));
}
void speed_dense(int sequences, int in, int n)
{
    float *x = gk_random<float>((size_t)sequences * in, 1, 1), us;
    float *w = gk_random<float>((size_t)n * in, 1, 2), *out = gk_poisoned<float>(sequences * n);
    struct gk_dense d = { sequences, NULL, in, n, x, w, NULL, GK_DENSE_TANH, false, out, true };

    us = in_chain([&](cudaStream_t s) { MUST(gk_dense(&d, s)); });
    printf("# dense %d x %d x %d: %.2f us\n", sequences, n, in, us);
    for (void *p : { (void *)x, (void *)w, (void *)out })
        MUST(cudaFree(p));
}

void check_all_rows(void)
{
    static const int widths[][2] = { { 1024, 1024 }, { 768, 768 }, { 384, 384 },   { 312, 320 },
                                     { 100, 128 },   { 30, 64 },   { 2048, 2048 }, { 1027, 1088 } };
    int i = 0;

    for (const int *w : widths)
        for (int m : { 1, 7, 65, 300, 1500 }) {
            struct rows_case c = {
                m, w[0], w[1], i % 2 ? i % 9 : 0, i % 4 == 3 ? m / 2 : 0, i % 3 == 0, i % 5 != 0
            };

            if (i % 2)
                check_add<__half>(c), check_embed<__nv_bfloat16>(c);
            else
                check_add<__nv_bfloat16>(c), check_embed<__half>(c);
            i++;
        }
    for (int hidden : { 1024, 1020, 768, 384, 100 })
        check_bits(hidden);
}
void check_all_pools(void)
{
    static const enum gk_pool_kind each[] = { GK_POOL_MEAN, GK_POOL_CLS,       GK_POOL_MAX,
                                              GK_POOL_LAST, GK_POOL_MEAN_SQRT, GK_POOL_WEIGHTED };

    for (int i = 0; i < 6; i++) {
        check_pool<__half>(384, { each[i] }, i % 2, true);
        check_pool<__nv_bfloat16>(1024, { each[i] }, true, false);
    }
    check_pool<__half>(100, { each, each + 6 }, true, false);
    check_pool<__half>(1024, { each, each + 6 }, false, true);
    check_pool<__half>(770, { each[0], each[2] }, false, true);
    check_dense(1, 1024, 1024, GK_DENSE_TANH, false);
    check_dense(7, 1024, 2, GK_DENSE_NONE, false);
    check_dense(5, 770, 33, GK_DENSE_RELU, true);
    check_dense(3, 333, 65, GK_DENSE_GELU, true);
    check_dense(2, 2048, 257, GK_DENSE_NONE, true);
}

} // namespace

int main(void)
{
    check_all_rows();
    check_all_pools();
    for (bool by_row : { false, true }) {
        check_pack<__nv_fp8_e4m3>(100, 333, by_row);
        check_pack<__nv_fp8_e4m3>(384, 384, by_row);
    }
    check_pack<__half>(100, 333, false);
    check_pack<__nv_bfloat16>(65, 64, false);
    check_widen<__half>(33, 333);
    check_widen<__nv_bfloat16>(33, 384);
    check_rebias<__half>(351, 192, 1088);
    check_rebias<__nv_bfloat16>(7, 64, 64);
    for (int hidden : { 1024, 768, 384 }) {
        speed_norm(65536, hidden, 0, false);
        speed_norm(65536, hidden, 0, true);
        speed_embed(65536, hidden);
        for (int splits : { 2, 4, 8 })
            speed_norm(32, hidden, splits, false);
        speed_embed(32, hidden);
        speed_pool(4096, 122, hidden, GK_POOL_MEAN);
        speed_pool(1, 32, hidden, GK_POOL_MEAN);
        speed_pool(1, 512, hidden, GK_POOL_MEAN);
    }
    speed_pool(4096, 122, 1024, GK_POOL_MAX);
    speed_pool(4096, 122, 1024, GK_POOL_CLS);
    speed_dense(1, 1024, 1024);
    speed_dense(100, 1024, 1024);
    return gk_done();
}
