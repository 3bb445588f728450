/* SPDX-License-Identifier: MIT */
/* consts: data/plan.csv into the values of a kind of GPU. */
#include "plan/consts.h"

#include "plan/memory/step_memory_int.h"
#include "plan/time/step_time_int.h"

#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"

EMBED(data_plan, "data/plan.csv");

const char *const plan_const_names[PLAN_C_COUNT] = {
    [PLAN_C_GEMM] = "gemm",
    [PLAN_C_TAIL] = "tail",
    [PLAN_C_K0] = "k0",
    [PLAN_C_FP8] = "fp8",
    [PLAN_C_ATTN] = "attn",
    [PLAN_C_AT_NANO] = "at_nano",
    [PLAN_C_AT_FSDP] = "at_fsdp",
    [PLAN_C_AT_FUSED] = "at_fused",
    [PLAN_C_HBM] = "hbm",
    [PLAN_C_EL_MEG] = "el_meg",
    [PLAN_C_EL_FSDP] = "el_fsdp",
    [PLAN_C_EL_NANO] = "el_nano",
    [PLAN_C_EL_FUSED] = "el_fused",
    [PLAN_C_SMB] = "smb",
    [PLAN_C_LOSSB] = "lossb",
    [PLAN_C_HOST] = "host",
    [PLAN_C_HOSTTP] = "hosttp",
    [PLAN_C_HOSTB] = "hostb",
    [PLAN_C_FUSE] = "fuse",
    [PLAN_C_NVL] = "nvl",
    [PLAN_C_NLAT] = "nlat",
    [PLAN_C_NET] = "net",
    [PLAN_C_CON] = "con",
    [PLAN_C_NICP] = "nicp",
    [PLAN_C_AGX] = "agx",
    [PLAN_C_XLAT] = "xlat",
    [PLAN_C_OVL] = "ovl",
    [PLAN_C_STEP] = "step",
    [PLAN_C_MB] = "mb",
    [PLAN_C_PPX] = "ppx",
    [PLAN_C_MOE] = "moe",
    [PLAN_C_MSYNC] = "msync",
    [PLAN_C_HOP] = "hop",
    [PLAN_C_XLOG] = "xlog",
    [PLAN_C_EXPOSED] = "exposed",
    [PLAN_C_EARLY] = "early",
    [PLAN_C_MISALIGN] = "misalign",
    [PLAN_C_PRESS] = "press",
    [PLAN_C_PRESSAT] = "pressat",
    [PLAN_C_EFA] = "efa",
    [PLAN_C_OPA] = "opa",
    [PLAN_C_OPS] = "ops",
    [PLAN_C_OPSNF] = "opsnf",
    [PLAN_C_OPSMOE] = "opsmoe",
    [PLAN_C_LOSSF] = "lossf",
    [PLAN_C_FLOOR] = "floor",
    [PLAN_C_PCIE] = "pcie",
    [PLAN_C_HOSTMEM] = "hostmem",
    [PLAN_C_CORNER] = "corner",
    [PLAN_C_PCON] = "pcon",
};

enum { P_KIND, P_NAME, P_VALUE, P_FREE, P_START, P_WIDTH, P_MEANING, P_SOURCE, P_COUNT };
static const char *const columns[P_COUNT] = { "kind",  "name",  "value",   "free",
                                              "start", "width", "meaning", "source" };

static const char memory_kind[] = "memory";

static bool find_const(const char *kind, const char *name, enum plan_const *out)
{
    size_t n = 0;

    if (str_eq(kind, memory_kind)) {
        while (n < plan_memory_const_count && !str_eq(plan_memory_const_table[n].name, name))
            n++;
        *out = (enum plan_const)(PLAN_C_COUNT + n);
        return n < plan_memory_const_count;
    }
    while (n < PLAN_C_COUNT && !str_eq(plan_const_names[n], name))
        n++;
    *out = (enum plan_const)n;
    return n < PLAN_C_COUNT;
}

const char *plan_const_name(const struct plan_const_row *r)
{
    return r->which < PLAN_C_COUNT ? plan_const_names[r->which]
                                   : plan_memory_const_table[r->which - PLAN_C_COUNT].name;
}

static void set_memory(struct plan_memory_consts *m, const struct plan_const_row *r)
{
    memcpy((char *)m + plan_memory_const_table[r->which - PLAN_C_COUNT].offset, &r->value,
           sizeof(r->value));
}

/* 0, or of a size that a constant can have. */
static bool cell_number(const char *s, double *out)
{
    return str_to_f64(s, out) && (*out == 0 || (*out >= 1e-30 && *out <= 1e30));
}

