/* SPDX-License-Identifier: MIT */
/* worker: the devices of plug-ins, each in a process of its own.
 *
 * A driver call may never return, and an error may leave a whole process without its device: so
 * a server calls none.  A worker is this program again, which loads the plug-in, answers for one
 * device and runs the batches of every model there.
 *
 *   server: lanes ──► struct eng_ops that stand for the device ──ring──► worker: the plug-in
 *           one thread that starts, watches, reaps and hears ──socket──►         loads, unloads
 *
 * A worker that dies, or does not answer in time, is lost: what it had fails with RC_NODEV and
 * the reason (device, process, call, signal), it is killed, never waited for, and started again
 * after a while with the models it had.  Until those are back, run() fails at once.
 *
 * The worker ends with the process that started it, whatever becomes of that. */
#ifndef ENGINE_WORKER_WORKER_H
#define ENGINE_WORKER_WORKER_H
#include "engine/engine.h"

#include <sys/types.h>

enum {
    WORKERS_MAX = 64,
    WORKER_DEVICE_MAX = 32,   /* bytes of a device's name and its NUL */
    WORKER_MODELS_MAX = 1024, /* of one worker: versions that leave stand beside new ones */
    WORKER_BATCH_MS = 30000,  /* for a batch, and … */
    WORKER_TOKEN_NS = 100000, /* … for each token of it */
    WORKER_LOAD_MS = 600000,  /* for a model: its files may come from a slow disk */
    WORKER_START_MS = 60000,  /* for the plug-in to find its devices */
    WORKER_BEAT_MS = 250,     /* between signs of life of one that has nothing to do */
    WORKER_BACKOFF_MS = 500   /* before a lost one is started again; doubles (process.h) */
};

struct workers;
struct workers_opts {
    const char *exe;                     /* the program; NULL: this one */
    int64_t batch_ms, load_ms, start_ms; /* 0: as above */
    /* What happens to workers, and what they print: a line; on the thread that watches them. */
    void (*say)(void *arg, const char *line);
    void *arg;
};
/* Nothing is started before a device is asked for. */
enum rc workers_new(const struct workers_opts *o, struct workers **out, struct err *err) MUST_USE;
/* The end is near: whoever waits for a start or a load gives up, and so do those to come; batches
 * go on. */
void workers_hurry(struct workers *w);
/* When no engine is left; ends the processes, for a while politely.  NULL is fine. */
void workers_free(struct workers *w);

struct worker_state {
    char device[WORKER_DEVICE_MAX]; /* "cuda:0" */
    bool up;
    pid_t pid; /* 0: none */
    uint64_t restarts;
    double beat_s; /* since its last sign of life; NAN: there is none */
};
size_t workers_look(struct workers *w, struct worker_state *out, size_t max);

/* The worker's side: the process that was started with this socket. */
int worker_main(int fd);

#endif
