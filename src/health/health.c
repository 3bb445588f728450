/* SPDX-License-Identifier: MIT */
/* health: runs the checks of the asked groups over an inventory and gathers rows.
 *
 * Invariants of a list that health_check() returned:
 *   1. every check of the asked groups has at least one row, in the order of groups
 *      and of their tables;
 *   2. a WARN or FAIL row has a remedy, a PASS or SKIP row has none;
 *   3. no two rows of one check have the same status, fact and remedy. */
#include "health/health.h"
#include "base/str.h"
#include "health/health_int.h"

#include <assert.h>

static const struct check_table *const tables[] = { &checks_gpu,      &checks_fabric,
                                                    &checks_catalog,  &checks_rdma,
                                                    &checks_training, &checks_container,
                                                    &checks_spec };

static const struct {
    unsigned bit;
    const char *name;
    const char *about; /* for the page */
} groups_known[] = {
    { CHECK_GPU, "gpu", "Are the GPUs, their driver and their links in order?" },
    { CHECK_RDMA, "rdma", "Will GPUs of several nodes reach each other at full speed?" },
    { CHECK_TRAINING, "training", "Is everything here that a training job stands on?" },
    { CHECK_CONTAINER, "container", "Does the container, pod or job leave GPU work enough room?" },
    { CHECK_SPEC, "spec", "Is here what the site's spec asks for (`-f SPEC`)?" },
};
static_assert(CHECK_ALL == (CHECK_GPU | CHECK_RDMA | CHECK_TRAINING | CHECK_CONTAINER),
              "every group is in CHECK_ALL");

/* ---- rows ---- */
static struct check_result *row_find(struct check_out *o, enum check_status s, const char *seen,
                                     const char *remedy)
{
    for (size_t i = o->first; i < o->list->rows_count; i++) {
        struct check_result *r = &o->list->rows[i];

        if (r->status == s && str_eq(r->seen, seen) && str_eq(r->remedy, remedy))
            return r;
    }
    return NULL;
}

static struct check_result *row_new(struct check_out *o)
{
    struct health_list *l = o->list;

    if (l->rows_count == HEALTH_ROWS_MAX) /* the last row stands for the rest */
        return NULL;
    if (l->rows_count == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 64;
        struct check_result *rows = arena_array(&l->arena, struct check_result, cap);

        if (l->rows_count)
            memcpy(rows, l->rows, l->rows_count * sizeof(*rows));
        l->rows = rows;
        o->cap = cap;
    }
    return &l->rows[l->rows_count++];
}

/* The array doubles whenever its count is a power of two. */
static void row_add_object(struct arena *a, struct check_result *r, const char *object)
{
    size_t n = r->objects_count;

    if (!object)
        return;
    if ((n & (n - 1)) == 0) {
        const char **items = arena_array(a, const char *, n ? n * 2 : 1);

        if (n)
            memcpy(items, r->objects, n * sizeof(*items));
        r->objects = items;
    }
    r->objects[r->objects_count++] = arena_strdup(a, object);
}

static void row_say(struct check_out *o, enum check_status s, const char *remedy, const char *fmt,
                    va_list ap)
{
    struct arena *a = &o->list->arena;
    struct buf text = { 0 };
    struct check_result *r;

    assert((s == CHECK_WARN || s == CHECK_FAIL) ? remedy != NULL : true);
    assert((s == CHECK_PASS || s == CHECK_SKIP) ? remedy == NULL : true);
    buf_vaddf(&text, fmt, ap);
    r = row_find(o, s, buf_str(&text), remedy);
    if (!r && (r = row_new(o))) {
        *r = (struct check_result){ .id = o->check->id,
                                    .group = o->group,
                                    .title = o->check->title,
                                    .status = s,
                                    .seen = arena_strdup(a, buf_str(&text)),
                                    .remedy = arena_strdup(a, remedy) };
        o->list->counts[s]++;
    }
    if (r)
        row_add_object(a, r, o->object);
    buf_release(&text);
}

void check_pass(struct check_out *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    row_say(o, CHECK_PASS, NULL, fmt, ap);
    va_end(ap);
}

void check_warn(struct check_out *o, const char *remedy, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    row_say(o, CHECK_WARN, remedy, fmt, ap);
    va_end(ap);
}

void check_fail(struct check_out *o, const char *remedy, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    row_say(o, CHECK_FAIL, remedy, fmt, ap);
    va_end(ap);
}

void check_skip(struct check_out *o, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    row_say(o, CHECK_SKIP, NULL, fmt, ap);
    va_end(ap);
}

void check_unknown(struct check_out *o, const char *remedy, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    row_say(o, CHECK_UNKNOWN, remedy, fmt, ap);
    va_end(ap);
}