static enum rc read_row(const struct csv *t, const size_t col[P_COUNT], size_t i,
                        struct plan_const_row *out, struct err *err)
{
    const char *name = csv_cell(t, i, col[P_NAME]), *yes = csv_cell(t, i, col[P_FREE]);
    struct plan_const_row r = { .kind = csv_cell(t, i, col[P_KIND]),
                                .free = str_eq(yes, "yes"),
                                .meaning = csv_cell(t, i, col[P_MEANING]),
                                .source = csv_cell(t, i, col[P_SOURCE]) };

    if (!find_const(r.kind, name, &r.which))
        return err_set(err, RC_PARSE, "line %zu: there is no constant '%s'", i + 2, name);
    if (!cell_number(csv_cell(t, i, col[P_VALUE]), &r.value) ||
        !cell_number(csv_cell(t, i, col[P_START]), &r.start) ||
        !cell_number(csv_cell(t, i, col[P_WIDTH]), &r.width) ||
        (r.free && !(r.value > 0 && r.start > 0 && r.width > 0)))
        return err_set(err, RC_PARSE, "line %zu: value, start or width of '%s' cannot be", i + 2,
                       name);
    if (!r.free && !str_eq(yes, "no"))
        return err_set(err, RC_PARSE, "line %zu: free is 'yes' or 'no'", i + 2);
    *out = r;
    return RC_OK;
}

enum rc plan_consts_read(struct arena *a, const char *text, size_t len,
                         struct plan_const_table *out, struct err *err)
{
    size_t col[P_COUNT];
    struct plan_const_table rows;
    struct csv t;
    enum rc rc = csv_parse(a, text, len, &t, err);

    *out = (struct plan_const_table){ 0 };
    if (rc)
        return rc;
    rc = csv_columns(&t, columns, P_COUNT, col, err);
    if (rc)
        return rc;
    if (t.rows > PLAN_CONST_ROWS_MAX)
        return err_set(err, RC_LIMIT, "more than %d rows", PLAN_CONST_ROWS_MAX);
    rows = (struct plan_const_table){ arena_array(a, struct plan_const_row, t.rows), t.rows };
    for (size_t i = 0; i < t.rows && rc == RC_OK; i++)
        rc = read_row(&t, col, i, &rows.rows[i], err);
    *out = rows;
    return rc;
}

enum rc plan_consts_table(struct arena *a, struct plan_const_table *out, struct err *err)
{
    if (plan_consts_read(a, data_plan, data_plan_len, out, err))
        return err_ctx(err, "table 'plan.csv'");
    return RC_OK;
}

bool plan_consts_of(const struct plan_const_table *t, const char *kind, struct plan_consts *out)
{
    struct plan_consts k = { .memory = plan_memory_default };
    bool own = false;

    str_copy(k.kind, sizeof(k.kind), kind);
    for (size_t i = 0; i < t->count; i++)
        if (str_eq(t->rows[i].kind, memory_kind))
            set_memory(&k.memory, &t->rows[i]);
        else if (str_eq(t->rows[i].kind, "all"))
            k.c[t->rows[i].which] = t->rows[i].value;
    for (size_t i = 0; i < t->count; i++)
        if (str_eq(t->rows[i].kind, kind) && t->rows[i].which < PLAN_C_COUNT) {
            k.c[t->rows[i].which] = t->rows[i].value;
            own = true;
        }
    *out = k;
    return own;
}

/* Generations whose runs were fitted; the others take the nearest older one's. */
static const struct {
    const char *arch, *kind;
} generations[] = {
    { "Ampere", "a100" }, { "Hopper", "h100" }, { "Blackwell", "b200" }, { "Ada", "a100" }
};

const char *plan_consts_kind(const struct plan_gpu *gpu)
{
    for (size_t i = 0; i < ARRAY_SIZE(generations); i++)
        if (str_eq(gpu->arch, generations[i].arch))
            return generations[i].kind;
    return "a100";
}

enum rc plan_consts_builtin(const struct plan_gpu *gpu, struct plan_consts *out, struct err *err)
{
    const char *kind = plan_consts_kind(gpu);
    struct arena a = { 0 };
    struct plan_const_table t;
    enum rc rc = plan_consts_table(&a, &t, err);

    if (rc == RC_OK && !plan_consts_of(&t, kind, out))
        rc = err_set(err, RC_PARSE, "table 'plan.csv' has no kind '%s'", kind);
    if (rc == RC_OK && !str_starts(gpu->alias, kind))
        snprintf(out->note, sizeof(out->note),
                 "the constants of time are the %s's, with the rates of this GPU: no run of its "
                 "kind was fitted",
                 kind);
    arena_release(&a);
    return rc;
}
