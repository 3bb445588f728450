/* SPDX-License-Identifier: MIT */
/* schema_doc: the reference of stoker.yaml, for a terminal and as docs/reference/spec.md.
 * Everything in it comes from the rows of spec_schema.c. */
#include "base/str.h"
#include "base/text/json.h"
#include "spec/spec_int.h"

#include <inttypes.h>

static const struct {
    enum spec_kind kind;
    const char *word;
} kind_words[] = {
    { SPEC_STR, "text" },
    { SPEC_NAME, "a name" },
    { SPEC_LABEL, "a name" },
    { SPEC_PATH, "an absolute path" },
    { SPEC_WORD, "a word" },
    { SPEC_RANGE, "indexes (0-3,6)" },
    { SPEC_BOOL, "true or false" },
    { SPEC_INT, "a whole number" },
    { SPEC_COUNT, "a number (7B, 1.4T)" },
    { SPEC_FLOAT, "a number" },
    { SPEC_PERCENT, "a percentage (80%)" },
    { SPEC_PORT, "a port number" },
    { SPEC_BYTES, "a size (64GiB)" },
    { SPEC_RATE, "a rate (400Gb/s)" },
    { SPEC_BANDWIDTH, "a rate (900GB/s)" },
    { SPEC_DURATION, "a duration (5m)" },
    { SPEC_QUANTITY, "a number with its unit (80%, 85C, 700W, 20GB)" },
    { SPEC_STRS, "a list of text" },
    { SPEC_CIDRS, "a list of subnets (10.0.1.0/24)" },
    { SPEC_PAIRS, "a map of text" },
    { SPEC_ENV, "a map of environment variables" },
    { SPEC_SECTION, "a map" },
    { SPEC_OPTION, "a map" },
    { SPEC_LIST, "a list of maps" },
    { SPEC_MAP, "a map of names" },
};

static void money_type(const struct spec_row *r, struct buf *out)
{
    buf_adds(out, r->per == PER_ONCE    ? "an amount ($3.50)"
                  : r->per == PER_HOUR  ? "an amount an hour ($3.50/h)"
                  : r->per == PER_DAY   ? "an amount a day ($5000/d)"
                  : r->per == PER_MONTH ? "an amount a month ($150000/mo)"
                                        : "an amount with its period ($3.50/h)");
}

void spec_row_type(const struct spec_row *r, struct buf *out)
{
    if (r->kind == SPEC_MONEY) {
        money_type(r, out);
    } else if (r->refers) {
        buf_addf(out, "%s of '%s'",
                 r->kind == SPEC_REF      ? "a name"
                 : r->kind == SPEC_GROUPS ? "a name or a list of names"
                                          : "a list of names",
                 r->refers);
    } else if (r->kind == SPEC_CHOICE) {
        for (size_t i = 0; r->choices[i]; i++)
            buf_addf(out, "%s%s", i ? ", " : "one of ", r->choices[i]);
    } else {
        for (size_t i = 0; i < ARRAY_SIZE(kind_words); i++)
            if (kind_words[i].kind == r->kind)
                buf_adds(out, kind_words[i].word);
    }
}

/* The bounds of a number, in the words of a value. */
static void row_bounds(const struct spec_row *r, struct buf *out)
{
    struct spec_row v = { .kind = r->kind, .store = STORE_I64 };

    if ((!r->min && !r->max) || r->kind == SPEC_FLOAT || r->kind == SPEC_PERCENT)
        return;
    buf_adds(out, ", ");
    (void)value_text(&v, &r->min, out);
    if (r->max != INT64_MAX) {
        buf_adds(out, " to ");
        (void)value_text(&v, &r->max, out);
    } else {
        buf_adds(out, " or more");
    }
}

/* How the items of a list or map are named in a path. */
static const char *row_items(const struct spec_row *r)
{
    return r->kind == SPEC_LIST ? "[]" : r->kind == SPEC_MAP ? ".NAME" : "";
}

/* --- terminal and JSON --- */
struct doc_to {
    const struct term *term;
    struct buf *out;
    struct json_out *json; /* NULL: text */
};

