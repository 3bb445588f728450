/* SPDX-License-Identifier: MIT */
/* limits: the verdict over facts.
 *
 * A sign is half as strong as its weight at its threshold and has its whole weight at `full`; a
 * class is as strong as its strongest sign, and a little stronger for further ones.  The
 * strongest class whose needs hold is the limit; of two as strong, the first of enum
 * bottleneck_class.  The node is limited by what limits most of its GPUs that work, but by
 * throttling as soon as one GPU is throttled: in a job that goes in step all wait for it. */
#include "bottleneck/bottleneck_int.h"

#include <math.h>
#include <string.h>

/* How sure a verdict is, beside the strength of its signs. */
static const double further = 0.1;      /* of the strength of further signs is added */
static const double near = 0.15;        /* a second class so near is named */
static const double near_cost = 0.3;    /* and costs up to so much */
static const double missing_cost = 0.6; /* with every sign of the table missing */
static const double short_cost = 0.3;   /* of a window shorter than short_seconds */
static const double short_seconds = 3;
static const double idle_sure = 0.95, none_sure = 0.4;

static bool row_holds(const struct bottleneck_row *r, double v)
{
    return r->above ? v > r->threshold : v < r->threshold;
}

static bool too_little(const struct bottleneck_facts *f)
{
    return f->no_gpu ? isnan(f->at[BOTTLENECK_F_CPU])
                     : isnan(f->at[BOTTLENECK_F_UTIL]) && isnan(f->at[BOTTLENECK_F_SM]);
}

/* Known and against it: the class is out.  That a GPU waits must be known before its host or the
 * loading of data is blamed for it. */
static bool class_refuted(const struct bottleneck_facts *f, enum bottleneck_class c)
{
    size_t n;
    const struct bottleneck_row *r = bottleneck_rows(&n);

    if (too_little(f) && (c == BOTTLENECK_DATA || c == BOTTLENECK_HOST))
        return true;
    for (size_t i = 0; i < n; i++)
        if (r[i].limit == c &&
            (r[i].role == BOTTLENECK_NEED || (r[i].role == BOTTLENECK_ALONE && f->no_gpu)) &&
            !isnan(f->at[r[i].fact]) && !row_holds(&r[i], f->at[r[i].fact]))
            return true;
    return false;
}

static double sign_strength(const struct bottleneck_row *r, double v)
{
    double over;

    if (isnan(v) || !row_holds(r, v))
        return 0;
    over = (v - r->threshold) / (r->full - r->threshold);
    return r->weight * (0.5 + 0.5 * (over < 1 ? over : 1));
}

/* 0: no sign of it; *out_best is the strongest sign. */
static double class_strength(const struct bottleneck_facts *f, enum bottleneck_class c,
                             const struct bottleneck_row **out_best)
{
    size_t n;
    const struct bottleneck_row *r = bottleneck_rows(&n);
    double best = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        double s = r[i].limit == c && r[i].role == BOTTLENECK_SIGN
                       ? sign_strength(&r[i], f->at[r[i].fact])
                       : 0;
        sum += s;
        if (s > best) {
            best = s;
            *out_best = &r[i];
        }
    }
    best += further * (sum - best);
    return best < 1 ? best : 1;
}

/* ---- evidence */

static void add_evidence(struct bottleneck_verdict *v, const struct bottleneck_facts *f,
                         const struct bottleneck_row *r)
{
    if (v->evidence_count < BOTTLENECK_EVIDENCE_MAX)
        v->evidence[v->evidence_count++] = (struct bottleneck_evidence){
            .fact = r->fact,
            .value = f->at[r->fact],
            .threshold = r->threshold,
            .above = r->above,
            .why = r->why,
        };
}

static void gather_evidence(struct bottleneck_verdict *v, const struct bottleneck_facts *f,
                            const struct bottleneck_row *best)
{
    static const enum bottleneck_role order[] = { BOTTLENECK_SIGN, BOTTLENECK_NOTE, BOTTLENECK_NEED,
                                                  BOTTLENECK_ALONE };
    size_t n;
    const struct bottleneck_row *r = bottleneck_rows(&n);

    if (best)
        add_evidence(v, f, best);
    for (size_t k = 0; k < ARRAY_SIZE(order); k++)
        for (size_t i = 0; i < n; i++)
            if (r[i].limit == v->limit && r[i].role == order[k] && &r[i] != best &&
                r[i].fact != BOTTLENECK_F_WORK && !isnan(f->at[r[i].fact]) &&
                row_holds(&r[i], f->at[r[i].fact]) && (order[k] != BOTTLENECK_ALONE || f->no_gpu))
                add_evidence(v, f, &r[i]);
}

