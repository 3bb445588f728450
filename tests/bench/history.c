/* SPDX-License-Identifier: MIT */
/* What the history costs: bytes a sample, and the time of a query.  On made-up series, and on a
 * recording.
 *
 * Made up are eight GPUs and their host, as recorded on an H200: idle at 80 W with noise of a few
 * hundredths, 130 W when a model lies in memory, 300 to 690 W under load, in phases of minutes;
 * temperatures that follow slowly; ratios with all their digits; counters of energy and bytes; and
 * beside them what hardly ever changes, which is most.  With a fixed seed.
 *
 * A recording (`stoker agent --record`) goes round until the hours are over; one of a single GPU
 * is played as eight, each at another place of it, as the demo is.  A sample counts when its series
 * never stays the same for longer than a minute of the recording.
 *
 *   ring [HOURS] [RECORDING]       6 h; the history is a file in TMPDIR or /tmp */
#include "base/mem.h"
#include "history/history_int.h"
#include "os/clock.h"
#include "os/file.h"
#include "telemetry/record/stream_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GPUS = 8, LINKS = 18, CPUS = 64, SERIES = 4096, ROUNDS = 31, BENCH_HOURS_MAX = 1000 };
enum { RECORDING_MAX = 1 << 30, STILL_MAX_S = 60, IDS_MAX = 1 << 16 };
#define T0 INT64_C(1763194320000000000)

static uint64_t seed = 88172645463325252;

static double rnd(void) /* -1 .. 1 */
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (double)(int64_t)seed / 9223372036854775808.0;
}

static double noise(void) /* about normal, of width 1 */
{
    return rnd() + rnd() + rnd();
}

struct gpu {
    double load, power, temp, used_mib, energy, tx, rx, link[LINKS];
};
static struct gpu gpus[GPUS];
static double values[TELEMETRY_SERIES_MAX], host[16], cpu[CPUS];
static size_t count;
static struct telemetry *table;

static void series(const char *metric, const char *name, int number, const char *more)
{
    const struct telemetry_metric *m = telemetry_metric(metric);
    char text[32], uuid[64];
    struct telemetry_label labels[] = { { name, text }, { "UUID", uuid }, { "device", more } };

    if (!m) {
        fprintf(stderr, "ring: no metric '%s'\n", metric);
        exit(1);
    }
    snprintf(text, sizeof(text), "%d", number);
    snprintf(uuid, sizeof(uuid), "GPU-bb51d70a-b808-8a02-9ee5-511ccc9ba7c%d", number);
    telemetry_series(table, telemetry_source(table, "bench"), m, labels, more ? 3 : 1);
}

static const char *const gpu_live[] = {
    "gpu.power",        "gpu.power.instant",  "gpu.temp",           "gpu.mem.temp",
    "gpu.clock.sm",     "gpu.util",           "gpu.mem.util",       "gpu.fb.used",
    "gpu.fb.free",      "gpu.energy",         "gpu.prof.graphics",  "gpu.prof.sm",
    "gpu.prof.tensor",  "gpu.prof.dram",      "gpu.prof.occupancy", "gpu.prof.pcie_tx",
    "gpu.prof.pcie_rx", "gpu.prof.nvlink_tx", "gpu.prof.nvlink_rx", "gpu.driver.call.peak"
};
static const char *const host_live[] = { "host.load1",      "host.context_switches",
                                         "host.interrupts", "host.cpu.util",
                                         "host.forks",      "host.procs.running" };

