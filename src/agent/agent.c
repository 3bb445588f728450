/* SPDX-License-Identifier: MIT */
/* agent: starts the parts, turns once a second, stops them.
 *
 * A turn belongs to a second of the wall clock: sources sample when it begins, AGENT_SHOW_MS later
 * what they have is shown as that second.  A source that was slower shows in the next one. */
#include "agent/agent_int.h"

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

static bool is_incident(const struct tele_event *e)
{
    return e->kind == TELE_EVENT_XID || e->kind == TELE_EVENT_SXID || e->kind == TELE_EVENT_HANG ||
           e->kind == TELE_EVENT_RECOVERY;
}

static void note_incident(struct agent *a)
{
    int64_t now = clock_mono_ns();

    if (a->player || a->incident_ns ||
        (a->bundled_ns && now - a->bundled_ns < AGENT_INCIDENT_EVERY_MS * AGENT_MS))
        return;
    a->incident_ns = now + AGENT_INCIDENT_AFTER_MS * AGENT_MS;
}

void agent_take_event(struct agent *a, const struct tele_event *e)
{
    struct err err = { 0 };

    if (a->ring && ring_append_event(a->ring, e, &err))
        atomic_fetch_add(&a->ring_errors, 1); /* the next second tells why */
    atomic_fetch_add(&a->events[(unsigned)e->kind < TELE_EVENT_KINDS ? e->kind : 0], 1);
    tele_event(a->shown, e);
    show_record_event(a, e);
    if (is_incident(e))
        note_incident(a);
}

void agent_event(struct agent *a, enum tele_event_kind kind, int gpu, int code, const char *fmt,
                 ...)
{
    struct tele_event e = { .time_ns = a->player ? a->last_time_ns : agent_wall_ns(),
                            .kind = kind,
                            .gpu = gpu,
                            .code = code };
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(e.text, sizeof(e.text), fmt, ap);
    va_end(ap);
    agent_take_event(a, &e);
}

/* ---- alerts */

static void on_alert(void *arg, const struct alert_active *x)
{
    struct agent *a = arg;
    bool fires = x->state == ALERT_FIRING;

    agent_event(a, TELE_EVENT_ALERT, -1, 0, "%s %s: %.180s", x->rule->name,
                fires ? "fires" : "is over", x->summary);
    if (a->sender)
        alert_sender_add(a->sender, a->shown, x);
    if (fires && x->rule->severity == ALERT_CRITICAL)
        note_incident(a);
}

static bool same_targets(const struct alert_targets *a, const struct alert_targets *b)
{
    return str_eq(a->alertmanager, b->alertmanager) && str_eq(a->webhook, b->webhook) &&
           str_eq(a->command, b->command) && str_eq(a->hostname, b->hostname) &&
           str_eq(a->generator, b->generator) && a->log == b->log &&
           a->timeout_ms == b->timeout_ms && a->resend_ms == b->resend_ms &&
           a->backoff_ms == b->backoff_ms;
}

/* Others than before hear of what fires already. */
static void tell_firing(struct agent *a)
{
    struct alert_active *list = xcalloc(ALERT_ACTIVE_MAX, sizeof(*list));
    size_t n = alerts_list(a->alerts, list, ALERT_ACTIVE_MAX);

    for (size_t i = 0; i < n && a->sender; i++)
        if (list[i].state == ALERT_FIRING)
            alert_sender_add(a->sender, a->shown, &list[i]);
    free(list);
}

static enum rc open_alerts(struct agent *a, const struct agent_opts *o, struct err *err)
{
    size_t count = o->rule_count;
    const struct alert_rule *rules = o->rules ? o->rules : alert_defaults(&count);
    struct alerts *old = a->alerts, *fresh;
    struct alert_sender *sender = NULL;
    bool keep = a->sender && same_targets(&o->alerts, &a->o.alerts);

    if (!a->player && !keep && alert_sender_new(&o->alerts, &sender, err))
        return err_ctx(err, "alerts");
    if (!keep) {
        alert_sender_free(a->sender, 0);
        a->sender = sender;
    }
    fresh = alerts_new(rules, count, a->shown);
    pthread_rwlock_wrlock(&a->view);
    if (old)
        alerts_inherit(fresh, old);
    a->alerts = fresh;
    pthread_rwlock_unlock(&a->view);
    alerts_free(old);
    if (!keep)
        tell_firing(a);
    return RC_OK;
}

/* ---- what other threads want of the sampling thread */

static void wake(struct agent *a)
{
    uint64_t one = 1;

    (void)!write(a->wake_fd, &one, sizeof(one));
}

