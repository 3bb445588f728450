/* SPDX-License-Identifier: MIT */
/* cuda_ops: the engine of this plug-in behind struct eng_ops.
 *
 * GPUs are looked at once, at the first question.  Compute capability 9.0 runs the kernels made
 * for it, everything else from 8.0 on those of 8.0; STOKER_SM=80 asks for the latter on any GPU.
 * STOKER_CUDA_COUNT=N claims N devices, which share the GPUs there are: for tests of several.
 *
 * An error that CUDA does not get rid of (a kernel that read where it must not, a GPU that fell
 * off the bus) marks the GPU as lost: its models answer RC_NODEV from then on, at once. */
#include "engine/cuda/cuda_int.h"

#include <assert.h>
#include <math.h>

#define EXPORT __attribute__((visibility("default")))

static const struct eng_host *the_host; /* set once, before anything else is called */

const struct eng_host *cu_host(void)
{
    return the_host;
}

/* ---- GPUs of this machine ---- */
static struct {
    pthread_once_t once;
    struct gpu list[CU_GPUS_MAX];
    size_t real;  /* GPUs */
    size_t count; /* devices that are told */
} gpus = { .once = PTHREAD_ONCE_INIT };

static int gpu_attribute(int device, enum cudaDeviceAttr a)
{
    int v = 0;

    return cudaDeviceGetAttribute(&v, a, device) == cudaSuccess ? v : 0;
}

static bool look_at(int device, struct gpu *g)
{
    static struct cudaDeviceProp prop; /* large; there is one thread here */
    const char *sm = getenv("STOKER_SM");

    if (gpu_attribute(device, cudaDevAttrComputeCapabilityMajor) < 8 ||
        cudaGetDeviceProperties(&prop, device) != cudaSuccess)
        return false;
    g->index = device;
    (void)snprintf(g->name, sizeof(g->name), "%.90s", prop.name);
    g->major = prop.major;
    g->minor = prop.minor;
    g->sms = prop.multiProcessorCount;
    g->bytes = prop.totalGlobalMem;
    g->sm = g->major == 9 && !(sm && strcmp(sm, "80") == 0) ? 90 : 80;
    (void)pthread_mutex_init(&g->arena.lock, NULL);
    return true;
}

static void look_at_gpus(void)
{
    const char *claim = getenv("STOKER_CUDA_COUNT");
    int count = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess)
        count = 0;
    for (int i = 0; i < count && gpus.real < CU_GPUS_MAX; i++)
        gpus.real += look_at(i, &gpus.list[gpus.real]);
    gpus.count = gpus.real;
    if (claim && gpus.real && claim[0] >= '1' && claim[0] <= '9' && !claim[1])
        gpus.count = (size_t)(claim[0] - '0');
    (void)cudaGetLastError();
}

static size_t op_count(void)
{
    (void)pthread_once(&gpus.once, look_at_gpus);
    return gpus.count;
}

static int op_score(void)
{
    return op_count() ? 1000 : 0;
}

static const char *op_kind(void)
{
    return op_count() ? gpus.list[0].name : "cuda";
}

/* Of "cuda" or "cuda:1"; NULL: there is none. */
static struct gpu *gpu_of(const char *device)
{
    const char *colon = device ? strchr(device, ':') : NULL;
    char *end = NULL;
    unsigned long number = colon ? strtoul(colon + 1, &end, 10) : 0;

    if (number >= op_count() || (colon && (end == colon + 1 || *end)))
        return NULL;
    return &gpus.list[number % gpus.real];
}

/* ---- errors ---- */

/* An error that stays is told by the next call too. */
static bool error_stays(cudaError_t e)
{
    (void)cudaGetLastError();
    if (e == cudaErrorMemoryAllocation || e == cudaErrorInvalidValue)
        return false;
    return cudaDeviceSynchronize() != cudaSuccess;
}

bool cu_ok(struct cu_try *t, cudaError_t e, const char *call, const char *what)
{
    bool gone;
    size_t free_bytes = 0, total = 0;

    if (e == cudaSuccess || t->rc != RC_OK)
        return t->rc == RC_OK;
    gone = error_stays(e);
    if (gone)
        atomic_store(&t->gpu->lost, true);
    t->rc = e == cudaErrorMemoryAllocation ? RC_LIMIT : RC_NODEV;
    if (e == cudaErrorMemoryAllocation)
        (void)cudaMemGetInfo(&free_bytes, &total);
    if (total)
        (void)cu_host()->fail(t->err, t->rc, "GPU %d '%s': %s of %s: %s, %zu of %zu bytes are free",
                              t->gpu->index, t->gpu->name, call, what, cudaGetErrorString(e),
                              free_bytes, total);
    else
        (void)cu_host()->fail(t->err, t->rc, "GPU %d '%s': %s of %s: %s (%d)%s", t->gpu->index,
                              t->gpu->name, call, what, cudaGetErrorString(e), (int)e,
                              gone ? "; the GPU is lost to this process" : "");
    return false;
}

