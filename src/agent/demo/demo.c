/* SPDX-License-Identifier: MIT */
/* demo: the story of --demo below /demo/ of an agent that measures, for machines without a GPU.
 *
 * The first who asks for it starts a second agent in this process, without ports: it plays the
 * story, and its answers are given here.  A thread starts it (a history must be made, and nothing
 * that answers HTTP waits for a disk); who asks meanwhile is answered then.  The page is the
 * same file: its questions are relative, so that below /demo/ they are the demo's.
 *
 * The two share nothing but this door: no value, alert or event of the demo reaches /metrics,
 * history or receivers of the one that measures.  When nobody has looked for DEMO_REST_MS the story
 * stands still; it goes on where time is when somebody looks again. */
#include "agent/agent_int.h"
#include "agent/api/api_parts_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEMO_WAITING_MAX = 64, /* questions while it starts: 503 beyond */
    DEMO_REST_MS = 60000,
    DEMO_PATH_BYTES = sizeof("/demo") - 1
};

struct demo {
    struct agent *outer;
    pthread_mutex_t lock;
    struct agent *inner; /* NULL: not started */
    bool starting, joinable;
    pthread_t thread;
    struct http_exchange *waiting[DEMO_WAITING_MAX];
    size_t waiting_count;
    int64_t asked_ns; /* monotonic */
    struct err why;   /* it could not be started */
};

/* The route of the inner agent behind "/demo". */
static void answer_demo(struct agent *inner, struct http_exchange *x)
{
    const char *path = http_request(x)->path + DEMO_PATH_BYTES;

    for (size_t i = 0; i < inner->route_count; i++)
        if (inner->routes[i].method == HTTP_GET && str_eq(inner->routes[i].path, path)) {
            inner->routes[i].run(inner->routes[i].arg, x);
            return;
        }
    api_refuse(x, 404, "the demo has no such path");
}

static void *start_demo(void *arg)
{
    struct demo *d = arg;
    const struct agent_opts *o = &d->outer->o;
    struct agent_opts inner = { .port = -1,
                                .metrics_port = -1,
                                .ask = true,
                                .demo = true,
                                .replay_speed = 1,
                                .rules = o->rules,
                                .rule_count = o->rule_count,
                                .series_max = o->series_max };
    struct agent *a = NULL;
    struct err why = { 0 };
    enum rc rc = agent_start(&inner, &a, &why);

    pthread_mutex_lock(&d->lock);
    d->inner = rc == RC_OK ? a : NULL;
    d->starting = false;
    d->why = why;
    for (; d->waiting_count; d->waiting_count--) {
        struct http_exchange *x = d->waiting[d->waiting_count - 1];

        if (d->inner)
            answer_demo(d->inner, x);
        else
            api_refuse(x, 503, why.msg);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* The lock is held. */
static void start_thread(struct demo *d)
{
    if (d->joinable)
        pthread_join(d->thread, NULL); /* of a start that failed: it is at its end */
    d->starting = d->joinable = thread_start(&d->thread, start_demo, d, &d->why) == RC_OK;
}

void demo_ask(void *arg, struct http_exchange *x)
{
    struct agent *a = arg;
    struct demo *d = a->demo;
    struct agent *inner;
    bool waits = false;

    pthread_mutex_lock(&d->lock);
    d->asked_ns = clock_mono_ns();
    inner = d->inner;
    if (!inner && !d->starting)
        start_thread(d);
    if (!inner && d->starting && d->waiting_count < DEMO_WAITING_MAX) {
        d->waiting[d->waiting_count++] = x;
        waits = true;
    }
    pthread_mutex_unlock(&d->lock);
    if (inner) {
        agent_rest(inner, false);
        answer_demo(inner, x);
    } else if (!waits) {
        api_refuse(x, 503, d->why.code ? d->why.msg : "too many questions wait for the demo");
    }
}

void demo_turn(struct agent *a)
{
    struct demo *d = a->demo;

    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    if (d->inner && api_live_count(d->inner->api))
        d->asked_ns = clock_mono_ns();
    if (d->inner && clock_mono_ns() - d->asked_ns > DEMO_REST_MS * AGENT_MS)
        agent_rest(d->inner, true);
    pthread_mutex_unlock(&d->lock);
}

struct demo *demo_new(struct agent *a)
{
    struct demo *d = xcalloc(1, sizeof(*d));

    d->outer = a;
    pthread_mutex_init(&d->lock, NULL);
    return d;
}

void demo_free(struct demo *d)
{
    if (!d)
        return;
    if (d->joinable)
        pthread_join(d->thread, NULL);
    agent_stop(d->inner);
    pthread_mutex_destroy(&d->lock);
    free(d);
}
