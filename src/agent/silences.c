/* SPDX-License-Identifier: MIT */
/* silences: alerts that somebody has seen.
 *
 * A silence names a rule (or * for all) and labels that its alert must have, and lasts for a time:
 * what it covers is listed and kept as ever, and nobody is told of it; receivers that were told
 * before hear that it is over.  An acknowledgement says that somebody looks after an alert: it is
 * shown with it, keeps nothing back, and ends with the alert.
 *
 * They lie in a file beside the history (FILE.silences, a line of JSON each), written whole and
 * renamed, so that a restart keeps them. */
#include "agent/agent_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/units.h"
#include "os/file.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SILENCES_MAX = 256,
    SILENCE_LABELS_MAX = 4,
    SILENCE_FILE_MAX = 1 << 20, /* bytes */
    SILENCE_LINE_MAX = 4096,
    SILENCE_DAYS_MAX = 366
};
#define SILENCE_MS_MAX INT64_C(9000000000000) /* wall clock: the year 2255 */
#define SILENCE_ID_MAX (INT64_C(1) << 53)     /* what every reader of JSON can hold */

struct silence {
    uint64_t id;
    bool ack, force; /* force: its names were not looked at; not kept */
    char alert[ALERT_NAME_MAX];
    struct {
        char name[64], value[128];
    } labels[SILENCE_LABELS_MAX];
    size_t label_count;
    int64_t from_ns, until_ns; /* wall clock; until 0: an acknowledgement */
    char by[64], comment[128];
};
struct silences {
    pthread_mutex_t lock;
    struct silence list[SILENCES_MAX];
    size_t count;
    uint64_t next_id;
    char path[FILE_PATH_MAX];  /* "": not kept */
    char moved[FILE_PATH_MAX]; /* where a damaged one is; "": there was none */
};

/* ---- one as JSON */

static void silence_json(const struct silence *s, struct json_out *w)
{
    json_obj(w);
    json_kv_int(w, "id", (int64_t)s->id);
    json_kv_bool(w, "acknowledge", s->ack);
    json_kv_str(w, "alert", s->alert);
    json_kv_obj(w, "labels");
    for (size_t i = 0; i < s->label_count; i++)
        json_kv_str(w, s->labels[i].name, s->labels[i].value);
    json_obj_end(w);
    json_kv_int(w, "from_ms", s->from_ns / AGENT_MS);
    json_kv_maybe(w, "until_ms", s->until_ns ? maybe_of(s->until_ns / AGENT_MS) : maybe_none());
    json_kv_str(w, "by", s->by[0] ? s->by : NULL);
    json_kv_str(w, "comment", s->comment[0] ? s->comment : NULL);
    json_obj_end(w);
}

static const struct silence_member {
    const char *name;
    enum json_type type;
    const char *what;
} members[] = {
    { "alert", JSON_STR, "the name of a rule" },
    { "labels", JSON_OBJ, "an object of texts" },
    { "for", JSON_STR, "a time such as \"2h\"" },
    { "by", JSON_STR, "a text" },
    { "comment", JSON_STR, "a text" },
    { "acknowledge", JSON_BOOL, "true or false" },
    { "force", JSON_BOOL, "true or false" },
    { "id", JSON_NUM, "a number" },
    { "from_ms", JSON_NUM, "a number" },
    { "until_ms", JSON_NUM, "a number" },
};

/* A member that is mistyped is not passed over: without its labels a silence covers all. */
static enum rc check_members(const struct json *d, struct err *err)
{
    if (d->type != JSON_OBJ)
        return err_set(err, RC_USAGE, "it is no JSON object");
    for (const struct json *m = d->first; m; m = m->next) {
        const struct silence_member *k = members;

        while (k < members + ARRAY_SIZE(members) && !str_eq(k->name, m->key))
            k++;
        if (k == members + ARRAY_SIZE(members))
            return err_set(err, RC_USAGE,
                           "unknown member '%.64s': it has alert, labels, for, by, comment, "
                           "acknowledge, force and until_ms",
                           m->key);
        if (m->type != k->type && m->type != JSON_NULL)
            return err_set(err, RC_USAGE, "'%s' is not %s", k->name, k->what);
    }
    return RC_OK;
}

