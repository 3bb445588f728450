/* SPDX-License-Identifier: MIT */
/* weights: the tensors of a model by role.
 *
 * Architectures name the same matrix differently; the table below is the whole of that
 * difference.  Every read checks the shape against the configuration first, so that an
 * implementation can size its memory from eng_weight_shape() alone. */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <math.h>

enum { WEIGHT_NAME_MAX = 128, WEIGHT_PATH_MAX = 4096 };

/* Columns follow enum model_arch: BERT, XLM-R and RoBERTa, MPNet, DistilBERT.  %zu is
 * the layer's number; NULL: the architecture has no such tensor. */
#define LAYER(bert, mpnet, distil)                                                                 \
    {                                                                                              \
        "encoder.layer.%zu." bert, "encoder.layer.%zu." bert, "encoder.layer.%zu." mpnet,          \
            "transformer.layer.%zu." distil                                                        \
    }
#define SAME(name)                                                                                 \
    {                                                                                              \
        name, name, name, name                                                                     \
    }
enum { ARCHS = MODEL_DISTILBERT + 1 };

static const char *const names[W_ROLES][ARCHS] = {
    [W_WORD] = SAME("embeddings.word_embeddings.weight"),
    [W_POSITION] = SAME("embeddings.position_embeddings.weight"),
    [W_TYPE] = { "embeddings.token_type_embeddings.weight",
                 "embeddings.token_type_embeddings.weight", NULL, NULL },
    [W_EMB_LN_G] = SAME("embeddings.LayerNorm.weight"),
    [W_EMB_LN_B] = SAME("embeddings.LayerNorm.bias"),
    [W_REL_BIAS] = { NULL, NULL, "encoder.relative_attention_bias.weight", NULL },
    [W_Q] =
        LAYER("attention.self.query.weight", "attention.attn.q.weight", "attention.q_lin.weight"),
    [W_Q_B] = LAYER("attention.self.query.bias", "attention.attn.q.bias", "attention.q_lin.bias"),
    [W_K] = LAYER("attention.self.key.weight", "attention.attn.k.weight", "attention.k_lin.weight"),
    [W_K_B] = LAYER("attention.self.key.bias", "attention.attn.k.bias", "attention.k_lin.bias"),
    [W_V] =
        LAYER("attention.self.value.weight", "attention.attn.v.weight", "attention.v_lin.weight"),
    [W_V_B] = LAYER("attention.self.value.bias", "attention.attn.v.bias", "attention.v_lin.bias"),
    [W_O] = LAYER("attention.output.dense.weight", "attention.attn.o.weight",
                  "attention.out_lin.weight"),
    [W_O_B] =
        LAYER("attention.output.dense.bias", "attention.attn.o.bias", "attention.out_lin.bias"),
    [W_ATT_LN_G] = LAYER("attention.output.LayerNorm.weight", "attention.LayerNorm.weight",
                         "sa_layer_norm.weight"),
    [W_ATT_LN_B] =
        LAYER("attention.output.LayerNorm.bias", "attention.LayerNorm.bias", "sa_layer_norm.bias"),
    [W_FFN1] = LAYER("intermediate.dense.weight", "intermediate.dense.weight", "ffn.lin1.weight"),
    [W_FFN1_B] = LAYER("intermediate.dense.bias", "intermediate.dense.bias", "ffn.lin1.bias"),
    [W_FFN2] = LAYER("output.dense.weight", "output.dense.weight", "ffn.lin2.weight"),
    [W_FFN2_B] = LAYER("output.dense.bias", "output.dense.bias", "ffn.lin2.bias"),
    [W_OUT_LN_G] =
        LAYER("output.LayerNorm.weight", "output.LayerNorm.weight", "output_layer_norm.weight"),
    [W_OUT_LN_B] =
        LAYER("output.LayerNorm.bias", "output.LayerNorm.bias", "output_layer_norm.bias"),
    [W_HEAD1] = { "pooler.dense.weight", "classifier.dense.weight", "classifier.dense.weight",
                  "pre_classifier.weight" },
    [W_HEAD1_B] = { "pooler.dense.bias", "classifier.dense.bias", "classifier.dense.bias",
                    "pre_classifier.bias" },
    [W_HEAD2] = { "classifier.weight", "classifier.out_proj.weight", "classifier.out_proj.weight",
                  "classifier.weight" },
    [W_HEAD2_B] = { "classifier.bias", "classifier.out_proj.bias", "classifier.out_proj.bias",
                    "classifier.bias" },
};

