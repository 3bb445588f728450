/* SPDX-License-Identifier: MIT */
/* prometheus: a Prometheus that scrapes every machine's agent and model server, with its rules,
 * their tests and an Alertmanager.
 *
 *   prometheus.yml            scraping; groups with many machines by a file each
 *   targets/JOB-GROUP.yml     these files
 *   prometheus.default        flags, in the form of Debian's /etc/default/prometheus
 *   rules/, tests/            prometheus_rules.c, prometheus_tests.c, alert_groups.c
 *   alertmanager.yml          alertmanager.c */
#include "base/str.h"
#include "base/text/units.h"
#include "os/net/address.h"
#include "render/host/host_int.h"
#include "render/prometheus/prometheus_int.h"

#include <ctype.h>
#include <inttypes.h>

enum {
    INLINE_MAX = 32,       /* machines of a group that prometheus.yml lists itself */
    SCRAPE_MS_MAX = 10000, /* a scrape may take: Prometheus' own default */
    SCRAPE_MS_LEAST_OFTEN = 240000,
    HOST_MAX = 1024
};
#define PUBLISHED "127.0.0.1" /* where compose publishes a port unless its .env says otherwise */

/* ---- addresses */
static bool host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("._-:[]", c));
}

static bool is_host_port(const char *s, size_t len)
{
    size_t digits = 0;

    while (digits < len && s[len - 1 - digits] >= '0' && s[len - 1 - digits] <= '9')
        digits++;
    if (!digits || digits > 5 || digits + 2 > len || s[len - 1 - digits] != ':')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!host_char(s[i]))
            return false;
    return true;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool web_address_of(const char *s, struct web_address *out)
{
    struct web_address a = { .tls = str_starts(s, "https://") };

    if (!a.tls && !str_starts(s, "http://"))
        return false;
    a.host = strchr(s, ':') + 3;
    a.host_len = strcspn(a.host, "/?#");
    a.path = a.host + a.host_len;
    if (!a.host_len)
        return false;
    for (size_t i = 0; i < a.host_len; i++)
        if (!host_char(a.host[i]))
            return false;
    for (const char *p = a.path; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || strchr("\"\\<>^`{|}", *p) ||
            (*p == '%' && !(is_hex(p[1]) && is_hex(p[2]))))
            return false;
    *out = a;
    return true;
}

/* ---- prometheus.yml */
static void put_ms(struct yaml_out *y, const char *key, int64_t ms)
{
    char w[UNITS_TEXT_MAX];

    yaml_str(y, key, units_duration_exact((uint64_t)ms, w));
}

