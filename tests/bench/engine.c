/* SPDX-License-Identifier: MIT */
/* engine: tokens a second of the CPU engine on a model directory, by the clock on the wall
 * (median) and for each second of CPU time, which others on the machine disturb less.
 *
 *     bench-engine MODEL-DIR [SECONDS-A-CASE [ISA]]
 *
 * Random ids, so that no two sequences are alike.  The fraction is the operations of linear
 * layers and attention over all the CPU time, against what the same registers reach with
 * nothing to load, measured between the runs. */
#include "engine/engine.h"
#include "engine/cpu/cpu_int.h"

#include <time.h>

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

/* Multiplications and additions of one sequence. */
static double operations(const struct model *m, size_t n)
{
    double wide = (double)(m->heads * m->head_dim), hidden = (double)m->hidden, len = (double)n;
    double linear = 2 * (4 * wide * hidden + 2 * hidden * (double)m->ffn);

    return len * (double)m->layers * (linear + 4 * len * wide);
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

static double cpu_time(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static double peak_rate(enum eng_dtype dtype)
{
    enum cpu_isa best = cpu_isa_best();
    const struct cpu_gemm *g = dtype == ENG_F32 ? &cpu_avx2_f32 : NULL;
    volatile float sink;

    for (size_t i = 0; cpu_gemms[i]; i++)
        if (cpu_gemms[i]->isa <= best && ((dtype == ENG_F32 && cpu_gemms[i]->b == CPU_E_F32) ||
                                          (dtype == ENG_BF16 && cpu_gemms[i]->a == CPU_E_BF16) ||
                                          (dtype == ENG_I8 && cpu_gemms[i]->b == CPU_E_S8)))
            g = cpu_gemms[i];
    if (!g)
        g = &cpu_avx2_f32;
    size_t rounds = (size_t)(2e7 / g->peak_ops) + 1;
    double start = read_clock(CLOCK_THREAD_CPUTIME_ID);
    sink = g->peak(rounds);
    (void)sink;
    return (double)rounds * g->peak_ops / (read_clock(CLOCK_THREAD_CPUTIME_ID) - start);
}

static enum rc bench(const struct model *m, const struct eng_opts *o, size_t sequences, size_t n,
                     double seconds, struct err *err)
{
    static const char *const types[] = { "auto", "f32", "bf16", "int8" };
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
        peak[runs] = peak_rate(o->dtype);
        double start = now(), cpu_start = cpu_time();
        rc = eng_run(e, &b, ENG_VECTORS, out, err);
        wall[runs] = (double)(sequences * n) / (now() - start);
        cpu[runs] = (double)(sequences * n) / (cpu_time() - cpu_start);
    }
    if (rc == RC_OK && runs) {
        double a_cpu = median(cpu, runs), ops = a_cpu / (double)n * operations(m, n);
        printf("RESULT engine.%s.%s.%zux%zu.%dthr %.0f tokens/s; for a CPU second %.0f, %.1f "
               "GFLOP, %.2f of the peak\n",
               m->name, types[o->dtype], sequences, n, o->threads, median(wall, runs), a_cpu,
               ops * 1e-9, ops / median(peak, runs));
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
    enum rc rc = argc > 1
                     ? model_open(argv[1], &m, &err)
                     : err_set(&err, RC_USAGE, "usage: bench-engine MODEL-DIR [SECONDS [ISA]]");

    for (int threads = 1; rc == RC_OK && threads <= 2; threads++)
        for (enum eng_dtype t = ENG_F32; t <= ENG_I8; t++)
            for (size_t c = 0; rc == RC_OK && c < ARRAY_SIZE(cases); c++) {
                struct eng_opts o = { .dtype = t,
                                      .threads = threads,
                                      .isa = argc > 3 ? argv[3] : NULL };
                if (cases[c].n <= eng_tokens_max(m) && m->hidden <= 1024)
                    rc = bench(m, &o, cases[c].sequences, cases[c].n, seconds, &err);
            }
    if (rc != RC_OK)
        (void)fprintf(stderr, "bench-engine: %s\n", err.msg);
    model_close(m);
    return rc_exit(rc);
}
