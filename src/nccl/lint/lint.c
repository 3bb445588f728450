/* SPDX-License-Identifier: MIT */
/* lint: known mistakes in the variables that are set, each with what it costs here.
 *
 * Every check has been seen in the field (docs/user/nccl.md).  A check looks at the
 * inventory first: a pattern that happens to do no harm on this machine is worth
 * a remark at most. */
#include "nccl/nccl_int.h"

#include "base/str.h"
#include "catalog/catalog.h"

#include <errno.h>
#include <strings.h>

enum { LINT_MAX = 256 };

static void lint_keep(struct lint_run *r, const struct nccl_lint *l, const char *fmt, va_list ap)
{
    struct nccl_lints *all = r->out;
    struct buf b = { 0 };

    if (all->count == LINT_MAX)
        return;
    buf_vaddf(&b, fmt, ap);
    all->items[all->count++] = (struct nccl_lint){
        .name = arena_strdup(&all->arena, l->name),
        .value = arena_strdup(&all->arena, hw_env_get(r->hw, l->name)),
        .severity = l->severity,
        .message = nccl_text(&all->arena, &b),
        .remedy = arena_strdup(&all->arena, l->remedy),
        .followed = l->followed,
    };
}

void lint_add(struct lint_run *r, const char *name, enum nccl_severity sev, const char *remedy,
              const char *fmt, ...)
{
    struct nccl_lint l = { .name = name, .severity = sev, .remedy = remedy };
    va_list ap;

    va_start(ap, fmt);
    lint_keep(r, &l, fmt, ap);
    va_end(ap);
}

/* Of a value that NCCL follows, as its name says: somebody may want it, whatever it costs. */
PRINTF_LIKE(5, 6)
static void lint_add_cost(struct lint_run *r, const char *name, enum nccl_severity sev,
                          const char *remedy, const char *fmt, ...)
{
    struct nccl_lint l = { .name = name, .severity = sev, .remedy = remedy, .followed = true };
    va_list ap;

    va_start(ap, fmt);
    lint_keep(r, &l, fmt, ap);
    va_end(ap);
}

/* RDMA that would be used if nobody had turned it off. */
static size_t active_ports(const struct lint_run *r)
{
    size_t n = 0;

    FOR_EACH(const struct nccl_port, p, r->choice.ports) {
        const struct hw_rdma *d = hw_find_rdma(r->hw, p->dev);

        const struct hw_rdma_port *hp = ports_find(r->hw, p->dev, p->port);

        n += str_eq(p->state, "ACTIVE") && d && hp && !maybe_is(d->openable, 0) &&
             !ports_is_iwarp(r->hw, p->dev) && !ports_is_soft(r->hw, p->dev) &&
             (str_eq(p->link_layer, "InfiniBand") ||
              (str_eq(p->link_layer, "Ethernet") && gid_port_class(r->hw, hp) != GID_NONE));
    }
    return n;
}

static bool has_nvlink(const struct hw *hw)
{
    for (size_t i = 0; i < hw->gpu_pairs_count; i++)
        if (level_gpu_pair(hw, &hw->gpu_pairs[i]) == LEVEL_NVL)
            return true;
    return false;
}

static void lint_disable(struct lint_run *r)
{
    const char *net = nccl_env_of(r->hw, "NCCL_NET");
    size_t n = active_ports(r);

    if (nccl_env_int(r->hw, "NCCL_IB_DISABLE", 0) != 0 && n && !ports_hidden(r->hw))
        lint_add_cost(r, "NCCL_IB_DISABLE", NCCL_ERROR, "Unset it.",
                      "%zu active RDMA port%s unused: traffic between nodes goes over TCP.", n,
                      n == 1 ? " stays" : "s stay");
    if (net && !strcasecmp(net, "IB") && !r->choice.efa && !ports_hidden(r->hw) &&
        !str_eq(r->choice.net, "rdma"))
        lint_add(r, "NCCL_NET", NCCL_ERROR, "Unset it, or find out why no port can be used.",
                 "No RDMA port can be used here, and NCCL fails instead of going over TCP.");
    if (net && !strcasecmp(net, "Socket") && n && !ports_hidden(r->hw))
        lint_add_cost(r, "NCCL_NET", NCCL_ERROR, "Unset it.",
                      "%zu active RDMA port%s unused: traffic between nodes goes over TCP.", n,
                      n == 1 ? " stays" : "s stay");
}

