/* SPDX-License-Identifier: MIT */
/* stoker render: one spec into the files of the systems it runs on. */
#include "base/codec/sha256.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/cmd_int.h"
#include "cmd/detect/machine_int.h"
#include "hw/hw.h"
#include "render/render.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

extern const struct cmd cmd_render;

struct render_opts {
    const char *file, *out, *diff;
    struct opt_strs inventory;
    bool check, list, force, json, strict, where;
};

struct chosen {
    const struct render_target *items[RENDER_TARGETS_MAX];
    size_t count;
    bool all; /* `all` was among the operands */
};

struct render_work { /* of one run of the command; work_release() takes it in any state */
    struct cmd_ctx *ctx;
    const struct render_opts *opts;
    const char *file; /* the spec's, as it is given */
    struct spec *spec;
    struct machine_paths paths;
    struct hw **inventories; /* one for each path */
    struct render_machine *machines;
    struct spec_diags diags;
    struct chosen chosen;
    struct render_set set;
    struct render_changes changes;
    struct render_recovery recovered;
};

static void work_release(struct render_work *w)
{
    render_recovery_release(&w->recovered);
    render_changes_release(&w->changes);
    render_set_release(&w->set);
    spec_diags_release(&w->diags);
    for (size_t i = 0; w->inventories && i < w->paths.count; i++)
        hw_free(w->inventories[i]);
    free(w->inventories);
    free(w->machines);
    machine_paths_release(&w->paths);
    spec_free(w->spec);
}

/* ---- targets ---- */

static void chosen_add(struct chosen *c, const struct render_target *t)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i] == t)
            return;
    if (c->count < RENDER_TARGETS_MAX)
        c->items[c->count++] = t;
}

static enum rc unknown_target(const char *name, struct err *err)
{
    const char *names[RENDER_TARGETS_MAX] = { "all" }, *near;
    size_t n = 1;

    for (size_t i = 0; i < render_target_count() && n < RENDER_TARGETS_MAX; i++)
        names[n++] = render_target_at(i)->name;
    near = str_nearest(name, names, n);
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "Run 'stoker render --list' for the list of targets.");
    return err_set(err, RC_USAGE, "there is no target '%s'", name);
}

/* Before the spec is read: a word that is no target is wrong whatever the spec says. */
static enum rc names_known(const struct cmd_ctx *ctx, struct err *err)
{
    for (int i = 0; i < ctx->argc; i++)
        if (!str_eq(ctx->argv[i], "all") && !render_target_find(ctx->argv[i]))
            return unknown_target(ctx->argv[i], err);
    return RC_OK;
}

static void choose_targets(const struct cmd_ctx *ctx, const struct spec *s, struct chosen *out)
{
    for (int i = 0; i < ctx->argc; i++) {
        const struct render_target *t = render_target_find(ctx->argv[i]);

        if (t) {
            chosen_add(out, t);
            continue;
        }
        out->all = true;
        for (size_t k = 0; k < render_target_count(); k++)
            if (render_target_at(k)->in_spec(s))
                chosen_add(out, render_target_at(k));
    }
}

static enum rc run_list(struct cmd_ctx *ctx, bool json)
{
    struct table *t = table_new();
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    if (json) {
        json_obj(&w);
        json_kv_str(&w, "schema", "stoker.render-targets/1");
        json_kv_arr(&w, "targets");
    }
    table_col(t, NULL, TABLE_LEFT);
    table_col(t, NULL, TABLE_LEFT);
    for (size_t i = 0; i < render_target_count(); i++) {
        const struct render_target *r = render_target_at(i);

        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s", r->name);
        table_cell(t, COLOUR_NONE, "%s", r->what);
        if (json) {
            json_obj(&w);
            json_kv_str(&w, "name", r->name);
            json_kv_str(&w, "what", r->what);
            json_obj_end(&w);
        }
    }
    if (json) {
        json_arr_end(&w);
        json_obj_end(&w);
        buf_addc(&ctx->out, '\n');
    } else {
        table_print(t, &ctx->out_term, 0, &ctx->out);
    }
    table_free(t);
    return RC_OK;
}

