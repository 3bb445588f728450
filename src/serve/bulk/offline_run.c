/* SPDX-License-Identifier: MIT */
/* offline_run: the threads that carry batches forward.
 *
 * A runner takes the oldest batch that nobody has, of a client none of whose batches runs where
 * there is one, checks its input, and sends its lines through a window (lines_int.h).  Replies are
 * written to the batch's .out, those that are not 200 to its .err, as they come.  At the end both
 * become files of the client.
 *
 * A disk that is full is no fault of the batch: what could not be written is cut off at the last
 * whole line, told in the batch's errors and in the log, and tried again until its window
 * passes. */
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/bulk/lines_int.h"
#include "serve/bulk/offline_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RUN_WRITE_BYTES = 256 << 10, RUN_FULL_MS = 2000, RUN_IDLE_MS = 5000 };

struct offline_runners {
    struct serve *s;
    struct store *st;
    pthread_t ids[OFFLINE_RUNNERS];
    size_t count;
};

struct answers { /* .out or .err */
    char path[FILE_PATH_MAX];
    int fd;
    uint64_t len; /* of whole lines on the disk */
    struct buf more;
    uint64_t lines, lines_more; /* on the disk and in `more`; in `more` alone */
    bool adopted;               /* it is a file of the client's already */
};

struct run {
    struct serve *s;
    struct store *st;
    struct offline_batch *b;
    struct answers out, err;
    uint8_t *answered; /* a bit a line of the input, by number; owned */
    bool full_told, failed;
    struct line_window window;
};

/* ---- what is answered already */
static const char record_begin[] = "{\"id\":\"batch_req_";

/* The number of the line that a record answers; 0: it is no record. */
static uint64_t record_line(const struct offline_batch *b, const char *text, size_t len)
{
    char begin[sizeof(record_begin) + STORE_ID_MAX], digits[24];
    size_t n =
        (size_t)snprintf(begin, sizeof(begin), "%s%s_", record_begin, b->id + sizeof("batch_") - 1);
    size_t i = 0;
    uint64_t number = 0;

    if (len < n || memcmp(text, begin, n) != 0 || text[len - 1] != '}')
        return 0;
    while (n + i < len && i < sizeof(digits) - 1 && text[n + i] != '"') {
        digits[i] = text[n + i];
        i++;
    }
    digits[i] = '\0';
    return str_to_u64(digits, 10, &number) && number <= UINT32_MAX ? number : 0;
}

static void mark_answered(struct run *r, uint64_t number)
{
    r->answered[number / 8] |= (uint8_t)(1u << (number % 8));
}

static bool is_answered(const struct run *r, uint64_t number)
{
    return r->answered[number / 8] & (1u << (number % 8));
}

enum { LINE_NUMBERS_MAX = 1 << 28 }; /* a file of 200 MB has fewer, blank ones included */

/* Reads what is there, marks it, cuts off what is torn. */
static enum rc open_answers(struct run *r, struct answers *a, bool errors, struct err *err)
{
    char id[STORE_ID_MAX];
    struct line_reader in;
    const char *text;
    size_t len;
    enum rc rc;

    offline_file_id(r->b, errors, id);
    store_path(r->st, a->path, sizeof(a->path), "files", id, ".data");
    a->adopted = file_exists(a->path); /* it was killed while it ended */
    if (!a->adopted)
        store_path(r->st, a->path, sizeof(a->path), "batches", r->b->id, errors ? ".err" : ".out");
    a->fd = open(a->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (a->fd < 0)
        return err_sys(err, "could not open '%s'", a->path);
    rc = line_reader_open(&in, a->path, err);
    while (rc == RC_OK && (rc = line_reader_next(&in, &text, &len, err)) == RC_OK && text) {
        uint64_t number = record_line(r->b, text, len);
        bool whole = !(in.end && in.at == in.held.len && in.held.data[in.held.len - 1] != '\n');

        if (!number || number >= LINE_NUMBERS_MAX || !whole || is_answered(r, number))
            break;
        mark_answered(r, number);
        a->len += len + 1;
        a->lines++;
    }
    line_reader_close(&in);
    if (rc == RC_OK && ftruncate(a->fd, (off_t)a->len) != 0)
        rc = err_sys(err, "could not cut '%s'", a->path);
    return rc;
}

static void close_answers(struct answers *a)
{
    if (a->fd >= 0)
        close(a->fd);
    buf_release(&a->more);
}

/* ---- writing */
static enum rc write_answers(struct run *r, struct answers *a, struct err *err)
{
    enum rc rc;
    size_t at = 0;

