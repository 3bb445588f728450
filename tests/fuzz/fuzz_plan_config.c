/* SPDX-License-Identifier: MIT */
/* A config.json that is read gives a model whose counts, FLOPs and memory are numbers that can
 * be: nothing overflows, whatever the configuration that the rules let through. */
#include "fuzz.h"

#include "plan/plan.h"
#include "plan/plan_int.h"

#include <math.h>
#include <stdlib.h>

/* Cuts from the last bytes of the input. */
static void config_from(const uint8_t *d, size_t size, struct plan_config *c)
{
    static const int32_t sizes[] = { 1, 2, 3, 4, 8, 16, 64, 1 << 20 };
    int32_t *const fields[] = { &c->tp, &c->pp, &c->vpp,         &c->cp,
                                &c->ep, &c->dp, &c->micro_batch, &c->grad_acc };

    plan_config_init(c);
    for (size_t i = 0; i < ARRAY_SIZE(fields) && i < size; i++)
        *fields[i] = sizes[d[size - 1 - i] % ARRAY_SIZE(sizes)];
    if (size > 9) {
        c->zero = d[size - 9] % 4;
        c->recompute = (enum plan_recompute)(d[size - 9] / 4 % 3);
        c->seq_par = d[size - 9] / 12 % 2;
        c->profile.flash = d[size - 10] % 2;
        c->profile.split = (enum plan_split)(d[size - 10] / 2 % 4);
        c->seq = INT64_C(1) << (d[size - 10] / 8 % 27);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_recompute_share all = { 1, 1 };
    struct plan_memory mem;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    if (plan_model_from_hf((const char *)data, size, &m, NULL))
        return 0;
    if (plan_model_counts(&m, &n, NULL) || !n.total || n.active > n.total)
        abort();
    if (!isfinite(plan_flops_token(&m, 4096, PLAN_FLOPS_HARDWARE, all)))
        abort();
    config_from(data, size, &c);
    if (plan_config_rule(&m, NULL, &c) != PLAN_RULE_OK)
        return 0;
    plan_memory_of(&m, &n, &c, &plan_memory_default, &mem);
    if (!mem.total || mem.total > 16 * PLAN_BYTES_MAX - 1)
        abort();
    return 0;
}
