/* SPDX-License-Identifier: MIT */
/* against_write: the comparison for people and as JSON (stoker.against/1). */
#include "nccl/against/against_int.h"

#include "base/str.h"
#include "base/text/json.h"

/* In the table rows of one kind with the same answers are one line: "GPU 0 and GPU 1, …". */
static bool rows_alike(const struct nccl_against_row *a, const struct nccl_against_row *b)
{
    return a->verdict == b->verdict && str_eq(a->about, b->about) && str_eq(a->ours, b->ours) &&
           str_eq(a->theirs, b->theirs) && a->verdict != NCCL_DIFFERS;
}

static bool said_before(const struct nccl_against *g, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (rows_alike(&g->rows[k], &g->rows[i]))
            return true;
    return false;
}

static void names_text(const struct nccl_against *g, size_t i, struct buf *out)
{
    enum { NAMED_MAX = 4 };
    size_t n = 0;

    for (size_t k = i; k < g->count; k++) {
        if (k != i && !rows_alike(&g->rows[k], &g->rows[i]))
            continue;
        if (n++ < NAMED_MAX)
            buf_addf(out, "%s%s", n > 1 ? ", " : "", g->rows[k].what);
    }
    if (n > NAMED_MAX)
        buf_addf(out, " and %zu more", n - NAMED_MAX);
}

static void add_row(struct table *t, const struct nccl_against *g, size_t i)
{
    const struct nccl_against_row *r = &g->rows[i];
    struct buf names = { 0 };

    names_text(g, i, &names);
    table_row(t);
    table_cell(t,
               r->verdict == NCCL_DIFFERS ? COLOUR_RED
               : r->verdict == NCCL_SAME  ? COLOUR_GREEN
                                          : COLOUR_DIM,
               "%s", nccl_verdict_name(r->verdict));
    table_cell(t, COLOUR_NONE, "%s", r->about);
    table_cell(t, COLOUR_NONE, "%s", buf_str(&names));
    table_cell(t, COLOUR_NONE, "%s", r->ours ? r->ours : "-");
    table_cell(t, COLOUR_NONE, "%s", r->theirs ? r->theirs : "-");
    if (r->line)
        table_cell(t, COLOUR_DIM, "%zu", r->line);
    else
        table_cell(t, COLOUR_DIM, "-");
    buf_release(&names);
}

static void write_whys(const struct nccl_against *g, const struct term *term, struct buf *out)
{
    for (size_t i = 0; i < g->count; i++) {
        const struct nccl_against_row *r = &g->rows[i];
        struct buf text = { 0 };

        if (r->verdict != NCCL_DIFFERS || !r->why)
            continue;
        buf_addf(&text, "%s: we say %s.  %s", r->what, r->ours, r->why);
        term_wrap(term, out, 2, buf_str(&text));
        buf_release(&text);
    }
}

static void write_vars(const struct nccl_against *g, const struct term *term, struct buf *out)
{
    struct buf text = { 0 };

    FOR_EACH(const struct nccl_against_var, v, g->vars) {
        if (!str_eq(v->here, v->value))
            buf_addf(&text, "%s%s=%s", text.len ? ", " : "Followed from the log: ", v->name,
                     v->value);
    }
    if (text.len) {
        buf_addc(&text, '.');
        term_wrap(term, out, 2, buf_str(&text));
    }
    buf_release(&text);
}

void nccl_against_write(const struct nccl_against *g, const struct term *term, struct buf *out)
{
    static const enum nccl_verdict order[] = { NCCL_DIFFERS, NCCL_SAME, NCCL_UNTOLD };
    struct table *t = table_new();

    table_col(t, "VERDICT", TABLE_WHOLE);
    table_col(t, "ABOUT", TABLE_WHOLE);
    table_col(t, "WHAT", TABLE_SHRINK);
    table_col(t, "STOKER", TABLE_LEFT);
    table_col(t, "NCCL", TABLE_LEFT);
    table_col(t, "LINE", TABLE_RIGHT);
    for (size_t v = 0; v < ARRAY_SIZE(order); v++)
        for (size_t i = 0; i < g->count; i++)
            if (g->rows[i].verdict == order[v] && !said_before(g, i))
                add_row(t, g, i);
    table_print(t, term, 0, out);
    table_free(t);
    write_whys(g, term, out);
    write_vars(g, term, out);
    buf_addf(out, "%zu the same, %zu different, %zu unknown%s%s%s%s\n", g->same, g->differs,
             g->untold, g->host ? "; host " : "", g->host ? g->host : "",
             g->version ? ", NCCL " : "", g->version ? g->version : "");
}

static void json_rows(struct json_out *w, const struct nccl_against *g)
{
    json_kv_arr(w, "rows");
    for (size_t i = 0; i < g->count; i++) {
        const struct nccl_against_row *r = &g->rows[i];

        json_obj(w);
        json_kv_str(w, "verdict", nccl_verdict_name(r->verdict));
        json_kv_str(w, "about", r->about);
        json_kv_str(w, "what", r->what);
        json_kv_str(w, "stoker", r->ours);
        json_kv_str(w, "nccl", r->theirs);
        json_kv_str(w, "why", r->why);
        json_kv_maybe(w, "line", r->line ? maybe_of((int64_t)r->line) : maybe_none());
        json_obj_end(w);
    }
    json_arr_end(w);
}

void nccl_against_json(const struct nccl_against *g, struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.against/1");
    json_kv_str(&w, "source", g->source);
    json_kv_str(&w, "host", g->host);
    json_kv_str(&w, "nccl_version", g->version);
    json_kv_int(&w, "same", (int64_t)g->same);
    json_kv_int(&w, "different", (int64_t)g->differs);
    json_kv_int(&w, "unknown", (int64_t)g->untold);
    json_kv_arr(&w, "variables");
    for (size_t i = 0; i < g->vars_count; i++) {
        json_obj(&w);
        json_kv_str(&w, "name", g->vars[i].name);
        json_kv_str(&w, "value", g->vars[i].value);
        json_kv_str(&w, "here", g->vars[i].here);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_rows(&w, g);
    json_doc_end(&w);
}