/* Does Prometheus take it as the name of a label? */
static bool is_label(const char *s)
{
    if (*s >= '0' && *s <= '9')
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

static void put_label(struct render *r, const struct spec_pair *l, struct yaml_out *y)
{
    if (!is_label(l->key)) {
        render_warn(r, l, "Write it with letters, digits and '_', no digit first.",
                    "Prometheus takes no label '%s', and leaves it out", l->key);
    } else if (!r->spec->site.name || !str_eq(l->key, "site")) {
        render_str(r, y, l->key, l->value, l);
    }
}

static void put_global(struct render *r, struct yaml_out *y)
{
    const struct spec_prometheus *p = r->targets->prometheus;
    const struct spec_pairs *labels = &r->spec->site.labels;

    if (p->scrape_ms > SCRAPE_MS_LEAST_OFTEN)
        render_refuse(r, &p->scrape_ms, "Scrape every 4 minutes or more often.",
                      "Prometheus forgets a value after 5 minutes: between scrapes there would be "
                      "none");
    yaml_map(y, "global");
    yaml_note(y, render_from(r, &p->scrape_ms));
    put_ms(y, "scrape_interval", p->scrape_ms);
    put_ms(y, "scrape_timeout", p->scrape_ms < SCRAPE_MS_MAX ? p->scrape_ms : SCRAPE_MS_MAX);
    yaml_note(y, render_from(r, &p->evaluate_ms));
    put_ms(y, "evaluation_interval", p->evaluate_ms);
    /* What all that leaves this server has: alerts, and metrics that others are sent. */
    if (r->spec->site.name || labels->count) {
        yaml_map(y, "external_labels");
        if (r->spec->site.name)
            render_str(r, y, "site", r->spec->site.name, &r->spec->site.name);
        for (size_t i = 0; i < labels->count; i++)
            put_label(r, &labels->items[i], y);
        yaml_end(y);
    }
    yaml_end(y);
    yaml_seq_of(y, "rule_files", "rules/alerts.yml", "rules/recording.yml");
}

static void put_static(struct yaml_out *y, const char *target, const char *note)
{
    yaml_open(y, "static_configs[]");
    yaml_seq(y, "targets");
    yaml_note(y, note);
    yaml_str(y, NULL, target);
    yaml_ends(y, 3);
}

/* The spec's address of Alertmanager, which the agents post to as well. */
static void put_manager_url(struct render *r, struct yaml_out *y)
{
    const char *const *member = &r->spec->notify.alertmanager;
    struct web_address a;
    struct buf host = { 0 };

    if (!web_address_of(*member, &a)) {
        render_refuse(r, member, "Write it like http://HOST:9093.",
                      "'%s' is no address that Prometheus takes", *member);
        return;
    }
    buf_add(&host, a.host, a.host_len);
    if (!is_host_port(a.host, a.host_len))
        buf_adds(&host, a.tls ? ":443" : ":80");
    yaml_map(y, NULL);
    if (a.tls)
        yaml_str(y, "scheme", "https");
    if (*a.path && !str_eq(a.path, "/"))
        yaml_str(y, "path_prefix", a.path);
    if (a.tls && r->spec->notify.ca_file) {
        yaml_map(y, "tls_config");
        render_str(r, y, "ca_file", r->spec->notify.ca_file, &r->spec->notify.ca_file);
        yaml_end(y);
    }
    put_static(y, buf_str(&host), render_from(r, member));
    yaml_end(y);
    buf_release(&host);
}

struct scrape_job {
    const char *name;
    const char *token; /* NULL: none is asked for */
    const void *token_member;
    const int64_t *port;
    const char *const *listen;
    const struct prom_servers *servers; /* it is about these; NULL: about every machine */
    bool honor, tls;
};

/* The one machine of a site watches itself: Prometheus is there too. */
static bool is_alone(const struct render *r)
{
    return r->spec->node_count == 1 && r->spec->nodes[0].count == 1;
}

static void put_labels(struct render *r, const struct spec_node *n, struct yaml_out *y)
{
    static const char *const roles[] = { "gpu", "cpu", "login", "control", "storage" };

    yaml_map(y, "labels");
    render_str(r, y, "group", n->name, &n->name);
    yaml_str(y, "role", roles[n->role]);
    if (n->rack)
        render_str(r, y, "rack", n->rack, &n->rack);
    if (alerts_group_sleeps(r, n)) {
        yaml_note(y, "one that does not answer may sleep: MachineDown spares those last seen idle");
        yaml_str(y, "power_save", "true");
    }
    yaml_end(y);
}

static void put_machine(struct render *r, const struct spec_node *n, int64_t machine,
                        const char *listen, int64_t port, struct yaml_out *y)
{
    bool here = address_text_is_loopback(listen) && is_alone(r);
    char host[HOST_MAX];

    if (!spec_host(n, machine, host, sizeof(host)))
        return;
    yaml_strf(y, NULL, "%s:%" PRId64, here ? listen : host, port);
    if (strchr(host, '/'))
        render_refuse(r, &n->hosts, NULL, "'%s' is no host that Prometheus can ask", host);
}

static void put_machines(struct render *r, const struct scrape_job *j, const struct spec_node *n,
                         struct yaml_out *y)
{
    yaml_note(y, render_from(r, n->hosts ? (const void *)&n->hosts : &n->count));
    yaml_seq(y, "targets");
    for (int64_t i = 0; !j->servers && i < n->count; i++)
        put_machine(r, n, i, *j->listen, *j->port, y);
    for (size_t i = 0; j->servers && i < j->servers->count; i++) {
        const struct prom_server *s = &j->servers->items[i];

        if (s->node == n)
            put_machine(r, n, s->machine, s->published ? PUBLISHED : *j->listen, s->port, y);
    }
    yaml_end(y);
    put_labels(r, n, y);
}

static void put_file(struct render *r, const struct scrape_job *j, const struct spec_node *n)
{
    struct buf *b = render_file(r, "prometheus/targets/%s-%s.yml", j->name, n->name);
    struct yaml_out y;
    struct buf what = { 0 };

    buf_addf(&what, "machines of group %s", n->name);
    render_head(r, b, "#", buf_str(&what));
    buf_release(&what);
    yaml_begin(&y, b);
    y.seq[0] = true; /* the document is a list */
    yaml_map(&y, NULL);
    put_machines(r, j, n, &y);
    yaml_finish(&y);
}

static bool has_job(const struct scrape_job *j, const struct spec_node *n)
{
    return !j->servers || prometheus_servers_on(j->servers, n);
}

static void put_groups(struct render *r, const struct scrape_job *j, struct yaml_out *y, bool large)
{
    const struct spec *s = r->spec;
    bool open = false;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        if (!has_job(j, n) || (n->count > INLINE_MAX) != large)
            continue;
        if (!open)
            yaml_seq(y, large ? "file_sd_configs" : "static_configs");
        open = true;
        yaml_map(y, NULL);
        if (large) {
            yaml_seq(y, "files");
            yaml_strf(y, NULL, "targets/%s-%s.yml", j->name, n->name);
            yaml_end(y);
            put_file(r, j, n);
        } else {
            put_machines(r, j, n, y);
        }
        yaml_end(y);
    }
    if (open)
        yaml_end(y);
}

