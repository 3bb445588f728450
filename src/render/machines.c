/* SPDX-License-Identifier: MIT */
/* machines: inventories of real machines beside what the spec says of their node group.
 *
 * A machine belongs to the group that lists its host name (with or without its domain); for render
 * one of another name goes to the only group whose machines it is like.  What is
 * checked is what a spec can say of a machine and an inventory can know: an unknown value
 * contradicts nothing.  A hard contradiction would make wrong files for every machine of the group
 * (another GPU, another link layer, a device that is not there); of the others a person decides. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "catalog/catalog.h"
#include "hw/compare/compare.h"
#include "plan/feasible.h"
#include "render/render_int.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>

enum { MODEL_WORDS_MAX = 8, MODEL_WORD_MAX = 24 };

/* ---- which group ---- */

static bool group_lists(const struct spec_node *n, const char *host)
{
    struct spec_walk w;

    for (spec_walk(&w, n); spec_walk_next(&w);)
        if (str_eq(w.name, host))
            return true;
    return false;
}

const struct spec_node *render_machine_group(const struct spec *s, const char *host)
{
    const char *dot = host ? strchr(host, '.') : NULL;
    const struct spec_node *found = NULL;
    char *first;

    for (size_t i = 0; host && i < s->node_count && !found; i++)
        found = group_lists(&s->nodes[i], host) ? &s->nodes[i] : NULL;
    if (found || !dot)
        return found;
    first = xstrndup(host, (size_t)(dot - host));
    found = render_machine_group(s, first);
    free(first);
    return found;
}

/* ---- what contradicts ---- */

void render_facts_release(struct render_facts *f)
{
    arena_release(&f->arena);
    free(f->items);
    *f = (struct render_facts){ 0 };
}

struct machine_compared {
    const struct spec *s;
    const struct spec_node *n;
    const struct hw *hw;
    struct render_facts *out;
    struct cat_gpu_table gpus; /* the catalogue's */
};

static void fact_add(struct machine_compared *k, bool hard, const void *member, const char *what,
                     const char *wanted, const char *found)
{
    struct render_facts *f = k->out;

    VEC_GROW(f->items, f->count, f->cap);
    f->items[f->count++] = (struct render_fact){ .member = member,
                                                 .hard = hard,
                                                 .what = arena_strdup(&f->arena, what),
                                                 .spec = arena_strdup(&f->arena, wanted),
                                                 .found = arena_strdup(&f->arena, found) };
}

static void fact_number(struct machine_compared *k, bool hard, const void *member, const char *what,
                        int64_t wanted, int64_t found)
{
    char a[24], b[24];

    (void)snprintf(a, sizeof(a), "%" PRId64, wanted);
    (void)snprintf(b, sizeof(b), "%" PRId64, found);
    fact_add(k, hard, member, what, a, b);
}

static void fact_least(struct machine_compared *k, const void *member, const char *what,
                       int64_t wanted, int64_t found)
{
    fact_number(k, false, member, what, wanted, found);
    k->out->items[k->out->count - 1].least = true;
}

static void fact_bytes(struct machine_compared *k, bool hard, const void *member, const char *what,
                       int64_t wanted, int64_t found)
{
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

    fact_add(k, hard, member, what, units_bytes_exact((uint64_t)wanted, a),
             units_bytes_human((uint64_t)found, b));
}

/* One fact for all devices of which it says the same: "rate of mlx5_0, mlx5_1". */
static void fact_named(struct machine_compared *k, bool hard, const void *member, const char *what,
                       const char *name, const char *wanted, const char *found)
{
    struct render_facts *f = k->out;

    for (size_t i = 0; i < f->count; i++) {
        struct render_fact *x = &f->items[i];

        if (x->member == member && x->hard == hard && str_eq(x->spec, wanted) &&
            str_eq(x->found, found) && str_starts(x->what, what)) {
            x->what = arena_printf(&f->arena, "%s, %.100s", x->what, name);
            return;
        }
    }
    fact_add(k, hard, member, arena_printf(&f->arena, "%s %.100s", what, name), wanted, found);
}

/* Did the spec say it, or is it a default? */
static bool is_said(const struct machine_compared *k, const void *member)
{
    return spec_where(k->s, member).line > 0;
}

/* Firmware and kernel keep some of a memory for themselves, and makers count in both GB and GiB. */
static bool size_off(int64_t wanted, int64_t found)
{
    return found < wanted - wanted / 8 || found > wanted + wanted / 6;
}

