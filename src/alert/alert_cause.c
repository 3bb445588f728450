/* SPDX-License-Identifier: MIT */
/* alert_cause: which alerts have one cause.
 *
 * A row of data/alert_causes.csv says that one rule (root) tells of a cause, that others are signs
 * of the same one, and which are its symptoms; rules are NAME or NAME{label=value|value}.
 *
 *   scope    labels of the root that tell one occurrence from another: two roots that share them
 *            are one cause ("": all of the node are)
 *   same     labels that the root and who follows it have alike ("": any of the node follows)
 *   before   how long before the root the other may have begun: roots have a `for` of their own
 *
 * alert_causes_link() is pure: it looks at the alerts that fire and gives each that follows another
 * one its parent.  A root before its signs, a sign before symptoms, the earlier row before the
 * later one; who is below another one is never above it.  Tables are small
 * (docs/reference/limits.md), and of a row's sources only the first ALERT_SOURCES_MAX are looked
 * at, so that a flood of alerts costs a turn no more than their number. */
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "catalog/catalog.h"

#include <assert.h>
#include <pthread.h>

enum {
    COL_CAUSE,
    COL_ROOT,
    COL_SCOPE,
    COL_SIGNS,
    COL_SYMPTOMS,
    COL_SAME,
    COL_BEFORE,
    COL_WHY,
    COLS
};
static const char *const columns[COLS] = { "cause",    "root", "scope",  "signs",
                                           "symptoms", "same", "before", "why" };

/* ---- reading */

/* Words of a list, blanks between them. */
static const char *word_next(const char **io_at, size_t *out_len)
{
    const char *word = *io_at + strspn(*io_at, " ");

    *out_len = strcspn(word, " ");
    *io_at = word + *out_len;
    return *out_len ? word : NULL;
}

/* "GpuXidFatal{xid=79|140}" */
static bool is_matcher(const char *word, size_t len)
{
    size_t name = 0, close;

    while (name < len && word[name] != '{')
        name++;
    if (!name || name >= ALERT_NAME_MAX)
        return false;
    if (name == len)
        return true;
    close = len - 1;
    return word[close] == '}' && memchr(word + name, '=', close - name) != NULL &&
           word[name + 1] != '=' && word[close - 1] != '=';
}

static size_t count_words(const char *list, bool matchers)
{
    size_t n = 0, len;

    for (const char *at = list, *w; (w = word_next(&at, &len));)
        n = matchers && !is_matcher(w, len) ? ALERT_CAUSE_WORDS_MAX + 1 : n + 1;
    return n;
}

static enum rc read_cause(const struct csv *t, size_t row, const size_t at[COLS],
                          struct alert_cause *out, struct err *err)
{
    const char *cells[COLS];
    uint64_t ms = 0;

    for (size_t c = 0; c < COLS; c++)
        cells[c] = csv_cell(t, row, at[c]);
    for (size_t c = COL_ROOT; c <= COL_SAME; c++) {
        bool labels = c == COL_SCOPE || c == COL_SAME;
        size_t max = labels ? ALERT_CAUSE_LABELS_MAX : ALERT_CAUSE_WORDS_MAX;

        if (count_words(cells[c], !labels) > max)
            return err_set(err, RC_PARSE, "row %zu: column '%s': '%.200s' is not a list of %s",
                           row + 1, columns[c], cells[c], labels ? "labels" : "rules");
    }
    if (!*cells[COL_CAUSE] || strlen(cells[COL_CAUSE]) >= ALERT_NAME_MAX || !*cells[COL_ROOT])
        return err_set(err, RC_PARSE, "row %zu: a cause needs a name and a root", row + 1);
    if (*cells[COL_BEFORE] && units_duration_parse(cells[COL_BEFORE], &ms, NULL))
        return err_set(err, RC_PARSE, "row %zu: column 'before': '%.64s' is not a duration",
                       row + 1, cells[COL_BEFORE]);
    if (ms > UINT64_C(366) * 86400000)
        return err_set(err, RC_LIMIT, "row %zu: column 'before': longer than a year", row + 1);
    *out = (struct alert_cause){ .name = cells[COL_CAUSE],
                                 .root = cells[COL_ROOT],
                                 .scope = cells[COL_SCOPE],
                                 .signs = cells[COL_SIGNS],
                                 .symptoms = cells[COL_SYMPTOMS],
                                 .same = cells[COL_SAME],
                                 .why = cells[COL_WHY],
                                 .before_ns = (int64_t)ms * 1000000 };
    return RC_OK;
}

