/* SPDX-License-Identifier: MIT */
/* agent_loop: starts the parts, turns once a second, stops them.
 *
 * A turn belongs to a second of the wall clock: sources sample when it begins, AGENT_SHOW_MS later
 * what they have is shown as that second.  A source that was slower shows in the next one. */
#include "agent/agent_int.h"
#include "agent/demo/demo_script_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

int64_t agent_wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- events: kept before they are shown, as values are */

static bool is_incident(const struct telemetry_event *e)
{
    return e->kind == TELEMETRY_EVENT_XID || e->kind == TELEMETRY_EVENT_SXID ||
           e->kind == TELEMETRY_EVENT_HANG || e->kind == TELEMETRY_EVENT_RECOVERY;
}

static void note_incident(struct agent *a)
{
    int64_t now = clock_mono_ns();

    if (a->player || a->incident_ns ||
        (a->bundled_ns && now - a->bundled_ns < AGENT_INCIDENT_EVERY_MS * AGENT_MS))
        return;
    a->incident_ns = now + AGENT_INCIDENT_AFTER_MS * AGENT_MS;
}

void agent_take_event(struct agent *a, const struct telemetry_event *e)
{
    struct err err = { 0 };

    if (a->ring && history_append_event(a->ring, e, &err))
        atomic_fetch_add(&a->ring_errors, 1); /* the next second tells why */
    atomic_fetch_add(&a->events[(unsigned)e->kind < TELEMETRY_EVENT_KINDS ? e->kind : 0], 1);
    telemetry_event(a->shown, e);
    publish_record_event(a, e);
    if (is_incident(e))
        note_incident(a);
}

void agent_event(struct agent *a, enum telemetry_event_kind kind, int gpu, int code,
                 const char *fmt, ...)
{
    bool played = a->player && a->last_time_ns; /* before its first second there is no other time */
    struct telemetry_event e = { .time_ns = played ? a->last_time_ns : agent_wall_ns(),
                                 .kind = kind,
                                 .gpu = gpu,
                                 .code = code };
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(e.text, sizeof(e.text), fmt, ap);
    va_end(ap);
    agent_take_event(a, &e);
}

static void wake_sampling(struct agent *a)
{
    uint64_t one = 1;

    (void)!write(a->wake_fd, &one, sizeof(one));
}

/* ---- alerts */

static void on_alert(void *arg, const struct alert_active *x)
{
    struct agent *a = arg;
    bool fires = x->state == ALERT_FIRING;
    const struct telemetry_series *subject;
    char who[TELEMETRY_VALUE_MAX / 2];

    alert_state_changed(a);
    gpu_users_text(&x->whose, who, sizeof(who));
    agent_event(a, TELEMETRY_EVENT_ALERT, -1, 0, "%s %s: %.180s%s%s%s", x->rule->name,
                fires     ? "fires"
                : x->gone ? "is gone, nothing is known of it any more"
                          : "is over",
                x->summary, who[0] ? " (" : "", who, who[0] ? ")" : "");
    subject = x->subject ? x->subject : telemetry_get(a->shown, x->series);
    if (!fires)
        silences_alert_over(a->silences, x->rule->name, subject);
    if (a->sender &&
        !(fires && silences_cover(a->silences, x->rule->name, subject, agent_wall_ns())))
        alert_sender_add(a->sender, a->shown, x);
    if (fires && x->rule->severity == ALERT_CRITICAL)
        note_incident(a);
}

static bool same_targets(const struct alert_targets *a, const struct alert_targets *b)
{
    return str_eq(a->alertmanager, b->alertmanager) && str_eq(a->webhook, b->webhook) &&
           str_eq(a->webhook_token_file, b->webhook_token_file) &&
           str_eq(a->trust.ca_file, b->trust.ca_file) && a->trust.insecure == b->trust.insecure &&
           str_eq(a->command, b->command) && str_eq(a->hostname, b->hostname) &&
           str_eq(a->generator, b->generator) && a->log == b->log &&
           a->timeout_ms == b->timeout_ms && a->resend_ms == b->resend_ms &&
           a->backoff_ms == b->backoff_ms;
}

