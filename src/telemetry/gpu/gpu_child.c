/* SPDX-License-Identifier: MIT */
/* gpu_child: the agent's side of the GPU collector.
 *
 * A child is started, read, watched, and started again.  What can happen to it:
 *
 *   it sends nothing and makes no step for hang_ms   hung: its values are unknown, it is asked to
 *                                                    end; after as long again it is left alone
 *   left alone                                       the next child does not touch that GPU; no
 *                                                    more than GPU_ABANDONED_MAX are left so
 *   its call returns                                 it ends by itself; the GPU is asked again
 *   it crashes                                       the next one comes later each time
 *   the agent is killed                              the kernel kills it, at the latest when its
 *                                                    call returns
 *   there is no driver                               tried again each minute, without a word
 *   the driver went away, is of another version      told, tried again
 *
 * gpu_child_turn() reads and looks; it waits for nothing. */
#include "telemetry/gpu/gpu_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/worker/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GPU_READ_MAX = 4 << 20,   /* bytes read in one turn */
    GPU_BACKOFF_MS = 1000,    /* before a crashed child is started again; doubled each time */
    GPU_NO_DRIVER_MS = 60000, /* between looks for a driver */
    GPU_HUNG_CALLS_MAX = 32,  /* pairs of a call and a GPU that are told of */
    GPU_FREE_MS_MAX = 1500    /* for a child to end when the agent does */
};

struct abandoned { /* a child that hangs and was left alone */
    pid_t pid;
    struct gpu_page *page; /* its own, mapped until it has gone */
    int gpu;               /* that it hangs in; -1: none */
    int64_t since_ms;
    char call[96];
};

struct hung_call { /* that was told of; 0 once it has returned */
    char call[96];
    int gpu;
    uint32_t id;
    bool hangs;
};

struct gpu_child {
    struct gpu_child_opts opts;
    char *library; /* owned; NULL: the usual one */
    struct telemetry *t;
    unsigned source, watch; /* of the stream, of what we tell about it */
    uint32_t ids[4];
    int64_t told_ms; /* last batch of ours */

    pid_t pid; /* 0: none */
    int fd;
    struct gpu_page *page; /* the running child's, or the last one's */
    struct stream_reader *reader;
    bool wanted; /* attached, as far as the operator is concerned */
    bool heard;  /* this child has sent something */
    bool closed; /* its socket is */
    bool hung;
    bool garbled; /* what it sent is no stream */
    bool no_driver;
    unsigned steps; /* of the page, when last looked */
    int64_t started_ms, sign_ms, hung_ms;
    int64_t start_ms; /* not before */
    int64_t backoff_ms;
    uint64_t starts;
    char call[96];    /* that hangs, or did last */
    struct buf where; /* of the hang */
    char told_reason[GPU_REASON_MAX];

    struct abandoned abandoned[GPU_ABANDONED_MAX];
    size_t abandoned_count;
    struct hung_call calls[GPU_HUNG_CALLS_MAX];
    size_t call_count;
    int call_gpu; /* of `call` */
};

/* ---- telling ---- */
static void tell_event(struct gpu_child *c, enum telemetry_event_kind kind, int gpu,
                       const char *fmt, ...) PRINTF_LIKE(4, 5);
static void tell_event(struct gpu_child *c, enum telemetry_event_kind kind, int gpu,
                       const char *fmt, ...)
{
    struct telemetry_event e = { .time_ns = clock_unix_ms() * 1000000, .kind = kind, .gpu = gpu };
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.text, sizeof(e.text), fmt, ap);
    va_end(ap);
    str_make_text(e.text);
    telemetry_event(c->t, &e);
}

/* Nothing is known of the GPUs from here on. */
static void forget_values(struct gpu_child *c, int64_t now_ns)
{
    if (!c->heard)
        return;
    c->heard = false;
    telemetry_begin(c->t, c->source, now_ns);
    telemetry_end(c->t);
    telemetry_doc(c->t, "processes", NULL);
    telemetry_doc(c->t, "gpu_labels", NULL);
}

