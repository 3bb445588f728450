/* SPDX-License-Identifier: MIT */
/* run_rows: from a cell's words to the planner's terms. */
#include "plan/run_rows.h"

#include "base/str.h"
#include "plan/plan_int.h"

#include <math.h>

const char *const plan_exclude_names[PLAN_EXCLUDES] = { "R1", "R2", "R3", "R4", "R5", "R6" };
const char *const plan_missing_names[PLAN_MISSINGS] = {
    "no shape",       "no heads",          "no micro-batch",
    "no recompute",   "no parallel sizes", "no batch",
    "unknown GPU",    "impossible model",  "impossible configuration",
    "impossible time"
};

const char *const plan_assumed_names[PLAN_ASSUMEDS] = { "vocabulary of 51200 assumed",
                                                        "batch of about 2048 assumed",
                                                        "FLOPs over all pairs assumed" };

enum { USUAL_VOCAB = 51200, USUAL_BATCH = 2048 };

enum run_col {
    C_SOURCE,
    C_LOC,
    C_MODEL,
    C_PARAMS,
    C_LAYERS,
    C_HIDDEN,
    C_HEADS,
    C_KV,
    C_FFN,
    C_MLP,
    C_VOCAB,
    C_MOE,
    C_SEQ,
    C_HARDWARE,
    C_GPUS,
    C_TP,
    C_PP,
    C_VPP,
    C_CP,
    C_EP,
    C_DP,
    C_MBS,
    C_GA,
    C_GBS,
    C_ZERO,
    C_SP,
    C_RECOMPUTE,
    C_PRECISION,
    C_ITER,
    C_TOKENS,
    C_TFLOPS,
    C_FLOPS,
    C_MFU,
    C_MEM,
    C_MEM_KIND,
    C_NOTES,
    C_FRAMEWORK,
    C_KERNELS,
    C_ATTN,
    C_OVERLAP,
    C_SPLIT,
    C_COUNT
};
static const char *const col_names[] = {
    "source",      "loc",         "model",      "params_b",
    "layers",      "hidden",      "heads",      "kv_heads",
    "ffn",         "mlp",         "vocab",      "moe",
    "seq_len",     "hardware",    "gpus",       "tp",
    "pp",          "vpp",         "cp",         "ep",
    "dp",          "micro_batch", "grad_acc",   "global_batch",
    "zero",        "seq_par",     "recompute",  "precision",
    "iter_time_s", "tok_s_gpu",   "tflops_gpu", "flop_convention",
    "mfu_pct",     "mem_gib",     "mem_kind",   "notes",
    "framework",   "kernels",     "attn",       "dp_overlap",
    "stage_split"
};
static_assert(ARRAY_SIZE(col_names) == C_COUNT, "a name for every column");

enum { GPU_KINDS = 16 };
static const char *const gpu_kinds[GPU_KINDS][2] = {
    /* a part of the table's text, the catalogue's alias; the first that the text holds */
    { "GB300", "gb300" },         { "GB200", "gb200" },         { "B300", "b300" },
    { "B200", "b200" },           { "GH200", "gh200" },         { "H200", "h200" },
    { "H100 PCIe", "h100-pcie" }, { "H100-PCIe", "h100-pcie" }, { "H100", "h100" },
    { "A100-PCIe", "a100-pcie" }, { "A100 PCIe", "a100-pcie" }, { "A100-40GB", "a100-40gb" },
    { "A100", "a100" },           { "L40S", "l40s" },           { "4090", "4090" },
    { "H800", "h800" },
};

struct run_reader {
    struct csv t;
    const char **cells; /* C_COUNT a row, "^" replaced by what stands above it */
    size_t row;
    struct plan_gpu gpus[GPU_KINDS]; /* of gpu_kinds; without a name: the catalogue lacks it */
};

static const char *row_cell(const struct run_reader *r, enum run_col c)
{
    return r->cells[r->row * C_COUNT + c];
}

/* A whole number with the marks of doubt people put around it: "51200?", "~64K?".  0: none. */
static int64_t row_int(const struct run_reader *r, enum run_col c)
{
    const char *s = row_cell(r, c), *digits;
    char text[16] = ""; /* up to 10^15: no overflow below */
    int64_t v;
    size_t len;

    digits = *s == '~' ? s + 1 : s;
    len = strspn(digits, "0123456789");
    if (!len || len >= sizeof(text))
        return 0;
    memcpy(text, digits, len);
    if (!str_to_i64(text, 10, &v))
        return 0;
    return digits[len] == 'K' ? v * 1024 : v;
}

