/* SPDX-License-Identifier: MIT */
/* alert_rules: rows of data/alerts.csv as rules.
 *
 *   metric   an id of data/telemetry.csv, or two as a/b
 *   where    label=value|value or label!=value|value
 *   while    ID above|below|equal|not_equal NUMBER
 *   how      value, rate, increase, increase_from_zero, mean, absent
 *
 * Thresholds are in the unit of the table; `unit` says how people read them. */
#include "alert/alert_int.h"
#include "base/str.h"
#include "base/text/units.h"
#include "catalog/catalog.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>

enum {
    COL_NAME,
    COL_METRIC,
    COL_WHERE,
    COL_HOW,
    COL_WINDOW,
    COL_OP,
    COL_THRESHOLD,
    COL_CLEAR,
    COL_FOR,
    COL_KEEP,
    COL_WHILE,
    COL_SEVERITY,
    COL_UNIT,
    COL_SUMMARY,
    COL_WHY,
    COL_SOURCE,
    COLS
};
static const char *const columns[COLS] = {
    "name", "metric", "where", "how",      "window", "op",      "threshold", "clear",
    "for",  "keep",   "while", "severity", "unit",   "summary", "why",       "source",
};
static const char *const hows[] = { "value", "rate", "increase", "mean", "absent" };
static const char *const ops[] = { "above", "below", "equal", "not_equal" };
static const char *const severities[] = { "info", "warning", "critical" };
static const char *const units[] = { "%", "ratio", "ns/s", "C", "W", "B", "B/s", "s", "/s", "1" };

const char *alert_severity_word(enum alert_severity s)
{
    return severities[s];
}

const char *alert_how_word(enum alert_how h)
{
    return hows[h];
}

const char *alert_op_word(enum alert_op o)
{
    return ops[o];
}

const char *alert_role_word(enum alert_role r)
{
    static const char *const words[] = { NULL, "root", "sign", "symptom" };

    return words[r];
}

/* ---- where */
bool alert_where_split(const char *where, const char **out_name, size_t *out_len,
                       const char **out_values)
{
    size_t len = strcspn(where, "!=");
    bool others = where[len] == '!';

    *out_name = where;
    *out_len = len;
    *out_values = where + len + (where[len] != '\0') + (others && where[len + 1] == '=');
    return others;
}

static bool one_of(const char *values, const char *v)
{
    size_t len = strlen(v);

    for (const char *p = values;; p++) {
        size_t n = strcspn(p, "|");

        if (n == len && !memcmp(p, v, n))
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

bool alert_where(const char *where, const struct telemetry_label *labels, size_t count)
{
    const char *name, *values;
    size_t len;
    bool others;

    if (!where)
        return true;
    others = alert_where_split(where, &name, &len, &values);
    for (size_t i = 0; i < count; i++)
        if (strlen(labels[i].name) == len && !memcmp(labels[i].name, name, len))
            return one_of(values, labels[i].value) != others;
    return others;
}

/* ---- a row */
struct rule_row {
    struct arena *a;
    const char *cells[COLS];
    size_t line;
    struct err *err;
};

static enum rc cell_bad(struct rule_row *r, int col, const char *why)
{
    return err_set(r->err, RC_PARSE, "row %zu: column '%s': '%s' %s", r->line, columns[col],
                   r->cells[col], why);
}

static bool word_find(const char *text, const char *const *words, size_t count, unsigned *out)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(text, words[i])) {
            *out = (unsigned)i;
            return true;
        }
    return false;
}

static enum rc read_choice(struct rule_row *r, int col, const char *const *words, size_t count,
                           unsigned *out)
{
    return word_find(r->cells[col], words, count, out) ? RC_OK
                                                       : cell_bad(r, col, "is not a choice");
}

static enum rc read_duration(struct rule_row *r, int col, int64_t *out)
{
    uint64_t ms = 0;

    if (*r->cells[col] &&
        (units_duration_parse(r->cells[col], &ms, NULL) || ms > INT64_C(366) * 86400000))
        return cell_bad(r, col, "is not a duration");
    *out = (int64_t)ms * 1000000;
    return RC_OK;
}

/* "gpu.processes above 0"; "" is none. */
static enum rc read_guard(struct rule_row *r, struct alert_rule *out)
{
    const char *text = r->cells[COL_WHILE];
    size_t id = strcspn(text, " "), op;
    const char *p = text + id + (text[id] == ' ');
    unsigned o = 0;
    char *op_text;

    if (!*text)
        return RC_OK;
    op = strcspn(p, " ");
    op_text = arena_strndup(r->a, p, op);
    if (!id || !p[op] || !word_find(op_text, ops, ARRAY_SIZE(ops), &o) ||
        !str_to_f64(p + op + 1, &out->guard_than))
        return cell_bad(r, COL_WHILE, "is not like 'gpu.util above 50'");
    out->guard = arena_strndup(r->a, text, id);
    out->guard_op = (enum alert_op)o;
    return RC_OK;
}

static enum rc read_thresholds(struct rule_row *r, struct alert_rule *out)
{
    bool absent = out->how == ALERT_ABSENT;

