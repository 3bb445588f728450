/* SPDX-License-Identifier: MIT */
/* health: is this machine fit for GPU work?
 *
 * A check looks at one property of an inventory and answers pass, warn or fail, with
 * what it saw (the evidence, with the object's name) and what to do about it (the
 * remedy).  It does no I/O: the same inventory gives the same answers, on the machine
 * or from a capture.  The one exception is gpu.cuda-runs, which runs a CUDA kernel on
 * this machine when health_opts.deep asks for it.
 *
 * An answer rests on a known fact: a fact that could not be learned gives UNKNOWN, a
 * check that does not apply here gives SKIP, each with the reason; neither is PASS.
 *
 * Objects with the same answer share a row ("GPU 0-7: ECC is on"), so a healthy
 * machine of eight GPUs needs one line a check.
 *
 * Checks live in tables (checks_gpu.c and its neighbours); the reference page
 * docs/reference/checks.md is written from them. */
#ifndef HEALTH_HEALTH_H
#define HEALTH_HEALTH_H
#include "base/text/table.h"
#include "hw/hw.h"
#include "spec/spec.h"

enum check_status { CHECK_PASS, CHECK_WARN, CHECK_FAIL, CHECK_SKIP, CHECK_UNKNOWN };
enum { CHECK_STATUS_COUNT = CHECK_UNKNOWN + 1 };

/* A set of groups; a check may be in several and is answered once. */
enum check_group {
    CHECK_GPU = 1,
    CHECK_RDMA = 2,
    CHECK_TRAINING = 4,
    CHECK_CONTAINER = 8,
    CHECK_ALL = 15, /* of a machine by itself */
    CHECK_SPEC = 16 /* against health_opts.spec */
};
#define CHECK_GROUP_CHOICES "gpu|rdma|training|container|spec|all" /* for the option's table */

struct check_result {
    const char *id;           /* "rdma.memlock" */
    const char *group;        /* "rdma": the first group asked for that holds the check */
    const char *title;        /* "locked memory" */
    enum check_status status; /* PASS, WARN, FAIL: known; SKIP, UNKNOWN: why not */
    const char **objects;     /* "GPU 0", "mlx5_1/1" …: what the row is about; may be empty */
    size_t objects_count;
    const char *seen;     /* the fact only, "ECC is off" */
    const char *evidence; /* objects and fact, "GPU 0-3: ECC is off" */
    const char *remedy;   /* full sentences; NULL for PASS and SKIP */
};

struct health_list {
    struct arena arena; /* everything below lives here */
    struct check_result *rows;
    size_t rows_count;
    size_t counts[CHECK_STATUS_COUNT]; /* rows by status */
};

enum { HEALTH_ROWS_MAX = 4096 }; /* rows in one list; more objects than that share the last */

struct health_opts {
    bool deep;               /* run the CUDA plug-in's probe when the inventory is live */
    const char *plugin_dir;  /* look for the plug-in here first; NULL: the usual places */
    const struct spec *spec; /* what the site asks for; NULL: nothing is known of it */
    long plugin_stall_ms;    /* give up when it is silent for so long; 0: PLUGIN_STALL_MS */
};

/* `list` starts all zero; opts NULL is no options.  Never fails. */
void health_check(const struct hw *hw, unsigned groups, const struct health_opts *opts,
                  struct health_list *out);
void health_list_release(struct health_list *list);
/* FAIL, else WARN, else PASS (also for a list of SKIP and UNKNOWN only). */
enum check_status health_worst(const struct health_list *list);

/* Lines for people; a row that warns or fails has its remedy below it, skipped checks
 * with one reason share a line, a summary ends it. */
void health_print(const struct health_list *list, const struct term *term, struct buf *out);
void health_json(const struct health_list *list, struct buf *out); /* stoker.checks/1 */
void health_doc(struct buf *out); /* Markdown: docs/reference/checks.md */

/* "gpu", "rdma,gpu" or "all" to a set; 0 when a name is unknown. */
unsigned health_group_parse(const char *names);

#endif
