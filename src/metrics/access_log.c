/* SPDX-License-Identifier: MIT */
/* access_log: a ring with many producers and one consumer, and the consumer's thread.
 *
 * Each cell has a turn.  A cell is free for the producer whose place equals its turn, and
 * holds a record for the consumer when its turn is one more:
 *
 *     place 5 of a ring of 4 is cell 1:  turn 5 free ─put─► turn 6 full ─take─► turn 9 free
 *
 * Waking: the consumer says that it is asleep, looks at the ring once more and waits on an
 * eventfd; a producer publishes its record and then looks whether the consumer is asleep.
 * Both sides use sequentially consistent operations, so one of the two sees the other.  A
 * consumer that was woken waits GATHER_MS for more, so that a busy server pays for at most
 * 50 wake-ups a second. */
#include "metrics/access_log.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "metrics/metrics_int.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    GATHER_MS = 20,
    BATCH_BYTES = 64 << 10,    /* of text written at once */
    LINE_BYTES_MAX = 16 << 10, /* of one record, every byte of its texts escaped */
    CACHE_LINE = 64            /* bytes */
};

struct access_cell {
    _Atomic size_t turn;
    struct access_record record;
};

struct access {
    struct access_cell *cells;
    size_t mask;
    char *path;
    struct metrics *own; /* NULL: the caller's are used */
    struct counter *written, *dropped, *lost, *reopened, *reopen_failed;
    int wake_fd;
    pthread_t thread;
    /* the consumer's */
    size_t taken; /* its next place */
    int fd;
    bool torn;     /* the last write ended within a line */
    uint64_t away; /* records lost since the last that was written */
    void (*on_trouble)(void *arg, const char *path, const char *why, uint64_t lost);
    void *arg;
    struct buf text;
    size_t text_records;
    _Alignas(CACHE_LINE) _Atomic size_t put; /* next place of a producer */
    _Alignas(CACHE_LINE) _Atomic bool asleep;
    _Atomic bool stop, reopen;
};

/* ---- the line */

void access_text(char *out, size_t cap, const char *s)
{
    size_t len = strlen(s);

    if (len >= cap) {
        len = cap - 1;
        while (len > 0 && ((unsigned char)s[len] & 0xC0) == 0x80)
            len--;
    }
    memcpy(out, s, len);
    out[len] = '\0';
}

static void add_time(struct json_out *w, int64_t unix_ms)
{
    int64_t ms = unix_ms % 1000;
    time_t s = (time_t)(unix_ms / 1000 - (ms < 0));
    char text[64];
    struct tm tm;

    if (!gmtime_r(&s, &tm)) {
        json_kv_str(w, "time", NULL);
        return;
    }
    snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
             (int)(ms < 0 ? ms + 1000 : ms));
    json_kv_str(w, "time", text);
}

/* Milliseconds to the microsecond. */
static void add_ms(struct json_out *w, const char *key, int64_t ns)
{
    json_key(w, key);
    if (ns < 0)
        json_add_null(w);
    else
        json_add_num(w, round((double)ns / 1e3) / 1e3);
}

static void add_count(struct json_out *w, const char *key, uint64_t n)
{
    json_key(w, key);
    json_add_uint(w, n);
}

void access_names(struct access_record *r, const char *request_id, const char *trace)
{
    access_text(r->request_id, sizeof(r->request_id), request_id ? request_id : "");
    access_text(r->trace, sizeof(r->trace), trace ? trace : "");
}

void access_line(const struct access_record *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    add_time(&w, r->unix_ms);
    add_count(&w, "id", r->id);
    json_kv_str(&w, "peer", r->peer[0] ? r->peer : NULL);
    json_kv_str(&w, "method", r->method);
    json_kv_str(&w, "path", r->path);
    json_kv_maybe(&w, "status", r->status ? maybe_of(r->status) : maybe_none());
    json_kv_str(&w, "model", r->model[0] ? r->model : NULL);
    add_count(&w, "items", r->items);
    add_count(&w, "tokens", r->tokens);
    add_count(&w, "bytes_in", r->bytes_in);
    add_count(&w, "bytes_out", r->bytes_out);
    add_ms(&w, "queue_ms", r->queue_ns);
    add_ms(&w, "run_ms", r->run_ns);
    add_ms(&w, "total_ms", r->total_ns);
    json_kv_str(&w, "error", r->error);
    json_kv_str(&w, "request_id", r->request_id[0] ? r->request_id : NULL);
    json_kv_str(&w, "traceparent", r->trace[0] ? r->trace : NULL);
    json_kv_bool(&w, "gone", r->gone);
    json_obj_end(&w);
    buf_addc(out, '\n');
}

