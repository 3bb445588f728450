/* SPDX-License-Identifier: MIT */
/* framework: which configurations a training framework can run.
 *
 * Each list is of what the framework itself refuses or has no way to say, in the versions that
 * plan_framework_versions names; a plain torchrun script runs whatever it is written for.  The
 * search leaves out what its framework cannot run (rule "framework"), so that what --flags prints
 * is accepted. */
#include "plan/search.h"

#include "plan/plan_int.h"
#include "plan/search/search_int.h"

const char *const plan_framework_names[] = { "megatron",   "torchtitan", "deepspeed",
                                             "accelerate", "torchrun",   NULL };
const char *const plan_framework_versions[PLAN_FRAMEWORKS] = {
    [PLAN_MEGATRON] = "Megatron-LM, core 0.16",   [PLAN_TORCHTITAN] = "TorchTitan 0.3.0",
    [PLAN_DEEPSPEED] = "DeepSpeed 0.19.8",        [PLAN_ACCELERATE] = "Accelerate 1.15",
    [PLAN_TORCHRUN] = "torchrun of PyTorch 2.11",
};

bool plan_megatron_aware(const struct plan_config *c)
{
    return c->optimizer == PLAN_ADAM16 || c->optimizer == PLAN_ADAM8 || c->offload_optimizer;
}

/* Its optimizer that is told the types of its state, on the GPU or in host memory, is an Adam and
 * a distributed one; the distributed one is always an Adam. */
static const char *megatron_refuses_optimizer(const struct plan_config *c)
{
    bool replicas = (int64_t)c->dp * c->cp > 1;

    if (c->optimizer == PLAN_SGD && (c->zero || plan_megatron_aware(c)))
        return "its distributed optimizer (ZeRO, moments of 16 bits, host memory) has Adam alone";
    if (plan_megatron_aware(c) && c->zero == 0 && replicas)
        return "moments of 16 or 8 bits, or in host memory, need its distributed optimizer";
    return NULL;
}

static const char *megatron_refuses(const struct plan_model *m, const struct plan_config *c)
{
    if (c->zero >= 2 && c->pp > 1)
        return "Megatron-FSDP (ZeRO 2 and 3) has no pipeline";
    if (c->schedule == PLAN_GPIPE)
        return "it has no GPipe schedule";
    if (m->experts && c->tp > 1 && !c->seq_par)
        return "experts with tensor parallelism need sequence parallelism";
    if (m->experts && (m->mlp_bias || m->out_bias) && plan_etp(c) > 1)
        return "a model with biases has whole experts";
    if (c->offload_params)
        return "it does not keep weights in host memory";
    if (c->precision == PLAN_FSDP_MIXED || c->precision == PLAN_PURE16)
        return "its weights are of 16 bits with a master copy in fp32 (bf16, bf16-grads)";
    return c->lora_rank ? "pretrain_gpt.py learns all weights" : megatron_refuses_optimizer(c);
}