static void row_text(const struct doc_to *to, const char *path, const char *type,
                     const struct spec_row *r)
{
    term_text(to->term, to->out, COLOUR_BOLD, "%s", path);
    buf_addf(to->out, "  %s", type);
    if (r->required)
        term_text(to->term, to->out, COLOUR_YELLOW, " (required)");
    else if (r->dflt)
        buf_addf(to->out, " (default %s%s%s)", r->dflt, r->dflt_from ? "; " : "",
                 r->dflt_from ? r->dflt_from : "");
    buf_addc(to->out, '\n');
    term_wrap(to->term, to->out, 4, r->doc);
}

static void row_json(struct json_out *w, const char *path, const char *type,
                     const struct spec_row *r)
{
    json_obj(w);
    json_kv_str(w, "key", path);
    json_kv_str(w, "value", type);
    json_kv_str(w, "default", r->dflt);
    json_kv_bool(w, "required", r->required);
    json_kv_str(w, "meaning", r->doc);
    json_obj_end(w);
}

static void doc_row(const struct doc_to *to, const char *path, const struct spec_row *r)
{
    struct buf type = { 0 };

    spec_row_type(r, &type);
    if (r->kind != SPEC_CHOICE)
        row_bounds(r, &type);
    if (to->json)
        row_json(to->json, path, buf_str(&type), r);
    else
        row_text(to, path, buf_str(&type), r);
    buf_release(&type);
}

static void doc_table(const struct doc_to *to, const char *prefix, const struct spec_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct spec_row *r = &t->rows[i];
        struct buf path = { 0 };

        buf_addf(&path, "%s%s%s", prefix, *prefix ? "." : "", r->key);
        doc_row(to, buf_str(&path), r);
        if (spec_kind_is_tree(r->kind)) {
            buf_adds(&path, row_items(r));
            doc_table(to, buf_str(&path), r->sub);
        }
        buf_release(&path);
    }
}

/* The next part of "nodes[0].gpu", without its index. */
static const char *next_part(const char *p, char *out, size_t cap)
{
    size_t n = strcspn(p, "."), name = strcspn(p, ".[");

    snprintf(out, cap, "%.*s", (int)(name < cap ? name : cap - 1), p);
    return p[n] ? p + n + 1 : p + n;
}

static const char *near_key(const struct spec_table *t, const char *part)
{
    const char *names[64];
    size_t n = 0;

    for (; n < t->count && n < ARRAY_SIZE(names); n++)
        names[n] = t->rows[n].key;
    return str_nearest(part, names, n);
}

static enum rc doc_unknown(const struct spec_table *t, const char *part, const char *path,
                           struct err *err)
{
    const char *near = near_key(t, part);

    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "`stoker spec doc` lists every key.");
    if (str_eq(part, path))
        return err_set(err, RC_USAGE, "there is no key '%s'", part);
    return err_set(err, RC_USAGE, "there is no key '%s' in '%s'", part, path);
}

static enum rc doc_path(const char *path, const struct doc_to *to, struct err *err)
{
    const struct spec_table *t = &spec_schema;
    const struct spec_row *r = NULL;
    struct buf full = { 0 };
    const char *p = path ? path : "";
    char part[128];

    while (*p) {
        const struct spec_row *next;

        p = next_part(p, part, sizeof(part));
        next = t ? spec_row_find(t, part) : NULL;
        if (!next && r && r->kind == SPEC_MAP && (*p || !near_key(t, part))) {
            if (!*p) /* that was somebody's name for an item */
                break;
            p = next_part(p, part, sizeof(part));
            next = spec_row_find(t, part);
        }
        if (!next) {
            buf_release(&full);
            return doc_unknown(t ? t : &spec_schema, part, path, err);
        }
        buf_addf(&full, "%s%s%s", r ? row_items(r) : "", full.len ? "." : "", next->key);
        r = next;
        t = r->sub;
    }
    if (r)
        doc_row(to, buf_str(&full), r);
    if (t) {
        buf_adds(&full, r ? row_items(r) : "");
        doc_table(to, buf_str(&full), t);
    }
    buf_release(&full);
    return RC_OK;
}

