/* SPDX-License-Identifier: MIT */
/* plan: what a training job needs, before it runs.
 *
 *   plan_model    the network: enough to count every parameter, FLOP and saved byte
 *   plan_gpu      one kind of GPU, from the catalogue
 *   plan_cluster  GPUs in nodes, and the links between them
 *   plan_config   how the job is cut: parallelism, batch, precision, recompute
 *   plan_memory   bytes a GPU holds, by pipeline stage and by kind
 *
 * The folder is pure: no I/O, no allocation but in an arena a caller gives to the readers, no
 * clock.  Sizes of outside data are checked against the limits below once, in plan_model_check()
 * and plan_config_check().  Counts are taken in 128 bits and refused above PLAN_PARAMS_MAX; bytes
 * of activations are taken in double precision and cut at PLAN_BYTES_MAX, far above any machine.
 * A wrong figure by overflow cannot be. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/maybe.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PLAN_NAME_MAX = 64,
    PLAN_LAYERS_MAX = 4096,
    PLAN_HIDDEN_MAX = 1 << 18,
    PLAN_FFN_MAX = 1 << 20,
    PLAN_HEADS_MAX = 4096,
    PLAN_VOCAB_MAX = 1 << 24,
    PLAN_EXPERTS_MAX = 8192,
    PLAN_SEQ_MAX = 1 << 26,
    PLAN_HEAD_DIM_MAX = 4096,
    PLAN_GPUS_MAX = 1 << 20,
    PLAN_BATCH_MAX = 1 << 24, /* micro-batch, gradient accumulation, sequences in a step */
    PLAN_STAGES_MAX = 256
};
#define PLAN_PARAMS_MAX INT64_C(100000000000000000) /* 10^17 */
#define PLAN_TOKENS_MAX (INT64_C(1) << 36)          /* of a micro-batch */
#define PLAN_BYTES_MAX  (UINT64_C(1) << 58)

/* ---- the model ---- */
struct plan_model {
    char name[PLAN_NAME_MAX];
    int64_t layers, hidden;
    int64_t heads, kv_heads, head_dim;
    int64_t ffn; /* width of a dense layer's MLP */
    int64_t vocab;
    int64_t positions; /* rows of a learned position table; 0: none (rotary, ALiBi) */
    int64_t embed_dim; /* width of the embedding where it is not hidden (OPT-350m); 0: hidden */
    bool gated;        /* three matrices (SwiGLU, GeGLU) instead of two */
    bool tied;         /* the head is the embedding */
    bool head;         /* there is a language-model head (false: an encoder's or value head) */

    /* small parameters: they do not move a FLOP but make the count exact */
    bool qkv_bias, out_bias, mlp_bias, head_bias;
    bool norm_bias;      /* LayerNorm with bias; false: RMSNorm or LayerNorm without */
    int64_t layer_norms; /* norms of width hidden in a layer: 1 parallel, 2 usual, 4 sandwich */
    int64_t outer_norms; /* final norm, and the embedding's where there is one */
    bool qk_norm;        /* norms over head_dim on q and k */
    bool attn_sinks;     /* one number a head (gpt-oss) */

    /* mixture of experts: experts 0 is a dense model */
    int64_t experts, top_k, expert_ffn;
    int64_t shared_ffn; /* width of all shared experts together; 0: none */
    bool shared_gate;   /* one more row that weighs the shared expert (Qwen2-MoE) */
    bool router_bias;
    bool expert_bias;
    int64_t moe_first;            /* layers before it are dense */
    int64_t moe_every, moe_phase; /* layer l is MoE when l % every == phase */

    /* multi-head latent attention: kv_lora 0 is ordinary attention */
    int64_t q_lora; /* 0: q is projected directly */
    int64_t kv_lora, qk_nope, qk_rope, v_dim;

    int64_t window;       /* sliding-window attention; 0: full */
    int64_t window_every; /* one layer in so many is full; 0: none, all have the window */

    /* a model that was measured instead of described (vision and others): plan_model_measured() */
    int64_t sample_params; /* 0: the shape above counts */
    double sample_flops;   /* forward and backward of one sample; 0: not measured */
    double sample_bytes;   /* of activations, one sample */
};
/* A model of which only its parameters, the FLOPs (0: not known) and the activation bytes of a
 * sample are known: one layer that nothing cuts but replicas and ZeRO; a sequence is one sample. */
