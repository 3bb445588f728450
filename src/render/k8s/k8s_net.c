/* SPDX-License-Identifier: MIT */
/* k8s_net: networks beside the cluster's own.
 *
 *   fabric with sriov                 one attachment a NIC, RDMA device inside; a resource each
 *                                     when the machines' names of the NICs are known, else one
 *   roce without, interfaces named    one attachment a NIC (macvlan); devices shared: rdma/NAME
 *   infiniband without                no attachment: verbs need no address; devices: rdma/NAME
 *   efa                               no attachment: vpc.amazonaws.com/efa
 *   ethernet without                  nothing */
#include "base/str.h"
#include "base/text/json.h"
#include "render/k8s/k8s_int.h"

#include <inttypes.h>
#include <stdlib.h>

size_t k8s_rail_count(const struct spec_fabric *f)
{
    if (f->sriov)
        return (size_t)f->nics_most;
    return f->kind == SPEC_FABRIC_ROCE ? f->interfaces.count : 0;
}

bool k8s_rdma_shared(const struct spec_fabric *f)
{
    return !f->sriov && (f->kind == SPEC_FABRIC_ROCE || f->kind == SPEC_FABRIC_INFINIBAND);
}

static const char *k8s_rail_interface(struct k8s *k, const struct spec_fabric *f, size_t i)
{
    if (i < f->interfaces.count)
        return f->interfaces.items[i];
    return arena_printf(&k->arena, "net%zu", i + 1);
}

static const char *k8s_rail_name(struct k8s *k, const struct spec_fabric *f, size_t i)
{
    char dns[SPEC_NAME_MAX + 1];

    dns_name(dns, k8s_rail_interface(k, f, i));
    return k8s_name(k, f->name, arena_printf(&k->arena, "-%.15s", dns));
}

/* net1, net2 ... are Multus' names inside a pod; any other is the machine's own, by which a policy
 * can choose the NIC. */
static bool machine_name(const char *interface)
{
    return !str_starts(interface, "net") || interface[3 + strspn(interface + 3, "0123456789")];
}

bool k8s_rails_apart(const struct spec_fabric *f)
{
    if (f->sriov && f->sriov->pfs.count)
        return true;
    if (!f->sriov || f->interfaces.count < (size_t)f->nics_most)
        return false;
    for (size_t i = 0; i < f->interfaces.count; i++)
        if (!machine_name(f->interfaces.items[i]))
            return false;
    return true;
}

/* The operator takes only letters, digits and '_'. */
const char *k8s_rail_resource_bare(struct k8s *k, const struct spec_fabric *f, size_t i)
{
    char *name = arena_strdup(&k->arena, k8s_rails_apart(f) ? k8s_rail_name(k, f, i)
                                                            : k8s_name(k, f->name, ""));

    for (char *p = name; *p; p++)
        if (*p == '-')
            *p = '_';
    return name;
}

const char *k8s_rail_resource(struct k8s *k, const struct spec_fabric *f, size_t i)
{
    const char *prefix = f->sriov ? f->sriov->resource_prefix : "rdma";

    return arena_printf(&k->arena, "%s/%s", prefix, k8s_rail_resource_bare(k, f, i));
}

const char *k8s_rail_namespace(const struct k8s *k, const struct spec_fabric *f)
{
    return f->sriov && f->sriov->network_namespace ? f->sriov->network_namespace : k->namespace;
}

/* Not an object of the manifests: networks of others may be in it, and deleting ours would take
 * them along. */
void k8s_script_namespaces(struct k8s *k, struct buf *out, const char *tool,
                           bool (*used)(void *of, const struct spec_fabric *f), void *of)
{
    const struct spec *s = k->r->spec;
    struct buf seen = { 0 };

    for (size_t i = 0; i < s->fabric_count; i++) {
        const struct spec_fabric *f = &s->fabrics[i];
        const char *name = k8s_rail_namespace(k, f);
        struct buf key = { 0 };

        buf_addf(&key, "\n%s\n", name);
        if (used(of, f) && k8s_rail_count(f) && !str_eq(name, k->namespace) &&
            !strstr(buf_str(&seen), buf_str(&key))) {
            buf_adds(&seen, buf_str(&key));
            buf_addf(out,
                     "    # %s\n"
                     "    %s get namespace %s >/dev/null 2>&1 || run %s create namespace %s\n",
                     render_from(k->r, &f->sriov->network_namespace), tool, name, tool, name);
        }
        buf_release(&key);
    }
    buf_release(&seen);
}

