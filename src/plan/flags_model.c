/* SPDX-License-Identifier: MIT */
/* flags_model: what Megatron-LM has to be told of a model beside its sizes.
 *
 * plan_model holds what counts parameters, FLOPs and bytes; a rotary base or an activation moves
 * none of them, but a command without them trains another model.  One row for each line of models
 * in data/models.csv, by the beginning of the name, the first that matches: the flags, and what
 * Megatron-LM has no flag for or nobody checked.  A model that no row has (a config.json, bare
 * sizes) is told what to compare.  Values are those of the published config.json files. */
#include "plan/flags_int.h"

#include "base/str.h"

static const char not_known[] =
    "rotary base and scaling, activation, router and normalisation of q and k as the model's "
    "config.json has them (Megatron-LM: base 10000, SwiGLU or GELU, softmax, none)";

static const struct plan_megatron_model rows[] = {
    { "llama-3.1-", "--rotary-base 500000 --use-rope-scaling", NULL },
    { "llama-3.2-", "--rotary-base 500000 --use-rope-scaling --rope-scaling-factor 32", NULL },
    { "llama-3.3-", "--rotary-base 500000 --use-rope-scaling", NULL },
    { "llama-3-", "--rotary-base 500000", NULL },
    { "llama-", "--rotary-base 10000", NULL },
    { "mistral-7b", "--rotary-base 10000 --window-size 4095,0", NULL },
    { "mistral-", "--rotary-base 1000000", NULL },
    { "mixtral-", "--rotary-base 1000000", NULL },
    { "qwen2.5-", "--rotary-base 1000000", NULL },
    { "qwen2-57b", "--rotary-base 1000000 --moe-router-pre-softmax --moe-shared-expert-gate",
      NULL },
    { "qwen1.5-moe", "--rotary-base 1000000 --moe-router-pre-softmax --moe-shared-expert-gate",
      NULL },
    { "qwen3-", "--rotary-base 1000000 --qk-layernorm", NULL },
    { "deepseek-v2-lite",
      "--rotary-base 10000 --rotary-scaling-factor 40 --mscale 0.707 --mscale-all-dim 0.707 "
      "--qk-layernorm --moe-router-pre-softmax",
      NULL },
    { "deepseek-v2",
      "--rotary-base 10000 --rotary-scaling-factor 40 --mscale 0.707 --mscale-all-dim 0.707 "
      "--qk-layernorm --moe-router-pre-softmax --moe-router-topk-scaling-factor 16.0 "
      "--moe-router-num-groups 8 --moe-router-group-topk 3",
      NULL },
    { "deepseek-v3",
      "--rotary-base 10000 --rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0 "
      "--qk-layernorm --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
      "--moe-router-topk-scaling-factor 2.5 --moe-router-num-groups 8 --moe-router-group-topk 4",
      "the layer that predicts one token more (--mtp-num-layers), which is not counted either" },
    { "gpt-oss-",
      "--rotary-base 150000 --softmax-type learnable --window-size 127,0 --window-attn-skip-freq 2 "
      "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0",
      "YaRN scaling of the positions (factor 32 from 4096 tokens)" },
    { "bloom-", NULL, "ALiBi, which Megatron-LM has not, and the norm behind the embedding" },
    { "mpt-", NULL, "ALiBi and LayerNorm without bias, which Megatron-LM has not" },
    { "opt-", NULL, "ReLU, which Megatron-LM has not: this trains with GELU" },
    { "gpt-neox-", "--rotary-base 10000 --rotary-percent 0.25",
      "attention and MLP beside each other, which Megatron-LM has behind each other" },
    { "pythia-", "--rotary-base 10000 --rotary-percent 0.25",
      "attention and MLP beside each other, which Megatron-LM has behind each other" },
    { "falcon-", "--rotary-base 10000",
      "attention and MLP beside each other, which Megatron-LM has behind each other" },
    { "phi-1.5", "--rotary-base 10000 --rotary-percent 0.5",
      "attention and MLP beside each other, which Megatron-LM has behind each other" },
    { "phi-2", "--rotary-base 10000 --rotary-percent 0.4",
      "attention and MLP beside each other, which Megatron-LM has behind each other" },
    { "phi-3-", "--rotary-base 10000", NULL },
    { "phi-4", "--rotary-base 250000", NULL },
    { "gemma-2-", "--rotary-base 10000 --window-size 4095,0 --window-attn-skip-freq 2",
      "GeGLU (this has SwiGLU), embeddings times the root of hidden, norms behind attention and "
      "MLP, soft caps of scores and logits" },
    { "gemma-", "--rotary-base 10000",
      "GeGLU (this has SwiGLU), embeddings times the root of hidden" },
    { "gpt2", NULL, NULL },
    { "gpt3-", NULL, NULL },
    { "gpt-", NULL, NULL },
};

void plan_megatron_model_of(const struct plan_model *m, struct plan_megatron_model *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_starts(m->name, rows[i].name)) {
            *out = rows[i];
            return;
        }
    *out = (struct plan_megatron_model){ m->name, NULL, not_known };
    if (m->qk_norm)
        out->flags = "--qk-layernorm";
}
