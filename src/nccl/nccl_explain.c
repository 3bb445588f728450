/* SPDX-License-Identifier: MIT */
/* nccl_explain: everything about one variable on one page: what it does, what NCCL does by
 * default, what that gives on this machine, what we print, what is set. */
#include "nccl/nccl_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "catalog/catalog.h"

enum { WIDTH = 90 };

/* The page is gathered as labelled paragraphs first, then printed as text or JSON. */
struct why_para {
    const char *label; /* "" goes on with the last */
    char *text;        /* owned */
};

struct why {
    struct why_para *items; /* owned */
    size_t count, cap;
};

static void why_para(struct why *w, const char *label, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void why_para(struct why *w, const char *label, const char *fmt, ...)
{
    struct buf text = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    VEC_GROW(w->items, w->count, w->cap);
    w->items[w->count++] = (struct why_para){ .label = label, .text = buf_take(&text) };
}

static void why_release(struct why *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i].text);
    free(w->items);
}

static void why_text(const struct why *w, const char *name, struct buf *out)
{
    struct buf wrapped = { 0 };

    buf_addf(out, "%s\n", name);
    for (size_t i = 0; i < w->count; i++) {
        buf_reset(&wrapped);
        nccl_wrap(&wrapped, "              ", w->items[i].text, WIDTH);
        if (wrapped.len > 14)
            buf_addf(out, "  %-12s%s", w->items[i].label, wrapped.data + 14);
    }
    buf_release(&wrapped);
}

static void why_json(const struct why *w, const char *name, struct buf *out)
{
    struct json_out j;

    json_doc(&j, out, "stoker.why/1");
    json_kv_str(&j, "variable", name);
    json_kv_arr(&j, "says");
    for (size_t i = 0, k; i < w->count; i = k) {
        json_obj(&j);
        json_kv_str(&j, "about", w->items[i].label);
        json_kv_arr(&j, "text");
        json_add_str(&j, w->items[i].text);
        for (k = i + 1; k < w->count && !w->items[k].label[0]; k++)
            json_add_str(&j, w->items[k].text);
        json_arr_end(&j);
        json_obj_end(&j);
    }
    json_arr_end(&j);
    json_doc_end(&j);
}

/* Variables that are not NCCL's. */
static const struct {
    const char *name, *meaning;
} ours[] = {
    { "GPUS_PER_NODE", "Ranks a launcher starts on this node: one for each GPU." },
    { "OMP_NUM_THREADS", "Threads of each rank's CPU work (OpenMP, and with it PyTorch)." },
    { "STOKER_TRANSPORT", "What carries the traffic between nodes: rdma or tcp." },
    { "UCX_NET_DEVICES", "Devices UCX, and with it MPI, may use." },
    { "UCX_TLS", "Transports UCX may use." },
};

static const char *our_meaning(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        if (str_eq(ours[i].name, name))
            return ours[i].meaning;
    return NULL;
}

/* ---- evidence of this machine ---- */

/* What is true of a name; names of which the same is true are said together. */
struct said {
    const char *name, *text;
};

static void para_said(struct why *out, const char *label, const struct said *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct buf names = { 0 };
        bool before = false;

        for (size_t k = 0; k < i; k++)
            before = before || str_eq(s[k].text, s[i].text);
        for (size_t k = i; !before && k < count; k++)
            if (str_eq(s[k].text, s[i].text))
                buf_addf(&names, "%s%s", names.len ? ", " : "", s[k].name);
        if (!before) {
            why_para(out, label, "%s: %s", buf_str(&names), s[i].text);
            label = "";
        }
        buf_release(&names);
    }
}

