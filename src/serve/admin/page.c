/* SPDX-License-Identifier: MIT */
/* page: web/serve.html, compiled in.  It asks nobody but this server, and the fields say so
 * to the browser: no outside resource, no frame around it, no form that leaves. */
#include "serve/admin/page_int.h"

#include "base/embed.h"

EMBED(web_serve, "web/serve.html");

const char page_type[] = "text/html; charset=utf-8";
const char page_fields[] =
    "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-cache\r\n";

void page_write(struct buf *out)
{
    buf_add(out, web_serve, web_serve_len);
}
