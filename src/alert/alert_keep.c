/* SPDX-License-Identifier: MIT */
/* alert_keep: what outlives a restart: a receiver that was told that an alert fires hears once of
 * it, and hears when it is over, whether or not the agent ran then.
 *
 * Two kinds of lines, each an object of JSON: an alert that fires, with the receivers that believe
 * it, and a note that waits for a receiver.  Who believes it includes those whose note waits: they
 * are told by that.  A line that is damaged costs what it says and no other.
 *
 *   {"alert":"GpuHot","severity":"critical","metric":"gpu.temp","labels":{"gpu":"3"},...,
 *    "told":["log","webhook:0f0e0d0c0b0a0908"]}
 *   {"waits_for":"webhook:0f0e0d0c0b0a0908","labels":{...},"annotations":{...},...} */
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>

#define KEEP_MS_MAX INT64_C(9000000000000) /* wall clock: the year 2255 */
#define KEEP_MS     INT64_C(1000000)

/* ---- writing */
struct writer {
    struct alert_sender *s;
    const struct telemetry *t;
    struct buf *out, line;
};

static void line_begin(struct writer *k, struct json_out *w)
{
    buf_reset(&k->line);
    json_out_init(w, &k->line, 0);
    json_obj(w);
}

static void line_end(struct writer *k, struct json_out *w)
{
    json_obj_end(w);
    buf_addc(&k->line, '\n');
    if (k->line.len <= ALERT_KEEP_LINE_MAX && k->out->len + k->line.len <= ALERT_KEEP_BYTES_MAX)
        buf_add(k->out, buf_str(&k->line), k->line.len);
}

static void put_value(struct json_out *w, double value)
{
    json_kv_num(w, "value", value); /* NaN: null */
}

static void write_alert(void *arg, const struct alert_active *x)
{
    struct writer *k = arg;
    struct json_out w;

    line_begin(k, &w);
    json_kv_str(&w, "alert", x->rule->name);
    json_kv_str(&w, "severity", alert_severity_word(x->rule->severity));
    json_kv_str(&w, "metric", x->rule->metric);
    json_kv_obj(&w, "labels");
    for (size_t i = 0; i < x->subject->label_count; i++)
        json_kv_str(&w, x->subject->labels[i].name, x->subject->labels[i].value);
    json_obj_end(&w);
    json_kv_int(&w, "since_ms", x->since_ns / KEEP_MS);
    json_kv_int(&w, "fired_ms", x->fired_ns / KEEP_MS);
    put_value(&w, x->value);
    json_kv_str(&w, "summary", x->summary);
    json_kv_str(&w, "cause", x->cause);
    json_kv_str(&w, "role", alert_role_word(x->role));
    json_kv_obj(&w, "whose");
    alert_whose_json(&x->whose, &w);
    json_obj_end(&w);
    json_kv_arr(&w, "told");
    if (k->s)
        alert_sender_told(k->s, k->t, x, &w);
    json_arr_end(&w);
    line_end(k, &w);
}

static void write_note(void *arg, const char *to, const struct alert_note *n)
{
    struct writer *k = arg;
    struct json_out w;

    line_begin(k, &w);
    json_kv_str(&w, "waits_for", to);
    json_key(&w, "labels");
    buf_adds(json_raw(&w), n->labels);
    json_key(&w, "annotations");
    buf_adds(json_raw(&w), n->annotations);
    json_kv_int(&w, "starts_ms", n->starts_ns / KEEP_MS);
    json_kv_maybe(&w, "ends_ms", n->ends_ns ? maybe_of(n->ends_ns / KEEP_MS) : maybe_none());
    put_value(&w, n->value);
    line_end(k, &w);
}

void alert_keep_write(struct alerts *a, struct alert_sender *s, const struct telemetry *t,
                      struct buf *out)
{
    struct writer k = { .s = s, .t = t, .out = out };

    alerts_each_firing(a, write_alert, &k);
    if (s)
        alert_sender_each_waiting(s, write_note, &k);
    buf_release(&k.line);
}

/* ---- reading */
struct keep_reader {
    struct alerts *a;
    struct alert_sender *s;
    const struct telemetry *t;
    size_t notes;
};

static bool read_text(const struct json *d, const char *key, char *out, size_t cap)
{
    const char *text = json_str(json_get(d, key));

    if (!text || !str_copy(out, cap, text))
        return false;
    str_make_text(out);
    return true;
}

static bool read_time(const struct json *d, const char *key, int64_t *out)
{
    struct maybe ms = json_int(json_get(d, key));
    bool good = ms.known && ms.v >= 0 && ms.v <= KEEP_MS_MAX;

    *out = good ? ms.v * KEEP_MS : 0;
    return good;
}

static bool read_severity(const struct json *d, enum alert_severity *out)
{
    const char *word = json_str(json_get(d, "severity"));

    for (int i = ALERT_INFO; i <= ALERT_CRITICAL; i++)
        if (str_eq(word, alert_severity_word((enum alert_severity)i))) {
            *out = (enum alert_severity)i;
            return true;
        }
    return false;
}

static bool read_role(const struct json *d, enum alert_role *out)
{
    const char *word = json_str(json_get(d, "role"));

    *out = ALERT_ROLE_NONE;
    for (int i = ALERT_ROLE_ROOT; i <= ALERT_ROLE_SYMPTOM; i++)
        if (word && str_eq(word, alert_role_word((enum alert_role)i)))
            *out = (enum alert_role)i;
    return !word || *out != ALERT_ROLE_NONE;
}