static void here_ports(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    struct arena a = { 0 };
    struct said *s = arena_array(&a, struct said, c->ports_count + 1);

    if (!c->ports_count)
        why_para(out, "here", "There is no RDMA device.");
    for (size_t i = 0; i < c->ports_count; i++) {
        const struct nccl_port *p = &c->ports[i];

        s[i].name = arena_printf(&a, "%s:%lld", p->dev, (long long)p->port);
        s[i].text = arena_printf(&a, "%s.  %s  %s: %s%s%s%s", p->used ? "used" : "not used", p->why,
                                 p->wanted ? "Wanted" : "Not wanted", p->wanted_why,
                                 p->network ? "  Network: " : "", p->network ? p->network : "",
                                 p->network ? "." : "");
    }
    para_said(out, "here", s, c->ports_count);
    for (size_t i = 0; !ports_off(hw) && i < c->scores_count; i++) {
        const struct nccl_score *x = &c->scores[i];

        why_para(out, i ? "" : "score", "GPU %lld: NCCL's own choice %s; %s %s%s.",
                 (long long)x->number, score_way_text(&a, &x->dflt),
                 nccl_env_of(hw, "NCCL_IB_HCA") ? "as it is set" : "the wanted ports",
                 score_way_text(&a, &x->ours), x->worse ? ", which is worse" : "");
    }
    if (c->all_why && !ports_off(hw))
        why_para(out, "", "Every port is wanted.  %s", c->all_why);
    arena_release(&a);
}

static void here_gid(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    struct arena a = { 0 };
    struct said *s = arena_array(&a, struct said, c->ports_count + 1);
    size_t n = 0;

    (void)hw;
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].used) {
            s[n].name = arena_printf(&a, "%s:%lld", c->ports[i].dev, (long long)c->ports[i].port);
            s[n++].text = c->ports[i].gid_why;
        }
    if (!n)
        why_para(out, "here", "No RDMA port is used.");
    para_said(out, "here", s, n);
    if (c->gid_nets_why)
        why_para(out, "", "%s%s%s%s", c->gid_nets_why, c->gid_range ? "  NCCL_IB_ADDR_RANGE=" : "",
                 c->gid_range ? c->gid_range : "", c->gid_range ? " puts all on one fabric." : "");
    arena_release(&a);
}

static void here_socket(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    const char *addr, *why;
    const struct hw_net *n = iface_default(hw, &addr, &why);

    why_para(out, "here", "NCCL takes %s.  %s",
             c->socket_if                 ? c->socket_if
             : c->wire_if && !c->stop_why ? "an interface that is not known"
                                          : "no interface",
             c->socket_why ? c->socket_why : "");
    if (c->wire_if && c->socket_if && !str_eq(c->wire_if, c->socket_if))
        why_para(out, "",
                 "NICs connect over %s, and so does data without RDMA: NCCL_COMM_ID is for "
                 "the start only.",
                 c->wire_if);
    if (n && !str_eq(n->name, c->wire_if))
        why_para(out, "", "Left alone it would take %s.  %s", n->name, why);
    why_para(out, "", "The way to the other nodes: %s.  %s", c->peer_if ? c->peer_if : "unknown",
             c->peer_why);
}

static bool gdr_alike(const struct nccl_gdr *a, const struct nccl_gdr *b)
{
    return str_eq(a->dev, b->dev) && str_eq(a->why, b->why);
}

/* "GPU 0-3,6 with mlx5_0": those of whom the same is said of this NIC. */
static const char *gdr_gpus(struct arena *a, const struct nccl_choice *c, size_t first)
{
    size_t from = c->gdr[first].gpu, last = from;
    struct buf b = { 0 };

    buf_addf(&b, "GPU %zu", from);
    for (size_t i = first + 1; i < c->gdr_count; i++) {
        if (!gdr_alike(&c->gdr[first], &c->gdr[i]))
            continue;
        if (c->gdr[i].gpu != last + 1) {
            if (last > from)
                buf_addf(&b, "-%zu", last);
            from = c->gdr[i].gpu;
            buf_addf(&b, ",%zu", from);
        }
        last = c->gdr[i].gpu;
    }
    if (last > from)
        buf_addf(&b, "-%zu", last);
    buf_addf(&b, " with %s", c->gdr[first].dev);
    return nccl_text(a, &b);
}

