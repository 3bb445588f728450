/* SPDX-License-Identifier: MIT */
/* model_name: well-known models from data/models.csv, and models from three numbers.
 *
 * A row of the table writes only what its family does not say: the family sets the small things
 * (biases, norms, tying) as that family of checkpoints has them. */
#include "plan/plan_int.h"

#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"

#include <math.h>

EMBED(data_models, "data/models.csv");

/* ---- families ---- */
struct family {
    const char *name;
    struct plan_model m;
};
static const struct family families[] = {
    { "llama", { .gated = true, .head = true, .layer_norms = 2, .outer_norms = 1 } },
    { "qwen2",
      { .gated = true, .head = true, .layer_norms = 2, .outer_norms = 1, .qkv_bias = true } },
    { "qwen3",
      { .gated = true, .head = true, .layer_norms = 2, .outer_norms = 1, .qk_norm = true } },
    { "qwen2_moe",
      { .gated = true,
        .head = true,
        .layer_norms = 2,
        .outer_norms = 1,
        .qkv_bias = true,
        .shared_gate = true } },
    { "gpt",
      { .head = true,
        .layer_norms = 2,
        .outer_norms = 1,
        .tied = true,
        .norm_bias = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true } },
    { "bloom",
      { .head = true,
        .layer_norms = 2,
        .outer_norms = 2,
        .tied = true,
        .norm_bias = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true } },
    { "mpt", { .head = true, .layer_norms = 2, .outer_norms = 1, .tied = true } },
    { "deepseek_v3",
      { .gated = true, .head = true, .layer_norms = 2, .outer_norms = 1, .router_bias = true } },
    { "gemma2", { .gated = true, .head = true, .layer_norms = 4, .outer_norms = 1, .tied = true } },
    { "gemma", { .gated = true, .head = true, .layer_norms = 2, .outer_norms = 1, .tied = true } },
    { "phi",
      { .head = true,
        .layer_norms = 1,
        .outer_norms = 1,
        .norm_bias = true,
        .qkv_bias = true,
        .out_bias = true,
        .mlp_bias = true,
        .head_bias = true } },
    { "falcon",
      { .head = true, .layer_norms = 1, .outer_norms = 1, .norm_bias = true, .tied = true } },
    { "gpt_oss",
      { .gated = true,
        .head = true,
        .layer_norms = 2,
        .outer_norms = 1,
        .qkv_bias = true,
        .out_bias = true,
        .router_bias = true,
        .expert_bias = true,
        .attn_sinks = true } },
};

enum known_col {
    C_NAME,
    C_FAMILY,
    C_LAYERS,
    C_HIDDEN,
    C_HEADS,
    C_KV,
    C_HEAD_DIM,
    C_FFN,
    C_VOCAB,
    C_TIED,
    C_POSITIONS,
    C_EXPERTS,
    C_TOP_K,
    C_EXPERT_FFN,
    C_SHARED_FFN,
    C_MOE_FIRST,
    C_Q_LORA,
    C_KV_LORA,
    C_QK_NOPE,
    C_QK_ROPE,
    C_V_DIM,
    C_WINDOW,
    C_WINDOW_EVERY,
    C_PUBLISHED,
    C_ACTIVE,
    C_SOURCE,
    C_COUNT
};
static const char *const col_names[] = {
    "name",       "family",       "layers",    "hidden",    "heads",   "kv_heads", "head_dim",
    "ffn",        "vocab",        "tied",      "positions", "experts", "top_k",    "expert_ffn",
    "shared_ffn", "moe_first",    "q_lora",    "kv_lora",   "qk_nope", "qk_rope",  "v_dim",
    "window",     "window_every", "published", "active",    "source"
};
static_assert(ARRAY_SIZE(col_names) == C_COUNT, "a name for every column");

static enum rc cell_number(const char *cell, int64_t *out, struct err *err)
{
    if (!*cell)
        return RC_OK; /* the family's */
    return str_to_i64(cell, 10, out) ? RC_OK : err_set(err, RC_PARSE, "'%s' is not a number", cell);
}

