/* SPDX-License-Identifier: MIT */
/* prom_export: the table as Prometheus text.
 *
 * Families come in the order of data/telemetry.csv, then applications' own by name; series of a
 * family in the order in which they were made.  An application may bring a name that is ours as
 * well (process_cpu_seconds_total): its series then stand in our family.  What would make the
 * whole text wrong (a second TYPE, the same labels twice, a reserved label) is left out and
 * counted.  The lines of a histogram or a summary stand in one family, as their application has
 * them.  Labels of GPUs are in the order of DCGM's exporter; our own metrics of GPUs have no
 * modelName, which is no name that Prometheus likes (the UUID leads to it). */
#include "telemetry/prom/prom.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/prom_text.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROM_EXPORT_LABELS_MAX =
        2 * TELEMETRY_LABELS_MAX,  /* of a line: the series', the host's and the job's */
    PROM_EXPORT_DOC_MAX = 1 << 20, /* bytes of the labels that GPUs have for a time */
    PROM_EXPORT_EXACT_BITS = 53    /* whole numbers a double holds without a gap */
};

static const uint32_t nothing = UINT32_MAX;

struct line_label {
    const char *name, *value;
    int place; /* see place_of() */
};

struct export_page {
    const struct prom_export_opts *o;
    struct buf *out;
    struct telemetry *t;
    const struct telemetry_metric *rows; /* of the table */
    size_t row_count;
    const struct telemetry_metric *
        *foreign; /* applications' own, one a family, by its name; owned */
    size_t foreign_count;
    double *values;         /* one copy of all; owned */
    uint32_t *first, *next; /* series by family: lists of ids; owned */
    size_t count, left_out;
    struct arena arena;
    const struct json *gpus;                /* the document gpu_labels; NULL: none */
    const struct telemetry_metric *counted; /* what is left out: written last, and only by us */
};

/* ---- numbers */

/* DCGM's exporter writes its doubles with six digits and the rest as whole numbers. */
static bool add_dcgm_number(struct buf *out, const struct telemetry_metric *m, double v)
{
    static const double blank = 9223372036854774784.0; /* DCGM's own "unknown" begins above it */

    if (!isfinite(v) || fabs(v) >= blank)
        return false;
    if (str_eq(m->unit, "W") || str_eq(m->unit, "ratio"))
        buf_addf(out, "%f\n", v);
    else
        buf_addf(out, "%" PRId64 "\n", (int64_t)v);
    return true;
}

/* Milli, micro and nano units are most of what is measured, and printf() and strtod() most of
 * the time that a page takes.  A whole number over a power of ten that gives `v` back has the
 * digits of its text: the division is rounded as strtod() rounds. */
static bool add_decimal(struct buf *out, double v)
{
    static const struct {
        int64_t one;
        int digits;
    } units[] = { { 1, 0 }, { 1000, 3 }, { 1000000, 6 }, { 1000000000, 9 } };
    const double exact = (double)(INT64_C(1) << PROM_EXPORT_EXACT_BITS);

    for (size_t i = 0; i < ARRAY_SIZE(units) && fabs(v) * (double)units[i].one < exact; i++) {
        int64_t n = llround(fabs(v) * (double)units[i].one), whole = n / units[i].one;
        int64_t part = n % units[i].one;
        int digits = units[i].digits;

        if ((double)n / (double)units[i].one != fabs(v))
            continue;
        for (; digits && part % 10 == 0; digits--)
            part /= 10;
        buf_adds(out, v < 0 ? "-" : "");
        if (digits)
            buf_addf(out, "%" PRId64 ".%0*" PRId64, whole, digits, part);
        else
            buf_addf(out, "%" PRId64, whole);
        return true;
    }
    return false;
}

/* ---- labels */

/* The name of the family that a metric of an application is written in. */
static const char *foreign_name(const struct telemetry_metric *m)
{
    return m->family_type != TELEMETRY_PLAIN ? m->family : m->prom;
}

static bool of_gpu(const struct telemetry_metric *m)
{
    return m->entity == TELEMETRY_GPU || m->entity == TELEMETRY_LINK;
}

