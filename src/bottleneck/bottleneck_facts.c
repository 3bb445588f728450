/* SPDX-License-Identifier: MIT */
/* bottleneck_facts: from a window's slots to shares of what is possible.
 *
 * Where two sources tell the same, the better one is asked first; where several parts do the same
 * work (ports, disks, cores) the busiest counts. */
#include "base/mem.h"
#include "base/str.h"
#include "bottleneck/bottleneck_int.h"
#include "catalog/catalog.h"

#include <math.h>
#include <stdlib.h>

const char *const bottleneck_metrics[] = {
    "gpu.util",
    "gpu.mem.util",
    "gpu.prof.sm",
    "gpu.prof.graphics",
    "gpu.prof.tensor",
    "gpu.prof.fp64",
    "gpu.prof.fp32",
    "gpu.prof.fp16",
    "gpu.prof.dram",
    "gpu.prof.pcie_tx",
    "gpu.prof.pcie_rx",
    "gpu.pcie.tx_bytes",
    "gpu.pcie.rx_bytes",
    "gpu.pcie.gen",
    "gpu.pcie.width",
    "gpu.prof.nvlink_tx",
    "gpu.prof.nvlink_rx",
    "gpu.nvlink.tx_bytes",
    "gpu.nvlink.rx_bytes",
    "gpu.nvlink.links",
    "link.speed",
    "gpu.clock.sm",
    "gpu.clock.sm.max",
    "gpu.clock_events",
    "gpu.violation.power",
    "gpu.violation.thermal",
    "gpu.throttle.sw_thermal",
    "gpu.throttle.hw_thermal",
    "gpu.throttle.hw_brake",
    "gpu.processes",
    "host.cpu.util",
    "host.cpu.seconds|mode=idle",
    "host.cpu.seconds|mode=iowait",
    "host.cpu.all_seconds|mode=iowait",
    "host.pressure.cpu.waiting",
    "host.pressure.io.waiting",
    "host.pressure.memory.waiting",
    "disk.io_seconds",
    "net.rx_bytes",
    "net.tx_bytes",
    "net.speed",
    "port.rx_bytes",
    "port.tx_bytes",
    "port.rate",
    "nfs.mount.response_seconds",
    "lustre.rpc_wait_seconds",
    "disk.read_bytes",
    "lustre.read_bytes",
    "nfs.mount.total_read_bytes",
    NULL,
};

/* Bits of the reasons for which clocks are held back. */
enum { REASON_POWER_CAP = 2, REASON_SW_THERMAL = 5, REASON_HW_THERMAL = 6, REASON_BRAKE = 7 };

enum {
    PCIE_GENS = 7,              /* that the table below knows, and 0 */
    POWER_CAP_MOSTLY = 50,      /* percent of the time: then a lower clock is the limit's doing */
    TINY_RUNS_PERCENT = 5,      /* of the time kernels must run for their size to matter */
    FED_LEAST_BYTES = 10000000, /* a second: less is not worth speaking of */
    WORK_UTIL_PERMILLE = 10     /* of the time busy: somebody works on the GPU */
};
/* Bytes a second of a lane in one direction, behind the line code. */
static const double pcie_lane[PCIE_GENS] = {
    NAN, 250e6, 500e6, 984.6e6, 1969.2e6, 3938.5e6, 7563e6
};

/* ---- of one GPU, or of the host */

static double mean_of(const struct window *w, const char *metric, int gpu)
{
    return window_mean(window_find(w, metric, gpu));
}

static double rate_of(const struct window *w, const char *metric, int gpu)
{
    return window_rate(window_find(w, metric, gpu));
}

/* The larger one that is known. */
static double larger_known(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : a > b ? a : b;
}

static double first_known(double a, double b)
{
    return isnan(a) ? b : a;
}

static double bit_share(const struct window *w, int gpu, int bit)
{
    const struct window_slot *s = window_find(w, "gpu.clock_events", gpu);

    return s ? (double)s->bits[bit] / (double)s->count : NAN;
}

