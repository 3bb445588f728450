/* SPDX-License-Identifier: MIT */
/* Parameters and FLOPs against published ones, and config.json's traps. */
#include "test.h"

#include "base/str.h"
#include "plan/plan.h"
#include "plan/plan_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct plan_recompute_share no_recompute = { 0, 0 };

/* Within 0.1 %, or within what the printed digits can say. */
static bool agrees(double got, const char *published)
{
    double want, ulp;

    if (!plan_count_parse(published, &want, &ulp))
        return false;
    return fabs(got - want) <= fmax(want * 1e-3, ulp / 2);
}

TEST(every_known_model_has_its_published_parameters)
{
    struct plan_known_table t;
    struct arena a = { 0 };
    struct err err = { 0 };

    if (plan_known_load(&a, &t, &err))
        fail_msg("%s", err.msg);
    CHECK(t.count >= 70);
    for (size_t i = 0; i < t.count; i++) {
        const struct plan_known *k = &t.rows[i];
        struct plan_counts n;
        bool exact = strspn(k->published, "0123456789") == strlen(k->published);

        CHECK(!plan_model_counts(&k->model, &n, NULL));
        if (!agrees((double)n.total, k->published))
            fail_msg("%s: %llu, published %s", k->model.name, (unsigned long long)n.total,
                     k->published);
        if (exact && n.total != strtoull(k->published, NULL, 10))
            fail_msg("%s: %llu is not exactly %s", k->model.name, (unsigned long long)n.total,
                     k->published);
        /* activated parameters are printed with one or two digits, the table in or out */
        if (*k->active && !agrees((double)n.active, k->active) &&
            !agrees((double)(n.active - n.embed), k->active))
            print_message("# %s: %llu active, published %s\n", k->model.name,
                          (unsigned long long)n.active, k->active);
        CHECK(*k->source);
    }
    arena_release(&a);
}