/* Others than before hear of what fires already. */
static void tell_firing(struct agent *a)
{
    size_t n;
    struct alert_active *list = alerts_copy(a->alerts, &n);

    for (size_t i = 0; i < n && a->sender; i++)
        if (list[i].state == ALERT_FIRING &&
            !silences_cover(a->silences, list[i].rule->name,
                            telemetry_get(a->shown, list[i].series), agent_wall_ns()))
            alert_sender_add(a->sender, a->shown, &list[i]);
    free(list);
}

static bool whose_of_series(void *arg, const struct telemetry_series *s, struct alert_whose *out)
{
    const struct agent *a = arg;
    int64_t gpu = -1, when = agent_wall_ns();

    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, "gpu") && !str_to_i64(s->labels[i].value, 10, &gpu))
            return false;
    if (str_eq(s->metric->id, "gpu.xid.total"))
        when = xids_last_ns(a, (int)gpu); /* of the log's backlog: another's work */
    return gpu_users_find(a->gpu_users, (int)gpu, when, out);
}

/* Receivers hear that what was silenced is over, and of what is not any more. */
static void hush_alert(struct agent *a, struct alert_active *x)
{
    bool covered = silences_cover(a->silences, x->rule->name, telemetry_get(a->shown, x->series),
                                  agent_wall_ns());
    bool told = alert_sender_has(a->sender, a->shown, x);

    if (covered && told) {
        struct alert_active over = *x;

        over.state = ALERT_RESOLVED;
        over.resolved_ns = agent_wall_ns();
        alert_sender_add(a->sender, a->shown, &over);
    } else if (!covered) { /* a receiver that is new since a restart, too */
        alert_sender_catch_up(a->sender, a->shown, x);
    }
}

enum rc agent_silence(struct agent *a, const char *text, size_t len, uint64_t *out_id,
                      struct err *err)
{
    size_t count = 0;
    const struct alert_rule *rules;
    enum rc rc;

    pthread_rwlock_rdlock(&a->view);
    rules = alerts_rules(a->alerts, &count);
    telemetry_hold(a->shown);
    rc = silences_check(text, len, rules, count, a->shown, err);
    telemetry_let(a->shown);
    pthread_rwlock_unlock(&a->view);
    if (rc == RC_OK)
        rc = silences_add(a->silences, text, len, out_id, err);
    pthread_mutex_lock(&a->lock);
    a->want_refresh = true;
    pthread_mutex_unlock(&a->lock);
    wake_sampling(a);
    return rc;
}

enum rc agent_silence_end(struct agent *a, uint64_t id, struct err *err)
{
    enum rc rc = silences_end(a->silences, id, err);

    pthread_mutex_lock(&a->lock);
    a->want_refresh = true;
    pthread_mutex_unlock(&a->lock);
    wake_sampling(a);
    return rc;
}

void agent_silences(struct agent *a, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.silences/1");
    json_key(&w, "silences");
    silences_list(a->silences, &w);
    json_obj_end(&w);
    buf_addc(out, '\n');
}

/* Receivers that are told again hear of the values of now. */
static void refresh_alerts(struct agent *a)
{
    int64_t now = clock_mono_ns();
    struct alert_active *list;
    size_t n;

    if (!a->sender || now < a->refresh_ns)
        return;
    a->refresh_ns = now + AGENT_REFRESH_MS * AGENT_MS;
    list = alerts_copy(a->alerts, &n);
    for (size_t i = 0; i < n; i++)
        if (list[i].state == ALERT_FIRING)
            hush_alert(a, &list[i]);
    alert_sender_refresh(a->sender, a->shown, list, n);
    free(list);
}

static bool is_remote(const char *address)
{
    const char *query;
    struct url url;

    return address && url_parse_query(address, &url, &query, NULL) == RC_OK && !url.socket[0] &&
           !http_address_local(url.host);
}