/* Containers listen on every address inside, and are published on that of the machine's .env. */
static bool all_published(const struct scrape_job *j)
{
    for (size_t i = 0; j->servers && i < j->servers->count; i++)
        if (!j->servers->items[i].published)
            return false;
    return j->servers;
}

static void put_job(struct render *r, const struct scrape_job *j, struct yaml_out *y)
{
    bool loopback = address_text_is_loopback(*j->listen) && !all_published(j);

    for (size_t i = 0; j->servers && !is_alone(r) && i < j->servers->count; i++)
        if (j->servers->items[i].published)
            render_warn(r, &j->servers->items[i].c->name,
                        "Set BIND_ADDRESS in compose/.env, and 'token_file' of 'serve'.",
                        "Prometheus cannot scrape '%s' from another machine: compose publishes it "
                        "on " PUBLISHED " only",
                        j->servers->items[i].c->name);
    if (loopback)
        yaml_comment(y, "it listens on loopback alone: a Prometheus on another machine gets in "
                        "only after 'listen' is set");
    if (loopback && !is_alone(r))
        render_warn(
            r, j->listen, "Set 'listen' to an address that Prometheus reaches, and 'token_file'.",
            "Prometheus cannot scrape job '%s': it listens on '%s' only", j->name, *j->listen);
    yaml_map(y, NULL);
    yaml_str(y, "job_name", j->name);
    if (j->honor) {
        yaml_note(y, "jobs of the machine keep their label 'job'");
        yaml_bool(y, "honor_labels", true);
    }
    if (j->tls)
        yaml_str(y, "scheme", "https");
    if (j->token) {
        yaml_map(y, "authorization");
        render_str(r, y, "credentials_file", j->token, j->token_member);
        yaml_end(y);
    }
    put_groups(r, j, y, false);
    put_groups(r, j, y, true);
    yaml_open(y, "relabel_configs[]");
    yaml_note(y, "the machine's name without the port, the same for all jobs");
    yaml_seq_of(y, "source_labels", "__address__");
    yaml_str(y, "regex", "(.*):[0-9]+");
    yaml_str(y, "target_label", "machine");
    yaml_ends(y, 3);
}

/* OpenShift's machines have no agent: none is rendered for them.  NULL: the machines are another
 * target's too, or the spec says that they run one. */
static const void *agentless_group(const struct render *r)
{
    const struct spec_targets *t = &r->spec->targets;
    const struct spec *s = r->spec;

    if (!t->openshift || t->kubernetes || t->slurm || t->systemd ||
        spec_where(s, &s->agent.enabled).line)
        return NULL;
    for (size_t i = 0; i < s->component_count; i++)
        if (s->components[i].target == SPEC_TARGET_OPENSHIFT)
            return &s->components[i].target;
    return NULL;
}

static bool any_in_pods(const struct spec *s)
{
    for (size_t i = 0; i < s->component_count; i++)
        if (s->components[i].kind == SPEC_COMPONENT_SERVING &&
            (s->components[i].target == SPEC_TARGET_KUBERNETES ||
             s->components[i].target == SPEC_TARGET_OPENSHIFT))
            return true;
    return s->targets.kubernetes && !s->targets.systemd && host_models_loose(s);
}

