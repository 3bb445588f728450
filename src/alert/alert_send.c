/* SPDX-License-Identifier: MIT */
/* alert_send: notes on their way to Alertmanager, a webhook and a command.
 *
 *   alert_sender_add() ─► queue of a target ─► its thread ─► alert_post.c
 *
 * Invariants
 *   1. a note leaves its queue when it was delivered, refused for good, or pushed out by a newer
 *      one; each is counted
 *   2. the first `busy` notes of a queue are under way and are never pushed out
 *   3. who was not told that an alert fires does not hear that it is over
 *   4. `firing` holds what fires, in the state last added; Alertmanager is told of it again and
 *      ends an alert by itself four resends after it was last told, so that a dead agent leaves
 *      none */
#include "alert/alert_int.h"
#include "base/codec/sha256.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { TARGETS_MAX = 3, RESENDS_UNTIL_END = 4 };
enum target_kind { TO_ALERTMANAGER, TO_WEBHOOK, TO_COMMAND };

struct alert_target {
    struct alert_sender *s;
    enum target_kind kind;
    char key[ALERT_RECEIVER_MAX]; /* who it is, over a restart */
    pthread_t thread;
    struct alert_http *http; /* owned; NULL: a command */
    struct alert_note *first, *last;
    size_t count, busy;
    struct alert_note *firing; /* owned list: what it was told fires */
    int64_t resend_ns;         /* monotonic: when to tell it again */
    int64_t again_ns;          /* not before, after a failure; 0: at once */
    unsigned failures;         /* in a row */
    bool single;               /* a batch was refused: one by one until the queue is empty */
    bool quiet;                /* the fault was logged */
    uint64_t sent, failed, dropped;
};

struct alert_sender {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct alert_target targets[TARGETS_MAX];
    size_t target_count;
    struct alert_note *firing; /* owned list: what was told as firing, to anybody or the log */
    bool log;
    char *command, *generator, *hostname; /* owned */
    int timeout_ms, resend_ms, backoff_ms;
    uint64_t changes;        /* of queues and of what is believed */
    bool stopped;            /* the threads have ended */
    _Atomic int64_t stop_ns; /* monotonic: all ends here; 0: not yet */
};

static const char *kind_word(enum target_kind k)
{
    static const char *const words[] = { "Alertmanager", "webhook", "command" };

    return words[k];
}

/* ---- queues; all with the lock held */
static void queue_push(struct alert_target *t, struct alert_note *n)
{
    n->next = NULL;
    if (t->last)
        t->last->next = n;
    else
        t->first = n;
    t->last = n;
    t->count++;
    t->s->changes++;
}

static void queue_pop(struct alert_target *t)
{
    struct alert_note *n = t->first;

    t->first = n->next;
    if (!t->first)
        t->last = NULL;
    t->count--;
    t->s->changes++;
    alert_note_free(n);
}

/* The oldest that is not under way. */
static void push_out(struct alert_target *t)
{
    struct alert_note *before = NULL, *n = t->first;

    for (size_t i = 0; i < t->busy; i++) {
        before = n;
        n = n->next;
    }
    assert(n);
    if (before)
        before->next = n->next;
    else
        t->first = n->next;
    if (t->last == n)
        t->last = before;
    t->count--;
    t->dropped++;
    alert_note_free(n);
}

static void add_to(struct alert_target *t, const struct alert_note *n)
{
    if (t->count == ALERT_QUEUE_MAX)
        push_out(t);
    queue_push(t, alert_note_copy(n));
}

/* False: one that is over and of which it was never told. */
static bool firing_remember(struct alert_note **firing, const struct alert_note *n)
{
    struct alert_note **p = firing, *known;
    size_t count = 0;
    bool told;

    while (*p && !str_eq((*p)->labels, n->labels)) {
        p = &(*p)->next;
        count++;
    }
    known = *p;
    told = known != NULL;
    if (known) {
        *p = known->next;
        alert_note_free(known);
    }
    if (n->ends_ns || count >= ALERT_ACTIVE_MAX)
        return told || !n->ends_ns;
    known = alert_note_copy(n);
    known->next = *firing;
    *firing = known;
    return true;
}