static void set_hung_call(struct gpu_child *c, const char *call, int gpu, double seconds)
{
    char number[12];
    struct telemetry_label l[] = { { "call", call }, { "gpu", number } };
    size_t i = 0;

    while (i < c->call_count && !(str_eq(c->calls[i].call, call) && c->calls[i].gpu == gpu))
        i++;
    if (i == GPU_HUNG_CALLS_MAX)
        return;
    if (i == c->call_count) {
        snprintf(number, sizeof(number), "%d", gpu);
        c->calls[i] = (struct hung_call){ .gpu = gpu };
        str_copy(c->calls[i].call, sizeof(c->calls[i].call), call);
        c->calls[i].id = telemetry_series(c->t, c->watch, telemetry_metric("gpu.driver.call.hung"),
                                          l, gpu < 0 ? 1 : 2);
        c->call_count++;
    }
    c->calls[i].hangs = true;
    telemetry_set(c->t, c->calls[i].id, seconds);
}

/* Which call hangs, in which GPU and for how long; those that have returned are 0. */
static void tell_hung_calls(struct gpu_child *c, int64_t now_ms)
{
    for (size_t i = 0; i < c->call_count; i++)
        c->calls[i].hangs = false;
    if (c->hung)
        set_hung_call(c, c->call, c->call_gpu, (double)(now_ms - c->hung_ms) / 1000);
    for (size_t i = 0; i < c->abandoned_count; i++)
        set_hung_call(c, c->abandoned[i].call, c->abandoned[i].gpu,
                      (double)(now_ms - c->abandoned[i].since_ms) / 1000);
    for (size_t i = 0; i < c->call_count; i++)
        if (!c->calls[i].hangs)
            telemetry_set(c->t, c->calls[i].id, 0);
}

static void tell_state(struct gpu_child *c, int64_t now_ns, int64_t now_ms)
{
    static const char *const names[] = { "gpu.driver.hung", "gpu.driver.restarts",
                                         "gpu.driver.abandoned", "gpu.driver.attached" };
    const double values[] = { gpu_child_hangs(c), c->starts ? (double)c->starts - 1 : 0,
                              (double)c->abandoned_count, gpu_child_state(c) == GPU_CHILD_RUNS };

    if (c->told_ms && now_ms - c->told_ms < 500)
        return;
    c->told_ms = now_ms;
    telemetry_begin(c->t, c->watch, now_ns);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct telemetry_metric *m = telemetry_metric(names[i]);

        if (m && c->ids[i] == TELEMETRY_NONE)
            c->ids[i] = telemetry_series(c->t, c->watch, m, NULL, 0);
        telemetry_set(c->t, c->ids[i], values[i]);
    }
    tell_hung_calls(c, now_ms);
    telemetry_end(c->t);
}

/* ---- starting ---- */

static uint64_t skipped_gpus(const struct gpu_child *c)
{
    uint64_t bits = 0;

    for (size_t i = 0; i < c->abandoned_count; i++)
        if (c->abandoned[i].gpu >= 0)
            bits |= (uint64_t)1 << c->abandoned[i].gpu;
    return bits;
}

static bool start_process(struct gpu_child *c, int page_fd)
{
    char number[4] = "3", name[] = "stoker", command[] = "agent", option[] = "--gpu-child";
    char *argv[] = { name, command, option, number, NULL };
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return false;
    const int fds[] = { -1, -1, -1, pair[1] };
    pid_t pid = -1;
    if (gpu_page_send(pair[0], page_fd)) /* in a call that hangs only its owner's death ends it */
        pid = process_start(&(struct process_opts){
            .argv = argv, .fds = fds, .fd_count = ARRAY_SIZE(fds), .death_signal = SIGKILL });
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return false;
    }
    c->pid = pid;
    c->fd = pair[0];
    return true;
}