static void here_gdr(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    size_t count = 0;
    struct arena a = { 0 };
    struct said *s = arena_array(&a, struct said, c->gdr_count + 1);

    (void)hw;
    why_para(out, "here", "GPUDirect RDMA by %s; level in force: %s.",
             c->gdr_support ? c->gdr_support : "means that cannot be told", c->gdr_level);
    for (size_t i = 0; i < c->gdr_count; i++) {
        bool before = false;

        for (size_t k = 0; k < i; k++)
            before = before || gdr_alike(&c->gdr[k], &c->gdr[i]);
        if (before)
            continue;
        s[count].name = gdr_gpus(&a, c, i);
        s[count++].text = c->gdr[i].why;
    }
    para_said(out, "", s, count);
    arena_release(&a);
}

static void here_p2p(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    struct arena a = { 0 };
    struct said *s = arena_array(&a, struct said, c->p2p_count + 1);

    (void)hw;
    if (!c->p2p_count)
        why_para(out, "here", "%s",
                 !c->gpus.known  ? c->gpus_why
                 : c->gpus.v < 2 ? "Peer-to-peer needs two GPUs; fewer are visible here."
                                 : "The inventory has no paths between these GPUs.");
    else
        why_para(out, "here", "The pairs of GPUs:");
    for (size_t i = 0; i < c->p2p_count; i++) {
        const struct nccl_p2p *p = &c->p2p[i];

        s[i].name = arena_printf(&a, "%zu-%zu", p->a, p->b);
        s[i].text = arena_printf(&a, "%s%s%s", p->transport ? p->transport : "",
                                 p->transport ? ".  " : "", p->why);
    }
    para_said(out, "", s, c->p2p_count);
    arena_release(&a);
}

static void here_gpus(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    why_para(out, "here", "%s", c->gpus_why);
    if (hw->place.cpus_usable.known)
        why_para(out, "", "%lld CPUs may be used.", (long long)hw->place.cpus_usable.v);
}

static void here_net(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    (void)hw;
    why_para(out, "here", "Network: %s.  %s", c->net ? c->net : "unknown",
             c->net_why ? c->net_why : "");
}

static void here_rails(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    why_para(out, "here",
             ports_isolated_rails(hw, c)
                 ? "The RDMA ports are in several subnets, and none leads to another."
                 : "Nothing says that the ports are rails kept apart from each other.");
}

static void here_mnnvl(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    (void)hw;
    why_para(out, "here", "%s",
             c->mnnvl_why ? c->mnnvl_why : "No GPU is of an NVLink domain that spans machines.");
}

static void here_doubts(const struct hw *hw, const struct nccl_choice *c, struct why *out)
{
    const struct hw_nccl *n = &hw->nccl;

    why_para(out, "here", "Net plug-in: %s; tuner plug-in: %s; topology file: %s%s%s.",
             n->net_plugin ? n->net_plugin : "none", n->tuner_plugin ? n->tuner_plugin : "none",
             n->topo_file ? n->topo_file : "none", n->topo_error ? ", " : "",
             n->topo_error ? n->topo_error : "");
    for (size_t i = 0; i < n->conf_files_count; i++)
        why_para(out, "", "Read: %s.", n->conf_files[i]);
    for (size_t i = 0; i < c->doubts_count; i++)
        why_para(out, "", "%s", c->doubts[i]);
}