static double row_number(const struct run_reader *r, enum run_col c)
{
    double v;

    return str_to_f64(row_cell(r, c), &v) && v > 0 ? v : 0;
}

/* A parallel size: nothing and "n/a" are 1. */
static int32_t size_of(const struct run_reader *r, enum run_col c)
{
    int64_t v = row_int(r, c);

    return v > 0 && v <= PLAN_GPUS_MAX ? (int32_t)v : 1;
}

static int64_t number_after(const char *s, const char *word)
{
    const char *p = strstr(s, word);
    char text[12] = "";
    size_t len;
    int64_t v;

    if (!p)
        return 0;
    p += strlen(word);
    len = strspn(p, "0123456789");
    if (!len || len >= sizeof(text))
        return 0;
    memcpy(text, p, len);
    return str_to_i64(text, 10, &v) ? v : 0;
}

/* "256 experts top8 ffn2048 +1 shared, 3 dense layers" */
static void read_moe(const struct run_reader *r, struct plan_model *m)
{
    const char *s = row_cell(r, C_MOE);
    int64_t dense, shared;

    if (!*s)
        return;
    m->experts = number_after(s, "") /* at the start */;
    m->top_k = number_after(s, "top");
    m->expert_ffn = number_after(s, "ffn");
    shared = number_after(s, "+");
    dense = number_after(s, "shared, ");
    m->shared_ffn =
        shared > 0 && shared < 64 && m->expert_ffn <= PLAN_FFN_MAX ? shared * m->expert_ffn : 0;
    m->moe_first = dense;
    m->router_bias = shared > 0;
}

/* Latent attention, DeepSeek's, V2 and V3 alike.  A table that cuts layers off does not print the
 * experts: they are the known model's whose name the row begins with. */
static void read_mla(const struct run_reader *r, struct plan_model *m)
{
    static const char *const names[] = { "DeepSeek-V2", "DeepSeek-V3" };
    struct plan_model known;

    m->q_lora = 1536;
    m->kv_lora = 512;
    m->qk_nope = m->v_dim = 128;
    m->qk_rope = 64;
    m->kv_heads = m->heads;
    for (size_t i = 0; !m->experts && i < ARRAY_SIZE(names); i++) {
        if (!str_starts(row_cell(r, C_MODEL), names[i]) ||
            plan_model_by_name(names[i], &known, NULL))
            continue;
        m->experts = known.experts;
        m->top_k = known.top_k;
        m->expert_ffn = known.expert_ffn;
        m->shared_ffn = known.shared_ffn;
        m->moe_first = 1; /* one dense layer is kept: the measured memory has no other reading */
        m->router_bias = known.router_bias;
    }
}

/* The small things of a family, by what the table says of the MLP. */
static void read_family(const struct run_reader *r, struct plan_model *m)
{
    const char *mlp = row_cell(r, C_MLP), *notes = row_cell(r, C_NOTES);
    bool gelu = str_starts(mlp, "gelu");
    bool alibi = str_eq(row_cell(r, C_SPLIT), "embedding-counts-as-layer"); /* BLOOM's Megatron */

    m->gated = str_eq(mlp, "swiglu");
    m->head = true;
    m->layer_norms = 2;
    m->outer_norms = alibi ? 2 : 1;
    m->qkv_bias = m->out_bias = m->mlp_bias = m->norm_bias = gelu;
    m->tied = strstr(notes, "embedding tied") || (gelu && !strstr(notes, "untied"));
    m->positions = gelu && !alibi ? row_int(r, C_SEQ) : 0;
}

/* The table has no column for the head dimension, which is not hidden / heads for every model:
 * where the name and the size are those of a known one, it is that one's. */
static void read_known(struct plan_model *m)
{
    struct plan_model known;

    if (plan_model_by_name(m->name, &known, NULL) || known.layers != m->layers ||
        known.hidden != m->hidden || known.heads != m->heads)
        return;
    m->head_dim = known.head_dim;
    m->window = known.window;
    m->window_every = known.window_every;
    m->attn_sinks = known.attn_sinks;
}

/* Where the table does not say whether the head is the embedding, the printed count does. */
static void choose_tied(const struct run_reader *r, struct plan_row *o)
{
    struct plan_model other = o->model;
    struct plan_counts n;
    double want, ulp;

    other.tied = !other.tied;
    if (!plan_count_parse(row_cell(r, C_PARAMS), &want, &ulp))
        return;
    want *= 1e9;
    ulp *= 1e9;
    if (!(want > 0) || fabs((double)o->counts.total - want) <= ulp / 2 ||
        strstr(row_cell(r, C_NOTES), "embedding ") || plan_model_counts(&other, &n, NULL) ||
        fabs((double)n.total - want) >= fabs((double)o->counts.total - want))
        return;
    o->model = other;
    o->counts = n;
}

