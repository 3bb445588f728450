/* SPDX-License-Identifier: MIT */
/* gpu_process: processes on the GPUs, with memory and, where the driver tells, utilisation.
 *
 * The driver's list is taken anew in each round; what is known of a process (its owner, its
 * series) is kept as long as it is listed.  In a container the driver tells the host's numbers:
 * such a process has no owner that we could read. */
#include "telemetry/gpu/gpu_int.h"

#include "base/codec/fnv1a.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "os/clock.h"

#include <inttypes.h>
#include <string.h>

enum { PROCESS_DOC_MAX = 1 << 20 }; /* bytes of the document */
#define OWNER_AGAIN_NS 60000000000  /* a process may be moved to another cgroup */

/* ---- the list ---- */
static struct gpu_process *process_entry(struct gpu_sampler *s, unsigned pid, int gi, int ci,
                                         bool graphics)
{
    struct gpu_process *p;

    for (size_t i = 0; i < s->process_count; i++) {
        p = &s->processes[i];
        if (p->pid == pid && p->gpu == s->gpu->index && p->gi == gi && p->ci == ci)
            return p;
    }
    VEC_GROW(s->processes, s->process_count, s->process_cap);
    p = &s->processes[s->process_count++];
    *p = (struct gpu_process){ .gpu = s->gpu->index,
                               .pid = pid,
                               .gi = gi,
                               .ci = ci,
                               .graphics = graphics,
                               .ids = { TELEMETRY_NONE, TELEMETRY_NONE } };
    return p;
}

static void process_add(struct gpu_sampler *s, const struct nvml_process *from, bool graphics)
{
    int gi = from->gi <= INT16_MAX ? (int)from->gi : -1;
    int ci = from->ci <= INT16_MAX ? (int)from->ci : -1;
    struct gpu_process *p = process_entry(s, from->pid, gi, ci, graphics);

    if (!p->seen)
        p->sm = p->memory = NAN;
    p->seen = true;
    p->memory_bytes = from->used == NVML_VALUE_NOT_AVAILABLE ? NAN : (double)from->used;
}

/* The drivers 535.43 to 535.98 fill another struct in this version of the call. */
static bool broken_v3(const struct gpu_sampler *s)
{
    uint64_t minor;
    char text[8];

    if (!str_starts(s->driver, "535."))
        return false;
    str_copy(text, sizeof(text), s->driver + 4);
    text[strcspn(text, ".")] = '\0';
    return str_to_u64(text, 10, &minor) && minor < 104;
}

static void widen_v1(struct nvml_process *all, const struct nvml_process_v1 *old, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        all[i] = (struct nvml_process){ .pid = old[i].pid, .used = old[i].used, ~0U, ~0U };
}