struct spec_nics_of k8s_component_nics(const struct k8s *k, const struct spec_component *c,
                                       const struct spec_fabric *f)
{
    const struct spec_node *n;
    struct spec_nics_of least = spec_group_nics(spec_component_group(k->r->spec, c, 0), f);

    for (size_t i = 1; (n = spec_component_group(k->r->spec, c, i)) != NULL; i++) {
        struct spec_nics_of v = spec_group_nics(n, f);

        if (v.count < least.count)
            least = v;
    }
    return least;
}

static size_t component_rails(const struct k8s *k, const struct spec_component *c,
                              const struct spec_fabric *f)
{
    size_t all = k8s_rail_count(f), own = (size_t)k8s_component_nics(k, c, f).count;

    return own < all ? own : all;
}

void k8s_networks(struct k8s *k, const struct spec_component *c, struct buf *out)
{
    struct json_out w;
    bool any = false;

    for (size_t i = 0; i < c->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(k->r->spec, c->fabrics.items[i]);

        any = any || (f && component_rails(k, c, f));
        if (f) {
            /* A macvlan attachment names one interface for every machine. */
            const struct spec_node *n;

            for (size_t m = 0; (n = spec_component_group(k->r->spec, c, m)) != NULL; m++) {
                struct spec_nics_of v = spec_group_nics(n, f);

                if (!f->sriov && k8s_rail_count(f) && v.interfaces != &f->interfaces)
                    render_refuse(
                        k->r, v.interfaces->count ? v.interfaces : v.count_at,
                        "Give the fabric 'sriov', or the component groups that name them alike.",
                        "pods get network '%s' on interfaces that all machines name alike, and "
                        "'%s' has others",
                        f->name, n->name);
            }
        }
    }
    if (!any)
        return;
    json_out_init(&w, out, 2);
    json_arr(&w);
    for (size_t i = 0; i < c->fabrics.count; i++) {
        const struct spec_fabric *f = spec_fabric_find(k->r->spec, c->fabrics.items[i]);

        for (size_t j = 0; f && j < component_rails(k, c, f); j++) {
            json_obj(&w);
            json_kv_str(&w, "name", k8s_rail_name(k, f, j));
            json_kv_str(&w, "namespace", k8s_rail_namespace(k, f));
            json_kv_str(&w, "interface", k8s_rail_interface(k, f, j));
            json_obj_end(&w);
        }
    }
    json_arr_end(&w);
    buf_addc(out, '\n');
}

/* ---- attachments ---- */

static const char *const IPAMS[] = {
    [SPEC_IPAM_WHEREABOUTS] = "whereabouts", [SPEC_IPAM_NV] = "nv-ipam",
    [SPEC_IPAM_HOST_LOCAL] = "host-local",   [SPEC_IPAM_DHCP] = "dhcp",
    [SPEC_IPAM_STATIC] = "static",
};

static const char *subnet_of(const struct spec_fabric *f, size_t i)
{
    if (!f->subnets.count)
        return NULL;
    return f->subnets.items[f->subnets.count == 1 ? 0 : i % f->subnets.count];
}

enum spec_ipam k8s_ipam_kind(const struct spec_fabric *f)
{
    if (f->sriov)
        return f->sriov->ipam;
    return f->subnets.count ? SPEC_IPAM_WHEREABOUTS : SPEC_IPAM_DHCP;
}

/* NICs in one subnet take from one pool, or they would be given the same addresses. */
static const char *k8s_pool_name(struct k8s *k, const struct spec_fabric *f, size_t i)
{
    return f->subnets.count == 1 ? k8s_name(k, f->name, "") : k8s_rail_name(k, f, i);
}