/* The page's address, for those who are told of an alert; NULL: none that they could reach. */
static const char *own_address(struct agent *a, const struct alert_targets *to)
{
    const char *l = a->o.socket ? a->o.socket_listen : a->o.listen;
    bool any = str_eq(l, "0.0.0.0") || str_eq(l, "::");
    const char *host = any ? a->host : l;
    bool six = strchr(host, ':') != NULL;

    if (a->port < 0 || str_starts(l, "unix:"))
        return NULL;
    if (http_address_local(l) && (is_remote(to->alertmanager) || is_remote(to->webhook))) {
        log_warn("alerts go to another machine without a link to this page, which listens on '%s': "
                 "name an address of it that others reach (--public-url)",
                 l);
        return NULL;
    }
    (void)snprintf(a->address, sizeof(a->address), "%s://%s%s%s:%d/",
                   a->o.tls_cert ? "https" : "http", six ? "[" : "", host, six ? "]" : "", a->port);
    return a->address;
}

static enum rc open_alerts(struct agent *a, const struct agent_opts *o, struct err *err)
{
    struct alert_targets to = o->alerts;
    size_t count = o->rule_count;
    const struct alert_rule *rules = o->rules ? o->rules : alert_defaults(&count);
    struct alerts *old = a->alerts, *fresh;
    struct alert_sender *sender = NULL;
    struct alert_rule *hurried = NULL;
    bool keep = a->sender && same_targets(&o->alerts, &a->o.alerts);

    if (o->demo)
        rules = hurried = story_rules(rules, count);
    if (!to.generator && !keep && !a->player)
        to.generator = own_address(a, &to);
    if (!a->player && !keep && alert_sender_new(&to, &sender, err)) {
        free(hurried);
        return err_ctx(err, "alerts");
    }
    if (!keep) {
        alert_sender_free(a->sender, 0);
        a->sender = sender;
    }
    fresh = alerts_new(rules, count, a->shown);
    if (a->player)
        alerts_played(fresh);
    else
        alerts_ask_whose(fresh, whose_of_series, a);
    pthread_rwlock_wrlock(&a->view);
    if (old)
        alerts_inherit(fresh, old);
    a->alerts = fresh;
    pthread_rwlock_unlock(&a->view);
    alerts_free(old);
    free(a->hurried);
    a->hurried = hurried;
    if (!keep)
        tell_firing(a);
    return RC_OK;
}

/* ---- what other threads want of the sampling thread */

static void take_wants(struct agent *a)
{
    bool release, attach;

    pthread_mutex_lock(&a->lock);
    release = a->want_release;
    attach = a->want_attach;
    a->want_release = a->want_attach = false;
    if (a->want_refresh)
        a->refresh_ns = 0;
    a->want_refresh = false;
    pthread_mutex_unlock(&a->lock);
    if (release && a->gpu) {
        gpu_child_release(a->gpu);
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the driver is released");
    }
    if (attach && a->gpu) {
        gpu_child_attach(a->gpu);
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the driver is attached again");
    }
}

static void take_fresh(struct agent *a)
{
    const struct agent_opts *o;

    pthread_mutex_lock(&a->lock);
    o = a->fresh;
    pthread_mutex_unlock(&a->lock);
    if (!o)
        return;
    enum rc rc = open_alerts(a, o, &a->fresh_err);
    if (rc == RC_OK) {
        scrape_reload(a, o);
        pthread_mutex_lock(&a->show);
        a->o.prom_export = o->prom_export;
        a->o.scrape = o->scrape;
        a->o.rules = o->rules;
        a->o.rule_count = o->rule_count;
        a->o.alerts = o->alerts;
        pthread_mutex_unlock(&a->show);
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the spec was read again");
    }
    pthread_mutex_lock(&a->lock);
    a->fresh = NULL;
    pthread_cond_broadcast(&a->taken);
    pthread_mutex_unlock(&a->lock);
}

/* ---- the GPU child */

