/* SPDX-License-Identifier: MIT */
/* model_box: tiny models for tests, made in a temporary folder.
 *
 *     struct box b = { .arch = MODEL_XLMR, .labels = 1 };
 *     char *dir = box_make(&b);          config.json and model.safetensors with seeded weights
 *     ... model_open(dir, &m, &err) ...
 *     box_remove(dir);
 *
 * Sizes left 0 become small ones.  A weight is a function of seed, tensor and place alone,
 * so the same box is the same file on every machine: matrices uniform with deviation
 * `dev` (0.02), LayerNorm 1 and 0 with a tenth of noise, or exactly 1 and 0 with `plain_ln`. */
#ifndef TESTS_MODEL_BOX_H
#define TESTS_MODEL_BOX_H
#include "base/mem.h"
#include "model/model.h"
#include "model/weights/safetensors_int.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BOX_PATH_MAX = 512, BOX_TENSORS_MAX = 4200, BOX_NAME_MAX = 96 };

struct box {
    enum model_arch arch;
    size_t layers, hidden, heads, ffn, vocab; /* 2, 32, 4, 64, 100 */
    size_t positions, types;                  /* 64 texts' worth; 2 for BERT, 1 for XLM-R */
    size_t labels;                            /* above 0: a classification head */
    uint64_t seed;
    double dev;
    bool plain_ln;
    enum st_dtype dtype;    /* ST_F64 (0) stands for F32 */
    bool f64;               /* really F64 */
    const char *prefix;     /* NULL: what the class writes ("bert." with a head, else "") */
    const char *act;        /* "gelu" */
    const char *pool;       /* "mean", "cls", "max", "lasttoken", "mean_sqrt_len_tokens":
                             * writes modules.json; NULL: none */
    bool normalize;         /* with pool */
    size_t dense_out;       /* with pool: a Dense (Tanh) module behind it */
    const char *config_add; /* more members of config.json, each behind a comma: ", \"x\": 1" */
    double eps;             /* 1e-12; 1e-5 for XLM-R and MPNet */
    /* What box_make() works with. */
    struct st_new *list;
    size_t count;
};

/* --- numbers --- */
static inline uint64_t box_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Uniform with mean 0 and deviation 1. */
static inline double box_uniform(uint64_t seed, const char *name, uint64_t i)
{
    uint64_t h = 1469598103934665603u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    h = box_mix(box_mix(seed ^ h) + i);
    return ((double)(h >> 11) * 0x1p-53 - 0.5) * 3.4641016151377544;
}

/* The weight at place `i` of tensor `name`, before it is rounded to the box's type. */
static inline double box_weight(const struct box *b, const char *name, uint64_t i)
{
    bool norm = strstr(name, "LayerNorm") || strstr(name, "layer_norm");
    bool bias = !strcmp(name + strlen(name) - 5, ".bias");
    double u = box_uniform(b->seed, name, i);

    if (norm)
        return (bias ? 0.0 : 1.0) + (b->plain_ln ? 0.0 : 0.1 * u);
    return u * (b->dev > 0 ? b->dev : 0.02);
}

static inline enum rc box_fill(void *arg, size_t i, uint64_t first, void *out, size_t count,
                               struct err *err)
{
    const struct box *b = arg;
    const struct st_new *t = &b->list[i];
    size_t size = st_dtype_bytes(t->dtype);

    (void)err;
    for (size_t at = 0; at < count / size; at++) {
        double w = box_weight(b, t->name, first / size + at);
        float f = (float)w;
        uint16_t h = t->dtype == ST_F16 ? st_f32_to_f16(f) : st_f32_to_bf16(f);
        const void *from = t->dtype == ST_F64   ? (const void *)&w
                           : t->dtype == ST_F32 ? (const void *)&f
                                                : (const void *)&h;

        if (t->dtype > ST_BF16) /* integers are all 0 */
            memset((char *)out + at * size, 0, size);
        else
            memcpy((char *)out + at * size, from, size);
    }
    return RC_OK;
}

/* --- tensors --- */
static inline void box_add(struct box *b, size_t rows, size_t cols, const char *prefix,
                           const char *name)
{
    struct st_new *t = &b->list[b->count++];
    char *own = xmalloc(BOX_NAME_MAX);

    if (b->count > BOX_TENSORS_MAX)
        abort();
    if (snprintf(own, BOX_NAME_MAX, "%s%s", prefix, name) >= BOX_NAME_MAX)
        abort();
    *t = (struct st_new){ .name = own, .dims = { rows, cols }, .ndim = cols ? 2 : 1 };
    t->dtype = b->dtype != ST_F64 || b->f64 ? b->dtype : ST_F32;
}

