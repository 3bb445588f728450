/* SPDX-License-Identifier: MIT */
/* against: our choice beside NCCL's own words, a row for each thing both speak of.
 *
 * The choice is made anew with the variables and the version that the log names: they
 * are what the job had, and what this machine has may be something else.  What one of
 * the two does not say is unknown, never a difference. */
#include "nccl/against/against_int.h"

#include "base/mem.h"
#include "base/str.h"

enum { ROWS_MAX = 8192 }; /* rows of one comparison */

const char *nccl_verdict_name(enum nccl_verdict v)
{
    return v == NCCL_SAME ? "same" : v == NCCL_DIFFERS ? "differs" : "unknown";
}

/* Every channel says the same again. */
static bool row_there(const struct nccl_against *o, const char *about, const char *what,
                      const char *theirs)
{
    for (size_t i = 0; i < o->count; i++)
        if (str_eq(o->rows[i].about, about) && str_eq(o->rows[i].what, what) &&
            str_eq(o->rows[i].theirs, theirs))
            return true;
    return false;
}

static void against_add_as(struct against *g, enum nccl_verdict verdict, const char *about,
                           const char *what, const char *ours, const char *theirs, size_t line,
                           const char *why)
{
    struct nccl_against *o = g->out;

    if (o->count == ROWS_MAX || row_there(o, about, what, theirs))
        return;
    VEC_GROW(o->rows, o->count, g->cap);
    o->rows[o->count++] = (struct nccl_against_row){ .verdict = verdict,
                                                     .about = about,
                                                     .what = arena_strdup(g->a, what),
                                                     .ours = arena_strdup(g->a, ours),
                                                     .theirs = arena_strdup(g->a, theirs),
                                                     .why = arena_strdup(g->a, why),
                                                     .line = line };
    o->same += verdict == NCCL_SAME;
    o->differs += verdict == NCCL_DIFFERS;
    o->untold += verdict == NCCL_UNTOLD;
}

void against_add(struct against *g, const char *about, const char *what, const char *ours,
                 const char *theirs, size_t line, const char *why)
{
    enum nccl_verdict v = !ours || !theirs       ? NCCL_UNTOLD
                          : str_eq(ours, theirs) ? NCCL_SAME
                                                 : NCCL_DIFFERS;

    against_add_as(g, v, about, what, ours, theirs, line, v == NCCL_SAME ? NULL : why);
}

#define DIRECT_SUFFIX "_dma"

bool against_is_direct(const struct hw *hw, const char *said, size_t len)
{
    size_t tail = strlen(DIRECT_SUFFIX);

    if (len <= tail || strncmp(said + len - tail, DIRECT_SUFFIX, tail) != 0)
        return false;
    for (size_t i = 0; i < hw->rdma_count; i++) /* a device that somebody named so */
        if (hw->rdma[i].name && strlen(hw->rdma[i].name) == len &&
            !strncmp(hw->rdma[i].name, said, len))
            return false;
    return true;
}

bool against_is_dev(const struct hw *hw, const char *said, size_t len, const char *dev)
{
    if (against_is_direct(hw, said, len))
        len -= strlen(DIRECT_SUFFIX);
    return dev && strlen(dev) == len && !strncmp(said, dev, len);
}

/* The device of this machine that NCCL's name means; NULL: none. */
static const struct hw_rdma *dev_meant(const struct hw *hw, const char *said)
{
    for (size_t i = 0; said && i < hw->rdma_count; i++)
        if (against_is_dev(hw, said, strlen(said), hw->rdma[i].name))
            return &hw->rdma[i];
    return NULL;
}

int against_gpu_at(const struct hw *hw, const char *bdf)
{
    for (size_t i = 0; bdf && i < hw->gpus_count; i++)
        if (str_eq(hw->gpus[i].bdf, bdf))
            return (int)i;
    return -1;
}

static int gpu_by_index(const struct hw *hw, int64_t index)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (maybe_is(hw->gpus[i].index, index))
            return (int)i;
    return -1;
}

const char *against_gpu_name(struct against *g, size_t gpu)
{
    const struct hw_gpu *h = &g->hw->gpus[gpu];

    if (h->index.known)
        return arena_printf(g->a, "GPU %lld", (long long)h->index.v);
    return arena_printf(g->a, "GPU %s", h->bdf ? h->bdf : "?");
}