static void put_ipam(struct k8s *k, struct json_out *w, const struct spec_fabric *f, size_t i)
{
    enum spec_ipam kind = k8s_ipam_kind(f);
    const char *subnet = subnet_of(f, i);
    bool ranged = kind == SPEC_IPAM_WHEREABOUTS || kind == SPEC_IPAM_HOST_LOCAL;
    bool from_subnet = ranged || kind == SPEC_IPAM_NV;

    if (from_subnet && !subnet) {
        if (i == 0)
            render_refuse(k->r,
                          f->sriov && spec_where(k->r->spec, &f->sriov->ipam).line
                              ? (const void *)&f->sriov->ipam
                              : &f->name,
                          "Give the fabric subnets, or choose dhcp.",
                          "'%s' gives addresses of a subnet, and fabric '%s' has none", IPAMS[kind],
                          f->name);
        json_obj(w); /* a value, though nobody will read it */
        json_obj_end(w);
        return;
    }
    json_obj(w);
    json_kv_str(w, "type", IPAMS[kind]);
    if (ranged)
        json_kv_str(w, kind == SPEC_IPAM_WHEREABOUTS ? "range" : "subnet", subnet);
    if (kind == SPEC_IPAM_NV) {
        json_kv_str(w, "poolName", k8s_pool_name(k, f, i % f->subnets.count));
        json_kv_str(w, "poolType", "ippool");
    }
    json_obj_end(w);
}

/* Several NICs in one subnet need routes by source address; jumbo frames need the MTU in the pod
 * too (InfiniBand's is set by its subnet manager). */
