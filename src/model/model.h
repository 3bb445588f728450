/* SPDX-License-Identifier: MIT */
/* model: a Hugging Face directory as it is: what network it holds and how its outputs
 * become vectors or scores.  model_open() reads the small JSON files and the tensor
 * headers and checks them against each other; weights are read later, by an engine. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H
#include "base/arena.h"
#include "base/err.h"
#include "base/maybe.h"
#include "model/tokenizer.h"
#include "model/weights/safetensors.h"

/* What vectors, scores and ids are held against. */
#define MODEL_REFERENCE "sentence-transformers 6.2, transformers 5.23"

enum model_arch { MODEL_BERT, MODEL_XLMR, MODEL_MPNET, MODEL_DISTILBERT }; /* XLMR: RoBERTa too */
enum model_act { MODEL_GELU, MODEL_GELU_TANH, MODEL_RELU };                /* GELU is the erf one */
enum model_pool {
    MODEL_POOL_MEAN,
    MODEL_POOL_CLS,
    MODEL_POOL_MAX,
    MODEL_POOL_LAST,
    MODEL_POOL_MEAN_SQRT,
    MODEL_POOL_WEIGHTED /* a mean with the tokens' places as weights */
};
enum model_head {
    MODEL_HEAD_NONE,   /* sentence vectors */
    MODEL_HEAD_POOLER, /* BERT: classifier(tanh(pooler(h[CLS]))) */
    MODEL_HEAD_DENSE   /* RoBERTa, MPNet: out_proj(tanh(dense(h[<s>]))); DistilBERT with relu */
};
enum model_score { MODEL_SCORE_RAW, MODEL_SCORE_SIGMOID };

struct model_dense { /* sentence-transformers Dense after pooling */
    const char *dir; /* "2_Dense" */
    size_t in, out;
    bool bias;
    enum { MODEL_DENSE_IDENTITY, MODEL_DENSE_TANH, MODEL_DENSE_RELU, MODEL_DENSE_GELU } act;
};

struct model_prompt {
    const char *name, *text;
};

enum {
    MODEL_DENSE_MAX = 4,
    MODEL_JOINED_MAX = 5, /* poolings behind the first */
    MODEL_PROMPTS_MAX = 64,
    MODEL_LAYERS_MAX = 256,
    MODEL_HIDDEN_MAX = 16384,
    MODEL_FFN_MAX = 65536,
    MODEL_VOCAB_MAX = 1 << 22,
    MODEL_POSITIONS_MAX = 1 << 20,
    MODEL_TYPES_MAX = 256,
    MODEL_LABELS_MAX = 1024,
    MODEL_IGNORED_MAX = 64,
    MODEL_SPECIALS_MAX = 1024, /* special tokens without a name of the reference's */
    MODEL_ADDED_MAX = 65536,   /* tokens of added_tokens_decoder or added_tokens.json */
    MODEL_TOKEN_BYTES = 1024,  /* bytes of one of them */
    MODEL_JSON_MAX = 4 << 20   /* bytes of config.json and its like */
};