const char *check_text(struct check_out *o, const char *fmt, ...)
{
    struct buf text = { 0 };
    const char *s;
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    s = arena_strdup(&o->list->arena, buf_str(&text));
    buf_release(&text);
    return s;
}

/* ---- evidence: the row's objects, then the fact ---- */
enum { OBJECTS_TEXT_MAX = 8 }; /* runs of names written before "and N more" */

/* An object's name around its number: "GPU " 3 "", "mlx5_" 11 "/1". */
struct numbered {
    const char *name;
    size_t prefix; /* bytes before the number */
    int64_t number;
    const char *suffix;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool numbered_parse(const char *name, struct numbered *out)
{
    size_t end = strlen(name), start;
    const char *slash = strrchr(name, '/');
    char digits[20];

    if (slash)
        end = (size_t)(slash - name);
    for (start = end; start > 0 && is_digit(name[start - 1]); start--)
        ;
    if (end == start || end - start >= sizeof(digits) || (name[start] == '0' && end - start > 1))
        return false;
    memcpy(digits, name + start, end - start);
    digits[end - start] = '\0';
    *out = (struct numbered){ .name = name, .prefix = start, .suffix = name + end };
    return str_to_i64(digits, 10, &out->number);
}

static bool numbered_alike(const struct numbered *a, const struct numbered *b)
{
    return a->prefix == b->prefix && strncmp(a->name, b->name, a->prefix) == 0 &&
           strcmp(a->suffix, b->suffix) == 0;
}

/* Writes objects[i] and all that follow it with the same words around a higher number:
 * "mlx5_0-3,5/1".  Returns the next object that is not alike. */
static size_t objects_add_run(const struct check_result *r, size_t i, struct buf *b)
{
    struct numbered first, next;
    int64_t from, last;

    if (!numbered_parse(r->objects[i], &first)) {
        buf_adds(b, r->objects[i]);
        return i + 1;
    }
    from = last = first.number;
    buf_addf(b, "%.*s%lld", (int)first.prefix, first.name, (long long)from);
    for (i++; i < r->objects_count; i++) {
        if (!numbered_parse(r->objects[i], &next) || !numbered_alike(&first, &next) ||
            next.number <= last)
            break;
        if (next.number != last + 1) {
            if (last > from)
                buf_addf(b, "-%lld", (long long)last);
            buf_addf(b, ",%lld", (long long)next.number);
            from = next.number;
        }
        last = next.number;
    }
    if (last > from)
        buf_addf(b, "-%lld", (long long)last);
    buf_adds(b, first.suffix);
    return i;
}

static void row_finish(struct arena *a, struct check_result *r)
{
    struct buf b = { 0 };

    for (size_t i = 0, runs = 0; i < r->objects_count; runs++) {
        if (runs == OBJECTS_TEXT_MAX) {
            buf_addf(&b, " and %zu more", r->objects_count - i);
            break;
        }
        buf_adds(&b, runs ? ", " : "");
        i = objects_add_run(r, i, &b);
    }
    buf_addf(&b, "%s%s", r->objects_count ? ": " : "", r->seen);
    r->evidence = arena_strdup(a, buf_str(&b));
    buf_release(&b);
}

/* ---- running ---- */
static void run_gpus(const struct hw *hw, struct check_out *o)
{
    char name[FACTS_NAME_MAX];

    if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else if (facts_gpus_ok(hw) == 0)
        check_skip(o, "no GPU answers the driver");
    for (size_t i = 0; i < hw->gpus_count; i++) {
        if (!facts_gpu_ok(&hw->gpus[i]))
            continue;
        o->object = facts_gpu_name(&hw->gpus[i], name);
        o->check->gpu(hw, &hw->gpus[i], o);
    }
    o->object = NULL;
}

static void run_ports(const struct hw *hw, struct check_out *o)
{
    char name[FACTS_NAME_MAX];

    FOR_EACH(const struct hw_rdma, d, hw->rdma) {
        for (size_t j = 0; j < d->ports_count && facts_rdma_ours(hw, d); j++) {
            snprintf(name, sizeof(name), "%.40s/%lld", d->name ? d->name : "?",
                     (long long)maybe_or(d->ports[j].port, 1));
            o->object = name;
            o->check->port(hw, d, &d->ports[j], o);
        }
    }
    o->object = NULL;
    if (o->list->rows_count == o->first)
        check_skip(o, "%s", facts_rdma_ours_count(hw) ? "no RDMA port here" : facts_rdma_none(hw));
}

static void run_check(const struct hw *hw, struct check_out *o)
{
    assert(!!o->check->fn + !!o->check->gpu + !!o->check->port == 1);
    o->first = o->list->rows_count;
    if (o->check->gpu)
        run_gpus(hw, o);
    else if (o->check->port)
        run_ports(hw, o);
    else
        o->check->fn(hw, o);
    assert(o->list->rows_count > o->first || o->list->rows_count == HEALTH_ROWS_MAX);
    for (size_t i = o->first; i < o->list->rows_count; i++)
        row_finish(&o->list->arena, &o->list->rows[i]);
}

/* The lowest bit of a set: the group under which a check in several is shown. */
static unsigned lowest_bit(unsigned set)
{
    return set & (~set + 1u);
}

void health_check(const struct hw *hw, unsigned groups, const struct health_opts *opts,
                  struct health_list *out)
{
    static const struct health_opts none = { 0 };
    struct check_out o = { .list = out, .opts = opts ? opts : &none, .groups = groups };
    struct nccl_choice choice;