static enum rc read_row(const struct csv *t, size_t row, const size_t *col, struct plan_known *out,
                        struct err *err)
{
    const char *family = csv_cell(t, row, col[C_FAMILY]), *tied = csv_cell(t, row, col[C_TIED]);
    const struct family *f = NULL;
    struct plan_model m;

    for (size_t i = 0; i < ARRAY_SIZE(families); i++)
        if (str_eq(families[i].name, family))
            f = &families[i];
    if (!f)
        return err_set(err, RC_PARSE, "there is no family '%s'", family);
    m = f->m;
    str_copy(m.name, sizeof(m.name), csv_cell(t, row, col[C_NAME]));
    if (*tied)
        m.tied = str_eq(tied, "yes");
    int64_t *const numbers[] = { &m.layers,      &m.hidden,    &m.heads,  &m.kv_heads,
                                 &m.head_dim,    &m.ffn,       &m.vocab,  NULL,
                                 &m.positions,   &m.experts,   &m.top_k,  &m.expert_ffn,
                                 &m.shared_ffn,  &m.moe_first, &m.q_lora, &m.kv_lora,
                                 &m.qk_nope,     &m.qk_rope,   &m.v_dim,  &m.window,
                                 &m.window_every };
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i] && cell_number(csv_cell(t, row, col[C_LAYERS + i]), numbers[i], err))
            return RC_PARSE;
    if (plan_model_check(&m, err))
        return RC_PARSE;
    *out = (struct plan_known){ .model = m,
                                .published = csv_cell(t, row, col[C_PUBLISHED]),
                                .active = csv_cell(t, row, col[C_ACTIVE]),
                                .source = csv_cell(t, row, col[C_SOURCE]) };
    return RC_OK;
}

enum rc plan_known_load(struct arena *a, struct plan_known_table *out, struct err *err)
{
    size_t col[C_COUNT] = { 0 };
    struct plan_known *rows;
    struct csv t;

    if (csv_parse(a, data_models, data_models_len, &t, err) ||
        csv_columns(&t, col_names, C_COUNT, col, err))
        return err_ctx(err, "table 'models.csv'");
    rows = arena_array(a, struct plan_known, t.rows);
    for (size_t i = 0; i < t.rows; i++)
        if (read_row(&t, i, col, &rows[i], err))
            return err_ctx(err, "table 'models.csv': row '%s'", csv_cell(&t, i, col[C_NAME]));
    *out = (struct plan_known_table){ .rows = rows, .count = t.rows };
    return RC_OK;
}

