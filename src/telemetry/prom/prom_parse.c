/* SPDX-License-Identifier: MIT */
/* prom_parse: the text that an application shows to Prometheus, into the table.
 *
 * Read is the text format 0.0.4 and what OpenMetrics adds in practice: "# EOF", "# UNIT",
 * exemplars, counters whose type is given without "_total", "_created" (left out).  Each line of
 * a histogram or summary is a series of its own, under the name it has there; its metric knows the
 * family, so that the lines are written as one again.
 *
 *   - A line that is wrong is passed over; a text without one good line is an error.
 *   - A name that is one of ours would give two families of one name in our own output: it is
 *     kept as "app_NAME".
 *   - A label of the application that `extra` has as well is kept as "exported_NAME".
 *   - NaN is unknown; infinities are values.  Times in the text are passed over: it was true when
 *     it was asked for. */
#include "base/str.h"
#include "telemetry/prom/prom.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PROM_PARSE_MAX = 16 << 20,      /* bytes of a text */
    PROM_PARSE_LINE_MAX = 16 << 10, /* bytes of a line; longer ones are passed over */
    PROM_PARSE_SAMPLES_MAX = 32768, /* samples of a text; the rest is left out, uncounted */
    PROM_PARSE_NUMBER_MAX = 64      /* bytes of a number */
};

enum prom_type { PROM_UNTYPED, PROM_GAUGE, PROM_COUNTER, PROM_HISTOGRAM, PROM_SUMMARY };

struct prom {
    struct telemetry *t;
    unsigned source;
    const struct telemetry_label *extra;
    size_t extra_count;
    char family[TELEMETRY_NAME_MAX]; /* that TYPE was last told of; "": none */
    enum prom_type type;
    char help_of[TELEMETRY_NAME_MAX], help[TELEMETRY_VALUE_MAX];
    size_t good, bad;
    void (*fn)(void *arg, const struct prom_parse_sample *s); /* instead of the table; NULL: none */
    void *arg;
};

struct prom_sample {
    char name[TELEMETRY_NAME_MAX];
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    size_t count;
    char names[TELEMETRY_LABELS_MAX][TELEMETRY_NAME_MAX],
        values[TELEMETRY_LABELS_MAX][TELEMETRY_VALUE_MAX];
    double value;
};

static bool is_name_char(char c, bool first, bool colon)
{
    return isalpha((unsigned char)c) || c == '_' || (colon && c == ':') ||
           (!first && isdigit((unsigned char)c));
}

/* A metric's or label's name; false: none, or too long. */
static bool name_read(const char **p, char *out, size_t cap, bool colon)
{
    size_t n = 0;

    while (is_name_char((*p)[n], n == 0, colon)) {
        if (n + 1 >= cap)
            return false;
        out[n] = (*p)[n];
        n++;
    }
    out[n] = '\0';
    *p += n;
    return n > 0;
}

static void skip_blanks(const char **p)
{
    while (**p == ' ' || **p == '\t')
        (*p)++;
}

/* "text" with \\, \" and \n; what does not fit is cut. */
static bool string_read(const char **p, char *out, size_t cap)
{
    const char *s = *p;
    size_t n = 0;

    if (*s++ != '"')
        return false;
    for (; *s && *s != '"'; s++) {
        char c = *s;

        if (c == '\\' && s[1]) {
            s++;
            c = *s == 'n' ? '\n' : *s;
        }
        if (n + 1 < cap)
            out[n++] = c;
    }
    if (*s != '"')
        return false;
    out[n] = '\0';
    str_make_text(out);
    *p = s + 1;
    return true;
}

static bool has_label(const struct telemetry_label *l, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(l[i].name, name))
            return true;
    return false;
}

static bool label_add(const struct prom *x, struct prom_sample *s, const char *name)
{
    char *to = s->names[s->count];
    bool taken = has_label(x->extra, x->extra_count, name);

    if (snprintf(to, TELEMETRY_NAME_MAX, "%s%s", taken ? "exported_" : "", name) >=
            TELEMETRY_NAME_MAX ||
        has_label(s->labels, s->count, to))
        return false;
    s->labels[s->count] = (struct telemetry_label){ to, s->values[s->count] };
    s->count++;
    return true;
}

/* "{a="b",c="d",}"; false also for a name given twice and for too many. */
static bool labels_read(const struct prom *x, const char **p, struct prom_sample *s)
{
    char name[TELEMETRY_NAME_MAX];

    (*p)++;
    for (;;) {
        skip_blanks(p);
        if (**p == '}') {
            (*p)++;
            return true;
        }
        if (s->count == TELEMETRY_LABELS_MAX - x->extra_count ||
            !name_read(p, name, sizeof(name), false))
            return false;
        skip_blanks(p);
        if (*(*p)++ != '=')
            return false;
        skip_blanks(p);
        if (!string_read(p, s->values[s->count], TELEMETRY_VALUE_MAX) || !label_add(x, s, name))
            return false;
        skip_blanks(p);
        if (**p == ',')
            (*p)++;
        else if (**p != '}')
            return false;
    }
}