static enum rc copy_text(const char *name, const char *text, char *out, size_t cap, struct err *err)
{
    if (text && !str_copy(out, cap, text))
        return err_set(err, RC_USAGE, "'%.64s' has %zu bytes, at most %zu are allowed", name,
                       strlen(text), cap - 1);
    str_make_text(out);
    return RC_OK;
}

static enum rc copy_member(const struct json *d, const char *name, char *out, size_t cap,
                           struct err *err)
{
    return copy_text(name, json_str(json_get(d, name)), out, cap, err);
}

static enum rc read_labels(const struct json *d, struct silence *s, struct err *err)
{
    const struct json *labels = json_get(d, "labels");

    for (const struct json *l = labels ? labels->first : NULL; l; l = l->next) {
        const char *value = json_str(l);
        size_t i = s->label_count;

        if (i == SILENCE_LABELS_MAX)
            return err_set(err, RC_USAGE, "it has more than %d labels", SILENCE_LABELS_MAX);
        if (!value)
            return err_set(err, RC_USAGE, "label '%.64s' is not a text", l->key);
        if (copy_text("the name of a label", l->key, s->labels[i].name, sizeof(s->labels[i].name),
                      err) ||
            copy_text(l->key, value, s->labels[i].value, sizeof(s->labels[i].value), err))
            return err->code;
        s->label_count++;
    }
    return RC_OK;
}

/* A moment of the file or of somebody who asks; `dflt_ns`: it is not there. */
static enum rc read_time(const struct json *d, const char *key, int64_t dflt_ns, int64_t *out,
                         struct err *err)
{
    struct maybe ms = json_int(json_get(d, key));

    if (ms.known && (ms.v < 0 || ms.v > SILENCE_MS_MAX))
        return err_set(err, RC_USAGE, "'%s' is not a time", key);
    *out = ms.known ? ms.v * AGENT_MS : dflt_ns;
    return RC_OK;
}

static enum rc read_texts(const struct json *d, struct silence *s, struct err *err)
{
    if (check_members(d, err) || copy_member(d, "alert", s->alert, sizeof(s->alert), err) ||
        copy_member(d, "by", s->by, sizeof(s->by), err) ||
        copy_member(d, "comment", s->comment, sizeof(s->comment), err))
        return err->code;
    if (!s->alert[0])
        return err_set(err, RC_USAGE, "'alert', the name of a rule, is missing");
    return read_labels(d, s, err);
}

static enum rc silence_read(const char *text, size_t len, struct silence *out, struct err *err)
{
    struct err own = { 0 };
    struct silence s = { 0 };
    struct arena a = { 0 };
    struct json *d = NULL;
    enum rc rc = len > SILENCE_LINE_MAX
                     ? err_set(err, RC_LIMIT, "it has more than %d bytes", SILENCE_LINE_MAX)
                     : json_parse(&a, text, len, &d, err);
    const char *for_text = rc == RC_OK ? json_str(json_get(d, "for")) : NULL;
    uint64_t ms = 0;

    if (rc == RC_OK)
        rc = read_texts(d, &s, err ? err : &own);
    s.ack = rc == RC_OK && maybe_is(json_bool(json_get(d, "acknowledge")), 1);
    s.force = rc == RC_OK && maybe_is(json_bool(json_get(d, "force")), 1);
    if (rc == RC_OK) {
        int64_t id = maybe_or(json_int(json_get(d, "id")), 0);

        s.id = id > 0 && id <= SILENCE_ID_MAX ? (uint64_t)id : 0;
    }
    if (rc == RC_OK && for_text)
        rc = units_duration_parse(for_text, &ms, err);
    if (rc == RC_OK && ms > (uint64_t)SILENCE_DAYS_MAX * 86400000)
        rc = err_set(err, RC_USAGE, "'for' is longer than %d days", SILENCE_DAYS_MAX);
    if (rc == RC_OK)
        rc = read_time(d, "from_ms", agent_wall_ns(), &s.from_ns, err);
    if (rc == RC_OK)
        rc = read_time(d, "until_ms", 0, &s.until_ns, err);
    if (rc == RC_OK) {
        if (ms)
            s.until_ns = agent_wall_ns() + (int64_t)ms * AGENT_MS;
        if (!s.ack && !s.until_ns)
            rc = err_set(err, RC_USAGE, "a silence needs 'for', as 2h");
    }
    arena_release(&a);
    if (rc == RC_OK)
        *out = s;
    return rc;
}

