/* SPDX-License-Identifier: MIT */
/* stoker up: runs this node.  A small parent of `stoker agent` and `stoker serve`, which are the
 * same binary: it starts them, tells where they are, starts one that ended again with backoff, and
 * ends both.
 *
 * Children tell through the service manager's own protocol (os/notify.h) when they are ready and
 * that they live; this parent is the manager they see.  They are in process groups of their own,
 * so that Ctrl-C reaches the parent alone, and end with it. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "model/model.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/notify.h"
#include "plan/feasible.h"
#include "spec/spec.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    UP_ARGS_MAX = 200,     /* arguments of a child */
    UP_MESSAGE_MAX = 8192, /* bytes of what a child tells */
    UP_BACKOFF_MS = 1000,  /* before the first restart; doubles */
    UP_BACKOFF_MS_MAX = 60000,
    UP_CALM_MS = 60000,     /* one that ran so long starts with the first backoff again */
    UP_WATCHDOG_MS = 30000, /* without a sign of life a child is ended and started again */
    UP_STOP_MS = 40000,     /* for children to end; serve answers what it has begun */
    UP_TURN_MS = 500
};
static const char up_model[] = "all-MiniLM-L6-v2"; /* served when nothing else is asked for */

struct up_args {
    struct opt_strs models;
    const char *spec, *listen, *token_file, *port, *agent_port, *metrics_port, *device, *history;
    const char *history_size;
    bool strict, insecure, free_port, no_serve, no_agent, demo, try_it;
};

enum { PART_AGENT, PART_SERVE, PARTS };
struct part {
    const char *name;
    const char *argv[UP_ARGS_MAX];
    size_t argc;
    bool wanted, ready, was_ready, told_hang;
    pid_t pid; /* 0: it does not run */
    int64_t begun_ms, alive_ms, next_ms;
    int backoff_ms, restarts;
    int status; /* wait status of the last end */
    char page[256], metrics[256], url[256], try_line[1024], models[512];
};
struct up {
    const struct up_args *args;
    struct part parts[PARTS];
    int signals, notify;
    char notify_name[64];
    char self[FILE_PATH_MAX];
    char ports[4][8];
    int serve_port, rerank_port; /* where --port says nothing: the spec's, or those of serve */
    bool screen, stopping;
    const char *no_model; /* why nothing is served; NULL: something is */
};

/* ---- what to start */

static void arg(struct part *p, const char *a)
{
    if (p->argc < UP_ARGS_MAX - 1)
        p->argv[p->argc++] = a;
}

static void arg2(struct part *p, const char *name, const char *value)
{
    if (value) {
        arg(p, name);
        arg(p, value);
    }
}

/* Whether a port of this address can be listened on; `port` 0 becomes a free one. */
static bool port_free(const char *address, int *port)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)*port) };
    socklen_t len = sizeof(a);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok;

    if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0 &&
         getsockname(fd, (struct sockaddr *)&a, &len) == 0;
    if (ok)
        *port = ntohs(a.sin_port);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Both children know each other's port from the start. */
static const char *choose_port(struct up *u, size_t i, const char *given, int dflt)
{
    const char *address = u->args->listen ? u->args->listen : "127.0.0.1";
    int64_t port = dflt;
    int p;

    if (given && (!str_to_i64(given, 10, &port) || port < 0 || port > 65535))
        return given; /* the child says what is wrong */
    p = (int)port;
    if ((!p || u->args->free_port) && !port_free(address, &p)) {
        p = 0;
        (void)port_free(address, &p);
    }
    (void)snprintf(u->ports[i], sizeof(u->ports[i]), "%d", p);
    return u->ports[i];
}

static void common_args(const struct up *u, struct part *p)
{
    arg2(p, "--file", u->args->spec);
    arg2(p, "--listen", u->args->listen);
    arg2(p, "--token-file", u->args->token_file);
    if (u->args->insecure)
        arg(p, "--insecure");
    arg(p, "--quiet");
}

static void plan_agent(struct up *u, const char *serve_url)
{
    struct part *p = &u->parts[PART_AGENT];
    const struct up_args *a = u->args;

    *p = (struct part){ .name = "agent", .wanted = !a->no_agent };
    arg(p, "stoker");
    arg(p, "agent");
    common_args(u, p);
    if (!a->spec || a->agent_port || a->free_port)
        arg2(p, "--port", choose_port(u, 0, a->agent_port, 8090));
    if (!a->spec || a->metrics_port || a->free_port)
        arg2(p, "--metrics-port", choose_port(u, 1, a->metrics_port, 9400));
    if (a->try_it)
        arg(p, "--no-history");
    else
        arg2(p, "--history", a->history);
    arg2(p, "--history-size", a->history_size);
    if (a->demo)
        arg(p, "--demo");
    else
        arg2(p, "--serve", serve_url);
    if (a->try_it)
        arg2(p, "--control", "none");
}

