/* SPDX-License-Identifier: MIT */
/* name_filter: the filter language of NCCL_IB_HCA and NCCL_SOCKET_IFNAME.
 *
 * "^" first excludes, "=" then asks for whole names; the rest is a list of
 * name[:port[:rail[:plane]]].  Without "=" an entry takes every name that begins
 * with it.  Entries without a name are passed over, and those beyond NCCL's limit
 * are without effect, as in NCCL. */
#include "nccl/nccl_int.h"

#include "base/str.h"

static void entry_parse(struct name_filter *m, const char *s, size_t len)
{
    struct name_filter_entry *e = &m->entries[m->count];
    const char *colon = memchr(s, ':', len);
    size_t name = colon ? (size_t)(colon - s) : len;

    if (name == 0)
        return;
    if (name >= sizeof(e->name))
        name = sizeof(e->name) - 1;
    memcpy(e->name, s, name);
    e->name[name] = 0;
    e->port = -1;
    e->open = colon && (colon + 1 == s + len || colon[1] == ':');
    if (colon && !e->open)
        e->port = strtol(colon + 1, NULL, 10); /* no number is port 0, as NCCL reads it */
    m->count++;
}

void name_filter_parse(struct name_filter *m, const char *text, size_t max)
{
    *m = (struct name_filter){ 0 };
    if (!text)
        return;
    if (*text == '^') {
        m->exclude = true;
        text++;
    }
    if (*text == '=') {
        m->exact = true;
        text++;
    }
    while (*text && m->count < max && m->count < FILTER_MAX) {
        size_t len = strcspn(text, ",");

        entry_parse(m, text, len);
        text += len + (text[len] == ',');
    }
}

void name_filter_hcas(struct name_filter *m, const struct hw *hw)
{
    name_filter_parse(m, nccl_env_of(hw, "NCCL_IB_HCA"), nccl_ports_max(hw));
    for (size_t i = 0; nccl_older_patch(hw, 2, 30, 7) && i < m->count; i++)
        if (m->entries[i].open)
            m->entries[i].port = 0;
}

bool name_filter_entry_takes(const struct name_filter *m, const struct name_filter_entry *e,
                             const char *name, int64_t port)
{
    if (m->exact ? !str_eq(name, e->name) : !str_starts(name, e->name))
        return false;
    return port == -1 || e->port == -1 || port == e->port;
}

bool name_filter_takes(const struct name_filter *m, const char *name, int64_t port)
{
    bool hit = m->count == 0; /* no list: every name, which ^ turns round too */

    for (size_t i = 0; i < m->count && !hit; i++)
        hit = name_filter_entry_takes(m, &m->entries[i], name, port);
    return hit != m->exclude;
}
