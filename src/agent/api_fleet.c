/* SPDX-License-Identifier: MIT */
/* api_fleet: other agents, asked by this one, so that a browser needs to reach one address and
 * know one token.
 *
 * Every agent is asked for /api/v1/node with a deadline, several at a time.  One that is slow,
 * gone or answers nonsense is a row that says so; it holds up nobody.  What came is checked as
 * JSON before it is passed on, and given again for a few seconds, however many pages ask. */
#include "agent/api_int.h"

#include "base/arena.h"
#include "base/mem.h"
#include "os/client.h"
#include "os/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    FLEET_THREADS_MAX = 8, /* agents asked at a time */
    FLEET_REQUEST_MAX = 4096
};

struct peer {
    const char *address;
    struct buf json; /* a checked document; empty: `why` */
    struct err why;
};

struct fleet {
    struct api *a;
    struct peer peers[API_FLEET_MAX];
    size_t count, next; /* next: under the lock */
    pthread_mutex_t lock;
};

/* ---- one agent */
static void take_reply(struct peer *p, const struct client_done *d)
{
    struct arena arena = { 0 };
    struct json *doc = NULL;
    struct err ignored = { 0 };
    struct json_out w;

    if (d->fault != CLIENT_OK)
        (void)err_set(&p->why, RC_FAIL, "no answer: %s", client_fault_name(d->fault));
    else if (d->reply->status != 200)
        (void)err_set(&p->why, RC_FAIL, "it answered %d", d->reply->status);
    else if (!d->body || d->body->over || d->body->len > API_FLEET_BODY_MAX)
        (void)err_set(&p->why, RC_LIMIT, "its answer is too long");
    else if (json_parse(&arena, buf_str(d->body), d->body->len, &doc, &ignored) ||
             doc->type != JSON_OBJ)
        (void)err_set(&p->why, RC_PARSE, "its answer is no JSON object");
    else {
        json_out_init(&w, &p->json, 0);
        json_add_value(&w, doc);
    }
    arena_release(&arena);
}

static void on_done(void *arg, const struct client_done *d)
{
    take_reply(arg, d);
}

static enum rc ask(struct api *a, struct peer *p)
{
    struct client_opts o = { .slots = 1,
                             .timeout_ns = API_FLEET_MS * INT64_C(1000000),
                             .keep_bodies = true,
                             .on_done = on_done,
                             .arg = p };
    int64_t until = clock_mono_ns() + o.timeout_ns;
    char request[FLEET_REQUEST_MAX], host[URL_AUTHORITY_MAX];
    const char *token = a->o.fleet_token;
    struct client *c = NULL;
    struct url url;
    enum rc rc = url_parse(p->address, &url, &p->why);
    int len;

    if (rc)
        return rc;
    o.url = &url;
    len = snprintf(request, sizeof(request),
                   "GET %s/api/v1/node HTTP/1.1\r\nHost: %s\r\n%s%s%sConnection: close\r\n\r\n",
                   url.prefix, url_authority(&url, host), token ? "Authorization: Bearer " : "",
                   token ? token : "", token ? "\r\n" : "");
    if (len < 0 || (size_t)len >= sizeof(request))
        return err_set(&p->why, RC_LIMIT, "its address and token are too long");
    rc = client_new(&o, &c, &p->why);
    if (rc)
        return rc;
    client_send(c, 0, request, (size_t)len, 0);
    while (!rc && client_in_flight(c) && clock_mono_ns() < until)
        rc = client_poll(c, until, &p->why);
    if (!rc && client_in_flight(c))
        rc = err_set(&p->why, RC_TIMEOUT, "no answer within %d ms", API_FLEET_MS);
    client_free(c);
    return rc;
}

static void *ask_some(void *arg)
{
    struct fleet *f = arg;

    for (;;) {
        size_t i;

        pthread_mutex_lock(&f->lock);
        i = f->next++;
        pthread_mutex_unlock(&f->lock);
        if (i >= f->count)
            return NULL;
        (void)ask(f->a, &f->peers[i]); /* its row says why */
    }
}

/* ---- all of them */
static void ask_all(struct fleet *f)
{
    pthread_t threads[FLEET_THREADS_MAX];
    size_t n = 0;

    while (n + 1 < f->count && n < FLEET_THREADS_MAX &&
           !pthread_create(&threads[n], NULL, ask_some, f))
        n++;
    (void)ask_some(f);
    while (n)
        pthread_join(threads[--n], NULL);
}

static void add_peer(struct json_out *w, const struct peer *p)
{
    json_obj(w);
    json_kv_str(w, "address", p->address);
    json_kv_bool(w, "ok", p->json.len > 0);
    json_kv_str(w, "error", p->json.len ? NULL : p->why.msg);
    json_key(w, "node");
    if (p->json.len)
        buf_add(json_raw(w), p->json.data, p->json.len);
    else
        json_add_null(w);
    json_obj_end(w);
}

static void refresh(struct api *a)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    struct json_out w;

    f->a = a;
    pthread_mutex_init(&f->lock, NULL);
    for (size_t i = 0; a->o.fleet && a->o.fleet[i] && i < API_FLEET_MAX; i++)
        f->peers[f->count++].address = a->o.fleet[i];
    ask_all(f);
    buf_release(&a->fleet);
    buf_init(&a->fleet, API_BODY_MAX);
    json_out_init(&w, &a->fleet, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.fleet/1");
    api_add_time(&w, "time_ms", api_now_ns(a));
    json_key(&w, "nodes");
    json_arr(&w);
    for (size_t i = 0; i < f->count; i++) {
        add_peer(&w, &f->peers[i]);
        buf_release(&f->peers[i].json);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    pthread_mutex_destroy(&f->lock);
    free(f);
    a->fleet_ns = clock_mono_ns();
}

enum rc api_fleet(struct api *a, const struct api_params *p, struct buf *out, struct err *err)
{
    static const char *const names[] = { NULL };
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    if (!a->fleet_ns || clock_mono_ns() - a->fleet_ns > API_FLEET_KEEP_MS * INT64_C(1000000))
        refresh(a);
    buf_add(out, buf_str(&a->fleet), a->fleet.len);
    return RC_OK;
}
