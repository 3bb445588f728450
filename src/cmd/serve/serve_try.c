/* SPDX-License-Identifier: MIT */
/* serve_try: a request that suits the first model, as a line for curl and as one of our own. */
#include "cmd/serve/cmd_serve_int.h"

#include "base/str.h"
#include "os/clock.h"
#include "os/net/web.h"

#include <inttypes.h>

enum {
    SERVE_TRY_TIMEOUT_S = 60,
    SERVE_TRY_BODY_MAX = 64 << 20 /* bytes of our own reply */
};

void serve_sample(const struct serve_plan *p, struct serve_sample *out)
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

void serve_address(const struct serve_plan *p, int port, struct buf *out)
{
    const char *a = p->o.listen ? p->o.listen : "127.0.0.1";

    if (str_starts(a, "unix:"))
        buf_adds(out, "http://localhost"); /* plain, whatever the ports speak */
    else
        http_address_url(a, true, p->o.tls_cert, port, out);
}

void serve_curl(const struct serve_plan *p, const struct serve_args *a, int port, struct buf *out)
{
    const char *token = a->token_file ? a->token_file : p->spec ? p->spec->serve.token_file : NULL;
    struct serve_sample s;

    serve_sample(p, &s);
    buf_adds(out, "curl -s ");
    if (p->o.listen && str_starts(p->o.listen, "unix:"))
        buf_addf(out, "--unix-socket %s ", p->o.listen + 5);
    else if (p->o.tls_cert)
        buf_addf(out, "--cacert %s ", p->o.tls_cert);
    if (token)
        buf_addf(out, "-H \"Authorization: Bearer $(cat %s)\" ", token);
    serve_address(p, port, out);
    buf_addf(out, "%s -d '%s'", s.path, s.body);
}

/* ---- asking ourselves */

/* As much of the body as is shown, one line. */
static void print_reply(const struct web_reply *r, int64_t ns)
{
    char head[SERVE_TRY_SHOWN_MAX + 1];

    (void)snprintf(head, sizeof(head), "%s", buf_str(&r->body));
    head[strcspn(head, "\r\n")] = '\0';
    (void)printf("%d in %.1f ms: %s%s\n", r->status, (double)ns * 1e-6, head,
                 r->body.len > SERVE_TRY_SHOWN_MAX ? " ..." : "");
    (void)fflush(stdout); /* before what is said of the end */
}

enum rc serve_try(const struct serve *s, const struct serve_plan *p, struct err *err)
{
    const struct web_trust ourselves = { .insecure = true }; /* whatever name the certificate has */
    struct buf text = { 0 };
    struct web_reply r = { 0 };
    struct serve_sample sample;
    int64_t begun = clock_mono_ns();
    struct url url;
    struct web_request q = { .to = &url,
                             .token = p->o.keys.token,
                             .timeout_ms = SERVE_TRY_TIMEOUT_S * 1000,
                             .body_max = SERVE_TRY_BODY_MAX };
    struct web *web = web_new(&ourselves);
    enum rc rc;

    if (p->o.listen && str_starts(p->o.listen, "unix:"))
        buf_adds(&text, p->o.listen);
    else
        serve_address(p, serve_port(s, 0), &text);
    rc = url_parse(buf_str(&text), &url, err);
    if (rc == RC_OK) {
        serve_sample(p, &sample);
        q.path = sample.path;
        q.body = sample.body;
        q.body_len = strlen(sample.body);
        rc = web_send(web, &q, &r, err);
    }
    if (rc == RC_OK)
        print_reply(&r, clock_mono_ns() - begun);
    if (rc == RC_OK && r.status != 200)
        rc = err_set(err, RC_FAIL, "the request of its own was answered %d", r.status);
    buf_release(&text);
    web_reply_release(&r);
    web_free(web);
    return rc;
}
