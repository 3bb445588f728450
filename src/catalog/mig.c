/* SPDX-License-Identifier: MIT */
/* mig: which MIG profiles a GPU has (data/mig.csv), "1g.10gb:7 2g.20gb:3": name, how many fit. */
#include "base/embed.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/csv.h"

EMBED(data_mig, "data/mig.csv");

/* The profiles of a GPU by our name of it; NULL: not in the table. */
static const char *mig_profiles(struct arena *a, const char *gpu)
{
    struct csv t;

    if (csv_parse(a, data_mig, data_mig_len, &t, NULL))
        return NULL;
    for (size_t i = 0; i < t.rows; i++)
        if (str_eq(csv_cell(&t, i, 0), gpu))
            return csv_cell(&t, i, 1);
    return NULL;
}

static bool has_no_mig(const struct cat_gpu *g)
{
    return str_starts(g->compute, "7.") || str_eq(g->compute, "8.6") || str_eq(g->compute, "8.9");
}

struct maybe cat_mig_instances(const struct cat_gpu *g, const char *profile)
{
    struct arena a = { 0 };
    const char *p = mig_profiles(&a, g->name);
    struct maybe n = p || has_no_mig(g) ? maybe_of(0) : maybe_none();
    size_t len = strlen(profile);

    for (; p && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (!strncmp(p, profile, len) && p[len] == ':')
            n = maybe_of(strtol(p + len + 1, NULL, 10));
    arena_release(&a);
    return n;
}

void cat_mig_list(const struct cat_gpu *g, struct buf *out)
{
    struct arena a = { 0 };
    const char *p = mig_profiles(&a, g->name);

    for (bool first = true; p && *p; first = false) {
        buf_addf(out, "%s%.*s", first ? "" : ", ", (int)strcspn(p, ":"), p);
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    arena_release(&a);
}
