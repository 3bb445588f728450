/* SPDX-License-Identifier: MIT */
/* model_hf: a model from a Hugging Face config.json.
 *
 * Every kind of model has keys of its own and defaults that the file leaves out: a key that is
 * missing or null means what the library's class for that kind would take.  The traps, by kind:
 *
 *   all         the text part of a multimodal model is in text_config; tie_word_embeddings is true
 *               by default for the older kinds and false for Llama's descendants
 *   mistral     head_dim is not hidden / heads (Nemo: 128 with 5120 / 32)
 *   mixtral     intermediate_size is an expert's width
 *   qwen2       q, k and v have a bias that no key tells; use_sliding_window false voids the window
 *   qwen*_moe   moe_intermediate_size is an expert's width; decoder_sparse_step counts from one;
 *               mlp_only_layers are dense; Qwen2's shared expert has a gate, Qwen3 has none
 *   deepseek    q_lora_rank null: q is not compressed; first_k_dense_replace; the shared experts'
 *               width is n_shared_experts times an expert's; V3's router has a bias
 *   gpt2        n_embd, n_layer, n_head, n_inner (null: 4 times)
 *   falcon      multi_query means one kv head, but not with new_decoder_architecture; that one has
 *               two norms a layer, parallel_attn without it has one
 *   opt         positions are two more than said; word_embed_proj_dim; no final norm where the
 *               norms stand behind
 *   phi         one norm a layer, and a bias on the head
 *   gemma       head_dim is 256 whatever hidden / heads is; 2 and 3 have four norms a layer
 *   mpt         d_model, n_layers, expansion_ratio, no_bias, learned positions without ALiBi */
#include "plan/plan_int.h"

#include "base/str.h"
#include "base/text/json.h"

enum { CONFIG_MAX = 1 << 20 }; /* bytes of a config.json */

struct hf_reader {
    const struct json *obj;
    struct err *err;
    bool bad; /* a key had the wrong type: err says which */
};

/* The first of two keys that is there and not null; else `dflt`. */
static int64_t key_int_or(struct hf_reader *r, const char *key, const char *other, int64_t dflt)
{
    const char *const keys[] = { key, other };

    for (size_t i = 0; i < ARRAY_SIZE(keys) && keys[i]; i++) {
        const struct json *v = json_get(r->obj, keys[i]);
        struct maybe n = json_int(v);

        if (!v || v->type == JSON_NULL)
            continue;
        if (n.known)
            return n.v;
        if (!r->bad)
            err_set(r->err, RC_PARSE, "'%s' is not a whole number", keys[i]);
        r->bad = true;
        return dflt;
    }
    return dflt;
}

static int64_t key_int(struct hf_reader *r, const char *key, int64_t dflt)
{
    return key_int_or(r, key, NULL, dflt);
}

/* One that no default stands in for. */
static int64_t key_need(struct hf_reader *r, const char *key, const char *other)
{
    int64_t v = key_int_or(r, key, other, INT64_MIN);

    if (v != INT64_MIN)
        return v;
    if (!r->bad)
        err_set(r->err, RC_PARSE, "there is no '%s'", key);
    r->bad = true;
    return 0;
}

static bool key_flag(struct hf_reader *r, const char *key, bool dflt)
{
    const struct json *v = json_get(r->obj, key);

    if (!v || v->type == JSON_NULL)
        return dflt;
    if (v->type != JSON_BOOL && !r->bad) {
        err_set(r->err, RC_PARSE, "'%s' is neither true nor false", key);
        r->bad = true;
    }
    return v->type == JSON_BOOL && v->boolean;
}

/* What Llama and all its descendants share. */
static void read_llama(struct hf_reader *r, struct plan_model *m)
{
    m->hidden = key_need(r, "hidden_size", NULL);
    m->layers = key_need(r, "num_hidden_layers", NULL);
    m->heads = key_need(r, "num_attention_heads", NULL);
    m->kv_heads = key_int(r, "num_key_value_heads", m->heads);
    m->head_dim = key_int(r, "head_dim", 0);
    m->ffn = key_need(r, "intermediate_size", NULL);
    m->vocab = key_need(r, "vocab_size", NULL);
    m->qkv_bias = m->out_bias = key_flag(r, "attention_bias", false);
    m->mlp_bias = key_flag(r, "mlp_bias", false);
    m->gated = true;
    m->layer_norms = 2;
    m->outer_norms = 1;
}

static void read_mistral(struct hf_reader *r, struct plan_model *m)
{
    read_llama(r, m);
    m->window = key_int(r, "sliding_window", 0);
}

