/* SPDX-License-Identifier: MIT */
/* model_config: config.json, the network's own file.
 *
 * Each architecture is a row of a table: its class name, its family and whether it has a
 * classification head.  What we would compute otherwise than the reference does is an
 * error that names the field: nothing is guessed. */
#include "base/str.h"
#include "model/model_int.h"

#include <math.h>

struct arch_row {
    const char *name;
    enum model_arch arch;
    bool classifies;
};

static const struct arch_row archs[] = {
    { "BertModel", MODEL_BERT, false },
    { "BertForMaskedLM", MODEL_BERT, false },
    { "BertForPreTraining", MODEL_BERT, false },
    { "BertForSequenceClassification", MODEL_BERT, true },
    { "XLMRobertaModel", MODEL_XLMR, false },
    { "XLMRobertaForMaskedLM", MODEL_XLMR, false },
    { "XLMRobertaForSequenceClassification", MODEL_XLMR, true },
    { "RobertaModel", MODEL_XLMR, false },
    { "RobertaForMaskedLM", MODEL_XLMR, false },
    { "RobertaForSequenceClassification", MODEL_XLMR, true },
    { "CamembertModel", MODEL_XLMR, false },
    { "CamembertForMaskedLM", MODEL_XLMR, false },
    { "CamembertForSequenceClassification", MODEL_XLMR, true },
    { "MPNetModel", MODEL_MPNET, false },
    { "MPNetForMaskedLM", MODEL_MPNET, false },
    { "MPNetForSequenceClassification", MODEL_MPNET, true },
    { "DistilBertModel", MODEL_DISTILBERT, false },
    { "DistilBertForMaskedLM", MODEL_DISTILBERT, false },
    { "DistilBertForSequenceClassification", MODEL_DISTILBERT, true },
};

/* "model_type" and the class that a config without "architectures" means. */
static const struct {
    const char *type, *base;
} types[] = {
    { "bert", "BertModel" },       { "xlm-roberta", "XLMRobertaModel" },
    { "roberta", "RobertaModel" }, { "camembert", "CamembertModel" },
    { "mpnet", "MPNetModel" },     { "distilbert", "DistilBertModel" },
};

static const struct {
    const char *name;
    enum model_act act;
} acts[] = {
    { "gelu", MODEL_GELU },          { "gelu_python", MODEL_GELU },
    { "gelu_new", MODEL_GELU_TANH }, { "gelu_pytorch_tanh", MODEL_GELU_TANH },
    { "relu", MODEL_RELU },
};

/* --- fields --- */
static const struct json *config_field(const struct json *cfg, const char *key)
{
    const struct json *v = json_get(cfg, key);

    return v && v->type != JSON_NULL ? v : NULL;
}

enum rc config_size(const struct json *cfg, const char *key, size_t min, size_t max, size_t dflt,
                    size_t *out, struct err *err)
{
    const struct json *v = config_field(cfg, key);
    struct maybe n = json_int(v);

    if (!v && dflt == SIZE_MAX)
        return err_set(err, RC_PARSE, "'%s' is missing", key);
    if (!v) {
        *out = dflt;
        return RC_OK;
    }
    if (!n.known)
        return err_set(err, RC_PARSE, "'%s' is not a whole number", key);
    if (n.v < (int64_t)min || n.v > (int64_t)max)
        return err_set(err, RC_LIMIT, "'%s' is %lld, not between %zu and %zu", key, (long long)n.v,
                       min, max);
    *out = (size_t)n.v;
    return RC_OK;
}

enum rc config_flag(const struct json *cfg, const char *key, bool dflt, bool *out, struct err *err)
{
    const struct json *v = config_field(cfg, key);

    if (v && v->type != JSON_BOOL)
        return err_set(err, RC_PARSE, "'%s' is neither true nor false", key);
    *out = v ? v->boolean : dflt;
    return RC_OK;
}

enum rc config_str(const struct json *cfg, const char *key, const char **out, struct err *err)
{
    const struct json *v = config_field(cfg, key);

    if (v && (v->type != JSON_STR || strlen(v->text) != v->len))
        return err_set(err, RC_PARSE, "'%s' is not a text", key);
    *out = v ? v->text : NULL;
    return RC_OK;
}

/* --- what network --- */
static const struct arch_row *arch_find(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_SIZE(archs); i++) {
        if (!strcmp(name, archs[i].name))
            return &archs[i];
    }
    return NULL;
}

static enum rc arch_read(struct model *m, const struct json *cfg, struct err *err)
{
    const struct json *list = config_field(cfg, "architectures");
    const char *name = json_str(json_at(list, 0)), *type = NULL;
    const struct arch_row *row, *of_type = NULL;
    enum rc rc = config_str(cfg, "model_type", &type, err);

    if (!rc && list && (list->type != JSON_ARR || (list->count && !name)))
        rc = err_set(err, RC_PARSE, "'architectures' is not a list of names");

