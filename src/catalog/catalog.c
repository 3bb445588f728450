/* SPDX-License-Identifier: MIT */
/* catalog: tables from CSV to structs, and the look-ups. */
#include "catalog/catalog.h"

#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"

#include <assert.h>
#include <ctype.h>

EMBED(data_nccl_env, "data/nccl_env.csv");
EMBED(data_gpus, "data/gpus.csv");

enum { WORD_MAX = 64 };

enum rc cat_nccl_load(struct arena *a, struct cat_nccl_table *out, struct err *err)
{
    static const char *const names[] = {
        "name", "default", "values", "meaning", "since", "source"
    };
    size_t col[ARRAY_SIZE(names)] = { 0 };
    struct cat_nccl *rows;
    struct csv t;

    if (csv_parse(a, data_nccl_env, data_nccl_env_len, &t, err) ||
        csv_columns(&t, names, ARRAY_SIZE(names), col, err))
        return err_ctx(err, "table 'nccl_env.csv'");
    rows = arena_array(a, struct cat_nccl, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        rows[i] = (struct cat_nccl){
            .name = csv_cell(&t, i, col[0]),
            .dflt = csv_cell(&t, i, col[1]),
            .values = csv_cell(&t, i, col[2]),
            .meaning = csv_cell(&t, i, col[3]),
            .since = csv_cell(&t, i, col[4]),
            .source = csv_cell(&t, i, col[5]),
        };
        if (i && strcmp(rows[i - 1].name, rows[i].name) >= 0)
            return err_set(err, RC_PARSE, "table 'nccl_env.csv': '%s' is out of order",
                           rows[i].name);
    }
    *out = (struct cat_nccl_table){ .rows = rows, .count = t.rows };
    return RC_OK;
}

static int name_cmp(const void *key, const void *row)
{
    return strcmp(key, ((const struct cat_nccl *)row)->name);
}

const struct cat_nccl *cat_nccl_find(const struct cat_nccl_table *t, const char *name)
{
    if (!name || !t->count)
        return NULL;
    return bsearch(name, t->rows, t->count, sizeof(*t->rows), name_cmp);
}

/* How far two names are apart by slips of the pen, FAR where one is another name: a word with other
 * letters is another word (SHARP_DISABLE is not SHM_DISABLE, nor IBEXT_ IB_), so words are held
 * against each other one by one, and a short one may have one slip only. */
static size_t count_slips(const char *a, const char *b, size_t far)
{
    enum { LONG_WORD = 6 };
    char x[64], y[64];
    size_t sum = 0;

    while (*a && *b) {
        size_t n = strcspn(a, "_"), m = strcspn(b, "_"), most = n >= LONG_WORD ? 2 : 1, d;

        if (n >= sizeof(x) || m >= sizeof(y))
            return far;
        snprintf(x, sizeof(x), "%.*s", (int)n, a);
        snprintf(y, sizeof(y), "%.*s", (int)m, b);
        d = str_distance(x, y, most);
        if (d > most || (d && n < 3))
            return far;
        sum += d;
        a += n + (a[n] == '_');
        b += m + (b[m] == '_');
    }
    return *a || *b ? far : sum;
}

const char *cat_nccl_nearest(const struct cat_nccl_table *t, const char *name)
{
    enum { FAR = 4 }; /* more edits than this are another name */
    const char *best = NULL;
    size_t best_d = FAR;

    for (size_t i = 0; i < t->count; i++) {
        /* a '_' more or less is one slip, too */
        bool spaced = str_distance(name, t->rows[i].name, 1) <= 1;
        size_t d = spaced ? 1 : count_slips(name, t->rows[i].name, FAR);
        bool gone = str_eq(t->rows[i].dflt, "(removed)") || str_eq(t->rows[i].dflt, "(not NCCL)");

        if (d < best_d && !gone) {
            best = t->rows[i].name;
            best_d = d;
        }
    }
    return best;
}

/* ---- GPUs ---- */

/* Empty is unknown; anything but a number is a fault of the table. */
static enum rc read_number(const char *gpu, const char *s, struct maybe *out, struct err *err)
{
    if (!*s) {
        *out = maybe_none();
        return RC_OK;
    }
    *out = str_to_maybe(s);
    return out->known
               ? RC_OK
               : err_set(err, RC_PARSE, "table 'gpus.csv': '%s': '%s' is not a number", gpu, s);
}

