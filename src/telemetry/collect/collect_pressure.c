/* SPDX-License-Identifier: MIT */
/* collect_pressure: how long tasks waited for a CPU, for memory, for I/O (pressure stall
 * information), as node_exporter has it: totals in seconds.
 *
 * A kernel booted with psi=0 has the files and answers EOPNOTSUPP: they are not asked again. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PRESSURE_TEXT_MAX = 1024, PRESSURE_FILES = 4 };

static const struct {
    const char *name, *path, *some, *full; /* NULL: node_exporter has none */
} files[PRESSURE_FILES] = {
    { "cpu", "/proc/pressure/cpu", "node_pressure_cpu_waiting_seconds_total", NULL },
    { "memory", "/proc/pressure/memory", "node_pressure_memory_waiting_seconds_total",
      "node_pressure_memory_stalled_seconds_total" },
    { "io", "/proc/pressure/io", "node_pressure_io_waiting_seconds_total",
      "node_pressure_io_stalled_seconds_total" },
    { "irq", "/proc/pressure/irq", NULL, "node_pressure_irq_stalled_seconds_total" },
};

struct pressure {
    unsigned source;
    struct cfile files[PRESSURE_FILES];
    uint32_t some[PRESSURE_FILES], full[PRESSURE_FILES];
    uint32_t avg10[PRESSURE_FILES][2]; /* some, full */
};

static void *pressure_open(const struct root *root, struct telemetry *t)
{
    struct pressure *p = xcalloc(1, sizeof(*p));

    p->source = telemetry_source(t, collect_pressure.name);
    for (size_t i = 0; i < PRESSURE_FILES; i++) {
        cfile_open(&p->files[i], root, files[i].path);
        p->some[i] = files[i].some && !p->files[i].error
                         ? collect_id(t, p->source, files[i].some, NULL, 0)
                         : TELEMETRY_NONE;
        p->full[i] = files[i].full && !p->files[i].error
                         ? collect_id(t, p->source, files[i].full, NULL, 0)
                         : TELEMETRY_NONE;
        for (int k = 0; k < 2; k++) {
            struct telemetry_label l[] = { { "resource", files[i].name },
                                           { "kind", k ? "full" : "some" } };

            p->avg10[i][k] = p->files[i].error
                                 ? TELEMETRY_NONE
                                 : collect_id(t, p->source, "host.pressure.avg10", l, 2);
        }
    }
    return p;
}

static void pressure_close(void *state)
{
    struct pressure *p = state;

    for (size_t i = 0; p && i < PRESSURE_FILES; i++)
        cfile_close(&p->files[i]);
    free(p);
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": per cent, microseconds. */
static void line_set(struct telemetry *t, const char *line, uint32_t id, uint32_t avg10)
{
    const char *end = strchrnul(line, '\n');
    const char *at = memmem(line, (size_t)(end - line), "total=", 6);
    const char *avg = line + strlen("some avg10=");
    uint64_t us;
    double pct;

    if (!strncmp(line + strlen("some "), "avg10=", 6) && scan_f64(&avg, &pct))
        telemetry_set(t, avg10, pct);
    if (!at)
        return;
    at += 6;
    if (scan_u64(&at, &us))
        telemetry_set(t, id, (double)us * 1e-6);
}

static void pressure_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct pressure *p = state;
    char text[PRESSURE_TEXT_MAX];

    telemetry_begin(t, p->source, now_ns);
    for (size_t i = 0; i < PRESSURE_FILES; i++) {
        ssize_t n;

        if (p->files[i].fd < 0)
            continue;
        n = cfile_read(&p->files[i], text, sizeof(text));
        if (n < 0) {
            p->files[i].error = (int)-n;
            cfile_close(&p->files[i]);
        }
        for (const char *line = text; *line; line = scan_line(line)) {
            if (!strncmp(line, "some ", 5))
                line_set(t, line, p->some[i], p->avg10[i][0]);
            else if (!strncmp(line, "full ", 5))
                line_set(t, line, p->full[i], p->avg10[i][1]);
        }
    }
    telemetry_end(t);
}

const struct collector collect_pressure = { .name = "pressure",
                                            .period_ms = 1000,
                                            .open = pressure_open,
                                            .sample = pressure_sample,
                                            .close = pressure_close };
