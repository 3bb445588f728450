/* SPDX-License-Identifier: MIT */
/* nccl_spec: what a spec fixes of NCCL's settings, and a machine made from it to judge them on. */
#include "base/str.h"
#include "render/nccl/nccl_file_int.h"

#include <inttypes.h>
#include <strings.h>

enum { FABRIC_VARS_MAX = 4, MADE_PORTS_MAX = 32 };

const struct conf_var *conf_find(const struct conf *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (str_eq(c->vars[i].name, name))
            return &c->vars[i];
    return NULL;
}

static void var_add(struct conf *c, const char *name, const char *value, const char *reason,
                    const void *member)
{
    if (!conf_find(c, name))
        c->vars[c->count++] =
            (struct conf_var){ .name = name, .value = value, .reason = reason, .member = member };
}

static bool is_rdma(const struct spec_fabric *f)
{
    return f->kind == SPEC_FABRIC_ROCE || f->kind == SPEC_FABRIC_INFINIBAND;
}

/* The fastest RDMA network of the group, else its fastest one. */
static const struct spec_fabric *fabric_of(const struct render *r, const struct spec_node *n)
{
    const struct spec_fabric *best = NULL;

    for (size_t i = 0; n && i < n->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(r->spec, n->fabrics.items[i]);

        if (f && (!best || is_rdma(f) > is_rdma(best) ||
                  (is_rdma(f) == is_rdma(best) &&
                   spec_group_nics(n, f).rate_bps > spec_group_nics(n, best).rate_bps)))
            best = f;
    }
    return best;
}

static bool nics_same(const struct spec_fabric *f, const struct spec_node *a,
                      const struct spec_node *b)
{
    struct spec_nics_of x = spec_group_nics(a, f), y = spec_group_nics(b, f);

    return x.count == y.count && x.rate_bps == y.rate_bps && x.hcas == y.hcas &&
           x.interfaces == y.interfaces;
}

bool conf_same(const struct render *r, const struct spec_node *a, const struct spec_node *b)
{
    bool nvlink_a = a->gpu && a->gpu->link != SPEC_LINK_PCIE;
    bool nvlink_b = b->gpu && b->gpu->link != SPEC_LINK_PCIE;

    return a->gpus_per_node == b->gpus_per_node && nvlink_a == nvlink_b && !a->gpu == !b->gpu &&
           maybe_or(a->cpu_cores, -1) * a->threads_per_core ==
               maybe_or(b->cpu_cores, -1) * b->threads_per_core &&
           fabric_of(r, a) == fabric_of(r, b) &&
           (!fabric_of(r, a) || nics_same(fabric_of(r, a), a, b));
}

/* "=a,b,c": NCCL takes each as a whole name. */
static const char *names_text(struct conf *c, const struct spec_strs *list)
{
    struct buf b = { 0 };
    const char *out;

    for (size_t i = 0; i < list->count; i++) {
        if (strpbrk(list->items[i], ", \t\n=^:")) {
            render_refuse(c->r, &list->items[i], "Use the name as the machine lists it.",
                          "'%s' cannot be the name of a device in a list of NCCL's",
                          list->items[i]);
            break;
        }
        buf_addf(&b, "%c%s", i ? ',' : '=', list->items[i]);
    }
    out = arena_strdup(&c->arena, buf_str(&b));
    buf_release(&b);
    return out;
}

static const char *number_text(struct conf *c, struct maybe m)
{
    return arena_printf(&c->arena, "%" PRId64, m.v);
}

static void of_fabric(struct conf *c)
{
    const struct spec_fabric *f = c->fabric;

    if (!f)
        return;
    c->nics = spec_group_nics(c->node, f);
    if (is_rdma(f) && c->nics.hcas->count)
        var_add(c, "NCCL_IB_HCA", names_text(c, c->nics.hcas),
                "The RDMA devices between the GPUs; = asks for whole names.", c->nics.hcas);
    if (f->kind == SPEC_FABRIC_ROCE && f->gid_index.known)
        var_add(c, "NCCL_IB_GID_INDEX", number_text(c, f->gid_index),
                "The GID that the fabric wants.", &f->gid_index);
    if (f->kind == SPEC_FABRIC_ROCE && f->traffic_class.known)
        var_add(c, "NCCL_IB_TC", number_text(c, f->traffic_class),
                "The traffic class of the fabric's lossless queue.", &f->traffic_class);
    if (f->kind == SPEC_FABRIC_ETHERNET && c->nics.interfaces->count)
        var_add(c, "NCCL_SOCKET_IFNAME", names_text(c, c->nics.interfaces),
                "The interfaces between the machines; = asks for whole names.", c->nics.interfaces);
}

void conf_collect(struct conf *c)
{
    const struct spec_pairs *env = &c->r->spec->nccl.env;

    c->vars = arena_array(&c->arena, struct conf_var, env->count + FABRIC_VARS_MAX);
    for (size_t i = 0; i < env->count; i++)
        var_add(c, env->items[i].key, env->items[i].value, NULL, &env->items[i]);
    c->fabric = fabric_of(c->r, c->node);
    of_fabric(c);
}

/* ---- the machine ---- */