    pthread_mutex_lock(&r->st->lock);
    rc = store_take_space(r->st, a->more.len, err);
    pthread_mutex_unlock(&r->st->lock);
    if (rc != RC_OK)
        return rc;
    while (at < a->more.len) {
        ssize_t n = pwrite(a->fd, a->more.data + at, a->more.len - at, (off_t)(a->len + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            (void)err_sys(err, "could not write '%s'", a->path);
            (void)!ftruncate(a->fd, (off_t)a->len);
            pthread_mutex_lock(&r->st->lock);
            store_give_space(r->st, a->more.len);
            pthread_mutex_unlock(&r->st->lock);
            return err->code;
        }
        at += (size_t)n;
    }
    a->len += a->more.len;
    a->lines_more = 0;
    buf_reset(&a->more);
    return RC_OK;
}

/* What could not be written is not answered. */
static void discard_answers(struct answers *a)
{
    a->lines -= a->lines_more;
    a->lines_more = 0;
    buf_reset(&a->more);
}

static bool has_to_stop(const struct run *r)
{
    return atomic_load(&r->s->stopping) || r->st->stop;
}

static bool is_late(const struct run *r)
{
    return clock_unix_s() >= r->b->expires;
}

static void tell_full(struct run *r, const char *why)
{
    struct buf text = { 0 };
    struct json_out w;

    json_out_init(&w, &text, 0);
    json_arr(&w);
    json_obj(&w);
    json_kv_str(&w, "code", "storage_full");
    json_kv_str(&w, "message", why);
    json_kv_str(&w, "param", NULL);
    json_kv_str(&w, "line", NULL);
    json_obj_end(&w);
    json_arr_end(&w);
    pthread_mutex_lock(&r->st->lock);
    free(r->b->errors);
    r->b->errors = buf_take(&text);
    pthread_mutex_unlock(&r->st->lock);
    if (!r->full_told)
        log_warn("batch '%s' waits: %s", r->b->id, why);
    r->full_told = true;
}

/* All that is gathered, to the disk; waits where there is no room.  False: the server stops, or
 * the batch has run out of time, and lines of it are not on the disk. */
static bool flush_answers(struct run *r)
{
    struct answers *both[] = { &r->out, &r->err };

    for (size_t i = 0; i < ARRAY_SIZE(both);) {
        struct err err = { 0 };

        if (!both[i]->more.len || write_answers(r, both[i], &err) == RC_OK) {
            i++;
            continue;
        }
        tell_full(r, err.msg);
        pthread_mutex_lock(&r->st->lock);
        if (!has_to_stop(r))
            (void)clock_cond_wait(&r->st->more, &r->st->lock,
                                  clock_mono_ns() + RUN_FULL_MS * 1000000LL);
        pthread_mutex_unlock(&r->st->lock);
        if (has_to_stop(r) || is_late(r) || atomic_load(&r->b->cancel)) {
            discard_answers(&r->out);
            discard_answers(&r->err);
            return false;
        }
    }
    if (r->full_told) {
        log_info("batch '%s' goes on", r->b->id);
        pthread_mutex_lock(&r->st->lock);
        free(r->b->errors);
        r->b->errors = NULL;
        pthread_mutex_unlock(&r->st->lock);
        r->full_told = false;
    }
    return true;
}

/* A record up to what it answers with. */
static void begin_record(const struct run *r, struct json_out *w, struct buf *out, uint64_t number,
                         const char *custom_id)
{
    char id[STORE_ID_MAX + 48];

    (void)snprintf(id, sizeof(id), "batch_req_%s_%" PRIu64, r->b->id + sizeof("batch_") - 1,
                   number);
    json_out_init(w, out, 0);
    json_obj(w);
    json_kv_str(w, "id", id);
    json_kv_str(w, "custom_id", custom_id);
}

static void add_reply(struct run *r, const struct line_slot *slot)
{
    struct answers *a = slot->status == 200 ? &r->out : &r->err;
    char request[64];
    struct json_out w;

    begin_record(r, &w, &a->more, slot->number, slot->custom_id);
    json_kv_obj(&w, "response");
    json_kv_int(&w, "status_code", slot->status);
    (void)snprintf(request, sizeof(request), "req_%.24s_%" PRIu64, r->b->id + sizeof("batch_") - 1,
                   slot->number);
    json_kv_str(&w, "request_id", request);
    json_key(&w, "body");
    buf_add(json_raw(&w), slot->reply.data, slot->reply.len);
    json_obj_end(&w);
    json_kv_str(&w, "error", NULL);
    json_obj_end(&w);
    buf_addc(&a->more, '\n');
    a->lines++;
    a->lines_more++;
    mark_answered(r, slot->number);
}

static void add_expired(struct run *r, uint64_t number, const char *custom_id)
{
    struct json_out w;

    begin_record(r, &w, &r->err.more, number, custom_id);
    json_kv_str(&w, "response", NULL);
    json_kv_obj(&w, "error");
    json_kv_str(&w, "code", "batch_expired");
    json_kv_str(&w, "message",
                "This request could not be executed before the completion window expired.");
    json_obj_end(&w);
    json_obj_end(&w);
    buf_addc(&r->err.more, '\n');
    r->err.lines++;
    r->err.lines_more++;
}

static void tell_counts(struct run *r)
{
    pthread_mutex_lock(&r->st->lock);
    r->b->completed = r->out.lines;
    r->b->failed = r->err.lines;
    pthread_mutex_unlock(&r->st->lock);
}

/* ---- lines */
static char *body_text(const struct json *body, size_t *out_len)
{
    struct buf text = { 0 };
    struct json_out w;

    buf_init(&text, 2 * OFFLINE_LINE_BYTES_MAX);
    json_out_init(&w, &text, 0);
    json_add_value(&w, body);
    *out_len = text.len;
    return buf_take(&text);
}

static bool is_over(const struct run *r)
{
    return has_to_stop(r) || is_late(r) || atomic_load(&r->b->cancel);
}

/* Nobody has answered it: the batch is over, or the server is. */
static bool is_dropped(const struct line_slot *slot)
{
    return slot->status != 200 && (slot->kind == FAULT_DEADLINE || slot->kind == FAULT_STOPPING ||
                                   slot->kind == FAULT_OVERLOADED || slot->kind == FAULT_LOADING ||
                                   slot->kind == FAULT_NO_MEMORY);
}

/* Writes what is done of the window; waits for the oldest where `wait`.  False: stop. */
static bool take_replies(struct run *r, bool wait)
{
    struct line_slot *slot;
    bool taken = false;

    while ((slot = line_window_oldest(&r->window, wait && !taken ? 200 : 0)) != NULL) {
        taken = true;
        if (!is_dropped(slot))
            add_reply(r, slot);
        line_window_pop(&r->window);
        if (r->out.more.len + r->err.more.len >= RUN_WRITE_BYTES)
            break;
    }
    if (r->out.more.len + r->err.more.len >= RUN_WRITE_BYTES || (wait && taken)) {
        tell_counts(r);
        return flush_answers(r);
    }
    return true;
}

static enum rc send_lines(struct run *r, struct line_reader *in, struct err *err)
{
    const char *text, *code;
    char why[512];
    size_t len;
    enum rc rc = RC_OK;

