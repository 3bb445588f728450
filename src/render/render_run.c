/* SPDX-License-Identifier: MIT */
/* run: targets over one spec, and what all of them use: files of a set, refusals, origins. */
#include "base/mem.h"
#include "base/str.h"
#include "plan/feasible.h"
#include "render/follow_int.h"
#include "render/render_int.h"

#include <assert.h>
#include <stdlib.h>

enum { FROM_SLOTS = 8, FROM_MAX = 256 };

void render_set_release(struct render_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        free(set->files[i]->path);
        buf_release(&set->files[i]->text);
        free(set->files[i]);
    }
    free(set->files);
    *set = (struct render_set){ 0 };
}

struct buf *render_file_of(struct render *r, enum render_mode mode, const char *fmt, ...)
{
    struct render_set *set = r->out;
    struct render_file *f = xcalloc(1, sizeof(*f));
    struct buf path;
    va_list ap;

    buf_init(&path, RENDER_PATH_MAX);
    va_start(ap, fmt);
    buf_vaddf(&path, fmt, ap);
    va_end(ap);
    assert(path.len && !path.over); /* names of a spec are short */
    f->path = buf_take(&path);
    f->exec = mode == RENDER_EXEC;
    f->secret = mode == RENDER_SECRET;
    buf_init(&f->text, RENDER_FILE_MAX);
    if (set->count == set->cap) {
        set->cap = set->cap ? 2 * set->cap : 32;
        set->files = xreallocarray(set->files, set->cap, sizeof(*set->files));
    }
    set->files[set->count++] = f;
    return &f->text;
}

void render_keep_secret(struct render *r, const struct buf *text)
{
    for (size_t i = 0; i < r->out->count; i++)
        if (&r->out->files[i]->text == text)
            r->out->files[i]->secret = true;
}

typedef void diag_fn(struct spec_diags *d, const struct spec *s, const void *member,
                     const char *hint, const char *fmt, ...);

static void fault_tell(struct render *r, diag_fn *tell, const void *member, const char *hint,
                       const char *fmt, va_list ap)
{
    struct buf b = { 0 };

    buf_vaddf(&b, fmt, ap);
    tell(r->diags, r->spec, member, hint, "%s", buf_str(&b));
    buf_release(&b);
}

void render_refuse(struct render *r, const void *member, const char *hint, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fault_tell(r, spec_diag_at, member, hint, fmt, ap);
    va_end(ap);
}

void render_warn(struct render *r, const void *member, const char *hint, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fault_tell(r, spec_diag_warn_at, member, hint, fmt, ap);
    va_end(ap);
}

static const char *file_name(const struct spec *s)
{
    return str_eq(spec_file(s), "standard input") ? "stdin" : path_last_part(spec_file(s));
}

const char *render_from(const struct render *r, const void *member)
{
    static _Thread_local char slots[FROM_SLOTS][FROM_MAX];
    static _Thread_local size_t turn;
    const char *path = spec_path(r->spec, member);
    char *out = slots[turn++ % FROM_SLOTS];
    struct buf text = { 0 };

    quote_comment(&text, path ? path : "default");
    if (path && r->where && spec_where(r->spec, member).line) {
        struct spec_pos at = spec_where(r->spec, member);

        buf_adds(&text, ", ");
        quote_comment(&text, at.file_no ? path_last_part(at.file) : file_name(r->spec));
        buf_addf(&text, ":%d", at.line);
    }
    (void)snprintf(out, FROM_MAX, "%s", buf_str(&text));
    str_make_text(out); /* a character may have been cut */
    buf_release(&text);
    return out;
}

bool render_strs_has(const struct spec_strs *list, const char *item)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_eq(list->items[i], item))
            return true;
    return false;
}

bool render_uses_rdma(const struct render *r, const struct spec_strs *fabrics)
{
    for (size_t i = 0; i < fabrics->count; i++) {
        const struct spec_fabric *f = spec_fabric_find(r->spec, fabrics->items[i]);

        if (f && f->kind != SPEC_FABRIC_ETHERNET)
            return true;
    }
    return false;
}

void render_str(const struct render *r, struct yaml_out *y, const char *key, const char *value,
                const void *member)
{
    yaml_note(y, render_from(r, member));
    yaml_str(y, key, value);
}

void render_int(const struct render *r, struct yaml_out *y, const char *key, int64_t value,
                const void *member)
{
    yaml_note(y, render_from(r, member));
    yaml_int(y, key, value);
}

void render_head(const struct render *r, struct buf *out, const char *mark, const char *what)
{
    const char *name = r->spec->site.name;
    struct buf line = { 0 };

    buf_addf(&line, "Written by 'stoker render' from %s%s%s; change that file and render again.",
             file_name(r->spec), name ? ", site " : "", name ? name : "");
    buf_addf(out, "%s %s\n%s ", mark, what, mark);
    quote_comment(out, buf_str(&line));
    buf_addc(out, '\n');
    buf_release(&line);
}

