/* SPDX-License-Identifier: MIT */
/* bands: how far a prediction may be off, from runs whose source the fit had not seen.
 *
 * A band is for a generation of GPUs, models with or without experts and a stack of software.  Rows
 * of one source err alike, so what counts is the spread between sources: every source has the same
 * weight, however many rows it has, and the band lies between weighted quantiles of predicted over
 * measured time.  A source is a set of the fit, predicted by constants that were fitted without it,
 * or a table that is in no fit (its versions together, each kind of GPU apart).
 *
 * Coverage is the honest figure: each source is held against the band that the others make, so that
 * neither the constants nor the band have seen it. */
#include "base/str.h"
#include "plan/campaign.h"
#include "plan/campaign/campaign_int.h"
#include "plan/runs.h"
#include "plan/validate/validate_int.h"

#include <math.h>

enum { FEW = 3, UNITS_MAX = 128, GROUP_TEXT_MAX = 48, SOURCES_TEXT_MAX = 190 };
/* Of the weight, below and above a band.  A tenth would promise eight of ten and hold 7.5 for
 * sources that the band has not seen: a few sources do not show the whole spread. */
static const double tail = 0.08;

struct band_unit { /* a source */
    char group[GROUP_TEXT_MAX];
    const char *name;
    size_t family;  /* characters of `name` that versions share */
    double *errors; /* predicted over measured, less one */
    size_t count;
};
struct units {
    struct band_unit v[UNITS_MAX];
    size_t count;
};

static void group_of(const struct plan_row *r, char out[GROUP_TEXT_MAX])
{
    snprintf(out, GROUP_TEXT_MAX, "%s,%s,%s", plan_gpu_kin(&r->cluster.gpu),
             r->model.experts ? "yes" : "no", plan_band_stack(r->config.profile.stack));
}

static enum plan_set set_of(const struct plan_row *r)
{
    int s = 0;

    while (s < PLAN_SETS_FITTED && !plan_set_has((enum plan_set)s, r))
        s++;
    return (enum plan_set)s;
}

static struct band_unit *unit_of(struct arena *a, struct units *u, const struct plan_row *r,
                                 size_t rows)
{
    enum plan_set s = set_of(r);
    struct band_unit new = { .name = s < PLAN_SETS_FITTED ? plan_sets[s].title : r->source };

    group_of(r, new.group);
    new.family = s < PLAN_SETS_FITTED ? strlen(new.name) : strcspn(new.name, "0123456789(");
    for (size_t i = 0; i < u->count; i++)
        if (str_eq(u->v[i].group, new.group) && u->v[i].family == new.family &&
            !strncmp(u->v[i].name, new.name, new.family))
            return &u->v[i];
    if (u->count == UNITS_MAX)
        return NULL;
    new.errors = arena_array(a, double, rows);
    u->v[u->count] = new;
    return &u->v[u->count++];
}

static void units_collect(struct arena *a, const struct plan_rows *rows, const double *seconds,
                          struct units *out)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        struct band_unit *u;

        if (!(seconds[i] > 0) || plan_row_no_time(r) || r->exclude & PLAN_R1_NOT_CLEAN)
            continue;
        if (r->exclude & PLAN_R4_VERSION && set_of(r) == PLAN_SETS_FITTED)
            continue;
        u = unit_of(a, out, r, rows->count);
        if (u)
            u->errors[u->count++] = seconds[i] / r->measured.iter_s - 1;
    }
}

struct weighed {
    double v, weight;
};

static int by_error(const void *a, const void *b)
{
    const struct weighed *x = a, *y = b;

    return (x->v > y->v) - (x->v < y->v);
}