enum rc alert_causes_read(struct arena *a, const struct csv *t, const struct alert_cause **out,
                          size_t *out_count, struct err *err)
{
    struct alert_cause *causes;
    size_t at[COLS];
    enum rc rc = RC_OK;

    if ((rc = csv_columns(t, columns, COLS, at, err)))
        return rc;
    if (t->rows > ALERT_CAUSES_MAX)
        return err_set(err, RC_LIMIT, "more than %d causes", ALERT_CAUSES_MAX);
    causes = arena_array(a, struct alert_cause, t->rows ? t->rows : 1);
    for (size_t i = 0; i < t->rows && rc == RC_OK; i++)
        rc = read_cause(t, i, at, &causes[i], err);
    if (rc == RC_OK) {
        *out = causes;
        *out_count = t->rows;
    }
    return rc;
}

/* ---- the table that is compiled in */
static struct {
    pthread_once_t once;
    struct arena arena;
    const struct alert_cause *causes;
    size_t count;
} own = { .once = PTHREAD_ONCE_INIT };

static void load_own(void)
{
    struct csv t;
    enum rc rc = cat_alert_causes_load(&own.arena, &t, NULL);

    if (rc == RC_OK)
        rc = alert_causes_read(&own.arena, &t, &own.causes, &own.count, NULL);
    assert(rc == RC_OK);
}

const struct alert_cause *alert_causes(size_t *count)
{
    pthread_once(&own.once, load_own);
    *count = own.count;
    return own.causes;
}

/* ---- matching */

/* The place of an alert in a list of rules, from 0; -1: it is not in it. */
static int place_in(const char *list, const struct alert_link *x)
{
    size_t len, n = 0;

    for (const char *at = list, *w; (w = word_next(&at, &len)); n++) {
        const char *open = memchr(w, '{', len);
        size_t name = open ? (size_t)(open - w) : len;
        char where[ALERT_CAUSE_WHERE_MAX];

        if (strlen(x->rule) != name || memcmp(x->rule, w, name) != 0)
            continue;
        if (!open)
            return (int)n;
        (void)snprintf(where, sizeof(where), "%.*s", (int)(len - name - 2), open + 1);
        if (alert_where(where, x->subject->labels, x->subject->label_count))
            return (int)n;
    }
    return -1;
}

/* Have both the same values of these labels, and have they them at all? */
static bool labels_alike(const char *labels, const struct telemetry_series *a,
                         const struct telemetry_series *b)
{
    size_t len;

    for (const char *at = labels, *w; (w = word_next(&at, &len));) {
        char name[64];
        const char *mine;

        (void)snprintf(name, sizeof(name), "%.*s", (int)len, w);
        mine = telemetry_label_of(a, name);
        if (!mine || !str_eq(mine, telemetry_label_of(b, name)))
            return false;
    }
    return true;
}

static void cause_text(const struct alert_cause *c, const struct telemetry_series *root,
                       char out[ALERT_CAUSE_TEXT_MAX])
{
    size_t len, used = (size_t)snprintf(out, ALERT_CAUSE_TEXT_MAX, "%s", c->name);

    for (const char *at = c->scope, *w; (w = word_next(&at, &len));) {
        char name[64];
        const char *value;

        (void)snprintf(name, sizeof(name), "%.*s", (int)len, w);
        value = telemetry_label_of(root, name);
        if (value && used < ALERT_CAUSE_TEXT_MAX)
            used += (size_t)snprintf(out + used, ALERT_CAUSE_TEXT_MAX - used, "%c%s=%s",
                                     strchr(out, ':') ? ',' : ':', name, value);
    }
}

/* ---- linking */

/* In one row: who tells of the cause, the better first. */
struct cause_source {
    size_t index;
    int rank; /* roots by their place, then signs by theirs */
};