/* ---- GPUs ---- */

struct model_words {
    char items[MODEL_WORDS_MAX][MODEL_WORD_MAX];
    size_t count;
};

static struct model_words model_split(const char *s)
{
    struct model_words w = { 0 };
    size_t len = 0;

    for (; s && w.count < MODEL_WORDS_MAX; s++) {
        if (isalnum((unsigned char)*s) && len + 1 < MODEL_WORD_MAX)
            w.items[w.count][len++] = (char)toupper((unsigned char)*s);
        else if (len) {
            w.count++;
            len = 0;
        }
        if (!*s)
            break;
    }
    return w;
}

static bool model_has(const struct model_words *w, const char *word, bool prefix)
{
    for (size_t i = 0; i < w->count; i++)
        if (prefix ? str_starts(w->items[i], word) : str_eq(w->items[i], word))
            return true;
    return false;
}

static bool is_size(const char *word)
{
    size_t digits = strspn(word, "0123456789");

    return digits && (str_eq(word + digits, "GB") || str_eq(word + digits, "G"));
}

/* Words of a name that say how a GPU is built in: the driver does not always tell them. */
static bool is_form(const char *word)
{
    static const char *const forms[] = { "NVIDIA", "TESLA", "GEFORCE", "SXM", "PCIE", "PCI",
                                         "E",      "HBM",   "NVL",     "HGX", "DGX" };

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        if (str_starts(word, forms[i]) &&
            !word[strlen(forms[i]) + strspn(word + strlen(forms[i]), "0123456789")])
            return true;
    return false;
}

/* "H100 SXM" is what the driver calls "NVIDIA H100 80GB HBM3", and not "NVIDIA H100 PCIe". */
static bool render_gpu_is(const char *model, const char *product)
{
    struct model_words a = model_split(model), b = model_split(product);
    bool sized = false;

    for (size_t i = 0; i < b.count; i++)
        sized |= is_size(b.items[i]);
    for (size_t i = 0; i < a.count; i++) {
        if (is_form(a.items[i]) || (is_size(a.items[i]) && !sized))
            continue;
        if (!model_has(&b, a.items[i], false))
            return false;
    }
    return !(model_has(&a, "PCI", true) && model_has(&b, "SXM", true)) &&
           !(model_has(&a, "SXM", true) && model_has(&b, "PCI", true));
}

static bool gpu_works(const struct hw_gpu *g)
{
    return !str_eq(g->state, "lost") && !str_eq(g->state, "error");
}

static void check_gpu_count(struct machine_compared *k)
{
    int64_t want = k->n->gpus_per_node, have = 0, seen = (int64_t)k->hw->gpus_count;
    char wanted[24], found[64];

    for (size_t i = 0; i < k->hw->gpus_count; i++)
        have += gpu_works(&k->hw->gpus[i]);
    if (have == want)
        return;
    (void)snprintf(wanted, sizeof(wanted), "%" PRId64, want);
    (void)snprintf(found, sizeof(found), "%" PRId64, have);
    if (have < seen)
        (void)snprintf(found, sizeof(found), "%" PRId64 " and %" PRId64 " that %s not work", have,
                       seen - have, seen - have == 1 ? "does" : "do");
    fact_add(k, have == seen, &k->n->gpus_per_node, "GPUs", wanted, found);
}

/* What the driver tells is near to what the card is sold with; where the catalogue has the card, a
 * size of the spec that is neither is another card's, be it as near as 94 GB to 80. */
static bool gpu_memory_off(struct machine_compared *k, int64_t wanted, const struct hw_gpu *g)
{
    const struct cat_gpu *sold = cat_gpu_find(&k->gpus, maybe_none(), g->name);
    int64_t found = g->mem_total_bytes.v;

    if (size_off(wanted, found))
        return true;
    return sold && !cat_gpu_memory_is(sold, wanted) &&
           (wanted < found - found / 32 || wanted > found + found / 32);
}