/* ---- reading ---- */

static enum rc read_inventories(struct render_work *w, struct err *err)
{
    const struct opt_strs *given = &w->opts->inventory;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < given->count && rc == RC_OK; i++)
        rc = machine_paths_add(&w->paths, given->items[i], RENDER_MACHINES_MAX, err);
    w->machines = xcalloc(w->paths.count + 1, sizeof(*w->machines));
    w->inventories = xcalloc(w->paths.count + 1, sizeof(*w->inventories));
    for (size_t i = 0; i < w->paths.count && rc == RC_OK; i++) {
        rc = machine_read(w->paths.items[i], &w->inventories[i], err);
        w->machines[i] =
            (struct render_machine){ .hw = w->inventories[i],
                                     .name = machine_stem(&w->paths.arena, w->paths.items[i]) };
    }
    return rc;
}

/* The spec, or for what more can be told of a file with faults its sound part, as 'stoker spec
 * check' does.  Inventories are of the whole: without them a part would lack what they tell. */
static enum rc spec_render(struct spec *s, bool whole, struct spec_diags *diags, void *ctx,
                           struct err *err)
{
    struct render_work *w = ctx;
    struct chosen part = { 0 }, *chosen = whole ? &w->chosen : &part;
    struct render_set set = { 0 };
    enum rc rc;

    if (!whole && w->paths.count)
        return RC_OK;
    choose_targets(w->ctx, s, chosen);
    rc = render_run(&(struct render_input){ .spec = s,
                                            .machines = w->machines,
                                            .machine_count = w->paths.count,
                                            .targets = chosen->items,
                                            .target_count = chosen->count,
                                            .where = w->opts->where },
                    whole ? &w->set : &set, diags, err);
    render_set_release(&set);
    return rc;
}

/* Files are rendered with it. */
static enum rc read_spec(struct render_work *w, struct err *err)
{
    enum rc rc =
        spec_load_judged(w->file, &(struct spec_judge){ spec_render, w }, &w->spec, &w->diags, err);

    if (rc && !w->diags.count && !w->opts->file && access(w->file, F_OK))
        err_hint(err, "Name a spec with -f, or begin with 'stoker spec example NAME >%s'.",
                 w->file);
    return rc;
}

/* ---- what is told ---- */

static const char *spec_name(const struct render_work *w)
{
    return str_eq(w->file, "-") ? "standard input" : w->file;
}

static void count_words(const struct render_changes *c, struct buf *out)
{
    static const char *const words[] = { "new", "changed", "the same", "removed" };
    size_t n[ARRAY_SIZE(words)] = { 0 };
    bool first = true;

    for (size_t i = 0; i < c->count; i++)
        n[c->items[i].kind]++;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (!n[i])
            continue;
        buf_addf(out, "%s%zu %s", first ? ": " : ", ", n[i], words[i]);
        first = false;
    }
}

static void tell_targets(const struct chosen *c, struct buf *out)
{
    for (size_t i = 0; i < c->count; i++)
        buf_addf(out, "%s%s", !i ? "" : i + 1 == c->count ? " and " : ", ", c->items[i]->name);
}

static void tell_written(struct render_work *w, const char *dir)
{
    static const enum table_colour colours[] = { COLOUR_GREEN, COLOUR_YELLOW, COLOUR_NONE,
                                                 COLOUR_RED };
    static const char *const words[] = { "new", "changed", "", "removed" };
    struct cmd_ctx *ctx = w->ctx;

    for (size_t i = 0; i < w->changes.count; i++) {
        const struct render_change *c = &w->changes.items[i];

        if (c->kind == RENDER_SAME)
            continue;
        term_text(&ctx->out_term, &ctx->out, colours[c->kind], "%-7s", words[c->kind]);
        buf_addf(&ctx->out, "  %s\n", c->path);
    }
    buf_addf(&ctx->out, "%zu file%s in '%s'", w->set.count, w->set.count == 1 ? "" : "s", dir);
    count_words(&w->changes, &ctx->out);
    buf_addc(&ctx->out, '\n');
}