/* Calls `fn` for each word of `s` between `sep`; false stops and is returned. */
static bool each_word(const char *s, char sep, bool (*fn)(const char *word, void *arg), void *arg)
{
    while (*s) {
        const char *end = strchrnul(s, sep);
        char word[WORD_MAX];
        size_t len = (size_t)(end - s);

        if (len >= sizeof(word))
            return false;
        memcpy(word, s, len);
        word[len] = 0;
        if (!fn(word, arg))
            return false;
        s = *end ? end + 1 : end;
    }
    return true;
}

static bool add_id(const char *word, void *arg)
{
    struct cat_gpu *g = arg;
    int64_t id;

    if (g->pci_ids_count == CAT_GPU_IDS_MAX || !str_to_i64(word, 16, &id))
        return false;
    g->pci_ids[g->pci_ids_count++] = id;
    return true;
}

static enum rc gpu_row(const struct csv *t, size_t i, const size_t *col, struct cat_gpu *out,
                       struct err *err)
{
    struct cat_gpu g = {
        .name = csv_cell(t, i, col[0]),
        .match = csv_cell(t, i, col[1]),
        .arch = csv_cell(t, i, col[3]),
        .compute = csv_cell(t, i, col[4]),
        .alias = csv_cell(t, i, col[22]),
        .price_date = csv_cell(t, i, col[23]),
        .plan_note = csv_cell(t, i, col[24]),
        .source = csv_cell(t, i, col[25]),
    };
    struct maybe *const numbers[] = { &g.mem_gb,        &g.mem_gbps,      &g.nvlink_gen,
                                      &g.nvlink_links,  &g.nvlink_gbps,   &g.tdp_w,
                                      &g.bf16_tflops,   &g.fp8_tflops,    &g.mem_mib,
                                      &g.sms,           &g.fp4_tflops,    &g.bf16_best,
                                      &g.fp8_best,      &g.price_cents_h, &g.c2c,
                                      &g.nvlink_bridge, &g.fp32_gflops };
    /* names[] of cat_gpu_load() has these from 5 to 21 and the words behind them */
    static_assert(ARRAY_SIZE(numbers) == 17, "numbers are the columns 5 to 21");

    if (!each_word(csv_cell(t, i, col[2]), ' ', add_id, &g))
        return err_set(err, RC_PARSE, "table 'gpus.csv': '%s': bad PCI ids", g.name);
    for (size_t k = 0; k < ARRAY_SIZE(numbers); k++) {
        enum rc rc = read_number(g.name, csv_cell(t, i, col[5 + k]), numbers[k], err);
        if (rc)
            return rc;
    }
    *out = g;
    return RC_OK;
}

enum rc cat_gpu_load(struct arena *a, struct cat_gpu_table *out, struct err *err)
{
    static const char *const names[] = {
        "name",          "match",      "pci_ids",       "arch",        "compute",   "mem_gb",
        "mem_gbps",      "nvlink_gen", "nvlink_links",  "nvlink_gbps", "tdp_w",     "bf16_tflops",
        "fp8_tflops",    "mem_mib",    "sms",           "fp4_tflops",  "bf16_best", "fp8_best",
        "price_cents_h", "c2c",        "nvlink_bridge", "fp32_gflops", "alias",     "price_date",
        "plan_note",     "source"
    };
    size_t col[ARRAY_SIZE(names)] = { 0 };
    struct cat_gpu *rows;
    struct csv t;

    if (csv_parse(a, data_gpus, data_gpus_len, &t, err) ||
        csv_columns(&t, names, ARRAY_SIZE(names), col, err))
        return err_ctx(err, "table 'gpus.csv'");
    rows = arena_array(a, struct cat_gpu, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        enum rc rc = gpu_row(&t, i, col, &rows[i], err);
        if (rc)
            return rc;
    }
    *out = (struct cat_gpu_table){ .rows = rows, .count = t.rows };
    return RC_OK;
}

/* False, which ends each_word(), when the product holds the phrase between blanks:
 * "H200" is in "NVIDIA H200" and not in "NVIDIA GH200 480GB". */
static bool not_in(const char *phrase, void *arg)
{
    const char *product = arg;
    size_t len = strlen(phrase);

    for (const char *p = product; len && (p = strstr(p, phrase)) != NULL; p++)
        if ((p == product || p[-1] == ' ') && (!p[len] || p[len] == ' '))
            return false;
    return true;
}

bool cat_gpu_memory_is(const struct cat_gpu *g, int64_t bytes)
{
    int64_t least = maybe_or(g->mem_gb, 0) * 1000000000, most = maybe_or(g->mem_gb, 0) << 30;
    int64_t told = maybe_or(g->mem_mib, 0) << 20;

    if (!g->mem_gb.known)
        return true;
    return (bytes >= least - least / 32 && bytes <= most + most / 32) ||
           (bytes >= told - told / 32 && bytes <= told + told / 32);
}