enum rc plan_model_measured(double params, double flops, double bytes, struct plan_model *out,
                            struct err *err) MUST_USE;

/* Fills what follows from the rest (head_dim, kv_heads, expert_ffn ...) and refuses a model that
 * cannot be, with the nearest that can as the hint. */
enum rc plan_model_check(struct plan_model *m, struct err *err) MUST_USE;

int64_t plan_moe_layers(const struct plan_model *m); /* how many there are */

/* Parameters by place.  Fields of a layer are of one layer; all are of the whole model, before
 * any cut. */
struct plan_counts {
    uint64_t attn;                   /* matrices of attention in a layer, with their biases */
    uint64_t mlp;                    /* a dense layer's MLP */
    uint64_t expert;                 /* one expert */
    uint64_t shared;                 /* shared experts of a MoE layer */
    uint64_t router;                 /* router of a MoE layer with what belongs to it */
    uint64_t norms;                  /* of a layer: never cut by tensor parallelism */
    uint64_t embed;                  /* token table (and OPT's projection) */
    uint64_t positions;              /* learned positions */
    uint64_t head;                   /* 0 when tied or none */
    uint64_t outer_norms;            /* final norm and the embedding's */
    uint64_t dense_layer, moe_layer; /* sums of the above for one layer of the kind */
    uint64_t total;
    uint64_t active; /* those one token meets: top_k of the experts, the table counted once */
};
enum rc plan_model_counts(const struct plan_model *m, struct plan_counts *out,
                          struct err *err) MUST_USE;

/* What "FLOPs" means differs between papers by up to a half: the convention goes with the number.
 *   full      multiply-adds of matrices, attention over all s^2 pairs: Korthikanti, SC'21 (model
 *             part), NeMo 24.07, llm-foundry
 *   causal    half of the pairs, those a causal mask keeps: Megatron-Bridge, Megatron-LM today
 *   six-n     6 x parameters (embedding included) + 12 L h s: PaLM's appendix as nanotron prints it
 *   hardware  full, and the forward pass again where it is recomputed: SC'21 equation 3 */
enum plan_flops { PLAN_FLOPS_FULL, PLAN_FLOPS_CAUSAL, PLAN_FLOPS_SIX_N, PLAN_FLOPS_HARDWARE };
extern const char *const plan_flops_names[]; /* "full", ... NULL at the end */

/* Forward and backward, a token of a sequence of `seq` tokens.  `recompute` matters only
 * to PLAN_FLOPS_HARDWARE: the share of layers whose forward pass runs twice (0 to 1), and
 * whether only attention does. */
struct plan_recompute_share {
    double layers;    /* whole layers */
    double attention; /* only the attention core */
};

/* ---- where models come from ---- */
/* A Hugging Face config.json.  RC_PARSE for text that is none, RC_USAGE for a kind of model that
 * is not known (the hint names the nearest). */
enum rc plan_model_from_hf(const char *text, size_t len, struct plan_model *out,
                           struct err *err) MUST_USE;
/* A name of data/models.csv ("llama-3.1-70b"; case, blanks, dots and a maker's prefix do not
 * matter), or "PARAMETERS,LAYERS,HIDDEN" ("7B,32,4096"). */
enum rc plan_model_by_name(const char *name, struct plan_model *out, struct err *err) MUST_USE;

struct plan_known { /* a row of data/models.csv */
    struct plan_model model;
    const char *published; /* parameters as printed, "405.9B" or exact; "" */
    const char *active;    /* activated parameters as printed; "" */
    const char *source;
};
struct plan_known_table {
    const struct plan_known *rows;
    size_t count;
};
enum rc plan_known_load(struct arena *a, struct plan_known_table *out, struct err *err) MUST_USE;
/* "70.6B", "124M", "8030261248" to a number and to how much its last digit is worth. */
bool plan_count_parse(const char *s, double *out, double *out_ulp);