/* `kind` NULL: it was not compared. */
static void json_file(struct json_out *o, const struct render_change *c, const char *kind)
{
    const struct render_file *f = c->file;
    char mode[8];

    json_obj(o);
    json_kv_str(o, "path", c->path);
    json_kv_str(o, "change", kind);
    json_kv_str(o, "edited", render_edit_name(c->edit));
    json_kv_str(o, "aside", c->aside);
    if (f) {
        struct render_text text = render_change_text(c);
        uint8_t sum[SHA256_BYTES];
        char hex[SHA256_HEX];
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, text.p, text.len);
        sha256_end(&s, sum);
        (void)snprintf(mode, sizeof(mode), "%04o", render_file_mode(f));
        json_kv_int(o, "bytes", (int64_t)text.len);
        json_kv_str(o, "sha256", sha256_hex(sum, hex));
        json_kv_str(o, "mode", mode);
    } else {
        json_kv_maybe(o, "bytes", maybe_none());
        json_kv_str(o, "sha256", NULL);
        json_kv_str(o, "mode", NULL);
    }
    json_obj_end(o);
}

/* `dir` NULL: nothing was written or compared. */
static void tell_json(struct render_work *w, const char *dir, bool written)
{
    struct json_out o;

    json_doc(&o, &w->ctx->out, "stoker.render/1");
    json_kv_str(&o, "spec", spec_name(w));
    json_kv_str(&o, "dir", dir);
    json_kv_bool(&o, "written", written);
    json_kv_str(&o, "recovered", render_recovered_name(w->recovered.what));
    json_kv_arr(&o, "recovered_edited");
    for (size_t i = 0; i < w->recovered.kept_count; i++) {
        json_obj(&o);
        json_kv_str(&o, "path", w->recovered.kept[i].path);
        json_kv_str(&o, "aside", w->recovered.kept[i].aside);
        json_obj_end(&o);
    }
    json_arr_end(&o);
    json_kv_arr(&o, "targets");
    for (size_t i = 0; i < w->chosen.count; i++)
        json_add_str(&o, w->chosen.items[i]->name);
    json_arr_end(&o);
    json_key(&o, "errors");
    spec_diags_json(&w->diags, &o);
    json_key(&o, "warnings");
    spec_warnings_json(&w->diags, &o);
    json_kv_arr(&o, "files");
    for (size_t i = 0; dir && i < w->changes.count; i++)
        json_file(&o, &w->changes.items[i], render_kind_name(w->changes.items[i].kind));
    for (size_t i = 0; !dir && i < w->set.count; i++)
        json_file(&o,
                  &(struct render_change){ .path = w->set.files[i]->path, .file = w->set.files[i] },
                  NULL);
    json_arr_end(&o);
    json_doc_end(&o);
}

/* The spec's faults, each where it stands; the error is then one line about all of them. */
static enum rc tell_faults(struct render_work *w, enum rc rc, struct err *err)
{
    size_t n = w->diags.count + w->diags.dropped;

    *err = (struct err){ 0 };
    if (w->opts->json) {
        tell_json(w, NULL, false);
        err->code = rc;
        return rc;
    }
    cmd_diags_tell(w->ctx, &w->diags, true, true);
    return err_set(err, rc, "'%s' cannot be rendered: %zu error%s", spec_name(w), n,
                   n == 1 ? "" : "s");
}

/* What is not followed to the letter; with --strict nothing is written then. */
static enum rc tell_warnings(struct render_work *w, struct err *err)
{
    size_t n = w->diags.warning_count + w->diags.warning_dropped;
    bool refuse = w->opts->strict && n;

    if (!w->opts->json) {
        cmd_diags_tell(w->ctx, &w->diags, false, true);
    } else if (refuse) {
        tell_json(w, NULL, false);
        err->code = RC_PARSE;
        return RC_PARSE;
    }
    if (!refuse)
        return RC_OK;
    return err_set(err, RC_PARSE, "'%s' is not rendered: %zu warning%s, and --strict is set",
                   spec_name(w), n, n == 1 ? "" : "s");
}

/* Files that somebody edited since they were rendered, on stderr.  Returns how many were, or would
 * be, set aside: those need a person. */
