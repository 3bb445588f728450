/* SPDX-License-Identifier: MIT */
/* nvml: GPUs as the driver tells them, live or from a capture.
 *
 * The driver is asked in a child (nvml_query.c) because a call may never return; what
 * it told before it fell silent counts, and the inventory says which call hung, in
 * which process, and where that sleeps.  A capture holds the same document, so that
 * everything after the questions is the same code for both. */
#include "hw/nvml/nvml_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <signal.h>
#include <sys/wait.h>

static const char schema_tag[] = "stoker.nvml/1";
static const char capture_path[] = "/stoker/nvml.json";

/* ---- the document ---- */
enum rc nvml_read_json(struct arena *a, const char *text, size_t len, struct hw_nvml *out,
                       struct err *err)
{
    struct hw_nvml n = { 0 };
    struct json *doc;
    const char *tag;
    enum rc rc = json_parse(a, text, len, &doc, err);

    if (rc)
        return rc;
    tag = json_str(json_get(doc, "schema"));
    if (!str_eq(tag, schema_tag))
        return err_set(err, RC_PARSE, "schema is '%s', expected '%s'", tag ? tag : "", schema_tag);
    rc = fields_read(a, doc, &hw_nvml_table, &n, err);
    if (rc)
        return rc;
    *out = n;
    return RC_OK;
}

void nvml_write_json(const struct hw_nvml *n, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", schema_tag);
    fields_write_members(&w, &hw_nvml_table, n);
    json_obj_end(&w);
    buf_addc(out, '\n');
}

/* ---- the child's lines ---- */

/* A GPU is announced first and described later: the description replaces it. */
static void join_gpu(struct hw_nvml *n, const struct hw_gpu *g)
{
    for (size_t i = 0; i < n->gpus_count; i++) {
        if (g->index.known && maybe_is(n->gpus[i].index, g->index.v)) {
            n->gpus[i] = *g;
            return;
        }
    }
    if (n->gpus_count < NVML_GPUS_MAX)
        n->gpus[n->gpus_count++] = *g;
}

static enum rc join_line(struct arena *a, const char *line, size_t len, struct hw_nvml *n,
                         struct err *err)
{
    struct hw_nvml part = { 0 };
    struct json *doc;
    enum rc rc = json_parse(a, line, len, &doc, err);

    if (rc || (rc = fields_read(a, doc, &hw_nvml_table, &part, err)))
        return rc;
    if (json_get(doc, "nvidia"))
        n->nvidia = part.nvidia;
    for (size_t i = 0; i < part.gpus_count; i++)
        join_gpu(n, &part.gpus[i]);
    if (part.pairs_count > 0) { /* they come in one line */
        n->pairs = part.pairs;
        n->pairs_count = part.pairs_count;
    }
    return RC_OK;
}

enum rc nvml_join(struct arena *a, const char *lines, size_t len, struct hw_nvml *out,
                  struct err *err)
{
    struct hw_nvml n = { .gpus = arena_array(a, struct hw_gpu, NVML_GPUS_MAX) };
    const char *end = lines + len;

    for (const char *p = lines; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t line = (size_t)((nl ? nl : end) - p);
        enum rc rc = line ? join_line(a, p, line, &n, err) : RC_OK;

        if (rc)
            return rc;
        p += line + 1;
    }
    *out = n;
    return RC_OK;
}

/* ---- the live driver ---- */
static const char *text_or_null(struct arena *a, const char *s)
{
    return s[0] ? arena_strdup(a, s) : NULL;
}

static void report_hang(struct arena *a, const struct child_report *rep, struct hw_nvidia *nv)
{
    const char state[2] = { rep->sleep.state, '\0' };

    nv->hung_call = arena_strdup(a, rep->step);
    nv->hung_pid = maybe_of(rep->pid);
    nv->hung_state = text_or_null(a, state);
    nv->hung_wchan = text_or_null(a, rep->sleep.wchan);
    nv->hung_syscall = text_or_null(a, rep->sleep.syscall);
}

/* A crash inside the library is a fact about the driver, not an end for us. */
static void report_end(struct arena *a, const struct child_report *rep, struct hw_nvidia *nv)
{
    if (WIFSIGNALED(rep->status))
        nv->nvml_error = arena_printf(a, "the driver library crashed in %s (%s)", rep->step,
                                      strsignal(WTERMSIG(rep->status)));
    else if (!WIFEXITED(rep->status) || WEXITSTATUS(rep->status) != 0)
        nv->nvml_error = arena_printf(a, "asking the driver ended in %s with status %d", rep->step,
                                      WEXITSTATUS(rep->status));
}

void nvml_probe(struct arena *a, const struct hw_opts *opts, struct hw_nvml *n)
{
    long stall_ms = opts->nvml_stall_ms > 0 ? opts->nvml_stall_ms : HW_NVML_STALL_MS;
    struct buf lines = { .max = NVML_DOC_MAX };
    struct child_report rep = { 0 };
    struct err err = { 0 };
    enum rc rc =
        child_run(nvml_child, (void *)(uintptr_t)opts->nvml_lib, stall_ms, &lines, &rep, &err);

    *n = (struct hw_nvml){ 0 };
    if (!rc)
        rc = nvml_join(a, buf_str(&lines), lines.len, n, &err);
    if (rep.stalled)
        report_hang(a, &rep, &n->nvidia);
    else if (rc)
        n->nvidia.nvml_error = arena_printf(a, "could not ask the driver: %s", err.msg);
    else
        report_end(a, &rep, &n->nvidia);
    buf_release(&lines);
}

/* ---- a capture ---- */
static void read_capture(struct hw_build *b, struct hw_nvml *n)
{
    struct err err = { 0 };
    ssize_t len = -1;
    char *text = NULL;

    *n = (struct hw_nvml){ 0 };
    if (root_exists(b->root, capture_path)) {
        text = xmalloc(NVML_DOC_MAX);
        len = root_read(b->root, capture_path, text, NVML_DOC_MAX);
    }
    if (len < 0)
        n->nvidia.nvml_error = "not captured";
    else if (nvml_read_json(b->a, text, (size_t)len, n, &err))
        n->nvidia.nvml_error = arena_printf(b->a, "'%s': %s", capture_path, err.msg);
    free(text);
}

static void record_answers(struct hw_build *b, const struct hw_nvml *n)
{
    struct buf out = { .max = NVML_DOC_MAX };

    nvml_write_json(n, &out);
    if (!out.over)
        recorder_put(b->rec, capture_path, buf_str(&out), out.len);
    buf_release(&out);
}

void hw_src_nvml(struct hw_build *b)
{
    struct hw_nvml n;

    if (root_is_live(b->root) || b->opts->nvml_lib)
        nvml_probe(b->a, b->opts, &n);
    else
        read_capture(b, &n);
    if (b->rec)
        record_answers(b, &n);
    nvml_merge(b, &n);
}
