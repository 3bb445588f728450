/* SPDX-License-Identifier: MIT */
/* compare: see compare.h.
 *
 *   1. walk     an inventory by its row tables; every value is put into the row of its name
 *   2. align    lists by PCI address: each way to number the buses ("shape") is brought to the one
 *               that most machines have
 *   3. collect  rows whose machines are not all of one value
 *
 * A row is "gpus.nvlinks.active" of item "3/17".  Elements of lists have a row of their own, whose
 * value is that they are there; a machine that has the element's list (or the GPU it is part of)
 * and not the element is one that misses it.  What is unknown is a value like others: a machine
 * whose driver did not answer is not equal to one where it did. */
#include "hw/compare/compare.h"
#include "hw/compare/compare_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    PATH_TEXT_MAX = 128, /* bytes of a row's name */
    ITEM_TEXT_MAX = 512, /* of an element's */
    VALUE_TEXT_MAX =
        200,        /* of a value that is kept whole; a longer one by its beginning and hash */
    ABOUT_PART = 64 /* sizes that differ by less than this part are equal */
};

struct compare_row {
    const char *path, *doc;
    const char *item; /* behind the position in a shape */
    int shape;        /* -1: the item names itself */
    int pos;          /* in the shape */
    int parent;       /* row of the element it is part of; -1: the machine */
    bool element;     /* machines may be without it */
    struct hw_compare_value **values;
    size_t count, cap;
};

struct shape { /* the elements of one list, by PCI address and in order */
    const char *path;
    const char **keys;
    size_t count;
    size_t machines;
};

struct hw_compare {
    struct arena arena; /* names, values */
    size_t machines;
    struct compare_row *rows;
    size_t count, cap;
    int *slots; /* hash table of row numbers + 1 */
    size_t slots_cap;
    size_t sets; /* values of all rows */
    struct shape *shapes;
    size_t shapes_count, shapes_cap;
    struct hw_compare_diff *diffs;
    struct compare_ids *ids;
    size_t masked;
};

struct hw_compare *hw_compare_new(void)
{
    struct hw_compare *c = xcalloc(1, sizeof(*c));

    c->ids = compare_ids_new();
    c->slots_cap = 1 << 12;
    c->slots = xcalloc(c->slots_cap, sizeof(*c->slots));
    return c;
}

void hw_compare_free(struct hw_compare *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        for (size_t k = 0; k < c->rows[i].count; k++)
            free(c->rows[i].values[k]);
        free(c->rows[i].values);
    }
    free(c->rows);
    free(c->slots);
    free(c->shapes);
    free(c->diffs);
    compare_ids_free(c->ids);
    arena_release(&c->arena);
    free(c);
}

size_t hw_compare_rows(const struct hw_compare *c)
{
    return c->count;
}

/* ---- sets of machines ---- */

bool hw_compare_in(const struct hw_compare_set *s, size_t machine)
{
    return s->bits[machine / 64] >> (machine % 64) & 1;
}

static void set_add(struct hw_compare_set *s, size_t machine)
{
    s->bits[machine / 64] |= (uint64_t)1 << (machine % 64);
}

static void set_join(struct hw_compare_set *s, const struct hw_compare_set *other)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->bits); i++)
        s->bits[i] |= other->bits[i];
}

static size_t set_count(const struct hw_compare_set *s)
{
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(s->bits); i++)
        n += (size_t)__builtin_popcountll(s->bits[i]);
    return n;
}

/* ---- rows by name ---- */

static uint32_t text_hash(uint32_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619U; /* FNV-1a */
    return (h ^ 0xff) * 16777619U;
}

static uint32_t row_hash(const char *path, const char *item, int shape, int pos)
{
    uint32_t h = text_hash(text_hash(2166136261U, path), item);

    h = (h ^ (uint32_t)shape) * 16777619U;
    return (h ^ (uint32_t)pos) * 16777619U;
}