static double held_share(const struct window *w, const char *metric, int gpu)
{
    return rate_of(w, metric, gpu) / 1e9; /* ns a second */
}

static double fact_thermal(const struct window *w, int gpu)
{
    double v =
        larger_known(bit_share(w, gpu, REASON_SW_THERMAL), bit_share(w, gpu, REASON_HW_THERMAL));

    v = larger_known(v, held_share(w, "gpu.throttle.sw_thermal", gpu));
    v = larger_known(v, held_share(w, "gpu.throttle.hw_thermal", gpu));
    return larger_known(v, held_share(w, "gpu.violation.thermal", gpu));
}

static double power_cap(const struct window *w, int gpu)
{
    return larger_known(bit_share(w, gpu, REASON_POWER_CAP),
                        held_share(w, "gpu.violation.power", gpu));
}

/* Share of the highest clock that the power limit takes. */
static double clock_lost(const struct window *w, int gpu)
{
    double cap = power_cap(w, gpu), now = mean_of(w, "gpu.clock.sm", gpu),
           top = mean_of(w, "gpu.clock.sm.max", gpu);

    if (isnan(cap))
        return NAN;
    if (cap < POWER_CAP_MOSTLY / 100.0)
        return 0;
    return top > 0 && now <= top ? 1 - now / top : NAN;
}

static double fact_pcie(const struct window *w, int gpu)
{
    double tx =
        first_known(mean_of(w, "gpu.prof.pcie_tx", gpu), rate_of(w, "gpu.pcie.tx_bytes", gpu));
    double rx =
        first_known(mean_of(w, "gpu.prof.pcie_rx", gpu), rate_of(w, "gpu.pcie.rx_bytes", gpu));
    const struct window_slot *gen = window_find(w, "gpu.pcie.gen", gpu);
    double width = mean_of(w, "gpu.pcie.width", gpu);

    /* the highest seen: an idle link falls back to save power */
    if (!gen || gen->max < 1 || gen->max >= PCIE_GENS || !(width >= 1))
        return NAN;
    return larger_known(tx, rx) / (pcie_lane[(size_t)gen->max] * width);
}

/* One direction of all links: what they say themselves, else what the model has. */
static double nvlink_most(const struct window *w, int gpu)
{
    const struct window_slot *any = window_find(w, "gpu.util", gpu);
    struct cat_gpu_table table = { 0 };
    const struct cat_gpu *row = NULL;
    struct arena a = { 0 };
    double sum = 0;

    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *s = window_at(w, i);
        if (s->gpu == gpu && s->count && str_eq(s->id, "link.speed"))
            sum += window_mean(s) * 1e6;
    }
    if (sum > 0)
        return sum;
    if (any && window_label(any, "modelName") && cat_gpu_load(&a, &table, NULL) == RC_OK)
        row = cat_gpu_find(&table, maybe_none(), window_label(any, "modelName"));
    sum = row && row->nvlink_gbps.known ? (double)row->nvlink_gbps.v * 1e9 : NAN;
    arena_release(&a);
    return sum > 0 ? sum : NAN;
}

static double fact_nvlink(const struct window *w, int gpu, bool *absent)
{
    double links = mean_of(w, "gpu.nvlink.links", gpu), v;

    v = larger_known(mean_of(w, "gpu.prof.nvlink_tx", gpu), mean_of(w, "gpu.prof.nvlink_rx", gpu));
    if (isnan(v))
        v = larger_known(rate_of(w, "gpu.nvlink.tx_bytes", gpu),
                         rate_of(w, "gpu.nvlink.rx_bytes", gpu));
    *absent = links == 0 || (isnan(links) && isnan(v)) || (isnan(links) && v == 0);
    return *absent ? NAN : v / nvlink_most(w, gpu);
}

/* Kernels run, and most SMs have no part in them: launches take longer than the work. */
static double fact_tiny(const struct window *w, int gpu)
{
    double runs = mean_of(w, "gpu.prof.graphics", gpu), sm = mean_of(w, "gpu.prof.sm", gpu);

    if (isnan(runs) || isnan(sm))
        return NAN;
    return runs * 100 < TINY_RUNS_PERCENT || sm >= runs ? 0 : 1 - sm / runs;
}

