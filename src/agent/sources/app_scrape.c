/* SPDX-License-Identifier: MIT */
/* app_scrape: asks applications, our own model server and DCGM's exporter for their Prometheus
 * text.
 *
 * One thread asks all of them in turn, each within its deadline; one that is not there is asked
 * more and more seldom.  What they say is theirs: names and labels are checked by prom_parse, the
 * series budget takes theirs last. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/net/web.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum {
    SCRAPE_SERIES =
        TELEMETRY_SERIES_MAX, /* half of them the applications': what is shown decides */
    SCRAPE_PERIOD_MS = 5000,
    SCRAPE_TIMEOUT_MS = 2000,   /* of one request, connecting included */
    SCRAPE_WAIT_MS_MAX = 60000, /* between two tries of one that is not there */
    SCRAPE_BODY_MAX = 16 << 20  /* bytes of a reply; a longer one counts as failed */
};

struct scraper {
    struct agent *a;
    struct telemetry *t; /* borrowed: the feed's */
    pthread_t thread;
    bool on;
    pthread_mutex_t lock; /* the list */
    pthread_cond_t change;
    struct scrape_target *list[AGENT_SCRAPES_MAX];
    size_t count;
    bool stop;
    struct models_shown *models;       /* the thread's */
    struct web_reply reply;            /* the thread's: the last one */
    const struct scrape_target *asked; /* under way; NULL: none */
};

/* ---- one request */

static enum rc fetch_text(struct scraper *s, const struct scrape_target *t, struct err *err)
{
    struct url u;
    struct web_request q = { .to = &u,
                             .accept = "text/plain",
                             .timeout_ms = SCRAPE_TIMEOUT_MS,
                             .body_max = SCRAPE_BODY_MAX };
    struct web_trust trust = s->a->o.trust;
    struct web *web;
    enum rc rc = url_parse(t->url, &u, err);

    if (rc != RC_OK)
        return rc;
    q.path = u.prefix[0] ? NULL : "/metrics";
    if (str_eq(t->name, "serve")) {
        q.token = atomic_load(&s->a->serve_token);
        if (!q.token)
            q.token = atomic_load(&s->a->token);      /* our own server asks for our own */
        trust.insecure |= http_address_local(u.host); /* its certificate names the machine */
    }
    web = web_new(&trust);
    rc = web_send(web, &q, &s->reply, err);
    web_free(web);
    if (rc == RC_OK && s->reply.status != 200)
        rc = err_set(err, RC_FAIL, "'%s' answered %d", t->url, s->reply.status);
    return rc;
}

static void scrape_one(struct scraper *s, struct scrape_target *t)
{
    /* /health tells of our own server: it is asked as often as ever */
    int64_t begun = clock_mono_ns(),
            longest = (str_eq(t->name, "serve") ? SCRAPE_PERIOD_MS : SCRAPE_WAIT_MS_MAX) * AGENT_MS;
    struct err err = { 0 };
    enum rc rc = fetch_text(s, t, &err);

    if (rc == RC_OK && str_eq(t->name, "dcgm"))
        rc = dcgm_take(s->a, s->t, buf_str(&s->reply.body), s->reply.body.len, &err);
    else if (rc == RC_OK)
        rc = prom_parse_take(s->t, telemetry_source(s->t, t->name), buf_str(&s->reply.body),
                             s->reply.body.len, agent_wall_ns(), NULL, 0, &err);
    if (rc == RC_OK && str_eq(t->name, "serve"))
        models_shown_take(s->models, s->t, buf_str(&s->reply.body), agent_wall_ns());
    atomic_store(&t->cost_ns, clock_mono_ns() - begun);
    atomic_store(&t->up, rc == RC_OK);
    if (rc == RC_OK) {
        atomic_store(&t->done_ns, clock_mono_ns());
        t->wait_ns = SCRAPE_PERIOD_MS * AGENT_MS;
    } else {
        atomic_fetch_add(&t->failed, 1);
        t->wait_ns = t->wait_ns ? t->wait_ns * 2 : SCRAPE_PERIOD_MS * AGENT_MS / 4;
        if (t->wait_ns > longest)
            t->wait_ns = longest;
    }
    t->next_ns = begun + t->wait_ns;
}

