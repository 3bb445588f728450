/* SPDX-License-Identifier: MIT */
/* collect_jobs: what training jobs say of themselves.
 *
 * A launcher writes one small JSON file a job (stoker.job/1, docs/user/jobs.md) and replaces it as
 * the job goes on; no library, no port.  Anybody who may write into the folder may write anything,
 * so all that is read has a limit, and a file that is none is told with its reason instead of a
 * job.  A job that has not written for JOB_QUIET_S has no speed any more, one of which nothing
 * was heard for JOB_FORGET_S is no job.
 *
 * Where each rank writes a file of its own, the job's figures are those of the lowest rank here,
 * and each rank has its own time a step.  Ranks wait for each other at every step, so that the
 * times of whole steps are the same for all: what tells them apart is the part in which a rank
 * worked itself (`busy_seconds`), and how much longer that is than the middle one's is its lag. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOBS_MAX = 64,                   /* files looked at in a folder */
    JOBS_FOLDERS_MAX = 2,            /* the machine's, the user's */
    JOB_FILE_MAX = 16 << 10,         /* bytes of a file; a longer one is none */
    JOBS_DOC_MAX = 256 << 10,        /* bytes of the document */
    JOB_GPUS_MAX = 4096,             /* of a job */
    JOB_QUIET_S = 600,               /* without a word: its speed is unknown */
    JOB_FORGET_S = 7 * 24 * 3600,    /* without a word: it is no job */
    JOB_LAG_RANKS = 3,               /* of a node: with fewer nobody can say which one is slow */
    JOB_PATH_MAX = ROOT_PATH_MAX / 2 /* bytes of a folder's path */
};

static const char *const states[] = { "starting", "running", "checkpointing", "restarting",
                                      "waiting",  "done",    "failed",        "gone" };
enum { STATE_DONE = 5, STATE_FAILED, STATE_GONE };
static_assert(ARRAY_SIZE(states) == JOB_STATES, "one word a state");

/* ---- a file */

#define TIME_MAX  1e11               /* seconds since 1970 */
#define WHOLE_MAX 9007199254740992.0 /* the last whole number of a double */

/* In the order of the document; what lies outside of least and most is unknown. */
static const struct {
    const char *key;
    size_t at;
    double least, most;
} numbers[] = {
#define NUMBER(key, member, least, most)                                                           \
    {                                                                                              \
        key, offsetof(struct job_file, member), least, most                                        \
    }
    NUMBER("pid", pid, 1, INT32_MAX),
    NUMBER("gpus", gpus, 0, JOB_GPUS_MAX),
    NUMBER("started", started_s, 1, TIME_MAX),
    NUMBER("updated", updated_s, 1, TIME_MAX),
    NUMBER("step", step, 0, WHOLE_MAX),
    NUMBER("steps", steps, 0, WHOLE_MAX),
    NUMBER("step_seconds", step_seconds, 0, 1e9),
    NUMBER("tokens_per_second", tokens_per_second, 0, 1e15),
    NUMBER("samples_per_second", samples_per_second, 0, 1e15),
    NUMBER("loss", loss, -1e300, 1e300),
    NUMBER("mfu", mfu, 0, 1),
    NUMBER("restarts", restarts, 0, WHOLE_MAX),
    NUMBER("checkpoint_step", checkpoint_step, 0, WHOLE_MAX),
    NUMBER("checkpoint_time", checkpoint_s, 1, TIME_MAX),
    NUMBER("rank", rank, 0, 1e6),
    NUMBER("world_size", world_size, 1, 1e6),
    NUMBER("gpu", gpu, 0, 4095),
    NUMBER("busy_seconds", busy_seconds, 0, 1e9),
#undef NUMBER
};

static void read_text(const struct json *j, const char *key, char *out, size_t cap)
{
    const char *s = json_str(json_get(j, key));

    (void)str_copy(out, cap, s ? s : "");
    str_make_text(out);
}

static enum rc read_state(const struct json *j, struct job_file *out, struct err *err)
{
    const char *word = json_str(json_get(j, "state"));

