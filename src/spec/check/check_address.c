/* SPDX-License-Identifier: MIT */
/* check_address: addresses that the agent itself asks or posts to.
 *
 * They are read by the same parser that the agent uses (os/net/url.h), so that what it could not
 * reach when it starts is told when the file is checked. */
#include "base/arena.h"
#include "os/net/url.h"
#include "spec/check/check_int.h"

static void check_address(struct check *c, const char *const *text, bool with_query)
{
    struct err err = { 0 };
    const char *query;
    struct url url;

    if (*text &&
        (with_query ? url_parse_query(*text, &url, &query, &err) : url_parse(*text, &url, &err)))
        check_fault(c, text, err.hint[0] ? err.hint : NULL, "the agent cannot use this address: %s",
                    err.msg);
}

/* One whose host may be a list: the first machine stands for all. */
static void check_peer(struct check *c, const char *const *text)
{
    struct arena arena = { 0 };
    struct spec_address at;
    struct spec_walk w;
    const char *fault = spec_address_split(*text, &arena, &at);

    if (fault) {
        check_fault(c, text, NULL, "the agent cannot use this address: %s", fault);
    } else if (!at.hosts) {
        check_address(c, text, false);
    } else {
        struct err err = { 0 };
        struct url url;

        spec_walk_list(&w, at.hosts);
        if (spec_walk_next(&w) &&
            url_parse(arena_printf(&arena, "%s%s%s", at.head, w.name, at.tail), &url, &err))
            check_fault(c, text, err.hint[0] ? err.hint : NULL,
                        "the agent cannot use this address: %s", err.msg);
    }
    arena_release(&arena);
}

void check_addresses(struct check *c)
{
    const struct spec_agent *a = &c->s->agent;
    const struct spec_notify *n = &c->s->notify;

    if (!a->enabled)
        return;
    check_address(c, &a->dcgm, false);
    for (size_t i = 0; i < a->scrape.count; i++)
        check_address(c, &a->scrape.items[i], false);
    for (size_t i = 0; i < a->peers.count; i++)
        check_peer(c, &a->peers.items[i]);
    check_address(c, &n->alertmanager, false);
    check_address(c, &n->webhook, true);
}
