/* SPDX-License-Identifier: MIT */
/* alert_post: one body to one target, once. */
#include "base/mem.h"
#include "base/str.h"
#include "metrics/alert_int.h"
#include "os/child.h"
#include "os/client.h"
#include "os/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS INT64_C(100000000) /* between two looks at the time to give up */

/* ---- HTTP */
struct alert_http {
    struct url url;
    char path[URL_PATH_MAX]; /* below the URL's prefix */
    int64_t timeout_ns;
    struct client *c; /* owned; NULL: no connection */
    struct buf request;
    /* of the request under way */
    bool done;
    enum client_fault fault;
    int status, sys;
    int64_t after_s;
    char said[128]; /* the begin of the reply's body */
};

struct alert_http *alert_http_new(const struct url *url, const char *path, int timeout_ms)
{
    struct alert_http *h = xcalloc(1, sizeof(*h));

    h->url = *url;
    h->timeout_ns = (int64_t)timeout_ms * 1000000;
    str_copy(h->path, sizeof(h->path), path);
    return h;
}

void alert_http_free(struct alert_http *h)
{
    if (!h)
        return;
    client_free(h->c);
    buf_release(&h->request);
    free(h);
}

static void on_done(void *arg, const struct client_done *d)
{
    struct alert_http *h = arg;
    size_t n = d->reply->first_len < sizeof(h->said) ? d->reply->first_len : sizeof(h->said) - 1;

    h->done = true;
    h->fault = d->fault;
    h->sys = d->sys;
    h->status = d->reply->status;
    h->after_s = d->reply->retry_after_s;
    memcpy(h->said, d->reply->first, n);
    h->said[n] = '\0';
    str_make_text(h->said);
}

static void write_request(struct alert_http *h, const struct buf *body)
{
    char host[URL_AUTHORITY_MAX];

    buf_reset(&h->request);
    buf_addf(&h->request,
             "POST %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: stoker/" STOKER_VERSION
             "\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             h->url.prefix, h->path, url_authority(&h->url, host), body->len);
    buf_add(&h->request, buf_str(body), body->len);
}

static enum alert_post verdict(const struct alert_http *h, struct err *err)
{
    if (h->fault != CLIENT_OK) {
        (void)err_set(err, RC_FAIL, "%s%s%s", client_fault_name(h->fault), h->sys ? ": " : "",
                      h->sys ? strerror(h->sys) : "");
        return POST_AGAIN;
    }
    if (h->status >= 200 && h->status < 300)
        return POST_OK;
    (void)err_set(err, RC_FAIL, "status %d%s%s", h->status, h->said[0] ? ": " : "", h->said);
    return h->status == 408 || h->status == 429 || h->status >= 500 ? POST_AGAIN : POST_NEVER;
}

enum alert_post alert_http_post(struct alert_http *h, const struct buf *body,
                                const _Atomic int64_t *stop_ns, int64_t *out_after_s,
                                struct err *err)
{
    struct client_opts o = { .url = &h->url, .slots = 1, .timeout_ns = h->timeout_ns };
    enum alert_post got;
    bool over = false;

    *out_after_s = -1;
    o.on_done = on_done;
    o.arg = h;
    if (!h->c && client_new(&o, &h->c, err))
        return POST_AGAIN;
    write_request(h, body);
    h->done = false;
    client_send(h->c, (size_t)client_free_slot(h->c), h->request.data, h->request.len, 0);
    while (!h->done && !over) {
        int64_t now = clock_mono_ns(), stop = atomic_load(stop_ns);

        over = (stop && now >= stop) || client_poll(h->c, now + LOOK_NS, err);
    }
    if (!h->done)
        (void)err_set(err, RC_TIMEOUT, "given up at the end");
    got = h->done ? verdict(h, err) : POST_AGAIN;
    if (h->done && h->fault == CLIENT_OK) {
        *out_after_s = h->after_s;
    } else {
        client_free(h->c);
        h->c = NULL;
    }
    return got;
}

/* ---- a command */
enum { EXIT_NO_SHELL = 127 };
struct run {
    const char *command;
    const struct buf *body;
    unsigned seconds;
};

/* In the child, between fork and exec: system calls alone. */
static void run_command(struct child_link *l, void *arg)
{
    const struct run *r = arg;
    const char *p = buf_str(r->body);
    int in = memfd_create("alert", MFD_CLOEXEC);
    sigset_t none;

    child_step(l, "the command");
    for (size_t left = r->body->len; left;) {
        ssize_t n = write(in, p, left);

        if (n <= 0)
            _exit(EXIT_NO_SHELL);
        p += n;
        left -= (size_t)n;
    }
    if (lseek(in, 0, SEEK_SET) || dup2(in, STDIN_FILENO) < 0 ||
        dup2(child_fd(l), STDOUT_FILENO) < 0 || dup2(child_fd(l), STDERR_FILENO) < 0)
        _exit(EXIT_NO_SHELL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)alarm(r->seconds); /* one that talks for ever never stalls */
    execl("/bin/sh", "sh", "-c", r->command, (char *)NULL);
    _exit(EXIT_NO_SHELL);
}

enum alert_post alert_command(const char *command, const struct buf *body, int timeout_ms,
                              struct err *err)
{
    struct run r = { command, body, (unsigned)timeout_ms / 1000 + 1 };
    struct child_report rep;
    struct buf out;
    enum rc rc;

    buf_init(&out, ALERT_REPLY_MAX);
    rc = child_run(run_command, &r, timeout_ms, &out, &rep, err);
    if (rc == RC_OK && !rep.finished) {
        if (out.len)
            str_make_text(out.data);
        if (rep.stalled)
            (void)err_set(err, RC_TIMEOUT, "no end within %d ms", timeout_ms);
        else if (WIFSIGNALED(rep.status))
            (void)err_set(err, RC_FAIL, "signal %d", WTERMSIG(rep.status));
        else
            (void)err_set(err, RC_FAIL, "exit %d: %.200s", WEXITSTATUS(rep.status), buf_str(&out));
    }
    buf_release(&out);
    return rc == RC_OK && rep.finished ? POST_OK : POST_AGAIN;
}