static double fact_work(const struct window *w, int gpu)
{
    double processes = mean_of(w, "gpu.processes", gpu), util = mean_of(w, "gpu.util", gpu);

    if (isnan(processes) && isnan(util))
        return NAN;
    return processes > 0 || util * 10 > WORK_UTIL_PERMILLE ? 1 : 0;
}

static void gpu_facts(const struct window *w, int gpu, struct bottleneck_facts *f)
{
    double *at = f->at;

    at[BOTTLENECK_F_UTIL] = mean_of(w, "gpu.util", gpu) / 100;
    at[BOTTLENECK_F_SM] = mean_of(w, "gpu.prof.sm", gpu);
    at[BOTTLENECK_F_TENSOR] = mean_of(w, "gpu.prof.tensor", gpu);
    at[BOTTLENECK_F_PIPES] = larger_known(
        mean_of(w, "gpu.prof.fp64", gpu),
        larger_known(mean_of(w, "gpu.prof.fp32", gpu), mean_of(w, "gpu.prof.fp16", gpu)));
    at[BOTTLENECK_F_TINY] = fact_tiny(w, gpu);
    at[BOTTLENECK_F_DRAM] = mean_of(w, "gpu.prof.dram", gpu);
    at[BOTTLENECK_F_MEM_UTIL] = mean_of(w, "gpu.mem.util", gpu) / 100;
    at[BOTTLENECK_F_PCIE] = fact_pcie(w, gpu);
    at[BOTTLENECK_F_NVLINK] = fact_nvlink(w, gpu, &f->absent[BOTTLENECK_F_NVLINK]);
    at[BOTTLENECK_F_THERMAL] = fact_thermal(w, gpu);
    at[BOTTLENECK_F_BRAKE] =
        larger_known(bit_share(w, gpu, REASON_BRAKE), held_share(w, "gpu.throttle.hw_brake", gpu));
    at[BOTTLENECK_F_POWER_CAP] = power_cap(w, gpu);
    at[BOTTLENECK_F_CLOCK_LOST] = clock_lost(w, gpu);
    at[BOTTLENECK_F_WORK] = fact_work(w, gpu);
}

/* ---- of the host */

/* The slot of `metric` with the same value of a label (and of a second one, or NULL). */
static const struct window_slot *slot_beside(const struct window *w, const char *metric,
                                             const struct window_slot *s, const char *label,
                                             const char *second)
{
    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *o = window_at(w, i);
        if (o->count && str_eq(o->id, metric) &&
            str_eq(window_label(o, label), window_label(s, label)) &&
            (!second || str_eq(window_label(o, second), window_label(s, second))))
            return o;
    }
    return NULL;
}

static double busiest_core(const struct window *w)
{
    double most = NAN;

    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *s = window_at(w, i);
        double idle, wait;
        if (!str_eq(s->id, "host.cpu.seconds") || !str_eq(window_label(s, "mode"), "idle"))
            continue;
        idle = window_rate(s);
        wait = 0;
        for (size_t k = i + 1; k < window_count(w) && k < i + 8; k++) /* its modes stand together */
            if (str_eq(window_label(window_at(w, k), "mode"), "iowait") &&
                str_eq(window_label(window_at(w, k), "cpu"), window_label(s, "cpu")))
                wait = window_rate(window_at(w, k));
        if (!isnan(idle))
            most = larger_known(most, 1 - idle - (isnan(wait) ? 0 : wait));
    }
    return most < 0 ? 0 : most > 1 ? 1 : most;
}

/* In CPUs: a share of all of them would hide a few readers of a large machine. */
static double fact_iowait(const struct window *w)
{
    for (size_t i = 0; i < window_count(w); i++)
        if (str_eq(window_at(w, i)->id, "host.cpu.all_seconds"))
            return window_rate(window_at(w, i));
    return NAN;
}

static bool has_any(const struct window *w, const char *metric)
{
    return window_find(w, metric, -1) != NULL;
}

