/* SPDX-License-Identifier: MIT */
/* model_fields: no field of a configuration file is passed over in silence.
 *
 * A field is read (by the config_* functions), or stands here with the reason why it changes no
 * number, or is refused unless it has the value that changes none.  What the reference's own
 * classes do not have is passed over by them too: config.json and tokenizer_config.json may carry
 * anything a trainer left there, and `model info` lists it.  The files of sentence-transformers
 * are closed: a field that is not known there is refused.
 *
 * tests/parity/fields.py holds the lists against the classes of transformers and
 * sentence-transformers themselves. */
#include "base/mem.h"
#include "base/str.h"
#include "model/model_int.h"

#include <assert.h>

enum config_field_kind { FIELD_READ, FIELD_HARMLESS, FIELD_MUST_BE };

struct field_row {
    const char *name;
    enum config_field_kind kind;
    const char *only; /* FIELD_MUST_BE: "null", "true", "false", "{}", or a text; null always is */
    const char *why;  /* FIELD_HARMLESS: why; else NULL */
};

/* clang-format off */
#define READ(name)          { name, FIELD_READ, NULL, NULL }
#define HARMLESS(name, why) { name, FIELD_HARMLESS, NULL, why }
#define MUST_BE(name, only) { name, FIELD_MUST_BE, only, NULL }
/* clang-format on */

static const char training[] = "for training";
static const char generating[] = "for generating text";
static const char outputs[] = "which outputs are returned, not what they are";
static const char provenance[] = "where the files come from";
static const char decoding[] = "for turning ids back into text";

static const struct field_row net_rows[] = {
    READ("activation"),
    READ("add_cross_attention"),
    READ("architectures"),
    READ("dim"),
    READ("hidden_act"),
    READ("hidden_dim"),
    READ("hidden_size"),
    READ("id2label"),
    READ("intermediate_size"),
    READ("is_decoder"),
    READ("is_encoder_decoder"),
    READ("layer_norm_eps"),
    READ("max_position_embeddings"),
    READ("model_type"),
    READ("n_heads"),
    READ("n_layers"),
    READ("num_attention_heads"),
    READ("num_hidden_layers"),
    READ("num_labels"),
    READ("pad_token_id"),
    READ("position_embedding_type"),
    READ("relative_attention_num_buckets"),
    READ("sbert_ce_default_activation_function"),
    READ("sentence_transformers"),
    READ("tokenizer_class"),
    READ("type_vocab_size"),
    READ("vocab_size"),
    HARMLESS("_name_or_path", provenance),
    HARMLESS("_attn_implementation", "how attention is computed, not what it is"),
    HARMLESS("_attn_implementation_autoset", "how attention is computed, not what it is"),
    HARMLESS("_commit_hash", provenance),
    HARMLESS("_num_labels", "written beside id2label, which is read"),
    HARMLESS("attention_dropout", training),
    HARMLESS("attention_probs_dropout_prob", training),
    HARMLESS("attn_implementation", "how attention is computed, not what it is"),
    HARMLESS("auto_map", "names code that the reference runs only when told to trust it"),
    HARMLESS("bos_token_id", generating),
    HARMLESS("chunk_size_feed_forward", "the feed-forward layer in parts gives the same sums"),
    HARMLESS("classifier_dropout", training),
    HARMLESS("directionality", "of BERT's first checkpoints; no class reads it"),
    HARMLESS("dropout", training),
    HARMLESS("dtype", "the type the reference computes in; ours is --dtype"),
    HARMLESS("eos_token_id", generating),
    HARMLESS("finetuning_task", training),
    HARMLESS("gradient_checkpointing", training),
    HARMLESS("hidden_dropout_prob", training),
    HARMLESS("initializer_range", training),
    HARMLESS("label2id", "the inverse of id2label, which is read"),
    HARMLESS("output_attentions", outputs),
    HARMLESS("output_hidden_states", outputs),
    HARMLESS("output_past", generating),
    HARMLESS("pooler_fc_size", "of BERT's first checkpoints; no class reads it"),
    HARMLESS("pooler_num_attention_heads", "of BERT's first checkpoints; no class reads it"),
    HARMLESS("pooler_num_fc_layers", "of BERT's first checkpoints; no class reads it"),
    HARMLESS("pooler_size_per_head", "of BERT's first checkpoints; no class reads it"),
    HARMLESS("pooler_type", "of BERT's first checkpoints; no class reads it"),
    HARMLESS("problem_type", "chooses the loss in training"),
    HARMLESS("qa_dropout", training),
    HARMLESS("return_dict", outputs),
    HARMLESS("seq_classif_dropout", training),
    HARMLESS("sinusoidal_pos_embds", "the position table is in the weights all the same"),
    HARMLESS("tie_weights_", "of the language model's head, which is not used"),
    HARMLESS("tie_word_embeddings", "of the language model's head, which is not used"),
    HARMLESS("torch_dtype", "the type the reference computes in; ours is --dtype"),
    HARMLESS("torchscript", outputs),
    HARMLESS("transformers_version", provenance),
    HARMLESS("use_cache", generating),
    MUST_BE("adapters", "{}"),
    MUST_BE("pruned_heads", "{}"),
    MUST_BE("quantization_config", "null"),
    MUST_BE("use_bfloat16", "false"),
};