/* weight [rows][cols] and bias [rows]; cols 0: a LayerNorm */
static inline void box_pair(struct box *b, size_t rows, size_t cols, const char *prefix,
                            const char *name)
{
    char full[BOX_NAME_MAX + 8];

    snprintf(full, sizeof(full), "%s.weight", name);
    box_add(b, rows, cols, prefix, full);
    snprintf(full, sizeof(full), "%s.bias", name);
    box_add(b, rows, 0, prefix, full);
}

/* q, k, v, o, LayerNorm of attention, up, down, LayerNorm of the output: by family */
static const char *const box_parts[][8] = {
    [MODEL_BERT] = { "attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
                     "output.dense", "output.LayerNorm" },
    [MODEL_XLMR] = { "attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
                     "output.dense", "output.LayerNorm" },
    [MODEL_MPNET] = { "attention.attn.q", "attention.attn.k", "attention.attn.v",
                      "attention.attn.o", "attention.LayerNorm", "intermediate.dense",
                      "output.dense", "output.LayerNorm" },
    [MODEL_DISTILBERT] = { "attention.q_lin", "attention.k_lin", "attention.v_lin",
                           "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2",
                           "output_layer_norm" },
};

static inline void box_layer(struct box *b, size_t layer)
{
    const size_t rows[8] = { b->hidden, b->hidden, b->hidden, b->hidden,
                             b->hidden, b->ffn,    b->hidden, b->hidden };
    const size_t cols[8] = { b->hidden, b->hidden, b->hidden, b->hidden, 0, b->hidden, b->ffn, 0 };

    for (size_t i = 0; i < 8; i++) {
        char name[BOX_NAME_MAX];

        snprintf(name, sizeof(name), "%s.layer.%zu.%s",
                 b->arch == MODEL_DISTILBERT ? "transformer" : "encoder", layer,
                 box_parts[b->arch][i]);
        box_pair(b, rows[i], cols[i], b->prefix, name);
    }
}

static inline void box_head(struct box *b)
{
    if (!b->labels)
        return;
    if (b->arch == MODEL_BERT)
        box_pair(b, b->hidden, b->hidden, b->prefix, "pooler.dense");
    else
        box_pair(b, b->hidden, b->hidden, "",
                 b->arch == MODEL_DISTILBERT ? "pre_classifier" : "classifier.dense");
    box_pair(b, b->labels, b->hidden, "",
             b->arch == MODEL_BERT || b->arch == MODEL_DISTILBERT ? "classifier"
                                                                  : "classifier.out_proj");
}

static inline void box_tensors(struct box *b)
{
    box_add(b, b->vocab, b->hidden, b->prefix, "embeddings.word_embeddings.weight");
    box_add(b, b->positions, b->hidden, b->prefix, "embeddings.position_embeddings.weight");
    if (b->types)
        box_add(b, b->types, b->hidden, b->prefix, "embeddings.token_type_embeddings.weight");
    box_pair(b, b->hidden, 0, b->prefix, "embeddings.LayerNorm");
    if (b->arch == MODEL_MPNET)
        box_add(b, 32, b->heads, b->prefix, "encoder.relative_attention_bias.weight");
    for (size_t i = 0; i < b->layers; i++)
        box_layer(b, i);
    box_head(b);
}

/* --- files --- */
static inline void box_path(char out[BOX_PATH_MAX], const char *dir, const char *name)
{
    if (snprintf(out, BOX_PATH_MAX, "%s/%s", dir, name) >= BOX_PATH_MAX)
        abort();
}

static inline void box_put(const char *dir, const char *name, const char *text)
{
    char path[BOX_PATH_MAX];
    FILE *f;

    box_path(path, dir, name);
    f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        abort();
}

static inline void box_config(const struct box *b, const char *dir)
{
    static const char *const classes[][2] = {
        [MODEL_BERT] = { "BertModel", "BertForSequenceClassification" },
        [MODEL_XLMR] = { "XLMRobertaModel", "XLMRobertaForSequenceClassification" },
        [MODEL_MPNET] = { "MPNetModel", "MPNetForSequenceClassification" },
        [MODEL_DISTILBERT] = { "DistilBertModel", "DistilBertForSequenceClassification" },
    };
    static const char *const types[] = { "bert", "xlm-roberta", "mpnet", "distilbert" };
    bool distil = b->arch == MODEL_DISTILBERT;
    bool after_pad = b->arch == MODEL_XLMR || b->arch == MODEL_MPNET;
    char text[4096];

    snprintf(text, sizeof(text),
             "{\"architectures\": [\"%s\"], \"model_type\": \"%s\", \"%s\": %zu, \"%s\": %zu, "
             "\"%s\": %zu, \"%s\": %zu, \"vocab_size\": %zu, \"max_position_embeddings\": %zu, "
             "\"type_vocab_size\": %zu, \"pad_token_id\": %d, \"layer_norm_eps\": %g, \"%s\": "
             "\"%s\", \"num_labels\": %zu%s}",
             classes[b->arch][b->labels > 0], types[b->arch],
             distil ? "n_layers" : "num_hidden_layers", b->layers, distil ? "dim" : "hidden_size",
             b->hidden, distil ? "n_heads" : "num_attention_heads", b->heads,
             distil ? "hidden_dim" : "intermediate_size", b->ffn, b->vocab, b->positions, b->types,
             after_pad ? 1 : 0, b->eps, distil ? "activation" : "hidden_act",
             b->act ? b->act : "gelu", b->labels ? b->labels : (size_t)2,
             b->config_add ? b->config_add : "");
    box_put(dir, "config.json", text);
}

