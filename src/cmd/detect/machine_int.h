/* SPDX-License-Identifier: MIT */
/* machine_int: machines that a command line names: captures of `stoker gather` (a tar or a folder),
 * inventories of `stoker detect --json`, or a folder that holds such files. */
#ifndef CMD_DETECT_MACHINE_INT_H
#define CMD_DETECT_MACHINE_INT_H
#include "base/arena.h"
#include "hw/hw.h"

struct machine_paths { /* all zero is an empty one */
    struct arena arena;
    const char **items; /* owned array, paths in the arena */
    size_t count, cap;
};
void machine_paths_release(struct machine_paths *p);
/* The path itself, or what a folder of captures and inventories holds, in the order of the names;
 * RC_LIMIT beyond `max` in all. */
enum rc machine_paths_add(struct machine_paths *p, const char *path, size_t max,
                          struct err *err) MUST_USE;
enum rc machine_read(const char *path, struct hw **out, struct err *err) MUST_USE;
/* "gpu7" of "captures/gpu7.tar": what a machine is called when its host name says nothing. */
const char *machine_stem(struct arena *a, const char *path);

#endif