static const struct field_row tokenizer_rows[] = {
    READ("add_prefix_space"),
    READ("added_tokens_decoder"),
    READ("additional_special_tokens"),
    READ("bos_token"),
    READ("cls_token"),
    READ("do_lower_case"),
    READ("eos_token"),
    READ("extra_special_tokens"),
    READ("mask_token"),
    READ("model_input_names"),
    READ("model_max_length"),
    READ("max_len"),
    READ("model_specific_special_tokens"),
    READ("pad_token"),
    READ("padding_side"),
    READ("sep_token"),
    READ("strip_accents"),
    READ("tokenize_chinese_chars"),
    READ("tokenizer_class"),
    READ("truncation_side"),
    READ("unk_token"),
    HARMLESS("_commit_hash", provenance),
    HARMLESS("add_bos_token", "the template is in tokenizer.json"),
    HARMLESS("add_eos_token", "the template is in tokenizer.json"),
    HARMLESS("auto_map", "names code that the reference runs only when told to trust it"),
    HARMLESS("backend", provenance),
    HARMLESS("chat_template", "for conversations"),
    HARMLESS("clean_up_tokenization_spaces", decoding),
    HARMLESS("device_map", "where the reference puts weights"),
    HARMLESS("do_basic_tokenize", "of tokenizers in Python, which the reference has no more"),
    HARMLESS("errors", decoding),
    HARMLESS("from_slow", provenance),
    HARMLESS("full_tokenizer_file", provenance),
    HARMLESS("is_local", provenance),
    HARMLESS("keep_accents", "of another family"),
    HARMLESS("legacy", "of another family"),
    HARMLESS("local_files_only", provenance),
    HARMLESS("max_length", "the reference cuts at model_max_length"),
    HARMLESS("name_or_path", provenance),
    HARMLESS("never_split", "of tokenizers in Python, which the reference has no more"),
    HARMLESS("pad_to_multiple_of", "texts are not padded"),
    HARMLESS("pad_token_type_id", "texts are not padded"),
    HARMLESS("processor_class", provenance),
    HARMLESS("sp_model_kwargs", "the pieces are in tokenizer.json"),
    HARMLESS("special_tokens_map_file", provenance),
    HARMLESS("stride", "texts are cut, not divided"),
    HARMLESS("tokenizer_file", provenance),
    HARMLESS("trim_offsets", "where a token was, not which"),
    HARMLESS("truncation_strategy", "the reference cuts the longest first"),
    HARMLESS("use_fast", "the reference has only these"),
    HARMLESS("vocab_file", provenance),
    HARMLESS("wordpieces_prefix", "the pieces are in tokenizer.json"),
    MUST_BE("fast_tokenizer_files", "{}"),
    MUST_BE("init_inputs", "{}"),
    MUST_BE("split_special_tokens", "false"),
};

static const struct field_row sentence_rows[] = {
    READ("do_lower_case"),
    READ("max_seq_length"),
    READ("modality_config"),
    READ("module_output_name"),
    READ("transformer_task"),
    HARMLESS("unpad_inputs", "texts are not padded"),
    MUST_BE("config_args", "{}"),
    MUST_BE("config_kwargs", "{}"),
    MUST_BE("document_length", "null"),
    MUST_BE("model_args", "{}"),
    MUST_BE("model_kwargs", "{}"),
    MUST_BE("processing_kwargs", "{}"),
    MUST_BE("processor_kwargs", "{}"),
    MUST_BE("query_expansion", "null"),
    MUST_BE("query_length", "null"),
    MUST_BE("tokenizer_args", "{}"),
    MUST_BE("tokenizer_name_or_path", "null"),
};

