/* SPDX-License-Identifier: MIT */
/* collector_threads: threads that run host sources.
 *
 * Sources of one thread are called in turn when their second begins, and write one table.  What
 * asks file systems has one of its own: a server that is gone may hold a call for ever, and costs
 * only that thread.  The sampling thread watches: a source that has not returned for AGENT_HANG_MS
 * is told by name, its values become unknown as any silent source's do. */
#include "agent/agent_int.h"

#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <time.h>

enum { THREAD_FILES, THREAD_MOUNTS, THREAD_SERIES = 4096, THREAD_JOIN_NAP_MS = 5 };

static size_t thread_of(const struct collector *c)
{
    static const char *const slow[] = { "mounts", "nfs", "lustre" };

    for (size_t i = 0; i < ARRAY_SIZE(slow); i++)
        if (str_eq(c->name, slow[i]))
            return THREAD_MOUNTS;
    return THREAD_FILES;
}

void collector_threads_plan(struct agent *a)
{
    for (size_t i = 0; i < AGENT_COLLECTOR_THREADS; i++)
        a->threads[i] =
            (struct collector_thread){ .a = a, .index = i, .feed = feed_add(a, THREAD_SERIES) };
    for (size_t i = 0; collectors[i] && a->source_count < AGENT_COLLECTORS_MAX; i++) {
        struct thread_source *s = &a->sources[a->source_count++];
        int64_t own = collectors[i]->period_ms * AGENT_MS, period = a->o.period_ms * AGENT_MS;
        s->c = collectors[i];
        s->thread = thread_of(s->c);
        s->period_ns = own > period ? own : period;
        feed_stale(a, a->threads[s->thread].feed, s->c->name, s->period_ns);
    }
}

static void run_one(struct collector_thread *l, struct thread_source *s, struct telemetry *t)
{
    int64_t begun = clock_mono_ns(), cost;

    atomic_store(&s->begun_ns, begun);
    s->c->sample(s->state, t, agent_wall_ns());
    cost = clock_mono_ns() - begun;
    atomic_store(&s->cost_ns, cost);
    atomic_store(&s->done_ns, begun + cost);
    atomic_store(&s->begun_ns, 0);
    if (cost > l->a->o.period_ms * AGENT_MS)
        atomic_fetch_add(&s->late, 1);
}

/* Sleeps until the wall clock's next whole period, or shorter when the clock is set meanwhile. */
static void sleep_to_next(struct agent *a)
{
    int64_t period = a->o.period_ms * AGENT_MS, wall = agent_wall_ns();
    int64_t until = clock_mono_ns() + period - wall % period;

    pthread_mutex_lock(&a->lock);
    while (!atomic_load(&a->stop) && clock_cond_wait(&a->halt, &a->lock, until))
        ;
    pthread_mutex_unlock(&a->lock);
}

static void *collector_thread_main(void *arg)
{
    struct collector_thread *l = arg;
    struct agent *a = l->a;
    struct telemetry *t = a->feeds[l->feed].t;
    int64_t next[AGENT_COLLECTORS_MAX] = { 0 };

    for (size_t i = 0; i < a->source_count; i++)
        if (a->sources[i].thread == l->index && a->sources[i].c->open)
            a->sources[i].state = a->sources[i].c->open(a->o.root, t);
    if (l->index == THREAD_MOUNTS && (a->o.port >= 0 || a->o.record))
        inventory_take(a, t);
    while (!atomic_load(&a->stop)) {
        int64_t now = clock_mono_ns();
        for (size_t i = 0; i < a->source_count && !atomic_load(&a->stop); i++) {
            struct thread_source *s = &a->sources[i];
            if (s->thread != l->index || now < next[i])
                continue;
            run_one(l, s, t);
            next[i] = now + s->period_ns - a->o.period_ms * AGENT_MS / 2;
        }
        if (l->kmsg)
            (void)kmsg_poll(l->kmsg, t);
        sleep_to_next(a);
    }
    return NULL;
}

enum rc collector_threads_start(struct agent *a, struct err *err)
{
    enum rc rc = RC_OK;

    a->threads[THREAD_FILES].kmsg = kmsg_open(a->o.root, NULL);
    a->kernel_log = root_is_live(a->o.root) ? kmsg_fault_errno(a->threads[THREAD_FILES].kmsg) : 0;
    if (a->kernel_log && a->o.port >= 0) {
        log_warn("the kernel's log cannot be read: %s; XIDs are known from the driver only, and "
                 "other faults of hardware not at all",
                 strerror(a->kernel_log));
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the kernel's log cannot be read: %s",
                    strerror(a->kernel_log));
    }
    for (size_t i = 0; rc == RC_OK && i < AGENT_COLLECTOR_THREADS; i++) {
        rc = thread_start(&a->threads[i].thread, collector_thread_main, &a->threads[i], err);
        a->threads[i].on = rc == RC_OK;
    }
    return rc;
}

void collector_threads_watch(struct agent *a)
{
    int64_t now = clock_mono_ns();

    for (size_t i = 0; i < a->source_count; i++) {
        struct thread_source *s = &a->sources[i];
        int64_t begun = atomic_load(&s->begun_ns);
        bool hangs = begun && now - begun > AGENT_HANG_MS * AGENT_MS;
        if (hangs && !s->told)
            agent_event(a, TELEMETRY_EVENT_HANG, -1, 0, "source '%s' has not returned for %d s",
                        s->c->name, AGENT_HANG_MS / 1000);
        else if (!hangs && s->told)
            agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "source '%s' answers again", s->c->name);
        s->told = hangs;
    }
}

/* By the monotonic clock: the other one may be set while we wait. */
static bool join_until(pthread_t thread, int64_t until_ns)
{
    const struct timespec nap = { .tv_nsec = THREAD_JOIN_NAP_MS * AGENT_MS };
    int rc;

    while ((rc = pthread_tryjoin_np(thread, NULL)) == EBUSY && clock_mono_ns() < until_ns)
        nanosleep(&nap, NULL);
    return rc == 0;
}

bool collector_threads_stop(struct agent *a)
{
    int64_t until = clock_mono_ns() + AGENT_STOP_MS * AGENT_MS;
    bool all = true;

    pthread_mutex_lock(&a->lock);
    pthread_cond_broadcast(&a->halt);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < AGENT_COLLECTOR_THREADS; i++)
        if (a->threads[i].on && !join_until(a->threads[i].thread, until)) {
            (void)pthread_detach(a->threads[i].thread);
            all = false;
        }
    for (size_t i = 0; all && i < a->source_count; i++)
        if (a->sources[i].state && a->sources[i].c->close)
            a->sources[i].c->close(a->sources[i].state);
    for (size_t i = 0; all && i < AGENT_COLLECTOR_THREADS; i++)
        if (a->threads[i].kmsg)
            kmsg_close(a->threads[i].kmsg);
    return all;
}
