/* SPDX-License-Identifier: MIT */
/* compare_ids: what only one machine may have, and two do.
 *
 * Addresses, GUIDs, MAC addresses and UUIDs of GPUs differ by nature, so compare.c leaves them out;
 * here each is kept with the first machine that has it, and with all of them once a second comes.
 *
 *   1. A machine that was captured twice is one machine: values count between host names that
 *      differ, and a machine without a host name has none to tell.
 *   2. Masked captures are numbered anew, each from 1: theirs are no identities at all.
 *   3. An address counts where it is one of the network's: on a PCI function, a bond or a VLAN, and
 *      not link-local.  Bridges of containers and the links to a BMC or a DPU's own console have
 *      the same address on every machine. */
#include "base/codec/fnv1a.h"
#include "base/mem.h"
#include "base/str.h"
#include "hw/compare/compare_int.h"

#include <stdlib.h>

struct id_slot {
    const char *kind, *value;   /* kind NULL: free */
    const char *what;           /* the device that has it on the first machine */
    size_t first;               /* machine */
    struct hw_compare_set *set; /* NULL: nobody else has it */
};

struct compare_ids {
    struct arena arena;
    struct id_slot *slots;
    size_t count, cap, shared;
    const char **hosts; /* of the machines whose values are here */
    size_t hosts_count, hosts_cap;
    struct hw_compare_twin *twins;
};

struct compare_ids *compare_ids_new(void)
{
    struct compare_ids *t = xcalloc(1, sizeof(*t));

    t->cap = 1 << 10;
    t->slots = xcalloc(t->cap, sizeof(*t->slots));
    return t;
}

void compare_ids_free(struct compare_ids *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->cap; i++)
        free(t->slots[i].set);
    free(t->slots);
    free(t->hosts);
    free(t->twins);
    arena_release(&t->arena);
    free(t);
}

/* ---- the table ---- */

static size_t id_slot_of(const struct compare_ids *t, const char *kind, const char *value)
{
    uint64_t h = fnv1a_add(fnv1a_add(FNV1A_START, kind, strlen(kind)), value, strlen(value));
    size_t at;

    for (at = (size_t)(h ^ h >> 32) & (t->cap - 1); t->slots[at].kind; at = (at + 1) & (t->cap - 1))
        if (!strcmp(t->slots[at].kind, kind) && !strcmp(t->slots[at].value, value))
            break;
    return at;
}

static void ids_double(struct compare_ids *t)
{
    struct id_slot *old = t->slots;
    size_t cap = t->cap;

    t->cap *= 2;
    t->slots = xcalloc(t->cap, sizeof(*t->slots));
    for (size_t i = 0; i < cap; i++)
        if (old[i].kind)
            t->slots[id_slot_of(t, old[i].kind, old[i].value)] = old[i];
    free(old);
}

static void set_put(struct hw_compare_set *s, size_t machine)
{
    s->bits[machine / 64] |= (uint64_t)1 << (machine % 64);
}

/* `kind` lives for ever. */
static void id_add(struct compare_ids *t, const char *kind, const char *value, const char *what,
                   size_t machine)
{
    struct id_slot *s;

    if (!value || !value[strspn(value, "0:-.")]) /* all zero: none */
        return;
    s = &t->slots[id_slot_of(t, kind, value)];
    if (!s->kind && t->count < HW_COMPARE_IDS_MAX) {
        *s = (struct id_slot){ .kind = kind,
                               .value = arena_strdup(&t->arena, value),
                               .what = arena_strdup(&t->arena, what ? what : "-"),
                               .first = machine };
        if (2 * ++t->count > t->cap)
            ids_double(t);
    } else if (s->kind && s->first != machine) {
        if (!s->set) {
            s->set = xcalloc(1, sizeof(*s->set));
            set_put(s->set, s->first);
            t->shared++;
        }
        set_put(s->set, machine);
    }
}

/* ---- a machine ---- */

bool hw_compare_masked(const struct hw *hw)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (hw->gpus[i].uuid && str_ends(hw->gpus[i].uuid, "-0000-4000-8000-000000000000"))
            return true;
    for (size_t i = 0; i < hw->rdma_count; i++)
        if (hw->rdma[i].node_guid && str_starts(hw->rdma[i].node_guid, "0200:0000:0000:"))
            return true;
    return false;
}

/* Not a link inside the machine: USB is how a BMC is reached. */
static bool net_is_outer(const struct hw_net *n)
{
    static const char *const inner[] = { "cdc_ether", "cdc_ncm", "rndis_host" };

    if (n->name && str_starts(n->name, "tmfifo_net"))
        return false; /* a BlueField's console */
    for (size_t i = 0; i < ARRAY_SIZE(inner); i++)
        if (str_eq(n->driver, inner[i]))
            return false;
    return n->bdf || str_eq(n->kind, "bond") || str_eq(n->kind, "vlan") ||
           str_eq(n->kind, "infiniband");
}

static bool host_is_new(struct compare_ids *t, const char *host)
{
    for (size_t i = 0; i < t->hosts_count; i++)
        if (!strcmp(t->hosts[i], host))
            return false;
    VEC_GROW(t->hosts, t->hosts_count, t->hosts_cap);
    t->hosts[t->hosts_count++] = arena_strdup(&t->arena, host);
    return true;
}

void compare_ids_add(struct compare_ids *t, const struct hw *hw, size_t machine)
{
    if (!hw->place.hostname || hw_compare_masked(hw) || !host_is_new(t, hw->place.hostname))
        return;
    for (size_t i = 0; i < hw->gpus_count; i++)
        id_add(t, "gpus.uuid", hw->gpus[i].uuid, hw->gpus[i].bdf, machine);
    for (size_t i = 0; i < hw->rdma_count; i++)
        id_add(t, "rdma.node_guid", hw->rdma[i].node_guid, hw->rdma[i].name, machine);
    FOR_EACH(const struct hw_net, n, hw->nets) {
        if (!net_is_outer(n))
            continue;
        id_add(t, "nets.mac", n->mac, n->name, machine);
        for (size_t k = 0; k < n->addrs_count; k++)
            if (!hw_compare_addr_local(n->addrs[k].addr))
                id_add(t, "nets.addrs.addr", n->addrs[k].addr, n->name, machine);
    }
}

static int by_kind(const void *a, const void *b)
{
    const struct hw_compare_twin *x = a, *y = b;
    int order = strcmp(x->field, y->field);

    return order ? order : strverscmp(x->value, y->value);
}

const struct hw_compare_twin *compare_ids_end(struct compare_ids *t, size_t *out_count)
{
    size_t n = 0;

    free(t->twins);
    t->twins = xcalloc(t->shared + 1, sizeof(*t->twins));
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].set)
            t->twins[n++] = (struct hw_compare_twin){ t->slots[i].kind, t->slots[i].value,
                                                      t->slots[i].what, t->slots[i].set };
    qsort(t->twins, n, sizeof(*t->twins), by_kind);
    *out_count = n;
    return t->twins;
}