/* The words and the value of one that is known; that it is told at its next turn is enough. */
static void firing_renew(struct alert_note *firing, struct alert_note *n)
{
    char *words;

    while (firing && !str_eq(firing->labels, n->labels))
        firing = firing->next;
    if (!firing)
        return;
    words = firing->annotations;
    firing->annotations = n->annotations;
    n->annotations = words;
    firing->value = n->value;
}

static void log_note(const struct alert_active *x)
{
    const char *severity = alert_severity_word(x->rule->severity);

    if (x->state == ALERT_RESOLVED)
        log_info("alert %s %s: %s", x->rule->name, x->gone ? "is gone" : "resolved", x->summary);
    else
        log_warn("alert %s (%s): %s", x->rule->name, severity, x->summary);
}

void alert_sender_add(struct alert_sender *s, const struct telemetry *t,
                      const struct alert_active *x)
{
    struct alert_note *n;

    if (x->state == ALERT_PENDING)
        return;
    n = alert_note_new(t, x, s->hostname, s->generator);
    pthread_mutex_lock(&s->lock);
    if (firing_remember(&s->firing, n) && s->log)
        log_note(x);
    for (size_t i = 0; i < s->target_count; i++) {
        struct alert_target *to = &s->targets[i];

        if (firing_remember(&to->firing, n))
            add_to(to, n);
    }
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    alert_note_free(n);
}

static bool firing_has(const struct alert_note *firing, const struct alert_note *n)
{
    while (firing && !str_eq(firing->labels, n->labels))
        firing = firing->next;
    return firing != NULL;
}

bool alert_sender_has(struct alert_sender *s, const struct telemetry *t,
                      const struct alert_active *x)
{
    struct alert_note *n = alert_note_new(t, x, s->hostname, s->generator);
    bool has;

    pthread_mutex_lock(&s->lock);
    has = firing_has(s->firing, n);
    pthread_mutex_unlock(&s->lock);
    alert_note_free(n);
    return has;
}

void alert_sender_catch_up(struct alert_sender *s, const struct telemetry *t,
                           const struct alert_active *x)
{
    struct alert_note *n = alert_note_new(t, x, s->hostname, s->generator);

    pthread_mutex_lock(&s->lock);
    if (!firing_has(s->firing, n) && firing_remember(&s->firing, n) && s->log)
        log_note(x);
    for (size_t i = 0; i < s->target_count; i++)
        if (!firing_has(s->targets[i].firing, n) && firing_remember(&s->targets[i].firing, n))
            add_to(&s->targets[i], n);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    alert_note_free(n);
}

uint64_t alert_sender_changes(struct alert_sender *s)
{
    uint64_t n;

    pthread_mutex_lock(&s->lock);
    n = s->changes;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void alert_sender_refresh(struct alert_sender *s, const struct telemetry *t,
                          const struct alert_active *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct alert_note *n;

        if (list[i].state != ALERT_FIRING)
            continue;
        n = alert_note_new(t, &list[i], s->hostname, s->generator);
        pthread_mutex_lock(&s->lock);
        for (size_t k = 0; k < s->target_count; k++)
            firing_renew(s->targets[k].firing, n);
        pthread_mutex_unlock(&s->lock);
        alert_note_free(n);
    }
}

/* ---- over a restart */
static const char log_key[] = "log";

void alert_sender_told(struct alert_sender *s, const struct telemetry *t,
                       const struct alert_active *x, struct json_out *w)
{
    struct alert_note *n = alert_note_new(t, x, s->hostname, s->generator);

    pthread_mutex_lock(&s->lock);
    if (firing_has(s->firing, n))
        json_add_str(w, log_key);
    for (size_t i = 0; i < s->target_count; i++)
        if (firing_has(s->targets[i].firing, n))
            json_add_str(w, s->targets[i].key);
    pthread_mutex_unlock(&s->lock);
    alert_note_free(n);
}

