/* SPDX-License-Identifier: MIT */
/* spec_show: a loaded spec back to YAML and JSON, with where each value came from.
 *
 * The YAML is the same spec again.  A key that the file leaves open can mean more than its default
 * (a target warns of a wish only where there is one, a port may give way to another), so that a
 * default stands behind a '#' like a key that is not set; what is there without one is what the
 * file says. */
#include "base/str.h"
#include "base/text/utf8.h"
#include "spec/spec_int.h"

#include <ctype.h>

enum { SHOW_COMMENT_COL = 48, SHOW_STEP = 2 };

struct spec_writer {
    const struct spec *s;
    const struct term *term;
    unsigned flags;             /* SPEC_SHOW_* */
    const char *const *without; /* NULL-terminated: paths below the root to leave out; or NULL */
    struct buf *path;           /* of the table that is shown */
};

static void show_table(const struct spec_writer *w, const struct spec_table *t, const void *obj,
                       int indent, struct buf *out);

/* May this character stand inside text without quotes?  Stricter than YAML. */
static bool plain_char(const char *p)
{
    if (*p == ' ' || *p == ':')
        return p[1] && p[1] != ' ' && p[1] != '#' && p[1] != ':';
    return isalnum((unsigned char)*p) || strchr("_./$%+=@-", *p);
}

/* Text that YAML reads back as the same text. */
static void yaml_text(const char *s, struct buf *out)
{
    struct json_out w;
    bool plain =
        (isalnum((unsigned char)*s) || *s == '/' || *s == '$' || *s == '.') && !str_eq(s, "null");

    for (const char *p = s; *p && plain; p++)
        plain = plain_char(p);
    if (plain) {
        buf_adds(out, s);
        return;
    }
    json_out_init(&w, out, 0);
    json_add_str(&w, s);
}

static bool row_is_text(const struct spec_row *r)
{
    return r->store == STORE_STR || r->store == STORE_QUANTITY;
}

static bool is_set(const struct spec_writer *w, const void *at)
{
    return spec_where(w->s, at).line != 0;
}

/* Begins the line of a value: behind a '#' when it is a default.  False: it is not wanted. */
static bool line_begin(const struct spec_writer *w, const void *at, int indent, struct buf *out)
{
    if (!is_set(w, at) && w->flags & SPEC_SHOW_SET)
        return false;
    buf_fill(out, ' ', (size_t)indent);
    buf_adds(out, is_set(w, at) ? "" : "# ");
    return true;
}

/* Ends a line with where its value came from. */
static void line_end(const struct spec_writer *w, const struct spec_row *r, const void *at,
                     size_t start, struct buf *out)
{
    struct spec_pos pos = spec_where(w->s, at);
    size_t width = utf8_width(buf_str(out) + start);

    if (pos.line && !(w->flags & SPEC_SHOW_LINES)) {
        buf_addc(out, '\n');
        return;
    }
    buf_fill(out, ' ', width + 2 < SHOW_COMMENT_COL ? SHOW_COMMENT_COL - width : 2);
    if (pos.line && pos.file_no)
        term_text(w->term, out, COLOUR_DIM, "# %s:%d", pos.file, pos.line);
    else if (pos.line)
        term_text(w->term, out, COLOUR_DIM, "# line %d", pos.line);
    else
        term_text(w->term, out, COLOUR_DIM, "# default%s%s", r->dflt_from ? "; " : "",
                  r->dflt_from ? r->dflt_from : "");
    buf_addc(out, '\n');
}

static void not_set(const struct spec_writer *w, const struct spec_row *r, int indent,
                    struct buf *out)
{
    if (!(w->flags & SPEC_SHOW_ALL))
        return;
    buf_fill(out, ' ', (size_t)indent);
    term_text(w->term, out, COLOUR_DIM, "# %s: not set", r->key);
    buf_addc(out, '\n');
}

static void show_value(const struct spec_writer *w, const struct spec_row *r, const void *at,
                       int indent, struct buf *out)
{
    size_t start = out->len;
    struct buf text = { 0 };

    if (!value_text(r, at, &text)) {
        buf_release(&text);
        not_set(w, r, indent, out);
        return;
    }
    if (line_begin(w, at, indent, out)) {
        buf_addf(out, "%s: ", r->key);
        if (row_is_text(r))
            yaml_text(buf_str(&text), out);
        else
            buf_adds(out, buf_str(&text));
        line_end(w, r, at, start, out);
    }
    buf_release(&text);
}

