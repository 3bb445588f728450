/* SPDX-License-Identifier: MIT */
/* fake_agent: a fake.  Serves the agent's API and page from made-up values of eight GPUs, so that
 * the page can be looked at and tested without a machine.
 *
 *     fake_agent [--port N] [--inventory FILE] [--demo] [--fleet ADDRESS]…
 *
 * Values are functions of the metric, the GPU and the time: any second of the last six hours can
 * be asked for, and none is stored.  So the history, the alerts and their words are fakes too, in
 * the place of src/metrics/ring.c and alert.c.  GET /fake/alert makes an alert fire, /fake/resolve
 * ends it, /fake/xid adds an event, /fake/lose makes GPU 5 unknown, /fake/find brings it back. */
#include "agent/api.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 8, LINKS = 18, FLEET_MAX = 8, HISTORY_S = 6 * 3600, SAMPLES = 6, ROUTES_MAX = 32 };
#define SECOND INT64_C(1000000000)

static struct tele *table;
static int64_t begun_ns;
static atomic_bool firing, lost;
static _Atomic int64_t fired_ns, resolved_ns;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* ---- values: noise from a hash, so that the same second always has the same value */
static double noise(unsigned seed, int64_t s)
{
    uint64_t x = (uint64_t)s * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xbf58476d1ce4e5b9);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0 - 0.5;
}

/* 0 to 1: six GPUs train together and stop to save, one serves, one is idle. */
static double load(int gpu, int64_t s)
{
    if (gpu == 7)
        return 0;
    if (gpu == 6)
        return 0.42 + 0.25 * sin((double)s / 340.0) + 0.18 * noise(60, s);
    if (s % 900 < 25)
        return 0.06 + 0.03 * noise(70, s);
    return 0.96 + 0.05 * noise(80 + (unsigned)gpu, s);
}