    out->state = 1; /* who says nothing is at work */
    if (!word)
        return RC_OK;
    for (unsigned i = 0; i < STATE_GONE; i++)
        if (str_eq(states[i], word)) {
            out->state = i;
            return RC_OK;
        }
    return err_set(err, RC_PARSE, "no state '%.32s'", word);
}

static enum rc read_job(const struct json *j, struct job_file *out, struct err *err)
{
    const struct json *gpus = json_get(j, "gpus");

    if (!str_eq(json_str(json_get(j, "schema")), "stoker.job/1"))
        return err_set(err, RC_PARSE, "no schema 'stoker.job/1'");
    read_text(j, "job", out->name, sizeof(out->name));
    read_text(j, "kind", out->kind, sizeof(out->kind));
    read_text(j, "user", out->user, sizeof(out->user));
    read_text(j, "message", out->message, sizeof(out->message));
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        double v = json_num(json_get(j, numbers[i].key), NAN);

        *(double *)(void *)((char *)out + numbers[i].at) =
            v >= numbers[i].least && v <= numbers[i].most ? v
                                                          : (double)NAN; /* not for NaN either */
    }
    if (gpus && gpus->type == JSON_ARR &&
        gpus->count <= JOB_GPUS_MAX) /* which ones, not how many */
        out->gpus = (double)gpus->count;
    if (!out->name[0] || isnan(out->updated_s))
        return err_set(err, RC_PARSE, "no '%s'", out->name[0] ? "updated" : "job");
    if (!out->kind[0])
        (void)str_copy(out->kind, sizeof(out->kind), "training");
    return read_state(j, out, err);
}

enum rc job_parse(const char *bytes, size_t len, struct job_file *out, struct err *err)
{
    struct job_file job = { 0 };
    struct arena a = { 0 };
    struct json *tree = NULL;
    enum rc rc = len > JOB_FILE_MAX ? err_set(err, RC_LIMIT, "longer than %d bytes", JOB_FILE_MAX)
                                    : json_parse(&a, bytes, len, &tree, err);

    if (rc == RC_OK)
        rc = read_job(tree, &job, err);
    arena_release(&a);
    if (rc == RC_OK)
        *out = job;
    return rc;
}

const char *job_state_word(unsigned state)
{
    return state < JOB_STATES ? states[state] : "";
}

/* ---- the folders */

struct jobs {
    const struct root *root;
    unsigned source;
    char folders[JOBS_FOLDERS_MAX][JOB_PATH_MAX];
    size_t folder_count;
    bool had;              /* there was a document */
    char *bytes;           /* owned, JOB_FILE_MAX + 2: one more than a file may have */
    struct job_file *seen; /* owned, JOBS_MAX a folder: those of this sample */
    size_t seen_count;
    struct buf doc; /* scratch */
    struct json_out w;
};

static void *jobs_open(const struct root *root, struct telemetry *t)
{
    struct jobs *s = xcalloc(1, sizeof(*s));
    const char *own = root_is_live(root) ? getenv("XDG_RUNTIME_DIR") : NULL;

    s->root = root;
    s->source = telemetry_source(t, "jobs");
    s->bytes = xmalloc(JOB_FILE_MAX + 2);
    s->seen = xcalloc(JOBS_MAX * JOBS_FOLDERS_MAX, sizeof(*s->seen));
    s->doc.max = JOBS_DOC_MAX;
    (void)str_copy(s->folders[s->folder_count++], JOB_PATH_MAX, "/run/stoker/jobs");
    if (own && own[0] == '/' && strlen(own) + sizeof("/stoker/jobs") < JOB_PATH_MAX)
        snprintf(s->folders[s->folder_count++], JOB_PATH_MAX, "%s/stoker/jobs", own);
    return s;
}

static void jobs_close(void *state)
{
    struct jobs *s = state;

    if (!s)
        return;
    buf_release(&s->doc);
    free(s->seen);
    free(s->bytes);
    free(s);
}

