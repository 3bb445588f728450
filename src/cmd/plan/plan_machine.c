/* SPDX-License-Identifier: MIT */
/* stoker plan machine: the training configuration that a machine calls for, each setting with its
 * reason.  For vision, driving and other models that are known by what was measured of them. */
#include "cmd/plan/plan_request_int.h"

#include "base/str.h"
#include "base/text/units.h"
#include "os/file.h"

#include <math.h>

enum { DETECT_MAX = 16 << 20 };

struct machine_opts {
    const char *gpu, *machine, *params, *gflop, *act, *bytes, *cpu_ms, *efficiency, *samples;
    int64_t gpus, cores, batch, epochs;
    bool json;
};

/* GPUs and cores from `stoker detect --json`. */
static enum rc from_detect(const char *path, struct plan_machine_want *w, struct err *err)
{
    struct buf text = { 0 };
    struct plan_cluster cl;
    struct arena a = { 0 };
    struct json *doc = NULL;
    enum rc rc = file_read(path, DETECT_MAX, &text, err);

    if (rc == RC_OK && (plan_cluster_from_detect(buf_str(&text), text.len, 0, &cl, err) ||
                        json_parse(&a, buf_str(&text), text.len, &doc, err)))
        rc = err_ctx(err, "machine '%s'", path);
    if (rc == RC_OK) {
        w->gpu = cl.gpu;
        w->gpus = cl.gpus;
        w->cores = maybe_or(json_int(json_get(json_get(doc, "cpu"), "cores")), 0);
    }
    buf_release(&text);
    arena_release(&a);
    return rc;
}

static enum rc read_bytes(const char *option, const char *text, double *out, struct err *err)
{
    uint64_t bytes;

    if (units_bytes_parse(text, &bytes, err))
        return err_ctx(err, "option '%s'", option);
    *out = (double)bytes;
    return RC_OK;
}

static enum rc read_number(const char *option, const char *text, double *out, struct err *err)
{
    if (str_to_f64(text, out) && *out > 0 && *out < 1e12)
        return RC_OK;
    err_hint(err, "Give a number above 0.");
    return err_set(err, RC_USAGE, "option '%s' cannot be '%s'", option, text);
}

static enum rc read_machine(const struct machine_opts *o, struct plan_machine_want *w,
                            struct err *err)
{
    double gflop = 0, ms = 0;

    if (o->machine && o->gpu) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "'--gpu' and '--machine' both say which GPU it is");
    }
    if (o->machine ? from_detect(o->machine, w, err)
                   : plan_gpu_by_name(o->gpu ? o->gpu : "h200", &w->gpu, err))
        return err->code;
    w->gpus = o->gpus ? o->gpus : w->gpus ? w->gpus : 8;
    w->node_gpus = w->gpus;
    w->cores = o->cores ? o->cores : w->cores;
    w->batch = o->batch;
    w->epochs = (double)o->epochs;
    if ((o->params && option_count("--params", o->params, 1, 1e13, &w->params, err)) ||
        (o->gflop && read_number("--gflop-sample", o->gflop, &gflop, err)) ||
        (o->act && read_bytes("--act-sample", o->act, &w->act_bytes, err)) ||
        (o->bytes && read_bytes("--bytes-sample", o->bytes, &w->sample_bytes, err)) ||
        (o->cpu_ms && read_number("--cpu-ms", o->cpu_ms, &ms, err)) ||
        (o->efficiency && option_share("--efficiency", o->efficiency, &w->efficiency, err)) ||
        (o->samples && option_count("--samples", o->samples, 1, 1e15, &w->samples, err)))
        return err->code;
    w->flops_sample = gflop * 1e9;
    w->cpu_s = ms / 1e3;
    return RC_OK;
}

