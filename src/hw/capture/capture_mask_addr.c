/* SPDX-License-Identifier: MIT */
/* capture_mask_addr: the numbers of a mask: addresses that keep their prefixes, and values
 * that are numbered.
 *
 * Addresses go into a binary trie, one level a bit.  At each node the bit that came
 * first becomes 0 and the other 1: which is a permutation that keeps every common
 * prefix.  A node keeps its bits when (1) it lies in the part that stays (the range's
 * prefix, the last bits), or (2) an address has nothing but zeros from here on: so
 * a network's address still ends in zeros, whatever its length. */
#include "hw/capture/capture_mask_int.h"

#include "base/codec/fnv1a.h"
#include "base/mem.h"

#include <assert.h>

enum { KEEP_LAST4 = 8, KEEP_LAST6 = 16, SMALL_IID_MAX = 0xffff };

/* ---- numbered values ---- */
void mask_ids_release(struct mask_ids *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->items[i].key);
    free(t->items);
    free(t->slots);
    *t = (struct mask_ids){ 0 };
}

static size_t slot_of(const struct mask_ids *t, const void *key, size_t len)
{
    size_t at = (size_t)fnv1a_add(FNV1A_START, key, len) & (t->slots_cap - 1);

    while (t->slots[at]) {
        const struct mask_id *id = &t->items[t->slots[at] - 1];
        if (id->len == len && !memcmp(id->key, key, len))
            break;
        at = (at + 1) & (t->slots_cap - 1);
    }
    return at;
}

uint32_t mask_ids_find(const struct mask_ids *t, const void *key, size_t len)
{
    return t->slots_cap ? t->slots[slot_of(t, key, len)] : 0;
}

static void ids_grow(struct mask_ids *t)
{
    free(t->slots);
    t->slots_cap = t->slots_cap ? t->slots_cap * 2 : 64;
    t->slots = xcalloc(t->slots_cap, sizeof(*t->slots));
    for (size_t i = 0; i < t->count; i++)
        t->slots[slot_of(t, t->items[i].key, t->items[i].len)] = (uint32_t)i + 1;
}

uint32_t mask_ids_add(struct mask_ids *t, const void *key, size_t len)
{
    uint32_t found = mask_ids_find(t, key, len);
    struct mask_id *id;

    if (found)
        return found;
    if (t->count == MASK_IDS_MAX) {
        t->over = true;
        return 0;
    }
    if (t->count * 2 >= t->slots_cap)
        ids_grow(t);
    VEC_GROW(t->items, t->count, t->cap);
    id = &t->items[t->count];
    *id = (struct mask_id){ .key = xmalloc(len + 1), .len = len };
    memcpy(id->key, key, len);
    id->key[len] = '\0';
    id->alias = (uint32_t)t->count + 1;
    t->slots[slot_of(t, key, len)] = (uint32_t)++t->count;
    return (uint32_t)t->count;
}

/* ---- the trie ---- */
static bool bit_of(const uint8_t *key, size_t i)
{
    return key[i / 8] >> (7 - i % 8) & 1;
}

static uint32_t trie_node(struct mask_trie *t)
{
    if (t->count == MASK_NODES_MAX) {
        t->over = true;
        return 0;
    }
    VEC_GROW(t->nodes, t->count, t->cap);
    t->nodes[t->count] = (struct mask_node){ 0 };
    return (uint32_t)t->count++;
}

static void trie_add(struct mask_trie *t, const uint8_t *key, size_t bits, size_t keep_first,
                     size_t keep_last)
{
    size_t end = bits; /* from here on there are zeros only */
    uint32_t at = 0;

    while (end > 0 && !bit_of(key, end - 1))
        end--;
    if (t->count == 0)
        (void)trie_node(t);
    for (size_t i = 0; i < bits; i++) {
        bool bit = bit_of(key, i);
        struct mask_node *n = &t->nodes[at];
        uint32_t next = n->child[bit];
        if (!n->child[0] && !n->child[1])
            n->first = bit;
        n->keep = n->keep || i < keep_first || i >= bits - keep_last || i >= end;
        if (!next) {
            next = trie_node(t); /* moves the nodes */
            if (!next)
                return;
            t->nodes[at].child[bit] = next;
        }
        at = next;
    }
}