/* ---- hardware ---- */
enum { PLAN_ALIAS_MAX = 32 };
struct plan_gpu {
    char name[PLAN_NAME_MAX];   /* the catalogue's: "H100 SXM5 80GB" */
    char alias[PLAN_ALIAS_MAX]; /* what a user types: "h100" */
    char arch[PLAN_ALIAS_MAX];
    int64_t mem_bytes; /* what a program can have, before the CUDA context */
    double mem_bytes_s;
    double bf16_flops, fp8_flops, fp4_flops; /* dense, data sheet; 0: the GPU has none */
    double fp32_flops;          /* data sheet, without TF32, which PyTorch leaves off for matmuls */
    double bf16_best, fp8_best; /* the best any shape was measured at; 0: not measured */
    bool no_bf16;               /* before Ampere: 16 bits are fp16, at bf16_flops */
    bool few_queues;            /* before Blackwell: order of kernels wants one queue of work */
    int64_t sms;                /* 0: unknown */
    double link_bytes_s;        /* NVLink, one direction, all links; 0: none */
    double power_w;             /* board limit, or the cap on it */
    double clock;               /* share of the clock that a cap leaves; 0: no cap */
    double price_usd_h;         /* 0: unknown */
    char price_date[16];
    char note[160]; /* where constants of another kind stand in, "" else */
};
/* By what a user types; RC_USAGE with the nearest. */
enum rc plan_gpu_by_name(const char *name, struct plan_gpu *out, struct err *err) MUST_USE;

/* What moves bytes between nodes: its share of the line rate is in data/plan.csv. */
enum plan_fabric { PLAN_FABRIC_RDMA, PLAN_FABRIC_EFA, PLAN_FABRIC_OMNIPATH };
struct plan_cluster {
    struct plan_gpu gpu;
    int64_t gpus;         /* in all */
    int64_t node_gpus;    /* in one NVLink domain */
    int64_t machine_gpus; /* in one machine: what a launcher starts there; 0: node_gpus */
    double net_bytes_s;   /* network of a node, one direction, all adapters together */
    double net_latency_s;
    enum plan_fabric fabric;
};
/* A cluster of usual nodes: 8 GPUs (72 for NVL72), one adapter a GPU at the kind's usual rate. */
void plan_cluster_usual(const struct plan_gpu *gpu, int64_t gpus, struct plan_cluster *out);
/* From what `stoker detect --json` prints on one node: the catalogue's facts of its GPUs, with the
 * memory, links, power limit and adapters that are there, for `gpus` of them in such nodes (0: the
 * node's own).  A member "measured" ({"bf16_tflops", "fp8_tflops", "memory_gb_s", "nvlink_gb_s",
 * "network_gb_s"}: what a benchmark reached, of a GPU, the last of a node) corrects the rates: the
 * planner then takes them as reached.  RC_PARSE for another document, RC_NODEV without a GPU,
 * RC_USAGE for GPUs that differ or are cut up. */
enum rc plan_cluster_from_detect(const char *text, size_t len, int64_t gpus,
                                 struct plan_cluster *out, struct err *err) MUST_USE;

/* ---- configuration ---- */
enum plan_recompute { PLAN_RECOMPUTE_NONE, PLAN_RECOMPUTE_SELECTIVE, PLAN_RECOMPUTE_FULL };
enum plan_schedule { PLAN_1F1B, PLAN_INTERLEAVED, PLAN_GPIPE };
/* Mixes by what they store:          weights  gradients  master  moments
 *   bf16        Megatron, nanotron        2        4        4        8
 *   bf16-grads  DeepSpeed, accelerate     2        2        4        8
 *   fsdp        fp32, computed in bf16    4        4        -        8   (2 gathered or cast)
 *   pure        all in 16 bits            2        2        -        4
 *   fp8         fp8 and its transpose     2        2        4        8
 *   fp32                                  4        4        -        8 */