/* As Go reads it, whatever the case of NaN and Inf; a whole word. */
static bool number_read(const char **p, double *out)
{
    char word[PROM_PARSE_NUMBER_MAX], *end;
    size_t len = strcspn(*p, " \t");

    if (!len || len >= sizeof(word))
        return false;
    memcpy(word, *p, len);
    word[len] = '\0';
    if (strspn(word, "+-.0123456789abcdefinptxABCDEFINPTXY_y") != len)
        return false;
    *out = strtod(word, &end);
    if (*end || end == word)
        return false;
    *p += len;
    return true;
}

/* Behind the value: nothing, a time, an exemplar. */
static bool tail_is_fine(const char *p)
{
    double time;

    skip_blanks(&p);
    if (!*p || *p == '#')
        return true;
    if (!number_read(&p, &time))
        return false;
    skip_blanks(&p);
    return !*p || *p == '#';
}

static bool sample_read(const struct prom *x, const char *p, struct prom_sample *s)
{
    s->count = 0;
    if (!name_read(&p, s->name, sizeof(s->name), true))
        return false;
    skip_blanks(&p);
    if (*p == '{' && !labels_read(x, &p, s))
        return false;
    skip_blanks(&p);
    return number_read(&p, &s->value) && tail_is_fine(p);
}

/* ---- what a series is ---- */

/* Prometheus writes these itself, of the target that it asks and of alerts: one of an application's
 * would stand for the whole node. */
