/* SPDX-License-Identifier: MIT */
/* The fake's functions that the GPU collector calls, and the document behind them
 * (FAKE_NVML_LIVE):
 *
 *   {"gpus": [{"index": 0,
 *     "fields": {"82": 47}, "field_steps": {"83": 693683},     a step is added at each reading
 *     "links": 18, "link_fields": {"138": 1000}, "link_steps": {"138": 1024},
 *     "gpm": {"1": 98.93}, "utilization": [100, 40], "encoder": 0, "decoder": 0, "pstate": 0,
 *     "fan": 30, "reasons": 4, "replay": 0, "banks": [3072, 0, 0, 0, 0], "temp": 47,
 *     "power_mw": 693683, "used_bytes": 1059913728,
 *     "processes": [{"pid": 1, "memory": 2, "sm": 3, "gi": 4}]}]}
 *
 * What it does not say is not supported. */
#include "fakenvml.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <time.h>

#define EXPORT                       __attribute__((visibility("default")))
#define FAKE_PROTOTYPE(name, params) EXPORT int nvml##name params;
NVML_CALLS(FAKE_PROTOTYPE)

#define GATE(call, d)                                                                              \
    do {                                                                                           \
        int rc_ = fake_gate("nvml" #call, (d), QUERY_NO_SUB);                                      \
        if (rc_)                                                                                   \
            return rc_;                                                                            \
    } while (0)
#define GATE_NEW(call, d)                                                                          \
    do {                                                                                           \
        if (fake_is_old())                                                                         \
            return NVML_ERROR_FUNCTION_NOT_FOUND;                                                  \
        GATE(call, d);                                                                             \
    } while (0)

enum { LIVE_MAX = 1 << 20, LIVE_GPUS = 64, LIVE_FIELDS = 512 };

struct nvml_event_set {
    int used;
};
struct nvml_gpm_sample {
    int64_t at_ms;
    const struct nvml_dev *dev;
};

static struct {
    bool tried;
    struct arena arena;
    struct json *doc;
    int64_t read[LIVE_GPUS][LIVE_FIELDS]; /* how often each field was */
    int told;                             /* number of the event that was told last */
} live;

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const struct json *gpu(const struct nvml_dev *d)
{
    const char *path = getenv("FAKE_NVML_LIVE");
    const struct json *all;

    if (!live.tried && path) {
        char *text = xmalloc(LIVE_MAX);
        FILE *f = fopen(path, "re");
        size_t len = f ? fread(text, 1, LIVE_MAX, f) : 0;

        if (f)
            fclose(f);
        if (json_parse(&live.arena, text, len, &live.doc, NULL))
            live.doc = NULL;
        free(text);
    }
    live.tried = true;
    all = json_get(live.doc, "gpus");
    for (const struct json *g = all ? all->first : NULL; g; g = g->next)
        if (d && maybe_is(json_int(json_get(g, "index")), d->index))
            return g;
    return NULL;
}

struct maybe fake_live_number(const struct nvml_dev *d, const char *key)
{
    return json_int(json_get(gpu(d), key));
}

static struct maybe keyed(const struct json *map, unsigned id)
{
    char key[16];

    snprintf(key, sizeof(key), "%u", id);
    return json_int(json_get(map, key));
}

struct maybe fake_live_field(const struct nvml_dev *d, const struct nvml_field_value *f)
{
    const struct json *g = gpu(d);
    struct maybe links = json_int(json_get(g, "links"));
    struct maybe v = keyed(json_get(g, "link_fields"), f->id);
    struct maybe step = keyed(json_get(g, "link_steps"), f->id);

    if (f->id == NVML_FI_DEV_NVLINK_LINK_COUNT)
        return links;
    if (!g || f->id >= LIVE_FIELDS || d->index >= LIVE_GPUS)
        return maybe_none();
    if (v.known && f->scope == NVML_ALL_LINKS) {
        v.v *= links.v;
        step.v *= links.v;
    }
    if (!v.known) {
        v = keyed(json_get(g, "fields"), f->id);
        step = keyed(json_get(g, "field_steps"), f->id);
    }
    if (v.known && step.known)
        v.v += step.v * live.read[d->index][f->id]++;
    return v;
}

/* ---- the library ---- */
int nvmlShutdown(void)
{
    GATE(Shutdown, NULL);
    return NVML_SUCCESS;
}

static int give(struct maybe v, unsigned *out)
{
    if (!v.known)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned)v.v;
    return NVML_SUCCESS;
}

