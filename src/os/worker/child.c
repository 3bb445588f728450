/* SPDX-License-Identifier: MIT */
#include "os/worker/child.h"

#include "base/str.h"
#include "os/clock.h"
#include "os/worker/process_int.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHILD_REAP_MS = 500 }; /* for a killed child to go, on a machine that is busy */

/* Shared between the two processes; the parent only reads. */
struct shared {
    atomic_uint steps; /* counts child_step(): odd while the text changes */
    char step[128];
};

struct child_link {
    int fd;
    struct shared *shared;
};

void child_step(struct child_link *l, const char *fmt, ...)
{
    va_list ap;

    atomic_fetch_add(&l->shared->steps, 1);
    va_start(ap, fmt);
    vsnprintf(l->shared->step, sizeof(l->shared->step), fmt, ap);
    va_end(ap);
    atomic_fetch_add(&l->shared->steps, 1);
}

void child_send(struct child_link *l, const void *p, size_t len)
{
    const char *bytes = p;

    while (len) {
        ssize_t n = write(l->fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            _exit(1);
        bytes += n;
        len -= (size_t)n;
    }
}

int child_fd(const struct child_link *l)
{
    return l->fd;
}

static void NORETURN child_main(void (*fn)(struct child_link *l, void *arg), void *arg, int fd,
                                struct shared *shared, pid_t parent)
{
    const int fds[] = { -1, -1, -1, fd }; /* a stuck child must not keep our own reader waiting */
    struct child_link l = { .fd = STDERR_FILENO + 1, .shared = shared };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (!process_keep(fds, ARRAY_SIZE(fds)) || fcntl(l.fd, F_SETFD, FD_CLOEXEC))
        _exit(1);
    signal(SIGPIPE, SIG_IGN);
    fn(&l, arg);
    _exit(0);
}

/* Reads until the pipe closes (true) or no step happened for stall_ms (false). */
static bool gather_lines(int fd, struct shared *shared, long stall_ms, struct buf *out)
{
    unsigned seen = atomic_load(&shared->steps);
    int64_t moved = clock_mono_ms();
    char chunk[16384];

    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int64_t left = moved + stall_ms - clock_mono_ms();
        int ready;

        if (left <= 0)
            return false;
        ready = poll(&p, 1, left > 50 ? 50 : (int)left);
        if (ready > 0) {
            ssize_t n = read(fd, chunk, sizeof(chunk));

            if (n == 0)
                return true;
            if (n > 0) {
                buf_add(out, chunk, (size_t)n);
                moved = clock_mono_ms();
            }
        }
        if (atomic_load(&shared->steps) != seen) {
            seen = atomic_load(&shared->steps);
            moved = clock_mono_ms();
        }
    }
}

static void drop_partial_line(struct buf *out)
{
    while (out->len && out->data[out->len - 1] != '\n')
        out->data[--out->len] = '\0';
}

/* A process can get stuck while it closes the driver's files, after its pipe closed: the wait for
 * it is bounded too. */
static void finish_child(struct child_report *rep, bool closed, long wait_ms, struct buf *out)
{
    if (closed && process_await(rep->pid, wait_ms, &rep->status)) {
        rep->finished = WIFEXITED(rep->status) && WEXITSTATUS(rep->status) == 0;
        if (!rep->finished)
            drop_partial_line(out);
        return;
    }
    if (closed)
        str_copy(rep->step, sizeof(rep->step), "process exit");
    rep->stalled = true;
    process_sleep(rep->pid, &rep->sleep);
    kill(rep->pid, SIGKILL);
    /* a killable one is gone soon; the other is left alone */
    (void)process_await(rep->pid, CHILD_REAP_MS, &rep->status);
    rep->status = 0;
    drop_partial_line(out);
}

enum rc child_run(void (*fn)(struct child_link *l, void *arg), void *arg, long stall_ms,
                  struct buf *out, struct child_report *rep, struct err *err)
{
    struct child_report r = { 0 };
    struct shared *shared;
    int64_t start = clock_mono_ms();
    pid_t parent = getpid();
    int fds[2];
    bool closed;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return err_sys(err, "could not map memory for a child process");
    if (pipe2(fds, O_CLOEXEC)) {
        munmap(shared, sizeof(*shared));
        return err_sys(err, "could not open a pipe");
    }
    r.pid = fork();
    if (r.pid == 0) {
        close(fds[0]);
        child_main(fn, arg, fds[1], shared, parent);
    }
    close(fds[1]);
    if (r.pid < 0) {
        close(fds[0]);
        munmap(shared, sizeof(*shared));
        return err_sys(err, "could not start a child process");
    }
    closed = gather_lines(fds[0], shared, stall_ms, out);
    str_copy(r.step, sizeof(r.step), shared->step);
    finish_child(&r, closed, stall_ms, out);
    r.elapsed_ms = (long)(clock_mono_ms() - start);
    close(fds[0]);
    munmap(shared, sizeof(*shared)); /* a stalled child keeps its own mapping */
    *rep = r;
    return RC_OK;
}