void alert_sender_believe(struct alert_sender *s, const struct telemetry *t,
                          const struct alert_active *x, const char *const *told, size_t count)
{
    struct alert_note *n = alert_note_new(t, x, s->hostname, s->generator);

    pthread_mutex_lock(&s->lock);
    for (size_t k = 0; k < count; k++) {
        if (str_eq(told[k], log_key))
            (void)firing_remember(&s->firing, n);
        for (size_t i = 0; i < s->target_count; i++)
            if (str_eq(told[k], s->targets[i].key)) {
                (void)firing_remember(&s->targets[i].firing, n);
                s->targets[i].resend_ns = 0; /* Alertmanager may be about to end it */
            }
    }
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    alert_note_free(n);
}

void alert_sender_each_waiting(struct alert_sender *s,
                               void (*fn)(void *arg, const char *to, const struct alert_note *n),
                               void *arg)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->target_count; i++)
        for (const struct alert_note *n = s->targets[i].first; n; n = n->next)
            fn(arg, s->targets[i].key, n);
    pthread_mutex_unlock(&s->lock);
}

bool alert_sender_queue(struct alert_sender *s, const char *to, const struct alert_note *n)
{
    bool found = false;

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->target_count && !found; i++) {
        found = str_eq(to, s->targets[i].key);
        if (found)
            add_to(&s->targets[i], n);
    }
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return found;
}

/* ---- a target's thread */
static bool is_over(const struct alert_sender *s)
{
    int64_t stop = atomic_load(&s->stop_ns);

    return stop && clock_mono_ns() >= stop;
}

/* When there is something to do; INT64_MAX: when it is added. */
static int64_t due_ns(const struct alert_target *t)
{
    bool stopping = atomic_load(&t->s->stop_ns) != 0;

    if (t->count)
        return t->again_ns;
    if (t->firing && t->kind == TO_ALERTMANAGER && !stopping)
        return t->resend_ns > t->again_ns ? t->resend_ns : t->again_ns;
    return INT64_MAX;
}

static void wait_until(struct alert_sender *s, int64_t ns)
{
    int64_t stop = atomic_load(&s->stop_ns);

    if (stop && stop < ns)
        ns = stop;
    if (ns == INT64_MAX) {
        pthread_cond_wait(&s->wake, &s->lock);
        return;
    }
    (void)clock_cond_wait(&s->wake, &s->lock, ns);
}

static struct alert_body body_of(const struct alert_target *t)
{
    struct alert_body b = { .generator = t->s->generator, .more = t->kind != TO_ALERTMANAGER };

    if (t->kind == TO_ALERTMANAGER)
        b.until_ns = (clock_unix_ms() + INT64_C(1) * RESENDS_UNTIL_END * t->s->resend_ms) * 1000000;
    return b;
}

/* Without the lock. */
static enum alert_post deliver_body(struct alert_target *t, const struct buf *body,
                                    int64_t *out_after_s, struct err *err)
{
    struct alert_sender *s = t->s;

    *out_after_s = -1;
    if (t->kind == TO_COMMAND)
        return alert_command(s->command, body, s->timeout_ms, err);
    return alert_http_post(t->http, body, &s->stop_ns, out_after_s, err);
}

static void back_off(struct alert_target *t, int64_t after_s, const struct err *err)
{
    int64_t ms = t->s->backoff_ms;

    for (unsigned i = 0; i < t->failures && ms < ALERT_BACKOFF_MS_MAX; i++)
        ms *= 2;
    if (ms < after_s * 1000)
        ms = after_s * 1000;
    if (ms > ALERT_BACKOFF_MS_MAX)
        ms = ALERT_BACKOFF_MS_MAX;
    t->failures++;
    t->again_ns = clock_mono_ns() + ms * 1000000;
    if (!t->quiet)
        log_warn("alerts do not reach the %s: %s; trying on", kind_word(t->kind), err->msg);
    t->quiet = true;
}

static void target_reached(struct alert_target *t)
{
    if (t->quiet)
        log_info("alerts reach the %s again", kind_word(t->kind));
    t->quiet = false;
    t->failures = 0;
    t->again_ns = 0;
}

