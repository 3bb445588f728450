/* SPDX-License-Identifier: MIT */
/* gpu_call: the one way to call the driver's library.
 *
 * Each call is named in the shared page before it is made, timed, and not made again on a GPU
 * that does not support it.  A code that says that the driver itself is gone ends the
 * attachment; one that says that the GPU is gone ends the questions to that GPU. */
#include "telemetry/gpu/gpu_int.h"

#include "base/str.h"
#include "os/clock.h"

static const char *const names[GPU_CALL_COUNT] = {
#define GPU_CALL_NAME(name, params) [GPU_CALL_##name] = "nvml" #name,
    NVML_CALLS(GPU_CALL_NAME)
#undef GPU_CALL_NAME
        [GPU_CALL_LOAD] = "dlopen",
    [GPU_CALL_OWNER] = "owner",
    [GPU_CALL_SEND] = "send",
    [GPU_CALL_IDLE] = "idle",
};

const char *gpu_call_name(unsigned call)
{
    return call < GPU_CALL_COUNT ? names[call] : "?";
}

void gpu_beat(struct gpu_sampler *s, unsigned call, int sub)
{
    uint64_t gpu = s->gpu ? s->gpu->index : GPU_NO_GPU;
    uint64_t low = sub < 0 ? GPU_NO_SUB : (unsigned)sub & 0x7ff;

    s->steps++;
    atomic_store(&s->page->beat, (uint64_t)s->steps << 32 | (uint64_t)call << 20 | gpu << 12 | low);
}

static uint64_t *refused_calls(struct gpu_sampler *s)
{
    return s->gpu ? s->gpu->refused : s->refused;
}

bool gpu_call_begin(struct gpu_sampler *s, unsigned call, int sub, bool present)
{
    if (!present || s->ended || s->fatal || (s->gpu && s->gpu->lost))
        return false;
    if (refused_calls(s)[call / 64] >> call % 64 & 1)
        return false;
    if (atomic_load(&s->page->end)) {
        s->ended = true;
        return false;
    }
    gpu_beat(s, call, sub);
    s->call_ns = clock_mono_ns();
    return true;
}

/* Says "never" rather than "not now".  A struct's version that the driver does not know and a
 * function that it lacks stay so as long as it is loaded. */
static bool is_for_good(int rc)
{
    return rc == NVML_ERROR_NOT_SUPPORTED || rc == NVML_ERROR_FUNCTION_NOT_FOUND ||
           rc == NVML_ERROR_DEPRECATED || rc == NVML_ERROR_NO_PERMISSION ||
           rc == NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

int gpu_call_end(struct gpu_sampler *s, unsigned call, int rc)
{
    int64_t took = clock_mono_ns() - s->call_ns;
    struct gpu_call_stat *st = &s->stats[call];

    st->count++;
    st->sum_ns += took;
    if (took > st->peak_ns)
        st->peak_ns = took;
    if (took > st->max_ns)
        st->max_ns = took;
    if (rc == NVML_ERROR_LIB_RM_VERSION_MISMATCH || rc == NVML_ERROR_UNINITIALIZED ||
        rc == NVML_ERROR_DRIVER_NOT_LOADED)
        s->fatal = rc;
    else if (rc == NVML_ERROR_GPU_IS_LOST && s->gpu) {
        s->gpu->lost = true;
        s->gpu->why = rc;
    } else if (is_for_good(rc))
        refused_calls(s)[call / 64] |= (uint64_t)1 << call % 64;
    return rc;
}

const char *gpu_code_text(struct gpu_sampler *s, int rc, char *out, size_t cap)
{
    const char *text = s->api.ErrorString ? s->api.ErrorString(rc) : NULL;
    char copy[96];

    str_copy(copy, sizeof(copy), text ? text : "code");
    str_make_text(copy);
    snprintf(out, cap, "%s (%d)", copy, rc);
    return out;
}
