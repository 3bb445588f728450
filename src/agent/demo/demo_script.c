/* SPDX-License-Identifier: MIT */
/* demo_script: see demo_script_int.h.  One second is worked out from the one before: levels that
 * each chapter wants, which powers and temperatures approach, and counters that grow.  Noise comes
 * from a generator with a fixed seed, so that every run is the same. */
#include "agent/demo/demo_script_int.h"

#include "base/embed.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

EMBED(demo_machine, "data/demo-machine.json");

/* ---- what happens when */
enum {
    SLOW_GPU = 2,
    HOT_GPU = 6,
    LOST_GPU = 5,
    SLOW_AT = 12,
    SLOW_END = 34,
    HOT_AT = 34,
    HOT_END = 49, /* its fans turn again */
    LOST_AT = 56,
    STOP_AT = 61, /* the launcher gives up the job */
    READ_AT = 66, /* it reads the checkpoint */
    BACK_AT = 70,
    TRAIN_AT = 78,
    BUSY_AT = 92, /* of the served model */
    BUSY_END = 112
};
static const struct chapter {
    int at;
    const char *title, *text;
} chapters[] = {
    { 0, "Eight GPUs train one model",
      "llama-3.1-8b on eight H200 over NVLink: all of them busy, a step a second. Topology shows "
      "how they are wired, Jobs how the training goes." },
    { SLOW_AT, "A straggler",
      "Somebody has locked the clocks of GPU 2 at 1200 MHz. The other seven wait for it in every "
      "step, still 100 % busy by their counters: Jobs names the rank, the cost and the reason." },
    { HOT_AT, "A hot GPU",
      "The fans in front of GPU 6 stand still. It passes 85 °C, alerts fire, the driver lowers its "
      "clocks; the fans turn again, and the alerts end." },
    { LOST_AT, "XID 79",
      "GPU 5 has fallen off the bus. Its values are unknown, not zero, and the job stops." },
    { BACK_AT, "Recovery",
      "GPU 5 was reset and is back; the job reads its checkpoint. Eight GPUs hold work and do "
      "nothing meanwhile: GpuUtilizationLow and TrainingStalled." },
    { 84, "All is well again",
      "Training goes on, the alerts end one after the other. A model served beside it is asked ten "
      "times as much as before: see Models. Then the story begins again." },
};

/* ---- the node */
#define GIB         (1024.0 * 1024 * 1024)
#define MEMORY      150754820096.0 /* of an H200 */
#define MEMORY_USED (0.82 * MEMORY)
#define STEP_TOKENS 131072.0
enum { CLOCK_MAX = 1980, CLOCK_LOCKED = 1200, CLOCK_HOT = 1830, SLOWDOWN_C = 89 };
static const double step_busy_s = 0.92, step_sent_s = 0.08; /* own work, and what NVLink adds */

struct gpu_story { /* in the units of data/telemetry.csv */
    double util, tensor, sm, dram, graphics, occupancy, fp16, nvlink_tx, nvlink_rx, pcie_tx,
        pcie_rx, mem_util;
    double power, temp, mem_temp, margin, clock, events, used, free, processes, lost, xid;
    double energy, sw_thermal, throttled_power, nvlink_bytes, pcie_tx_bytes, pcie_rx_bytes;
    double busy; /* seconds of its own work in a step */
};
struct story {
    struct telemetry *t;
    unsigned gpu, host, jobs, models, mark;
    uint64_t second; /* since the beginning */
    uint64_t dice;
    struct gpu_story gpus[STORY_GPUS];
    bool docs_put;
    double step, step_s, checkpoint_step, restarts, requests, tokens, disk_bytes, net_bytes;
    int64_t checkpoint_ns;
    double xids;
    struct buf doc; /* scratch */
};

static double noise_of(struct story *s, double size)
{
    s->dice = s->dice * 6364136223846793005U + 1442695040888963407U;
    return ((double)(s->dice >> 33) / (double)(UINT64_C(1) << 30) - 1) * size;
}