/* "a, b" of the answers; NULL when there is none. */
static const char *answers_text(struct arena *a, const struct log_answers *q)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < q->count; i++)
        buf_addf(&b, "%s%s", i ? ", " : "", q->values[i]);
    return q->count ? nccl_text(a, &b) : (buf_release(&b), NULL);
}

/* ---- version and network ---- */

static void row_version(struct against *g, const struct hw *here, const struct log_facts *f)
{
    const char *theirs = answers_text(g->a, &f->version);
    bool found = false;

    for (size_t i = 0; i < here->software_count; i++)
        found = found || (str_eq(here->software[i].name, "nccl") && f->version.count == 1 &&
                          str_eq(here->software[i].version, theirs));
    against_add_as(g, theirs && found ? NCCL_SAME : NCCL_UNTOLD, "version", "NCCL",
                   found ? theirs : hw_nccl_version(here), theirs, f->version.line,
                   !theirs ? "The log does not name NCCL's version."
                   : found ? NULL
                           : "That NCCL was not found on this machine; what follows was predicted "
                             "for the log's version.");
}

static const char *network_word(const char *net)
{
    if (!net)
        return NULL;
    if (str_eq(net, "rdma"))
        return "IB";
    return str_eq(net, "efa") ? "a plug-in" : "Socket";
}

static void row_network(struct against *g, const struct log_facts *f)
{
    const char *theirs = answers_text(g->a, &f->network);
    const char *ours = network_word(g->c.net);
    const char *shown = theirs;

    if (theirs && !str_eq(theirs, "IB") && !str_eq(theirs, "Socket") && f->network.count == 1) {
        shown = arena_printf(g->a, "%s (a plug-in)", theirs);
        against_add_as(g, str_eq(ours, "a plug-in") ? NCCL_SAME : NCCL_DIFFERS, "network",
                       "between machines", ours, shown, f->network.line,
                       "A net plug-in carries the data: what follows about ports is the "
                       "plug-in's choice, not NCCL's.");
        return;
    }
    against_add(g, "network", "between machines", ours, shown, f->network.line,
                theirs ? g->c.net_why : "The log does not name the network.");
}

/* ---- ports and interfaces ---- */

static const char *layer_word(const char *link_layer)
{
    return str_eq(link_layer, "InfiniBand") ? "IB" : str_eq(link_layer, "Ethernet") ? "RoCE" : NULL;
}

void against_port(struct against *g, const struct nccl_port *p, bool theirs, size_t line)
{
    against_add(g, "port", arena_printf(g->a, "%s:%lld", p->dev, (long long)p->port),
                p->used ? "used" : "not used", theirs ? "used" : "not used", line, p->why);
}

static const struct log_dev *ib_find(const struct against *g, const struct log_facts *f,
                                     const struct nccl_port *p)
{
    for (size_t i = 0; i < f->ib_count; i++)
        if (f->ib[i].name && f->ib[i].port == p->port &&
            against_is_dev(g->hw, f->ib[i].name, strlen(f->ib[i].name), p->dev))
            return &f->ib[i];
    return NULL;
}

static void rows_ports(struct against *g, const struct log_facts *f)
{
    bool sockets = f->network.count == 1 && str_eq(f->network.values[0], "Socket");

    FOR_EACH(const struct nccl_port, p, g->c.ports) {
        const struct log_dev *d = ib_find(g, f, p);

        if (f->ib_told || sockets)
            against_port(g, p, d != NULL, d ? d->line : f->ib_told ? f->ib_line : f->network.line);
        else
            against_add(g, "port", arena_printf(g->a, "%s:%lld", p->dev, (long long)p->port),
                        p->used ? "used" : "not used", NULL, 0,
                        "The log does not list RDMA devices.");
        if (d && d->layer && !str_eq(d->layer, layer_word(p->link_layer)))
            against_add(g, "port", arena_printf(g->a, "%s:%lld layer", p->dev, (long long)p->port),
                        layer_word(p->link_layer), d->layer, d->line, NULL);
    }
    for (size_t i = 0; i < f->ib_count; i++) {
        const struct hw_rdma *r = dev_meant(g->hw, f->ib[i].name);

        if (!r || !ports_find(g->hw, r->name, f->ib[i].port))
            against_add(
                g, "port", arena_printf(g->a, "%s:%lld", f->ib[i].name, (long long)f->ib[i].port),
                "not there", "used", f->ib[i].line, "This machine's inventory has no such port.");
    }
}

