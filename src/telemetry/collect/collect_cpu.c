/* SPDX-License-Identifier: MIT */
/* collect_cpu: /proc/stat, /proc/loadavg, /proc/sys/fs/file-nr, as node_exporter has them, and
 * the share of all CPUs that is busy.
 *
 * Times of a CPU never go back, but the kernel's idle and iowait may, by a little (they are
 * sampled without a lock) or by much (the CPU was away and came back).  The little is held, the
 * much is taken as a reset, as node_exporter does. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    CPU_MODES = 8,
    CPU_GUESTS = 2, /* columns behind the modes: part of user and nice */
    CPU_COLUMNS = CPU_MODES + CPU_GUESTS,
    CPU_IDLE = 3,
    CPU_IOWAIT = 4,
    CPUS_MAX = 2048,          /* CPUs shown one by one; further ones only in the sum */
    CPU_STAT_MAX = 512 << 10, /* bytes read of /proc/stat: its interrupts fill a line */
    CPU_BACK_S = 3            /* idle that goes back by more is a reset */
};

static const char *const modes[CPU_COLUMNS] = { "user", "nice",    "system", "idle", "iowait",
                                                "irq",  "softirq", "steal",  "user", "nice" };

struct one_cpu {
    uint64_t number;
    uint32_t ids[CPU_COLUMNS];
    double s[CPU_COLUMNS];
};

struct cpu {
    unsigned source;
    struct cfile stat, load, files;
    struct one_cpu *cpus; /* in the file's order */
    size_t count, cap;
    double tick_s;
    double total[CPU_COLUMNS]; /* of the last sample; [0] NaN: none */
    uint32_t util, cpus_id, time, uname, all[CPU_MODES], load_ids[3], procs[6], file_ids[2];
    char text[CPU_STAT_MAX];
};

static const struct collect_key stat_keys[] = {
    { "ctxt", "node_context_switches_total", 1 }, { "btime", "node_boot_time_seconds", 1 },
    { "processes", "node_forks_total", 1 },       { "procs_running", "node_procs_running", 1 },
    { "procs_blocked", "node_procs_blocked", 1 }, { "intr", "node_intr_total", 1 },
};

static uint32_t uname_id(unsigned source, const struct root *root, struct telemetry *t)
{
    struct utsname u;
    struct telemetry_label l[] = { { "sysname", u.sysname },   { "release", u.release },
                                   { "version", u.version },   { "machine", u.machine },
                                   { "nodename", u.nodename }, { "domainname", u.domainname } };

    if (!root_is_live(root) || uname(&u))
        return TELEMETRY_NONE;
    return collect_id(t, source, "node_uname_info", l, ARRAY_SIZE(l));
}

static void *cpu_open(const struct root *root, struct telemetry *t)
{
    static const char *const loads[] = { "node_load1", "node_load5", "node_load15" };
    struct cpu *c = xcalloc(1, sizeof(*c));

    c->source = telemetry_source(t, collect_cpu.name);
    c->tick_s = root_is_live(root) ? 1.0 / (double)sysconf(_SC_CLK_TCK) : 0.01;
    c->total[0] = (double)NAN;
    cfile_open(&c->stat, root, "/proc/stat");
    cfile_open(&c->load, root, "/proc/loadavg");
    cfile_open(&c->files, root, "/proc/sys/fs/file-nr");
    c->util = collect_id(t, c->source, "host.cpu.util", NULL, 0);
    c->cpus_id = collect_id(t, c->source, "host.cpu.count", NULL, 0);
    c->time = collect_id(t, c->source, "node_time_seconds", NULL, 0);
    c->uname = uname_id(c->source, root, t);
    for (size_t i = 0; i < CPU_MODES; i++)
        c->all[i] = collect_id(t, c->source, "host.cpu.all_seconds",
                               &(struct telemetry_label){ "mode", modes[i] }, 1);
    for (size_t i = 0; i < ARRAY_SIZE(loads); i++)
        c->load_ids[i] = collect_id(t, c->source, loads[i], NULL, 0);
    c->file_ids[0] = collect_id(t, c->source, "node_filefd_allocated", NULL, 0);
    c->file_ids[1] = collect_id(t, c->source, "node_filefd_maximum", NULL, 0);
    static_assert(ARRAY_SIZE(stat_keys) == ARRAY_SIZE(c->procs), "an id for each");
    collect_keys_ids(t, c->source, stat_keys, ARRAY_SIZE(stat_keys), NULL, 0, c->procs);
    return c;
}

static void cpu_close(void *state)
{
    struct cpu *c = state;

    if (!c)
        return;
    cfile_close(&c->stat);
    cfile_close(&c->load);
    cfile_close(&c->files);
    free(c->cpus);
    free(c);
}

static struct one_cpu *cpu_add(struct cpu *c, struct telemetry *t, uint64_t number)
{
    char name[24];
    struct one_cpu *one;