/* EFA goes by its plug-in only. */
static void lint_plugin(struct lint_run *r)
{
    const char *off = doubt_plugin_off(r->hw);

    if (doubt_net_named(r->hw))
        lint_add_cost(
            r, "NCCL_NET", NCCL_WARN,
            "Unset it, unless that is what the plug-in calls itself (`Using network` in the "
            "output of NCCL_DEBUG=INFO).",
            "NCCL takes a network of that name only: its own are IB and Socket%s, and it "
            "stops with an error where there is none.",
            doubt_net_plugin(r->hw) ? "" : ", no net plug-in was found here");
    if (!off || !r->choice.efa ||
        !(r->hw->nccl.net_plugin || hw_soft_found(r->hw, "nccl-net-plugin")))
        return;
    lint_add_cost(r, str_starts(off, "NCCL_NET_PLUGIN") ? "NCCL_NET_PLUGIN" : "NCCL_NET",
                  NCCL_ERROR, "Unset it.", "%s", r->choice.net_why);
}

static void lint_level_text(struct lint_run *r, const char *name)
{
    const char *v = nccl_env_of(r->hw, name);
    enum nccl_level l = level_of_env(r->hw, name);

    if (!v)
        return;
    if (l == LEVEL_NONE)
        lint_add(r, name, NCCL_WARN, "Use LOC, NVL, PIX, PXB, PHB or SYS, or unset it.",
                 "NCCL has no level of that name and ignores it; its default applies.");
    else if (*v >= '0' && *v <= '9')
        lint_add(
            r, name, NCCL_WARN, "Write the level by name, or unset it.",
            "The number is an old way to write %s (0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and more SYS) "
            "and means another distance than people expect.",
            level_name(l));
}

static void lint_levels(struct lint_run *r)
{
    enum nccl_level gdr = level_of_env(r->hw, "NCCL_NET_GDR_LEVEL");
    enum nccl_level p2p = level_of_env(r->hw, "NCCL_P2P_LEVEL");
    bool nvlink = has_nvlink(r->hw);

    lint_level_text(r, "NCCL_NET_GDR_LEVEL");
    lint_level_text(r, "NCCL_P2P_LEVEL");
    if (gdr == LEVEL_SYS)
        lint_add_cost(
            r, "NCCL_NET_GDR_LEVEL", NCCL_WARN,
            "Use PXB or PHB, or unset it, unless SYS was measured to be faster.",
            "SYS lets NICs reach GPUs across the sockets' interconnect, which is often slower "
            "than a copy through host memory.");
    if (p2p == LEVEL_LOC && r->hw->gpu_pairs_count)
        lint_add_cost(r, "NCCL_P2P_LEVEL", nvlink ? NCCL_ERROR : NCCL_WARN, "Unset it.",
                      "No two GPUs copy directly%s: data goes through host memory.",
                      nvlink ? ", not even over NVLink" : "");
    if ((p2p == LEVEL_NVL || p2p == LEVEL_NVB) && r->hw->gpu_pairs_count && !nvlink)
        lint_add_cost(r, "NCCL_P2P_LEVEL", NCCL_WARN, "Unset it.",
                      "There is no NVLink here, so this turns direct copies between GPUs off.");
}

static void lint_p2p(struct lint_run *r)
{
    bool nvlink = has_nvlink(r->hw);

    if (nccl_env_int(r->hw, "NCCL_P2P_DISABLE", 0) == 1)
        lint_add_cost(
            r, "NCCL_P2P_DISABLE", nvlink ? NCCL_ERROR : NCCL_WARN, "Unset it.",
            nvlink ? "NVLink joins the GPUs and stays unused: data between them goes through "
                     "host memory."
                   : "GPUs do not copy directly: data between them goes through host memory.");
    if (nccl_env_int(r->hw, "NCCL_SHM_DISABLE", 0) == 1)
        lint_add_cost(
            r, "NCCL_SHM_DISABLE", NCCL_WARN, "Unset it, and give the container a larger /dev/shm.",
            "GPUs of this node without a direct path talk over the network instead of shared "
            "memory.");
}

