/* SPDX-License-Identifier: MIT */
/* web_curl: the half of web.h that libcurl does: https, links, replies in pieces.
 *
 * The program is built with libcurl's headers and opens the library when a request first needs it,
 * so that one binary runs where it is not installed, and says so.  Without the headers the program
 * is built without this half.
 *
 * Links are followed here and not by libcurl: who may get the token, and that https is never left,
 * is then decided in one place whatever the version of the library. */
#include "os/net/web_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#if __has_include(<curl/curl.h>)
#define CURL_DISABLE_TYPECHECK /* it would wrap the names below in macros */
#include <curl/curl.h>

#define CURL_CALLS(F)                                                                              \
    F(curl_global_init)                                                                            \
    F(curl_easy_init)                                                                              \
    F(curl_easy_setopt)                                                                            \
    F(curl_easy_getinfo)                                                                           \
    F(curl_easy_reset)                                                                             \
    F(curl_easy_cleanup)                                                                           \
    F(curl_easy_strerror)                                                                          \
    F(curl_slist_append)                                                                           \
    F(curl_slist_free_all)                                                                         \
    F(curl_multi_init)                                                                             \
    F(curl_multi_add_handle)                                                                       \
    F(curl_multi_remove_handle)                                                                    \
    F(curl_multi_perform)                                                                          \
    F(curl_multi_wait)                                                                             \
    F(curl_multi_info_read)                                                                        \
    F(curl_multi_strerror)                                                                         \
    F(curl_multi_cleanup)

/* the headers wrap these three in macros of their own */
#undef curl_easy_setopt
#undef curl_easy_getinfo

static struct {
#define CURL_MEMBER(name) __typeof__(&name) name;
    CURL_CALLS(CURL_MEMBER)
#undef CURL_MEMBER
} curl;

static struct err load_fault;
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

struct web_curl {
    CURL *easy;
    CURLM *multi;
    char fault[CURL_ERROR_SIZE];
    /* of the request under way */
    const struct web_request *q;
    struct web_reply *reply;
    struct err *err;
    struct url at;     /* the server it is at now */
    struct buf link;   /* the address it is at now */
    bool over, halted; /* longer than body_max; `take` refused */
    uint64_t dropped;  /* bytes of a body that nobody wants */
};

