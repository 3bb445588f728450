/* SPDX-License-Identifier: MIT */
/* plan_train_spec: a training job out of a component of stoker.yaml.
 *
 * A spec says of a component what `stoker plan train` asks for with options: the model's shape, the
 * machines and their network, batch, precision, sizes.  Each fact becomes the value of the option
 * that would say it, unless the user gave that option, and is kept with its key and line for the
 * answer.  What the spec lacks is asked for by its key. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "cmd/plan/plan_train_int.h"
#include "render/render.h"
#include "spec/spec.h"

#include <inttypes.h>
#include <math.h>
#include <strings.h>

struct spec_wish { /* of one component */
    struct train_opts *o;
    struct train_job *j;
    const struct spec *spec;
    const struct spec_component *c;
    const struct spec_training *t;
    const struct spec_shape *shape; /* NULL: none */
    const struct spec_node *node;   /* NULL: none */
};

/* Sets an option that is not given to `value`, which `member` of the spec at `key` says. */
static void wish_set(struct spec_wish *w, const char **opt, const char *option, const void *member,
                     const char *key, const char *value)
{
    struct train_job *j = w->j;

    if (opt && *opt)
        return;
    value = arena_strdup(&j->arena, value);
    if (opt)
        *opt = value;
    if (j->given_count < TRAIN_GIVEN_MAX)
        j->given[j->given_count++] =
            (struct train_given){ option, value, arena_strdup(&j->arena, key),
                                  spec_where(w->spec, member).line,
                                  arena_strdup(&j->arena, spec_where(w->spec, member).file) };
}

/* "components.train.training.seq_len" */
static const char *component_key(struct spec_wish *w, const char *rest)
{
    return arena_printf(&w->j->arena, "components.%s.%s", w->c->name, rest);
}

static enum rc wish_lacks(struct spec_wish *w, const char *key, const char *option, struct err *err)
{
    err_hint(err, "Set '%s' in '%s', or give %s.", key, spec_file(w->spec), option);
    return err_set(err, RC_USAGE, "the spec does not say '%s'", key);
}

/* ---- the model ---- */

/* Gated and plain layers differ in parameters: the one that comes nearer to the count it is. */
static enum rc model_from_sizes(struct spec_wish *w, struct plan_model *out, struct err *err)
{
    const struct spec_shape *s = w->shape;
    struct plan_model best = { 0 };
    double nearest = INFINITY;

    for (int gated = 1; gated >= 0; gated--) {
        struct plan_model m = { .layers = s->layers.v,
                                .hidden = s->hidden.v,
                                .heads = s->heads.v,
                                .kv_heads = maybe_or(s->kv_heads, s->heads.v),
                                .ffn = s->ffn.v,
                                .vocab = s->vocab.v,
                                .tied = s->tied_embeddings,
                                .head = true,
                                .gated = gated,
                                .layer_norms = 2,
                                .outer_norms = 1 };
        struct plan_counts n;
        double off;

        if (s->kind == SPEC_SHAPE_MOE) {
            m.experts = s->experts.v;
            m.top_k = s->experts_per_token.v;
            m.expert_ffn = s->ffn.v;
            m.shared_ffn = maybe_or(s->shared_experts, 0) * s->ffn.v;
        }
        (void)str_copy(m.name, sizeof(m.name), s->name);
        if (plan_model_check(&m, err) || plan_model_counts(&m, &n, err))
            return err_ctx(err, "shape '%s'", s->name);
        off = s->params.known ? fabs((double)n.total - (double)s->params.v) : !gated;
        if (off < nearest) {
            nearest = off;
            best = m;
        }
    }
    *out = best;
    return RC_OK;
}

