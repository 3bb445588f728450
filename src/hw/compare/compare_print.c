/* SPDX-License-Identifier: MIT */
/* compare_print: differences as a table and as JSON.
 *
 * JSON has every difference.  The table joins what is one thing to a reader: items of one field
 * whose machines and values are the same ("gpus.vbios" of GPUs 0-7), items whose values differ but
 * the machines do not (eight PCI addresses of a machine with other bus numbers), and all that is
 * unknown on the same machines. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "base/text/utf8.h"
#include "hw/compare/compare_int.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    ITEMS_SHOWN_MAX = 32,  /* bytes of a list of items, but for the last */
    NAMES_SHOWN_MAX = 400, /* bytes of a list of names */
    VALUES_SHOWN_MAX = 8,  /* values of a line beside the majority's */
    VALUE_SHOWN_MAX = 40,  /* characters of a value in the table */
    WHAT_SHOWN_MAX = 72,   /* columns of a field with its items */
    ALIKE_SHOWN_MAX = 3,   /* lines of one field about the same machines */
    UNKNOWN_SHOWN_MAX = 6  /* fields named in a line of unknowns */
};

/* ---- lists of names: "gpu[1-4,7], login1" ---- */

static int by_version(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t stem_len(const char *s)
{
    size_t n = strlen(s);

    while (n && s[n - 1] >= '0' && s[n - 1] <= '9')
        n--;
    return strlen(s) - n > 18 ? strlen(s) : n; /* no number of ours is longer */
}

/* Is `b` the name behind `a`, with the next number? */
static bool is_next(const char *a, const char *b)
{
    size_t n = stem_len(a);

    return n == stem_len(b) && !strncmp(a, b, n) && a[n] && b[n] &&
           atoll(b + n) == atoll(a + n) + 1 &&
           (strlen(a) == strlen(b) || (a[n] != '0' && b[n] != '0'));
}

static bool same_stem(const char *a, const char *b)
{
    size_t n = stem_len(a);

    return a[n] && n == stem_len(b) && b[n] && !strncmp(a, b, n);
}

/* The run of names from `i` that differ in their number only; returns where it ends. */
static size_t names_run(const char **v, size_t count, size_t i, struct buf *out)
{
    size_t end = i + 1, stem = stem_len(v[i]);

    while (end < count && same_stem(v[i], v[end]))
        end++;
    if (end == i + 1) {
        buf_adds(out, v[i]);
        return end;
    }
    buf_addf(out, "%.*s%s", (int)stem, v[i], stem ? "[" : "");
    for (size_t k = i, last; k < end; k = last + 1) {
        for (last = k; last + 1 < end && is_next(v[last], v[last + 1]);)
            last++;
        buf_addf(out, "%s%s", k > i ? "," : "", v[k] + stem);
        if (last > k)
            buf_addf(out, "-%s", v[last] + stem);
    }
    buf_adds(out, stem ? "]" : "");
    return end;
}

static void names_list(const char **v, size_t count, size_t max, struct buf *out)
{
    size_t start = out->len, i = 0;

    qsort(v, count, sizeof(*v), by_version);
    while (i < count) {
        if (out->len - start > max) {
            buf_addf(out, " and %zu more", count - i);
            return;
        }
        buf_adds(out, i ? ", " : "");
        i = names_run(v, count, i, out);
    }
}

void hw_compare_names(const struct hw_compare_set *s, const char *const *names, size_t count,
                      struct buf *out)
{
    const char **v = xcalloc(count + 1, sizeof(*v));
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (hw_compare_in(s, i))
            v[n++] = names[i];
    names_list(v, n, NAMES_SHOWN_MAX, out);
    free(v);
}

/* ---- a value ---- */

/* What is too long for the table is cut where the values of a line are the same, so that what
 * differs is seen: `same` bytes at their beginning. */
static void text_cut(struct buf *out, const char *s, size_t same)
{
    char cut[VALUE_SHOWN_MAX + 1];
    bool inside = same > VALUE_SHOWN_MAX / 2;

    if (str_copy(cut, sizeof(cut), s)) {
        buf_adds(out, s);
        return;
    }
    if (inside)
        s += same - VALUE_SHOWN_MAX / 2;
    while (inside && ((unsigned char)*s & 0xc0) == 0x80) /* not in the middle of a character */
        s++;
    buf_adds(out, inside ? "…" : "");
    if (str_copy(cut, sizeof(cut), s)) {
        buf_adds(out, s);
        return;
    }
    str_make_text(cut);
    buf_addf(out, "%s…", cut);
}

/* How many bytes all texts of a line begin with. */
static size_t text_same(const struct hw_compare_diff *d)
{
    const char *first = NULL;
    size_t same = 0;

    for (size_t i = 0; i < d->count; i++) {
        const struct hw_compare_value *v = d->values[i];
        size_t n = 0;

        if (v->kind == HW_COMPARE_UNKNOWN || v->kind == HW_COMPARE_MISSING ||
            v->kind == HW_COMPARE_OTHER || !v->text)
            continue;
        while (first && v->text[n] && v->text[n] == first[n])
            n++;
        same = !first ? strlen(v->text) : n < same ? n : same;
        first = first ? first : v->text;
    }
    return same;
}

/* Numbers that everybody writes in hexadecimal digits. */
static bool is_id(const char *field)
{
    return str_eq(field, "pci.vendor") || str_eq(field, "pci.device") || str_eq(field, "pci.class");
}

static void value_show(const struct hw_compare_diff *d, const struct hw_compare_value *v,
                       struct buf *out)
{
    char human[UNITS_TEXT_MAX];
    int64_t n;

    if (v->kind == HW_COMPARE_UNKNOWN)
        buf_adds(out, "unknown");
    else if (v->kind == HW_COMPARE_MISSING)
        buf_adds(out, "missing");
    else if (v->kind == HW_COMPARE_OTHER)
        buf_adds(out, "another each");
    else if (str_ends(d->field, "_bytes") && str_to_i64(v->text, 10, &n))
        buf_adds(out, n < 0 ? "unlimited" : units_bytes_human((uint64_t)n, human));
    else if (str_ends(d->field, "_mw") && str_to_i64(v->text, 10, &n))
        buf_addf(out, "%" PRId64 ".%01" PRId64 " W", n / 1000, n % 1000 / 100);
    else if (is_id(d->field) && str_to_i64(v->text, 10, &n))
        buf_addf(out, "%" PRIx64, n);
    else
        text_cut(out, *v->text ? v->text : "''", text_same(d));
}

/* ---- the table ---- */

struct compare_line {
    const struct hw_compare_diff *d;
    size_t odd;
    uint32_t machines; /* hash of the sets of machines */
    uint32_t values;   /* and of the values that they have */
    bool unknown;      /* all that differs is that it is not known */
};

static uint32_t hash_bytes(uint32_t h, const void *p, size_t len)
{
    const unsigned char *b = p;

    for (size_t i = 0; i < len; i++)
        h = (h ^ b[i]) * 16777619U; /* FNV-1a */
    return h;
}

static struct compare_line line_of(const struct hw_compare_diff *d)
{
    struct compare_line l = {
        .d = d, .odd = hw_compare_odd(d), .machines = 2166136261U, .unknown = !d->tie
    };

    for (size_t i = 0; i < d->count; i++) {
        const struct hw_compare_value *v = d->values[i];

        if (i || d->tie)
            l.machines = hash_bytes(l.machines, &v->set, sizeof(v->set));
        l.values = hash_bytes(l.values, &v->kind, sizeof(v->kind));
        if (v->text)
            l.values = hash_bytes(l.values, v->text, strlen(v->text) + 1);
        l.unknown = l.unknown && (!i || v->kind == HW_COMPARE_UNKNOWN);
    }
    return l;
}

static int by_line(const void *a, const void *b)
{
    const struct compare_line *x = a, *y = b;
    int order;

    if (x->unknown != y->unknown)
        return x->unknown ? 1 : -1;
    if (x->odd != y->odd)
        return x->odd < y->odd ? -1 : 1;
    if (x->unknown && x->machines != y->machines)
        return x->machines < y->machines ? -1 : 1;
    order = strcmp(x->d->field, y->d->field);
    if (!order && x->machines != y->machines)
        return x->machines < y->machines ? -1 : 1;
    if (!order && x->values != y->values)
        return x->values < y->values ? -1 : 1;
    return order ? order : strverscmp(x->d->item, y->d->item);
}

struct compare_print {
    const char *const *names;
    size_t names_count;
    struct table *table;
    struct buf what, most, others;
};

static void others_text(struct compare_print *s, const struct hw_compare_diff *d)
{
    size_t from = d->tie ? 0 : 1;

    buf_adds(&s->others, d->tie ? "no majority: " : "");
    for (size_t i = from; i < d->count; i++) {
        const struct hw_compare_value *v = d->values[i];

        if (i - from == VALUES_SHOWN_MAX) {
            buf_addf(&s->others, "; %zu more values", d->count - i);
            return;
        }
        buf_adds(&s->others, i > from ? "; " : "");
        value_show(d, v, &s->others);
        buf_adds(&s->others, ": ");
        hw_compare_names(&v->set, s->names, s->names_count, &s->others);
    }
}

/* One name of kilobytes would push the columns beside it out of sight, in a pipe too. */
static void what_cut(struct buf *what)
{
    const char *text = buf_str(what);
    size_t at = 0, columns = 0, step;

    while (at < what->len && columns < WHAT_SHOWN_MAX) {
        columns += utf8_columns(text + at, what->len - at, &step);
        at += step;
    }
    if (at == what->len)
        return;
    what->len = at;
    buf_adds(what, "…");
}

static void row_flush(struct compare_print *s, bool tie)
{
    what_cut(&s->what);
    table_row(s->table);
    table_cell(s->table, COLOUR_BOLD, "%s", buf_str(&s->what));
    table_cell(s->table, tie ? COLOUR_YELLOW : COLOUR_NONE, "%s", buf_str(&s->most));
    table_cell(s->table, COLOUR_NONE, "%s", buf_str(&s->others));
    buf_reset(&s->what);
    buf_reset(&s->most);
    buf_reset(&s->others);
}

/* Items of one field about the same machines: `more` of them have other values than the first. */
static void row_items(struct compare_print *s, const struct compare_line *l, size_t count,
                      bool mixed)
{
    const struct hw_compare_diff *d = l->d;
    const char **items = xcalloc(count, sizeof(*items));

    for (size_t i = 0; i < count; i++)
        items[i] = l[i].d->item;
    buf_addf(&s->what, "%s%s", d->field, *d->item ? " " : "");
    names_list(items, count, ITEMS_SHOWN_MAX, &s->what);
    free(items);
    if (d->tie)
        buf_adds(&s->most, "-");
    else {
        value_show(d, d->values[0], &s->most);
        buf_addf(&s->most, " (%zu)", d->values[0]->count);
    }
    others_text(s, d);
    if (mixed)
        buf_addf(&s->others, " (%s; the others of them differ too)", *d->item ? d->item : "first");
    row_flush(s, d->tie);
}

static size_t run_end(const struct compare_line *l, size_t count, size_t i, bool values)
{
    size_t end = i + 1;

    while (end < count && l[end].unknown == l[i].unknown && l[end].machines == l[i].machines &&
           l[end].d->tie == l[i].d->tie && !strcmp(l[end].d->field, l[i].d->field) &&
           (!values || l[end].values == l[i].values))
        end++;
    return end;
}

static size_t rows_of_field(struct compare_print *s, const struct compare_line *l, size_t count,
                            size_t i)
{
    size_t end = run_end(l, count, i, false), kinds = 0;

    for (size_t k = i; k < end; k = run_end(l, end, k, true))
        kinds++;
    if (kinds > ALIKE_SHOWN_MAX) {
        row_items(s, l + i, end - i, true);
        return end;
    }
    for (size_t k = i, next; k < end; k = next) {
        next = run_end(l, end, k, true);
        row_items(s, l + k, next - k, false);
    }
    return end;
}

/* All that the same machines do not know, and the others do. */
static size_t row_unknown(struct compare_print *s, const struct compare_line *l, size_t count,
                          size_t i)
{
    size_t end = i + 1, shown = 0, fields = 1;
    const struct hw_compare_diff *d = l[i].d;

    while (end < count && l[end].machines == l[i].machines)
        end++;
    for (size_t k = i + 1; k < end; k++)
        fields += strcmp(l[k].d->field, l[k - 1].d->field) != 0;
    buf_addf(&s->what, "%zu field%s", fields, fields == 1 ? "" : "s");
    buf_addf(&s->most, "known (%zu)", d->values[0]->count);
    buf_adds(&s->others, "unknown: ");
    hw_compare_names(&d->values[1]->set, s->names, s->names_count, &s->others);
    for (size_t k = i; k < end && shown <= UNKNOWN_SHOWN_MAX; k++) {
        if (k > i && !strcmp(l[k].d->field, l[k - 1].d->field))
            continue;
        if (shown++ < UNKNOWN_SHOWN_MAX)
            buf_addf(&s->others, "%s%s", shown > 1 ? ", " : " (", l[k].d->field);
        else
            buf_adds(&s->others, " …");
    }
    buf_addc(&s->others, ')');
    row_flush(s, false);
    return end;
}

void hw_compare_print(const struct hw_compare_diff *d, size_t count, const char *const *names,
                      size_t names_count, const struct term *term, struct buf *out)
{
    struct compare_print s = { .names = names, .names_count = names_count, .table = table_new() };
    struct compare_line *lines = xcalloc(count + 1, sizeof(*lines));

    for (size_t i = 0; i < count; i++)
        lines[i] = line_of(&d[i]);
    qsort(lines, count, sizeof(*lines), by_line);
    table_col(s.table, "WHAT", TABLE_LEFT | TABLE_SHRINK);
    table_col(s.table, "MOST HAVE", TABLE_LEFT | TABLE_SHRINK);
    table_col(s.table, "OTHERS", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < count;)
        i = lines[i].unknown ? row_unknown(&s, lines, count, i)
                             : rows_of_field(&s, lines, count, i);
    if (count)
        table_print(s.table, term, 0, out);
    table_free(s.table);
    free(lines);
    buf_release(&s.what);
    buf_release(&s.most);
    buf_release(&s.others);
}

/* ---- values that only one machine may have ---- */

/* Values of one field on the same machines are one line: a machine that was cloned has them all. */
void hw_compare_print_twins(const struct hw_compare_twin *t, size_t count, const char *const *names,
                            size_t names_count, const struct term *term, struct buf *out)
{
    struct table *table = table_new();
    struct buf who = { 0 };

    table_col(table, "THE SAME", TABLE_LEFT | TABLE_WHOLE);
    table_col(table, "VALUE", TABLE_LEFT | TABLE_SHRINK);
    table_col(table, "ON", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && !strcmp(t[i].field, t[end].field) &&
                          !memcmp(t[i].set, t[end].set, sizeof(*t[i].set));)
            end++;
        buf_reset(&who);
        hw_compare_names(t[i].set, names, names_count, &who);
        table_row(table);
        table_cell(table, COLOUR_BOLD, "%s", t[i].field);
        if (end - i > 1)
            table_cell(table, COLOUR_NONE, "%s (%s) and %zu more", t[i].value, t[i].what,
                       end - i - 1);
        else
            table_cell(table, COLOUR_NONE, "%s (%s)", t[i].value, t[i].what);
        table_cell(table, COLOUR_NONE, "%s", buf_str(&who));
    }
    if (count)
        table_print(table, term, 0, out);
    table_free(table);
    buf_release(&who);
}