static void read_model(const struct run_reader *r, struct plan_row *o)
{
    struct plan_model *m = &o->model;

    str_copy(m->name, sizeof(m->name), o->name);
    m->layers = row_int(r, C_LAYERS);
    m->hidden = row_int(r, C_HIDDEN);
    m->heads = row_int(r, C_HEADS);
    m->kv_heads = row_int(r, C_KV);
    m->ffn = row_int(r, C_FFN);
    m->vocab = row_int(r, C_VOCAB);
    read_family(r, m);
    read_moe(r, m);
    if (!m->vocab && m->layers && m->hidden && m->ffn && str_starts(row_cell(r, C_MLP), "gelu")) {
        m->vocab = USUAL_VOCAB;
        o->assumed |= PLAN_ASSUMED_VOCAB;
    }
    if (str_eq(row_cell(r, C_KV), "MLA"))
        read_mla(r, m);
    if (!m->layers || !m->hidden || !m->vocab || (!m->ffn && !m->experts)) {
        o->missing |= PLAN_NO_SHAPE;
        return;
    }
    if (!m->heads) {
        o->missing |= PLAN_NO_HEADS;
        m->heads = plan_nearest_divisor(m->hidden, plan_max(1, m->hidden / 128), PLAN_HEADS_MAX);
    } else if (!m->kv_lora && m->hidden % m->heads) {
        m->head_dim = 128; /* Qwen's: heads x 128 is not hidden */
    }
    if (m->experts && str_starts(m->name, "Qwen"))
        m->head_dim = 128;
    else if (m->experts && !m->kv_lora)
        read_known(m);
    if (plan_model_check(m, NULL) || plan_model_counts(m, &o->counts, NULL))
        o->missing |= PLAN_BAD_MODEL;
    else
        choose_tied(r, o);
}

/* ---- hardware ---- */

/* Behind a number: what it is a rate of, in bytes/s; 0: no rate.  *len: of the unit. */
static double rate_unit(const char *s, size_t *len)
{
    static const struct {
        const char *text;
        double unit;
    } units[] = { { "Gb", 1e9 / 8 }, { "GB/s", 1e9 }, { "GBps", 1e9 }, { "Tb", 1e12 / 8 } };
    size_t blank = *s == ' ';

    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (str_starts(s + blank, units[i].text)) {
            *len = blank + strlen(units[i].text);
            return units[i].unit;
        }
    return 0;
}

/* Whose rate it is: "per GPU", "/GPU", "a GPU" behind it. */
static bool is_per_gpu(const char *s)
{
    static const char *const words[] = {
        "per GPU", "/GPU", "a GPU", "each GPU", "per gpu", "/gpu"
    };

    s += strcspn(s, " /,;()");
    if (str_starts(s, "/s"))
        s += 2;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        const char *at = strstr(s, words[i]);

        if (at && at <= s + strcspn(s, ",;)0123456789"))
            return true;
    }
    return false;
}

/* "8x200Gb", "4 Omni-Path 100Gb/s", "8x50GB/s", "800Gb/s", "400Gb/s per GPU", "3.2 Tb/s": bytes/s
 * of a node, 0: not said. */
static double read_net(const char *hw, int64_t node_gpus, enum plan_fabric *fabric)
{
    static const char *const counts[] = { "%5dx%n", "%5d x %n", "%5d Omni-Path %n" };

    *fabric = strstr(hw, "Omni-Path") ? PLAN_FABRIC_OMNIPATH
              : strstr(hw, "EFA")     ? PLAN_FABRIC_EFA
                                      : PLAN_FABRIC_RDMA;
    for (const char *p = hw; *p; p++) {
        bool start = *p >= '0' && *p <= '9' && (p == hw || !strchr("0123456789.", p[-1]));
        double times = 1, v, unit;
        int a = 0, at = 0;
        size_t len = 0;

        if (!start || strspn(p, "0123456789") > 5)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(counts) && !at; i++)
            if (sscanf(p, counts[i], &a, &at) == 1 && at)
                times = a;
        if (sscanf(p + at, "%9lf%n", &v, &a) != 1 || !(v > 0) || v > 1e6)
            continue;
        unit = rate_unit(p + at + a, &len);
        if (!(unit > 0))
            continue;
        if (is_per_gpu(p + at + a + len))
            times *= (double)node_gpus;
        return times * v * unit;
    }
    return 0;
}