size_t cu_type_bytes(enum gk_type t)
{
    return t == GK_F32 ? 4 : t == GK_E4M3 ? 1 : 2;
}

/* ---- the engine ---- */
static void op_unload(struct eng *base)
{
    struct cuda_net *e = (struct cuda_net *)base;

    if (!e)
        return;
    if (e->gpu && !atomic_load(&e->gpu->lost)) {
        (void)cudaSetDevice(e->gpu->index);
        if (e->stream)
            (void)cudaStreamSynchronize(e->stream);
        if (e->down)
            (void)cudaStreamSynchronize(e->down);
    }
    net_release(e);
    free(e);
    (void)cudaGetLastError();
}

static enum rc open_gpu(struct cuda_net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };

    if (atomic_load(&e->gpu->lost))
        return cu_host()->fail(err, RC_NODEV, "GPU %d '%s' is lost to this process", e->gpu->index,
                               e->gpu->name);
    (void)(cu_ok(&t, cudaSetDevice(e->gpu->index), "cudaSetDevice", "a model") &&
           cu_ok(&t, cudaFree(NULL), "cudaFree", "nothing") &&
           cu_ok(&t, cudaStreamCreateWithFlags(&e->stream, cudaStreamNonBlocking),
                 "cudaStreamCreate", "a model") &&
           cu_ok(&t, cudaStreamCreateWithFlags(&e->up, cudaStreamNonBlocking), "cudaStreamCreate",
                 "a model") &&
           cu_ok(&t, cudaStreamCreateWithFlags(&e->down, cudaStreamNonBlocking), "cudaStreamCreate",
                 "a model") &&
           cu_ok(&t, cudaEventCreate(&e->began), "cudaEventCreate", "a model") &&
           cu_ok(&t, cudaEventCreate(&e->ended), "cudaEventCreate", "a model"));
    return t.rc;
}

static enum rc op_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                       struct err *err)
{
    const char *timed = getenv("STOKER_CUDA_TIMES");
    struct gpu *g = gpu_of(o->device);
    struct cuda_net *e;
    enum rc rc;

    if (!g)
        return cu_host()->fail(err, RC_NODEV, "there is no device '%s'",
                               o->device ? o->device : "cuda");
    e = cu_host()->alloc(1, sizeof(*e));
    e->gpu = g;
    e->timed = o->timed || (timed && timed[0] == '1');
    rc = net_choose(e, m, o, err);
    e->base.ops = &cu_ops;
    if (rc == RC_OK)
        rc = open_gpu(e, err);
    if (rc == RC_OK)
        net_products_begin(e);
    if (rc == RC_OK)
        rc = net_load(e, err);
    if (rc == RC_OK)
        rc = net_slots_open(e, err);
    if (rc == RC_OK)
        rc = net_room(e, cu_min(CU_ROOM_TOKENS, e->pass_tokens), CU_ROOM_TOKENS, err);
    if (rc == RC_OK && e->dtype == ENG_FP8)
        rc = net_to_fp8(e, err);
    if (rc == RC_OK)
        rc = net_products_open(e, err);
    if (rc == RC_OK)
        rc = profile_open(e, err);
    if (rc != RC_OK) {
        op_unload(&e->base);
        return rc;
    }
    *out = &e->base;
    return RC_OK;
}

/* Before every call that works on a model. */
static bool model_ready(struct cuda_net *e, struct cu_try *t)
{
    if (atomic_load(&e->gpu->lost))
        t->rc = cu_host()->fail(t->err, RC_NODEV, "GPU %d '%s' is lost to this process",
                                e->gpu->index, e->gpu->name);
    return t->rc == RC_OK && cu_ok(t, cudaSetDevice(e->gpu->index), "cudaSetDevice", "a model");
}

static enum rc op_run(struct eng *base, const struct eng_batch *b, enum eng_want want, float *out,
                      struct err *err)
{
    struct cuda_net *e = (struct cuda_net *)base;
    struct cu_try t = { e->gpu, err, RC_OK };

    assert(!e->away);
    return model_ready(e, &t) ? net_run(e, b, want, out, err) : t.rc;
}

static enum rc op_submit(struct eng *base, const struct eng_batch *b, enum eng_want want,
                         float *out, struct err *err)
{
    struct cuda_net *e = (struct cuda_net *)base;
    struct cu_try t = { e->gpu, err, RC_OK };

    assert(!e->away);
    return model_ready(e, &t) ? net_submit(e, b, want, out, err) : t.rc;
}

