/* SPDX-License-Identifier: MIT */
/* spec: loading a site and asking about it. */
#include "spec/spec.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "spec/spec_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

struct spec *spec_new(const char *name)
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

void load_keep(struct load *l, struct spec_priv *priv)
{
    priv->origins = arena_memdup(&priv->arena, l->origins, l->origin_count * sizeof(*l->origins));
    priv->origin_count = l->origin_count;
    priv->regions = arena_memdup(&priv->arena, l->regions, l->region_count * sizeof(*l->regions));
    priv->region_count = l->region_count;
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

static struct spec_pos pos_make(const struct spec *s, int line, int col)
{
    return (struct spec_pos){ .line = line_number(line),
                              .col = col,
                              .file = s->priv->files[line_file(line)].name,
                              .file_no = line_file(line) };
}

struct spec_pos spec_where(const struct spec *s, const void *member)
{
    const struct spec_origin *o = origin_find(s, member);

    return o && o->line ? pos_make(s, o->line, o->col) : (struct spec_pos){ 0 };
}

struct spec_pos spec_place(const struct spec *s, const void *member)
{
    const struct spec_region *best = NULL;
    uintptr_t at = (uintptr_t)member;

    if (spec_where(s, member).line)
        return spec_where(s, member);
    for (size_t i = 0; i < s->priv->region_count; i++) {
        const struct spec_region *g = &s->priv->regions[i];

        if (at - (uintptr_t)g->from < g->size && (!best || g->size < best->size))
            best = g;
    }
    if (best)
        return pos_make(s, best->line, best->col);
    return s->priv->first_line ? pos_make(s, s->priv->first_line, s->priv->first_col)
                               : (struct spec_pos){ 0 };
}

const char *spec_line_words(const struct spec *s, const void *member, char out[SPEC_LINE_WORDS_MAX])
{
    struct spec_pos p = spec_where(s, member);

    if (p.file_no)
        (void)snprintf(out, SPEC_LINE_WORDS_MAX, "Line %d of '%.255s'", p.line, p.file);
    else
        (void)snprintf(out, SPEC_LINE_WORDS_MAX, "Line %d", p.line);
    return out;
}

const char *spec_path(const struct spec *s, const void *member)
{
    const struct spec_origin *o = origin_find(s, member);

    return o ? o->path : NULL;
}

static void origin_learn(struct spec *s, const void *member, const char *from)
{
    struct spec_priv *p = s->priv;
    struct spec_origin *old = (void *)(uintptr_t)origin_find(s, member);
    struct spec_origin *all;

    if (old) {
        old->path = arena_printf(&p->arena, "%s, changed by %s", old->path, from);
        old->from = arena_strdup(&p->arena, from);
        return;
    }
    all = arena_array(&p->arena, struct spec_origin, p->origin_count + 1);
    if (p->origin_count)
        memcpy(all, p->origins, p->origin_count * sizeof(*all));
    from = arena_strdup(&p->arena, from);
    all[p->origin_count++] = (struct spec_origin){ .at = member, .path = from, .from = from };
    p->origins = all;
    qsort(all, p->origin_count, sizeof(*all), origin_order);
}

const char *spec_learned_from(const struct spec *s, const void *member)
{
    const struct spec_origin *o = origin_find(s, member);

    return o ? o->from : NULL;
}

static void maybe_learn(struct spec *s, struct maybe *to, struct maybe found, const char *from)
{
    if (!found.known || (to->known && to->v == found.v))
        return;
    *to = found;
    origin_learn(s, to, from);
}

static void count_learn(struct spec *s, int64_t *to, struct maybe found, const char *from)
{
    if (!found.known || *to == found.v)
        return;
    *to = found.v;
    origin_learn(s, to, from);
}

void spec_node_learn(struct spec *s, const struct spec_node *n, const struct spec_found *found,
                     const char *from)
{
    struct spec_node *own = &s->nodes[n - s->nodes];

    maybe_learn(s, &own->cpu_cores, found->cpu_cores, from);
    maybe_learn(s, &own->memory_bytes, found->memory_bytes, from);
    count_learn(s, &own->sockets, found->sockets, from);
    count_learn(s, &own->threads_per_core, found->threads_per_core, from);
}

/* The first error in one line, for callers that print no more than that. */
static enum rc first_error(const struct spec_diags *d, struct err *err)
{
    const struct spec_diag *g = &d->items[0];
    size_t more = d->count - 1 + d->dropped;

    if (g->hint)
        err_hint(err, "%s", g->hint);
    if (!g->line)
        return err_set(err, RC_PARSE, "%s: %s", g->file, g->msg);
    if (!more)
        return err_set(err, RC_PARSE, "%s:%d:%d: %s", g->file, g->line, g->col, g->msg);
    return err_set(err, RC_PARSE, "%s:%d:%d: %s (and %zu more)", g->file, g->line, g->col, g->msg,
                   more);
}

/* "conf/" and "nodes.yaml" where the spec is "conf/stoker.yaml". */
static const char *file_name(struct load *l, const char *path)
{
    const char *first = l->files[0].name, *slash = strrchr(first, '/');
    int dir = slash ? (int)(slash - first) + 1 : 0;

    return arena_printf(l->arena, "%.*s%s", dir, first, path);
}

void load_file(struct load *l, const char *path, size_t parent, const char *text, size_t len)
{
    struct spec_text *f = &l->files[l->file_count];

    if (len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) { /* a byte order mark has no column */
        text += 3;
        len -= 3;
    }
    *f = (struct spec_text){ .name = l->file_count ? file_name(l, path) : path,
                             .path = path,
                             .parent = parent,
                             .text = arena_strndup(l->arena, text, len),
                             .len = len };
    l->file = l->file_count++;
    l->text = f->text;
    l->len = f->len;
    l->bytes += len;
}

enum rc spec_parse(const char *text, size_t len, const char *name, struct spec **out,
                   struct spec_diags *diags, struct err *err)
{
    return spec_parse_with(text, len, name, NULL, out, diags, err);
}

/* The name below its own folder, as an included file would call it. */
static void first_file(struct load *l, struct spec *s, const char *text, size_t len)
{
    const char *slash = strrchr(s->priv->file, '/');

    load_file(l, s->priv->file, 0, text, len);
    l->files[0].path = slash ? slash + 1 : s->priv->file;
}

/* What was refused is not there to derive from: then the rest is judged without it. */
static enum rc spec_agree(struct load *l, struct yaml *root, struct spec *s, struct err *err)
{
    bool sound = !l->diags->count;
    enum rc rc = RC_OK;

    sound = spec_check_names(l, s) && sound;
    if (!sound) {
        spec_check_rest(l, root);
        return RC_OK;
    }
    spec_derive(s);
    spec_check(l, s);
    if (!l->diags->count && l->judge)
        rc = l->judge->fn(s, true, l->diags, l->judge->ctx, err);
    if (l->diags->count)
        spec_judge_rest(l, root);
    return rc;
}

static enum rc parse_judged(const char *text, size_t len, const char *name,
                            const struct spec_source *source, const struct spec_judge *judge,
                            struct spec **out, struct spec_diags *diags, struct err *err)
{
    struct spec_diags own = { 0 };
    struct spec *s = spec_new(name);
    struct load l = {
        .arena = &s->priv->arena, .diags = diags ? diags : &own, .source = source, .judge = judge
    };
    struct arena tree;
    struct yaml *root;
    bool whole;
    enum rc rc = RC_OK;

    arena_init(&tree);
    l.diags->mem = xcalloc(1, sizeof(*l.diags->mem));
    l.diags->file = arena_strdup(&l.diags->mem->arena, name);
    l.files = arena_array(l.arena, struct spec_text, SPEC_INCLUDES_MAX + 1);
    first_file(&l, s, text, len);
    root = yaml_read(&l, &tree);
    if (root)
        include_expand(&l, &tree, root, 0);
    whole = !l.diags->count; /* else values of files that were not read would be missed */
    s->priv->files = l.files;
    s->priv->file_count = l.file_count;
    if (root) {
        s->priv->first_line = root->line;
        s->priv->first_col = root->col;
        bind_document(&l, root, s);
    }
    load_keep(&l, s->priv);
    if (root && whole)
        rc = spec_agree(&l, root, s, err);
    free(l.origins);
    free(l.regions);
    arena_release(&tree);
    spec_diags_sort(l.diags);
    if (l.diags->count)
        rc = first_error(l.diags, err);
    if (rc) {
        spec_free(s);
    } else {
        *out = s;
    }
    spec_diags_release(&own);
    return rc;
}

enum rc spec_parse_with(const char *text, size_t len, const char *name,
                        const struct spec_source *source, struct spec **out,
                        struct spec_diags *diags, struct err *err)
{
    return parse_judged(text, len, name, source, NULL, out, diags, err);
}

/* Reads at most SPEC_FILE_MAX bytes and one, by which too long a file is known. */
enum rc spec_read_fd(int fd, const char *path, struct buf *out, struct err *err)
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

/* The folder that holds the file, by the name that was given; -1: none. */
static int folder_open(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct buf dir = { 0 };
    int fd;

    buf_add(&dir, path, slash ? (size_t)(slash - path) + 1 : 0);
    fd = open(dir.len ? buf_str(&dir) : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    buf_release(&dir);
    return fd;
}

enum rc spec_load(const char *path, struct spec **out, struct spec_diags *diags, struct err *err)
{
    return spec_load_judged(path, NULL, out, diags, err);
}

enum rc spec_load_judged(const char *path, const struct spec_judge *judge, struct spec **out,
                         struct spec_diags *diags, struct err *err)
{
    bool in = str_eq(path, "-");
    int dir;
    int fd = in ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct buf text = { 0 };
    enum rc rc;

    if (fd < 0)
        return err_sys(err, "could not open '%s'", path);
    rc = spec_read_fd(fd, path, &text, err);
    dir = in ? -1 : folder_open(path);
    if (rc == RC_OK)
        rc = parse_judged(buf_str(&text), text.len, in ? "standard input" : path,
                          dir < 0 ? NULL : &(struct spec_source){ spec_read_below, &dir }, judge,
                          out, diags, err);
    buf_release(&text);
    if (dir >= 0)
        close(dir);
    if (!in)
        close(fd);
    return rc;
}

const char *spec_file(const struct spec *s)
{
    return s->priv->file;
}

/* The named structs all begin with their name. */
static const void *find_named(const void *items, size_t count, size_t size, const char *name)
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
    return find_named(s->nodes, s->node_count, sizeof(*s->nodes), name);
}

const struct spec_fabric *spec_fabric_find(const struct spec *s, const char *name)
{
    return find_named(s->fabrics, s->fabric_count, sizeof(*s->fabrics), name);
}

const struct spec_storage *spec_storage_find(const struct spec *s, const char *name)
{
    return find_named(s->storage, s->storage_count, sizeof(*s->storage), name);
}

const struct spec_pool *spec_pool_find(const struct spec *s, const char *name)
{
    return find_named(s->pools, s->pool_count, sizeof(*s->pools), name);
}

bool spec_model_on_cpu(const struct spec *s, const struct spec_model *m)
{
    const struct spec_pool *p = m->pool ? spec_pool_find(s, m->pool) : NULL;

    return m->device == SPEC_DEVICE_CPU ||
           (m->device == SPEC_DEVICE_AUTO && !m->gpus && p && p->device == SPEC_POOL_CPU);
}

const struct spec_shape *spec_shape_find(const struct spec *s, const char *name)
{
    return find_named(s->shapes, s->shape_count, sizeof(*s->shapes), name);
}

const struct spec_component *spec_component_find(const struct spec *s, const char *name)
{
    return find_named(s->components, s->component_count, sizeof(*s->components), name);
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