/* "500W cap", "capped at 500 W", "power limit 350 W": watts, 0: not said. */
static double read_watts(const char *hw)
{
    for (const char *p = hw; *p; p++) {
        int at = 0;
        double v;

        if (*p < '1' || *p > '9' || (p > hw && strchr("0123456789.", p[-1])))
            continue;
        if (sscanf(p, "%4lf%n", &v, &at) == 1 && v >= 50 && v <= 2000 &&
            (str_starts(p + at, "W") || str_starts(p + at, " W")) &&
            !strchr("abcdefghijklmnopqrstuvwxyz", p[at + 1 + (p[at] == ' ')] | ' '))
            return v;
    }
    return 0;
}

static void read_cluster(const struct run_reader *r, struct plan_row *o)
{
    const char *hw = row_cell(r, C_HARDWARE);
    double net;
    size_t i = 0;

    while (i < GPU_KINDS && !strstr(hw, gpu_kinds[i][0]))
        i++;
    if (i == GPU_KINDS || !r->gpus[i].name[0]) {
        o->missing |= PLAN_NO_GPU;
        return;
    }
    plan_cluster_usual(&r->gpus[i], row_int(r, C_GPUS), &o->cluster);
    net = read_net(hw, o->cluster.node_gpus, &o->cluster.fabric);
    if (net > 0)
        o->cluster.net_bytes_s = net;
    plan_gpu_cap(&o->cluster.gpu, read_watts(hw));
}

/* ---- configuration ---- */
/* GPUs that share a copy under HSDP: "HSDP 8", "HSDP (shard 8, replicate 4)", "HSDP 4x8" (copies x
 * shard); where none is said, those of a node, which is what it was made for. */
static int32_t hybrid_shard(const char *s, const struct plan_row *o)
{
    static const char *const words[] = { "shard=", "shard ", "shard_", "HSDP ",
                                         "hsdp ",  "HSDP-",  "hsdp-",  "x" };
    int64_t replicas = (int64_t)o->config.dp * o->config.cp, v = 0;
    const char *by = strpbrk(s, "0123456789");

    if (by)
        by += strspn(by, "0123456789");
    if (by && *by == 'x')
        v = number_after(by, "x");
    for (size_t i = 0; i < ARRAY_SIZE(words) && !v; i++)
        v = number_after(s, words[i]);
    if (!v)
        v = o->cluster.node_gpus / plan_max(1, o->config.tp);
    if (v < 1 || v >= replicas || replicas % v)
        return 0;
    return (int32_t)v;
}

/* "ZeRO-2", "zero 3", "ZERO2", "stage 1"; -1: none of these. */
static int32_t zero_stage(const char *s)
{
    static const char *const words[] = { "zero", "stage" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        const char *at = strcasestr(s, words[i]);

        if (at)
            at += strlen(words[i]) + strspn(at + strlen(words[i]), "-_ ");
        if (at && *at >= '0' && *at <= '3')
            return *at - '0';
    }
    return -1;
}

static bool fsdp_word(const char *s)
{
    return !strncasecmp(s, "FSDP", 4) || !strncasecmp(s, "HSDP", 4);
}

/* What cannot be read is told: another stage has other bytes. */
static void read_zero(const struct run_reader *r, struct plan_row *o)
{
    static const char *const none[] = { "", "no", "none", "ddp", "n/a" };
    struct plan_config *c = &o->config;
    const char *s = row_cell(r, C_ZERO);
    int64_t shard = !strncasecmp(s, "FSDP ", 5) ? number_after(s + 4, " ") : 0;
    bool hybrid = strcasestr(s, "HSDP") || strcasestr(s, "hybrid");
    int32_t stage = zero_stage(s);
    bool known = false;

    for (size_t i = 0; i < ARRAY_SIZE(none); i++)
        known = known || !strcasecmp(s, none[i]);
    c->zero = 0;
    if (*s >= '0' && *s <= '3' && !s[1])
        c->zero = *s - '0';
    else if (strstr(s, "(0)")) /* gradients and weights are whole: the optimizer is sharded */
        c->zero = 1;
    else if (stage == 2 || strcasestr(s, "SHARD_GRAD"))
        c->zero = 2;
    else if (stage == 3 || (!strncasecmp(s, "FSDP", 4) && !strcasestr(s, "NO_SHARD"))) {
        c->zero = 3;
        c->shard = shard > 0 && shard <= PLAN_GPUS_MAX ? (int32_t)shard : 0;
    } else if (hybrid)
        c->zero = 3;
    else if (stage == 1 || !strncasecmp(s, "dist-opt", 8))
        c->zero = 1;
    else if (!known && stage < 0 && !strcasestr(s, "NO_SHARD"))
        o->missing |= PLAN_NO_CUT;
    if (hybrid && c->zero >= 2)
        c->shard = hybrid_shard(s, o);
}