static void lint_dmabuf(struct lint_run *r)
{
    const char *v = nccl_env_of(r->hw, "NCCL_DMABUF_ENABLE");

    if (!v || nccl_env_int(r->hw, "NCCL_DMABUF_ENABLE", 1) != 0)
        return;
    if (!r->hw->limits.peermem)
        lint_add_cost(
            r, "NCCL_DMABUF_ENABLE", NCCL_ERROR, "Unset it, or load nvidia_peermem.",
            "No peer-memory module is loaded, so dma-buf is the only way to GPUDirect RDMA; "
            "without it four 400 Gb/s NICs were measured at 35.4 instead of 194.6 GB/s.");
    else
        lint_add_cost(r, "NCCL_DMABUF_ENABLE", NCCL_INFO, "Unset it, so that either way can serve.",
                      "GPUDirect RDMA rests on %s alone.", r->hw->limits.peermem);
}

/* What a fixed algorithm or protocol costs. */
static const char *pinned_cost(const char *v, bool proto)
{
    if (strchr(v, '^'))
        return "what it leaves out is not used where it would be the fastest";
    if (proto && strcasestr(v, "LL128"))
        return "one fixed choice is slow for the others, and a forced LL128 corrupts data where it "
               "is not safe";
    if (!proto && !strcasestr(v, "nvls") && !strcasestr(v, "tree"))
        return "one fixed choice is slow for the others and keeps NVLink SHARP and trees from "
               "being used";
    return "one fixed choice is slow for the others";
}

/* Fields of a connection that are narrower than the number. */
static void lint_widths(struct lint_run *r)
{
    static const struct {
        const char *name;
        int64_t most;
    } fields[] = { { "NCCL_IB_TIMEOUT", 31 },
                   { "NCCL_IB_RETRY_CNT", 7 },
                   { "NCCL_IB_TC", 255 },
                   { "NCCL_IB_SL", 15 } };

    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        int64_t v = nccl_env_int(r->hw, fields[i].name, 0);

        if (nccl_env_of(r->hw, fields[i].name) && (v < 0 || v > fields[i].most))
            lint_add(r, fields[i].name, NCCL_WARN, "Write a number that fits, or unset it.",
                     "The field of a connection holds 0 to %lld: the number is cut, or the "
                     "connection is refused.",
                     (long long)fields[i].most);
    }
}

static void lint_tuning(struct lint_run *r)
{
    static const char *const pinned[] = { "NCCL_ALGO", "NCCL_PROTO" };
    const char *debug = nccl_env_of(r->hw, "NCCL_DEBUG");

    for (size_t i = 0; i < ARRAY_SIZE(pinned); i++)
        if (nccl_env_of(r->hw, pinned[i]))
            lint_add_cost(r, pinned[i], NCCL_WARN, "Unset it except to find a fault.",
                          "NCCL chooses by message size and topology; %s.",
                          pinned_cost(nccl_env_of(r->hw, pinned[i]), i == 1));
    lint_widths(r);
    if (debug && !strcasecmp(debug, "TRACE"))
        lint_add_cost(r, "NCCL_DEBUG", NCCL_WARN,
                      "Use WARN, or INFO to see the choices at start-up.",
                      "TRACE prints a line for every call and slows the job down.");
}

