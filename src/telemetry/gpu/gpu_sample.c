/* SPDX-License-Identifier: MIT */
/* gpu_sample: attaches to the driver and makes one sample of all GPUs.
 *
 * A GPU that cannot be opened or is lost is tried again each RETRY_ROUNDS samples.  One that the
 * agent wants skipped, because an earlier child hangs in it, is not touched until it says so. */
#include "telemetry/gpu/gpu_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <string.h>

enum { RETRY_ROUNDS = 30 };

static const unsigned paces[GPU_PACES] = { [GPU_FAST] = 1, [GPU_MEDIUM] = 5, [GPU_SLOW] = 30 };

bool gpu_due(const struct gpu_sampler *s, enum gpu_pace pace)
{
    return s->all_paces || s->round % paces[pace] == 0;
}

/* ---- life ---- */
struct gpu_sampler *gpu_sampler_new(struct gpu_page *page, const struct root *root)
{
    struct gpu_sampler *s = xcalloc(1, sizeof(*s));

    s->page = page;
    s->root = root;
    if ((!root || page->root[0]) &&
        root_open(page->root[0] ? page->root : NULL, &s->own_root, NULL) == RC_OK)
        s->root = s->own_root;
    s->out.max = GPU_OUT_MAX;
    memset(s->stat_ids, 0xff, sizeof(s->stat_ids)); /* TELEMETRY_NONE */
    memset(s->count_ids, 0xff, sizeof(s->count_ids));
    for (unsigned i = 0; i < NVML_GPUS_MAX; i++) {
        s->gpus[i].index = i;
        s->gpus[i].lost_id = TELEMETRY_NONE;
        gpu_values_clear(&s->gpus[i].values, true);
    }
    return s;
}

void gpu_sampler_free(struct gpu_sampler *s)
{
    if (!s)
        return;
    gpu_events_close(s);
    for (unsigned i = 0; i < NVML_GPUS_MAX; i++) {
        struct gpu_dev *g = &s->gpus[i];

        gpu_gpm_release(s, &g->gpm);
        for (size_t k = 0; k < g->mig_count; k++)
            gpu_gpm_release(s, &g->migs[k].gpm);
        free(g->migs);
        free(g->links);
    }
    if (s->api.Shutdown) {
        gpu_beat(s, GPU_CALL_Shutdown, -1);
        (void)s->api.Shutdown();
    }
    stream_writer_free(s->writer);
    buf_release(&s->out);
    root_close(s->own_root);
    arena_release(&s->arena);
    free(s->processes);
    free(s->batch_ids);
    free(s->batch_values);
    free(s);
}

/* ---- the driver ---- */
static int open_refused(struct gpu_sampler *s, const char *call, int rc)
{
    char why[96];

    snprintf(s->page->reason, sizeof(s->page->reason), "%s: %s", call,
             gpu_code_text(s, rc, why, sizeof(why)));
    return rc == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? GPU_EXIT_SKEW : GPU_EXIT_NO_DRIVER;
}

static bool is_older_driver(int rc)
{
    return rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_FUNCTION_NOT_FOUND;
}

int gpu_sampler_open(struct gpu_sampler *s)
{
    const char *lib = s->page->library[0] ? s->page->library : NULL;
    struct err err = { 0 };
    unsigned count = 0;
    int rc;

    gpu_beat(s, GPU_CALL_LOAD, -1);
    if (nvml_load(&s->arena, lib, &s->api, &err)) {
        str_copy(s->page->reason, sizeof(s->page->reason), err.msg);
        return GPU_EXIT_NO_DRIVER;
    }
    rc = GPU_CALL(s, -1, Init_v2, ());
    if (is_older_driver(rc))
        rc = GPU_CALL(s, -1, Init, ());
    if (s->ended)
        return GPU_EXIT_ASKED;
    if (rc != NVML_SUCCESS) {
        s->api.Shutdown = NULL; /* there is nothing to shut down */
        return open_refused(s, "nvmlInit_v2", rc);
    }
    if (GPU_CALL(s, -1, SystemGetDriverVersion, (s->driver, sizeof(s->driver) - 1)) != NVML_SUCCESS)
        s->driver[0] = '\0';
    str_make_text(s->driver);
    rc = GPU_CALL(s, -1, DeviceGetCount_v2, (&count));
    if (is_older_driver(rc))
        rc = GPU_CALL(s, -1, DeviceGetCount, (&count));
    if (rc != NVML_SUCCESS && !s->ended)
        return open_refused(s, "nvmlDeviceGetCount_v2", rc);
    s->gpu_count = count < NVML_GPUS_MAX ? count : NVML_GPUS_MAX;
    return GPU_EXIT_ASKED;
}

/* ---- a sample ---- */
void gpu_tell_lost(struct gpu_sampler *s)
{
    struct gpu_dev *g = s->gpu;
    bool *told = g->carry ? &g->carry->lost : &g->told;
    char why[96];

    if (s->ended || s->fatal || *told == g->lost)
        return;
    *told = g->lost;
    if (g->lost)
        gpu_event_tell(s, TELEMETRY_EVENT_GPU, 0, "GPU %u %s %s is lost: %s", g->index, g->uuid,
                       g->bus, gpu_code_text(s, g->why, why, sizeof(why)));
    else
        gpu_event_tell(s, TELEMETRY_EVENT_GPU, 0, "GPU %u %s %s answers again", g->index, g->uuid,
                       g->bus);
}

/* True when it can be asked. */
static bool gpu_ready(struct gpu_sampler *s, struct gpu_dev *g)
{
    if (atomic_load(&s->page->skip) >> g->index & 1) {
        g->dev = NULL;
        g->retry_round = 0;
        gpu_values_clear(&g->values, false);
        return false;
    }
    if (g->dev && !g->lost)
        return true;
    if (s->round < g->retry_round)
        return false;
    g->retry_round = s->round + RETRY_ROUNDS;
    if (!gpu_attach(s, g))
        return false;
    s->attached = true;
    return true;
}

bool gpu_sampler_sample(struct gpu_sampler *s, int64_t now_ns)
{
    s->attached = false;
    gpu_processes_begin(s);
    for (unsigned i = 0; i < s->gpu_count && !s->fatal && !s->ended; i++) {
        s->gpu = &s->gpus[i];
        if (gpu_ready(s, s->gpu)) {
            gpu_query_all(s, now_ns);
            if (!s->gpu->lost)
                gpu_recovery_check(s);
            else
                s->gpu->retry_round = s->round + RETRY_ROUNDS;
        }
        gpu_tell_lost(s);
    }
    s->gpu = NULL;
    if (s->fatal || s->ended) {
        s->batch_count = 0;
        return false;
    }
    if (s->attached)
        gpu_events_open(s);
    for (unsigned i = 0; i < s->gpu_count; i++)
        gpu_put_gpu(s, &s->gpus[i]);
    gpu_processes_end(s);
    gpu_put_driver(s);
    gpu_batch_send(s, now_ns);
    s->round++;
    return true;
}
