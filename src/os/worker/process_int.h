/* SPDX-License-Identifier: MIT */
/* process_int: the half of process_start() that a fork which runs a function needs too. */
#ifndef OS_WORKER_PROCESS_INT_H
#define OS_WORKER_PROCESS_INT_H
#include "os/worker/process.h"

/* In a new process: descriptor i is fds[i], -1 /dev/null; all others are closed, so that one that
 * hangs keeps no reader waiting.  False: they could not be put in place. */
bool process_keep(const int *fds, size_t count);

#endif