static bool net_holds(const struct hw_net *n, const char *addr)
{
    for (size_t i = 0; n && i < n->addrs_count; i++)
        if (str_eq(n->addrs[i].addr, addr))
            return true;
    return false;
}

/* Addresses of a masked capture are others: one counts when the interface has it. */
static void row_bootstrap(struct against *g, const struct log_facts *f)
{
    const char *theirs = answers_text(g->a, &f->bootstrap);
    const char *addr = answers_text(g->a, &f->bootstrap_addr);

    against_add(g, "bootstrap", "interface", g->c.socket_if, theirs, f->bootstrap.line,
                theirs ? g->c.socket_why : "The log does not name the bootstrap interface.");
    if (addr && str_eq(theirs, g->c.socket_if) &&
        net_holds(hw_find_net(g->hw, g->c.socket_if), addr))
        against_add(g, "bootstrap", "address", g->c.socket_addr, addr, f->bootstrap_addr.line,
                    NULL);
}

static void rows_sockets(struct against *g, const struct log_facts *f)
{
    const struct hw_net *nets[FILTER_IFS];
    size_t count = iface_data_all(g->hw, nets, ARRAY_SIZE(nets));

    if (!f->sockets_count)
        return; /* NCCL names them only when it uses sockets */
    for (size_t i = 0; i < count; i++) {
        const struct log_dev *d = NULL;

        for (size_t k = 0; k < f->sockets_count && !d; k++)
            if (str_eq(f->sockets[k].name, nets[i]->name))
                d = &f->sockets[k];
        against_add(g, "interface", nets[i]->name, "used", d ? "used" : "not used",
                    d ? d->line : f->sockets[0].line, NULL);
    }
    for (size_t k = 0; k < f->sockets_count; k++) {
        bool ours = false;

        for (size_t i = 0; i < count; i++)
            ours = ours || str_eq(nets[i]->name, f->sockets[k].name);
        if (!ours)
            against_add(g, "interface", f->sockets[k].name,
                        hw_find_net(g->hw, f->sockets[k].name) ? "not used" : "not there", "used",
                        f->sockets[k].line, NULL);
    }
}

/* ---- GPUs and NICs ---- */

/* The names behind NCCL's number: "mlx5_0", or "mlx5_0+mlx5_1" for a fused one. */
static const char *dev_name(struct against *g, const struct log_facts *f, int64_t dev)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < f->merged_count; i++)
        if (f->merged[i].index == dev)
            return f->merged[i].name;
    for (size_t i = 0; i < f->ib_count; i++)
        if (f->ib[i].index == dev)
            buf_addf(&b, "%s%s", b.len ? "+" : "", f->ib[i].name);
    return b.len ? nccl_text(g->a, &b) : (buf_release(&b), NULL);
}

/* Is `name` one of "a+b"?  NULL: is one of these a Data Direct function? */
static bool name_in(const struct hw *hw, const char *list, const char *name)
{
    while (*list) {
        size_t len = strcspn(list, "+");

        if (name ? against_is_dev(hw, list, len, name) : against_is_direct(hw, list, len))
            return true;
        list += len + (list[len] == '+');
    }
    return false;
}

/* Of the devices that NCCL fuses into one the nearest. */
static const struct nccl_gdr *gdr_find(const struct against *g, size_t gpu, const char *devs)
{
    const struct nccl_gdr *best = NULL;

    for (size_t i = 0; i < g->c.gdr_count; i++)
        if (g->c.gdr[i].gpu == gpu && name_in(g->hw, devs, g->c.gdr[i].dev) &&
            (!best || level_parse(g->c.gdr[i].path) < level_parse(best->path)))
            best = &g->c.gdr[i];
    return best;
}

static const char *way_word(struct maybe direct)
{
    return !direct.known ? NULL : direct.v ? "direct" : "host memory";
}

/* The way that NCCL takes with the ports it was let have; NULL: not known. */
static const struct nccl_way *way_of(const struct against *g, size_t gpu)
{
    FOR_EACH(const struct nccl_score, x, g->c.scores) {
        const struct nccl_way *w = nccl_env_of(g->hw, "NCCL_IB_HCA") ? &x->ours : &x->dflt;

        if (x->gpu == gpu)
            return w->path && w->ports && *w->ports ? w : NULL;
    }
    return NULL;
}

