/* SPDX-License-Identifier: MIT */
/* api_page: web/agent.html with web/agent-fleet.js in it, and data/openapi-agent.json, compiled
 * in.  The page asks nobody but this agent, and the fields say so to the browser: no outside
 * resource, no frame around it, no form that leaves. */
#include "agent/api/api_parts_int.h"

#include "base/embed.h"

#include <assert.h>
#include <string.h>

EMBED(web_agent, "web/agent.html");
EMBED(web_agent_fleet, "web/agent-fleet.js");
EMBED(data_openapi_agent, "data/openapi-agent.json");

const char api_page_fields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; connect-src 'self'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-cache\r\n";

/* `text` with what stands at its mark put in. */
static void add_filled(struct buf *out, const char *text, const char *mark, const char *fill)
{
    const char *at = strstr(text, mark);

    assert(at);
    buf_add(out, text, (size_t)(at - text));
    buf_adds(out, fill);
    buf_adds(out, at + strlen(mark));
}

void api_page(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    add_filled(&body, web_agent, "@FLEET@", web_agent_fleet);
    http_reply(x, 200, "text/html; charset=utf-8", &body, api_page_fields);
}

void api_openapi(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    add_filled(&body, data_openapi_agent, "@VERSION@", STOKER_VERSION);
    http_reply(x, 200, "application/json", &body, "Cache-Control: no-cache\r\n");
}
