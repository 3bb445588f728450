/* SPDX-License-Identifier: MIT */
/* bench_engine: `stoker bench engine`: how fast does a model run on a device, without a server?
 *
 * Here: options, loading, the exit status.  Cases and clocks are bench/'s. */
#include "base/mem.h"
#include "base/str.h"
#include "bench/bench_forward.h"
#include "cmd/cmd_bench_int.h"
#include "engine/batch.h"
#include "os/clock.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

enum {
    ENGINE_SEED = 1,
    ENGINE_WARMUP = 2, /* passes behind the first, which may choose algorithms */
    ENGINE_THREADS_MAX = 4096
};
#define ENGINE_SECONDS     2.0
#define ENGINE_SECONDS_MAX 86400.0

struct engine_opts {
    struct opt_strs cases, saves, checks;
    const char *device, *dtype, *want, *seconds, *isa;
    int64_t threads, batch_tokens, passes, seed;
    bool no_warmup, invariant, swap, json;
};

static const char *const default_cases[] = { "1x32", "32x128", "128x512", "corpus" };

static enum eng_want want_of(const struct engine_opts *o, const struct model *m)
{
    if (o->want)
        return str_eq(o->want, "vectors")  ? ENG_VECTORS
               : str_eq(o->want, "scores") ? ENG_SCORES
                                           : ENG_TOKENS;
    return m->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;
}

static enum rc read_opts(const struct engine_opts *o, struct eng_opts *eo, struct forward_opts *fo,
                         struct err *err)
{
    *eo = (struct eng_opts){ .device = o->device,
                             .threads = (int)o->threads,
                             .isa = o->isa,
                             .invariant = o->invariant,
                             .timed = true };
    *fo = (struct forward_opts){
        .batch_tokens = (size_t)o->batch_tokens,
        .warmup = o->no_warmup ? 0 : ENGINE_WARMUP,
        .passes = (size_t)o->passes,
        .seconds = ENGINE_SECONDS,
        .seed = o->seed ? (uint64_t)o->seed : ENGINE_SEED,
    };
    if (o->dtype && !eng_dtype_parse(o->dtype, &eo->dtype))
        return err_set(err, RC_USAGE, "unknown type '%.64s'", o->dtype);
    if (o->seconds && (!str_to_f64(o->seconds, &fo->seconds) || !(fo->seconds > 0) ||
                       fo->seconds > ENGINE_SECONDS_MAX))
        return err_set(err, RC_USAGE, "option '--seconds' needs a time above 0, not '%s'",
                       o->seconds);
    if ((o->saves.count && o->saves.count != o->cases.count) ||
        (o->checks.count && o->checks.count != o->cases.count))
        return err_set(err, RC_USAGE, "--save and --check want one file for each --case");
    return RC_OK;
}

static enum rc load_engine(const char *name, const struct eng_opts *eo, struct model **m,
                           struct eng **e, struct forward_start *out, struct err *err)
{
    int64_t start = clock_mono_ns(), opened;
    char dir[PATH_MAX];
    enum rc rc = model_find(name, dir, sizeof(dir), err);

    if (!rc)
        rc = model_open(dir, m, err);
    if (rc)
        return rc;
    opened = clock_mono_ns();
    if (eng_load(*m, eo, e, err))
        return err->code;
    out->open_ms = (double)(opened - start) * 1e-6;
    out->load_ms = (double)(clock_mono_ns() - opened) * 1e-6;
    eng_ops_of(*e)->describe(*e, out->device, sizeof(out->device));
    return RC_OK;
}

/* Without --case: those of the usual ones that the model has positions for. */
static enum rc run_cases(const struct engine_opts *o, struct eng *e, struct forward_opts *fo,
                         struct forward_report *r, struct err *err)
{
    const char *const *names = o->cases.count ? o->cases.items : default_cases;
    size_t count = o->cases.count ? o->cases.count : ARRAY_SIZE(default_cases);
    bool small = !o->cases.count && eng_tokens_max(e->model) < 512;

    for (size_t i = 0; i < (small ? 1 : count); i++) {
        fo->save = o->saves.count ? o->saves.items[i] : NULL;
        fo->check = o->checks.count ? o->checks.items[i] : NULL;
        if (forward_run(e, names[i], fo, &r->cases[r->count], err))
            return err->code;
        r->count++;
    }
    return RC_OK;
}

static enum rc run_engine(struct cmd_ctx *ctx, struct err *err)
{
    const struct engine_opts *o = ctx->opts;
    struct forward_report *r = xcalloc(1, sizeof(*r));
    struct model *m = NULL;
    struct eng *e = NULL;
    struct eng_opts eo;
    struct forward_opts fo;
    enum rc rc = read_opts(o, &eo, &fo, err);