/* "mlx5_0 or mlx5_1" of a way, each device once; NULL when nothing is known. */
static const char *way_devs(struct against *g, const struct nccl_way *w)
{
    struct buf b = { 0 };

    for (size_t i = 0; w && i < g->c.ports_count; i++)
        if (nccl_way_has(w, g->c.ports[i].dev) &&
            !(i && str_eq(g->c.ports[i - 1].dev, g->c.ports[i].dev)))
            buf_addf(&b, "%s%s", b.len ? " or " : "", g->c.ports[i].dev);
    return b.len ? nccl_text(g->a, &b) : (buf_release(&b), NULL);
}

/* A GPU that sends through one NIC: is it one of those with the widest way to it and of these
 * the nearest, and is the way direct? */
static void rows_net(struct against *g, const struct log_facts *f, const struct log_pair *p)
{
    int gpu = gpu_by_index(g->hw, p->from);
    const char *devs = dev_name(g, f, p->dev), *ours, *name;
    const struct nccl_way *expected;
    const struct nccl_gdr *way;
    bool same = false, direct;

    if (gpu < 0 || !devs || str_eq(p->detail, "Socket"))
        return;
    direct = name_in(g->hw, devs, NULL);
    name = against_gpu_name(g, (size_t)gpu);
    expected = way_of(g, (size_t)gpu);
    ours = way_devs(g, expected);
    way = gdr_find(g, (size_t)gpu, devs);
    for (size_t i = 0; expected && i < g->c.ports_count; i++)
        same = same || (name_in(g->hw, devs, g->c.ports[i].dev) &&
                        nccl_way_has(expected, g->c.ports[i].dev));
    if (!p->pxn) /* by way of a neighbour it is that neighbour's NIC */
        against_add_as(g,
                       same && ours      ? NCCL_SAME
                       : !ours || direct ? NCCL_UNTOLD
                                         : NCCL_DIFFERS,
                       "nic", arena_printf(g->a, "%s sends by", name), ours, devs, p->line,
                       same ? NULL
                       : direct
                           ? AGAINST_DIRECT_WHY
                           : "NCCL sends by a NIC that is not among those with the widest path "
                             "to it, or is farther than these.");
    against_add(g, "gdr", arena_printf(g->a, "%s and %s", name, devs),
                way && !(direct && !maybe_is(way->use, p->gdr)) ? way_word(way->use) : NULL,
                p->gdr ? "direct" : "host memory", p->line,
                direct ? AGAINST_DIRECT_WHY
                : way  ? way->why
                       : NULL);
}

/* 26 of "2.26.5"; -1: unknown. */
static long minor_of(const char *version)
{
    char *end;
    long major = version ? strtol(version, &end, 10) : 0;

    return major == 2 && *end == '.' ? strtol(end + 1, NULL, 10) : -1;
}

/* NCCL's numbers for distances changed with 2.26, 2.27 and 2.28. */
static const char *distance_name(long minor, int64_t n)
{
    static const char *const old[] = { "LOC", "NVL", "NVB", "PIX", "PXB", "PXN", "PHB", "SYS" };
    static const char *const c2c[] = {
        "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "PXN", "PHB", "SYS"
    };
    static const char *const p2c[] = { "LOC", "NVL", "NVB", "C2C", "PIX",
                                       "PXB", "PXN", "P2C", "PHB", "SYS" };
    static const char *const now[] = { "LOC", "NVL", "NVB", "C2C", "PIX",
                                       "PXB", "P2C", "PXN", "PHB", "SYS" };

    if (n < 0 || minor < 0)
        return NULL;
    if (minor < 26)
        return n < (int64_t)ARRAY_SIZE(old) ? old[n] : NULL;
    if (minor == 26)
        return n < (int64_t)ARRAY_SIZE(c2c) ? c2c[n] : NULL;
    return n < (int64_t)ARRAY_SIZE(now) ? (minor == 27 ? p2c[n] : now[n]) : NULL;
}

/* Some GPU is as near to the device as that, and can send for others. */
static bool neighbour_is_at(const struct against *g, const char *devs, const char *path)
{
    for (size_t i = 0; i < g->hw->gpus_count; i++) {
        const struct nccl_gdr *way = gdr_find(g, i, devs);

        if (way && str_eq(way->path, path) && level_parse(path) < level_parse("PXN"))
            return true;
    }
    return false;
}

/* The distance that NCCL writes of a pair is, where another GPU sends for this one (PXN), the
 * one of that other GPU (ncclTopoCheckGdr()); from 2.29 on the line says that it does. */