enum plan_precision {
    PLAN_BF16,
    PLAN_BF16_GRADS,
    PLAN_FSDP_MIXED,
    PLAN_PURE16,
    PLAN_FP8,
    PLAN_FP32,
    PLAN_PRECISIONS
};
#define PLAN_PRECISION_CHOICES "bf16|bf16-grads|fsdp|autocast|pure|fp8|fp32"
/* By name; NULL is bf16, "autocast" is fsdp by the name single-GPU scripts know. */
enum plan_precision plan_precision_of(const char *name);
/* adam16: both moments in bf16 (Megatron's precision-aware optimizer, DeepSeek's recipe). */
enum plan_optimizer { PLAN_ADAM, PLAN_ADAM8, PLAN_SGD, PLAN_ADAM16, PLAN_OPTIMIZERS };
#define PLAN_OPTIMIZER_CHOICES "adam|adam16|adam8|sgd"
/* Single operations that are computed again, beside or instead of whole layers: what Megatron calls
 * recompute modules. */
enum plan_op {
    PLAN_OP_NORM = 1 << 0,    /* outputs of norms */
    PLAN_OP_ACT = 1 << 1,     /* the activation function of an MLP or of experts */
    PLAN_OP_MLA = 1 << 2,     /* up projections of latent attention */
    PLAN_OP_EXPERTS = 1 << 3, /* a MoE layer's experts as a whole */
    PLAN_OP_SHARED = 1 << 4,  /* shared experts */
    PLAN_OPS = 5,
    PLAN_OPS_ALL = (1 << PLAN_OPS) - 1
};
extern const char *const plan_op_names[PLAN_OPS]; /* "norm", "act", ... */
/* "norm,act"; false: a word is none of them, or there is none. */
bool plan_ops_parse(const char *text, uint32_t *out);
enum plan_split { PLAN_SPLIT_EVEN, PLAN_SPLIT_ENDS_LESS, PLAN_SPLIT_EMBED_LAYER, PLAN_SPLIT_COST };
extern const char *const plan_recompute_names[],
    *const plan_schedule_names[], *const plan_precision_names[], *const plan_optimizer_names[],
                                                                     *const plan_split_names[];

/* Of NULL-terminated names the place of `s`; `dflt` where it is NULL or none of them. */
int plan_name_place(const char *const *names, const char *s, int dflt);

/* Whose schedule and loops: what the host does between kernels and what autograd keeps differ by
 * it.  torch is a plain script: a transformers model, AdamW, one loss.backward() a step; eager as
 * it is, fused under torch.compile(). */
enum plan_stack { PLAN_STACK_MEGATRON, PLAN_STACK_FSDP, PLAN_STACK_NANOTRON, PLAN_STACK_TORCH };
extern const char *const plan_stack_names[]; /* "megatron", ... NULL at the end */
/* Where nobody says: a plain script on one GPU, Megatron on several. */
enum plan_stack plan_stack_usual(int64_t gpus);

struct plan_profile { /* facts of the software that a user can state */
    enum plan_stack stack;
    bool fused; /* fused norms, rotary, activation, loss; false: eager */
    bool flash; /* attention does not store s^2 */
    bool dp_overlap;
    bool
        keep_gathered; /* with sequence parallelism: gathered inputs are kept, not gathered again */
    bool fp32_copies;  /* norms and the loss keep fp32 copies of what they read */
    bool grad_copy;    /* 16-bit gradients live beside the fp32 sums of them */
    bool dropout;      /* masks are stored */
    enum plan_split split;
};

struct plan_config {
    int32_t tp, pp, vpp, cp, ep, etp, dp; /* etp: tensor parallelism of experts; 0: by rule */
    int32_t micro_batch;                  /* sequences */
    int32_t grad_acc;                     /* micro-batches in a step of one replica */
    int64_t seq;
    int32_t zero;  /* 0 to 3 */
    int32_t shard; /* GPUs a ZeRO shard spreads over; 0: all of dp x cp */
    bool seq_par;
    enum plan_recompute recompute;
    uint32_t recompute_ops;  /* enum plan_op; with none or selective */
    int32_t recompute_every; /* full: one layer kept in so many layers (1: every layer's input) */
    enum plan_precision precision;
    enum plan_optimizer optimizer;
    enum plan_schedule schedule;
    int32_t lora_rank; /* 0: all weights learn */
    int32_t base_bits; /* of frozen weights under LoRA; 0: 16 */
    bool offload_optimizer, offload_params;
    struct plan_profile profile;
};
void plan_config_init(struct plan_config *c); /* one GPU, one sequence of 4096, flash, bf16 */

