/* SPDX-License-Identifier: MIT */
/* detect_compare: `stoker detect --compare`: machines that should be equal, one after the other
 * into hw/compare; with --nodes each among those of its group of the spec, and beside what the spec
 * says.
 *
 * No inventory is kept: 4096 machines take no more memory than what differs between them. */
#include "base/mem.h"
#include "base/str.h"
#include "cmd/cmd_int.h"
#include "cmd/detect/detect_int.h"
#include "cmd/detect/machine_int.h"
#include "hw/compare/compare.h"
#include "os/file.h"
#include "render/render.h"

#include <stdlib.h>

enum { FINDINGS_MAX = 1024 }; /* different contradictions to a spec */

struct compare_machine {
    const char *file, *host, *stem; /* in the arena of the paths; host NULL: unknown */
    const char *name;               /* of the two the one that is nobody else's */
    size_t group;                   /* number of its side */
};
struct compare_side {             /* machines that are compared with each other */
    const struct spec_node *node; /* NULL: no group */
    struct hw_compare *compare;   /* NULL: no machine */
    const char **names;           /* by number within the side */
    size_t count, cap;
    const struct hw_compare_diff *diffs;
    size_t diffs_count;
    const struct hw_compare_twin *twins;
    size_t twins_count;
};
struct finding { /* one contradiction to the spec, of some machines */
    struct spec_pos at;
    const char *group, *what, *spec, *found;
    bool hard;
    struct hw_compare_set set; /* by number of the machine */
};
struct comparison {
    struct cmd_ctx *ctx;
    const struct detect_opts *o;
    struct machine_paths paths;
    struct compare_machine *machines;
    size_t count;
    struct spec *spec; /* NULL: none is given */
    struct spec_diags diags;
    struct compare_side *sides; /* one for each group of the spec, and one behind */
    size_t sides_count;
    struct finding *findings;
    size_t findings_count, findings_cap, findings_dropped;
};

static void comparison_release(struct comparison *c)
{
    for (size_t i = 0; i < c->sides_count; i++) {
        hw_compare_free(c->sides[i].compare);
        free(c->sides[i].names);
    }
    free(c->sides);
    free(c->machines);
    free(c->findings);
    spec_diags_release(&c->diags);
    spec_free(c->spec);
    machine_paths_release(&c->paths);
}

/* ---- reading ---- */

static enum rc spec_read(struct comparison *c, struct err *err)
{
    enum rc rc = spec_load(c->o->nodes, &c->spec, &c->diags, err);

    if (rc && c->diags.count) {
        cmd_diags_tell(c->ctx, &c->diags, true, false);
        *err = (struct err){ 0 };
        return err_set(err, rc, "'%s' is not a spec that machines can be held beside", c->o->nodes);
    }
    return rc;
}

static void finding_add(struct comparison *c, struct spec_pos at, const char *group,
                        const struct render_fact *f)
{
    struct arena *a = &c->paths.arena;

    for (size_t i = 0; i < c->findings_count; i++) {
        struct finding *x = &c->findings[i];

        if (x->at.line == at.line && x->at.col == at.col && str_eq(x->group, group) &&
            str_eq(x->what, f->what) && str_eq(x->found, f->found)) {
            x->set.bits[c->count / 64] |= (uint64_t)1 << (c->count % 64);
            return;
        }
    }
    if (c->findings_count >= FINDINGS_MAX) {
        c->findings_dropped++;
        return;
    }
    VEC_GROW(c->findings, c->findings_count, c->findings_cap);
    c->findings[c->findings_count] = (struct finding){ .at = at,
                                                       .group = group,
                                                       .hard = f->hard,
                                                       .what = arena_strdup(a, f->what),
                                                       .spec = arena_strdup(a, f->spec),
                                                       .found = arena_strdup(a, f->found) };
    c->findings[c->findings_count++].set.bits[c->count / 64] |= (uint64_t)1 << (c->count % 64);
}