static void read_mixtral(struct hf_reader *r, struct plan_model *m)
{
    read_mistral(r, m);
    m->expert_ffn = m->ffn;
    m->ffn = 0;
    m->experts = key_int(r, "num_local_experts", 8);
    m->top_k = key_int(r, "num_experts_per_tok", 2);
}

static void read_qwen2(struct hf_reader *r, struct plan_model *m)
{
    read_llama(r, m);
    m->qkv_bias = true;
    m->out_bias = m->mlp_bias = false;
    if (key_flag(r, "use_sliding_window", false))
        m->window = key_int(r, "sliding_window", 4096);
}

static void read_qwen3(struct hf_reader *r, struct plan_model *m)
{
    read_llama(r, m);
    m->head_dim = key_int(r, "head_dim", 128);
    m->qk_norm = true;
}

/* Layers of Qwen's experts: every decoder_sparse_step-th, but those in mlp_only_layers, of which
 * we know a run from the first layer on. */
static void read_qwen_experts(struct hf_reader *r, struct plan_model *m, int64_t experts)
{
    const struct json *only = json_get(r->obj, "mlp_only_layers");
    int64_t dense = 0;

    m->experts = key_int(r, "num_experts", experts);
    m->top_k = key_int(r, "num_experts_per_tok", experts == 60 ? 4 : 8);
    m->expert_ffn = key_need(r, "moe_intermediate_size", NULL);
    m->moe_every = key_int(r, "decoder_sparse_step", 1);
    m->moe_phase = m->moe_every - 1;
    for (const struct json *v = only ? only->first : NULL; v; v = v->next, dense++)
        if (!maybe_is(json_int(v), dense) && !r->bad) {
            err_set(r->err, RC_USAGE, "'mlp_only_layers' is not a run from layer 0 on");
            r->bad = true;
        }
    m->moe_first = dense;
}

static void read_qwen2_moe(struct hf_reader *r, struct plan_model *m)
{
    read_qwen2(r, m);
    read_qwen_experts(r, m, 60);
    m->shared_ffn = key_int(r, "shared_expert_intermediate_size", 5632);
    m->shared_gate = true;
}

static void read_qwen3_moe(struct hf_reader *r, struct plan_model *m)
{
    read_qwen3(r, m);
    read_qwen_experts(r, m, 128);
}

static void read_deepseek(struct hf_reader *r, struct plan_model *m)
{
    int64_t shared;

    read_llama(r, m);
    m->q_lora = key_int(r, "q_lora_rank", 0);
    m->kv_lora = key_need(r, "kv_lora_rank", NULL);
    m->qk_nope = key_int(r, "qk_nope_head_dim", 128);
    m->qk_rope = key_int(r, "qk_rope_head_dim", 64);
    m->v_dim = key_int(r, "v_head_dim", 128);
    m->experts = key_int(r, "n_routed_experts", 0);
    if (!m->experts)
        return;
    m->top_k = key_int(r, "num_experts_per_tok", 1);
    m->expert_ffn = key_need(r, "moe_intermediate_size", NULL);
    shared = key_int(r, "n_shared_experts", 0);
    if (shared >= 0 && shared <= PLAN_EXPERTS_MAX && m->expert_ffn <= PLAN_FFN_MAX)
        m->shared_ffn = shared * m->expert_ffn;
    else
        m->shared_ffn = INT64_MAX;
    m->moe_first = key_int(r, "first_k_dense_replace", 0);
    m->moe_every = key_int(r, "moe_layer_freq", 1);
}

static void read_deepseek_v3(struct hf_reader *r, struct plan_model *m)
{
    read_deepseek(r, m);
    m->router_bias = true;
}

static void all_biases(struct plan_model *m, bool on)
{
    m->qkv_bias = m->out_bias = m->mlp_bias = m->norm_bias = on;
    m->layer_norms = 2;
    m->outer_norms = 1;
}

/* 4 x hidden, without overflow for a hidden size no check has seen yet. */
static int64_t times_four(int64_t v)
{
    return v > PLAN_FFN_MAX ? INT64_MAX : v < 0 ? v : 4 * v;
}

static void read_gpt2(struct hf_reader *r, struct plan_model *m)
{
    all_biases(m, true);
    m->hidden = key_need(r, "n_embd", "hidden_size");
    m->layers = key_need(r, "n_layer", "num_hidden_layers");
    m->heads = key_need(r, "n_head", "num_attention_heads");
    m->positions = key_need(r, "n_positions", "n_ctx");
    m->ffn = key_int(r, "n_inner", times_four(m->hidden));
    m->vocab = key_need(r, "vocab_size", NULL);
}

