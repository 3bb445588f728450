/* SPDX-License-Identifier: MIT */
/* process: between fork and exec only system calls are safe in a program with threads; whatever
 * allocates is done before. */
#include "os/worker/process_int.h"

#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

bool process_keep(const int *fds, size_t count)
{
    int from[PROCESS_FDS_MAX], null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0) /* a bare root: whatever takes the place of it */
        null = open("/", O_PATH | O_CLOEXEC);
    if (count > PROCESS_FDS_MAX)
        return false;
    for (size_t i = 0; i < count; i++) /* out of the way: one may stand where another shall be */
        from[i] = fcntl(fds[i] < 0 ? null : fds[i], F_DUPFD_CLOEXEC, PROCESS_FDS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (from[i] < 0 && fds[i] >= 0)
            return false;
        if (from[i] < 0)
            close((int)i);
        else if (dup2(from[i], (int)i) < 0)
            return false;
    }
    (void)close_range((unsigned)count, ~0U, 0);
    return true;
}

static void NORETURN become_program(const struct process_opts *o, const char *exe, pid_t owner)
{
    sigset_t none;

    if (o->death_signal) {
        (void)prctl(PR_SET_PDEATHSIG, o->death_signal);
        if (getppid() != owner)
            _exit(1);
    }
    if (!process_keep(o->fds, o->fd_count))
        _exit(PROCESS_NO_FDS);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0);
    (void)execv(exe, o->argv);
    _exit(PROCESS_NO_EXEC);
}

pid_t process_start(const struct process_opts *o)
{
    pid_t owner = getpid(), pid = fork();

    if (pid == 0)
        become_program(o, o->exe ? o->exe : "/proc/self/exe", owner);
    return pid;
}

bool process_read(pid_t pid, const char *name, char *out, size_t cap)
{
    char path[64];
    ssize_t n = -1;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, out, cap - 1);
        close(fd);
    }
    out[n > 0 ? n : 0] = '\0';
    str_make_text(out);
    return n > 0;
}

void process_sleep(pid_t pid, struct process_sleep *out)
{
    char stat[512], *paren;

    *out = (struct process_sleep){ 0 };
    if (!process_read(pid, "wchan", out->wchan, sizeof(out->wchan)) || str_eq(out->wchan, "0"))
        out->wchan[0] = '\0';
    (void)process_read(pid, "syscall", out->syscall, sizeof(out->syscall));
    out->syscall[strcspn(out->syscall, "\n")] = '\0';
    (void)process_read(pid, "stat", stat, sizeof(stat));
    paren = strrchr(stat, ')'); /* the name before it may hold anything */
    if (paren && paren[1] == ' ')
        out->state = paren[2];
}

bool process_await(pid_t pid, int64_t ms, int *status)
{
    int64_t until = clock_mono_ms() + ms;
    struct timespec nap = { .tv_nsec = 200000 };

    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);

        if (got == pid || (got < 0 && errno != EINTR))
            return true;
        if (clock_mono_ms() >= until)
            return false;
        (void)nanosleep(&nap, NULL);
        if (nap.tv_nsec < 2000000)
            nap.tv_nsec *= 2;
    }
}

int64_t process_backoff_ms(int64_t last_ms, int64_t first_ms, int64_t lived_ms)
{
    int64_t ms = last_ms > 0 && lived_ms < PROCESS_WELL_MS ? 2 * last_ms : first_ms;

    return ms < PROCESS_BACKOFF_MS_MAX ? ms : PROCESS_BACKOFF_MS_MAX;
}