static struct eng_shape layer_shape(const struct model *m, enum eng_role role)
{
    switch (role) {
    case W_Q:
    case W_K:
    case W_V:
        return (struct eng_shape){ m->heads * m->head_dim, m->hidden };
    case W_Q_B:
    case W_K_B:
    case W_V_B:
        return (struct eng_shape){ 1, m->heads * m->head_dim };
    case W_O:
        return (struct eng_shape){ m->hidden, m->heads * m->head_dim };
    case W_FFN1:
        return (struct eng_shape){ m->ffn, m->hidden };
    case W_FFN1_B:
        return (struct eng_shape){ 1, m->ffn };
    case W_FFN2:
        return (struct eng_shape){ m->hidden, m->ffn };
    default: /* biases of O and FFN2, both LayerNorms */
        return (struct eng_shape){ 1, m->hidden };
    }
}

struct eng_shape eng_weight_shape(const struct model *m, enum eng_role role)
{
    const struct eng_shape none = { 0, 0 };

    if (!names[role][m->arch])
        return none;
    if (role >= W_HEAD1 && m->head == MODEL_HEAD_NONE)
        return none;
    switch (role) {
    case W_WORD:
        return (struct eng_shape){ m->vocab, m->hidden };
    case W_POSITION:
        return (struct eng_shape){ m->positions, m->hidden };
    case W_TYPE:
        return m->types ? (struct eng_shape){ m->types, m->hidden } : none;
    case W_REL_BIAS:
        return m->rel_buckets ? (struct eng_shape){ m->rel_buckets, m->heads } : none;
    case W_HEAD1:
        return (struct eng_shape){ m->hidden, m->hidden };
    case W_HEAD2:
        return (struct eng_shape){ m->labels, m->hidden };
    case W_HEAD2_B:
        return (struct eng_shape){ 1, m->labels };
    default:
        return layer_shape(m, role);
    }
}

static enum rc check_shape(const struct st_tensor *t, struct eng_shape want, struct err *err)
{
    bool matrix = want.rows != 1 || t->ndim == 2; /* a 1 x n matrix has two dimensions too */

    if (matrix && t->ndim == 2 && t->dims[0] == want.rows && t->dims[1] == want.cols)
        return RC_OK;
    if (want.rows == 1 && t->ndim == 1 && t->dims[0] == want.cols)
        return RC_OK;
    return err_set(err, RC_PARSE,
                   "tensor '%s' has %zu dimensions of %zu, %zu where the configuration asks for "
                   "%zu by %zu",
                   t->name, t->ndim, t->ndim > 0 ? t->dims[0] : 0, t->ndim > 1 ? t->dims[1] : 1,
                   want.rows, want.cols);
}

enum rc eng_weight_tensor(const struct model *m, enum eng_role role, size_t layer,
                          const struct st_tensor **out, struct err *err)
{
    struct eng_shape want = eng_weight_shape(m, role);
    const struct st_tensor *t;
    char name[WEIGHT_NAME_MAX];

    assert(want.rows > 0);
    assert(layer < m->layers || !strchr(names[role][m->arch], '%'));
    (void)snprintf(name, sizeof(name), names[role][m->arch], layer);
    t = model_tensor(m, "%s", name);
    if (!t)
        return err_set(err, RC_PARSE, "model '%s' has no tensor '%s%s'", m->dir, m->prefix, name);
    if (check_shape(t, want, err) != RC_OK)
        return err_ctx(err, "model '%s'", m->dir);
    *out = t;
    return RC_OK;
}

