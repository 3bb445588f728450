/* SPDX-License-Identifier: MIT */
/* api_fleet: other agents, asked by this one, so that a browser needs to reach one address and
 * know one token.
 *
 *     page ──► /api/v1/fleet ──► what is known of each, at once
 *                                   ▲
 *     threads ── /api/v1/node of each, every FLEET_EVERY_MS, at a time of its own
 *
 * While somebody looks, threads ask every agent in turn: the first round at once, later ones spread
 * over the interval, so that neither the network nor this machine sees 512 requests in one moment.
 * One that does not answer is told as soon as it is known, and asked less and less often, so that
 * many dead ones hold up nobody.  When nobody has looked for a while the threads end.
 *
 * Each node has a number that grows when what is known of it changes: who says which number it had
 * last (`since`) gets only the others. */
#include "agent/api/api_parts_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/net/web.h"

#include <stdlib.h>
#include <string.h>

enum {
    FLEET_THREADS_MAX = 32, /* agents asked at a time */
    FLEET_EVERY_MS = 5000,  /* each is asked so often */
    FLEET_FIRST_MS = 600,   /* the first round is spread over so long */
    FLEET_REST_MS = 60000,  /* one that does not answer is asked at least so often */
    FLEET_IDLE_MS = 60000,  /* nobody has looked for so long: nobody is asked */
    FLEET_LATE_MS = 2500    /* asked so much later than planned: told as late */
};
#define FLEET_MS INT64_C(1000000)

struct peer {
    struct api_brief brief;
    bool known, lost, busy; /* has answered once; did not, the last time; is being asked */
    char why[ERR_MSG_MAX];  /* it is lost */
    int64_t seen_ns;        /* wall clock: its last answer; 0: none */
    int64_t next_ns;        /* monotonic: when it is asked */
    int64_t lag_ns;         /* by how much the last question was late */
    int failures;
    uint64_t number; /* of the last change */
};

struct fleet {
    struct agent_api *a;
    size_t count;
    struct peer *peers; /* owned */
    pthread_mutex_t lock;
    pthread_cond_t turn; /* monotonic: somebody is due, or the end */
    pthread_t threads[FLEET_THREADS_MAX];
    size_t started, alive;
    bool ending, watched; /* watched: a thread waits for the next that is due */
    int64_t base_ns;      /* monotonic: of the rounds */
    int64_t wanted_ns;    /* monotonic: somebody looked */
    uint64_t number;
    struct peer self; /* this node */
};

/* ---- one agent */

static bool is_ending(void *arg)
{
    struct fleet *f = arg;
    bool ending;

    pthread_mutex_lock(&f->lock);
    ending = f->ending;
    pthread_mutex_unlock(&f->lock);
    return ending;
}

static enum rc ask_agent(struct fleet *f, const char *address, struct web *web,
                         struct api_brief *out, struct err *err)
{
    struct agent_api *a = f->a;
    struct web_request q = { .path = "/api/v1/node",
                             .accept = "application/json",
                             .token = a->o.fleet_token ? a->o.fleet_token(a->o.arg) : NULL,
                             .timeout_ms = API_FLEET_MS,
                             .body_max = API_FLEET_BODY_MAX,
                             .stop = is_ending,
                             .arg = f };
    struct web_reply reply = { 0 };
    struct url url;
    enum rc rc = url_parse(address, &url, err);

    if (rc)
        return rc;
    q.to = &url;
    rc = web_send(web, &q, &reply, err);
    if (!rc && reply.status == 401)
        rc = err_set(err, RC_FAIL, "it asks for another token than this agent's");
    else if (!rc && reply.status != 200)
        rc = err_set(err, RC_FAIL, "it answered %d", reply.status);
    if (!rc)
        rc = api_brief_of(buf_str(&reply.body), reply.body.len, out, err);
    web_reply_release(&reply);
    return rc;
}

/* ---- in turn; the lock is held */

static int64_t slot_after(const struct fleet *f, size_t i, int64_t after_ns)
{
    int64_t every = FLEET_EVERY_MS * FLEET_MS, at = f->base_ns;

    at += every * (int64_t)i / (int64_t)f->count;
    if (after_ns > at)
        at += (after_ns - at + every - 1) / every * every;
    return at;
}

static void plan_next(struct fleet *f, size_t i, int64_t now)
{
    struct peer *p = &f->peers[i];
    int64_t wait = FLEET_EVERY_MS * FLEET_MS / 2;

    if (p->lost) {
        int shift = p->failures < 5 ? p->failures : 5;

        wait = (FLEET_EVERY_MS * FLEET_MS) << shift;
        wait = wait < FLEET_REST_MS * FLEET_MS ? wait : FLEET_REST_MS * FLEET_MS;
    }
    p->next_ns = slot_after(f, i, now + wait);
}

/* The next to be asked, or how long to wait for it. */
static struct peer *peer_due(struct fleet *f, int64_t now, int64_t *out_next_ns)
{
    struct peer *first = NULL;