/* DCGM's exporter: who it is, the host, labels from fields by name, all others by name. */
static int place_of(const char *name)
{
    static const char *const order[] = { "gpu",       "UUID",          "pci_bus_id", "device",
                                         "modelName", "GPU_I_PROFILE", "GPU_I_ID" };
    enum { HOST = ARRAY_SIZE(order), FIELD, OTHER };

    for (size_t i = 0; i < ARRAY_SIZE(order); i++)
        if (name[0] == order[i][0] && strcmp(name, order[i]) == 0)
            return (int)i;
    if (str_eq(name, "Hostname") || str_eq(name, "hostname"))
        return HOST;
    return str_starts(name, "DCGM_") ? FIELD : OTHER;
}

static bool label_before(const struct line_label *a, const struct line_label *b)
{
    return a->place != b->place ? a->place < b->place : strcmp(a->name, b->name) < 0;
}

/* Keeps `all` in order; a name that is there already stays as it is. */
static size_t put_label(struct line_label *all, size_t count, const char *name, const char *value)
{
    struct line_label l = { .name = name, .value = value, .place = place_of(name) };
    size_t i;

    if (count == PROM_EXPORT_LABELS_MAX)
        return count;
    for (i = 0; i < count; i++)
        if (strcmp(all[i].name, name) == 0)
            return count;
    for (i = count; i > 0 && label_before(&l, &all[i - 1]); i--)
        all[i] = all[i - 1];
    all[i] = l;
    return count + 1;
}

static bool label_name_ok(const char *s)
{
    for (const char *c = s; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
              (c > s && *c >= '0' && *c <= '9')))
            return false;
    return *s && !str_starts(s, "__");
}

/* The job, pod, … that has the GPU now. */
static size_t put_job(const struct export_page *p, struct line_label *all, size_t count)
{
    const char *index = NULL, *instance = NULL;
    const struct json *gpu = NULL;
    char key[64];

    for (size_t i = 0; p->gpus && i < count; i++) {
        if (strcmp(all[i].name, "gpu") == 0)
            index = all[i].value;
        else if (strcmp(all[i].name, "GPU_I_ID") == 0)
            instance = all[i].value;
    }
    if (index && instance)
        (void)snprintf(key, sizeof(key), "%s.%s", index, instance);
    if (index)
        gpu = json_get(p->gpus, instance ? key : index);
    for (const struct json *l = gpu && gpu->type == JSON_OBJ ? gpu->first : NULL; l; l = l->next)
        if (json_str(l) && label_name_ok(l->key))
            count = put_label(all, count, l->key, json_str(l));
    return count;
}

static size_t gpu_labels(const struct export_page *p, const struct telemetry_series *s, bool dcgm,
                         struct line_label *all)
{
    size_t count = 0;

    for (size_t i = 0; i < s->label_count; i++)
        if (dcgm || !str_eq(s->labels[i].name, "modelName"))
            count = put_label(all, count, s->labels[i].name, s->labels[i].value);
    if (p->o->hostname)
        count =
            put_label(all, count, p->o->lower_hostname ? "hostname" : "Hostname", p->o->hostname);
    return s->metric->entity == TELEMETRY_GPU ? put_job(p, all, count) : count;
}

static size_t plain_labels(const struct telemetry_series *s, struct line_label *all)
{
    for (size_t i = 0; i < s->label_count; i++)
        all[i] = (struct line_label){ .name = s->labels[i].name, .value = s->labels[i].value };
    return s->label_count;
}

/* ---- a family */

struct export_family {
    const char *name;
    const struct telemetry_metric *metric; /* whose words and kind it has */
    bool dcgm, begun;
    uint64_t *seen; /* hashes of label sets, where an application's are among them; else NULL */
    size_t seen_mask;
};

/* The same for every order of the labels. */
static uint64_t labels_hash(const struct line_label *all, size_t count)
{
    uint64_t sum = 1; /* 0 is a free place */

    for (size_t i = 0; i < count; i++) {
        uint64_t h = UINT64_C(0xcbf29ce484222325);

        for (const char *c = all[i].name; *c; c++)
            h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
        h = (h ^ 0xff) * UINT64_C(0x100000001b3);
        for (const char *c = all[i].value; *c; c++)
            h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
        sum += h ^ (h >> 31);
    }
    return sum ? sum : 1;
}

static bool seen_before(struct export_family *f, uint64_t hash)
{
    size_t i = hash & f->seen_mask;

    for (; f->seen[i]; i = (i + 1) & f->seen_mask)
        if (f->seen[i] == hash)
            return true;
    f->seen[i] = hash;
    return false;
}

