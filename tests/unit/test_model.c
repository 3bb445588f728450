/* SPDX-License-Identifier: MIT */
/* Model directories: every family opens, and every lie in a file is told. */
#include "test.h"

#include "base/str.h"
#include "model/files/verify.h"
#include "model/model.h"
#include "model_box.h"

#include <math.h>

TEST(families_open)
{
    for (int arch = MODEL_BERT; arch <= MODEL_DISTILBERT; arch++) {
        for (size_t labels = 0; labels < 3; labels++) {
            struct box b = { .arch = (enum model_arch)arch, .labels = labels, .seed = 7 };
            char *dir = box_make(&b);
            struct err err = { 0 };
            struct model *m = NULL;

            assert_int_equal(model_open(dir, &m, &err), RC_OK);
            assert_int_equal(m->arch, arch);
            assert_int_equal(m->layers, 2);
            assert_int_equal(m->hidden, 32);
            assert_int_equal(m->head_dim, 8);
            assert_int_equal(m->max_tokens, 64);
            assert_int_equal(m->labels, labels);
            assert_int_equal(m->rel_buckets, arch == MODEL_MPNET ? 32 : 0);
            assert_int_equal(m->position_first, arch == MODEL_XLMR || arch == MODEL_MPNET ? 2 : 0);
            CHECK((m->head == MODEL_HEAD_NONE) == (labels == 0));
            CHECK(!labels || (m->score == MODEL_SCORE_SIGMOID) == (labels == 1));
            assert_non_null(model_tensor(m, "embeddings.LayerNorm.bias"));
            assert_null(model_tensor(m, "embeddings.LayerNorm.gamut"));
            model_close(m);
            box_remove(dir);
        }
    }
}

TEST(types_and_prefixes)
{
    static const char *const prefixes[] = { "", "bert.", "0.auto_model.", "module.bert." };
    static const enum st_dtype types[] = { ST_F32, ST_F16, ST_BF16 };

    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
        struct box b = { .prefix = prefixes[i], .dtype = types[i % 3], .labels = i & 1 };
        char *dir = box_make(&b);
        struct err err = { 0 };
        struct model *m;
        float w[4];

        assert_int_equal(model_open(dir, &m, &err), RC_OK);
        assert_string_equal(m->prefix, prefixes[i]);
        assert_int_equal(model_tensor(m, "encoder.layer.%zu.output.dense.bias", (size_t)1)->dtype,
                         types[i % 3]);
        assert_int_equal(
            st_read_f32(m->tensors, model_tensor(m, "embeddings.LayerNorm.weight"), 0, 4, w, &err),
            RC_OK);
        CHECK(fabsf(w[0] - 1) < 0.2f);
        model_close(m);
        box_remove(dir);
    }
}

TEST(sentence_files)
{
    struct box b = { .pool = "cls", .normalize = true, .dense_out = 8 };
    char *dir = box_make(&b);
    struct err err = { 0 };
    struct model *m;

    box_put(dir, "sentence_bert_config.json", "{\"max_seq_length\": 24, \"do_lower_case\": true}");
    box_put(dir, "tokenizer_config.json", "{\"model_max_length\": 16}");
    box_put(dir, "config_sentence_transformers.json",
            "{\"prompts\": {\"query\": \"q: \", \"passage\": \"\"}, "
            "\"default_prompt_name\": \"query\"}");
    assert_int_equal(model_open(dir, &m, &err), RC_OK);
    assert_int_equal(m->pool, MODEL_POOL_CLS);
    CHECK(m->normalize && m->rules.lower_first);
    assert_int_equal(m->dense_count, 1);
    assert_int_equal(m->dense[0].out, 8);
    assert_int_equal(m->dense[0].act, MODEL_DENSE_TANH);
    assert_int_equal(m->max_tokens, 24); /* stands in for the tokenizer's */
    assert_string_equal(model_prompt(m, "query"), "q: ");
    assert_string_equal(model_prompt(m, "passage"), "");
    assert_null(model_prompt(m, "x"));
    assert_string_equal(m->default_prompt, "query");
    model_close(m);
    box_put(dir, "sentence_bert_config.json", "{\"max_seq_length\": null}");
    assert_int_equal(model_open(dir, &m, &err), RC_OK);
    assert_int_equal(m->max_tokens, 16);
    model_close(m);
    box_put(dir, "tokenizer_config.json",
            "{\"model_max_length\": 1000000000000000019884624838656}");
    assert_int_equal(model_open(dir, &m, &err), RC_OK);
    assert_int_equal(m->max_tokens, 64);
    model_close(m);
    box_remove(dir);
}