static double busiest_disk(const struct window *w)
{
    double most = NAN;

    for (size_t i = 0; i < window_count(w); i++)
        if (str_eq(window_at(w, i)->id, "disk.io_seconds"))
            most = larger_known(most, window_rate(window_at(w, i)));
    return most;
}

/* Bytes of links against their speed: `parts` are rx and tx, `speed` is a gauge. */
struct link_kind {
    const char *rx, *tx, *speed, *label, *second;
};
static const struct link_kind net_kind = { "net.rx_bytes", "net.tx_bytes", "net.speed", "device",
                                           NULL };
static const struct link_kind rdma_kind = { "port.rx_bytes", "port.tx_bytes", "port.rate", "device",
                                            "port" };

static double busiest_link(const struct window *w, const struct link_kind *k)
{
    double most = NAN;

    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *s = window_at(w, i);
        double speed;
        if (!str_eq(s->id, k->rx) && !str_eq(s->id, k->tx))
            continue;
        speed = window_mean(slot_beside(w, k->speed, s, k->label, k->second));
        if (speed > 0)
            most = larger_known(most, window_rate(s) / speed);
    }
    return most;
}

static bool has_network(const struct window *w)
{
    for (size_t i = 0; i < window_count(w); i++)
        if (str_eq(window_at(w, i)->id, net_kind.rx) &&
            !str_eq(window_label(window_at(w, i), "device"), "lo"))
            return true;
    return false;
}

/* Of all series of two metrics. */
static double sum_rates(const struct window *w, const char *one, const char *other)
{
    double sum = NAN;

    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *s = window_at(w, i);
        double rate = str_eq(s->id, one) || str_eq(s->id, other) ? window_rate(s) : NAN;

        if (!isnan(rate))
            sum = (isnan(sum) ? 0 : sum) + rate;
    }
    return sum;
}

/* Bytes read from storage against bytes that a GPU takes in: near 1, and more, every batch comes
 * from a disk or a file server just then. */
static double fact_fed(const struct window *w, int gpu)
{
    double in =
        first_known(mean_of(w, "gpu.prof.pcie_rx", gpu), rate_of(w, "gpu.pcie.rx_bytes", gpu));
    double read = NAN, shared = sum_rates(w, "lustre.read_bytes", "nfs.mount.total_read_bytes");

    for (size_t i = 0; i < window_count(w); i++) /* the most: a disk and its partitions are one */
        if (str_eq(window_at(w, i)->id, "disk.read_bytes"))
            read = larger_known(read, window_rate(window_at(w, i)));
    if (!isnan(shared))
        read = (isnan(read) ? 0 : read) + shared;
    if (isnan(in) || isnan(read))
        return NAN;
    if (in < FED_LEAST_BYTES || read < FED_LEAST_BYTES)
        return 0;
    return read < in ? read / in : 1;
}

/* The kernel brings its sum up to date every two seconds, so that a short span may have the waits
 * of a longer one; a share is no more than 1. */
static double fact_pressure(const struct window *w, const char *metric)
{
    double share = rate_of(w, metric, -1);

    return share > 1 ? 1 : share;
}

static void host_facts(const struct window *w, struct bottleneck_facts *f)
{
    double *at = f->at;

    at[BOTTLENECK_F_CPU] = mean_of(w, "host.cpu.util", -1) / 100;
    at[BOTTLENECK_F_CORE] = busiest_core(w);
    at[BOTTLENECK_F_IOWAIT] = fact_iowait(w);
    at[BOTTLENECK_F_PRESSURE_CPU] = fact_pressure(w, "host.pressure.cpu.waiting");
    at[BOTTLENECK_F_PRESSURE_IO] = fact_pressure(w, "host.pressure.io.waiting");
    at[BOTTLENECK_F_PRESSURE_MEMORY] = fact_pressure(w, "host.pressure.memory.waiting");
    at[BOTTLENECK_F_DISK] = busiest_disk(w);
    at[BOTTLENECK_F_REMOTE] = sum_rates(w, "nfs.mount.response_seconds", "lustre.rpc_wait_seconds");
    at[BOTTLENECK_F_NET] = busiest_link(w, &net_kind);
    at[BOTTLENECK_F_RDMA] = busiest_link(w, &rdma_kind);
    /* where the host was not watched at all, nothing can be said of its parts */
    if (!has_any(w, "host.cpu.util"))
        return;
    f->absent[BOTTLENECK_F_DISK] = !has_any(w, "disk.io_seconds");
    f->absent[BOTTLENECK_F_REMOTE] =
        !has_any(w, "nfs.mount.response_seconds") && !has_any(w, "lustre.rpc_wait_seconds");
    f->absent[BOTTLENECK_F_NET] = !has_network(w);
    f->absent[BOTTLENECK_F_RDMA] = !has_any(w, rdma_kind.rx);
}