static void load_library(void)
{
    static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
    void *lib = NULL, *p;

    for (size_t i = 0; i < ARRAY_SIZE(names) && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        err_hint(&load_fault, "Install libcurl (Debian: libcurl4 and ca-certificates).");
        (void)err_set(&load_fault, RC_NODEV, "library 'libcurl.so.4' not found");
        return;
    }
#define CURL_FIND(name)                                                                            \
    p = dlsym(lib, #name);                                                                         \
    if (!p)                                                                                        \
        (void)err_set(&load_fault, RC_NODEV, "'%s' is not in libcurl", #name);                     \
    memcpy(&curl.name, &p, sizeof(p));
    CURL_CALLS(CURL_FIND)
#undef CURL_FIND
    if (!load_fault.code && curl.curl_global_init(CURL_GLOBAL_DEFAULT))
        (void)err_set(&load_fault, RC_NODEV, "libcurl cannot be started");
}

enum rc web_curl_load(struct err *err)
{
    pthread_once(&load_once, load_library);
    if (load_fault.code && err)
        *err = load_fault;
    return load_fault.code;
}

void web_curl_free(struct web_curl *c)
{
    if (!c)
        return;
    if (c->multi)
        (void)curl.curl_multi_cleanup(c->multi);
    if (c->easy)
        curl.curl_easy_cleanup(c->easy);
    buf_release(&c->link);
    free(c);
}

/* ---- the reply, as it comes ---- */
static bool is_link(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static size_t on_head(char *p, size_t size, size_t count, void *arg)
{
    struct web_curl *c = arg;
    struct web_reply *r = c->reply;
    size_t len = size * count;

    if (len > 9 && !memcmp(p, "HTTP/", 5)) { /* one more reply: that behind a 100 */
        const char *status = memchr(p, ' ', len);

        buf_reset(&r->head);
        r->status = 0;
        for (size_t i = status ? (size_t)(status - p) + 1 : len, n = 0; i < len && n < 3; i++, n++)
            r->status = r->status * 10 + (p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : 0);
        return len;
    }
    buf_add(&r->head, p, len);
    c->over |= r->head.over;
    return r->head.over ? 0 : len;
}

static size_t on_body(char *p, size_t size, size_t count, void *arg)
{
    struct web_curl *c = arg;
    struct web_reply *r = c->reply;
    size_t len = size * count;
    bool well = r->status >= 200 && r->status < 300;

    if (c->q->take && well) {
        c->halted = c->q->take(c->q->arg, r, p, len, c->err) != RC_OK;
        return c->halted ? 0 : len;
    }
    if (c->q->take || is_link(r->status)) { /* as much as a message needs */
        if (r->body.len + len <= WEB_ERROR_BYTES_MAX)
            buf_add(&r->body, p, len);
        c->dropped += len;
        c->over |= c->dropped > WEB_ERROR_BYTES_MAX * UINT64_C(16);
        return c->over ? 0 : len;
    }
    buf_add(&r->body, p, len);
    c->over |= r->body.over;
    return r->body.over ? 0 : len;
}

/* ---- one request ---- */
static const char *ca_file(const struct web_trust *t)
{
    static const char *const names[] = { "CURL_CA_BUNDLE", "SSL_CERT_FILE" };

    for (size_t i = 0; i < ARRAY_SIZE(names) && !t->ca_file; i++)
        if (getenv(names[i]) && *getenv(names[i]))
            return getenv(names[i]);
    return t->ca_file;
}

static struct curl_slist *add_header(struct curl_slist *list, const char *name, const char *value)
{
    struct buf b = { 0 };

    if (value) {
        buf_addf(&b, "%s%s", name, value);
        list = curl.curl_slist_append(list, buf_str(&b));
        buf_release(&b);
    }
    return list;
}

static struct curl_slist *make_headers(const struct web_request *q, bool with_token)
{
    struct curl_slist *list = NULL;

    list = add_header(list, "Accept: ", q->accept);
    list = add_header(list, "Authorization: Bearer ", with_token ? q->token : NULL);
    if (q->body) {
        list = add_header(list, "Content-Type: ", q->type ? q->type : "application/json");
        list = add_header(list, "Expect:", ""); /* no waiting for a 100 */
    }
    return list;
}

/* What the trust in a server hangs on is checked, the rest cannot fail. */
static enum rc set_trust(CURL *e, const struct web_trust *t, struct err *err)
{
    const char *file = ca_file(t);
    long check = t->insecure ? 0 : 1;

    if (curl.curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, check) ||
        curl.curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2 * check) ||
        curl.curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) ||
        curl.curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L) ||
        (file && curl.curl_easy_setopt(e, CURLOPT_CAINFO, file)))
        return err_set(err, RC_NODEV, "libcurl has no TLS, or cannot check certificates");
    return RC_OK;
}

static void set_request(struct web_curl *c, const struct web_request *q)
{
    CURL *e = c->easy;
    char range[32];

    (void)curl.curl_easy_setopt(e, CURLOPT_URL, buf_str(&c->link));
    (void)curl.curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    (void)curl.curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl.curl_easy_setopt(e, CURLOPT_USERAGENT, "stoker/" STOKER_VERSION);
    (void)curl.curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    (void)curl.curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
    (void)curl.curl_easy_setopt(e, CURLOPT_HEADERDATA, c);
    (void)curl.curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl.curl_easy_setopt(e, CURLOPT_WRITEDATA, c);
    (void)curl.curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->fault);
    (void)curl.curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)WEB_CONNECT_MS_MAX);
    (void)curl.curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)q->timeout_ms);
    if (q->stall_ms) {
        (void)curl.curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl.curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)(q->stall_ms + 999) / 1000);
    }
    if (q->from) {
        (void)snprintf(range, sizeof(range), "%llu-", (unsigned long long)q->from);
        (void)curl.curl_easy_setopt(e, CURLOPT_RANGE, range);
    }
    if (q->body) {
        (void)curl.curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body_len);
        (void)curl.curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->body);
    }
    if (str_eq(q->method, "HEAD"))
        (void)curl.curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    else if (q->method)
        (void)curl.curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method);
}

static enum rc tell_certificate(const struct web_curl *c, struct err *err)
{
    err_hint(err,
             "Name the file of the authority that signed it with --ca-file, or in SSL_CERT_FILE.");
    return web_fail(c->reply, WEB_TLS, RC_FAIL, err, "certificate of '%s:%s' is not trusted: %s",
                    c->at.host, c->at.port, c->fault);
}