static void look_at_gpus(struct agent *a)
{
    enum gpu_child_state s;
    struct buf why = { 0 };

    if (!a->gpu)
        return;
    gpu_child_turn(a->gpu, agent_wall_ns());
    s = gpu_child_state(a->gpu);
    gpu_child_why(a->gpu, &why);
    pthread_mutex_lock(&a->lock);
    (void)str_copy(a->gpu_why, sizeof(a->gpu_why), buf_str(&why));
    pthread_mutex_unlock(&a->lock);
    buf_release(&why);
    atomic_store(&a->gpu_state, (int)s);
    atomic_store(&a->driver_hangs, gpu_child_hangs(a->gpu));
}

/* ---- a turn */

static void look_at_clock(struct agent *a, int64_t wall_ns)
{
    int64_t off = wall_ns - clock_mono_ns(), by = off - a->clock_off_ns;

    a->clock_off_ns = off;
    if (llabs(by) < AGENT_JUMP_MS * AGENT_MS)
        return;
    faults_clock_set(a, by);
    agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the clock was set %s by %.1f s",
                by > 0 ? "forward" : "back", (double)llabs(by) / 1e9);
}

static void end_turn(struct agent *a, int64_t time_ns)
{
    a->last_time_ns = time_ns;
    alerts_turn(a->alerts, time_ns, on_alert, a);
    refresh_alerts(a);
    alert_state_turn(a);
    if (a->api)
        api_tick(a->api, time_ns);
    if (a->o.on_second)
        a->o.on_second(a->o.arg, a->shown, time_ns);
    demo_turn(a);
    bundle_look(a, false);
    if (a->incident_ns && clock_mono_ns() >= a->incident_ns) {
        bundle_freeze(a);
        a->incident_ns = 0;
        a->bundled_ns = clock_mono_ns();
    }
    atomic_store(&a->turned_ns, clock_mono_ns());
    if (a->o.seconds && atomic_load(&a->seconds) >= a->o.seconds)
        atomic_store(&a->ended, true);
}

static void live_turn(struct agent *a, int64_t wall_ns)
{
    int64_t period = a->o.period_ms * AGENT_MS, time_ns = wall_ns - wall_ns % period;

    look_at_clock(a, wall_ns);
    if (time_ns == a->last_time_ns)
        return; /* set back by less than a period: the second is taken */
    if (a->last_time_ns && time_ns > a->last_time_ns + period)
        atomic_fetch_add(&a->missed, (uint64_t)((time_ns - a->last_time_ns) / period - 1));
    collector_threads_watch(a);
    publish_history_retry(a);
    publish_second(a, time_ns);
    end_turn(a, time_ns);
    atomic_store(&a->caught_up, true);
}

/* Waits until `due_ns` of the monotonic clock, a wish or a word of the GPU child. */
static void wait_until(struct agent *a, int64_t due_ns)
{
    struct pollfd p[2] = { { .fd = a->wake_fd, .events = POLLIN },
                           { .fd = a->gpu ? gpu_child_fd(a->gpu) : -1, .events = POLLIN } };
    int64_t left = due_ns - clock_mono_ns();
    struct timespec t = { left / 1000000000, left % 1000000000 };
    uint64_t drain;

    if (left > 0 && ppoll(p, 2, &t, NULL) > 0 && (p[0].revents & POLLIN))
        (void)!read(a->wake_fd, &drain, sizeof(drain));
}

static int64_t live_due_ns(const struct agent *a)
{
    int64_t period = a->o.period_ms * AGENT_MS, wall = agent_wall_ns();
    int64_t show = AGENT_SHOW_MS * AGENT_MS < period / 2 ? AGENT_SHOW_MS * AGENT_MS : period / 2;
    int64_t begin = wall - wall % period;

    if (begin + show <= wall || begin == a->last_time_ns)
        begin += period;
    return clock_mono_ns() + (begin + show - wall);
}