static void check_gpu(struct machine_compared *k, const struct spec_gpu *want,
                      const struct hw_gpu *g)
{
    bool mig = want->sharing == SPEC_SHARING_MIG || want->mig_profile;

    if (want->model && g->name && !render_gpu_is(want->model, g->name))
        fact_add(k, true, &want->model, "GPU model", want->model, g->name);
    else if (want->memory_bytes.known && g->mem_total_bytes.known &&
             gpu_memory_off(k, want->memory_bytes.v, g))
        fact_bytes(k, false, &want->memory_bytes, "GPU memory", want->memory_bytes.v,
                   g->mem_total_bytes.v);
    if (g->mig.known && (g->mig.v != 0) != mig)
        fact_add(k, false, mig ? (const void *)&want->sharing : want, "MIG", mig ? "on" : "off",
                 g->mig.v ? "on" : "off");
    if (is_said(k, &want->ecc) && g->ecc.known && (g->ecc.v != 0) != want->ecc)
        fact_add(k, false, &want->ecc, "ECC", want->ecc ? "on" : "off", g->ecc.v ? "on" : "off");
    if (is_said(k, &want->persistence) && g->persistence.known &&
        (g->persistence.v != 0) != want->persistence)
        fact_add(k, false, &want->persistence, "persistence mode", want->persistence ? "on" : "off",
                 g->persistence.v ? "on" : "off");
    if (want->power_limit_w.known && g->power_limit_mw.known &&
        g->power_limit_mw.v / 1000 != want->power_limit_w.v)
        fact_number(k, false, &want->power_limit_w, "power limit in W", want->power_limit_w.v,
                    g->power_limit_mw.v / 1000);
}

/* The generation of NVLink that joins all GPUs; 0: none does, though some may be bridged. */
static struct maybe nvlink_found(const struct hw *hw)
{
    int64_t version = 0;

    if (!hw->gpu_pairs_count)
        return maybe_none();
    for (size_t i = 0; i < hw->gpu_pairs_count; i++) {
        if (!hw->gpu_pairs[i].nvlinks.known)
            return maybe_none();
        if (!hw->gpu_pairs[i].nvlinks.v)
            return maybe_of(0);
    }
    for (size_t i = 0; i < hw->gpus_count; i++)
        for (size_t n = 0; n < hw->gpus[i].nvlinks_count; n++)
            if (maybe_or(hw->gpus[i].nvlinks[n].version, 0) > version)
                version = hw->gpus[i].nvlinks[n].version.v;
    return version ? maybe_of(version) : maybe_none();
}

static void check_link(struct machine_compared *k)
{
    static const int generations[] = { [SPEC_LINK_PCIE] = 0,
                                       [SPEC_LINK_NVLINK2] = 2,
                                       [SPEC_LINK_NVLINK3] = 3,
                                       [SPEC_LINK_NVLINK4] = 4,
                                       [SPEC_LINK_NVLINK5] = 5 };
    const struct spec_gpu *want = k->n->gpu;
    struct maybe found = nvlink_found(k->hw);
    char a[24] = "pcie", b[24] = "pcie";

    if (!want || !is_said(k, &want->link) || !found.known || found.v == generations[want->link])
        return;
    if (generations[want->link])
        (void)snprintf(a, sizeof(a), "nvlink%d", generations[want->link]);
    if (found.v)
        (void)snprintf(b, sizeof(b), "nvlink%" PRId64, found.v);
    fact_add(k, false, &want->link, "link between the GPUs", a, b);
}

/* Each kind of contradiction once: the first GPU that has it speaks for all. */
static void check_gpus(struct machine_compared *k)
{
    size_t before = k->out->count;

    check_gpu_count(k);
    for (size_t i = 0; k->n->gpu && i < k->hw->gpus_count; i++) {
        size_t first = k->out->count;

        if (gpu_works(&k->hw->gpus[i]))
            check_gpu(k, k->n->gpu, &k->hw->gpus[i]);
        for (size_t j = first; j < k->out->count;) {
            bool twice = false;

            for (size_t e = before; e < first && !twice; e++)
                twice = str_eq(k->out->items[e].what, k->out->items[j].what);
            if (twice)
                k->out->items[j] = k->out->items[--k->out->count];
            else
                j++;
        }
    }
}

/* ---- processors, memory ---- */

/* Less than Slurm would be told of a machine of this group: it would drain it. */
static bool memory_short(const struct spec_node *n, int64_t found)
{
    return found / (1 << 20) < feasible_slurm_mib(n);
}