/* The spec, its warnings told.  A site that does not fit on its machines is not begun with, nor
 * with --strict one that has a warning. */
static enum rc spec_take(const struct up *u, struct spec **out, struct err *err)
{
    const struct term plain = { 0 };
    struct spec_diags diags = { 0 };
    struct spec *spec = NULL;
    struct buf text = { 0 };
    enum rc rc = spec_load(u->args->spec, &spec, &diags, err);

    if (rc == RC_OK)
        rc = feasible_check(spec, NULL, &diags, err);
    spec_warnings_print(&diags, &plain, &text);
    fwrite(buf_str(&text), 1, text.len, stderr);
    buf_release(&text);
    if (rc == RC_OK && u->args->strict && diags.warning_count)
        rc = err_set(err, RC_PARSE, "'%s' has %zu warning%s, and --strict is set", u->args->spec,
                     diags.warning_count, diags.warning_count == 1 ? "" : "s");
    spec_diags_release(&diags);
    if (rc == RC_OK)
        *out = spec;
    else
        spec_free(spec);
    return rc;
}

/* The default model where none is named, when it is here. */
static enum rc plan_models(struct up *u, struct part *p, struct err *err)
{
    char dir[FILE_PATH_MAX];
    struct spec *spec = NULL;
    size_t count = u->args->models.count;
    enum rc rc;

    for (size_t i = 0; i < count; i++)
        arg2(p, "--model", u->args->models.items[i]);
    if (u->args->spec) {
        rc = spec_take(u, &spec, err);
        if (rc != RC_OK)
            return rc;
        if (!spec->model_count && !u->args->models.count)
            u->no_model = "the spec names no model";
        u->serve_port = (int)spec->serve.port;
        u->rerank_port = (int)spec->serve.rerank_port;
        spec_free(spec);
        return RC_OK;
    }
    if (count)
        return RC_OK;
    if (model_find(up_model, dir, sizeof(dir), NULL))
        u->no_model = "no model is here: stoker model get all-MiniLM-L6-v2";
    else
        arg2(p, "--model", up_model);
    return RC_OK;
}

static enum rc plan_serve(struct up *u, char *url, size_t cap, struct err *err)
{
    struct part *p = &u->parts[PART_SERVE];
    const struct up_args *a = u->args;
    const char *port;
    char wanted[8];
    enum rc rc = RC_OK;

    u->serve_port = 8003;
    u->rerank_port = 8002;
    *p = (struct part){ .name = "serve" };
    arg(p, "stoker");
    arg(p, "serve");
    common_args(u, p);
    if (a->no_serve)
        u->no_model = "not wanted";
    else
        rc = plan_models(u, p, err);
    p->wanted = !u->no_model;
    port = choose_port(u, 2, a->port, u->serve_port);
    arg2(p, "--port", port);
    arg2(p, "--device", a->device);
    (void)snprintf(wanted, sizeof(wanted), "%d", u->serve_port);
    if (!a->port && (!a->free_port || str_eq(port, wanted)))
        arg2(p, "--rerank-port", choose_port(u, 3, NULL, u->rerank_port));
    if (a->try_it)
        arg(p, "--try");
    (void)snprintf(url, cap, "http://%s:%s",
                   a->listen && !str_eq(a->listen, "0.0.0.0") ? a->listen : "127.0.0.1", port);
    return rc;
}

/* ---- children */

static void child_env(const struct up *u)
{
    char dog[32];

    (void)snprintf(dog, sizeof(dog), "%lld", UP_WATCHDOG_MS * 1000LL);
    (void)setenv("NOTIFY_SOCKET", u->notify_name, 1);
    (void)setenv("WATCHDOG_USEC", dog, 1);
    (void)unsetenv("WATCHDOG_PID");
}

static void start(struct up *u, struct part *p)
{
    pid_t parent = getpid(), pid;

    p->begun_ms = p->alive_ms = clock_mono_ms();
    p->ready = false;
    pid = fork();
    if (pid < 0) {
        p->next_ms = p->begun_ms + UP_BACKOFF_MS_MAX;
        return;
    }
    if (pid == 0) {
        sigset_t none;

        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(1);
        (void)setpgid(0, 0);
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        child_env(u);
        (void)execv(u->self, (char *const *)(uintptr_t)p->argv);
        _exit(127);
    }
    p->pid = pid;
}