static const struct field_row prompts_rows[] = {
    READ("activation_fn"),
    READ("default_prompt_name"),
    READ("model_type"),
    READ("prompts"),
    READ("similarity_fn_name"),
    READ("truncate_dim"),
    HARMLESS("__version__", provenance),
    HARMLESS("keep_in_fp32_modules", "the type the reference computes in; ours is --dtype"),
    HARMLESS("requirements", "which packages the reference wants"),
};

static const struct field_row pool_rows[] = {
    READ("embedding_dimension"),
    READ("include_prompt"),
    READ("pooling_mode"),
    READ("pooling_mode_cls_token"),
    READ("pooling_mode_lasttoken"),
    READ("pooling_mode_max_tokens"),
    READ("pooling_mode_mean_sqrt_len_tokens"),
    READ("pooling_mode_mean_tokens"),
    READ("pooling_mode_weightedmean_tokens"),
    READ("word_embedding_dimension"),
};

static const struct field_row dense_rows[] = {
    READ("activation_function"), READ("bias"),
    READ("in_features"),         READ("module_input_name"),
    READ("module_output_name"),  READ("out_features"),
    READ("use_residual"),
};

static const struct field_row normalize_rows[] = {
    MUST_BE("module_input_name", "sentence_embedding"),
    MUST_BE("module_output_name", "sentence_embedding"),
};

static const struct {
    const struct field_row *rows;
    size_t count;
    const char *name; /* of a file whose unknown fields are listed; NULL: they are refused */
} files[FIELDS_FILES] = {
    [FIELDS_NET] = { net_rows, ARRAY_SIZE(net_rows), "config.json" },
    [FIELDS_TOKENIZER] = { tokenizer_rows, ARRAY_SIZE(tokenizer_rows), "tokenizer_config.json" },
    [FIELDS_SENTENCE] = { sentence_rows, ARRAY_SIZE(sentence_rows), NULL },
    [FIELDS_PROMPTS] = { prompts_rows, ARRAY_SIZE(prompts_rows), NULL },
    [FIELDS_POOL] = { pool_rows, ARRAY_SIZE(pool_rows), NULL },
    [FIELDS_DENSE] = { dense_rows, ARRAY_SIZE(dense_rows), NULL },
    [FIELDS_NORMALIZE] = { normalize_rows, ARRAY_SIZE(normalize_rows), NULL },
};

static bool value_is(const struct json *v, const char *only)
{
    switch (v->type) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return !strcmp(only, v->boolean ? "true" : "false");
    case JSON_OBJ:
    case JSON_ARR:
        return !strcmp(only, "{}") && !v->count;
    case JSON_STR:
        return !strcmp(only, v->text);
    default:
        return false;
    }
}

void ignored_add(struct model *m, const char *file, const char *field)
{
    if (!m->ignored)
        m->ignored = arena_array(&m->arena, const char *, MODEL_IGNORED_MAX);
    if (m->ignored_count < MODEL_IGNORED_MAX)
        m->ignored[m->ignored_count++] =
            arena_printf(&m->arena, "%s%s%.100s", file, field ? ":" : "", field ? field : "");
}

static const struct field_row *row_find(enum fields_file file, const char *key)
{
    for (size_t i = 0; i < files[file].count; i++) {
        if (!strcmp(files[file].rows[i].name, key))
            return &files[file].rows[i];
    }
    return NULL;
}

enum rc fields_check(struct model *m, enum fields_file file, const struct json *cfg,
                     struct err *err)
{
    assert(file < FIELDS_FILES);
    if (!cfg || cfg->type != JSON_OBJ)
        return RC_OK; /* what must be an object is told by who reads it */
    for (const struct json *v = cfg->first; v; v = v->next) {
        const struct field_row *row = row_find(file, v->key);

        if (!row && file == FIELDS_TOKENIZER && str_ends(v->key, "_token"))
            continue; /* a special token of its own name */
        if (!row && files[file].name) {
            ignored_add(m, files[file].name, v->key);
            continue;
        }
        if (!row) {
            err_hint(err,
                     "A field that is not known may change the vectors. Known are those of %s.",
                     MODEL_REFERENCE);
            return err_set(err, RC_USAGE, "field '%.64s' is not supported", v->key);
        }
        if (row->kind == FIELD_MUST_BE && !value_is(v, row->only))
            return err_set(err, RC_USAGE, "'%s' other than %s is not supported", row->name,
                           row->only);
    }
    return RC_OK;
}