/* Letters and digits in lower case, behind a maker's "name/": "meta-llama/Llama-3.1-8B". */
static void name_fold(const char *s, char out[PLAN_NAME_MAX])
{
    const char *slash = strrchr(s, '/');
    size_t n = 0;

    for (s = slash ? slash + 1 : s; *s && n + 1 < PLAN_NAME_MAX; s++)
        if ((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z'))
            out[n++] = *s;
        else if (*s >= 'A' && *s <= 'Z')
            out[n++] = (char)(*s - 'A' + 'a');
    out[n] = 0;
}

static const struct plan_known *known_by_name(const struct plan_known_table *t, const char *name)
{
    char want[PLAN_NAME_MAX], have[PLAN_NAME_MAX];

    name_fold(name, want);
    for (size_t i = 0; *want && i < t->count; i++) {
        name_fold(t->rows[i].model.name, have);
        if (str_eq(want, have))
            return &t->rows[i];
    }
    return NULL;
}

bool plan_count_parse(const char *s, double *out, double *out_ulp)
{
    static const struct {
        char letter;
        double unit;
    } units[] = { { 'K', 1e3 }, { 'M', 1e6 }, { 'B', 1e9 }, { 'T', 1e12 } };
    size_t len = strlen(s);
    char text[32];
    double unit = 1, v;
    const char *dot;

    if (!len || len >= sizeof(text) || strspn(s, "0123456789.") < len - 1)
        return false;
    str_copy(text, sizeof(text), s);
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (text[len - 1] == units[i].letter || text[len - 1] == units[i].letter + 32) {
            unit = units[i].unit;
            text[len - 1] = 0;
        }
    if (!str_to_f64(text, &v))
        return false;
    dot = strchr(text, '.');
    *out = v * unit;
    *out_ulp = unit * pow(10, dot ? -(double)strlen(dot + 1) : 0);
    return true;
}

/* ---- "PARAMETERS,LAYERS,HIDDEN" ---- */
enum { PLAIN_VOCAB = 32000, PLAIN_HEAD_DIM = 128, PLAIN_FFN_STEP = 8 };

/* A Llama whose MLP is as wide as makes the parameters come out. */
static enum rc plain_model(const char *text, double params, int64_t layers, int64_t hidden,
                           struct plan_model *out, struct err *err)
{
    struct plan_model m = families[0].m;
    double rest, least;
    struct plan_counts n;

    str_copy(m.name, sizeof(m.name), text);
    m.layers = layers;
    m.hidden = hidden;
    m.heads = hidden % PLAIN_HEAD_DIM == 0
                  ? hidden / PLAIN_HEAD_DIM
                  : plan_nearest_divisor(hidden, hidden / PLAIN_HEAD_DIM, PLAN_HEADS_MAX);
    m.vocab = PLAIN_VOCAB;
    m.ffn = PLAIN_FFN_STEP;
    if (plan_model_check(&m, err) || plan_model_counts(&m, &n, err))
        return RC_USAGE;
    least = (double)n.total;
    rest = (params - least) / (3.0 * (double)layers * (double)hidden);
    if (rest < 0 || rest + PLAIN_FFN_STEP > PLAN_FFN_MAX) {
        double most = least + 3.0 * (double)layers * (double)hidden * (double)PLAN_FFN_MAX;

        err_hint(err, "The nearest valid value is %.4gB parameters.",
                 (rest < 0 ? least : most) / 1e9);
        return err_set(err, RC_USAGE, "%lld layers of %lld cannot have %.4g parameters",
                       (long long)layers, (long long)hidden, params);
    }
    m.ffn += (int64_t)(rest / PLAIN_FFN_STEP + 0.5) * PLAIN_FFN_STEP;
    if (plan_model_check(&m, err))
        return RC_USAGE;
    *out = m;
    return RC_OK;
}

static enum rc from_numbers(const char *text, struct plan_model *out, struct err *err)
{
    char copy[PLAN_NAME_MAX], *word[3] = { 0 }, *p = copy;
    double params, ulp;
    int64_t layers, hidden;

    if (!str_copy(copy, sizeof(copy), text))
        return err_set(err, RC_USAGE, "the model's name is too long");
    for (size_t i = 0; i < 3 && p; i++)
        word[i] = strsep(&p, ",");
    if (p || !word[2] || !plan_count_parse(word[0], &params, &ulp) ||
        !str_to_i64(word[1], 10, &layers) || !str_to_i64(word[2], 10, &hidden)) {
        err_hint(err, "Write parameters, layers and hidden size: 7B,32,4096.");
        return err_set(err, RC_USAGE, "'%s' is not a model", text);
    }
    return plain_model(text, params, layers, hidden, out, err);
}

enum { NAMES_MAX = 256 };
enum rc plan_model_by_name(const char *name, struct plan_model *out, struct err *err)
{
    const char *names[NAMES_MAX], *near;
    const struct plan_known *k;
    struct plan_known_table t = { 0 };
    struct arena a = { 0 };
    size_t count = 0;
    enum rc rc;

    if (strchr(name, ','))
        return from_numbers(name, out, err);
    rc = plan_known_load(&a, &t, err);
    if (rc)
        goto out;
    k = known_by_name(&t, name);
    if (k) {
        *out = k->model;
        goto out;
    }
    for (; count < t.count && count < NAMES_MAX; count++)
        names[count] = t.rows[count].model.name;
    near = str_nearest(name, names, count);
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "Give a config.json, a name of 'stoker plan models', or 7B,32,4096.");
    rc = err_set(err, RC_USAGE, "there is no model '%s' in the table", name);
out:
    arena_release(&a);
    return rc;
}
