/* SPDX-License-Identifier: MIT */
/* stoker spec: check, show, example, doc. */
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/cmd_int.h"
#include "render/render.h"
#include "spec/spec.h"

enum { SPEC_FILES_MAX = 1000 }; /* files of one `spec check` */

extern const struct cmd cmd_spec;

struct spec_opts {
    bool json, all, markdown, strict;
};

/* --- check --- */
struct check_sum {
    size_t errors, warnings, bad_files;
};

static void check_print_clean(struct cmd_ctx *ctx, const char *file, const struct spec *s)
{
    int64_t machines = 0, gpus = 0;

    for (size_t i = 0; i < s->node_count; i++) {
        machines += s->nodes[i].count;
        gpus += s->nodes[i].count * s->nodes[i].gpus_per_node;
    }
    term_text(&ctx->out_term, &ctx->out, COLOUR_GREEN, "ok");
    buf_addf(&ctx->out, "  %s: %lld machine%s, %lld GPU%s, %zu component%s, %zu model%s\n", file,
             (long long)machines, machines == 1 ? "" : "s", (long long)gpus, gpus == 1 ? "" : "s",
             s->component_count, s->component_count == 1 ? "" : "s", s->model_count,
             s->model_count == 1 ? "" : "s");
}

void cmd_diags_tell(struct cmd_ctx *ctx, const struct spec_diags *d, bool errors, bool warnings)
{
    struct buf text = { 0 };

    if (errors)
        spec_diags_print(d, &ctx->err_term, &text);
    if (warnings)
        spec_warnings_print(d, &ctx->err_term, &text);
    fwrite(buf_str(&text), 1, text.len, stderr);
    buf_release(&text);
}

/* Everything that the spec is written out for, only in memory: what `stoker render all` would
 * refuse or warn of is then told here, and one judgement serves both. */
static enum rc check_render(struct spec *s, bool whole, struct spec_diags *diags, void *ctx,
                            struct err *err)
{
    const struct render_target *targets[RENDER_TARGETS_MAX];
    struct render_set set = { 0 };
    size_t n = 0;
    enum rc rc;

    (void)whole, (void)ctx;
    for (size_t i = 0; i < render_target_count() && n < ARRAY_SIZE(targets); i++)
        if (render_target_at(i)->in_spec(s))
            targets[n++] = render_target_at(i);
    rc = render_run(&(struct render_input){ .spec = s, .targets = targets, .target_count = n },
                    &set, diags, err);
    render_set_release(&set);
    spec_diags_sort(diags);
    return rc;
}

static void check_json(struct json_out *w, const char *path, bool ok,
                       const struct spec_diags *diags)
{
    json_obj(w);
    json_kv_str(w, "file", path);
    json_kv_bool(w, "ok", ok);
    json_key(w, "errors");
    spec_diags_json(diags, w);
    json_kv_int(w, "more", (int64_t)diags->dropped);
    json_key(w, "warnings");
    spec_warnings_json(diags, w);
    json_kv_int(w, "more_warnings", (int64_t)diags->warning_dropped);
    json_obj_end(w);
}

/* A file that could not be read: an error without a place. */
static void check_json_unread(struct json_out *w, const char *path, const struct err *why)
{
    json_obj(w);
    json_kv_str(w, "file", path);
    json_kv_bool(w, "ok", false);
    json_kv_arr(w, "errors");
    json_obj(w);
    json_kv_str(w, "file", path);
    json_kv_maybe(w, "line", maybe_none());
    json_kv_maybe(w, "column", maybe_none());
    json_kv_str(w, "message", why->msg);
    json_kv_str(w, "hint", *why->hint ? why->hint : NULL);
    json_obj_end(w);
    json_arr_end(w);
    json_kv_int(w, "more", 0);
    json_kv_arr(w, "warnings");
    json_arr_end(w);
    json_kv_int(w, "more_warnings", 0);
    json_obj_end(w);
}

static void json_open(struct json_out *w, struct cmd_ctx *ctx)
{
    json_out_init(w, &ctx->out, 2);
    json_obj(w);
    json_kv_str(w, "schema", "stoker.spec-check/1");
    json_kv_arr(w, "files");
}