static size_t tell_edits(const struct render_work *w, const char *dir)
{
    static const char *const words[] = {
        [RENDER_EDIT_KEPT] = "it stays as it is, since what is rendered has not changed",
        [RENDER_EDIT_MERGED] = "the edits and what is rendered anew are merged",
    };
    size_t aside = 0;

    for (size_t i = 0; i < w->changes.count; i++) {
        const struct render_change *c = &w->changes.items[i];

        aside += c->edit == RENDER_EDIT_ASIDE;
        if (w->opts->json || c->edit == RENDER_EDIT_NONE)
            continue;
        (void)fprintf(stderr, "stoker: '%s' in '%s' was edited by hand: ", c->path, dir);
        if (c->edit == RENDER_EDIT_ASIDE)
            (void)fprintf(stderr, "the edited file %s kept as '%s'\n",
                          w->opts->diff ? "would be" : "is", c->aside);
        else
            (void)fprintf(stderr, "%s\n", words[c->edit]);
    }
    return aside;
}

/* What a run that was killed left in the folder, before anything else is looked at.  What it set
 * aside is told here: it could not. */
static enum rc recover_folder(struct render_work *w, const char *dir, struct err *err)
{
    static const char *const words[] = {
        [RENDER_RECOVER_FINISHED] = "the rest of its files are in place now",
        [RENDER_RECOVER_UNDONE] = "what it had prepared is removed",
    };
    enum rc rc = render_recover(dir, &w->recovered, err);

    if (rc || w->recovered.what == RENDER_RECOVER_NONE || w->opts->json)
        return rc;
    (void)fprintf(stderr, "stoker: an earlier run was stopped while it wrote to '%s': %s\n", dir,
                  words[w->recovered.what]);
    for (size_t i = 0; i < w->recovered.kept_count; i++)
        (void)fprintf(stderr,
                      "stoker: '%s' in '%s' was edited by hand: the edited file is kept as '%s'\n",
                      w->recovered.kept[i].path, dir, w->recovered.kept[i].aside);
    return RC_OK;
}

/* ---- the three things that are done with a set ---- */

static enum rc do_check(struct render_work *w)
{
    struct cmd_ctx *ctx = w->ctx;

    if (w->opts->json) {
        tell_json(w, NULL, false);
        return RC_OK;
    }
    term_text(&ctx->out_term, &ctx->out, COLOUR_GREEN, "ok");
    buf_addf(&ctx->out, "  %s: %zu file%s for ", w->file, w->set.count,
             w->set.count == 1 ? "" : "s");
    tell_targets(&w->chosen, &ctx->out);
    buf_addc(&ctx->out, '\n');
    return RC_OK;
}

static void print_diff(struct cmd_ctx *ctx, const struct buf *diff)
{
    for (const char *p = buf_str(diff), *end; *p; p = end) {
        const char *nl = strchr(p, '\n');
        enum table_colour colour = str_starts(p, "+++") || str_starts(p, "---") ? COLOUR_BOLD
                                   : *p == '+'                                  ? COLOUR_GREEN
                                   : *p == '-'                                  ? COLOUR_RED
                                   : *p == '@' || *p == 'd'                     ? COLOUR_CYAN
                                                                                : COLOUR_NONE;

        end = nl ? nl + 1 : p + strlen(p);
        term_text(&ctx->out_term, &ctx->out, colour, "%.*s", (int)(end - p - (nl != NULL)), p);
        if (nl)
            buf_addc(&ctx->out, '\n');
    }
}

static enum rc do_diff(struct render_work *w, const struct render_where *where, struct err *err)
{
    struct buf diff = { 0 };
    size_t changed = 0, foreign = 0;
    enum rc rc = render_diff(&w->set, where, &diff, &w->changes, err);

