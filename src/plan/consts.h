/* SPDX-License-Identifier: MIT */
/* consts: the numbers of the time model that are not counts, from data/plan.csv.
 *
 * A row of the file is a kind of GPU ("all" holds for every kind, a kind's own row goes before it),
 * a name, the value, whether the fit may change it, where the fit starts, how far it may go (a
 * prior's width in natural logarithms), what it means, and where it comes from. */
#ifndef PLAN_CONSTS_H
#define PLAN_CONSTS_H
#include "plan/step_time.h"

#include <assert.h>

enum plan_const {
    PLAN_C_GEMM,
    PLAN_C_TAIL,
    PLAN_C_K0,
    PLAN_C_FP8,
    PLAN_C_ATTN,
    PLAN_C_AT_NANO,
    PLAN_C_AT_FSDP,
    PLAN_C_AT_FUSED,
    PLAN_C_HBM,
    PLAN_C_EL_MEG,
    PLAN_C_EL_FSDP,
    PLAN_C_EL_NANO,
    PLAN_C_EL_FUSED,
    PLAN_C_SMB,
    PLAN_C_LOSSB,
    PLAN_C_HOST,
    PLAN_C_HOSTTP,
    PLAN_C_HOSTB,
    PLAN_C_FUSE,
    PLAN_C_NVL,
    PLAN_C_NLAT,
    PLAN_C_NET,
    PLAN_C_CON,
    PLAN_C_NICP,
    PLAN_C_AGX,
    PLAN_C_XLAT,
    PLAN_C_OVL,
    PLAN_C_STEP,
    PLAN_C_MB,
    PLAN_C_PPX,
    PLAN_C_MOE,
    PLAN_C_MSYNC,
    /* the same for every kind; picked or counted, never fitted */
    PLAN_C_HOP,
    PLAN_C_XLOG,
    PLAN_C_EXPOSED,
    PLAN_C_EARLY,
    PLAN_C_MISALIGN,
    PLAN_C_PRESS,
    PLAN_C_PRESSAT,
    PLAN_C_EFA,
    PLAN_C_OPA,
    PLAN_C_OPS,
    PLAN_C_OPSNF,
    PLAN_C_OPSMOE,
    PLAN_C_LOSSF,
    PLAN_C_FLOOR,
    PLAN_C_PCIE,
    PLAN_C_HOSTMEM,
    PLAN_C_CORNER,
    PLAN_C_PCON,
    PLAN_C_COUNT
};
static_assert((int)PLAN_C_COUNT <= (int)PLAN_CONSTS_MAX, "room for every constant");
extern const char *const plan_const_names[PLAN_C_COUNT];
/* The name of a row's constant, of time or of memory. */
struct plan_const_row;
const char *plan_const_name(const struct plan_const_row *r);

enum { PLAN_CONST_KINDS_MAX = 8, PLAN_CONST_ROWS_MAX = 256, PLAN_FREE_MAX = 16 };

/* A row of data/plan.csv; texts are borrowed from the arena. */
struct plan_const_row {
    const char *kind;
    enum plan_const
        which; /* PLAN_C_COUNT and above: of plan_memory_const_table (step_memory_int.h) */
    double value, start, width;
    bool free;
    const char *meaning, *source;
};
struct plan_const_table {
    struct plan_const_row *rows;
    size_t count;
};
/* The table that is built in. */
enum rc plan_consts_table(struct arena *a, struct plan_const_table *out, struct err *err) MUST_USE;

#endif
