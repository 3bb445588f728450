/* SPDX-License-Identifier: MIT */
/* compare: machines that should be equal, held side by side.
 *
 * Machines are added one after the other and need not be kept: each becomes rows of text, one for
 * each value of its inventory, and a row remembers which machines have which value.  What is
 * compared comes from the tables of hw/hw_schema.c: all of it but what a row's role takes out (enum
 * field_role).  Elements of a list are compared with their namesakes (mlx5_0 with mlx5_0); those
 * that a PCI address names by their position, where the addresses differ and their number does
 * not: another numbering of buses is one difference and not a hundred. */
#ifndef HW_COMPARE_COMPARE_H
#define HW_COMPARE_COMPARE_H
#include "base/text/table.h"
#include "hw/hw.h"

enum {
    HW_COMPARE_MACHINES_MAX = 4096, /* machines side by side */
    HW_COMPARE_ITEMS_MAX = 8192,    /* elements of one list of an inventory */
    HW_COMPARE_ROWS_MAX = 1 << 17,  /* values and elements of all machines by name */
    HW_COMPARE_SETS_MAX = 1 << 18,  /* of which so many differ, each with its set of machines */
    HW_COMPARE_EACH_MAX = 64,       /* values of one row; machines beyond have "another" */
    HW_COMPARE_IDS_MAX = 1 << 20 /* addresses, GUIDs and UUIDs of all machines; the rest unseen */
};

struct hw_compare_set {
    uint64_t bits[HW_COMPARE_MACHINES_MAX / 64];
};
enum hw_compare_kind {
    HW_COMPARE_KNOWN,
    HW_COMPARE_UNKNOWN, /* null in the inventory: not learned, or there is none */
    HW_COMPARE_MISSING, /* the machine has no such element */
    HW_COMPARE_OTHER    /* more different values than are kept apart */
};
struct hw_compare_value {
    enum hw_compare_kind kind;
    const char *text;          /* KNOWN; numbers in the unit of the inventory */
    struct hw_compare_set set; /* machines that have it, numbered as they were added */
    size_t count;
};
struct hw_compare_diff {
    const char *field;                /* "gpus.vbios" */
    const char *doc;                  /* what that is, with its unit */
    const char *item;                 /* "3", "mlx5_0/1"; "": of the machine itself */
    struct hw_compare_value **values; /* most machines first */
    size_t count;
    bool tie; /* no value has more machines than any other: there is no majority */
};

struct hw_compare_twin { /* a value that only one machine may have, and several do */
    const char *field;   /* "nets.addrs.addr" */
    const char *value;
    const char *what; /* the device that has it on the first of them */
    const struct hw_compare_set *set;
};

struct hw_compare;
struct hw_compare *hw_compare_new(void);
void hw_compare_free(struct hw_compare *c);
/* The next machine; RC_LIMIT when it is one too many, or has too much. */
enum rc hw_compare_add(struct hw_compare *c, const struct hw *hw, struct err *err) MUST_USE;
size_t hw_compare_rows(const struct hw_compare *c); /* values that were compared */
/* What differs, fewest odd machines first; once, when all machines are there.  Borrowed. */
const struct hw_compare_diff *hw_compare_end(struct hw_compare *c, size_t *out_count);
/* Likewise, by field and value. */
const struct hw_compare_twin *hw_compare_twins(struct hw_compare *c, size_t *out_count);
/* Machines whose addresses are masked, so that neither twins nor crossed rails can be seen. */
size_t hw_compare_masked_count(const struct hw_compare *c);

bool hw_compare_in(const struct hw_compare_set *s, size_t machine);

/* compare_print.c.  `names` has one for each machine. */
void hw_compare_names(const struct hw_compare_set *s, const char *const *names, size_t count,
                      struct buf *out); /* "gpu[1-4,7], login1" */
void hw_compare_print(const struct hw_compare_diff *d, size_t count, const char *const *names,
                      size_t names_count, const struct term *term, struct buf *out);
void hw_compare_print_twins(const struct hw_compare_twin *t, size_t count, const char *const *names,
                            size_t names_count, const struct term *term, struct buf *out);
void hw_compare_json_twins(const struct hw_compare_twin *t, size_t count, const char *const *names,
                           size_t names_count, struct json_out *w); /* an array */
void hw_compare_json(const struct hw_compare_diff *d, size_t count, const char *const *names,
                     size_t names_count, struct json_out *w); /* an array */

#endif