    for (size_t i = 0; i < f->count; i++)
        if (!f->peers[i].busy && (!first || f->peers[i].next_ns < first->next_ns))
            first = &f->peers[i];
    *out_next_ns = first ? first->next_ns : now + FLEET_EVERY_MS * FLEET_MS;
    return first && first->next_ns <= now ? first : NULL;
}

static bool same_brief(const struct api_brief *a, const struct api_brief *b)
{
    return a->members.len == b->members.len && str_eq(a->host, b->host) &&
           !memcmp(buf_str(&a->members), buf_str(&b->members), a->members.len);
}

static void take_answer(struct fleet *f, struct peer *p, enum rc rc, struct api_brief *got,
                        const struct err *err)
{
    bool changed = p->lost != (rc != RC_OK);

    p->busy = false;
    p->lost = rc != RC_OK;
    p->failures = rc == RC_OK ? 0 : p->failures + 1;
    if (rc == RC_OK) {
        changed |= !p->known || !same_brief(&p->brief, got);
        buf_release(&p->brief.members);
        p->brief = *got;
        p->known = true;
        p->seen_ns = api_now_ns(f->a);
        got->members = (struct buf){ 0 };
    } else {
        changed |= !str_eq(p->why, err->msg);
        (void)str_copy(p->why, sizeof(p->why), err->msg);
    }
    if (changed)
        p->number = ++f->number;
    plan_next(f, (size_t)(p - f->peers), clock_mono_ns());
}

/* Of those that have nothing to do one looks at the clock; it wakes another when it has. */
static void wait_turn(struct fleet *f, int64_t next_ns)
{
    if (f->watched) {
        pthread_cond_wait(&f->turn, &f->lock);
        return;
    }
    f->watched = true;
    (void)clock_cond_wait(&f->turn, &f->lock, next_ns);
    f->watched = false;
}

static void ask_peer(struct fleet *f, struct peer *p, struct web *web, int64_t now)
{
    struct api_brief got = { 0 };
    struct err err = { 0 };
    enum rc rc;

    p->busy = true;
    p->lag_ns = now - p->next_ns;
    pthread_cond_signal(&f->turn);
    pthread_mutex_unlock(&f->lock);
    buf_init(&got.members, API_FLEET_BODY_MAX);
    rc = ask_agent(f, f->a->o.fleet[p - f->peers], web, &got, &err);
    pthread_mutex_lock(&f->lock);
    take_answer(f, p, rc, &got, &err);
    buf_release(&got.members);
}

static void *ask_agents(void *arg)
{
    struct fleet *f = arg;
    struct web *web = web_new(&f->a->o.trust);

    pthread_mutex_lock(&f->lock);
    for (;;) {
        int64_t now = clock_mono_ns(), next;
        struct peer *p;

        if (f->ending || now - f->wanted_ns > FLEET_IDLE_MS * FLEET_MS)
            break;
        p = peer_due(f, now, &next);
        if (p)
            ask_peer(f, p, web, now);
        else
            wait_turn(f, next);
    }
    f->alive--;
    pthread_cond_broadcast(&f->turn);
    pthread_mutex_unlock(&f->lock);
    web_free(web);
    return NULL;
}

/* ---- while somebody looks */

static void join_threads(struct fleet *f)
{
    for (; f->started; f->started--)
        pthread_join(f->threads[f->started - 1], NULL);
}

static void start_threads(struct fleet *f)
{
    size_t want = f->count < FLEET_THREADS_MAX ? f->count : FLEET_THREADS_MAX;

    join_threads(f); /* those of an earlier look have ended */
    pthread_mutex_lock(&f->lock);
    f->base_ns = clock_mono_ns();
    for (size_t i = 0; i < f->count; i++) {
        f->peers[i].failures = 0;
        f->peers[i].next_ns =
            f->base_ns + FLEET_FIRST_MS * FLEET_MS * (int64_t)i / (int64_t)f->count;
    }
    for (; f->started < want; f->started++) {
        if (pthread_create(&f->threads[f->started], NULL, ask_agents, f))
            break;
        f->alive++;
    }
    pthread_mutex_unlock(&f->lock);
}

static void look_at_fleet(struct fleet *f)
{
    bool asleep;

    pthread_mutex_lock(&f->lock);
    f->wanted_ns = clock_mono_ns();
    asleep = !f->alive;
    pthread_mutex_unlock(&f->lock);
    if (asleep && f->count)
        start_threads(f);
}

static void take_self(struct fleet *f)
{
    struct buf doc = { .max = API_FLEET_BODY_MAX };
    struct api_brief got = { 0 };
    struct err err = { 0 };
    bool ok;

    buf_init(&got.members, API_FLEET_BODY_MAX);
    ok = api_ask(f->a, "/api/v1/node", &doc, &err) == RC_OK &&
         api_brief_of(buf_str(&doc), doc.len, &got, &err) == RC_OK;
    if (ok) {
        buf_release(&f->self.brief.members);
        f->self.brief = got;
        f->self.known = true;
        f->self.seen_ns = api_now_ns(f->a);
        f->self.number = UINT64_MAX; /* always new */
    } else {
        buf_release(&got.members);
    }
    buf_release(&doc);
}

/* ---- the answer */

static int compare_places(const void *key, const void *item)
{
    return strcmp(key, ((const struct agent_place *)item)->host);
}