static void send_queue(struct alert_target *t, struct buf *body)
{
    struct alert_sender *s = t->s;
    size_t most = t->kind == TO_ALERTMANAGER && !t->single ? ALERT_BATCH_MAX : 1;
    size_t n = t->count < most ? t->count : most;
    struct alert_body b = body_of(t);
    struct err err = { 0 };
    enum alert_post got;
    int64_t after_s;

    alert_notes_json(t->first, n, &b, body);
    t->busy = n;
    pthread_mutex_unlock(&s->lock);
    got = deliver_body(t, body, &after_s, &err);
    pthread_mutex_lock(&s->lock);
    t->busy = 0;
    if (got == POST_AGAIN) {
        back_off(t, after_s, &err);
        return;
    }
    target_reached(t);
    t->single = got == POST_NEVER && n > 1;
    if (t->single)
        return;
    for (size_t i = 0; i < n; i++)
        queue_pop(t);
    *(got == POST_OK ? &t->sent : &t->failed) += n;
    if (got == POST_NEVER)
        log_warn("the %s refused an alert: %s", kind_word(t->kind), err.msg);
}

/* All that fires, in batches; each batch's text is made under the lock. */
static void resend_firing(struct alert_target *t, struct buf *body)
{
    struct alert_sender *s = t->s;
    struct alert_body b = body_of(t);
    enum alert_post got = POST_OK;
    struct err err = { 0 };
    int64_t after_s = -1;
    size_t done = 0;

    t->resend_ns = clock_mono_ns() + (int64_t)s->resend_ms * 1000000;
    while (got != POST_AGAIN && !t->count && !atomic_load(&s->stop_ns)) {
        const struct alert_note *n = t->firing;

        for (size_t i = 0; n && i < done; i++)
            n = n->next;
        if (!n)
            return;
        buf_reset(body);
        alert_notes_json(n, ALERT_BATCH_MAX, &b, body);
        done += ALERT_BATCH_MAX;
        pthread_mutex_unlock(&s->lock);
        got = deliver_body(t, body, &after_s, &err);
        pthread_mutex_lock(&s->lock);
    }
    if (got == POST_AGAIN) {
        back_off(t, after_s, &err);
        t->resend_ns = t->again_ns;
    } else {
        target_reached(t);
    }
}

static void *target_main(void *arg)
{
    struct alert_target *t = arg;
    struct alert_sender *s = t->s;
    struct buf body = { 0 };

    pthread_mutex_lock(&s->lock);
    while (!is_over(s)) {
        int64_t due = due_ns(t);

        if (due == INT64_MAX && atomic_load(&s->stop_ns))
            break;
        if (due > clock_mono_ns()) {
            wait_until(s, due);
            continue;
        }
        buf_reset(&body);
        if (t->count)
            send_queue(t, &body);
        else
            resend_firing(t, &body);
    }
    pthread_mutex_unlock(&s->lock);
    buf_release(&body);
    return NULL;
}

/* ---- making and ending */
static void make_key(struct alert_target *t, const char *address)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct sha256 h;

    sha256_init(&h);
    sha256_add(&h, address, strlen(address));
    sha256_end(&h, sum);
    (void)snprintf(t->key, sizeof(t->key), "%s:%.16s", kind_word(t->kind), sha256_hex(sum, hex));
}

static enum rc add_http(struct alert_sender *s, enum target_kind kind, const char *text,
                        const struct alert_targets *to, struct err *err)
{
    struct alert_target *t = &s->targets[s->target_count];
    struct url url;
    char path[URL_PATH_MAX + 1];
    const char *query = "";
    enum rc rc =
        kind == TO_WEBHOOK ? url_parse_query(text, &url, &query, err) : url_parse(text, &url, err);

    if (!rc)
        rc = web_ready(&url, err); /* told at the start, not when something burns */
    if (rc)
        return err_ctx(err, "%s '%s'", kind_word(kind), text);
    *t = (struct alert_target){ .s = s, .kind = kind };
    make_key(t, text);
    (void)snprintf(path, sizeof(path), "%s%s",
                   kind == TO_ALERTMANAGER ? "/api/v2/alerts"
                   : url.prefix[0]         ? ""
                                           : "/",
                   query);
    t->http = alert_http_new(&url, path, s->timeout_ms, &to->trust,
                             kind == TO_WEBHOOK ? to->webhook_token_file : NULL);
    s->target_count++;
    return RC_OK;
}

