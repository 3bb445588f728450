/* SPDX-License-Identifier: MIT */
/* gid: the address an RDMA port speaks from, and how NCCL finds it.
 *
 * InfiniBand: index 0, unless the entry at NCCL_IB_ROUTABLE_FLID_GID_INDEX carries
 * a routable subnet.  RoCE: NCCL_IB_GID_INDEX when set; else it starts at 0, walks
 * the table once and moves to an entry
 *   1. when that entry has the wanted address family and the current one has not, or
 *   2. when it is a proper address of the wanted family and RoCE version and the
 *      current one has another version or is no proper address.
 * Rule 1 asks for nothing else, so a table whose only IPv4 entry is RoCE v1 ends
 * there, and a table without IPv4 never leaves index 0 (fe80::, RoCE v1). */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <arpa/inet.h>

enum { GID_INDEX_MAX = 4095 }; /* tables have at most 256 entries today */

bool gid_parse(const char *text, struct gid *out)
{
    struct gid g;

    for (size_t i = 0; i < 8; i++) {
        char *end;
        unsigned long v = text ? strtoul(text, &end, 16) : 0;

        if (!text || end == text || end - text > 4 || v > 0xffff || *end != (i < 7 ? ':' : 0))
            return false;
        g.raw[2 * i] = (uint8_t)(v >> 8);
        g.raw[2 * i + 1] = (uint8_t)v;
        text = end + (i < 7);
    }
    *out = g;
    return true;
}

bool gid_is_v4(const struct gid *g)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    static const uint8_t multicast[12] = { 0xff, 0x0e, [10] = 0xff, [11] = 0xff };

    return memcmp(g->raw, mapped, 12) == 0 || memcmp(g->raw, multicast, 12) == 0;
}

static bool is_fe80(const struct gid *g)
{
    static const uint8_t fe80[8] = { 0xfe, 0x80 };

    return memcmp(g->raw, fe80, 8) == 0;
}

bool gid_is_link_local(const struct gid *g)
{
    return is_fe80(g) || (gid_is_v4(g) && g->raw[12] == 169 && g->raw[13] == 254);
}

bool gid_is_set(const struct gid *g)
{
    static const uint8_t zero[16], bare[16] = { 0xfe, 0x80 };

    return memcmp(g->raw, zero, 16) != 0 && memcmp(g->raw, bare, 16) != 0;
}

/* To NCCL, which takes 169.254.0.0/16 for an address like any other. */
static bool gid_is_proper(const struct gid *g)
{
    return gid_is_set(g) && !is_fe80(g);
}

const struct hw_gid *gid_at(const struct hw_rdma_port *p, int64_t index)
{
    for (size_t i = 0; i < p->gids_count; i++)
        if (maybe_is(p->gids[i].index, index))
            return &p->gids[i];
    return NULL;
}

int gid_version(const struct hw_gid *g)
{
    if (!g || !g->type)
        return -1;
    if (str_starts(g->type, "RoCE v2"))
        return 2;
    return str_starts(g->type, "IB/RoCE v1") || str_starts(g->type, "RoCE v1") ? 1 : -1;
}

static bool device_here(const struct hw *hw, const struct hw_gid *g)
{
    return g->ndev && (hw->nets_count == 0 || hw_find_net(hw, g->ndev));
}

bool gid_usable(const struct hw *hw, const struct hw_gid *g)
{
    struct gid v;

    return g && gid_parse(g->gid, &v) && gid_is_proper(&v) && !gid_is_link_local(&v) &&
           gid_version(g) == 2 && device_here(hw, g);
}

enum gid_class gid_port_class(const struct hw *hw, const struct hw_rdma_port *p)
{
    enum gid_class best = GID_NONE;

    for (size_t i = 0; i < p->gids_count; i++) {
        struct gid v;

        if (gid_usable(hw, &p->gids[i]))
            return GID_ROUTABLE;
        if (gid_parse(p->gids[i].gid, &v) && gid_is_set(&v) && device_here(hw, &p->gids[i]))
            best = GID_LOCAL;
    }
    return best;
}

const char *gid_text(struct arena *a, const struct hw_gid *g)
{
    char text[INET6_ADDRSTRLEN];
    struct gid v;

    if (!g || !gid_parse(g->gid, &v))
        return "no address";
    if (gid_is_v4(&v))
        inet_ntop(AF_INET, v.raw + 12, text, sizeof(text));
    else
        inet_ntop(AF_INET6, v.raw, text, sizeof(text));
    return arena_strdup(a, text);
}

/* NCCL cuts at the first '/', so of a comma list only the first range counts, and a
 * list whose first entry has no '/' is no address at all and is ignored. */
bool gid_rule_range(struct gid_rule *r, const char *range)
{
    const char *slash = range ? strchr(range, '/') : NULL;
    char addr[128];
    long bits;

    if (!slash || (size_t)(slash - range) >= sizeof(addr))
        return false;
    memcpy(addr, range, (size_t)(slash - range));
    addr[slash - range] = 0;
    bits = strtol(slash + 1, NULL, 10);
    if (bits < 0 || bits > (r->family == 4 ? 32 : 128) ||
        inet_pton(r->family == 4 ? AF_INET : AF_INET6, addr, r->prefix) != 1)
        return false;
    r->prefix_bits = (int)bits;
    return true;
}