/* The band of the units of `group` (NULL: of all), without `without`.  How many there were. */
static size_t band_of(struct arena *a, const struct units *u, const char *group,
                      const struct band_unit *without, struct plan_band_row *out)
{
    size_t n = 0, sources = 0, k = 0;
    struct weighed *w;
    double sum = 0;

    for (size_t i = 0; i < u->count; i++)
        n += u->v[i].count;
    w = arena_array(a, struct weighed, n + 1);
    for (size_t i = 0; i < u->count; i++) {
        const struct band_unit *x = &u->v[i];

        if (x == without || (group && !str_eq(x->group, group)))
            continue;
        sources++;
        for (size_t j = 0; j < x->count; j++)
            w[k++] = (struct weighed){ x->errors[j], 1 / (double)x->count };
    }
    qsort(w, k, sizeof(*w), by_error);
    out->n = (int64_t)k;
    out->low = out->high = 0;
    for (size_t i = 0; i < k; i++) {
        if (sum <= tail * (double)sources)
            out->low = 100 * w[i].v;
        if (sum < (1 - tail) * (double)sources)
            out->high = 100 * w[i].v;
        sum += w[i].weight;
    }
    return sources;
}

/* The band of a group; where few sources speak for it, at least as wide as that of all. */
static size_t group_band(struct arena *a, const struct units *u, const char *group,
                         const struct band_unit *without, struct plan_band_row *out)
{
    size_t sources = band_of(a, u, group, without, out);
    struct plan_band_row all;

    if (sources >= FEW)
        return sources;
    band_of(a, u, NULL, without, &all);
    if (!sources) {
        *out = all;
        return 0;
    }
    out->low = fmin(out->low, all.low);
    out->high = fmax(out->high, all.high);
    return sources;
}

static double unit_covered(const struct band_unit *u, const struct plan_band_row *b)
{
    double low = fmin(b->low, 0) / 100, high = fmax(b->high, 0) / 100;
    size_t in = 0;

    for (size_t i = 0; i < u->count; i++)
        in += u->errors[i] >= low && u->errors[i] <= high;
    return (double)in / (double)u->count;
}

static const char *names_of(struct arena *a, const struct units *u, const char *group)
{
    char text[SOURCES_TEXT_MAX] = "";
    size_t len = 0, n = 0, more = 0;

    for (size_t i = 0; i < u->count; i++) {
        const struct band_unit *x = &u->v[i];
        size_t family = strcspn(x->name, "(");

        if (!str_eq(x->group, group))
            continue;
        while (family && x->name[family - 1] == ' ')
            family--;
        if (len + family + 40 > sizeof(text)) {
            more++;
            continue;
        }
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s", n++ ? "; " : "",
                                (int)family, x->name);
    }
    if (more)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "; %zu more", more);
    snprintf(text + len, sizeof(text) - len, "%s", n + more > 1 ? ": each left out" : " left out");
    return arena_strdup(a, text);
}

void plan_bands_of(struct arena *a, const struct plan_rows *rows, const double *seconds,
                   struct plan_bands *out)
{
    struct units *u = arena_array(a, struct units, 1);
    double sum = 0;

    *out = (struct plan_bands){ 0 };
    units_collect(a, rows, seconds, u);
    for (size_t i = 0; i < u->count; i++) {
        struct plan_band_row own = { 0 };
        bool seen = false;

        for (size_t k = 0; k < out->count && !seen; k++)
            seen = str_eq(out->group[k], u->v[i].group);
        if (!seen && out->count < PLAN_BANDS_MAX &&
            group_band(a, u, u->v[i].group, NULL, &out->row[out->count]) > 1) {
            out->row[out->count].source = names_of(a, u, u->v[i].group);
            out->group[out->count++] = u->v[i].group;
        }
        group_band(a, u, u->v[i].group, &u->v[i], &own);
        sum += unit_covered(&u->v[i], &own);
    }
    band_of(a, u, NULL, NULL, &out->any);
    out->sources = u->count;
    out->coverage = u->count ? sum / (double)u->count : 0;
}

void plan_bands_write(const struct plan_bands *b, struct buf *out)
{
    buf_adds(out, "gpu,moe,stack,low,high,n,source\n");
    for (size_t i = 0; i < b->count; i++)
        buf_addf(out, "%s,%.1f,%.1f,%lld,\"%s\"\n", b->group[i], b->row[i].low, b->row[i].high,
                 (long long)b->row[i].n, b->row[i].source);
    buf_addf(out,
             "any,any,any,%.1f,%.1f,%lld,\"all sources left out of the fit: fewer than two of them "
             "are like it\"\n",
             b->any.low, b->any.high, (long long)b->any.n);
}