struct model {
    struct arena arena;
    const char *dir, *name; /* name: last part of dir */
    const char *net_dir;    /* holds config.json, weights and tokenizer.json: dir, or its
                             * "0_Transformer" where modules.json says so */
    enum model_arch arch;
    const char *arch_name; /* "XLMRobertaForSequenceClassification", from config.json */
    size_t layers, hidden, heads, head_dim, ffn, vocab;
    size_t positions;      /* rows of the position table */
    size_t position_first; /* position of the first token: 0, or pad_id + 1 */
    size_t types;          /* rows of the token type table; 0: none */
    uint32_t pad_id;
    float ln_eps;
    enum model_act act;
    size_t rel_buckets;     /* MPNet: 32, else 0 */
    const char *prefix;     /* of tensor names: "", "bert.", "roberta." … */
    size_t max_tokens;      /* the limit for one text, specials included */
    struct tok_rules rules; /* what the tokenizer's class makes of tokenizer.json */
    size_t truncate_dim;    /* of a vector only the first so many numbers; 0: all */
    const char *similarity; /* "dot", "euclidean", "manhattan"; NULL: cosine */
    const char **ignored;   /* fields of config.json and tokenizer_config.json, FILE:FIELD, and */
    size_t ignored_count;   /* files, FILE, that the reference has no use for either */
    enum model_pool pool;
    enum model_pool joined[MODEL_JOINED_MAX]; /* whose vectors stand behind that of `pool` */
    size_t joined_count;
    bool prompt_apart; /* pooling leaves the prompt's tokens out */
    bool normalize;
    struct model_dense dense[MODEL_DENSE_MAX];
    size_t dense_count;
    struct model_prompt *prompts;
    size_t prompts_count;
    const char *default_prompt; /* its name, one of prompts; NULL: none */
    enum model_head head;
    size_t labels;
    const char **label_names; /* [labels] of id2label, NULL for one without; NULL: none given */
    enum model_score score;
    uint64_t parameters; /* floating point numbers in the files, dense layers included */
    char **parts;        /* owned: every file it is read from, below dir; in no order, none twice */
    size_t part_count, part_cap;
    struct st *tensors; /* owned */
};

enum rc model_open(const char *dir, struct model **out, struct err *err) MUST_USE;
/* The folder of a model that a user names: a folder as it is, the name of one that `stoker model
 * get` put below $XDG_DATA_HOME/stoker/models (~/.local/share/stoker/models), or ORG/NAME, with
 * @REVISION behind it or not, of one in the Hub's cache (hub.h).  Nothing is fetched. */
enum rc model_find(const char *name_or_dir, char *out, size_t cap, struct err *err) MUST_USE;
enum rc model_home(char *out, size_t cap, struct err *err) MUST_USE; /* that folder's parent */
void model_close(struct model *m);
/* The tokenizer beside the network, as the reference loads it. */
enum rc model_tokenizer(const struct model *m, struct tokenizer **out, struct err *err) MUST_USE;
/* The same of a folder that may have no weights. */
enum rc model_open_tokenizer(const char *dir, struct tokenizer **out, struct err *err) MUST_USE;
size_t model_dim(const struct model *m); /* numbers of a vector that is given out */
const char *model_prompt(const struct model *m, const char *name); /* NULL: no such prompt */
const char *model_arch_label(enum model_arch a);                   /* "BERT" … */
const char *model_act_label(enum model_act a);                     /* "gelu", "gelu_tanh", "relu" */
const char *model_pool_label(enum model_pool p);                   /* "mean", "cls" … */
size_t model_pool_width(const struct model *m);                    /* floats that pooling gives */
/* ---- model_roles.c: what a tensor is for ---- */
enum model_role {
    W_WORD,
    W_POSITION,
    W_TYPE,
    W_EMB_LN_G,
    W_EMB_LN_B,
    W_REL_BIAS, /* of the whole model */
    W_Q,
    W_Q_B,
    W_K,
    W_K_B,
    W_V,
    W_V_B,
    W_O,
    W_O_B,
    W_ATT_LN_G,
    W_ATT_LN_B,
    W_FFN1,
    W_FFN1_B,
    W_FFN2,
    W_FFN2_B,
    W_OUT_LN_G,
    W_OUT_LN_B, /* of each layer */
    W_HEAD1,
    W_HEAD1_B,
    W_HEAD2,
    W_HEAD2_B /* pooler/dense, classifier */
};
enum { W_ROLES = W_HEAD2_B + 1 };
/* How many dimensions the tensor of a role has, and what they are; 0: this model has none. */
size_t model_role_dims(const struct model *m, enum model_role role, size_t dims[2]);
/* Its name without the network's prefix; `layer` is of no matter for roles of the whole model. */
enum { MODEL_ROLE_NAME = 128 };
const char *model_role_name(const struct model *m, enum model_role role, size_t layer,
                            char out[MODEL_ROLE_NAME]);
/* A tensor by the name without prefix; tries prefix, gamma/beta spellings.  NULL: none. */
const struct st_tensor *model_tensor(const struct model *m, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
