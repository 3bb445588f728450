/* SPDX-License-Identifier: MIT */
/* pci: the PCI functions that matter to GPU work, from /sys/bus/pci/devices.
 *
 * Kept are NVIDIA GPUs and NVSwitches, network and InfiniBand adapters, NVMe, and
 * every bridge that stands above one of them.  A function's place in the tree is its
 * resolved path:
 *
 *   /sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1b:00.0
 *                host bridge  root port    switch up    switch down  the function
 *
 * A domain of its own below a device (Intel VMD: …/0000:e0:00.5/pci10000:e0/…) has
 * its own host bridge there; what is above that one is not looked at.
 *
 * Config space costs a bus cycle a word (an exit to the hypervisor in a VM), so only
 * its head is read; bridges are read further, as far as their capabilities reach,
 * because ACS is there.  Without privilege the kernel gives 64 bytes and ACS stays
 * unknown.  A virtual function's first four bytes are all ones by the SR-IOV rules,
 * so it counts as dead only when the whole head is. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <ctype.h>

enum {
    PCI_KEPT_MAX = 2048, /* functions in the inventory; virtual functions may be many */
    PCI_DEPTH_MAX = 32,  /* bridges above one function */
    PCI_WIDTH_MAX = 32,  /* lanes; more is what a dead device's register reads as */
    PCI_CONFIG_HEAD = 64,
    PCI_CONFIG_LEGACY = 256, /* where the extended capabilities start */
    PCI_CONFIG_FIRST = 1024, /* most switches have all capabilities below it */
    PCI_CONFIG_ALL = 4096,
    PCI_CAPS_MAX = (PCI_CONFIG_ALL - PCI_CONFIG_LEGACY) / 8,
    PCI_CAP_ACS = 0x000d,
    PCI_ACS_SOURCE_VALID = 1 << 0,
    PCI_ACS_REQUEST_REDIRECT = 1 << 2,
    PCI_ACS_DIRECT_TRANSLATED = 1 << 6,
    PCI_VENDOR_NVIDIA = 0x10de
};

static_assert(PCI_CAPS_MAX == 480, "one capability is at least eight bytes");

struct pci_list {
    struct hw_pci *items; /* heap until the list is complete */
    size_t count, cap;
    bool cut;                    /* PCI_KEPT_MAX was reached */
    uint64_t keys[PCI_KEPT_MAX]; /* addresses of items[] */
};

/* ---- addresses ---- */

/* -1 when it is no hexadecimal digit. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits up to `end`, at most `digits`; NULL when it is anything else. */
static const char *hex_until(const char *s, char end, int digits, uint64_t *out)
{
    uint64_t v = 0;
    int n = 0;

    for (; n < digits && hex_digit(*s) >= 0; s++, n++)
        v = v << 4 | (uint64_t)hex_digit(*s);
    if (n == 0 || *s != end)
        return NULL;
    *out = v;
    return s + 1;
}

bool hw_bdf_key(const char *s, uint64_t *out)
{
    uint64_t domain, bus, dev, fn;

    if (!s || !(s = hex_until(s, ':', 8, &domain)) || !(s = hex_until(s, ':', 2, &bus)) ||
        !(s = hex_until(s, '.', 2, &dev)) || !hex_until(s, '\0', 1, &fn) || dev > 31 || fn > 7)
        return false;
    *out = domain << 16 | bus << 8 | dev << 3 | fn;
    return true;
}

/* The name after the last '/' of the first `len` bytes of `path`. */
static const char *last_part(const char *path, size_t len, char *out, size_t cap)
{
    size_t start = len;

    while (start > 0 && path[start - 1] != '/')
        start--;
    if (len - start >= cap)
        return NULL;
    memcpy(out, path + start, len - start);
    out[len - start] = '\0';
    return out;
}

/* Cuts the last name and its '/'; 0 when there is none left. */
static size_t parent_len(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len > 0 ? len - 1 : 0;
}

static char *bdf_dup(struct arena *a, const char *s)
{
    char *copy = arena_strdup(a, s);

    for (char *p = copy; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return copy;
}

const char *hw_physfn_of(struct hw_build *b, const char *dir)
{
    const char *name = root_link_name(b->root, b->a, "%s/physfn", dir);
    uint64_t key;

    return name && hw_bdf_key(name, &key) ? name : NULL;
}

const char *hw_bdf_of_path(struct arena *a, const char *path)
{
    char part[32] = "";
    uint64_t key;

    for (size_t len = strlen(path); len > 0; len = parent_len(path, len))
        if (last_part(path, len, part, sizeof(part)) && hw_bdf_key(part, &key))
            return bdf_dup(a, part);
    return NULL;
}

/* ---- config space ---- */

static uint32_t get_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool all_ones(const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] != 0xff)
            return false;
    return true;
}

static struct maybe config_alive(const unsigned char *cfg, size_t len, bool is_vf)
{
    if (len < PCI_CONFIG_HEAD)
        return maybe_none();
    return maybe_of(!all_ones(cfg, is_vf ? PCI_CONFIG_HEAD : 4));
}

