/* SPDX-License-Identifier: MIT */
/* model_tokenizer: tokenizer_config.json: which class of transformers reads tokenizer.json, with
 * what arguments, and what it hands to the network.
 *
 * The class is the one that tokenizer_config.json names, else config.json, else the family's
 * own; "Fast" at its end means nothing any more.  Names that transformers does not know are
 * read by TokenizersBackend there, and so here. */
#include "base/str.h"
#include "model/model_int.h"
#include "os/file.h"

struct class_row {
    const char *name;
    enum tok_class class;
    bool types; /* token_type_ids are among its inputs by default */
};

static const struct class_row classes[] = {
    { "BertTokenizer", TOK_CLASS_BERT, true },
    { "ElectraTokenizer", TOK_CLASS_BERT, true },
    { "MobileBertTokenizer", TOK_CLASS_BERT, true },
    { "LayoutLMTokenizer", TOK_CLASS_BERT, true },
    { "LxmertTokenizer", TOK_CLASS_BERT, true },
    { "SqueezeBertTokenizer", TOK_CLASS_BERT, true },
    { "DistilBertTokenizer", TOK_CLASS_BERT, false },
    { "MPNetTokenizer", TOK_CLASS_MPNET, false },
    { "XLMRobertaTokenizer", TOK_CLASS_XLMR, false },
    { "CamembertTokenizer", TOK_CLASS_XLMR, false },
    { "RobertaTokenizer", TOK_CLASS_FILE, false },
};

/* Classes that the reference has and that make something else of tokenizer.json, or cannot use it.
 * Names that it does not have are read by TokenizersBackend. */
static const char *const refused_classes[] = {
    "AlbertTokenizer",
    "BartTokenizer",
    "BarthezTokenizer",
    "BartphoTokenizer",
    "BertGenerationTokenizer",
    "BertJapaneseTokenizer",
    "BertweetTokenizer",
    "BigBirdTokenizer",
    "BioGptTokenizer",
    "BlenderbotSmallTokenizer",
    "BlenderbotTokenizer",
    "ByT5Tokenizer",
    "CLIPTokenizer",
    "CTRLTokenizer",
    "CanineTokenizer",
    "ClvpTokenizer",
    "CodeGenTokenizer",
    "CodeLlamaTokenizer",
    "CohereTokenizer",
    "ConvBertTokenizer",
    "CpmAntTokenizer",
    "CpmTokenizer",
    "DPRContextEncoderTokenizer",
    "DPRQuestionEncoderTokenizer",
    "DPRReaderTokenizer",
    "DebertaTokenizer",
    "DebertaV2Tokenizer",
    "DiaTokenizer",
    "EsmTokenizer",
    "EsmcTokenizer",
    "FNetTokenizer",
    "FSMTTokenizer",
    "FastSpeech2ConformerTokenizer",
    "FlaubertTokenizer",
    "FunnelTokenizer",
    "GPT2Tokenizer",
    "GPTNeoXJapaneseTokenizer",
    "GPTNeoXTokenizer",
    "GPTSw3Tokenizer",
    "GemmaTokenizer",
    "HerbertTokenizer",
    "LEDTokenizer",
    "LasrTokenizer",
    "LayoutLMv2Tokenizer",
    "LayoutLMv3Tokenizer",
    "LayoutXLMTokenizer",
    "LlamaTokenizer",
    "LukeTokenizer",
    "M2M100Tokenizer",
    "MBart50Tokenizer",
    "MBartTokenizer",
    "MLukeTokenizer",
    "MarianTokenizer",
    "MarkupLMTokenizer",
    "MgpstrTokenizer",
    "MvpTokenizer",
    "MyT5Tokenizer",
    "NllbTokenizer",
    "NougatTokenizer",
    "OpenAIGPTTokenizer",
    "PLBartTokenizer",
    "ParakeetTokenizer",
    "PegasusTokenizer",
    "PerceiverTokenizer",
    "PhobertTokenizer",
    "Pop2PianoTokenizer",
    "ProphetNetTokenizer",
    "Qwen2Tokenizer",
    "Qwen3_5Tokenizer",
    "RagTokenizer",
    "ReformerTokenizer",
    "RemBertTokenizer",
    "RoCBertTokenizer",
    "RoFormerTokenizer",
    "SeamlessM4TTokenizer",
    "Siglip2Tokenizer",
    "SiglipTokenizer",
    "Speech2TextTokenizer",
    "SpeechT5Tokenizer",
    "SplinterTokenizer",
    "T5Tokenizer",
    "TapasTokenizer",
    "Tipsv2Tokenizer",
    "UdopTokenizer",
    "VideoPrismTokenizer",
    "VitsTokenizer",
    "Wav2Vec2CTCTokenizer",
    "Wav2Vec2PhonemeCTCTokenizer",
    "WhisperTokenizer",
    "XGLMTokenizer",
    "XLMTokenizer",
    "XLNetTokenizer",
};

