/* SPDX-License-Identifier: MIT */
/* spec: loading a site and asking about it. */
#include "spec/spec.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "spec/spec_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static struct spec *spec_new(const char *name)
{
    struct arena a;
    struct spec_priv *priv;
    struct spec *s;

    arena_init(&a);
    s = arena_new(&a, struct spec);
    priv = arena_new(&a, struct spec_priv);
    priv->file = arena_strdup(&a, name);
    priv->arena = a;
    s->priv = priv;
    bind_defaults(&spec_schema, &priv->arena, s);
    return s;
}

void spec_free(struct spec *s)
{
    struct arena a;

    if (!s)
        return;
    a = s->priv->arena; /* it holds the spec itself */
    arena_release(&a);
}

struct spec *spec_default(void)
{
    return spec_new("");
}

static int origin_order(const void *a, const void *b)
{
    const struct spec_origin *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

static void origins_keep(struct load *l, struct spec_priv *priv)
{
    priv->origins = arena_memdup(&priv->arena, l->origins, l->origin_count * sizeof(*l->origins));
    priv->origin_count = l->origin_count;
    if (priv->origin_count)
        qsort(priv->origins, priv->origin_count, sizeof(*priv->origins), origin_order);
}

static const struct spec_origin *origin_find(const struct spec *s, const void *member)
{
    const struct spec_origin key = { .at = member };

    return s->priv->origin_count ? bsearch(&key, s->priv->origins, s->priv->origin_count,
                                           sizeof(*s->priv->origins), origin_order)
                                 : NULL;
}

struct spec_pos spec_where(const struct spec *s, const void *member)
{
    const struct spec_origin *o = origin_find(s, member);

    return o ? (struct spec_pos){ .line = o->line, .col = o->col } : (struct spec_pos){ 0 };
}

const char *spec_path(const struct spec *s, const void *member)
{
    const struct spec_origin *o = origin_find(s, member);

    return o ? o->path : NULL;
}

/* The first error in one line, for callers that print no more than that. */
static enum rc first_error(const struct spec_diags *d, struct err *err)
{
    const struct spec_diag *g = &d->items[0];
    size_t more = d->count - 1 + d->dropped;

    if (g->hint)
        err_hint(err, "%s", g->hint);
    if (!g->line)
        return err_set(err, RC_PARSE, "%s: %s", d->file, g->msg);
    if (!more)
        return err_set(err, RC_PARSE, "%s:%d:%d: %s", d->file, g->line, g->col, g->msg);
    return err_set(err, RC_PARSE, "%s:%d:%d: %s (and %zu more)", d->file, g->line, g->col, g->msg,
                   more);
}

enum rc spec_parse(const char *text, size_t len, const char *name, struct spec **out,
                   struct spec_diags *diags, struct err *err)
{
    struct spec_diags own = { 0 };
    struct spec *s = spec_new(name);
    struct load l = {
        .text = text,
        .len = len,
        .arena = &s->priv->arena,
        .diags = diags ? diags : &own,
    };
    struct arena tree;
    const struct yaml *root;
    enum rc rc = RC_OK;

    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* a byte order mark has no column */
        l.text += 3;
        l.len -= 3;
    }
    arena_init(&tree);
    l.diags->mem = xcalloc(1, sizeof(*l.diags->mem));
    l.diags->file = arena_strdup(&l.diags->mem->arena, name);
    root = yaml_read(&l, &tree);
    if (root)
        bind_document(&l, root, s);
    origins_keep(&l, s->priv);
    spec_derive(s);
    s->priv->text = arena_strndup(&s->priv->arena, l.text, l.len);
    s->priv->text_len = l.len;
    if (root && !l.diags->count)
        spec_check(&l, s);
    free(l.origins);
    arena_release(&tree);
    spec_diags_sort(l.diags);
    if (l.diags->count) {
        rc = first_error(l.diags, err);
        spec_free(s);
    } else {
        *out = s;
    }
    spec_diags_release(&own);
    return rc;
}

/* Reads at most SPEC_FILE_MAX bytes and one, by which too long a file is known. */
static enum rc read_all(int fd, const char *path, struct buf *out, struct err *err)
{
    char chunk[16384];

    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "could not read '%s'", path);
        if (n == 0)
            return RC_OK;
        if (out->len + (size_t)n > SPEC_FILE_MAX)
            return err_set(err, RC_LIMIT, "'%s' is larger than %d bytes", path, SPEC_FILE_MAX);
        buf_add(out, chunk, (size_t)n);
    }
}

enum rc spec_load(const char *path, struct spec **out, struct spec_diags *diags, struct err *err)
{
    bool in = str_eq(path, "-");
    int fd = in ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct buf text = { 0 };
    enum rc rc;

    if (fd < 0)
        return err_sys(err, "could not open '%s'", path);
    rc = read_all(fd, path, &text, err);
    if (rc == RC_OK)
        rc = spec_parse(buf_str(&text), text.len, in ? "standard input" : path, out, diags, err);
    buf_release(&text);
    if (!in)
        close(fd);
    return rc;
}

const char *spec_file(const struct spec *s)
{
    return s->priv->file;
}

/* The named structs all begin with their name. */
static const void *find(const void *items, size_t count, size_t size, const char *name)
{
    for (size_t i = 0; name && i < count; i++) {
        const char *const *item = (const void *)((const char *)items + i * size);

        if (str_eq(*item, name))
            return item;
    }
    return NULL;
}

const struct spec_node *spec_node_find(const struct spec *s, const char *name)
{
    return find(s->nodes, s->node_count, sizeof(*s->nodes), name);
}

const struct spec_fabric *spec_fabric_find(const struct spec *s, const char *name)
{
    return find(s->fabrics, s->fabric_count, sizeof(*s->fabrics), name);
}

const struct spec_storage *spec_storage_find(const struct spec *s, const char *name)
{
    return find(s->storage, s->storage_count, sizeof(*s->storage), name);
}

const struct spec_pool *spec_pool_find(const struct spec *s, const char *name)
{
    return find(s->pools, s->pool_count, sizeof(*s->pools), name);
}

const struct spec_shape *spec_shape_find(const struct spec *s, const char *name)
{
    return find(s->shapes, s->shape_count, sizeof(*s->shapes), name);
}

const struct spec_component *spec_component_find(const struct spec *s, const char *name)
{
    return find(s->components, s->component_count, sizeof(*s->components), name);
}

const struct spec_node *spec_node_of(const struct spec *s, const char *name)
{
    const struct spec_node *only = NULL;

    if (name)
        return spec_node_find(s, name);
    for (size_t i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].gpus_per_node)
            continue;
        if (only)
            return NULL;
        only = &s->nodes[i];
    }
    return only;
}