static bool is_between(int at, int from, int to)
{
    return at >= from && at < to;
}

static bool job_trains(int at)
{
    return at < LOST_AT || at >= TRAIN_AT;
}

/* ---- GPUs */

static void move_heat(struct gpu_story *g, int gpu, int at)
{
    double want = 34 + g->power * 0.044 + gpu % 4;
    bool hot = gpu == HOT_GPU && is_between(at, HOT_AT, HOT_END);

    if (hot)
        g->temp += (104 - g->temp) * 0.08;
    else
        g->temp += (want - g->temp) * (g->temp > want + 8 ? 0.22 : 0.12);
    g->temp = fmin(g->temp, SLOWDOWN_C - 0.4);
    g->mem_temp = g->temp + 4;
    g->margin = SLOWDOWN_C - g->temp;
}

static void move_power(struct story *s, struct gpu_story *g, double want)
{
    g->power += (want + noise_of(s, want * 0.02) - g->power) * 0.6;
    g->energy += g->power * 1000; /* mJ */
}

static void set_clock(struct gpu_story *g, int gpu, int at)
{
    bool locked = gpu == SLOW_GPU && is_between(at, SLOW_AT, SLOW_END);
    bool hot = g->temp > SLOWDOWN_C - 3;

    g->clock = locked ? CLOCK_LOCKED : hot ? CLOCK_HOT : CLOCK_MAX;
    g->events = locked ? 0x2 : hot ? 0x20 : job_trains(at) ? 0 : 0x1; /* NVML's reasons */
    g->sw_thermal += hot ? 6e8 : 0;
    if (!job_trains(at) && at >= STOP_AT && !locked)
        g->clock = 345;
    g->busy = step_busy_s * CLOCK_MAX / g->clock;
}

/* All of them end a step together: who is quick waits, in kernels that count as work. */
static void set_load(struct story *s, struct gpu_story *g, int at)
{
    double pace = job_trains(at) ? 1 / s->step_s : 0, waits = 1 - g->busy * pace;
    bool spins = is_between(at, LOST_AT, STOP_AT);

    g->util = job_trains(at) || spins ? 98.5 + noise_of(s, 1.4) : fmax(0, 2 + noise_of(s, 2));
    g->tensor = 0.58 * pace + (pace > 0 ? noise_of(s, 0.015) : 0);
    g->sm = job_trains(at) ? 0.9 + noise_of(s, 0.02) : spins ? 0.2 : 0.01;
    g->graphics = g->util / 100;
    g->occupancy = 0.42 * g->sm;
    g->fp16 = 0.03 * pace;
    g->dram = 0.44 * pace + (pace > 0 ? noise_of(s, 0.02) : 0.002);
    g->mem_util = 100 * g->dram;
    g->nvlink_tx = pace > 0 ? (96 + noise_of(s, 4)) * 1e9 * pace : 0;
    g->nvlink_rx = pace > 0 ? (96 + noise_of(s, 4)) * 1e9 * pace : 0;
    g->pcie_tx = job_trains(at)                      ? (0.4 + noise_of(s, 0.1)) * 1e9
                 : is_between(at, READ_AT, TRAIN_AT) ? 1e8
                                                     : 2e6;
    g->pcie_rx = job_trains(at)                      ? (1.1 + noise_of(s, 0.2)) * 1e9
                 : is_between(at, READ_AT, TRAIN_AT) ? 21e9
                                                     : 4e6;
    g->nvlink_bytes += g->nvlink_tx;
    g->pcie_tx_bytes += g->pcie_tx;
    g->pcie_rx_bytes += g->pcie_rx;
    double slow = g->clock / CLOCK_MAX;
    move_power(s, g,
               job_trains(at) ? 655 * (0.3 + 0.7 * slow * slow) - 300 * fmax(0, waits - 0.1)
               : spins        ? 240
                              : 118);
}

