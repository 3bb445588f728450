/* SPDX-License-Identifier: MIT */
/* bundle: the last minutes in one tar, for whoever has to find out what happened.
 *
 *     history.rec   values of the time as a recording: stoker agent --replay history.rec
 *     events.json   status.json   metrics.txt   alerts.json   kernel.log
 *     processes.json, inventory.json … the documents, as they are now
 *
 * An incident (an XID, a hang, a critical alert) freezes one beside the history; the newest few
 * are kept. */
#include "agent/agent_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"
#include "os/tree.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    BUNDLE_SLICE_S = 300,          /* seconds gathered at a time */
    BUNDLE_KERNEL_BYTES = 1 << 20, /* of the kernel's log */
    BUNDLE_BYTES_MAX = 256 << 20,  /* of a tar */
    BUNDLE_BACK_MS_MAX = 24 * 3600 * 1000,
    BUNDLE_EVENTS_MAX = 4096
};

static void put_file(struct tree *t, const char *name, const struct buf *b)
{
    char path[FILE_PATH_MAX];

    (void)snprintf(path, sizeof(path), "/stoker-bundle/%s", name);
    (void)tree_put(t, path, TREE_FILE, buf_str(b), b->len, 0);
}

/* ---- history as a recording */

/* The history may hold many times the series of now: those of jobs and applications that are gone
 * are what an incident is about.  So each has a row of its own, made when it is first met. */
struct bundle_gather {
    struct telemetry *t; /* gives the series ids */
    unsigned source;
    double **rows;  /* [TELEMETRY_SERIES_MAX], by id: BUNDLE_SLICE_S values; NULL: not met */
    size_t written; /* series told in the stream */
    int64_t from_ns;
    struct stream_writer *w;
};

static bool take_series(void *arg, const struct telemetry_series *s, const struct history_point *p,
                        size_t n)
{
    struct bundle_gather *g = arg;
    const struct telemetry_metric *m = telemetry_metric(s->metric->id);
    uint32_t id;

    if (!m)
        m = telemetry_foreign_like(g->t, s->metric);
    id = telemetry_series(g->t, g->source, m, s->labels, s->label_count);
    if (id == TELEMETRY_NONE)
        return true; /* counted there */
    if (!g->rows[id]) {
        g->rows[id] = xcalloc(BUNDLE_SLICE_S, sizeof(double));
        for (size_t at = 0; at < BUNDLE_SLICE_S; at++)
            g->rows[id][at] = NAN;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t at = (p[i].time_ns - g->from_ns) / 1000000000;
        if (p[i].count && at >= 0 && at < BUNDLE_SLICE_S)
            g->rows[id][at] = p[i].last;
    }
    return true;
}

/* What was gathered, second by second; the rows are empty after it. */
static void write_slice(struct bundle_gather *g)
{
    size_t count = telemetry_count(g->t);
    uint32_t *ids = xcalloc(count + 1, sizeof(*ids));
    double *values = xcalloc(count + 1, sizeof(*values));

    for (; g->written < count; g->written++)
        stream_series(g->w, g->source, (uint32_t)g->written,
                      telemetry_get(g->t, (uint32_t)g->written), "agent");
    for (size_t at = 0; at < BUNDLE_SLICE_S; at++) {
        size_t n = 0;

        for (size_t i = 0; i < count; i++)
            if (g->rows[i] && !isnan(g->rows[i][at])) {
                ids[n] = (uint32_t)i;
                values[n++] = g->rows[i][at];
                g->rows[i][at] = NAN;
            }
        if (n)
            stream_batch(g->w, g->source, g->from_ns + (int64_t)at * 1000000000, ids, values, n);
    }
    free(ids);
    free(values);
}

