/* SPDX-License-Identifier: MIT */
/* child: run a function that may never return in a process of its own.
 *
 * Driver calls can sleep uninterruptibly for ever.  The function runs in a forked
 * child, names each call before it makes it (child_step()), and sends its answer
 * as lines over a pipe.  The parent reads until the pipe closes or no step happens
 * for `stall_ms`; then it notes what the child was doing and where it sleeps, sends
 * SIGKILL and never waits for it: a child stuck in the kernel goes once its call
 * returns. */
#ifndef OS_WORKER_CHILD_H
#define OS_WORKER_CHILD_H
#include "base/buf.h"
#include "base/err.h"
#include "os/worker/process.h"

#include <sys/types.h>

struct child_link; /* the child's end */

/* In the child: what it is about to do ("nvmlDeviceGetHandleByIndex_v2(3)"). */
void child_step(struct child_link *l, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* In the child: sends bytes; ends the child when the parent is gone. */
void child_send(struct child_link *l, const void *p, size_t len);
/* In the child: where it sends to, for a program that is put in its place (it closes on exec). */
int child_fd(const struct child_link *l);

struct child_report {
    bool finished; /* the function returned and the pipe closed */
    bool stalled;  /* no step for stall_ms */
    int status;    /* wait status when finished or died, else 0 */
    pid_t pid;
    char step[128];             /* the last step named */
    struct process_sleep sleep; /* where it was when it stalled */
    long elapsed_ms;
};

/* Runs fn(link, arg) in a child and gathers what it sends in `out`, only complete lines when it
 * stalled.  RC_OK even when it stalled or died: see the report. */
enum rc child_run(void (*fn)(struct child_link *l, void *arg), void *arg, long stall_ms,
                  struct buf *out, struct child_report *rep, struct err *err) MUST_USE;

#endif