/* --- files that lie --- */
/* `file` with `text` in a model that is fine otherwise: refused, and the error says `why`. */
static void refuse(struct box b, const char *file, const char *text, const char *why)
{
    char *dir = box_make(&b);
    struct err err = { 0 };
    struct model *m = NULL;

    if (file)
        box_put(dir, file, text);
    assert_int_not_equal(model_open(dir, &m, &err), RC_OK);
    assert_null(m);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    if (file && !strstr(err.msg, file))
        fail_msg("'%s' does not name '%s'", err.msg, file);
    box_remove(dir);
}

#define BASE                                                                                       \
    "\"architectures\":[\"BertModel\"],\"num_hidden_layers\":2,\"hidden_size\":32,"                \
    "\"num_attention_heads\":4,\"intermediate_size\":64,\"vocab_size\":100,"                       \
    "\"max_position_embeddings\":64"

TEST(configs_refused)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "", "line 1" },
        { "[]", "not a JSON object" },
        { "{}", "neither 'architectures' nor 'model_type'" },
        { "{\"architectures\":[\"GPT2Model\"]}", "'GPT2Model' is not supported" },
        { "{\"model_type\":\"nomic_bert\"}", "'nomic_bert' is not supported" },
        { "{" BASE ",\"model_type\":\"mpnet\"}", "not the family" },
        { "{\"architectures\":[\"BertModel\"]}", "'num_hidden_layers' is missing" },
        { "{" BASE ",\"hidden_act\":\"gelu_10\"}", "'gelu_10'" },
        { "{" BASE ",\"hidden_act\":3}", "'hidden_act' is not a text" },
        { "{" BASE ",\"position_embedding_type\":\"relative_key\"}", "'relative_key'" },
        { "{" BASE ",\"position_embedding_type\":\"rotary\"}", "'rotary'" },
        { "{" BASE ",\"is_decoder\":true}", "'is_decoder'" },
        { "{" BASE ",\"layer_norm_eps\":0}", "'layer_norm_eps'" },
        { "{" BASE ",\"layer_norm_eps\":\"x\"}", "'layer_norm_eps'" },
        { "{" BASE ",\"pad_token_id\":100}", "'pad_token_id'" },
        { "{" BASE ",\"type_vocab_size\":1000}", "'type_vocab_size'" },
        { "{\"architectures\":[\"MPNetModel\"],\"num_hidden_layers\":2,\"hidden_size\":32,"
          "\"num_attention_heads\":4,\"intermediate_size\":64,\"vocab_size\":1}",
          "'vocab_size' is 1, without the padding's 1" },
        { "{\"architectures\":[\"BertModel\"],\"num_hidden_layers\":1000000000}", "between 1 and" },
        { "{\"architectures\":[\"BertModel\"],\"num_hidden_layers\":-1}", "between 1 and" },
        { "{\"architectures\":[\"BertModel\"],\"num_hidden_layers\":1.5}", "not a whole number" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        refuse((struct box){ 0 }, "config.json", cases[i].text, cases[i].why);
}

#define CFG(layers, hidden, vocab, more)                                                           \
    "{\"architectures\":[\"BertModel\"],\"num_hidden_layers\":" layers ",\"hidden_size\":" hidden  \
    ",\"num_attention_heads\":4,\"intermediate_size\":64,\"vocab_size\":" vocab                    \
    ",\"max_position_embeddings\":64" more "}"

static void mismatch(const char *config, const char *why)
{
    struct box b = { 0 };
    char *dir = box_make(&b);
    struct err err = { 0 };
    struct model *m = NULL;

    box_put(dir, "config.json", config);
    assert_int_equal(model_open(dir, &m, &err), RC_PARSE);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    box_remove(dir);
}