static enum rc tell_fault(const struct web_curl *c, CURLcode code, struct err *err)
{
    struct web_reply *r = c->reply;
    const char *why = c->fault[0] ? c->fault : curl.curl_easy_strerror(code);

    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
        return web_fail(r, WEB_CONNECT, RC_FAIL, err, "could not find the host '%s': %s",
                        c->at.host, why);
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return web_fail(r, WEB_CONNECT, RC_FAIL, err, "could not connect to '%s:%s': %s",
                        c->at.host, c->at.port, why);
    case CURLE_OPERATION_TIMEDOUT:
        return web_fail(r, WEB_TIMEOUT, RC_TIMEOUT, err, "no answer from '%s:%s' in time: %s",
                        c->at.host, c->at.port, why);
    case CURLE_PEER_FAILED_VERIFICATION:
        return tell_certificate(c, err);
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_UNSUPPORTED_PROTOCOL: /* a libcurl without TLS */
        return web_fail(r, WEB_TLS, RC_FAIL, err, "no TLS with '%s:%s': %s", c->at.host, c->at.port,
                        why);
    case CURLE_WEIRD_SERVER_REPLY:
        return web_fail(r, WEB_GARBAGE, RC_PARSE, err, "'%s:%s' does not answer in HTTP: %s",
                        c->at.host, c->at.port, why);
    default:
        return web_fail(r, WEB_RESET, RC_FAIL, err, "the connection to '%s:%s' broke: %s",
                        c->at.host, c->at.port, why);
    }
}

/* Runs until it ends; *out_code is libcurl's verdict. */
static enum rc run_request(struct web_curl *c, const struct web_request *q, CURLcode *out_code,
                           struct err *err)
{
    int running = 1, left;
    CURLMcode fault = CURLM_OK;
    CURLMsg *m;

    while (running && !fault) {
        fault = curl.curl_multi_perform(c->multi, &running);
        if (running && q->stop && q->stop(q->arg))
            return web_fail(c->reply, WEB_STOPPED, RC_TIMEOUT, err, "given up");
        if (running && !fault)
            fault = curl.curl_multi_wait(c->multi, NULL, 0, WEB_LOOK_MS, NULL);
    }
    if (fault)
        return web_fail(c->reply, WEB_RESET, RC_FAIL, err, "libcurl: %s",
                        curl.curl_multi_strerror(fault));
    *out_code = CURLE_RECV_ERROR;
    while ((m = curl.curl_multi_info_read(c->multi, &left)))
        if (m->msg == CURLMSG_DONE)
            *out_code = m->data.result;
    return RC_OK;
}

static enum rc send_once(struct web_curl *c, const struct web_trust *trust,
                         const struct web_request *q, bool with_token, struct err *err)
{
    struct curl_slist *headers;
    CURLcode code = CURLE_OK;
    enum rc rc;

    curl.curl_easy_reset(c->easy); /* keeps its connections */
    c->fault[0] = '\0';
    c->over = c->halted = false;
    c->dropped = 0;
    rc = set_trust(c->easy, trust, err);
    if (rc) {
        c->reply->fault = WEB_LIBRARY;
        return rc;
    }
    set_request(c, q);
    headers = make_headers(q, with_token);
    (void)curl.curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, headers);
    (void)curl.curl_multi_add_handle(c->multi, c->easy);
    rc = run_request(c, q, &code, err);
    (void)curl.curl_multi_remove_handle(c->multi, c->easy);
    curl.curl_slist_free_all(headers);
    if (rc || !code)
        return rc;
    if (c->halted)
        return web_fail(c->reply, WEB_STOPPED, err && err->code ? err->code : RC_FAIL, err,
                        "given up");
    if (c->over)
        return web_fail(c->reply, WEB_LIMIT, RC_LIMIT, err, "the answer of '%s:%s' is too long",
                        c->at.host, c->at.port);
    return tell_fault(c, code, err);
}

/* Goes to the address that the reply names; *out_more: there is one to go to. */
static enum rc take_link(struct web_curl *c, const struct web_request *q, bool *out_more,
                         struct err *err)
{
    const char *rest, *text = NULL;
    struct url next;

    *out_more = false;
    (void)curl.curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &text);
    if (!is_link(c->reply->status) || q->links == WEB_LINKS_NONE || q->body || !text)
        return RC_OK;
    if (strlen(text) > WEB_LINK_BYTES_MAX || url_parse_link(text, &next, &rest, NULL))
        return web_fail(c->reply, WEB_GARBAGE, RC_PARSE, err,
                        "'%s:%s' leads to an address that cannot be used", c->at.host, c->at.port);
    if (q->links == WEB_LINKS_HERE && !url_same_server(&c->at, &next))
        return RC_OK;
    if (c->at.tls && !next.tls)
        return web_fail(c->reply, WEB_TLS, RC_FAIL, err, "'%s:%s' leads from https to http",
                        c->at.host, c->at.port);
    buf_reset(&c->link);
    buf_adds(&c->link, text);
    c->at = next;
    *out_more = true;
    return RC_OK;
}