static void ended(struct up *u, struct part *p, int status)
{
    int64_t now = clock_mono_ms();

    p->pid = 0;
    p->ready = false;
    p->status = status;
    if (u->stopping || !p->was_ready || (u->args->try_it && status == 0))
        return;
    p->restarts++;
    p->backoff_ms =
        !p->backoff_ms || now - p->begun_ms > UP_CALM_MS ? UP_BACKOFF_MS : p->backoff_ms * 2;
    if (p->backoff_ms > UP_BACKOFF_MS_MAX)
        p->backoff_ms = UP_BACKOFF_MS_MAX;
    p->next_ms = now + p->backoff_ms;
    log_warn("%s ended (%s %d) and starts again in %d s", p->name,
             WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), p->backoff_ms / 1000);
}

static void reap(struct up *u)
{
    for (size_t i = 0; i < PARTS; i++) {
        int status;
        if (u->parts[i].pid && waitpid(u->parts[i].pid, &status, WNOHANG) == u->parts[i].pid)
            ended(u, &u->parts[i], status);
    }
}

static void watch(struct part *p)
{
    if (!p->pid || clock_mono_ms() - p->alive_ms < UP_WATCHDOG_MS)
        return;
    log_warn("%s gives no sign of life and is ended", p->name);
    (void)kill(p->pid, SIGKILL);
    p->alive_ms = clock_mono_ms();
}

/* ---- what children tell */

static void take_value(const char *line, const char *key, char *out, size_t cap)
{
    if (str_starts(line, key)) {
        (void)str_copy(out, cap, line + strlen(key));
        str_make_text(out);
    }
}

static void take_line(struct part *p, const char *line)
{
    p->alive_ms = clock_mono_ms();
    if (str_eq(line, "READY=1"))
        p->ready = p->was_ready = true;
    take_value(line, "X_STOKER_PAGE=", p->page, sizeof(p->page));
    take_value(line, "X_STOKER_METRICS=", p->metrics, sizeof(p->metrics));
    take_value(line, "X_STOKER_URL=", p->url, sizeof(p->url));
    take_value(line, "X_STOKER_TRY=", p->try_line, sizeof(p->try_line));
    take_value(line, "X_STOKER_MODELS=", p->models, sizeof(p->models));
}

/* One message of a child, told apart by the process id that the kernel gives. */
static bool take_message(struct up *u)
{
    char text[UP_MESSAGE_MAX], control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec v = { text, sizeof(text) - 1 };
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
    };
    ssize_t n = recvmsg(u->notify, &m, MSG_DONTWAIT);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    struct ucred who;

    if (n <= 0)
        return false;
    if (!c || c->cmsg_type != SCM_CREDENTIALS)
        return true;
    memcpy(&who, CMSG_DATA(c), sizeof(who));
    text[n] = '\0';
    for (size_t i = 0; i < PARTS; i++) {
        char *line = text, *end;
        if (!u->parts[i].pid || u->parts[i].pid != who.pid)
            continue;
        for (; line; line = end) {
            end = strchr(line, '\n');
            if (end)
                *end++ = '\0';
            take_line(&u->parts[i], line);
        }
    }
    return true;
}

static enum rc open_notify(struct up *u, struct err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    socklen_t len = sizeof(sa_family_t);
    int one = 1;

    u->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (u->notify < 0 || bind(u->notify, (struct sockaddr *)&a, len) != 0 ||
        setsockopt(u->notify, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) != 0)
        return err_sys(err, "could not make a socket for children");
    len = sizeof(a);
    if (getsockname(u->notify, (struct sockaddr *)&a, &len) != 0)
        return err_sys(err, "could not make a socket for children");
    (void)snprintf(u->notify_name, sizeof(u->notify_name), "@%.*s",
                   (int)(len - sizeof(sa_family_t) - 1), a.sun_path + 1);
    return RC_OK;
}

/* ---- the screen */