static void *sample_main(void *arg)
{
    struct agent *a = arg;
    int64_t due = live_due_ns(a);

    while (!atomic_load(&a->stop)) {
        wait_until(a, due);
        take_wants(a);
        take_fresh(a);
        look_at_gpus(a);
        if (clock_mono_ns() < due)
            continue;
        if (!atomic_load(&a->ended))
            live_turn(a, agent_wall_ns());
        else
            atomic_store(&a->turned_ns, clock_mono_ns());
        due = live_due_ns(a);
    }
    gpu_child_end(a->gpu);
    return NULL;
}

/* Nobody looks at a story: it stands still. */
static void rest_a_while(struct agent *a)
{
    while (atomic_load(&a->rest) && !atomic_load(&a->stop)) {
        wait_until(a, clock_mono_ns() + 1000 * AGENT_MS);
        atomic_store(&a->turned_ns, clock_mono_ns());
    }
    player_wake(a->player);
}

static void *replay_main(void *arg)
{
    struct agent *a = arg;
    int64_t time_ns = 0, due = 0;
    bool have = false;

    while (!atomic_load(&a->stop)) {
        if (!have && atomic_load(&a->rest))
            rest_a_while(a);
        if (!have && !atomic_load(&a->ended)) {
            have = player_step(a->player, &time_ns);
            due = have ? player_due_ns(a->player, time_ns) : 0;
            if (!have) {
                agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the recording is over");
                atomic_store(&a->ended, true);
            }
        }
        if (have && clock_mono_ns() >= due) {
            publish_second(a, time_ns);
            end_turn(a, time_ns);
            have = false;
        } else {
            atomic_store(&a->caught_up, true); /* nothing is due */
            int64_t soon = clock_mono_ns() + 1000 * AGENT_MS;
            wait_until(a, have && due < soon ? due : soon);
            atomic_store(&a->turned_ns, clock_mono_ns());
        }
        take_wants(a);
        take_fresh(a);
    }
    return NULL;
}

/* ---- starting */

/* Anyone who can reach the port can see the machine: beyond loopback a token is needed. */
static enum rc check_open(const struct agent_opts *o, struct err *err)
{
    const char *l = o->listen ? o->listen : "127.0.0.1";

    if (o->socket_listen &&
        (!http_address_local(o->socket_listen) || (o->socket && o->metrics_socket)))
        l = o->socket_listen;
    if (http_address_local(l) || o->token || o->allow_anyone)
        return RC_OK;
    err_hint(err, "Give --token-file, or --insecure if every host that reaches it may look.");
    return err_set(err, RC_USAGE, "refusing to listen on '%s' without a token", l);
}

static void take_opts(struct agent *a, const struct agent_opts *o)
{
    a->o = *o;
    a->o.period_ms = o->period_ms ? o->period_ms : 1000;
    a->o.listen = o->listen ? o->listen : "127.0.0.1";
    if (gethostname(a->host, sizeof(a->host) - 1) != 0 || !a->host[0])
        (void)str_copy(a->host, sizeof(a->host), "localhost");
    if (!a->o.prom_export.hostname)
        a->o.prom_export.hostname = a->host;
    a->ring_path = o->ring_path ? xstrdup(o->ring_path) : NULL;
    atomic_store(&a->token, o->token);
    atomic_store(&a->serve_token, o->serve_token);
    a->begun_wall_ns = agent_wall_ns();
    a->begun_ns = clock_mono_ns();
    a->clock_off_ns = a->begun_wall_ns - a->begun_ns;
    atomic_store(&a->turned_ns, a->begun_ns);
}

static void make_tables(struct agent *a)
{
    a->shown = telemetry_new(a->o.series_max);
    a->next = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*a->next));
    a->copy = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*a->copy));
    a->source_of = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*a->source_of));
    a->self = telemetry_source(a->shown, "agent");
    a->xids = xids_new();
    a->faults = faults_new();
    a->gpu_users = gpu_users_new();
    a->silences = silences_new(a->o.ring_path);
}