static void check_host(struct machine_compared *k)
{
    const struct spec_node *n = k->n;
    const struct hw_cpu *cpu = &k->hw->cpu;
    const struct maybe mem = k->hw->memory.total_bytes;

    const char *arch = n->arch == SPEC_ARCH_AARCH64 ? "aarch64" : "x86_64";

    if (cpu->arch && !str_eq(cpu->arch, arch))
        fact_add(k, true, is_said(k, &n->arch) ? (const void *)&n->arch : n, "architecture", arch,
                 cpu->arch);
    if (n->cpu_cores.known && cpu->cores.known && n->cpu_cores.v != cpu->cores.v)
        fact_least(k, &n->cpu_cores, "CPU cores", n->cpu_cores.v, cpu->cores.v);
    if (is_said(k, &n->sockets) && cpu->sockets.known && cpu->sockets.v != n->sockets)
        fact_number(k, false, &n->sockets, "sockets", n->sockets, cpu->sockets.v);
    if (is_said(k, &n->threads_per_core) && cpu->cores.known && cpu->threads.known &&
        cpu->cores.v > 0 && cpu->threads.v / cpu->cores.v != n->threads_per_core)
        fact_least(k, &n->threads_per_core, "threads a core", n->threads_per_core,
                   cpu->threads.v / cpu->cores.v);
    if (n->memory_bytes.known && mem.known &&
        (size_off(n->memory_bytes.v, mem.v) || memory_short(n, mem.v))) {
        fact_bytes(k, false, &n->memory_bytes, "memory", n->memory_bytes.v, mem.v);
        k->out->items[k->out->count - 1].least = true;
    }
}

/* ---- networks ---- */

static const char *layer_of(const struct spec_fabric *f)
{
    return f->kind == SPEC_FABRIC_INFINIBAND ? "InfiniBand"
           : f->kind == SPEC_FABRIC_ROCE     ? "Ethernet"
                                             : NULL;
}

static size_t ports_count(const struct hw *hw, const char *layer)
{
    size_t n = 0;

    for (size_t i = 0; i < hw->rdma_count; i++)
        for (size_t p = 0; p < hw->rdma[i].ports_count; p++)
            n += !maybe_is(hw->rdma[i].vf, 1) && str_eq(hw->rdma[i].ports[p].link_layer, layer);
    return n;
}

static bool port_slow(const struct hw_rdma_port *p, const struct spec_nics_of *nics)
{
    return p->rate_mbps.known && str_eq(p->state, "ACTIVE") &&
           p->rate_mbps.v < nics->rate_bps / 1000000;
}

static void check_rate(struct machine_compared *k, const struct spec_nics_of *nics,
                       const struct hw_rdma_port *p, const char *name)
{
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

    if (port_slow(p, nics))
        fact_named(k, false, nics->rate_at, "rate of", name,
                   units_rate_exact((uint64_t)nics->rate_bps, a),
                   units_rate_exact((uint64_t)p->rate_mbps.v * 1000000, b));
}

/* Without names: do so many of the ports run at the spec's rate as it counts NICs?  Others may be
 * of another network, so that no more than it counts are told. */
static void check_rates(struct machine_compared *k, const struct spec_nics_of *nics,
                        const char *layer)
{
    char a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX], what[64];
    int64_t slow = 0, fastest = 0, all = (int64_t)ports_count(k->hw, layer);

    for (size_t i = 0; i < k->hw->rdma_count; i++)
        for (size_t n = 0; n < k->hw->rdma[i].ports_count; n++) {
            const struct hw_rdma_port *p = &k->hw->rdma[i].ports[n];

            if (maybe_is(k->hw->rdma[i].vf, 1) || !str_eq(p->link_layer, layer) ||
                !port_slow(p, nics))
                continue;
            slow++;
            fastest = p->rate_mbps.v > fastest ? p->rate_mbps.v : fastest;
        }
    if (!slow || all - slow >= nics->count)
        return;
    slow = slow < nics->count ? slow : nics->count;
    (void)snprintf(what, sizeof(what), "rate of %" PRId64 " RDMA port%s", slow,
                   slow == 1 ? "" : "s");
    fact_add(k, false, nics->rate_at, what, units_rate_exact((uint64_t)nics->rate_bps, a),
             units_rate_exact((uint64_t)fastest * 1000000, b));
}