static void set_memory(struct gpu_story *g, int at)
{
    double read = !is_between(at, STOP_AT, BACK_AT + 2) ? 1 : fmax(0, (at - READ_AT + 1) / 7.0);

    g->used = 2.6 * GIB + (MEMORY_USED - 2.6 * GIB) * read;
    g->free = MEMORY - g->used - 0.6 * GIB;
    g->processes = 1;
}

static void move_gpus(struct story *s, int at)
{
    double slowest = 0;

    for (int i = 0; i < STORY_GPUS; i++) {
        set_clock(&s->gpus[i], i, at);
        slowest = fmax(slowest, s->gpus[i].busy);
    }
    s->step_s = slowest + step_sent_s;
    for (int i = 0; i < STORY_GPUS; i++) {
        struct gpu_story *g = &s->gpus[i];

        set_load(s, g, at);
        set_memory(g, at);
        move_heat(g, i, at);
        g->lost = i == LOST_GPU && is_between(at, LOST_AT, BACK_AT);
        g->busy *= 1 + noise_of(s, 0.01);
    }
}

#define NOW_ROW(id, member)                                                                        \
    {                                                                                              \
        id, offsetof(struct gpu_story, member)                                                     \
    }
static const struct {
    const char *id;
    size_t off;
} gpu_rows[] = {
    NOW_ROW("gpu.util", util),
    NOW_ROW("gpu.mem.util", mem_util),
    NOW_ROW("gpu.prof.tensor", tensor),
    NOW_ROW("gpu.prof.hmma", tensor),
    NOW_ROW("gpu.prof.sm", sm),
    NOW_ROW("gpu.prof.dram", dram),
    NOW_ROW("gpu.prof.graphics", graphics),
    NOW_ROW("gpu.prof.occupancy", occupancy),
    NOW_ROW("gpu.prof.fp16", fp16),
    NOW_ROW("gpu.prof.nvlink_tx", nvlink_tx),
    NOW_ROW("gpu.prof.nvlink_rx", nvlink_rx),
    NOW_ROW("gpu.prof.pcie_tx", pcie_tx),
    NOW_ROW("gpu.prof.pcie_rx", pcie_rx),
    NOW_ROW("gpu.power", power),
    NOW_ROW("gpu.power.instant", power),
    NOW_ROW("gpu.temp", temp),
    NOW_ROW("gpu.temp.margin", margin),
    NOW_ROW("gpu.mem.temp", mem_temp),
    NOW_ROW("gpu.clock.sm", clock),
    NOW_ROW("gpu.clock_events", events),
    NOW_ROW("gpu.fb.used", used),
    NOW_ROW("gpu.fb.free", free),
    NOW_ROW("gpu.processes", processes),
    NOW_ROW("gpu.energy", energy),
    NOW_ROW("gpu.throttle.sw_thermal", sw_thermal),
    NOW_ROW("gpu.violation.power", throttled_power),
    NOW_ROW("gpu.pcie.tx_bytes", pcie_tx_bytes),
    NOW_ROW("gpu.pcie.rx_bytes", pcie_rx_bytes),
    NOW_ROW("gpu.nvlink.bandwidth", nvlink_bytes),
    NOW_ROW("gpu.xid.last", xid),
};
#undef NOW_ROW