/* The first size of the shape that is not there; NULL: all are. */
static const char *missing_size(const struct spec_shape *s)
{
    const struct {
        const char *key;
        bool known;
    } rows[] = {
        { "layers", s->layers.known },
        { "hidden", s->hidden.known },
        { "heads", s->heads.known },
        { "ffn", s->ffn.known },
        { "vocab", s->vocab.known },
        { "experts", s->kind != SPEC_SHAPE_MOE || s->experts.known },
        { "experts_per_token", s->kind != SPEC_SHAPE_MOE || s->experts_per_token.known },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (!rows[i].known)
            return rows[i].key;
    return NULL;
}

static enum rc wish_model(struct spec_wish *w, struct err *err)
{
    const struct spec_shape *s = w->shape;
    const char *lacks;

    if (w->o->model)
        return RC_OK;
    if (!s)
        return wish_lacks(w, component_key(w, "training.shape"), "--model", err);
    wish_set(w, NULL, "--model", &w->t->shape, component_key(w, "training.shape"), s->name);
    if (s->config) {
        w->o->model = arena_strdup(&w->j->arena, s->config);
        return RC_OK;
    }
    w->j->measured = s->kind == SPEC_SHAPE_VISION || s->kind == SPEC_SHAPE_OTHER;
    if (w->j->measured)
        return RC_OK;
    lacks = missing_size(s);
    if (!lacks)
        return model_from_sizes(w, &w->j->model, err);
    if (s->kind == SPEC_SHAPE_DENSE && s->params.known && s->layers.known && s->hidden.known) {
        w->o->model = arena_printf(&w->j->arena, "%" PRId64 ",%" PRId64 ",%" PRId64, s->params.v,
                                   s->layers.v, s->hidden.v);
        return RC_OK;
    }
    return wish_lacks(w, arena_printf(&w->j->arena, "shapes.%s.%s", s->name, lacks), "--model",
                      err);
}

/* ---- machines ---- */

/* Of all adapters of a machine; 0: the spec does not say. */
static int64_t node_rate(const struct spec_wish *w)
{
    const struct spec_strs *names = w->c->fabrics.count ? &w->c->fabrics : &w->node->fabrics;
    int64_t rate = 0;

    for (size_t i = 0; i < names->count; i++) {
        const struct spec_fabric *f = spec_fabric_find(w->spec, names->items[i]);

        if (f) {
            struct spec_nics_of nics = spec_group_nics(w->node, f);

            rate += nics.rate_bps * nics.count;
        }
    }
    return rate;
}

/* What the page and the alerts of the site count for a GPU of the group. */
static void wish_price(struct spec_wish *w)
{
    const struct spec_node *n = w->node;
    struct render_cost c = render_cost_of(w->spec, n);
    const char *key = c.from == &n->price ? "price" : "capex";
    char text[UNITS_TEXT_MAX];
    double hour;

    if (!n->gpus_per_node || !render_cost_hour(w->spec, n, &hour))
        return;
    snprintf(text, sizeof(text), "%.6g", hour / (double)n->gpus_per_node);
    wish_set(w, &w->o->price, "--price", c.from,
             c.from == &w->spec->prices.gpu_hour
                 ? "prices.gpu_hour"
                 : arena_printf(&w->j->arena, "nodes.%s.%s", n->name, key),
             text);
}

/* Replicas of a component that trains do so together. */
static int64_t wish_gpus(const struct spec_wish *w)
{
    int64_t replicas = w->c->replicas;

    if (replicas < 1)
        replicas = w->c->scale && w->c->scale->max > 0 ? w->c->scale->max : 1;
    return w->c->gpus * w->c->nodes_per_replica * replicas;
}

/* GPUs of each machine that the component takes, where it is some of them on several machines: then
 * no more share NVLink, nor adapters; 0: all of them, or one machine's. */
static int64_t part_of_machine(const struct spec_wish *w)
{
    const struct spec_node *n = w->node;

    return !n->nvlink_domain.known && w->c->nodes_per_replica > 1 && w->c->gpus < n->gpus_per_node
               ? w->c->gpus
               : 0;
}

/* The planner's node is an NVLink domain: the machine, a part of it, or several machines whose
 * NVLink is one, with the networks of all of them. */
static void wish_domain(struct spec_wish *w)
{
    const struct spec_node *n = w->node;
    struct arena *a = &w->j->arena;
    bool wide = n->nvlink_domain.known;
    int64_t machines = wide && n->gpus_per_node ? n->nvlink_domain.v / n->gpus_per_node : 1;
    int64_t rate = node_rate(w), part = part_of_machine(w);
    const char *key = w->c->fabrics.count ? component_key(w, "fabrics")
                                          : arena_printf(a, "nodes.%s.fabrics", n->name);
    const char *of =
        part ? component_key(w, "gpus")
             : arena_printf(a, "nodes.%s.%s", n->name, wide ? "nvlink_domain" : "gpus_per_node");
    const void *from = wide   ? (const void *)&n->nvlink_domain
                       : part ? (const void *)&w->c->gpus
                              : (const void *)&n->gpus_per_node;
    char text[UNITS_TEXT_MAX];

    w->o->machine = part ? part : n->gpus_per_node;
    if (w->o->node) { /* the user's domain: as many machines as make it */
        machines = n->gpus_per_node ? w->o->node / n->gpus_per_node : 1;
        part = 0;
    } else if (n->gpus_per_node) {
        w->o->node = wide ? n->nvlink_domain.v : part ? part : n->gpus_per_node;
        snprintf(text, sizeof(text), "%" PRId64, w->o->node);
        wish_set(w, NULL, "--node", from, of, text);
    }
    if (machines > 1)
        key = arena_printf(a, "%s x %" PRId64 " machines", key, machines);
    if (part) {
        key =
            arena_printf(a, "%s, of %" PRId64 " of %" PRId64 " GPUs", key, part, n->gpus_per_node);
        rate = rate * part / n->gpus_per_node;
    }
    if (rate > 0)
        wish_set(w, &w->o->net, "--net", w->c->fabrics.count ? &w->c->fabrics : &n->fabrics, key,
                 units_rate_exact((uint64_t)(rate * (machines > 1 ? machines : 1)), text));
}

static enum rc wish_machines(struct spec_wish *w, struct err *err)
{
    char text[UNITS_TEXT_MAX];

    if (!w->node && (!w->o->gpu || !w->o->gpus))
        return wish_lacks(w, component_key(w, "nodes"), "--gpu and --gpus", err);
    if (!w->o->gpu && (!w->node->gpu || !w->node->gpu->model))
        return wish_lacks(w, arena_printf(&w->j->arena, "nodes.%s.gpu.model", w->node->name),
                          "--gpu", err);
    if (!w->o->gpus && wish_gpus(w) < 1)
        return wish_lacks(w, component_key(w, "gpus"), "--gpus", err);
    snprintf(text, sizeof(text), "%" PRId64, wish_gpus(w));
    wish_set(w, &w->o->gpus, "--gpus", &w->c->gpus,
             component_key(w, w->c->replicas > 1 ? "gpus x nodes_per_replica x replicas"
                                                 : "gpus x nodes_per_replica"),
             text);
    if (!w->node)
        return RC_OK;
    if (w->node->gpu && w->node->gpu->model)
        wish_set(w, &w->o->gpu, "--gpu", &w->node->gpu->model,
                 arena_printf(&w->j->arena, "nodes.%s.gpu.model", w->node->name),
                 w->node->gpu->model);
    wish_domain(w);
    wish_price(w);
    return RC_OK;
}

/* ---- how it is trained ---- */

static const char *precision_of(const struct spec_training *t)
{
    switch (t->precision) {
    case SPEC_PRECISION_FP8:
        return "fp8";
    case SPEC_PRECISION_FP32:
    case SPEC_PRECISION_TF32:
        return "fp32";
    case SPEC_PRECISION_BF16:
    case SPEC_PRECISION_FP16:
        break;
    }
    switch (t->framework) { /* by what each keeps beside 16-bit weights: see plan.h */
    case SPEC_FRAMEWORK_TORCHTITAN:
        return "fsdp";
    case SPEC_FRAMEWORK_DEEPSPEED:
    case SPEC_FRAMEWORK_ACCELERATE:
        return "bf16-grads";
    case SPEC_FRAMEWORK_TORCHRUN:
        return maybe_is(t->parallel.zero, 3) ? "fsdp" : "bf16";
    case SPEC_FRAMEWORK_MEGATRON:
    case SPEC_FRAMEWORK_OTHER:
        break;
    }
    return "bf16";
}

static enum rc wish_optimizer(struct spec_wish *w, struct err *err)
{
    static const char *const names[][2] = {
        { "adamw", "adam" },  { "adam", "adam" },       { "fused_adam", "adam" },
        { "adam8", "adam8" }, { "adamw8bit", "adam8" }, { "adam8bit", "adam8" },
        { "sgd", "sgd" },
    };

    if (w->o->optimizer || !w->t->optimizer)
        return RC_OK;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!strcasecmp(names[i][0], w->t->optimizer)) {
            wish_set(w, &w->o->optimizer, "--optimizer", &w->t->optimizer,
                     component_key(w, "training.optimizer"), names[i][1]);
            return RC_OK;
        }
    err_hint(err, "Give --optimizer: adam, adam8 or sgd, whichever keeps as many bytes.");
    return err_set(err, RC_USAGE,
                   "'%s' of the spec is an optimizer whose memory is not known: '%s'",
                   component_key(w, "training.optimizer"), w->t->optimizer);
}

