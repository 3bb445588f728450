/* SPDX-License-Identifier: MIT */
/* alert_post: one body to one target, once. */
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/net/web.h"
#include "os/worker/child.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- HTTP */
struct alert_http {
    struct url url;
    char path[URL_PATH_MAX + 1]; /* below the URL's prefix */
    int timeout_ms;
    char *token_file;               /* NULL: none */
    struct web *web;                /* owned; keeps its connection */
    struct web_reply reply;         /* of the last post */
    const _Atomic int64_t *stop_ns; /* of the post under way */
};

struct alert_http *alert_http_new(const struct url *url, const char *path, int timeout_ms,
                                  const struct web_trust *trust, const char *token_file)
{
    struct alert_http *h = xcalloc(1, sizeof(*h));

    h->url = *url;
    h->timeout_ms = timeout_ms;
    h->web = web_new(trust);
    h->token_file = token_file ? xstrdup(token_file) : NULL;
    str_copy(h->path, sizeof(h->path), path);
    return h;
}

void alert_http_free(struct alert_http *h)
{
    if (!h)
        return;
    web_free(h->web);
    free(h->token_file);
    web_reply_release(&h->reply);
    free(h);
}

static bool is_time_up(void *arg)
{
    const struct alert_http *h = arg;
    int64_t stop = atomic_load(h->stop_ns);

    return stop && clock_mono_ns() >= stop;
}

static enum alert_post reply_verdict(const struct web_reply *r, struct err *err)
{
    char said[128]; /* the begin of the reply's body */

    if (r->status >= 200 && r->status < 300)
        return POST_OK;
    (void)snprintf(said, sizeof(said), "%s", buf_str(&r->body));
    str_make_text(said);
    (void)err_set(err, RC_FAIL, "status %d%s%s", r->status, said[0] ? ": " : "", said);
    return r->status == 408 || r->status == 429 || r->status >= 500 ? POST_AGAIN : POST_NEVER;
}

/* The token as its file has it now; an alert waits for one that cannot be used. */
static enum rc read_token(const char *path, struct buf *text, const char **out, struct err *err)
{
    enum rc rc = file_read(path, ALERT_TOKEN_MAX, text, err);

    if (rc != RC_OK)
        return rc;
    *out = text->len ? str_trim(text->data) : "";
    if (!**out || strlen(*out) != strcspn(*out, "\r\n"))
        rc = err_set(err, RC_PARSE, "'%s' is not one line with a token", path);
    return rc;
}

enum alert_post alert_http_post(struct alert_http *h, const struct buf *body,
                                const _Atomic int64_t *stop_ns, int64_t *out_after_s,
                                struct err *err)
{
    struct web_request q = { .to = &h->url,
                             .path = h->path,
                             .type = "application/json",
                             .body = buf_str(body),
                             .body_len = body->len,
                             .timeout_ms = h->timeout_ms,
                             .body_max = ALERT_REPLY_MAX,
                             .stop = is_time_up,
                             .arg = h };
    struct err why = { 0 };
    struct buf token = { 0 };
    enum rc rc = RC_OK;

    *out_after_s = -1;
    h->stop_ns = stop_ns;
    if (h->token_file)
        rc = read_token(h->token_file, &token, &q.token, &why);
    if (rc == RC_OK) {
        rc = web_send(h->web, &q, &h->reply, &why);
        if (h->reply.fault == WEB_LIMIT) /* what it says may be as long as it likes */
            rc = RC_OK;
    }
    buf_release(&token);
    if (rc != RC_OK) {
        (void)err_set(err, why.code, "%s", why.msg);
        return POST_AGAIN;
    }
    *out_after_s = h->reply.retry_after_s;
    return reply_verdict(&h->reply, err);
}

/* ---- a command */
enum { EXIT_NO_SHELL = 127 };
struct command_run {
    const char *command;
    const struct buf *body;
    unsigned seconds;
};

/* In the child, between fork and exec: only system calls. */
static void run_command(struct child_link *l, void *arg)
{
    const struct command_run *r = arg;
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
    struct command_run r = { command, body, (unsigned)timeout_ms / 1000 + 1 };
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
