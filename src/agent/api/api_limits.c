/* SPDX-License-Identifier: MIT */
/* api_limits: what limited each GPU and the node over a span of history. */
#include "agent/api/api_parts_int.h"

#include "base/mem.h"
#include "bottleneck/bottleneck.h"

#include <stdlib.h>

enum { LIMITS_BACK_S = 300, LIMITS_SPAN_S_MAX = 86400 };

static enum rc span_of(struct agent_api *a, const struct api_params *p, int64_t *from, int64_t *to,
                       struct err *err)
{
    static const char *const names[] = { "from", "to", NULL };
    int64_t now = api_now_ns(a);
    enum rc rc = api_params_check(p, names, err);

    if (!rc)
        rc = api_param_time(p, "to", now, now, to, err);
    if (!rc)
        rc = api_param_time(p, "from", now, *to - LIMITS_BACK_S * API_SECOND, from, err);
    if (!rc && *from >= *to)
        rc = err_set(err, RC_USAGE, "'from' must be before 'to'");
    if (!rc && *to - *from > LIMITS_SPAN_S_MAX * API_SECOND)
        rc = err_set(err, RC_USAGE, "more than a day between 'from' and 'to'");
    return rc;
}

static enum rc judge_span(struct agent_api *a, int64_t from, int64_t to,
                          struct bottleneck_report *out, struct err *err)
{
    struct window *w = window_new(bottleneck_metrics, false);
    struct api_view view;
    enum rc rc;

    api_enter(a, &view);
    if (view.ring) {
        rc = bottleneck_from_history(view.ring, from, to, w, err);
    } else {
        err_hint(err, "Start the agent with a history to keep one.");
        rc = err_set(err, RC_NODEV, "no history is kept");
    }
    api_leave(a);
    if (!rc)
        bottleneck_report(w, out);
    window_free(w);
    return rc;
}

enum rc api_limits(struct agent_api *a, const struct api_params *p, struct buf *out,
                   struct err *err)
{
    struct bottleneck_report *r = xcalloc(1, sizeof(*r));
    int64_t from = 0, to = 0;
    struct json_out w;
    enum rc rc = span_of(a, p, &from, &to, err);

    if (!rc)
        rc = judge_span(a, from, to, r, err);
    if (!rc) {
        json_out_init(&w, out, 0);
        json_obj(&w);
        json_kv_str(&w, "schema", "stoker.limits/1");
        bottleneck_report_json(r, &w);
        json_obj_end(&w);
    }
    free(r);
    return rc;
}