enum rc spec_doc(const char *path, const struct term *term, struct buf *out, struct err *err)
{
    const struct doc_to to = { .term = term, .out = out };

    return doc_path(path, &to, err);
}

enum rc spec_doc_json(const char *path, struct buf *out, struct err *err)
{
    struct buf text = { 0 };
    struct json_out w;
    const struct doc_to to = { .json = &w };
    enum rc rc;

    json_out_init(&w, &text, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.spec-keys/1");
    json_kv_arr(&w, "keys");
    rc = doc_path(path, &to, err);
    json_arr_end(&w);
    json_obj_end(&w);
    if (!rc)
        buf_addf(out, "%s\n", buf_str(&text));
    buf_release(&text);
    return rc;
}

/* --- Markdown --- */
static void md_text(const char *s, struct buf *out)
{
    for (; *s; s++) {
        if (*s == '|' || *s == '<' || *s == '*')
            buf_addc(out, '\\');
        buf_addc(out, *s);
    }
}

static void md_table(const char *prefix, const struct spec_table *t, struct buf *out)
{
    buf_adds(out, "| key | value | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < t->count; i++) {
        const struct spec_row *r = &t->rows[i];
        struct buf type = { 0 };

        spec_row_type(r, &type);
        if (r->kind != SPEC_CHOICE)
            row_bounds(r, &type);
        buf_addf(out, "| `%s` | ", r->key);
        md_text(buf_str(&type), out);
        buf_adds(out, " | ");
        if (r->dflt)
            buf_addf(out, "`%s`%s%s", r->dflt, r->dflt_from ? "; " : "",
                     r->dflt_from ? r->dflt_from : "");
        else if (r->required)
            buf_adds(out, "**required**");
        buf_adds(out, " | ");
        md_text(r->doc, out);
        buf_adds(out, " |\n");
        buf_release(&type);
    }
    for (size_t i = 0; i < t->count; i++) {
        const struct spec_row *r = &t->rows[i];
        struct buf path = { 0 };

        if (!spec_kind_is_tree(r->kind))
            continue;
        buf_addf(&path, "%s%s%s%s", prefix, *prefix ? "." : "", r->key, row_items(r));
        buf_addf(out, "\n## `%s`\n\n%c%s.\n\n", buf_str(&path),
                 r->doc[0] >= 'a' && r->doc[0] <= 'z' ? r->doc[0] - 'a' + 'A' : r->doc[0],
                 r->doc + 1);
        md_table(buf_str(&path), r->sub, out);
        buf_release(&path);
    }
}

void spec_doc_markdown(struct buf *out)
{
    buf_adds(
        out,
        "# stoker.yaml\n\n"
        "One file describes a site. Every key is listed here; the page is written by\n"
        "`stoker spec doc --markdown` from the table in src/spec/schema/spec_schema.c.\n\n"
        "- `stoker spec example NAME` prints a complete spec to start from.\n"
        "- `stoker spec check FILE` reports every error with its line and column.\n"
        "- `stoker spec show FILE` prints all values, defaults filled in.\n\n"
        "Units: sizes `64GiB` (2^30) and `80GB` (10^9), rates `400Gb/s` (bits) and `25GB/s`\n"
        "(bytes), durations `90s` `5m` `12h` `7d` `250ms` `1h30m`, money `$3.50/h` `$5000/d`\n"
        "`$150000/mo`, percentages `80%`, counts `7B` `1.4T`. Case matters.\n\n"
        "A name has lower-case letters, digits, `-` and `_`. `NAME` in a heading stands for\n"
        "a name of your own, `[]` for the items of a list. A file has at most 1 MiB, 32\n"
        "levels, 100,000 values and one document; aliases (`*name`) may be used, directives,\n"
        "tags and merge keys not; unknown keys are errors.\n\n"
        "`include: [nodes.yaml, alerts/gpu.yaml]` takes in other files, each with any of the\n"
        "keys: maps are joined, lists are put one behind the other, a single value may be given\n"
        "in one file only. Paths are relative to the file that names them and stay below the\n"
        "spec's folder; at most 64 files, 4 deep, 4 MiB together.\n\n"
        "## The document\n\n");
    md_table("", &spec_schema, out);
}
