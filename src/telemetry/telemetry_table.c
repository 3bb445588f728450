/* SPDX-License-Identifier: MIT */
/* telemetry_table: data/telemetry.csv as a table of metrics, read once at first use. */
#include "base/arena.h"
#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"
#include "telemetry/telemetry_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

EMBED(data_telemetry, "data/telemetry.csv");

enum {
    COL_ID,
    COL_ENTITY,
    COL_KIND,
    COL_UNIT,
    COL_DCGM,
    COL_DCGM46,
    COL_PROM,
    COL_SCALE,
    COL_PRIORITY,
    COL_LABELS,
    COL_HELP,
    COL_SOURCE,
    COLS
};

struct named {
    const char *name;
    const struct telemetry_metric *row;
};

static struct {
    pthread_once_t once;
    struct arena arena; /* for the life of the program */
    struct telemetry_metric *rows;
    const struct telemetry_metric **by_id; /* sorted */
    struct named *by_name;                 /* sorted; dcgm, dcgm46 and prom of every row */
    size_t name_count;
    size_t count;
} table = { .once = PTHREAD_ONCE_INIT };

static const char *const entity_words[] = {
    [TELEMETRY_HOST] = "host",   [TELEMETRY_GPU] = "gpu",         [TELEMETRY_LINK] = "link",
    [TELEMETRY_PORT] = "port",   [TELEMETRY_NET] = "net",         [TELEMETRY_DISK] = "disk",
    [TELEMETRY_MOUNT] = "mount", [TELEMETRY_PROCESS] = "process", [TELEMETRY_MODEL] = "model",
    [TELEMETRY_JOB] = "job",     [TELEMETRY_APP] = "app",
};

const char *telemetry_entity_word(enum telemetry_entity e)
{
    return (unsigned)e < ARRAY_SIZE(entity_words) ? entity_words[e] : "unknown";
}

static const char *or_null(const char *cell)
{
    return *cell ? cell : NULL;
}

static bool entity_of(const char *word, enum telemetry_entity *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(entity_words); i++) {
        if (!str_eq(entity_words[i], word))
            continue;
        *out = (enum telemetry_entity)i;
        return true;
    }
    return false;
}

static bool read_row(const struct csv *t, size_t row, const size_t *col, struct telemetry_metric *m)
{
    const char *kind = csv_cell(t, row, col[COL_KIND]);
    int64_t priority;

    m->id = csv_cell(t, row, col[COL_ID]);
    m->unit = csv_cell(t, row, col[COL_UNIT]);
    m->dcgm = or_null(csv_cell(t, row, col[COL_DCGM]));
    m->dcgm46 = or_null(csv_cell(t, row, col[COL_DCGM46]));
    m->prom = or_null(csv_cell(t, row, col[COL_PROM]));
    m->help = or_null(csv_cell(t, row, col[COL_HELP]));
    m->labels = csv_cell(t, row, col[COL_LABELS]);
    m->source = csv_cell(t, row, col[COL_SOURCE]);
    m->kind = str_eq(kind, "counter") ? TELEMETRY_COUNTER : TELEMETRY_GAUGE;
    if (!entity_of(csv_cell(t, row, col[COL_ENTITY]), &m->entity) ||
        !str_to_f64(csv_cell(t, row, col[COL_SCALE]), &m->scale) ||
        !str_to_i64(csv_cell(t, row, col[COL_PRIORITY]), 10, &priority) || priority < 0 ||
        priority > TELEMETRY_PRIORITY_LAST)
        return false;
    m->priority = (int)priority;
    return m->kind == TELEMETRY_COUNTER || str_eq(kind, "gauge");
}

static int by_id_cmp(const void *a, const void *b)
{
    return strcmp((*(const struct telemetry_metric *const *)a)->id,
                  (*(const struct telemetry_metric *const *)b)->id);
}

static int by_name_cmp(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void load_names(size_t rows)
{
    table.by_name = arena_array(&table.arena, struct named, rows * 3);
    for (size_t i = 0; i < rows; i++) {
        const struct telemetry_metric *m = &table.rows[i];
        const char *const names[] = { m->dcgm, str_eq(m->dcgm, m->dcgm46) ? NULL : m->dcgm46,
                                      m->prom };

        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (names[k])
                table.by_name[table.name_count++] = (struct named){ names[k], m };
    }
    qsort(table.by_name, table.name_count, sizeof(*table.by_name), by_name_cmp);
}

/* A bad table is a fault of the source, found by any test that runs; the program then has none. */
static void load_table(void)
{
    static const char *const names[COLS] = {
        [COL_ID] = "id",         [COL_ENTITY] = "entity", [COL_KIND] = "kind",
        [COL_UNIT] = "unit",     [COL_DCGM] = "dcgm",     [COL_DCGM46] = "dcgm46",
        [COL_PROM] = "prom",     [COL_SCALE] = "scale",   [COL_PRIORITY] = "priority",
        [COL_LABELS] = "labels", [COL_HELP] = "help",     [COL_SOURCE] = "source",
    };
    size_t col[COLS] = { 0 };
    bool ok = true;
    struct csv t;

    if (csv_parse(&table.arena, data_telemetry, data_telemetry_len, &t, NULL) ||
        csv_columns(&t, names, COLS, col, NULL)) {
        assert(!"data/telemetry.csv");
        return;
    }
    table.rows = arena_array(&table.arena, struct telemetry_metric, t.rows);
    table.by_id = arena_array(&table.arena, const struct telemetry_metric *, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        ok = ok && read_row(&t, i, col, &table.rows[i]);
        table.by_id[i] = &table.rows[i];
    }
    assert(ok);
    if (!ok)
        return;
    qsort(table.by_id, t.rows, sizeof(const struct telemetry_metric *), by_id_cmp);
    load_names(t.rows);
    table.count = t.rows;
}

const struct telemetry_metric *telemetry_metrics(size_t *count)
{
    pthread_once(&table.once, load_table);
    *count = table.count;
    return table.rows;
}

const struct telemetry_metric *telemetry_metric(const char *id)
{
    struct telemetry_metric key = { .id = id };
    const struct telemetry_metric *k = &key, *const * found;

    pthread_once(&table.once, load_table);
    if (!id || !table.count)
        return NULL;
    found =
        bsearch(&k, table.by_id, table.count, sizeof(const struct telemetry_metric *), by_id_cmp);
    return found ? *found : NULL;
}

const struct telemetry_metric *telemetry_metric_named(const char *name)
{
    const struct named key = { .name = name }, *found;

    pthread_once(&table.once, load_table);
    if (!name || !table.count)
        return NULL;
    found = bsearch(&key, table.by_name, table.name_count, sizeof(key), by_name_cmp);
    return found ? found->row : NULL;
}