/* Newest form first; how many there are, -1: not told. */
#define LIST(s, kind, all)                                                                         \
    do {                                                                                           \
        struct nvml_process_v1 old_[GPU_PROCESSES_MAX];                                            \
        struct nvml_dev *dev_ = (s)->gpu->dev;                                                     \
        int rc_ = NVML_ERROR_NOT_SUPPORTED;                                                        \
        n = GPU_PROCESSES_MAX;                                                                     \
        if (!broken_v3(s))                                                                         \
            rc_ = GPU_CALL(s, -1, DeviceGet##kind##RunningProcesses_v3, (dev_, &n, all));          \
        if (rc_ == NVML_ERROR_NOT_SUPPORTED || rc_ == NVML_ERROR_FUNCTION_NOT_FOUND) {             \
            n = GPU_PROCESSES_MAX;                                                                 \
            rc_ = GPU_CALL(s, -1, DeviceGet##kind##RunningProcesses_v2, (dev_, &n, all));          \
        }                                                                                          \
        if (rc_ == NVML_ERROR_NOT_SUPPORTED || rc_ == NVML_ERROR_FUNCTION_NOT_FOUND) {             \
            n = GPU_PROCESSES_MAX;                                                                 \
            rc_ = GPU_CALL(s, -1, DeviceGet##kind##RunningProcesses, (dev_, &n, old_));            \
            if (rc_ == NVML_SUCCESS)                                                               \
                widen_v1(all, old_, n < GPU_PROCESSES_MAX ? n : GPU_PROCESSES_MAX);                \
        }                                                                                          \
        told = rc_ == NVML_SUCCESS;                                                                \
    } while (0)

static bool list_processes(struct gpu_sampler *s, bool graphics)
{
    struct nvml_process all[GPU_PROCESSES_MAX];
    unsigned n = 0;
    bool told;

    if (graphics)
        LIST(s, Graphics, all);
    else
        LIST(s, Compute, all);
    if (!told)
        return false;
    for (unsigned i = 0; i < n && i < GPU_PROCESSES_MAX; i++)
        if (all[i].pid)
            process_add(s, &all[i], graphics);
    return true;
}

/* The newest sample of each listed process; some drivers add samples of none. */
static void query_use(struct gpu_sampler *s)
{
    struct nvml_process_util all[GPU_PROCESS_UTIL_MAX];
    unsigned n = GPU_PROCESS_UTIL_MAX;
    unsigned long long newest = s->gpu->seen_us;

    int rc;

    if (s->gpu->mig)
        return; /* the driver does not tell it there */
    rc = GPU_CALL(s, -1, DeviceGetProcessUtilization, (s->gpu->dev, all, &n, s->gpu->seen_us));
    if (rc == NVML_ERROR_INSUFFICIENT_SIZE) /* more than we take: only what comes from here on */
        s->gpu->seen_us = (unsigned long long)clock_unix_ms() * 1000;
    if (rc != NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < n && i < GPU_PROCESS_UTIL_MAX; i++) {
        if (all[i].sm > NVML_UTIL_MAX || all[i].memory > NVML_UTIL_MAX)
            continue;
        for (size_t k = 0; k < s->process_count; k++) {
            struct gpu_process *p = &s->processes[k];

            if (p->seen && p->pid == all[i].pid && p->gpu == s->gpu->index) {
                p->sm = all[i].sm;
                p->memory = all[i].memory;
            }
        }
        if (all[i].time_us > newest)
            newest = all[i].time_us;
    }
    s->gpu->seen_us = newest;
}

void gpu_processes_begin(struct gpu_sampler *s)
{
    for (size_t i = 0; i < s->process_count; i++)
        s->processes[i].seen = false;
}

void gpu_processes_query(struct gpu_sampler *s)
{
    size_t count = 0;
    bool told = list_processes(s, false);

    if (gpu_due(s, GPU_MEDIUM) || s->gpu->graphics)
        s->gpu->graphics = list_processes(s, true);
    for (size_t i = 0; i < s->process_count; i++)
        count += s->processes[i].seen && s->processes[i].gpu == s->gpu->index;
    if (told && count) /* the dearest call of all, 2.6 ms on an H200 */
        query_use(s);
    s->gpu->values.v[GPU_ROW_PROCESSES] = told ? (double)count : (double)NAN;
}

/* ---- what is told of them ---- */
static void find_owner(struct gpu_sampler *s, struct gpu_process *p)
{
    int64_t now = clock_mono_ns();
    struct owner was = p->owner;

    if (p->asked_ns && now - p->asked_ns < OWNER_AGAIN_NS)
        return;
    p->asked_ns = now;
    gpu_beat(s, GPU_CALL_OWNER, -1);
    p->owner = (struct owner){ 0 };
    p->owned = owner_of(s->root, (int)p->pid, &p->owner);
    if (!p->owned)
        p->owner = (struct owner){ 0 };
    if (memcmp(&was, &p->owner, sizeof(was)) != 0)
        p->ids[0] = p->ids[1] = TELEMETRY_NONE; /* other labels: another series */
}

/* One that was unknown for a while may have lost its id to another: it is told anew. */
static void put_value(struct gpu_sampler *s, struct gpu_process *p, int k, const char *metric,
                      const struct telemetry_label *labels, size_t count, double v)
{
    if (isnan(v))
        return;
    if (s->round - p->told[k] + 1 >= TELEMETRY_REST_BATCHES)
        p->ids[k] = TELEMETRY_NONE;
    p->told[k] = s->round;
    s->process_ids += p->ids[k] == TELEMETRY_NONE;
    gpu_put(s, &p->ids[k], metric, labels, count, v);
}

static void put_process(struct gpu_sampler *s, struct gpu_process *p)
{
    const struct gpu_dev *g = &s->gpus[p->gpu];
    const struct owner *o = &p->owner;
    const struct {
        const char *name, *value;
    } from[] = {
        { "command", o->command },     { "user", o->user }, { "slurm_job", o->slurm_job },
        { "pod_uid", o->pod_uid },     { "pod", o->pod },   { "namespace", o->pod_namespace },
        { "container", o->container }, { "unit", o->unit }
    };
    struct telemetry_label labels[GPU_LABELS_MAX];
    char index[12], pid[12], gi[12];
    size_t n = 0;

    snprintf(index, sizeof(index), "%u", p->gpu);
    snprintf(pid, sizeof(pid), "%u", p->pid);
    labels[n++] = (struct telemetry_label){ "gpu", index };
    labels[n++] = (struct telemetry_label){ "UUID", g->uuid };
    labels[n++] = (struct telemetry_label){ "pid", pid };
    if (p->gi >= 0) {
        snprintf(gi, sizeof(gi), "%d", p->gi);
        labels[n++] = (struct telemetry_label){ "GPU_I_ID", gi };
    }
    for (size_t i = 0; i < ARRAY_SIZE(from); i++)
        if (from[i].value[0])
            labels[n++] = (struct telemetry_label){ from[i].name, from[i].value };
    put_value(s, p, 0, "process.gpu.memory", labels, n, p->memory_bytes);
    put_value(s, p, 1, "process.gpu.util", labels, n, p->sm);
}

static void write_text(struct json_out *w, const char *key, const char *text)
{
    json_key(w, key);
    json_add_str(w, text[0] ? text : NULL);
}

static void write_one(struct json_out *w, const struct gpu_sampler *s, const struct gpu_process *p)
{
    json_obj(w);
    json_kv_int(w, "gpu", p->gpu);
    write_text(w, "uuid", s->gpus[p->gpu].uuid);
    json_kv_int(w, "pid", p->pid);
    json_kv_str(w, "type", p->graphics ? "graphics" : "compute");
    json_kv_maybe(w, "gpu_instance", p->gi < 0 ? maybe_none() : maybe_of(p->gi));
    json_kv_maybe(w, "compute_instance", p->ci < 0 ? maybe_none() : maybe_of(p->ci));
    json_kv_maybe(w, "memory_bytes",
                  isnan(p->memory_bytes) ? maybe_none() : maybe_of((int64_t)p->memory_bytes));
    json_kv_num(w, "sm_percent", p->sm);
    json_kv_num(w, "memory_percent", p->memory);
    write_text(w, "command", p->owner.command);
    write_text(w, "user", p->owner.user);
    write_text(w, "slurm_job", p->owner.slurm_job);
    write_text(w, "pod_uid", p->owner.pod_uid);
    write_text(w, "pod", p->owner.pod);
    write_text(w, "namespace", p->owner.pod_namespace);
    write_text(w, "pod_container", p->owner.pod_container);
    write_text(w, "container", p->owner.container);
    write_text(w, "unit", p->owner.unit);
    json_obj_end(w);
}

void gpu_document_send(struct gpu_sampler *s, const char *name, const struct buf *text,
                       uint64_t *io_hash)
{
    uint64_t h = fnv1a_add(FNV1A_START, buf_str(text), text->len);

    if (!text->over && h != *io_hash && s->writer)
        stream_doc(s->writer, name, buf_str(text));
    *io_hash = h;
}

static void send_document(struct gpu_sampler *s)
{
    struct buf text = { .max = PROCESS_DOC_MAX };
    struct json_out w;

    json_out_init(&w, &text, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.processes/1");
    json_kv_arr(&w, "processes");
    for (size_t i = 0; i < s->process_count; i++)
        write_one(&w, s, &s->processes[i]);
    json_arr_end(&w);
    json_obj_end(&w);
    gpu_document_send(s, "processes", &text, &s->document);
    buf_release(&text);
}

void gpu_processes_end(struct gpu_sampler *s)
{
    size_t kept = 0;

    s->gpu = NULL;
    for (size_t i = 0; i < s->process_count; i++)
        if (s->processes[i].seen)
            s->processes[kept++] = s->processes[i];
    s->process_count = kept;
    for (size_t i = 0; i < kept && !s->ended; i++) {
        find_owner(s, &s->processes[i]);
        put_process(s, &s->processes[i]);
    }
    send_document(s);
    gpu_owners_send(s);
}
