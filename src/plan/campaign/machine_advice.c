/* SPDX-License-Identifier: MIT */
/* machine_advice: a training configuration from what a machine has.
 *
 * For models that are not transformers of a known shape: a vision or driving network is described
 * by what was measured of it (parameters, FLOPs and bytes of a sample), and each setting follows
 * from a figure of the machine or from a published reference, which its reason names. */
#include "plan/advice.h"
#include "plan/consts.h"
#include "plan/plan_int.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    REFERENCE_BATCH = 32, /* a GPU: Goyal et al. 2017 */
    WORKERS_LEAST = 2,
    PREFETCH = 4,
    STATE_BYTES = 16 /* a parameter: fp32 weight, gradient and two moments under autocast */
};
#define MEMORY_SHARE 0.9
#define LOADER_ROOM  1.25 /* loaders are asked for a quarter more than the GPUs use */

const char *const plan_setting_names[PLAN_SETTINGS] = {
    "batch a GPU",   "global batch",       "precision", "loader workers a GPU", "prefetch factor",
    "pinned memory", "persistent workers", "drop last", "parallelism",          "batch norm"
};

PRINTF_LIKE(4, 5)
static void setting_set(struct plan_machine *m, enum plan_setting s, const char *value,
                        const char *fmt, ...)
{
    va_list ap;

    snprintf(m->value[s], sizeof(m->value[s]), "%s", value);
    va_start(ap, fmt);
    vsnprintf(m->why[s], sizeof(m->why[s]), fmt, ap);
    va_end(ap);
}

/* ---- batch and memory ---- */
static double fixed_bytes(const struct plan_machine_want *w)
{
    return w->params * STATE_BYTES + plan_memory_default.context_bytes;
}

static enum rc batch_of(const struct plan_machine_want *w, struct plan_machine *m, struct err *err)
{
    double room = (double)w->gpu.mem_bytes * MEMORY_SHARE - fixed_bytes(w);
    double most = w->act_bytes > 0 ? room / w->act_bytes : INFINITY;
    char text[PLAN_VALUE_MAX];

    m->batch_gpu = w->batch ? w->batch : REFERENCE_BATCH;
    if (most < 1) {
        err_hint(err, "Recompute activations, shard the model, or cut the sample.");
        return err_set(err, RC_LIMIT, "one sample does not fit: %.1f GiB of %.1f on a %s",
                       (fixed_bytes(w) + w->act_bytes) / 0x1p30,
                       (double)w->gpu.mem_bytes * MEMORY_SHARE / 0x1p30, w->gpu.name);
    }
    while (!w->batch && (double)m->batch_gpu > most)
        m->batch_gpu /= 2;
    m->batch = m->batch_gpu * w->gpus;
    if (w->act_bytes > 0)
        m->memory_bytes = fixed_bytes(w) + (double)m->batch_gpu * w->act_bytes;
    snprintf(text, sizeof(text), "%lld", (long long)m->batch_gpu);
    if (w->act_bytes <= 0)
        setting_set(
            m, PLAN_SET_BATCH_GPU, text,
            "%s; memory is not the limit that is known: give --act-sample to hold it against "
            "the %.0f GiB of a %s",
            w->batch ? "as given"
                     : "the reference: 8 workers of 32 images, batch 256 "
                       "(Goyal et al. 2017, arXiv 1706.02677)",
            (double)w->gpu.mem_bytes / 0x1p30, w->gpu.name);
    else
        setting_set(
            m, PLAN_SET_BATCH_GPU, text,
            "%s; it takes %.1f GiB of %.1f (%.2f GiB a sample, %.1f fixed), up to %.0f would fit",
            w->batch                          ? "as given"
            : m->batch_gpu == REFERENCE_BATCH ? "the reference: 8 workers of 32 (Goyal et al. "
                                                "2017, arXiv 1706.02677)"
                                              : "32, the reference, does not fit: halved until it "
                                                "does",
            m->memory_bytes / 0x1p30, (double)w->gpu.mem_bytes / 0x1p30, w->act_bytes / 0x1p30,
            fixed_bytes(w) / 0x1p30, floor(most));
    return RC_OK;
}