static void take_wants(struct agent *a)
{
    bool release, attach;

    pthread_mutex_lock(&a->lock);
    release = a->want_release;
    attach = a->want_attach;
    a->want_release = a->want_attach = false;
    pthread_mutex_unlock(&a->lock);
    if (release && a->gpu) {
        gpu_child_release(a->gpu);
        agent_event(a, TELE_EVENT_AGENT, -1, 0, "the driver is released");
    }
    if (attach && a->gpu) {
        gpu_child_attach(a->gpu);
        agent_event(a, TELE_EVENT_AGENT, -1, 0, "the driver is attached again");
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
        a->o.expo = o->expo;
        a->o.scrape = o->scrape;
        a->o.rules = o->rules;
        a->o.rule_count = o->rule_count;
        a->o.alerts = o->alerts;
        pthread_mutex_unlock(&a->show);
        agent_event(a, TELE_EVENT_AGENT, -1, 0, "the spec was read again");
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
}

/* ---- a turn */

static void look_at_clock(struct agent *a, int64_t wall_ns)
{
    int64_t off = wall_ns - clock_mono_ns(), by = off - a->clock_off_ns;

    a->clock_off_ns = off;
    if (llabs(by) >= AGENT_JUMP_MS * AGENT_MS)
        agent_event(a, TELE_EVENT_AGENT, -1, 0, "the clock was set %s by %.1f s",
                    by > 0 ? "forward" : "back", (double)llabs(by) / 1e9);
}

static void end_turn(struct agent *a, int64_t time_ns)
{
    a->last_time_ns = time_ns;
    alerts_turn(a->alerts, time_ns, on_alert, a);
    if (a->api)
        api_tick(a->api, time_ns);
    if (a->o.on_second)
        a->o.on_second(a->o.arg, a->shown, time_ns);
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
    lanes_watch(a);
    show_ring_retry(a);
    show_second(a, time_ns);
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
    return NULL;
}

static void *replay_main(void *arg)
{
    struct agent *a = arg;
    int64_t time_ns = 0, due = 0;
    bool have = false;

    while (!atomic_load(&a->stop)) {
        if (!have && !atomic_load(&a->ended)) {
            have = player_step(a->player, &time_ns);
            due = have ? player_due_ns(a->player, time_ns) : 0;
            if (!have) {
                agent_event(a, TELE_EVENT_AGENT, -1, 0, "the recording is over");
                atomic_store(&a->ended, true);
            }
        }
        if (have && clock_mono_ns() >= due) {
            show_second(a, time_ns);
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

    if (str_eq(l, "localhost") || !strncmp(l, "127.", 4) || str_eq(l, "::1") ||
        !strncmp(l, "unix:", 5) || o->token || o->allow_anyone)
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
    if (!a->o.expo.hostname)
        a->o.expo.hostname = a->host;
    a->ring_path = o->ring_path ? xstrdup(o->ring_path) : NULL;
    a->begun_wall_ns = agent_wall_ns();
    a->begun_ns = clock_mono_ns();
    a->clock_off_ns = a->begun_wall_ns - a->begun_ns;
    atomic_store(&a->turned_ns, a->begun_ns);
}

static void make_tables(struct agent *a)
{
    a->shown = tele_new(a->o.series_max);
    a->next = xcalloc(TELE_SERIES_MAX, sizeof(*a->next));
    a->copy = xcalloc(TELE_SERIES_MAX, sizeof(*a->copy));
    a->source_of = xcalloc(TELE_SERIES_MAX, sizeof(*a->source_of));
    a->self = tele_source(a->shown, "agent");
    a->xids = xids_new();
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
    enum rc rc = temp_ring(a, err);

    if (rc != RC_OK || !a->ring_path)
        return rc;
    rc = show_ring_open(a, &why);
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
    if (rc == RC_OK && a->o.record)
        rc = show_record_open(a, err);
    if (rc == RC_OK)
        rc = front_start(a, err);
    if (rc == RC_OK)
        rc = open_alerts(a, &a->o, err);
    if (rc == RC_OK && !a->player) {
        lanes_plan(a);
        rc = lanes_start(a, err);
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
    pthread_cond_init(&a->taken, NULL);
    clock_cond_init(&a->halt);
    pthread_rwlock_init(&a->view, NULL);
    take_opts(a, o);
    make_tables(a);
    rc = a->wake_fd < 0 ? err_sys(err, "could not make an event file") : start_parts(a, err);
    if (rc == RC_OK)
        agent_event(a, TELE_EVENT_AGENT, -1, 0, "stoker " STOKER_VERSION " started");
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
    wake(a);
}

void agent_attach_gpus(struct agent *a)
{
    pthread_mutex_lock(&a->lock);
    a->want_attach = true;
    pthread_mutex_unlock(&a->lock);
    wake(a);
}

enum rc agent_reload(struct agent *a, const struct agent_opts *o, struct err *err)
{
    struct err got;

    pthread_mutex_lock(&a->lock);
    a->fresh_err = (struct err){ 0 };
    a->fresh = o;
    wake(a);
    while (a->fresh)
        pthread_cond_wait(&a->taken, &a->lock);
    got = a->fresh_err;
    pthread_mutex_unlock(&a->lock);
    if (got.code != RC_OK && err)
        *err = got;
    return got.code;
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
        wake(a);
    if (a->thread_on)
        (void)pthread_join(a->thread, NULL);
    bundle_look(a, true);
    if (a->gpu)
        gpu_child_free(a->gpu);
    scrape_stop(a->scraper);
    alert_sender_free(a->sender, AGENT_STOP_MS);
    alerts_free(a->alerts);
    api_free(a->api);
    player_free(a->player);
    ring_close(a->ring);
    if (a->temp_ring)
        (void)unlink(a->ring_path);
    free(a->ring_path);
    if (!lanes_stop(a))
        return; /* one hangs in the kernel and may still write: its memory stays */
    show_free(a);
    xids_free(a->xids);
    buf_release(&a->text);
    free(a->routes);
    if (a->wake_fd >= 0)
        close(a->wake_fd);
    pthread_rwlock_destroy(&a->view);
    pthread_cond_destroy(&a->halt);
    pthread_cond_destroy(&a->taken);
    pthread_mutex_destroy(&a->show);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
