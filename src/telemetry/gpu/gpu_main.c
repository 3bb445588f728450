/* SPDX-License-Identifier: MIT */
/* gpu_main: the child's side: one sample each period, sent to the agent.
 *
 * Between samples it waits for the driver's events, in slices short enough to hear the agent,
 * which asks it to end through the page or by closing the socket.  It never ends in the middle
 * of a call and lets the driver go before it ends. */
#include "telemetry/gpu/gpu_int.h"

#include "os/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SLICE_MS_MAX = 500,    /* one wait between samples */
    PAGE_WAIT_MS = 10000,  /* for the shared page, after the start */
    PROCESS_IDS_MAX = 4096 /* series of processes that came and went; then numbers begin anew */
};

/* Hears whether the agent has gone; what it says beyond that is in the page. */
static bool agent_gone(int fd)
{
    char drop[64];
    ssize_t n;

    do
        n = recv(fd, drop, sizeof(drop), MSG_DONTWAIT);
    while (n > 0 || (n < 0 && errno == EINTR));
    return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static bool send_all(struct gpu_sampler *s, int fd)
{
    size_t at = 0;

    if (s->out.over) /* a sample that large is no sample of ours */
        return false;
    while (at < s->out.len) {
        ssize_t n = send(fd, s->out.data + at, s->out.len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd ready = { .fd = fd, .events = POLLOUT };

        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return false;
        gpu_beat(s, GPU_CALL_SEND, -1);
        (void)poll(&ready, 1, SLICE_MS_MAX);
        if (atomic_load(&s->page->end))
            return false;
    }
    buf_reset(&s->out);
    return true;
}

/* Until the next sample is due; false: time to end. */
static bool rest_until(struct gpu_sampler *s, int fd, int64_t until_ns)
{
    for (;;) {
        int64_t left_ms = (until_ns - clock_mono_ns() + 999999) / 1000000;
        int slice = left_ms < SLICE_MS_MAX ? (int)left_ms : SLICE_MS_MAX;
        struct pollfd ready = { .fd = fd, .events = POLLIN };

        if (atomic_load(&s->page->end) || agent_gone(fd))
            return false;
        if (s->fatal || left_ms <= 0)
            return !s->fatal;
        if (!gpu_events_wait(s, slice)) {
            gpu_beat(s, GPU_CALL_IDLE, -1);
            (void)poll(&ready, 1, slice);
        } else {
            gpu_beat(s, GPU_CALL_IDLE, -1);
        }
        if (s->out.len && !send_all(s, fd))
            return false;
    }
}

static void sample_loop(struct gpu_sampler *s, int fd, int period_ms)
{
    int64_t period_ns = (int64_t)period_ms * 1000000, next = clock_mono_ns();

    while (gpu_sampler_sample(s, clock_unix_ms() * 1000000) && send_all(s, fd)) {
        int64_t now = clock_mono_ns();

        if (s->process_ids > PROCESS_IDS_MAX)
            return; /* the next child numbers anew */
        next += period_ns;
        if (next < now) /* a sample took longer than the period: no catching up */
            next = now + period_ns / 10;
        if (!rest_until(s, fd, next))
            return;
    }
}

static int finish_child(struct gpu_sampler *s, int status)
{
    char why[96];

    if (status == GPU_EXIT_ASKED && s->fatal) {
        snprintf(s->page->reason, sizeof(s->page->reason), "%s",
                 gpu_code_text(s, s->fatal, why, sizeof(why)));
        status = s->fatal == NVML_ERROR_LIB_RM_VERSION_MISMATCH ? GPU_EXIT_SKEW : GPU_EXIT_RELOADED;
    }
    s->fatal = 0;
    s->ended = true;
    gpu_sampler_free(s);
    return status;
}

int gpu_child_main(const struct gpu_child_opts *o, int fd)
{
    static const int ignored[] = { SIGPIPE, SIGTERM, SIGINT, SIGHUP };
    struct gpu_page *page;
    struct gpu_sampler *s;
    int status, period;

    for (size_t i = 0; i < ARRAY_SIZE(ignored); i++) /* the agent asks; a signal would cut a call */
        (void)signal(ignored[i], SIG_IGN);
    page = gpu_page_receive(fd, PAGE_WAIT_MS);
    if (!page)
        return 2;
    s = gpu_sampler_new(page, o ? o->root : NULL);
    s->writer = stream_writer_new("{\"schema\":\"stoker.tele/1\",\"source\":\"gpu\"}", &s->out);
    status = gpu_sampler_open(s);
    period = page->period_ms > 0 && page->period_ms <= GPU_PERIOD_MS_MAX ? page->period_ms
                                                                         : GPU_PERIOD_DEFAULT;
    if (status == GPU_EXIT_ASKED && !s->ended)
        sample_loop(s, fd, period);
    return finish_child(s, status);
}
