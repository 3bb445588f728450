/* SPDX-License-Identifier: MIT */
/* model_roles: which tensor has which role in a network, and what shape it must have.
 *
 * Families name the same matrix differently; the table below is the whole of that difference.
 * model_open() checks every tensor of it once; engines read weights by role and know no name. */
#include "model/model.h"

#include <assert.h>
#include <stdio.h>

enum { ARCHS = MODEL_DISTILBERT + 1 };
/* clang-format off */
#define ALL(name)      { name, name, name, name }
#define LAYER(b, m, d) { b, b, m, d }
#define HEAD(b, r, d)  { b, r, r, d }
/* clang-format on */

/* What stands before ".weight"; a role that has no row is the ".bias" of the one before it, of the
 * first of its dimensions.  Dimensions are a letter each: V vocabulary, P positions, T types,
 * H hidden, F feed-forward, B buckets, A heads, L labels.  Columns follow enum model_arch: BERT,
 * XLM-R and RoBERTa, MPNet, DistilBERT; NULL: the family has no such tensor. */
static const struct {
    const char *dims, *names[ARCHS];
} roles[W_ROLES] = {
    [W_WORD] = { "VH", ALL("embeddings.word_embeddings") },
    [W_POSITION] = { "PH", ALL("embeddings.position_embeddings") },
    [W_TYPE] = { "TH", { "embeddings.token_type_embeddings", "embeddings.token_type_embeddings" } },
    [W_EMB_LN_G] = { "H", ALL("embeddings.LayerNorm") },
    [W_REL_BIAS] = { "BA", { [MODEL_MPNET] = "encoder.relative_attention_bias" } },
    [W_Q] = { "HH", LAYER("attention.self.query", "attention.attn.q", "attention.q_lin") },
    [W_K] = { "HH", LAYER("attention.self.key", "attention.attn.k", "attention.k_lin") },
    [W_V] = { "HH", LAYER("attention.self.value", "attention.attn.v", "attention.v_lin") },
    [W_O] = { "HH", LAYER("attention.output.dense", "attention.attn.o", "attention.out_lin") },
    [W_ATT_LN_G] = { "H",
                     LAYER("attention.output.LayerNorm", "attention.LayerNorm", "sa_layer_norm") },
    [W_FFN1] = { "FH", LAYER("intermediate.dense", "intermediate.dense", "ffn.lin1") },
    [W_FFN2] = { "HF", LAYER("output.dense", "output.dense", "ffn.lin2") },
    [W_OUT_LN_G] = { "H", LAYER("output.LayerNorm", "output.LayerNorm", "output_layer_norm") },
    [W_HEAD1] = { "HH", HEAD("pooler.dense", "classifier.dense", "pre_classifier") },
    [W_HEAD2] = { "LH", HEAD("classifier", "classifier.out_proj", "classifier") },
};

static size_t dim_of(const struct model *m, char letter)
{
    switch (letter) {
    case 'V':
        return m->vocab;
    case 'P':
        return m->positions;
    case 'T':
        return m->types;
    case 'H':
        return m->hidden;
    case 'F':
        return m->ffn;
    case 'B':
        return m->rel_buckets;
    case 'A':
        return m->heads;
    default:
        assert(letter == 'L');
        return m->labels;
    }
}

size_t model_role_dims(const struct model *m, enum model_role role, size_t dims[2])
{
    enum model_role row = roles[role].dims ? role : (enum model_role)(role - 1);
    size_t ndim = row == role ? strlen(roles[row].dims) : 1;

    if (!roles[row].names[m->arch] || (role >= W_HEAD1 && m->head == MODEL_HEAD_NONE) ||
        (role == W_TYPE && !m->types) || (role == W_REL_BIAS && !m->rel_buckets))
        return 0;
    for (size_t i = 0; i < ndim; i++)
        dims[i] = dim_of(m, roles[row].dims[i]);
    return ndim;
}

const char *model_role_name(const struct model *m, enum model_role role, size_t layer,
                            char out[MODEL_ROLE_NAME])
{
    enum model_role row = roles[role].dims ? role : (enum model_role)(role - 1);
    const char *tail = row == role ? "weight" : "bias", *name = roles[row].names[m->arch];

    if (role >= W_Q && role <= W_OUT_LN_B)
        (void)snprintf(out, MODEL_ROLE_NAME, "%s.layer.%zu.%s.%s",
                       m->arch == MODEL_DISTILBERT ? "transformer" : "encoder", layer, name, tail);
    else
        (void)snprintf(out, MODEL_ROLE_NAME, "%s.%s", name, tail);
    return out;
}