/* Where the site's description has it: by the name it gives itself, or that of its address. */
static const struct agent_place *place_of(const struct agent_api *a, const char *host)
{
    char name[URL_HOST_MAX];
    const struct agent_place *found;

    if (!a->o.place_count || !host[0] || !str_copy(name, sizeof(name), host))
        return NULL;
    found = bsearch(name, a->o.places, a->o.place_count, sizeof(*a->o.places), compare_places);
    if (found || !strchr(name, '.'))
        return found;
    *strchr(name, '.') = '\0';
    return bsearch(name, a->o.places, a->o.place_count, sizeof(*a->o.places), compare_places);
}

static const char *peer_state(const struct peer *p)
{
    return p->lost             ? "lost"
           : !p->known         ? "asked"
           : p->brief.critical ? "critical"
           : p->brief.warning  ? "warning"
                               : "ok";
}

static void add_peer(struct agent_api *a, struct json_out *w, size_t at, const char *address,
                     const struct peer *p)
{
    struct err ignored = { 0 };
    struct url url = { 0 };
    const struct agent_place *place = place_of(a, p->brief.host);

    if (address && url_parse(address, &url, &ignored))
        url.host[0] = '\0';
    if (!place)
        place = place_of(a, url.host);
    json_obj(w);
    json_kv_int(w, "at", (int64_t)at);
    json_kv_str(w, "address", address);
    json_kv_str(w, "host", p->brief.host[0] ? p->brief.host : NULL);
    json_kv_str(w, "group", place ? place->group : NULL);
    json_kv_str(w, "rack", place ? place->rack : NULL);
    json_kv_str(w, "switch", place ? place->leaf : NULL);
    json_kv_str(w, "state", peer_state(p));
    json_kv_str(w, "error", p->lost ? p->why : NULL);
    api_add_time(w, "seen_ms", p->seen_ns);
    json_key(w, "node");
    if (p->known && !p->lost)
        buf_add(json_raw(w), p->brief.members.data, p->brief.members.len);
    else
        json_add_null(w);
    json_obj_end(w);
}

static void add_head(struct fleet *f, struct json_out *w)
{
    size_t late = 0, lost = 0, asked = 0;

    for (size_t i = 0; i < f->count; i++) {
        late += f->peers[i].lag_ns > FLEET_LATE_MS * FLEET_MS;
        lost += f->peers[i].lost;
        asked += !f->peers[i].known && !f->peers[i].lost;
    }
    json_kv_str(w, "schema", "stoker.fleet/2");
    api_add_time(w, "time_ms", api_now_ns(f->a));
    json_kv_int(w, "every_ms", FLEET_EVERY_MS);
    json_kv_int(w, "count", (int64_t)f->count + 1);
    json_kv_int(w, "lost", (int64_t)lost);
    json_kv_int(w, "asked", (int64_t)asked); /* of whom nothing is known yet */
    json_kv_int(w, "late", (int64_t)late);
    json_kv_int(w, "number", (int64_t)f->number);
}

enum rc api_fleet(struct agent_api *a, const struct api_params *p, struct buf *out, struct err *err)
{
    static const char *const names[] = { "since", NULL };
    struct fleet *f = a->fleet;
    struct json_out w;
    uint64_t since;
    enum rc rc = api_params_check(p, names, err);

    if (!rc)
        rc = api_param_uint(p, "since", 0, INT64_MAX, 0, &since, err);
    if (rc)
        return rc;
    look_at_fleet(f);
    take_self(f);
    json_out_init(&w, out, 0);
    json_obj(&w);
    pthread_mutex_lock(&f->lock);
    add_head(f, &w);
    json_kv_arr(&w, "nodes");
    add_peer(a, &w, 0, NULL, &f->self);
    for (size_t i = 0; i < f->count; i++)
        if (!since || f->peers[i].number > since)
            add_peer(a, &w, i + 1, a->o.fleet[i], &f->peers[i]);
    pthread_mutex_unlock(&f->lock);
    json_arr_end(&w);
    json_obj_end(&w);
    return RC_OK;
}

/* ---- life */

void api_fleet_open(struct agent_api *a)
{
    struct fleet *f = xcalloc(1, sizeof(*f));

    f->a = a;
    pthread_mutex_init(&f->lock, NULL);
    clock_cond_init(&f->turn);
    while (a->o.fleet && a->o.fleet[f->count] && f->count < AGENT_FLEET_MAX)
        f->count++;
    f->peers = xcalloc(f->count + 1, sizeof(*f->peers));
    a->fleet = f;
}

void api_fleet_close(struct agent_api *a)
{
    struct fleet *f = a->fleet;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->ending = true;
    pthread_cond_broadcast(&f->turn);
    pthread_mutex_unlock(&f->lock);
    join_threads(f);
    for (size_t i = 0; i < f->count; i++)
        buf_release(&f->peers[i].brief.members);
    buf_release(&f->self.brief.members);
    pthread_cond_destroy(&f->turn);
    pthread_mutex_destroy(&f->lock);
    free(f->peers);
    free(f);
    a->fleet = NULL;
}