/* Whether ACS redirects: unknown when the list leads past `len`, in *need then the
 * bytes it takes to go on.  A list that runs in a circle ends at PCI_CAPS_MAX. */
static struct maybe config_acs(const unsigned char *cfg, size_t len, size_t *need,
                               struct maybe *out_direct)
{
    size_t at = PCI_CONFIG_LEGACY;

    *need = 0;
    if (len == PCI_CONFIG_LEGACY)
        return maybe_of(0); /* conventional PCI has no extended capabilities */
    if (len < PCI_CONFIG_LEGACY)
        return maybe_none();
    for (int i = 0; i < PCI_CAPS_MAX; i++) {
        if (at + 8 > len) {
            *need = at + 8;
            return maybe_none();
        }
        uint32_t head = get_u32(cfg + at);
        if (head == UINT32_MAX)
            return maybe_none();
        if ((head & 0xffff) == PCI_CAP_ACS) {
            uint32_t control = get_u32(cfg + at + 4) >> 16;
            bool on = (control & (PCI_ACS_SOURCE_VALID | PCI_ACS_REQUEST_REDIRECT)) != 0;

            if (on)
                *out_direct = maybe_of((control & PCI_ACS_DIRECT_TRANSLATED) != 0);
            return maybe_of(on);
        }
        at = head >> 20 & ~UINT32_C(3);
        if (at < PCI_CONFIG_LEGACY)
            return maybe_of(0);
    }
    return maybe_none();
}

static size_t config_read(struct hw_build *b, const char *dir, char *cfg, size_t want)
{
    char path[ROOT_PATH_MAX];
    ssize_t n;

    if (snprintf(path, sizeof(path), "%s/config", dir) >= (int)sizeof(path))
        return 0;
    n = root_read(b->root, path, cfg, want + 1);
    return n < 0 ? 0 : (size_t)n;
}

static void fill_config(struct hw_build *b, const char *dir, bool bridge, struct hw_pci *p)
{
    char cfg[PCI_CONFIG_ALL + 1];
    const unsigned char *u = (const unsigned char *)cfg;
    size_t want = bridge ? PCI_CONFIG_FIRST : PCI_CONFIG_HEAD;
    size_t need = 0, n = config_read(b, dir, cfg, want);

    p->alive = config_alive(u, n, p->physfn != NULL);
    if (!bridge)
        return;
    p->acs = config_acs(u, n, &need, &p->acs_direct);
    if (need > 0 && n == want) {
        n = config_read(b, dir, cfg, PCI_CONFIG_ALL);
        p->acs = config_acs(u, n, &need, &p->acs_direct);
    }
}

/* ---- one function ---- */

static bool is_nvswitch(struct maybe vendor, struct maybe class_)
{
    return maybe_is(vendor, PCI_VENDOR_NVIDIA) && class_.known && class_.v >> 8 == 0x0680;
}

static bool is_bridge(struct maybe class_)
{
    return class_.known && class_.v >> 8 == 0x0604;
}

static bool is_wanted(struct maybe vendor, struct maybe class_)
{
    int64_t sub = class_.known ? class_.v >> 8 : -1;

    if (sub >> 8 == 0x01 || sub >> 8 == 0x02) /* storage, network */
        return true;
    return maybe_is(vendor, PCI_VENDOR_NVIDIA) && (sub == 0x0300 || sub == 0x0302 || sub == 0x0680);
}

static struct maybe not_negative(struct maybe m)
{
    return m.known && m.v >= 0 ? m : maybe_none();
}

static const char *link_speed(struct hw_build *b, const char *dir, const char *file)
{
    const char *s = root_str(b->root, b->a, "%s/%s", dir, file);

    return s && !str_starts(s, "Unknown") ? s : NULL;
}

static struct maybe link_width(struct hw_build *b, const char *dir, const char *file)
{
    struct maybe w = root_int(b->root, "%s/%s", dir, file);

    return w.known && w.v > 0 && w.v <= PCI_WIDTH_MAX ? w : maybe_none();
}

/* parent and root, from the path only. */
static void fill_place(struct hw_build *b, const char *dir, struct hw_pci *p)
{
    size_t len = parent_len(dir, strlen(dir));
    char part[32] = "";
    uint64_t key;

    for (int depth = 0; len > 0 && depth <= PCI_DEPTH_MAX; depth++) {
        if (!last_part(dir, len, part, sizeof(part)))
            return;
        if (hw_bdf_key(part, &key)) {
            if (depth == 0)
                p->parent = bdf_dup(b->a, part);
        } else {
            if (str_starts(part, "pci") && strchr(part, ':'))
                p->root = arena_strdup(b->a, part);
            return;
        }
        len = parent_len(dir, len);
    }
}