TEST(shapes_refused)
{
    mismatch(CFG("3", "32", "100", ""),
             "tensor 'encoder.layer.2.attention.self.query.weight' of shape [32, 32] is missing");
    mismatch(CFG("2", "32", "101", ""),
             "'embeddings.word_embeddings.weight' has shape [100, 32], expected [101, 32]");
    mismatch(CFG("2", "36", "100", ""), "expected [100, 36]");
    mismatch(CFG("2", "30", "100", ""), "not a multiple of 'num_attention_heads'");
    mismatch(CFG("2", "32", "100", ",\"type_vocab_size\":3"), "token_type_embeddings");
    refuse(
        (struct box){ .labels = 1, .config_add = ", \"id2label\": {\"0\": \"a\", \"1\": \"b\"}" },
        NULL, NULL, "classifier.weight' has shape [1, 32], expected [2, 32]");
    refuse((struct box){ .arch = MODEL_MPNET,
                         .config_add = ", \"relative_attention_num_buckets\": 64" },
           NULL, NULL, "relative_attention_num_buckets");
    refuse((struct box){ .dtype = ST_I32 }, NULL, NULL, "has dtype I32");
}

TEST(modules_refused)
{
    const struct box b = { .pool = "mean", .dense_out = 8 };
    static const char t[] = "sentence_transformers.models.";
    char text[512];

    refuse(b, "modules.json", "{}", "not a list");
    refuse(b, "modules.json", "[]", "not a Transformer");
    refuse(b, "modules.json", "[{\"type\": \"x.Transformer\", \"path\": \"\"}]", "x.Transformer");
    snprintf(text, sizeof(text), "[{\"type\": \"%sTransformer\", \"path\": \"../x\"}]", t);
    refuse(b, "modules.json", text, "'../x' is not a folder");
    snprintf(text, sizeof(text), "[{\"type\": \"%sCNN\", \"path\": \"x\"}]", t);
    refuse(b, "modules.json", text, "CNN");
    snprintf(text, sizeof(text),
             "[{\"type\": \"%sTransformer\", \"path\": \"\"}, {\"type\": \"%sDense\", \"path\": "
             "\"2_Dense\"}]",
             t, t);
    refuse(b, "modules.json", text, "stands where");
    refuse(b, "1_Pooling/config.json", "{\"pooling_mode\": \"median\"}", "'median'");
    refuse(b, "1_Pooling/config.json", "{\"pooling_mode\": []}", "0 modes");
    refuse(b, "1_Pooling/config.json", "{\"pooling_mode\": [\"cls\", 1]}", "not a text");
    refuse(b, "1_Pooling/config.json",
           "{\"pooling_mode\": [\"cls\",\"cls\",\"cls\",\"cls\",\"cls\",\"cls\",\"cls\"]}",
           "7 modes");
    refuse(b, "1_Pooling/config.json", "{\"word_embedding_dimension\": 64}", "is 64");
    refuse(b, "1_Pooling/config.json", "{\"include_prompt\": 0}", "include_prompt");
    refuse(b, "2_Dense/config.json", "{\"in_features\": 32}", "'out_features' is missing");
    refuse(b, "2_Dense/config.json", "{\"in_features\": 16, \"out_features\": 8}", "what comes in");
    refuse(b, "2_Dense/config.json",
           "{\"in_features\": 32, \"out_features\": 8, \"activation_function\": \"os.system\"}",
           "'os.system'");
    refuse(b, "config_sentence_transformers.json", "{\"default_prompt_name\": \"q\"}", "'q'");
    refuse(b, "config_sentence_transformers.json", "{\"prompts\": {\"q\": 1}}", "prompt 'q'");
}