static void wish_sizes(struct spec_wish *w)
{
    const struct spec_parallel *p = &w->t->parallel;
    const struct {
        const char *word;
        struct maybe v;
    } rows[] = { { "tp", p->tensor },
                 { "pp", p->pipeline },
                 { "cp", p->context },
                 { "ep", p->expert },
                 { "zero", p->zero } };
    struct buf text = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].v.known)
            buf_addf(&text, "%s%s%" PRId64, text.len ? " " : "", rows[i].word, rows[i].v.v);
    if (!p->sequence)
        buf_addf(&text, "%snosp", text.len ? " " : "");
    if (w->t->recompute != SPEC_RECOMPUTE_AUTO)
        buf_addf(&text, "%s%s", text.len ? " " : "",
                 w->t->recompute == SPEC_RECOMPUTE_FULL        ? "full"
                 : w->t->recompute == SPEC_RECOMPUTE_SELECTIVE ? "selective"
                                                               : "none");
    if (text.len)
        wish_set(w, &w->o->fix, "--fix", p->tensor.known ? &p->tensor : &p->zero,
                 component_key(w, "training.parallel"), buf_str(&text));
    buf_release(&text);
}

/* Sequences in a step: told, or of a GPU times the copies of the model. */
static enum rc wish_batch(struct spec_wish *w, struct err *err)
{
    const struct spec_parallel *p = &w->t->parallel;
    int64_t cut = maybe_or(p->tensor, 1) * maybe_or(p->pipeline, 1) * maybe_or(p->context, 1);
    char text[UNITS_TEXT_MAX];