const struct cat_gpu *cat_gpu_find(const struct cat_gpu_table *t, struct maybe pci_device,
                                   const char *product)
{
    for (size_t i = 0; pci_device.known && i < t->count; i++)
        for (size_t k = 0; k < t->rows[i].pci_ids_count; k++)
            if (t->rows[i].pci_ids[k] == pci_device.v)
                return &t->rows[i];
    /* A known id that is not in the table is another product, whatever its name. */
    for (size_t i = 0; !pci_device.known && product && i < t->count; i++)
        if (!each_word(t->rows[i].match, '|', not_in, (void *)(uintptr_t)product))
            return &t->rows[i];
    return NULL;
}

/* Lower case without blanks, dashes and the maker's name: "NVIDIA A100-80GB" is a10080gb. */
static void gpu_name_fold(const char *s, char out[WORD_MAX])
{
    size_t n = 0;

    for (; *s && n + 1 < WORD_MAX; s++) {
        char c = *s >= 'A' && *s <= 'Z' ? (char)(*s - 'A' + 'a') : *s;

        if (c != ' ' && c != '-' && c != '_')
            out[n++] = c;
    }
    out[n] = 0;
    if (str_starts(out, "nvidia"))
        memmove(out, out + 6, n - 5);
    else if (str_starts(out, "tesla")) /* what the driver calls cards up to Turing */
        memmove(out, out + 5, n - 4);
}

/* False, which ends each_word(), when the word is the name that is looked for. */
static bool gpu_name_differs(const char *word, void *arg)
{
    char folded[WORD_MAX];

    gpu_name_fold(word, folded);
    return !str_eq(folded, arg);
}

struct gpu_near {
    const char *want, *best;
    size_t distance;
};

/* Digits of a folded name; an 'o' behind one is a zero that was mistaken. */
static void gpu_name_digits(const char *s, char out[WORD_MAX])
{
    size_t n = 0;

    for (size_t i = 0; s[i]; i++) {
        bool zero = s[i] == 'o' && n;

        if (zero || isdigit((unsigned char)s[i]))
            out[n++] = zero ? '0' : s[i];
    }
    out[n] = 0;
}

/* A slip of the pen, not another GPU: V100 is no A100, L40 no L40S, H20 no H200, GH200 no H200.
 * Digits and the letters before them say which GPU it is; what stands behind does, too, where the
 * name is short. */
static bool gpu_name_slips(const char *a, const char *b)
{
    enum { SHORT_NAME = 5 };
    char da[WORD_MAX], db[WORD_MAX];
    size_t family = strcspn(a, "0123456789");

    gpu_name_digits(a, da);
    gpu_name_digits(b, db);
    if (!str_eq(da, db) || strcspn(b, "0123456789") != family || strncmp(a, b, family) != 0)
        return false;
    return strlen(a) == strlen(b) || strlen(a) >= SHORT_NAME;
}

static bool gpu_near_look(const char *word, void *arg)
{
    static _Thread_local char best[WORD_MAX];
    struct gpu_near *n = arg;
    char folded[WORD_MAX];
    size_t d;

    gpu_name_fold(word, folded);
    d = str_distance(n->want, folded, n->distance);
    if (d < n->distance && gpu_name_slips(n->want, folded)) {
        n->distance = d;
        for (size_t i = 0; i <= strlen(word); i++)
            best[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 'a' + 'A') : word[i];
        n->best = best;
    }
    return true;
}

const struct cat_gpu *cat_gpu_named(const struct cat_gpu_table *t, const char *name,
                                    const char **near)
{
    char want[WORD_MAX];
    struct gpu_near n = { .want = want };

    gpu_name_fold(name, want);
    n.distance = strlen(want) > 5 ? 3 : 2; /* fewer edits than this: a slip, not another GPU */
    for (size_t i = 0; i < t->count; i++) {
        const struct cat_gpu *g = &t->rows[i];

        if (!each_word(g->alias, '|', gpu_name_differs, want) ||
            !each_word(g->match, '|', gpu_name_differs, want) || !gpu_name_differs(g->name, want))
            return g;
    }
    for (size_t i = 0; near && i < t->count; i++)
        (void)each_word(t->rows[i].alias, '|', gpu_near_look, &n);
    if (near)
        *near = n.best;
    return NULL;
}

int cat_gpu_nvlink(const struct cat_gpu *g)
{
    return maybe_or(g->nvlink_bridge, 0) ? 0 : (int)maybe_or(g->nvlink_gen, 0);
}

bool cat_gpu_is_grace(const struct cat_gpu *g)
{
    return str_starts(g->name, "GB") || str_starts(g->name, "GH");
}