static void global_batch(const struct plan_machine_want *w, struct plan_machine *m)
{
    int64_t reference = REFERENCE_BATCH * w->gpus;
    char text[PLAN_VALUE_MAX];

    snprintf(text, sizeof(text), "%lld", (long long)m->batch);
    if (m->batch == 256)
        setting_set(
            m, PLAN_SET_BATCH, text,
            "%lld GPUs x %lld: the batch whose learning rates are published; another one wants "
            "another rate (stoker plan advise)",
            (long long)w->gpus, (long long)m->batch_gpu);
    else if (m->batch < reference)
        setting_set(
            m, PLAN_SET_BATCH, text,
            "%lld GPUs x %lld; accumulate %lld steps for the %lld of the reference, or scale the "
            "learning rate (stoker plan advise)",
            (long long)w->gpus, (long long)m->batch_gpu,
            (long long)(reference / plan_max(1, m->batch)), (long long)reference);
    else
        setting_set(
            m, PLAN_SET_BATCH, text,
            "%lld GPUs x %lld; published rates are for 256: scale the learning rate and warm up "
            "(stoker plan advise --from-batch 256 --batch %lld)",
            (long long)w->gpus, (long long)m->batch_gpu, (long long)m->batch);
}

/* ---- speed ---- */
static void speed_of(const struct plan_machine_want *w, const struct plan_consts *k,
                     struct plan_machine *m)
{
    double eff = w->efficiency > 0 ? w->efficiency : k->c[PLAN_C_GEMM];

    if (w->flops_sample <= 0)
        return;
    m->step_s = (double)m->batch_gpu * w->flops_sample / (w->gpu.bf16_flops * eff);
    m->samples_s = (double)m->batch / m->step_s;
    if (w->samples > 0 && w->epochs > 0)
        m->hours = w->samples * w->epochs / m->samples_s / PLAN_HOUR_S;
}

/* ---- the loader ---- */
static void loader_of(const struct plan_machine_want *w, struct plan_machine *m)
{
    int64_t most = w->cores ? plan_max(1, w->cores / w->gpus - 1) : INT64_MAX, ready;
    double rate = m->samples_s / (double)w->gpus, need = ceil(rate * w->cpu_s * LOADER_ROOM);
    bool known = rate > 0 && w->cpu_s > 0 && w->efficiency > 0;
    char text[PLAN_VALUE_MAX], cores[96] = "", more[64] = "raise it until the GPU is busy";
    double seconds;

    m->workers = known ? plan_max(WORKERS_LEAST, (int64_t)need) : WORKERS_LEAST;
    if (w->cores)
        snprintf(cores, sizeof(cores), "; %lld cores leave %lld a GPU", (long long)w->cores,
                 (long long)(w->cores / w->gpus));
    if (w->cores && most > m->workers)
        snprintf(more, sizeof(more), "raise it, up to %lld here, until the GPU is busy",
                 (long long)most);
    snprintf(text, sizeof(text), "%lld", (long long)plan_min(m->workers, most));
    if (known && (int64_t)need > most)
        setting_set(
            m, PLAN_SET_WORKERS, text,
            "%.0f are needed (%.0f samples/s x %.1f ms of a core, a quarter to spare)%s: the "
            "loader will hold the GPUs up",
            need, rate, w->cpu_s * 1e3, cores);
    else if (known)
        setting_set(m, PLAN_SET_WORKERS, text,
                    "%.0f samples/s x %.1f ms of a core, a quarter to spare, and no fewer than 2%s",
                    rate, w->cpu_s * 1e3, cores);
    else
        setting_set(
            m, PLAN_SET_WORKERS, text,
            "the reference's: one decodes while the other hands over. A loader that decodes "
            "photographs wants more (a core does 100 to 200 a second): %s, or give what was "
            "measured, --cpu-ms and --efficiency%s",
            more, cores);
    m->workers = plan_min(m->workers, most);
    ready = m->workers * PREFETCH;
    seconds = (double)ready * m->step_s;
    m->prefetch = PREFETCH;
    snprintf(text, sizeof(text), "%d", PREFETCH);
    if (m->step_s > 0 && w->sample_bytes > 0)
        setting_set(
            m, PLAN_SET_PREFETCH, text,
            "%lld batches ready a GPU bridge %.1f s of a slow disk; they take %.1f GiB of host "
            "memory in all (PyTorch's 2 bridge half)",
            (long long)ready, seconds, (double)(ready * m->batch) * w->sample_bytes / 0x1p30);
    else
        setting_set(
            m, PLAN_SET_PREFETCH, text,
            "%lld batches ready a GPU: PyTorch's 2 make half of that, and a burst of slow reads "
            "empties them",
            (long long)ready);
}