TEST(pooling_flags)
{
    static const struct {
        const char *text;
        enum model_pool pool;
    } cases[] = {
        { "{\"pooling_mode_cls_token\": true}", MODEL_POOL_CLS },
        { "{\"pooling_mode_max_tokens\": true}", MODEL_POOL_MAX },
        { "{\"pooling_mode_mean_sqrt_len_tokens\": true}", MODEL_POOL_MEAN_SQRT },
        { "{\"pooling_mode_lasttoken\": true}", MODEL_POOL_LAST },
        { "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": false}",
          MODEL_POOL_MEAN },
        { "{}", MODEL_POOL_MEAN },
        { "{\"pooling_mode\": \"lasttoken\"}", MODEL_POOL_LAST },
        { "{\"pooling_mode\": [\"max\"]}", MODEL_POOL_MAX },
        { "{\"pooling_mode\": \"weightedmean\"}", MODEL_POOL_WEIGHTED },
        { "{\"pooling_mode_weightedmean_tokens\": true}", MODEL_POOL_WEIGHTED },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct box b = { .pool = "mean" };
        char *dir = box_make(&b);
        struct err err = { 0 };
        struct model *m;

        box_put(dir, "1_Pooling/config.json", cases[i].text);
        assert_int_equal(model_open(dir, &m, &err), RC_OK);
        assert_int_equal(m->pool, cases[i].pool);
        CHECK(m->joined_count == 0 && !m->prompt_apart && model_pool_width(m) == m->hidden);
        model_close(m);
        box_remove(dir);
    }
}

/* Flags join in the order of the reference's list, names in their own. */
TEST(joined_pooling)
{
    static const struct {
        const char *text;
        enum model_pool first, second;
    } cases[] = {
        { "{\"pooling_mode_mean_tokens\": true, \"pooling_mode_cls_token\": true}", MODEL_POOL_CLS,
          MODEL_POOL_MEAN },
        { "{\"pooling_mode\": [\"mean\", \"max\"], \"include_prompt\": false}", MODEL_POOL_MEAN,
          MODEL_POOL_MAX },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct box b = { .pool = "mean" };
        char *dir = box_make(&b);
        struct err err = { 0 };
        struct model *m;

        box_put(dir, "1_Pooling/config.json", cases[i].text);
        assert_int_equal(model_open(dir, &m, &err), RC_OK);
        CHECK(m->pool == cases[i].first && m->joined[0] == cases[i].second);
        CHECK(m->joined_count == 1 && model_pool_width(m) == 2 * m->hidden);
        CHECK(m->prompt_apart == (i == 1));
        model_close(m);
        box_remove(dir);
    }
}

TEST(score_activation)
{
    static const struct {
        const char *add;
        size_t labels;
        enum model_score score;
    } cases[] = {
        { "", 1, MODEL_SCORE_SIGMOID },
        { "", 2, MODEL_SCORE_RAW },
        { ", \"sbert_ce_default_activation_function\": \"torch.nn.modules.linear.Identity\"", 1,
          MODEL_SCORE_RAW },
        { ", \"sentence_transformers\": {\"activation_fn\": "
          "\"torch.nn.modules.activation.Sigmoid\"}",
          3, MODEL_SCORE_SIGMOID },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct box b = { .labels = cases[i].labels, .config_add = cases[i].add };
        char *dir = box_make(&b);
        struct err err = { 0 };
        struct model *m;

        assert_int_equal(model_open(dir, &m, &err), RC_OK);
        assert_int_equal(m->score, cases[i].score);
        model_close(m);
        box_put(dir, "config_sentence_transformers.json",
                "{\"model_type\": \"CrossEncoder\", "
                "\"activation_fn\": \"torch.nn.modules.linear.Identity\"}");
        assert_int_equal(model_open(dir, &m, &err), RC_OK); /* not read without modules.json */
        assert_int_equal(m->score, cases[i].score);
        model_close(m);
        box_put(dir, "modules.json",
                "[{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}]");
        box_put(dir, "sentence_bert_config.json",
                "{\"transformer_task\": \"sequence-classification\"}");
        assert_int_equal(model_open(dir, &m, &err), RC_OK);
        assert_int_equal(m->score, MODEL_SCORE_RAW);
        model_close(m);
        box_remove(dir);
    }
    refuse((struct box){ .labels = 1,
                         .config_add = ", \"sbert_ce_default_activation_function\": "
                                       "\"torch.nn.modules.activation.Tanh\"" },
           NULL, NULL, "Tanh");
}