static void json_close(struct json_out *w, struct cmd_ctx *ctx)
{
    json_arr_end(w);
    json_obj_end(w);
    buf_addc(&ctx->out, '\n');
}

enum rc cmd_spec_read(struct cmd_ctx *ctx, const char *path, bool json, struct spec **out,
                      struct err *err)
{
    struct spec_diags diags = { 0 };
    struct json_out w;
    enum rc rc = spec_load(path, out, &diags, err);

    if (rc && json) {
        json_open(&w, ctx);
        if (diags.count)
            check_json(&w, path, false, &diags);
        else
            check_json_unread(&w, path, err);
        json_close(&w, ctx);
        *err = (struct err){ 0 };
    } else if (rc && diags.count) {
        cmd_diags_tell(ctx, &diags, true, true);
        *err = (struct err){ 0 };
        err_set(err, rc, "'%s' has errors", path);
    }
    spec_diags_release(&diags);
    return rc;
}

enum rc cmd_spec_load(struct cmd_ctx *ctx, const char *path, struct spec **out, struct err *err)
{
    struct spec_diags diags = { 0 };
    enum rc rc = spec_load(path, out, &diags, err);

    if (rc && diags.count) {
        cmd_diags_tell(ctx, &diags, true, false);
        *err = (struct err){ 0 }; /* its first message has been told with the others */
        err_set(err, rc, "could not read '%s'", path);
    }
    spec_diags_release(&diags);
    return rc;
}

/* One file.  An error of the file is counted; one of reading it is the caller's to tell. */
static enum rc check_one(struct cmd_ctx *ctx, const char *path, struct json_out *w,
                         struct check_sum *sum, struct err *err)
{
    struct spec_diags diags = { 0 };
    struct spec *s = NULL;
    const struct spec_opts *o = ctx->opts;
    size_t warnings;
    bool bad;
    enum rc rc =
        spec_load_judged(path, &(struct spec_judge){ .fn = check_render }, &s, &diags, err);

    if (rc && !diags.count) {
        spec_diags_release(&diags);
        spec_free(s);
        return rc;
    }
    warnings = diags.warning_count + diags.warning_dropped;
    bad = rc != RC_OK || (o->strict && warnings);
    if (w) {
        check_json(w, path, !bad, &diags);
    } else {
        cmd_diags_tell(ctx, &diags, true, true);
        if (!bad)
            check_print_clean(ctx, path, s);
    }
    sum->errors += diags.count + diags.dropped;
    sum->warnings += warnings;
    sum->bad_files += bad;
    spec_diags_release(&diags);
    spec_free(s);
    return RC_OK;
}

static enum rc run_check(struct cmd_ctx *ctx, struct err *err)
{
    const struct spec_opts *o = ctx->opts;
    struct check_sum sum = { 0 };
    struct json_out w;
    enum rc rc = RC_OK;

    if (o->json)
        json_open(&w, ctx);
    for (int i = 0; i < ctx->argc; i++) {
        struct err one = { 0 };
        enum rc got = check_one(ctx, ctx->argv[i], o->json ? &w : NULL, &sum, &one);

        if (!got)
            continue;
        if (o->json)
            check_json_unread(&w, ctx->argv[i], &one);
        else if (rc) /* the first one is told at the end */
            fprintf(stderr, "stoker: %s\n", one.msg);
        else
            *err = one;
        rc = rc ? rc : got;
    }
    if (o->json)
        json_close(&w, ctx);
    if (rc && o->json)
        *err = (struct err){ 0 }; /* told in the document */
    if (rc || !sum.bad_files)
        return rc;
    if (o->json)
        return RC_PARSE; /* told in the document */
    if (!sum.errors)
        return err_set(err, RC_PARSE, "%zu warning%s, and --strict is set", sum.warnings,
                       sum.warnings == 1 ? "" : "s");
    if (ctx->argc == 1)
        return err_set(err, RC_PARSE, "%zu error%s in '%s'", sum.errors, sum.errors == 1 ? "" : "s",
                       ctx->argv[0]);
    return err_set(err, RC_PARSE, "%zu error%s in %zu of %d files", sum.errors,
                   sum.errors == 1 ? "" : "s", sum.bad_files, ctx->argc);
}