/* The group of the machine that is being read, and where it contradicts it. */
static void spec_judge(struct comparison *c, struct compare_machine *m, const struct hw *hw)
{
    const struct spec_node *n = render_machine_group(c->spec, m->host);
    struct render_facts facts = { 0 };

    if (!n)
        n = render_machine_group(c->spec, m->stem);
    m->group = n ? (size_t)(n - c->spec->nodes) : c->spec->node_count;
    if (!n) {
        const struct render_fact none = {
            .what = "host name", .spec = "one of the groups", .found = "none lists it", .hard = true
        };
        struct spec_pos at = spec_where(c->spec, &c->spec->nodes);

        if (!at.line && c->spec->node_count)
            at = spec_where(c->spec, &c->spec->nodes[0]);
        finding_add(c, at, NULL, &none);
        return;
    }
    render_machine_check(c->spec, n, hw, &facts);
    for (size_t i = 0; i < facts.count; i++) {
        struct spec_pos at = spec_where(c->spec, facts.items[i].member);

        finding_add(c, at.line ? at : spec_where(c->spec, n), n->name, &facts.items[i]);
    }
    render_facts_release(&facts);
}

static enum rc machine_add(struct comparison *c, const char *path, const struct hw *hw,
                           struct err *err)
{
    struct arena *a = &c->paths.arena;
    struct compare_machine *m = &c->machines[c->count];
    struct compare_side *s;
    enum rc rc;

    *m = (struct compare_machine){ .file = path,
                                   .host = arena_strdup(a, hw->place.hostname),
                                   .stem = path ? machine_stem(a, path) : "here" };
    if (c->spec)
        spec_judge(c, m, hw);
    s = &c->sides[m->group];
    if (!s->compare)
        s->compare = hw_compare_new();
    rc = hw_compare_add(s->compare, hw, err);
    if (rc)
        (void)err_ctx(err, "'%s'", path ? path : "this machine");
    c->count++;
    return rc;
}

/* One machine that cannot be read does not keep the others from being compared: `lost` has why,
 * of the first such. */
static enum rc machines_add(struct comparison *c, struct err *lost, struct err *err)
{
    size_t all = c->paths.count ? c->paths.count : 1, lost_count = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < all && rc == RC_OK; i++) {
        const char *path = c->paths.count ? c->paths.items[i] : NULL;
        struct err one = { 0 };
        struct hw *hw = NULL;

        if (machine_read(path, &hw, &one)) {
            if (!lost_count++)
                *lost = one;
            continue;
        }
        rc = machine_add(c, path, hw, err);
        hw_free(hw);
    }
    if (lost_count > 1)
        (void)err_ctx(lost, "%zu machines could not be read, the first", lost_count);
    return rc;
}

/* ---- names: the host's where it is the only one of that name, else the file's ---- */

static int by_host(const void *a, const void *b)
{
    const struct compare_machine *x = *(struct compare_machine *const *)a,
                                 *y = *(struct compare_machine *const *)b;

    return strcmp(x->host ? x->host : "", y->host ? y->host : "");
}

static void machines_name(struct comparison *c)
{
    struct compare_machine **by = xcalloc(c->count + 1, sizeof(*by));

    for (size_t i = 0; i < c->count; i++)
        by[i] = &c->machines[i];
    qsort(by, c->count, sizeof(struct compare_machine *), by_host);
    for (size_t i = 0; i < c->count; i++) {
        bool twin = (i && !by_host(&by[i - 1], &by[i])) ||
                    (i + 1 < c->count && !by_host(&by[i], &by[i + 1]));

        by[i]->name = by[i]->host && !twin ? by[i]->host : by[i]->stem;
    }
    free(by);
    for (size_t i = 0; i < c->count; i++) {
        struct compare_side *s = &c->sides[c->machines[i].group];

        VEC_GROW(s->names, s->count, s->cap);
        s->names[s->count++] = c->machines[i].name;
    }
}

/* ---- printing ---- */

static const char **names_all(const struct comparison *c)
{
    const char **names = xcalloc(c->count + 1, sizeof(*names));

    for (size_t i = 0; i < c->count; i++)
        names[i] = c->machines[i].name;
    return names;
}