/* ---- a GPU ---- */
int nvmlDeviceGetUtilizationRates(struct nvml_dev *d, struct nvml_util *out)
{
    const struct json *u = json_get(gpu(d), "utilization");

    GATE(DeviceGetUtilizationRates, d);
    if (!u || maybe_is(d->gpu->mig, 1))
        return NVML_ERROR_NOT_SUPPORTED;
    out->gpu = (unsigned)maybe_or(json_int(json_at(u, 0)), 0);
    out->memory = (unsigned)maybe_or(json_int(json_at(u, 1)), 0);
    return NVML_SUCCESS;
}

int nvmlDeviceGetEncoderUtilization(struct nvml_dev *d, unsigned *out, unsigned *period_us)
{
    GATE(DeviceGetEncoderUtilization, d);
    *period_us = 167000;
    return give(fake_live_number(d, "encoder"), out);
}

int nvmlDeviceGetDecoderUtilization(struct nvml_dev *d, unsigned *out, unsigned *period_us)
{
    GATE(DeviceGetDecoderUtilization, d);
    *period_us = 167000;
    return give(fake_live_number(d, "decoder"), out);
}

int nvmlDeviceGetFanSpeed(struct nvml_dev *d, unsigned *out)
{
    GATE(DeviceGetFanSpeed, d);
    return give(fake_live_number(d, "fan"), out);
}

int nvmlDeviceGetPerformanceState(struct nvml_dev *d, int *out)
{
    unsigned v = 0;
    int rc;

    GATE(DeviceGetPerformanceState, d);
    rc = give(fake_live_number(d, "pstate"), &v);
    *out = (int)v;
    return rc;
}

static int give_reasons(const struct nvml_dev *d, unsigned long long *out)
{
    unsigned v = 0;
    int rc = give(fake_live_number(d, "reasons"), &v);

    *out = v;
    return rc;
}

int nvmlDeviceGetCurrentClocksEventReasons(struct nvml_dev *d, unsigned long long *out)
{
    GATE_NEW(DeviceGetCurrentClocksEventReasons, d);
    return give_reasons(d, out);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_dev *d, unsigned long long *out)
{
    GATE(DeviceGetCurrentClocksThrottleReasons, d);
    return give_reasons(d, out);
}

int nvmlDeviceGetRowRemapperHistogram(struct nvml_dev *d, struct nvml_banks *out)
{
    const struct json *b = json_get(gpu(d), "banks");

    GATE_NEW(DeviceGetRowRemapperHistogram, d);
    if (!b)
        return NVML_ERROR_NOT_SUPPORTED;
    out->max = (unsigned)maybe_or(json_int(json_at(b, 0)), 0);
    out->high = (unsigned)maybe_or(json_int(json_at(b, 1)), 0);
    out->partial = (unsigned)maybe_or(json_int(json_at(b, 2)), 0);
    out->low = (unsigned)maybe_or(json_int(json_at(b, 3)), 0);
    out->none = (unsigned)maybe_or(json_int(json_at(b, 4)), 0);
    return NVML_SUCCESS;
}