static void put_config(struct k8s *k, struct buf *out, const struct spec_fabric *f, size_t i)
{
    struct json_out w;
    bool ib = f->kind == SPEC_FABRIC_INFINIBAND;

    json_out_init(&w, out, 2);
    json_obj(&w);
    json_kv_str(&w, "cniVersion", "0.3.1");
    json_kv_str(&w, "name", k8s_rail_name(k, f, i));
    json_kv_arr(&w, "plugins");
    json_obj(&w);
    json_kv_str(&w, "type", !f->sriov ? "macvlan" : ib ? "ib-sriov" : "sriov");
    if (!f->sriov) {
        json_kv_str(&w, "master", k8s_rail_interface(k, f, i));
        json_kv_str(&w, "mode", "bridge");
        json_kv_int(&w, "mtu", f->mtu);
    }
    json_key(&w, "ipam");
    put_ipam(k, &w, f, i);
    json_obj_end(&w);
    if (f->sriov && f->kind != SPEC_FABRIC_INFINIBAND) {
        json_obj(&w);
        json_kv_str(&w, "type", "tuning");
        json_kv_int(&w, "mtu", f->mtu);
        json_obj_end(&w);
    }
    if (f->nics_most > 1 && f->subnets.count == 1) {
        json_obj(&w);
        json_kv_str(&w, "type", "sbr");
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(out, '\n');
}

static void ipam_wishes(struct k8s *k, const struct spec_fabric *f)
{
    enum spec_ipam kind = k8s_ipam_kind(f);

    if (f->sriov && kind == SPEC_IPAM_HOST_LOCAL)
        render_warn(k->r, &f->sriov->ipam, "Take whereabouts or nv-ipam.",
                    "'host-local' counts on each machine for itself: pods on two of them get the "
                    "same address of '%s'",
                    f->name);
    if (f->sriov && kind == SPEC_IPAM_STATIC)
        render_warn(k->r, &f->sriov->ipam, "Take whereabouts or nv-ipam.",
                    "'static' wants an address in each pod, and no component gives one: pods have "
                    "none on '%s'",
                    f->name);
}

void k8s_attachment(struct k8s *k, struct buf *out, const struct spec_fabric *f, size_t i)
{
    struct buf json = { 0 };
    struct yaml_out y;

    ipam_wishes(k, f);
    put_config(k, &json, f, i);
    yaml_begin(&y, out);
    k8s_head_open(k, &y, "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition",
                  k8s_rail_namespace(k, f), k8s_rail_name(k, f, i), NULL);
    if (f->sriov) {
        yaml_map(&y, "annotations");
        render_str(k->r, &y, "k8s.v1.cni.cncf.io/resourceName", k8s_rail_resource(k, f, i),
                   &f->sriov->resource_prefix);
        yaml_end(&y);
    }
    yaml_end(&y);
    yaml_map(&y, "spec");
    yaml_note(&y, render_from(k->r, &f->mtu));
    yaml_text(&y, "config", buf_str(&json));
    yaml_finish(&y);
    buf_release(&json);
}

/* Names that the group has for NICs with virtual functions, where they are not the fabric's; NULL:
 * none.  Interfaces may be named as pods see them: those are no machine's. */
static const struct spec_strs *group_pfs(const struct spec_fabric *f, const struct spec_node *n)
{
    struct spec_nics_of v = spec_group_nics(n, f);

    if (v.pfs != &f->sriov->pfs)
        return v.pfs;
    if (v.interfaces == &f->interfaces || !v.interfaces->count)
        return NULL;
    return f->sriov->pfs.count && !machine_name(v.interfaces->items[0]) ? NULL : v.interfaces;
}

/* Has a machine of the group the i-th NIC?  Where all NICs of the fabric are one resource the first
 * stands for them. */
static bool group_has_nic(const struct spec_node *n, const struct spec_fabric *f, size_t i)
{
    return spec_group_on(n, f) && (int64_t)i < spec_group_nics(n, f).count;
}

/* The i-th NIC on machines of `n`; NULL: of groups that name theirs as the fabric does. */
static void pf_names(struct k8s *k, struct yaml_out *y, const struct spec_fabric *f,
                     const struct spec_node *n, size_t i)
{
    const struct spec_strs *names = n ? group_pfs(f, n) : NULL;

    if (!names)
        names = f->sriov->pfs.count ? &f->sriov->pfs : &f->interfaces;
    yaml_seq(y, "pfNames");
    if (names->count)
        render_str(k->r, y, NULL, names->items[i % names->count], names);
    yaml_end(y);
}

/* Does the spec give the machines of a group the label with another value? */
static bool label_differs(const struct spec_node *n, const struct spec_pair *want)
{
    for (size_t i = 0; i < n->labels.count; i++)
        if (str_eq(n->labels.items[i].key, want->key))
            return !str_eq(n->labels.items[i].value, want->value);
    return false;
}

/* Has the spec all labels of a selector at the machines of the group (`said`), or none of them with
 * another value?  What is not in the spec may be set by discovery. */
static bool group_selected(const struct spec_node *n, const struct spec_pairs *selector, bool said)
{
    for (size_t j = 0; j < selector->count; j++) {
        bool there = false;

        for (size_t i = 0; i < n->labels.count; i++)
            there = there || str_eq(n->labels.items[i].key, selector->items[j].key);
        if (label_differs(n, &selector->items[j]) || (said && !there))
            return false;
    }
    return true;
}

/* Virtual functions are made on machines with these labels: on none where each group of the fabric
 * has another one. */
static void selector_check(struct k8s *k, const struct spec_fabric *f)
{
    const struct spec *s = k->r->spec;

    for (size_t j = 0; j < f->sriov->node_selector.count; j++) {
        const struct spec_pair *want = &f->sriov->node_selector.items[j];
        size_t on = 0, off = 0;

        for (size_t i = 0; i < s->node_count; i++) {
            on += spec_group_on(&s->nodes[i], f);
            off += spec_group_on(&s->nodes[i], f) && label_differs(&s->nodes[i], want);
        }
        if (on && on == off)
            render_refuse(k->r, want, "Give a group on it that label, or change the selector.",
                          "no machine on fabric '%s' has the label '%s=%s': none gets virtual "
                          "functions",
                          f->name, want->key, want->value);
    }
}

/* Where the functions are made: by the spec's own selector, and on machines of the group where that
 * is not enough: the operator drains a machine for it, and one that is not on the fabric may well
 * have a NIC of that name. */
static void node_selector(struct k8s *k, struct yaml_out *y, const struct spec_fabric *f,
                          const struct spec_node *n)
{
    const struct spec_pairs *own = &f->sriov->node_selector;

    yaml_map(y, "nodeSelector");
    for (size_t j = 0; j < own->count; j++)
        render_str(k->r, y, own->items[j].key, own->items[j].value, &own->items[j]);
    if (n)
        render_str(k->r, y, K8S_GROUP_LABEL, n->name, &n->fabrics);
    if (!own->count)
        yaml_strf(y, "feature.node.kubernetes.io/network-sriov.capable", "true");
    yaml_end(y);
}

/* Would the spec's own selector reach a machine that has not this NIC, or calls it otherwise?  Then
 * it does not say enough. */
static bool selector_is_wide(const struct spec *s, const struct spec_fabric *f, size_t i)
{
    const struct spec_pairs *own = &f->sriov->node_selector;

    for (size_t g = 0; g < s->node_count; g++) {
        const struct spec_node *n = &s->nodes[g];
        bool on = spec_group_on(n, f), own_names = k8s_rails_apart(f) && group_pfs(f, n);

        if (group_selected(n, own, !on) && (!group_has_nic(n, f, i) || own_names))
            return true;
    }
    return false;
}

/* One name of the machines for each NIC.  A group with fewer does not say which of them it has. */
static void names_check(struct k8s *k, const struct spec_fabric *f)
{
    const struct spec *s = k->r->spec;
    const struct spec_strs *pfs = &f->sriov->pfs;

    if (pfs->count && pfs->count != (size_t)f->nics_per_node)
        render_refuse(k->r, pfs, "Name one interface of the machines for each NIC.",
                      "fabric '%s' has %d NICs, and %zu interfaces are named", f->name,
                      (int)f->nics_per_node, pfs->count);
    for (size_t g = 0; k8s_rails_apart(f) && g < s->node_count; g++) {
        struct spec_nics_of v = spec_group_nics(&s->nodes[g], f);

        if (spec_group_on(&s->nodes[g], f) && !group_pfs(f, &s->nodes[g]) &&
            v.count < f->nics_per_node)
            render_warn(k->r, v.count_at, "Name them with 'pfs' of its 'nics'.",
                        "'%s' has %" PRId64 " of the %" PRId64 " NICs of '%s', and does not say "
                        "which: virtual functions are made on the first",
                        s->nodes[g].name, v.count, f->nics_per_node, f->name);
    }
}

/* `n` NULL: of every machine that the selector of the spec names. */
static void policy_write(struct k8s *k, struct buf *out, const char *namespace,
                         const struct spec_fabric *f, const struct spec_node *n, size_t i,
                         const char *name)
{
    const struct spec_sriov *s = f->sriov;
    bool ib = f->kind == SPEC_FABRIC_INFINIBAND;
    struct yaml_out y;

    k8s_object_in(k, &y, out, "sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy", namespace,
                  name, NULL);
    yaml_map(&y, "spec");
    yaml_str(&y, "resourceName", k8s_rail_resource_bare(k, f, i));
    yaml_note(&y, "netdevice: the kernel's driver, with an RDMA device inside");
    yaml_str(&y, "deviceType", "netdevice");
    yaml_bool(&y, "isRdma", f->kind != SPEC_FABRIC_ETHERNET);
    yaml_str(&y, "linkType", ib ? "ib" : "eth");
    render_int(k->r, &y, "mtu", f->mtu, &f->mtu);
    render_int(k->r, &y, "numVfs", s->vfs, &s->vfs);
    yaml_int(&y, "priority", 10);
    yaml_map(&y, "nicSelector");
    render_str(k->r, &y, "vendor", f->sriov->vendor, &f->sriov->vendor);
    if (f->sriov->device)
        render_str(k->r, &y, "deviceID", f->sriov->device, &f->sriov->device);
    if (k8s_rails_apart(f)) {
        pf_names(k, &y, f, n, i);
    } else {
        yaml_comment(&y, "every port of this vendor: one resource for all of them, since the spec "
                         "names interfaces as pods see them");
    }
    yaml_end(&y);
    node_selector(k, &y, f, n);
    yaml_finish(&y);
}

/* A selector has no "or": a policy for each group that has the NIC, named after it where there are
 * several groups. */
void k8s_sriov_policy(struct k8s *k, struct buf *out, const char *namespace,
                      const struct spec_fabric *f, size_t i)
{
    const struct spec *s = k->r->spec;
    const struct spec_pairs *own = &f->sriov->node_selector;
    const char *name = k8s_rails_apart(f) ? k8s_rail_name(k, f, i) : k8s_name(k, f->name, "");
    bool by_group = !own->count || selector_is_wide(s, f, i);
    size_t groups = 0;

    if (i == 0) {
        selector_check(k, f);
        names_check(k, f);
    }
    for (size_t g = 0; by_group && g < s->node_count; g++)
        groups += spec_group_on(&s->nodes[g], f) && group_selected(&s->nodes[g], own, false);
    if (!groups)
        policy_write(k, out, namespace, f, NULL, i, name);
    for (size_t g = 0; groups && g < s->node_count; g++)
        if (group_has_nic(&s->nodes[g], f, i) && group_selected(&s->nodes[g], own, false))
            policy_write(
                k, out, namespace, f, &s->nodes[g], i,
                groups == 1
                    ? name
                    : k8s_name(k, arena_printf(&k->arena, "%s-%s", name, s->nodes[g].name), ""));
}

void k8s_sriov_network(struct k8s *k, struct buf *out, const char *namespace,
                       const struct spec_fabric *f, size_t i)
{
    bool ib = f->kind == SPEC_FABRIC_INFINIBAND;
    struct buf json = { 0 };
    struct json_out w;
    struct yaml_out y;

    ipam_wishes(k, f);
    json_out_init(&w, &json, 0);
    put_ipam(k, &w, f, i);
    k8s_object_in(k, &y, out, "sriovnetwork.openshift.io/v1",
                  ib ? "SriovIBNetwork" : "SriovNetwork", namespace, k8s_rail_name(k, f, i), NULL);
    yaml_map(&y, "spec");
    yaml_str(&y, "resourceName", k8s_rail_resource_bare(k, f, i));
    yaml_note(&y, "where the attachment is made");
    yaml_str(&y, "networkNamespace", k8s_rail_namespace(k, f));
    render_str(k->r, &y, "ipam", buf_str(&json), &f->sriov->ipam);
    if (!ib) {
        yaml_note(&y, render_from(k->r, &f->mtu));
        yaml_strf(&y, "metaPlugins", "{\"type\": \"tuning\", \"mtu\": %d}", (int)f->mtu);
    }
    yaml_finish(&y);
    buf_release(&json);
}

/* ---- pools of nv-ipam ---- */

/* Has the group a NIC in the i-th subnet? */
static bool group_in_subnet(const struct spec_node *n, const struct spec_fabric *f, size_t i)
{
    return f->subnets.count > 1 ? group_has_nic(n, f, i) : spec_group_on(n, f);
}

static int64_t machines_in(const struct spec *s, const struct spec_fabric *f, size_t subnet)
{
    int64_t count = 0;

    for (size_t i = 0; i < s->node_count; i++)
        if (group_in_subnet(&s->nodes[i], f, subnet))
            count += s->nodes[i].count;
    return count > 0 ? count : 1;
}

/* Addresses that a subnet has for pods; a large one is as good as any larger. */
static int64_t addresses_of(const char *subnet)
{
    const char *slash = strchr(subnet, '/');
    long width = strchr(subnet, ':') ? 128 : 32, len = slash ? strtol(slash + 1, NULL, 10) : width;
    long bits = width - len;

    if (bits < 2)
        return bits + 1;
    return bits > 24 ? INT64_C(1) << 24 : (INT64_C(1) << bits) - 2;
}

static void pool_selector(struct k8s *k, struct yaml_out *y, const struct spec_fabric *f,
                          size_t subnet)
{
    const struct spec *s = k->r->spec;

    yaml_open(y, "nodeSelector.nodeSelectorTerms[].matchExpressions[]");
    yaml_str(y, "key", K8S_GROUP_LABEL);
    yaml_str(y, "operator", "In");
    yaml_seq(y, "values");
    for (size_t i = 0; i < s->node_count; i++)
        if (group_in_subnet(&s->nodes[i], f, subnet))
            yaml_str(y, NULL, s->nodes[i].name);
    for (int i = 0; i < 6; i++)
        yaml_end(y);
}

void k8s_ip_pool(struct k8s *k, struct buf *out, const char *namespace, const struct spec_fabric *f,
                 size_t i)
{
    enum { BLOCK_MAX = 256 };
    int64_t machines = machines_in(k->r->spec, f, i);
    int64_t block = addresses_of(f->subnets.items[i]) / machines;
    struct yaml_out y;

    if (block < f->sriov->vfs)
        (block < 1 ? render_refuse : render_warn)(
            k->r, &f->subnets, "Take a wider subnet.",
            "'%s' has %" PRId64 " addresses for each of %" PRId64 " machines, and %" PRId64
            " virtual functions could be used there",
            f->subnets.items[i], block, machines, f->sriov->vfs);
    k8s_object_in(k, &y, out, "nv-ipam.nvidia.com/v1alpha1", "IPPool", namespace,
                  k8s_pool_name(k, f, i), NULL);
    yaml_map(&y, "spec");
    render_str(k->r, &y, "subnet", f->subnets.items[i], &f->subnets);
    yaml_note(&y, "addresses of a machine");
    yaml_int(&y, "perNodeBlockSize", block > BLOCK_MAX ? BLOCK_MAX : block);
    pool_selector(k, &y, f, i);
    yaml_finish(&y);
}
