/* SPDX-License-Identifier: MIT */
/* plan: how fast the whole space of a training job is searched.
 *
 *     bench-plan [MODEL [GPUS [BATCH [SEQ [GPU [ROUNDS]]]]]]
 *
 * configs_per_s is of one thread, by its CPU time; a configuration counts when its memory and its
 * time were computed, and the best of the rounds is taken: others use this machine too.  space_s is
 * of all cores, by the wall clock.  Bytes allocated inside the loops are counted by standing before
 * the allocator: none. */
#include "count_alloc.h"

#include "base/str.h"
#include "os/clock.h"
#include "plan/search.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RATE_WANTED = 2000000, SIZE_WANTED = 952776, SPACE_S_WANTED = 2, ROUNDS = 5 };

struct during { /* allocated between the first and the last report of progress */
    size_t first, last;
};

static void on_progress(void *arg, uint64_t done, uint64_t all)
{
    struct during *d = arg;

    (void)done;
    (void)all;
    d->last = atomic_load(&allocated);
    if (!d->first)
        d->first = d->last;
}

static void fail(const struct err *err)
{
    fprintf(stderr, "bench-plan: %s\n", err->msg);
    exit(1);
}

static int64_t number(const char *s)
{
    int64_t v;

    if (!str_to_i64(s, 10, &v) || v < 1) {
        fprintf(stderr, "bench-plan: '%s' is no number\n", s);
        exit(2);
    }
    return v;
}

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static const char *verdict(bool ok)
{
    return ok ? "ok" : "short";
}

int main(int argc, char **argv)
{
    const char *model = argc > 1 ? argv[1] : "gpt3-175b", *gpu = argc > 5 ? argv[5] : "a100";
    int64_t gpus = argc > 2 ? number(argv[2]) : 512, batch = argc > 3 ? number(argv[3]) : 512;
    int rounds = argc > 6 ? (int)number(argv[6]) : ROUNDS;
    double rate = 0, wall = 0;
    struct plan_counts n;
    struct plan_consts k;
    struct plan_cluster cl;
    struct plan_model m;
    struct plan_gpu g;
    struct err err = { 0 };
    struct during during = { 0, 0 }, during_one = { 0, 0 };
    struct plan_space s = { .model = &m, .counts = &n, .cluster = &cl, .consts = &k };
    struct plan_search_run run = {
        .threads = 1, .top = 10, .progress = on_progress, .arg = &during
    };
    struct plan_found f = { 0 };
    int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);

    if (plan_model_by_name(model, &m, &err) || plan_model_counts(&m, &n, &err) ||
        plan_gpu_by_name(gpu, &g, &err) || plan_consts_builtin(&g, &k, &err))
        fail(&err);
    plan_cluster_usual(&g, gpus, &cl);
    plan_config_init(&s.base);
    s.base.seq = argc > 4 ? number(argv[4]) : 2048;
    s.batch = batch;
    s.limit = (uint64_t)((double)g.mem_bytes * (1 - PLAN_CHOICE_MARGIN));
    for (int i = 0; i < rounds; i++) {
        struct arena a = { 0 };
        int64_t cpu = clock_thread_ns(), begin;
        double r, w;

        run.threads = 1;
        during = (struct during){ 0, 0 };
        if (plan_search(&s, &run, &a, &f, &err))
            fail(&err);
        r = (double)f.tried / seconds(clock_thread_ns() - cpu);
        rate = r > rate ? r : rate;
        during_one = during;
        run.threads = cores;
        begin = clock_mono_ns();
        if (plan_search(&s, &run, &a, &f, &err))
            fail(&err);
        w = seconds(clock_mono_ns() - begin);
        wall = i == 0 || w < wall ? w : wall;
        if (i + 1 == rounds) {
            struct buf text = { 0 };

            plan_config_text(&plan_choice(&f)->config, &text);
            printf("%s on %lld x %s, batch %lld: %llu fit; %s\n", model, (long long)gpus, g.name,
                   (long long)batch, (unsigned long long)f.fit, buf_str(&text));
            buf_release(&text);
        }
        arena_release(&a);
    }
    printf("RESULT plan.configs_per_s %.0f 1/s %d %s\n", rate, RATE_WANTED,
           verdict(rate >= RATE_WANTED));
    printf("RESULT plan.space_size %llu configurations %d %s\n", (unsigned long long)f.tried,
           SIZE_WANTED, verdict(f.tried >= SIZE_WANTED));
    printf("RESULT plan.space_s %.3f s %d %s\n", wall, SPACE_S_WANTED,
           verdict(wall < SPACE_S_WANTED));
    printf("RESULT plan.loop_alloc_bytes %zu bytes 0 %s\n", during_one.last - during_one.first,
           verdict(during_one.last == during_one.first));
    return 0;
}