#define OPT_STRUCT struct spec_opts
static const struct opt check_opts[] = {
    OPT(0, "json", FLAG, json, NULL, "print the result as JSON"),
    OPT(0, "strict", FLAG, strict, NULL, "a warning counts as an error"),
    { 0 },
};
static const struct cmd_example check_examples[] = {
    { "stoker spec check stoker.yaml", "report the errors, each with its line and column" },
    { "stoker spec example kb-a100 | stoker spec check -", "check what comes from a pipe" },
    { 0 },
};
static const struct cmd cmd_check = {
    .name = "check",
    .summary = "report the errors of a spec",
    .operands = "FILE...",
    .args_min = 1,
    .args_max = SPEC_FILES_MAX,
    .opts = check_opts,
    .opts_size = sizeof(struct spec_opts),
    .about =
        "Reads each FILE ('-' is standard input) and reports what is wrong in it, up to 20 "
        "errors a file: the line and column, the line itself with a caret below the place, "
        "and what was probably meant. Beyond the single values it checks that names exist, "
        "that components fit on their nodes and pools on their GPUs, that ports are used "
        "once and that thresholds, budgets and limits make sense together. Then everything "
        "that the spec names in 'targets' is rendered in memory, so that a file that is clean "
        "here is one that 'stoker render all' takes.\n\n"
        "What is faulty is left out, with all that refers to it, and the rest is judged further: "
        "an error hides at most those of the same object and of its dependants, and what is "
        "sound is rendered and placed all the same, unless a whole section is left out.\n\n"
        "A warning tells what is taken but cannot be followed to the letter somewhere; with "
        "--strict it counts as an error.\n\n"
        "Exits with 0 when every file is clean, 1 when one is not and 3 when there is no such "
        "file.",
    .examples = check_examples,
    .run = run_check,
};

/* --- show --- */
static enum rc run_show(struct cmd_ctx *ctx, struct err *err)
{
    const struct spec_opts *o = ctx->opts;
    struct spec *s = NULL;
    enum rc rc = RC_OK;

    if (ctx->argc)
        rc = cmd_spec_read(ctx, ctx->argv[0], o->json, &s, err);
    else
        s = spec_default();
    if (rc == RC_OK) {
        if (o->json)
            spec_show_json(s, &ctx->out);
        else
            spec_show(s, &ctx->out_term, SPEC_SHOW_LINES | (o->all ? SPEC_SHOW_ALL : 0), &ctx->out);
    }
    spec_free(s);
    return rc;
}

static const struct opt show_opts[] = {
    OPT(0, "json", FLAG, json, NULL, "print values and origins as JSON"),
    OPT('a', "all", FLAG, all, NULL, "list keys that are not set too"),
    { 0 },
};
static const struct cmd_example show_examples[] = {
    { "stoker spec show stoker.yaml", "everything filled in, and where it came from" },
    { "stoker spec show", "the defaults that hold without a file" },
    { 0 },
};
static const struct cmd cmd_show = {
    .name = "show",
    .summary = "print a spec with everything filled in",
    .operands = "[FILE]",
    .args_max = 1,
    .opts = show_opts,
    .opts_size = sizeof(struct spec_opts),
    .about = "Prints all values of FILE ('-' is standard input); behind each stands the line it is "
             "from, or 'default'. Without a FILE it prints what holds without one. The output is "
             "the same spec again: defaults stand behind a '#', since a key that is left open can "
             "mean more than its default.\n\n"
             "With --json, numbers are in bytes, bits a second, milliseconds and watts; 'origins' "
             "has the place of each value that the file gives, the others are defaults.",
    .examples = show_examples,
    .run = run_show,
};

/* --- example --- */
static enum rc example_unknown(const char *name, struct err *err)
{
    const char *names[16], *near;
    size_t n = 0;

    for (; n < spec_example_count() && n < ARRAY_SIZE(names); n++)
        names[n] = spec_example_at(n).name;
    near = str_nearest(name, names, n);
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "Run 'stoker spec example' for the list.");
    return err_set(err, RC_USAGE, "there is no example '%s'", name);
}