/* ---- a run ---- */

static int by_path(const void *a, const void *b)
{
    const struct render_file *const *x = a, *const *y = b;

    return strcmp((*x)->path, (*y)->path);
}

/* Every target with its defaults, for those the spec does not mention; Lustre has none, since its
 * server must be named. */
static const char ALL_DEFAULTS[] =
    "schema: stoker.spec/1\n"
    "targets: {slurm: {}, kubernetes: {}, openshift: {}, compose: {}, "
    "systemd: {}, prometheus: {}, grafana: {}}\n";

static enum rc defaults_load(struct spec **out, struct err *err)
{
    enum rc rc = spec_parse(ALL_DEFAULTS, sizeof(ALL_DEFAULTS) - 1, "defaults", out, NULL, err);

    return rc == RC_OK ? rc : err_ctx(err, "the targets' defaults");
}

static struct spec_targets targets_merged(const struct spec *s, const struct spec *d)
{
    const struct spec_targets *a = &s->targets, *b = &d->targets;

    return (struct spec_targets){
        .slurm = a->slurm ? a->slurm : b->slurm,
        .kubernetes = a->kubernetes ? a->kubernetes : b->kubernetes,
        .openshift = a->openshift ? a->openshift : b->openshift,
        .compose = a->compose ? a->compose : b->compose,
        .systemd = a->systemd ? a->systemd : b->systemd,
        .prometheus = a->prometheus ? a->prometheus : b->prometheus,
        .grafana = a->grafana ? a->grafana : b->grafana,
        .lustre = a->lustre,
    };
}

static enum rc run_outcome(const struct render *r, struct err *err)
{
    const struct spec_diag *d = r->diags->items;

    if (r->diags->count && d->line)
        return err_set(err, RC_PARSE, "%s:%d:%d: %s", d->file, d->line, d->col, d->msg);
    if (r->diags->count)
        return err_set(err, RC_PARSE, "%s: %s", d->file, d->msg);
    for (size_t i = 0; i < r->out->count; i++) {
        const struct render_file *f = r->out->files[i];

        if (f->text.over)
            return err_set(err, RC_LIMIT, "'%s' would be larger than %d bytes", f->path,
                           RENDER_FILE_MAX);
        assert(!i || strcmp(r->out->files[i - 1]->path, f->path)); /* two targets, one path */
    }
    if (r->out->count > RENDER_FILES_MAX)
        return err_set(err, RC_LIMIT, "%zu files would be written, %d are the most", r->out->count,
                       RENDER_FILES_MAX);
    return RC_OK;
}

/* Is Kubernetes among the targets?  It may take components of others. */
static bool by_name(const struct render_input *in)
{
    for (size_t i = 0; i < in->target_count; i++)
        if (str_eq(in->targets[i]->name, "kubernetes"))
            return true;
    return false;
}

enum rc render_run(const struct render_input *in, struct render_set *out, struct spec_diags *diags,
                   struct err *err)
{
    struct spec *defaults = NULL;
    struct render_set set = { 0 };
    struct spec_targets all;
    struct render_machine *machines = NULL;
    struct feasible *feasible;
    struct render r = {
        .spec = in->spec,
        .where = in->where,
        .out = &set,
        .diags = diags,
    };
    enum rc rc = defaults_load(&defaults, err);
    bool sound;

    if (rc)
        return rc;
    all = targets_merged(in->spec, defaults);
    r.targets = &all;
    if (in->machine_count) {
        machines = xcalloc(in->machine_count, sizeof(*machines));
        memcpy(machines, in->machines, in->machine_count * sizeof(*machines));
        render_machines_place(&r, machines, in->machine_count);
        render_machines_learn(in->spec, machines, in->machine_count);
        r.machines = machines;
        r.machine_count = in->machine_count;
    }
    feasible = feasible_new(in->spec, &(struct feasible_opts){ .kubernetes_by_name = by_name(in) });
    r.feasible = feasible;
    render_check(&r, in->targets, in->target_count);
    sound = !diags->count; /* then each target may say what it cannot take, whatever others say */
    for (size_t i = 0; i < in->target_count && sound; i++) {
        render_follow(&r, in->targets[i]);
        in->targets[i]->make(&r);
    }
    spec_diags_sort(diags);
    if (set.count)
        qsort(set.files, set.count, sizeof(*set.files), by_path);
    rc = run_outcome(&r, err);
    if (rc == RC_OK)
        *out = set;
    else
        render_set_release(&set);
    feasible_free(feasible);
    spec_free(defaults);
    free(machines);
    return rc;
}