static void loader_flags(const struct plan_machine_want *w, struct plan_machine *m)
{
    int64_t processes = m->workers * w->gpus;

    setting_set(
        m, PLAN_SET_PIN, "on",
        "page-locked buffers are copied by the DMA engine while the GPU computes; pageable ones "
        "are first copied by a core");
    setting_set(
        m, PLAN_SET_PERSISTENT, "on",
        "workers live across epochs: starting %lld processes and opening the data again at each "
        "epoch leaves the GPUs idle",
        (long long)processes);
    setting_set(m, PLAN_SET_DROP_LAST, "on",
                "every step has %lld samples on every GPU: a shorter last one changes the mean of "
                "gradients, the statistics of batch norm and the shapes that were compiled",
                (long long)m->batch_gpu);
}

/* ---- the rest ---- */
static void parallel_of(const struct plan_machine_want *w, struct plan_machine *m)
{
    double grads = 4 * w->params, n = (double)w->gpus;
    double link = w->gpu.link_bytes_s > 0 ? w->gpu.link_bytes_s : 25e9;
    double ms = 2 * (n - 1) / n * grads / link * 1e3;

    m->sharded = fixed_bytes(w) > (double)w->gpu.mem_bytes * MEMORY_SHARE / 2;
    if (w->gpus == 1)
        setting_set(m, PLAN_SET_PARALLEL, "none", "one GPU");
    else if (m->sharded)
        setting_set(m, PLAN_SET_PARALLEL, "sharded data parallel (FSDP)",
                    "weights, gradients and moments take %.1f GiB: more than half of a GPU",
                    fixed_bytes(w) / 0x1p30);
    else if (w->params > 0)
        setting_set(m, PLAN_SET_PARALLEL, "data parallel (DDP)",
                    "the whole model with its optimizer takes %.1f GiB of a %s's %.0f; %.0f MB of "
                    "gradients a step are %.1f ms on its links and hide behind the backward pass",
                    fixed_bytes(w) / 0x1p30, w->gpu.name, (double)w->gpu.mem_bytes / 0x1p30,
                    grads / 1e6, ms);
    else
        setting_set(
            m, PLAN_SET_PARALLEL, "data parallel (DDP)",
            "up to %.1fB parameters the model with its optimizer fits in half of a %s: nothing "
            "needs to be cut",
            ((double)w->gpu.mem_bytes * MEMORY_SHARE / 2 - plan_memory_default.context_bytes) /
                STATE_BYTES / 1e9,
            w->gpu.name);
}

static void norm_of(const struct plan_machine_want *w, struct plan_machine *m)
{
    if (w->gpus == 1)
        setting_set(m, PLAN_SET_SYNC_BN, "local", "one GPU has the whole batch");
    else if (m->batch_gpu <= REFERENCE_BATCH)
        setting_set(
            m, PLAN_SET_SYNC_BN, "synchronised",
            "statistics over %lld samples instead of %lld: they do not change with the number of "
            "GPUs, and below 32 a GPU the error grows (Wu and He 2018, arXiv 1803.08494)",
            (long long)m->batch, (long long)m->batch_gpu);
    else
        setting_set(
            m, PLAN_SET_SYNC_BN, "local",
            "%lld samples a GPU are enough for its own statistics (32 and more; Wu and He 2018, "
            "arXiv 1803.08494)",
            (long long)m->batch_gpu);
}

enum rc plan_machine_of(const struct plan_machine_want *w, struct plan_machine *out,
                        struct err *err)
{
    struct plan_machine m = { .bf16 = !w->gpu.no_bf16 };
    struct plan_consts k;
    enum rc rc;

    rc = plan_consts_builtin(&w->gpu, &k, err);
    if (rc == RC_OK)
        rc = batch_of(w, &m, err);
    if (rc)
        return rc;
    global_batch(w, &m);
    setting_set(
        &m, PLAN_SET_PRECISION, m.bf16 ? "bf16" : "fp16",
        "%.0f TFLOP/s on a %s and half the bytes of fp32; %s; weights and moments stay in fp32",
        w->gpu.bf16_flops / 1e12, w->gpu.name,
        m.bf16 ? "the exponent of fp32, so that no loss scaling is needed"
               : "it has no bf16, so that torch.amp.GradScaler scales the loss");
    speed_of(w, &k, &m);
    loader_of(w, &m);
    loader_flags(w, &m);
    parallel_of(w, &m);
    norm_of(w, &m);
    *out = m;
    return RC_OK;
}
