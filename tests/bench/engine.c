/* SPDX-License-Identifier: MIT */
/* engine: tokens a second of the CPU engine on a model directory, by the clock on the wall
 * (median) and for each second of CPU time, which others on the machine disturb less.
 *
 *     bench-engine MODEL-DIR [SECONDS-A-CASE [ISA|- [f32|bf16|int8]]]
 *
 * Random ids, so that no two sequences are alike.  The fraction is the operations of linear
 * layers and attention over all the CPU time, against what the same registers reach with
 * nothing to load, measured between the runs.
 *
 * A second pass asks where the time goes: the kernels of a loaded model are replaced by
 * functions that read the cycle counter around them.  `linear` is the operations of the
 * linear layers over the time inside their kernels, of the peak again; where two kernels serve
 * them, each by its own peak (one of split words is three products of bytes). */
#include "engine/cpu/cpu_net_int.h"

#include <time.h>
#include <x86intrin.h>

enum { RUNS_MAX = 2000, TOKENS = 4096 };

static double read_clock(clockid_t which)
{
    struct timespec t;

    clock_gettime(which, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static double cpu_time(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

/* Multiplications and additions of one sequence. */
static double operations(const struct model *m, size_t n)
{
    double wide = (double)(m->heads * m->head_dim), hidden = (double)m->hidden, len = (double)n;
    double linear = 2 * (4 * wide * hidden + 2 * hidden * (double)m->ffn);

    return len * (double)m->layers * (linear + 4 * len * wide);
}

static double peak_rate(const struct cpu_gemm *g)
{
    size_t rounds = (size_t)(2e7 / g->peak_ops) + 1;
    double start = read_clock(CLOCK_THREAD_CPUTIME_ID);
    volatile float sink = g->peak(rounds);

    (void)sink;
    return (double)rounds * g->peak_ops / (read_clock(CLOCK_THREAD_CPUTIME_ID) - start);
}

/* ---- where the time goes */

enum part { LINEAR, ATT_PRODUCTS, LAYERNORM, QUANTIZE, SOFTMAX, ATT_PACKING, PARTS };
static const char *const part_names[] = { "linear",  "attention products", "layernorm", "quantize",
                                          "softmax", "attention packing" };
static _Atomic uint64_t cycles_in[PARTS], linear_ops;
static const struct cpu_gemm *real_lin, *real_normed, *real_att;
static const struct cpu_vec *real_vec;

static void count(enum part part, uint64_t since)
{
    atomic_fetch_add_explicit(&cycles_in[part], __rdtsc() - since, memory_order_relaxed);
}

static void timed(const struct cpu_gemm *g, const struct cpu_job *j, size_t m0, size_t m1,
                  size_t p0, size_t p1)
{
    uint64_t t = __rdtsc();

    g->run(j, m0, m1, p0, p1);
    count(LINEAR, t);
    size_t cols = (p1 * g->nr < j->n ? p1 * g->nr : j->n) - p0 * g->nr;
    double ops = 2.0 * (double)((m1 - m0) * cols * j->k) * real_lin->peak_ops / g->peak_ops;
    atomic_fetch_add_explicit(&linear_ops, (uint64_t)ops, memory_order_relaxed);
}

static void timed_lin(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    timed(real_lin, j, m0, m1, p0, p1);
}

static void timed_normed(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    timed(real_normed, j, m0, m1, p0, p1);
}

static void timed_att(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    uint64_t t = __rdtsc();

    real_att->run(j, m0, m1, p0, p1);
    count(ATT_PRODUCTS, t);
}

static void timed_layernorm(float *x, const float *add, const float *add_bias, size_t n,
                            const float *g, const float *b, float eps, float *y, uint16_t *out)
{
    uint64_t t = __rdtsc();

    real_vec->layernorm(x, add, add_bias, n, g, b, eps, y, out);
    count(LAYERNORM, t);
}

static void timed_quantize(const void *x, enum cpu_elem elem, const float *mul, size_t n,
                           size_t block, float *room, uint8_t *q, float *scale, int32_t *zero)
{
    uint64_t t = __rdtsc();

    real_vec->quantize(x, elem, mul, n, block, room, q, scale, zero);
    count(QUANTIZE, t);
}

static void timed_split(const void *x, enum cpu_elem elem, size_t n, size_t apart, int8_t *q,
                        float *scale)
{
    uint64_t t = __rdtsc();

    real_vec->split(x, elem, n, apart, q, scale);
    count(QUANTIZE, t);
}

static float timed_softmax(const float *s, size_t n, size_t padded, float mul, const float *bias,
                           void *p, enum cpu_elem elem)
{
    uint64_t t = __rdtsc();
    float sum = real_vec->softmax(s, n, padded, mul, bias, p, elem);

    count(SOFTMAX, t);
    return sum;
}

static void timed_keys(const void *src, size_t ld, size_t rows, size_t words, size_t words_padded,
                       size_t nr, uint32_t *dst)
{
    uint64_t t = __rdtsc();

    real_vec->pack_keys(src, ld, rows, words, words_padded, nr, dst);
    count(ATT_PACKING, t);
}

static void timed_values(const void *src, size_t ld, size_t rows, size_t rows_padded, size_t cols,
                         size_t nr, enum cpu_elem elem, void *dst)
{
    uint64_t t = __rdtsc();

    real_vec->pack_values(src, ld, rows, rows_padded, cols, nr, elem, dst);
    count(ATT_PACKING, t);
}

static double peak_a_cycle(const struct cpu_gemm *g, uint64_t ops)
{
    size_t rounds = (size_t)((double)ops / g->peak_ops) + 1;
    uint64_t t = __rdtsc();
    volatile float sink = g->peak(rounds);

    (void)sink;
    return (double)rounds * g->peak_ops / (double)(__rdtsc() - t);
}

/* After each run the peak, for as many operations as one thread did in linear layers: the
 * median of their ratios, since both see the same slow and fast times of a shared machine. */
static enum rc profile(struct cpu_net *e, const struct eng_batch *b, const char *name,
                       double seconds, float *out, struct err *err)
{
    struct cpu_gemm lin = *e->lin, normed = *e->lin_normed, att = *e->att;
    struct cpu_vec vec = *e->vec;
    static double ratio[RUNS_MAX];
    uint64_t all = 0;
    size_t runs = 0;
    enum rc rc = RC_OK;

    real_lin = e->lin, real_normed = e->lin_normed, real_att = e->att, real_vec = e->vec;
    lin.run = timed_lin, normed.run = timed_normed, att.run = timed_att;
    vec.layernorm = timed_layernorm, vec.quantize = timed_quantize, vec.split = timed_split,
    vec.softmax = timed_softmax;
    vec.pack_keys = timed_keys, vec.pack_values = timed_values;
    e->lin = &lin, e->lin_normed = &normed, e->att = &att, e->vec = &vec;
    memset(cycles_in, 0, sizeof(cycles_in));
    for (double end = now() + seconds; rc == RC_OK && runs < RUNS_MAX && now() < end; runs++) {
        uint64_t before = cycles_in[LINEAR], ops = linear_ops, t = __rdtsc();
        double rate;
        rc = eng_run(&e->base, b, ENG_VECTORS, out, err);
        all += (__rdtsc() - t) * e->threads;
        ops = linear_ops - ops;
        rate = (double)ops / (double)(cycles_in[LINEAR] - before);
        ratio[runs] = rate / peak_a_cycle(real_lin, ops / e->threads);
    }
    e->lin = real_lin, e->lin_normed = real_normed, e->att = real_att, e->vec = real_vec;
    if (rc != RC_OK || !runs)
        return rc;
    uint64_t rest = all;
    printf("#   time:");
    for (size_t i = 0; i < PARTS; rest -= cycles_in[i] < rest ? cycles_in[i] : rest, i++)
        printf(" %s %.1f%%,", part_names[i], 100.0 * (double)cycles_in[i] / (double)all);
    printf(" rest and waiting %.1f%%\n", 100.0 * (double)rest / (double)all);
    double fraction = median(ratio, runs);
    printf("#   linear layers at %.3f of the peak\n", fraction);
    if (real_lin == &cpu_amx_bf16 && b->starts[b->sequences] == TOKENS)
        printf("RESULT amx.encoder.fraction.%s %.3f share 0.40 %s\n", name + strlen("engine."),
               fraction, fraction >= 0.4 ? "ok" : "short");
    return RC_OK;
}

static const char *const types[] = { "auto", "f32", "bf16", "int8" };

static enum rc bench(const struct model *m, const struct eng_opts *o, size_t sequences, size_t n,
                     double seconds, struct err *err)
{
    static uint32_t ids[TOKENS], starts[TOKENS + 1];
    static float out[TOKENS * 1024];
    static double wall[RUNS_MAX], cpu[RUNS_MAX], peak[RUNS_MAX];
    struct eng *e = NULL;
    uint32_t seed = 7;
    size_t runs = 0;
    enum rc rc = eng_cpu.load(m, o, &e, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < sequences * n; i++) {
        seed = seed * 1664525u + 1013904223u;
        ids[i] = 5 + (seed >> 8) % (uint32_t)(m->vocab - 5);
    }
    for (size_t s = 0; s <= sequences; s++)
        starts[s] = (uint32_t)(s * n);
    struct eng_batch b = { .ids = ids, .starts = starts, .sequences = sequences };
    rc = eng_run(e, &b, ENG_VECTORS, out, err);
    for (double end = now() + seconds; rc == RC_OK && runs < RUNS_MAX && now() < end; runs++) {
        peak[runs] = peak_rate(((struct cpu_net *)e)->lin);
        double start = now(), cpu_start = cpu_time();
        rc = eng_run(e, &b, ENG_VECTORS, out, err);
        wall[runs] = (double)(sequences * n) / (now() - start);
        cpu[runs] = (double)(sequences * n) / (cpu_time() - cpu_start);
    }
    if (rc == RC_OK && runs) {
        double a_cpu = median(cpu, runs), ops = a_cpu / (double)n * operations(m, n);
        char name[256];
        (void)snprintf(name, sizeof(name), "engine.%s.%s.%zux%zu.%dthr", m->name, types[o->dtype],
                       sequences, n, o->threads);
        printf("RESULT %s %.0f tokens/s; for a CPU second %.0f, %.1f GFLOP, %.2f of the peak\n",
               name, median(wall, runs), a_cpu, ops * 1e-9, ops / median(peak, runs));
        rc = profile((struct cpu_net *)e, &b, name, seconds, out, err);
        (void)fflush(stdout);
    }
    eng_free(e);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct {
        size_t sequences, n;
    } cases[] = { { 1, 16 }, { 1, 128 }, { 32, 128 }, { 8, 512 } };
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 1.0;
    struct model *m = NULL;
    struct err err = { 0 };
    enum rc rc = argc > 1 ? model_open(argv[1], &m, &err)
                          : err_set(&err, RC_USAGE,
                                    "usage: bench-engine MODEL-DIR [SECONDS [ISA|- [DTYPE]]]");

    for (int threads = 1; rc == RC_OK && threads <= 2; threads++)
        for (enum eng_dtype t = ENG_F32; t <= ENG_I8; t++)
            for (size_t c = 0; rc == RC_OK && c < ARRAY_SIZE(cases); c++) {
                struct eng_opts o = { .dtype = t,
                                      .threads = threads,
                                      .isa = argc > 3 && argv[3][0] != '-' ? argv[3] : NULL };
                if (argc > 4 && strcmp(argv[4], types[t]) != 0)
                    continue;
                if (cases[c].n <= eng_tokens_max(m) && m->hidden <= 1024)
                    rc = bench(m, &o, cases[c].sequences, cases[c].n, seconds, &err);
            }
    if (rc != RC_OK)
        (void)fprintf(stderr, "bench-engine: %s\n", err.msg);
    model_close(m);
    return rc_exit(rc);
}