static enum rc follow_redirects(struct web_curl *c, const struct web_trust *trust,
                                const struct web_request *q, struct err *err)
{
    bool with_token = true, more = true;
    enum rc rc = RC_OK;

    for (int links = 0; !rc && more; links++) {
        if (links > WEB_LINKS_MAX)
            return web_fail(c->reply, WEB_LIMIT, RC_LIMIT, err,
                            "more than %d links, one behind the "
                            "other, from '%s:%s'",
                            WEB_LINKS_MAX, q->to->host, q->to->port);
        buf_reset(&c->reply->body);
        rc = send_once(c, trust, q, with_token, err);
        if (!rc)
            rc = take_link(c, q, &more, err);
        with_token = with_token && url_same_server(q->to, &c->at); /* once lost, it stays so */
    }
    return rc;
}

/* A peer that is gone must not end the program: libraries below libcurl may write to it. */
struct pipe_guard {
    sigset_t old;
    bool was_pending;
};

static void guard_begin(struct pipe_guard *g)
{
    sigset_t pipe, pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigemptyset(&pending);
    (void)sigpending(&pending);
    g->was_pending = sigismember(&pending, SIGPIPE) == 1;
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &g->old);
}

static void guard_end(const struct pipe_guard *g)
{
    const struct timespec now = { 0 };
    sigset_t pipe;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    if (!g->was_pending)
        (void)sigtimedwait(&pipe, NULL, &now);
    (void)pthread_sigmask(SIG_SETMASK, &g->old, NULL);
}

enum rc web_curl_send(struct web_curl **io, const struct web_trust *trust,
                      const struct web_request *q, struct web_reply *out, struct err *err)
{
    const char *path = q->path ? q->path : "";
    char host[URL_AUTHORITY_MAX], text[24];
    struct pipe_guard guard;
    struct web_curl *c;
    enum rc rc = web_curl_load(err);

    if (rc) {
        out->fault = WEB_LIBRARY;
        return err_ctx(err, "%s://%s", q->to->tls ? "https" : "http", url_authority(q->to, host));
    }
    if (!*io) {
        *io = xcalloc(1, sizeof(**io));
        (*io)->easy = curl.curl_easy_init();
        (*io)->multi = curl.curl_multi_init();
    }
    c = *io;
    if (!c->easy || !c->multi)
        return web_fail(out, WEB_LIBRARY, RC_NODEV, err, "libcurl cannot be started");
    c->q = q;
    c->reply = out;
    c->err = err;
    c->at = *q->to;
    buf_reset(&c->link);
    buf_addf(&c->link, "%s://%s%s%s%s", q->to->tls ? "https" : "http", url_authority(q->to, host),
             q->to->prefix, !q->to->prefix[0] && path[0] != '/' ? "/" : "", path);
    guard_begin(&guard);
    rc = follow_redirects(c, trust, q, err);
    guard_end(&guard);
    if (web_header(out, "Retry-After", text, sizeof(text)) &&
        (!str_to_i64(text, 10, &out->retry_after_s) || out->retry_after_s < 0))
        out->retry_after_s = -1;
    c->q = NULL; /* what it borrowed ends here */
    c->reply = NULL;
    c->err = NULL;
    return rc;
}

#else /* built without libcurl's headers */

enum rc web_curl_load(struct err *err)
{
    err_hint(err, "Build it where libcurl's headers are (Debian: libcurl4-openssl-dev).");
    return err_set(err, RC_NODEV, "this stoker was built without libcurl");
}

enum rc web_curl_send(struct web_curl **io, const struct web_trust *trust,
                      const struct web_request *q, struct web_reply *out, struct err *err)
{
    char host[URL_AUTHORITY_MAX];
    enum rc rc = web_curl_load(err);

    (void)io;
    (void)trust;
    out->fault = WEB_LIBRARY;
    (void)err_ctx(err, "%s://%s", q->to->tls ? "https" : "http", url_authority(q->to, host));
    return rc;
}

void web_curl_free(struct web_curl *c)
{
    (void)c;
}
#endif