    if (rc)
        return rc;
    if (!name && !type)
        return err_set(err, RC_PARSE, "neither 'architectures' nor 'model_type' is given");
    for (size_t i = 0; type && i < ARRAY_SIZE(types); i++)
        if (!strcmp(type, types[i].type))
            of_type = arch_find(types[i].base);
    row = name ? arch_find(name) : of_type;
    if (!row) {
        err_hint(err, "Encoders of the families BERT, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet and "
                      "DistilBERT are supported.");
        return err_set(err, RC_USAGE, "%s '%.64s' is not supported",
                       name ? "architecture" : "model type", name ? name : type);
    }
    if (type && (!of_type || of_type->arch != row->arch))
        return err_set(err, RC_PARSE, "'model_type' is '%.64s', which is not the family of '%s'",
                       type, row->name);
    m->arch = row->arch;
    m->arch_name = row->name;
    m->head = MODEL_HEAD_NONE;
    if (row->classifies)
        m->head = row->arch == MODEL_BERT ? MODEL_HEAD_POOLER : MODEL_HEAD_DENSE;
    return RC_OK;
}

static enum rc act_read(struct model *m, const struct json *cfg, const char *key, struct err *err)
{
    const char *name = NULL;
    enum rc rc = config_str(cfg, key, &name, err);

    if (rc)
        return rc;
    name = name ? name : "gelu";
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++) {
        if (!strcmp(name, acts[i].name)) {
            m->act = acts[i].act;
            return RC_OK;
        }
    }
    return err_set(err, RC_USAGE,
                   "'%s' is '%.64s'; gelu, gelu_new, gelu_pytorch_tanh and relu are "
                   "supported",
                   key, name);
}

struct size_keys {
    const char *layers, *hidden, *heads, *ffn;
};
static const struct size_keys keys_bert = { "num_hidden_layers", "hidden_size",
                                            "num_attention_heads", "intermediate_size" };
static const struct size_keys keys_distil = { "n_layers", "dim", "n_heads", "hidden_dim" };

/* DistilBERT's own names have the general ones beside them, which say the same. */
static enum rc sizes_alike(const struct json *cfg, struct err *err)
{
    const char *const pairs[][2] = { { keys_distil.layers, keys_bert.layers },
                                     { keys_distil.hidden, keys_bert.hidden },
                                     { keys_distil.heads, keys_bert.heads } };

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        const struct json *named = config_field(cfg, pairs[i][0]),
                          *other = config_field(cfg, pairs[i][1]);

        if (other && json_num(other, NAN) != json_num(named, NAN))
            return err_set(err, RC_PARSE, "'%s' and '%s' are not the same number", pairs[i][0],
                           pairs[i][1]);
    }
    return RC_OK;
}

static enum rc sizes_read(struct model *m, const struct json *cfg, struct err *err)
{
    const struct size_keys *k = m->arch == MODEL_DISTILBERT ? &keys_distil : &keys_bert;
    bool types_used = m->arch == MODEL_BERT || m->arch == MODEL_XLMR;

    if (config_size(cfg, k->layers, 1, MODEL_LAYERS_MAX, SIZE_MAX, &m->layers, err) ||
        config_size(cfg, k->hidden, 1, MODEL_HIDDEN_MAX, SIZE_MAX, &m->hidden, err) ||
        config_size(cfg, k->heads, 1, MODEL_HIDDEN_MAX, SIZE_MAX, &m->heads, err) ||
        config_size(cfg, k->ffn, 1, MODEL_FFN_MAX, SIZE_MAX, &m->ffn, err) ||
        (m->arch == MODEL_DISTILBERT && sizes_alike(cfg, err)) ||
        config_size(cfg, "vocab_size", 1, MODEL_VOCAB_MAX, SIZE_MAX, &m->vocab, err) ||
        config_size(cfg, "max_position_embeddings", 1, MODEL_POSITIONS_MAX, 512, &m->positions,
                    err) ||
        (types_used && config_size(cfg, "type_vocab_size", 1, MODEL_TYPES_MAX, 2, &m->types, err)))
        return err->code;
    if (m->hidden % m->heads)
        return err_set(err, RC_PARSE, "'%s' %zu is not a multiple of '%s' %zu", k->hidden,
                       m->hidden, k->heads, m->heads);
    m->head_dim = m->hidden / m->heads;
    return RC_OK;
}

/* Rotary, relative_key and decoder forms share names with what we compute but not results. */
static enum rc variants_refuse(const struct json *cfg, struct err *err)
{
    static const char *const flags[] = { "is_decoder", "add_cross_attention",
                                         "is_encoder_decoder" };
    const char *kind = NULL;
    enum rc rc = config_str(cfg, "position_embedding_type", &kind, err);
    bool on = false;

    if (rc)
        return rc;
    if (kind && strcmp(kind, "absolute"))
        return err_set(err, RC_USAGE,
                       "'position_embedding_type' is '%.64s'; only absolute is "
                       "supported",
                       kind);
    for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
        rc = config_flag(cfg, flags[i], false, &on, err);
        if (rc)
            return rc;
        if (on)
            return err_set(err, RC_USAGE, "'%s' is true; only encoders are supported", flags[i]);
    }
    return RC_OK;
}