static bool fits_family(struct export_family *f, const struct telemetry_series *s,
                        const struct line_label *all, size_t count)
{
    if (s->metric->family_type != f->metric->family_type ||
        (f->metric->family_type == TELEMETRY_PLAIN && s->metric->kind != f->metric->kind))
        return false;
    for (size_t i = 0; i < count; i++)
        if (str_starts(all[i].name, "__")) /* Prometheus keeps these for itself */
            return false;
    return !f->seen || !seen_before(f, labels_hash(all, count) + (uintptr_t)s->metric);
}

/* A counter's family in OpenMetrics lacks the _total of its samples; one whose name has none, or
 * whose family another metric is, has no type there. */
static bool is_open_counter(const struct export_page *p, const struct export_family *f)
{
    size_t len = strlen(f->name);

    if (f->metric->kind != TELEMETRY_COUNTER || f->metric->family_type != TELEMETRY_PLAIN ||
        !str_ends(f->name, "_total"))
        return false;
    len -= strlen("_total");
    for (size_t i = 0; i < p->foreign_count; i++)
        if (strlen(foreign_name(p->foreign[i])) == len &&
            !memcmp(foreign_name(p->foreign[i]), f->name, len))
            return false;
    return true;
}

/* node_exporter has counters without _total, and says nothing of their type. */
static const char *type_of(const struct export_page *p, const struct export_family *f)
{
    if (f->metric->family_type != TELEMETRY_PLAIN)
        return f->metric->family_type == TELEMETRY_HISTOGRAM ? "histogram" : "summary";
    if (f->metric->kind == TELEMETRY_GAUGE)
        return "gauge";
    if (p->o->open_metrics)
        return is_open_counter(p, f) ? "counter" : "unknown";
    return str_starts(f->name, "node_") && !str_ends(f->name, "_total") ? "untyped" : "counter";
}

static void begin_family(struct export_page *p, struct export_family *f)
{
    size_t len = strlen(f->name);
    bool open = p->o->open_metrics;

    f->begun = true;
    if (open && is_open_counter(p, f))
        len -= strlen("_total");
    prom_add_head(p->out, f->name, len, f->metric->help, open, type_of(p, f));
}

static bool is_row(const struct export_page *p, const struct telemetry_metric *m)
{
    return m >= p->rows && m < p->rows + p->row_count;
}

static void add_series(struct export_page *p, struct export_family *f, uint32_t id)
{
    const struct telemetry_series *s = telemetry_get(p->t, id);
    bool own = is_row(p, s->metric);
    double v = p->values[id] * s->metric->scale;
    struct line_label all[PROM_EXPORT_LABELS_MAX];
    size_t count = of_gpu(s->metric) ? gpu_labels(p, s, f->dcgm, all) : plain_labels(s, all);
    size_t before_line;

    if (!own && !str_eq(foreign_name(s->metric), f->name))
        return; /* an application's, in the family of DCGM's other name */
    if (!fits_family(f, s, all, count)) {
        p->left_out++;
        return;
    }
    if (!f->begun)
        begin_family(p, f);
    before_line = p->out->len;
    buf_adds(p->out, f->metric->family_type != TELEMETRY_PLAIN ? s->metric->prom : f->name);
    for (size_t i = 0; i < count; i++)
        prom_add_label(p->out, i, all[i].name, all[i].value);
    prom_add_labels_end(p->out, count);
    if (!f->dcgm || !own) {
        if (isinf(v) || !add_decimal(p->out, v))
            prom_add_number(p->out, v);
        buf_addc(p->out, '\n');
        return;
    }
    if (add_dcgm_number(p->out, s->metric, v))
        return;
    if (!p->out->over) {
        p->out->len = before_line;
        p->out->data[before_line] = '\0';
    }
    p->left_out++;
}

/* Room to see label sets twice, where that can be: among an application's. */
static void begin_seen(struct export_page *p, struct export_family *f, uint32_t head)
{
    bool foreign = false;
    size_t n = 0, cap = 1;

    for (uint32_t id = head; id != nothing; id = p->next[id], n++)
        foreign = foreign || !is_row(p, telemetry_get(p->t, id)->metric);
    while (cap < 2 * n)
        cap *= 2;
    f->seen = foreign ? xcalloc(cap, sizeof(*f->seen)) : NULL;
    f->seen_mask = cap - 1;
}