    if (rc == RC_OK && diff.over)
        rc = err_set(err, RC_LIMIT, "the diff is larger than %d bytes", BUF_MAX_DEFAULT);
    for (size_t i = 0; i < w->changes.count && rc == RC_OK; i++) {
        changed += w->changes.items[i].kind != RENDER_SAME;
        foreign += w->changes.items[i].foreign;
    }
    if (rc == RC_OK && w->opts->json)
        tell_json(w, where->dir, false);
    else if (rc == RC_OK && w->ctx->out_term.colour)
        print_diff(w->ctx, &diff);
    else if (rc == RC_OK)
        buf_add(&w->ctx->out, buf_str(&diff), diff.len);
    if (rc == RC_OK && foreign && !w->opts->force && !w->opts->json)
        (void)fprintf(stderr,
                      "stoker: %zu file%s in '%s' %s not written by 'stoker render': "
                      "writing there needs --force\n",
                      foreign, foreign == 1 ? "" : "s", where->dir, foreign == 1 ? "was" : "were");
    if (rc == RC_OK) {
        (void)tell_edits(w, where->dir);
        w->ctx->status = changed || (w->recovered.kept_count && !w->opts->force) ? 1 : 0;
    }
    buf_release(&diff);
    return rc;
}

static enum rc do_write(struct render_work *w, const struct render_where *where, struct err *err)
{
    enum rc rc = render_write(&w->set, where, &w->changes, err);

    if (rc)
        return rc;
    if (w->opts->json)
        tell_json(w, where->dir, true);
    else
        tell_written(w, where->dir);
    if (tell_edits(w, where->dir) + w->recovered.kept_count && !where->force)
        w->ctx->status = 1;
    return RC_OK;
}

static enum rc check_opts(const struct cmd_ctx *ctx, const struct render_opts *o, struct err *err)
{
    if (o->list && ctx->argc)
        return err_set(err, RC_USAGE, "option '--list' takes no targets");
    if (o->list)
        return RC_OK;
    if ((o->check && o->diff) || (o->out && (o->check || o->diff))) {
        err_hint(err, "--check and --diff write nothing; leave out what is not meant.");
        return err_set(err, RC_USAGE, "options '%s' and '%s' are two different things to do",
                       o->check ? "--check" : "--diff", o->out ? "--out" : "--diff");
    }
    if (!ctx->argc) {
        err_hint(err, "'all' is every target that the spec names; --list lists them.");
        return err_set(err, RC_USAGE, "no target is given");
    }
    return names_known(ctx, err);
}

static enum rc run_render(struct cmd_ctx *ctx, struct err *err)
{
    const struct render_opts *o = ctx->opts;
    struct render_work w = { .ctx = ctx, .opts = o, .file = o->file ? o->file : "stoker.yaml" };
    struct render_where where = { .dir = o->diff  ? o->diff
                                         : o->out ? o->out
                                                  : "out",
                                  .force = o->force };
    enum rc rc = check_opts(ctx, o, err);

    if (rc == RC_OK && o->list)
        return run_list(ctx, o->json);
    if (rc == RC_OK && !o->check)
        rc = recover_folder(&w, where.dir, err);
    if (rc == RC_OK)
        rc = read_inventories(&w, err);
    if (rc == RC_OK)
        rc = read_spec(&w, err);
    if (!w.chosen.all) { /* files of targets that nobody asked for stay */
        where.only = w.chosen.items;
        where.only_count = w.chosen.count;
    }
    if (rc && w.diags.count)
        rc = tell_faults(&w, rc, err);
    else if (rc == RC_OK)
        rc = tell_warnings(&w, err);
    if (rc == RC_OK)
        rc = o->check  ? do_check(&w)
             : o->diff ? do_diff(&w, &where, err)
                       : do_write(&w, &where, err);
    work_release(&w);
    return rc;
}

