/* SPDX-License-Identifier: MIT */
/* doc_picture: the stack of a site as five layers, each with what this site has in it.
 *
 *     interfaces             who comes in, and where
 *     scheduling             who runs next
 *     orchestration          what starts and keeps it
 *     network and storage    what moves and holds the data
 *     compute                the machines */
#include "base/text/svg.h"
#include "base/text/units.h"
#include "render/site/doc_int.h"

#include <inttypes.h>

enum {
    WIDE = 1000,
    LEFT = 190, /* where boxes begin */
    BOX_WIDE = 190,
    BOX_HIGH = 46,
    GAP = 10,
    A_ROW = (WIDE - LEFT) / (BOX_WIDE + GAP), /* boxes */
    BOXES_MAX = 64,                           /* of a layer; the rest is counted in the last one */
    LABEL_MAX = 26                            /* characters of a line in a box */
};

struct picture_layer {
    struct buf *svg;
    int y, count, hidden;
};

/* The first characters of a text, whole ones. */
static const char *text_cut(const char *s, char *out, size_t cap)
{
    size_t chars = 0, n = 0;

    for (; s[n] && n + 5 < cap; n++) {
        if (((unsigned char)s[n] & 0xc0) != 0x80 && ++chars > LABEL_MAX)
            break;
        out[n] = s[n] == '\n' || s[n] == '\t' ? ' ' : s[n];
    }
    out[n] = '\0';
    if (s[n])
        memcpy(out + n, "…", sizeof("…"));
    return out;
}

static void box_add(struct picture_layer *l, const char *title, const char *below)
{
    int x = LEFT + (l->count % A_ROW) * (BOX_WIDE + GAP),
        y = l->y + GAP + (l->count / A_ROW) * (BOX_HIGH + GAP);
    char text[4 * LABEL_MAX + 8];

    if (l->svg) {
        svg_rect(l->svg, "b", x, y, BOX_WIDE, BOX_HIGH, 4);
        svg_text(l->svg, "t", x + 9, y + 19, "start", "%s", text_cut(title, text, sizeof(text)));
        svg_text(l->svg, "s", x + 9, y + 36, "start", "%s", text_cut(below, text, sizeof(text)));
    }
    l->count++;
}

static void box_addf(struct picture_layer *l, const char *title, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static void box_addf(struct picture_layer *l, const char *title, const char *fmt, ...)
{
    struct buf b = { 0 };
    va_list ap;

    if (l->count >= BOXES_MAX) {
        l->hidden++;
        return;
    }
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    box_add(l, title, buf_str(&b));
    buf_release(&b);
}

static void layer_interfaces(const struct site_doc *d, struct picture_layer *l)
{
    const struct spec *s = d->r->spec;

    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].role == SPEC_ROLE_LOGIN)
            box_addf(l, s->nodes[i].name, "login, %" PRId64 " machine%s", s->nodes[i].count,
                     doc_s(s->nodes[i].count));
    if (s->model_count)
        box_addf(l, "models", "HTTP, ports %" PRId64 " and %" PRId64, s->serve.port,
                 s->serve.rerank_port);
    if (s->agent.enabled)
        box_addf(l, "node page", "port %" PRId64 ", metrics %" PRId64, s->agent.port,
                 s->agent.metrics_port);
    if (s->targets.grafana)
        box_addf(l, "Grafana", "folder %s",
                 s->targets.grafana->folder ? s->targets.grafana->folder : "-");
    for (size_t i = 0; i < s->component_count; i++)
        for (size_t k = 0; k < s->components[i].port_count; k++)
            box_addf(l, s->components[i].name, "port %" PRId64, s->components[i].ports[k].port);
}

static void layer_scheduling(const struct site_doc *d, struct picture_layer *l)
{
    const struct spec *s = d->r->spec;
    const struct spec_slurm *m = s->targets.slurm;

    for (size_t i = 0; m && i < m->partition_count; i++)
        box_addf(l, m->partitions[i].name, "partition, priority %" PRId64,
                 m->partitions[i].priority);
    for (size_t i = 0; m && i < m->qos_count; i++)
        box_addf(l, m->qos[i].name, "QOS, priority %" PRId64, m->qos[i].priority);
    if (s->targets.kubernetes && s->targets.kubernetes->queue)
        box_addf(l, s->targets.kubernetes->queue, "queue (Kueue)");
    if (s->targets.kubernetes && !s->targets.kubernetes->queue)
        box_addf(l, "kube-scheduler", "namespace %s", s->targets.kubernetes->namespace);
    if (s->targets.openshift)
        box_addf(l, "kube-scheduler", "project %s", s->targets.openshift->namespace);
    if (!l->count)
        box_add(l, "none", "components start with their machine");
}

