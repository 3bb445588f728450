/* SPDX-License-Identifier: MIT */
/* alert_note: an alert as Alertmanager's API v2 has it: labels that say which it is, annotations
 * that say what it means, when it began and when it ends. */
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "metrics/alert_int.h"

#include <math.h>

void alert_time_text(int64_t ns, char out[40])
{
    time_t s = (time_t)(ns / ALERT_SECOND);
    int ms = (int)(ns % ALERT_SECOND / 1000000);
    struct tm tm;
    char text[32];

    if (ms < 0) { /* before 1970 */
        ms += 1000;
        s--;
    }
    (void)gmtime_r(&s, &tm);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 40, "%s.%03dZ", text, ms);
}

/* Series labels come behind ours and never replace them; Alertmanager takes no empty values. */
static char *labels_json(const struct tele_series *s, const struct alert_active *x,
                         const char *hostname)
{
    const struct tele_label own[] = {
        { "alertname", x->rule->name },
        { "severity", alert_severity_word(x->rule->severity) },
        { "hostname", hostname },
    };
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 0);
    json_obj(&w);
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (own[i].value && own[i].value[0])
            json_kv_str(&w, own[i].name, own[i].value);
    for (size_t i = 0; i < s->label_count; i++) {
        const struct tele_label *l = &s->labels[i];

        if (l->value[0] && !str_eq(l->name, "alertname") && !str_eq(l->name, "severity") &&
            !str_eq(l->name, "hostname"))
            json_kv_str(&w, l->name, l->value);
    }
    json_obj_end(&w);
    return buf_take(&b);
}

static char *annotations_json(const struct alert_active *x)
{
    const struct alert_rule *r = x->rule;
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 0);
    json_obj(&w);
    json_kv_str(&w, "summary", x->summary);
    if (r->why && *r->why)
        json_kv_str(&w, "description", r->why);
    if (r->runbook && *r->runbook)
        json_kv_str(&w, "runbook_url", r->runbook);
    json_obj_end(&w);
    return buf_take(&b);
}

struct alert_note *alert_note_new(const struct tele *t, const struct alert_active *x,
                                  const char *hostname)
{
    struct alert_note *n = xcalloc(1, sizeof(*n));

    n->labels = labels_json(tele_get(t, x->series), x, hostname);
    n->annotations = annotations_json(x);
    n->starts_ns = x->fired_ns;
    n->ends_ns = x->state == ALERT_RESOLVED ? x->resolved_ns : 0;
    n->value = x->value;
    return n;
}

struct alert_note *alert_note_copy(const struct alert_note *n)
{
    struct alert_note *c = xcalloc(1, sizeof(*c));

    *c = *n;
    c->next = NULL;
    c->labels = xstrdup(n->labels);
    c->annotations = xstrdup(n->annotations);
    return c;
}

void alert_note_free(struct alert_note *n)
{
    if (!n)
        return;
    free(n->labels);
    free(n->annotations);
    free(n);
}

static void note_json(struct json_out *w, const struct alert_note *n, const struct alert_body *b)
{
    char text[40];

    json_obj(w);
    if (b->more)
        json_kv_str(w, "status", n->ends_ns ? "resolved" : "firing");
    json_key(w, "labels");
    buf_adds(json_raw(w), n->labels);
    json_key(w, "annotations");
    buf_adds(json_raw(w), n->annotations);
    alert_time_text(n->starts_ns, text);
    json_kv_str(w, "startsAt", text);
    if (n->ends_ns || b->until_ns) {
        alert_time_text(n->ends_ns ? n->ends_ns : b->until_ns, text);
        json_kv_str(w, "endsAt", text);
    }
    if (b->generator)
        json_kv_str(w, "generatorURL", b->generator);
    if (b->more) {
        json_key(w, "value");
        json_add_num(w, n->value); /* NaN: null */
    }
    json_obj_end(w);
}

void alert_notes_json(const struct alert_note *first, size_t count, const struct alert_body *b,
                      struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (; first && count; first = first->next, count--)
        note_json(&w, first, b);
    json_arr_end(&w);
}
