/* SPDX-License-Identifier: MIT */
/* gpu_owner: whose each GPU is, as labels that DCGM's exporter has too.
 *
 *   a Slurm job        hpc_job
 *   a Kubernetes pod   pod, namespace, container, pod_uid
 *   any other          container (the beginning of its id), or unit
 *
 * A series of a GPU stays one series, so that sums over GPUs are right: of a GPU that several
 * share, those labels remain on which all its processes agree (two pods of one namespace leave the
 * namespace).  Who has which part of it is in process.gpu.*.  An instance of MIG has labels of its
 * own, under "GPU.INSTANCE".  Processes that only draw, and those that we cannot look at, have no
 * say. */
#include "telemetry/gpu/gpu_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <string.h>

enum {
    OWNER_DOC_MAX = 256 << 10, /* bytes of the document */
    OWNER_ID_SHOWN = 12        /* digits of a container's id, as container tools show it */
};

enum { HPC_JOB, POD, NAMESPACE, CONTAINER, POD_UID, UNIT, LABELS };
static const char *const names[LABELS] = { "hpc_job",   "pod",     "namespace",
                                           "container", "pod_uid", "unit" };

struct labels {
    char text[LABELS][TELEMETRY_VALUE_MAX]; /* "": none */
};

static void of_owner(const struct owner *o, struct labels *out)
{
    *out = (struct labels){ 0 };
    (void)str_copy(out->text[HPC_JOB], TELEMETRY_VALUE_MAX, o->slurm_job);
    (void)str_copy(out->text[POD], TELEMETRY_VALUE_MAX, o->pod);
    (void)str_copy(out->text[NAMESPACE], TELEMETRY_VALUE_MAX, o->pod_namespace);
    (void)str_copy(out->text[POD_UID], TELEMETRY_VALUE_MAX, o->pod_uid);
    if (o->pod_container[0])
        (void)str_copy(out->text[CONTAINER], TELEMETRY_VALUE_MAX, o->pod_container);
    else
        snprintf(out->text[CONTAINER], TELEMETRY_VALUE_MAX, "%.*s", OWNER_ID_SHOWN, o->container);
    if (!o->slurm_job[0] && !o->pod_uid[0] && !o->container[0])
        (void)str_copy(out->text[UNIT], TELEMETRY_VALUE_MAX, o->unit);
}

/* Of one GPU, and one instance of it when gi is not negative. */
static bool labels_agreed(const struct gpu_sampler *s, unsigned gpu, int gi, struct labels *out)
{
    struct labels one;
    bool any = false;

    for (size_t i = 0; i < s->process_count; i++) {
        const struct gpu_process *p = &s->processes[i];

        if (p->gpu != gpu || (gi >= 0 && p->gi != gi) || p->graphics || !p->owned)
            continue;
        of_owner(&p->owner, any ? &one : out);
        for (size_t k = 0; any && k < LABELS; k++)
            if (strcmp(one.text[k], out->text[k]) != 0)
                out->text[k][0] = '\0';
        any = true;
    }
    for (size_t k = 0; any && k < LABELS; k++)
        if (out->text[k][0])
            return true;
    return false;
}

static void add_gpu(struct json_out *w, const struct gpu_sampler *s, unsigned gpu, int gi)
{
    struct labels l;
    char key[32];

    if (!labels_agreed(s, gpu, gi, &l))
        return;
    if (gi < 0)
        snprintf(key, sizeof(key), "%u", gpu);
    else
        snprintf(key, sizeof(key), "%u.%d", gpu, gi);
    json_kv_obj(w, key);
    for (size_t k = 0; k < LABELS; k++)
        if (l.text[k][0])
            json_kv_str(w, names[k], l.text[k]);
    json_obj_end(w);
}

/* The first process on its instance: the instance is written once. */
static bool is_first(const struct gpu_sampler *s, size_t n)
{
    const struct gpu_process *p = &s->processes[n];

    for (size_t i = 0; i < n; i++)
        if (s->processes[i].gpu == p->gpu && s->processes[i].gi == p->gi)
            return false;
    return true;
}

void gpu_owners_send(struct gpu_sampler *s)
{
    struct buf text = { .max = OWNER_DOC_MAX };
    struct json_out w;

    json_out_init(&w, &text, 0);
    json_obj(&w);
    for (unsigned g = 0; g < s->gpu_count; g++)
        add_gpu(&w, s, g, -1);
    for (size_t i = 0; i < s->process_count; i++)
        if (s->processes[i].gi >= 0 && is_first(s, i))
            add_gpu(&w, s, s->processes[i].gpu, s->processes[i].gi);
    json_obj_end(&w);
    gpu_document_send(s, "gpu_labels", &text, &s->labels);
    buf_release(&text);
}