static void make_table(void)
{
    size_t all;
    const struct telemetry_metric *m = telemetry_metrics(&all);

    table = telemetry_new(SERIES);
    for (int g = 0; g < GPUS; g++)
        for (size_t i = 0; i < ARRAY_SIZE(gpu_live); i++)
            series(gpu_live[i], "gpu", g, "nvidia");
    for (int g = 0; g < GPUS; g++) {
        for (int l = 0; l < LINKS; l++) {
            series("link.tx_bytes", "link", g * LINKS + l, NULL);
            series("link.rx_bytes", "link", g * LINKS + l, NULL);
        }
    }
    for (size_t i = 0; i < ARRAY_SIZE(host_live); i++)
        series(host_live[i], "host", 0, NULL);
    for (int i = 0; i < CPUS; i++)
        series("host.cpu.seconds", "cpu", i, NULL);
    for (int g = 0; g < GPUS; g++) /* what stays */
        for (size_t i = 0; i < all && telemetry_count(table) < SERIES / 2; i++)
            if (m[i].entity == TELEMETRY_GPU)
                series(m[i].id, "gpu", 100 + g, "still");
    count = telemetry_count(table);
}

/* Phases of ten minutes: idle, a model loaded, load; each GPU a little before the next. */
static void gpu_turn(struct gpu *g, size_t row, double *out)
{
    size_t phase = (row / 600) % 4;
    double target = phase == 0 ? 0 : phase == 1 ? 0.04 : 0.9;
    double busy;

    g->load = target;
    busy = target > 0.5 ? target + 0.05 * noise() - (row % 97 == 0 ? 0.6 : 0) : 0;
    busy = busy < 0 ? 0 : busy > 1 ? 1 : busy;
    g->power += ((target < 0.01  ? 80.03
                  : target < 0.5 ? 129.8
                                 : 300 + 390 * busy) -
                 g->power) *
                    0.6 +
                (target > 0.5 ? 6 : 0.05) * noise();
    g->temp += ((30 + g->power / 14) - g->temp) * 0.02;
    g->used_mib = phase == 0 ? 0 : phase == 1 ? 6397 : 98304 + 2 * (double)(row / 15 % 50);
    g->energy += floor(g->power * 1000 + 300 * noise());
    out[0] = round(g->power * 1000) / 1000;
    out[1] = round((g->power + (busy > 0 ? 20 : 0.1) * noise()) * 1000) / 1000;
    out[2] = round(g->temp + 0.1 * noise());
    out[3] = round(g->temp - 1 + 0.1 * noise());
    out[4] = phase == 0 ? 345 : busy > 0.9 ? 1980 - 15 * round(3 + noise()) : 1980;
    out[5] = busy > 0 ? round(100 * busy) : 0;
    out[6] = busy > 0 ? round(40 * busy) : 0;
    out[7] = g->used_mib * 1048576;
    out[8] = (143771 - g->used_mib) * 1048576;
    out[9] = g->energy;
    for (int i = 10; i < 15; i++)
        out[i] = busy > 0 ? busy * (1.0 - 0.15 * (i - 10)) + 0.004 * noise() : 0;
    out[15] = busy > 0 ? 4.5e9 * busy * (1 + 0.1 * noise()) : 1.2e5 * (1.5 + rnd());
    out[16] = busy > 0 ? 1.2e9 * busy * (1 + 0.1 * noise()) : 0.4e5 * (1.5 + rnd());
    out[17] = busy > 0 ? 1.9e11 * busy * (1 + 0.05 * noise()) : 0;
    out[18] = busy > 0 ? 1.9e11 * busy * (1 + 0.05 * noise()) : 0;
    out[19] = 0.0021 * (1 + 0.05 * noise());
}

static void turn(size_t row)
{
    size_t n = 0;

    for (int i = 0; i < GPUS; i++, n += ARRAY_SIZE(gpu_live))
        gpu_turn(&gpus[i], row + 240 + (size_t)i * 3, values + n);
    for (int i = 0; i < GPUS; i++) {
        for (int l = 0; l < LINKS; l++, n += 2) {
            double step = gpus[i].load > 0.5 ? 1e7 * (1 + 0.05 * noise()) : 0; /* KiB */

            gpus[i].link[l] += floor(step);
            values[n] = gpus[i].link[l] * 1024;
            values[n + 1] = gpus[i].link[l] * 1024 + 4096;
        }
    }
    values[n++] = round((host[0] += (8 + 2 * noise() - host[0]) * 0.02) * 100) / 100;
    values[n++] = host[1] += floor(20000 + 1500 * noise());
    values[n++] = host[2] += floor(35000 + 2500 * noise());
    values[n++] = 12.5 + noise();
    values[n++] = host[3] += floor(fabs(3 * noise()));
    values[n++] = floor(fabs(4 * noise())) + 1;
    for (int i = 0; i < CPUS; i++)
        values[n++] = round((cpu[i] += floor(20 + 8 * noise()) / 100) * 100) / 100;
    while (n < count) {
        values[n] = (double)((n * 7919) % 1000);
        n++;
    }
}