static void read_gpt_neox(struct hf_reader *r, struct plan_model *m)
{
    read_llama(r, m);
    all_biases(m, true);
    m->gated = false;
    m->qkv_bias = m->out_bias = key_flag(r, "attention_bias", true);
}

static void read_bloom(struct hf_reader *r, struct plan_model *m)
{
    all_biases(m, true);
    m->hidden = key_need(r, "hidden_size", "n_embed");
    m->layers = key_need(r, "n_layer", "num_hidden_layers");
    m->heads = key_need(r, "n_head", "num_attention_heads");
    m->ffn = times_four(m->hidden);
    m->vocab = key_need(r, "vocab_size", NULL);
    m->outer_norms = 2; /* the embedding has one too */
}

static void read_falcon(struct hf_reader *r, struct plan_model *m)
{
    bool fresh = key_flag(r, "new_decoder_architecture", false);
    bool parallel = key_flag(r, "parallel_attn", true);

    m->hidden = key_need(r, "hidden_size", NULL);
    m->layers = key_need(r, "num_hidden_layers", "n_layer");
    m->heads = key_need(r, "num_attention_heads", "n_head");
    m->kv_heads = fresh ? key_int_or(r, "num_kv_heads", "n_head_kv", m->heads)
                  : key_flag(r, "multi_query", true) ? 1
                                                     : m->heads;
    m->ffn = key_int(r, "ffn_hidden_size", times_four(m->hidden));
    m->vocab = key_need(r, "vocab_size", NULL);
    m->qkv_bias = m->out_bias = m->mlp_bias = key_flag(r, "bias", false);
    m->norm_bias = true;
    m->layer_norms = fresh ? key_int(r, "num_ln_in_parallel_attn", 2) : parallel ? 1 : 2;
    m->outer_norms = 1;
}

static void read_opt(struct hf_reader *r, struct plan_model *m)
{
    int64_t proj;

    all_biases(m, key_flag(r, "enable_bias", true));
    m->norm_bias = true;
    m->hidden = key_need(r, "hidden_size", NULL);
    m->layers = key_need(r, "num_hidden_layers", NULL);
    m->heads = key_need(r, "num_attention_heads", NULL);
    m->ffn = key_need(r, "ffn_dim", NULL);
    m->vocab = key_need(r, "vocab_size", NULL);
    m->positions = key_int(r, "max_position_embeddings", 2048);
    m->positions += m->positions < PLAN_SEQ_MAX ? 2 : 0;
    proj = key_int(r, "word_embed_proj_dim", m->hidden);
    m->embed_dim = proj == m->hidden ? 0 : proj;
    if (!key_flag(r, "do_layer_norm_before", true) ||
        key_flag(r, "_remove_final_layer_norm", false))
        m->outer_norms = 0;
}

static void read_phi(struct hf_reader *r, struct plan_model *m)
{
    read_llama(r, m);
    all_biases(m, true);
    m->gated = false;
    m->layer_norms = 1;
    m->head_bias = true;
}

static void read_gemma(struct hf_reader *r, struct plan_model *m)
{
    read_llama(r, m);
    m->head_dim = key_int(r, "head_dim", 256);
}

static void read_gemma2(struct hf_reader *r, struct plan_model *m)
{
    read_gemma(r, m);
    m->layer_norms = 4;
    m->window = key_int(r, "sliding_window", 4096);
    m->window_every = 2;
}

static void read_gemma3(struct hf_reader *r, struct plan_model *m)
{
    read_gemma2(r, m);
    m->qk_norm = true;
    m->window_every = key_int(r, "sliding_window_pattern", 6);
}

static void read_gpt_oss(struct hf_reader *r, struct plan_model *m)
{
    read_mixtral(r, m);
    m->head_dim = key_int(r, "head_dim", 64);
    m->top_k = key_int_or(r, "num_experts_per_tok", "experts_per_token", 4);
    m->qkv_bias = m->out_bias = key_flag(r, "attention_bias", true);
    m->router_bias = m->expert_bias = m->attn_sinks = true;
    m->window_every = 2;
}

static void read_starcoder2(struct hf_reader *r, struct plan_model *m)
{
    bool bias = key_flag(r, "use_bias", true);

    read_llama(r, m);
    all_biases(m, bias);
    m->norm_bias = true;
    m->gated = false;
    m->window = key_int(r, "sliding_window", 0);
}