    if (w->o->batch)
        return RC_OK;
    if (w->t->global_batch.known)
        w->o->batch = w->t->global_batch.v;
    else if (w->t->batch_per_gpu.known)
        w->o->batch = w->t->batch_per_gpu.v * (wish_gpus(w) > cut ? wish_gpus(w) / cut : 1);
    else
        return wish_lacks(w, component_key(w, "training.global_batch"), "--batch", err);
    snprintf(text, sizeof(text), "%" PRId64, w->o->batch);
    wish_set(w, NULL, "--batch",
             w->t->global_batch.known ? &w->t->global_batch : &w->t->batch_per_gpu,
             component_key(w, w->t->global_batch.known ? "training.global_batch"
                                                       : "training.batch_per_gpu"),
             text);
    return RC_OK;
}

static void wish_sequence(struct spec_wish *w)
{
    bool own = w->t->seq_len.known;
    char text[UNITS_TEXT_MAX];

    if (!w->o->seq && (own || (w->shape && w->shape->seq_len.known))) {
        w->o->seq = own ? w->t->seq_len.v : w->shape->seq_len.v;
        snprintf(text, sizeof(text), "%" PRId64, w->o->seq);
        wish_set(w, NULL, "--seq", own ? &w->t->seq_len : &w->shape->seq_len,
                 own ? component_key(w, "training.seq_len")
                     : arena_printf(&w->j->arena, "shapes.%s.seq_len", w->shape->name),
                 text);
    }
    if (w->t->tokens.known) {
        snprintf(text, sizeof(text), "%" PRId64, w->t->tokens.v);
        wish_set(w, &w->o->tokens, "--tokens", &w->t->tokens, component_key(w, "training.tokens"),
                 text);
    }
}