static void print_findings(const struct comparison *c, struct buf *out)
{
    const char **names = names_all(c);
    struct table *t = table_new();
    struct buf who = { 0 };

    table_col(t, "SPEC", TABLE_LEFT | TABLE_WHOLE);
    table_col(t, "WHAT", TABLE_LEFT | TABLE_SHRINK);
    table_col(t, "SAYS", TABLE_LEFT | TABLE_SHRINK);
    table_col(t, "MACHINES", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < c->findings_count; i++) {
        const struct finding *f = &c->findings[i];

        buf_reset(&who);
        hw_compare_names(&f->set, names, c->count, &who);
        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s:%d:%d", c->o->nodes, f->at.line, f->at.col);
        table_cell(t, f->hard ? COLOUR_RED : COLOUR_YELLOW, "%s%s%s", f->group ? f->group : "",
                   f->group ? ": " : "", f->what);
        table_cell(t, COLOUR_NONE, "%s", f->spec);
        table_cell(t, COLOUR_NONE, "%s: %s", f->found, buf_str(&who));
    }
    table_print(t, &c->ctx->out_term, 0, out);
    if (c->findings_dropped)
        buf_addf(out, "and %zu more\n", c->findings_dropped);
    buf_release(&who);
    table_free(t);
    free(names);
}

static void print_side(const struct comparison *c, const struct compare_side *s, struct buf *out)
{
    size_t values = hw_compare_rows(s->compare);

    if (out->len)
        buf_addc(out, '\n');
    if (s->node)
        buf_addf(out, "Group %s: %zu of %lld machines. ", s->node->name, s->count,
                 (long long)s->node->count);
    else if (c->spec)
        buf_addf(out, "No group: ");
    if (s->count == 1)
        buf_adds(out, "One machine: nothing to compare it with.\n");
    else if (!s->diffs_count)
        buf_addf(out, "%zu machines are equal in all of %zu values.\n", s->count, values);
    else
        buf_addf(out, "%zu machines differ in %zu of %zu values.\n", s->count, s->diffs_count,
                 values);
    if (s->diffs_count) {
        buf_addc(out, '\n');
        hw_compare_print(s->diffs, s->diffs_count, s->names, s->count, &c->ctx->out_term, out);
    }
    if (s->twins_count) {
        buf_addf(out, "\n%zu value%s that only one machine may have %s on several.\n\n",
                 s->twins_count, s->twins_count == 1 ? "" : "s",
                 s->twins_count == 1 ? "is" : "are");
        hw_compare_print_twins(s->twins, s->twins_count, s->names, s->count, &c->ctx->out_term,
                               out);
    }
    if (s->count > 1 && hw_compare_masked_count(s->compare))
        buf_addf(
            out,
            "Masked: %zu of them. Crossed rails and addresses that two machines have cannot be "
            "seen there; `stoker gather --unmasked` keeps the addresses.\n",
            hw_compare_masked_count(s->compare));
}