static void child_start(struct gpu_child *c, int64_t now_ms)
{
    struct stream_reader_opts reader = { .into = c->t };
    struct gpu_page *page;
    int fd = gpu_page_new(&c->opts, c->page, &page);

    if (fd < 0) {
        c->start_ms = now_ms + PROCESS_BACKOFF_MS_MAX;
        return;
    }
    gpu_page_unmap(c->page);
    c->page = page;
    atomic_store(&page->skip, skipped_gpus(c));
    if (!start_process(c, fd)) {
        tell_event(c, TELEMETRY_EVENT_AGENT, -1, "could not start the GPU collector: %s",
                   strerror(errno));
        c->start_ms = now_ms + PROCESS_BACKOFF_MS_MAX;
    } else {
        c->reader = stream_reader_new(&reader);
        c->heard = c->closed = c->hung = c->garbled = false;
        c->steps = 0;
        c->started_ms = c->sign_ms = now_ms;
        c->starts++;
    }
    close(fd);
}

/* ---- ending ---- */
static void start_later(struct gpu_child *c, int64_t now_ms)
{
    c->backoff_ms = process_backoff_ms(c->backoff_ms, GPU_BACKOFF_MS, now_ms - c->started_ms);
    c->start_ms = now_ms + c->backoff_ms;
}

static void let_go(struct gpu_child *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    stream_reader_free(c->reader);
    c->reader = NULL;
    c->pid = 0;
    c->hung = false;
}

/* A reason is told once, until a child has spoken with the driver again. */
static bool is_news(struct gpu_child *c, const char *reason)
{
    if (str_eq(c->told_reason, reason))
        return false;
    str_copy(c->told_reason, sizeof(c->told_reason), reason);
    return true;
}

static void tell_crash(struct gpu_child *c, int status)
{
    struct gpu_step step = gpu_page_step(c->page);
    char call[96];

    gpu_step_text(step, call, sizeof(call));
    if (WIFSIGNALED(status))
        tell_event(c, TELEMETRY_EVENT_AGENT, step.gpu, "the GPU collector crashed in %s: %s", call,
                   strsignal(WTERMSIG(status)));
    else
        tell_event(c, TELEMETRY_EVENT_AGENT, step.gpu,
                   "the GPU collector ended in %s with status %d", call, WEXITSTATUS(status));
}

static void child_ended(struct gpu_child *c, int status, int64_t now_ms)
{
    char reason[GPU_REASON_MAX];
    bool asked = atomic_load(&c->page->end) != 0, heard = c->heard;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

    snprintf(reason, sizeof(reason), "%.*s", GPU_REASON_MAX - 1, c->page->reason);
    str_make_text(reason);
    let_go(c);
    c->no_driver = code == GPU_EXIT_NO_DRIVER || code == GPU_EXIT_SKEW;
    if (code == GPU_EXIT_ASKED && c->garbled) {
        start_later(c, now_ms);
    } else if (code == GPU_EXIT_ASKED) {
        c->start_ms = now_ms;
        if (asked && !c->wanted)
            tell_event(c, TELEMETRY_EVENT_AGENT, -1, "the driver is released");
    } else if (code == GPU_EXIT_NO_DRIVER) {
        c->start_ms = now_ms + GPU_NO_DRIVER_MS;
        if (heard)
            tell_event(c, TELEMETRY_EVENT_GPU, -1, "the driver is gone: %s", reason);
    } else if (code == GPU_EXIT_SKEW || code == GPU_EXIT_RELOADED) {
        start_later(c, now_ms);
        if (is_news(c, reason))
            tell_event(c, TELEMETRY_EVENT_GPU, -1, "%s: %s",
                       code == GPU_EXIT_SKEW ? "driver and library are of two versions"
                                             : "the driver went away underneath",
                       reason);
    } else {
        start_later(c, now_ms);
        tell_crash(c, status);
    }
}

/* ---- hanging ---- */
static void child_hung(struct gpu_child *c, int64_t now_ms)
{
    struct gpu_step step = gpu_page_step(c->page);

    c->hung = true;
    c->hung_ms = c->sign_ms;
    c->call_gpu = step.gpu;
    if (c->closed)
        str_copy(c->call, sizeof(c->call), "process exit");
    else
        gpu_step_text(step, c->call, sizeof(c->call));
    buf_reset(&c->where);
    gpu_hang_where((int)c->pid, &c->where);
    tell_event(c, TELEMETRY_EVENT_HANG, step.gpu, "%s has not returned for %.1f s (%s)", c->call,
               (double)(now_ms - c->hung_ms) / 1000, buf_str(&c->where));
    atomic_store(&c->page->end, 1);
}

