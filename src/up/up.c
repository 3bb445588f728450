/* SPDX-License-Identifier: MIT */
/* up: runs this node.  A small parent of `stoker agent` and `stoker serve`, which are the
 * same binary: it starts them, tells where they are, starts one that ended again with backoff, and
 * ends both.
 *
 * Children tell through the service manager's own protocol (os/net/notify.h) when they are ready
 * and that they live; this parent is the manager they see.  They are in process groups of their
 * own, so that Ctrl-C reaches only the parent, and end with it.
 *
 * The sockets are the parent's (up_plan.c): a child that dies or is replaced leaves its clients in
 * their queues.  An upgrade ends the children, serve first and drained, and puts the program that
 * is on the disk now into this process, with the sockets; it starts both again. */
#include "up/up_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/net/notify.h"
#include "os/signals.h"
#include "os/worker/process.h"
#include "spec/spec.h"

#include <assert.h>
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
    UP_MESSAGE_MAX = 8192,  /* bytes of what a child tells */
    UP_BACKOFF_MS = 1000,   /* before the first restart; doubles */
    UP_WATCHDOG_MS = 30000, /* without a sign of life a child is ended and started again */
    UP_TURN_MS = 500,
    UP_TRY_MS = 10000 /* for a new program to print its version */
};
static const char up_upgraded[] = "STOKER_UP_UPGRADED"; /* set for the program that follows */

/* ---- children */

static void start_part(struct up *u, struct up_part *p)
{
    pid_t parent = getpid(), pid;

    p->begun_ms = p->alive_ms = clock_mono_ms();
    p->ready = false;
    pid = fork();
    if (pid < 0) {
        p->next_ms = p->begun_ms + PROCESS_BACKOFF_MS_MAX;
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
        char dog[32];
        (void)snprintf(dog, sizeof(dog), "%lld", UP_WATCHDOG_MS * 1000LL);
        (void)setenv("NOTIFY_SOCKET", u->notify_name, 1);
        (void)setenv("WATCHDOG_USEC", dog, 1);
        (void)unsetenv("WATCHDOG_PID");
        if (!listen_fds_give(&p->sockets))
            _exit(127);
        (void)execv(u->self, (char *const *)(uintptr_t)p->argv);
        _exit(127);
    }
    p->pid = pid;
}

static void part_ended(struct up *u, struct up_part *p, int status)
{
    int64_t now = clock_mono_ms();

    p->pid = 0;
    p->ready = false;
    p->status = status;
    if (u->stopping || (!p->was_ready && !u->upgraded) || (u->args->try_it && status == 0))
        return;
    p->restarts++;
    p->backoff_ms = process_backoff_ms(p->backoff_ms, UP_BACKOFF_MS, now - p->begun_ms);
    p->next_ms = now + p->backoff_ms;
    log_warn("%s ended (%s %d) and starts again in %d s", p->name,
             WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
             (int)(p->backoff_ms / 1000));
}

static void reap_parts(struct up *u)
{
    for (size_t i = 0; i < PARTS; i++) {
        int status;
        if (u->parts[i].pid && waitpid(u->parts[i].pid, &status, WNOHANG) == u->parts[i].pid)
            part_ended(u, &u->parts[i], status);
    }
}

static void watch_part(struct up_part *p)
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

static void take_line(struct up_part *p, const char *line)
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

static void screen_row(struct buf *out, const char *name, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void screen_row(struct buf *out, const char *name, const char *fmt, ...)
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
    const struct up_part *agent = &u->parts[PART_AGENT], *serve = &u->parts[PART_SERVE];
    struct buf out = { 0 };

    buf_adds(&out, "\nstoker " STOKER_VERSION " runs this node\n\n");
    if (agent->page[0])
        screen_row(&out, "page", "%s/", agent->page);
    else if (u->agent_off)
        screen_row(&out, "page", "none: the spec's 'agent.enabled' is false");
    if (agent->metrics[0])
        screen_row(&out, "metrics", "%s/metrics", agent->metrics);
    if (serve->ready || serve->was_ready) {
        screen_row(&out, "models", "%s  %s", serve->url, serve->models);
        screen_row(&out, "try", "%s", serve->try_line);
    } else if (!u->args->no_serve) {
        screen_row(&out, "models", "%s", u->no_model ? u->no_model : "none");
    }
    if (u->args->demo)
        screen_row(&out, "demo", "the GPUs shown are made up: a story");
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
    else if (si.ssi_signo == SIGUSR2)
        u->upgrade = true;
    else if (si.ssi_signo != SIGCHLD)
        go_on = false;
    return go_on;
}

static void stop_parts(struct up *u)
{
    int64_t until = clock_mono_ms() + u->stop_ms;

    notify_send("STOPPING=1");
    u->stopping = true;
    send_all(u, SIGTERM);
    while (any_runs(u) && clock_mono_ms() < until) {
        if (!wait_some(u, UP_TURN_MS))
            send_all(u, SIGTERM); /* a second one: what is under way is cut off */
        reap_parts(u);
        notify_send("WATCHDOG=1");
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
        const struct up_part *p = &u->parts[i];
        if (!p->wanted || p->pid || p->was_ready || u->upgraded || !p->begun_ms ||
            (u->args->try_it && p->status == 0))
            continue;
        return err_set(err,
                       WIFEXITED(p->status) && WEXITSTATUS(p->status) == 2 ? RC_USAGE : RC_FAIL,
                       "%s did not start", p->name);
    }
    return RC_OK;
}

static bool was_tried(const struct up *u)
{
    const struct up_part *serve = &u->parts[PART_SERVE], *agent = &u->parts[PART_AGENT];

    return u->args->try_it && (!serve->wanted || (!serve->pid && serve->begun_ms)) &&
           (!agent->wanted || agent->ready);
}