/* Whether ZeRO scatters the gradients of every micro-batch, so that no GPU holds all of them.  In a
 * pipeline nobody does: the micro-batches of a stage follow each other too closely, so their
 * gradients are summed in place and scattered once a step, which is ZeRO 1 (DeepSpeed refuses the
 * pair, Megatron and torchtitan sum; MegaScale's published runs say "ZeRO-2" and take the time of
 * one scatter). */
static inline bool plan_scatters_each(int32_t zero, int32_t pp)
{
    return zero == 2 && pp == 1;
}

/* Rules of divisibility and of sense.  Each has a name that search and messages print. */
enum plan_rule {
    PLAN_RULE_OK,
    PLAN_RULE_RANGE,
    PLAN_RULE_GPUS,
    PLAN_RULE_TP_HEADS,
    PLAN_RULE_TP_KV_HEADS,
    PLAN_RULE_TP_FFN,
    PLAN_RULE_TP_NODE,
    PLAN_RULE_SP_NEEDS_TP,
    PLAN_RULE_SP_SEQ,
    PLAN_RULE_PP_LAYERS,
    PLAN_RULE_PP_EVEN,
    PLAN_RULE_VPP_NEEDS_PP,
    PLAN_RULE_VPP_LAYERS,
    PLAN_RULE_VPP_BATCH,
    PLAN_RULE_CP_SEQ,
    PLAN_RULE_EP_EXPERTS,
    PLAN_RULE_EP_GROUP,
    PLAN_RULE_ETP_FFN,
    PLAN_RULE_SHARD_GROUP,
    PLAN_RULE_ZERO_OFFLOAD,
    PLAN_RULE_RECOMPUTE_EVERY,
    PLAN_RULE_FP8,
    PLAN_RULE_BF16,      /* all of it in 16 bits, on a GPU without bf16 */
    PLAN_RULE_FRAMEWORK, /* the framework that is named cannot run it: of searches */
    PLAN_RULE_BATCH,     /* dp x micro-batch divides the batch: of searches, which know the batch */
    PLAN_RULES
};
extern const char *const plan_rule_names[PLAN_RULES]; /* "tp-heads" */
/* RC_USAGE names the first rule that `c` breaks on `cl` (NULL: any cluster); the hint has the
 * nearest valid value. */
enum rc plan_config_check(const struct plan_model *m, const struct plan_cluster *cl,
                          const struct plan_config *c, struct err *err) MUST_USE;
/* The same with the rule's name before it, as plan_config_check() says it. */
enum rc plan_precision_rule_check(const struct plan_gpu *gpu, enum plan_precision p,
                                  struct err *err) MUST_USE;
/* "tp8 pp4 dp2 zero1 mbs1 ga16 sp selective recompute bf16" */
void plan_config_text(const struct plan_config *c, struct buf *out);

struct plan_stage {
    int64_t first, count; /* layers */
    int64_t moe;          /* of them */
    bool embed, head;
};

/* ---- memory ---- */
enum plan_kind {
    PLAN_MEM_WEIGHTS,
    PLAN_MEM_GRADS,
    PLAN_MEM_OPTIMIZER,
    PLAN_MEM_ACTIVATIONS,
    PLAN_MEM_LOGITS,
    PLAN_MEM_COMM,    /* gathered layers, buckets, buffers of collectives */
    PLAN_MEM_CONTEXT, /* CUDA and NCCL themselves */
    PLAN_MEM_FRAGMENTS,
    PLAN_KINDS
};
extern const char *const plan_kind_names[PLAN_KINDS];

struct plan_memory_stage {
    uint64_t kind[PLAN_KINDS]; /* bytes a GPU of this stage */
    uint64_t total;
    uint64_t params;   /* parameters a GPU of this stage works with, before ZeRO */
    int64_t in_flight; /* chunks of activations at the peak */
    struct plan_stage stage;
};
struct plan_memory {
    uint64_t kind[PLAN_KINDS]; /* of the fullest stage */
    uint64_t total;
    uint64_t host; /* bytes of host memory a GPU's offloaded part takes */
    int32_t worst; /* the fullest stage */
};
/* A number of the model that is not a count: named, so that a fit can change it
 * (memory/step_memory_int.h has the names). */