static const struct {
    const char *id;
    double value;
} gpu_constants[] = {
    { "gpu.fb.total", MEMORY },
    { "gpu.fb.reserved", 0.6 * GIB },
    { "gpu.clock.sm.max", CLOCK_MAX },
    { "gpu.clock.mem", 3201 },
    { "gpu.clock.mem.max", 3201 },
    { "gpu.power.limit", 700 },
    { "gpu.power.limit.default", 700 },
    { "gpu.pcie.gen", 5 },
    { "gpu.pcie.gen.max", 5 },
    { "gpu.pcie.width", 16 },
    { "gpu.pcie.width.max", 16 },
    { "gpu.pcie.replay", 0 },
    { "gpu.nvlink.links", 18 },
    { "gpu.temp.slowdown", SLOWDOWN_C },
    { "gpu.temp.shutdown", 92 },
    { "gpu.throttle.hw_thermal", 0 },
    { "gpu.throttle.hw_brake", 0 },
    { "gpu.ecc.mode", 1 },
    { "gpu.ecc.sbe.volatile", 0 },
    { "gpu.ecc.dbe.volatile", 0 },
    { "gpu.ecc.sbe.aggregate", 0 },
    { "gpu.ecc.dbe.aggregate", 0 },
    { "gpu.ecc.sram.exceeded", 0 },
    { "gpu.remap.banks.none", 0 },
    { "gpu.remap.correctable", 0 },
    { "gpu.remap.uncorrectable", 0 },
    { "gpu.remap.pending", 0 },
    { "gpu.remap.failure", 0 },
    { "gpu.enc.util", 0 },
    { "gpu.dec.util", 0 },
    { "gpu.pstate", 0 },
    { "gpu.persistence", 1 },
    { "gpu.prof.fp64", 0 },
    { "gpu.prof.fp32", 0.02 },
    { "gpu.recovery_action", 0 },
};

/* A label of the metric's row in data/telemetry.csv; NULL: it has no place here. */
static const struct telemetry_label *label_of(const struct telemetry_label *all, size_t count,
                                              const char *name, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(all[i].name) == len && !memcmp(all[i].name, name, len))
            return &all[i];
    return NULL;
}

/* With those of `all` that the metric has by convention, in its order. */
static void put_value(struct story *s, unsigned source, const char *id,
                      const struct telemetry_label *all, size_t count, double value)
{
    const struct telemetry_metric *m = telemetry_metric(id);
    struct telemetry_label l[TELEMETRY_LABELS_MAX];
    size_t n = 0;

    for (const char *p = m && m->labels ? m->labels : ""; *p;) {
        size_t len = strcspn(p, ",");
        const struct telemetry_label *found = label_of(all, count, p, len);

        if (found)
            l[n++] = *found;
        p += len + (p[len] == ',');
    }
    if (m)
        telemetry_set(s->t, telemetry_series(s->t, source, m, l, n), value);
}

static void put_gpu(struct story *s, int gpu)
{
    const struct gpu_story *g = &s->gpus[gpu];
    char number[16], uuid[48], bus[32], device[24], pid[32];
    struct telemetry_label l[] = { { "gpu", number },
                                   { "UUID", uuid },
                                   { "pci_bus_id", bus },
                                   { "device", device },
                                   { "modelName", "NVIDIA H200" },
                                   { "DCGM_FI_DRIVER_VERSION", "580.159.04" },
                                   { "pid", pid },
                                   { "command", "python" },
                                   { "user", "ada" },
                                   { "slurm_job", "1742" },
                                   { "xid", "79" } };
    static const int buses[STORY_GPUS] = { 0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf };

    snprintf(number, sizeof(number), "%d", gpu);
    snprintf(uuid, sizeof(uuid), "GPU-de300000-0000-4000-8000-%012d", gpu);
    snprintf(bus, sizeof(bus), "00000000:%02X:00.0", (unsigned)buses[gpu]);
    snprintf(device, sizeof(device), "nvidia%d", gpu);
    snprintf(pid, sizeof(pid), "%.0f", 4210 + 100 * s->restarts + gpu);
    put_value(s, s->gpu, "gpu.lost", l, ARRAY_SIZE(l), g->lost);
    if (gpu == LOST_GPU && s->xids > 0)
        put_value(s, s->gpu, "gpu.xid.total", l, ARRAY_SIZE(l), s->xids);
    if (g->lost > 0)
        return; /* all else is unknown */
    for (size_t i = 0; i < ARRAY_SIZE(gpu_rows); i++) {
        double value;

        memcpy(&value, (const char *)g + gpu_rows[i].off, sizeof(value));
        put_value(s, s->gpu, gpu_rows[i].id, l, ARRAY_SIZE(l), value);
    }
    for (size_t i = 0; i < ARRAY_SIZE(gpu_constants); i++)
        put_value(s, s->gpu, gpu_constants[i].id, l, ARRAY_SIZE(l), gpu_constants[i].value);
    put_value(s, s->gpu, "process.gpu.memory", l, ARRAY_SIZE(l), g->used - 1.1 * GIB);
    put_value(s, s->gpu, "process.gpu.util", l, ARRAY_SIZE(l), g->util);
}

