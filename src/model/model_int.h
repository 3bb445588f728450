/* SPDX-License-Identifier: MIT */
/* model_int: between the files that read a model directory.
 *
 * The config_* functions are pure: a parsed document in, fields of the model out.  They
 * name the field that is wrong; the caller that read the file names the file.  `err` is there. */
#ifndef MODEL_MODEL_INT_H
#define MODEL_MODEL_INT_H
#include "base/text/json.h"
#include "model/model.h"

/* config.json of the network. */
enum rc config_net(struct model *m, const struct json *cfg, struct err *err) MUST_USE;

/* What the small files beside it say, before it is put together by model_open(). */
enum { MODULES_MAX = 16 }; /* entries of modules.json */
enum module_kind { MODULE_NET, MODULE_POOL, MODULE_DENSE, MODULE_NORMALIZE, MODULE_DROPOUT };
struct module {
    enum module_kind kind;
    const char *path; /* "1_Pooling"; "" for the folder itself */
};
struct modules {
    struct module items[MODULES_MAX];
    size_t count;
    bool pools; /* one of them is a Pooling */
    bool saved; /* the reference reads the other files that sentence-transformers wrote */
};
enum rc config_modules(struct model *m, const struct json *cfg, struct modules *out,
                       struct err *err) MUST_USE;
enum rc config_pool(struct model *m, const struct json *cfg, struct err *err) MUST_USE;
enum rc config_dense(struct model *m, const struct json *cfg, struct model_dense *out,
                     struct err *err) MUST_USE;
/* config_sentence_transformers.json: which class of sentence-transformers saved the folder.
 * *out is whether that class reads the files beside it: another one builds its own modules and
 * reads none of them. */
enum rc config_saved(const struct model *m, const struct json *cfg, bool *out,
                     struct err *err) MUST_USE;
/* The same file: prompts, and the score's activation. */
enum rc config_prompts(struct model *m, const struct json *cfg, struct err *err) MUST_USE;
/* sentence_bert_config.json; `cfg` NULL: there is none. */
enum rc config_task(struct model *m, const struct json *cfg, struct err *err) MUST_USE;
/* That and tokenizer_config.json; 0: it does not say. */
enum rc config_lengths(struct model *m, const struct json *sentence, const struct json *tokenizer,
                       struct err *err) MUST_USE;
/* model_tokenizer.c: tokenizer_config.json, beside config.json of the network. */
enum rc config_tokenizer(struct model *m, const struct json *net, const struct json *tokenizer,
                         struct err *err) MUST_USE;
/* model_class.c: the class that transformers has for a name; NULL: the network's own. */
struct tokenizer_class {
    const char *name;
    enum tok_class class;
    bool types;  /* token_type_ids are among its inputs by default */
    bool lowers; /* whatever do_lower_case says */
};
const struct tokenizer_class *tokenizer_class_find(const struct model *m, const char *name);
/* model_special.c: the special and the added tokens.  `map` is special_tokens_map.json and `added`
 * added_tokens.json, NULL where tokenizer_config.json has an added_tokens_decoder: the reference
 * does not read them then. */
enum rc config_special(struct model *m, const struct json *cfg, const struct json *map,
                       const struct json *added, struct err *err) MUST_USE;

/* model_fields.c: each field of a file is read, known to change no number, or refused. */
enum fields_file {
    FIELDS_NET,       /* config.json */
    FIELDS_TOKENIZER, /* tokenizer_config.json */
    FIELDS_SENTENCE,  /* sentence_bert_config.json */
    FIELDS_PROMPTS,   /* config_sentence_transformers.json */
    FIELDS_POOL,      /* 1_Pooling/config.json */
    FIELDS_DENSE,     /* 2_Dense/config.json */
    FIELDS_NORMALIZE, /* 2_Normalize/config.json */
    FIELDS_FILES
};
/* For `model info`: a field, or with `field` NULL a file, that the reference does not read. */
void ignored_add(struct model *m, const char *file, const char *field);
enum rc fields_check(struct model *m, enum fields_file file, const struct json *cfg,
                     struct err *err) MUST_USE;

/* The whole number `key` between min and max; `dflt` when missing or null, an error then
 * when `dflt` is SIZE_MAX. */
enum rc config_size(const struct json *cfg, const char *key, size_t min, size_t max, size_t dflt,
                    size_t *out, struct err *err) MUST_USE;
/* A number of tokens; 0 when missing or null, `beyond` where it is above every model's: tokenizers
 * without a limit write 1e30. */
enum rc config_limit(const struct json *cfg, const char *key, size_t beyond, size_t *out,
                     struct err *err) MUST_USE;
/* Missing and null are `dflt`; other than true and false an error. */
enum rc config_flag(const struct json *cfg, const char *key, bool dflt, bool *out,
                    struct err *err) MUST_USE;
/* Missing and null are NULL; other than a string without NUL an error. */
enum rc config_str(const struct json *cfg, const char *key, const char **out,
                   struct err *err) MUST_USE;
/* "torch.nn.modules.activation.Sigmoid", as a config of sentence-transformers writes it. */
enum rc config_score(struct model *m, const char *path, struct err *err) MUST_USE;

#endif