#define OPT_STRUCT struct render_opts
static const struct opt opts[] = {
    OPT('f', "file", STR, file, "FILE", "the spec; - is standard input (default: stoker.yaml)"),
    OPT('o', "out", STR, out, "DIR", "where the files go (default: out)"),
    OPT(0, "diff", STR, diff, "DIR",
        "print what would change in DIR, as a unified diff, instead of writing it"),
    OPT(0, "check", FLAG, check, NULL, "write nothing; say whether the spec can be rendered"),
    OPT(0, "list", FLAG, list, NULL, "list the targets"),
    OPT(0, "inventory", STRS, inventory, "FILE|DIR",
        "what 'stoker detect --json' or 'stoker gather' found on a machine, or a folder of such "
        "files (may be repeated)"),
    OPT(0, "force", FLAG, force, NULL,
        "replace files that others wrote, where one of ours goes, and set edited ones aside"),
    OPT(0, "where", FLAG, where, NULL,
        "comments name the line of the spec too, beside the path of the key"),
    OPT(0, "strict", FLAG, strict, NULL, "write nothing when there is a warning, and exit with 1"),
    OPT(0, "json", FLAG, json, NULL, "print what was written, or what is wrong, as JSON"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker render all -f stoker.yaml -o out", "every system that the spec names" },
    { "stoker render slurm --diff out", "what would change, before it does" },
    { "stoker render all --diff out >change.patch", "the same to read or to apply with patch -p1" },
    { "stoker spec example kb-a100 | stoker render all -f - --check",
      "is it right? for a pipeline" },
    { "stoker render slurm --inventory node.json",
      "with the cores, memory and NICs of a real machine" },
    { "stoker render all --inventory machines/", "with those of many, each for its node group" },
    { 0 },
};

const struct cmd cmd_render = {
    .name = "render",
    .summary = "write one spec out for Slurm, Kubernetes, compose and others",
    .operands = "TARGET…",
    .args_min = 0,
    .args_max = RENDER_TARGETS_MAX,
    .opts = opts,
    .opts_size = sizeof(struct render_opts),
    .about =
        "Writes the files that the systems of a site read, from the one file that describes it. "
        "TARGET is one of those that --list shows, or 'all': the systems that the spec's 'targets' "
        "names, with nccl and doc. Files of a target are in a folder of its name below DIR; each "
        "value says in a comment by which key of the spec it is set (with --where: on which line, "
        "too), or that it is a default. The same spec gives the same bytes.\n\n"
        "What cannot be rendered is refused at its line and column, all faults together: machines "
        "that there are not, ports that are used twice, images that no runtime takes, text that a "
        "format cannot hold. What a target takes but cannot follow to the letter is a warning at "
        "its line and column, on standard error or in the JSON; --strict refuses it.\n\n"
        "An inventory belongs to the node group that lists its machine's host name. What it "
        "contradicts in the spec (GPUs, memory, NICs, link layer) is refused or told at its line, "
        "as is a machine that fits no group. Cores and memory that the spec does not give are the "
        "machine's; where it gives more than a machine has, the machine's are written, since "
        "Slurm drains a machine that registers with less. Where machines of one group differ, the "
        "smallest figures hold, and settings that they do not share are left out and told.\n\n"
        "All files are written beside their places first and renamed when the last one is on the "
        "disk; an error before that leaves DIR as it was. DIR/.stoker-render.journal says while a "
        "run writes what it is about: one that was killed, or stopped by a power cut, is undone or "
        "finished by the next command that names DIR, --diff included, before it does anything "
        "else. Until then some files may be old and some new, each of them whole. "
        "DIR/.stoker-render "
        "lists what was written, as sha256sum does. Files in the list that are no longer rendered "
        "are removed, those of other targets only with 'all'. A file that somebody else wrote is "
        "never replaced without --force, nor a link followed.\n\n"
        "A file of ours that somebody edited is never lost. Edits in other lines than what is "
        "rendered anew stay: the two are merged (DIR/.stoker-render.base has what was rendered "
        "last, to tell one from the other). Else the edited file is kept as NAME.edited beside the "
        "rendered one, or NAME.edited.2 and so on, and the command exits with 1 when all is "
        "written; with --force that is done to every edited file, and is no failure. Each is told "
        "on stderr and in --json, those of a run that was killed by the command that finishes "
        "it.\n\n"
        "Exits with 0 when all went well, 1 when something is wrong, when an edited file was set "
        "aside or, as diff does, when --diff found a difference, 2 when the command is not "
        "understood and 3 when there is no such spec.",
    .examples = examples,
    .arg_choices = "all|compose|doc|grafana|kubernetes|lustre|nccl|openshift|prometheus|slurm|"
                   "systemd",
    .run = run_render,
};
