/* SPDX-License-Identifier: MIT */
/* bind: a YAML tree into the structs, row by row of the schema.
 *
 * Nothing stops at the first error: whatever is wrong is reported and left at its
 * default, so that one run shows all there is to mend.  Each value's address is noted
 * with its place in the file (spec_where()). */
#include "base/mem.h"
#include "base/str.h"
#include "spec/spec_int.h"

#include <assert.h>

enum {
    BIND_ROWS_MAX = 64,    /* keys in one table */
    BIND_KEYS_LISTED = 12, /* more are not listed in a hint */
    BIND_PATH_MAX = 512    /* bytes of "nodes[0].gpu.memory" in a message */
};

struct bind {
    struct load *l;
    struct buf path; /* of the value at hand */
};

static void bind_members(struct bind *b, const struct spec_table *t, const struct yaml *y,
                         void *obj);

void bind_defaults(const struct spec_table *t, struct arena *a, void *obj)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct spec_row *r = &t->rows[i];
        void *dst = (char *)obj + r->off;
        struct value_error e;

        if (r->kind == SPEC_SECTION)
            bind_defaults(r->sub, a, dst);
        else if (r->dflt && !value_put(r, a, r->dflt, true, dst, &e))
            assert(!"a default of the schema is not valid");
    }
}

/* --- the path --- */
static size_t path_key(struct bind *b, const char *key)
{
    size_t len = b->path.len;

    buf_addf(&b->path, "%s%.64s", len ? "." : "", key);
    return len;
}

static size_t path_index(struct bind *b, size_t i)
{
    size_t len = b->path.len;

    buf_addf(&b->path, "[%zu]", i);
    return len;
}

static void path_back(struct bind *b, size_t len)
{
    if (!b->path.data)
        return;
    b->path.over = false;
    b->path.len = len;
    b->path.data[len] = '\0';
}

static const char *path_text(const struct bind *b)
{
    return buf_str(&b->path);
}

/* The path without its indexes, as `stoker spec doc` takes it. */
static void path_bare(const struct bind *b, struct buf *out)
{
    for (const char *p = path_text(b); *p; p++) {
        if (*p == '[')
            p += strcspn(p, "]");
        else
            buf_addc(out, *p);
        if (!*p)
            break;
    }
}

/* --- what a place holds --- */
static void note_origin(struct bind *b, const void *at, int line, int col)
{
    struct load *l = b->l;

    VEC_GROW(l->origins, l->origin_count, l->origin_cap);
    l->origins[l->origin_count++] = (struct spec_origin){
        .at = at,
        .path = arena_strdup(l->arena, path_text(b)),
        .line = line,
        .col = col,
    };
}

static void note_region(struct bind *b, const void *from, size_t size, const struct yaml *y)
{
    struct load *l = b->l;

    VEC_GROW(l->regions, l->region_count, l->region_cap);
    l->regions[l->region_count++] = (struct spec_region){
        .from = from,
        .size = size,
        .line = y->key ? y->key_line : y->line,
        .col = y->key ? y->key_col : y->col,
    };
}

static const char *type_word(const struct yaml *y)
{
    switch (y->type) {
    case YAML_SEQ:
        return "a list";
    case YAML_MAP:
        return "a map";
    case YAML_SCALAR:
        return "a single value";
    default:
        return "empty";
    }
}

/* Reports and returns false unless `y` is of the type that the row wants. */
static bool want_type(struct bind *b, const struct yaml *y, enum yaml_type want, const char *word)
{
    if (y->type == want)
        return true;
    if (y->type == YAML_NULL) {
        diag_add(b->l, y->line, y->col, "'%s' has no value", path_text(b));
        if (want == YAML_MAP)
            diag_hint(b->l, "Indent its keys below it, or write {} for the defaults.");
        else if (want == YAML_SEQ)
            diag_hint(b->l, "Put its items below it, each after '- ', or write [] for none.");
        else
            diag_hint(b->l, "Remove the key to leave it at its default.");
        return false;
    }
    diag_add(b->l, y->line, y->col, "'%s' must be %s, not %s", path_text(b), word, type_word(y));
    if (want == YAML_SEQ && y->type == YAML_SCALAR)
        diag_hint(b->l, "Write it as a list: [%.60s].", y->text);
    else if (want == YAML_SEQ)
        diag_hint(b->l, "Start each item with '- '.");
    else if (want == YAML_MAP && y->type == YAML_SEQ)
        diag_hint(b->l, "Write 'key: value' lines without '- '.");
    else if (want == YAML_MAP)
        diag_hint(b->l, "Put a ':' and a space behind each key.");
    return false;
}

