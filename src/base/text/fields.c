/* SPDX-License-Identifier: MIT */
#include "base/text/fields.h"

#include <assert.h>
#include <string.h>

static const void *at(const void *obj, size_t off)
{
    return (const char *)obj + off;
}

static void *at_mut(void *obj, size_t off)
{
    return (char *)obj + off;
}

static size_t list_count(const struct field *f, const void *obj)
{
    return *(const size_t *)at(obj, f->count_off);
}

static void write_list(struct json_out *w, const struct field *f, const void *obj)
{
    const void *items = *(const void *const *)at(obj, f->off);

    json_arr(w);
    for (size_t i = 0; i < list_count(f, obj); i++) {
        if (f->kind == FIELD_STRS)
            json_add_str(w, ((const char *const *)items)[i]);
        else if (f->kind == FIELD_INTS)
            json_add_maybe(w, ((const struct maybe *)items)[i]);
        else
            fields_write(w, f->sub, at(items, i * f->sub->size));
    }
    json_arr_end(w);
}

static void write_value(struct json_out *w, const struct field *f, const void *obj)
{
    const void *p = at(obj, f->off);
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
        fields_write(w, f->sub, p);
        return;
    case FIELD_STRS:
    case FIELD_INTS:
    case FIELD_ARRAY:
        write_list(w, f, obj);
        return;
    }
    assert(!"every kind is written");
}

void fields_write_members(struct json_out *w, const struct field_table *t, const void *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        json_key(w, t->rows[i].key);
        write_value(w, &t->rows[i], obj);
    }
}

void fields_write(struct json_out *w, const struct field_table *t, const void *obj)
{
    json_obj(w);
    fields_write_members(w, t, obj);
    json_obj_end(w);
}

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
    }
    assert(!"every kind is read");
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
    };

    return names[f->kind];
}

void fields_doc(struct buf *out, const struct field_table *t)
{
    buf_addf(out, "\n## %s\n\n| member | type | meaning |\n|---|---|---|\n", t->name);
    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->rows[i];

        buf_addf(out, "| `%s` | %s%s%s | %s |\n", f->key, kind_name(f), f->sub ? " " : "",
                 f->sub ? f->sub->name : "", f->doc);
    }
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].sub)
            fields_doc(out, t->rows[i].sub);
}