    assert(out->rows_count == 0 && "a list is filled once");
    nccl_choose(hw, &choice);
    o.nccl = &choice;
    for (size_t g = 0; g < ARRAY_SIZE(groups_known); g++) {
        o.group = groups_known[g].name;
        for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
            for (size_t i = 0; i < tables[t]->count; i++) {
                o.check = &tables[t]->rows[i];
                if (lowest_bit(o.check->groups & groups) == groups_known[g].bit)
                    run_check(hw, &o);
            }
    }
    nccl_choice_release(&choice);
}

const struct nccl_port *check_nccl_port(const struct check_out *o, const struct hw_rdma *d,
                                        const struct hw_rdma_port *p)
{
    for (size_t i = 0; i < o->nccl->ports_count; i++)
        if (str_eq(o->nccl->ports[i].dev, d->name) && maybe_is(p->port, o->nccl->ports[i].port))
            return &o->nccl->ports[i];
    return NULL;
}

void health_list_release(struct health_list *list)
{
    if (!list)
        return;
    arena_release(&list->arena);
    *list = (struct health_list){ 0 };
}

enum check_status health_worst(const struct health_list *list)
{
    if (list->counts[CHECK_FAIL])
        return CHECK_FAIL;
    return list->counts[CHECK_WARN] ? CHECK_WARN : CHECK_PASS;
}

/* ---- names ---- */
const char *health_status_name(enum check_status s)
{
    static const char *const names[] = { "pass", "warn", "fail", "skip", "unknown" };

    static_assert(ARRAY_SIZE(names) == CHECK_STATUS_COUNT, "a name a status");
    assert((size_t)s < ARRAY_SIZE(names));
    return names[s];
}

static unsigned group_bit(const char *name, size_t len)
{
    if (len == 3 && strncmp(name, "all", len) == 0)
        return CHECK_ALL;
    for (size_t i = 0; i < ARRAY_SIZE(groups_known); i++)
        if (strlen(groups_known[i].name) == len && strncmp(groups_known[i].name, name, len) == 0)
            return groups_known[i].bit;
    return 0;
}

unsigned health_group_parse(const char *names)
{
    unsigned set = 0;

    for (;;) {
        size_t len = strcspn(names, ",");
        unsigned bit = group_bit(names, len);

        if (!bit)
            return 0;
        set |= bit;
        if (!names[len])
            return set;
        names += len + 1;
    }
}

/* ---- the reference page ---- */
static void doc_groups(struct buf *out, unsigned set)
{
    bool first = true;

    for (size_t g = 0; g < ARRAY_SIZE(groups_known); g++)
        if (set & groups_known[g].bit) {
            buf_addf(out, "%s%s", first ? "" : ", ", groups_known[g].name);
            first = false;
        }
}

static void doc_check(struct buf *out, const struct health_check *c)
{
    buf_addf(out, "\n### %s: %s\n\n%s\n\nGroups: ", c->id, c->title, c->doc);
    doc_groups(out, c->groups);
    buf_adds(out, ".\n");
}

/* A check stands under the group its id begins with. */
void health_doc(struct buf *out)
{
    buf_adds(out, "# Checks\n\n"
                  "`stoker detect --check GROUP` answers these. This page is written from the "
                  "tables in\n`src/health/checks_*.c`; edit those.\n\n"
                  "`pass`, `warn` and `fail` rest on a fact that was seen. `unknown` means that "
                  "the fact could\nnot be learned, `skip` that the check does not apply here; "
                  "neither is a pass. A check in\nseveral groups is answered once.\n");
    for (size_t g = 0; g < ARRAY_SIZE(groups_known); g++) {
        buf_addf(out, "\n## %s\n\n%s\n", groups_known[g].name, groups_known[g].about);
        for (size_t t = 0; t < ARRAY_SIZE(tables); t++)
            for (size_t i = 0; i < tables[t]->count; i++)
                if (str_starts(tables[t]->rows[i].id, groups_known[g].name))
                    doc_check(out, &tables[t]->rows[i]);
    }
}