/* Of families; RoBERTa's own class reads byte-level BPE, which no tokenizer here does: a file of
 * another kind is read as it is. */
static const struct class_row family_class[] = {
    [MODEL_BERT] = { NULL, TOK_CLASS_BERT, true },
    [MODEL_XLMR] = { NULL, TOK_CLASS_XLMR, false },
    [MODEL_MPNET] = { NULL, TOK_CLASS_MPNET, false },
    [MODEL_DISTILBERT] = { NULL, TOK_CLASS_BERT, true },
};
static const struct class_row backend = { NULL, TOK_CLASS_FILE, false };

static bool class_is(const char *class, const char *name)
{
    size_t len = strlen(name) - (str_ends(name, "Fast") ? strlen("Fast") : 0);

    return strlen(class) == len && !strncmp(class, name, len);
}

static enum rc class_find(const struct model *m, const char *name, const struct class_row **out,
                          struct err *err)
{
    *out = &backend;
    if (!name) {
        *out = str_starts(m->arch_name, "Roberta") ? &backend : &family_class[m->arch];
        return RC_OK;
    }
    for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
        if (class_is(classes[i].name, name)) {
            *out = &classes[i];
            return RC_OK;
        }
    for (size_t i = 0; i < ARRAY_SIZE(refused_classes); i++)
        if (class_is(refused_classes[i], name)) {
            err_hint(err, "It builds a tokenizer of its own from tokenizer.json; "
                          "PreTrainedTokenizerFast takes that file as it is.");
            return err_set(err, RC_USAGE, "'tokenizer_class' '%.64s' is not supported", name);
        }
    return RC_OK;
}

/* Where no class builds the template, the reference does when one of these is given. */
static enum rc ends_check(const struct class_row *row, const struct json *cfg, const char *class,
                          struct err *err)
{
    static const char *const keys[] = { "add_bos_token", "add_eos_token" };

    for (size_t i = 0; row->class == TOK_CLASS_FILE && i < ARRAY_SIZE(keys); i++)
        if (json_get(cfg, keys[i]))
            return err_set(err, RC_USAGE, "'%s' with the class '%.64s' is not supported", keys[i],
                           class ? class : "PreTrainedTokenizerFast");
    return RC_OK;
}

/* "left" or "right"; missing is right. */
static enum rc side_read(const struct json *cfg, const char *key, bool *set, bool *left,
                         struct err *err)
{
    const char *side = NULL;
    enum rc rc = config_str(cfg, key, &side, err);

    if (!rc && side && strcmp(side, "left") && strcmp(side, "right"))
        return err_set(err, RC_PARSE, "'%s' is '%.32s', not left or right", key, side);
    *left = side && !strcmp(side, "left");
    *set = side != NULL;
    return rc;
}

/* model_input_names: the network is given token types when they are among them. */
static enum rc inputs_read(struct model *m, const struct json *cfg, bool dflt, struct err *err)
{
    const struct json *names = json_get(cfg, "model_input_names");
    bool types = false;

