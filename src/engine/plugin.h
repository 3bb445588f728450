/* SPDX-License-Identifier: MIT */
/* plugin: finds the CUDA plug-in and asks it, from a child process.
 *
 * stoker-cuda.so is looked for in $STOKER_PLUGIN_DIR, beside the program, in
 * ../lib/stoker from there, and in /usr/lib/stoker.  It is never loaded into this
 * process for that: a wedged GPU or a broken driver costs only the child.  That it is absent
 * is an answer, not an error.
 *
 * A device to run models on may come as a plug-in too (engine_plugin.h): that one is loaded by
 * whoever asks for the device by name: a command, or a server's worker (worker.h). */
#ifndef ENGINE_PLUGIN_H
#define ENGINE_PLUGIN_H
#include "base/attr.h"
#include "base/err.h"
#include "engine/cuda/cuda_plugin.h"

#include <stdbool.h>

enum {
    PLUGIN_PATH_MAX = 1024,
    PLUGIN_WHY_MAX = 512,
    PLUGIN_NAME_MAX = 16, /* letters of a device's name */
    /* Between two steps.  Creating a context on a node of eight GPUs without
     * persistence mode takes several seconds; a wedged one takes for ever. */
    PLUGIN_STALL_MS = 20000,
    PLUGIN_ANSWER_MAX = 256 << 10 /* bytes a child may send */
};

struct plugin_probe {
    char *path;               /* the plug-in that was asked; owned; NULL: none was found */
    char why[PLUGIN_WHY_MAX]; /* why there is no answer; "" when there is one */
    bool hung;                /* a call did not return: `why` names it, the pid and the place */
    struct stoker_cuda_device *devices; /* owned; those done before a hang are here */
    size_t count;
};

/* The plug-in's path in `out`, or false and the places looked at in `why`. */
bool plugin_find(const char *dir, char out[PLUGIN_PATH_MAX], char why[PLUGIN_WHY_MAX]);

/* The CUDA that the plug-in at `path` was built with, 13000: 13.0; 0: it does not say, or cannot be
 * loaded.  It is loaded into this process, and calls no driver. */
int plugin_cuda_version(const char *path);

/* Runs the probe in a child; `dir` is looked at first (NULL: only the usual places);
 * stall_ms 0 is PLUGIN_STALL_MS.  `out` starts all zero.  Never fails: what went wrong is
 * in out->why. */
void plugin_cuda_probe(const char *dir, long stall_ms, struct plugin_probe *out);
void plugin_probe_release(struct plugin_probe *p);

#endif