static void show_strs(const struct spec_writer *w, const struct spec_row *r,
                      const struct spec_strs *v, int indent, struct buf *out)
{
    size_t start = out->len;

    if (!v->count && !is_set(w, v)) {
        not_set(w, r, indent, out);
        return;
    }
    buf_fill(out, ' ', (size_t)indent);
    buf_addf(out, "%s: %s", r->key, r->kind == SPEC_GROUPS && v->count == 1 ? "" : "[");
    for (size_t i = 0; i < v->count; i++) {
        buf_adds(out, i ? ", " : "");
        yaml_text(v->items[i], out);
    }
    buf_adds(out, r->kind == SPEC_GROUPS && v->count == 1 ? "" : "]");
    line_end(w, r, v, start, out);
}

static void show_pairs(const struct spec_writer *w, const struct spec_row *r,
                       const struct spec_pairs *v, int indent, struct buf *out)
{
    if (!v->count && !is_set(w, v)) {
        not_set(w, r, indent, out);
        return;
    }
    buf_fill(out, ' ', (size_t)indent);
    buf_addf(out, v->count ? "%s:\n" : "%s: {}\n", r->key);
    for (size_t i = 0; i < v->count; i++) {
        size_t start = out->len;

        buf_fill(out, ' ', (size_t)indent + SHOW_STEP);
        yaml_text(v->items[i].key, out);
        buf_adds(out, ": ");
        yaml_text(v->items[i].value, out);
        line_end(w, r, &v->items[i], start, out);
    }
}

/* Does the file set anything in it? */
static bool is_any_set(const struct spec_writer *w, const struct spec_table *t, const void *obj)
{
    struct spec_writer set = *w;
    struct buf text = { 0 };
    bool any;

    set.flags = (w->flags & ~(unsigned)SPEC_SHOW_ALL) | SPEC_SHOW_SET;
    show_table(&set, t, obj, 0, &text);
    any = text.len > 0;
    buf_release(&text);
    return any;
}

/* "key:" and what is below it, or "key: {}" when that is nothing but comments. */
static void show_sub(const struct spec_writer *w, const char *key, const struct spec_table *t,
                     const void *obj, int indent, struct buf *out)
{
    buf_fill(out, ' ', (size_t)indent);
    yaml_text(key, out);
    buf_adds(out, is_any_set(w, t, obj) ? ":\n" : ": {}\n");
    show_table(w, t, obj, indent + SHOW_STEP, out);
}

/* The first key's indentation makes room for the dash; a comment there gets a line of its own. */
static void show_item(const struct spec_writer *w, const struct spec_table *t, const void *item,
                      int indent, struct buf *out)
{
    size_t start = out->len;
    const size_t dash = (size_t)indent + SHOW_STEP;
    struct buf text = { 0 };

    show_table(w, t, item, indent + 2 * SHOW_STEP, &text);
    if (!is_any_set(w, t, item) || buf_str(&text)[dash + SHOW_STEP] == '#') {
        buf_fill(out, ' ', dash);
        buf_adds(out, is_any_set(w, t, item) ? "-\n" : "- {}\n");
        buf_adds(out, buf_str(&text));
    } else {
        buf_adds(out, buf_str(&text));
        out->data[start + dash] = '-';
    }
    buf_release(&text);
}

static void show_items(const struct spec_writer *w, const struct spec_row *r, const void *obj,
                       int indent, struct buf *out)
{
    const char *items = *(const char *const *)((const char *)obj + r->off);
    size_t count = *(const size_t *)((const char *)obj + r->count_off);

    if (!count) {
        not_set(w, r, indent, out);
        return;
    }
    buf_fill(out, ' ', (size_t)indent);
    buf_addf(out, "%s:\n", r->key);
    for (size_t i = 0; i < count; i++) {
        const char *item = items + i * r->sub->size;

        if (r->kind == SPEC_MAP)
            show_sub(w, *(const char *const *)item, r->sub, item, indent + SHOW_STEP, out);
        else
            show_item(w, r->sub, item, indent, out);
    }
}

