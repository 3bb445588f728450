/* SPDX-License-Identifier: MIT */
/* profile: an event behind every step of a pass, when STOKER_CUDA_PROFILE=1 asks for it.
 *
 * A run then launches kernel by kernel, one after the other: the sum is more than the same run
 * takes without, and says what each step takes by itself. */
#include "engine/cuda/cuda_int.h"

enum { MARKS_LAYER = 7, MARKS_OTHER = 3 };

enum rc profile_open(struct cuda_net *e, struct err *err)
{
    const char *asked = getenv("STOKER_CUDA_PROFILE");
    struct cu_try t = { e->gpu, err, RC_OK };
    struct cu_profile *p;

    if (!asked || asked[0] != '1')
        return RC_OK;
    p = e->profile = cu_host()->alloc(1, sizeof(*p));
    p->cap = e->base.model->layers * MARKS_LAYER + MARKS_OTHER;
    p->events = cu_host()->alloc(p->cap, sizeof(*p->events));
    p->steps = cu_host()->alloc(p->cap, 1);
    for (size_t i = 0; i < p->cap; i++)
        if (!cu_ok(&t, cudaEventCreate(&p->events[i]), "cudaEventCreate", "a profile"))
            break;
    e->eager = true;
    e->pdl = false;
    return t.rc;
}

void profile_close(struct cuda_net *e)
{
    struct cu_profile *p = e->profile;

    for (size_t i = 0; p && i < p->cap; i++)
        if (p->events[i])
            (void)cudaEventDestroy(p->events[i]);
    if (p) {
        free(p->events);
        free(p->steps);
    }
    free(p);
    e->profile = NULL;
}

void profile_begin(struct cuda_net *e)
{
    if (e->profile)
        memset(e->profile->ms, 0, sizeof(e->profile->ms));
}

cudaError_t profile_mark(struct cuda_net *e, int step)
{
    struct cu_profile *p = e->profile;

    if (!p)
        return cudaSuccess;
    if (step < 0)
        p->count = 0;
    if (p->count == p->cap)
        return cudaErrorInvalidValue;
    p->steps[p->count] = (unsigned char)(step < 0 ? 0 : step);
    return cudaEventRecord(p->events[p->count++], e->stream);
}

/* Of the last pass. */
enum rc profile_read(struct cuda_net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    struct cu_profile *p = e->profile;

    if (!p || !p->count)
        return RC_OK;
    (void)cu_ok(&t, cudaEventSynchronize(p->events[p->count - 1]), "cudaEventSynchronize",
                "a profile");
    for (size_t i = 1; i < p->count && t.rc == RC_OK; i++) {
        float ms = 0;

        if (cu_ok(&t, cudaEventElapsedTime(&ms, p->events[i - 1], p->events[i]),
                  "cudaEventElapsedTime", "a profile"))
            p->ms[p->steps[i]] += (double)ms;
    }
    return t.rc;
}