static void turn_once(struct up *u)
{
    for (size_t i = 0; i < PARTS; i++) {
        struct up_part *p = &u->parts[i];
        bool once = u->args->try_it && p->begun_ms;
        if (p->wanted && !p->pid && !once && clock_mono_ms() >= p->next_ms)
            start_part(u, p);
        watch_part(p);
    }
}

/* ---- upgrade */

/* Does what is on the disk start at all?  Nothing is given up for a file that does not. */
static bool program_starts(const struct up *u)
{
    const char *const argv[] = { u->self, "--version", NULL };
    const int fds[] = { -1, -1, STDERR_FILENO };
    pid_t pid = process_start(&(struct process_opts){ .exe = u->self,
                                                      .argv = (char *const *)(uintptr_t)argv,
                                                      .fds = fds,
                                                      .fd_count = ARRAY_SIZE(fds),
                                                      .death_signal = SIGKILL });
    int status = -1;
    bool done = pid > 0 && process_await(pid, UP_TRY_MS, &status);

    if (pid > 0 && !done) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return done && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Requests under way are answered.  False: the end of all was asked for meanwhile. */
static bool end_part(struct up *u, struct up_part *p)
{
    int64_t until = clock_mono_ms() + u->stop_ms;

    if (p->pid)
        (void)kill(p->pid, SIGTERM);
    while (p->pid && clock_mono_ms() < until) {
        if (!wait_some(u, UP_TURN_MS))
            return false;
        reap_parts(u);
        notify_send("WATCHDOG=1");
    }
    if (p->pid) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, NULL, 0);
        p->pid = 0;
    }
    return true;
}

/* This process becomes the program on the disk, with the same arguments and the sockets. */
static enum rc become_new(struct up *u, struct err *err)
{
    struct listen_fds all = u->parts[PART_AGENT].sockets;
    const struct listen_fds *more = &u->parts[PART_SERVE].sockets;
    const char *argv[UP_ARGS_MAX];
    struct buf words = { 0 };
    size_t argc = 0;
    enum rc rc = file_read("/proc/self/cmdline", UP_ARGV_BYTES, &words, err);

    if (rc != RC_OK)
        return rc;
    for (size_t at = 0; at < words.len && argc < UP_ARGS_MAX - 1; at += strlen(argv[argc++]) + 1)
        argv[argc] = buf_str(&words) + at;
    argv[argc] = NULL;
    static_assert(LISTEN_FDS_MAX >= 5, "page, metrics, serve, rerank, admin");
    for (size_t i = 0; i < more->count; i++)
        all.items[all.count++] = more->items[i];
    (void)setenv(up_upgraded, "1", 1);
    if (listen_fds_give(&all))
        (void)execv(u->self, (char *const *)(uintptr_t)argv);
    rc = err_sys(err, "could not start '%s'", u->self);
    buf_release(&words);
    return rc;
}

/* RC_OK: it was not done, and all is as before, or the end was asked for (*go_on false). */
static enum rc upgrade_program(struct up *u, bool *go_on, struct err *err)
{
    u->upgrade = false;
    if (!program_starts(u)) {
        log_warn("no upgrade: '%s' does not start; what runs goes on", u->self);
        return RC_OK;
    }
    log_info("upgrade: serve, then agent, end and start again from '%s'", u->self);
    notify_send("STATUS=upgrading");
    u->stopping = true;
    *go_on = end_part(u, &u->parts[PART_SERVE]) && end_part(u, &u->parts[PART_AGENT]);
    return *go_on ? become_new(u, err) : RC_OK;
}

static enum rc live_on(struct up *u, struct err *err)
{
    enum rc rc = RC_OK;
    bool go_on = true;

    while (rc == RC_OK && go_on && !was_tried(u)) {
        turn_once(u);
        go_on = wait_some(u, UP_TURN_MS);
        reap_parts(u);
        rc = check_start(u, err);
        if (rc == RC_OK && go_on && u->upgrade)
            rc = upgrade_program(u, &go_on, err);
        if (!u->screen && all_ready(u)) {
            show_screen(u);
            notify_send("READY=1\nSTATUS=running this node");
            u->screen = true;
        }
        notify_send("WATCHDOG=1");
    }
    if (rc == RC_OK && was_tried(u) && u->parts[PART_SERVE].wanted && u->parts[PART_SERVE].status)
        rc = err_set(err, RC_FAIL, "serve did not answer");
    if (was_tried(u) && !u->screen)
        show_screen(u);
    stop_parts(u);
    if (rc == RC_OK)
        (void)fprintf(stderr, "stoker up: stopped\n");
    return rc;
}

enum rc up_run(const struct up_opts *opts, struct err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD };
    struct up *u = xcalloc(1, sizeof(*u));
    ssize_t n;
    enum rc rc;

    u->args = opts;
    u->signals = u->notify = -1;
    u->upgraded = getenv(up_upgraded) != NULL;
    (void)unsetenv(up_upgraded);
    n = readlink("/proc/self/exe", u->self, sizeof(u->self) - 1);
    rc = n > 0 ? up_plan(u, err) : err_sys(err, "could not find this program");
    if (rc == RC_OK)
        rc = signals_watch(signals, ARRAY_SIZE(signals), &u->signals, err);
    if (rc == RC_OK)
        rc = open_notify(u, err);
    if (rc == RC_OK)
        rc = live_on(u, err);
    if (u->signals >= 0)
        close(u->signals);
    if (u->notify >= 0)
        close(u->notify);
    up_plan_release(u);
    free(u);
    return rc;
}