static struct hw_env *env_of(struct conf *c)
{
    struct hw_env *e = arena_array(&c->arena, struct hw_env, c->count + 1);

    for (size_t i = 0; i < c->count; i++)
        e[i] = (struct hw_env){ .name = c->vars[i].name, .value = c->vars[i].value };
    return e;
}

static void make_gpus(struct conf *c, struct hw *hw)
{
    const struct spec_node *n = c->node;

    hw->gpus_count = (size_t)n->gpus_per_node;
    hw->gpus = arena_array(&c->arena, struct hw_gpu, hw->gpus_count);
    for (size_t i = 0; i < hw->gpus_count; i++) {
        hw->gpus[i].index = maybe_of((int64_t)i);
        hw->gpus[i].state = "ok";
    }
    if (hw->gpus_count < 2 || !n->gpu)
        return;
    hw->gpu_pairs_count = 1;
    hw->gpu_pairs = arena_new(&c->arena, struct hw_gpu_pair);
    hw->gpu_pairs[0].a = maybe_of(0);
    hw->gpu_pairs[0].b = maybe_of(1);
    if (n->gpu->link != SPEC_LINK_PCIE) {
        hw->gpu_pairs[0].nvlinks = maybe_of(1);
        hw->gpu_pairs[0].path = "NV1";
    }
}

static void make_port(struct conf *c, struct hw_rdma *d, size_t i)
{
    const struct spec_fabric *f = c->fabric;
    bool ib = f->kind == SPEC_FABRIC_INFINIBAND;
    struct hw_rdma_port *p = arena_new(&c->arena, struct hw_rdma_port);

    d->name =
        i < c->nics.hcas->count ? c->nics.hcas->items[i] : arena_printf(&c->arena, "mlx5_%zu", i);
    d->hca = "of the spec"; /* of some model: without one it would be RDMA in software */
    d->ports = p;
    d->ports_count = 1;
    p->port = maybe_of(1);
    p->state = "ACTIVE";
    p->link_layer = ib ? "InfiniBand" : "Ethernet";
    p->rate_mbps = maybe_of(c->nics.rate_bps / 1000000);
    if (ib)
        return;
    p->gids_count = 1;
    p->gids = arena_new(&c->arena, struct hw_gid);
    p->gids[0] = (struct hw_gid){ .index = maybe_of(3),
                                  .gid = arena_printf(
                                      &c->arena, "0000:0000:0000:0000:0000:ffff:0a00:%04zx", i + 1),
                                  .type = "RoCE v2",
                                  .ndev = arena_printf(&c->arena, "rail%zu", i) };
}

const struct hw *conf_machine(struct conf *c, const struct hw *seen)
{
    struct hw *hw = arena_new(&c->arena, struct hw);

    c->from_inventory = seen != NULL;
    if (c->from_inventory) {
        *hw = *seen;
    } else if (c->node) {
        make_gpus(c, hw);
        if (c->fabric && is_rdma(c->fabric)) {
            const struct spec_fabric *f = c->fabric;
            size_t count = (size_t)c->nics.count;

            if (count > MADE_PORTS_MAX)
                count = MADE_PORTS_MAX;
            hw->rdma_count = count;
            hw->rdma = arena_array(&c->arena, struct hw_rdma, count);
            hw->nets_count = f->kind == SPEC_FABRIC_ROCE ? count : 0;
            hw->nets = arena_array(&c->arena, struct hw_net, count);
            for (size_t i = 0; i < count; i++) {
                make_port(c, &hw->rdma[i], i);
                hw->nets[i] = (struct hw_net){ .name = arena_printf(&c->arena, "rail%zu", i),
                                               .ifindex = maybe_of((int64_t)i + 2),
                                               .up = maybe_of(1),
                                               .running = maybe_of(1),
                                               .rdma = hw->rdma[i].name };
            }
        }
        if (c->node->cpu_cores.known)
            hw->place.cpus_usable = maybe_of(c->node->cpu_cores.v * c->node->threads_per_core);
    }
    hw->place.env = env_of(c);
    hw->place.env_count = c->count;
    return hw;
}

/* Interfaces, GIDs and, unless it lists them, RDMA devices are not in a spec: what a finding says
 * of those holds only where the text itself shows it. */
bool conf_lint_holds(const struct conf *c, const struct nccl_lint *l)
{
    const char *v = l->value ? l->value : "";

    if (c->from_inventory)
        return true;
    if (str_eq(l->name, "NCCL_SOCKET_IFNAME"))
        return strlen(v) < 2;
    if (str_eq(l->name, "NCCL_IB_GID_INDEX"))
        return c->fabric && c->fabric->kind == SPEC_FABRIC_INFINIBAND;
    if (str_eq(l->name, "NCCL_IB_HCA"))
        return (c->fabric && is_rdma(c->fabric) && c->nics.hcas->count) ||
               strpbrk(v, "^*[](){}|$?+\\") || strstr(v, "found");
    if (str_eq(l->name, "NCCL_NET"))
        return !strcasecmp(v, "Socket"); /* others rest on drivers and plug-ins */
    if (str_eq(l->name, "NCCL_DMABUF_ENABLE"))
        return false; /* rests on drivers */
    return true;
}