static char *own_hostname(const char *given)
{
    char name[HOST_NAME_MAX + 1] = "";

    if (given)
        return xstrdup(given);
    (void)gethostname(name, sizeof(name) - 1);
    str_make_text(name);
    return xstrdup(name);
}

static void free_list(struct alert_note *n)
{
    for (struct alert_note *next; n; n = next) {
        next = n->next;
        alert_note_free(n);
    }
}

static void sender_release(struct alert_sender *s)
{
    free_list(s->firing);
    for (size_t i = 0; i < s->target_count; i++) {
        struct alert_target *t = &s->targets[i];

        while (t->first)
            queue_pop(t);
        free_list(t->firing);
        alert_http_free(t->http);
    }
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s->command);
    free(s->generator);
    free(s->hostname);
    free(s);
}

static enum rc add_targets(struct alert_sender *s, const struct alert_targets *to, struct err *err)
{
    enum rc rc = RC_OK;

    if (to->alertmanager)
        rc = add_http(s, TO_ALERTMANAGER, to->alertmanager, to, err);
    if (rc == RC_OK && to->webhook)
        rc = add_http(s, TO_WEBHOOK, to->webhook, to, err);
    if (rc == RC_OK && to->command) {
        s->targets[s->target_count] = (struct alert_target){ .s = s, .kind = TO_COMMAND };
        make_key(&s->targets[s->target_count++], to->command);
    }
    return rc;
}

enum rc alert_sender_new(const struct alert_targets *to, struct alert_sender **out, struct err *err)
{
    struct alert_sender *s = xcalloc(1, sizeof(*s));
    enum rc rc;

    pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->wake);
    s->log = to->log;
    s->command = to->command ? xstrdup(to->command) : NULL;
    s->generator = to->generator ? xstrdup(to->generator) : NULL;
    s->hostname = own_hostname(to->hostname);
    s->timeout_ms = to->timeout_ms > 0 ? to->timeout_ms : ALERT_TIMEOUT_MS_DEFAULT;
    s->resend_ms = to->resend_ms > 0 ? to->resend_ms : ALERT_RESEND_MS_DEFAULT;
    s->backoff_ms = to->backoff_ms > 0 ? to->backoff_ms : ALERT_BACKOFF_MS_DEFAULT;
    rc = add_targets(s, to, err);
    if (rc) {
        sender_release(s);
        return rc;
    }
    for (size_t i = 0; i < s->target_count; i++) {
        s->targets[i].resend_ns = clock_mono_ns() + (int64_t)s->resend_ms * 1000000;
        if (!pthread_create(&s->targets[i].thread, NULL, target_main, &s->targets[i]))
            continue;
        rc = err_set(err, RC_FAIL, "could not start the thread of the %s",
                     kind_word(s->targets[i].kind));
        atomic_store(&s->stop_ns, 1);
        while (i--)
            pthread_join(s->targets[i].thread, NULL);
        sender_release(s);
        return rc;
    }
    *out = s;
    return RC_OK;
}

void alert_sender_stats(struct alert_sender *s, struct alert_sender_stats *out)
{
    struct alert_sender_stats sum = { 0 };

    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->target_count; i++) {
        sum.sent += s->targets[i].sent;
        sum.failed += s->targets[i].failed;
        sum.dropped += s->targets[i].dropped;
        sum.waiting += s->targets[i].count;
    }
    pthread_mutex_unlock(&s->lock);
    *out = sum;
}

void alert_sender_stop(struct alert_sender *s, int wait_ms)
{
    if (!s || s->stopped)
        return;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stop_ns, clock_mono_ns() + (int64_t)(wait_ms > 0 ? wait_ms : 0) * 1000000 + 1);
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < s->target_count; i++)
        pthread_join(s->targets[i].thread, NULL);
    s->stopped = true;
}

void alert_sender_free(struct alert_sender *s, int wait_ms)
{
    alert_sender_stop(s, wait_ms);
    if (s)
        sender_release(s);
}