static bool row_is(const struct compare_row *r, const struct compare_row *key)
{
    return r->shape == key->shape && r->pos == key->pos && !strcmp(r->path, key->path) &&
           !strcmp(r->item, key->item);
}

static void slots_grow(struct hw_compare *c)
{
    free(c->slots);
    c->slots_cap *= 2;
    c->slots = xcalloc(c->slots_cap, sizeof(*c->slots));
    for (size_t i = 0; i < c->count; i++) {
        const struct compare_row *r = &c->rows[i];
        size_t at = row_hash(r->path, r->item, r->shape, r->pos) & (c->slots_cap - 1);

        while (c->slots[at])
            at = (at + 1) & (c->slots_cap - 1);
        c->slots[at] = (int)i + 1;
    }
}

/* The row of this name, made where there is none; -1 when there are too many. */
static int row_get(struct hw_compare *c, const struct compare_row *key)
{
    size_t at = row_hash(key->path, key->item, key->shape, key->pos) & (c->slots_cap - 1);

    for (; c->slots[at]; at = (at + 1) & (c->slots_cap - 1))
        if (row_is(&c->rows[c->slots[at] - 1], key))
            return c->slots[at] - 1;
    if (c->count >= HW_COMPARE_ROWS_MAX)
        return -1;
    VEC_GROW(c->rows, c->count, c->cap);
    c->rows[c->count] = *key;
    c->rows[c->count].path = arena_strdup(&c->arena, key->path);
    c->rows[c->count].item = arena_strdup(&c->arena, key->item);
    c->slots[at] = (int)++c->count;
    if (2 * c->count > c->slots_cap)
        slots_grow(c);
    return (int)c->count - 1;
}

/* ---- values of a row ---- */

static bool about_equal(const char *a, const char *b)
{
    int64_t x, y;

    if (!str_to_i64(a, 10, &x) || !str_to_i64(b, 10, &y) || x < 0 || y < 0)
        return str_eq(a, b);
    return x > y ? x - y <= x / ABOUT_PART : y - x <= y / ABOUT_PART;
}

static struct hw_compare_value *value_find(const struct compare_row *r, enum hw_compare_kind kind,
                                           const char *text, bool about)
{
    for (size_t i = 0; i < r->count; i++) {
        struct hw_compare_value *v = r->values[i];

        if (v->kind == kind && (kind != HW_COMPARE_KNOWN ||
                                (about ? about_equal(v->text, text) : str_eq(v->text, text))))
            return v;
    }
    return NULL;
}

/* NULL: there are too many in all. */
static struct hw_compare_value *value_get(struct hw_compare *c, struct compare_row *r,
                                          enum hw_compare_kind kind, const char *text, bool about)
{
    struct hw_compare_value *v = value_find(r, kind, text, about);

    if (!v && r->count >= HW_COMPARE_EACH_MAX) {
        kind = HW_COMPARE_OTHER;
        v = value_find(r, kind, NULL, false);
    }
    if (v)
        return v;
    if (c->sets >= HW_COMPARE_SETS_MAX)
        return NULL;
    c->sets++;
    VEC_GROW(r->values, r->count, r->cap);
    v = xcalloc(1, sizeof(*v));
    v->kind = kind;
    v->text = kind == HW_COMPARE_KNOWN ? arena_strdup(&c->arena, text) : NULL;
    r->values[r->count++] = v;
    return v;
}

static bool row_has(const struct compare_row *r, size_t machine)
{
    for (size_t i = 0; i < r->count; i++)
        if (hw_compare_in(&r->values[i]->set, machine))
            return true;
    return false;
}

/* ---- 1. walk ---- */

struct compare_walk {
    struct hw_compare *c;
    const struct hw *hw;
    char path[PATH_TEXT_MAX];
    char item[ITEM_TEXT_MAX];
    int shape, pos; /* of the list by PCI address that we are in; -1: none */
    int parent;     /* row of the element that we are in */
    enum rc rc;
    struct err *err;
};

