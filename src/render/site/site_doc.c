/* SPDX-License-Identifier: MIT */
/* doc: the site as one HTML page: the picture of its five layers, its machines and links, who has
 * which GPU, ports, costs, and the commands that apply, check and roll back each target.  One file
 * without scripts or anything from elsewhere, so that it can be mailed. */
#include "base/str.h"
#include "base/text/units.h"
#include "render/site/doc_int.h"

#include <inttypes.h>

/* ---- machines and links ---- */

static void put_machines(struct site_doc *d)
{
    const struct spec *s = d->r->spec;

    doc_section(d, "machines", "Machines");
    doc_table(d, "group|hosts|#machines|#GPUs each|GPU|#cores|#memory|fabrics|from");
    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];
        struct buf hosts = { 0 };
        char text[UNITS_TEXT_MAX];

        spec_hosts(n, &hosts);
        doc_row(d);
        doc_cell(d, "%s", n->name);
        doc_cell(d, "%s", buf_str(&hosts));
        doc_right(d, "%" PRId64, n->count);
        doc_right(d, "%" PRId64, n->gpus_per_node);
        doc_cell(d, "%s", n->gpu ? n->gpu->model : "");
        if (n->cpu_cores.known)
            doc_right(d, "%" PRId64, (int64_t)n->cpu_cores.v);
        else
            doc_right(d, "unknown");
        doc_right(d, "%s",
                  n->memory_bytes.known ? units_bytes_exact((uint64_t)n->memory_bytes.v, text)
                                        : "unknown");
        doc_list(d, &n->fabrics);
        doc_cell(d, "%s", render_from(d->r, &n->name));
        doc_row_end(d);
        buf_release(&hosts);
    }
    doc_table_end(d);
}

/* A row more for each group whose NICs are not the fabric's usual ones. */
static void links_of_groups(struct site_doc *d, const struct spec_fabric *f)
{
    const struct spec *s = d->r->spec;
    char text[UNITS_TEXT_MAX];

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        for (size_t k = 0; k < n->nics_count; k++) {
            struct spec_nics_of v = spec_group_nics(n, f);

            if (!str_eq(n->nics[k].fabric, f->name))
                continue;
            doc_row(d);
            doc_cell(d, "%s", f->name);
            doc_cell(d, "on machines of %s", n->name);
            doc_right(d, "%" PRId64, v.count);
            doc_right(d, "%s", units_rate_exact((uint64_t)v.rate_bps, text));
            doc_right(d, "%" PRId64, f->mtu);
            doc_list(d, v.interfaces->count ? v.interfaces : v.hcas);
            doc_cell(d, "%s", "");
            doc_cell(d, "%s", render_from(d->r, &n->nics[k].fabric));
            doc_row_end(d);
        }
    }
}

static void put_links(struct site_doc *d)
{
    static const char *const KINDS[] = {
#define WORD_(id, text) text,
        SPEC_FABRIC_KINDS(WORD_)
#undef WORD_
    };
    const struct spec *s = d->r->spec;

    if (!s->fabric_count)
        return;
    doc_section(d, "links", "Links");
    doc_table(d, "fabric|kind|#NICs a machine|#rate of one|#MTU|interfaces|switches|from");
    for (size_t i = 0; i < s->fabric_count; i++) {
        const struct spec_fabric *f = &s->fabrics[i];
        char text[UNITS_TEXT_MAX];

        doc_row(d);
        doc_cell(d, "%s", f->name);
        doc_cell(d, "%s", KINDS[f->kind]);
        doc_right(d, "%" PRId64, f->nics_per_node);
        doc_right(d, "%s", units_rate_exact((uint64_t)f->rate_bps, text));
        doc_right(d, "%" PRId64, f->mtu);
        doc_list(d, f->interfaces.count ? &f->interfaces : &f->hcas);
        doc_cell(d, "%zu", f->switch_count);
        doc_cell(d, "%s", render_from(d->r, &f->name));
        doc_row_end(d);
        links_of_groups(d, f);
    }
    doc_table_end(d);
}

/* ---- ports ---- */

static void port_row(struct site_doc *d, const char *who, const char *what, const int64_t *port)
{
    doc_row(d);
    doc_right(d, "%" PRId64, *port);
    doc_cell(d, "%s", who);
    doc_cell(d, "%s", what);
    doc_cell(d, "%s", render_from(d->r, port));
    doc_row_end(d);
}