static void read_recompute(const struct run_reader *r, struct plan_row *o)
{
    const char *s = row_cell(r, C_RECOMPUTE);
    struct plan_config *c = &o->config;

    if (str_starts(s, "full"))
        c->recompute = PLAN_RECOMPUTE_FULL;
    else if (str_starts(s, "selective") || str_starts(s, "norm"))
        c->recompute = PLAN_RECOMPUTE_SELECTIVE;
    else if (!str_starts(s, "none"))
        o->missing |= PLAN_NO_RECOMPUTE;
    c->recompute_ops =
        (strstr(s, "norm") ? PLAN_OP_NORM : 0) | (strstr(s, "act") ? PLAN_OP_ACT : 0) |
        (strstr(s, "moe") && !strstr(s, "moe_act") ? PLAN_OP_EXPERTS : 0) |
        (strstr(s, "mla") ? PLAN_OP_MLA : 0) | (strstr(s, "shared") ? PLAN_OP_SHARED : 0);
    if (strchr(s, '?')) /* a guess of whoever gathered the table */
        o->missing |= PLAN_NO_RECOMPUTE;
}

static enum plan_precision read_precision(const struct run_reader *r)
{
    const char *s = row_cell(r, C_PRECISION);

    if (strcasestr(s, "fp8") || strstr(s, "FP4"))
        return PLAN_FP8;
    if (strstr(s, "mp=") || str_eq(row_cell(r, C_FRAMEWORK), "torch-fsdp"))
        return PLAN_FSDP_MIXED;
    return str_starts(s, "fp16") ? PLAN_BF16_GRADS : PLAN_BF16;
}

static void read_profile(const struct run_reader *r, struct plan_config *c)
{
    const char *split = row_cell(r, C_SPLIT);
    const char *framework = row_cell(r, C_FRAMEWORK);
    bool nanotron = str_eq(framework, "nanotron");
    bool fsdp = str_eq(framework, "torch-fsdp") || fsdp_word(row_cell(r, C_ZERO));

    c->profile = (struct plan_profile){
        .stack = nanotron ? PLAN_STACK_NANOTRON
                 : fsdp   ? PLAN_STACK_FSDP
                          : PLAN_STACK_MEGATRON,
        .fused = str_eq(row_cell(r, C_KERNELS), "fused"),
        .flash = !str_eq(row_cell(r, C_ATTN), "unfused"),
        .dp_overlap = str_eq(row_cell(r, C_OVERLAP), "yes"),
        .keep_gathered = nanotron,
        .fp32_copies = nanotron,
        .grad_copy = nanotron,
        .split = str_eq(split, "cost-balanced") ? PLAN_SPLIT_COST
                 : str_starts(split, "first")   ? PLAN_SPLIT_ENDS_LESS
                 : str_starts(split, "embed")   ? PLAN_SPLIT_EMBED_LAYER
                                                : PLAN_SPLIT_EVEN,
    };
}

/* Accumulation from what is given of it, the batch and the micro-batch. */
static void read_batch(const struct run_reader *r, struct plan_row *o)
{
    struct plan_config *c = &o->config;
    int64_t mbs = row_int(r, C_MBS), ga = row_int(r, C_GA), each;

    o->global_batch = row_int(r, C_GBS);
    if (str_starts(row_cell(r, C_GBS), "=GPUs")) /* weak scaling */
        o->global_batch = o->cluster.gpus;
    if (mbs < 1 || mbs > PLAN_BATCH_MAX) {
        o->missing |= PLAN_NO_MICRO_BATCH;
        mbs = 1;
    }
    each = mbs * c->dp;
    if (!o->global_batch && !ga &&
        row_number(r, C_TOKENS) > 0) { /* a rate, whose batch matters little */
        o->global_batch = plan_max(1, USUAL_BATCH / each) * each;
        o->assumed |= PLAN_ASSUMED_BATCH;
    }
    /* FSDP's micro-batches need not divide the batch; elsewhere a batch that is given is */
    if (o->global_batch >= each &&
        (!ga || (c->profile.stack != PLAN_STACK_FSDP && o->global_batch % each == 0)))
        ga = o->global_batch / each;
    if (!o->global_batch && ga > 0 && ga <= PLAN_BATCH_MAX)
        o->global_batch = ga * each;
    if (ga < 1 || ga > PLAN_BATCH_MAX) {
        o->missing |= PLAN_NO_BATCH;
        ga = 1;
    }
    c->micro_batch = (int32_t)mbs;
    c->grad_acc = (int32_t)ga;
}