static double clamp(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static double smooth(int gpu, int64_t s)
{
    double sum = 0;

    for (int i = 0; i < 6; i++)
        sum += load(gpu, s - i * 9);
    return sum / 6;
}

struct shape {
    const char *metric;
    double (*of)(int gpu, int64_t s);
};

static double of_util(int g, int64_t s)
{
    return round(100 * clamp(load(g, s), 0, 1));
}
static double of_tensor(int g, int64_t s)
{
    return g == 7 ? 0 : clamp(0.58 * load(g, s) + 0.06 * noise(9 + (unsigned)g, s), 0, 1);
}
static double of_sm(int g, int64_t s)
{
    return clamp(0.88 * load(g, s) + 0.03 * noise(29 + (unsigned)g, s), 0, 1);
}
static double of_dram(int g, int64_t s)
{
    return clamp(0.47 * load(g, s) + 0.05 * noise(49 + (unsigned)g, s), 0, 1);
}
static double of_temp(int g, int64_t s)
{
    return round(33 + g % 4 * 2 + 32 * smooth(g, s) + (g == 3 ? 9 : 0));
}
static double of_mem_temp(int g, int64_t s)
{
    return of_temp(g, s) + 6;
}
static double of_power(int g, int64_t s)
{
    return 78 + 590 * clamp(load(g, s), 0, 1) + 14 * noise(11 + (unsigned)g, s);
}
static double of_clock(int g, int64_t s)
{
    return g == 7 ? 345 : 1980 - (g == 3 ? 165 : 0) - 15 * round(2 * fabs(noise(3, s)));
}
static double of_events(int g, int64_t s)
{
    return g == 7 ? 1 : g == 3 ? 0x20 : load(g, s) > 0.97 ? 4 : 0;
}
static double of_fb_used(int g, int64_t s)
{
    (void)s;
    return (double)(g == 7 ? 0 : g == 6 ? 61 : 118 + g) * 1073741824.0;
}
static double of_nvlink(int g, int64_t s)
{
    return g < 6 ? clamp(load(g, s), 0, 1) * 211e9 + 9e9 * noise(19, s) : 0;
}
static double of_pcie(int g, int64_t s)
{
    return 2e9 * clamp(load(g, s), 0, 1) + 3e8 * (noise(21, s) + 0.5);
}

/* ---- what never moves, as functions so that one table has all */
#define FIXED(name, value)                                                                         \
    static double name(int g, int64_t s)                                                           \
    {                                                                                              \
        (void)g;                                                                                   \
        (void)s;                                                                                   \
        return value;                                                                              \
    }
FIXED(of_zero, 0)
FIXED(of_one, 1)
FIXED(of_total, 150754820096.0)
FIXED(of_limit, 700)
FIXED(of_mem_clock, 3201)
FIXED(of_clock_max, 1980)
FIXED(of_slow, 87)
FIXED(of_gen, 5)
FIXED(of_width, 16)
FIXED(of_links, LINKS)
static double of_sbe(int g, int64_t s)
{
    (void)s;
    return g == 2 ? 3 : 0;
}
static double of_procs(int g, int64_t s)
{
    (void)s;
    return g < 6 ? 1 : g == 6 ? 2 : 0;
}

static const struct shape shapes[] = {
    { "gpu.util", of_util },
    { "gpu.prof.tensor", of_tensor },
    { "gpu.prof.sm", of_sm },
    { "gpu.prof.dram", of_dram },
    { "gpu.temp", of_temp },
    { "gpu.mem.temp", of_mem_temp },
    { "gpu.temp.slowdown", of_slow },
    { "gpu.power", of_power },
    { "gpu.power.limit", of_limit },
    { "gpu.clock.sm", of_clock },
    { "gpu.clock.sm.max", of_clock_max },
    { "gpu.clock.mem", of_mem_clock },
    { "gpu.clock_events", of_events },
    { "gpu.fb.used", of_fb_used },
    { "gpu.fb.total", of_total },
    { "gpu.prof.nvlink_tx", of_nvlink },
    { "gpu.prof.nvlink_rx", of_nvlink },
    { "gpu.prof.pcie_tx", of_pcie },
    { "gpu.prof.pcie_rx", of_pcie },
    { "gpu.pcie.gen", of_gen },
    { "gpu.pcie.width", of_width },
    { "gpu.pcie.replay", of_zero },
    { "gpu.ecc.sbe.volatile", of_sbe },
    { "gpu.ecc.dbe.volatile", of_zero },
    { "gpu.remap.correctable", of_zero },
    { "gpu.remap.uncorrectable", of_zero },
    { "gpu.remap.pending", of_zero },
    { "gpu.remap.failure", of_zero },
    { "gpu.nvlink.links", of_links },
    { "gpu.processes", of_procs },
    { "gpu.ecc.mode", of_one },
};

static double of_cpu(int g, int64_t s)
{
    (void)g;
    return 22 + 30 * smooth(6, s) + 6 * noise(31, s);
}
static double of_mem_total(int g, int64_t s)
{
    (void)g;
    (void)s;
    return 2164.0 * 1073741824;
}
static double of_mem_avail(int g, int64_t s)
{
    (void)g;
    return (1500 + 90 * sin((double)s / 4000)) * 1073741824.0;
}
static double of_load1(int g, int64_t s)
{
    (void)g;
    return 38 + 9 * noise(33, s / 5);
}

static const struct shape host_shapes[] = {
    { "host.cpu.util", of_cpu },
    { "host.mem.total", of_mem_total },
    { "host.mem.available", of_mem_avail },
    { "host.load1", of_load1 },
};

/* ---- models: a counter is the integral of its rate, near enough */
static double of_requests(int g, int64_t s)
{
    return floor((double)(s % 10000000) * (g ? 31.5 : 212.25));
}
static double of_tokens(int g, int64_t s)
{
    return of_requests(g, s) * 96;
}
static double of_p50(int g, int64_t s)
{
    return (g ? 0.021 : 0.0042) * (1 + 0.2 * noise(41, s));
}
static double of_p99(int g, int64_t s)
{
    return (g ? 0.064 : 0.0118) * (1 + 0.4 * fabs(noise(43, s)));
}
static double of_queue(int g, int64_t s)
{
    return g ? round(3 + 3 * noise(45, s)) : 0;
}
static double of_model_mem(int g, int64_t s)
{
    (void)s;
    return g ? 1.2e9 : 1.1e8;
}

static const struct shape model_shapes[] = {
    { "model.requests", of_requests }, { "model.tokens", of_tokens },
    { "model.latency.p50", of_p50 },   { "model.latency.p99", of_p99 },
    { "model.queue", of_queue },       { "model.memory", of_model_mem },
    { "model.ready", of_one },         { "model.errors", of_zero },
};
static const char *const models[] = { "all-MiniLM-L6-v2", "bge-reranker-v2-m3" };

/* ---- labels */
struct gpu_labels {
    char gpu[12], uuid[48], bdf[24], device[24];
    struct tele_label at[6];
};

static void gpu_labels(int g, struct gpu_labels *l)
{
    snprintf(l->gpu, sizeof(l->gpu), "%d", g);
    snprintf(l->uuid, sizeof(l->uuid), "GPU-fa4e0000-0000-4000-8000-%012d", g);
    snprintf(l->bdf, sizeof(l->bdf), "00000000:%02X:00.0", 0x1b + 0x10 * g);
    snprintf(l->device, sizeof(l->device), "nvidia%d", g);
    l->at[0] = (struct tele_label){ "gpu", l->gpu };
    l->at[1] = (struct tele_label){ "UUID", l->uuid };
    l->at[2] = (struct tele_label){ "pci_bus_id", l->bdf };
    l->at[3] = (struct tele_label){ "device", l->device };
    l->at[4] = (struct tele_label){ "modelName", "NVIDIA H200" };
    l->at[5] = (struct tele_label){ "DCGM_FI_DRIVER_VERSION", "570.86.15" };
}

static uint32_t gpu_series(unsigned source, const char *metric, int g)
{
    struct gpu_labels l;

    gpu_labels(g, &l);
    return tele_series(table, source, tele_metric(metric), l.at, 6);
}

static void set_process(unsigned source, int g, int pid, const char *command, const char *user,
                        const char *job, double bytes, double util)
{
    char gpu[12], text[16];
    struct tele_label l[] = { { "gpu", gpu },
                              { "pid", text },
                              { "command", command },
                              { "user", user },
                              { "slurm_job", job },
                              { "container", "" },
                              { "unit", job[0] ? "" : "stoker-serve.service" } };

    snprintf(gpu, sizeof(gpu), "%d", g);
    snprintf(text, sizeof(text), "%d", pid);
    tele_set(table, tele_series(table, source, tele_metric("process.gpu.memory"), l, 7), bytes);
    tele_set(table, tele_series(table, source, tele_metric("process.gpu.util"), l, 7), util);
}

static void sample_gpus(unsigned source, int64_t s)
{
    tele_begin(table, source, s * SECOND);
    for (int g = 0; g < GPUS; g++) {
        if (g == 5 && atomic_load(&lost))
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
            tele_set(table, gpu_series(source, shapes[i].metric, g), shapes[i].of(g, s));
        if (g < 6)
            set_process(source, g, 41200 + g, "python3", "mira", "88121", of_fb_used(g, s) - 6e8,
                        of_util(g, s));
        if (g == 6) {
            set_process(source, g, 3120, "stoker", "stoker", "", 21e9, 30);
            set_process(source, g, 52877, "python3", "jonas", "88140", 44e9, 12);
        }
    }
    tele_end(table);
}

static void sample_host(unsigned source, int64_t s)
{
    tele_begin(table, source, s * SECOND);
    for (size_t i = 0; i < ARRAY_SIZE(host_shapes); i++)
        tele_set(table, tele_series(table, source, tele_metric(host_shapes[i].metric), NULL, 0),
                 host_shapes[i].of(0, s));
    for (int m = 0; m < 2; m++)
        for (size_t i = 0; i < ARRAY_SIZE(model_shapes); i++) {
            struct tele_label l[] = { { "model", models[m] }, { "device", "cuda:6" } };

            tele_set(table, tele_series(table, source, tele_metric(model_shapes[i].metric), l, 2),
                     model_shapes[i].of(m, s));
        }
    tele_end(table);
}

static void add_event(int64_t ns, enum tele_event_kind kind, int gpu, int code, const char *text)
{
    struct tele_event e = { .time_ns = ns, .kind = kind, .gpu = gpu, .code = code };

    (void)str_copy(e.text, sizeof(e.text), text);
    tele_event(table, &e);
}

/* ---- the fake history */
static double (*shape_of(const char *metric))(int, int64_t)
{
    static const struct {
        const struct shape *rows;
        size_t count;
    } all[] = { { shapes, ARRAY_SIZE(shapes) },
                { host_shapes, ARRAY_SIZE(host_shapes) },
                { model_shapes, ARRAY_SIZE(model_shapes) } };

    for (size_t k = 0; k < ARRAY_SIZE(all); k++)
        for (size_t i = 0; i < all[k].count; i++)
            if (str_eq(all[k].rows[i].metric, metric))
                return all[k].rows[i].of;
    return NULL;
}

static const char *label(const struct tele_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return NULL;
}

static struct ring_point point(double (*of)(int, int64_t), int g, int64_t from, int64_t step_s)
{
    struct ring_point p = { .time_ns = from * SECOND, .min = INFINITY, .max = -INFINITY };
    int64_t each = step_s / SAMPLES > 0 ? step_s / SAMPLES : 1;
    double sum = 0;

    for (int64_t s = from; s < from + step_s; s += each) {
        double v = of(g, s);

        p.min = v < p.min ? v : p.min;
        p.max = v > p.max ? v : p.max;
        p.last = v;
        sum += v;
        p.count++;
    }
    p.mean = sum / p.count;
    return p;
}

static uint32_t find(const char *metric, int g)
{
    for (uint32_t id = 0; id < tele_count(table); id++) {
        const char *gpu = label(tele_get(table, id), "gpu");

        if (str_eq(tele_get(table, id)->metric->id, metric) && gpu && strtol(gpu, NULL, 10) == g)
            return id;
    }
    return TELE_NONE;
}

static bool matches(const struct tele_series *s, const struct ring_query *q)
{
    for (size_t i = 0; i < q->label_count; i++)
        if (!str_eq(label(s, q->labels[i].name), q->labels[i].value))
            return false;
    return str_eq(s->metric->id, q->metric);
}

enum rc ring_read(struct ring *r, const struct ring_query *q, ring_take *take, void *arg,
                  struct err *err)
{
    int64_t step = q->step_ns ? q->step_ns / SECOND : 1, now = now_ns() / SECOND;
    int64_t from = q->from_ns / SECOND, oldest = begun_ns / SECOND - HISTORY_S;
    struct ring_point *p =
        xcalloc((size_t)((q->to_ns - q->from_ns) / (step * SECOND)) + 2, sizeof(*p));
    bool more = true;

    (void)r;
    (void)err;
    for (uint32_t id = 0; more && id < tele_count(table); id++) {
        const struct tele_series *s = tele_get(table, id);
        const char *gpu = label(s, "gpu"), *model = label(s, "model");
        double (*of)(int, int64_t) = shape_of(q->metric);
        int g = gpu ? (int)strtol(gpu, NULL, 10) : model && str_eq(model, models[1]);
        size_t n = 0;

        if (!matches(s, q) || !of)
            continue;
        for (int64_t t = from; t * SECOND < q->to_ns; t += step)
            if (t >= oldest && t + step <= now + 1 && !(g == 5 && t % 7200 > 7000)) /* a gap */
                p[n++] = point(of, g, t, step);
        more = take(arg, s, p, n);
    }
    free(p);
    return RC_OK;
}

enum rc ring_events(struct ring *r, int64_t from_ns, int64_t to_ns,
                    bool (*take)(void *arg, const struct tele_event *e), void *arg, struct err *err)
{
    struct tele_event *list = xcalloc(TELE_EVENTS_MAX, sizeof(*list));

    (void)r;
    (void)err;
    for (size_t i = 0, n = tele_events(table, from_ns, list, TELE_EVENTS_MAX); i < n; i++)
        if (list[i].time_ns <= to_ns && !take(arg, &list[i]))
            break;
    free(list);
    return RC_OK;
}

void ring_stats(struct ring *r, struct ring_stats *out)
{
    (void)r;
    *out = (struct ring_stats){ .bytes = 512 << 20,
                                .used = 301 << 20,
                                .samples = 120000000,
                                .blocks = 9000,
                                .oldest_ns = begun_ns - HISTORY_S * SECOND,
                                .oldest_minute_ns = begun_ns - HISTORY_S * SECOND,
                                .newest_ns = now_ns() };
}

/* ---- the fake alerts */
static const struct alert_rule rules[] = {
    { .name = "GpuTemperatureHigh",
      .metric = "gpu.temp",
      .threshold = 70,
      .severity = ALERT_CRITICAL,
      .why = "17 C below the slowdown temperature" },
    { .name = "GpuThrottled",
      .metric = "gpu.clock_events",
      .threshold = 0,
      .severity = ALERT_WARNING,
      .why = "clocks are held back by software thermal slowdown" },
};

size_t alerts_list(struct alerts *a, struct alert_active *out, size_t cap)
{
    size_t n = 0;

    (void)a;
    if (cap < 2)
        return 0;
    out[n] = (struct alert_active){ .rule = &rules[1],
                                    .series = find("gpu.clock_events", 3),
                                    .state = ALERT_FIRING,
                                    .since_ns = begun_ns - 5400 * SECOND,
                                    .fired_ns = begun_ns - 5340 * SECOND,
                                    .value = 0x20 };
    snprintf(out[n++].summary, TELE_VALUE_MAX, "GPU 3 runs below its clocks: thermal slowdown");
    if (!atomic_load(&fired_ns))
        return n;
    out[n] = (struct alert_active){ .rule = &rules[0],
                                    .series = find("gpu.temp", 3),
                                    .state = atomic_load(&firing) ? ALERT_FIRING : ALERT_RESOLVED,
                                    .since_ns = atomic_load(&fired_ns),
                                    .fired_ns = atomic_load(&fired_ns),
                                    .resolved_ns = atomic_load(&resolved_ns),
                                    .value = 78 };
    snprintf(out[n++].summary, TELE_VALUE_MAX, "GPU 3 is at 78 C, above 70 C");
    return n;
}

/* ---- what a test may do */
static void on_fake(void *arg, struct http_exchange *x)
{
    const char *what = http_request(x)->path + strlen("/fake/");
    struct buf body = { 0 };

    (void)arg;
    if (str_eq(what, "alert")) {
        atomic_store(&fired_ns, now_ns());
        atomic_store(&resolved_ns, 0);
        atomic_store(&firing, true);
    } else if (str_eq(what, "resolve")) {
        atomic_store(&resolved_ns, now_ns());
        atomic_store(&firing, false);
    } else if (str_eq(what, "xid")) {
        add_event(now_ns(), TELE_EVENT_XID, 3, 94, "XID 94: contained ECC error");
    } else if (str_eq(what, "lose") || str_eq(what, "find")) {
        atomic_store(&lost, str_eq(what, "lose"));
    }
    buf_adds(&body, "ok\n");
    http_reply(x, 200, "text/plain", &body, NULL);
}

static void make_history(void)
{
    add_event(begun_ns - 17000 * SECOND, TELE_EVENT_AGENT, -1, 0, "agent started");
    add_event(begun_ns - 9000 * SECOND, TELE_EVENT_XID, 2, 63, "XID 63: row remapping recorded");
    add_event(begun_ns - 5340 * SECOND, TELE_EVENT_ALERT, 3, 0, "GpuThrottled fires on GPU 3");
    add_event(begun_ns - 1200 * SECOND, TELE_EVENT_LINK, -1, 0, "mlx5_4 port 1: link down");
    add_event(begun_ns - 1188 * SECOND, TELE_EVENT_LINK, -1, 0, "mlx5_4 port 1: link up");
}

static void read_inventory(const char *path)
{
    struct err err = { 0 };
    struct buf text = { 0 };

    if (file_read(path, 16 << 20, &text, &err))
        fprintf(stderr, "fake_agent: %s\n", err.msg);
    else
        tele_doc(table, "inventory", buf_str(&text));
    buf_release(&text);
}

int main(int argc, char **argv)
{
    static struct http_route routes[ROUTES_MAX];
    static const char *fleet[FLEET_MAX + 1];
    struct api_opts o = { .host = "fake-hgx-01", .fleet = fleet, .now_ns = now_ns };
    struct http_opts h = { .routes = routes, .server_name = "fake_agent" };
    struct http_server *server;
    struct api *served;
    const struct http_route *own;
    struct err err = { 0 };
    size_t own_count, fleet_count = 0;
    int port = 0;
    sigset_t ends;

    table = tele_new(0);
    begun_ns = now_ns();
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--demo"))
            o.demo = true;
        else if (i + 1 < argc && str_eq(argv[i], "--port"))
            port = (int)strtol(argv[++i], NULL, 10);
        else if (i + 1 < argc && str_eq(argv[i], "--inventory"))
            read_inventory(argv[++i]);
        else if (i + 1 < argc && str_eq(argv[i], "--fleet") && fleet_count < FLEET_MAX)
            fleet[fleet_count++] = argv[++i];
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    o.tele = table;
    o.begun_ns = begun_ns;
    o.view = (struct api_view){ (struct ring *)(void *)&begun_ns,
                                (struct alerts *)(void *)&begun_ns }; /* looked at by fakes alone */
    make_history();
    sample_gpus(tele_source(table, "gpu"), begun_ns / SECOND);
    sample_host(tele_source(table, "host"), begun_ns / SECOND);
    if (api_new(&o, &served, &err))
        return 1;
    own = api_routes(served, &own_count);
    memcpy(routes, own, own_count * sizeof(*own));
    routes[own_count] = (struct http_route){ HTTP_GET, "/fake/*", on_fake, NULL, true };
    h.route_count = own_count + 1;
    if (http_server_new(&h, &server, &err) || http_listen(server, "127.0.0.1", port, &port, &err) ||
        http_start(server, &err)) {
        fprintf(stderr, "fake_agent: %s\n", err.msg);
        return 1;
    }
    printf("http://127.0.0.1:%d/\n", port);
    fflush(stdout);
    for (int64_t s = now_ns() / SECOND + 1;; s++) {
        int64_t left = s * SECOND - now_ns();
        struct timespec wait = { left > 0 ? left / SECOND : 0, left > 0 ? left % SECOND : 0 };

        if (sigtimedwait(&ends, NULL, &wait) > 0)
            break;
        sample_gpus(tele_source(table, "gpu"), s);
        sample_host(tele_source(table, "host"), s);
        api_tick(served, s * SECOND);
    }
    http_server_free(server);
    api_free(served);
    tele_free(table);
    return 0;
}