static void walk_limit(struct compare_walk *w, const char *what, int max)
{
    if (w->rc == RC_OK)
        w->rc = err_set(w->err, RC_LIMIT, "there are more than %d %s to compare", max, what);
}

/* A text beyond what is kept is told apart by its hash. */
static const char *value_short(const char *text, char *out)
{
    size_t len = strlen(text), keep = VALUE_TEXT_MAX - 16;

    if (len < VALUE_TEXT_MAX)
        return text;
    memcpy(out, text, keep);
    out[keep] = '\0';
    str_make_text(out); /* a character may have been cut */
    (void)snprintf(out + strlen(out), 16, "... #%08" PRIx32, text_hash(2166136261U, text));
    return out;
}

/* Puts this machine's value into the row that the walk stands at; the row's number, or -1. */
static int walk_put(struct compare_walk *w, const char *doc, const char *text, bool element,
                    bool about)
{
    struct compare_row key = { .path = w->path,
                               .item = w->item,
                               .shape = w->shape,
                               .pos = w->pos,
                               .parent = w->parent,
                               .element = element,
                               .doc = doc };
    enum hw_compare_kind kind = text ? HW_COMPARE_KNOWN : HW_COMPARE_UNKNOWN;
    char cut[VALUE_TEXT_MAX + 1];
    struct hw_compare_value *v;
    int n = w->rc == RC_OK ? row_get(w->c, &key) : -1;

    if (n < 0) {
        walk_limit(w, "values", HW_COMPARE_ROWS_MAX);
        return -1;
    }
    v = value_get(w->c, &w->c->rows[n], kind, text ? value_short(text, cut) : NULL, about);
    if (v)
        set_add(&v->set, w->c->machines);
    else
        walk_limit(w, "different values", HW_COMPARE_SETS_MAX);
    return v ? n : -1;
}

/* Appends to a name of the walk; returns its length before, to be cut back to. */
static size_t name_add(char *name, size_t cap, char sep, const char *text)
{
    size_t len = strlen(name);

    if (len + 1 < cap)
        (void)snprintf(name + len, cap - len, "%s%.*s", len ? (char[]){ sep, '\0' } : "",
                       (int)(cap - len - 2), text);
    str_make_text(name); /* a character may have been cut */
    return len;
}

static const void *member_at(const void *obj, size_t off)
{
    return (const char *)obj + off;
}

/* A plain value as text; NULL: unknown. */
static const char *value_text(const struct field *f, const void *obj, struct buf *b)
{
    const void *p = member_at(obj, f->off);
    const struct maybe *m = p;
    size_t count;

    buf_reset(b);
    if (f->kind == FIELD_STR)
        return *(const char *const *)p;
    if (f->kind == FIELD_INT || f->kind == FIELD_BOOL) {
        if (!m->known)
            return NULL;
        if (f->kind == FIELD_BOOL)
            return m->v ? "true" : "false";
        buf_addf(b, "%" PRId64, m->v);
        return buf_str(b);
    }
    count = *(const size_t *)member_at(obj, f->count_off);
    for (size_t i = 0; i < count && b->len < 4096; i++) {
        if (f->kind == FIELD_STRS)
            buf_addf(b, "%s%s", i ? " " : "", (*(const char *const *const *)p)[i]);
        else
            buf_addf(b, "%s%" PRId64, i ? " " : "", maybe_or((*(struct maybe *const *)p)[i], -1));
    }
    return buf_str(b);
}