/* ---- the job */

static const char *job_state(int at)
{
    return job_trains(at) ? "running" : at < STOP_AT ? "waiting" : "restarting";
}

static void move_job(struct story *s, int at, int64_t time_ns)
{
    if (job_trains(at))
        s->step += 1 / s->step_s;
    if (at == BACK_AT)
        s->restarts++;
    if (at == TRAIN_AT)
        s->step = s->checkpoint_step;
    if (job_trains(at) && at % 25 == 5) {
        s->checkpoint_step = floor(s->step);
        s->checkpoint_ns = time_ns;
    }
    s->disk_bytes += at % 25 == 5 && job_trains(at)      ? 1.6e10
                     : is_between(at, READ_AT, TRAIN_AT) ? 8e9
                                                         : 2e6;
    s->net_bytes += 3e6 + noise_of(s, 1e6);
}

static double middle_busy(const struct story *s)
{
    double v[STORY_GPUS] = { 0 };

    for (int i = 0; i < STORY_GPUS; i++) {
        int k = i;

        for (; k > 0 && v[k - 1] > s->gpus[i].busy; k--)
            v[k] = v[k - 1];
        v[k] = s->gpus[i].busy;
    }
    return (v[STORY_GPUS / 2 - 1] + v[STORY_GPUS / 2]) / 2;
}

static void put_job(struct story *s, int at, int64_t time_ns)
{
    struct telemetry_label l[] = { { "job", "llama-3.1-8b" }, { "kind", "training" },
                                   { "user", "ada" },         { "state", job_state(at) },
                                   { "rank", NULL },          { "gpu", NULL } };
    char number[16];

    put_value(s, s->jobs, "job.state", l, 4, 1);
    put_value(s, s->jobs, "job.gpus", l, 3, STORY_GPUS);
    put_value(s, s->jobs, "job.step", l, 3, floor(s->step));
    put_value(s, s->jobs, "job.steps", l, 3, 250000);
    put_value(s, s->jobs, "job.restarts", l, 3, s->restarts);
    put_value(s, s->jobs, "job.report_age", l, 3, job_trains(at) ? 0.4 : at - LOST_AT);
    put_value(s, s->jobs, "job.checkpoint_step", l, 3, s->checkpoint_step);
    put_value(s, s->jobs, "job.checkpoint_age", l, 3, (double)(time_ns - s->checkpoint_ns) * 1e-9);
    if (!job_trains(at))
        return;
    put_value(s, s->jobs, "job.step_seconds", l, 3, s->step_s);
    put_value(s, s->jobs, "job.tokens_per_second", l, 3, STEP_TOKENS / s->step_s);
    put_value(s, s->jobs, "job.loss", l, 3, 1.9 + 0.6 * exp(-s->step / 3000) + noise_of(s, 0.02));
    put_value(s, s->jobs, "job.mfu", l, 3, 0.47 / s->step_s);
    l[4].value = l[5].value = number;
    for (int i = 0; i < STORY_GPUS; i++) {
        snprintf(number, sizeof(number), "%d", i);
        put_value(s, s->jobs, "job.rank.busy_seconds", l, ARRAY_SIZE(l), s->gpus[i].busy);
        put_value(s, s->jobs, "job.rank.lag", l, ARRAY_SIZE(l),
                  s->gpus[i].busy / middle_busy(s) - 1);
    }
}