/* ---- a recording */
struct play {
    struct stream_reader *r;
    int gpu;
    char prefix[8], suffix[8]; /* of its sources, of its UUID */
    unsigned mark;             /* its source "agent": a second is over */
    bool marked;
};
static struct buf recording;
static struct play plays[GPUS];
static size_t play_count;
static double last[TELEMETRY_SERIES_MAX]; /* by id of the table */
static size_t still[TELEMETRY_SERIES_MAX], still_max[TELEMETRY_SERIES_MAX];

static bool on_batch(void *arg, unsigned source, int64_t time_ns)
{
    struct play *y = arg;

    (void)time_ns;
    y->marked = source == y->mark;
    return !y->marked;
}

static void play_begin(struct play *y)
{
    struct stream_reader_opts o = { .into = table,
                                    .source_prefix = y->prefix,
                                    .gpu_shift = y->gpu,
                                    .uuid_suffix = play_count > 1 ? y->suffix : NULL,
                                    .on_batch = on_batch,
                                    .arg = y };
    char name[32];

    stream_reader_free(y->r);
    snprintf(name, sizeof(name), "%sagent", y->prefix);
    y->mark = telemetry_source(table, name);
    y->r = stream_reader_new(&o);
}

/* To the next mark; false at the end, or where the recording is torn. */
static bool play_step(struct play *y)
{
    size_t at = (size_t)stream_taken(y->r);
    struct err err = { 0 };

    y->marked = false;
    if (at < recording.len &&
        stream_feed(y->r, recording.data + at, recording.len - at, &err) != RC_OK)
        return false;
    return y->marked;
}

static void play_open(size_t i, size_t skip)
{
    struct play *y = &plays[i];

    *y = (struct play){ .gpu = (int)i };
    snprintf(y->prefix, sizeof(y->prefix), "%zu/", i);
    snprintf(y->suffix, sizeof(y->suffix), "-%zu", i);
    play_begin(y);
    while (skip-- && play_step(y))
        ;
}

static void play_close(void)
{
    for (size_t i = 0; i < play_count; i++)
        stream_reader_free(plays[i].r);
    telemetry_free(table);
}

/* Its seconds; in `one`: it has no second GPU. */
static size_t survey(bool *one)
{
    size_t marks = 0;

    table = telemetry_new(0);
    play_count = 1;
    play_open(0, 0);
    while (play_step(&plays[0]))
        marks++;
    *one = true;
    for (uint32_t i = 0; i < telemetry_count(table); i++) {
        const struct telemetry_series *s = telemetry_get(table, i);

        for (size_t k = 0; k < s->label_count; k++)
            if (!strcmp(s->labels[k].name, "gpu") && strcmp(s->labels[k].value, "0"))
                *one = false;
    }
    play_close();
    return marks;
}

static void recording_open(const char *path)
{
    bool one;
    size_t marks;
    struct err err = { 0 };

    buf_init(&recording, RECORDING_MAX);
    if (file_read(path, RECORDING_MAX, &recording, &err)) {
        fprintf(stderr, "ring: %s\n", err.msg);
        exit(1);
    }
    marks = survey(&one);
    if (!marks) {
        fprintf(stderr, "ring: '%s' is no recording, or an empty one\n", path);
        exit(1);
    }
    table = telemetry_new(0);
    play_count = one ? GPUS : 1;
    for (size_t i = 0; i < play_count; i++)
        play_open(i, marks * i / GPUS);
    printf("'%s': %zu s, played as %s\n", path, marks, one ? "eight GPUs" : "it is");
}