    if (rc == RC_OK)
        rc = load_engine(ctx->argv[0], &eo, &m, &e, &r->start, err);
    if (rc == RC_OK) {
        fo.want = want_of(o, m);
        rc = o->swap ? forward_swap(e, &r->swap, err) : RC_OK;
    }
    if (rc == RC_OK) {
        rc = run_cases(o, e, &fo, r, err);
    }
    if (rc == RC_OK) {
        r->model = m;
        r->e = e;
        r->dtype = o->dtype ? o->dtype : "auto";
        if (o->json)
            forward_json(r, &ctx->out);
        else
            forward_text(r, &ctx->out_term, &ctx->out);
    }
    for (size_t i = 0; i < r->count; i++)
        forward_figures_release(&r->cases[i]);
    eng_free(e);
    model_close(m);
    free(r);
    return rc;
}

/* ---- the command ---- */

#define OPT_STRUCT struct engine_opts
static const struct opt engine_opts[] = {
    OPT(0, "device", STR, device, "NAME",
        "run there (cpu, ref, cuda:0) instead of the best device"),
    OPT(0, "dtype", STR, dtype, "TYPE",
        "type of weights and products: auto (default), f32, bf16 …"),
    OPT('c', "case", STRS, cases, "CASE",
        "texts: TEXTSxTOKENS, corpus, or @FILE with a length a line; may be repeated (default: "
        "1x32, 32x128, 128x512 and corpus)"),
    OPT_CHOICE(0, "want", STR, want, "WHAT", "vectors|scores|tokens",
               "vectors, scores or a vector for every token (default: what the model is for)"),
    OPT_NUMBER(0, "batch-tokens", batch_tokens, 1, BATCH_TOKENS_MAX,
               "tokens a batch; 1: every text alone (default: 32768, TEXTSxTOKENS in one)"),
    OPT(0, "invariant", FLAG, invariant, NULL, "the same bits whatever shares a batch"),
    OPT(0, "swap", FLAG, swap, NULL,
        "before it, move the weights to host memory and back, and take the time"),
    OPT_NUMBER(0, "threads", threads, 1, ENGINE_THREADS_MAX, "threads of the CPU (default: all)"),
    OPT(0, "isa", STR, isa, "NAME", "instruction set of the CPU (default: the best)"),
    OPT(0, "seconds", STR, seconds, "S", "measure each case for so long (default 2)"),
    OPT_NUMBER(0, "passes", passes, 1, FORWARD_PASSES_MAX, "measure each case so often instead"),
    OPT(0, "no-warmup", FLAG, no_warmup, NULL, "begin to count behind the first pass"),
    OPT_NUMBER(0, "seed", seed, 1, INT64_MAX, "of tokens and of the corpus' lengths (default 1)"),
    OPT(0, "save", STRS, saves, "FILE",
        "write what comes out as .npy, a row a text; a file a case"),
    OPT(0, "check", STRS, checks, "FILE",
        "compare it with such a file, from another device or type; a file a case"),
    OPT('j', "json", FLAG, json, NULL, "print JSON instead of text"),
    { 0 },
};
static const struct cmd_example engine_examples[] = {
    { "stoker bench engine all-MiniLM-L6-v2", "the usual cases on the best device" },
    { "stoker bench engine DIR --device cuda --dtype f16 -c 1x32 -c 128x512",
      "one short text, and a large batch" },
    { "stoker bench engine DIR --device cpu --dtype f32 -c 8x100 --save v.npy",
      "vectors to compare with" },
    { "stoker bench engine DIR --device cuda --dtype fp8 -c 8x100 --check v.npy",
      "how far another type is from them" },
    { 0 },
};
const struct cmd cmd_bench_engine = {
    .name = "engine",
    .summary = "measure a model on a device, without a server",
    .operands = "MODEL",
    .args_min = 1,
    .args_max = 1,
    .opts = engine_opts,
    .opts_size = sizeof(struct engine_opts),
    .about =
        "Runs random tokens through a model and prints milliseconds, tokens a second and TFLOP/s. "
        "MODEL is a folder, or the name of an installed model; its tokenizer is not needed.\n\n"
        "A pass runs every text of a case once, sorted by length and packed into batches without "
        "padding. Its time is the median of the passes, from tokens in this program's memory to "
        "vectors in it, the next batch on its way while one runs where the device has that; a "
        "device that has a clock of its own gives a second time, without the way there and back, "
        "and rates are by that one. Operations are those of the linear layers and "
        "of attention.\n\n"
        "The tokens of a text depend on --seed and its place in the case alone: with --save and "
        "--check the vectors of two devices, types or ways to batch are compared, as the least "
        "cosine of two rows and the largest difference of two numbers.",
    .examples = engine_examples,
    .run = run_engine,
};