static void put_job_doc(struct story *s, int at, int64_t time_ns)
{
    struct json_out w;

    buf_reset(&s->doc);
    json_out_init(&w, &s->doc, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.jobs/1");
    json_kv_arr(&w, "jobs");
    for (int i = 0; i < STORY_GPUS; i++) {
        json_obj(&w);
        json_kv_str(&w, "job", "llama-3.1-8b");
        json_kv_str(&w, "kind", "training");
        json_kv_str(&w, "user", "ada");
        json_kv_str(&w, "state", job_state(at));
        json_kv_num(&w, "updated", (double)(time_ns / 1000000000));
        json_kv_num(&w, "step", floor(s->step));
        json_kv_num(&w, "step_seconds", job_trains(at) ? s->step_s : (double)NAN);
        json_kv_num(&w, "rank", i);
        json_kv_num(&w, "world_size", STORY_GPUS);
        json_kv_num(&w, "gpu", i);
        json_kv_num(&w, "busy_seconds", job_trains(at) ? s->gpus[i].busy : (double)NAN);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    telemetry_doc(s->t, "jobs", buf_str(&s->doc));
}

/* ---- the host and the model beside */

static void put_host(struct story *s, int at)
{
    struct telemetry_label l[] = {
        { "device", "eth0" }, { "mountpoint", "/" }, { "fstype", "ext4" }, { "resource", "cpu" }
    };
    struct telemetry_label disk[] = { { "device", "nvme0n1" } };

    put_value(s, s->host, "host.cpu.util", NULL, 0, (job_trains(at) ? 21 : 4) + noise_of(s, 2));
    put_value(s, s->host, "host.cpu.count", NULL, 0, 192);
    put_value(s, s->host, "host.load1", NULL, 0, (job_trains(at) ? 38 : 12) + noise_of(s, 2));
    put_value(s, s->host, "host.mem.total", NULL, 0, 2048 * GIB);
    put_value(s, s->host, "host.mem.available", NULL, 0, (1630 + noise_of(s, 4)) * GIB);
    put_value(s, s->host, "net.rx_bytes", l, ARRAY_SIZE(l), s->net_bytes);
    put_value(s, s->host, "net.tx_bytes", l, ARRAY_SIZE(l), s->net_bytes * 0.7);
    put_value(s, s->host, "mount.size", l + 1, ARRAY_SIZE(l) - 1, 3400 * GIB);
    put_value(s, s->host, "mount.available", l + 1, ARRAY_SIZE(l) - 1, 2100 * GIB);
    put_value(s, s->host, "disk.written_bytes", disk, 1, s->disk_bytes);
    put_value(s, s->host, "disk.read_bytes", disk, 1, s->disk_bytes * 0.2);
}

static void put_model(struct story *s, int at)
{
    struct telemetry_label l[] = { { "model", "bge-small-en-v1.5" }, { "device", "cpu" } };
    bool busy = is_between(at, BUSY_AT, BUSY_END);
    double asked = busy ? 410 + noise_of(s, 30) : 40 + noise_of(s, 6);

    s->requests += round(asked);
    s->tokens += round(asked) * 23;
    put_value(s, s->models, "model.ready", l, 2, 1);
    put_value(s, s->models, "model.requests", l, 2, s->requests);
    put_value(s, s->models, "model.tokens", l, 2, s->tokens);
    put_value(s, s->models, "model.errors", l, 2, 0);
    put_value(s, s->models, "model.queue", l, 2, busy ? floor(9 + noise_of(s, 5)) : 0);
    put_value(s, s->models, "model.latency.p50", l, 2,
              (busy ? 9.1 : 3.6) / 1e3 + noise_of(s, 3e-4));
    put_value(s, s->models, "model.latency.p99", l, 2, (busy ? 31 : 9.2) / 1e3 + noise_of(s, 1e-3));
    put_value(s, s->models, "model.memory", l, 2, 133466112);
}

/* ---- what happened */

static void tell_event(struct story *s, enum telemetry_event_kind kind, int gpu, int code,
                       int64_t time_ns, const char *text)
{
    struct telemetry_event e = { .time_ns = time_ns, .kind = kind, .gpu = gpu, .code = code };

    (void)str_copy(e.text, sizeof(e.text), text);
    telemetry_event(s->t, &e);
}

static void tell_events(struct story *s, int at, int64_t time_ns)
{
    if (at == LOST_AT) {
        s->xids++;
        s->gpus[LOST_GPU].xid = 79;
        tell_event(s, TELEMETRY_EVENT_XID, LOST_GPU, 79, time_ns,
                   "XID 79 on GPU 5 (0000:C3:00): GPU has fallen off the bus");
        tell_event(s, TELEMETRY_EVENT_GPU, LOST_GPU, 0, time_ns,
                   "GPU 5 00000000:C3:00.0 is lost: the driver no longer reaches it");
    }
    if (at == BACK_AT)
        tell_event(s, TELEMETRY_EVENT_GPU, LOST_GPU, 0, time_ns, "GPU 5 00000000:C3:00.0 is back");
}

static const struct telemetry_label demo_version = { "version", "demo" };

/* ---- the public side */

struct story *story_new(struct telemetry *t)
{
    struct story *s = xcalloc(1, sizeof(*s));

    s->t = t;
    s->gpu = telemetry_source(t, "gpu");
    s->host = telemetry_source(t, "host");
    s->jobs = telemetry_source(t, "jobs");
    s->models = telemetry_source(t, "models");
    s->mark = telemetry_source(t, "agent");
    s->dice = 20;
    s->step = s->checkpoint_step = 18240;
    for (int i = 0; i < STORY_GPUS; i++) {
        s->gpus[i].power = 650;
        s->gpus[i].temp = 62 + i % 4;
    }
    buf_init(&s->doc, TELEMETRY_DOC_MAX);
    return s;
}

void story_step(struct story *s, int64_t time_ns)
{
    int at = (int)(s->second % STORY_SECONDS);

    if (!s->docs_put)
        telemetry_doc(s->t, "inventory", demo_machine);
    s->docs_put = true;
    s->checkpoint_ns = s->checkpoint_ns ? s->checkpoint_ns : time_ns;
    tell_events(s, at, time_ns);
    move_gpus(s, at);
    move_job(s, at, time_ns);
    telemetry_begin(s->t, s->gpu, time_ns);
    for (int i = 0; i < STORY_GPUS; i++)
        put_gpu(s, i);
    telemetry_end(s->t);
    telemetry_begin(s->t, s->jobs, time_ns);
    put_job(s, at, time_ns);
    telemetry_end(s->t);
    put_job_doc(s, at, time_ns);
    telemetry_begin(s->t, s->host, time_ns);
    put_host(s, at);
    telemetry_end(s->t);
    telemetry_begin(s->t, s->models, time_ns);
    put_model(s, at);
    telemetry_end(s->t);
    telemetry_begin(s->t, s->mark, time_ns); /* ends the second, in a recording of it too */
    put_value(s, s->mark, "agent.build", &demo_version, 1, 1);
    telemetry_end(s->t);
    s->second++;
}

void story_free(struct story *s)
{
    if (!s)
        return;
    buf_release(&s->doc);
    free(s);
}

void story_describe(int64_t begun_ns, struct json_out *w)
{
    json_obj(w);
    json_kv_int(w, "seconds", STORY_SECONDS);
    json_kv_int(w, "begun_ms", begun_ns / 1000000);
    json_kv_int(w, "hurry", STORY_HURRY);
    json_kv_arr(w, "chapters");
    for (size_t i = 0; i < ARRAY_SIZE(chapters); i++) {
        json_obj(w);
        json_kv_int(w, "at", chapters[i].at);
        json_kv_str(w, "title", chapters[i].title);
        json_kv_str(w, "text", chapters[i].text);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_obj_end(w);
}

struct alert_rule *story_rules(const struct alert_rule *rules, size_t count)
{
    struct alert_rule *out = xcalloc(count + 1, sizeof(*out));

    for (size_t i = 0; i < count; i++) {
        out[i] = rules[i];
        out[i].window_ns /= STORY_HURRY;
        out[i].for_ns /= STORY_HURRY;
        out[i].keep_ns /= STORY_HURRY;
    }
    return out;
}