    out->clear = NAN;
    if (!(absent && !*r->cells[COL_THRESHOLD]) &&
        !str_to_f64(r->cells[COL_THRESHOLD], &out->threshold))
        return cell_bad(r, COL_THRESHOLD, "is not a number");
    if (!*r->cells[COL_CLEAR])
        return RC_OK;
    if (!str_to_f64(r->cells[COL_CLEAR], &out->clear))
        return cell_bad(r, COL_CLEAR, "is not a number");
    if (out->op != ALERT_ABOVE && out->op != ALERT_BELOW)
        return cell_bad(r, COL_CLEAR, "has no meaning with this operator");
    if (alert_holds(out->op, out->clear, out->threshold))
        return cell_bad(r, COL_CLEAR, "is worse than the threshold");
    return RC_OK;
}

static enum rc read_metric(struct rule_row *r, struct alert_rule *out)
{
    const char *text = r->cells[COL_METRIC];
    size_t len = strcspn(text, "/");

    if (!len || (text[len] && !text[len + 1]))
        return cell_bad(r, COL_METRIC, "names no metric");
    out->metric = arena_strndup(r->a, text, len);
    out->of = text[len] ? text + len + 1 : NULL;
    if (*r->cells[COL_WHERE]) {
        const char *name, *values;
        size_t n;

        (void)alert_where_split(r->cells[COL_WHERE], &name, &n, &values);
        if (!n || !*values)
            return cell_bad(r, COL_WHERE, "is not like 'xid=48|79'");
        out->where = r->cells[COL_WHERE];
    }
    return RC_OK;
}

static enum rc read_how(struct rule_row *r, struct alert_rule *out)
{
    unsigned h = 0, o = 0;
    enum rc rc = RC_OK;

    out->from_zero = str_eq(r->cells[COL_HOW], "increase_from_zero");
    if (out->from_zero)
        h = ALERT_INCREASE;
    else
        rc = read_choice(r, COL_HOW, hows, ARRAY_SIZE(hows), &h);
    out->how = (enum alert_how)h;
    if (rc || (rc = read_duration(r, COL_WINDOW, &out->window_ns)))
        return rc;
    if ((out->window_ns != 0) != (h == ALERT_RATE || h == ALERT_INCREASE || h == ALERT_MEAN))
        return cell_bad(r, COL_WINDOW, "does not suit column 'how'");
    if (h != ALERT_ABSENT)
        rc = read_choice(r, COL_OP, ops, ARRAY_SIZE(ops), &o);
    out->op = (enum alert_op)o;
    return rc;
}

static enum rc read_words(struct rule_row *r, struct alert_rule *out)
{
    unsigned severity = 0, unit = 0;
    enum rc rc = read_choice(r, COL_SEVERITY, severities, ARRAY_SIZE(severities), &severity);

    if (rc == RC_OK)
        rc = read_choice(r, COL_UNIT, units, ARRAY_SIZE(units), &unit);
    if (rc)
        return rc;
    if (!*r->cells[COL_NAME] || strlen(r->cells[COL_NAME]) >= ALERT_NAME_MAX)
        return cell_bad(r, COL_NAME, "is not a name");
    out->name = r->cells[COL_NAME];
    out->severity = (enum alert_severity)severity;
    out->unit = units[unit];
    out->summary = r->cells[COL_SUMMARY];
    out->why = r->cells[COL_WHY];
    out->source = r->cells[COL_SOURCE];
    return RC_OK;
}

static enum rc read_row(struct rule_row *r, struct alert_rule *out)
{
    static enum rc (*const parts[])(struct rule_row * r, struct alert_rule * out) = {
        read_words, read_metric, read_how, read_thresholds, read_guard,
    };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && rc == RC_OK; i++)
        rc = parts[i](r, out);
    if (rc == RC_OK)
        rc = read_duration(r, COL_FOR, &out->for_ns);
    return rc ? rc : read_duration(r, COL_KEEP, &out->keep_ns);
}

enum rc alert_rules_read(struct arena *a, const struct csv *t, const struct alert_rule **out,
                         size_t *out_count, struct err *err)
{
    struct alert_rule *rules;
    size_t at[COLS];
    enum rc rc;

    if ((rc = csv_columns(t, columns, COLS, at, err)))
        return rc;
    if (t->rows > ALERT_RULES_MAX)
        return err_set(err, RC_LIMIT, "more than %d rules", ALERT_RULES_MAX);
    rules = arena_array(a, struct alert_rule, t->rows ? t->rows : 1);
    for (size_t i = 0; i < t->rows; i++) {
        struct rule_row r = { .a = a, .line = i + 1, .err = err };

        for (size_t c = 0; c < COLS; c++)
            r.cells[c] = csv_cell(t, i, at[c]);
        if ((rc = read_row(&r, &rules[i])))
            return rc;
    }
    *out = rules;
    *out_count = t->rows;
    return RC_OK;
}

/* ---- the table that is compiled in: read once, kept; the tests say that it can be read */
static struct {
    pthread_once_t once;
    struct arena arena;
    const struct alert_rule *rules;
    size_t count;
} defaults = { .once = PTHREAD_ONCE_INIT };

static void load_defaults(void)
{
    struct csv t;
    enum rc rc = cat_alerts_load(&defaults.arena, &t, NULL);

    if (rc == RC_OK)
        rc = alert_rules_read(&defaults.arena, &t, &defaults.rules, &defaults.count, NULL);
    assert(rc == RC_OK);
}

const struct alert_rule *alert_defaults(size_t *count)
{
    pthread_once(&defaults.once, load_defaults);
    *count = defaults.count;
    return defaults.rules;
}
