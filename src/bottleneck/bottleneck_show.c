/* SPDX-License-Identifier: MIT */
/* bottleneck_show: verdicts for people and programs. */
#include "bottleneck/bottleneck_int.h"

#include <math.h>

enum { DIGITS = 1000 }; /* of a confidence */

static void add_rounded(struct json_out *w, const char *key, double v)
{
    json_key(w, key);
    json_add_num(w, round(v * DIGITS) / DIGITS);
}

static void add_evidence(struct json_out *w, const struct bottleneck_evidence *e)
{
    struct buf text = { 0 };

    bottleneck_fact_text(e->fact, e->value, &text);
    json_obj(w);
    json_kv_str(w, "fact", bottleneck_fact_word(e->fact));
    json_kv_str(w, "metric", bottleneck_fact_metric(e->fact));
    add_rounded(w, "value", e->value);
    json_kv_str(w, "op", e->above ? "above" : "below");
    add_rounded(w, "threshold", e->threshold);
    json_kv_str(w, "text", buf_str(&text));
    json_kv_str(w, "why", e->why);
    json_obj_end(w);
    buf_release(&text);
}

void bottleneck_verdict_json(const struct bottleneck_verdict *v, struct json_out *w)
{
    json_obj(w);
    json_kv_str(w, "limit", bottleneck_word(v->limit));
    json_kv_str(w, "title", bottleneck_title(v->limit));
    add_rounded(w, "confidence", v->confidence);
    json_kv_str(w, "also", v->also == BOTTLENECK_UNKNOWN ? NULL : bottleneck_word(v->also));
    json_kv_arr(w, "evidence");
    for (size_t i = 0; i < v->evidence_count; i++)
        add_evidence(w, &v->evidence[i]);
    json_arr_end(w);
    json_kv_arr(w, "missing");
    for (size_t i = 0; i < BOTTLENECK_FACTS; i++) {
        if (!v->missing[i])
            continue;
        json_obj(w);
        json_kv_str(w, "fact", bottleneck_fact_word((enum bottleneck_fact)i));
        json_kv_str(w, "metric", bottleneck_fact_metric((enum bottleneck_fact)i));
        json_obj_end(w);
    }
    json_arr_end(w);
    json_kv_str(w, "advice", v->advice);
    json_obj_end(w);
}

void bottleneck_report_json(const struct bottleneck_report *r, struct json_out *w)
{
    json_kv_maybe(w, "from_ms", r->from_ns ? maybe_of(r->from_ns / 1000000) : maybe_none());
    json_kv_maybe(w, "to_ms", r->to_ns ? maybe_of(r->to_ns / 1000000) : maybe_none());
    json_key(w, "node");
    bottleneck_verdict_json(&r->node, w);
    json_kv_maybe(w, "node_gpu", r->node_gpu < 0 ? maybe_none() : maybe_of(r->node_gpu));
    json_kv_int(w, "agree", (int64_t)r->agree);
    json_kv_arr(w, "gpus");
    for (size_t i = 0; i < r->gpu_count; i++) {
        json_obj(w);
        json_kv_int(w, "gpu", r->gpus[i].gpu);
        json_key(w, "verdict");
        bottleneck_verdict_json(&r->gpus[i].verdict, w);
        json_obj_end(w);
    }
    json_arr_end(w);
}

void bottleneck_verdict_text(const struct bottleneck_verdict *v, struct buf *out)
{
    const char *gap = ": ";

    buf_addf(out, "%s (confidence %.2f", bottleneck_title(v->limit), v->confidence);
    if (v->also != BOTTLENECK_UNKNOWN)
        buf_addf(out, "; %s nearly as much", bottleneck_title(v->also));
    buf_addc(out, ')');
    for (size_t i = 0; i < v->evidence_count; i++) {
        const struct bottleneck_evidence *e = &v->evidence[i];
        buf_adds(out, gap);
        bottleneck_fact_text(e->fact, e->value, out);
        buf_addf(out, " (%s %g)", e->above ? "above" : "below", e->threshold);
        gap = "; ";
    }
}