/* The row of an element; a second one of the same name gets a number behind it. */
static int element_put(struct compare_walk *w, const struct field *f, size_t cut, const char *key,
                       const char *text)
{
    struct compare_row want = { .path = w->path,
                                .item = w->item,
                                .shape = w->shape,
                                .pos = w->pos,
                                .parent = w->parent,
                                .element = true,
                                .doc = f->doc };
    char again[ITEM_TEXT_MAX];
    int n;

    for (int twin = 2;; twin++) {
        n = w->rc == RC_OK ? row_get(w->c, &want) : -1;
        if (n < 0 || !row_has(&w->c->rows[n], w->c->machines))
            break;
        (void)snprintf(again, sizeof(again), "%.400s#%d", key, twin);
        w->item[cut] = '\0';
        (void)name_add(w->item, sizeof(w->item), '/', again);
    }
    return walk_put(w, f->doc, text, true, false);
}

/* "iommu=pt" is item "iommu" of value "pt"; a bare word is "set". */
static void walk_words(struct compare_walk *w, const struct field *f, const char *text)
{
    int parent = w->parent, at = walk_put(w, f->doc, text ? "read" : NULL, false, false);
    char *copy = xstrdup(text ? text : ""), *save = NULL;

    w->parent = at;
    for (char *word = strtok_r(copy, " ,", &save); word; word = strtok_r(NULL, " ,", &save)) {
        char *eq = strchr(word, '=');
        size_t len;

        if (eq)
            *eq++ = '\0';
        if (at < 0 || !hw_compare_word(word))
            continue;
        len = name_add(w->item, sizeof(w->item), '/', word);
        (void)element_put(w, f, len, word, eq ? eq : "set");
        w->item[len] = '\0';
    }
    w->parent = parent;
    free(copy);
}

static void walk_value(struct compare_walk *w, const struct field *f, const void *obj)
{
    struct buf b = { 0 };
    const char *text = value_text(f, obj, &b);

    if (f->role == FIELD_WORDS)
        walk_words(w, f, text);
    else
        (void)walk_put(w, f->doc, text, false, f->role == FIELD_ABOUT);
    buf_release(&b);
}

static void walk_table(struct compare_walk *w, const struct field_table *t, const void *obj);

/* "1/Data": the members that name an element; its position when none does. */
static void element_key(const struct field_table *t, const void *obj, size_t pos, struct buf *out)
{
    struct buf b = { 0 };

    buf_reset(out);
    for (size_t i = 0; i < t->count; i++) {
        const char *text = t->rows[i].role == FIELD_KEY ? value_text(&t->rows[i], obj, &b) : NULL;

        if (text)
            buf_addf(out, "%s%s", out->len ? "-" : "", text);
    }
    if (!out->len)
        buf_addf(out, "%zu", pos);
    buf_release(&b);
}

static const struct field *place_of(const struct field_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].role == FIELD_PLACE)
            return &t->rows[i];
    return NULL;
}

static bool shape_is(const struct shape *s, const char *path, const char *const *keys, size_t count)
{
    if (s->count != count || strcmp(s->path, path) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(s->keys[i], keys[i]) != 0)
            return false;
    return true;
}

static int shape_get(struct compare_walk *w, const struct field *f, const struct field *place,
                     const char *items, size_t count)
{
    struct hw_compare *c = w->c;
    const char **keys = xcalloc(count + 1, sizeof(*keys));
    size_t n;

    for (size_t i = 0; i < count; i++) {
        keys[i] = *(const char *const *)member_at(items + i * f->sub->size, place->off);
        if (!keys[i])
            keys[i] = "-";
    }
    for (n = 0; n < c->shapes_count; n++)
        if (shape_is(&c->shapes[n], w->path, keys, count))
            break;
    if (n == c->shapes_count) {
        struct shape s = { .path = arena_strdup(&c->arena, w->path), .count = count };

        s.keys = arena_array(&c->arena, const char *, count + 1);
        for (size_t i = 0; i < count; i++)
            s.keys[i] = arena_strdup(&c->arena, keys[i]);
        VEC_GROW(c->shapes, c->shapes_count, c->shapes_cap);
        c->shapes[c->shapes_count++] = s;
    }
    c->shapes[n].machines++;
    free(keys);
    return (int)n;
}