enum { RANK_SIGNS = ALERT_CAUSE_WORDS_MAX + 1, RANK_SYMPTOM = 2 * RANK_SIGNS };

static int rank_of(const struct alert_cause *c, const struct alert_link *x)
{
    int root = place_in(c->root, x), sign = root < 0 ? place_in(c->signs, x) : -1;

    if (root >= 0)
        return root;
    if (sign >= 0)
        return RANK_SIGNS + sign;
    return place_in(c->symptoms, x) >= 0 ? RANK_SYMPTOM : -1;
}

/* Which of two began first; they stand in one list. */
static bool is_earlier(const struct alert_link *a, const struct alert_link *b)
{
    return a->since_ns < b->since_ns || (a->since_ns == b->since_ns && a < b);
}

/* Does `x` follow from `of`?  Roots of one scope are one cause. */
static bool follows_from(const struct alert_cause *c, const struct alert_link *x, int rank,
                         const struct alert_link *of, int of_rank)
{
    if (of_rank > rank || (of_rank == rank && !is_earlier(of, x)))
        return false;
    if (x->since_ns < of->since_ns - c->before_ns)
        return false;
    return labels_alike(rank < RANK_SIGNS && of_rank < RANK_SIGNS ? c->scope : c->same, of->subject,
                        x->subject);
}

static bool is_above(const struct alert_link *list, size_t who, size_t whom)
{
    for (size_t steps = 0; steps <= ALERT_CAUSES_MAX; steps++) {
        if (whom == who)
            return true;
        if (list[whom].parent < 0)
            return false;
        whom = (size_t)list[whom].parent;
    }
    return true; /* deeper than any table: let it alone */
}

static size_t gather_sources(const int *ranks, size_t count,
                             struct cause_source out[ALERT_SOURCES_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < count && n < ALERT_SOURCES_MAX; i++)
        if (ranks[i] >= 0 && ranks[i] < RANK_SYMPTOM)
            out[n++] = (struct cause_source){ i, ranks[i] };
    return n;
}

static void link_row(const struct alert_cause *c, struct alert_link *list, int *ranks, size_t count)
{
    struct cause_source sources[ALERT_SOURCES_MAX];
    size_t n;

    for (size_t i = 0; i < count; i++)
        ranks[i] = rank_of(c, &list[i]);
    n = gather_sources(ranks, count, sources);
    for (size_t i = 0; i < count && n; i++) {
        struct alert_link *x = &list[i];
        const struct cause_source *best = NULL;

        if (ranks[i] < 0)
            continue;
        if (ranks[i] < RANK_SYMPTOM && !x->cause[0])
            cause_text(c, x->subject, x->cause);
        for (size_t k = 0; k < n && x->parent < 0; k++) {
            const struct cause_source *s = &sources[k];

            if (s->index != i && follows_from(c, x, ranks[i], &list[s->index], s->rank) &&
                (!best || s->rank < best->rank ||
                 (s->rank == best->rank && is_earlier(&list[s->index], &list[best->index]))) &&
                !is_above(list, i, s->index))
                best = s;
        }
        if (best) {
            x->parent = (int)best->index;
            x->role = ranks[i] < RANK_SYMPTOM ? ALERT_ROLE_SIGN : ALERT_ROLE_SYMPTOM;
        }
    }
}

void alert_causes_link(const struct alert_cause *causes, size_t cause_count,
                       struct alert_link *list, size_t count)
{
    int *ranks = xcalloc(count ? count : 1, sizeof(*ranks));

    for (size_t i = 0; i < count; i++) {
        list[i].parent = -1;
        list[i].role = ALERT_ROLE_NONE;
        list[i].cause[0] = '\0';
    }
    for (size_t c = 0; c < cause_count; c++)
        link_row(&causes[c], list, ranks, count);
    for (size_t i = 0; i < count; i++) {
        size_t top = i;

        while (list[top].parent >= 0)
            top = (size_t)list[top].parent;
        list[i].top = top;
        if (top == i && list[i].cause[0])
            list[i].role = ALERT_ROLE_ROOT;
        if (top != i)
            (void)str_copy(list[i].cause, sizeof(list[i].cause), list[top].cause);
    }
    free(ranks);
}
