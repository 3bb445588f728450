/* SPDX-License-Identifier: MIT */
/* stoker plan train --json. */
#include "base/mem.h"
#include "cmd/plan/plan_train_int.h"

#include <stdlib.h>

static void num_or_null(struct json_out *w, const char *key, double v)
{
    json_key(w, key);
    if (v > 0)
        json_add_num(w, v);
    else
        json_add_null(w);
}

static void json_pick(struct json_out *w, const struct train_job *j, const struct plan_case *k,
                      const struct plan_pick *pick)
{
    struct plan_figures f;

    if (!pick) {
        json_add_null(w);
        return;
    }
    plan_case_figures(k, &j->goal, &pick->config, &f);
    f.step_s_low = f.time.step_s * j->band_low;
    f.step_s_high = f.time.step_s * j->band_high;
    json_obj(w);
    plan_json_config(w, &pick->config);
    fields_write_members(w, &train_time_table, &f);
    fields_write_members(w, &train_cost_table, &f);
    json_kv_obj(w, "parts_s");
    for (int i = 0; i < PLAN_PARTS; i++)
        json_kv_num(w, plan_part_names[i], f.time.part[i]);
    json_obj_end(w);
    json_obj_end(w);
}

#define S struct plan_case
static const struct field case_fields[] = {
    FIELD_OF("gpu", S, cluster.gpu.name, "kind of GPU"),
    FIELD_OF("gpus", S, cluster.gpus, "GPUs in all"),
    FIELD_OF("node_gpus", S, cluster.node_gpus, "of an NVLink domain"),
    FIELD_OF("network_bytes_s", S, cluster.net_bytes_s, "of a node, one direction"),
    FIELD_OF("gpu_hour_dollars", S, price, "of a GPU-hour", .above_0 = true),
    FIELD_OF("constants", S, consts.kind, "whose constants are taken"),
    FIELD_OF("limit_bytes", S, space.limit, "that a GPU has"),
    FIELD_OF("configurations", S, found.tried, "that were computed"),
    FIELD_OF("fit", S, found.fit, "of them, that fit"),
};
static FIELD_TABLE(case_table, "cluster", S, case_fields);
#undef S

static void json_case(struct json_out *w, const struct train_job *j, const struct plan_case *k)
{
    const struct plan_pick *choice = plan_choice(&k->found);
    const struct plan_pick *second = choice ? plan_runner_up(&k->found, &choice->config) : NULL;

    json_obj(w);
    fields_write_members(w, &case_table, k);
    json_kv_obj(w, "refused");
    for (int i = 1; i < PLAN_RULES; i++)
        if (k->found.excluded[i])
            json_kv_int(w, plan_rule_names[i], (int64_t)k->found.excluded[i]);
    json_obj_end(w);
    json_key(w, "choice");
    json_pick(w, j, k, choice);
    json_key(w, "runner_up");
    json_pick(w, j, k, second);
    json_kv_arr(w, "top");
    for (size_t i = 0; i < k->found.top_count; i++)
        json_pick(w, j, k, &k->found.top[i]);
    json_arr_end(w);
    json_obj_end(w);
}

static void json_clusters(struct json_out *w, const void *obj)
{
    const struct train_job *j = obj;

    json_kv_arr(w, "clusters");
    for (size_t i = 0; i < j->count; i++)
        json_case(w, j, &j->cases[i]);
    json_arr_end(w);
}

static void json_front(struct json_out *w, const void *obj)
{
    const struct train_job *j = obj;
    struct plan_point *p = xcalloc(CASES_MAX * (size_t)PLAN_FRONT_MAX, sizeof(*p));
    size_t n = plan_cases_front(j->cases, j->count, p, CASES_MAX * (size_t)PLAN_FRONT_MAX);

    json_kv_arr(w, "front");
    for (size_t i = 0; i < n; i++) {
        json_obj(w);
        json_kv_int(w, "cluster", (int64_t)p[i].cluster);
        plan_json_config(w, &p[i].pick->config);
        json_kv_num(w, "tokens_s", 1 / p[i].token_s);
        json_kv_num(w, "free_bytes", p[i].headroom);
        num_or_null(w, "dollars_per_billion_tokens", p[i].dollars * 1e9);
        json_obj_end(w);
    }
    json_arr_end(w);
    free(p);
}

static void json_varies(struct json_out *w, const void *obj)
{
    const struct train_job *j = obj;

    json_kv_arr(w, "sensitivity");
    for (int i = 0; j->vary && i < PLAN_VARIES; i++) {
        const struct plan_vary *v = &j->varies[i];

        json_obj(w);
        json_kv_str(w, "with", v->name);
        json_key(w, "choice");
        if (v->any) {
            json_obj(w);
            plan_json_config(w, &v->best.config);
            json_kv_num(w, "step_s", v->best.step_s);
            json_obj_end(w);
        } else {
            json_add_null(w);
        }
        num_or_null(w, "todays_choice_step_s", v->same_valid ? v->same.step_s : 0);
        json_kv_bool(w, "todays_choice_fits", v->same_fits);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_batch_from(struct json_out *w, const void *obj)
{
    const struct train_job *j = obj;

    json_kv_str(w, "batch_from", j->batch_usual ? "published runs" : "given");
}

static void json_flops(struct json_out *w, const void *obj)
{
    (void)obj;
    json_kv_str(w, "flops", plan_flops_names[PLAN_FLOPS_FULL]);
}

#define S struct train_job
static const struct field train_fields[] = {
    FIELD_BY(train_spec_json),
    FIELD_OF("model", S, model.name, "that is trained"),
    FIELD_OF("parameters", S, counts.total, "of it"),
    FIELD_OF("active_parameters", S, counts.active, "that a token meets"),
    FIELD_OF("batch", S, batch, "sequences in a step"),
    FIELD_BY(json_batch_from),
    FIELD_OF("seq", S, base.seq, "tokens in a sequence"),
    FIELD_OF("tokens", S, goal.tokens, "to train on", .above_0 = true),
    FIELD_BY(json_flops),
    FIELD_OF("band_low", S, band_low, "of a predicted time, at the low end"),
    FIELD_OF("band_high", S, band_high, "at the high end"),
    FIELD_OF("band_source", S, band_source, "which published runs"),
    FIELD_OF("gpus_in_time", S, gpus_in_time, "that would meet --days", .above_0 = true),
    FIELD_OF("chosen", S, chosen, "place in clusters"),
    FIELD_BY(json_clusters),
    FIELD_BY(json_front),
    FIELD_BY(json_varies),
};
static FIELD_TABLE(train_doc, "stoker.plan-train/1", S, train_fields);
#undef S

void train_json(struct cmd_ctx *ctx, const struct train_job *j)
{
    fields_write_report(&ctx->out, &train_doc, j);
}