static void walk_element(struct compare_walk *w, const struct field *f, const void *obj,
                         const char *key)
{
    size_t len = strlen(w->item);
    int parent = w->parent, at;

    if (key)
        (void)name_add(w->item, sizeof(w->item), '/', key);
    at = element_put(w, f, len, key ? key : "", "present");
    if (at >= 0) {
        w->parent = at;
        walk_table(w, f->sub, obj);
        w->parent = parent;
    }
    w->item[len] = '\0';
}

static void walk_count(struct compare_walk *w, const struct field *f, size_t count)
{
    size_t len = name_add(w->path, sizeof(w->path), '.', "count");
    char text[24];

    (void)snprintf(text, sizeof(text), "%zu", count);
    (void)walk_put(w, f->doc, text, false, false);
    w->path[len] = '\0';
}

static void walk_list(struct compare_walk *w, const struct field *f, const void *obj)
{
    const char *items = *(const char *const *)member_at(obj, f->off);
    size_t count = *(const size_t *)member_at(obj, f->count_off);
    const struct field *place = place_of(f->sub);
    struct buf key = { 0 };

    if (count > HW_COMPARE_ITEMS_MAX) {
        walk_limit(w, "elements in one list", HW_COMPARE_ITEMS_MAX);
        return;
    }
    if (place) {
        walk_count(w, f, count);
        w->shape = shape_get(w, f, place, items, count);
    }
    for (size_t i = 0; i < count && w->rc == RC_OK; i++) {
        const void *element = items + i * f->sub->size;

        if (!hw_compare_element(w->path, element))
            continue;
        element_key(f->sub, element, i, &key);
        if (place)
            w->pos = (int)i;
        walk_element(w, f, element, place ? NULL : buf_str(&key));
    }
    if (place)
        w->shape = w->pos = -1;
    buf_release(&key);
}

static void walk_table(struct compare_walk *w, const struct field_table *t, const void *obj)
{
    for (size_t i = 0; i < t->count && w->rc == RC_OK; i++) {
        const struct field *f = &t->rows[i];
        size_t len;

        if (f->role == FIELD_KEY || f->role == FIELD_IDENTITY || f->role == FIELD_MOMENT)
            continue;
        len = name_add(w->path, sizeof(w->path), '.', f->key);
        if (f->kind == FIELD_STRUCT)
            walk_table(w, f->sub, member_at(obj, f->off));
        else if (f->kind == FIELD_ARRAY)
            walk_list(w, f, obj);
        else if (hw_compare_field(w->hw, w->path, obj))
            walk_value(w, f, obj);
        w->path[len] = '\0';
    }
}

/* What hw_compare_facts() makes of several members. */
static void walk_fact(void *arg, const char *path, const char *item, const char *doc,
                      const char *text)
{
    struct compare_walk *w = arg;

    (void)str_copy(w->path, sizeof(w->path), path);
    (void)str_copy(w->item, sizeof(w->item), item);
    (void)walk_put(w, doc, text, false, false);
}

enum rc hw_compare_add(struct hw_compare *c, const struct hw *hw, struct err *err)
{
    struct compare_walk w = { .c = c, .hw = hw, .shape = -1, .pos = -1, .parent = -1, .err = err };

    assert(!c->diffs);
    if (c->machines >= HW_COMPARE_MACHINES_MAX)
        return err_set(err, RC_LIMIT, "more than %d machines cannot be compared",
                       HW_COMPARE_MACHINES_MAX);
    walk_table(&w, &hw_table, hw);
    if (w.rc == RC_OK)
        hw_compare_facts(hw, walk_fact, &w);
    if (w.rc == RC_OK) {
        compare_ids_add(c->ids, hw, c->machines);
        c->masked += hw_compare_masked(hw);
        c->machines++;
    }
    return w.rc;
}

const struct hw_compare_twin *hw_compare_twins(struct hw_compare *c, size_t *out_count)
{
    return compare_ids_end(c->ids, out_count);
}

