/* SPDX-License-Identifier: MIT */
/* model_class: which class of transformers reads a tokenizer, by its name in
 * tokenizer_config.json, else in config.json, else by the network's family.
 *
 * "Fast" at the end of a name means nothing any more.  A name that transformers does not know is
 * read by TokenizersBackend there, which takes tokenizer.json as it is, and so here.  A class that
 * it knows and that is not followed here is refused: it builds another tokenizer of the same file.
 * tests/parity/fields.py holds the lists against AutoTokenizer. */
#include "base/str.h"
#include "model/model_int.h"

static const struct tokenizer_class classes[] = {
    { "BertTokenizer", TOK_CLASS_BERT, true, false },
    { "ElectraTokenizer", TOK_CLASS_BERT, true, false },
    { "LayoutLMTokenizer", TOK_CLASS_BERT, true, false },
    { "LxmertTokenizer", TOK_CLASS_BERT, true, false },
    { "MobileBertTokenizer", TOK_CLASS_BERT, true, false },
    { "SqueezeBertTokenizer", TOK_CLASS_BERT, true, false },
    { "DPRContextEncoderTokenizer", TOK_CLASS_BERT, true, true },
    { "DPRQuestionEncoderTokenizer", TOK_CLASS_BERT, true, true },
    { "DistilBertTokenizer", TOK_CLASS_BERT, false, false },
    { "MPNetTokenizer", TOK_CLASS_MPNET, false, false },
    { "XLMRobertaTokenizer", TOK_CLASS_XLMR, false, false },
    { "CamembertTokenizer", TOK_CLASS_CAMEMBERT, false, false },
};

/* The other ones that transformers has, without "Tokenizer" at their end. */
/* clang-format off */
static const char *const others[] = {
    "Albert", "Auto", "Bart", "Barthez", "Bartpho", "Basic", "BertGeneration",
    "BertJapanese", "Bertweet", "BigBird", "BioGpt", "BlenderbotSmall",
    "Blenderbot", "ByT5", "CLIP", "CTRL", "Canine", "Character", "Clvp",
    "CodeGen", "CodeLlama", "Cohere", "ConvBert", "CpmAnt", "Cpm", "DPRReader",
    "Deberta", "DebertaV2", "Dia", "Esm", "Esmc", "FNet", "FSMT",
    "FastSpeech2Conformer", "Flaubert", "Funnel", "GPT2", "GPTNeoXJapanese",
    "GPTNeoX", "GPTSw3", "Gemma", "Herbert", "LED", "Lasr", "LayoutLMv2",
    "LayoutLMv3", "LayoutXLM", "Llama", "Longformer", "Luke", "M2M100",
    "MBart50", "MBart", "MLuke", "Marian", "MarkupLM", "Mecab", "Mgpstr", "Mvp",
    "MyT5", "Nllb", "Nougat", "OpenAIGPT", "PLBart", "Parakeet", "Pegasus",
    "Perceiver", "Phi3", "Phobert", "Pop2Piano", "ProphetNet", "Qwen2",
    "Qwen3_5", "Rag", "Reformer", "RemBert", "RoCBert", "RoFormer", "Roberta",
    "SeamlessM4T", "Siglip2", "Siglip", "Speech2Text", "SpeechT5", "Splinter",
    "T5", "Tapas", "Tipsv2", "Udop", "VideoPrism", "Vits", "Wav2Vec2CTC",
    "Wav2Vec2PhonemeCTC", "Whisper", "Wordpiece", "XGLM", "XLM", "XLNet",
};
/* clang-format on */

static const struct tokenizer_class family_class[] = {
    [MODEL_BERT] = { NULL, TOK_CLASS_BERT, true, false },
    [MODEL_XLMR] = { NULL, TOK_CLASS_XLMR, false, false },
    [MODEL_MPNET] = { NULL, TOK_CLASS_MPNET, false, false },
    [MODEL_DISTILBERT] = { NULL, TOK_CLASS_BERT, true, false },
};
static const struct tokenizer_class family_camembert = { NULL, TOK_CLASS_CAMEMBERT, false, false };
static const struct tokenizer_class family_roberta = { "RobertaTokenizer", TOK_CLASS_OTHER, false,
                                                       false };
static const struct tokenizer_class backend = { NULL, TOK_CLASS_FILE, false, false };
static const struct tokenizer_class other = { NULL, TOK_CLASS_OTHER, false, false };

static const struct tokenizer_class *of_family(const struct model *m)
{
    if (str_starts(m->arch_name, "Roberta"))
        return &family_roberta;
    if (str_starts(m->arch_name, "Camembert"))
        return &family_camembert;
    return &family_class[m->arch];
}

static bool is_other(const char *name, size_t len)
{
    static const char end[] = "Tokenizer";
    size_t tail = sizeof(end) - 1;

    if ((len == strlen("MistralCommonBackend") && str_starts(name, "MistralCommonBackend")) ||
        (len == strlen("SentencePieceBackend") && str_starts(name, "SentencePieceBackend")))
        return true;
    if (len <= tail || memcmp(name + len - tail, end, tail))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (strlen(others[i]) == len - tail && !strncmp(others[i], name, len - tail))
            return true;
    return false;
}

const struct tokenizer_class *tokenizer_class_find(const struct model *m, const char *name)
{
    bool fast = name && str_ends(name, "Fast");
    size_t len;

    if (!name)
        return of_family(m);
    len = strlen(name) - (fast ? strlen("Fast") : 0);
    for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
        if (strlen(classes[i].name) != len || strncmp(classes[i].name, name, len))
            continue;
        return fast && classes[i].lowers ? &other : &classes[i]; /* a class of its own there */
    }
    return is_other(name, len) ? &other : &backend;
}