static void make_gpu_feed(struct agent *a)
{
    struct gpu_child_opts go = a->o.gpu;

    atomic_store(&a->gpu_state, GPU_CHILD_OFF);
    if (a->o.no_gpu)
        return;
    a->gpu_feed = feed_add(a, a->o.series_max);
    go.period_ms = go.period_ms ? go.period_ms : a->o.period_ms;
    go.root = go.root ? go.root : a->o.root;
    a->gpu = gpu_child_new(&go, a->feeds[a->gpu_feed].t);
}

/* A replay's history is its own, and goes with it. */
static enum rc temp_ring(struct agent *a, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    char path[FILE_PATH_MAX];
    int fd;

    if (a->ring_path || !a->player)
        return RC_OK;
    (void)snprintf(path, sizeof(path), "%s/stoker-replay-XXXXXX", dir && *dir ? dir : "/tmp");
    fd = mkstemp(path);
    if (fd < 0)
        return err_sys(err, "could not make '%s'", path);
    close(fd);
    a->ring_path = xstrdup(path);
    a->temp_ring = true;
    return RC_OK;
}

/* Only a file that is something else ends the start. */
static enum rc open_history(struct agent *a, struct err *err)
{
    struct err why = { 0 };
    enum rc rc = temp_ring(a, &why);

    if (rc == RC_OK && !a->ring_path)
        return RC_OK;
    if (rc == RC_OK)
        rc = publish_history_open(a, &why);
    if (rc == RC_OK && a->temp_ring)
        (void)unlink(a->ring_path); /* it is open: nothing stays behind, however this ends */
    if (rc == RC_PARSE || rc == RC_USAGE) {
        *err = why;
        return rc;
    }
    if (rc != RC_OK)
        log_warn("%s; the agent goes on without history", why.msg);
    return RC_OK;
}

static enum rc start_parts(struct agent *a, struct err *err)
{
    enum rc rc = RC_OK;

    if (a->o.replay || a->o.demo)
        rc = player_open(a, err);
    if (rc == RC_OK)
        rc = open_history(a, err);
    if (rc == RC_OK)
        faults_begin(a);
    if (rc == RC_OK && a->o.record)
        rc = publish_record_open(a, err);
    if (rc == RC_OK)
        rc = front_start(a, err);
    if (rc == RC_OK)
        rc = open_alerts(a, &a->o, err);
    if (rc == RC_OK)
        alert_state_begin(a);
    if (rc == RC_OK && !a->player) {
        collector_threads_plan(a);
        rc = collector_threads_start(a, err);
        if (rc == RC_OK)
            make_gpu_feed(a); /* before DCGM's: of two values the first feed's is shown */
        if (rc == RC_OK)
            rc = scrape_start(a, err);
    }
    return rc;
}

enum rc thread_start(pthread_t *out, void *(*fn)(void *), void *arg, struct err *err)
{
    pthread_attr_t attr;
    int rc;

    pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, AGENT_STACK_BYTES);
    rc = pthread_create(out, &attr, fn, arg);
    pthread_attr_destroy(&attr);
    errno = rc;
    return rc ? err_sys(err, "could not start a thread") : RC_OK;
}

enum rc agent_start(const struct agent_opts *o, struct agent **out, struct err *err)
{
    enum rc rc = check_open(o, err);
    struct agent *a;

    if (rc != RC_OK)
        return rc;
    a = xcalloc(1, sizeof(*a));
    a->record_fd = -1;
    a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&a->lock, NULL);
    pthread_mutex_init(&a->show, NULL);
    pthread_mutex_init(&a->packing, NULL);
    pthread_cond_init(&a->taken, NULL);
    clock_cond_init(&a->halt);
    pthread_rwlock_init(&a->view, NULL);
    take_opts(a, o);
    make_tables(a);
    rc = a->wake_fd < 0 ? err_sys(err, "could not make an event file") : start_parts(a, err);
    if (rc == RC_OK)
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "stoker " STOKER_VERSION " started");
    if (rc == RC_OK && silences_moved(a->silences))
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the silences were damaged: now '%.150s'",
                    silences_moved(a->silences));
    if (rc == RC_OK && alert_state_moved(a))
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0,
                    "the file of what fires was damaged: now '%.150s'", alert_state_moved(a));
    if (rc == RC_OK)
        rc = thread_start(&a->thread, a->player ? replay_main : sample_main, a, err);
    a->thread_on = rc == RC_OK;
    if (rc == RC_OK)
        rc = front_run(a, err);
    if (rc != RC_OK) {
        agent_stop(a);
        return rc;
    }
    *out = a;
    return RC_OK;
}