static enum rc wish_training(struct spec_wish *w, struct err *err)
{
    bool megatron = w->t->framework == SPEC_FRAMEWORK_MEGATRON ||
                    w->t->framework == SPEC_FRAMEWORK_OTHER ||
                    w->t->framework == SPEC_FRAMEWORK_DEEPSPEED;

    if (wish_batch(w, err) || wish_optimizer(w, err))
        return err->code;
    wish_sequence(w);
    wish_set(w, &w->o->precision, "--precision", &w->t->precision,
             component_key(w, "training.precision"), precision_of(w->t));
    wish_set(w, &w->o->stack, "--stack", &w->t->framework, component_key(w, "training.framework"),
             megatron ? "megatron" : "fsdp");
    wish_sizes(w);
    return RC_OK;
}

/* A shape without layers has nothing to cut: what a machine does with it is another question, which
 * `stoker plan machine` answers from what was measured. */
static enum rc wish_measured(struct spec_wish *w, struct err *err)
{
    const struct spec_shape *s = w->shape;
    struct plan_machine_want *m = &w->j->machine;
    int64_t gpus;

    if (w->o->explain || w->o->compare || w->o->flags || w->o->fix) {
        err_hint(err, "Leave the configuration out, or name a model with --model.");
        return err_set(err, RC_USAGE,
                       "shape '%s' was measured and has no layers to cut, so that there are no "
                       "configurations of it",
                       s->name);
    }
    if (plan_gpu_by_name(w->o->gpu, &m->gpu, err))
        return err->code;
    if (!str_to_i64(w->o->gpus, 10, &gpus) || gpus < 1 || gpus > PLAN_GPUS_MAX)
        return err_set(err, RC_USAGE, "option '--gpus' cannot be '%s'", w->o->gpus);
    m->gpus = gpus;
    m->node_gpus = w->o->node && w->o->node < gpus ? w->o->node : gpus;
    m->cores = w->node ? maybe_or(w->node->cpu_cores, 0) : 0;
    m->params = (double)maybe_or(s->params, 0);
    /* the spec's FLOPs are of the forward pass; backward takes two more */
    m->flops_sample = s->flops_per_sample.known ? 3 * s->flops_per_sample.v : 0;
    m->act_bytes = (double)maybe_or(s->activation_bytes, 0);
    m->batch = maybe_or(w->t->batch_per_gpu, w->o->batch > gpus ? w->o->batch / gpus : 0);
    m->epochs = (double)maybe_or(w->t->epochs, 0);
    return RC_OK;
}

/* ---- the component ---- */

