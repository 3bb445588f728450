/* SPDX-License-Identifier: MIT */
/* gpu_event: what the driver reports by itself: XIDs, memory that is being retired, a GPU that
 * asks for a reset.
 *
 * An event set is waited on between samples.  A wait that fails makes the set anew, and after
 * EVENT_FAULTS_MAX failures in a row there is none: the samples go on. */
#include "telemetry/gpu/gpu_int.h"

#include "base/str.h"
#include "os/clock.h"

#include <stdarg.h>

enum {
    EVENT_FAULTS_MAX = 3,  /* waits that fail in a row; then there are none */
    EVENTS_A_WAIT_MAX = 64 /* events taken in one wait */
};

static const unsigned long long wanted =
    nvmlEventTypeDoubleBitEccError | nvmlEventTypeXidCriticalError |
    nvmlEventTypeSingleBitEccErrorStorm | nvmlEventTypeDramRetirementEvent |
    nvmlEventTypeDramRetirementFailure | nvmlEventTypeNonFatalPoisonError |
    nvmlEventTypeFatalPoisonError | nvmlEventTypeGpuUnavailableError |
    nvmlEventTypeGpuRecoveryAction;

static const struct {
    unsigned long long bit;
    const char *text;
} texts[] = {
    { nvmlEventTypeDoubleBitEccError, "uncorrectable memory error" },
    { nvmlEventTypeSingleBitEccErrorStorm, "many correctable memory errors" },
    { nvmlEventTypeDramRetirementEvent, "memory was retired" },
    { nvmlEventTypeDramRetirementFailure, "memory could not be retired" },
    { nvmlEventTypeNonFatalPoisonError, "poisoned memory was read, not fatal" },
    { nvmlEventTypeFatalPoisonError, "poisoned memory was read, fatal" },
    { nvmlEventTypeGpuUnavailableError, "the GPU is not available" },
};

/* field 230 */
static const char *const actions[] = { "none",      "GPU reset",       "node reboot",
                                       "drain P2P", "drain and reset", "recover IMEX domain" };

void gpu_event_tell(struct gpu_sampler *s, enum telemetry_event_kind kind, int code,
                    const char *fmt, ...)
{
    struct telemetry_event e = { .time_ns = clock_unix_ms() * 1000000,
                                 .kind = kind,
                                 .gpu = s->gpu ? (int)s->gpu->index : -1,
                                 .code = code };
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.text, sizeof(e.text), fmt, ap);
    va_end(ap);
    str_make_text(e.text);
    if (s->writer)
        stream_event(s->writer, &e);
}

static void take_event(struct gpu_sampler *s, const struct nvml_event *e)
{
    for (unsigned i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].dev && s->gpus[i].dev == e->dev)
            s->gpu = &s->gpus[i];
    if (e->type & nvmlEventTypeXidCriticalError) {
        int code = e->data <= INT32_MAX ? (int)e->data : 0;
        char words[TELEMETRY_VALUE_MAX];

        xid_words(code, words, sizeof(words));
        gpu_event_tell(s, TELEMETRY_EVENT_XID, code, "XID %d: %.180s", code, words);
    }
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (e->type & texts[i].bit)
            gpu_event_tell(s, TELEMETRY_EVENT_GPU, 0, "%s", texts[i].text);
    s->gpu = NULL;
}

void gpu_recovery_check(struct gpu_sampler *s)
{
    struct gpu_dev *g = s->gpu;
    double v = g->values.v[GPU_ROW_RECOVERY_ACTION];
    int now;

    if (isnan(v) || v < 0 || v > 255)
        return;
    now = (int)v;
    if (now == g->carry->recovery)
        return;
    if (now < (int)ARRAY_SIZE(actions))
        gpu_event_tell(s, TELEMETRY_EVENT_RECOVERY, now, "recovery action: %s", actions[now]);
    else
        gpu_event_tell(s, TELEMETRY_EVENT_RECOVERY, now, "recovery action %d: ask the operator",
                       now);
    g->carry->recovery = now;
}

/* ---- the set ---- */
void gpu_events_close(struct gpu_sampler *s)
{
    if (s->events && s->api.EventSetFree)
        (void)s->api.EventSetFree(s->events);
    s->events = NULL;
}

void gpu_events_open(struct gpu_sampler *s)
{
    struct nvml_event_set *set = NULL;
    unsigned registered = 0;

    gpu_events_close(s);
    s->gpu = NULL;
    if (s->events_off || GPU_CALL(s, -1, EventSetCreate, (&set)) != NVML_SUCCESS || !set)
        return;
    for (unsigned i = 0; i < s->gpu_count; i++) {
        unsigned long long types = 0;

        s->gpu = &s->gpus[i];
        if (!s->gpu->dev || s->gpu->lost)
            continue;
        if (GPU_CALL(s, -1, DeviceGetSupportedEventTypes, (s->gpu->dev, &types)) == NVML_SUCCESS &&
            (types & wanted) &&
            GPU_CALL(s, -1, DeviceRegisterEvents, (s->gpu->dev, types & wanted, set)) ==
                NVML_SUCCESS)
            registered++;
    }
    s->gpu = NULL;
    s->events = set;
    if (!registered)
        gpu_events_close(s);
}

static int wait_one(struct gpu_sampler *s, struct nvml_event *e, int ms)
{
    int rc = GPU_CALL(s, -1, EventSetWait_v2, (s->events, e, (unsigned)ms));

    if (rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_FUNCTION_NOT_FOUND)
        rc = GPU_CALL(s, -1, EventSetWait, (s->events, e, (unsigned)ms));
    return rc;
}

bool gpu_events_wait(struct gpu_sampler *s, int ms)
{
    struct nvml_event e;
    int rc = NVML_SUCCESS;

    if (!s->events || s->ended)
        return false;
    for (int i = 0; i < EVENTS_A_WAIT_MAX && rc == NVML_SUCCESS; i++) {
        e = (struct nvml_event){ 0 };
        rc = wait_one(s, &e, i ? 0 : ms);
        if (rc == NVML_SUCCESS)
            take_event(s, &e);
    }
    if (rc == NVML_SUCCESS || rc == NVML_ERROR_TIMEOUT) {
        s->event_faults = 0;
        return true;
    }
    if (s->fatal || s->ended)
        return false;
    if (++s->event_faults >= EVENT_FAULTS_MAX) {
        char why[96];

        s->events_off = true;
        gpu_event_tell(s, TELEMETRY_EVENT_AGENT, 0, "events of the driver are not heard: %s",
                       gpu_code_text(s, rc, why, sizeof(why)));
    }
    gpu_events_open(s); /* without what was lost */
    return false;
}
