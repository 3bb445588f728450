/* SPDX-License-Identifier: MIT */
/* config_parse: a configuration from the words plan_config_text() writes. */
#include "plan/search.h"

#include "base/str.h"
#include "plan/plan_int.h"

enum { WORD_MAX = 48 };

struct size_word {
    const char *name;
    size_t off; /* of an int32_t in plan_config */
    unsigned bit;
    int64_t min, max;
};
#define SIZE(name, field, bit, min, max)                                                           \
    {                                                                                              \
        name, offsetof(struct plan_config, field), bit, min, max                                   \
    }
static const struct size_word sizes[] = {
    SIZE("tp", tp, PLAN_GIVEN_TP, 1, PLAN_GPUS_MAX),
    SIZE("pp", pp, PLAN_GIVEN_PP, 1, PLAN_STAGES_MAX),
    SIZE("vpp", vpp, PLAN_GIVEN_VPP, 1, PLAN_LAYERS_MAX),
    SIZE("cp", cp, PLAN_GIVEN_CP, 1, PLAN_GPUS_MAX),
    SIZE("ep", ep, PLAN_GIVEN_EP, 1, PLAN_GPUS_MAX),
    SIZE("etp", etp, PLAN_GIVEN_ETP, 0, PLAN_GPUS_MAX),
    SIZE("dp", dp, PLAN_GIVEN_DP, 1, PLAN_GPUS_MAX),
    SIZE("zero", zero, PLAN_GIVEN_ZERO, 0, 3),
    SIZE("shard", shard, PLAN_GIVEN_SHARD, 0, PLAN_GPUS_MAX),
    SIZE("mbs", micro_batch, PLAN_GIVEN_MICRO_BATCH, 1, PLAN_BATCH_MAX),
    SIZE("ga", grad_acc, PLAN_GIVEN_GRAD_ACC, 1, PLAN_BATCH_MAX),
    SIZE("every", recompute_every, PLAN_GIVEN_EVERY, 1, PLAN_LAYERS_MAX),
};
/* Words without a number.  "recompute" and "layers" only stand behind others. */
static const char *const words[] = {
    "sp",           "nosp",        "none",      "selective", "full",        "1f1b",
    "gpipe",        "interleaved", "bf16",      "fsdp",      "pure",        "bf16-grads",
    "fp8",          "fp32",        "recompute", "layers",    "offload-all", "offload-optimizer",
    "offload-none", "norm",        "act",       "mla-up",    "experts",     "shared-experts"
};

/* The next word of `*text` into `out`; false at the end. */
static bool next_word(const char **text, char out[WORD_MAX])
{
    const char *p = *text + strspn(*text, " ,\t\n");
    size_t len = strcspn(p, " ,\t\n");

    *text = p + len;
    if (!len)
        return false;
    snprintf(out, WORD_MAX, "%.*s", len < WORD_MAX ? (int)len : WORD_MAX - 1, p);
    return true;
}

static int op_place(const char *w)
{
    int i = 0;

    while (i < PLAN_OPS && !str_eq(plan_op_names[i], w))
        i++;
    return i < PLAN_OPS ? i : -1;
}

bool plan_ops_parse(const char *text, uint32_t *out)
{
    uint32_t ops = 0;
    char w[WORD_MAX];

    while (next_word(&text, w)) {
        int i = op_place(w);

        if (i < 0)
            return false;
        ops |= 1u << i;
    }
    *out = ops;
    return ops != 0;
}

static bool set_enum(struct plan_config *c, const char *w, unsigned *bit)
{
    int i;

    if ((i = plan_name_place(plan_recompute_names, w, -1)) >= 0) {
        c->recompute = (enum plan_recompute)i;
        *bit = PLAN_GIVEN_RECOMPUTE;
    } else if ((i = plan_name_place(plan_schedule_names, w, -1)) >= 0) {
        c->schedule = (enum plan_schedule)i;
        *bit = PLAN_GIVEN_SCHEDULE;
    } else if ((i = plan_name_place(plan_precision_names, w, -1)) >= 0) {
        c->precision = (enum plan_precision)i;
        *bit = PLAN_GIVEN_PRECISION;
    } else if (str_eq(w, "sp") || str_eq(w, "nosp")) {
        c->seq_par = *w == 's';
        *bit = PLAN_GIVEN_SP;
    } else if (str_starts(w, "offload-")) {
        c->offload_params = str_eq(w, "offload-all");
        c->offload_optimizer = c->offload_params || str_eq(w, "offload-optimizer");
        *bit = PLAN_GIVEN_OFFLOAD;
        return c->offload_optimizer || str_eq(w, "offload-none");
    } else if ((i = op_place(w)) >= 0) {
        *bit = 0;
        if (c->recompute_ops >> i & 1)
            return false;
        c->recompute_ops |= 1u << i;
    } else {
        *bit = 0;
        return str_eq(w, "recompute") || str_eq(w, "layers");
    }
    return true;
}

