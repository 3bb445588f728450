/* SPDX-License-Identifier: MIT */
#include "base/text/fields.h"

#include "base/str.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const void *member_at(const void *obj, size_t off)
{
    return (const char *)obj + off;
}

static void *at_mut(void *obj, size_t off)
{
    return (char *)obj + off;
}

static size_t list_count(const struct field *f, const void *obj)
{
    return *(const size_t *)member_at(obj, f->count_off);
}

static void write_list(struct json_out *w, const struct field *f, const void *obj)
{
    const void *items = *(const void *const *)member_at(obj, f->off);

    json_arr(w);
    for (size_t i = 0; i < list_count(f, obj); i++) {
        if (f->kind == FIELD_STRS)
            json_add_str(w, ((const char *const *)items)[i]);
        else if (f->kind == FIELD_INTS)
            json_add_maybe(w, ((const struct maybe *)items)[i]);
        else
            fields_write(w, f->sub, member_at(items, i * f->sub->size));
    }
    json_arr_end(w);
}

/* A report's number as a double; NaN: unknown. */
static double number_of(const struct field *f, const void *obj)
{
    const void *p = member_at(obj, f->off);
    double v = f->kind == FIELD_F64   ? *(const double *)p
               : f->kind == FIELD_I32 ? *(const int32_t *)p
               : f->kind == FIELD_I64 ? (double)*(const int64_t *)p
                                      : (double)*(const uint64_t *)p;

    return f->above_0 && !(v > 0) ? (double)NAN : v;
}

static bool is_number(const struct field *f)
{
    return f->kind == FIELD_F64 || f->kind == FIELD_I32 || f->kind == FIELD_I64 ||
           f->kind == FIELD_U64;
}

/* NULL: unknown. */
static const char *string_of(const struct field *f, const void *obj)
{
    const void *p = member_at(obj, f->off);

    return f->kind == FIELD_CHARS  ? p
           : f->kind == FIELD_NAME ? f->names[*(const unsigned *)p]
                                   : *(const char *const *)p;
}

/* An object is known where its first member is. */
static bool is_unknown(const struct field *f, const void *obj)
{
    if (f->kind == FIELD_STRUCT)
        return is_unknown(&f->sub->rows[0], member_at(obj, f->off));
    return is_number(f) ? !isfinite(number_of(f, obj)) : f->kind == FIELD_STR && !string_of(f, obj);
}

static void write_number(struct json_out *w, const struct field *f, const void *obj)
{
    const void *p = member_at(obj, f->off);

    if (f->kind == FIELD_F64 || is_unknown(f, obj))
        json_add_num(w, number_of(f, obj));
    else
        json_add_int(w, f->kind == FIELD_I32 ? *(const int32_t *)p : *(const int64_t *)p);
}

static void write_value(struct json_out *w, const struct field *f, const void *obj)
{
    const void *p = member_at(obj, f->off);
    struct maybe m;

    switch (f->kind) {
    case FIELD_STR:
        json_add_str(w, *(const char *const *)p);
        return;
    case FIELD_INT:
        json_add_maybe(w, *(const struct maybe *)p);
        return;
    case FIELD_BOOL:
        m = *(const struct maybe *)p;
        if (m.known)
            json_add_bool(w, m.v != 0);
        else
            json_add_null(w);
        return;
    case FIELD_STRUCT:
        if (f->or_null && is_unknown(f, obj))
            json_add_null(w);
        else
            fields_write(w, f->sub, p);
        return;
    case FIELD_STRS:
    case FIELD_INTS:
    case FIELD_ARRAY:
        write_list(w, f, obj);
        return;
    case FIELD_F64:
    case FIELD_I32:
    case FIELD_I64:
    case FIELD_U64:
        write_number(w, f, obj);
        return;
    case FIELD_FLAG:
        json_add_bool(w, *(const bool *)p);
        return;
    case FIELD_CHARS:
    case FIELD_NAME:
        json_add_str(w, string_of(f, obj));
        return;
    case FIELD_CALL:
        break;
    }
    assert(!"every kind is written");
}

void fields_write_members(struct json_out *w, const struct field_table *t, const void *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];

        if (f->kind == FIELD_CALL) {
            f->call(w, obj);
        } else if (f->key && !(f->left_out && is_unknown(f, obj))) {
            json_key(w, f->key);
            write_value(w, f, obj);
        }
    }
}

void fields_write(struct json_out *w, const struct field_table *t, const void *obj)
{
    json_obj(w);
    fields_write_members(w, t, obj);
    json_obj_end(w);
}

void fields_write_report(struct buf *out, const struct field_table *t, const void *obj)
{
    struct json_out w;

    json_doc(&w, out, t->name);
    fields_write_members(&w, t, obj);
    json_doc_end(&w);
}

/* ---- text ---- */
const char *field_text(const struct field *f, const void *obj, char out[FIELD_TEXT_MAX])
{
    double v;

    if (!is_number(f))
        return string_of(f, obj);
    v = number_of(f, obj);
    if (isnan(v) || (!f->words && !isfinite(v)))
        return "-";
    if (f->words)
        return f->words(v, out);
    snprintf(out, FIELD_TEXT_MAX, f->fmt ? f->fmt : "%.0f", f->scale ? v * f->scale : v);
    return out;
}

void fields_columns(struct table *table, const struct field_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].title)
            table_col(table, t->rows[i].title,
                      t->rows[i].flags | (is_number(&t->rows[i]) ? TABLE_RIGHT : 0));
}