static void lint_counts(struct lint_run *r)
{
    struct maybe cpus = r->hw->place.cpus_usable;
    const char *omp_text = nccl_env_of(r->hw, "OMP_NUM_THREADS");
    const char *gpus_text = nccl_env_of(r->hw, "GPUS_PER_NODE");
    int64_t omp, gpus;

    if (!omp_text || !str_to_i64(omp_text, 10, &omp))
        omp = 0;
    if (!gpus_text || !str_to_i64(gpus_text, 10, &gpus))
        gpus = -1;
    if (cpus.known && omp > cpus.v)
        lint_add(r, "OMP_NUM_THREADS", NCCL_WARN,
                 "Divide the usable CPUs by the ranks on the node.",
                 "Only %lld CPU%s may be used here, so every rank's threads wait for one another.",
                 (long long)cpus.v, cpus.v == 1 ? "" : "s");
    if (gpus >= 0 && r->choice.gpus.known && gpus != r->choice.gpus.v)
        lint_add(r, "GPUS_PER_NODE", NCCL_WARN, "Set it to the number of GPUs, or unset it.",
                 "%lld GPU%s can be used here.", (long long)r->choice.gpus.v,
                 r->choice.gpus.v == 1 ? "" : "s");
    else if (gpus == 0)
        lint_add(r, "GPUS_PER_NODE", NCCL_ERROR, "Set it where the GPUs can be seen.",
                 "A launcher starts no rank at all with 0; a script that ran without access to the "
                 "GPUs writes this.");
}

/* Text where NCCL reads a number: it takes the digits in front, and 0 when there are
 * none, so NCCL_IB_DISABLE=true disables nothing and NCCL_BUFFSIZE=4M is 4 bytes. */
static void lint_number(struct lint_run *r, const struct cat_nccl *row, const char *name)
{
    const char *v = nccl_env_of(r->hw, name);
    bool number = row->dflt[0] == '-' || (row->dflt[0] >= '0' && row->dflt[0] <= '9') ||
                  str_eq(row->dflt, "(by the program)");
    char *end;

    if (!v || !number)
        return;
    errno = 0;
    (void)strtoll(v, &end, 0);
    if (errno)
        lint_add(r, name, NCCL_WARN, "Write a smaller number, or unset it.",
                 "The number is too great; NCCL takes its default.");
    else if (end == v || end[strspn(end, " \t\n")])
        lint_add(r, name, NCCL_WARN, "Write a plain number, or unset it.",
                 "It is not a number: NCCL takes the digits it begins with and reads %lld.",
                 (long long)nccl_env_int(r->hw, name, 0));
}

/* A setting of a configuration file that the environment does not overrule. */
static const char *conf_name(const struct hw *hw, size_t i)
{
    const char *name = hw->nccl.conf[i].name;

    return hw_env_file(hw, name) ? name : NULL;
}

/* Names that begin with NCCL_ and that NCCL does not know, and values it cannot read. */
static void lint_names(struct lint_run *r)
{
    struct arena a = { 0 };
    struct cat_nccl_table t;

    if (cat_nccl_load(&a, &t, NULL)) { /* the compiled-in table is tested; be quiet */
        arena_release(&a);
        return;
    }
    for (size_t i = 0; i < r->hw->place.env_count + r->hw->nccl.conf_count; i++) {
        const char *name = i < r->hw->place.env_count
                               ? r->hw->place.env[i].name
                               : conf_name(r->hw, i - r->hw->place.env_count);
        const struct cat_nccl *row = name ? cat_nccl_find(&t, name) : NULL;
        const char *near;

        if (!name || !str_starts(name, "NCCL_"))
            continue;
        if (row && str_eq(row->dflt, "(removed)"))
            lint_add(r, name, NCCL_WARN, "Unset it.", "NCCL does not read it any more.  %s",
                     row->meaning);
        else if (row)
            lint_number(r, row, name);
        if (row || str_starts(name, "NCCL_TESTS_") || str_starts(name, "NCCL_FASTRAK_"))
            continue;
        near = cat_nccl_nearest(&t, name);
        if (near)
            lint_add(r, name, NCCL_WARN, "Correct the name, unless a plug-in reads it.",
                     "NCCL has no such variable and ignores it; did you mean %s?", near);
        else
            lint_add(r, name, NCCL_INFO, "Unset it unless a plug-in reads it.",
                     "NCCL has no such variable and ignores it.");
    }
    arena_release(&a);
}

/* ---- what a variable costs: the choice beside the one without it ---- */

struct hw lint_without(const struct hw *hw, const char *name, struct arena *a)
{
    struct hw other = *hw;
    struct hw_env *env = arena_array(a, struct hw_env, hw->place.env_count + 1);
    size_t n = 0;