static void add_family(struct export_page *p, const struct telemetry_metric *m, const char *name,
                       bool dcgm, uint32_t head)
{
    struct export_family f = { .name = name, .metric = m, .dcgm = dcgm };

    begin_seen(p, &f, head);
    for (uint32_t id = head; id != nothing; id = p->next[id])
        add_series(p, &f, id);
    free(f.seen);
}

static bool pattern_is(const char *pattern, const struct telemetry_metric *m)
{
    const char *const names[] = { m->id,     m->prom,   m->dcgm,
                                  m->dcgm46, m->family, telemetry_entity_word(m->entity) };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (names[i] && !fnmatch(pattern, names[i], 0))
            return true;
    return false;
}

static bool is_wanted(const struct export_page *p, const struct telemetry_metric *m)
{
    if (!p->o->only)
        return true;
    for (const char *const *id = p->o->only; *id; id++)
        if (pattern_is(*id, m))
            return true;
    return false;
}

bool prom_export_pattern_known(struct telemetry *t, const char *pattern)
{
    size_t n;
    const struct telemetry_metric *rows = telemetry_metrics(&n);
    bool known = false;

    for (size_t i = 0; i < n && !known; i++)
        known = pattern_is(pattern, &rows[i]);
    if (!t || known)
        return known;
    telemetry_hold(t);
    n = telemetry_count(t);
    for (size_t i = 0; i < n && !known; i++)
        known = pattern_is(pattern, telemetry_get(t, (uint32_t)i)->metric);
    telemetry_let(t);
    return known;
}

enum rc prom_export_patterns_read(struct arena *a, const char *text, const char *const **out,
                                  struct err *err)
{
    const char **list = arena_array(a, const char *, PROM_EXPORT_PATTERNS_MAX + 1);
    size_t n = 0;

    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n"), cell;
        const char *p = line + strspn(line, " \t\r\"");

        cell = p < line + len ? strcspn(p, " \t\r\n,\"#") : 0;
        line += len + (line[len] == '\n');
        if (!cell)
            continue;
        if (n == PROM_EXPORT_PATTERNS_MAX || cell >= PROM_EXPORT_PATTERN_BYTES_MAX)
            return err_set(err, RC_LIMIT, "more than %d metrics, or one of more than %d bytes",
                           PROM_EXPORT_PATTERNS_MAX, PROM_EXPORT_PATTERN_BYTES_MAX);
        list[n++] = arena_strndup(a, p, cell);
    }
    list[n] = NULL;
    *out = list;
    return RC_OK;
}

static enum prom_export_names names_of(const struct export_page *p)
{
    return p->o->names ? p->o->names : PROM_EXPORT_OLD;
}

/* A histogram is wanted as a whole, whichever of its lines is. */
static bool family_wanted(const struct export_page *p, const struct telemetry_metric *m,
                          uint32_t head)
{
    bool wanted = is_wanted(p, m);

    for (uint32_t id = head; m->family_type != TELEMETRY_PLAIN && !wanted && id != nothing;
         id = p->next[id])
        wanted = is_wanted(p, telemetry_get(p->t, id)->metric);
    return wanted;
}

static void add_metric(struct export_page *p, const struct telemetry_metric *m, uint32_t head)
{
    enum prom_export_names names = names_of(p);

    if (head == nothing || m == p->counted || !family_wanted(p, m, head))
        return;
    if (m->family_type != TELEMETRY_PLAIN)
        add_family(p, m, m->family, false, head);
    else if (m->prom)
        add_family(p, m, m->prom, false, head);
    if (m->dcgm && (names & PROM_EXPORT_OLD))
        add_family(p, m, m->dcgm, true, head);
    if (m->dcgm46 && (names & PROM_EXPORT_NEW) &&
        !((names & PROM_EXPORT_OLD) && str_eq(m->dcgm, m->dcgm46)))
        add_family(p, m, m->dcgm46, true, head);
}

/* ---- the page */

static int foreign_cmp(const void *a, const void *b)
{
    return strcmp(foreign_name(*(const struct telemetry_metric *const *)a),
                  foreign_name(*(const struct telemetry_metric *const *)b));
}