static void put_ports(struct site_doc *d)
{
    const struct spec *s = d->r->spec;

    doc_section(d, "ports", "Ports");
    doc_table(d, "#port|who|what|from");
    if (s->agent.enabled) {
        port_row(d, "stoker agent", "page and API", &s->agent.port);
        port_row(d, "stoker agent", "metrics", &s->agent.metrics_port);
    }
    if (s->model_count) {
        port_row(d, "stoker serve", "models", &s->serve.port);
        port_row(d, "stoker serve", "the same, for reranker clients", &s->serve.rerank_port);
    }
    for (size_t i = 0; i < s->component_count; i++)
        for (size_t k = 0; k < s->components[i].port_count; k++)
            port_row(d, s->components[i].name, s->components[i].ports[k].name,
                     &s->components[i].ports[k].port);
    doc_table_end(d);
}

/* ---- which way to run it ---- */

struct doc_port { /* what the site has, and what its components ask for */
    int64_t machines, gpus;
    int64_t jobs, job_gpus;           /* training and batch */
    int64_t services, service_gpus;   /* all others, the models beside them */
    int64_t job_parts, service_parts; /* MIG instances, which are no GPUs */
    int64_t gang;                     /* machines of the largest job */
    const char *largest;              /* its name; NULL: no job */
    int64_t rdma;                     /* fabrics that pods reach through operators */
};

static bool has_parts(const struct spec *s, const struct spec_component *c)
{
    const struct spec_node *n = spec_component_group(s, c, 0);

    return n && n->gpu && n->gpu->sharing == SPEC_SHARING_MIG && n->gpu->mig_profile;
}

static void use_component(struct doc_port *u, const struct spec *s, const struct spec_component *c)
{
    bool job = c->kind == SPEC_COMPONENT_TRAINING || c->kind == SPEC_COMPONENT_BATCH;
    bool together = c->kind == SPEC_COMPONENT_TRAINING && c->replicas > 1;
    int64_t copies = c->scale && c->scale->max > c->replicas ? c->scale->max : c->replicas;
    int64_t gang = c->nodes_per_replica * (together ? c->replicas : 1);

    *(job ? &u->jobs : &u->services) += 1;
    if (has_parts(s, c))
        *(job ? &u->job_parts : &u->service_parts) += c->gpus * c->nodes_per_replica * copies;
    else
        *(job ? &u->job_gpus : &u->service_gpus) += c->gpus * c->nodes_per_replica * copies;
    if (job && gang > u->gang) {
        u->gang = gang;
        u->largest = c->name;
    }
}

static struct doc_port use_of(const struct spec *s)
{
    struct doc_port u = { 0 };

    for (size_t i = 0; i < s->node_count; i++) {
        u.machines += s->nodes[i].count;
        u.gpus += s->nodes[i].count * s->nodes[i].gpus_per_node;
    }
    for (size_t i = 0; i < s->component_count; i++)
        use_component(&u, s, &s->components[i]);
    for (size_t i = 0; i < s->fabric_count; i++)
        u.rdma += s->fabrics[i].kind != SPEC_FABRIC_ETHERNET;
    return u;
}

static void add_parts(struct buf *out, int64_t parts)
{
    if (parts)
        buf_addf(out, " and %" PRId64 " MIG instance%s", parts, doc_s(parts));
}

static void way_jobs(const struct doc_port *u, struct buf *out)
{
    const char *s = u->jobs == 1 ? "s" : "";

    buf_addf(out, "%" PRId64 " job%s (training and batch) ask%s for %" PRId64 " GPU%s of %" PRId64,
             u->jobs, doc_s(u->jobs), s, u->job_gpus, doc_s(u->job_gpus), u->gpus);
    add_parts(out, u->job_parts);
    buf_addf(out, " and queue%s for them; the largest, %s, starts on %" PRId64 " machine%s at once",
             s, u->largest, u->gang, doc_s(u->gang));
}

static void way_slurm(const struct doc_port *u, struct buf *out)
{
    if (u->jobs)
        way_jobs(u, out);
    else
        buf_adds(out, "no job queues for a GPU");
    if (u->services)
        buf_addf(out, "; %" PRId64 " service%s with %" PRId64 " GPU%s", u->services,
                 doc_s(u->services), u->service_gpus, doc_s(u->service_gpus));
    add_parts(out, u->services ? u->service_parts : 0);
    if (u->services)
        buf_addf(out, " would be %s without an end", u->services == 1 ? "a job" : "jobs");
}

static void way_cloud(const struct doc_port *u, struct buf *out)
{
    if (u->services)
        buf_addf(out, "%" PRId64 " service%s with %" PRId64 " GPU%s", u->services,
                 doc_s(u->services), u->service_gpus, doc_s(u->service_gpus));
    else
        buf_adds(out, "no service");
    add_parts(out, u->services ? u->service_parts : 0);
    if (u->gang > 1)
        buf_addf(out, "; %s needs a gang of %" PRId64 " machines (JobSet, Kueue)", u->largest,
                 u->gang);
    if (u->rdma)
        buf_addf(out, "; %" PRId64 " fabric%s through operators", u->rdma, doc_s(u->rdma));
}