static bool trie_map(const struct mask_trie *t, uint8_t *key, size_t bits)
{
    uint8_t out[16] = { 0 };
    uint32_t at = 0;

    assert(bits <= sizeof(out) * 8);
    if (t->count == 0)
        return false;
    for (size_t i = 0; i < bits; i++) {
        const struct mask_node *n = &t->nodes[at];
        bool bit = bit_of(key, i);
        if (!n->child[bit])
            return false;
        if (bit != (n->keep ? false : n->first))
            out[i / 8] |= (uint8_t)(1 << (7 - i % 8));
        at = n->child[bit];
    }
    memcpy(key, out, bits / 8);
    return true;
}

/* ---- IPv4 ---- */
/* Bits of the range that stay; 0: public; -1: the whole address stays. */
static int ipv4_range_bits(const uint8_t a[4])
{
    if (a[0] == 0 || a[0] == 127 || a[0] >= 224 || (a[0] == 169 && a[1] == 254))
        return -1;
    if (a[0] == 10)
        return 8;
    if (a[0] == 172 && (a[1] & 0xf0) == 16)
        return 12;
    if (a[0] == 192 && a[1] == 168)
        return 16;
    return a[0] == 100 && (a[1] & 0xc0) == 64 ? 10 : 0;
}

void mask_addrs_learn4(struct mask_addrs *a, const uint8_t addr[4])
{
    int range = ipv4_range_bits(addr);
    uint8_t key[4];
    uint32_t net;

    if (range < 0 || mask_ids_find(&a->seen4, addr, 4))
        return;
    (void)mask_ids_add(&a->seen4, addr, 4);
    memcpy(key, addr, 4);
    if (range == 0) {
        net = mask_ids_add(&a->nets4, addr, 1);
        a->over = a->over || net == 0 || net > MASK_NETS4_MAX;
        key[0] = (uint8_t)(239 + net);
    }
    trie_add(&a->v4, key, 32, range ? (size_t)range : 8, KEEP_LAST4);
}

bool mask_addrs_map4(const struct mask_addrs *a, uint8_t addr[4])
{
    uint8_t key[4];

    if (ipv4_range_bits(addr) < 0 || !mask_ids_find(&a->seen4, addr, 4))
        return false;
    memcpy(key, addr, 4);
    if (ipv4_range_bits(addr) == 0)
        key[0] = (uint8_t)(239 + mask_ids_find(&a->nets4, addr, 1));
    if (!trie_map(&a->v4, key, 32))
        return false;
    memcpy(addr, key, 4);
    return true;
}

/* ---- MAC addresses and GUIDs ---- */
static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i])
            return false;
    return true;
}

void mask_addrs_learn_mac(struct mask_addrs *a, const uint8_t mac[6])
{
    if (!all_zero(mac, 6) && !(mac[0] & 1)) /* groups and broadcast name nobody */
        (void)mask_ids_add(&a->macs, mac, 6);
}

bool mask_addrs_map_mac(const struct mask_addrs *a, uint8_t mac[6])
{
    uint32_t n = mask_ids_find(&a->macs, mac, 6);

    if (!n)
        return false;
    memcpy(mac, (const uint8_t[6]){ 2, 0, 0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n },
           6);
    return true;
}

static bool is_eui64(const uint8_t iid[8])
{
    return iid[3] == 0xff && iid[4] == 0xfe && !(iid[0] & 1);
}

static void mac_of_eui64(const uint8_t iid[8], uint8_t mac[6])
{
    memcpy(mac, iid, 3);
    memcpy(mac + 3, iid + 5, 3);
    mac[0] ^= 2;
}

void mask_addrs_learn_guid(struct mask_addrs *a, const uint8_t guid[8])
{
    uint8_t mac[6];

    if (all_zero(guid, 6))
        return;
    (void)mask_ids_add(&a->guids, guid, 8);
    if (is_eui64(guid)) {
        mac_of_eui64(guid, mac);
        mask_addrs_learn_mac(a, mac);
    }
}