size_t hw_compare_masked_count(const struct hw_compare *c)
{
    return c->masked;
}

/* ---- 2. align ---- */

/* The numbering of a list that most machines have. */
static const struct shape *shape_usual(const struct hw_compare *c, const char *path)
{
    const struct shape *best = NULL;

    for (size_t i = 0; i < c->shapes_count; i++)
        if (!strcmp(c->shapes[i].path, path) && (!best || c->shapes[i].machines > best->machines))
            best = &c->shapes[i];
    return best;
}

/* GPUs go by their number, all else by its address. */
static const char *place_name(struct hw_compare *c, const struct shape *s, size_t pos)
{
    return str_eq(s->path, "gpus") ? arena_printf(&c->arena, "%zu", pos) : s->keys[pos];
}

/* What the element at `pos` of a shape is called on the usual machine. */
static const char *place_usual(struct hw_compare *c, const struct shape *s,
                               const struct shape *usual, size_t pos)
{
    if (s->count == usual->count)
        return place_name(c, usual, pos);
    for (size_t i = 0; i < usual->count; i++)
        if (!strcmp(usual->keys[i], s->keys[pos]))
            return place_name(c, usual, i);
    return s->keys[pos];
}

static const char ***places_align(struct hw_compare *c)
{
    const char ***names = arena_array(&c->arena, const char **, c->shapes_count + 1);

    for (size_t i = 0; i < c->shapes_count; i++) {
        const struct shape *usual = shape_usual(c, c->shapes[i].path);

        names[i] = arena_array(&c->arena, const char *, c->shapes[i].count + 1);
        for (size_t k = 0; k < c->shapes[i].count; k++)
            names[i][k] = place_usual(c, &c->shapes[i], usual, k);
    }
    return names;
}

static void rows_name(struct hw_compare *c)
{
    const char ***names = places_align(c);

    for (size_t i = 0; i < c->count; i++) {
        struct compare_row *r = &c->rows[i];
        const char *place = r->shape >= 0 ? names[r->shape][r->pos] : NULL;

        if (place)
            r->item = arena_printf(&c->arena, "%s%s%s", place, *r->item ? "/" : "", r->item);
    }
}

/* Rows of one name, which were several for the sake of their shapes, become the first of them. */
struct compare_order {
    const struct compare_row *row;
    size_t at;
};

static int by_name(const void *a, const void *b)
{
    const struct compare_order *x = a, *y = b;
    int order = strcmp(x->row->path, y->row->path);

    if (!order)
        order = strverscmp(x->row->item, y->row->item);
    return order ? order : x->at < y->at ? -1 : 1;
}

static void row_join(struct compare_row *into, const struct compare_row *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct hw_compare_value *v = from->values[i];
        struct hw_compare_value *mine = value_find(into, v->kind, v->text, false);

        if (!mine) {
            VEC_GROW(into->values, into->count, into->cap);
            mine = into->values[into->count++] = xcalloc(1, sizeof(*mine));
            mine->kind = v->kind;
            mine->text = v->text;
        }
        set_join(&mine->set, &v->set);
    }
}

/* For each row the number of the one that it became part of; `order` is sorted by name. */
static int *rows_merge(struct hw_compare *c, struct compare_order *order)
{
    int *into = xcalloc(c->count + 1, sizeof(*into));
    size_t first = 0;

    for (size_t i = 0; i < c->count; i++)
        order[i] = (struct compare_order){ &c->rows[i], i };
    qsort(order, c->count, sizeof(*order), by_name);
    for (size_t i = 0; i < c->count; i++) {
        const struct compare_row *a = order[first].row, *b = order[i].row;

        if (i == first || strcmp(a->path, b->path) != 0 || strcmp(a->item, b->item) != 0)
            first = i;
        else
            row_join(&c->rows[order[first].at], b);
        into[order[i].at] = (int)order[first].at;
    }
    return into;
}