struct plan_memory_consts {
    double fragment_share; /* of tensors, on top of them */
    double logit_fragment; /* of logits: the largest buffers find no hole between micro-batches */
    double logit_fragment_low; /* the same without fp32 copies, or with one micro-batch a step */
    double context_bytes;      /* CUDA context and kernels */
    double comm_group_bytes;   /* NCCL, for each group of more than one GPU */
    double fixed_bytes;        /* tensors that do not grow with anything */
    double logit_bytes_fused, logit_bytes_eager, logit_bytes_copies; /* at the peak of the loss:
                                                                      fused, eager, fp32_copies */
    double logit_bytes_torch;    /* a plain script's, as reserved: nothing is lost around them */
    double logit_fragment_again; /* share of a compiled script's logits lost with full recompute */
    double cast_copy_bytes;      /* a layer and element of hidden, autocast without fused kernels */
    double cast_copy_fused;      /* the same with them */
    double bucket_bytes;         /* gradient buckets in flight */
    double grad_copy_bytes;      /* a parameter, where the profile has grad_copy */
    double table_copy_bytes;     /* a parameter of the embedding, where the profile has grad_copy */
    double norm_copy_bytes; /* a layer and element of hidden, where the profile has fp32_copies */
    double ahead_work;      /* tokens x hidden x ffn / tp^2 above which the host runs ahead */
    double error_share;     /* nine of ten published figures lie within it */
};
extern const struct plan_memory_consts plan_memory_default;

/* One stage; `m` and `c` must have passed their checks.  No allocation. */
void plan_memory_stage(const struct plan_model *m, const struct plan_counts *n,
                       const struct plan_config *c, const struct plan_memory_consts *k,
                       int32_t stage, struct plan_memory_stage *out);
/* The fullest stage of all. */
void plan_memory_of(const struct plan_model *m, const struct plan_counts *n,
                    const struct plan_config *c, const struct plan_memory_consts *k,
                    struct plan_memory *out);

/* Bytes a layer saves for backward, a token of the micro-batch on this GPU. */
struct plan_act_part {
    const char *what; /* "mlp gate, up, product" */
    double bytes;     /* a token */
};
enum { PLAN_ACT_PARTS_MAX = 24 };
size_t plan_act_parts(const struct plan_model *m, const struct plan_config *c,
                      const struct plan_memory_consts *k, bool moe,
                      struct plan_act_part out[PLAN_ACT_PARTS_MAX]);

struct plan_job { /* a job that is explained or changed; everything is borrowed */
    const struct plan_model *model;
    const struct plan_counts *counts;
    const struct plan_cluster *cluster;
    const struct plan_config *config;
    const struct plan_memory_consts *consts;
    uint64_t limit; /* bytes of a GPU that may be used */
};

/* The cheapest change that makes it fit.  Changes are ranked by the work they add to a step:
 * nothing, then communication, then a smaller batch, then computing twice, then more GPUs a
 * replica; at most three are joined. */
enum { PLAN_FIX_MAX = 3, PLAN_FIX_TEXT_MAX = 128 };
struct plan_fix {
    char step[PLAN_FIX_MAX][PLAN_FIX_TEXT_MAX]; /* "--zero 1: shard the optimizer ..." */
    size_t steps;
    struct plan_config config;
    struct plan_memory memory;
};
/* False: nothing that is known makes it fit on so many GPUs. */
bool plan_memory_fix(const struct plan_job *j, struct plan_fix *out);
/* The largest micro-batch that fits, everything else as it is; 0: none. */
int64_t plan_memory_largest_batch(const struct plan_job *j);

/* ---- what people read ---- */
/* Where the bytes of a kind come from, as arithmetic: "70.6B / tp 8 x 2 B". */
void plan_memory_why(const struct plan_job *j, const struct plan_memory_stage *s,
                     enum plan_kind kind, struct buf *out);
/* One line of letters, a kind each, `width` columns for the GPU's memory. */
void plan_memory_bar(const struct plan_job *j, const struct plan_memory_stage *s, int width,
                     struct buf *out);
/* Stages beside each other, kinds on top of each other, a line at the limit. */
void plan_memory_svg(const struct plan_job *j, struct buf *out);

#endif