/* A launcher that is no more cannot write that its job has ended. */
static void look_at_pid(const struct jobs *s, struct job_file *j)
{
    char path[64], bytes[64];

    if (isnan(j->pid) || j->state == STATE_DONE || j->state == STATE_FAILED)
        return;
    snprintf(path, sizeof(path), "/proc/%.0f/stat", j->pid);
    if (collect_read(s->root, path, bytes, sizeof(bytes)) <= 0)
        j->state = STATE_GONE;
}

static double age_s(double now_s, double then_s)
{
    return isnan(then_s) ? (double)NAN : now_s > then_s ? now_s - then_s : 0;
}

static bool at_work(const struct job_file *j)
{
    return j->state < STATE_DONE;
}

static bool is_quick(const struct job_file *j, double now_s)
{
    return at_work(j) && age_s(now_s, j->updated_s) < JOB_QUIET_S;
}

static void set_value(struct telemetry *t, unsigned source, const char *metric,
                      const struct telemetry_label *l, size_t count, double v)
{
    if (!isnan(v))
        telemetry_set(t, telemetry_series(t, source, telemetry_metric(metric), l, count), v);
}

static void put_values(const struct jobs *s, struct telemetry *t, const struct job_file *j,
                       double now_s)
{
    struct telemetry_label l[] = {
        { "job", j->name }, { "kind", j->kind }, { "user", j->user }, { "state", NULL }
    };
    for (unsigned i = 0; i < JOB_STATES; i++) {
        l[3].value = states[i];
        if (i == j->state) /* the others are left out: a series a state would be mostly zeros */
            set_value(t, s->source, "job.state", l, 4, 1);
    }
    set_value(t, s->source, "job.gpus", l, 3, at_work(j) ? j->gpus : (double)NAN);
    /* of a job that is over it would stand still, as that of one that hangs */
    set_value(t, s->source, "job.step", l, 3, at_work(j) ? j->step : (double)NAN);
    set_value(t, s->source, "job.steps", l, 3, j->steps);
    set_value(t, s->source, "job.restarts", l, 3, j->restarts);
    set_value(t, s->source, "job.report_age", l, 3, age_s(now_s, j->updated_s));
    set_value(t, s->source, "job.checkpoint_age", l, 3,
              at_work(j) ? age_s(now_s, j->checkpoint_s) : (double)NAN);
    set_value(t, s->source, "job.checkpoint_step", l, 3, j->checkpoint_step);
    if (!is_quick(j, now_s))
        return;
    set_value(t, s->source, "job.step_seconds", l, 3, j->step_seconds);
    set_value(t, s->source, "job.tokens_per_second", l, 3, j->tokens_per_second);
    set_value(t, s->source, "job.samples_per_second", l, 3, j->samples_per_second);
    set_value(t, s->source, "job.loss", l, 3, j->loss);
    set_value(t, s->source, "job.mfu", l, 3, j->mfu);
}

/* ---- ranks */

/* Its own work in a step; a rank that does not tell it apart may still have timed itself. */
static double busy_of(const struct job_file *j)
{
    return isnan(j->busy_seconds) ? j->step_seconds : j->busy_seconds;
}