/* ---- text ---- */
static void machine_text(struct cmd_ctx *ctx, const struct plan_machine_want *w,
                         const struct plan_machine *m)
{
    struct table *t = table_new();

    buf_addf(&ctx->out, "%lld x %s", (long long)w->gpus, w->gpu.name);
    if (w->cores)
        buf_addf(&ctx->out, ", %lld cores", (long long)w->cores);
    if (w->params > 0)
        buf_addf(&ctx->out, "; a model of %s parameters", TEXT_SHORT(w->params));
    buf_adds(&ctx->out, "\n\n");
    table_col(t, "setting", TABLE_LEFT);
    table_col(t, "value", TABLE_LEFT | TABLE_WHOLE);
    table_col(t, "why", TABLE_LEFT | TABLE_WRAP);
    for (int i = 0; i < PLAN_SETTINGS; i++) {
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", plan_setting_names[i]);
        table_cell(t, COLOUR_BOLD, "%s", m->value[i]);
        table_cell(t, COLOUR_DIM, "%s", m->why[i]);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    if (m->samples_s > 0)
        print_note(ctx, "\n%s samples/s %s: %s a step%s%s. %s", TEXT_SHORT(m->samples_s),
                   w->efficiency > 0 ? "at the efficiency given" : "at most", TEXT_TIME(m->step_s),
                   m->hours > 0 ? ", the run takes " : "",
                   m->hours > 0 ? TEXT_TIME(m->hours * PLAN_HOUR_S) : "",
                   w->efficiency > 0 ? ""
                                     : "That is the rate of large matrix products; convolutions, "
                                       "small images and the loader reach less: measure a step "
                                       "and give --efficiency.");
    buf_adds(&ctx->out, "\nDataLoader(dataset, ");
    buf_addf(
        &ctx->out,
        "batch_size=%lld, num_workers=%lld, pin_memory=True, prefetch_factor=%lld,\n"
        "           persistent_workers=True, drop_last=True, sampler=DistributedSampler(dataset)"
        ")\n",
        (long long)m->batch_gpu, (long long)m->workers, (long long)m->prefetch);
    buf_addf(&ctx->out, "torchrun --standalone --nproc-per-node=%lld train.py\n",
             (long long)w->gpus);
}

static const struct field machine_fields[] = {
    FIELD_OF("memory_bytes", struct plan_machine, memory_bytes, "of a GPU", .above_0 = true),
    FIELD_OF("samples_s", struct plan_machine, samples_s, "samples a second", .above_0 = true),
    FIELD_OF("hours", struct plan_machine, hours, "of the run", .above_0 = true),
};
static FIELD_TABLE(machine_table, "machine", struct plan_machine, machine_fields);

static void machine_json(struct cmd_ctx *ctx, const struct plan_machine_want *w,
                         const struct plan_machine *m)
{
    static const char *const keys[PLAN_SETTINGS] = { "batch_gpu",          "batch",
                                                     "precision",          "loader_workers_gpu",
                                                     "prefetch_factor",    "pin_memory",
                                                     "persistent_workers", "drop_last",
                                                     "parallelism",        "batch_norm" };
    struct json_out o;

    json_doc(&o, &ctx->out, "stoker.plan-machine/1");
    json_kv_str(&o, "gpu", w->gpu.name);
    json_kv_int(&o, "gpus", w->gpus);
    json_kv_maybe(&o, "cores", w->cores ? maybe_of(w->cores) : maybe_none());
    json_kv_obj(&o, "settings");
    for (int i = 0; i < PLAN_SETTINGS; i++) {
        json_kv_obj(&o, keys[i]);
        json_key(&o, "value");
        if (i == PLAN_SET_BATCH_GPU || i == PLAN_SET_BATCH || i == PLAN_SET_WORKERS ||
            i == PLAN_SET_PREFETCH)
            json_add_int(&o, i == PLAN_SET_BATCH_GPU ? m->batch_gpu
                             : i == PLAN_SET_BATCH   ? m->batch
                             : i == PLAN_SET_WORKERS ? m->workers
                                                     : m->prefetch);
        else if (str_eq(m->value[i], "on"))
            json_add_bool(&o, true);
        else
            json_add_str(&o, m->value[i]);
        json_kv_str(&o, "why", m->why[i]);
        json_obj_end(&o);
    }
    json_obj_end(&o);
    fields_write_members(&o, &machine_table, m);
    json_doc_end(&o);
}

enum rc machine_answer(struct cmd_ctx *ctx, const struct plan_machine_want *w, bool json,
                       struct err *err)
{
    struct plan_machine m;

    if (plan_machine_of(w, &m, err))
        return err->code;
    (json ? machine_json : machine_text)(ctx, w, &m);
    return RC_OK;
}

static enum rc run_machine(struct cmd_ctx *ctx, struct err *err)
{
    const struct machine_opts *o = ctx->opts;
    struct plan_machine_want w = { 0 };

    if (read_machine(o, &w, err))
        return err->code;
    return machine_answer(ctx, &w, o->json, err);
}

#define S machine_opts
static const struct opt machine_opts[] = {
    ROW_OPT(S, 'g', "gpu", STR, gpu, "GPU", "kind of GPU (default h200)"),
    ROW_NUM(S, "gpus", gpus, 1, 4096, "GPUs (default 8)"),
    ROW_NUM(S, "cores", cores, 1, 1 << 20, "CPU cores of the machine"),
    ROW_OPT(S, 0, "machine", STR, machine, "FILE", "all three from 'stoker detect --json'"),
    ROW_OPT(S, 0, "params", STR, params, "COUNT", "parameters of the model, as 69M"),
    ROW_OPT(S, 0, "gflop-sample", STR, gflop, "NUMBER",
            "GFLOP of a sample, forward and backward (three times the forward pass)"),
    ROW_OPT(S, 0, "act-sample", STR, act, "BYTES", "activations of a sample, as 900MiB"),
    ROW_OPT(S, 0, "bytes-sample", STR, bytes, "BYTES", "a decoded sample, as 12MB"),
    ROW_OPT(S, 0, "cpu-ms", STR, cpu_ms, "NUMBER", "milliseconds of a core to load a sample"),
    ROW_OPT(S, 0, "efficiency", STR, efficiency, "PERCENT", "of the data sheet's rate, measured"),
    ROW_NUM(S, "batch", batch, 1, PLAN_BATCH_MAX, "samples a GPU (default: chosen)"),
    ROW_OPT(S, 0, "samples", STR, samples, "COUNT", "in the training data"),
    ROW_NUM(S, "epochs", epochs, 1, 1000000, "over them"),
    ROW_OPT(S, 'j', "json", FLAG, json, NULL, "print JSON instead of text"),
    { 0 },
};
#undef S
static const struct cmd_example machine_examples[] = {
    { "stoker plan machine --gpu h200 --gpus 8 --cores 128", "a configuration for 8 H200" },
    { "stoker plan machine --gpu h200 --gpus 8 --cores 128 --params 69M --gflop-sample 3900 "
      "--act-sample 26GiB",
      "for a model that was measured" },
    { 0 },
};
const struct cmd cmd_plan_machine = {
    .name = "machine",
    .summary = "derive a training configuration from a machine",
    .operands = "",
    .opts = machine_opts,
    .opts_size = sizeof(struct machine_opts),
    .about = "Batch, precision, data loader and parallelism for a vision, driving or other model "
             "on one machine, each with the figure or the publication it rests on. What was "
             "measured of the model (parameters, FLOPs, bytes of activations, milliseconds to "
             "load a sample) sharpens the answer; without it the published reference is taken.",
    .examples = machine_examples,
    .run = run_machine,
};
