/* SPDX-License-Identifier: MIT */
/* A table of jobs that is read has kinds of job that can be simulated: on a cluster that holds
 * them, every job is measured and every time is a number. */
#include "fuzz.h"

#include "plan/queue.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct queue_class c[QUEUE_CLASSES_MAX];
    struct queue_in in = { .classes = c, .nodes = 64, .node_gpus = 8, .months = 0.25, .seed = 1 };
    struct queue_out out;
    struct arena a = { 0 };
    double jobs = 0;

    if (queue_read(&a, (const char *)data, size, 1, c, &in.class_count, NULL) == RC_OK) {
        if (!in.class_count || in.class_count > QUEUE_CLASSES_MAX)
            abort();
        for (size_t i = 0; i < in.class_count; i++)
            jobs += c[i].per_month;
        in.backfill = size % 2;
        if (jobs < 20000 && queue_run(&a, &in, &out, NULL) == RC_OK &&
            (!isfinite(out.turnaround.max) || out.utilisation < 0 || out.utilisation > 1.0001))
            abort();
    }
    arena_release(&a);
    return 0;
}