/* ---- the ring */

static void wake_thread(struct access *a)
{
    uint64_t one = 1;
    ssize_t n = write(a->wake_fd, &one, sizeof(one)); /* full: it is awake anyhow */

    (void)n;
}

bool access_put(struct access *a, const struct access_record *r)
{
    struct access_cell *c;
    size_t place;

    if (!a)
        return true;
    place = atomic_load_explicit(&a->put, memory_order_relaxed);
    for (;;) {
        ptrdiff_t ahead;

        c = &a->cells[place & a->mask];
        ahead = (ptrdiff_t)(atomic_load_explicit(&c->turn, memory_order_acquire) - place);
        if (ahead < 0) { /* not yet taken since the last time round */
            counter_add(a->dropped, 1);
            return false;
        }
        if (ahead > 0)
            place = atomic_load_explicit(&a->put, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&a->put, &place, place + 1,
                                                       memory_order_relaxed, memory_order_relaxed))
            break;
    }
    c->record = *r;
    atomic_store(&c->turn, place + 1);
    if (atomic_load(&a->asleep) && atomic_exchange(&a->asleep, false))
        wake_thread(a);
    return true;
}

/* The record to be taken next, or NULL. */
static struct access_cell *ring_next(struct access *a)
{
    struct access_cell *c = &a->cells[a->taken & a->mask];

    return atomic_load(&c->turn) == a->taken + 1 ? c : NULL;
}

/* ---- the thread */