void gid_rule_of(const struct hw *hw, struct gid_rule *out)
{
    const char *family = nccl_env_of(hw, "NCCL_IB_ADDR_FAMILY");

    *out = (struct gid_rule){ .family = str_eq(family, "AF_INET6") ? 6 : 4 };
    out->version = (int)nccl_env_int(hw, "NCCL_IB_ROCE_VERSION_NUM", 2);
    (void)gid_rule_range(out, nccl_env_of(hw, "NCCL_IB_ADDR_RANGE"));
}

bool gid_in_range(const struct gid *g, const struct gid_rule *r)
{
    const uint8_t *p = r->family == 4 ? g->raw + 12 : g->raw;
    int bits = r->prefix_bits;

    for (int i = 0; bits > 0; i++, bits -= 8) {
        uint8_t mask = bits >= 8 ? 0xff : (uint8_t)(0xff << (8 - bits));

        if ((p[i] ^ r->prefix[i]) & mask)
            return false;
    }
    return true;
}

int64_t gid_scan(const struct hw_rdma_port *p, const struct gid_rule *rule)
{
    int64_t last = 0, now = 0;

    for (size_t i = 0; i < p->gids_count; i++)
        if (p->gids[i].index.known && p->gids[i].index.v > last &&
            p->gids[i].index.v <= GID_INDEX_MAX)
            last = p->gids[i].index.v;
    /* one more: the empty slot that ends the used part of the table */
    for (int64_t next = 1; next <= last + 1; next++) {
        const struct hw_gid *cur = gid_at(p, now), *cand = gid_at(p, next);
        struct gid a = { { 0 } }, b = { { 0 } };
        int fam_a, fam_b;

        if (cur)
            (void)gid_parse(cur->gid, &a); /* unreadable counts as empty */
        if (cand)
            (void)gid_parse(cand->gid, &b);
        fam_a = gid_is_v4(&a) ? 4 : 6;
        fam_b = gid_is_v4(&b) ? 4 : 6;
        if (fam_b != rule->family || !gid_in_range(&b, rule))
            continue;
        if (fam_b != fam_a || (gid_is_proper(&b) && gid_version(cand) == rule->version &&
                               (gid_version(cur) != gid_version(cand) || !gid_is_proper(&a))))
            now = next;
    }
    return now;
}

int64_t gid_ib(const struct hw *hw, const struct hw_rdma_port *p)
{
    int64_t routable = nccl_env_int(hw, "NCCL_IB_ROUTABLE_FLID_GID_INDEX", 1);
    const struct hw_gid *g = gid_at(p, routable);
    struct gid v;

    return g && gid_parse(g->gid, &v) && (v.raw[4] || v.raw[5]) ? routable : 0;
}

/* What is wrong with a RoCE entry; NULL: nothing. */
static const char *gid_fault(struct nccl_run *s, const struct hw_gid *g)
{
    struct gid v;

    if (!g || !gid_parse(g->gid, &v) || !gid_is_set(&v))
        return "that slot of the table is empty";
    if (gid_version(g) == 1)
        return "it is RoCE v1, which no router forwards";
    if (gid_version(g) != 2)
        return "its RoCE version cannot be read in this namespace";
    if (gid_is_link_local(&v))
        return "it is link-local, which no router forwards";
    if (!g->ndev)
        return "its network device is not in this network namespace";
    if (!device_here(s->hw, g))
        return arena_printf(s->a, "its network device %s is not in this network namespace",
                            g->ndev);
    return NULL;
}

static const char *gid_search_text(struct nccl_run *s, const struct hw_rdma_port *p,
                                   int64_t *out_index)
{
    int64_t pinned = nccl_env_int(s->hw, "NCCL_IB_GID_INDEX", -1);
    struct gid_rule rule;

    if (str_eq(p->link_layer, "InfiniBand")) {
        *out_index = gid_ib(s->hw, p);
        return *out_index ? "InfiniBand with a routable subnet takes this entry"
                          : "InfiniBand uses entry 0 and never reads NCCL_IB_GID_INDEX";
    }
    if (pinned >= 0) {
        *out_index = pinned;
        return "NCCL_IB_GID_INDEX fixes it";
    }
    if (nccl_older_than(s->hw, 2, 21)) {
        *out_index = 0;
        return "NCCL before 2.21 does not search and takes entry 0";
    }
    gid_rule_of(s->hw, &rule);
    *out_index = gid_scan(p, &rule);
    return arena_printf(s->a, "NCCL's search for an IPv%d address and RoCE v%d ends there",
                        rule.family, rule.version);
}

void gid_choose(struct nccl_run *s, const struct hw_rdma_port *p, struct nccl_port *out)
{
    bool ib = str_eq(p->link_layer, "InfiniBand");
    int64_t index = 0;
    const char *why = gid_search_text(s, p, &index);
    const struct hw_gid *g = gid_at(p, index);
    const char *bad = ib ? NULL : gid_fault(s, g);

    out->gid_index = maybe_of(index);
    if (g) {
        out->gid = g->gid;
        out->gid_type = g->type;
        out->gid_ndev = g->ndev;
    }
    out->gid_ok = bad == NULL;
    out->gid_here = ib || !g || device_here(s->hw, g);
    if (ib)
        out->gid_why = arena_printf(s->a, "Index %lld: %s.", (long long)index, why);
    else
        out->gid_why = arena_printf(
            s->a, "Index %lld (%s%s%s%s%s): %s%s%s.", (long long)index, gid_text(s->a, g),
            g && g->type ? ", " : "", g && g->type ? g->type : "", g && g->ndev ? " on " : "",
            g && g->ndev ? g->ndev : "", why, bad ? ", but " : "", bad ? bad : "");
}
