/* SPDX-License-Identifier: MIT */
/* spec_goals: what a site's spec says of a run that is watched.
 *
 * Its goals become targets, by the meaning that the words of alerts have on a node; where no agent
 * is named, the spec says on which machine a component runs and where its agent listens. */
#include "monitor/monitor_int.h"

#include "alert/alert.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/net/address.h"
#include "render/render.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- goals */

/* The metric a target names: three are made of others in a report. */
static const char *target_metric(const struct alert_meaning *a, double *out_scale)
{
    *out_scale = a->scale;
    if (str_eq(a->metric, "gpu.xid.total"))
        return "gpu.xid";
    if (!a->of)
        return a->metric;
    *out_scale = 1; /* percent, as the spec has it */
    return str_eq(a->metric, "gpu.fb.used") ? "gpu.memory" : NULL;
}

static enum rc add_goal_side(struct monitor *m, const struct spec_goal *g,
                             const struct alert_meaning *a, const char *metric, double scale,
                             bool least, struct err *err)
{
    const struct spec_quantity *q = least ? &g->min : &g->max;
    const char *stat = a->how == ALERT_INCREASE && !str_eq(metric, "gpu.xid") ? "rise"
                       : !least && str_eq(metric, "gpu.temp")                 ? "max"
                                                                              : NULL;
    char text[TELEMETRY_NAME_MAX + 64];
    struct monitor_target *t;

    if (!q->known)
        return RC_OK;
    if (m->target_count == MONITOR_TARGETS_MAX)
        return err_set(err, RC_LIMIT, "more than %d targets", MONITOR_TARGETS_MAX);
    t = &m->targets[m->target_count];
    snprintf(text, sizeof(text), "%s%s%s%s%s%.10g", stat ? stat : "", stat ? "(" : "", metric,
             stat ? ")" : "", least ? ">=" : "<=", q->v * scale);
    if (target_parse(text, t, err))
        return err_ctx(err, "goal '%s'", g->name);
    (void)str_copy(t->goal, sizeof(t->goal), g->name);
    m->target_count++;
    return RC_OK;
}

enum rc targets_of_goals(struct monitor *m, const struct spec *s, struct err *err)
{
    size_t before = m->target_count;

    for (size_t i = 0; i < s->goal_count; i++) {
        const struct spec_goal *g = &s->goals[i];
        struct alert_meaning a;
        double scale;
        bool shown = false;

        for (size_t k = 0; alert_meaning_at(g->metric, k, &a); k++) {
            const char *metric = target_metric(&a, &scale);
            bool by_option = false;

            if (!metric)
                continue;
            shown = true;
            for (size_t n = 0; n < before; n++) /* an option wins, another goal does not */
                by_option |= str_eq(m->targets[n].metric, metric);
            if (!by_option && (add_goal_side(m, g, &a, metric, scale, true, err) ||
                               add_goal_side(m, g, &a, metric, scale, false, err)))
                return err->code;
        }
        if (!shown)
            log_warn("%s:%d: goal '%s' is about %s, which a report does not show", spec_file(s),
                     spec_where(s, &g->metric).line, g->name, spec_metric_name(g->metric));
    }
    return RC_OK;
}

/* ---- the agent */

static bool is_this_machine(const char *name)
{
    char own[SPEC_NAME_MAX + 12] = "";

    if (str_eq(name, "localhost") || gethostname(own, sizeof(own) - 1) != 0)
        return str_eq(name, "localhost");
    own[strcspn(own, ".")] = '\0';
    return str_eq(name, own);
}

/* "node7" to "node7:8090". */
static char *with_port(const char *host, const struct spec *s)
{
    char text[512];

    if (!s || strchr(host, ':') || strchr(host, '/'))
        return xstrdup(host);
    snprintf(text, sizeof(text), "%.400s:%" PRId64, host, s->agent.port);
    return xstrdup(text);
}

static enum rc component_host(const char *name, const struct spec *s, char **out_host,
                              struct err *err)
{
    const struct spec_component *c = spec_component_find(s, name);
    const struct spec_node *n = c ? spec_node_of(s, c->nodes) : NULL;
    char host[SPEC_NAME_MAX + 12];

    if (!c)
        return err_set(err, RC_USAGE, "there is no component '%s' in '%s'", name, spec_file(s));
    if (!n || !spec_host(n, 0, host, sizeof(host)))
        return err_set(err, RC_USAGE, "the spec does not say on which machine '%s' runs", name);
    if (n->count != 1) {
        err_hint(err, "Name one with --host, as in --host %s.", host);
        return err_set(err, RC_USAGE, "'%s' may run on any of the %" PRId64 " machines of '%s'",
                       name, n->count, n->name);
    }
    if (!n->hosts || is_this_machine(host))
        return RC_OK; /* a group without names: the one machine that there is */
    if (address_text_is_loopback(s->agent.listen)) {
        err_hint(err, "Set 'agent.listen', or run 'stoker monitor' on '%s'.", host);
        return err_set(err, RC_USAGE, "%s:%d: the agent of '%s' listens on %s only", spec_file(s),
                       spec_where(s, &s->agent.listen).line, host, s->agent.listen);
    }
    *out_host = with_port(host, s);
    return RC_OK;
}

enum rc monitor_spec_host(const struct monitor_opts *a, const struct spec *s, char **out_host,
                          struct err *err)
{
    if (a->host)
        *out_host = with_port(a->host, s);
    else if (a->component)
        return component_host(a->component, s, out_host, err);
    return RC_OK;
}