static void bind_value(struct bind *b, const struct spec_row *r, const struct yaml *y, void *dst)
{
    struct buf type = { 0 };
    struct value_error e;

    if (y->type != YAML_SCALAR) {
        spec_row_type(r, &type);
        (void)want_type(b, y, YAML_SCALAR, buf_str(&type));
    } else if (value_put(r, b->l->arena, y->text, y->plain, dst, &e)) {
        note_origin(b, dst, y->line, y->col);
    } else {
        diag_add(b->l, y->line, y->col, "'%s' %s", path_text(b), e.msg);
        if (e.hint[0])
            diag_hint(b->l, "%s", e.hint);
    }
    buf_release(&type);
}

/* One item of a list of text. */
static bool item_ok(struct bind *b, const struct spec_row *r, const struct yaml *y)
{
    if (!want_type(b, y, YAML_SCALAR, "text"))
        return false;
    if (r->kind == SPEC_CIDRS && !value_cidr_ok(y->text)) {
        diag_add(b->l, y->line, y->col, "'%s' is not a subnet: '%.60s'", path_text(b), y->text);
        diag_hint(b->l, "Write it like 10.0.1.0/24.");
        return false;
    }
    return true;
}

static void bind_strs(struct bind *b, const struct spec_row *r, const struct yaml *y, void *dst)
{
    const char **items;
    size_t n = 0, i = 0;

    if (!want_type(b, y, YAML_SEQ, "a list"))
        return;
    items = arena_array(b->l->arena, const char *, y->count + 1);
    for (const struct yaml *c = y->first; c; c = c->next, i++) {
        size_t mark = path_index(b, i);

        if (item_ok(b, r, c)) {
            note_origin(b, &items[n], c->line, c->col);
            items[n++] = arena_strdup(b->l->arena, c->text);
        }
        path_back(b, mark);
    }
    note_origin(b, dst, y->line, y->col);
    if (r->filled && !y->count) {
        diag_add(b->l, y->line, y->col, "'%s' is an empty list, which could mean none or all",
                 path_text(b));
        diag_hint(b->l, "Leave the key out for all, or name some.");
    }
    *(struct spec_strs *)dst = (struct spec_strs){ .items = items, .count = n };
}

static void bind_pairs(struct bind *b, const struct spec_row *r, const struct yaml *y, void *dst)
{
    struct spec_pair *items;
    size_t n = 0;

    if (!want_type(b, y, YAML_MAP, "a map"))
        return;
    items = arena_array(b->l->arena, struct spec_pair, y->count + 1);
    for (const struct yaml *c = y->first; c; c = c->next) {
        size_t mark = path_key(b, c->key);

        if (r->kind == SPEC_ENV && !value_env_name_ok(c->key)) {
            diag_add(b->l, c->key_line, c->key_col, "'%.60s' cannot name an environment variable",
                     c->key);
            diag_hint(b->l, "Use letters, digits and '_', not a digit first.");
        } else if (want_type(b, c, YAML_SCALAR, "text")) {
            note_origin(b, &items[n], c->line, c->col);
            items[n++] = (struct spec_pair){ .key = arena_strdup(b->l->arena, c->key),
                                             .value = arena_strdup(b->l->arena, c->text) };
        }
        path_back(b, mark);
    }
    note_origin(b, dst, y->line, y->col);
    *(struct spec_pairs *)dst = (struct spec_pairs){ .items = items, .count = n };
}

/* One name, or a list of them; the first is kept apart for those who need one alone. */
static void bind_groups(struct bind *b, const struct spec_row *r, const struct yaml *y, void *obj)
{
    struct spec_strs *all = (void *)((char *)obj + r->off);
    const char **first = (void *)((char *)obj + r->first_off);
    const struct yaml *at = y->type == YAML_SEQ && y->first ? y->first : y;

    if (y->type == YAML_SCALAR) {
        const char **one = arena_array(b->l->arena, const char *, 2);

        one[0] = arena_strdup(b->l->arena, y->text);
        note_origin(b, one, y->line, y->col);
        note_origin(b, all, y->line, y->col);
        *all = (struct spec_strs){ .items = one, .count = 1 };
    } else {
        bind_strs(b, r, y, all);
        if (y->type == YAML_SEQ && !all->count) {
            diag_add(b->l, y->line, y->col, "'%s' names no group", path_text(b));
            diag_hint(b->l, "Leave the key out for the only group with GPUs.");
        }
    }
    if (all->count) {
        *first = all->items[0];
        note_origin(b, first, at->line, at->col);
    }
}

