/* SPDX-License-Identifier: MIT */
/* api_page: web/agent.html and data/openapi-agent.json, compiled in.  The page asks nobody but
 * this agent, and the fields say so to the browser: no outside resource, no frame around it, no
 * form that leaves. */
#include "agent/api_int.h"

#include "base/embed.h"

#include <assert.h>
#include <string.h>

EMBED(web_agent, "web/agent.html");
EMBED(data_openapi_agent, "data/openapi-agent.json");

const char api_page_fields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; connect-src 'self'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-cache\r\n";

static const char version_mark[] = "@VERSION@";

void api_page(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    buf_add(&body, web_agent, web_agent_len);
    http_reply(x, 200, "text/html; charset=utf-8", &body, api_page_fields);
}

void api_openapi(void *arg, struct http_exchange *x)
{
    const char *mark = strstr(data_openapi_agent, version_mark);
    struct buf body = { 0 };

    (void)arg;
    assert(mark);
    buf_add(&body, data_openapi_agent, (size_t)(mark - data_openapi_agent));
    buf_adds(&body, STOKER_VERSION);
    buf_adds(&body, mark + sizeof(version_mark) - 1);
    http_reply(x, 200, "application/json", &body, "Cache-Control: no-cache\r\n");
}