static void check_hca(struct machine_compared *k, const struct spec_fabric *f,
                      const struct spec_nics_of *nics, const char *const *name)
{
    const struct hw_rdma *d = hw_find_rdma(k->hw, *name);
    const char *layer = layer_of(f);
    char what[160];

    (void)snprintf(what, sizeof(what), "RDMA device %.100s", *name);
    if (!d) {
        fact_add(k, true, name, what, "there", "missing");
        return;
    }
    for (size_t i = 0; i < d->ports_count; i++) {
        if (layer && d->ports[i].link_layer && !str_eq(d->ports[i].link_layer, layer))
            fact_named(k, true, &f->kind, "RDMA device", *name, layer, d->ports[i].link_layer);
        else
            check_rate(k, nics, &d->ports[i], *name);
    }
}

static void check_interfaces(struct machine_compared *k, const struct spec_fabric *f,
                             const struct spec_nics_of *nics)
{
    const struct spec_strs *names = nics->interfaces;

    for (size_t i = 0; i < names->count; i++) {
        const struct hw_net *n = hw_find_net(k->hw, names->items[i]);
        char what[160], a[UNITS_TEXT_MAX], b[UNITS_TEXT_MAX];

        (void)snprintf(what, sizeof(what), "interface %.100s", names->items[i]);
        if (!n) {
            fact_add(k, true, &names->items[i], what, "there", "missing");
            continue;
        }
        (void)snprintf(a, sizeof(a), "%" PRId64, f->mtu);
        (void)snprintf(b, sizeof(b), "%" PRId64, maybe_or(n->mtu, 0));
        if (is_said(k, &f->mtu) && n->mtu.known && n->mtu.v != f->mtu)
            fact_named(k, false, &f->mtu, "MTU of", names->items[i], a, b);
        if (!layer_of(f) && n->speed_mbps.known && n->speed_mbps.v > 0 &&
            str_eq(n->operstate, "up") && n->speed_mbps.v < nics->rate_bps / 1000000)
            fact_named(k, false, nics->rate_at, "rate of", names->items[i],
                       units_rate_exact((uint64_t)nics->rate_bps, a),
                       units_rate_exact((uint64_t)n->speed_mbps.v * 1000000, b));
    }
}

static void check_fabrics(struct machine_compared *k)
{
    for (size_t i = 0; i < k->n->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(k->s, k->n->fabrics.items[i]);

        struct spec_nics_of nics;

        if (!f || f->sriov) /* what a pod sees of virtual functions is another matter */
            continue;
        nics = spec_group_nics(k->n, f);
        for (size_t h = 0; layer_of(f) && h < nics.hcas->count; h++)
            check_hca(k, f, &nics, &nics.hcas->items[h]);
        if (!nics.hcas->count) {
            /* Without names: are there as many ports of this kind as the spec counts? */
            const char *layer = layer_of(f);
            const char *other = f->kind == SPEC_FABRIC_INFINIBAND ? "Ethernet" : "InfiniBand";
            size_t have, others;

            if (layer) {
                have = ports_count(k->hw, layer);
                others = ports_count(k->hw, other);
                if (!have && others)
                    fact_add(k, true, &f->kind, "link layer of the RDMA ports", layer, other);
                else if ((int64_t)have < nics.count)
                    fact_number(k, false, is_said(k, nics.count_at) ? nics.count_at : f,
                                "RDMA ports", nics.count, (int64_t)have);
                check_rates(k, &nics, layer);
            }
        }
        check_interfaces(k, f, &nics);
    }
}

void render_machine_check(const struct spec *s, const struct spec_node *n, const struct hw *hw,
                          struct render_facts *out)
{
    struct machine_compared k = { .s = s, .n = n, .hw = hw, .out = out };
    struct arena a = { 0 };

    if (cat_gpu_load(&a, &k.gpus, NULL))
        k.gpus.count = 0;
    check_gpus(&k);
    check_link(&k);
    arena_release(&a);
    check_host(&k);
    check_fabrics(&k);
}

/* ---- for a run of render ---- */

const struct hw *render_machine_next(const struct render *r, const struct spec_node *n, size_t *at)
{
    while (*at < r->machine_count) {
        const struct render_machine *m = &r->machines[(*at)++];

        if (m->node == n)
            return m->hw;
    }
    return NULL;
}

/* As many GPUs of the same kind, and the same cores. */
static bool is_like(const struct spec_node *n, const struct hw *hw)
{
    if (!n->gpus_per_node || (int64_t)hw->gpus_count != n->gpus_per_node)
        return false;
    if (n->cpu_cores.known && hw->cpu.cores.known && n->cpu_cores.v != hw->cpu.cores.v)
        return false;
    for (size_t i = 0; n->gpu && n->gpu->model && i < hw->gpus_count; i++)
        if (hw->gpus[i].name && !render_gpu_is(n->gpu->model, hw->gpus[i].name))
            return false;
    return true;
}