    if (!names || names->type == JSON_NULL) {
        m->rules.types_zero = !dflt;
        return RC_OK;
    }
    if (names->type != JSON_ARR)
        return err_set(err, RC_PARSE, "'model_input_names' is not a list");
    for (const struct json *v = names->first; v; v = v->next) {
        const char *name = json_str(v);

        if (!name)
            return err_set(err, RC_PARSE, "'model_input_names' holds something that is no text");
        if (!strcmp(name, "token_type_ids"))
            types = true;
        else if (strcmp(name, "input_ids") && strcmp(name, "attention_mask"))
            return err_set(err, RC_USAGE, "'model_input_names' has '%.64s', which is not supported",
                           name);
    }
    m->rules.types_zero = !types;
    return RC_OK;
}

static enum rc tokens_check(const struct model *m, const struct tokenizer *t, struct err *err)
{
    for (size_t i = 0; i < m->tokens_count; i++) {
        const struct model_token *k = &m->tokens[i];
        uint32_t id;

        if (!tokenizer_id(t, k->text, &id) || (k->id.known && (int64_t)id != k->id.v)) {
            err_hint(err, "Let the reference write both files again: 'AutoTokenizer."
                          "from_pretrained(DIR).save_pretrained(DIR)'.");
            return err_set(err, RC_USAGE,
                           "%s of '%s' adds the token '%.64s', which tokenizer.json lacks or has "
                           "with another id",
                           k->file, m->net_dir, k->text);
        }
    }
    return RC_OK;
}

enum rc config_tokenizer(struct model *m, const struct json *net, const struct special_files *files,
                         struct err *err)
{
    const struct json *cfg = files->config;
    const char *name = NULL, *of_net = NULL;
    bool lower = true, chinese = true, prefix = true, ignored = false;
    const struct json *accents = json_get(cfg, "strip_accents");
    const struct class_row *row;
    enum rc rc = config_str(cfg, "tokenizer_class", &name, err);

    if (!rc)
        rc = config_str(net, "tokenizer_class", &of_net, err);
    if (rc)
        return rc;
    rc = class_find(m, name ? name : of_net, &row, err);
    if (!rc)
        rc = ends_check(row, cfg, name ? name : of_net, err);
    if (rc)
        return rc;
    m->rules.class = row->class;
    m->rules.camembert = str_eq(row->name, "CamembertTokenizer");
    m->rules.first =
        special_name(m, files, row->class == TOK_CLASS_XLMR ? "bos_token" : "cls_token");
    m->rules.last =
        special_name(m, files, row->class == TOK_CLASS_XLMR ? "eos_token" : "sep_token");
    m->rules.unk = special_name(m, files, "unk_token");
    m->rules.class_name = arena_strdup(&m->arena, name ? name : of_net);
    rc = config_flag(cfg, "do_lower_case", true, &lower, err);
    if (!rc)
        rc = config_flag(cfg, "tokenize_chinese_chars", true, &chinese, err);
    if (!rc)
        rc = config_flag(cfg, "strip_accents", false, &m->rules.strip_accents, err);
    if (!rc)
        rc = config_flag(cfg, "add_prefix_space", true, &prefix, err);
    if (!rc)
        rc = side_read(cfg, "truncation_side", &m->rules.side_set, &m->rules.left, err);
    if (!rc) /* a text by itself is not padded, and ours never are */
        rc = side_read(cfg, "padding_side", &ignored, &ignored, err);
    if (!rc)
        rc = inputs_read(m, cfg, row->types, err);
    if (!rc)
        rc = special_read(m, files, err);
    m->rules.keep_case = !lower;
    m->rules.keep_chinese = !chinese;
    m->rules.accents_set = accents && accents->type != JSON_NULL;
    m->rules.no_prefix_space = !prefix;
    return rc;
}

enum rc model_tokenizer(const struct model *m, struct tokenizer **out, struct err *err)
{
    char path[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), m->net_dir, "tokenizer.json", err);

    if (!rc && !file_exists(path)) {
        err_hint(err, "A fast tokenizer's tokenizer.json is needed: 'AutoTokenizer."
                      "from_pretrained(DIR).save_pretrained(DIR)' writes one.");
        return err_set(err, RC_NODEV, "there is no tokenizer.json in '%s'", m->net_dir);
    }
    if (!rc)
        rc = tokenizer_load(path, &m->rules, out, err);
    if (!rc && tokens_check(m, *out, err)) {
        tokenizer_free(*out);
        *out = NULL;
        return err->code;
    }
    return rc;
}