static void read_config(const struct run_reader *r, struct plan_row *o)
{
    struct plan_config *c = &o->config;
    int64_t gpus = row_int(r, C_GPUS), cut, dp = row_int(r, C_DP);
    const char *sp = row_cell(r, C_SP);

    plan_config_init(c);
    c->tp = size_of(r, C_TP);
    c->pp = size_of(r, C_PP);
    c->vpp = size_of(r, C_VPP);
    c->cp = size_of(r, C_CP);
    c->ep = size_of(r, C_EP);
    if (gpus < 1 || gpus > PLAN_GPUS_MAX ||
        (!row_int(r, C_TP) && !str_eq(row_cell(r, C_TP), "n/a") && !fsdp_word(row_cell(r, C_ZERO))))
        o->missing |= PLAN_NO_CUT;
    cut = (int64_t)c->tp * c->pp;
    cut = cut <= PLAN_GPUS_MAX ? cut * c->cp : PLAN_GPUS_MAX + INT64_C(1);
    if (!dp ||
        (strstr(row_cell(r, C_NOTES), "!= GPUs (as printed)") && cut <= gpus && gpus % cut == 0))
        dp = gpus / cut;
    c->dp = dp >= 1 && dp <= PLAN_GPUS_MAX ? (int32_t)dp : 1;
    if (cut > PLAN_GPUS_MAX || cut * c->dp != gpus)
        o->exclude |= PLAN_R6_GPUS;
    c->seq = row_int(r, C_SEQ);
    if (c->seq < 1 || c->seq > PLAN_SEQ_MAX) {
        c->seq = 1;
        o->missing |= PLAN_NO_SHAPE;
    }
    c->seq_par = str_starts(sp, "yes") && c->tp > 1;
    c->schedule = c->vpp > 1 ? PLAN_INTERLEAVED : PLAN_1F1B;
    c->precision = read_precision(r);
    read_zero(r, o);
    read_recompute(r, o);
    read_profile(r, c);
    read_batch(r, o);
}

/* ---- what was measured ---- */

/* Half of a printed number's last digit, as a share of it. */
static double row_rounding(const struct run_reader *r, enum run_col c)
{
    const char *s = row_cell(r, c);
    size_t len = strlen(s);
    double v, ulp;

    if (len > 2 && !strcmp(s + len - 2, ".0")) { /* a whole number that passed through a float */
        char text[32];

        if (len >= sizeof(text))
            return 0;
        str_copy(text, len - 1, s);
        return plan_count_parse(text, &v, &ulp) && v > 0 ? ulp / v / 2 : 0;
    }
    return plan_count_parse(s, &v, &ulp) && v > 0 ? ulp / v / 2 : 0;
}

/* Seconds of a step from a printed TFLOP/s, where its convention is known. */
static double time_from_rate(const struct run_reader *r, struct plan_row *o)
{
    const struct plan_measured *m = &o->measured;
    struct plan_recompute_share again = { 0, 0 };
    double rate = m->tflops_gpu > 0 ? m->tflops_gpu * 1e12 : m->mfu * o->cluster.gpu.bf16_flops;
    bool nanotron = o->config.profile.stack == PLAN_STACK_NANOTRON;
    enum plan_flops flops = m->flops_known ? m->flops
                            : nanotron     ? PLAN_FLOPS_SIX_N
                                           : PLAN_FLOPS_FULL;
    double all = rate * (double)o->cluster.gpus;

    if (!(all > 0) || (o->missing & (PLAN_NO_SHAPE | PLAN_BAD_MODEL)) || m->failed ||
        (!m->flops_known && m->tflops_gpu > 0 && !str_starts(row_cell(r, C_FLOPS), "model")))
        return 0;
    if (!m->flops_known)
        o->assumed |= nanotron ? 0 : PLAN_ASSUMED_FLOPS;
    if (o->config.recompute == PLAN_RECOMPUTE_FULL)
        again.layers = 1;
    else if (o->config.recompute == PLAN_RECOMPUTE_SELECTIVE)
        again.attention = 1;
    return plan_flops_token(&o->model, o->config.seq, flops, again) * (double)o->global_batch *
           (double)o->config.seq / all;
}