/* ---- the file; with the lock held */

static enum rc save_silences(const struct silences *x, struct err *err)
{
    struct buf b = { 0 };
    struct json_out w;
    struct file_new f;
    enum rc rc;

    if (!x->path[0])
        return RC_OK;
    for (size_t i = 0; i < x->count; i++) {
        json_out_init(&w, &b, 0);
        silence_json(&x->list[i], &w);
        buf_addc(&b, '\n');
    }
    rc = file_new_open_mode(&f, x->path, FILE_MODE_GROUP, err);
    if (rc == RC_OK)
        rc = file_new_close(&f, file_write(f.fd, x->path, buf_str(&b), b.len, err), err);
    buf_release(&b);
    return rc;
}

static bool has_id(const struct silences *x, uint64_t id)
{
    for (size_t i = 0; i < x->count; i++)
        if (x->list[i].id == id)
            return true;
    return false;
}

size_t silences_take(struct silences *x, const char *text, size_t len)
{
    size_t bad = 0;

    for (size_t at = 0, n; at < len && x->count < SILENCES_MAX; at += n + 1) {
        const char *end = memchr(text + at, '\n', len - at);
        struct silence s;

        n = end ? (size_t)(end - text) - at : len - at;
        if (!n)
            continue;
        if (silence_read(text + at, n, &s, NULL) != RC_OK || !s.id || has_id(x, s.id)) {
            bad++;
            continue;
        }
        x->list[x->count++] = s;
        x->next_id = s.id >= x->next_id ? s.id + 1 : x->next_id;
    }
    return bad;
}

/* A file that is damaged is kept for who looks at it; what is whole in it holds. */
static void move_aside(struct silences *x, const char *why)
{
    struct err err = { 0 };

    if (snprintf(x->moved, sizeof(x->moved), "%s.damaged", x->path) >= (int)sizeof(x->moved) ||
        rename(x->path, x->moved)) {
        x->moved[0] = '\0';
        log_warn("silences '%s': %s", x->path, why);
        return;
    }
    log_warn("silences '%s': %s; it is '%s' now, %zu of them hold", x->path, why, x->moved,
             x->count);
    if (save_silences(x, &err))
        log_warn("%s", err.msg);
}

const char *silences_moved(const struct silences *x)
{
    return x->moved[0] ? x->moved : NULL;
}

static void load_silences(struct silences *x)
{
    struct buf text = { 0 };
    struct err err = { 0 };
    char why[64];
    size_t bad;

    if (!x->path[0] || access(x->path, F_OK))
        return;
    if (file_read(x->path, SILENCE_FILE_MAX, &text, &err)) {
        move_aside(x, err.msg);
    } else if ((bad = silences_take(x, buf_str(&text), text.len)) > 0) {
        (void)snprintf(why, sizeof(why), "%zu %s damaged", bad, bad == 1 ? "line is" : "lines are");
        move_aside(x, why);
    }
    buf_release(&text);
}

struct silences *silences_new(const char *history)
{
    struct silences *x = xcalloc(1, sizeof(*x));

    pthread_mutex_init(&x->lock, NULL);
    x->next_id = 1;
    if (history &&
        snprintf(x->path, sizeof(x->path), "%s.silences", history) >= (int)sizeof(x->path))
        x->path[0] = '\0';
    load_silences(x);
    return x;
}