static void recording_turn(size_t row)
{
    for (size_t i = 0; i < play_count; i++)
        if (!play_step(&plays[i])) {
            play_begin(&plays[i]);
            (void)play_step(&plays[i]);
        }
    count = telemetry_copy(table, values, TELEMETRY_SERIES_MAX);
    for (size_t i = 0; i < count; i++) {
        bool same = values[i] == last[i] || (isnan(values[i]) && isnan(last[i]));

        still[i] = row && same ? still[i] + 1 : 0;
        still_max[i] = still[i] > still_max[i] ? still[i] : still_max[i];
        last[i] = values[i];
    }
}

/* ---- bytes a sample, over the series that change; heads, padding and times are theirs too.
 * Made-up ones are still for whole phases, so theirs count block by block (about two minutes). */
static bool changed(struct history *r, const struct history_opened *o, uint32_t s)
{
    uint8_t mode;

    return history_file_get(&r->file, o->at + o->dir[s].at + HISTORY_CHUNK_HEAD, &mode, 1) &&
           (mode & 7);
}

/* Those of a recording, by the history's ids; NULL: made-up ones. */
static bool *lively_ids(struct history *r)
{
    bool *ids = xcalloc(IDS_MAX, sizeof(*ids));

    for (uint32_t i = 0; i < count; i++) {
        uint32_t id;

        if (history_dict_id(r, telemetry_get(table, i), 0, &id, NULL) == RC_OK && id < IDS_MAX)
            ids[id] = still_max[i] < STILL_MAX_S;
    }
    return ids;
}

static void measure_bytes(struct history *r, const bool *ids, const char *name)
{
    struct history_opened o = { .head = { .max = HISTORY_BLOCK_MAX + 1 } };
    const struct history_index *x = &r->seconds;
    uint64_t all = 0, all_samples = 0, live = 0, live_samples = 0;

    for (size_t i = 0; i < x->count; i++) {
        const struct history_block *b = &x->items[x->first + i];

        if (!history_block_open(r, x, b, &o))
            exit(1);
        all += (uint64_t)b->pages * HISTORY_PAGE;
        all_samples += (uint64_t)b->rows * b->series;
        live += (uint64_t)b->pages * HISTORY_PAGE - b->len + b->head_len - 8ull * b->series;
        for (uint32_t s = 0; s < b->series; s++) {
            uint32_t end = s + 1 < b->series ? o.dir[s + 1].at : b->len;

            if (ids ? o.dir[s].id >= IDS_MAX || !ids[o.dir[s].id] : !changed(r, &o, s))
                continue;
            live += end - o.dir[s].at + 8;
            live_samples += b->rows;
        }
    }
    buf_release(&o.head);
    printf("%.1f MiB used in %zu blocks; %.0f %% of the samples are of series that change\n",
           (double)all / 1048576, x->count, 100.0 * (double)live_samples / (double)all_samples);
    if (!live_samples) {
        printf("no block, or no series that changes: the recording is too short or too still\n");
        return;
    }
    printf("RESULT agent.ring_bytes%s %.2f bytes/sample 2.0 %s\n", name,
           (double)live / (double)live_samples,
           (double)live <= 2.0 * (double)live_samples ? "ok" : "short");
    printf("RESULT agent.ring_bytes_all%s %.2f bytes/sample\n", name,
           (double)all / (double)all_samples);
}

/* ---- a query */
static bool take(void *arg, const struct telemetry_series *s, const struct history_point *p,
                 size_t n)
{
    size_t *points = arg;

    (void)s;
    (void)p;
    *points += n;
    return true;
}

static int by_value(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;

    return p < q ? -1 : p > q;
}