/* A section is always there: one in which the file sets nothing is a comment as a whole. */
static void show_section(const struct spec_writer *w, const struct spec_row *r, const void *at,
                         int indent, struct buf *out)
{
    struct buf text = { 0 };

    if (is_any_set(w, r->sub, at)) {
        show_sub(w, r->key, r->sub, at, indent, out);
        return;
    }
    if (w->flags & SPEC_SHOW_SET)
        return;
    show_table(w, r->sub, at, indent + SHOW_STEP, &text);
    if (text.len) {
        buf_fill(out, ' ', (size_t)indent);
        buf_addf(out, "# %s:\n%s", r->key, buf_str(&text));
    }
    buf_release(&text);
}

static void show_row(const struct spec_writer *w, const struct spec_row *r, const void *obj,
                     int indent, struct buf *out)
{
    const char *at = (const char *)obj + r->off;

    switch (r->kind) {
    case SPEC_SECTION:
        show_section(w, r, at, indent, out);
        break;
    case SPEC_OPTION:
        if (*(const void *const *)at)
            show_sub(w, r->key, r->sub, *(const void *const *)at, indent, out);
        else
            not_set(w, r, indent, out);
        break;
    case SPEC_LIST:
    case SPEC_MAP:
        show_items(w, r, obj, indent, out);
        break;
    default:
        if (r->store == STORE_STRS)
            show_strs(w, r, (const void *)at, indent, out);
        else if (r->store == STORE_PAIRS)
            show_pairs(w, r, (const void *)at, indent, out);
        else
            show_value(w, r, at, indent, out);
    }
}

static bool row_is_left_out(const struct spec_writer *w, const struct spec_table *t,
                            const struct spec_row *r)
{
    bool env = t->size == sizeof(struct spec_component) && r->store == STORE_PAIRS;

    if (t == &spec_schema && str_eq(r->key, "include"))
        return true; /* it is all here */
    for (size_t i = 0; w->without && w->without[i]; i++)
        if (str_eq(w->without[i], buf_str(w->path)))
            return true;
    return env && w->flags & SPEC_SHOW_AGENT;
}

static void show_table(const struct spec_writer *w, const struct spec_table *t, const void *obj,
                       int indent, struct buf *out)
{
    for (size_t i = 0; i < t->count; i++) {
        size_t mark = w->path->len;

        buf_addf(w->path, "%s%s", mark ? "." : "", t->rows[i].key);
        if (!row_is_left_out(w, t, &t->rows[i]))
            show_row(w, &t->rows[i], obj, indent, out);
        w->path->len = mark;
        w->path->data[mark] = '\0';
    }
}

void spec_show(const struct spec *s, const struct term *term, unsigned flags, struct buf *out)
{
    struct buf path = { 0 };
    struct spec_writer w = { .s = s, .term = term, .flags = flags, .path = &path };

    if (!is_any_set(&w, &spec_schema, s))
        buf_adds(out, "{}\n");
    show_table(&w, &spec_schema, s, 0, out);
    buf_release(&path);
}

void spec_show_set(const struct spec *s, unsigned flags, const char *const *without,
                   struct buf *out)
{
    struct buf path = { 0 };
    struct spec_writer w = { .s = s,
                             .term = &(struct term){ 0 },
                             .flags = flags | SPEC_SHOW_SET,
                             .without = without,
                             .path = &path };

    show_table(&w, &spec_schema, s, 0, out);
    buf_release(&path);
}

/* --- JSON --- */
static void json_table(struct json_out *w, const struct spec_table *t, const void *obj,
                       const char *name);

static void json_strs(struct json_out *w, const struct spec_strs *v)
{
    json_arr(w);
    for (size_t i = 0; i < v->count; i++)
        json_add_str(w, v->items[i]);
    json_arr_end(w);
}

static void json_pairs(struct json_out *w, const struct spec_pairs *v)
{
    json_obj(w);
    for (size_t i = 0; i < v->count; i++)
        json_kv_str(w, v->items[i].key, v->items[i].value);
    json_obj_end(w);
}