static void examples_json(struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.spec-examples/1");
    json_kv_arr(&w, "examples");
    for (size_t i = 0; i < spec_example_count(); i++) {
        json_obj(&w);
        json_kv_str(&w, "name", spec_example_at(i).name);
        json_kv_str(&w, "what", spec_example_at(i).what);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_doc_end(&w);
}

static enum rc run_example(struct cmd_ctx *ctx, struct err *err)
{
    const struct spec_opts *o = ctx->opts;
    struct spec_example e;
    struct table *t;

    if (ctx->argc) {
        if (!spec_example_find(ctx->argv[0], &e))
            return example_unknown(ctx->argv[0], err);
        buf_add(&ctx->out, e.text, e.len);
        return RC_OK;
    }
    if (o->json) {
        examples_json(&ctx->out);
        return RC_OK;
    }
    t = table_new();
    table_col(t, NULL, TABLE_LEFT);
    table_col(t, NULL, TABLE_LEFT);
    for (size_t i = 0; i < spec_example_count(); i++) {
        e = spec_example_at(i);
        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s", e.name);
        table_cell(t, COLOUR_NONE, "%s", e.what);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    return RC_OK;
}

static const struct opt example_opts[] = {
    OPT(0, "json", FLAG, json, NULL, "print the list as JSON"),
    { 0 },
};
static const struct cmd_example example_examples[] = {
    { "stoker spec example", "list the examples" },
    { "stoker spec example llm-cluster >stoker.yaml", "start a spec from one" },
    { 0 },
};
static const struct cmd cmd_example = {
    .name = "example",
    .summary = "print a complete spec to start from",
    .operands = "[NAME]",
    .args_max = 1,
    .opts = example_opts,
    .opts_size = sizeof(struct spec_opts),
    .about = "Without a NAME, lists the examples.",
    .examples = example_examples,
    .arg_choices = "ai-platform-h200|driving-h200|kb-a100|llm-cluster|rdma-openshift",
    .run = run_example,
};

/* --- doc --- */
static enum rc run_doc(struct cmd_ctx *ctx, struct err *err)
{
    const struct spec_opts *o = ctx->opts;

    if (o->json && o->markdown)
        return err_set(err, RC_USAGE,
                       "options '--json' and '--markdown' are two different outputs");
    if (o->json)
        return spec_doc_json(ctx->argc ? ctx->argv[0] : NULL, &ctx->out, err);
    if (!o->markdown)
        return spec_doc(ctx->argc ? ctx->argv[0] : NULL, &ctx->out_term, &ctx->out, err);
    if (ctx->argc)
        return err_set(err, RC_USAGE, "option '--markdown' is for the whole reference");
    spec_doc_markdown(&ctx->out);
    return RC_OK;
}

static const struct opt doc_opts[] = {
    OPT(0, "json", FLAG, json, NULL, "print the keys as JSON"),
    OPT(0, "markdown", FLAG, markdown, NULL, "print docs/reference/spec.md"),
    { 0 },
};
static const struct cmd_example doc_examples[] = {
    { "stoker spec doc nodes.gpu", "every key of a node's GPUs" },
    { "stoker spec doc components.scale.max", "one key" },
    { 0 },
};
static const struct cmd cmd_doc = {
    .name = "doc",
    .summary = "explain the keys of a spec",
    .operands = "[PATH]",
    .args_max = 1,
    .opts = doc_opts,
    .opts_size = sizeof(struct spec_opts),
    .about = "Prints the reference of the key PATH and of the keys below it, or of all.",
    .examples = doc_examples,
    .run = run_doc,
};

static const struct cmd *const subs[] = { &cmd_check, &cmd_doc, &cmd_example, &cmd_show, NULL };
const struct cmd cmd_spec = {
    .name = "spec",
    .summary = "check, show and explain stoker.yaml, the description of a site",
    .operands = "",
    .about = "One file, stoker.yaml, describes a site: its machines, networks and storage, what "
             "runs on them, what is watched and what it costs. Every other command reads it.",
    .subs = subs,
};