static void row_reach(struct against *g, const struct log_reach *r, const char *devs, long minor)
{
    const char *theirs = distance_name(minor, r->distance);
    const struct nccl_gdr *way = gdr_find(g, (size_t)r->gpu, devs);
    const char *what = arena_printf(g->a, "%s and %s", against_gpu_name(g, (size_t)r->gpu), devs);

    if (name_in(g->hw, devs, NULL))
        against_add(g, "distance", what, NULL, r->pxn ? "PXN" : theirs, r->line,
                    AGAINST_DIRECT_WHY);
    else if (r->pxn)
        against_add(g, "distance", what, way ? way->path : NULL, "PXN", r->line, NULL);
    else if (way && str_eq(way->path, "PXN") && minor < 29 && theirs &&
             neighbour_is_at(g, devs, theirs))
        against_add_as(g, NCCL_SAME, "distance", what, way->path, theirs, r->line,
                       "Before 2.29 NCCL writes the distance of the GPU that sends for it.");
    else
        against_add(g, "distance", what, way ? way->path : NULL, theirs, r->line,
                    theirs ? NULL
                           : "The version, and with it the meaning of the number, is not known.");
}

static void rows_reach(struct against *g, const struct log_facts *f)
{
    long minor = f->version.count == 1 ? minor_of(f->version.values[0]) : -1;

    for (size_t i = 0; i < f->reach_count; i++) {
        const char *devs = dev_name(g, f, f->reach[i].dev);

        if (devs)
            row_reach(g, &f->reach[i], devs, minor);
    }
}

static void rows_gdr(struct against *g, const struct log_facts *f)
{
    const char *ours = !g->c.gdr_support                  ? NULL
                       : str_eq(g->c.gdr_support, "none") ? "disabled"
                                                          : "enabled";

    for (size_t i = 0; i < f->gdr_count; i++)
        if (dev_meant(g->hw, f->gdr[i].name) || strchr(f->gdr[i].name, '+'))
            against_add(g, "gdr", arena_printf(g->a, "GPUDirect RDMA on %s", f->gdr[i].name), ours,
                        f->gdr[i].port ? "enabled" : "disabled", f->gdr[i].line,
                        ours ? NULL : "Whether it is possible cannot be told from here.");
}

/* ---- between GPUs ---- */

static const char *via_word(const char *transport)
{
    if (!transport)
        return NULL;
    return str_eq(transport, "shm")     ? "SHM"
           : str_eq(transport, "net")   ? "NET"
           : str_eq(transport, "fails") ? "an error"
                                        : "P2P";
}

static void row_pair(struct against *g, const struct log_pair *p)
{
    int a = gpu_by_index(g->hw, p->from), b = gpu_by_index(g->hw, p->to);
    const char *ours = NULL, *why = NULL;

    if (a < 0 || b < 0 || a == b || str_starts(p->detail ? p->detail : "", "MNNVL"))
        return;
    if (a > b) { /* both directions are one row */
        int t = a;

        a = b;
        b = t;
    }
    for (size_t i = 0; i < g->c.p2p_count; i++)
        if (g->c.p2p[i].a == (size_t)a && g->c.p2p[i].b == (size_t)b) {
            ours = via_word(g->c.p2p[i].transport);
            why = g->c.p2p[i].why;
        }
    against_add(g, "gpus",
                arena_printf(g->a, "%s and %s", against_gpu_name(g, (size_t)a),
                             against_gpu_name(g, (size_t)b)),
                ours, p->via == LOG_SHM ? "SHM" : "P2P", p->line, why);
}

static void rows_pairs(struct against *g, const struct log_facts *f)
{
    for (size_t i = 0; i < f->pairs_count; i++)
        if (f->pairs[i].via == LOG_NET)
            rows_net(g, f, &f->pairs[i]);
        else
            row_pair(g, &f->pairs[i]);
}

static void against_log_rows(struct against *g, const struct log_facts *f)
{
    row_network(g, f);
    row_bootstrap(g, f);
    rows_ports(g, f);
    rows_sockets(g, f);
    rows_gdr(g, f);
    rows_reach(g, f);
    rows_pairs(g, f);
    if (f->mnnvl.count)
        against_add(g, "nvlink", "to other machines",
                    g->c.mnnvl       ? g->c.mnnvl
                    : g->c.mnnvl_why ? NULL
                                     : "off",
                    answers_text(g->a, &f->mnnvl), f->mnnvl.line, g->c.mnnvl_why);
    if (f->channels.count)
        against_add(g, "channels", "rings", NULL, answers_text(g->a, &f->channels),
                    f->channels.line, "How many rings NCCL builds is not predicted.");
}