    while (!is_over(r) && (rc = line_reader_next(in, &text, &len, err)) == RC_OK && text) {
        struct arena a = { 0 };
        struct offline_line line;

        if (is_answered(r, in->number) ||
            !offline_line_read(&a, text, len, r->b->endpoint, &line, &code, why, sizeof(why))) {
            arena_release(&a); /* a blank one; all others were checked */
            continue;
        }
        char *body = body_text(line.body, &len);
        char *id = xstrdup(line.custom_id);
        arena_release(&a);
        while (line_window_full(&r->window) && !is_over(r) && take_replies(r, true))
            ;
        if (is_over(r)) {
            free(body);
            free(id);
            break;
        }
        line_window_put(&r->window, in->number, id, body, len);
        (void)take_replies(r, false);
    }
    if (is_over(r))
        atomic_store(&r->window.gone, true);
    while (rc == RC_OK && r->window.count)
        (void)take_replies(r, true);
    return rc;
}

/* Requests that the window's end has left without an answer. */
static enum rc expire_lines(struct run *r, const char *path, struct err *err)
{
    struct line_reader in;
    const char *text, *code;
    char why[512];
    size_t len;
    enum rc rc = line_reader_open(&in, path, err);

    while (rc == RC_OK && (rc = line_reader_next(&in, &text, &len, err)) == RC_OK && text) {
        struct arena a = { 0 };
        struct offline_line line;

        if (!is_answered(r, in.number) &&
            offline_line_read(&a, text, len, r->b->endpoint, &line, &code, why, sizeof(why)))
            add_expired(r, in.number, line.custom_id);
        arena_release(&a);
    }
    line_reader_close(&in);
    return rc;
}

/* ---- the end */
/* Under the lock. */
static enum rc adopt_answers(struct run *r, struct answers *a, bool errors, bool *out_has,
                             struct err *err)
{
    int64_t now = clock_unix_s();
    struct stored_file f = { .purpose = "batch_output", .created = now };
    int64_t keep = r->b->output_expires_s ? r->b->output_expires_s : r->st->expiry_s;
    char id[STORE_ID_MAX];