/* ---- the thread */

/* The next that is due; NULL: none, and how long to wait.  With the lock held. */
static struct scrape_target *next_due(struct scraper *s, int64_t now, int64_t *out_due)
{
    struct scrape_target *first = NULL;

    for (size_t i = 0; i < s->count; i++)
        if (!first || s->list[i]->next_ns < first->next_ns)
            first = s->list[i];
    *out_due = first ? first->next_ns : now + SCRAPE_WAIT_MS_MAX * AGENT_MS;
    return first && first->next_ns <= now ? first : NULL;
}

static void *scrape_main(void *arg)
{
    struct scraper *s = arg;

    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        int64_t due;
        struct scrape_target *t = next_due(s, clock_mono_ns(), &due);
        if (t) {
            s->asked = t;
            pthread_mutex_unlock(&s->lock);
            scrape_one(s, t);
            pthread_mutex_lock(&s->lock);
            s->asked = NULL;
            pthread_cond_broadcast(&s->change);
            continue;
        }
        (void)clock_cond_wait(&s->change, &s->lock, due);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- the list */

static void target_free(struct scrape_target *t)
{
    free(t->url);
    free(t->name);
    free(t);
}

/* As source `as`; NULL: app:HOST:PORT/PATH. */
static void add_target(struct scraper *s, const char *as, const char *url)
{
    struct buf name = { 0 };
    struct url u;

    for (size_t i = 0; i < s->count; i++)
        if (str_eq(s->list[i]->url, url))
            return;
    if (s->count == AGENT_SCRAPES_MAX)
        return;
    if (as || url_parse(url, &u, NULL))
        buf_adds(&name, as ? as : url);
    else
        buf_addf(&name, "app:%s:%s%s", u.host[0] ? u.host : "unix", u.port, u.prefix);
    s->list[s->count] = xcalloc(1, sizeof(struct scrape_target));
    s->list[s->count]->url = xstrdup(url);
    s->list[s->count++]->name = buf_take(&name);
}

static void fill_targets(struct scraper *s, const struct agent_opts *o)
{
    if (o->serve_url)
        add_target(s, "serve", o->serve_url);
    if (o->dcgm_url)
        add_target(s, "dcgm", o->dcgm_url);
    for (size_t i = 0; o->scrape && o->scrape[i]; i++)
        add_target(s, NULL, o->scrape[i]);
}

void scrape_reload(struct agent *a, const struct agent_opts *o)
{
    struct scraper *s = a->scraper;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    while (s->asked)
        pthread_cond_wait(&s->change, &s->lock);
    while (s->count)
        target_free(s->list[--s->count]);
    fill_targets(s, o);
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
}

void scrape_each(struct scraper *s, void (*fn)(void *arg, struct scrape_target *t), void *arg)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++)
        fn(arg, s->list[i]);
    pthread_mutex_unlock(&s->lock);
}

struct maybe scrape_serve_up(struct scraper *s)
{
    struct maybe up = maybe_none();

    if (!s)
        return up;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->count; i++)
        if (str_eq(s->list[i]->name, "serve"))
            up = maybe_of(atomic_load(&s->list[i]->up));
    pthread_mutex_unlock(&s->lock);
    return up;
}

enum rc scrape_start(struct agent *a, struct err *err)
{
    struct scraper *s = xcalloc(1, sizeof(*s));
    enum rc rc;

    s->a = a;
    s->models = models_shown_new();
    s->t = a->feeds[feed_add(a, SCRAPE_SERIES)].t;
    pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->change);
    fill_targets(s, &a->o);
    a->scraper = s;
    rc = thread_start(&s->thread, scrape_main, s, err);
    s->on = rc == RC_OK;
    return rc;
}

void scrape_stop(struct scraper *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->change);
    pthread_mutex_unlock(&s->lock);
    if (s->on)
        (void)pthread_join(s->thread, NULL);
    while (s->count)
        target_free(s->list[--s->count]);
    web_reply_release(&s->reply);
    models_shown_free(s->models);
    pthread_cond_destroy(&s->change);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
