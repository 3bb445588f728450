/* SPDX-License-Identifier: MIT */
/* alert_note: an alert as Alertmanager's API v2 has it: labels that say which it is, annotations
 * that say what it means, when it began and when it ends. */
#include "alert/alert_int.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "telemetry/kmsg/kmsg.h"

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
static char *labels_json(const struct telemetry_series *s, const struct alert_active *x,
                         const char *hostname)
{
    const struct telemetry_label own[] = {
        { "alertname", x->rule->name },
        { "severity", alert_severity_word(x->rule->severity) },
        { "hostname", hostname },
        { "cause", x->cause },
        { "cause_role", alert_role_word(x->role) },
    };
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 0);
    json_obj(&w);
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (own[i].value && own[i].value[0])
            json_kv_str(&w, own[i].name, own[i].value);
    for (size_t i = 0; i < s->label_count; i++) {
        const struct telemetry_label *l = &s->labels[i];

        bool ours = false;

        for (size_t k = 0; k < ARRAY_SIZE(own) && !ours; k++)
            ours = str_eq(l->name, own[k].name);
        if (l->value[0] && !ours)
            json_kv_str(&w, l->name, l->value);
    }
    json_obj_end(&w);
    return buf_take(&b);
}

/* Name, cause and action of an XID or SXid. */
static void add_code(struct json_out *w, const struct telemetry_series *s)
{
    struct xid_info i;
    int code;

    if (!alert_code_of(s, &code) || !xid_find(code, &i))
        return;
    json_kv_str(w, "error", i.mnemonic);
    json_kv_str(w, "cause", i.text);
    json_kv_str(w, "action", i.action);
}

static void add_own_runbook(struct json_out *w, const char *generator, const char *name)
{
    struct buf at = { 0 };

    buf_adds(&at, generator);
    if (at.len && at.data[at.len - 1] == '/')
        at.data[--at.len] = '\0';
    buf_addf(&at, "/api/v1/rules?name=%s", name);
    json_kv_str(w, "runbook_url", buf_str(&at));
    buf_release(&at);
}

const struct alert_whose_row alert_whose_rows[ALERT_WHOSE_ROWS] = {
#define WHOSE_ROW(name, member)                                                                    \
    {                                                                                              \
        name, offsetof(struct alert_whose, member), sizeof(((struct alert_whose *)NULL)->member)   \
    }
    WHOSE_ROW("job", job),         WHOSE_ROW("user", user),       WHOSE_ROW("pod", pod),
    WHOSE_ROW("namespace", space), WHOSE_ROW("command", command),
#undef WHOSE_ROW
};

void alert_whose_json(const struct alert_whose *who, struct json_out *w)
{
    for (size_t i = 0; i < ALERT_WHOSE_ROWS; i++) {
        const char *text = (const char *)who + alert_whose_rows[i].at;

        if (*text)
            json_kv_str(w, alert_whose_rows[i].name, text);
    }
}

/* What it follows from: "GpuLost: The driver has lost GPU 3". */
static void add_root(struct json_out *w, const struct alert_active *x)
{
    struct buf b = { 0 };

    buf_addf(&b, "%s: %s", x->root_rule->name, x->root_summary);
    json_kv_str(w, "follows_from", buf_str(&b));
    buf_release(&b);
}

static char *annotations_json(const struct alert_active *x, const struct telemetry_series *s,
                              const char *generator)
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
    else if (generator) /* what the agent itself knows of the rule */
        add_own_runbook(&w, generator, r->name);
    add_code(&w, s);
    alert_whose_json(&x->whose, &w);
    if (x->root_rule)
        add_root(&w, x);
    if (x->follows[0])
        json_kv_str(&w, "follows", x->follows);
    if (x->gone)
        json_kv_str(&w, "ended", "gone: nothing is known of it any more");
    json_obj_end(&w);
    return buf_take(&b);
}

struct alert_note *alert_note_new(const struct telemetry *t, const struct alert_active *x,
                                  const char *hostname, const char *generator)
{
    const struct telemetry_series *subject = x->subject ? x->subject : telemetry_get(t, x->series);
    struct alert_note *n = xcalloc(1, sizeof(*n));

    n->labels = labels_json(subject, x, hostname);
    n->annotations = annotations_json(x, subject, generator);
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
        json_kv_num(w, "value", n->value); /* NaN: null */
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
