/* SPDX-License-Identifier: MIT */
/* monitor: a run that is watched, and what is reported of it.  README.md has the picture. */
#ifndef MONITOR_MONITOR_H
#define MONITOR_MONITOR_H
#include "base/args.h"
#include "base/text/table.h"
#include "spec/spec.h"

struct monitor_opts {
    const char *file, *component; /* of a spec */
    const char *interval, *duration, *host, *token_file, *ca_file, *replay, *csv, *memory_csv, *svg;
    const char *output, *root, *gpu_library;
    struct opt_strs targets, scrape;
    bool json, quiet, no_gpu, fail_on_target, no_defaults, no_verify, full;
    int64_t interval_ms, duration_ms; /* monitor_check() fills them; 0: no end */
};

/* Where a report goes that names no file, and what the process ends with. */
struct monitor_out {
    const struct term *out_term, *err_term;
    struct buf *out;
    int status; /* the command's, as a shell's; 1: a target is failed; 0 */
};

/* Reads the times; what excludes each other is RC_USAGE. */
enum rc monitor_check(struct monitor_opts *o, bool has_command, struct err *err) MUST_USE;
/* To its end, and its report.  `spec` may be NULL; `command`: an argv for execvp(), NULL: none. */
enum rc monitor_run(const struct monitor_opts *o, const struct spec *spec, char **command,
                    struct monitor_out *out, struct err *err) MUST_USE;
#endif