static void way_hybrid(const struct doc_port *u, struct buf *out)
{
    if (!u->jobs || !u->services) {
        buf_addf(out, "%s: nothing to divide",
                 u->jobs       ? "there are only jobs"
                 : u->services ? "there are only services"
                               : "there are no components");
        return;
    }
    buf_addf(out,
             "%" PRId64 " GPU%s asked for by jobs under Slurm, %" PRId64
             " by services under Kubernetes, of %" PRId64,
             u->job_gpus, doc_s(u->job_gpus), u->service_gpus, u->gpus);
}

static void way_alone(const struct doc_port *u, struct buf *out)
{
    if (u->machines == 1)
        buf_addf(out, "the site is 1 machine with %" PRId64 " GPU%s", u->gpus, doc_s(u->gpus));
    else
        buf_addf(out, "not for %" PRId64 " machines", u->machines);
}

/* Which of both the components are for; where that is none or both, the targets that are there. */
static void systems_of(const struct spec *s, bool *cloud, bool *hpc)
{
    bool pods = false, jobs = false;

    for (size_t i = 0; i < s->component_count; i++) {
        enum spec_target target = s->components[i].target;

        pods = pods || target == SPEC_TARGET_KUBERNETES || target == SPEC_TARGET_OPENSHIFT;
        jobs = jobs || target == SPEC_TARGET_SLURM;
    }
    *cloud = pods != jobs ? pods : s->targets.kubernetes || s->targets.openshift;
    *hpc = pods != jobs ? jobs : s->targets.slurm != NULL;
}

static void put_ways(struct site_doc *d)
{
    bool cloud, hpc;
    const struct doc_port u = use_of(d->r->spec);

    systems_of(d->r->spec, &cloud, &hpc);
    const struct {
        const char *way, *good, *price;
        void (*here)(const struct doc_port *u, struct buf *out);
        bool chosen;
    } rows[] = {
        { "HPC: Slurm",
          "gangs of whole machines, fair share, topology, arrays; least between job "
          "and hardware",
          "services, rolling updates and isolation are left to others", way_slurm, hpc && !cloud },
        { "cloud-native: Kubernetes, OpenShift",
          "services beside jobs, images, quotas, scaling by replica count",
          "gangs and topology by additions (JobSet, Kueue); RDMA through operators", way_cloud,
          cloud && !hpc },
        { "hybrid", "training under Slurm, services under Kubernetes, one storage and one watch",
          "two schedulers: a machine belongs to one of them at a time", way_hybrid, cloud && hpc },
        { "one machine: compose or systemd", "nothing to run but the machine",
          "no queue, no second machine", way_alone, !cloud && !hpc },
    };
    struct buf text = { 0 };

    doc_section(d, "ways", "Ways to run it");
    doc_table(d, "way|good for|what it costs|here|");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        buf_reset(&text);
        rows[i].here(&u, &text);
        doc_row(d);
        doc_cell(d, "%s", rows[i].way);
        doc_cell(d, "%s", rows[i].good);
        doc_cell(d, "%s", rows[i].price);
        doc_cell(d, "%s", buf_str(&text));
        doc_cell(d, "%s", rows[i].chosen ? "this site" : "");
        doc_row_end(d);
    }
    doc_table_end(d);
    buf_release(&text);
}

/* ---- commands ---- */