/* A time that no GPU of the kind can reach, or a hundred thousandth of it: a slip of units. */
static bool impossible_time(const struct plan_row *o)
{
    const struct plan_gpu *g = &o->cluster.gpu;
    struct plan_recompute_share none = { 0, 0 };
    double peak = fmax(fmax(g->bf16_flops, g->fp8_flops), g->fp4_flops), share;

    if (!(o->measured.iter_s > 0) || o->missing & (PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_GPU) ||
        o->cluster.gpus < 1)
        return false;
    share = plan_flops_token(&o->model, o->config.seq, PLAN_FLOPS_CAUSAL, none) *
            (double)o->global_batch * (double)o->config.seq /
            (peak * (double)o->cluster.gpus * o->measured.iter_s);
    return !(share >= 1e-5 && share <= 1);
}

static void read_measured(const struct run_reader *r, struct plan_row *o)
{
    static const struct {
        const char *text;
        enum plan_flops kind;
    } words[] = {
        { "CAUSAL", PLAN_FLOPS_CAUSAL }, { "causal-half", PLAN_FLOPS_CAUSAL },
        { "FULL s^2", PLAN_FLOPS_FULL }, { "6*P(total", PLAN_FLOPS_SIX_N },
        { "3*(2N*s", PLAN_FLOPS_SIX_N }, { "hardware FLOPs", PLAN_FLOPS_HARDWARE },
        { "72BLsh^2", PLAN_FLOPS_FULL },
    };
    struct plan_measured *m = &o->measured;
    const char *kind = row_cell(r, C_MEM_KIND), *notes = row_cell(r, C_NOTES),
               *flops = row_cell(r, C_FLOPS);

    m->iter_s = row_number(r, C_ITER);
    m->tokens_s_gpu = row_number(r, C_TOKENS);
    m->tflops_gpu = row_number(r, C_TFLOPS);
    m->mfu = row_number(r, C_MFU) / 100;
    m->mem_bytes = row_number(r, C_MEM) * (double)(1 << 30);
    if (m->mem_bytes > 0)
        m->mem_kind = strstr(kind, "nvidia-smi")                     ? PLAN_MEM_SMI
                      : str_eq(row_cell(r, C_FRAMEWORK), "nanotron") ? PLAN_MEM_RANK0
                                                                     : PLAN_MEM_TORCH;
    for (size_t i = 0; i < ARRAY_SIZE(words) && !m->flops_known; i++)
        if (strstr(flops, words[i].text)) {
            m->flops_known = true;
            m->flops = words[i].kind;
        }
    if (plan_count_parse(row_cell(r, C_PARAMS), &m->params, &m->params_ulp)) {
        m->params *= 1e9;
        m->params_ulp *= 1e9;
    }
    m->rate_ulp = row_rounding(r, m->tokens_s_gpu > 0 ? C_TOKENS : C_ITER) +
                  row_rounding(r, m->tflops_gpu > 0 ? C_TFLOPS : C_MFU);
    if (!(m->tokens_s_gpu > 0) && m->iter_s > 0 && o->global_batch > 0 && o->cluster.gpus > 0)
        m->tokens_s_gpu =
            (double)o->global_batch * (double)o->config.seq / m->iter_s / (double)o->cluster.gpus;
    if (!(m->iter_s > 0) && m->tokens_s_gpu > 0 && o->global_batch > 0 && o->cluster.gpus > 0)
        m->iter_s = (double)o->global_batch * (double)o->config.seq / m->tokens_s_gpu /
                    (double)o->cluster.gpus;
    if (!(m->iter_s > 0))
        m->iter_s = time_from_rate(r, o);
    if (impossible_time(o))
        o->missing |= PLAN_BAD_TIME;
    m->failed = !(m->iter_s > 0) && (strstr(notes, "OOM") || strstr(notes, "crash"));
}

/* ---- rules ---- */

/* Ultra-Scale's rows that measure the model and not a stall (the file's notes say how the limits
 * were found): seconds a micro-batch at most half a second above those at a fifth of the peak. */
static bool is_clean(const struct plan_row *o)
{
    const struct plan_config *c = &o->config;
    struct plan_recompute_share none = { 0, 0 };
    double floor_mfu = c->tp > 8 ? 0.03 : 0.2, flops, limit;

    if (o->cluster.gpus >= 512 || o->global_batch != 256)
        return false;
    if (o->cluster.gpus <= o->cluster.node_gpus || (c->pp == 1 && c->tp <= 8))
        return true;
    flops = plan_flops_token(&o->model, c->seq, PLAN_FLOPS_SIX_N, none) * (double)c->seq *
            (double)o->global_batch / (double)o->cluster.gpus;
    limit = flops / (floor_mfu * o->cluster.gpu.bf16_flops);
    return o->measured.iter_s <= limit + 0.5 * c->grad_acc;
}

