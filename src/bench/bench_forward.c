/* SPDX-License-Identifier: MIT */
#include "bench/bench_forward.h"

#include "base/codec/npy.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/text/json.h"
#include "bench/bench_int.h"
#include "os/clock.h"
#include "os/file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct passes { /* one case as it runs */
    struct eng *e;
    enum eng_want want;
    const struct case_batches *batches;
    size_t width;
    size_t floats;
    float *out;           /* [floats]: rows in the order of the batches */
    float *first;         /* [floats]: those of the first pass */
    bool steady;          /* every pass gave these bits */
    double ms, device_ms; /* of the last pass */
};

static double ms_since(int64_t start_ns)
{
    return (double)(clock_mono_ns() - start_ns) * 1e-6;
}

static size_t rows_of(const struct eng_batch *b, enum eng_want want)
{
    return want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences;
}

/* One batch after the other: what the device's clock is asked about. */
static enum rc run_pass(struct passes *p, struct err *err)
{
    const struct eng_ops *ops = eng_ops_of(p->e);
    int64_t start = clock_mono_ns();
    float *out = p->out;

    p->device_ms = ops->device_ms ? 0 : NAN;
    for (size_t i = 0; i < p->batches->count; i++) {
        const struct eng_batch *b = &p->batches->items[i];

        if (eng_run(p->e, b, p->want, out, err))
            return err_ctx(err, "batch %zu", i);
        if (ops->device_ms)
            p->device_ms += ops->device_ms(p->e);
        out += rows_of(b, p->want) * p->width;
    }
    p->ms = ms_since(start);
    return RC_OK;
}

/* Takes a batch if there is room for it; one that never has any runs by itself. */
static enum rc send_batch(struct passes *p, const struct eng_batch *b, bool idle, float *out,
                          bool *sent, bool *ended, struct err *err)
{
    struct err why = { 0 };
    enum rc rc = eng_submit(p->e, b, p->want, out, &why);

    *sent = rc == RC_OK || (rc == RC_LIMIT && idle);
    *ended = rc == RC_LIMIT && idle;
    if (*ended)
        return eng_run(p->e, b, p->want, out, err);
    if (rc == RC_OK || rc == RC_LIMIT)
        return RC_OK;
    if (err)
        *err = why;
    return rc;
}

/* The next batch is on its way while one runs, as a server has it. */
static enum rc pass_ahead(struct passes *p, struct err *err)
{
    const struct eng_batch *b = p->batches->items;
    size_t in = 0, out = 0, count = p->batches->count;
    float *to = p->out, *from = p->out; /* of batch `in`, of batch `out` */
    int64_t start = clock_mono_ns();

    while (out < count) {
        bool sent = false, ended = false;
        enum rc rc = RC_OK;

        if (in < count && in - out < ENG_IN_FLIGHT)
            rc = send_batch(p, &b[in], in == out, to, &sent, &ended, err);
        if (rc == RC_OK && !sent)
            rc = eng_collect(p->e, &b[out], p->want, from, &ended, err);
        if (rc != RC_OK)
            return err_ctx(err, "batch %zu", sent ? in : out);
        if (sent)
            to += rows_of(&b[in++], p->want) * p->width;
        if (ended)
            from += rows_of(&b[out++], p->want) * p->width;
    }
    p->ms = ms_since(start);
    return RC_OK;
}

static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), bench_by_value);
    return v[n / 2];
}

struct times { /* of passes, in ms */
    double host[FORWARD_PASSES_MAX], device[FORWARD_PASSES_MAX];
    size_t count;
};

/* Passes that count, behind those that warm up; these take as long as those at most. */
static enum rc repeat_passes(struct passes *p, const struct forward_opts *o,
                             enum rc (*one)(struct passes *p, struct err *err), struct times *t,
                             struct err *err)
{
    int64_t span = (int64_t)(o->seconds * 1e9), end = clock_mono_ns() + span;
    size_t most = o->passes ? o->passes : FORWARD_PASSES_MAX;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < o->warmup && rc == RC_OK && clock_mono_ns() < end; i++)
        rc = one(p, err);
    end = clock_mono_ns() + span;
    t->count = 0;
    while (rc == RC_OK && t->count < most && (!t->count || o->passes || clock_mono_ns() < end)) {
        rc = one(p, err);
        p->steady = p->steady && !memcmp(p->first, p->out, p->floats * sizeof(*p->out));
        t->host[t->count] = p->ms;
        t->device[t->count++] = p->device_ms;
    }
    return rc;
}