static const char *torchtitan_refuses(const struct plan_model *m, const struct plan_config *c)
{
    int64_t replicas = (int64_t)c->dp * c->cp, shard = c->shard ? c->shard : replicas;
    int64_t chunks = (int64_t)c->pp * c->vpp;

    if (c->zero == 1)
        return "it has no ZeRO 1";
    if (c->zero == 0 && replicas > 1 && (c->tp > 1 || c->pp > 1 || c->cp > 1 || c->ep > 1))
        return "its plain replicas go with nothing else";
    if (c->zero && shard % c->cp)
        return "a shard holds whole context-parallel groups";
    if (c->pp > 1 && c->profile.split == PLAN_SPLIT_COST)
        return "stages by cost are no setting of it";
    if (c->pp > 1 && m->layers % chunks && (m->layers + 2) % chunks)
        return "its stages have the same number of layers, or one less where the ends are";
    if (m->experts && plan_etp(c) > 1)
        return "experts are not cut by tensor parallelism";
    if (shard * c->tp % c->ep)
        return "expert parallelism is inside a shard of the weights";
    if (c->recompute_every > 1 || c->recompute_ops || c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        return "it recomputes whole layers, or operations by its own list, which is not counted";
    if (c->offload_optimizer != c->offload_params)
        return "its offload takes weights and optimizer together";
    if (c->precision == PLAN_BF16 || c->precision == PLAN_BF16_GRADS || c->precision == PLAN_FP32)
        return "its weights are fp32 computed in bf16 (fsdp), or bf16 (pure)";
    return c->lora_rank || c->optimizer != PLAN_ADAM ? "its trainer has AdamW on all weights"
                                                     : NULL;
}

static const char *deepspeed_refuses_optimizer(const struct plan_config *c)
{
    return c->offload_optimizer && c->optimizer != PLAN_ADAM
               ? "its optimizer in host memory, DeepSpeedCPUAdam, is an Adam of fp32 moments"
               : NULL;
}

static const char *deepspeed_refuses(const struct plan_config *c)
{
    if (c->pp > 1 && c->zero >= 2)
        return "its pipeline refuses ZeRO 2 and 3";
    if (c->vpp > 1 || c->schedule == PLAN_GPIPE)
        return "its pipeline has one schedule, 1F1B";
    if (c->tp > 1 && c->pp > 1)
        return "AutoTP goes with no pipeline";
    if (c->tp > 1 && c->zero == 3)
        return "AutoTP goes with ZeRO 0 to 2";
    if (c->cp > 1 || c->seq_par)
        return "context and sequence parallelism are no settings of it";
    if (c->shard) /* MiCS left with 0.19.8; ZeRO++'s secondary shards keep other bytes */
        return "it has no shards smaller than all replicas";
    if (c->recompute_every > 1 || c->recompute_ops || c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        return "recompute is the model's, of whole layers";
    if (c->precision == PLAN_FSDP_MIXED || c->precision == PLAN_PURE16)
        return "its weights are of 16 bits with a master copy in fp32 (bf16-grads, bf16)";
    if (c->precision == PLAN_BF16 && c->zero == 0)
        return "it sums 16-bit gradients in fp32 (bf16) with ZeRO 1 to 3";
    return deepspeed_refuses_optimizer(c);
}

/* Its DeepSpeed has 16-bit gradients beside a master copy, its FSDP fp32 weights gathered in 16
 * bits, or all of it in 16; plain replicas are DistributedDataParallel.  The command of its
 * Megatron-LM plug-in cannot say what model is trained: its parsers of configurations hand over
 * only layers, width and heads, of four kinds of models. */
bool plan_accelerate_deepspeed(const struct plan_config *c)
{
    return c->precision == PLAN_BF16_GRADS;
}

static const char *accelerate_deepspeed_refuses(const struct plan_config *c)
{
    if (c->zero == 0)
        return "16-bit gradients (bf16-grads) are of its DeepSpeed, with ZeRO 1 to 3";
    if (c->tp > 1 || c->cp > 1 || c->seq_par)
        return "tensor and context parallelism go with FSDP2 (precision fsdp, ZeRO 2 and 3)";
    if (c->shard)
        return "smaller shards go with FSDP2 (precision fsdp, ZeRO 2 and 3)";
    return deepspeed_refuses_optimizer(c);
}

static const char *accelerate_refuses(const struct plan_config *c)
{
    if (c->pp > 1 || c->ep > 1)
        return "pipelines and expert parallelism are of its Megatron-LM plug-in, whose command "
               "cannot describe the model";
    if (c->recompute_every > 1 || c->recompute_ops || c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        return "it recomputes whole layers";
    if (plan_accelerate_deepspeed(c))
        return accelerate_deepspeed_refuses(c);
    if (c->precision == PLAN_BF16)
        return "its weights are fp32 (fsdp) or all in 16 bits (pure), or its DeepSpeed sums in 16 "
               "bits (bf16-grads)";
    if (c->zero == 1)
        return "ZeRO 1 is of its DeepSpeed (precision bf16-grads)";
    if (c->seq_par || (c->zero == 0 && (c->tp > 1 || c->cp > 1)))
        return "tensor and context parallelism go with FSDP2 (ZeRO 2 and 3)";
    if (c->zero == 0 && c->precision == PLAN_FP8)
        return "fp8 is counted with FSDP2 (ZeRO 2 and 3)";
    if (c->offload_optimizer != c->offload_params || (c->offload_params && c->zero == 0))
        return "its FSDP takes weights and optimizer to host memory together";
    return c->shard && c->shard % c->cp ? "a shard holds whole context-parallel groups" : NULL;
}

const char *plan_framework_refuses(enum plan_framework f, const struct plan_model *m,
                                   const struct plan_config *c)
{
    switch (f) {
    case PLAN_MEGATRON:
        return megatron_refuses(m, c);
    case PLAN_TORCHTITAN:
        return torchtitan_refuses(m, c);
    case PLAN_DEEPSPEED:
        return deepspeed_refuses(c);
    case PLAN_ACCELERATE:
        return accelerate_refuses(c);
    default:
        return NULL;
    }
}

const char *plan_framework_refuses_gpu(enum plan_framework f, const struct plan_gpu *gpu)
{
    return f == PLAN_TORCHTITAN && gpu->no_bf16 ? "it computes in bf16, which this GPU has not"
                                                : NULL;
}

enum plan_precision plan_framework_precision(enum plan_framework f)
{
    return f == PLAN_MEGATRON ? PLAN_BF16 : f == PLAN_DEEPSPEED ? PLAN_BF16_GRADS : PLAN_FSDP_MIXED;
}