    offline_file_id(r->b, errors, id);
    *out_has = a->lines > 0;
    if (!a->lines) {
        (void)unlink(a->path);
        return RC_OK;
    }
    if (a->adopted && store_file_find(r->st, id, NULL))
        return RC_OK;
    if (fdatasync(a->fd) != 0)
        return err_sys(err, "could not write '%s'", a->path);
    (void)str_copy(f.id, sizeof(f.id), id);
    (void)str_copy(f.owner, sizeof(f.owner), r->b->owner);
    (void)snprintf(f.name, sizeof(f.name), "%s_%s.jsonl", r->b->id, errors ? "error" : "output");
    f.expires = now + keep;
    return store_file_adopt(r->st, &f, a->adopted ? NULL : a->path, err);
}

static enum rc end_batch(struct run *r, enum offline_status status, struct err *err)
{
    struct offline_batch *b = r->b;
    enum rc rc;

    tell_counts(r);
    pthread_mutex_lock(&r->st->lock);
    if (status == OFFLINE_COMPLETED && atomic_load(&b->cancel))
        status = OFFLINE_CANCELLED;
    if (status == OFFLINE_COMPLETED && b->status != OFFLINE_FINALIZING) {
        offline_enter(b, OFFLINE_FINALIZING);
        rc = offline_save(r->st, b, err);
    } else {
        rc = RC_OK;
    }
    if (rc == RC_OK)
        rc = adopt_answers(r, &r->out, false, &b->has_output, err);
    if (rc == RC_OK)
        rc = adopt_answers(r, &r->err, true, &b->has_error, err);
    if (rc == RC_OK) {
        offline_enter(b, status);
        free(b->errors);
        b->errors = NULL;
        rc = offline_save(r->st, b, err);
    }
    pthread_mutex_unlock(&r->st->lock);
    return rc;
}

/* ---- the beginning */
static enum rc fail_batch(struct run *r, char *errors, struct err *err)
{
    enum rc rc;

    pthread_mutex_lock(&r->st->lock);
    free(r->b->errors);
    r->b->errors = errors;
    offline_enter(r->b, OFFLINE_FAILED);
    rc = offline_save(r->st, r->b, err);
    pthread_mutex_unlock(&r->st->lock);
    return rc;
}

/* RC_OK: it may run, or it has failed. */
static enum rc check_input(struct run *r, const char *path, struct err *err)
{
    struct buf errors = { 0 };
    uint64_t lines = 0;
    enum rc rc = offline_check(path, r->b->endpoint, &lines, &errors, err);

    r->failed = errors.len > 0;
    if (rc == RC_OK && errors.len)
        return fail_batch(r, buf_take(&errors), err);
    buf_release(&errors);
    if (rc != RC_OK)
        return rc;
    pthread_mutex_lock(&r->st->lock);
    r->b->total = lines;
    if (!atomic_load(&r->b->cancel))
        offline_enter(r->b, OFFLINE_IN_PROGRESS);
    rc = offline_save(r->st, r->b, err);
    pthread_mutex_unlock(&r->st->lock);
    return rc;
}

static enum rc run_lines(struct run *r, const char *path, struct err *err)
{
    struct line_reader in;
    int64_t left_ns = (r->b->expires - clock_unix_s()) * 1000000000LL;
    enum rc rc = line_reader_open(&in, path, err);

    line_window_init(&r->window, r->s, api_find(r->b->endpoint), r->b->owner, "",
                     clock_mono_ns() + (left_ns > 0 ? left_ns : 0) + 1000000000LL);
    if (rc == RC_OK)
        rc = send_lines(r, &in, err);
    line_window_release(&r->window);
    line_reader_close(&in);
    return rc;
}

static bool are_all_answered(const struct run *r)
{
    return r->out.lines + r->err.lines >= r->b->total;
}

/* `status`: what it is now. */
static enum rc carry_batch(struct run *r, enum offline_status status, struct err *err)
{
    char path[FILE_PATH_MAX];
    enum rc rc = RC_OK;
    bool ends;