static enum rc op_collect(struct eng *base, bool *out_done, struct err *err)
{
    struct cuda_net *e = (struct cuda_net *)base;
    struct cu_try t = { e->gpu, err, RC_OK };

    *out_done = true;
    return model_ready(e, &t) ? net_collect(e, err) : t.rc;
}

static enum rc op_swap_out(struct eng *base, struct err *err)
{
    struct cuda_net *e = (struct cuda_net *)base;
    struct cu_try t = { e->gpu, err, RC_OK };

    return model_ready(e, &t) ? net_swap_out(e, err) : t.rc;
}

static enum rc op_swap_in(struct eng *base, struct err *err)
{
    struct cuda_net *e = (struct cuda_net *)base;
    struct cu_try t = { e->gpu, err, RC_OK };

    return model_ready(e, &t) ? net_swap_in(e, err) : t.rc;
}

static uint64_t op_memory(const struct model *m, const struct eng_opts *o)
{
    struct cuda_net e = { .gpu = gpu_of(o->device) };
    uint64_t bytes = 0;

    if (e.gpu && net_choose(&e, m, o, NULL) == RC_OK)
        bytes = net_bytes(&e, cu_min(CU_PASS_TOKENS, e.pass_tokens));
    free(e.layers);
    return bytes;
}

static void op_describe(const struct eng *base, char *out, size_t cap)
{
    static const char *const names[] = {
        [ENG_F16] = "f16", [ENG_BF16] = "bf16", [ENG_FP8] = "fp8"
    };
    const struct cuda_net *e = (const struct cuda_net *)base;
    size_t lt = net_products_count(e, CHOOSE_LT), split = net_products_count(e, CHOOSE_SPLIT90);
    char chosen[64] = "";

    if (lt + split > 0)
        (void)snprintf(chosen, sizeof(chosen), ", products: %zu split, %zu cuBLASLt", split, lt);
    (void)snprintf(out, cap, "%s, %s, sm_%d%s%s%s%s", e->gpu->name, names[e->dtype], e->gpu->sm,
                   e->invariant ? ", invariant" : "", chosen, e->kept[0] ? ", " : "", e->kept);
}

static bool op_choice(const struct eng *base, size_t i, char *out, size_t cap)
{
    return net_products_tell((const struct cuda_net *)base, i, out, cap);
}

static double op_device_ms(const struct eng *base)
{
    const struct cuda_net *e = (const struct cuda_net *)base;

    return e->timed && e->forward_ms > 0 ? e->forward_ms : NAN;
}

const struct eng_ops cu_ops = {
    .name = "cuda",
    .score = op_score,
    .load = op_load,
    .unload = op_unload,
    .run = op_run,
    .memory = op_memory,
    .describe = op_describe,
    .kind = op_kind,
    .count = op_count,
    .device_ms = op_device_ms,
    .submit = op_submit,
    .collect = op_collect,
    .swap_out = op_swap_out,
    .swap_in = op_swap_in,
    .choice = op_choice,
};

/* ---- what is exported ---- */
EXPORT int stoker_engine_abi(void)
{
    return STOKER_ENGINE_ABI;
}

EXPORT const struct eng_ops *stoker_engine(const struct eng_host *host)
{
    assert(host);
    the_host = host;
    return &cu_ops;
}

static const struct cuda_net *net_of(const struct eng *e)
{
    return e && e->ops == &cu_ops ? (const struct cuda_net *)e : NULL;
}

EXPORT bool stoker_cuda_memory(const struct eng *e, struct stoker_cuda_memory *out)
{
    const struct cuda_net *n = net_of(e);
    size_t free_bytes = 0, total = 0;
    struct cu_arena *a;

    if (!n || cudaSetDevice(n->gpu->index) || cudaMemGetInfo(&free_bytes, &total))
        return false;
    a = &n->gpu->arena;
    (void)pthread_mutex_lock(&a->lock);
    *out = (struct stoker_cuda_memory){ .reserved = a->reserved,
                                        .committed = a->committed,
                                        .used = a->used,
                                        .regions = a->regions,
                                        .gpu_free = free_bytes,
                                        .gpu_total = total };
    (void)pthread_mutex_unlock(&a->lock);
    return true;
}

EXPORT bool stoker_cuda_profile(const struct eng *e, double out[STOKER_CUDA_STEPS])
{
    const struct cuda_net *n = net_of(e);

    if (!n || !n->profile)
        return false;
    memcpy(out, n->profile->ms, sizeof(n->profile->ms));
    return true;
}

EXPORT bool stoker_cuda_graphs(const struct eng *e, uint64_t *kept, uint64_t *replayed)
{
    const struct cuda_net *n = net_of(e);

    if (!n)
        return false;
    *kept = n->graph_count;
    *replayed = n->graph_replays;
    return true;
}