static void child_abandon(struct gpu_child *c, int64_t now_ms)
{
    struct abandoned *a = &c->abandoned[c->abandoned_count];
    struct gpu_page *own;
    int gpu = gpu_page_step(c->page).gpu;
    int fd = gpu_page_new(&c->opts, c->page, &own);

    if (fd < 0)
        return; /* no memory: it stays the one we watch */
    close(fd);
    *a = (struct abandoned){ .pid = c->pid, .page = c->page, .gpu = gpu, .since_ms = c->hung_ms };
    str_copy(a->call, sizeof(a->call), c->call);
    c->abandoned_count++;
    c->page = own; /* what is carried over, where the old child cannot write */
    let_go(c);
    if (gpu >= 0)
        c->start_ms = now_ms; /* the next one leaves that GPU alone */
    else
        start_later(c, now_ms);
    if (c->abandoned_count == GPU_ABANDONED_MAX)
        tell_event(c, TELEMETRY_EVENT_HANG, gpu,
                   "%d collectors hang in the driver: no more are started", GPU_ABANDONED_MAX);
}

/* Those left alone: gone once their call has returned. */
static void watch_abandoned(struct gpu_child *c, int64_t now_ms)
{
    for (size_t i = 0; i < c->abandoned_count;) {
        struct abandoned *a = &c->abandoned[i];

        if (waitpid(a->pid, NULL, WNOHANG) == 0) {
            i++;
            continue;
        }
        tell_event(c, TELEMETRY_EVENT_HANG, a->gpu, "%s came to an end after %.1f s", a->call,
                   (double)(now_ms - a->since_ms) / 1000);
        gpu_page_unmap(a->page);
        *a = c->abandoned[--c->abandoned_count];
        if (c->page)
            atomic_store(&c->page->skip, skipped_gpus(c));
        if (c->start_ms > now_ms && !c->no_driver)
            c->start_ms = now_ms;
        c->backoff_ms = 0;
    }
}

/* ---- reading and watching ---- */
static void read_stream(struct gpu_child *c, int64_t now_ms)
{
    static const size_t chunk = 65536;
    char *data = xmalloc(chunk);
    struct err err = { 0 };
    bool fine = true;

    for (size_t total = 0; total < GPU_READ_MAX && fine && !c->closed;) {
        ssize_t n = recv(c->fd, data, chunk, MSG_DONTWAIT);

        if (n < 0)
            break;
        if (n == 0) {
            c->closed = true;
            break;
        }
        total += (size_t)n;
        c->sign_ms = now_ms;
        if (c->hung) /* its values are unknown already, and it was asked to end */
            continue;
        c->heard = true;
        c->no_driver = false;
        fine = stream_feed(c->reader, data, (size_t)n, &err) == RC_OK;
    }
    free(data);
    if (!fine && !atomic_load(&c->page->end)) {
        tell_event(c, TELEMETRY_EVENT_AGENT, -1, "the GPU collector sends what is not a stream: %s",
                   err.msg);
        c->garbled = true;
        atomic_store(&c->page->end, 1);
    }
}

static void child_watch(struct gpu_child *c, int64_t now_ns, int64_t now_ms)
{
    unsigned steps = gpu_page_step(c->page).steps;
    int status = 0;

    read_stream(c, now_ms);
    if (steps != c->steps)
        c->sign_ms = now_ms;
    c->steps = steps;
    if (waitpid(c->pid, &status, WNOHANG) != 0) {
        if (c->hung)
            tell_event(c, TELEMETRY_EVENT_HANG, -1, "%s came to an end after %.1f s", c->call,
                       (double)(now_ms - c->hung_ms) / 1000);
        child_ended(c, status, now_ms);
        forget_values(c, now_ns);
        return;
    }
    if (!c->hung && now_ms - c->sign_ms > c->opts.hang_ms) {
        child_hung(c, now_ms);
        forget_values(c, now_ns);
    } else if (c->hung && now_ms - c->hung_ms > 2 * (int64_t)c->opts.hang_ms &&
               now_ms - c->sign_ms > c->opts.hang_ms) {
        child_abandon(c, now_ms);
    }
}