/* --- finding and verifying --- */
TEST(names_are_found)
{
    struct box b = { 0 };
    char *dir = box_make(&b), *data = xstrdup(dir), out[BOX_PATH_MAX], path[BOX_PATH_MAX];
    struct err err = { 0 };

    assert_int_equal(model_find(dir, out, sizeof(out), &err), RC_OK);
    assert_string_equal(out, dir);
    assert_int_equal(model_find("no-such-model", out, sizeof(out), &err), RC_NODEV);
    setenv("XDG_DATA_HOME", data, 1);
    box_path(path, dir, "stoker");
    assert_int_equal(mkdir(path, 0700), 0);
    box_path(path, dir, "stoker/models");
    assert_int_equal(mkdir(path, 0700), 0);
    box_path(path, dir, "stoker/models/tiny");
    assert_int_equal(mkdir(path, 0700), 0);
    box_put(path, "config.json", "{}");
    assert_int_equal(model_find("tiny", out, sizeof(out), &err), RC_OK);
    assert_string_equal(out, path);
    err = (struct err){ 0 };
    assert_int_equal(model_find("tiny", out, 4, &err), RC_LIMIT);
    err = (struct err){ 0 };
    assert_int_equal(model_find("", out, sizeof(out), &err), RC_USAGE);
    unsetenv("XDG_DATA_HOME");
    free(data);
    box_remove(dir);
}

static void poison(const char *dir, float value)
{
    char path[BOX_PATH_MAX];
    FILE *f;

    box_path(path, dir, "model.safetensors");
    f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, -12, SEEK_END);
    fwrite(&value, 4, 1, f);
    fclose(f);
}

TEST(verify_finds)
{
    struct box b = { .pool = "mean", .dense_out = 4 };
    char *dir = box_make(&b), list[256];
    struct err err = { 0 };
    struct verify v;
    struct model *m;

    assert_int_equal(model_open(dir, &m, &err), RC_OK);
    assert_int_equal(verify_model(m, NULL, &v, &err), RC_OK);
    assert_int_equal(v.faults_count + v.wrong + v.missing_count, 0);
    assert_int_equal(v.numbers, m->parameters);
    assert_int_equal(v.files_count, 6);
    assert_string_equal(v.files[0].name, "1_Pooling/config.json");
    assert_int_equal(v.files[0].state, SUM_UNLISTED);
    snprintf(list, sizeof(list), "%s  1_Pooling/config.json\n%064d *config.json\n%064d  gone\n",
             v.files[0].sha, 0, 0);
    verify_release(&v);
    box_put(dir, "SHA256SUMS", list);
    poison(dir, NAN);
    assert_int_equal(verify_model(m, NULL, &v, &err), RC_OK);
    assert_int_equal(v.faults_count, 1);
    CHECK(isnan(v.faults[0].value) && str_ends(v.faults[0].tensor, "output.dense.weight"));
    assert_int_equal(v.faults[0].index, b.hidden * b.ffn - 3);
    assert_int_equal(v.wrong, 1);
    assert_int_equal(v.missing_count, 1);
    assert_string_equal(v.missing[0], "gone");
    assert_int_equal(v.files[0].state, SUM_OK);
    verify_release(&v);
    box_put(dir, "SHA256SUMS", "nonsense\n");
    assert_int_equal(verify_model(m, NULL, &v, &err), RC_PARSE);
    CHECK(strstr(err.msg, "line 1") != NULL);
    model_close(m);
    box_remove(dir);
}

TEST(labels_have_names)
{
    struct box b = { .labels = 2,
                     .config_add = ", \"id2label\": {\"1\": \"good\", \"7\": \"far\"}" };
    char *dir = box_make(&b);
    struct err err = { 0 };
    struct model *m = NULL;

    assert_int_equal(model_open(dir, &m, &err), RC_OK);
    assert_int_equal(m->labels, 2);
    assert_null(m->label_names[0]);
    assert_string_equal(m->label_names[1], "good");
    model_close(m);
    box_remove(dir);
}

TEST_MAIN(cmocka_unit_test(labels_have_names), cmocka_unit_test(families_open),
          cmocka_unit_test(types_and_prefixes), cmocka_unit_test(sentence_files),
          cmocka_unit_test(configs_refused), cmocka_unit_test(shapes_refused),
          cmocka_unit_test(modules_refused), cmocka_unit_test(pooling_flags),
          cmocka_unit_test(joined_pooling), cmocka_unit_test(score_activation),
          cmocka_unit_test(names_are_found), cmocka_unit_test(verify_finds))
