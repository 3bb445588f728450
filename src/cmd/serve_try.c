/* SPDX-License-Identifier: MIT */
/* serve_try: a request that suits the first model, as a line for curl and as one of our own. */
#include "cmd/serve_int.h"

#include "base/str.h"
#include "os/client.h"
#include "os/clock.h"

#include <inttypes.h>

enum { SERVE_TRY_TIMEOUT_S = 60 };

void serve_sample(const struct plan *p, struct serve_sample *out)
{
    static const struct serve_sample samples[] = {
        { "/embed", "{\"inputs\":\"hello world\"}" },
        { "/rerank", "{\"query\":\"magnets\",\"texts\":[\"iron\",\"cheese\"]}" },
        { "/predict", "{\"inputs\":\"hello world\"}" },
    };
    struct model *m = NULL;
    size_t i = 0;

    if (p->o.model_count && model_open(p->models[0].dir, &m, NULL) == RC_OK)
        i = m->head == MODEL_HEAD_NONE ? 0 : m->labels == 1 ? 1 : 2;
    model_close(m);
    *out = samples[i];
}

/* An address that listens everywhere is reached here. */
static const char *host_of(const struct plan *p)
{
    const char *a = p->o.listen ? p->o.listen : "127.0.0.1";

    return str_eq(a, "0.0.0.0") ? "127.0.0.1" : str_eq(a, "::") ? "::1" : a;
}

void serve_address(const struct plan *p, int port, struct buf *out)
{
    const char *host = host_of(p), *scheme = p->o.tls_cert ? "https" : "http";

    if (str_starts(host, "unix:"))
        buf_addf(out, "%s://localhost", scheme);
    else
        buf_addf(out, strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d", scheme, host, port);
}

void serve_curl(const struct plan *p, const struct serve_args *a, int port, struct buf *out)
{
    const char *token = a->token_file ? a->token_file : p->spec ? p->spec->serve.token_file : NULL;
    const char *host = host_of(p);
    struct serve_sample s;

    serve_sample(p, &s);
    buf_adds(out, "curl -s ");
    if (str_starts(host, "unix:"))
        buf_addf(out, "--unix-socket %s ", host + 5);
    if (p->o.tls_cert)
        buf_addf(out, "--cacert %s ", p->o.tls_cert);
    if (token)
        buf_addf(out, "-H \"Authorization: Bearer $(cat %s)\" ", token);
    serve_address(p, port, out);
    buf_addf(out, "%s -d '%s'", s.path, s.body);
}

/* ---- asking ourselves */

struct reply_seen {
    bool over;
    enum client_fault fault;
    int status;
    size_t bytes;
    int64_t ns;
    char head[SERVE_TRY_SHOWN_MAX + 1]; /* as much of the body as is shown */
};

static void on_reply(void *arg, const struct client_done *d)
{
    struct reply_seen *r = arg;

    r->over = true;
    r->fault = d->fault;
    r->status = d->reply ? d->reply->status : 0;
    r->bytes = d->body ? d->body->len : 0;
    r->ns = d->done_ns - d->begun_ns;
    if (d->body)
        (void)snprintf(r->head, sizeof(r->head), "%.*s",
                       (int)(r->bytes < SERVE_TRY_SHOWN_MAX ? r->bytes : SERVE_TRY_SHOWN_MAX),
                       buf_str(d->body));
    r->head[strcspn(r->head, "\r\n")] = '\0';
}

static enum rc ask(const struct url *url, const struct buf *request, struct reply_seen *out,
                   struct err *err)
{
    struct client_opts co = { .url = url,
                              .slots = 1,
                              .timeout_ns = (int64_t)SERVE_TRY_TIMEOUT_S * 1000000000,
                              .keep_bodies = true,
                              .on_done = on_reply,
                              .arg = out };
    struct client *c = NULL;
    enum rc rc = client_new(&co, &c, err);

    if (rc != RC_OK)
        return rc;
    client_send(c, (size_t)client_free_slot(c), buf_str(request), request->len, 0);
    while (rc == RC_OK && !out->over)
        rc = client_poll(c, clock_mono_ns() + 100000000, err);
    client_free(c);
    if (rc == RC_OK && out->fault != CLIENT_OK)
        rc = err_set(err, RC_FAIL, "no reply: %s", client_fault_name(out->fault));
    return rc;
}

enum rc serve_try(const struct serve *s, const struct plan *p, struct err *err)
{
    struct buf text = { 0 }, request = { 0 };
    char authority[URL_AUTHORITY_MAX];
    struct reply_seen r = { 0 };
    struct serve_sample sample;
    struct url url;
    enum rc rc;

    if (p->o.listen && str_starts(p->o.listen, "unix:"))
        buf_adds(&text, p->o.listen);
    else
        serve_address(p, serve_port(s, 0), &text);
    rc = url_parse(buf_str(&text), &url, err);
    if (rc == RC_OK) {
        serve_sample(p, &sample);
        buf_addf(&request, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n",
                 sample.path, url_authority(&url, authority));
        if (p->o.keys.token)
            buf_addf(&request, "Authorization: Bearer %s\r\n", p->o.keys.token);
        buf_addf(&request, "Content-Length: %zu\r\n\r\n%s", strlen(sample.body), sample.body);
        rc = ask(&url, &request, &r, err);
    }
    if (rc == RC_OK)
        (void)printf("%d in %.1f ms: %s%s\n", r.status, (double)r.ns * 1e-6, r.head,
                     r.bytes > SERVE_TRY_SHOWN_MAX ? " ..." : "");
    (void)fflush(stdout); /* before what is said of the end */
    if (rc == RC_OK && r.status != 200)
        rc = err_set(err, RC_FAIL, "the request of its own was answered %d", r.status);
    buf_release(&text);
    buf_release(&request);
    return rc;
}