static const struct spec_node *like_find(const struct spec *s, const struct hw *hw)
{
    const struct spec_node *found = NULL;

    for (size_t i = 0; i < s->node_count; i++) {
        if (!is_like(&s->nodes[i], hw))
            continue;
        if (found)
            return NULL;
        found = &s->nodes[i];
    }
    return found;
}

static const char *machine_name(const struct render_machine *m)
{
    return m->hw->place.hostname ? m->hw->place.hostname : m->name ? m->name : "a machine";
}

static const struct spec_node *only_gpus(const struct spec *s)
{
    const struct spec_node *found = NULL;

    for (size_t i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].gpus_per_node)
            continue;
        if (found)
            return NULL;
        found = &s->nodes[i];
    }
    return found;
}

/* Sets the machine's group; one that is taken for its likeness, or not at all, is told.  Returns
 * the group to hold it against, and in `out_sure` whether it is one of it for certain. */
static const struct spec_node *machine_place(struct render *r, struct render_machine *m,
                                             bool *out_sure)
{
    const struct spec *s = r->spec;
    const struct spec_node *only = only_gpus(s);

    m->node = render_machine_group(s, m->hw->place.hostname);
    if (!m->node)
        m->node = render_machine_group(s, m->name);
    *out_sure = m->node != NULL;
    if (m->node)
        return m->node;
    m->node = like_find(s, m->hw);
    if (!m->node)
        render_warn(r,
                    only            ? only
                    : s->node_count ? (const void *)&s->nodes[0]
                                    : s,
                    "List its host name in the group it belongs to; its inventory is not used.",
                    "machine '%s' is in no node group, nor like the machines of one",
                    machine_name(m));
    else if (m->node != only || m->node->hosts)
        render_warn(r, m->node->hosts ? (const void *)&m->node->hosts : m->node,
                    "List its host name, or give the inventory of a machine that is listed.",
                    "no node group lists machine '%s'; it is taken for one of '%s', whose machines "
                    "it is like",
                    machine_name(m), m->node->name);
    return m->node ? m->node : only;
}

struct told { /* one contradiction, of some machines of a group */
    struct render_fact fact;
    const struct spec_node *node;
    struct hw_compare_set set;
};

static void told_add(struct told **told, size_t *count, size_t *cap, const struct told *t,
                     size_t machine)
{
    size_t i = 0;

    for (; i < *count; i++)
        if ((*told)[i].fact.member == t->fact.member && (*told)[i].node == t->node &&
            (*told)[i].fact.hard == t->fact.hard && str_eq((*told)[i].fact.what, t->fact.what) &&
            str_eq((*told)[i].fact.found, t->fact.found))
            break;
    if (i == *count) {
        VEC_GROW(*told, *count, *cap);
        (*told)[(*count)++] = *t;
    }
    (*told)[i].set.bits[machine / 64] |= (uint64_t)1 << (machine % 64);
}

static void told_tell(struct render *r, const struct told *t, const char *const *names,
                      size_t count)
{
    struct buf who = { 0 };
    const char *hint =
        t->fact.least ? "The smaller one is written: Slurm drains a machine that has less than "
                        "it is said to have. Change the spec or the machine."
                      : "Change the spec or the machine; "
                        "'stoker detect --compare --nodes SPEC' shows all that differs.";

    hw_compare_names(&t->set, names, count, &who);
    (t->fact.hard ? render_refuse : render_warn)(r, t->fact.member, hint,
                                                 "%s: %s on %s, the spec says %s", t->fact.what,
                                                 t->fact.found, buf_str(&who), t->fact.spec);
    buf_release(&who);
}

static bool same_host(const struct render_machine *a, const struct render_machine *b)
{
    return a->hw->place.hostname && str_eq(a->hw->place.hostname, b->hw->place.hostname);
}