/* The median of the wall clock; *cpu_ms of the thread's own time, for a busy machine. */
static double measure_query(struct history *r, const char *metric, int64_t to, int64_t step,
                            bool recorded, size_t *points, double *cpu_ms)
{
    struct telemetry_label label = { "device", "nvidia" };
    struct history_query q = { .labels = &label,
                               .label_count = recorded ? 0 : 1, /* not those that stay */
                               .metric = metric,
                               .from_ns = to - 6 * 60 * HISTORY_MINUTE,
                               .to_ns = to,
                               .step_ns = step };
    double ms[ROUNDS], own[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        int64_t begin = clock_mono_ns(), cpu_begin = clock_thread_ns();

        *points = 0;
        if (history_read(r, &q, take, points, NULL))
            exit(1);
        own[i] = (double)(clock_thread_ns() - cpu_begin) / 1e6;
        ms[i] = (double)(clock_mono_ns() - begin) / 1e6;
    }
    qsort(ms, ROUNDS, sizeof(*ms), by_value);
    qsort(own, ROUNDS, sizeof(*own), by_value);
    *cpu_ms = own[ROUNDS / 2];
    return ms[ROUNDS / 2];
}

static void measure_queries(struct history *r, int64_t to, bool recorded, const char *name)
{
    static const char *const metrics[] = { "gpu.power", "gpu.prof.tensor", "gpu.energy" };
    static const int64_t steps[] = { 0, 20 * HISTORY_NS };
    double worst = 0;

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        for (size_t j = 0; j < ARRAY_SIZE(steps); j++) {
            size_t points;
            double cpu_ms,
                ms = measure_query(r, metrics[i], to, steps[j], recorded, &points, &cpu_ms);

            printf("%s, 6 h: %.2f ms (%.2f of CPU) for %zu points\n", metrics[i], ms, cpu_ms,
                   points);
            worst = ms > worst ? ms : worst;
        }
    }
    printf("RESULT agent.query_ms%s %.2f ms 5.0 %s\n", name, worst, worst <= 5.0 ? "ok" : "short");
}

/* ---- a history of them */
static void fill(struct history *r, size_t rows, void (*next)(size_t row))
{
    struct err err = { 0 };
    int64_t cpu_ns = 0;

    for (size_t i = 0; i < rows; i++) {
        int64_t begin;

        next(i);
        begin = clock_thread_ns();
        if (history_append(r, table, T0 + (int64_t)i * HISTORY_NS + (int64_t)(50000 * rnd()),
                           values, count, &err)) {
            fprintf(stderr, "ring: %s\n", err.msg);
            exit(1);
        }
        cpu_ns += clock_thread_ns() - begin;
    }
    printf("%zu series, %zu s: %.1f us of CPU an append, minutes too\n", count, rows,
           (double)cpu_ns / (double)rows / 1e3);
}

static void measure(size_t hours, bool recorded)
{
    const char *tmp = getenv("TMPDIR"), *name = recorded ? "" : ".made_up";
    char path[512];
    struct history_opts o = { .path = path, .no_sync = true };
    struct history *r;
    struct err err = { 0 };
    bool *ids = NULL;

    snprintf(path, sizeof(path), "%s/stoker-bench-history.%d", tmp ? tmp : "/tmp", (int)getpid());
    if (history_open(&o, &r, &err)) {
        fprintf(stderr, "ring: %s\n", err.msg);
        exit(1);
    }
    fill(r, hours * 3600, recorded ? recording_turn : turn);
    ids = recorded ? lively_ids(r) : NULL;
    measure_bytes(r, ids, name);
    measure_queries(r, T0 + (int64_t)hours * 60 * HISTORY_MINUTE, recorded, name);
    free(ids);
    history_close(r);
    unlink(path);
}

int main(int argc, char **argv)
{
    size_t hours = argc > 1 ? strtoul(argv[1], NULL, 10) : 6;

    hours = hours < 6 ? 6 : hours > BENCH_HOURS_MAX ? BENCH_HOURS_MAX : hours;
    make_table();
    measure(hours, false);
    telemetry_free(table);
    if (argc > 2) {
        recording_open(argv[2]);
        measure(hours, true);
        play_close();
        buf_release(&recording);
    }
    return 0;
}