static void row(struct buf *out, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void row(struct buf *out, const char *name, const char *fmt, ...)
{
    va_list ap;

    buf_addf(out, "  %-9s ", name);
    va_start(ap, fmt);
    buf_vaddf(out, fmt, ap);
    va_end(ap);
    buf_addc(out, '\n');
}

static void show_screen(const struct up *u)
{
    const struct part *agent = &u->parts[PART_AGENT], *serve = &u->parts[PART_SERVE];
    struct buf out = { 0 };

    buf_adds(&out, "\nstoker " STOKER_VERSION " runs this node\n\n");
    if (agent->page[0])
        row(&out, "page", "%s/", agent->page);
    if (agent->metrics[0])
        row(&out, "metrics", "%s/metrics", agent->metrics);
    if (serve->ready || serve->was_ready) {
        row(&out, "models", "%s  %s", serve->url, serve->models);
        row(&out, "try", "%s", serve->try_line);
    } else if (!u->args->no_serve) {
        row(&out, "models", "%s", u->no_model ? u->no_model : "none");
    }
    if (u->args->demo)
        row(&out, "demo", "the GPUs shown are one recorded H200, played as eight");
    buf_adds(&out, u->args->try_it ? "\n" : "\nCtrl-C stops it.\n");
    (void)fwrite(buf_str(&out), 1, out.len, stderr);
    buf_release(&out);
}

static bool all_ready(const struct up *u)
{
    for (size_t i = 0; i < PARTS; i++)
        if (u->parts[i].wanted && !u->parts[i].ready)
            return false;
    return true;
}

/* ---- its life */

static void send_all(struct up *u, int sig)
{
    for (size_t i = 0; i < PARTS; i++)
        if (u->parts[i].pid)
            (void)kill(u->parts[i].pid, sig);
}

static bool any_runs(const struct up *u)
{
    return u->parts[PART_AGENT].pid || u->parts[PART_SERVE].pid;
}

/* Signals and messages for at most `ms`; SIGTERM or SIGINT: false. */
static bool wait_some(struct up *u, int ms)
{
    struct pollfd p[2] = { { .fd = u->signals, .events = POLLIN },
                           { .fd = u->notify, .events = POLLIN } };
    struct signalfd_siginfo si;
    bool go_on = true;

    if (poll(p, 2, ms) <= 0)
        return true;
    while (take_message(u))
        ;
    if (!(p[0].revents & POLLIN) || read(u->signals, &si, sizeof(si)) != (ssize_t)sizeof(si))
        return true;
    if (si.ssi_signo == SIGHUP)
        send_all(u, SIGHUP);
    else if (si.ssi_signo != SIGCHLD)
        go_on = false;
    return go_on;
}

static void stop(struct up *u)
{
    int64_t until = clock_mono_ms() + UP_STOP_MS;

    notify_send("STOPPING=1");
    u->stopping = true;
    send_all(u, SIGTERM);
    while (any_runs(u) && clock_mono_ms() < until) {
        if (!wait_some(u, UP_TURN_MS))
            send_all(u, SIGTERM); /* a second one: what is under way is cut off */
        reap(u);
    }
    send_all(u, SIGKILL);
    for (size_t i = 0; i < PARTS; i++)
        if (u->parts[i].pid)
            (void)waitpid(u->parts[i].pid, NULL, 0);
}

/* Did one end before it was ever ready?  It has said why. */
static enum rc check_start(const struct up *u, struct err *err)
{
    for (size_t i = 0; i < PARTS; i++) {
        const struct part *p = &u->parts[i];
        if (!p->wanted || p->pid || p->was_ready || !p->begun_ms ||
            (u->args->try_it && p->status == 0))
            continue;
        return err_set(err,
                       WIFEXITED(p->status) && WEXITSTATUS(p->status) == 2 ? RC_USAGE : RC_FAIL,
                       "%s did not start", p->name);
    }
    return RC_OK;
}

static bool tried(const struct up *u)
{
    const struct part *serve = &u->parts[PART_SERVE], *agent = &u->parts[PART_AGENT];

    return u->args->try_it && (!serve->wanted || (!serve->pid && serve->begun_ms)) &&
           (!agent->wanted || agent->ready);
}

static void turn(struct up *u)
{
    for (size_t i = 0; i < PARTS; i++) {
        struct part *p = &u->parts[i];
        bool once = u->args->try_it && p->begun_ms;
        if (p->wanted && !p->pid && !once && clock_mono_ms() >= p->next_ms)
            start(u, p);
        watch(p);
    }
}

static enum rc live(struct up *u, struct err *err)
{
    enum rc rc = RC_OK;
    bool go_on = true;

    while (rc == RC_OK && go_on && !tried(u)) {
        turn(u);
        go_on = wait_some(u, UP_TURN_MS);
        reap(u);
        rc = check_start(u, err);
        if (!u->screen && all_ready(u)) {
            show_screen(u);
            notify_send("READY=1\nSTATUS=running this node");
            u->screen = true;
        }
        notify_send("WATCHDOG=1");
    }
    if (rc == RC_OK && tried(u) && u->parts[PART_SERVE].wanted && u->parts[PART_SERVE].status)
        rc = err_set(err, RC_FAIL, "serve did not answer");
    if (tried(u) && !u->screen)
        show_screen(u);
    stop(u);
    if (rc == RC_OK)
        (void)fprintf(stderr, "stoker up: stopped\n");
    return rc;
}

static enum rc watch_signals(int *out_fd, struct err *err)
{
    static const int list[] = { SIGTERM, SIGINT, SIGHUP, SIGCHLD };
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(list); i++)
        sigaddset(&set, list[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_sys(err, "could not block signals");
    *out_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return *out_fd < 0 ? err_sys(err, "could not watch signals") : RC_OK;
}

static enum rc run_up(struct cmd_ctx *ctx, struct err *err)
{
    struct up *u = xcalloc(1, sizeof(*u));
    char url[512];
    ssize_t n;
    enum rc rc;

    u->args = ctx->opts;
    u->signals = u->notify = -1;
    n = readlink("/proc/self/exe", u->self, sizeof(u->self) - 1);
    rc = n > 0 ? plan_serve(u, url, sizeof(url), err) : err_sys(err, "could not find this program");
    if (rc == RC_OK) {
        plan_agent(u, u->parts[PART_SERVE].wanted ? url : NULL);
        if (!u->parts[PART_AGENT].wanted && !u->parts[PART_SERVE].wanted)
            rc = err_set(err, RC_USAGE, "nothing to run: %s", u->no_model);
    }
    if (rc == RC_OK)
        rc = watch_signals(&u->signals, err);
    if (rc == RC_OK)
        rc = open_notify(u, err);
    if (rc == RC_OK)
        rc = live(u, err);
    if (u->signals >= 0)
        close(u->signals);
    if (u->notify >= 0)
        close(u->notify);
    free(u);
    return rc;
}

#define ROW(letter_, name_, kind_, member_, arg_, help_)                                           \
    {                                                                                              \
        .letter = (letter_), .name = (name_), .kind = OPT_##kind_,                                 \
        .off = offsetof(struct up_args, member_), .arg = (arg_), .help = (help_)                   \
    }

static const struct opt opts_up[] = {
    ROW('m', "model", STRS, models, "[NAME=]DIR",
        "serve this model (default: all-MiniLM-L6-v2 where it is here); may be repeated"),
    ROW('f', "file", STR, spec, "SPEC", "what the spec says, for both"),
    ROW(0, "strict", FLAG, strict, NULL, "do not start when the spec has a warning"),
    ROW(0, "listen", STR, listen, "ADDRESS", "listen there (default: 127.0.0.1)"),
    ROW(0, "port", STR, port, "N", "of the models' APIs (default: 8003, and 8002)"),
    ROW(0, "agent-port", STR, agent_port, "N", "of the page (default: 8090)"),
    ROW(0, "metrics-port", STR, metrics_port, "N", "of /metrics (default: 9400)"),
    ROW(0, "free-port", FLAG, free_port, NULL, "take free ports where they are taken"),
    ROW(0, "token-file", STR, token_file, "FILE", "ask clients for this bearer token"),
    ROW(0, "insecure", FLAG, insecure, NULL, "listen beyond this machine without a token"),
    ROW(0, "device", STR, device, "NAME", "run models there: cpu, cuda:0"),
    ROW(0, "history", STR, history, "FILE", "keep the agent's history there"),
    ROW(0, "history-size", STR, history_size, "SIZE", "of that file (default: 256MiB)"),
    ROW(0, "demo", FLAG, demo, NULL, "show a recorded H200, played as eight GPUs"),
    ROW(0, "no-serve", FLAG, no_serve, NULL, "no model server"),
    ROW(0, "no-agent", FLAG, no_agent, NULL, "no agent"),
    ROW(0, "try", FLAG, try_it, NULL, "answer one request of its own and stop"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker up", "the page, /metrics and the default model" },
    { "stoker up -f stoker.yaml", "what the spec says" },
    { "stoker up --demo", "eight GPUs on the page without having one" },
    { 0 },
};

const struct cmd cmd_up = {
    .name = "up",
    .summary = "run this node: agent and model server",
    .opts = opts_up,
    .opts_size = sizeof(struct up_args),
    .about = "Starts 'stoker agent' and 'stoker serve', tells where they are once both are ready, "
             "and starts one that ends again, after a second at first and up to a minute when it "
             "keeps ending. One that gives no sign of life for 30 s is ended and started again. It "
             "needs no GPU, and without a model it runs the agent alone.\n"
             "\n"
             "SIGTERM and Ctrl-C end both: requests under way are answered first; a second one "
             "cuts them off. SIGHUP reaches both, which read the spec again.",
    .examples = examples,
    .run = run_up,
};