static void put_history(struct agent *a, int64_t from_ns, int64_t to_ns, struct tree *t)
{
    struct bundle_gather g = { .t = telemetry_new(TELEMETRY_SERIES_MAX),
                               .rows = xcalloc(TELEMETRY_SERIES_MAX, sizeof(double *)) };
    struct buf out = { .max = BUNDLE_BYTES_MAX }, head = { 0 };
    struct err err = { 0 };
    enum rc rc = RC_OK;

    g.source = telemetry_source(g.t, "agent"); /* whose batches mark seconds */
    buf_addf(&head,
             "{\"schema\":\"stoker.tele/1\",\"host\":\"%s\",\"begin\":%lld,\"from\":\"bundle\"}",
             a->host, (long long)(from_ns / 1000000000));
    g.w = stream_writer_new(buf_str(&head), &out);
    for (g.from_ns = from_ns; g.from_ns < to_ns && !rc;
         g.from_ns += (int64_t)BUNDLE_SLICE_S * 1000000000) {
        struct history_query q = { .from_ns = g.from_ns,
                                   .to_ns = g.from_ns + (int64_t)BUNDLE_SLICE_S * 1000000000 };

        pthread_rwlock_rdlock(&a->view);
        if (a->ring)
            rc = history_read(a->ring, &q, take_series, &g, &err);
        pthread_rwlock_unlock(&a->view);
        write_slice(&g);
    }
    if (rc)
        log_warn("the history of a bundle ends early: %s", err.msg);
    if (telemetry_refused(g.t))
        log_warn("a bundle has no room for %llu series",
                 (unsigned long long)telemetry_refused(g.t));
    put_file(t, "history.rec", &out);
    for (size_t i = 0; i < TELEMETRY_SERIES_MAX; i++)
        free(g.rows[i]);
    free(g.rows);
    stream_writer_free(g.w);
    telemetry_free(g.t);
    buf_release(&head);
    buf_release(&out);
}

/* ---- the rest */

static bool add_event(void *arg, const struct telemetry_event *e)
{
    struct json_out *w = arg;
    int64_t ms = e->time_ns / 1000000;

    json_obj(w);
    json_kv_num(w, "time", (double)ms / 1e3);
    json_kv_str(w, "kind", telemetry_event_word(e->kind));
    if (e->gpu >= 0)
        json_kv_int(w, "gpu", e->gpu);
    if (e->code)
        json_kv_int(w, "code", e->code);
    json_kv_str(w, "text", e->text);
    json_obj_end(w);
    return true;
}

/* Of the history, or where there is none of memory. */
static void put_events(struct agent *a, int64_t from_ns, int64_t to_ns, struct tree *t)
{
    struct buf out = { 0 };
    struct json_out w;
    bool kept = false;

    json_out_init(&w, &out, 1);
    json_arr(&w);
    pthread_rwlock_rdlock(&a->view);
    if (a->ring)
        kept = history_events(a->ring, from_ns, to_ns, add_event, &w, NULL) == RC_OK;
    pthread_rwlock_unlock(&a->view);
    if (!kept) {
        struct telemetry_event *list = xcalloc(BUNDLE_EVENTS_MAX, sizeof(*list));
        size_t n = telemetry_events(a->shown, from_ns, list, BUNDLE_EVENTS_MAX);
        for (size_t i = 0; i < n; i++)
            (void)add_event(&w, &list[i]);
        free(list);
    }
    json_arr_end(&w);
    buf_addc(&out, '\n');
    put_file(t, "events.json", &out);
    buf_release(&out);
}

static void put_alerts(struct agent *a, struct tree *t)
{
    static const char *const words[] = { "pending", "firing", "resolved" };
    struct alert_active *list;
    struct buf out = { 0 };
    struct json_out w;
    size_t n;

    json_out_init(&w, &out, 1);
    json_arr(&w);
    pthread_rwlock_rdlock(&a->view);
    list = alerts_copy(a->alerts, &n);
    for (size_t i = 0; i < n; i++) {
        json_obj(&w);
        json_kv_str(&w, "rule", list[i].rule->name);
        json_kv_str(&w, "state", words[list[i].state]);
        json_kv_int(&w, "since", list[i].since_ns / 1000000000);
        json_kv_str(&w, "summary", list[i].summary);
        json_kv_str(&w, "cause", list[i].cause[0] ? list[i].cause : NULL);
        json_kv_str(&w, "follows_from", list[i].root_rule ? list[i].root_rule->name : NULL);
        json_obj_end(&w);
    }
    pthread_rwlock_unlock(&a->view);
    json_arr_end(&w);
    buf_addc(&out, '\n');
    put_file(t, "alerts.json", &out);
    buf_release(&out);
    free(list);
}

static void put_kernel(struct tree *t)
{
    enum { READ_ALL = 3 }; /* of syslog(2) */
    char *log = xmalloc(BUNDLE_KERNEL_BYTES);
    struct buf out = { 0 };
    int n = klogctl(READ_ALL, log, BUNDLE_KERNEL_BYTES);

    if (n >= 0)
        buf_add(&out, log, (size_t)n);
    else
        buf_addf(&out, "the kernel's log could not be read: %s\n", strerror(errno));
    put_file(t, "kernel.log", &out);
    buf_release(&out);
    free(log);
}

static void put_doc(void *arg, const char *name, const char *json)
{
    char file[TELEMETRY_NAME_MAX + 8];
    struct buf b = { 0 };

    if (!json || strchr(name, '/') || name[0] == '.')
        return;
    (void)snprintf(file, sizeof(file), "%s.json", name);
    buf_adds(&b, json);
    put_file(arg, file, &b);
    buf_release(&b);
}