static enum rc measure_case(struct passes *p, const struct forward_opts *o,
                            struct forward_figures *f, struct err *err)
{
    bool ahead = p->batches->count > 1 && eng_can_submit(p->e);
    struct times *t = xcalloc(1, sizeof(*t));
    enum rc rc = run_pass(p, err);

    f->first_ms = p->ms;
    p->steady = true;
    memcpy(p->first, p->out, p->floats * sizeof(*p->out));
    if (rc == RC_OK && o->warmup + o->passes == 1) { /* that one is all */
        t->host[0] = p->ms;
        t->device[t->count++] = p->device_ms;
    } else if (rc == RC_OK) {
        rc = repeat_passes(p, o, run_pass, t, err);
    }
    if (rc == RC_OK) {
        f->passes = t->count;
        f->device_ms = median_of(t->device, t->count);
    }
    if (rc == RC_OK && ahead)
        rc = repeat_passes(p, o, pass_ahead, t, err);
    if (rc == RC_OK) {
        f->ms = median_of(t->host, t->count);
        f->ms_least = t->host[0]; /* sorted by now */
        f->steady = p->steady;
    }
    free(t);
    return rc;
}

/* ---- vectors in files ---- */
static enum rc save_rows(const char *path, const float *rows, size_t count, size_t width,
                         struct err *err)
{
    char head[NPY_HEAD];
    struct file_new f;
    enum rc rc;

    if (file_new_open(&f, path, err))
        return err->code;
    npy_head(count, width, head);
    rc = file_write(f.fd, path, head, sizeof(head), err);
    if (rc == RC_OK)
        rc = file_write(f.fd, path, rows, count * width * sizeof(*rows), err);
    return file_new_close(&f, rc, err);
}

static double cosine_of(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa == bb;
}

static void compare_rows(const float *rows, const float *want, size_t count, size_t width,
                         struct forward_figures *f)
{
    f->compared = true;
    f->cosine = 1;
    f->differ = 0;
    for (size_t i = 0; i < count; i++) {
        const float *a = rows + i * width, *b = want + i * width;

        f->cosine = fmin(f->cosine, cosine_of(a, b, width));
        for (size_t k = 0; k < width; k++)
            f->differ = fmax(f->differ, fabs((double)a[k] - (double)b[k]));
    }
}

static enum rc check_rows(const char *path, const float *rows, size_t count, size_t width,
                          struct forward_figures *f, struct err *err)
{
    size_t bytes = count * width * sizeof(*rows);
    uint64_t size, have_rows, have_cols;
    char head[NPY_HEAD];
    float *want = NULL;
    enum rc rc;
    int fd;

    if (file_open(path, &fd, &size, err))
        return err->code;
    rc = file_pread(fd, path, 0, head, sizeof(head), err);
    if (rc == RC_OK && npy_read_head(head, &have_rows, &have_cols, err))
        rc = err_ctx(err, "'%s'", path);
    if (rc == RC_OK && (have_rows != count || have_cols != width || size != NPY_HEAD + bytes))
        rc = err_set(err, RC_USAGE, "'%s' does not hold %zu rows of %zu numbers", path, count,
                     width);
    if (rc == RC_OK) {
        want = xmalloc(bytes);
        rc = file_pread(fd, path, NPY_HEAD, want, bytes, err);
    }
    if (rc == RC_OK)
        compare_rows(rows, want, count, width, f);
    free(want);
    close(fd);
    return rc;
}

static enum rc use_rows(const struct passes *p, const struct forward_opts *o,
                        struct forward_figures *f, struct err *err)
{
    size_t count = case_rows(&f->what, p->want);
    enum rc rc = RC_OK;
    float *rows;

    if (!o->save && !o->check)
        return RC_OK;
    rows = xmalloc(count * p->width * sizeof(*rows));
    case_sort_rows(&f->what, p->batches, p->want, p->width, p->out, rows);
    if (o->check)
        rc = check_rows(o->check, rows, count, p->width, f, err);
    if (rc == RC_OK && o->save)
        rc = save_rows(o->save, rows, count, p->width, err);
    free(rows);
    return rc;
}