/* The size that `w` names, and where its number begins; NULL: none. */
static const struct size_word *find_size(const char *w, const char **out_number)
{
    size_t len = strspn(w, "abcdefghijklmnopqrstuvwxyz");

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        if (strlen(sizes[i].name) == len && !strncmp(sizes[i].name, w, len)) {
            *out_number = w + len + (w[len] == '=');
            return &sizes[i];
        }
    return NULL;
}

static enum rc word_unknown(const char *w, struct err *err)
{
    const char *names[ARRAY_SIZE(sizes) + ARRAY_SIZE(words)], *near;
    char letters[WORD_MAX];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
        names[n++] = sizes[i].name;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        names[n++] = words[i];
    near = str_nearest(w, names, n);
    if (!near) {
        str_copy(letters, sizeof(letters), w);
        letters[strcspn(letters, "=0123456789")] = 0;
        near = str_nearest(letters, names, ARRAY_SIZE(sizes));
    }
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "For example \"tp8 pp4 dp2 zero1 mbs1 sp selective recompute\".");
    return err_set(err, RC_USAGE, "'%s' says nothing about a configuration", w);
}

static enum rc set_size(const struct size_word *s, const char *number, struct plan_config *c,
                        struct err *err)
{
    int64_t v;

    if (!str_to_i64(number, 10, &v) || v < s->min || v > s->max) {
        int64_t near = str_to_i64(number, 10, &v) && v > s->max ? s->max : s->min;

        err_hint(err, "The nearest valid value is %s%lld.", s->name, (long long)near);
        return err_set(err, RC_USAGE, "'%s' cannot be '%s'", s->name, number);
    }
    memcpy((char *)c + s->off, &(int32_t){ (int32_t)v }, sizeof(int32_t));
    return RC_OK;
}

enum rc plan_config_parse(const char *text, struct plan_config *c, unsigned *out_given,
                          struct err *err)
{
    struct plan_config o = *c;
    unsigned given = 0;
    char w[WORD_MAX];

    if (strlen(text) > PLAN_CONFIG_TEXT_MAX)
        return err_set(err, RC_USAGE, "a configuration has at most %d characters",
                       PLAN_CONFIG_TEXT_MAX);
    while (next_word(&text, w)) {
        const char *number = NULL;
        const struct size_word *s = find_size(w, &number);
        char next[WORD_MAX];
        unsigned bit = 0;

        if (s && !*number && next_word(&text, next)) /* "every 2 layers", "tp 8" */
            number = next;
        if (s && set_size(s, number, &o, err))
            return RC_USAGE;
        if (!s && !set_enum(&o, w, &bit))
            return word_unknown(w, err);
        bit = s ? s->bit : bit;
        if (given & bit)
            return err_set(err, RC_USAGE, "'%s' says a second time what was said", w);
        given |= bit;
    }
    if (!given) {
        err_hint(err, "For example \"tp8 pp4 dp2 zero1 mbs1 sp selective recompute\".");
        return err_set(err, RC_USAGE, "the configuration is empty");
    }
    *c = o;
    *out_given = given;
    return RC_OK;
}

static enum rc complete_batch(struct plan_config *c, unsigned given, int64_t batch, struct err *err)
{
    int64_t round = (int64_t)c->dp * c->micro_batch, times = batch / round;

    if (batch % round || !times || times > PLAN_BATCH_MAX) {
        int64_t near = plan_min(plan_max(1, (batch + round / 2) / round), PLAN_BATCH_MAX) * round;

        err_hint(err, "The nearest valid batch is %lld.", (long long)near);
        err_set(err, RC_USAGE, "batch %lld is not a multiple of dp x micro-batch, %lld",
                (long long)batch, (long long)round);
        return err_ctx(err, "rule %s", plan_rule_names[PLAN_RULE_BATCH]);
    }
    if ((given & PLAN_GIVEN_GRAD_ACC) && c->grad_acc != times) {
        err_hint(err, "With ga%lld it is.", (long long)times);
        return err_set(err, RC_USAGE, "dp%d mbs%d ga%d is not a batch of %lld", c->dp,
                       c->micro_batch, c->grad_acc, (long long)batch);
    }
    c->grad_acc = (int32_t)times;
    return RC_OK;
}

enum rc plan_config_complete(struct plan_config *c, unsigned given, int64_t gpus, int64_t batch,
                             struct err *err)
{
    int64_t model = (int64_t)c->tp * c->pp * c->cp;

    if (!(given & PLAN_GIVEN_DP) && model <= gpus && gpus % model == 0)
        c->dp = (int32_t)(gpus / model);
    if (!(given & PLAN_GIVEN_SCHEDULE))
        c->schedule = c->vpp > 1 ? PLAN_INTERLEAVED : PLAN_1F1B;
    if (c->zero == 0 || c->shard == (int64_t)c->dp * c->cp)
        c->shard = 0;
    if (!batch)
        return RC_OK;
    return complete_batch(c, given, batch, err);
}
