/* SPDX-License-Identifier: MIT */
/* fake_node: writes a recording of a node that never was, for the page to show: eight GPUs for so
 * many seconds, one value a second, each series changing by itself.  A name holds what a page
 * must not take for HTML; one GPU is unknown for a while in the middle.
 *
 *   fake_node SECONDS FILE */
#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"
#include "telemetry/record/stream.h"

#include <math.h>
#include <stdlib.h>

enum { FAKE_GPUS = 8, FAKE_SECONDS_MAX = 7 * 86400, FAKE_FLUSH_BYTES = 1 << 20 };
#define FAKE_BEGIN_NS (INT64_C(1794000000) * 1000000000)

/* A metric and its course: a level, a wave of so many seconds, noise. */
static const struct course {
    const char *id;
    double level, wave, seconds, noise;
} courses[] = {
    { "gpu.util", 70, 28, 1700, 2 },
    { "gpu.prof.tensor", .45, .3, 1700, .05 },
    { "gpu.prof.sm", .6, .3, 1700, .05 },
    { "gpu.prof.dram", .4, .2, 2300, .05 },
    { "gpu.fb.used", 9e10, 3e10, 5000, 1e8 },
    { "gpu.fb.total", 150754820096, 0, 1, 0 },
    { "gpu.power", 480, 180, 1700, 15 },
    { "gpu.power.limit", 700, 0, 1, 0 },
    { "gpu.temp", 58, 9, 1900, 1 },
    { "gpu.mem.temp", 62, 9, 1900, 1 },
    { "gpu.clock.sm", 1850, 90, 1300, 25 },
    { "gpu.clock.sm.max", 1980, 0, 1, 0 },
    { "gpu.clock_events", 4, 0, 1, 0 },
    { "gpu.prof.nvlink_tx", 9e10, 6e10, 900, 2e9 },
    { "gpu.prof.nvlink_rx", 9e10, 6e10, 900, 2e9 },
    { "gpu.prof.pcie_tx", 4e9, 3e9, 600, 2e8 },
    { "gpu.prof.pcie_rx", 6e9, 4e9, 600, 2e8 },
};

struct fake_node {
    struct telemetry *t;
    struct stream_writer *w;
    struct buf out;
    uint32_t ids[FAKE_GPUS][ARRAY_SIZE(courses)];
    uint64_t dice;
};

static double noise(struct fake_node *n)
{
    n->dice = n->dice * 6364136223846793005U + 1442695040888963407U;
    return (double)(n->dice >> 33) / (double)(UINT64_C(1) << 30) - 1;
}

static void add_series(struct fake_node *n, unsigned source, int gpu)
{
    char number[8], uuid[64];

    (void)snprintf(number, sizeof(number), "%d", gpu);
    (void)snprintf(uuid, sizeof(uuid), "GPU-00000000-fa4e-0000-0000-%012d", gpu);
    struct telemetry_label labels[] = { { "gpu", number },
                                        { "UUID", uuid },
                                        { "modelName",
                                          "NVIDIA H200 <img src=x onerror=fault()>" } };
    for (size_t k = 0; k < ARRAY_SIZE(courses); k++) {
        uint32_t id = telemetry_series(n->t, source, telemetry_metric(courses[k].id), labels,
                                       ARRAY_SIZE(labels));
        n->ids[gpu][k] = id;
        stream_series(n->w, source, id, telemetry_get(n->t, id), "gpu");
    }
}

static void add_second(struct fake_node *n, unsigned gpu_source, unsigned agent, int64_t s,
                       int64_t seconds)
{
    uint32_t ids[FAKE_GPUS * ARRAY_SIZE(courses)];
    double values[ARRAY_SIZE(ids)];
    size_t count = 0;

    for (int g = 0; g < FAKE_GPUS; g++)
        for (size_t k = 0; k < ARRAY_SIZE(courses); k++) {
            const struct course *c = &courses[k];
            if (g == FAKE_GPUS - 1 && s > seconds / 2 && s < seconds / 2 + seconds / 20)
                continue; /* unknown */
            ids[count] = n->ids[g][k];
            values[count++] =
                c->level + c->wave * sin((double)s / c->seconds * 6.2832 + g) + c->noise * noise(n);
        }
    stream_batch(n->w, gpu_source, FAKE_BEGIN_NS + s * 1000000000, ids, values, count);
    stream_batch(n->w, agent, FAKE_BEGIN_NS + s * 1000000000, ids, values, 0); /* its end */
}

static enum rc write_node(int64_t seconds, const char *path, struct err *err)
{
    struct fake_node n = { .t = telemetry_new(0), .dice = 7 };
    unsigned gpu = telemetry_source(n.t, "gpu"), agent = telemetry_source(n.t, "agent");
    uint32_t mark = telemetry_series(n.t, agent, telemetry_metric("agent.demo"), NULL, 0);
    struct file_new f;
    enum rc rc = file_new_open(&f, path, err);

    if (rc != RC_OK)
        goto out_free;
    n.w = stream_writer_new("{\"schema\":\"stoker.tele/1\",\"host\":\"fake-node\"}", &n.out);
    stream_series(n.w, agent, mark, telemetry_get(n.t, mark), "agent");
    for (int g = 0; g < FAKE_GPUS; g++)
        add_series(&n, gpu, g);
    for (int64_t s = 0; rc == RC_OK && s < seconds; s++) {
        add_second(&n, gpu, agent, s, seconds);
        if (n.out.len > FAKE_FLUSH_BYTES || s == seconds - 1) {
            rc = file_write(f.fd, path, buf_str(&n.out), n.out.len, err);
            buf_reset(&n.out);
        }
    }
    rc = file_new_close(&f, rc, err);
    stream_writer_free(n.w);
out_free:
    buf_release(&n.out);
    telemetry_free(n.t);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = { 0 };
    uint64_t seconds;

    if (argc != 3 || !str_to_u64(argv[1], 10, &seconds) || !seconds || seconds > FAKE_SECONDS_MAX) {
        fputs("usage: fake_node SECONDS FILE\n", stderr);
        return 2;
    }
    if (write_node((int64_t)seconds, argv[2], &err)) {
        fprintf(stderr, "fake_node: %s\n", err.msg);
        return 1;
    }
    return 0;
}