static void json_machines(const struct comparison *c, struct json_out *w)
{
    json_kv_arr(w, "machines");
    for (size_t i = 0; i < c->count; i++) {
        const struct compare_machine *m = &c->machines[i];

        json_obj(w);
        json_kv_str(w, "name", m->name);
        json_kv_str(w, "file", m->file);
        json_kv_str(w, "host", m->host);
        json_kv_str(w, "group", c->sides[m->group].node ? c->sides[m->group].node->name : NULL);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_findings(const struct comparison *c, struct json_out *w)
{
    json_kv_arr(w, "contradictions");
    for (size_t i = 0; i < c->findings_count; i++) {
        const struct finding *f = &c->findings[i];

        json_obj(w);
        json_kv_int(w, "line", f->at.line);
        json_kv_int(w, "column", f->at.col);
        json_kv_str(w, "group", f->group);
        json_kv_str(w, "what", f->what);
        json_kv_str(w, "spec", f->spec);
        json_kv_str(w, "found", f->found);
        json_kv_bool(w, "hard", f->hard);
        json_kv_arr(w, "machines");
        for (size_t k = 0; k < c->count; k++)
            if (hw_compare_in(&f->set, k))
                json_add_str(w, c->machines[k].name);
        json_arr_end(w);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void print_json(const struct comparison *c, bool equal, struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.compare/1");
    json_kv_str(&w, "spec", c->o->nodes);
    json_kv_bool(&w, "equal", equal);
    json_machines(c, &w);
    json_findings(c, &w);
    json_kv_arr(&w, "groups");
    for (size_t i = 0; i < c->sides_count; i++) {
        const struct compare_side *s = &c->sides[i];

        if (!s->compare)
            continue;
        json_obj(&w);
        json_kv_str(&w, "name", s->node ? s->node->name : NULL);
        json_kv_int(&w, "machines", (int64_t)s->count);
        json_kv_int(&w, "values", (int64_t)hw_compare_rows(s->compare));
        json_key(&w, "differences");
        hw_compare_json(s->diffs, s->diffs_count, s->names, s->count, &w);
        json_kv_int(&w, "masked", (int64_t)hw_compare_masked_count(s->compare));
        json_key(&w, "twins");
        hw_compare_json_twins(s->twins, s->twins_count, s->names, s->count, &w);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_doc_end(&w);
}

static void tell_all(struct comparison *c)
{
    struct buf *out = &c->ctx->out;
    bool equal = !c->findings_count;

    machines_name(c);
    for (size_t i = 0; i < c->sides_count; i++) {
        struct compare_side *s = &c->sides[i];

        if (s->compare) {
            s->diffs = hw_compare_end(s->compare, &s->diffs_count);
            s->twins = hw_compare_twins(s->compare, &s->twins_count);
        }
        equal = equal && !s->diffs_count && !s->twins_count;
    }
    c->ctx->status = equal ? 0 : 1;
    if (c->o->json) {
        print_json(c, equal, out);
        return;
    }
    if (c->findings_count)
        print_findings(c, out);
    for (size_t i = 0; i < c->sides_count; i++)
        if (c->sides[i].compare)
            print_side(c, &c->sides[i], out);
}

/* ---- the whole ---- */

static enum rc compare_opts(const struct cmd_ctx *ctx, const struct detect_opts *o, struct err *err)
{
    if (o->root || o->with.count)
        return err_set(err, RC_USAGE, "option '%s' is about one machine: leave it out",
                       o->root ? "--root" : "--with");
    if (ctx->argc < 2 && !o->nodes && (!ctx->argc || !file_is_dir(ctx->argv[0]))) {
        err_hint(err, "Name captures of 'stoker gather' or inventories of 'stoker detect --json', "
                      "or a folder of them.");
        return err_set(err, RC_USAGE, "option '--compare' needs at least two machines");
    }
    return RC_OK;
}

enum rc detect_compare(struct cmd_ctx *ctx, struct err *err)
{
    struct comparison c = { .ctx = ctx, .o = ctx->opts };
    struct err lost = { 0 };
    enum rc rc = compare_opts(ctx, c.o, err);

    for (int i = 0; i < ctx->argc && rc == RC_OK; i++)
        rc = machine_paths_add(&c.paths, ctx->argv[i], HW_COMPARE_MACHINES_MAX, err);
    if (rc == RC_OK && c.o->nodes)
        rc = spec_read(&c, err);
    c.sides_count = c.spec ? c.spec->node_count + 1 : 1;
    c.sides = xcalloc(c.sides_count, sizeof(*c.sides));
    c.machines = xcalloc(c.paths.count + 1, sizeof(*c.machines));
    for (size_t i = 0; c.spec && i < c.spec->node_count; i++)
        c.sides[i].node = &c.spec->nodes[i];
    if (rc == RC_OK)
        rc = machines_add(&c, &lost, err);
    if (rc == RC_OK && (!lost.code || c.count > (c.spec ? 0 : 1)))
        tell_all(&c);
    if (rc == RC_OK && lost.code) {
        *err = lost;
        rc = lost.code;
    }
    comparison_release(&c);
    return rc;
}