/* ---- a case ---- */
enum rc forward_run(struct eng *e, const char *name, const struct forward_opts *o,
                    struct forward_figures *out, struct err *err)
{
    struct passes p = { .e = e, .want = o->want, .width = eng_width(e->model, o->want) };
    struct forward_figures f = { 0 };
    struct case_batches batches;
    enum rc rc;

    if (case_parse(name, o->seed, &f.what, err))
        return err->code;
    p.floats = case_rows(&f.what, o->want) * p.width;
    if (p.floats > FORWARD_OUT_MAX) {
        case_release(&f.what);
        return err_set(err, RC_LIMIT, "case '%.200s' gives more than %d numbers", name,
                       FORWARD_OUT_MAX);
    }
    case_cut(&f.what, e->model, o->batch_tokens, o->seed, &batches);
    p.batches = &batches;
    p.out = xcalloc(p.floats, sizeof(*p.out));
    p.first = xcalloc(p.floats, sizeof(*p.first));
    f.batches = batches.count;
    f.operations = case_operations(&f.what, e->model);
    rc = measure_case(&p, o, &f, err);
    if (rc == RC_OK)
        rc = use_rows(&p, o, &f, err);
    free(p.out);
    free(p.first);
    case_batches_release(&batches);
    if (rc != RC_OK) {
        case_release(&f.what);
        return err_ctx(err, "case '%.200s'", name);
    }
    *out = f;
    return RC_OK;
}

void forward_figures_release(struct forward_figures *f)
{
    case_release(&f->what);
}

enum rc forward_swap(struct eng *e, struct forward_swap *out, struct err *err)
{
    const struct eng_ops *ops = eng_ops_of(e);
    struct forward_swap s = { .done = true };

    if (!ops->swap_out || !ops->swap_in)
        return err_set(err, RC_USAGE, "device '%s' does not swap models out", ops->name);
    for (int i = 0; i < FORWARD_SWAPS; i++) {
        int64_t start = clock_mono_ns();

        if (ops->swap_out(e, err))
            return err_ctx(err, "swapping out");
        s.out_ms = ms_since(start);
        start = clock_mono_ns();
        if (ops->swap_in(e, err))
            return err_ctx(err, "swapping in");
        s.in_ms = ms_since(start);
    }
    *out = s;
    return RC_OK;
}

/* ---- text ---- */
static double tflops_of(const struct forward_figures *f, double ms)
{
    return f->operations / ms * 1e-9;
}

static void cell_ms(struct table *t, enum table_colour c, double ms)
{
    if (isfinite(ms))
        table_cell(t, c, ms < 1 ? "%.4f" : ms < 100 ? "%.3f" : "%.1f", ms);
    else
        table_cell(t, c, "-");
}

static void text_case(struct table *t, const struct forward_figures *f, bool device)
{
    double best = device ? f->device_ms : f->ms;
    char text[PROGRESS_TEXT_MAX];

    table_row(t);
    table_cell(t, COLOUR_NONE, "%s", f->what.name);
    table_cell(t, COLOUR_NONE, "%s", progress_count(f->what.count, text));
    table_cell(t, COLOUR_NONE, "%s", progress_count(f->what.tokens, text));
    table_cell(t, COLOUR_DIM, "%zu", f->batches);
    table_cell(t, COLOUR_DIM, "%zu", f->passes);
    cell_ms(t, COLOUR_BOLD, f->ms);
    if (device)
        cell_ms(t, COLOUR_BOLD, f->device_ms);
    table_cell(t, COLOUR_BOLD, "%s",
               progress_count((uint64_t)llround((double)f->what.tokens / best * 1e3), text));
    table_cell(t, COLOUR_NONE, "%.4g", tflops_of(f, best));
}

