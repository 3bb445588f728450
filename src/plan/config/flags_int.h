/* SPDX-License-Identifier: MIT */
/* flags_int: what the files that print commands share. */
#ifndef PLAN_CONFIG_FLAGS_INT_H
#define PLAN_CONFIG_FLAGS_INT_H
#include "plan/plan.h"

struct plan_megatron_model {
    const char *name;    /* beginning of the model's */
    const char *flags;   /* NULL: none */
    const char *not_set; /* what the command does not say; NULL: nothing */
};
void plan_megatron_model_of(const struct plan_model *m, struct plan_megatron_model *out);

#endif