void fields_cells(struct table *table, const struct field_table *t, const void *obj,
                  enum table_colour first)
{
    char text[FIELD_TEXT_MAX];

    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];

        if (!f->title)
            continue;
        table_cell(table, first ? first : f->colour, "%s", field_text(f, obj, text));
        first = COLOUR_NONE;
    }
}

void fields_print(struct buf *out, const struct term *term, const struct field_table *t,
                  const void *rows, size_t count, int64_t chosen)
{
    struct table *table = table_new();

    fields_columns(table, t);
    for (size_t i = 0; i < count; i++) {
        table_row(table);
        fields_cells(table, t, member_at(rows, i * t->size),
                     chosen >= 0 && (size_t)chosen == i ? COLOUR_BOLD : COLOUR_NONE);
    }
    table_print(table, term, 0, out);
    table_free(table);
}

const struct field *fields_find(const struct field_table *t, const char *key)
{
    for (size_t i = 0; i < t->count; i++)
        if (str_eq(t->rows[i].key, key))
            return &t->rows[i];
    return NULL;
}

/* ---- reading ---- */
static enum rc wrong_type(const struct field *f, const char *want, struct err *err)
{
    return err_set(err, RC_PARSE, "member '%s' must be %s", f->key, want);
}

static enum rc read_list(struct arena *a, const struct json *v, const struct field *f, void *obj,
                         struct err *err)
{
    size_t each = f->kind == FIELD_STRS   ? sizeof(char *)
                  : f->kind == FIELD_INTS ? sizeof(struct maybe)
                                          : f->sub->size;
    const struct json *c = v->first;
    char *items;

    if (v->type != JSON_ARR)
        return wrong_type(f, "a list", err);
    if (v->count > FIELDS_ARRAY_MAX)
        return err_set(err, RC_LIMIT, "member '%s' has %zu elements, more than %d", f->key,
                       v->count, FIELDS_ARRAY_MAX);
    items = arena_array_bytes(a, v->count, each);
    for (size_t i = 0; i < v->count; i++, c = c->next) {
        void *p = items + i * each;

        if (f->kind == FIELD_STRS) {
            if (c->type != JSON_STR)
                return wrong_type(f, "a list of strings", err);
            *(const char **)p = arena_strdup(a, c->text);
        } else if (f->kind == FIELD_INTS)
            *(struct maybe *)p = json_int(c);
        else if (fields_read(a, c, f->sub, p, err))
            return err_ctx(err, "%s[%zu]", f->key, i);
    }
    *(void **)at_mut(obj, f->off) = items;
    *(size_t *)at_mut(obj, f->count_off) = v->count;
    return RC_OK;
}

static enum rc read_value(struct arena *a, const struct json *v, const struct field *f, void *obj,
                          struct err *err)
{
    void *p = at_mut(obj, f->off);

    switch (f->kind) {
    case FIELD_STR:
        if (v->type != JSON_STR)
            return wrong_type(f, "a string or null", err);
        *(const char **)p = arena_strdup(a, v->text);
        return RC_OK;
    case FIELD_INT:
        if (!json_int(v).known)
            return wrong_type(f, "a whole number or null", err);
        *(struct maybe *)p = json_int(v);
        return RC_OK;
    case FIELD_BOOL:
        if (v->type != JSON_BOOL)
            return wrong_type(f, "true, false or null", err);
        *(struct maybe *)p = json_bool(v);
        return RC_OK;
    case FIELD_STRUCT:
        if (fields_read(a, v, f->sub, p, err))
            return err_ctx(err, "%s", f->key);
        return RC_OK;
    case FIELD_STRS:
    case FIELD_INTS:
    case FIELD_ARRAY:
        return read_list(a, v, f, obj, err);
    default:
        break;
    }
    assert(!"reports are not read");
    return RC_FAIL;
}

enum rc fields_read(struct arena *a, const struct json *v, const struct field_table *t, void *obj,
                    struct err *err)
{
    enum rc rc;

    if (!v || v->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "expected an object (%s)", t->name);
    for (size_t i = 0; i < t->count; i++) {
        const struct json *m = json_get(v, t->rows[i].key);

        if (m && m->type != JSON_NULL && (rc = read_value(a, m, &t->rows[i], obj, err)))
            return rc;
    }
    return RC_OK;
}

static const char *kind_name(const struct field *f)
{
    static const char *const names[] = {
        [FIELD_STR] = "string",
        [FIELD_INT] = "integer",
        [FIELD_BOOL] = "boolean",
        [FIELD_STRS] = "list of strings",
        [FIELD_STRUCT] = "object",
        [FIELD_ARRAY] = "list of objects",
        [FIELD_INTS] = "list of integers",
        [FIELD_F64] = "number",
        [FIELD_I32] = "integer",
        [FIELD_I64] = "integer",
        [FIELD_U64] = "integer",
        [FIELD_FLAG] = "boolean",
        [FIELD_CHARS] = "string",
        [FIELD_NAME] = "string",
    };

    return names[f->kind];
}

void fields_doc(struct buf *out, const struct field_table *t)
{
    buf_addf(out, "\n## %s\n\n| member | type | meaning |\n|---|---|---|\n", t->name);
    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];

        if (!f->key)
            continue;
        buf_addf(out, "| `%s` | %s%s%s | %s |\n", f->key, kind_name(f), f->sub ? " " : "",
                 f->sub ? f->sub->name : "", f->doc);
    }
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].sub)
            fields_doc(out, t->rows[i].sub);
}