static const struct {
    const char *target, *lines;
} COMMANDS[] = {
    { "slurm",
      "slurmd -G -N HOST -f \"$PWD/slurm/slurm.conf\"   # check\n"
      "slurm/install.sh --all                  # every file to every machine, with owners\n"
      "systemctl restart slurmdbd              # where it runs; its MariaDB user comes first\n"
      "systemctl restart slurmctld             # on the controllers; slurmd elsewhere\n"
      "scontrol reconfigure                    # later, when no machine changed\n"
      "bash slurm/accounts.sh                  # with accounting: QOS, accounts, users\n"
      "slurm/install.sh --all --back           # back; restart again\n" },
    { "kubernetes",
      "sh kubernetes/node-prepare.sh machine GROUP      # what it needs; --apply does it\n"
      "sh kubernetes/node-prepare.sh control            # the first of the control plane; --apply\n"
      "sh kubernetes/node-prepare.sh operators          # a fresh cluster, in order: prints\n"
      "sh kubernetes/node-prepare.sh --apply operators  # does it, the manifests last\n"
      "kubectl apply -k kubernetes/overlays/site --dry-run=server   # check, once operators are\n"
      "kubectl diff -k kubernetes/overlays/site\n"
      "sh kubernetes/node-prepare.sh --apply manifests  # after each change\n"
      "sh kubernetes/node-prepare.sh prune  # what the spec no longer names; --apply deletes it\n"
      "kubectl delete -k kubernetes/overlays/site       # away, the namespace too\n" },
    { "openshift",
      "sh openshift/install.sh operators          # a fresh cluster, in order: prints\n"
      "sh openshift/install.sh --apply operators  # does it, the objects last\n"
      "oc apply -k openshift --dry-run=server     # check, once operators are there\n"
      "oc diff -k openshift\n"
      "sh openshift/install.sh --apply manifests  # after each change; who is scaled stays so\n"
      "sh openshift/install.sh --apply prune  # deletes what the spec no longer names\n"
      "oc delete -k openshift                     # away, with the project\n" },
    { "compose", "docker compose -f compose/compose.yaml config -q\n"
                 "docker compose -f compose/compose.yaml up -d --wait\n"
                 "docker compose -f compose/compose.yaml up -d --wait --remove-orphans  # and end "
                 "what the spec no longer names\n"
                 "docker compose -f compose/compose.yaml down\n" },
    { "systemd", "systemd-analyze verify systemd/*.service\n"
                 "systemd/install.sh        # as root: units, user, folders, presets\n"
                 "systemctl start multi-user.target\n"
                 "systemd/install.sh prune  # stops and removes what the spec no longer names\n" },
    { "prometheus", "promtool check config --syntax-only prometheus/prometheus.yml\n"
                    "promtool check rules prometheus/rules/*.yml\n"
                    "promtool test rules prometheus/tests/*.yml\n"
                    "cp -a prometheus/. /etc/prometheus/ && systemctl reload prometheus\n" },
    { "grafana",
      "install -D -m 644 grafana/provisioning/datasources.yml "
      "/etc/grafana/provisioning/datasources/stoker.yml\n"
      "install -D -m 644 grafana/provisioning/dashboards.yml "
      "/etc/grafana/provisioning/dashboards/stoker.yml\n"
      "install -D -m 644 -t /var/lib/grafana/dashboards/stoker grafana/dashboards/*.json\n"
      "systemctl restart grafana-server\n" },
    { "lustre", "lustre/format.sh            # prints what it would do\n"
                "lustre/format.sh --apply\n" },
};

static void put_commands(struct site_doc *d)
{
    doc_section(d, "commands", "Commands");
    doc_para(d, "From the folder that was rendered into. `stoker render all --diff DIR` shows what "
                "a change of the spec would change here.");
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(*COMMANDS); i++) {
        const struct render_target *t = render_target_find(COMMANDS[i].target);

        if (!t || !t->in_spec(d->r->spec))
            continue;
        buf_addf(d->out, "<h3>%s</h3>\n", t->name);
        doc_code(d, COMMANDS[i].lines);
    }
}

/* ---- the page ---- */

static void put_head(struct site_doc *d)
{
    const struct spec_site *site = &d->r->spec->site;
    const char *name = site->name ? site->name : "site";

    buf_adds(d->out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                     "<title>");
    quote_html(d->out, name);
    buf_adds(d->out, "</title>\n");
    doc_style(d->out);
    buf_adds(d->out, "</head>\n<body>\n<h1>");
    quote_html(d->out, name);
    buf_adds(d->out, "</h1>\n");
    if (site->description)
        doc_para(d, "%s", site->description);
    if (site->owner || site->contact)
        doc_para(d, "%s%s%s", site->owner ? site->owner : "",
                 site->owner && site->contact ? ", " : "", site->contact ? site->contact : "");
    buf_adds(d->out, "<nav><a href=\"#machines\">machines</a><a href=\"#gpus\">GPUs</a>"
                     "<a href=\"#ports\">ports</a><a href=\"#costs\">costs</a>"
                     "<a href=\"#commands\">commands</a></nav>\n");
}

void render_doc(struct render *r)
{
    struct site_doc d = { .r = r, .out = render_file(r, "doc/index.html") };

    put_head(&d);
    doc_section(&d, "picture", "The stack");
    doc_picture(&d);
    put_ways(&d);
    put_machines(&d);
    put_links(&d);
    doc_section(&d, "gpus", "Components on GPUs");
    doc_places(&d);
    put_ports(&d);
    doc_section(&d, "costs", "Costs");
    doc_money(&d);
    put_commands(&d);
    buf_adds(d.out, "<p class=\"soft\">Written by stoker render; &ldquo;from&rdquo; is the key of "
                    "the spec.</p>\n</body>\n</html>\n");
}