static inline void box_write(struct box *b, const char *dir)
{
    struct err err = { 0 };
    struct st_source from = { .fill = box_fill, .arg = b };
    char path[BOX_PATH_MAX];

    box_path(path, dir, "model.safetensors");
    if (st_write(path, b->list, b->count, &from, &err)) {
        fprintf(stderr, "# %s\n", err.msg);
        abort();
    }
    for (size_t i = 0; i < b->count; i++)
        free((char *)b->list[i].name);
    b->count = 0;
}

static inline void box_dense(struct box *b, const char *dir)
{
    char sub[BOX_PATH_MAX], text[256];

    box_path(sub, dir, "2_Dense");
    if (mkdir(sub, 0700))
        abort();
    snprintf(text, sizeof(text),
             "{\"in_features\": %zu, \"out_features\": %zu, \"bias\": true, "
             "\"activation_function\": \"torch.nn.modules.activation.Tanh\"}",
             b->hidden, b->dense_out);
    box_put(sub, "config.json", text);
    box_pair(b, b->dense_out, b->hidden, "", "linear");
    box_write(b, sub);
}

static inline void box_modules(struct box *b, const char *dir)
{
    const char *type = "sentence_transformers.models.";
    char sub[BOX_PATH_MAX], text[1024], dense[160] = "", norm[160] = "";

    box_path(sub, dir, "1_Pooling");
    if (mkdir(sub, 0700))
        abort();
    snprintf(text, sizeof(text), "{\"word_embedding_dimension\": %zu, \"pooling_mode\": \"%s\"}",
             b->hidden, b->pool);
    box_put(sub, "config.json", text);
    if (b->dense_out) {
        box_dense(b, dir);
        snprintf(dense, sizeof(dense), ", {\"path\": \"2_Dense\", \"type\": \"%sDense\"}", type);
    }
    if (b->normalize)
        snprintf(norm, sizeof(norm), ", {\"path\": \"3_Normalize\", \"type\": \"%sNormalize\"}",
                 type);
    snprintf(text, sizeof(text),
             "[{\"path\": \"\", \"type\": \"%sTransformer\"}, {\"path\": \"1_Pooling\", \"type\": "
             "\"%sPooling\"}%s%s]",
             type, type, dense, norm);
    box_put(dir, "modules.json", text);
}

static inline void box_defaults(struct box *b)
{
    static const char *const prefixes[] = { "bert.", "roberta.", "mpnet.", "distilbert." };
    bool after_pad = b->arch == MODEL_XLMR || b->arch == MODEL_MPNET;

    b->layers = b->layers ? b->layers : 2;
    b->hidden = b->hidden ? b->hidden : 32;
    b->heads = b->heads ? b->heads : 4;
    b->ffn = b->ffn ? b->ffn : 2 * b->hidden;
    b->vocab = b->vocab ? b->vocab : 100;
    b->positions = b->positions ? b->positions : 64 + (after_pad ? 2 : 0);
    b->types = b->arch == MODEL_BERT   ? (b->types ? b->types : 2)
               : b->arch == MODEL_XLMR ? (b->types ? b->types : 1)
                                       : 0;
    b->eps = b->eps > 0 ? b->eps : after_pad ? 1e-5 : 1e-12;
    b->prefix = b->prefix ? b->prefix : b->labels ? prefixes[b->arch] : "";
}

/* A new temporary folder with the model; the caller gives it to box_remove(). */
static inline char *box_make(struct box *b)
{
    char name[] = "/tmp/stoker-box-XXXXXX";
    char *dir = xstrdup(mkdtemp(name) ? name : "");

    if (!dir[0])
        abort();
    box_defaults(b);
    b->list = xcalloc(BOX_TENSORS_MAX, sizeof(*b->list));
    box_config(b, dir);
    box_tensors(b);
    box_write(b, dir);
    if (b->pool)
        box_modules(b, dir);
    free(b->list);
    b->list = NULL;
    return dir;
}

/* The folder and all below it. */
static inline void box_remove(char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char path[BOX_PATH_MAX];

        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        box_path(path, dir, e->d_name);
        if (unlink(path))
            box_remove(xstrdup(path));
    }
    if (d)
        closedir(d);
    rmdir(dir);
    free(dir);
}

#endif