/* Share of the table's weight that nothing is known of. */
static double missing_share(const struct bottleneck_facts *f, struct bottleneck_verdict *v)
{
    double all = 0, missing = 0;
    size_t n;
    const struct bottleneck_row *r = bottleneck_rows(&n);

    for (size_t i = 0; i < n; i++) {
        if (r[i].role == BOTTLENECK_NOTE || f->absent[r[i].fact] || r[i].role == BOTTLENECK_ALONE)
            continue;
        if (isnan(f->at[r[i].fact]))
            v->missing[r[i].fact] = true;
        if (r[i].role != BOTTLENECK_SIGN)
            continue;
        all += r[i].weight;
        missing += isnan(f->at[r[i].fact]) ? r[i].weight : 0;
    }
    return all > 0 ? missing / all : 1;
}

void bottleneck_judge(const struct bottleneck_facts *f, struct bottleneck_verdict *out)
{
    struct bottleneck_verdict v = { 0 };
    const struct bottleneck_row *best = NULL;
    double second = 0, missing = missing_share(f, &v);

    for (int c = BOTTLENECK_THROTTLE; c < BOTTLENECK_CLASSES; c++) {
        const struct bottleneck_row *sign = NULL;
        double s = class_refuted(f, (enum bottleneck_class)c)
                       ? 0
                       : class_strength(f, (enum bottleneck_class)c, &sign);
        if (s > v.strength) {
            second = v.strength;
            v.also = v.limit;
            v.strength = s;
            v.limit = (enum bottleneck_class)c;
            best = sign;
        } else if (s > second) {
            second = s;
            v.also = (enum bottleneck_class)c;
        }
    }
    v.confidence = v.strength;
    v.advice = best ? best->advice : "";
    if (v.also != BOTTLENECK_UNKNOWN && v.strength - second < near)
        v.confidence *= 1 - near_cost * (1 - (v.strength - second) / near);
    else
        v.also = BOTTLENECK_UNKNOWN;
    if (!best) {
        /* Without a sign of anything. */
        v.limit = too_little(f)                        ? BOTTLENECK_UNKNOWN
                  : !class_refuted(f, BOTTLENECK_IDLE) ? BOTTLENECK_IDLE
                                                       : BOTTLENECK_NONE;
        v.confidence = v.limit == BOTTLENECK_IDLE   ? idle_sure
                       : v.limit == BOTTLENECK_NONE ? none_sure
                                                    : 0;
        v.advice = bottleneck_advice(v.limit);
    }
    v.confidence *= 1 - missing_cost * missing;
    if (f->seconds < short_seconds)
        v.confidence *= 1 - short_cost;
    gather_evidence(&v, f, best);
    *out = v;
}

/* ---- the node */

static bool gpu_works(const struct bottleneck_verdict *v)
{
    return v->limit != BOTTLENECK_IDLE && v->limit != BOTTLENECK_UNKNOWN;
}

/* The class that counts for most: how sure its verdicts are, added up. */
static enum bottleneck_class common_class(const struct bottleneck_report *r)
{
    double sums[BOTTLENECK_CLASSES] = { 0 };
    size_t best = BOTTLENECK_IDLE;
    bool any = false;

    for (size_t i = 0; i < r->gpu_count; i++)
        any = any || gpu_works(&r->gpus[i].verdict);
    for (size_t i = 0; i < r->gpu_count; i++) {
        const struct bottleneck_verdict *v = &r->gpus[i].verdict;
        if (v->limit == BOTTLENECK_THROTTLE)
            return BOTTLENECK_THROTTLE;
        if (gpu_works(v) || !any)
            sums[v->limit] += v->confidence + 1e-6;
    }
    for (size_t c = 0; c < BOTTLENECK_CLASSES; c++)
        if (sums[c] > sums[best])
            best = c;
    return (enum bottleneck_class)best;
}

void bottleneck_report_node(struct bottleneck_report *r)
{
    enum bottleneck_class c = common_class(r);

    r->node_gpu = -1;
    r->agree = 0;
    for (size_t i = 0; i < r->gpu_count; i++) {
        if (r->gpus[i].verdict.limit != c)
            continue;
        r->agree++;
        if (r->node_gpu >= 0 && r->gpus[i].verdict.confidence <= r->node.confidence)
            continue;
        r->node = r->gpus[i].verdict;
        r->node_gpu = r->gpus[i].gpu;
    }
}

void bottleneck_report(const struct window *w, struct bottleneck_report *out)
{
    int gpus[BOTTLENECK_GPUS_MAX];
    struct bottleneck_facts f;

    *out = (struct bottleneck_report){ .from_ns = window_from_ns(w), .to_ns = window_to_ns(w) };
    out->gpu_count = bottleneck_gpus(w, gpus, BOTTLENECK_GPUS_MAX);
    for (size_t i = 0; i < out->gpu_count; i++) {
        out->gpus[i].gpu = gpus[i];
        bottleneck_facts_of(w, gpus[i], &f);
        bottleneck_judge(&f, &out->gpus[i].verdict);
    }
    bottleneck_report_node(out);
    if (out->node_gpu >= 0)
        return;
    bottleneck_facts_of(w, -1, &f);
    bottleneck_judge(&f, &out->node);
}