/* ---- asking */

int agent_port(const struct agent *a, bool metrics)
{
    return metrics ? a->metrics_port : a->port;
}

void agent_release_gpus(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->want_release = true;
    a->want_attach = false;
    pthread_mutex_unlock(&a->lock);
    wake_sampling(a);
}

void agent_attach_gpus(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->want_attach = true;
    pthread_mutex_unlock(&a->lock);
    wake_sampling(a);
}

enum rc agent_reload(struct agent *a, const struct agent_opts *o, struct err *err)
{
    struct err got;

    pthread_mutex_lock(&a->lock);
    a->fresh_err = (struct err){ 0 };
    a->fresh = o;
    wake_sampling(a);
    while (a->fresh)
        pthread_cond_wait(&a->taken, &a->lock);
    got = a->fresh_err;
    pthread_mutex_unlock(&a->lock);
    if (got.code != RC_OK && err)
        *err = got;
    return got.code;
}

void agent_rest(struct agent *a, bool rest)
{
    if (atomic_exchange(&a->rest, rest) != rest)
        wake_sampling(a);
}

uint64_t agent_seconds(const struct agent *a)
{
    return atomic_load(&a->seconds);
}

bool agent_ready(const struct agent *a)
{
    return atomic_load(&a->caught_up) || agent_ended(a);
}

bool agent_ended(const struct agent *a)
{
    return atomic_load(&a->ended);
}

enum gpu_child_state agent_driver(const struct agent *a)
{
    return (enum gpu_child_state)atomic_load(&a->gpu_state);
}

bool agent_alive(const struct agent *a)
{
    int64_t since = clock_mono_ns() - atomic_load(&a->turned_ns),
            period = a->o.period_ms * AGENT_MS;

    return since < AGENT_DEAD_MS * AGENT_MS + 2 * period;
}

/* ---- stopping */

void agent_stop(struct agent *a)
{
    if (!a)
        return;
    front_stop(a);
    atomic_store(&a->stop, true);
    if (a->wake_fd >= 0)
        wake_sampling(a);
    if (a->thread_on)
        (void)pthread_join(a->thread, NULL);
    demo_free(a->demo);
    bundle_look(a, true);
    if (a->gpu)
        gpu_child_free(a->gpu);
    scrape_stop(a->scraper);
    alert_sender_stop(a->sender, AGENT_STOP_MS);
    alert_state_end(a);
    alert_sender_free(a->sender, 0);
    alerts_free(a->alerts);
    api_free(a->api);
    player_free(a->player);
    free(a->hurried);
    history_close(a->ring);
    free(a->ring_path);
    if (!collector_threads_stop(a))
        return; /* one hangs in the kernel and may still write: its memory stays */
    publish_free(a);
    xids_free(a->xids);
    faults_free(a->faults);
    gpu_users_free(a->gpu_users);
    silences_free(a->silences);
    while (a->token_count)
        free(a->tokens[--a->token_count]);
    for (size_t i = 0; i < ARRAY_SIZE(a->texts); i++) {
        buf_release(&a->texts[i].text);
        buf_release(&a->packed[i].text);
    }
    free(a->routes);
    if (a->wake_fd >= 0)
        close(a->wake_fd);
    pthread_rwlock_destroy(&a->view);
    pthread_cond_destroy(&a->halt);
    pthread_cond_destroy(&a->taken);
    pthread_mutex_destroy(&a->show);
    pthread_mutex_destroy(&a->packing);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