static void mark_rules(struct plan_row *o)
{
    const char *n = o->name, *l = o->loc;
    bool usable = !(o->missing & (PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_GPU));

    if (usable && str_starts(o->source, "HF Ultra-Scale") && !is_clean(o))
        o->exclude |= PLAN_R1_NOT_CLEAN;
    if (o->model.layers && o->config.pp > 1 && o->config.pp >= o->model.layers)
        o->exclude |= PLAN_R2_PP_LAYERS;
    if (usable && str_starts(o->source, "Megatron-Bridge") &&
        16 * (double)o->counts.total > (double)o->cluster.gpu.mem_bytes * (double)o->cluster.gpus)
        o->exclude |= PLAN_R3_PEFT;
    if (strstr(n, "LoRA") || strstr(n, "SFT") || strstr(l, "LoRA") || strstr(l, "SFT") ||
        strstr(n, "MegaScale"))
        o->exclude |= PLAN_R5_OTHER_WORK;
}

/* Up to the first digit: "NeMo performance summary 24.07 final" and "... first" are one table. */
static size_t family_len(const char *source)
{
    return strcspn(source, "0123456789(");
}

static bool same_run(const struct plan_row *a, const struct plan_row *b)
{
    size_t len = family_len(a->source);
    const struct plan_config *x = &a->config, *y = &b->config;

    return len == family_len(b->source) && !strncmp(a->source, b->source, len) &&
           strcmp(a->source, b->source) && str_eq(a->name, b->name) &&
           str_eq(a->cluster.gpu.name, b->cluster.gpu.name) && a->cluster.gpus == b->cluster.gpus &&
           a->global_batch == b->global_batch && x->seq == y->seq && x->tp == y->tp &&
           x->pp == y->pp && x->vpp == y->vpp && x->cp == y->cp && x->ep == y->ep &&
           x->micro_batch == y->micro_batch && x->precision == y->precision;
}

/* Of the versions of a row the last in the file stays.  Tables with versions are small; the large
 * ones have no digit in front of their name's end. */
static void mark_versions(struct plan_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (!strstr(rows->rows[i].source, "performance summary"))
            continue;
        for (size_t k = i + 1; k < rows->count; k++)
            if (same_run(&rows->rows[i], &rows->rows[k])) {
                rows->rows[i].exclude |= PLAN_R4_VERSION;
                break;
            }
    }
}

static void read_row(const struct run_reader *r, struct plan_row *o)
{
    const unsigned no_config = PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_CUT;

    *o = (struct plan_row){ .source = row_cell(r, C_SOURCE),
                            .loc = row_cell(r, C_LOC),
                            .name = row_cell(r, C_MODEL),
                            .line = r->row + 2 };
    read_model(r, o);
    read_cluster(r, o);
    read_config(r, o);
    read_measured(r, o);
    mark_rules(o);
    if (o->missing & no_config)
        return;
    o->rule = plan_config_rule(&o->model, NULL, &o->config);
    if (o->rule != PLAN_RULE_OK)
        o->missing |= PLAN_BAD_CONFIG;
}

static enum rc read_cells(struct arena *a, struct run_reader *r, struct err *err)
{
    size_t col[C_COUNT];

    enum rc rc = csv_columns(&r->t, col_names, C_COUNT, col, err);

    if (rc)
        return rc;
    r->cells = arena_array(a, const char *, (r->t.rows + 1) * C_COUNT);
    for (size_t row = 0; row < r->t.rows; row++)
        for (size_t i = 0; i < C_COUNT; i++) {
            const char *s = csv_cell(&r->t, row, col[i]);
            size_t at = row * C_COUNT + i;

            r->cells[at] = row && str_eq(s, "^") ? r->cells[at - C_COUNT] : s;
        }
    return RC_OK;
}

enum rc plan_rows_read(struct arena *a, const char *text, size_t len, struct plan_rows *out,
                       struct err *err)
{
    struct run_reader r = { 0 };
    struct plan_rows rows;
    enum rc rc = csv_parse(a, text, len, &r.t, err);

    if (rc)
        return rc;
    rc = read_cells(a, &r, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < GPU_KINDS; i++)
        if (plan_gpu_by_name(gpu_kinds[i][1], &r.gpus[i], NULL))
            r.gpus[i].name[0] = 0;
    rows = (struct plan_rows){ arena_array(a, struct plan_row, r.t.rows), r.t.rows };
    for (; r.row < r.t.rows; r.row++)
        read_row(&r, &rows.rows[r.row]);
    mark_versions(&rows);
    *out = rows;
    return RC_OK;
}