static void put_now(struct agent *a, struct tree *t)
{
    struct buf b = { 0 };

    agent_status(a, &b);
    put_file(t, "status.json", &b);
    buf_reset(&b);
    agent_metrics(a, &b);
    put_file(t, "metrics.txt", &b);
    buf_release(&b);
    (void)telemetry_docs_after(a->shown, 0, put_doc, t);
}

enum rc agent_bundle(struct agent *a, int64_t back_ms, struct buf *out, struct err *err)
{
    int64_t to = agent_wall_ns(), from;
    struct tree t;

    if (back_ms > BUNDLE_BACK_MS_MAX)
        back_ms = BUNDLE_BACK_MS_MAX;
    from = to - to % 1000000000 - back_ms * AGENT_MS;
    tree_init(&t);
    put_now(a, &t);
    put_events(a, from, to, &t);
    put_alerts(a, &t);
    put_kernel(&t);
    put_history(a, from, to, &t);
    buf_init(out, BUNDLE_BYTES_MAX);
    tar_write(&t, out);
    tree_release(&t);
    return out->over
               ? err_set(err, RC_LIMIT, "the bundle is larger than %d bytes", BUNDLE_BYTES_MAX)
               : RC_OK;
}

/* ---- frozen by an incident */

static int only_bundles(const struct dirent *d)
{
    return str_starts(d->d_name, "incident-") && str_ends(d->d_name, ".tar");
}

static void remove_old(const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, only_bundles, alphasort); /* names hold the time */

    for (int i = 0; i < n; i++) {
        char path[FILE_PATH_MAX];
        if (i + AGENT_BUNDLES_MAX <= n &&
            file_join(path, sizeof(path), dir, list[i]->d_name, NULL) == RC_OK)
            (void)unlink(path);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

static enum rc freeze_bundle(struct agent *a, char *path, size_t cap, struct err *err)
{
    char name[64], dir[FILE_PATH_MAX];
    time_t now = (time_t)(agent_wall_ns() / 1000000000);
    struct buf out = { 0 };
    struct file_new f;
    struct tm tm;
    enum rc rc;

    (void)snprintf(dir, sizeof(dir), "%s.bundles", a->ring_path);
    gmtime_r(&now, &tm);
    (void)strftime(name, sizeof(name), "incident-%Y%m%dT%H%M%SZ.tar", &tm);
    if (mkdir(dir, 0750) != 0 && errno != EEXIST) /* readable as the history is */
        return err_sys(err, "could not make '%s'", dir);
    if (file_join(path, cap, dir, name, err))
        return err->code;
    remove_old(dir);
    rc = agent_bundle(a, AGENT_BUNDLE_MS_DEFAULT, &out, err);
    if (rc == RC_OK)
        rc = file_new_open_mode(&f, path, FILE_MODE_GROUP, err);
    if (rc == RC_OK) {
        rc = file_write(f.fd, path, buf_str(&out), out.len, err);
        rc = file_new_close(&f, rc, err);
    }
    buf_release(&out);
    return rc;
}

/* On a thread of its own: the next second does not wait. */
struct freezer {
    struct agent *a;
    pthread_t thread;
    char path[FILE_PATH_MAX];
    struct err err;
    enum rc rc;
    _Atomic bool done;
};

static void *freeze_main(void *arg)
{
    struct freezer *z = arg;

    z->rc = freeze_bundle(z->a, z->path, sizeof(z->path), &z->err);
    atomic_store(&z->done, true);
    return NULL;
}

void bundle_freeze(struct agent *a)
{
    struct freezer *z;

    if (!a->ring_path || a->temp_ring || a->freezer)
        return;
    z = xcalloc(1, sizeof(*z));
    z->a = a;
    if (thread_start(&z->thread, freeze_main, z, &z->err) == RC_OK)
        a->freezer = z;
    else
        free(z);
}

void bundle_look(struct agent *a, bool wait)
{
    struct freezer *z = a->freezer;

    if (!z || (!wait && !atomic_load(&z->done)))
        return;
    (void)pthread_join(z->thread, NULL);
    if (z->rc != RC_OK) {
        log_warn("no bundle of the incident: %s", z->err.msg);
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "no bundle of the incident: %.180s",
                    z->err.msg);
    } else {
        agent_event(a, TELEMETRY_EVENT_AGENT, -1, 0, "the incident is kept in '%.180s'", z->path);
    }
    a->freezer = NULL;
    free(z);
}