static enum rc positions_read(struct model *m, const struct json *cfg, struct err *err)
{
    bool after_pad = m->arch == MODEL_XLMR || m->arch == MODEL_MPNET;
    size_t pad = 0, buckets = 0;
    enum rc rc = config_size(cfg, "pad_token_id", 0, m->vocab - 1, after_pad ? 1 : 0, &pad, err);

    if (rc)
        return rc;
    if (pad >= m->vocab) /* the reference's own, where the file names none */
        return err_set(err, RC_PARSE, "'vocab_size' is %zu, without the padding's %zu", m->vocab,
                       pad);
    m->pad_id = (uint32_t)pad;
    m->position_first = m->arch == MODEL_XLMR ? pad + 1 : 0;
    if (m->arch == MODEL_MPNET) {
        m->position_first = 2; /* the reference has it so whatever the padding is */
        rc = config_size(cfg, "relative_attention_num_buckets", 1, 1024, 32, &buckets, err);
        if (rc)
            return rc;
        if (buckets != 32)
            return err_set(err, RC_USAGE,
                           "'relative_attention_num_buckets' is %zu; only 32 is "
                           "supported",
                           buckets);
        m->rel_buckets = buckets;
    }
    if (m->position_first >= m->positions)
        return err_set(err, RC_PARSE, "'max_position_embeddings' is %zu, the first position %zu",
                       m->positions, m->position_first);
    m->max_tokens = m->positions - m->position_first;
    return RC_OK;
}

static enum rc eps_read(struct model *m, const struct json *cfg, struct err *err)
{
    const struct json *v = config_field(cfg, "layer_norm_eps");
    double eps = json_num(v, NAN);

    m->ln_eps = 1e-12f;
    if (!v || m->arch == MODEL_DISTILBERT)
        return RC_OK;
    if (!(eps > 0 && eps <= 1) || (float)eps == 0.0f)
        return err_set(err, RC_PARSE, "'layer_norm_eps' is not a number above 0 and up to 1");
    m->ln_eps = (float)eps;
    return RC_OK;
}

/* --- the head --- */
static enum rc labels_read(struct model *m, const struct json *cfg, struct err *err)
{
    const struct json *ids = config_field(cfg, "id2label");

    if (!ids)
        return config_size(cfg, "num_labels", 1, MODEL_LABELS_MAX, 2, &m->labels, err);
    if (ids->type != JSON_OBJ || !ids->count)
        return err_set(err, RC_PARSE, "'id2label' is not an object with labels");
    if (ids->count > MODEL_LABELS_MAX)
        return err_set(err, RC_LIMIT, "'id2label' has %zu labels; at most %d are supported",
                       ids->count, MODEL_LABELS_MAX);
    m->labels = ids->count;
    m->label_names = arena_array(&m->arena, const char *, ids->count);
    for (const struct json *v = ids->first; v; v = v->next) {
        uint64_t i;
        if (v->type == JSON_STR && str_to_u64(v->key, 10, &i) && i < ids->count)
            m->label_names[i] = arena_strdup(&m->arena, v->text);
    }
    return RC_OK;
}

enum rc config_score(struct model *m, const char *path, struct err *err)
{
    const char *dot = strrchr(path, '.'), *name = dot ? dot + 1 : path;

    if (!str_starts(path, "torch.nn."))
        return err_set(err, RC_USAGE, "score activation '%.100s' is not one of torch", path);
    if (!strcmp(name, "Sigmoid"))
        m->score = MODEL_SCORE_SIGMOID;
    else if (!strcmp(name, "Identity"))
        m->score = MODEL_SCORE_RAW;
    else
        return err_set(err, RC_USAGE,
                       "score activation '%.100s' is not supported; Sigmoid and "
                       "Identity are",
                       path);
    return RC_OK;
}

static enum rc score_read(struct model *m, const struct json *cfg, struct err *err)
{
    const struct json *st = config_field(cfg, "sentence_transformers");
    const char *path = NULL;
    enum rc rc = config_str(st, "activation_fn", &path, err);

    if (!rc && !json_get(st, "activation_fn")) /* null there is a word too: the default */
        rc = config_str(cfg, "sbert_ce_default_activation_function", &path, err);
    if (rc)
        return rc;
    m->score = m->labels == 1 ? MODEL_SCORE_SIGMOID : MODEL_SCORE_RAW;
    return path ? config_score(m, path, err) : RC_OK;
}

enum rc config_net(struct model *m, const struct json *cfg, struct err *err)
{
    if (!cfg || cfg->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "it is not a JSON object");
    if (arch_read(m, cfg, err) || fields_check(m, FIELDS_NET, cfg, err) ||
        variants_refuse(cfg, err) || sizes_read(m, cfg, err) || positions_read(m, cfg, err) ||
        act_read(m, cfg, m->arch == MODEL_DISTILBERT ? "activation" : "hidden_act", err) ||
        eps_read(m, cfg, err))
        return err->code;
    if (m->head != MODEL_HEAD_NONE && (labels_read(m, cfg, err) || score_read(m, cfg, err)))
        return err->code;
    return RC_OK;
}