void silences_free(struct silences *x)
{
    if (!x)
        return;
    pthread_mutex_destroy(&x->lock);
    free(x);
}

/* ---- names that exist */

static enum rc no_such_rule(const char *name, const struct alert_rule *rules, size_t count,
                            struct err *err)
{
    const char **names = xcalloc(count ? count : 1, sizeof(*names));
    const char *near;

    for (size_t i = 0; i < count; i++)
        names[i] = rules[i].name;
    near = str_nearest(name, names, count);
    (void)err_set(err, RC_USAGE, "no rule is called '%s'%s%s%s; --force (\"force\": true) goes on",
                  name, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
    free(names);
    return RC_USAGE;
}

/* Of the series that a pattern's rules look at: the label's name is one of theirs, or none has been
 * seen and no convention says which they have. */
static bool has_label(const char *label, const char *pattern, const struct alert_rule *rules,
                      size_t count, const struct telemetry *t, struct buf *known)
{
    bool seen = false, has = false;

    for (size_t r = 0; r < count && !has; r++) {
        const struct telemetry_metric *m = telemetry_metric(rules[r].metric);

        if (fnmatch(pattern, rules[r].name, 0))
            continue;
        for (const char *l = m ? m->labels : ""; l && *l && !has; l += l[0] == ',') {
            size_t n = strcspn(l, ",");

            seen = true;
            has = strlen(label) == n && !memcmp(l, label, n);
            if (n && known->len < SILENCE_LINE_MAX / 16)
                buf_addf(known, "%s%.*s", known->len ? ", " : "", (int)n, l);
            l += n;
        }
        for (uint32_t i = 0; i < telemetry_count(t) && !has; i++) {
            const struct telemetry_series *s = telemetry_get(t, i);

            if (!str_eq(s->metric->id, rules[r].metric))
                continue;
            seen = true;
            for (size_t k = 0; k < s->label_count && !has; k++)
                has = str_eq(s->labels[k].name, label);
        }
    }
    return has || !seen;
}

enum rc silences_check(const char *text, size_t len, const struct alert_rule *rules, size_t count,
                       const struct telemetry *t, struct err *err)
{
    struct err own = { 0 };
    struct silence s;
    struct buf known = { 0 };
    bool any = false;
    enum rc rc;

    err = err ? err : &own;
    rc = silence_read(text, len, &s, err);
    if (rc != RC_OK || s.force)
        return rc;
    for (size_t i = 0; i < count && !any; i++)
        any = !fnmatch(s.alert, rules[i].name, 0);
    if (!any)
        return no_such_rule(s.alert, rules, count, err);
    for (size_t i = 0; i < s.label_count && rc == RC_OK; i++) {
        buf_reset(&known);
        if (!has_label(s.labels[i].name, s.alert, rules, count, t, &known))
            rc = err_set(
                err, RC_USAGE,
                "no alert of '%s' has a label '%s'%s%s%s; --force (\"force\": true) goes on",
                s.alert, s.labels[i].name, known.len ? " (it has " : "",
                known.len ? buf_str(&known) : "", known.len ? ")" : "");
    }
    buf_release(&known);
    return rc;
}

/* ---- which alerts */

static bool silence_covers(const struct silence *s, const char *rule,
                           const struct telemetry_series *subject)
{
    if (fnmatch(s->alert, rule, 0))
        return false;
    for (size_t i = 0; i < s->label_count; i++) {
        bool has = false;

        for (size_t k = 0; k < subject->label_count && !has; k++)
            has = str_eq(subject->labels[k].name, s->labels[i].name) &&
                  str_eq(subject->labels[k].value, s->labels[i].value);
        if (!has)
            return false;
    }
    return true;
}

bool silences_cover(struct silences *x, const char *rule, const struct telemetry_series *subject,
                    int64_t now_ns)
{
    bool covered = false;

    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; i < x->count && !covered; i++)
        covered = !x->list[i].ack && now_ns < x->list[i].until_ns &&
                  silence_covers(&x->list[i], rule, subject);
    pthread_mutex_unlock(&x->lock);
    return covered;
}

