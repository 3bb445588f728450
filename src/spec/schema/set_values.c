/* SPDX-License-Identifier: MIT */
/* set_values: the values that a file sets, one after the other, as opposed to defaults: for those
 * who ask of every wish whether it is followed.  The rows of the schema lead to them, so that a new
 * key is found here without a line of its own. */
#include "spec/spec_int.h"

#include <string.h>

struct set_walk {
    const struct spec *s;
    spec_set_fn *fn;
    void *ctx;
    struct buf key;
};

static void set_table(struct set_walk *w, const struct spec_table *t, const char *obj);

static void set_row(struct set_walk *w, const struct spec_row *r, const char *obj)
{
    const char *at = obj + r->off;
    size_t count = 1;

    if (!spec_kind_is_tree(r->kind)) {
        if (spec_where(w->s, at).line)
            w->fn(w->ctx, buf_str(&w->key), at);
        return;
    }
    if (r->kind == SPEC_LIST || r->kind == SPEC_MAP)
        memcpy(&count, obj + r->count_off, sizeof(count));
    if (r->kind != SPEC_SECTION)
        memcpy(&at, obj + r->off, sizeof(at));
    for (size_t i = 0; at && i < count; i++)
        set_table(w, r->sub, at + i * r->sub->size);
}

static void set_table(struct set_walk *w, const struct spec_table *t, const char *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        size_t mark = w->key.len;

        buf_addf(&w->key, "%s%s", mark ? "." : "", t->rows[i].key);
        set_row(w, &t->rows[i], obj);
        w->key.len = mark;
        w->key.data[mark] = '\0';
    }
}

void spec_each_set(const struct spec *s, const char *section, const void *item, spec_set_fn *fn,
                   void *ctx)
{
    const struct spec_row *r = spec_row_find(&spec_schema, section);
    struct set_walk w = { .s = s, .fn = fn, .ctx = ctx };

    set_table(&w, r->sub, item);
    buf_release(&w.key);
}