TEST(flops_by_convention)
{
    static const struct {
        const char *model;
        int64_t seq;
        enum plan_flops kind;
        double want, tol;
    } rows[] = {
        /* NeMo 24.07 prints 57.9 and Megatron-Bridge 51.5 GFLOP a token for the same model */
        { "llama-3-8b", 8192, PLAN_FLOPS_FULL, 57.91e9, 1e-3 },
        { "llama-3-8b", 8192, PLAN_FLOPS_CAUSAL, 51.47e9, 1e-3 },
        { "qwen3-235b-a22b", 4096, PLAN_FLOPS_CAUSAL, 148.1e9, 1e-3 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_model m;
        double got;

        CHECK(!plan_model_by_name(rows[i].model, &m, NULL));
        got = plan_flops_token(&m, rows[i].seq, rows[i].kind, no_recompute);
        if (fabs(got / rows[i].want - 1) > rows[i].tol)
            fail_msg("%s: %.5g, want %.5g", rows[i].model, got, rows[i].want);
    }
}

/* Korthikanti: 72 B L s h^2 (1 + s/6h + V/12hL); SC'21 eq. 3: 96 B s l h^2 (1 + s/6h + V/16lh). */
TEST(flops_of_the_papers)
{
    static const char *const names[] = { "gpt-1.7b", "gpt-39.1b", "gpt-529.6b", "gpt-1008.0b" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct plan_recompute_share all = { 1, 0 }, selective = { 0, 1 };
        double h, l, s = 2048, v = 51200, model, hardware, select;
        struct plan_model m;

        CHECK(!plan_model_by_name(names[i], &m, NULL));
        h = (double)m.hidden;
        l = (double)m.layers;
        model = 72 * l * h * h * (1 + s / (6 * h) + v / (12 * h * l));
        hardware = 96 * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
        select = 72 * l * h * h * (1 + s / (6 * h) + v / (12 * h * l)) + 4 * l * s * h;
        CHECK(fabs(plan_flops_token(&m, 2048, PLAN_FLOPS_FULL, all) / model - 1) < 1e-9);
        CHECK(fabs(plan_flops_token(&m, 2048, PLAN_FLOPS_HARDWARE, all) / hardware - 1) < 1e-9);
        CHECK(fabs(plan_flops_token(&m, 2048, PLAN_FLOPS_HARDWARE, selective) / select - 1) < 1e-9);
    }
}

static uint64_t hf_total(const char *json)
{
    struct plan_counts n = { 0 };
    struct err err = { 0 };
    struct plan_model m;

    if (plan_model_from_hf(json, strlen(json), &m, &err))
        fail_msg("%s: %s", json, err.msg);
    CHECK(!plan_model_counts(&m, &n, NULL));
    return n.total;
}

TEST(hugging_face_configs)
{
    static const struct {
        const char *json;
        uint64_t want;
    } rows[] = {
        { "{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
          "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
          "\"vocab_size\":128256,\"head_dim\":null,\"tie_word_embeddings\":false}",
          8030261248 },
        { "{\"model_type\":\"mistral\",\"hidden_size\":5120,\"num_hidden_layers\":40,"
          "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
          "\"vocab_size\":131072,\"head_dim\":128,\"sliding_window\":null}",
          12247782400 },
        { "{\"model_type\":\"mixtral\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
          "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"intermediate_size\":14336,"
          "\"vocab_size\":32000,\"num_local_experts\":8,\"num_experts_per_tok\":2}",
          46702792704 },
        { "{\"model_type\":\"qwen2\",\"hidden_size\":896,\"num_hidden_layers\":24,"
          "\"num_attention_heads\":14,\"num_key_value_heads\":2,\"intermediate_size\":4864,"
          "\"vocab_size\":151936,\"tie_word_embeddings\":true,\"use_sliding_window\":false,"
          "\"sliding_window\":32768}",
          494032768 },
        { "{\"model_type\":\"qwen2_moe\",\"hidden_size\":2048,\"num_hidden_layers\":24,"
          "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":5632,"
          "\"moe_intermediate_size\":1408,\"shared_expert_intermediate_size\":5632,"
          "\"num_experts\":60,\"num_experts_per_tok\":4,\"vocab_size\":151936}",
          14315784192 },
        { "{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"num_hidden_layers\":48,"
          "\"num_attention_heads\":32,\"num_key_value_heads\":4,\"intermediate_size\":6144,"
          "\"moe_intermediate_size\":768,\"num_experts\":128,\"num_experts_per_tok\":8,"
          "\"head_dim\":128,\"vocab_size\":151936,\"decoder_sparse_step\":1,"
          "\"mlp_only_layers\":[]}",
          30532122624 },
        { "{\"model_type\":\"deepseek_v2\",\"hidden_size\":2048,\"num_hidden_layers\":27,"
          "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":10944,"
          "\"moe_intermediate_size\":1408,\"n_routed_experts\":64,\"n_shared_experts\":2,"
          "\"num_experts_per_tok\":6,\"first_k_dense_replace\":1,\"q_lora_rank\":null,"
          "\"kv_lora_rank\":512,\"vocab_size\":102400}",
          15706484224 },
        { "{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"num_hidden_layers\":61,"
          "\"num_attention_heads\":128,\"num_key_value_heads\":128,\"intermediate_size\":18432,"
          "\"moe_intermediate_size\":2048,\"n_routed_experts\":256,\"n_shared_experts\":1,"
          "\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"q_lora_rank\":1536,"
          "\"kv_lora_rank\":512,\"vocab_size\":129280,\"num_nextn_predict_layers\":1}",
          671026419200 },
        { "{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_layer\":12,\"n_head\":12,"
          "\"n_positions\":1024,\"vocab_size\":50257}",
          124439808 },
        { "{\"model_type\":\"gpt_neox\",\"hidden_size\":6144,\"num_hidden_layers\":44,"
          "\"num_attention_heads\":64,\"intermediate_size\":24576,\"vocab_size\":50432}",
          20554567680 },
        { "{\"model_type\":\"bloom\",\"n_embed\":14336,\"n_layer\":70,"
          "\"num_attention_heads\":112,\"vocab_size\":250880}",
          176247271424 },
        { "{\"model_type\":\"falcon\",\"hidden_size\":4544,\"num_hidden_layers\":32,"
          "\"num_attention_heads\":71,\"multi_query\":true,\"vocab_size\":65024,"
          "\"parallel_attn\":true,\"bias\":false,\"new_decoder_architecture\":false}",
          6921720704 },
        { "{\"model_type\":\"opt\",\"hidden_size\":1024,\"num_hidden_layers\":24,"
          "\"num_attention_heads\":16,\"ffn_dim\":4096,\"vocab_size\":50272,"
          "\"word_embed_proj_dim\":512,\"do_layer_norm_before\":false}",
          331196416 },
        { "{\"model_type\":\"phi\",\"hidden_size\":2560,\"num_hidden_layers\":32,"
          "\"num_attention_heads\":32,\"intermediate_size\":10240,\"vocab_size\":51200,"
          "\"num_key_value_heads\":null}",
          2779683840 },
        { "{\"model_type\":\"gemma\",\"hidden_size\":3072,\"num_hidden_layers\":28,"
          "\"num_attention_heads\":16,\"num_key_value_heads\":16,\"intermediate_size\":24576,"
          "\"vocab_size\":256000}",
          8537680896 },
        { "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\","
          "\"hidden_size\":1152,\"num_hidden_layers\":26,\"num_attention_heads\":4,"
          "\"num_key_value_heads\":1,\"intermediate_size\":6912,\"vocab_size\":262144}}",
          999885952 },
        { "{\"model_type\":\"mpt\",\"d_model\":4096,\"n_layers\":32,\"n_heads\":32,"
          "\"vocab_size\":50432,\"max_seq_len\":2048,\"attn_config\":{\"alibi\":true}}",
          6649286656 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint64_t got = hf_total(rows[i].json);

        if (got != rows[i].want)
            fail_msg("%s: %llu, want %llu", rows[i].json, (unsigned long long)got,
                     (unsigned long long)rows[i].want);
    }
}

#define LLAMA(more)                                                                                \
    "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"intermediate_size\":64,"                  \
    "\"vocab_size\":100," more "}"

TEST(bad_configs_have_one_clear_error)
{
    static const struct {
        const char *json, *msg, *hint;
        enum rc rc;
    } rows[] = {
        { "{", "line 1", "", RC_PARSE },
        { "[]", "no JSON object", "", RC_PARSE },
        { "{}", "no 'model_type'", "", RC_PARSE },
        { "{\"model_type\":\"lama\"}", "kind 'lama' are not known", "'llama'", RC_USAGE },
        { LLAMA("\"num_attention_heads\":4"), "no 'hidden_size'", "", RC_PARSE },
        { LLAMA("\"hidden_size\":\"x\",\"num_attention_heads\":4"), "'hidden_size' is not a whole",
          "", RC_PARSE },
        { LLAMA("\"hidden_size\":100,\"num_attention_heads\":7"), "7 heads do not divide",
          "divides it is 5", RC_USAGE },
        { LLAMA("\"hidden_size\":64,\"num_attention_heads\":0"), "cannot have 0 attention heads",
          "is 1", RC_USAGE },
        { LLAMA("\"hidden_size\":64,\"num_attention_heads\":8,\"num_key_value_heads\":3"),
          "3 key-value heads do not divide 8", "is 2", RC_USAGE },
        { LLAMA("\"hidden_size\":9223372036854775807,\"num_attention_heads\":1"),
          "cannot have 9223372036854775807 as hidden size", "262144", RC_USAGE },
        { "{\"model_type\":\"mixtral\",\"num_hidden_layers\":4096,\"intermediate_size\":1048576,"
          "\"vocab_size\":100,\"hidden_size\":262144,\"num_attention_heads\":2048,"
          "\"num_local_experts\":8192}",
          "parameters", "100000000000000000", RC_USAGE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };
        struct plan_model m;

        CHECK(plan_model_from_hf(rows[i].json, strlen(rows[i].json), &m, &err) == rows[i].rc);
        if (!strstr(err.msg, rows[i].msg) || !strstr(err.hint, rows[i].hint))
            fail_msg("%s: '%s' '%s'", rows[i].json, err.msg, err.hint);
    }
}

TEST(names_and_numbers)
{
    struct plan_counts n;
    struct plan_model m;
    struct err err = { 0 };

    CHECK(!plan_model_by_name("meta-llama/Llama-3.1-70B", &m, &err));
    CHECK(m.layers == 80 && m.kv_heads == 8);
    CHECK(plan_model_by_name("llama-3.1-71b", &m, &err) == RC_USAGE);
    CHECK(strstr(err.hint, "'llama-3.1-70b'"));
    CHECK(!plan_model_by_name("7B,32,4096", &m, NULL));
    CHECK(!plan_model_counts(&m, &n, NULL));
    CHECK(fabs((double)n.total / 7e9 - 1) < 1e-3);
    CHECK(plan_model_by_name("1e30,32,4096", &m, NULL) == RC_USAGE);
    CHECK(plan_model_by_name("7B,0,4096", &m, NULL) == RC_USAGE);
    CHECK(plan_model_by_name("1M,32,4096", &m, NULL) == RC_USAGE);
    CHECK(plan_model_by_name("7B,32", &m, NULL) == RC_USAGE);
    CHECK(plan_model_by_name("7B,32,4096,1", &m, NULL) == RC_USAGE);
}

TEST(moe_layers_are_counted_where_they_stand)
{
    struct plan_model m = { .experts = 8, .layers = 61, .moe_first = 3, .moe_every = 1 };

    CHECK(plan_moe_layers(&m) == 58);
    m.moe_first = 0;
    m.moe_every = 2;
    m.moe_phase = 1;
    m.layers = 5;
    CHECK(plan_moe_layers(&m) == 2);
    CHECK(!plan_layer_is_moe(&m, 0) && plan_layer_is_moe(&m, 1) && plan_layer_is_moe(&m, 3));
    m.moe_first = 2;
    CHECK(plan_moe_layers(&m) == 1);
}

TEST_MAIN(cmocka_unit_test(every_known_model_has_its_published_parameters),
          cmocka_unit_test(flops_by_convention), cmocka_unit_test(flops_of_the_papers),
          cmocka_unit_test(hugging_face_configs),
          cmocka_unit_test(bad_configs_have_one_clear_error), cmocka_unit_test(names_and_numbers),
          cmocka_unit_test(moe_layers_are_counted_where_they_stand))
