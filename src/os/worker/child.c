/* SPDX-License-Identifier: MIT */
#include "os/worker/child.h"

#include "base/str.h"
#include "os/clock.h"

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

/* One small file of /proc/PID, bounded; these reads do not block on a stuck process. */
static void proc_line(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, out, cap - 1);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

void child_note_sleep(struct child_report *rep)
{
    char stat[512], *paren;

    proc_line(rep->pid, "wchan", rep->wchan, sizeof(rep->wchan));
    if (!strcmp(rep->wchan, "0"))
        rep->wchan[0] = '\0';
    proc_line(rep->pid, "syscall", rep->syscall, sizeof(rep->syscall));
    proc_line(rep->pid, "stat", stat, sizeof(stat));
    paren = strrchr(stat, ')'); /* the name before it may hold anything */
    if (paren && paren[1] == ' ')
        rep->state = paren[2];
}

/* A stuck child must not keep the reader of our own output waiting, whichever of our
 * descriptors that reads: all but `fd` are let go.  Where it is now: above the three,
 * which it may be one of when we were started without them. */
static int let_go(int fd)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int keep = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (keep < 0)
        _exit(1);
    if (null < 0) /* a bare root: whatever takes the place of the three */
        null = open("/", O_PATH | O_CLOEXEC);
    for (int std = 0; std <= STDERR_FILENO; std++)
        if (null < 0 || dup2(null, std) < 0)
            close(std);
    if (keep > STDERR_FILENO + 1)
        (void)close_range(STDERR_FILENO + 1, (unsigned)keep - 1, 0);
    (void)close_range((unsigned)keep + 1, ~0U, 0);
    return keep;
}

static void NORETURN child_main(void (*fn)(struct child_link *l, void *arg), void *arg, int fd,
                                struct shared *shared, pid_t parent)
{
    struct child_link l = { .fd = fd, .shared = shared };

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    l.fd = let_go(fd);
    signal(SIGPIPE, SIG_IGN);
    fn(&l, arg);
    _exit(0);
}

/* Reads until the pipe closes (true) or no step happened for stall_ms (false). */
static bool gather(int fd, struct shared *shared, long stall_ms, struct buf *out)
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

/* A process can get stuck while it closes the driver's files, after its pipe closed:
 * the wait for it is bounded too. */
static bool reap(struct child_report *rep, long wait_ms)
{
    int64_t until = clock_mono_ms() + wait_ms;
    struct timespec nap = { .tv_nsec = 200000 };

    for (;;) {
        pid_t got = waitpid(rep->pid, &rep->status, WNOHANG);

        if (got == rep->pid || (got < 0 && errno != EINTR))
            return true;
        if (clock_mono_ms() >= until)
            return false;
        nanosleep(&nap, NULL);
    }
}

static void finish(struct child_report *rep, bool closed, long wait_ms, struct buf *out)
{
    if (closed && reap(rep, wait_ms)) {
        rep->finished = WIFEXITED(rep->status) && WEXITSTATUS(rep->status) == 0;
        if (!rep->finished)
            drop_partial_line(out);
        return;
    }
    if (closed)
        str_copy(rep->step, sizeof(rep->step), "process exit");
    rep->stalled = true;
    child_note_sleep(rep);
    kill(rep->pid, SIGKILL);
    (void)reap(rep, CHILD_REAP_MS); /* a killable one is gone soon; the other is left alone */
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
    closed = gather(fds[0], shared, stall_ms, out);
    str_copy(r.step, sizeof(r.step), shared->step);
    finish(&r, closed, stall_ms, out);
    r.elapsed_ms = (long)(clock_mono_ms() - start);
    close(fds[0]);
    munmap(shared, sizeof(*shared)); /* a stalled child keeps its own mapping */
    *rep = r;
    return RC_OK;
}
