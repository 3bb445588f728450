/* SPDX-License-Identifier: MIT */
/* bottleneck_table: data/limits.csv as rows with types, and what facts are called. */
#include "base/embed.h"
#include "base/str.h"
#include "bottleneck/bottleneck_int.h"
#include "catalog/csv.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

EMBED(data_limits, "data/limits.csv");

static const struct {
    const char *word, *title;
} classes[BOTTLENECK_CLASSES] = {
    [BOTTLENECK_UNKNOWN] = { "unknown", "not known" },
    [BOTTLENECK_IDLE] = { "idle", "nothing: it is idle" },
    [BOTTLENECK_NONE] = { "none", "nothing stands out" },
    [BOTTLENECK_THROTTLE] = { "throttling", "throttling" },
    [BOTTLENECK_NVLINK] = { "nvlink", "NVLink" },
    [BOTTLENECK_NETWORK] = { "network", "network" },
    [BOTTLENECK_PCIE] = { "pcie", "PCIe" },
    [BOTTLENECK_MEMORY] = { "memory", "memory bandwidth" },
    [BOTTLENECK_COMPUTE] = { "compute", "compute" },
    [BOTTLENECK_DATA] = { "data", "data loading" },
    [BOTTLENECK_HOST] = { "host", "host" },
};

/* `text` has one %s, for a share in percent, or for a number where `plain`. */
static const struct {
    const char *word, *metric, *text;
    bool plain;
} facts[BOTTLENECK_FACTS] = {
    [BOTTLENECK_F_UTIL] = { "util", "gpu.util", "the GPU is busy %s of the time", false },
    [BOTTLENECK_F_SM] = { "sm", "gpu.prof.sm", "its SMs have work %s of the time", false },
    [BOTTLENECK_F_TENSOR] = { "tensor", "gpu.prof.tensor", "the tensor cores work %s of the time",
                              false },
    [BOTTLENECK_F_PIPES] = { "pipes", "gpu.prof.fp32",
                             "the busiest of fp64, fp32 and fp16 pipes works %s of the time",
                             false },
    [BOTTLENECK_F_TINY] = { "tiny", "gpu.prof.graphics",
                            "while a kernel runs %s of the SMs have nothing to do", false },
    [BOTTLENECK_F_DRAM] = { "dram", "gpu.prof.dram", "GPU memory is read or written %s of the time",
                            false },
    [BOTTLENECK_F_MEM_UTIL] = { "mem_util", "gpu.mem.util",
                                "GPU memory was touched in %s of the periods", false },
    [BOTTLENECK_F_PCIE] = { "pcie", "gpu.prof.pcie_rx", "PCIe carries %s of what its lanes can",
                            false },
    [BOTTLENECK_F_NVLINK] = { "nvlink", "gpu.prof.nvlink_tx",
                              "NVLink carries %s of what its links can", false },
    [BOTTLENECK_F_THERMAL] = { "thermal", "gpu.violation.thermal",
                               "clocks are held back for heat %s of the time", false },
    [BOTTLENECK_F_BRAKE] = { "brake", "gpu.throttle.hw_brake",
                             "the power brake is on %s of the time", false },
    [BOTTLENECK_F_POWER_CAP] = { "power_cap", "gpu.violation.power",
                                 "the power limit holds clocks back %s of the time", false },
    [BOTTLENECK_F_CLOCK_LOST] = { "clock_lost", "gpu.clock.sm",
                                  "the power limit takes %s of the highest clock", false },
    [BOTTLENECK_F_WORK] = { "work", "gpu.processes", "somebody works on the GPU: %s", true },
    [BOTTLENECK_F_CPU] = { "cpu", "host.cpu.util", "all CPUs together are busy %s of the time",
                           false },
    [BOTTLENECK_F_CORE] = { "core", "host.cpu.seconds", "the busiest core is busy %s of the time",
                            false },
    [BOTTLENECK_F_IOWAIT] = { "iowait", "host.cpu.all_seconds", "%s CPUs wait for storage", true },
    [BOTTLENECK_F_PRESSURE_CPU] = { "pressure_cpu", "host.pressure.cpu.waiting",
                                    "tasks wait for a CPU %s of the time", false },
    [BOTTLENECK_F_PRESSURE_IO] = { "pressure_io", "host.pressure.io.waiting",
                                   "tasks wait for storage %s of the time", false },
    [BOTTLENECK_F_PRESSURE_MEMORY] = { "pressure_memory", "host.pressure.memory.waiting",
                                       "tasks wait for host memory %s of the time", false },
    [BOTTLENECK_F_DISK] = { "disk", "disk.io_seconds", "the busiest disk is busy %s of the time",
                            false },
    [BOTTLENECK_F_REMOTE] = { "remote", "lustre.rpc_wait_seconds",
                              "%s requests to file servers are waited for", true },
    [BOTTLENECK_F_FED] = { "fed", "disk.read_bytes",
                           "of the bytes that go to the GPU %s come from storage at that moment",
                           false },
    [BOTTLENECK_F_NET] = { "net", "net.rx_bytes",
                           "the busiest network link carries %s of its speed", false },
    [BOTTLENECK_F_RDMA] = { "rdma", "port.rx_bytes", "the busiest RDMA port carries %s of its rate",
                            false },
};