static enum rc find_component(const struct spec *s, const char *name,
                              const struct spec_component **out, struct err *err)
{
    const struct spec_component *found = NULL;
    struct buf names = { 0 };
    size_t trains = 0;

    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        if (!c->training)
            continue;
        trains++;
        buf_addf(&names, "%s%s", names.len ? ", " : "", c->name);
        if (!name || str_eq(c->name, name))
            found = c;
    }
    if (trains)
        err_hint(err, "Those that train: %s.", buf_str(&names));
    if (name && !found && spec_component_find(s, name))
        err_set(err, RC_USAGE, "component '%s' has no 'training'", name);
    else if (name && !found)
        err_set(err, RC_USAGE, "there is no component '%s' in '%s'", name, spec_file(s));
    else if (!found)
        err_set(err, RC_USAGE, "no component of '%s' trains", spec_file(s));
    else if (!name && trains > 1)
        err_set(err, RC_USAGE, "%zu components of '%s' train: name one", trains, spec_file(s));
    buf_release(&names);
    if (!found || (!name && trains > 1))
        return RC_USAGE;
    if (err)
        err->hint[0] = '\0';
    *out = found;
    return RC_OK;
}

enum rc train_spec(struct cmd_ctx *ctx, struct train_opts *o, const char *component,
                   struct train_job *j, struct err *err)
{
    struct spec_wish w = { .o = o, .j = j };
    struct spec *spec = NULL;
    enum rc rc = cmd_spec_read(ctx, o->file, o->json, &spec, err);

    if (rc == RC_OK)
        rc = find_component(spec, component, &w.c, err);
    if (rc == RC_OK) {
        w.spec = spec;
        w.t = w.c->training;
        w.shape = w.t->shape ? spec_shape_find(spec, w.t->shape) : NULL;
        w.node = spec_node_of(spec, w.c->nodes);
        j->file = arena_strdup(&j->arena, o->file);
        j->component = arena_strdup(&j->arena, w.c->name);
        rc = wish_model(&w, err);
    }
    if (rc == RC_OK)
        rc = wish_machines(&w, err);
    if (rc == RC_OK && j->measured)
        rc = wish_measured(&w, err);
    else if (rc == RC_OK)
        rc = wish_training(&w, err);
    spec_free(spec);
    return rc;
}

void train_spec_keep(struct train_job *j, const char *const *options)
{
    size_t kept = 0;

    for (size_t i = 0; i < j->given_count; i++)
        for (size_t k = 0; options[k]; k++)
            if (str_eq(options[k], j->given[i].option))
                j->given[kept++] = j->given[i];
    j->given_count = kept;
}

void train_spec_print(struct cmd_ctx *ctx, const struct train_job *j)
{
    struct table *t;

    if (!j->file)
        return;
    t = table_new();
    table_col(t, "option", TABLE_LEFT);
    table_col(t, "value", TABLE_LEFT);
    table_col(t, "from", TABLE_LEFT);
    for (size_t i = 0; i < j->given_count; i++) {
        const struct train_given *g = &j->given[i];

        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", g->option);
        table_cell(t, COLOUR_NONE, "%s", g->value);
        if (g->line)
            table_cell(t, COLOUR_DIM, "%s:%d: %s", g->file ? g->file : j->file, g->line, g->key);
        else
            table_cell(t, COLOUR_DIM, "%s: %s, its default", j->file, g->key);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    buf_addc(&ctx->out, '\n');
    table_free(t);
}

void train_spec_json(struct json_out *w, const void *train_job)
{
    const struct train_job *j = train_job;

    if (!j->file)
        return;
    json_kv_str(w, "file", j->file);
    json_kv_str(w, "component", j->component);
    json_kv_arr(w, "given");
    for (size_t i = 0; i < j->given_count; i++) {
        const struct train_given *g = &j->given[i];

        json_obj(w);
        json_kv_str(w, "option", g->option);
        json_kv_str(w, "value", g->value);
        json_kv_str(w, "key", g->key);
        if (g->line)
            json_kv_int(w, "line", g->line);
        json_obj_end(w);
    }
    json_arr_end(w);
}