    store_path(r->st, path, sizeof(path), "files", r->b->input, ".data");
    if (status == OFFLINE_VALIDATING)
        rc = check_input(r, path, err);
    if (rc != RC_OK || r->failed)
        return rc;
    r->answered = xcalloc(LINE_NUMBERS_MAX / 8, 1);
    rc = open_answers(r, &r->out, false, err);
    if (rc == RC_OK)
        rc = open_answers(r, &r->err, true, err);
    tell_counts(r);
    ends = status == OFFLINE_FINALIZING || r->out.adopted || r->err.adopted;
    while (rc == RC_OK && !ends && !are_all_answered(r) && !is_over(r)) {
        rc = run_lines(r, path, err);
        if (rc == RC_OK)
            (void)flush_answers(r);
        tell_counts(r);
    }
    if (rc != RC_OK || (!ends && !are_all_answered(r) && has_to_stop(r)))
        return rc;
    if (ends)
        return end_batch(r, status == OFFLINE_IN_PROGRESS ? OFFLINE_EXPIRED : OFFLINE_COMPLETED,
                         err);
    if (are_all_answered(r))
        return end_batch(r, OFFLINE_COMPLETED, err);
    if (atomic_load(&r->b->cancel))
        return end_batch(r, OFFLINE_CANCELLED, err);
    rc = expire_lines(r, path, err);
    (void)(rc == RC_OK && flush_answers(r)); /* of a full disk what is there must do */
    return rc == RC_OK ? end_batch(r, OFFLINE_EXPIRED, err) : rc;
}

/* ---- threads */
static struct offline_batch *pick_batch(struct store *st)
{
    struct offline_batch *oldest = NULL;
    bool oldest_shares = true;

    for (struct offline_batch *b = st->batches; b; b = b->next) { /* older ones later */
        bool shares = false;

        if (offline_has_ended(b) || b->running)
            continue;
        for (struct offline_batch *other = st->batches; other && !shares; other = other->next)
            shares = other->running && str_eq(other->owner, b->owner);
        if (!oldest || !shares || oldest_shares) {
            oldest = b;
            oldest_shares = shares;
        }
    }
    return oldest;
}

static void run_batch(struct offline_runners *rs, struct offline_batch *b,
                      enum offline_status status)
{
    struct run *r = xcalloc(1, sizeof(*r));
    struct err err = { 0 };

    r->s = rs->s;
    r->st = rs->st;
    r->b = b;
    r->out.fd = r->err.fd = -1;
    if (carry_batch(r, status, &err)) {
        struct buf text = { 0 };

        log_warn("batch '%s' failed: %s", b->id, err.msg);
        buf_adds(&text, "[{\"code\":\"server_error\",\"message\":\"the server could not carry it "
                        "out; its log says why\",\"param\":null,\"line\":null}]");
        err = (struct err){ 0 };
        if (fail_batch(r, buf_take(&text), &err))
            log_warn("batch '%s': %s", b->id, err.msg);
    }
    close_answers(&r->out);
    close_answers(&r->err);
    free(r->answered);
    free(r);
}

static void *runner_main(void *arg)
{
    struct offline_runners *rs = arg;
    struct store *st = rs->st;

    pthread_mutex_lock(&st->lock);
    while (!st->stop) {
        struct offline_batch *b = pick_batch(st);
        enum offline_status status = b ? b->status : OFFLINE_FAILED;

        if (!b) {
            store_expire(st, clock_unix_s());
            (void)clock_cond_wait(&st->more, &st->lock, clock_mono_ns() + RUN_IDLE_MS * 1000000LL);
            continue;
        }
        b->running = true;
        pthread_mutex_unlock(&st->lock);
        run_batch(rs, b, status);
        pthread_mutex_lock(&st->lock);
        b->running = false;
    }
    pthread_mutex_unlock(&st->lock);
    return NULL;
}

enum rc offline_runners_start(struct serve *s, struct store *st, struct offline_runners **out,
                              struct err *err)
{
    struct offline_runners *r = xcalloc(1, sizeof(*r));

    r->s = s;
    r->st = st;
    for (; r->count < OFFLINE_RUNNERS; r->count++)
        if (pthread_create(&r->ids[r->count], NULL, runner_main, r) != 0)
            break;
    if (!r->count) {
        free(r);
        return err_set(err, RC_FAIL, "could not start a thread for batches");
    }
    *out = r;
    return RC_OK;
}

void offline_runners_stop(struct offline_runners *r)
{
    if (!r)
        return;
    store_stop(r->st);
    for (size_t i = 0; i < r->count; i++)
        (void)pthread_join(r->ids[i], NULL);
    free(r);
}
