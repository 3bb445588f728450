/* SPDX-License-Identifier: MIT */
/* monitor_targets: what a run is held against.
 *
 *     [STAT(]METRIC[)] OP NUMBER      gpu.util>=90   p95(gpu.temp)<85   rise(gpu.pcie.replay)<=0
 *
 * STAT is mean (the default), p50, p95, min, max or rise; METRIC an id of the agent's table, the
 * name of an application's own metric, or one of three that are made here: gpu.memory and
 * gpu.power.share in percent of what the GPU has and may take, gpu.xid as the number of XIDs.  A
 * target holds for every series of its metric; one whose value is not known is neither met nor
 * failed. */
#include "monitor/monitor_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const stats[] = {
    [TARGET_MEAN] = "mean", [TARGET_P50] = "p50", [TARGET_P95] = "p95",
    [TARGET_MIN] = "min",   [TARGET_MAX] = "max", [TARGET_RISE] = "rise"
};
/* Longer ones first: ">=" begins with ">". */
static const struct {
    const char *text;
    enum target_op op;
} ops[] = { { ">=", TARGET_GE }, { "<=", TARGET_LE }, { ">", TARGET_GT }, { "<", TARGET_LT } };

/* Utilisation over 80 %, memory 70 to 90 %, below 85 C, within the power limit (5 % for what the
 * regulation overshoots), no uncorrected memory error, no XID. */
static const char *const defaults[] = {
    "gpu.util>80",
    "gpu.memory>=70",
    "gpu.memory<=90",
    "max(gpu.temp)<85",
    "max(gpu.power.share)<=105",
    "rise(gpu.ecc.dbe.volatile)<=0",
    "gpu.xid<=0",
};

static bool is_made(const char *metric)
{
    return str_eq(metric, "gpu.memory") || str_eq(metric, "gpu.power.share") ||
           str_eq(metric, "gpu.xid");
}

const char *target_word(enum target_state s)
{
    static const char *const words[] = {
        [TARGET_UNKNOWN] = "unknown", [TARGET_MET] = "met", [TARGET_FAILED] = "failed"
    };
    return words[s];
}

/* ---- reading */

static enum rc bad_target(const char *text, const char *why, struct err *err)
{
    err_hint(err, "Write it as 'gpu.util>=90' or 'p95(gpu.temp)<85'.");
    return err_set(err, RC_USAGE, "'%s' is not a target: %s", text, why);
}

/* "p95(x)" to its parts; *io_name is x then. */
static bool stat_of(char **io_name, enum target_stat *out)
{
    size_t len = strlen(*io_name);

    for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
        size_t word = strlen(stats[i]);
        if (strncmp(*io_name, stats[i], word) != 0 || (*io_name)[word] != '(' ||
            (*io_name)[len - 1] != ')')
            continue;
        (*io_name)[len - 1] = '\0';
        *io_name = str_trim(*io_name + word + 1);
        *out = (enum target_stat)i;
        return true;
    }
    return !strchr(*io_name, '(') && !strchr(*io_name, ')');
}

static bool is_name(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("._:", *s))
            return false;
    return true;
}

enum rc target_parse(const char *text, struct monitor_target *out, struct err *err)
{
    struct monitor_target t = { .stat = TARGET_MEAN };
    char left[sizeof(t.text)], *name, *number;
    size_t at = strcspn(text, "<>"), i = 0;

    if (!str_copy(t.text, sizeof(t.text), text) || strlen(text) >= sizeof(left))
        return bad_target("…", "it is too long", err);
    (void)str_copy(left, sizeof(left), text);
    while (i < ARRAY_SIZE(ops) && strncmp(text + at, ops[i].text, strlen(ops[i].text)) != 0)
        i++;
    if (i == ARRAY_SIZE(ops))
        return bad_target(text, "it has none of >=, >, <= and <", err);
    t.op = ops[i].op;
    number = str_trim(left + at + strlen(ops[i].text));
    if (!str_to_f64(number, &t.value))
        return bad_target(text, "behind the comparison there must be a number", err);
    left[at] = '\0';
    name = str_trim(left);
    if (!*name || !stat_of(&name, &t.stat))
        return bad_target(text, "the statistic must be mean, p50, p95, min, max or rise", err);
    if (!is_name(name) || !str_copy(t.metric, sizeof(t.metric), name))
        return bad_target(text, "before the comparison there must be the name of a metric", err);
    *out = t;
    return RC_OK;
}

/* Ids of the agent's table have dots, names of applications' metrics cannot: an id that the table
 * lacks is a slip.  A name without dots may still come. */
static enum rc check_metric(const struct monitor_target *t, struct err *err)
{
    size_t n;
    const struct telemetry_metric *all = telemetry_metrics(&n);
    const char **names;
    const char *near;

    if (!strchr(t->metric, '.') || is_made(t->metric) || telemetry_metric(t->metric))
        return RC_OK;
    names = xcalloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = all[i].id;
    near = str_nearest(t->metric, names, n);
    if (near)
        err_hint(err, "Did you mean '%s'?", near);
    else
        err_hint(err, "docs/reference/metrics.md lists them.");
    free((void *)names);
    return err_set(err, RC_USAGE, "unknown metric '%s'", t->metric);
}