/* ---- the whole ---- */

/* The inventory as the job saw it: the log's variables over this machine's, and its NCCL
 * before those that were found.  Borrows everything else. */
static struct hw *hw_as_in(const struct hw *hw, const struct log_facts *f, struct arena *a)
{
    struct hw copy = *hw;
    struct hw_env *env = arena_array(a, struct hw_env, hw->place.env_count + f->vars_count + 1);
    struct hw_soft *soft = arena_array(a, struct hw_soft, hw->software_count + 1);
    size_t n = 0;

    for (size_t i = 0; i < hw->place.env_count; i++)
        env[n++] = hw->place.env[i];
    for (size_t i = 0; i < f->vars_count; i++) {
        size_t at = 0;

        while (at < n && !str_eq(env[at].name, f->vars[i].name))
            at++;
        env[at] = (struct hw_env){ .name = f->vars[i].name, .value = f->vars[i].value };
        n += at == n;
    }
    copy.place.env = env;
    copy.place.env_count = n;
    if (f->version.count == 1)
        soft[0] = (struct hw_soft){ .name = "nccl", .version = f->version.values[0] };
    if (hw->software_count)
        memcpy(soft + (f->version.count == 1), hw->software, hw->software_count * sizeof(*soft));
    copy.software = soft;
    copy.software_count = hw->software_count + (f->version.count == 1);
    return arena_memdup(a, &copy, sizeof(copy));
}

static void tell_vars(struct against *g, const struct hw *here, const struct log_facts *f)
{
    g->out->vars = arena_array(g->a, struct nccl_against_var, f->vars_count + 1);
    for (size_t i = 0; i < f->vars_count; i++)
        g->out->vars[g->out->vars_count++] =
            (struct nccl_against_var){ .name = f->vars[i].name,
                                       .value = f->vars[i].value,
                                       .here =
                                           arena_strdup(g->a, hw_env_get(here, f->vars[i].name)) };
}

static enum rc against_log(struct against *g, const struct hw *hw, const char *host,
                           const char *text, size_t len, struct err *err)
{
    struct log_facts f = { 0 };
    struct hw *as_in;
    enum rc rc = nccl_log_read(g->a, hw, host, text, len, &f, err);

    if (rc)
        return rc;
    as_in = hw_as_in(hw, &f, g->a);
    g->hw = as_in;
    g->out->source = "log";
    g->out->host = f.host;
    g->out->version = f.version.count == 1 ? f.version.values[0] : NULL;
    tell_vars(g, hw, &f);
    nccl_choose(as_in, &g->c);
    row_version(g, hw, &f);
    against_log_rows(g, &f);
    nccl_choice_release(&g->c);
    return RC_OK;
}

static enum rc against_topology(struct against *g, const struct hw *hw, const char *text,
                                size_t len, struct err *err)
{
    enum rc rc;

    g->hw = hw;
    g->out->source = "topology";
    nccl_choose(hw, &g->c);
    rc = against_topo_rows(g, text, len, err);
    nccl_choice_release(&g->c);
    return rc;
}

enum rc nccl_against(const struct hw *hw, const struct nccl_against_opts *opts, const char *text,
                     size_t len, struct nccl_against *out, struct err *err)
{
    struct nccl_against result = { 0 };
    struct against g = { .out = &result, .a = &result.arena };
    size_t start = 0;
    enum rc rc;

    while (start < len && strchr(" \t\r\n", text[start]) && text[start])
        start++;
    if (start < len && text[start] == '<')
        rc = against_topology(&g, hw, text, len, err);
    else if (len > NCCL_AGAINST_BYTES_MAX)
        rc = err_set(err, RC_LIMIT, "more than %d bytes", NCCL_AGAINST_BYTES_MAX);
    else
        rc = against_log(&g, hw, opts ? opts->host : NULL, text, len, err);
    if (rc) {
        nccl_against_release(&result);
        return rc;
    }
    *out = result;
    return RC_OK;
}

void nccl_against_release(struct nccl_against *g)
{
    free(g->rows);
    arena_release(&g->arena);
    *g = (struct nccl_against){ 0 };
}