static void layer_orchestration(const struct site_doc *d, struct picture_layer *l)
{
    const struct spec_targets *t = &d->r->spec->targets;

    if (t->slurm)
        box_addf(l, "Slurm", "%s, controller %s", t->slurm->version,
                 t->slurm->controller ? t->slurm->controller : "unset");
    if (t->kubernetes)
        box_addf(l, "Kubernetes", "%s", t->kubernetes->version);
    if (t->openshift)
        box_addf(l, "OpenShift", "%s", t->openshift->version);
    if (t->compose)
        box_addf(l, "compose", "project %s",
                 t->compose->project ? t->compose->project : "by its folder");
    if (t->systemd)
        box_addf(l, "systemd", "user %s", t->systemd->user);
    box_addf(l, "stoker", "agent on every machine");
    if (t->prometheus)
        box_add(l, "Prometheus", t->prometheus->url ? t->prometheus->url : "metrics and alerts");
}

/* Fewest and most NICs that a machine has on the fabric. */
static int64_t nics_range(const struct spec *s, const struct spec_fabric *f, int64_t *least)
{
    int64_t most = 0;

    *least = INT64_MAX;
    for (size_t i = 0; i < s->node_count; i++) {
        int64_t n = spec_group_nics(&s->nodes[i], f).count;

        if (!spec_group_on(&s->nodes[i], f))
            continue;
        most = n > most ? n : most;
        *least = n < *least ? n : *least;
    }
    if (!most)
        most = *least = f->nics_per_node;
    return most;
}

static void layer_data(const struct site_doc *d, struct picture_layer *l)
{
    const struct spec *s = d->r->spec;
    char text[UNITS_TEXT_MAX];

    for (size_t i = 0; i < s->fabric_count; i++) {
        const struct spec_fabric *f = &s->fabrics[i];
        int64_t least, most = nics_range(s, f, &least);

        units_rate_exact((uint64_t)f->rate_bps, text);
        if (least == most)
            box_addf(l, f->name, "%" PRId64 " x %s a machine", most, text);
        else
            box_addf(l, f->name, "%" PRId64 " to %" PRId64 " x %s a machine", least, most, text);
    }
    for (size_t i = 0; i < s->storage_count; i++) {
        const struct spec_storage *st = &s->storage[i];

        box_addf(l, st->name, "%s",
                 st->size_bytes.known ? units_bytes_exact((uint64_t)st->size_bytes.v, text)
                                      : (st->path ? st->path : "size unknown"));
    }
    if (!l->count)
        box_add(l, "inside the machine", "no fabric, no shared storage");
}

static void layer_compute(const struct site_doc *d, struct picture_layer *l)
{
    const struct spec *s = d->r->spec;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        if (n->gpus_per_node)
            box_addf(l, n->name, "%" PRId64 " x %" PRId64 " %s", n->count, n->gpus_per_node,
                     n->gpu ? n->gpu->model : "GPUs");
        else if (n->role != SPEC_ROLE_LOGIN)
            box_addf(l, n->name, "%" PRId64 " machine%s", n->count, doc_s(n->count));
    }
    if (!l->count)
        box_add(l, "this machine", "found by stoker detect");
}

static const struct {
    const char *name, *cls;
    void (*fill)(const struct site_doc *d, struct picture_layer *l);
} LAYERS[] = {
    { "interfaces", "l1", layer_interfaces },
    { "scheduling", "l2", layer_scheduling },
    { "orchestration", "l3", layer_orchestration },
    { "network and storage", "l4", layer_data },
    { "compute", "l5", layer_compute },
};

/* Every layer twice: how many boxes, then the boxes on a ground of the right height. */
static int draw_layers(struct site_doc *d, struct buf *svg)
{
    int y = 0;

    for (size_t i = 0; i < sizeof(LAYERS) / sizeof(*LAYERS); i++) {
        struct picture_layer count = { .y = y }, l = { .svg = svg, .y = y };
        int high;

        LAYERS[i].fill(d, &count);
        high = (count.count + A_ROW - 1) / A_ROW * (BOX_HIGH + GAP) + GAP;
        if (high < BOX_HIGH + 2 * GAP)
            high = BOX_HIGH + 2 * GAP;
        if (svg) {
            svg_rect(svg, LAYERS[i].cls, 0, y, WIDE, high, 6);
            svg_text(svg, "t", 14, y + high / 2.0 + 4, "start", "%s", LAYERS[i].name);
            LAYERS[i].fill(d, &l);
            if (l.hidden)
                svg_text(svg, "s", 14, y + high / 2.0 + 20, "start", "and %d more", l.hidden);
        }
        y += high + GAP;
    }
    return y - GAP;
}

void doc_picture(struct site_doc *d)
{
    svg_begin(d->out, WIDE, draw_layers(d, NULL), "the five layers of this site");
    (void)draw_layers(d, d->out);
    svg_end(d->out);
}