static const struct {
    const char *name;
    const char *dflt; /* what NCCL does when it is unset */
    void (*here)(const struct hw *hw, const struct nccl_choice *c, struct why *out);
} topics[] = {
    { "GPUS_PER_NODE", NULL, here_gpus },
    { "OMP_NUM_THREADS", "torchrun sets 1 when it starts several ranks.", here_gpus },
    { "STOKER_TRANSPORT", NULL, here_net },
    { "UCX_NET_DEVICES", "UCX takes every device it finds.", here_ports },
    { "UCX_TLS", "UCX takes every transport it finds.", here_net },
    { "NCCL_IB_DISABLE", "NCCL uses RDMA when it finds an active port.", here_net },
    { "NCCL_NET", "NCCL tries plug-ins, then RDMA, then sockets.", here_net },
    { "NCCL_IB_HCA",
      "NCCL takes every active InfiniBand or Ethernet port, 32 at most, whatever its "
      "speed and place.",
      here_ports },
    { "NCCL_IB_GID_INDEX",
      "On InfiniBand NCCL uses entry 0.  On RoCE it walks the table and takes the first IPv4 "
      "address (NCCL_IB_ADDR_FAMILY), then a RoCE v2 one (NCCL_IB_ROCE_VERSION_NUM).",
      here_gid },
    { "NCCL_IB_ADDR_FAMILY", "NCCL looks for an IPv4 address.", here_gid },
    { "NCCL_IB_ADDR_RANGE", "NCCL accepts every subnet.", here_gid },
    { "NCCL_IB_ROCE_VERSION_NUM", "NCCL prefers RoCE v2.", here_gid },
    { "NCCL_SOCKET_IFNAME",
      "NCCL takes the first running interface whose name begins with ib, else the first that is "
      "not docker, lo or virbr, in the kernel's order.  Without RDMA, data goes over all of "
      "them.",
      here_socket },
    { "NCCL_SOCKET_FAMILY", "NCCL takes the first address it meets, IPv4 before IPv6.",
      here_socket },
    { "NCCL_NET_GDR_LEVEL",
      "NICs reach GPU memory directly when no more than PCIe switches lie "
      "between them (PXB), or the CPU where it shares a chip-to-chip link with the GPU (P2C).",
      here_gdr },
    { "NCCL_DMABUF_ENABLE",
      "NCCL uses dma-buf where kernel and driver have it, before a peer-memory module.", here_gdr },
    { "NCCL_P2P_LEVEL",
      "GPUs copy directly over NVLink and PCIe switches (PXB); with two GPUs on an "
      "AMD processor at any distance.",
      here_p2p },
    { "NCCL_P2P_DISABLE", "Direct copies are allowed.", here_p2p },
    { "NCCL_CROSS_NIC", "NCCL avoids crossing from one NIC to another unless it is faster (2).",
      here_rails },
    { "NCCL_NET_GDR_C2C",
      "NICs at the CPU of a GH200, GB200 or GB300 reach GPU memory over the chip-to-chip link from "
      "NCCL 2.27 on; 2.26 has it off.",
      here_gdr },
    { "NCCL_MNNVL_ENABLE",
      "NCCL uses NVLink to other machines where the GPUs are of one NVLink domain.", here_mnnvl },
    { "NCCL_NET_PLUGIN",
      "NCCL loads libnccl-net.so where the loader finds it, and gives it the network first.",
      here_doubts },
    { "NCCL_TUNER_PLUGIN", "NCCL loads libnccl-tuner.so where the loader finds it.", here_doubts },
    { "NCCL_CONF_FILE",
      "NCCL reads ~/.nccl.conf (this file in its place, from 2.23 on), then /etc/nccl.conf; what "
      "the environment sets wins.",
      here_doubts },
    { "NCCL_TOPO_FILE",
      "NCCL reads /var/run/nvidia-topologyd/virtualTopology.xml where it is there, else the "
      "machine's own PCI tree.",
      here_doubts },
    { "NCCL_IB_MERGE_VFS", "Virtual functions at one PCI bus are ports of one card.", here_ports },
};

static void write_topic(const struct hw *hw, const char *name, const char *peer, struct why *out)
{
    struct nccl_choice c;

    nccl_choose_for(hw, peer, &c);
    for (size_t i = 0; i < ARRAY_SIZE(topics); i++) {
        if (!str_eq(topics[i].name, name))
            continue;
        if (topics[i].dflt)
            why_para(out, "left alone", "%s", topics[i].dflt);
        topics[i].here(hw, &c, out);
    }
    nccl_choice_release(&c);
}