static int file_for(const char *path)
{
    if (str_eq(path, "-"))
        return STDOUT_FILENO;
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

static void file_done(struct access *a)
{
    if (a->fd >= 0 && a->fd != STDOUT_FILENO)
        close(a->fd);
}

/* Waits for a pipe or terminal that was set not to block; false: it is broken. */
static bool wait_writable(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    return poll(&p, 1, 1000) == 1 && (p.revents & POLLOUT);
}

static bool write_all(struct access *a, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = write(a->fd, p, len);

        if (n < 0 && (errno == EINTR || (errno == EAGAIN && wait_writable(a->fd))))
            continue;
        if (n <= 0)
            return false;
        a->torn = p[n - 1] != '\n';
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* Says when it stops and begins to work; e: errno of a write that failed, 0: it did not. */
static void tell_trouble(struct access *a, size_t records, int e)
{
    uint64_t away = a->away;

    a->away = e ? away + records : 0;
    if (a->on_trouble && (e ? !away : away > 0))
        a->on_trouble(a->arg, a->path, e ? strerror(e) : NULL, away);
}

/* Lines that are not written whole are lost; the next batch starts on a line of its own. */
static void batch_write(struct access *a)
{
    bool whole;

    if (a->text_records == 0)
        return;
    errno = 0;
    whole = (!a->torn || write_all(a, "\n", 1)) && write_all(a, a->text.data, a->text.len);
    tell_trouble(a, a->text_records, whole ? 0 : errno ? errno : EIO);
    counter_add(whole ? a->written : a->lost, a->text_records);
    a->text_records = 0;
    buf_reset(&a->text);
}

static void batch_fill(struct access *a)
{
    struct access_cell *c;

    while ((c = ring_next(a))) {
        access_line(&c->record, &a->text);
        atomic_store_explicit(&c->turn, a->taken + a->mask + 1, memory_order_release);
        a->taken++;
        a->text_records++;
        if (a->text.len >= BATCH_BYTES)
            batch_write(a);
    }
    batch_write(a);
}

static void file_again(struct access *a)
{
    int fd = file_for(a->path);

    if (fd < 0) {
        counter_add(a->reopen_failed, 1);
        return;
    }
    file_done(a);
    a->fd = fd;
    a->torn = false;
    counter_add(a->reopened, 1);
}

static void wait_for_records(struct access *a, int timeout_ms)
{
    struct pollfd p = { .fd = a->wake_fd, .events = POLLIN };
    uint64_t n;

    if (poll(&p, 1, timeout_ms) == 1 && read(a->wake_fd, &n, sizeof(n)) < 0)
        return; /* somebody else's wake-up was read already */
}

static void *access_thread(void *arg)
{
    struct access *a = arg;

    for (;;) {
        bool stop = atomic_load(&a->stop); /* read before the ring: what was put is written */

        batch_fill(a);
        if (atomic_exchange(&a->reopen, false))
            file_again(a);
        if (stop)
            return NULL;
        atomic_store(&a->asleep, true);
        if (!ring_next(a) && !atomic_load(&a->stop) && !atomic_load(&a->reopen))
            wait_for_records(a, -1);
        atomic_store(&a->asleep, false);
        if (!atomic_load(&a->stop) && !atomic_load(&a->reopen))
            wait_for_records(a, GATHER_MS);
    }
}

/* ---- life */

static struct counter *counter_of(struct metrics *m, const char *name, const char *help)
{
    return metrics_counter(metrics_counters(m, name, help, NULL));
}

static void counters_make(struct access *a, struct metrics *m)
{
    if (!m)
        m = a->own = metrics_new();
    a->written =
        counter_of(m, "stoker_access_log_written_total", "Requests written to the access log.");
    a->dropped = counter_of(m, "stoker_access_log_dropped_total",
                            "Requests left out of the access log because its ring was full.");
    a->lost = counter_of(m, "stoker_access_log_lost_total",
                         "Requests left out of the access log because it could not be written.");
    a->reopened =
        counter_of(m, "stoker_access_log_reopened_total", "Times the access log was opened anew.");
    a->reopen_failed = counter_of(m, "stoker_access_log_reopen_failed_total",
                                  "Times the access log could not be opened anew.");
}

static void access_free(struct access *a)
{
    file_done(a);
    if (a->wake_fd >= 0)
        close(a->wake_fd);
    buf_release(&a->text);
    metrics_free(a->own);
    free(a->cells);
    free(a->path);
    free(a);
}

static void ring_make(struct access *a, size_t want)
{
    size_t size = 2;

    while (size < want && size < ACCESS_RING_MAX)
        size *= 2;
    a->mask = size - 1;
    a->cells = xcalloc(size, sizeof(*a->cells));
    for (size_t i = 0; i < size; i++)
        atomic_init(&a->cells[i].turn, i);
}

/* Signals are for other threads; a pipe whose reader left is an error like others. */
static int thread_start(struct access *a)
{
    sigset_t all, old;
    int e;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&a->thread, NULL, access_thread, a);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

enum rc access_open(const struct access_opts *o, struct access **out, struct err *err)
{
    struct access *a = aligned_alloc(CACHE_LINE, sizeof(*a));
    enum rc rc;
    int e;

    if (!a)
        return err_set(err, RC_LIMIT, "no memory for the access log");
    memset(a, 0, sizeof(*a));
    a->fd = a->wake_fd = -1;
    buf_init(&a->text, BATCH_BYTES + LINE_BYTES_MAX);
    a->path = xstrdup(o->path);
    a->on_trouble = o->on_trouble;
    a->arg = o->arg;
    a->fd = file_for(a->path);
    if (a->fd < 0) {
        rc = err_sys(err, "could not open access log '%s'", a->path);
        goto out_free;
    }
    a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->wake_fd < 0) {
        rc = err_sys(err, "could not make a wake-up for access log '%s'", a->path);
        goto out_free;
    }
    ring_make(a, o->ring ? o->ring : ACCESS_RING_DEFAULT);
    counters_make(a, o->metrics);
    e = thread_start(a);
    if (e) {
        rc = err_set(err, RC_FAIL, "could not start the access log's thread: %s", strerror(e));
        goto out_free;
    }
    *out = a;
    return RC_OK;

out_free:
    access_free(a);
    return rc;
}

void access_reopen(struct access *a)
{
    if (!a)
        return;
    atomic_store(&a->reopen, true);
    wake_thread(a);
}

void access_close(struct access *a)
{
    if (!a)
        return;
    atomic_store(&a->stop, true);
    wake_thread(a);
    pthread_join(a->thread, NULL);
    access_free(a);
}
