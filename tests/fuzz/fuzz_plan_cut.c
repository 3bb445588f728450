/* SPDX-License-Identifier: MIT */
/* The text of a configuration: what is read is printed and read again as the same, and what the
 * rules let through has a time and a memory that are numbers. */
#include "fuzz.h"

#include "plan/search.h"
#include "plan/search/search_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same(const struct plan_config *a, const struct plan_config *b)
{
    return plan_same_cut(a, b) && a->etp == b->etp && a->zero == b->zero && a->shard == b->shard &&
           a->grad_acc == b->grad_acc && a->seq_par == b->seq_par && a->recompute == b->recompute &&
           a->recompute_every == b->recompute_every && a->precision == b->precision &&
           a->offload_params == b->offload_params && a->offload_optimizer == b->offload_optimizer;
}

static void evaluate(struct plan_config *c, unsigned given)
{
    static struct plan_model m;
    static struct plan_counts n;
    static struct plan_consts k;
    static struct plan_cluster cl;
    struct plan_space s = { .model = &m, .counts = &n, .cluster = &cl, .consts = &k };
    struct plan_pick p;
    struct buf text = { 0 };
    struct plan_gpu g;

    if (!m.layers &&
        (plan_model_by_name("mixtral-8x7b", &m, NULL) || plan_model_counts(&m, &n, NULL) ||
         plan_gpu_by_name("h100", &g, NULL) || plan_consts_builtin(&g, &k, NULL)))
        abort();
    if (!cl.gpus)
        plan_cluster_usual(&g, 64, &cl);
    if (plan_config_complete(c, given, 64, 128, NULL) ||
        plan_config_check(&m, &cl, c, NULL) != RC_OK)
        return;
    plan_pick_of(&s, c, &p);
    if (!isfinite(p.step_s) || !(p.step_s > 0) || !p.memory)
        abort();
    for (int f = 0; f < PLAN_FRAMEWORKS; f++)
        plan_flags(&m, &cl, c, (enum plan_framework)f, &text);
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct plan_config c, again;
    struct buf out = { 0 };
    unsigned given = 0;

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    plan_config_init(&c);
    if (plan_config_parse(text, &c, &given, NULL) == RC_OK) {
        plan_config_text(&c, &out);
        plan_config_init(&again);
        if (plan_config_parse(buf_str(&out), &again, &(unsigned){ 0 }, NULL) != RC_OK ||
            !same(&c, &again))
            abort();
        evaluate(&c, given);
    }
    buf_release(&out);
    free(text);
    return 0;
}
