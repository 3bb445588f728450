/* SPDX-License-Identifier: MIT */
/* web: see web.h.  This file has the plain half, over client.h, and what both halves share. */
#include "os/net/web_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/net/client.h"

#include <stdarg.h>
#include <strings.h>

#define WEB_MS INT64_C(1000000)

struct web {
    struct web_trust trust;
    char *ca_file;         /* owned */
    struct web_curl *curl; /* owned; NULL: not needed yet */
    /* the plain connection, and the request on it */
    struct client *plain; /* owned; NULL: none */
    struct url url;       /* its server */
    int64_t timeout_ns;
    size_t body_max;
    struct buf request;
    struct web_reply *reply;
    bool done, over;
    enum client_fault fault;
    int sys;
};

struct web *web_new(const struct web_trust *trust)
{
    struct web *w = xcalloc(1, sizeof(*w));

    if (trust)
        w->trust = *trust;
    if (w->trust.ca_file)
        w->trust.ca_file = w->ca_file = xstrdup(w->trust.ca_file);
    return w;
}

void web_free(struct web *w)
{
    if (!w)
        return;
    client_free(w->plain);
    web_curl_free(w->curl);
    buf_release(&w->request);
    free(w->ca_file);
    free(w);
}

void web_reply_release(struct web_reply *r)
{
    buf_release(&r->head);
    buf_release(&r->body);
}

enum rc web_fail(struct web_reply *r, enum web_fault fault, enum rc code, struct err *err,
                 const char *fmt, ...)
{
    char text[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    r->fault = fault;
    return err_set(err, code, "%s", text);
}

bool web_header(const struct web_reply *r, const char *name, char *out, size_t cap)
{
    const char *p = buf_str(&r->head);
    size_t len = strlen(name);

    while (*p) {
        size_t line = strcspn(p, "\n");

        if (line > len && p[len] == ':' && !strncasecmp(p, name, len)) {
            const char *from = p + len + 1, *end = p + line;

            from += strspn(from, " \t");
            while (end > from && strchr(" \t\r", end[-1]))
                end--;
            if (end < from || (size_t)(end - from) >= cap)
                return false;
            memcpy(out, from, (size_t)(end - from));
            out[end - from] = '\0';
            return true;
        }
        p += line + (p[line] == '\n');
    }
    return false;
}

enum rc web_ready(const struct url *to, struct err *err)
{
    return to->tls ? web_curl_load(err) : RC_OK;
}

/* ---- plain ---- */
static void on_done(void *arg, const struct client_done *d)
{
    struct web *w = arg;

    w->done = true;
    w->fault = d->fault;
    w->sys = d->sys;
    w->reply->status = d->reply->status;
    w->reply->retry_after_s = d->reply->retry_after_s;
    w->over = d->body && d->body->over;
    if (d->body)
        buf_add(&w->reply->body, buf_str(d->body), d->body->len);
}

static void write_request(struct web *w, const struct web_request *q)
{
    const char *path = q->path ? q->path : "";
    char host[URL_AUTHORITY_MAX];
    struct buf *b = &w->request;

    buf_reset(b);
    buf_addf(b, "%s %s%s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: stoker/" STOKER_VERSION "\r\n",
             q->method ? q->method
             : q->body ? "POST"
                       : "GET",
             q->to->prefix, !q->to->prefix[0] && path[0] != '/' ? "/" : "", path,
             url_authority(q->to, host));
    if (q->accept)
        buf_addf(b, "Accept: %s\r\n", q->accept);
    if (q->token)
        buf_addf(b, "Authorization: Bearer %s\r\n", q->token);
    if (q->body)
        buf_addf(b, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                 q->type ? q->type : "application/json", q->body_len);
    buf_adds(b, "\r\n");
    if (q->body)
        buf_add(b, q->body, q->body_len);
}

static void drop_plain(struct web *w)
{
    client_free(w->plain);
    w->plain = NULL;
}

static enum rc open_plain(struct web *w, const struct web_request *q, struct err *err)
{
    struct client_opts o = { .url = q->to,
                             .slots = 1,
                             .timeout_ns = q->timeout_ms * WEB_MS,
                             .keep_bodies = true,
                             .body_max = q->body_max,
                             .on_done = on_done,
                             .arg = w };
    enum rc rc;

    if (w->plain && url_same_server(&w->url, q->to) && w->timeout_ns == o.timeout_ns &&
        w->body_max == o.body_max)
        return RC_OK;
    drop_plain(w);
    rc = client_new(&o, &w->plain, err);
    w->url = *q->to;
    w->timeout_ns = o.timeout_ns;
    w->body_max = o.body_max;
    return rc;
}

static enum rc judge_plain(struct web *w, const struct web_request *q, struct err *err)
{
    static const enum web_fault faults[] = { [CLIENT_OK] = WEB_OK,
                                             [CLIENT_CONNECT] = WEB_CONNECT,
                                             [CLIENT_TIMEOUT] = WEB_TIMEOUT,
                                             [CLIENT_RESET] = WEB_RESET,
                                             [CLIENT_GARBAGE] = WEB_GARBAGE };

    if (w->fault == CLIENT_TIMEOUT)
        return web_fail(w->reply, WEB_TIMEOUT, RC_TIMEOUT, err, "no answer within %d ms: timeout",
                        q->timeout_ms);
    if (w->fault != CLIENT_OK)
        return web_fail(w->reply, faults[w->fault], RC_FAIL, err, "no answer: %s%s%s",
                        client_fault_name(w->fault), w->sys ? ": " : "",
                        w->sys ? strerror(w->sys) : "");
    if (w->over)
        return web_fail(w->reply, WEB_LIMIT, RC_LIMIT, err, "the answer is longer than %zu bytes",
                        q->body_max);
    return RC_OK;
}

static enum rc send_plain(struct web *w, const struct web_request *q, struct web_reply *out,
                          struct err *err)
{
    int64_t until = clock_mono_ns() + (q->timeout_ms + WEB_LOOK_MS) * WEB_MS;
    enum rc rc;
    bool over = false;

    rc = open_plain(w, q, err);
    if (rc) {
        out->fault = rc == RC_TIMEOUT ? WEB_TIMEOUT : WEB_CONNECT;
        return rc;
    }
    write_request(w, q);
    w->reply = out;
    w->done = false;
    client_send(w->plain, (size_t)client_free_slot(w->plain), w->request.data, w->request.len, 0);
    while (!rc && !w->done && !over) {
        int64_t now = clock_mono_ns();

        over = now > until || (q->stop && q->stop(q->arg));
        if (!over)
            rc = client_poll(w->plain, now + WEB_LOOK_MS * WEB_MS, err);
    }
    if (rc)
        out->fault = WEB_RESET;
    else if (!w->done)
        rc = web_fail(out, WEB_STOPPED, RC_TIMEOUT, err, "given up");
    else
        rc = judge_plain(w, q, err);
    if (rc && out->fault != WEB_LIMIT)
        drop_plain(w); /* what is under way ends with its connection */
    return rc;
}

enum rc web_send(struct web *w, const struct web_request *q, struct web_reply *out, struct err *err)
{
    buf_reset(&out->head);
    buf_reset(&out->body);
    out->head.max = WEB_HEAD_BYTES_MAX;
    out->body.max = q->body_max;
    out->head.over = out->body.over = false;
    out->fault = WEB_OK;
    out->status = 0;
    out->retry_after_s = -1;
    if (!q->to->socket[0] && (q->to->tls || q->take || q->from || q->links || q->method))
        return web_curl_send(&w->curl, &w->trust, q, out, err);
    return send_plain(w, q, out, err);
}