static bool target_given(const struct monitor *m, const char *metric)
{
    for (size_t i = 0; i < m->target_count; i++)
        if (!m->targets[i].dflt && str_eq(m->targets[i].metric, metric))
            return true;
    return false;
}

/* Those given, then the goals of a spec and the defaults, each for other metrics. */
enum rc targets_fill(struct monitor *m, const struct monitor_opts *a, const struct spec *s,
                     struct err *err)
{
    for (size_t i = 0; i < a->targets.count; i++) {
        struct monitor_target *t = &m->targets[m->target_count];
        enum rc rc = target_parse(a->targets.items[i], t, err);
        if (rc == RC_OK)
            rc = check_metric(t, err);
        if (rc != RC_OK)
            return err_ctx(err, "--target");
        t->asked = true;
        m->target_count++;
    }
    if (s && targets_of_goals(m, s, err) != RC_OK)
        return err->code;
    for (size_t i = 0; !a->no_defaults && i < ARRAY_SIZE(defaults); i++) {
        struct monitor_target t;
        enum rc rc = target_parse(defaults[i], &t, err);
        if (rc != RC_OK)
            return rc;
        t.dflt = true;
        if (!target_given(m, t.metric))
            m->targets[m->target_count++] = t;
    }
    return RC_OK;
}

/* ---- judging */

static double stat_value(const struct window_slot *s, enum target_stat stat)
{
    if (!s || !s->count)
        return NAN;
    if (stat == TARGET_RISE)
        return s->rise_ns > 0 ? s->rise : s->kind == TELEMETRY_COUNTER ? NAN : s->last - s->first;
    if (stat == TARGET_P50 || stat == TARGET_P95)
        return window_quantile(s, stat == TARGET_P50 ? 0.5 : 0.95);
    if (stat == TARGET_MEAN)
        return window_level(s);
    if (s->kind == TELEMETRY_COUNTER) /* of its rises a second, not of itself */
        return window_quantile(s, stat == TARGET_MIN ? 0 : 1);
    return stat == TARGET_MIN ? s->min : s->max;
}

static double share_of(const struct monitor *m, const struct monitor_target *t, const char *part,
                       const char *whole, int gpu)
{
    double all = window_mean(monitor_slot(m, whole, gpu));

    return all > 0 ? 100 * stat_value(monitor_slot(m, part, gpu), t->stat) / all : NAN;
}

static double made_value(const struct monitor *m, const struct monitor_target *t, int gpu)
{
    if (str_eq(t->metric, "gpu.memory"))
        return share_of(m, t, "gpu.fb.used", "gpu.fb.total", gpu);
    if (str_eq(t->metric, "gpu.power.share"))
        return share_of(m, t, "gpu.power", "gpu.power.limit", gpu);
    return (double)monitor_xids(m, gpu);
}

static enum target_state state_of(const struct monitor_target *t, double v)
{
    bool met = t->op == TARGET_GE   ? v >= t->value
               : t->op == TARGET_GT ? v > t->value
               : t->op == TARGET_LE ? v <= t->value
                                    : v < t->value;

    return isnan(v) ? TARGET_UNKNOWN : met ? TARGET_MET : TARGET_FAILED;
}

/* What tells this series from others of its metric, for people. */
static void name_series(const struct window_slot *s, char *out, size_t cap)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < s->label_count; i++)
        if (s->gpu < 0)
            buf_addf(&b, "%s%s=%s", b.len ? " " : "", s->labels[i].name, s->labels[i].value);
    (void)str_copy(out, cap, buf_str(&b));
    str_make_text(out);
    buf_release(&b);
}

size_t target_judge(const struct monitor *m, const struct monitor_target *t,
                    struct target_result *out, size_t cap)
{
    bool of_gpus = is_made(t->metric) || str_starts(t->metric, "gpu.");
    size_t n = 0;

    for (size_t i = 0; of_gpus && i < m->gpu_count && n < cap; i++, n++) {
        out[n] = (struct target_result){ .gpu = m->gpus[i] };
        out[n].value = is_made(t->metric)
                           ? made_value(m, t, m->gpus[i])
                           : stat_value(monitor_slot(m, t->metric, m->gpus[i]), t->stat);
    }
    for (size_t i = 0; !of_gpus && i < window_count(m->all) && n < cap; i++) {
        const struct window_slot *s = window_at(m->all, i);
        if (!str_eq(s->id, t->metric))
            continue;
        out[n] = (struct target_result){ .gpu = s->gpu, .value = stat_value(s, t->stat) };
        name_series(s, out[n].label, sizeof(out[n].label));
        n++;
    }
    if (!n && cap && !t->dflt)
        out[n++] = (struct target_result){ .gpu = -1, .value = NAN };
    for (size_t i = 0; i < n; i++)
        out[i].state = state_of(t, out[i].value);
    return n;
}

bool targets_failed(const struct monitor *m)
{
    struct target_result r[MONITOR_RESULTS_MAX];

    for (size_t i = 0; i < m->target_count; i++)
        for (size_t k = 0, n = target_judge(m, &m->targets[i], r, ARRAY_SIZE(r)); k < n; k++)
            if (r[k].state == TARGET_FAILED ||
                (r[k].state == TARGET_UNKNOWN && m->targets[i].asked))
                return true;
    return false;
}
