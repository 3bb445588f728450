/* SPDX-License-Identifier: MIT */
/* alertmanager: alertmanager.yml, who is told of what fires: by severity, at once for what is
 * critical, once a day for what is only worth knowing; and which alert makes another needless.
 *
 * What has one cause is one message: agents label it (`cause`, `cause_role`), and the rows of
 * data/alert_causes.csv are written as inhibitions by name for what Prometheus evaluates itself.
 * Every `equal` has hostname beside instance: alerts of agents have the one, those of Prometheus
 * the other, and Alertmanager takes a label that both lack for equal. */
#include "alert/alert.h"
#include "base/str.h"
#include "render/prometheus/prometheus_int.h"

enum { INHIBIT_MATCHERS = 2 };

static void put_list(struct yaml_out *y, const char *key, const char *words)
{
    yaml_seq(y, key);
    for (const char *p = words; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");

        yaml_strf(y, NULL, "%.*s", (int)n, p);
        p += n;
    }
    yaml_end(y);
}

static const struct notice_way {
    const char *severity, *wait, *interval, *repeat;
} ways[] = {
    { "critical", "10s", "1m", "1h" },
    { "warning", "1m", "5m", "12h" },
    { "info", "10m", "1h", "24h" },
};

/* How Alertmanager shows itself to the webhook, and whom it trusts. */
static void put_http_config(struct render *r, struct yaml_out *y)
{
    const struct spec_notify *n = &r->spec->notify;

    if (!n->webhook_token_file && !n->ca_file)
        return;
    yaml_map(y, "http_config");
    if (n->webhook_token_file) {
        yaml_map(y, "authorization");
        render_str(r, y, "credentials_file", n->webhook_token_file, &n->webhook_token_file);
        yaml_end(y);
    }
    if (n->ca_file) {
        yaml_map(y, "tls_config");
        render_str(r, y, "ca_file", n->ca_file, &n->ca_file);
        yaml_end(y);
    }
    yaml_end(y);
}

static void put_receiver(struct render *r, struct yaml_out *y, const char *name)
{
    const char *const *hook = &r->spec->notify.webhook;

    yaml_map(y, NULL);
    yaml_str(y, "name", name);
    if (*hook) {
        yaml_open(y, "webhook_configs[]");
        render_str(r, y, "url", *hook, hook);
        yaml_bool(y, "send_resolved", true);
        put_http_config(r, y);
        yaml_ends(y, 2);
    }
    yaml_end(y);
}

static void put_receivers(struct render *r, struct yaml_out *y)
{
    const struct spec_notify *n = &r->spec->notify;
    struct web_address a;

    if (n->webhook && !web_address_of(n->webhook, &a))
        render_refuse(r, &n->webhook, "Write it like https://HOST/PATH.",
                      "'%s' is no address that Alertmanager can post to", n->webhook);
    if (!n->webhook)
        yaml_comment(y, "the spec names no webhook: alerts are kept and shown, and nobody is told");
    if (n->command.count)
        yaml_comment(y, "notify.command is run by the agents: Alertmanager runs no programs");
    yaml_seq(y, "receivers");
    put_receiver(r, y, "default");
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
        put_receiver(r, y, ways[i].severity);
    yaml_end(y);
}

/* ---- who makes others needless */

static void put_inhibit(struct yaml_out *y, const char *const source[], const char *const target[],
                        const char *equal)
{
    yaml_map(y, NULL);
    yaml_seq(y, "source_matchers");
    for (size_t i = 0; i < INHIBIT_MATCHERS; i++)
        if (source[i])
            yaml_str(y, NULL, source[i]);
    yaml_end(y);
    yaml_seq(y, "target_matchers");
    for (size_t i = 0; i < INHIBIT_MATCHERS; i++)
        if (target[i])
            yaml_str(y, NULL, target[i]);
    yaml_end(y);
    put_list(y, "equal", equal);
    yaml_end(y);
}

/* Of one rule, two grades of it; of money. */
static const struct inhibit {
    const char *source[INHIBIT_MATCHERS], *target[INHIBIT_MATCHERS], *equal;
} inhibits[] = {
    { { "severity=\"critical\"" },
      { "severity=~\"warning|info\"" },
      "alertname instance hostname gpu nvlink device port mountpoint model metric component" },
    { { "alertname=\"BudgetMonth\"", "severity=\"critical\"" },
      { "alertname=\"BudgetForecast\"" },
      "component" },
    /* what the agents say of causes themselves */
    { { "cause_role=\"root\"" }, { "cause_role=~\"sign|symptom\"" }, "hostname cause" },
    { { "cause_role=\"sign\"" }, { "cause_role=\"symptom\"" }, "hostname cause" },
};

