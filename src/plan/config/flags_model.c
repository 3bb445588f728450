/* SPDX-License-Identifier: MIT */
/* flags_model: what Megatron-LM has to be told of a model beside its sizes.
 *
 * plan_model holds what counts parameters, FLOPs and bytes; a rotary base or an activation moves
 * none of them, but a command without them trains another model.  One row for each line of models
 * in data/models.csv, by the beginning of the name, the first that matches: the flags, and what
 * Megatron-LM (core 0.16) has no flag for or nobody checked.  A model that no row has (a
 * config.json, bare sizes) is told what to compare.
 *
 * No config.json itself was at hand: a value was read in public code that was written from it,
 * which each row names.
 *   litgpt        Lightning-AI/litgpt 0.5.13, litgpt/config.py: every model of that line by name
 *   transformers  huggingface/transformers 5.23, the line's configuration_*.py and modeling_*.py
 *   bridge        NVIDIA-NeMo/Megatron-Bridge 0.3.1, its providers; windows as its newer bridges
 *                 have them: one less than config.json's, which counts the token itself
 *   megatron      NVIDIA/Megatron-LM core 0.16, examples/
 *   deepseek      deepseek-ai/DeepSeek-V3, inference/configs and model.py
 * Epsilons, dropout and initialisation are not here: a note of the command says so. */
#include "plan/config/flags_int.h"

#include "base/str.h"

static const char not_known[] =
    "rotary base and scaling, activation, router and normalisation of q and k as the model's "
    "config.json has them (Megatron-LM: base 10000, SwiGLU or GELU, softmax, none)";

#define PARALLEL "attention and MLP beside each other, which Megatron-LM has behind each other"

static const struct plan_megatron_model rows[] = {
    /* litgpt, bridge; 3.3 and the LLaMA-1 line (Platypus-30B) litgpt */
    { "llama-3.1-", "--rotary-base 500000 --use-rope-scaling", NULL }, /* factor 8: the default */
    { "llama-3.2-", "--rotary-base 500000 --use-rope-scaling --rope-scaling-factor 32", NULL },
    { "llama-3.3-", "--rotary-base 500000 --use-rope-scaling", NULL },
    { "llama-3-", "--rotary-base 500000", NULL },
    { "llama-", "--rotary-base 10000", NULL },
    /* litgpt (v0.1); its window 4096 */
    { "mistral-7b", "--rotary-base 10000 --window-size 4095,0", NULL },
    /* Large: litgpt; Nemo: config.json in kevinstephano/thunder_model_blocks mistral_config.py */
    { "mistral-", "--rotary-base 1000000", NULL },
    /* litgpt; 8x7B megatron (examples/mixtral) */
    { "mixtral-", "--rotary-base 1000000", NULL },
    /* litgpt, bridge */
    { "qwen2.5-", "--rotary-base 1000000", NULL },
    /* config.json in NVIDIA/TensorRT-LLM test_modeling_qwen_moe.py (norm_topk_prob false); the
     * gate: transformers */
    { "qwen2-57b", "--rotary-base 1000000 --moe-router-pre-softmax --moe-shared-expert-gate",
      NULL },
    /* a Megatron-LM command for that checkpoint, paprika0741/MG_test Qwen/infer.sh; the gate:
     * transformers */
    { "qwen1.5-moe", "--rotary-base 1000000 --moe-router-pre-softmax --moe-shared-expert-gate",
      NULL },
    /* litgpt, bridge; the MoE also megatron (examples/post_training/modelopt/conf) */
    { "qwen3-", "--rotary-base 1000000 --qk-layernorm", NULL },
    /* megatron (the same folder, DeepSeek-V2-Lite.sh), deepseek */
    { "deepseek-v2-lite",
      "--rotary-base 10000 --rotary-scaling-factor 40 --mscale 0.707 --mscale-all-dim 0.707 "
      "--qk-layernorm --moe-router-pre-softmax",
      NULL },
    /* deepseek; mscale bridge (DeepSeek-V2; V2.5 has 1.0, as deepseek's code) */
    { "deepseek-v2",
      "--rotary-base 10000 --rotary-scaling-factor 40 --mscale 0.707 --mscale-all-dim 0.707 "
      "--qk-layernorm --moe-router-pre-softmax --moe-router-topk-scaling-factor 16.0 "
      "--moe-router-num-groups 8 --moe-router-group-topk 3",
      NULL },
    /* megatron (DeepSeek-R1.sh, the same model), deepseek, bridge */
    { "deepseek-v3",
      "--rotary-base 10000 --rotary-scaling-factor 40 --mscale 1.0 --mscale-all-dim 1.0 "
      "--qk-layernorm --moe-router-score-function sigmoid --moe-router-enable-expert-bias "
      "--moe-router-pre-softmax --moe-router-topk-scaling-factor 2.5 --moe-router-num-groups 8 "
      "--moe-router-group-topk 4",
      "the layer that predicts one token more (--mtp-num-layers), which is not counted either" },
    /* bridge, transformers; flags as in Megatron-LM's newer examples/gptoss */
    { "gpt-oss-",
      "--rotary-base 150000 --softmax-type learnable --window-size 127,0 --window-attn-skip-freq 2 "
      "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0",
      "YaRN scaling of the positions (factor 32 from 4096 tokens)" },
    /* transformers */
    { "bloom-", NULL, "ALiBi, which Megatron-LM has not, and the norm behind the embedding" },
    { "mpt-", NULL, "ALiBi and LayerNorm without bias, which Megatron-LM has not" },
    { "opt-", NULL, "ReLU, which Megatron-LM has not: this trains with GELU" },
    /* EleutherAI/gpt-neox configs/20B.yml, the base neox_args.py */
    { "gpt-neox-", "--rotary-base 10000 --rotary-percent 0.25", PARALLEL },
    /* litgpt */
    { "pythia-", "--rotary-base 10000 --rotary-percent 0.25", PARALLEL },
    { "falcon-", "--rotary-base 10000", PARALLEL },
    { "phi-1.5", "--rotary-base 10000 --rotary-percent 0.5",
      PARALLEL ", and the bias of the output layer" },
    { "phi-2", "--rotary-base 10000 --rotary-percent 0.4",
      PARALLEL ", and the bias of the output layer" },
    { "phi-3-", "--rotary-base 10000",
      "the sliding window (2048 tokens in LitGPT's Phi-3-mini-4k), not counted either" },
    { "phi-4", "--rotary-base 250000", NULL },
    /* litgpt, bridge, transformers; for the scale of 9B's scores litgpt has 256, bridge 224 */
    { "gemma-2-",
      "--rotary-base 10000 --window-size 4095,0 --window-attn-skip-freq 2 --apply-layernorm-1p",
      "GeGLU (this has SwiGLU), embeddings times the root of hidden, norms behind attention and "
      "MLP, soft caps of scores and logits, the scale of scores" },
    { "gemma-", "--rotary-base 10000 --apply-layernorm-1p",
      "GeGLU (this has SwiGLU), embeddings times the root of hidden" },
    /* learned positions and GELU: nothing to say */
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