static void read_mpt(struct hf_reader *r, struct plan_model *m)
{
    const struct json *attn = json_get(r->obj, "attn_config");
    bool alibi = maybe_is(json_bool(json_get(attn, "alibi")), 1);
    int64_t wide = key_int(r, "expansion_ratio", 4);

    all_biases(m, !key_flag(r, "no_bias", true));
    m->hidden = key_need(r, "d_model", NULL);
    m->layers = key_need(r, "n_layers", NULL);
    m->heads = key_need(r, "n_heads", NULL);
    m->vocab = key_need(r, "vocab_size", NULL);
    m->ffn = wide > 0 && wide <= 64 && m->hidden > 0 && m->hidden <= PLAN_HIDDEN_MAX
                 ? wide * m->hidden
                 : INT64_MAX;
    if (!alibi && key_flag(r, "learned_pos_emb", true))
        m->positions = key_need(r, "max_seq_len", NULL);
}

/* ---- kinds ---- */
static const struct {
    const char *kind;
    void (*read)(struct hf_reader *r, struct plan_model *m);
    bool tied; /* tie_word_embeddings where the file does not say */
} kinds[] = {
    { "llama", read_llama, false },
    { "mistral", read_mistral, false },
    { "mixtral", read_mixtral, false },
    { "qwen2", read_qwen2, false },
    { "qwen2_moe", read_qwen2_moe, false },
    { "qwen3", read_qwen3, false },
    { "qwen3_moe", read_qwen3_moe, false },
    { "deepseek_v2", read_deepseek, false },
    { "deepseek_v3", read_deepseek_v3, false },
    { "kimi_k2", read_deepseek_v3, false },
    { "gpt2", read_gpt2, true },
    { "gpt_neox", read_gpt_neox, false },
    { "bloom", read_bloom, true },
    { "falcon", read_falcon, true },
    { "RefinedWebModel", read_falcon, true },
    { "RefinedWeb", read_falcon, true },
    { "opt", read_opt, true },
    { "phi", read_phi, false },
    { "phi3", read_llama, false },
    { "gemma", read_gemma, true },
    { "gemma2", read_gemma2, true },
    { "gemma3_text", read_gemma3, true },
    { "gemma3", read_gemma3, true },
    { "gpt_oss", read_gpt_oss, false },
    { "starcoder2", read_starcoder2, true },
    { "mpt", read_mpt, true },
};

static enum rc unknown_kind(const char *kind, struct err *err)
{
    const char *names[ARRAY_SIZE(kinds)], *near;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        names[i] = kinds[i].kind;
    near = str_nearest(kind, names, ARRAY_SIZE(kinds));
    if (near)
        err_hint(err, "The nearest kind that is known is '%s'.", near);
    else
        err_hint(err, "Give its size instead: parameters, layers and hidden, as in 7B,32,4096.");
    return err_set(err, RC_USAGE, "models of kind '%.64s' are not known", kind);
}

static enum rc read_config(const struct json *root, struct plan_model *out, struct err *err)
{
    const struct json *text = json_get(root, "text_config");
    const struct json *obj = text && text->type == JSON_OBJ ? text : root;
    const char *kind = json_str(json_get(obj, "model_type"));
    struct plan_model m = { .head = true };
    struct hf_reader r = { .obj = obj, .err = err };
    size_t i = 0;

    if (!kind)
        kind = json_str(json_get(root, "model_type"));
    if (!kind)
        return err_set(err, RC_PARSE, "there is no 'model_type'");
    while (i < ARRAY_SIZE(kinds) && !str_eq(kinds[i].kind, kind))
        i++;
    if (i == ARRAY_SIZE(kinds))
        return unknown_kind(kind, err);
    str_copy(m.name, sizeof(m.name), kind);
    kinds[i].read(&r, &m);
    m.tied = key_flag(&r, "tie_word_embeddings", kinds[i].tied);
    if (r.bad)
        return RC_PARSE;
    if (plan_model_check(&m, err))
        return RC_USAGE;
    *out = m;
    return RC_OK;
}

enum rc plan_model_from_hf(const char *text, size_t len, struct plan_model *out, struct err *err)
{
    struct arena a = { 0 };
    struct json *root;
    enum rc rc;

    if (len > CONFIG_MAX)
        return err_set(err, RC_LIMIT, "a config.json of more than %d bytes", CONFIG_MAX);
    rc = json_parse(&a, text, len, &root, err);
    if (rc == RC_OK && root->type != JSON_OBJ)
        rc = err_set(err, RC_PARSE, "the text is no JSON object");
    if (rc == RC_OK)
        rc = read_config(root, out, err);
    arena_release(&a);
    return rc;
}