bool mask_addrs_map_guid(const struct mask_addrs *a, uint8_t guid[8])
{
    uint32_t n = mask_ids_find(&a->guids, guid, 8);
    uint8_t mac[6];

    if (!n)
        return false;
    if (is_eui64(guid)) {
        mac_of_eui64(guid, mac);
        if (mask_addrs_map_mac(a, mac)) {
            memcpy(guid, mac, 3);
            memcpy(guid + 5, mac + 3, 3);
            guid[0] ^= 2;
            return true;
        }
    }
    memcpy(guid,
           (const uint8_t[8]){ 2, 0, 0, 0, 0, (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n },
           8);
    return true;
}

/* ---- IPv6 ---- */
static bool is_mapped4(const uint8_t a[16])
{
    return all_zero(a, 10) && a[10] == 0xff && a[11] == 0xff;
}

static bool is_link_local6(const uint8_t a[16])
{
    return a[0] == 0xfe && (a[1] & 0xc0) == 0x80;
}

static bool ipv6_stays(const uint8_t a[16])
{
    return a[0] == 0xff || (all_zero(a, 15) && a[15] <= 1);
}

/* Is the lower half a number of a card, to be masked as such? */
static bool iid_is_guid(const struct mask_addrs *a, const uint8_t iid[8])
{
    return mask_ids_find(&a->guids, iid, 8) != 0;
}

void mask_addrs_learn6(struct mask_addrs *a, const uint8_t addr[16])
{
    if (is_mapped4(addr)) {
        mask_addrs_learn4(a, addr + 12);
        return;
    }
    if (ipv6_stays(addr))
        return;
    (void)mask_ids_add(&a->seen6, addr, 16);
    if (is_link_local6(addr) || is_eui64(addr + 8))
        mask_addrs_learn_guid(a, addr + 8);
}

/* The address as the trie knows it: public networks renumbered, cards' numbers out. */
static bool ipv6_key(const struct mask_addrs *a, const uint8_t addr[16], uint8_t key[16],
                     size_t *keep)
{
    uint32_t net;

    memcpy(key, addr, 16);
    if (iid_is_guid(a, addr + 8))
        memset(key + 8, 0, 8);
    *keep = 8; /* fd00::/8 stays what it is */
    if (addr[0] == 0xfd)
        return true;
    *keep = 16;
    net = mask_ids_find(&a->nets6, addr, 2);
    if (net == 0 || net > MASK_NETS6_MAX)
        return false;
    key[0] = 0xfc;
    key[1] = (uint8_t)(net - 1);
    return true;
}

/* Only now is it known which lower halves are cards' numbers. */
void mask_addrs_ready(struct mask_addrs *a)
{
    for (size_t i = 0; i < a->seen6.count; i++) {
        const uint8_t *addr = (const uint8_t *)a->seen6.items[i].key;
        uint8_t key[16];
        size_t keep;
        if (is_link_local6(addr))
            continue;
        if (addr[0] != 0xfd)
            (void)mask_ids_add(&a->nets6, addr, 2);
        if (ipv6_key(a, addr, key, &keep))
            trie_add(&a->v6, key, 128, keep, KEEP_LAST6);
        else
            a->over = true;
    }
    a->over = a->over || a->v4.over || a->v6.over || a->seen4.over || a->seen6.over ||
              a->macs.over || a->guids.over;
}

bool mask_addrs_map6(const struct mask_addrs *a, uint8_t addr[16])
{
    uint8_t key[16], iid[8];
    size_t keep;

    if (is_mapped4(addr))
        return mask_addrs_map4(a, addr + 12);
    if (ipv6_stays(addr) || !mask_ids_find(&a->seen6, addr, 16))
        return false;
    memcpy(iid, addr + 8, 8);
    if (is_link_local6(addr)) {
        bool mapped = mask_addrs_map_guid(a, iid);
        memcpy(addr + 8, iid, 8);
        return mapped;
    }
    if (!ipv6_key(a, addr, key, &keep) || !trie_map(&a->v6, key, 128))
        return false;
    if (mask_addrs_map_guid(a, iid))
        memcpy(key + 8, iid, 8);
    memcpy(addr, key, 16);
    return true;
}

void mask_addrs_release(struct mask_addrs *a)
{
    free(a->v4.nodes);
    free(a->v6.nodes);
    mask_ids_release(&a->seen4);
    mask_ids_release(&a->seen6);
    mask_ids_release(&a->nets4);
    mask_ids_release(&a->nets6);
    mask_ids_release(&a->macs);
    mask_ids_release(&a->guids);
    *a = (struct mask_addrs){ 0 };
}