/* --- structs --- */
static void bind_list(struct bind *b, const struct spec_row *r, const struct yaml *y, void *obj)
{
    char *items;
    size_t i = 0, n = 0;

    if (!want_type(b, y, YAML_SEQ, "a list"))
        return;
    items = arena_array_bytes(b->l->arena, y->count + 1, r->sub->size);
    *(void **)((char *)obj + r->off) = items;
    for (const struct yaml *c = y->first; c; c = c->next, i++) {
        char *item = items + n * r->sub->size;
        size_t mark = path_index(b, i);

        if (!c->dropped) {
            note_region(b, item, r->sub->size, c);
            bind_defaults(r->sub, b->l->arena, item);
            bind_members(b, r->sub, c, item);
            n++;
        }
        path_back(b, mark);
    }
    *(size_t *)((char *)obj + r->count_off) = n;
}

static void bind_map(struct bind *b, const struct spec_row *r, const struct yaml *y, void *obj)
{
    char *items;
    size_t i = 0;

    if (!want_type(b, y, YAML_MAP, "a map of names"))
        return;
    items = arena_array_bytes(b->l->arena, y->count + 1, r->sub->size);
    *(void **)((char *)obj + r->off) = items;
    for (const struct yaml *c = y->first; c; c = c->next) {
        char *item = items + i * r->sub->size;
        const struct spec_row name = { .kind = r->names ? r->names : SPEC_NAME,
                                       .store = STORE_STR };
        size_t mark;
        struct value_error e;

        if (c->dropped)
            continue;
        mark = path_key(b, c->key);
        if (value_put(&name, b->l->arena, c->key, true, item, &e)) {
            note_origin(b, item, c->key_line, c->key_col);
        } else {
            bool long_one = strlen(c->key) > SPEC_NAME_MAX;

            diag_add(b->l, c->key_line, c->key_col, "'%.80s' %s", c->key,
                     long_one ? e.msg : "cannot be a name");
            diag_hint(b->l, "%s", e.hint);
            *(const char **)item = arena_strdup(b->l->arena, c->key);
        }
        note_region(b, item, r->sub->size, c);
        bind_defaults(r->sub, b->l->arena, item);
        bind_members(b, r->sub, c, item);
        path_back(b, mark);
        i++;
    }
    *(size_t *)((char *)obj + r->count_off) = i;
}

static void bind_row(struct bind *b, const struct spec_row *r, const struct yaml *y, void *obj)
{
    void *dst = (char *)obj + r->off, *sub;

    switch (r->kind) {
    case SPEC_STRS:
    case SPEC_NAMES:
    case SPEC_CIDRS:
        bind_strs(b, r, y, dst);
        break;
    case SPEC_GROUPS:
        bind_groups(b, r, y, obj);
        break;
    case SPEC_PAIRS:
    case SPEC_ENV:
        bind_pairs(b, r, y, dst);
        break;
    case SPEC_SECTION:
        note_region(b, dst, r->sub->size, y);
        bind_members(b, r->sub, y, dst);
        break;
    case SPEC_OPTION:
        sub = arena_alloc(b->l->arena, r->sub->size);
        note_region(b, dst, sizeof(sub), y);
        note_region(b, sub, r->sub->size, y);
        bind_defaults(r->sub, b->l->arena, sub);
        bind_members(b, r->sub, y, sub);
        *(void **)dst = sub;
        break;
    case SPEC_LIST:
        bind_list(b, r, y, obj);
        break;
    case SPEC_MAP:
        bind_map(b, r, y, obj);
        break;
    default:
        bind_value(b, r, y, dst);
    }
}

/* What people write who come from Slurm, Kubernetes or compose; spelling by itself would send them
 * from 'cpus' to 'gpu'. */
