/* SPDX-License-Identifier: MIT */
/* nvml_int: what the files that speak with NVIDIA's driver share.
 *
 *   nvml_abi.h    layouts and numbers of the library
 *   nvml.h        its functions and words, for the GPU collector too
 *   nvml_load.c   finds the library and its functions
 *   nvml_query.c    asks, in a child process that may hang or crash
 *   nvml_link.c   its questions about NVLink, MIG instances and pairs
 *   nvml_words.c  the library's numbers as words, both ways
 *   nvml.c        runs the child or reads a capture, records
 *   nvml_merge.c  joins the answers with what PCI knows
 *
 * The child sends one JSON document of schema stoker.nvml/1 a line, each with a
 * part of the whole ({"nvidia": …}, {"gpus": [one]}, {"pairs": […]}), as it learns
 * it: what came before a hang is kept. */
#ifndef HW_NVML_NVML_INT_H
#define HW_NVML_NVML_INT_H
#include "hw/hw_int.h"
#include "hw/nvml/nvml.h"
#include "os/worker/child.h"

enum {
    NVML_PAIRS_MAX = NVML_GPUS_MAX * (NVML_GPUS_MAX - 1) / 2, /* pairs of them */
    NVML_ERRORS_MAX = 32,                                     /* failed calls kept a GPU */
    NVML_DOC_MAX = 8 << 20                                    /* bytes of a stoker.nvml/1 */
};

/* ---- nvml_query.c: inside the child ---- */
enum { QUERY_NO_SUB = -1 }; /* the call has no argument beside the device */

struct nvml_query { /* one GPU that is being asked, or the driver itself */
    struct child_link *link;
    const struct nvml_api *api;
    struct arena *a;
    struct nvml_dev *dev;
    struct hw_gpu *gpu; /* NULL: the driver itself */
    unsigned index;     /* the driver's number of the GPU */
    int mig;            /* position of the MIG instance asked about; -1: the GPU */
    int scope;          /* link that a field is asked about; -1: none */
    bool lost;          /* it fell off the bus: no more questions */
    int refused;        /* why query_begin() said no */
    struct hw_gpu_err errors[NVML_ERRORS_MAX];
    size_t errors_count;
};

/* The one way to call the library: names the call to the parent first, and keeps a
 * code that is neither success nor "this GPU has no such thing".  `sub` is the
 * argument that tells calls of one name apart (a link, a field), or QUERY_NO_SUB;
 * `args` stand in parentheses. */
#define QUERY_SUB(q, sub, fn, args) QUERY_OR(q, sub, NVML_SUCCESS, fn, args)
#define QUERY(q, fn, args)          QUERY_SUB(q, QUERY_NO_SUB, fn, args)
/* The same, where the code `fine` is an answer like any other: nothing is kept. */
#define QUERY_OR(q, sub, fine, fn, args)                                                           \
    (query_begin((q), "nvml" #fn, (sub), (q)->api->fn != NULL)                                     \
         ? query_end((q), "nvml" #fn, (sub), (fine), (q)->api->fn args)                            \
         : (q)->refused)
bool query_begin(struct nvml_query *q, const char *call, int sub, bool present);
int query_end(struct nvml_query *q, const char *call, int sub, int fine, int rc);
/* Did the library say that it wants an older form of the call? */
bool query_older(int rc);
struct maybe query_field(struct nvml_query *q, enum nvml_field id, int link); /* link -1: none */
/* Printable, in the arena; NULL when empty. */
const char *query_text(struct nvml_query *q, char *text);
struct maybe query_memory(struct nvml_query *q, struct maybe *reserved, struct maybe *used);

void nvml_child(struct child_link *l, void *arg); /* arg: const char *, the library or NULL */

/* ---- nvml_link.c: inside the child ---- */
void query_links(struct nvml_query *q);
void query_migs(struct nvml_query *q);
/* Of two GPUs: q asks as the first. */
void query_pair(struct nvml_query *q, struct nvml_dev *other, unsigned other_index,
                struct hw_gpu_pair *out);

/* ---- nvml.c ---- */
/* Joins the lines that the child sent; a line that is no document is an error. */
enum rc nvml_join(struct arena *a, const char *lines, size_t len, struct hw_nvml *out,
                  struct err *err) MUST_USE;
/* A whole document. */
enum rc nvml_read_json(struct arena *a, const char *text, size_t len, struct hw_nvml *out,
                       struct err *err) MUST_USE;
void nvml_write_json(const struct hw_nvml *n, struct buf *out);
/* Asks the driver; never fails, n->nvidia says what went wrong. */
void nvml_probe(struct arena *a, const struct hw_opts *opts, struct hw_nvml *n);

/* ---- nvml_merge.c ---- */
void nvml_merge(struct hw_build *b, const struct hw_nvml *n);

/* ---- nvml_words.c: the library's numbers as words ---- */
struct nvml_word {
    int code;
    const char *word; /* NULL ends a table */
};
extern const struct nvml_word nvml_brands[], nvml_archs[], nvml_compute_modes[],
    nvml_virtualizations[], nvml_recoveries[], nvml_fabric_states[], nvml_addressings[],
    nvml_link_ends[], nvml_p2p_states[];
/* The word, or "code N" (in the arena) for a number that the table lacks. */
const char *nvml_word(struct arena *a, const struct nvml_word *table, int code);
/* The number of a word that nvml_word() gave; false for anything else. */
bool nvml_code(const struct nvml_word *table, const char *word, int *out);
enum { NVML_BDF_MAX = 24 };
/* "00000000:1B:00.0" to sysfs's "0000:1b:00.0"; false when it is no address, and for
 * all ones, the driver's way to say none. */
bool nvml_bdf(const char *text, char out[NVML_BDF_MAX]);

#endif