static bool is_prometheus(const char *name)
{
    static const char *const names[] = {
        "up",
        "scrape_duration_seconds",
        "scrape_samples_scraped",
        "scrape_samples_post_metric_relabeling",
        "scrape_series_added",
        "scrape_timeout_seconds",
        "scrape_sample_limit",
        "scrape_body_size_bytes",
        "ALERTS",
        "ALERTS_FOR_STATE",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (str_eq(name, names[i]))
            return true;
    return false;
}

/* A name that an application cannot have here. */
static bool is_ours(const char *name)
{
    return telemetry_metric_named(name) || is_prometheus(name);
}

/* The family's name with a suffix. */
static bool is_family(const struct prom *x, const char *name, const char *suffix)
{
    size_t len = strlen(x->family);

    return len && !strncmp(name, x->family, len) && str_eq(name + len, suffix);
}

/* A line of a histogram or a summary. */
static bool is_part(const struct prom *x, const char *name)
{
    return (x->type == PROM_HISTOGRAM && is_family(x, name, "_bucket")) ||
           (x->type == PROM_SUMMARY && is_family(x, name, "")) ||
           ((x->type == PROM_HISTOGRAM || x->type == PROM_SUMMARY) &&
            (is_family(x, name, "_sum") || is_family(x, name, "_count")));
}

static enum telemetry_kind kind_of(const struct prom *x, const char *name)
{
    bool counts =
        x->type == PROM_COUNTER && (is_family(x, name, "") || is_family(x, name, "_total"));

    return counts || (is_part(x, name) && !is_family(x, name, "")) ? TELEMETRY_COUNTER
                                                                   : TELEMETRY_GAUGE;
}

static const char *help_for(const struct prom *x, const char *name)
{
    static const char *const parts[] = { "", "_total", "_bucket", "_sum", "_count", "_info" };
    size_t len = strlen(x->help_of);

    if (!len || !x->help[0] || strncmp(name, x->help_of, len) != 0)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (str_eq(name + len, parts[i]))
            return x->help;
    return NULL; /* "req2_total" is not "req" */
}

static bool sample_set(struct prom *x, struct prom_sample *s)
{
    char name[TELEMETRY_NAME_MAX];
    enum telemetry_kind kind = kind_of(x, s->name);
    const struct telemetry_metric *m;
    struct telemetry_metric like;

    if (x->fn) {
        x->fn(x->arg, &(struct prom_parse_sample){ s->name, s->labels, s->count, s->value });
        return true;
    }
    if (snprintf(name, sizeof(name), "%s%s", is_ours(s->name) ? "app_" : "", s->name) >=
        (int)sizeof(name))
        return false;
    like = (struct telemetry_metric){ .id = name, .help = help_for(x, s->name), .kind = kind };
    if (is_part(x, s->name) && !is_ours(s->name) && !is_ours(x->family)) {
        like.family = x->family;
        like.family_type = x->type == PROM_HISTOGRAM ? TELEMETRY_HISTOGRAM : TELEMETRY_SUMMARY;
    }
    m = telemetry_foreign_like(x->t, &like);
    if (!m || m->kind != kind)
        return false; /* another application has it as something else */
    for (size_t i = 0; i < x->extra_count; i++)
        s->labels[s->count++] = x->extra[i];
    telemetry_set(x->t, telemetry_series(x->t, x->source, m, s->labels, s->count), s->value);
    return true;
}

/* ---- lines ---- */

static enum prom_type type_of(const char *word)
{
    static const struct {
        const char *word;
        enum prom_type type;
    } types[] = {
        { "counter", PROM_COUNTER },      { "gauge", PROM_GAUGE },
        { "histogram", PROM_HISTOGRAM },  { "summary", PROM_SUMMARY },
        { "gaugehistogram", PROM_GAUGE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (str_eq(word, types[i].word))
            return types[i].type;
    return PROM_UNTYPED;
}

/* Help is as an application writes it: \\ and \n. */
static void help_read(struct prom *x, const char *p)
{
    size_t n = 0;

    for (; *p && n + 1 < sizeof(x->help); p++) {
        char c = *p;

        if (c == '\\' && p[1]) {
            p++;
            c = *p == 'n' ? ' ' : *p;
        }
        x->help[n++] = c;
    }
    x->help[n] = '\0';
    str_make_text(x->help);
}

/* "# TYPE name counter", "# HELP name text", "# EOF" (true: the end), or a remark. */
static bool comment_read(struct prom *x, const char *p)
{
    char name[TELEMETRY_NAME_MAX];
    bool is_type;

    p++;
    skip_blanks(&p);
    if (str_eq(p, "EOF"))
        return true;
    is_type = str_starts(p, "TYPE ");
    if (!is_type && !str_starts(p, "HELP "))
        return false;
    p += 5;
    skip_blanks(&p);
    if (!name_read(&p, name, sizeof(name), true))
        return false;
    skip_blanks(&p);
    if (is_type) {
        memcpy(x->family, name, sizeof(name));
        x->type = type_of(p);
    } else {
        memcpy(x->help_of, name, sizeof(name));
        help_read(x, p);
    }
    return false;
}

/* False at the end of the text. */
static bool line_take(struct prom *x, const char *line, struct prom_sample *s)
{
    skip_blanks(&line);
    if (!*line)
        return true;
    if (*line == '#')
        return !comment_read(x, line);
    if (!sample_read(x, line, s))
        x->bad++;
    else if (!(x->type >= PROM_COUNTER && is_family(x, s->name, "_created"))) {
        if (sample_set(x, s))
            x->good++;
        else
            x->bad++;
    }
    return x->good < PROM_PARSE_SAMPLES_MAX;
}

static void lines_take(struct prom *x, const char *text, size_t len)
{
    char line[PROM_PARSE_LINE_MAX];
    struct prom_sample s;
    const char *end = text + len;

    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);

        if (n < sizeof(line) && !memchr(p, '\0', n)) {
            memcpy(line, p, n);
            line[n] = '\0';
            if (n && line[n - 1] == '\r')
                line[n - 1] = '\0';
            if (!line_take(x, line, &s))
                return;
        } else
            x->bad++;
        p += n + 1;
    }
}

static enum rc parse_verdict(const struct prom *x, struct err *err)
{
    if (x->bad && !x->good)
        return err_set(err, RC_PARSE, "the text has no metrics (%zu lines are none)", x->bad);
    return RC_OK;
}

enum rc prom_parse_each(const char *text, size_t len,
                        void (*fn)(void *arg, const struct prom_parse_sample *s), void *arg,
                        struct err *err)
{
    struct prom x = { .fn = fn, .arg = arg };

    if (len > PROM_PARSE_MAX)
        return err_set(err, RC_LIMIT, "metrics of %zu bytes are more than %d", len, PROM_PARSE_MAX);
    lines_take(&x, text, len);
    return parse_verdict(&x, err);
}

enum rc prom_parse_take(struct telemetry *t, unsigned source, const char *text, size_t len,
                        int64_t now_ns, const struct telemetry_label *extra, size_t extra_count,
                        struct err *err)
{
    struct prom x = { .t = t, .source = source, .extra = extra, .extra_count = extra_count };

    if (len > PROM_PARSE_MAX)
        return err_set(err, RC_LIMIT, "metrics of %zu bytes are more than %d", len, PROM_PARSE_MAX);
    if (extra_count >= TELEMETRY_LABELS_MAX)
        return err_set(err, RC_LIMIT, "%zu labels are more than a series has", extra_count);
    telemetry_begin(t, source, now_ns);
    lines_take(&x, text, len);
    telemetry_end(t);
    return parse_verdict(&x, err);
}