enum rc eng_weight(const struct model *m, enum eng_role role, size_t layer, float *out,
                   size_t count, struct err *err)
{
    const struct st_tensor *t = NULL;
    enum rc rc = eng_weight_tensor(m, role, layer, &t, err);

    if (rc != RC_OK)
        return rc;
    assert(count == t->count);
    rc = st_read_f32(m->tensors, t, 0, count, out, err);
    return rc == RC_OK ? RC_OK : err_ctx(err, "model '%s'", m->dir);
}

static enum rc dense_read(const struct st *s, const char *name, struct eng_shape want, float *out,
                          struct err *err)
{
    const struct st_tensor *t = st_find(s, name);
    enum rc rc;

    if (!t)
        return err_set(err, RC_PARSE, "no tensor '%s'", name);
    rc = check_shape(t, want, err);
    return rc == RC_OK ? st_read_f32(s, t, 0, want.rows * want.cols, out, err) : rc;
}

enum rc eng_dense_weight(const struct model *m, size_t i, float *w, float *bias, struct err *err)
{
    const struct model_dense *d = &m->dense[i];
    char path[WEIGHT_PATH_MAX];
    struct st *s = NULL;
    enum rc rc;

    assert(i < m->dense_count);
    if (snprintf(path, sizeof(path), "%s/%s", m->dir, d->dir) >= (int)sizeof(path))
        return err_set(err, RC_LIMIT, "path of dense layer '%s' is too long", d->dir);
    rc = st_open(path, &s, err);
    if (rc != RC_OK)
        return err_ctx(err, "dense layer '%s'", path);
    rc = dense_read(s, "linear.weight", (struct eng_shape){ d->out, d->in }, w, err);
    if (rc == RC_OK && d->bias)
        rc = dense_read(s, "linear.bias", (struct eng_shape){ 1, d->out }, bias, err);
    st_close(s);
    return rc == RC_OK ? RC_OK : err_ctx(err, "dense layer '%s'", path);
}

/* 32 buckets: 16 for each direction, of which distances below 8 have their own and the
 * others share eight that widen up to 128.  The logarithms are f32, as in the reference:
 * 16, 32 and 64 stand exactly on an edge. */
size_t eng_rel_bucket(ptrdiff_t distance)
{
    size_t side = distance > 0 ? 16 : 0;
    size_t n = (size_t)(distance < 0 ? -distance : distance);
    float large;

    if (n < 8)
        return side + n;
    large = logf((float)n / 8.0F) / (float)2.772588722239781 * 8.0F; /* ln(128 / 8) */
    return side + (large < 7.0F ? 8 + (size_t)large : 15);
}

enum rc eng_rel_bias(const struct model *m, float *out, struct err *err)
{
    size_t width = 2 * MPNET_REACH + 1;
    size_t count = m->rel_buckets * m->heads;
    float *table;
    enum rc rc;

    if (m->rel_buckets < 32)
        return err_set(err, RC_PARSE, "model '%s' has %zu buckets of relative distance, not 32",
                       m->dir, m->rel_buckets);
    table = xcalloc(count, sizeof(*table));
    rc = eng_weight(m, W_REL_BIAS, 0, table, count, err);
    for (size_t h = 0; rc == RC_OK && h < m->heads; h++)
        for (size_t x = 0; x < width; x++)
            out[h * width + x] = table[eng_rel_bucket((ptrdiff_t)x - MPNET_REACH) * m->heads + h];
    free(table);
    return rc;
}

void eng_positions(const struct model *m, const uint32_t *ids, size_t count, uint32_t *out)
{
    uint32_t next = (uint32_t)m->position_first;

    for (size_t i = 0; i < count; i++) {
        bool pad = m->position_first > 0 && ids[i] + 1 == m->position_first;

        out[i] = pad ? ids[i] : next++;
    }
}