    for (size_t i = 0; i < hw->place.env_count; i++)
        if (!str_eq(hw->place.env[i].name, name))
            env[n++] = hw->place.env[i];
    if (str_starts(name, "NCCL_")) /* an empty one counts as unset, and keeps a file's out */
        env[n++] = (struct hw_env){ .name = name, .value = "" };
    other.place.env = env;
    other.place.env_count = n;
    return other;
}

void nccl_choose_without(const struct hw *hw, const char *name, struct arena *a,
                         struct nccl_choice *out)
{
    struct hw *other = arena_array(a, struct hw, 1);

    *other = lint_without(hw, name, a);
    nccl_choose(other, out);
}

static void cost_of_ports(struct lint_run *r, const struct nccl_choice *without)
{
    const struct nccl_way *was = NULL, *now = NULL;
    size_t poorer = 0;

    for (size_t i = 0; i < r->out->count; i++) /* said already: it leaves no port at all */
        if (str_eq(r->out->items[i].name, "NCCL_IB_HCA") && r->out->items[i].severity == NCCL_ERROR)
            return;
    for (size_t i = 0; i < r->choice.scores_count; i++)
        for (size_t k = 0; k < without->scores_count; k++) {
            const struct nccl_way *a = &without->scores[k].ours, *b = &r->choice.scores[i].ours;

            if (without->scores[k].gpu != r->choice.scores[i].gpu || !a->mbps.known ||
                !b->mbps.known ||
                b->mbps.v * 5 >= a->mbps.v * 4) /* one port of many: somebody's wish */
                continue;
            if (!was || b->mbps.v * was->mbps.v < now->mbps.v * a->mbps.v) {
                was = a;
                now = b;
            }
            poorer++;
        }
    if (poorer)
        lint_add_cost(
            r, "NCCL_IB_HCA", NCCL_WARN, "Unset it, and take what stoker detect --env prints.",
            "It costs %zu of %zu GPUs bandwidth: a share of %g Gb/s at worst, where the ports "
            "of this machine give %g Gb/s.",
            poorer, r->choice.scores_count, (double)now->mbps.v / 1000, (double)was->mbps.v / 1000);
}

static size_t gdr_pairs(const struct nccl_choice *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->gdr_count; i++)
        n += maybe_is(c->gdr[i].use, 1);
    return n;
}

static void lint_costs(struct lint_run *r)
{
    static const char *const names[] = { "NCCL_IB_HCA", "NCCL_NET_GDR_LEVEL" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct arena a = { 0 };
        struct nccl_choice without;
        struct hw other;

        if (!nccl_env_of(r->hw, names[i]) || r->choice.efa)
            continue;
        other = lint_without(r->hw, names[i], &a);
        nccl_choose(&other, &without);
        if (i == 0)
            cost_of_ports(r, &without);
        else if (!gdr_pairs(&r->choice) && gdr_pairs(&without))
            lint_add_cost(
                r, names[i], NCCL_ERROR, "Unset it.",
                "It turns GPUDirect RDMA off: %zu of %zu pairs of GPU and NIC have it without "
                "this level, and all data goes through host memory with it.",
                gdr_pairs(&without), without.gdr_count);
        nccl_choice_release(&without);
        arena_release(&a);
    }
}

void nccl_lint_env(const struct hw *hw, struct nccl_lints *out)
{
    struct lint_run r = { .hw = hw, .out = out };

    *out = (struct nccl_lints){ 0 };
    out->items = arena_array(&out->arena, struct nccl_lint, LINT_MAX);
    nccl_choose(hw, &r.choice);
    lint_disable(&r);
    lint_plugin(&r);
    lint_hca(&r);
    lint_costs(&r);
    lint_gid(&r);
    lint_sockets(&r);
    lint_levels(&r);
    lint_p2p(&r);
    lint_dmabuf(&r);
    lint_tuning(&r);
    lint_counts(&r);
    lint_names(&r);
    nccl_choice_release(&r.choice);
}

void nccl_lints_release(struct nccl_lints *l)
{
    arena_release(&l->arena);
    *l = (struct nccl_lints){ 0 };
}
