/* SPDX-License-Identifier: MIT */
/* check_address: addresses that the agent itself asks or posts to.
 *
 * They are read by the same parser that the agent uses (os/url.h), so that what it could not reach
 * when it starts is told when the file is checked. */
#include "os/url.h"
#include "spec/check_int.h"

static void check_address(struct check *c, const char *const *text)
{
    struct err err = { 0 };
    struct url url;

    if (*text && url_parse(*text, &url, &err))
        check_fault(c, text, err.hint[0] ? err.hint : NULL, "the agent cannot use this address: %s",
                    err.msg);
}

void check_addresses(struct check *c)
{
    const struct spec_agent *a = &c->s->agent;
    const struct spec_notify *n = &c->s->notify;

    if (!a->enabled)
        return;
    check_address(c, &a->dcgm);
    for (size_t i = 0; i < a->scrape.count; i++)
        check_address(c, &a->scrape.items[i]);
    for (size_t i = 0; i < a->peers.count; i++)
        check_address(c, &a->peers.items[i]);
    check_address(c, &n->alertmanager);
    check_address(c, &n->webhook);
}
