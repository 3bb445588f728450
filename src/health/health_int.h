/* SPDX-License-Identifier: MIT */
/* health_int: what the check tables share; nobody outside health/ includes it.
 *
 * Adding a check: write a static function, give it a row in the table of its file, add
 * a row that passes and one that does not to tests/unit/test_health_*.c, and rewrite
 * the page (`make docs`).
 *
 * Texts: `seen` is lower case without a full stop and states the fact with its number;
 * a remedy is one or more full sentences that name the command or the change.  Rows
 * with the same status, fact and remedy fold into one, so put nothing into a remedy
 * that differs from object to object without need. */
#ifndef HEALTH_HEALTH_INT_H
#define HEALTH_HEALTH_INT_H
#include "base/each.h"
#include "health/health.h"
#include "nccl/nccl.h"

struct check_out;

struct health_check {
    const char *id;
    unsigned groups; /* CHECK_* or'ed */
    const char *title;
    const char *doc; /* why it matters, whose rule it is: sentences for the page */
    /* One of these.  `fn` judges the machine; `gpu` each GPU the driver answers for;
     * `port` each RDMA port.  Without such an object the check is skipped. */
    void (*fn)(const struct hw *hw, struct check_out *o);
    void (*gpu)(const struct hw *hw, const struct hw_gpu *g, struct check_out *o);
    void (*port)(const struct hw *hw, const struct hw_rdma *d, const struct hw_rdma_port *p,
                 struct check_out *o);
};

/* A row.  `judge` is one of .fn, .gpu and .port with its function: `.gpu = gpu_heat`. */
#define HEALTH_CHECK(id_, groups_, title_, judge, doc_)                                            \
    {                                                                                              \
        .id = (id_), .groups = (groups_), .title = (title_), .doc = (doc_), judge                  \
    }

struct check_table {
    const struct health_check *rows;
    size_t count;
};
extern const struct check_table checks_gpu, checks_fabric, checks_catalog, checks_rdma,
    checks_training, checks_container, checks_spec;

struct check_out { /* where one check's answers go */
    struct health_list *list;
    const struct health_check *check;
    const char *group;
    const struct health_opts *opts;
    const struct nccl_choice
        *nccl;          /* what NCCL does here: checks judge NICs by it, as --env does */
    unsigned groups;    /* all that were asked for */
    const char *object; /* what check->gpu or check->port is looking at; NULL: the machine */
    size_t first;       /* the check's first row in the list */
    size_t cap;         /* rows allocated */
};

/* One answer about o->object. */
void check_pass(struct check_out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
void check_warn(struct check_out *o, const char *remedy, const char *fmt, ...) PRINTF_LIKE(3, 4);
void check_fail(struct check_out *o, const char *remedy, const char *fmt, ...) PRINTF_LIKE(3, 4);
void check_skip(struct check_out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* `remedy`: how the fact can be learned; NULL when there is no way. */
void check_unknown(struct check_out *o, const char *remedy, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Text in the list's arena, for remedies and object names. */
const char *check_text(struct check_out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* What NCCL makes of a port; NULL: nothing. */
const struct nccl_port *check_nccl_port(const struct check_out *o, const struct hw_rdma *d,
                                        const struct hw_rdma_port *p);

/* ---- checks_acs.c: the check of checks_rdma.c that has a file of its own ---- */
void check_acs(const struct hw *hw, struct check_out *o);

/* ---- health_facts.c: questions several checks ask ---- */
enum { FACTS_NAME_MAX = 64 };
/* "GPU 3", or "0000:1b:00.0" when the driver gave it no index. */
const char *facts_gpu_name(const struct hw_gpu *g, char out[FACTS_NAME_MAX]);
bool facts_gpu_ok(const struct hw_gpu *g);
size_t facts_gpus_ok(const struct hw *hw);
struct maybe facts_gpu_mem_bytes(const struct hw *hw); /* all GPUs that answer */
/* Without the GPUs' own memory, which Grace machines show as nodes without CPUs. */
struct maybe facts_host_mem_bytes(const struct hw *hw);
bool facts_mig_on(const struct hw *hw); /* on some GPU that answers */
bool facts_in_container(const struct hw *hw);
bool facts_is_arm(const struct hw *hw); /* no BIOS to set, another IOMMU */
bool facts_port_active(const struct hw_rdma_port *p);
bool facts_port_ib(const struct hw_rdma_port *p);
bool facts_is_efa(const struct hw_rdma *d);
/* Can this process use the device?  Sysfs shows all devices of the host; in a container a
 * RoCE device is ours when its network device is in this namespace.  When that holds for
 * none, all are taken for ours, and the checks say what they lack. */
bool facts_rdma_ours(const struct hw *hw, const struct hw_rdma *d);
size_t facts_rdma_ours_count(const struct hw *hw);
/* Why a check that looks at our RDMA devices finds none. */
const char *facts_rdma_none(const struct hw *hw);
/* A RoCE device with a network device in this namespace. */
bool facts_rdma_here(const struct hw *hw, const struct hw_rdma *d);
bool facts_rdma_roce(const struct hw_rdma *d);
/* Any RDMA device with an active port? */
bool facts_rdma_active(const struct hw *hw);
/* A net plug-in of NCCL is here, where the loader finds it or by its name among the software. */
bool facts_net_plugin(const struct hw *hw);
/* The newest one found under that name; of NCCL the one that a job loads. */
const struct hw_soft *facts_soft(const struct hw *hw, const char *name);
/* The leading "MAJOR.MINOR" of a version; false when it has none. */
bool facts_version(const char *text, int *major, int *minor);
/* -1, 0, 1; `text` must have passed facts_version(). */
int facts_version_cmp(const char *text, int major, int minor);

const char *health_status_name(enum check_status s); /* "pass" … "unknown" */

#endif