/* One side of a rule: plain names as one matcher, a rule with labels by itself. */
struct inhibit_side {
    struct buf name, label;
};

static void side_release(struct inhibit_side *s)
{
    buf_release(&s->name);
    buf_release(&s->label);
}

/* The `at`-th side of a list of rules: 0 has all plain names, the others one with labels each.
 * False: there is none; *more: there may be further ones. */
static bool side_of(const char *list, size_t at, struct inhibit_side *out, bool *more)
{
    size_t nth = 0, plain = 0;

    *out = (struct inhibit_side){ 0 };
    *more = false;
    for (const char *p = list; *p; p += strspn(p, " ")) {
        size_t len = strcspn(p, " ");
        const char *open = memchr(p, '{', len);

        if (!open && !at)
            buf_addf(&out->name, "%s%.*s", plain++ ? "|" : "alertname=~\"", (int)len, p);
        if (open && ++nth == at) {
            size_t label = strcspn(open + 1, "=");

            buf_addf(&out->name, "alertname=\"%.*s\"", (int)(open - p), p);
            buf_addf(&out->label, "%.*s=~\"%.*s\"", (int)label, open + 1,
                     (int)(len - (size_t)(open - p) - label - 3), open + label + 2);
        }
        p += len;
    }
    if (plain)
        buf_adds(&out->name, "\"");
    *more = at < nth;
    return out->name.len > 0;
}

static void put_pair(struct yaml_out *y, const char *sources, const char *targets,
                     const char *equal)
{
    bool more_sources = true, more_targets = true;

    for (size_t i = 0; more_sources; i++) {
        struct inhibit_side from;
        bool has = side_of(sources, i, &from, &more_sources);

        more_targets = has;
        for (size_t k = 0; more_targets; k++) {
            struct inhibit_side to;

            if (side_of(targets, k, &to, &more_targets)) {
                const char *source[] = { buf_str(&from.name),
                                         from.label.len ? buf_str(&from.label) : NULL };
                const char *target[] = { buf_str(&to.name),
                                         to.label.len ? buf_str(&to.label) : NULL };

                put_inhibit(y, source, target, equal);
            }
            side_release(&to);
        }
        side_release(&from);
    }
}

/* data/alert_causes.csv: for rules that Prometheus evaluates, which have no label of a cause. */
static void put_causes(struct yaml_out *y)
{
    size_t count;
    const struct alert_cause *causes = alert_causes(&count);

    for (size_t i = 0; i < count; i++) {
        const struct alert_cause *c = &causes[i];
        struct buf equal = { 0 }, below = { 0 };

        buf_addf(&equal, "instance hostname %s", c->same);
        buf_addf(&below, "%s %s", c->signs, c->symptoms);
        yaml_comment(y, c->why);
        put_pair(y, c->root, buf_str(&below) + strspn(buf_str(&below), " "), buf_str(&equal));
        if (*c->signs)
            put_pair(y, c->signs, c->symptoms, buf_str(&equal));
        buf_release(&below);
        buf_release(&equal);
    }
}

void prometheus_alertmanager(struct render *r)
{
    /* who knows the address of a webhook can post to it */
    struct buf *b = render_file_of(r, r->spec->notify.webhook ? RENDER_SECRET : RENDER_PLAIN,
                                   "prometheus/alertmanager.yml");
    struct yaml_out y;

    render_head(r, b, "#", "alertmanager.yml: who is told of what fires");
    yaml_begin(&y, b);
    yaml_map(&y, "route");
    yaml_str(&y, "receiver", "default");
    put_list(&y, "group_by", "alertname group severity");
    yaml_str(&y, "group_wait", "30s");
    yaml_str(&y, "group_interval", "5m");
    yaml_str(&y, "repeat_interval", "12h");
    yaml_seq(&y, "routes");
    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        yaml_map(&y, NULL);
        yaml_str(&y, "receiver", ways[i].severity);
        yaml_seq(&y, "matchers");
        yaml_strf(&y, NULL, "severity=\"%s\"", ways[i].severity);
        yaml_end(&y);
        yaml_str(&y, "group_wait", ways[i].wait);
        yaml_str(&y, "group_interval", ways[i].interval);
        yaml_str(&y, "repeat_interval", ways[i].repeat);
        yaml_open(&y, "routes[]");
        yaml_seq_of(&y, "matchers", "cause!=\"\"");
        put_list(&y, "group_by", "hostname cause");
        yaml_ends(&y, 3);
    }
    yaml_ends(&y, 2);
    put_receivers(r, &y);
    yaml_seq(&y, "inhibit_rules");
    for (size_t i = 0; i < ARRAY_SIZE(inhibits); i++)
        put_inhibit(&y, inhibits[i].source, inhibits[i].target, inhibits[i].equal);
    put_causes(&y);
    yaml_finish(&y);
}
