/* SPDX-License-Identifier: MIT */
/* stoker plan train --json. */
#include "base/mem.h"
#include "cmd/plan/plan_train_int.h"

#include <stdlib.h>

static void num(struct json_out *w, const char *key, double v)
{
    json_key(w, key);
    json_add_num(w, v);
}

static void num_or_null(struct json_out *w, const char *key, double v)
{
    json_key(w, key);
    if (v > 0)
        json_add_num(w, v);
    else
        json_add_null(w);
}

static void json_one(struct json_out *w, const struct train_job *j, const struct train_case *k,
                     const struct plan_config *c)
{
    struct train_figures f;

    train_figures(j, k, c, &f);
    json_obj(w);
    plan_json_config(w, c);
    num(w, "step_s", f.time.step_s);
    num(w, "step_s_low", f.time.step_s * j->band_low);
    num(w, "step_s_high", f.time.step_s * j->band_high);
    num(w, "tokens_s", f.time.tokens_s);
    num(w, "mfu", f.time.mfu);
    num(w, "hfu", f.time.hfu);
    num(w, "joules", f.time.joules);
    json_kv_int(w, "memory_bytes", (int64_t)f.memory.total);
    num_or_null(w, "days", f.days);
    num_or_null(w, "dollars", f.dollars);
    num_or_null(w, "dollars_per_billion_tokens", f.dollars_btok);
    json_kv_bool(w, "misses_days", f.misses_days);
    json_kv_bool(w, "misses_budget", f.misses_budget);
    json_key(w, "parts_s");
    json_obj(w);
    for (int i = 0; i < PLAN_PARTS; i++)
        num(w, plan_part_names[i], f.time.part[i]);
    json_obj_end(w);
    json_obj_end(w);
}

static void json_case(struct json_out *w, const struct train_job *j, const struct train_case *k)
{
    const struct plan_pick *choice = plan_choice(&k->found);
    const struct plan_pick *second = choice ? plan_runner_up(&k->found, &choice->config) : NULL;

    json_obj(w);
    json_kv_str(w, "gpu", k->cluster.gpu.name);
    json_kv_int(w, "gpus", k->cluster.gpus);
    json_kv_int(w, "node_gpus", k->cluster.node_gpus);
    num(w, "network_bytes_s", k->cluster.net_bytes_s);
    num_or_null(w, "gpu_hour_dollars", k->price);
    json_kv_str(w, "constants", k->consts.kind);
    json_kv_int(w, "limit_bytes", (int64_t)k->space.limit);
    json_kv_int(w, "configurations", (int64_t)k->found.tried);
    json_kv_int(w, "fit", (int64_t)k->found.fit);
    json_key(w, "refused");
    json_obj(w);
    for (int i = 1; i < PLAN_RULES; i++)
        if (k->found.excluded[i])
            json_kv_int(w, plan_rule_names[i], (int64_t)k->found.excluded[i]);
    json_obj_end(w);
    json_key(w, "choice");
    if (choice)
        json_one(w, j, k, &choice->config);
    else
        json_add_null(w);
    json_key(w, "runner_up");
    if (second)
        json_one(w, j, k, &second->config);
    else
        json_add_null(w);
    json_key(w, "top");
    json_arr(w);
    for (size_t i = 0; i < k->found.top_count; i++)
        json_one(w, j, k, &k->found.top[i].config);
    json_arr_end(w);
    json_obj_end(w);
}

static void json_front(struct json_out *w, const struct train_job *j)
{
    struct train_point *p = xcalloc(CASES_MAX * (size_t)PLAN_FRONT_MAX, sizeof(*p));
    size_t n = train_front(j, p, CASES_MAX * (size_t)PLAN_FRONT_MAX);

    json_key(w, "front");
    json_arr(w);
    for (size_t i = 0; i < n; i++) {
        json_obj(w);
        json_kv_int(w, "cluster", (int64_t)p[i].place);
        plan_json_config(w, &p[i].pick->config);
        num(w, "tokens_s", 1 / p[i].token_s);
        num(w, "free_bytes", p[i].headroom);
        num_or_null(w, "dollars_per_billion_tokens", p[i].dollars * 1e9);
        json_obj_end(w);
    }
    json_arr_end(w);
    free(p);
}

static void json_varies(struct json_out *w, const struct train_job *j)
{
    json_key(w, "sensitivity");
    json_arr(w);
    for (int i = 0; j->vary && i < PLAN_VARIES; i++) {
        const struct plan_vary *v = &j->varies[i];

        json_obj(w);
        json_kv_str(w, "with", v->name);
        json_key(w, "choice");
        if (v->any) {
            json_obj(w);
            plan_json_config(w, &v->best.config);
            num(w, "step_s", v->best.step_s);
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

void train_json(struct cmd_ctx *ctx, const struct train_job *j)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-train/1");
    train_spec_json(&w, j);
    json_kv_str(&w, "model", j->model.name);
    json_kv_int(&w, "parameters", (int64_t)j->counts.total);
    json_kv_int(&w, "active_parameters", (int64_t)j->counts.active);
    json_kv_int(&w, "batch", j->batch);
    json_kv_str(&w, "batch_from", j->batch_usual ? "published runs" : "given");
    json_kv_int(&w, "seq", j->base.seq);
    num_or_null(&w, "tokens", j->tokens);
    json_kv_str(&w, "flops", plan_flops_names[PLAN_FLOPS_FULL]);
    num(&w, "band_low", j->band_low);
    num(&w, "band_high", j->band_high);
    json_kv_str(&w, "band_source", j->band_source);
    num_or_null(&w, "gpus_in_time", (double)j->gpus_in_time);
    json_kv_int(&w, "chosen", (int64_t)j->chosen);
    json_key(&w, "clusters");
    json_arr(&w);
    for (size_t i = 0; i < j->count; i++)
        json_case(&w, j, &j->cases[i]);
    json_arr_end(&w);
    json_front(&w, j);
    json_varies(&w, j);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}
