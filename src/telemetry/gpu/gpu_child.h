/* SPDX-License-Identifier: MIT */
/* gpu_child: GPUs, by a child process that is the only one to speak with the driver and sends a
 * stream (record/stream.h): the driver may hang for ever, and takes the child along at most. */
#ifndef TELEMETRY_GPU_GPU_CHILD_H
#define TELEMETRY_GPU_GPU_CHILD_H
#include "os/root.h"
#include "telemetry/telemetry.h"

struct gpu_child_opts {
    const char *nvml;        /* the library; NULL: libnvidia-ml.so.1 */
    int period_ms;           /* 1000 */
    int hang_ms;             /* without a sign of life: hung; 5000 */
    const struct root *root; /* for owners of processes */
    const char *root_path;   /* of a captured one, which the child opens by itself; NULL: none */
};
enum gpu_child_state {
    GPU_CHILD_OFF,
    GPU_CHILD_RUNS,
    GPU_CHILD_HUNG,
    GPU_CHILD_RELEASED,
    GPU_CHILD_NO_DRIVER
};
struct gpu_child;
struct gpu_child *gpu_child_new(const struct gpu_child_opts *o, struct telemetry *t);
/* To be called in turn with the host sources: reads what came, watches, restarts with backoff.
 * Never blocks. */
void gpu_child_turn(struct gpu_child *c, int64_t now_ns);
int gpu_child_fd(const struct gpu_child *c); /* readable when there is something; -1: none */
enum gpu_child_state gpu_child_state(const struct gpu_child *c);
/* A call has not returned: of the child that runs, or of one that was left alone. */
bool gpu_child_hangs(const struct gpu_child *c);
/* The call that hangs, since when, and where the kernel has it (wchan, syscall); "" when none. */
void gpu_child_why(const struct gpu_child *c, struct buf *out);
void gpu_child_release(struct gpu_child *c); /* lets go of the driver: for resets and upgrades */
void gpu_child_attach(struct gpu_child *c);
/* Asks the child to end and waits for it, a little; one that hangs is left.  By the thread of
 * gpu_child_turn(), before it ends: no child outlives the thread that started it. */
void gpu_child_end(struct gpu_child *c); /* NULL is fine */
void gpu_child_free(struct gpu_child *c);
/* What the child runs (stoker agent --gpu-child FD). */
int gpu_child_main(const struct gpu_child_opts *o, int fd);
/* One full sample as JSON with the cost of each call, made by this very process (stoker agent
 * --gpu-sample): it takes two periods and hangs when the driver does. */
enum rc gpu_sample_json(const struct gpu_child_opts *o, struct buf *out, struct err *err) MUST_USE;

#endif