/* Of several files of one job the lowest rank's is the job's. */
static bool leads_job(const struct jobs *s, const struct job_file *j)
{
    for (size_t i = 0; i < s->seen_count; i++)
        if (str_eq(s->seen[i].name, j->name) && s->seen[i].rank < j->rank)
            return false;
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of the job's ranks here; NaN: too few of them tell. */
static double middle_busy(const struct jobs *s, const char *name, double now_s)
{
    double busy[JOBS_MAX * JOBS_FOLDERS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < s->seen_count; i++) {
        const struct job_file *j = &s->seen[i];

        if (str_eq(j->name, name) && !isnan(j->rank) && is_quick(j, now_s) && !isnan(busy_of(j)))
            busy[n++] = busy_of(j);
    }
    if (n < JOB_LAG_RANKS)
        return NAN;
    qsort(busy, n, sizeof(*busy), compare_numbers);
    return n % 2 ? busy[n / 2] : (busy[n / 2 - 1] + busy[n / 2]) / 2;
}

static void put_rank(const struct jobs *s, struct telemetry *t, const struct job_file *j,
                     double now_s)
{
    char rank[16], gpu[16] = "";
    struct telemetry_label l[] = { { "job", j->name },
                                   { "kind", j->kind },
                                   { "user", j->user },
                                   { "rank", rank },
                                   { "gpu", gpu } };
    double middle = middle_busy(s, j->name, now_s);

    if (isnan(j->rank) || !is_quick(j, now_s))
        return;
    snprintf(rank, sizeof(rank), "%.0f", j->rank);
    if (!isnan(j->gpu))
        snprintf(gpu, sizeof(gpu), "%.0f", j->gpu);
    set_value(t, s->source, "job.rank.busy_seconds", l, ARRAY_SIZE(l), busy_of(j));
    if (middle > 0)
        set_value(t, s->source, "job.rank.lag", l, ARRAY_SIZE(l), busy_of(j) / middle - 1);
}

static void write_job(struct json_out *w, const struct job_file *j)
{
    json_kv_str(w, "job", j->name);
    json_kv_str(w, "kind", j->kind);
    json_kv_str(w, "user", j->user[0] ? j->user : NULL);
    json_kv_str(w, "state", states[j->state]);
    json_kv_str(w, "message", j->message[0] ? j->message : NULL);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        json_kv_num(w, numbers[i].key,
                    *(const double *)(const void *)((const char *)j + numbers[i].at));
}

static void take_file(struct jobs *s, const char *folder, const char *name, double now_s)
{
    char path[ROOT_PATH_MAX];
    struct err err = { 0 };
    struct job_file job = { 0 };
    ssize_t n;

    if (!str_ends(name, ".json") || name[0] == '.' ||
        snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return;
    n = root_read_foreign((struct root *)s->root, path, s->bytes, JOB_FILE_MAX + 2);
    if (n == -ENOTSUP || n == -EISDIR)
        (void)err_set(&err, RC_FAIL, "a link, or no regular file");
    else if (n < 0)
        return; /* it went, or is not ours to see */
    else if (job_parse(s->bytes, (size_t)n, &job, &err) == RC_OK) {
        if (age_s(now_s, job.updated_s) > JOB_FORGET_S)
            return;
        look_at_pid(s, &job);
        s->seen[s->seen_count++] = job;
    }
    json_obj(&s->w);
    json_kv_str(&s->w, "file", name);
    if (err.code == RC_OK)
        write_job(&s->w, &job);
    else
        json_kv_str(&s->w, "error", err.msg);
    json_obj_end(&s->w);
}

static size_t take_folder(struct jobs *s, const char *folder, double now_s)
{
    struct arena a = { 0 };
    struct root_names names;
    size_t n = 0;

    if (collect_list(s->root, &a, folder, &names) == 0)
        for (; n < names.count && n < JOBS_MAX; n++)
            take_file(s, folder, names.items[n], now_s);
    arena_release(&a);
    return n;
}

static void jobs_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct jobs *s = state;
    double now_s = (double)now_ns * 1e-9;
    size_t files = 0;

    buf_reset(&s->doc);
    json_out_init(&s->w, &s->doc, 0);
    json_obj(&s->w);
    json_kv_str(&s->w, "schema", "stoker.jobs/1");
    json_kv_arr(&s->w, "jobs");
    s->seen_count = 0;
    for (size_t i = 0; i < s->folder_count; i++)
        files += take_folder(s, s->folders[i], now_s);
    telemetry_begin(t, s->source, now_ns);
    for (size_t i = 0; i < s->seen_count; i++) {
        if (leads_job(s, &s->seen[i]))
            put_values(s, t, &s->seen[i], now_s);
        put_rank(s, t, &s->seen[i], now_s);
    }
    telemetry_end(t);
    json_arr_end(&s->w);
    json_obj_end(&s->w);
    if (files && !s->doc.over)
        telemetry_doc(t, "jobs", buf_str(&s->doc));
    else if (s->had)
        telemetry_doc(t, "jobs", NULL);
    s->had = files && !s->doc.over;
}

const struct collector collect_jobs = {
    .name = "jobs", .period_ms = 1000, .open = jobs_open, .sample = jobs_sample, .close = jobs_close
};