void gpu_child_turn(struct gpu_child *c, int64_t now_ns)
{
    int64_t now_ms = clock_mono_ms();

    watch_abandoned(c, now_ms);
    if (c->pid)
        child_watch(c, now_ns, now_ms);
    if (!c->pid && c->wanted && now_ms >= c->start_ms && c->abandoned_count < GPU_ABANDONED_MAX)
        child_start(c, now_ms);
    tell_state(c, now_ns, now_ms);
}

/* ---- the interface ---- */
struct gpu_child *gpu_child_new(const struct gpu_child_opts *o, struct telemetry *t)
{
    struct gpu_child *c = xcalloc(1, sizeof(*c));

    c->opts = *o;
    if (o->nvml)
        c->library = xstrdup(o->nvml);
    c->opts.nvml = c->library;
    if (c->opts.period_ms <= 0)
        c->opts.period_ms = GPU_PERIOD_DEFAULT;
    if (c->opts.period_ms > GPU_PERIOD_MS_MAX)
        c->opts.period_ms = GPU_PERIOD_MS_MAX;
    if (c->opts.hang_ms <= 0)
        c->opts.hang_ms = GPU_HANG_DEFAULT;
    c->t = t;
    c->source = telemetry_source(t, "gpu");
    c->watch = telemetry_source(t, "gpu-watch");
    for (size_t i = 0; i < ARRAY_SIZE(c->ids); i++)
        c->ids[i] = TELEMETRY_NONE;
    c->fd = -1;
    c->wanted = true;
    return c;
}

int gpu_child_fd(const struct gpu_child *c)
{
    return c->closed ? -1 : c->fd;
}

enum gpu_child_state gpu_child_state(const struct gpu_child *c)
{
    if (c->hung)
        return GPU_CHILD_HUNG;
    if (c->pid && c->heard)
        return GPU_CHILD_RUNS;
    if (c->abandoned_count && !(c->pid && c->wanted))
        return GPU_CHILD_HUNG;
    if (!c->wanted && !c->pid)
        return GPU_CHILD_RELEASED;
    return c->no_driver ? GPU_CHILD_NO_DRIVER : GPU_CHILD_OFF;
}

bool gpu_child_hangs(const struct gpu_child *c)
{
    return c->hung || c->abandoned_count;
}

void gpu_child_why(const struct gpu_child *c, struct buf *out)
{
    int64_t now_ms = clock_mono_ms();

    if (c->hung)
        buf_addf(out, "%s has not returned for %.1f s (%s)", c->call,
                 (double)(now_ms - c->hung_ms) / 1000, buf_str(&c->where));
    for (size_t i = 0; i < c->abandoned_count; i++) {
        const struct abandoned *a = &c->abandoned[i];

        buf_addf(out, "%s%s has not returned for %.1f s (", i || c->hung ? "; " : "", a->call,
                 (double)(now_ms - a->since_ms) / 1000);
        gpu_hang_where((int)a->pid, out);
        buf_addf(out, ")");
    }
    if (c->no_driver && c->page && !c->hung)
        buf_adds(out, c->page->reason);
}

void gpu_child_release(struct gpu_child *c)
{
    c->wanted = false;
    if (c->pid)
        atomic_store(&c->page->end, 1);
}

void gpu_child_attach(struct gpu_child *c)
{
    if (c->wanted)
        return;
    c->wanted = true;
    c->start_ms = 0;
    c->backoff_ms = 0;
    c->no_driver = false;
}

void gpu_child_end(struct gpu_child *c)
{
    if (!c || !c->pid)
        return;
    atomic_store(&c->page->end, 1);
    if (!c->hung)
        (void)process_await(c->pid, GPU_FREE_MS_MAX, NULL);
    let_go(c);
}

void gpu_child_free(struct gpu_child *c)
{
    if (!c)
        return;
    gpu_child_end(c);
    for (size_t i = 0; i < c->abandoned_count; i++)
        gpu_page_unmap(c->abandoned[i].page);
    gpu_page_unmap(c->page);
    buf_release(&c->where);
    free(c->library);
    free(c);
}