void silences_mark(struct silences *x, const char *rule, const struct telemetry_series *subject,
                   int64_t now_ns, struct json_out *w)
{
    const struct silence *silence = NULL, *ack = NULL;

    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; subject && i < x->count; i++) {
        const struct silence *s = &x->list[i];

        if (!silence_covers(s, rule, subject))
            continue;
        if (s->ack)
            ack = s;
        else if (now_ns < s->until_ns)
            silence = s;
    }
    json_key(w, "silenced");
    if (silence)
        silence_json(silence, w);
    else
        json_add_null(w);
    json_key(w, "acknowledged");
    if (ack)
        silence_json(ack, w);
    else
        json_add_null(w);
    pthread_mutex_unlock(&x->lock);
}

/* ---- changes */

static void drop_at(struct silences *x, size_t i)
{
    x->count--;
    memmove(&x->list[i], &x->list[i + 1], (x->count - i) * sizeof(x->list[0]));
}

/* Silences that were over before that time. */
static void drop_over(struct silences *x, int64_t before_ns)
{
    for (size_t i = x->count; i-- > 0;)
        if (x->list[i].until_ns && x->list[i].until_ns < before_ns)
            drop_at(x, i);
}

enum rc silences_add(struct silences *x, const char *text, size_t len, uint64_t *out_id,
                     struct err *err)
{
    struct silence s;
    int64_t now = agent_wall_ns();
    enum rc rc = silence_read(text, len, &s, err);

    if (rc != RC_OK)
        return rc;
    if (s.until_ns && s.until_ns <= now)
        return err_set(err, RC_USAGE, "'until_ms' is over already");
    if (s.until_ns > now + SILENCE_DAYS_MAX * INT64_C(86400000) * AGENT_MS)
        return err_set(err, RC_USAGE, "'until_ms' is more than %d days away", SILENCE_DAYS_MAX);
    pthread_mutex_lock(&x->lock);
    if (x->count == SILENCES_MAX)
        drop_over(x, now);
    if (x->count == SILENCES_MAX) {
        rc = err_set(err, RC_LIMIT, "there are %d silences already", SILENCES_MAX);
    } else {
        s.id = x->next_id;
        x->list[x->count++] = s;
        rc = save_silences(x, err);
        if (rc == RC_OK)
            *out_id = x->next_id++;
        else
            x->count--; /* one that a restart would forget is none */
    }
    pthread_mutex_unlock(&x->lock);
    return rc;
}

enum rc silences_end(struct silences *x, uint64_t id, struct err *err)
{
    enum rc rc = RC_NODEV;

    pthread_mutex_lock(&x->lock);
    for (size_t i = 0; i < x->count && rc == RC_NODEV; i++)
        if (x->list[i].id == id) {
            drop_at(x, i);
            rc = save_silences(x, err);
        }
    pthread_mutex_unlock(&x->lock);
    return rc == RC_NODEV
               ? err_set(err, RC_NODEV, "there is no silence %llu", (unsigned long long)id)
               : rc;
}

void silences_alert_over(struct silences *x, const char *rule,
                         const struct telemetry_series *subject)
{
    bool changed = false;

    pthread_mutex_lock(&x->lock);
    for (size_t i = x->count; i-- > 0;)
        if (x->list[i].ack && silence_covers(&x->list[i], rule, subject)) {
            drop_at(x, i);
            changed = true;
        }
    if (changed)
        (void)!save_silences(x, NULL);
    pthread_mutex_unlock(&x->lock);
}

/* Those whose time has passed for a day are forgotten. */
void silences_list(struct silences *x, struct json_out *w)
{
    int64_t old = agent_wall_ns() - INT64_C(86400000) * AGENT_MS;

    pthread_mutex_lock(&x->lock);
    drop_over(x, old);
    json_arr(w);
    for (size_t i = 0; i < x->count; i++)
        silence_json(&x->list[i], w);
    json_arr_end(w);
    pthread_mutex_unlock(&x->lock);
}