static void json_items(struct json_out *w, const struct spec_row *r, const void *obj)
{
    const char *items = *(const char *const *)((const char *)obj + r->off);
    size_t count = *(const size_t *)((const char *)obj + r->count_off);

    if (r->kind == SPEC_MAP)
        json_obj(w);
    else
        json_arr(w);
    for (size_t i = 0; i < count; i++) {
        const char *item = items + i * r->sub->size;

        if (r->kind == SPEC_MAP)
            json_key(w, *(const char *const *)item);
        json_table(w, r->sub, item, NULL);
    }
    if (r->kind == SPEC_MAP)
        json_obj_end(w);
    else
        json_arr_end(w);
}

static void json_row(struct json_out *w, const struct spec_row *r, const void *obj)
{
    const char *at = (const char *)obj + r->off;

    json_key(w, r->key);
    if (r->kind == SPEC_SECTION)
        json_table(w, r->sub, at, NULL);
    else if (r->kind == SPEC_OPTION && !*(const void *const *)at)
        json_add_null(w);
    else if (r->kind == SPEC_OPTION)
        json_table(w, r->sub, *(const void *const *)at, NULL);
    else if (spec_kind_is_tree(r->kind))
        json_items(w, r, obj);
    else if (r->kind == SPEC_GROUPS && ((const struct spec_strs *)(const void *)at)->count < 2)
        json_add_str(w, *(const char *const *)((const char *)obj + r->first_off));
    else if (r->store == STORE_STRS)
        json_strs(w, (const void *)at);
    else if (r->store == STORE_PAIRS)
        json_pairs(w, (const void *)at);
    else
        value_json(r, at, w);
}

static void json_table(struct json_out *w, const struct spec_table *t, const void *obj,
                       const char *name)
{
    if (name)
        json_key(w, name);
    json_obj(w);
    for (size_t i = 0; i < t->count; i++)
        json_row(w, &t->rows[i], obj);
    json_obj_end(w);
}

struct origins {
    const struct spec *s;
    struct json_out *w;
    struct buf path;
};

static void origin_add(struct origins *o, const void *at)
{
    struct spec_pos pos = spec_where(o->s, at);

    if (!pos.line)
        return;
    json_obj(o->w);
    json_kv_str(o->w, "path", buf_str(&o->path));
    json_kv_str(o->w, "file", pos.file);
    json_kv_int(o->w, "line", pos.line);
    json_kv_int(o->w, "column", pos.col);
    json_obj_end(o->w);
}

static void origins_table(struct origins *o, const struct spec_table *t, const void *obj);

static void origins_row(struct origins *o, const struct spec_row *r, const void *obj)
{
    const char *at = (const char *)obj + r->off;
    const char *items;
    size_t count, mark;

    if (r->kind == SPEC_SECTION || r->kind == SPEC_OPTION) {
        const void *sub = r->kind == SPEC_SECTION ? at : *(const void *const *)at;

        if (sub)
            origins_table(o, r->sub, sub);
        return;
    }
    if (!spec_kind_is_tree(r->kind)) {
        origin_add(o, at);
        return;
    }
    items = *(const char *const *)at;
    count = *(const size_t *)((const char *)obj + r->count_off);
    for (size_t i = 0; i < count; i++) {
        mark = o->path.len;
        if (r->kind == SPEC_MAP)
            buf_addf(&o->path, ".%s", *(const char *const *)(items + i * r->sub->size));
        else
            buf_addf(&o->path, "[%zu]", i);
        origins_table(o, r->sub, items + i * r->sub->size);
        o->path.len = mark;
        o->path.data[mark] = '\0';
    }
}

static void origins_table(struct origins *o, const struct spec_table *t, const void *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        size_t mark = o->path.len;

        buf_addf(&o->path, "%s%s", mark ? "." : "", t->rows[i].key);
        origins_row(o, &t->rows[i], obj);
        o->path.len = mark;
        o->path.data[mark] = '\0';
    }
}

void spec_show_json(const struct spec *s, struct buf *out)
{
    struct json_out w;
    struct origins o = { .s = s, .w = &w };

    json_doc(&w, out, "stoker.spec-show/1");
    json_kv_str(&w, "file", spec_file(s));
    json_table(&w, &spec_schema, s, "spec");
    json_kv_arr(&w, "origins");
    origins_table(&o, &spec_schema, s);
    json_arr_end(&w);
    json_doc_end(&w);
    buf_release(&o.path);
}