/* ---- 3. collect ---- */

/* Machines that have the thing a row is part of: where a value of that row is known. */
static struct hw_compare_set set_of_parent(const struct hw_compare *c, const int *into, int parent)
{
    struct hw_compare_set all = { 0 };

    if (parent < 0) {
        for (size_t i = 0; i < c->machines; i++)
            set_add(&all, i);
        return all;
    }
    for (size_t i = 0; i < c->rows[into[parent]].count; i++) {
        const struct hw_compare_value *v = c->rows[into[parent]].values[i];

        if (v->kind == HW_COMPARE_KNOWN)
            set_join(&all, &v->set);
    }
    return all;
}

static void row_missing(const struct hw_compare *c, const int *into, struct compare_row *r)
{
    struct hw_compare_set all, seen = { 0 };
    struct hw_compare_value *v;

    if (!r->element)
        return;
    all = set_of_parent(c, into, r->parent);
    for (size_t i = 0; i < r->count; i++)
        set_join(&seen, &r->values[i]->set);
    for (size_t i = 0; i < ARRAY_SIZE(all.bits); i++)
        all.bits[i] &= ~seen.bits[i];
    if (!set_count(&all))
        return;
    VEC_GROW(r->values, r->count, r->cap);
    v = r->values[r->count++] = xcalloc(1, sizeof(*v));
    v->kind = HW_COMPARE_MISSING;
    v->set = all;
}

static int by_machines(const void *a, const void *b)
{
    const struct hw_compare_value *x = *(struct hw_compare_value *const *)a;
    const struct hw_compare_value *y = *(struct hw_compare_value *const *)b;

    if ((x->kind == HW_COMPARE_OTHER) != (y->kind == HW_COMPARE_OTHER))
        return x->kind == HW_COMPARE_OTHER ? 1 : -1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    return x->text ? strverscmp(x->text, y->text) : 0;
}

size_t hw_compare_odd(const struct hw_compare_diff *d)
{
    size_t n = 0;

    for (size_t i = d->tie ? 0 : 1; i < d->count; i++)
        n += d->values[i]->count;
    return n;
}

static int by_odd(const void *a, const void *b)
{
    const struct hw_compare_diff *x = a, *y = b;
    size_t m = hw_compare_odd(x), n = hw_compare_odd(y);
    int order = m < n ? -1 : m > n;

    if (!order)
        order = strcmp(x->field, y->field);
    return order ? order : strverscmp(x->item, y->item);
}

static struct hw_compare_diff diff_of(struct compare_row *r)
{
    for (size_t i = 0; i < r->count; i++)
        r->values[i]->count = set_count(&r->values[i]->set);
    qsort(r->values, r->count, sizeof(struct hw_compare_value *), by_machines);
    return (struct hw_compare_diff){ .field = r->path,
                                     .doc = r->doc,
                                     .item = r->item,
                                     .values = r->values,
                                     .count = r->count,
                                     .tie = r->values[0]->count == r->values[1]->count };
}

const struct hw_compare_diff *hw_compare_end(struct hw_compare *c, size_t *out_count)
{
    struct compare_order *order = xcalloc(c->count + 1, sizeof(*order));
    size_t n = 0;
    int *into;

    assert(!c->diffs);
    c->diffs = xcalloc(c->count + 1, sizeof(*c->diffs));
    rows_name(c);
    into = rows_merge(c, order);
    for (size_t i = 0; i < c->count; i++)
        if (into[i] == (int)i)
            row_missing(c, into, &c->rows[i]);
    for (size_t i = 0; i < c->count; i++)
        if (into[i] == (int)i && c->rows[i].count > 1)
            c->diffs[n++] = diff_of(&c->rows[i]);
    qsort(c->diffs, n, sizeof(*c->diffs), by_odd);
    free(order);
    free(into);
    *out_count = n;
    return c->diffs;
}