static void pci_fill(struct hw_build *b, const char *dir, const char *bdf, struct hw_pci *p)
{
    const char *group = root_link_name(b->root, b->a, "%s/iommu_group", dir);

    p->bdf = bdf_dup(b->a, bdf);
    p->vendor = root_int(b->root, "%s/vendor", dir);
    p->device = root_int(b->root, "%s/device", dir);
    p->class_ = root_int(b->root, "%s/class", dir);
    p->driver = root_link_name(b->root, b->a, "%s/driver", dir);
    p->numa = not_negative(root_int(b->root, "%s/numa_node", dir));
    if (!p->numa.known && b->hw->numa_count == 1)
        p->numa = b->hw->numa[0].id; /* there is no other for it to be on */
    p->physfn = hw_physfn_of(b, dir);
    p->vfs = not_negative(root_int(b->root, "%s/sriov_numvfs", dir));
    p->vfs_max = not_negative(root_int(b->root, "%s/sriov_totalvfs", dir));
    p->link_speed = link_speed(b, dir, "current_link_speed");
    p->link_speed_max = link_speed(b, dir, "max_link_speed");
    p->link_width = link_width(b, dir, "current_link_width");
    p->link_width_max = link_width(b, dir, "max_link_width");
    p->iommu_group = group ? not_negative(str_to_maybe(group)) : maybe_none();
    fill_place(b, dir, p);
    fill_config(b, dir, is_bridge(p->class_), p);
}

/* ---- the list ---- */

static bool list_has(const struct pci_list *l, uint64_t key)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->keys[i] == key)
            return true;
    return false;
}

/* False when it is there already or there is no room. */
static bool list_add(struct hw_build *b, struct pci_list *l, const char *dir, const char *bdf)
{
    uint64_t key;

    if (!hw_bdf_key(bdf, &key) || list_has(l, key))
        return false;
    if (l->count == PCI_KEPT_MAX) {
        l->cut = true;
        return false;
    }
    VEC_GROW(l->items, l->count, l->cap);
    l->keys[l->count] = key;
    l->items[l->count] = (struct hw_pci){ 0 };
    pci_fill(b, dir, bdf, &l->items[l->count]);
    l->count++;
    return true;
}

/* The bridges above `dir`, up to the host bridge or one that is known already (then
 * those above it are too). */
static void list_add_above(struct hw_build *b, struct pci_list *l, char *dir)
{
    size_t len = strlen(dir);
    char part[32] = "";
    uint64_t key;

    for (int depth = 0; depth < PCI_DEPTH_MAX; depth++) {
        len = parent_len(dir, len);
        dir[len] = '\0';
        if (len == 0 || !last_part(dir, len, part, sizeof(part)) || !hw_bdf_key(part, &key) ||
            !list_add(b, l, dir, part))
            return;
    }
}

static void pci_consider(struct hw_build *b, struct pci_list *l, const char *name)
{
    char link[ROOT_PATH_MAX], dir[ROOT_PATH_MAX];
    struct maybe class_ = root_int(b->root, "/sys/bus/pci/devices/%s/class", name);
    struct maybe vendor = root_int(b->root, "/sys/bus/pci/devices/%s/vendor", name);

    if (!is_wanted(vendor, class_))
        return;
    (void)snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s", name);
    if (root_real(b->root, link, dir, sizeof(dir)) < 0)
        (void)str_copy(dir, sizeof(dir), link);
    (void)list_add(b, l, dir, name);
    list_add_above(b, l, dir);
}

static int by_address(const void *a, const void *b)
{
    uint64_t ka = 0, kb = 0;

    (void)hw_bdf_key(((const struct hw_pci *)a)->bdf, &ka);
    (void)hw_bdf_key(((const struct hw_pci *)b)->bdf, &kb);
    return (ka > kb) - (ka < kb);
}

static int64_t count_nvswitches(const struct hw *hw)
{
    int64_t n = 0;

    for (size_t i = 0; i < hw->pci_count; i++)
        n += is_nvswitch(hw->pci[i].vendor, hw->pci[i].class_);
    return n;
}

void hw_src_pci(struct hw_build *b)
{
    struct pci_list l = { 0 };
    struct root_names names = { 0 };
    uint64_t key;
    int rc = root_list(b->root, b->a, "/sys/bus/pci/devices", &names);

    if (rc < 0) {
        hw_note_add(b, "pci", "could not list '/sys/bus/pci/devices': %s", strerror(-rc));
        return;
    }
    for (size_t i = 0; i < names.count; i++)
        if (hw_bdf_key(names.items[i], &key))
            pci_consider(b, &l, names.items[i]);
    if (l.cut)
        hw_note_add(b, "pci", "more than %d PCI functions of interest, the rest is left out",
                    PCI_KEPT_MAX);
    if (l.count > 0) {
        qsort(l.items, l.count, sizeof(*l.items), by_address);
        b->hw->pci = arena_memdup(b->a, l.items, l.count * sizeof(*l.items));
        b->hw->pci_count = l.count;
    }
    b->hw->nvidia.nvswitches = maybe_of(count_nvswitches(b->hw));
    free(l.items);
}
