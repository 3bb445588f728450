/* SPDX-License-Identifier: MIT */
/* lustre_net: NIDs, and LNet's networks as the two files that take them.
 *
 * A NID is ADDRESS@NETWORK.  mount(8) and mkfs.lustre take servers that stand in for each other
 * with ':' between them, and NIDs of one server with ',' between: an address with a colon cannot
 * be written that way and is refused.  Networks are given to `lnetctl import` (lnet.conf) or, where
 * LNet is loaded before anybody can do that, to the module (lnet-modprobe.conf): one of the two. */
#include "base/str.h"
#include "render/lustre/lustre_int.h"

enum { NET_NAME_MAX = 15, NET_INTERFACE_MAX = 15, NET_MAX = 32 };

static bool is_net(const char *p, size_t len)
{
    static const char *const kinds[] = { "tcp", "o2ib", "kfi", "gni", "ptlf" };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        size_t n = strlen(kinds[i]);

        if (len >= n && len <= NET_NAME_MAX && !strncmp(p, kinds[i], n) &&
            strspn(p + n, "0123456789") >= len - n)
            return true;
    }
    return false;
}

/* One NID of `len` characters. */
static bool is_nid(const char *p, size_t len)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    size_t address = strspn(p, letters);

    return address > 0 && address < len && p[address] == '@' &&
           is_net(p + address + 1, len - address - 1);
}

void lustre_check_nids(struct lustre_site *l)
{
    for (const char *p = l->t->mgs;; p++) {
        size_t len = strcspn(p, ":,");

        if (!is_nid(p, len)) {
            render_refuse(l->r, &l->t->mgs,
                          "Write it like 10.0.0.2@o2ib, or 10.0.0.2@o2ib:10.0.0.3@o2ib with a "
                          "second server.",
                          "'%.80s' is not a network id of Lustre", l->t->mgs);
            return;
        }
        p += len;
        if (!*p)
            break;
    }
    if (l->t->failover && !strchr(l->t->mgs, ':'))
        render_warn(l->r, &l->t->mgs, "Write a second one behind a ':'.",
                    "targets may move, but the management server '%s' stands alone", l->t->mgs);
}

const char *lustre_net(const struct lustre_site *l, char *out, size_t cap)
{
    const char *at = strchr(l->t->mgs, '@');
    size_t len = at ? strcspn(at + 1, ":,") : 0;

    (void)snprintf(out, cap, "%.*s", (int)(len < cap ? len : 0), at ? at + 1 : "");
    return is_net(out, strlen(out)) ? out : "tcp";
}

/* "o2ib0(ib0,ib1)" to its parts; false: it is none. */
static bool split_network(const char *s, size_t *out_name, const char **out_interfaces,
                          size_t *out_len)
{
    size_t name = strcspn(s, "("), len = strlen(s);

    if (!is_net(s, name) || name + 3 > len || s[name] != '(' || s[len - 1] != ')')
        return false;
    *out_name = name;
    *out_interfaces = s + name + 1;
    *out_len = len - name - 2;
    for (const char *p = *out_interfaces, *end = p + *out_len; p < end;) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

        if (!n || n > NET_INTERFACE_MAX || (p[n] != ',' && p + n != end) ||
            (p[n] == ',' && p + n + 1 == end))
            return false;
        p += n + 1;
    }
    return true;
}

static void put_network(struct lustre_site *l, struct yaml_out *y, const char *const *item)
{
    const char *interfaces;
    size_t name, len;
    int number = 0;

    if (!split_network(*item, &name, &interfaces, &len)) {
        render_refuse(l->r, item, "Write it like o2ib(ib0), or tcp1(eth0,eth1).",
                      "'%.80s' is not a network of LNet with its interfaces", *item);
        return;
    }
    yaml_map(y, NULL);
    yaml_note(y, render_from(l->r, item));
    yaml_strf(y, "net type", "%.*s", (int)name, *item);
    yaml_seq(y, "local NI(s)");
    yaml_open(y, "[].interfaces");
    for (const char *p = interfaces, *end = p + len; p < end; number++) {
        size_t n = strcspn(p, ",)");
        char key[12];

        (void)snprintf(key, sizeof(key), "%d", number);
        yaml_strf(y, key, "%.*s", (int)n, p);
        p += n + 1;
    }
    yaml_ends(y, 4);
}

void lustre_lnet(struct lustre_site *l)
{
    const struct spec_strs *nets = &l->t->networks;
    struct buf *conf, *module;
    struct yaml_out y;

    if (!nets->count)
        return;
    if (nets->count > NET_MAX) {
        render_refuse(l->r, nets, NULL, "LNet takes at most %d networks here", NET_MAX);
        return;
    }
    conf = render_file(l->r, "lustre/lnet.conf");
    render_head(l->r, conf, "#",
                "LNet's networks: /etc/lnet.conf, `lnetctl import /etc/lnet.conf`.");
    yaml_begin(&y, conf);
    yaml_seq(&y, "net");
    for (size_t i = 0; i < nets->count; i++)
        put_network(l, &y, &nets->items[i]);
    yaml_finish(&y);
    module = render_file(l->r, "lustre/lnet-modprobe.conf");
    render_head(l->r, module, "#",
                "LNet's networks: /etc/modprobe.d/lnet.conf, where lnet.conf is not used.");
    buf_addf(module, "# %s\noptions lnet networks=\"", render_from(l->r, nets));
    for (size_t i = 0; i < nets->count; i++)
        buf_addf(module, "%s%s", i ? "," : "", nets->items[i]);
    buf_adds(module, "\"\n");
}