static bool are_texts(const struct json *d)
{
    bool good = d && d->type == JSON_OBJ;

    for (const struct json *m = good ? d->first : NULL; m && good; m = m->next)
        good = json_str(m) && strlen(m->text) == m->len;
    return good;
}

/* Labels as a table of telemetry has them. */
static bool read_labels(const struct json *d, struct telemetry_label labels[TELEMETRY_LABELS_MAX],
                        size_t *out_count)
{
    const struct json *obj = json_get(d, "labels");

    if (!are_texts(obj) || obj->count > TELEMETRY_LABELS_MAX)
        return false;
    *out_count = 0;
    for (const struct json *m = obj->first; m; m = m->next) {
        if (strlen(m->key) >= TELEMETRY_NAME_MAX || m->len >= TELEMETRY_VALUE_MAX)
            return false;
        labels[(*out_count)++] = (struct telemetry_label){ m->key, m->text };
    }
    return true;
}

static bool read_whose(const struct json *d, struct alert_whose *out)
{
    const struct json *obj = json_get(d, "whose");

    if (!are_texts(obj))
        return false;
    for (size_t i = 0; i < ALERT_WHOSE_ROWS; i++) {
        const struct alert_whose_row *r = &alert_whose_rows[i];

        if (json_get(obj, r->name) && !read_text(obj, r->name, (char *)out + r->at, r->cap))
            return false;
    }
    return true;
}

static bool read_told(const struct json *d, const char *told[ALERT_KEEP_TOLD_MAX],
                      size_t *out_count)
{
    const struct json *list = json_get(d, "told");

    if (!list || list->type != JSON_ARR || list->count > ALERT_KEEP_TOLD_MAX)
        return false;
    *out_count = 0;
    for (const struct json *m = list->first; m; m = m->next) {
        if (!json_str(m))
            return false;
        told[(*out_count)++] = m->text;
    }
    return true;
}

static bool read_alert(struct keep_reader *k, const struct json *d)
{
    char name[ALERT_NAME_MAX], metric[TELEMETRY_NAME_MAX];
    struct alert_rule rule = { .name = name, .metric = metric, .summary = "" };
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    struct telemetry_series subject = { .labels = labels, .source = TELEMETRY_SOURCES_MAX };
    struct alert_active x = { .rule = &rule, .state = ALERT_FIRING, .series = TELEMETRY_NONE };
    const char *told[ALERT_KEEP_TOLD_MAX];
    size_t told_count;

    if (!read_text(d, "alert", name, sizeof(name)) || !name[0] ||
        !read_text(d, "metric", metric, sizeof(metric)) || !read_severity(d, &rule.severity) ||
        !read_labels(d, labels, &subject.label_count) || !read_time(d, "since_ms", &x.since_ns) ||
        !read_time(d, "fired_ms", &x.fired_ns) ||
        !read_text(d, "summary", x.summary, sizeof(x.summary)) ||
        !read_text(d, "cause", x.cause, sizeof(x.cause)) || !read_role(d, &x.role) ||
        !read_whose(d, &x.whose) || !read_told(d, told, &told_count))
        return false;
    subject.metric = telemetry_metric(metric);
    x.subject = &subject;
    x.value = json_num(json_get(d, "value"), NAN);
    if (!alerts_restore(k->a, &x))
        return false;
    x.rule = alerts_rule_of(k->a, &rule); /* with its reason and runbook, as before the restart */
    x.rule = x.rule ? x.rule : &rule;
    if (k->s)
        alert_sender_believe(k->s, k->t, &x, told, told_count);
    return true;
}

static char *text_of(const struct json *d)
{
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 0);
    json_add_value(&w, d);
    return buf_take(&b);
}

/* One for a receiver that is none any more is whole, and forgotten. */
static bool read_note(struct keep_reader *k, const struct json *d)
{
    const struct json *labels = json_get(d, "labels"), *words = json_get(d, "annotations");
    const struct json *ends = json_get(d, "ends_ms");
    char to[ALERT_RECEIVER_MAX];
    struct alert_note n = { .value = json_num(json_get(d, "value"), NAN) };

    if (!read_text(d, "waits_for", to, sizeof(to)) || !are_texts(labels) || !are_texts(words) ||
        !read_time(d, "starts_ms", &n.starts_ns) ||
        (ends && ends->type != JSON_NULL && !read_time(d, "ends_ms", &n.ends_ns)) ||
        k->notes == ALERT_KEEP_NOTES_MAX)
        return false;
    k->notes++;
    if (!k->s)
        return true;
    n.labels = text_of(labels);
    n.annotations = text_of(words);
    (void)alert_sender_queue(k->s, to, &n);
    free(n.labels);
    free(n.annotations);
    return true;
}

static bool read_line(struct keep_reader *k, const char *text, size_t len)
{
    struct arena mem = { 0 };
    struct json *d = NULL;
    bool good = len <= ALERT_KEEP_LINE_MAX && json_parse(&mem, text, len, &d, NULL) == RC_OK &&
                d->type == JSON_OBJ &&
                (json_get(d, "waits_for") ? read_note(k, d) : read_alert(k, d));

    arena_release(&mem);
    return good;
}

size_t alert_keep_read(const char *text, size_t len, struct alerts *a, struct alert_sender *s,
                       const struct telemetry *t, size_t *out_kept)
{
    struct keep_reader k = { .a = a, .s = s, .t = t };
    size_t bad = 0;

    *out_kept = 0;
    for (size_t at = 0, n; at < len; at += n + 1) {
        const char *end = memchr(text + at, '\n', len - at);

        n = end ? (size_t)(end - text) - at : len - at;
        if (!n)
            continue;
        if (read_line(&k, text + at, n))
            ++*out_kept;
        else
            bad++;
    }
    return bad;
}