static const struct {
    const char *word, *key;
} other_words[] = {
    { "cpus", "cpu_cores" },     { "cores", "cpu_cores" },
    { "vcpus", "cpu_cores" },    { "cpu", "cpu_cores" },
    { "cpu", "cpus" },           { "cores", "cpus" },
    { "gpus", "gpus_per_node" }, { "gpu_count", "gpus_per_node" },
    { "gpus_per_node", "gpus" }, { "gpu", "gpus" },
    { "ram", "memory" },         { "mem", "memory" },
    { "nodelist", "hosts" },     { "hostnames", "hosts" },
    { "node_count", "count" },   { "size", "count" },
    { "time", "time_limit" },    { "walltime", "time_limit" },
    { "volumes", "mounts" },     { "environment", "env" },
    { "workingDir", "workdir" }, { "cmd", "command" },
    { "node_group", "nodes" },   { "nodeSelector", "nodes" },
    { "shm_size", "shm" },
};

static const char *key_meant(const char *word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < ARRAY_SIZE(other_words); i++)
        for (size_t k = 0; k < count && str_eq(other_words[i].word, word); k++)
            if (str_eq(other_words[i].key, names[k]))
                return names[k];
    return str_nearest(word, names, count);
}

static void unknown_key(struct bind *b, const struct spec_table *t, const struct yaml *y)
{
    const char *names[BIND_ROWS_MAX] = { 0 }, *near;
    struct buf list;

    for (size_t i = 0; i < t->count; i++)
        names[i] = t->rows[i].key;
    if (b->path.len)
        diag_add(b->l, y->key_line, y->key_col, "unknown key '%.64s' in '%s'", y->key,
                 path_text(b));
    else
        diag_add(b->l, y->key_line, y->key_col, "unknown key '%.64s'", y->key);
    if (b->l->diags->dropped) /* nobody will see the hint */
        return;
    near = key_meant(y->key, names, t->count);
    if (near) {
        diag_hint(b->l, "Did you mean '%s'?", near);
        return;
    }
    buf_init(&list, 1024);
    if (t->count > BIND_KEYS_LISTED) {
        path_bare(b, &list);
        diag_hint(b->l, "`stoker spec doc%s%s` lists the keys here.", list.len ? " " : "",
                  buf_str(&list));
        buf_release(&list);
        return;
    }
    for (size_t i = 0; i < t->count; i++)
        buf_addf(&list, "%s%s", i ? ", " : "", names[i]);
    diag_hint(b->l, "The keys here are %s.", buf_str(&list));
    buf_release(&list);
}

static void missing_key(struct bind *b, const struct spec_row *r, const struct yaml *y)
{
    /* a map below a key is named by the key; an item of a list by its first line */
    int line = y->key ? y->key_line : y->line;
    int col = y->key ? y->key_col : y->col;

    diag_add(b->l, line, col, "'%s' lacks the key '%s'", path_text(b), r->key);
    diag_hint(b->l, "'%s' is required: %s.", r->key, r->doc);
}

/* `obj` has its defaults already. */
static void bind_members(struct bind *b, const struct spec_table *t, const struct yaml *y,
                         void *obj)
{
    bool seen[BIND_ROWS_MAX] = { false };

    assert(t->count <= BIND_ROWS_MAX);
    if (!want_type(b, y, YAML_MAP, "a map"))
        return;
    for (const struct yaml *c = y->first; c; c = c->next) {
        const struct spec_row *r = spec_row_find(t, c->key);
        size_t mark;

        if (c->dropped)
            continue;
        if (!r) {
            unknown_key(b, t, c);
            continue;
        }
        seen[r - t->rows] = true;
        mark = path_key(b, c->key);
        bind_row(b, r, c, obj);
        path_back(b, mark);
    }
    for (size_t i = 0; i < t->count; i++)
        if (t->rows[i].required && !seen[i])
            missing_key(b, &t->rows[i], y);
}

void bind_document(struct load *l, const struct yaml *root, struct spec *s)
{
    struct bind b = { .l = l };

    buf_init(&b.path, BIND_PATH_MAX);
    if (root->type != YAML_MAP) {
        diag_add(l, root->line, root->col, "a spec is a map of 'key: value' lines, not %s",
                 type_word(root));
        diag_hint(l, "`stoker spec example` lists specs to start from.");
    } else {
        bind_members(&b, &spec_schema, root, s);
    }
    buf_release(&b.path);
}