void forward_text(const struct forward_report *r, const struct term *term, struct buf *out)
{
    static const char *const titles[] = { "case", "texts", "tokens", "batches", "passes", "ms" };
    struct table *t = table_new();
    bool device = false;

    for (size_t i = 0; i < r->count; i++)
        device = device || isfinite(r->cases[i].device_ms);
    buf_addf(out, "%s: %zu layers of %zu, on %s\n", r->model->name, r->model->layers,
             r->model->hidden, r->start.device);
    buf_addf(out, "opened in %.1f ms, loaded in %.1f ms, first pass in %.1f ms\n", r->start.open_ms,
             r->start.load_ms, r->count ? r->cases[0].first_ms : 0.0);
    if (r->swap.done)
        buf_addf(out, "swapped out in %.1f ms, in again in %.1f ms\n", r->swap.out_ms,
                 r->swap.in_ms);
    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], i ? TABLE_RIGHT : TABLE_LEFT | TABLE_SHRINK);
    if (device)
        table_col(t, "device ms", TABLE_RIGHT);
    table_col(t, "tokens/s", TABLE_RIGHT);
    table_col(t, "TFLOP/s", TABLE_RIGHT);
    for (size_t i = 0; i < r->count; i++)
        text_case(t, &r->cases[i], device);
    table_print(t, term, 0, out);
    table_free(t);
    for (size_t i = 0; i < r->count; i++) {
        const struct forward_figures *f = &r->cases[i];

        if (f->compared)
            buf_addf(out, "%s: least cosine %.8f, largest difference %.3g\n", f->what.name,
                     f->cosine, f->differ);
        if (!f->steady)
            buf_addf(out, "%s: passes differ in their bits\n", f->what.name);
    }
}

/* ---- JSON ---- */

static void json_case(struct json_out *w, const struct forward_figures *f)
{
    double tokens = (double)f->what.tokens;

    json_obj(w);
    json_kv_str(w, "case", f->what.name);
    json_kv_int(w, "texts", (int64_t)f->what.count);
    json_kv_int(w, "tokens", (int64_t)f->what.tokens);
    json_kv_int(w, "batches", (int64_t)f->batches);
    json_kv_int(w, "passes", (int64_t)f->passes);
    json_kv_num(w, "operations", f->operations);
    json_kv_num(w, "first_ms", f->first_ms);
    json_kv_num(w, "ms", f->ms);
    json_kv_num(w, "ms_least", f->ms_least);
    json_kv_num(w, "device_ms", f->device_ms);
    json_kv_num(w, "tokens_per_s", tokens / f->ms * 1e3);
    json_kv_num(w, "device_tokens_per_s", tokens / f->device_ms * 1e3);
    json_kv_num(w, "tflops", tflops_of(f, f->ms));
    json_kv_num(w, "device_tflops", tflops_of(f, f->device_ms));
    json_kv_bool(w, "steady", f->steady);
    json_kv_num(w, "cosine_least", f->compared ? f->cosine : NAN);
    json_kv_num(w, "difference_largest", f->compared ? f->differ : NAN);
    json_obj_end(w);
}

static void json_choices(struct json_out *w, const struct eng *e)
{
    const struct eng_ops *ops = e ? eng_ops_of(e) : NULL;
    char line[FORWARD_CHOICE_MAX];

    json_kv_arr(w, "choices");
    for (size_t i = 0; ops && ops->choice && ops->choice(e, i, line, sizeof(line)); i++)
        json_add_str(w, line);
    json_arr_end(w);
}

void forward_json(const struct forward_report *r, struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.bench-engine/1");
    json_kv_str(&w, "model", r->model->name);
    json_kv_int(&w, "layers", (int64_t)r->model->layers);
    json_kv_int(&w, "hidden", (int64_t)r->model->hidden);
    json_kv_str(&w, "device", r->start.device);
    json_kv_str(&w, "dtype", r->dtype);
    json_kv_num(&w, "open_ms", r->start.open_ms);
    json_kv_num(&w, "load_ms", r->start.load_ms);
    json_kv_num(&w, "swap_out_ms", r->swap.done ? r->swap.out_ms : NAN);
    json_kv_num(&w, "swap_in_ms", r->swap.done ? r->swap.in_ms : NAN);
    json_choices(&w, r->e);
    json_kv_arr(&w, "cases");
    for (size_t i = 0; i < r->count; i++)
        json_case(&w, &r->cases[i]);
    json_arr_end(&w);
    json_doc_end(&w);
}