static void find_foreign(struct export_page *p)
{
    size_t cap = 0, unique = 0;

    for (uint32_t id = 0; id < p->count; id++) {
        const struct telemetry_metric *m = telemetry_get(p->t, id)->metric;

        if (is_row(p, m) || isnan(p->values[id]))
            continue;
        if (p->foreign_count && p->foreign[p->foreign_count - 1] == m)
            continue;
        VEC_GROW(p->foreign, p->foreign_count, cap);
        p->foreign[p->foreign_count++] = m;
    }
    if (p->foreign_count)
        qsort(p->foreign, p->foreign_count, sizeof(const struct telemetry_metric *), foreign_cmp);
    for (size_t i = 0; i < p->foreign_count; i++)
        if (!unique || foreign_cmp(&p->foreign[unique - 1], &p->foreign[i]) != 0)
            p->foreign[unique++] = p->foreign[i];
    p->foreign_count = unique;
}

static bool is_written_as(const struct export_page *p, const struct telemetry_metric *row,
                          const char *name)
{
    enum prom_export_names names = names_of(p);

    return str_eq(row->prom, name) || ((names & PROM_EXPORT_OLD) && str_eq(row->dcgm, name)) ||
           ((names & PROM_EXPORT_NEW) && str_eq(row->dcgm46, name));
}

/* The family a series stands in: its row, that of the same name, or its own behind all rows. */
static size_t family_of(const struct export_page *p, const struct telemetry_metric *m)
{
    const struct telemetry_metric *row = is_row(p, m) ? m : telemetry_metric_named(m->prom);
    const struct telemetry_metric **own;

    if (row && (row == m || is_written_as(p, row, m->prom)))
        return (size_t)(row - p->rows);
    own = bsearch(&m, p->foreign, p->foreign_count, sizeof(const struct telemetry_metric *),
                  foreign_cmp);
    return p->row_count + (size_t)(own - p->foreign);
}

static void group_series(struct export_page *p)
{
    size_t families;

    find_foreign(p);
    families = p->row_count + p->foreign_count;
    p->first = xcalloc(families + 1, sizeof(*p->first));
    p->next = xcalloc(p->count + 1, sizeof(*p->next));
    for (size_t i = 0; i < families; i++)
        p->first[i] = nothing;
    for (size_t id = p->count; id-- > 0;) { /* from the last, so that lists rise */
        size_t f;

        if (isnan(p->values[id]))
            continue;
        f = family_of(p, telemetry_get(p->t, (uint32_t)id)->metric);
        p->next[id] = p->first[f];
        p->first[f] = (uint32_t)id;
    }
}

static void read_gpu_labels(struct export_page *p)
{
    struct json *tree;
    struct buf b;

    buf_init(&b, PROM_EXPORT_DOC_MAX);
    if (telemetry_doc_copy(p->t, "gpu_labels", &b) && !b.over && b.len &&
        !json_parse(&p->arena, b.data, b.len, &tree, NULL))
        p->gpus = tree;
    buf_release(&b);
}

static void add_left_out(struct export_page *p)
{
    struct export_family f = { .metric = p->counted };

    if (!f.metric || !is_wanted(p, f.metric))
        return;
    f.name = f.metric->prom;
    begin_family(p, &f);
    buf_addf(p->out, "%s %zu\n", f.name, p->left_out);
}

void prom_export_write(struct telemetry *t, const struct prom_export_opts *o, struct buf *out)
{
    struct export_page p = { .o = o, .out = out, .t = t };
    size_t cap = telemetry_count(t);

    p.rows = telemetry_metrics(&p.row_count);
    p.counted = telemetry_metric("agent.series.left_out");
    p.values = xcalloc(cap + 1, sizeof(*p.values));
    telemetry_hold(t);
    p.count = telemetry_copy(t, p.values, cap);
    if (p.count > cap) /* series that were made meanwhile come next time */
        p.count = cap;
    read_gpu_labels(&p);
    group_series(&p);
    for (size_t i = 0; i < p.row_count; i++)
        add_metric(&p, &p.rows[i], p.first[i]);
    for (size_t i = 0; i < p.foreign_count; i++)
        add_metric(&p, p.foreign[i], p.first[p.row_count + i]);
    telemetry_let(t);
    add_left_out(&p);
    if (o->open_metrics)
        buf_adds(out, "# EOF\n");
    free(p.first);
    free(p.next);
    free(p.foreign);
    free(p.values);
    arena_release(&p.arena);
}