/* ---- the public side */

void bottleneck_facts_of(const struct window *w, int gpu, struct bottleneck_facts *out)
{
    *out = (struct bottleneck_facts){ .no_gpu = gpu < 0 };
    for (size_t i = 0; i < BOTTLENECK_FACTS; i++)
        out->at[i] = NAN;
    out->seconds = (double)(window_to_ns(w) - window_from_ns(w)) / 1e9;
    if (gpu >= 0)
        gpu_facts(w, gpu, out);
    for (size_t i = 0; gpu < 0 && i < BOTTLENECK_F_CPU; i++)
        out->absent[i] = true;
    host_facts(w, out);
    out->at[BOTTLENECK_F_FED] = gpu < 0 ? NAN : fact_fed(w, gpu);
    out->absent[BOTTLENECK_F_FED] = gpu < 0 || out->absent[BOTTLENECK_F_DISK];
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

size_t bottleneck_gpus(const struct window *w, int *out, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *s = window_at(w, i);
        size_t k = 0;
        if (s->gpu < 0 || s->entity != TELEMETRY_GPU || !s->count)
            continue;
        while (k < n && out[k] != s->gpu)
            k++;
        if (k == n && n < cap)
            out[n++] = s->gpu;
    }
    qsort(out, n, sizeof(*out), by_number);
    return n;
}

void bottleneck_facts_merge(struct bottleneck_facts *into, const struct bottleneck_facts *more)
{
    double a = into->seconds > 0 ? into->seconds : 1, b = more->seconds > 0 ? more->seconds : 1;

    for (size_t i = 0; i < BOTTLENECK_FACTS; i++) {
        if (isnan(into->at[i]))
            into->at[i] = more->at[i];
        else if (!isnan(more->at[i]))
            into->at[i] = (into->at[i] * a + more->at[i] * b) / (a + b);
        into->absent[i] = into->absent[i] && more->absent[i];
    }
    into->seconds += more->seconds;
}

/* ---- from history */

static bool take_points(void *arg, const struct telemetry_series *s, const struct history_point *p,
                        size_t n)
{
    struct window_slot *slot = window_slot(arg, s);
    bool mean = s->metric->kind == TELEMETRY_GAUGE && !str_eq(s->metric->unit, "mask");

    for (size_t i = 0; slot && i < n; i++)
        if (p[i].count)
            window_add(slot, p[i].time_ns, mean ? p[i].mean : p[i].last);
    return true;
}

enum rc bottleneck_from_history(struct history *r, int64_t from_ns, int64_t to_ns, struct window *w,
                                struct err *err)
{
    for (size_t i = 0; bottleneck_metrics[i]; i++) {
        char id[TELEMETRY_NAME_MAX], *bar;
        struct telemetry_label want = { 0 };
        struct history_query q = { .metric = id, .from_ns = from_ns, .to_ns = to_ns };
        enum rc rc;

        (void)str_copy(id, sizeof(id), bottleneck_metrics[i]);
        bar = strchr(id, '|');
        if (bar) {
            *bar = '\0';
            want.name = bar + 1;
            bar = strchr(bar + 1, '=');
            *bar = '\0';
            want.value = bar + 1;
            q.labels = &want;
            q.label_count = 1;
        }
        rc = history_read(r, &q, take_points, w, err);
        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}