int nvmlDeviceGetSramEccErrorStatus(struct nvml_dev *d, struct nvml_sram *out)
{
    GATE_NEW(DeviceGetSramEccErrorStatus, d);
    if (out->version != NVML_STRUCT_VERSION(nvml_sram, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return give(fake_live_number(d, "sram_exceeded"), &out->exceeded);
}

int nvmlDeviceGetPcieReplayCounter(struct nvml_dev *d, unsigned *out)
{
    GATE(DeviceGetPcieReplayCounter, d);
    return give(fake_live_number(d, "replay"), out);
}

/* ---- processes ---- */
static int give_processes(const struct nvml_dev *d, const char *kind, unsigned *count,
                          struct nvml_process *out)
{
    const struct json *all = json_get(gpu(d), kind);
    unsigned room = *count, n = 0;

    if (!gpu(d))
        return NVML_ERROR_NOT_SUPPORTED;
    *count = all ? (unsigned)all->count : 0;
    if (*count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (const struct json *p = all ? all->first : NULL; p; p = p->next, n++) {
        struct maybe memory = json_int(json_get(p, "memory"));

        out[n].pid = (unsigned)maybe_or(json_int(json_get(p, "pid")), 0);
        out[n].used = memory.known ? (unsigned long long)memory.v : NVML_VALUE_NOT_AVAILABLE;
        out[n].gi = (unsigned)maybe_or(json_int(json_get(p, "gi")), UINT32_MAX);
        out[n].ci = (unsigned)maybe_or(json_int(json_get(p, "ci")), UINT32_MAX);
    }
    return NVML_SUCCESS;
}

static int give_old(const struct nvml_dev *d, const char *kind, unsigned *count,
                    struct nvml_process_v1 *out)
{
    struct nvml_process all[256];
    unsigned room = *count;
    int rc;

    *count = ARRAY_SIZE(all);
    rc = give_processes(d, kind, count, all);
    if (rc == NVML_SUCCESS && *count > room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; rc == NVML_SUCCESS && i < *count; i++)
        out[i] = (struct nvml_process_v1){ .pid = all[i].pid, .used = all[i].used };
    return rc;
}

#define FAKE_LIST(gate, call, key, type, fn)                                                       \
    int nvml##call(struct nvml_dev *d, unsigned *count, struct type *out)                          \
    {                                                                                              \
        gate(call, d);                                                                             \
        return fn(d, key, count, out);                                                             \
    }
FAKE_LIST(GATE_NEW, DeviceGetComputeRunningProcesses_v3, "processes", nvml_process, give_processes)
FAKE_LIST(GATE_NEW, DeviceGetComputeRunningProcesses_v2, "processes", nvml_process, give_processes)
FAKE_LIST(GATE, DeviceGetComputeRunningProcesses, "processes", nvml_process_v1, give_old)
FAKE_LIST(GATE_NEW, DeviceGetGraphicsRunningProcesses_v3, "graphics", nvml_process, give_processes)
FAKE_LIST(GATE_NEW, DeviceGetGraphicsRunningProcesses_v2, "graphics", nvml_process, give_processes)
FAKE_LIST(GATE, DeviceGetGraphicsRunningProcesses, "graphics", nvml_process_v1, give_old)

int nvmlDeviceGetProcessUtilization(struct nvml_dev *d, struct nvml_process_util *out,
                                    unsigned *count, unsigned long long since)
{
    const struct json *all = json_get(gpu(d), "processes");
    unsigned room = *count, n = 0;

    GATE_NEW(DeviceGetProcessUtilization, d);
    for (const struct json *p = all ? all->first : NULL; p && n < room; p = p->next) {
        struct maybe sm = json_int(json_get(p, "sm"));

        if (sm.known)
            out[n++] = (struct nvml_process_util){ .pid = (unsigned)json_int(json_get(p, "pid")).v,
                                                   .time_us = since + 1,
                                                   .sm = (unsigned)sm.v };
    }
    *count = n;
    return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* ---- events ---- */
int nvmlEventSetCreate(struct nvml_event_set **out)
{
    GATE(EventSetCreate, NULL);
    *out = xcalloc(1, sizeof(**out));
    return NVML_SUCCESS;
}

int nvmlEventSetFree(struct nvml_event_set *set)
{
    free(set);
    return NVML_SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(struct nvml_dev *d, unsigned long long *out)
{
    GATE(DeviceGetSupportedEventTypes, d);
    *out = 0xff9f; /* as an H200 says */
    return NVML_SUCCESS;
}

int nvmlDeviceRegisterEvents(struct nvml_dev *d, unsigned long long types,
                             struct nvml_event_set *set)
{
    GATE(DeviceRegisterEvents, d);
    set->used += types != 0;
    return NVML_SUCCESS;
}

/* A little, as long as a file may bring an event; else to the end, as the driver's own waits: what
 * the agent costs is measured with this library. */
static void nap(int64_t until_ms)
{
    int64_t ms = getenv("FAKE_NVML_CONTROL") ? 2 : until_ms - now_ms();

    nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 }, NULL);
}

static int wait_event(struct nvml_event *out, unsigned ms)
{
    int64_t until = now_ms() + ms;

    for (;;) {
        fake_control();
        for (size_t i = 0; i < fake.faults_count; i++) {
            const struct fake_fault *f = &fake.faults[i];

            if (f->kind != FAKE_XID || f->number <= live.told || f->gpu < 0)
                continue;
            live.told = f->number;
            *out = (struct nvml_event){ .dev = &fake.devs[f->gpu],
                                        .type = nvmlEventTypeXidCriticalError,
                                        .data = (unsigned long long)f->arg };
            return NVML_SUCCESS;
        }
        if (now_ms() >= until)
            return NVML_ERROR_TIMEOUT;
        nap(until);
    }
}

int nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event *out, unsigned ms)
{
    GATE_NEW(EventSetWait_v2, NULL);
    return set ? wait_event(out, ms) : NVML_ERROR_INVALID_ARGUMENT;
}

int nvmlEventSetWait(struct nvml_event_set *set, struct nvml_event *out, unsigned ms)
{
    GATE(EventSetWait, NULL);
    return set ? wait_event(out, ms) : NVML_ERROR_INVALID_ARGUMENT;
}

/* ---- the performance monitor ---- */
int nvmlGpmQueryDeviceSupport(struct nvml_dev *d, struct nvml_gpm_support *out)
{
    GATE_NEW(GpmQueryDeviceSupport, d);
    if (out->version != 1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->supported = json_get(gpu(d), "gpm") != NULL;
    return NVML_SUCCESS;
}

int nvmlGpmSampleAlloc(struct nvml_gpm_sample **out)
{
    GATE_NEW(GpmSampleAlloc, NULL);
    *out = xcalloc(1, sizeof(**out));
    return NVML_SUCCESS;
}

int nvmlGpmSampleFree(struct nvml_gpm_sample *s)
{
    free(s);
    return NVML_SUCCESS;
}

int nvmlGpmSampleGet(struct nvml_dev *d, struct nvml_gpm_sample *s)
{
    GATE_NEW(GpmSampleGet, d);
    *s = (struct nvml_gpm_sample){ .at_ms = now_ms(), .dev = d };
    return NVML_SUCCESS;
}

int nvmlGpmMigSampleGet(struct nvml_dev *d, unsigned gi, struct nvml_gpm_sample *s)
{
    GATE_NEW(GpmMigSampleGet, d);
    for (size_t i = 0; i < d->gpu->migs_count; i++)
        if (maybe_is(d->gpu->migs[i].gi, gi)) {
            *s = (struct nvml_gpm_sample){ .at_ms = now_ms(), .dev = d };
            return NVML_SUCCESS;
        }
    return NVML_ERROR_INVALID_ARGUMENT;
}

/* Two samples closer than 100 ms give zeros and no number, as an H200 does. */
int nvmlGpmMetricsGet(struct nvml_gpm_get *get)
{
    const struct json *all;

    GATE_NEW(GpmMetricsGet, NULL);
    if (get->version != 1 || !get->from || !get->to || !get->from->dev)
        return NVML_ERROR_INVALID_ARGUMENT;
    all = json_get(gpu(get->from->dev), "gpm");
    for (unsigned i = 0; i < get->count && i < NVML_GPM_ASKED_MAX; i++) {
        struct nvml_gpm_metric *m = &get->metrics[i];
        char key[16];

        snprintf(key, sizeof(key), "%u", m->id);
        m->rc = json_get(all, key) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        m->value = json_num(json_get(all, key), 0);
        if (get->to->at_ms - get->from->at_ms < 99)
            m->value = m->id == NVML_GPM_METRIC_DRAM_BW_UTIL ? (double)__builtin_nanf("") : 0;
    }
    return NVML_SUCCESS;
}
