/* SPDX-License-Identifier: MIT */
/* process: what everybody needs who keeps a process that may hang or die.
 *
 *     process_start()       this program again, holding only what it is given
 *     process_sleep()       where the kernel has it, from /proc
 *     process_await()       has it ended?  For a while at most, never for ever
 *     process_backoff_ms()  how long to wait before the next one
 *
 * A process that sleeps in a driver ignores SIGKILL until its call returns, so that nothing here
 * waits for one without a limit.  What a process says of itself, the call that it is in and a beat,
 * lies in memory that its owner shares with it; that memory is the owner's, since each says
 * something else.  fd_message.h hands it over. */
#ifndef OS_WORKER_PROCESS_H
#define OS_WORKER_PROCESS_H
#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROCESS_FDS_MAX = 8,            /* descriptors that a process is given */
    PROCESS_WELL_MS = 60000,        /* one that lived so long starts the backoff anew */
    PROCESS_BACKOFF_MS_MAX = 60000, /* longest of it */
    PROCESS_NO_FDS = 126,           /* exit status: no descriptors for it */
    PROCESS_NO_EXEC = 127           /* exit status: the program could not be started */
};

struct process_opts {
    const char *exe;   /* NULL: this program, also when its file was replaced */
    char *const *argv; /* NULL-terminated; made before the fork */
    const int *fds;    /* descriptor i in the new process is fds[i]; -1: /dev/null */
    size_t fd_count;
    /* That it gets when the thread that started it ends; 0: none.  Not for a program that is to
     * finish what it does. */
    int death_signal;
};
/* In a process group of its own, since a ^C is for the owner, and with no signal blocked.
 * -1: errno says why there is none. */
pid_t process_start(const struct process_opts *o);

struct process_sleep {
    char state;        /* R, S, D…; 0: unknown */
    char wchan[128];   /* kernel function it sleeps in; "": not told */
    char syscall[128]; /* its number and arguments, or "running"; "": not told */
};
void process_sleep(pid_t pid, struct process_sleep *out);
/* A file of /proc/PID, cut to `cap`, as text; "" and false: it has none.  These reads do not wait
 * for a process that is stuck. */
bool process_read(pid_t pid, const char *name, char *out, size_t cap);

/* True: it has ended, or is none of ours; then `*status`.  Waits for at most `ms`. */
bool process_await(pid_t pid, int64_t ms, int *status);
/* `first_ms`, then twice as long each time, up to PROCESS_BACKOFF_MS_MAX.  `last_ms`: the wait
 * before this one, 0 when there was none; `lived_ms`: how long it lived. */
int64_t process_backoff_ms(int64_t last_ms, int64_t first_ms, int64_t lived_ms);

#endif