void hw_compare_json_twins(const struct hw_compare_twin *t, size_t count, const char *const *names,
                           size_t names_count, struct json_out *w)
{
    json_arr(w);
    for (size_t i = 0; i < count; i++) {
        json_obj(w);
        json_kv_str(w, "field", t[i].field);
        json_kv_str(w, "value", t[i].value);
        json_kv_arr(w, "machines");
        for (size_t k = 0; k < names_count; k++)
            if (hw_compare_in(t[i].set, k))
                json_add_str(w, names[k]);
        json_arr_end(w);
        json_obj_end(w);
    }
    json_arr_end(w);
}

/* ---- JSON ---- */

/* Machines of a majority are all that no other value names. */
static void json_value(const struct hw_compare_value *v, bool most, const char *const *names,
                       size_t names_count, struct json_out *w)
{
    static const char *const kinds[] = { "known", "unknown", "missing", "other" };

    json_obj(w);
    json_kv_str(w, "is", kinds[v->kind]);
    json_kv_str(w, "value", v->text);
    json_kv_int(w, "count", (int64_t)v->count);
    json_key(w, "machines");
    if (most) {
        json_add_null(w);
        json_obj_end(w);
        return;
    }
    json_arr(w);
    for (size_t i = 0; i < names_count; i++)
        if (hw_compare_in(&v->set, i))
            json_add_str(w, names[i]);
    json_arr_end(w);
    json_obj_end(w);
}

void hw_compare_json(const struct hw_compare_diff *d, size_t count, const char *const *names,
                     size_t names_count, struct json_out *w)
{
    json_arr(w);
    for (size_t i = 0; i < count; i++) {
        json_obj(w);
        json_kv_str(w, "field", d[i].field);
        json_kv_str(w, "item", *d[i].item ? d[i].item : NULL);
        json_kv_str(w, "meaning", d[i].doc);
        json_kv_bool(w, "majority", !d[i].tie);
        json_kv_arr(w, "values");
        for (size_t k = 0; k < d[i].count; k++)
            json_value(d[i].values[k], !k && !d[i].tie, names, names_count, w);
        json_arr_end(w);
        json_obj_end(w);
    }
    json_arr_end(w);
}