    if (c->count == CPUS_MAX)
        return NULL;
    VEC_GROW(c->cpus, c->count, c->cap);
    one = &c->cpus[c->count++];
    *one = (struct one_cpu){ .number = number };
    snprintf(name, sizeof(name), "%llu", (unsigned long long)number);
    for (size_t i = 0; i < CPU_COLUMNS; i++) {
        struct telemetry_label l[] = { { "cpu", name }, { "mode", modes[i] } };

        one->ids[i] = collect_id(
            t, c->source, i < CPU_MODES ? "node_cpu_seconds_total" : "node_cpu_guest_seconds_total",
            l, 2);
    }
    return one;
}

/* `hint` is where it stood last time. */
static struct one_cpu *cpu_find(struct cpu *c, struct telemetry *t, uint64_t number, size_t hint)
{
    if (hint < c->count && c->cpus[hint].number == number)
        return &c->cpus[hint];
    for (size_t i = 0; i < c->count; i++)
        if (c->cpus[i].number == number)
            return &c->cpus[i];
    return cpu_add(c, t, number);
}

/* Old kernels have fewer columns: those are 0, as they would be. */
static bool read_modes(const struct cpu *c, const char *p, double s[CPU_COLUMNS])
{
    uint64_t v;
    size_t n = 0;

    for (; n < CPU_COLUMNS && scan_u64(&p, &v); n++)
        s[n] = (double)v * c->tick_s;
    for (size_t i = n; i < CPU_COLUMNS; i++)
        s[i] = 0;
    return n > CPU_IDLE;
}

static void one_set(struct telemetry *t, struct one_cpu *one, const double s[CPU_COLUMNS])
{
    bool reset = s[CPU_IDLE] < one->s[CPU_IDLE] - CPU_BACK_S;

    for (size_t i = 0; i < CPU_COLUMNS; i++) {
        if (reset || s[i] > one->s[i])
            one->s[i] = s[i];
        telemetry_set(t, one->ids[i], one->s[i]);
    }
}

/* The share since the last sample: unknown after a reset and in the first one. */
static void all_set(struct cpu *c, struct telemetry *t, const double s[CPU_COLUMNS])
{
    double all = 0, idle, wait;
    bool known = !isnan(c->total[0]);

    for (size_t i = 0; i < CPU_MODES; i++) {
        double d = s[i] - c->total[i];

        all += d > 0 ? d : 0;
        telemetry_set(t, c->all[i], s[i]);
    }
    idle = s[CPU_IDLE] - c->total[CPU_IDLE];
    wait = s[CPU_IOWAIT] - c->total[CPU_IOWAIT];
    if (known && all > 0 && idle >= -CPU_BACK_S) {
        idle = idle > 0 ? idle : 0;
        wait = wait > 0 ? wait : 0;
        telemetry_set(t, c->util, 100 * (1 - (idle + wait) / all));
    }
    memcpy(c->total, s, sizeof(c->total));
}

static void stat_set(struct cpu *c, struct telemetry *t)
{
    const char *line = c->text;
    double s[CPU_COLUMNS];
    uint64_t number;
    size_t at = 0;

    for (; line[0] == 'c' && line[1] == 'p' && line[2] == 'u'; line = scan_line(line)) {
        const char *p = line + 3;

        if (*p == ' ') {
            if (read_modes(c, p, s))
                all_set(c, t, s);
        } else if (scan_u64(&p, &number) && read_modes(c, p, s)) {
            struct one_cpu *one = cpu_find(c, t, number, at++);

            if (one)
                one_set(t, one, s);
        }
    }
    if (at > 0)
        telemetry_set(t, c->cpus_id, (double)at);
    collect_keys_set(t, line, stat_keys, ARRAY_SIZE(stat_keys), c->procs);
}

static void cpu_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct cpu *c = state;
    const char *p = c->text;
    uint64_t n;
    double v;

    telemetry_begin(t, c->source, now_ns);
    telemetry_set(t, c->time, (double)now_ns * 1e-9);
    telemetry_set(t, c->uname, 1);
    if (cfile_read(&c->stat, c->text, sizeof(c->text)) > 0)
        stat_set(c, t);
    if (cfile_read(&c->load, c->text, sizeof(c->text)) > 0)
        for (size_t i = 0; i < 3 && scan_f64(&p, &v); i++)
            telemetry_set(t, c->load_ids[i], v);
    p = c->text;
    if (cfile_read(&c->files, c->text, sizeof(c->text)) > 0 && scan_u64(&p, &n)) {
        telemetry_set(t, c->file_ids[0], (double)n);
        if (scan_u64(&p, &n) && scan_u64(&p, &n))
            telemetry_set(t, c->file_ids[1], (double)n);
    }
    telemetry_end(t);
}

const struct collector collect_cpu = {
    .name = "cpu", .period_ms = 1000, .open = cpu_open, .sample = cpu_sample, .close = cpu_close
};
