/* SPDX-License-Identifier: MIT */
/* mounts_probe: statvfs() of file systems that may never answer.
 *
 * A thread asks one path after the other; the caller only looks at what came.  A path that takes
 * longer than the deadline is stuck, and so is its thread, which nothing can end: it is left
 * alone with what it owns, a new one asks for the others, and the path is not asked again before
 * that call has returned.  After MOUNTS_STUCK_MAX such threads nobody is asked until one is back.
 *
 * Who may touch what: all of a worker is under its lock.  A worker is freed by the last of two
 * who hold it, the thread and the caller. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOUNTS_STACK = 128 << 10 }; /* bytes of a thread's stack */

struct mounts_worker {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int (*ask)(const char *path, struct statvfs *out);
    struct mounts_answer jobs[MOUNTS_PROBE_MAX];
    size_t count, at; /* at < count: jobs[at] is being asked */
    int64_t at_ns;    /* since when */
    bool quit;
    int holders;
};

struct mounts_probe {
    int (*ask)(const char *path, struct statvfs *out);
    int64_t deadline_ns;
    struct mounts_worker *now; /* NULL: none */
    struct mounts_worker *stuck[MOUNTS_STUCK_MAX];
    size_t stuck_count;
};

static void worker_drop(struct mounts_worker *w)
{
    bool last;

    pthread_mutex_lock(&w->lock);
    last = --w->holders == 0;
    pthread_mutex_unlock(&w->lock);
    if (!last)
        return;
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* The job's path is read without the lock: the caller changes jobs only when at == count. */
static void *worker_main(void *arg)
{
    struct mounts_worker *w = arg;

    pthread_mutex_lock(&w->lock);
    while (!w->quit) {
        struct statvfs v;
        int rc;

        if (w->at == w->count) {
            pthread_cond_wait(&w->wake, &w->lock);
            continue;
        }
        w->at_ns = clock_mono_ns();
        pthread_mutex_unlock(&w->lock);
        rc = w->ask(w->jobs[w->at].path, &v) ? (errno ? errno : EIO) : 0;
        pthread_mutex_lock(&w->lock);
        w->jobs[w->at].rc = rc;
        if (!rc)
            w->jobs[w->at].v = v;
        w->at++;
    }
    pthread_mutex_unlock(&w->lock);
    worker_drop(w);
    return NULL;
}

static struct mounts_worker *worker_new(int (*ask)(const char *path, struct statvfs *out))
{
    struct mounts_worker *w = xcalloc(1, sizeof(*w));
    pthread_attr_t attr;
    pthread_t thread;
    int rc;

    w->ask = ask;
    w->holders = 2;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, MOUNTS_STACK);
    rc = pthread_create(&thread, &attr, worker_main, w);
    pthread_attr_destroy(&attr);
    if (!rc)
        return w;
    w->holders = 1;
    worker_drop(w);
    return NULL;
}

struct mounts_probe *mounts_probe_new(int (*ask)(const char *path, struct statvfs *out),
                                      int deadline_ms)
{
    struct mounts_probe *a = xcalloc(1, sizeof(*a));

    a->ask = ask;
    a->deadline_ns = deadline_ms * INT64_C(1000000);
    return a;
}

static void worker_quit(struct mounts_worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->quit = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    worker_drop(w);
}

void mounts_probe_free(struct mounts_probe *a)
{
    if (!a)
        return;
    if (a->now)
        worker_quit(a->now);
    for (size_t i = 0; i < a->stuck_count; i++)
        worker_quit(a->stuck[i]);
    free(a);
}

size_t mounts_probe_stuck(const struct mounts_probe *a)
{
    return a->stuck_count;
}

/* Stuck threads that came back end here. */
static void stuck_reap(struct mounts_probe *a)
{
    for (size_t i = 0; i < a->stuck_count;) {
        struct mounts_worker *w = a->stuck[i];
        bool back;

        pthread_mutex_lock(&w->lock);
        back = w->at == w->count;
        pthread_mutex_unlock(&w->lock);
        if (!back) {
            i++;
            continue;
        }
        worker_quit(w);
        a->stuck[i] = a->stuck[--a->stuck_count];
    }
}

static bool is_stuck(const struct mounts_probe *a, const char *path)
{
    for (size_t i = 0; i < a->stuck_count; i++) {
        struct mounts_worker *w = a->stuck[i];
        bool same;

        pthread_mutex_lock(&w->lock);
        same = w->at < w->count && str_eq(w->jobs[w->at].path, path);
        pthread_mutex_unlock(&w->lock);
        if (same)
            return true;
    }
    return false;
}

/* Answers of the last round into the list; the lock is held. */
static void take_answers(const struct mounts_worker *w, struct mounts_answer *list, size_t count)
{
    for (size_t i = 0; i < w->at; i++)
        for (size_t k = 0; k < count; k++)
            if (str_eq(w->jobs[i].path, list[k].path)) {
                list[k].rc = w->jobs[i].rc;
                list[k].v = w->jobs[i].v;
            }
}

/* A new round; the lock is held and the worker is idle. */
static void post_paths(const struct mounts_probe *a, struct mounts_worker *w,
                       const struct mounts_answer *list, size_t count)
{
    w->count = 0;
    w->at = 0;
    for (size_t i = 0; i < count && w->count < MOUNTS_PROBE_MAX; i++)
        if (!is_stuck(a, list[i].path)) {
            memcpy(w->jobs[w->count].path, list[i].path, sizeof(w->jobs[0].path));
            w->jobs[w->count++].rc = EAGAIN;
        }
    w->at_ns = clock_mono_ns();
    pthread_cond_signal(&w->wake);
}

void mounts_probe_turn(struct mounts_probe *a, struct mounts_answer *list, size_t count,
                       int64_t mono_ns)
{
    struct mounts_worker *w;

    for (size_t i = 0; i < count; i++)
        list[i].rc = EAGAIN;
    stuck_reap(a);
    if (!a->now && a->stuck_count < MOUNTS_STUCK_MAX && count > 0)
        a->now = worker_new(a->ask);
    w = a->now;
    if (w) {
        pthread_mutex_lock(&w->lock);
        take_answers(w, list, count);
        if (w->at == w->count)
            post_paths(a, w, list, count);
        else if (mono_ns - w->at_ns > a->deadline_ns) {
            /* What is left of a round that got stuck is not asked when the call returns. */
            assert(a->stuck_count < MOUNTS_STUCK_MAX);
            w->count = w->at + 1;
            a->stuck[a->stuck_count++] = w;
            a->now = NULL;
        }
        pthread_mutex_unlock(&w->lock);
    }
    for (size_t i = 0; i < count; i++)
        if (is_stuck(a, list[i].path))
            list[i].rc = ETIMEDOUT;
}