const char *bottleneck_word(enum bottleneck_class c)
{
    return classes[c].word;
}

const char *bottleneck_title(enum bottleneck_class c)
{
    return classes[c].title;
}

const char *bottleneck_fact_word(enum bottleneck_fact f)
{
    return facts[f].word;
}

const char *bottleneck_fact_metric(enum bottleneck_fact f)
{
    return facts[f].metric;
}

void bottleneck_fact_text(enum bottleneck_fact f, double value, struct buf *out)
{
    const char *at = strstr(facts[f].text, "%s");
    char number[32];

    if (facts[f].plain)
        (void)snprintf(number, sizeof(number), "%.2g", value);
    else
        (void)snprintf(number, sizeof(number), "%.*f %%", value < 0.0995 && value > 0 ? 1 : 0,
                       value * 100);
    buf_add(out, facts[f].text, (size_t)(at - facts[f].text));
    buf_adds(out, number);
    buf_adds(out, at + 2);
}

/* ---- the file */

enum {
    COL_CLASS,
    COL_ROLE,
    COL_FACT,
    COL_OP,
    COL_THRESHOLD,
    COL_FULL,
    COL_WEIGHT,
    COL_ADVICE,
    COL_WHY,
    COLS
};
static const char *const columns[COLS] = { "class", "role",   "fact",   "op", "threshold",
                                           "full",  "weight", "advice", "why" };

static struct {
    pthread_once_t once;
    struct arena arena;
    struct bottleneck_row rows[BOTTLENECK_ROWS_MAX];
    size_t count;
    const char *advice[BOTTLENECK_CLASSES];
} table = { .once = PTHREAD_ONCE_INIT };

static const char *const roles[BOTTLENECK_ROLES] = { [BOTTLENECK_SIGN] = "sign",
                                                     [BOTTLENECK_NEED] = "need",
                                                     [BOTTLENECK_ALONE] = "alone",
                                                     [BOTTLENECK_NOTE] = "note" };

static size_t role_named(const char *word)
{
    size_t i = 0;

    while (i < BOTTLENECK_ROLES && !str_eq(roles[i], word))
        i++;
    return i;
}

static size_t class_named(const char *word)
{
    size_t i = 0;

    while (i < BOTTLENECK_CLASSES && !str_eq(classes[i].word, word))
        i++;
    return i;
}

static size_t fact_named(const char *word)
{
    size_t i = 0;

    while (i < BOTTLENECK_FACTS && !str_eq(facts[i].word, word))
        i++;
    return i;
}

/* The file is ours: what is wrong in it is a programmer's error, which the tests find. */
static void take_row(const struct csv *t, size_t i)
{
    const char *role = csv_cell(t, i, COL_ROLE), *op = csv_cell(t, i, COL_OP);
    size_t limit = class_named(csv_cell(t, i, COL_CLASS)),
           fact = fact_named(csv_cell(t, i, COL_FACT));
    struct bottleneck_row r = { .advice = csv_cell(t, i, COL_ADVICE),
                                .why = csv_cell(t, i, COL_WHY) };
    bool read;

    assert(limit < BOTTLENECK_CLASSES && table.count < BOTTLENECK_ROWS_MAX);
    if (str_eq(role, "advice")) {
        table.advice[limit] = r.advice;
        return;
    }
    assert(fact < BOTTLENECK_FACTS && (str_eq(op, "above") || str_eq(op, "below")));
    r.limit = (enum bottleneck_class)limit;
    r.fact = (enum bottleneck_fact)fact;
    assert(role_named(role) < BOTTLENECK_ROLES);
    r.role = (enum bottleneck_role)role_named(role);
    r.above = str_eq(op, "above");
    read = str_to_f64(csv_cell(t, i, COL_THRESHOLD), &r.threshold);
    if (r.role == BOTTLENECK_SIGN)
        read = read && str_to_f64(csv_cell(t, i, COL_FULL), &r.full) &&
               str_to_f64(csv_cell(t, i, COL_WEIGHT), &r.weight) && r.full > r.threshold &&
               *r.advice;
    assert(read);
    (void)read;
    table.rows[table.count++] = r;
}

static void load_table(void)
{
    struct csv t;

    if (csv_parse(&table.arena, data_limits, data_limits_len, &t, NULL) != RC_OK)
        abort();
    for (size_t i = 0; i < COLS; i++)
        assert(csv_col(&t, columns[i]) == (int)i);
    for (size_t i = 0; i < t.rows; i++)
        take_row(&t, i);
}

const struct bottleneck_row *bottleneck_rows(size_t *out_count)
{
    (void)pthread_once(&table.once, load_table);
    *out_count = table.count;
    return table.rows;
}

const char *bottleneck_advice(enum bottleneck_class c)
{
    (void)pthread_once(&table.once, load_table);
    return table.advice[c] ? table.advice[c] : "";
}