void render_machines_place(struct render *r, struct render_machine *machines, size_t count)
{
    struct render_facts *facts = xcalloc(count + 1, sizeof(*facts));
    const char **names = xcalloc(count + 1, sizeof(*names));
    struct told *told = NULL;
    size_t told_count = 0, told_cap = 0;
    struct arena a = { 0 };

    for (size_t i = 0; i < count; i++) {
        bool sure;
        const struct spec_node *n = machine_place(r, &machines[i], &sure);

        if (n)
            render_machine_check(r->spec, n, machines[i].hw, &facts[i]);
        for (size_t k = 0; k < facts[i].count; k++) {
            struct told t = { .fact = facts[i].items[k], .node = n };

            t.fact.hard = t.fact.hard && sure;
            told_add(&told, &told_count, &told_cap, &t, i);
        }
    }
    /* Two inventories of one host: told, and named by their files from there on. */
    for (size_t i = 0; i < count; i++)
        names[i] = machine_name(&machines[i]);
    for (size_t i = 1; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct render_machine *x = &machines[k], *y = &machines[i];

            if (!same_host(x, y))
                continue;
            names[k] = arena_printf(&a, "%s (%s)", machine_name(x), x->name ? x->name : "-");
            names[i] = arena_printf(&a, "%s (%s)", machine_name(y), y->name ? y->name : "-");
            render_warn(r, x->node ? x->node : r->spec->nodes,
                        "Leave the older one out; the smaller figures of the two are used.",
                        "two inventories are of machine '%s': '%s' and '%s'", machine_name(x),
                        x->name ? x->name : "-", y->name ? y->name : "-");
            break;
        }
    for (size_t i = 0; i < told_count; i++)
        told_tell(r, &told[i], names, count);
    for (size_t i = 0; i < count; i++)
        render_facts_release(&facts[i]);
    arena_release(&a);
    free(facts);
    free(names);
    free(told);
}

/* ---- what a group's machines have at least ---- */

/* The machine of the group with the fewest cores, and the least memory of all. */
static struct spec_found found_least(const struct spec_node *n,
                                     const struct render_machine *machines, size_t count,
                                     const char **from_cores, const char **from_memory)
{
    struct spec_found f = { 0 };

    for (size_t i = 0; i < count; i++) {
        const struct hw_cpu *cpu = &machines[i].hw->cpu;
        struct maybe mem = machines[i].hw->memory.total_bytes;

        if (machines[i].node != n)
            continue;
        if (cpu->cores.known && (!f.cpu_cores.known || cpu->cores.v < f.cpu_cores.v)) {
            bool even = cpu->threads.known && cpu->threads.v % cpu->cores.v == 0;

            f.cpu_cores = cpu->cores;
            f.sockets = cpu->sockets;
            f.threads_per_core = even ? maybe_of(cpu->threads.v / cpu->cores.v) : maybe_none();
            *from_cores = machine_name(&machines[i]);
        }
        if (mem.known && (!f.memory_bytes.known || mem.v < f.memory_bytes.v)) {
            f.memory_bytes = mem;
            *from_memory = machine_name(&machines[i]);
        }
    }
    return f;
}

static void group_learn(struct spec *s, const struct spec_node *n,
                        const struct render_machine *machines, size_t count)
{
    const char *from_cores = "", *from_memory = "";
    struct spec_found f = found_least(n, machines, count, &from_cores, &from_memory);
    struct spec_found cores = f, memory = { .memory_bytes = f.memory_bytes };
    char from[160];

    cores.memory_bytes = maybe_none();
    if (!f.cpu_cores.known || (n->cpu_cores.known && n->cpu_cores.v < f.cpu_cores.v))
        cores = (struct spec_found){ 0 }; /* fewer are safe */
    if (cores.cpu_cores.known && cores.sockets.known &&
        (cores.cpu_cores.v % cores.sockets.v ||
         (spec_where(s, &n->sockets).line && cores.cpu_cores.v % n->sockets == 0)))
        cores.sockets = maybe_none();
    if (spec_where(s, &n->threads_per_core).line &&
        maybe_or(cores.threads_per_core, 0) > n->threads_per_core)
        cores.threads_per_core = maybe_none();
    (void)snprintf(from, sizeof(from), "the inventory of %.120s", from_cores);
    spec_node_learn(s, n, &cores, from);
    if (n->memory_bytes.known && f.memory_bytes.known && !memory_short(n, f.memory_bytes.v))
        memory.memory_bytes = maybe_none();
    (void)snprintf(from, sizeof(from), "the inventory of %.120s", from_memory);
    spec_node_learn(s, n, &memory, from);
}

void render_machines_learn(struct spec *s, const struct render_machine *machines, size_t count)
{
    for (size_t i = 0; i < s->node_count; i++)
        group_learn(s, &s->nodes[i], machines, count);
}