static void put_jobs(struct render *r, struct yaml_out *y)
{
    struct prom_servers servers;
    const struct spec_agent *a = &r->spec->agent;
    const struct spec_serve *s = &r->spec->serve;
    struct scrape_job agent = { .name = ALERTS_JOB_AGENT,
                                .token = a->open_metrics ? NULL : a->token_file,
                                .token_member = &a->token_file,
                                .port = &a->metrics_port,
                                .listen = &a->listen,
                                .tls = a->tls_cert != NULL,
                                .honor = true };
    struct scrape_job serve = { .name = ALERTS_JOB_SERVE,
                                .token = s->token_file,
                                .token_member = &s->token_file,
                                .port = &s->port,
                                .listen = &s->listen,
                                .servers = &servers,
                                .tls = s->tls_cert != NULL };

    yaml_open(y, "scrape_configs[]");
    yaml_str(y, "job_name", "prometheus");
    put_static(y, "localhost:9090", "itself");
    yaml_end(y);
    if (a->enabled && agentless_group(r))
        render_warn(r, agentless_group(r),
                    "Run it there and write 'agent: {enabled: true}', or 'false'.",
                    "no agent is rendered for OpenShift: Prometheus scrapes none, and alerts on "
                    "machines and GPUs never fire");
    else if (a->enabled)
        put_job(r, &agent, y);
    prometheus_servers(r, &servers);
    if (servers.count)
        put_job(r, &serve, y);
    if (any_in_pods(r->spec))
        yaml_comment(y,
                     "model servers run in pods: ServiceMonitors of the cluster's own Prometheus "
                     "find them, not this one");
    else if (!servers.count && r->spec->model_count)
        yaml_comment(y, "no model server has an address of its machine");
    prometheus_servers_release(&servers);
    yaml_end(y);
}

/* ---- flags */
static void put_flags(struct render *r)
{
    const struct spec_prometheus *p = r->targets->prometheus;
    struct buf *b = render_file(r, "prometheus/prometheus.default");
    char w[UNITS_TEXT_MAX];
    struct web_address a;

    if (!web_address_of(p->url, &a))
        render_refuse(r, &p->url, "Write it like http://HOST:9090.",
                      "'%s' is no address of a web server", p->url);
    render_head(r, b, "#", "flags of Prometheus: /etc/default/prometheus on Debian");
    buf_addf(b, "# retention: %s", render_from(r, &p->retention_ms));
    buf_addf(b, "; address: %s\n", render_from(r, &p->url));
    buf_addf(b, "ARGS=\"--storage.tsdb.retention.time=%s --web.external-url=%s\"\n",
             units_duration_exact((uint64_t)p->retention_ms, w), p->url);
}

void render_prometheus(struct render *r)
{
    struct buf *b = render_file(r, "prometheus/prometheus.yml"), *rules;
    struct yaml_out y;
    const struct spec_strs *m = &r->targets->prometheus->alertmanagers;

    render_head(r, b, "#", "prometheus.yml: whom Prometheus scrapes, and its rules");
    yaml_begin(&y, b);
    put_global(r, &y);
    yaml_map(&y, "alerting");
    yaml_seq(&y, "alertmanagers");
    for (size_t i = 0; i < m->count; i++) {
        if (!is_host_port(m->items[i], strlen(m->items[i])))
            render_refuse(r, &m->items[i], "Write it like HOST:9093.",
                          "'%s' is not the host and port of an Alertmanager", m->items[i]);
        yaml_map(&y, NULL);
        put_static(&y, m->items[i], render_from(r, &m->items[i]));
        yaml_end(&y);
    }
    if (!m->count && r->spec->notify.alertmanager) {
        put_manager_url(r, &y);
    } else if (!m->count) {
        yaml_map(&y, NULL);
        put_static(&y, "localhost:9093", "default");
        yaml_end(&y);
    }
    yaml_ends(&y, 2);
    put_jobs(r, &y);
    yaml_finish(&y);
    rules = render_file(r, "prometheus/rules/alerts.yml");
    render_head(r, rules, "#", "alert rules for Prometheus 2.42 or later");
    yaml_begin(&y, rules);
    alerts_groups(r, &y);
    yaml_finish(&y);
    put_flags(r);
    prometheus_recording(r);
    prometheus_tests(r);
    prometheus_alertmanager(r);
}