/* ---- what we print, what is set ---- */

static void write_modes(const struct hw *hw, const char *name, const char *peer, struct why *out)
{
    static const char *const labels[] = { "--env", "--env=full" };

    for (int full = 0; full < 2; full++) {
        struct nccl_opts opts = { .mode = full ? NCCL_FULL : NCCL_MINIMAL, .peer = peer };
        const struct nccl_var *v;
        struct nccl_env env;

        nccl_env_make(hw, &opts, &env);
        v = nccl_env_find(&env, name);
        if (!v)
            why_para(out, labels[full], "does not mention it.");
        else if (v->kind == NCCL_LEFT_UNSET)
            why_para(out, labels[full], "leaves it unset.  %s", v->reason);
        else
            why_para(out, labels[full], "%s %s.  %s", v->kind == NCCL_USER ? "keeps" : "sets",
                     v->value, v->reason);
        nccl_env_release(&env);
    }
}

static void write_user(const struct hw *hw, const char *name, struct why *out)
{
    const char *v = hw_env_get(hw, name);
    struct nccl_lints lints;

    if (!v) {
        why_para(out, "set", "It is not set.");
        return;
    }
    if (hw_env_file(hw, name))
        why_para(out, "set", "%s=%s, in %s.", name, v, hw_env_file(hw, name));
    else
        why_para(out, "set", "%s=%s", name, v);
    nccl_lint_env(hw, &lints);
    for (size_t i = 0; i < lints.count; i++)
        if (str_eq(lints.items[i].name, name))
            why_para(out, nccl_severity_name(lints.items[i].severity), "%s  %s",
                     lints.items[i].message, lints.items[i].remedy);
    nccl_lints_release(&lints);
}

static enum rc unknown_name(const struct cat_nccl_table *t, const char *name, struct err *err)
{
    char upper[64];
    size_t n = 0;
    const char *near;

    for (; name[n] && n + 1 < sizeof(upper); n++)
        upper[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 'a' + 'A' : name[n]);
    upper[n] = '\0';
    near = cat_nccl_nearest(t, upper);
    for (size_t i = 0; !near && i < ARRAY_SIZE(ours); i++)
        if (str_distance(upper, ours[i].name, 3) <= 3)
            near = ours[i].name;
    if (near)
        err_hint(err, "Did you mean %s?", near);
    return err_set(err, RC_USAGE, "unknown variable '%s'", name);
}

enum rc nccl_why(const struct hw *hw, const char *name, const char *peer, bool json,
                 struct buf *out, struct err *err)
{
    struct why w = { 0 };
    const char *meaning = our_meaning(name);
    const struct cat_nccl *row;
    struct cat_nccl_table t;
    struct arena a = { 0 };
    enum rc rc = cat_nccl_load(&a, &t, err);

    if (rc)
        goto out;
    row = cat_nccl_find(&t, name);
    if (!row && !meaning) {
        rc = unknown_name(&t, name, err);
        goto out;
    }
    if (row && *row->meaning)
        meaning = row->meaning;
    why_para(&w, "what", "%s",
             meaning ? meaning : "A variable of NCCL that seldom needs attention.");
    if (row && *row->values)
        why_para(&w, "values", "%s", row->values);
    if (row)
        why_para(&w, "default", "%s%s%s", str_eq(row->dflt, "(string)") ? "unset" : row->dflt,
                 *row->since ? "; known since NCCL " : "", row->since);
    write_topic(hw, name, peer, &w);
    write_modes(hw, name, peer, &w);
    write_user(hw, name, &w);
    if (json)
        why_json(&w, name, out);
    else
        why_text(&w, name, out);
out:
    why_release(&w);
    arena_release(&a);
    return rc;
}
