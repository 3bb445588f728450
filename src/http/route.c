/* SPDX-License-Identifier: MIT */
/* route: which handler a path has, and what our own errors say.
 *
 * Paths are exact, so a sorted table and a binary search do; the few that end in a star are
 * tried when nothing else fits.  HEAD follows GET. */
#include "http/http_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HINT_PATH_MAX = 128 }; /* bytes of a path that is compared with ours */

static const char *const method_names[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS" };

static int by_path(const void *a, const void *b)
{
    const struct http_route *x = *(const struct http_route *const *)a;
    const struct http_route *y = *(const struct http_route *const *)b;
    int cmp = strcmp(x->path, y->path);

    return cmp ? cmp : (int)x->method - (int)y->method;
}

void router_init(struct router *r, const struct http_opts *o)
{
    size_t count = o->route_count + o->streamed_count;

    r->count = count;
    r->sorted = xcalloc(count + 1, sizeof(*r->sorted));
    r->paths = xcalloc(count + 1, sizeof(*r->paths));
    for (size_t i = 0; i < count; i++)
        r->sorted[i] = i < o->route_count ? &o->routes[i] : &o->streamed[i - o->route_count];
    if (count)
        qsort(r->sorted, count, sizeof(*r->sorted), by_path);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(r->sorted[i - 1]->path, r->sorted[i]->path) != 0)
            r->paths[r->path_count++] = r->sorted[i]->path;
}

void router_release(struct router *r)
{
    free(r->sorted);
    free(r->paths);
}

/* The first route of this very path; r->count: none. */
static size_t first_exact(const struct router *r, const char *path)
{
    size_t low = 0, high = r->count;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(r->sorted[mid]->path, path) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low < r->count && !strcmp(r->sorted[low]->path, path) ? low : r->count;
}

/* The first route that serves *path; one with a star at its end takes its place in *path. */
static size_t first_of(const struct router *r, const char **path)
{
    size_t first = first_exact(r, *path);

    for (size_t i = 0; first == r->count && i < r->path_count; i++) {
        size_t len = strlen(r->paths[i]);

        if (str_ends(r->paths[i], "/*") && !strncmp(r->paths[i], *path, len - 1) &&
            (*path)[len - 1])
            first = first_exact(r, *path = r->paths[i]);
    }
    return first;
}

static bool same_path(const struct router *r, size_t i, const char *path)
{
    return i < r->count && !strcmp(r->sorted[i]->path, path);
}

static void add_method(char *allow, size_t cap, enum http_method m)
{
    size_t len = strlen(allow);

    snprintf(allow + len, cap - len, "%s%s", len ? ", " : "", method_names[m]);
}

const struct http_route *router_find(const struct router *r, const char *path,
                                     enum http_method method, int *status, char *allow, size_t cap)
{
    enum http_method other = method == HTTP_HEAD ? HTTP_GET : method;
    size_t first = first_of(r, &path);
    const struct http_route *found = NULL;

    for (size_t i = first; same_path(r, i, path); i++)
        if (r->sorted[i]->method == method || (r->sorted[i]->method == other && !found))
            found = r->sorted[i];
    if (found)
        return found;
    *status = first == r->count ? 404 : 405;
    allow[0] = '\0';
    for (size_t i = first; same_path(r, i, path); i++) {
        add_method(allow, cap, r->sorted[i]->method);
        if (r->sorted[i]->method == HTTP_GET &&
            !(same_path(r, i + 1, path) && r->sorted[i + 1]->method == HTTP_HEAD))
            add_method(allow, cap, HTTP_HEAD);
    }
    return NULL;
}

enum http_scope router_scope(const struct router *r, const char *path)
{
    for (size_t i = first_of(r, &path); same_path(r, i, path); i++)
        if (r->sorted[i]->scope == HTTP_SCOPE_OPEN)
            return HTTP_SCOPE_OPEN;
    return HTTP_SCOPE_CALL;
}

const char *router_nearest(const struct router *r, const char *path)
{
    return strlen(path) > HINT_PATH_MAX ? NULL : str_nearest(path, r->paths, r->path_count);
}

void error_json(const char *why, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "error", why);
    json_obj_end(&w);
}

const char *http_status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        { 100, "Continue" },
        { 200, "OK" },
        { 201, "Created" },
        { 202, "Accepted" },
        { 204, "No Content" },
        { 206, "Partial Content" },
        { 301, "Moved Permanently" },
        { 302, "Found" },
        { 303, "See Other" },
        { 304, "Not Modified" },
        { 307, "Temporary Redirect" },
        { 308, "Permanent Redirect" },
        { 400, "Bad Request" },
        { 401, "Unauthorized" },
        { 403, "Forbidden" },
        { 404, "Not Found" },
        { 405, "Method Not Allowed" },
        { 406, "Not Acceptable" },
        { 408, "Request Timeout" },
        { 409, "Conflict" },
        { 410, "Gone" },
        { 411, "Length Required" },
        { 413, "Content Too Large" },
        { 414, "URI Too Long" },
        { 415, "Unsupported Media Type" },
        { 417, "Expectation Failed" },
        { 421, "Misdirected Request" },
        { 422, "Unprocessable Content" },
        { 424, "Failed Dependency" },
        { 429, "Too Many Requests" },
        { 431, "Request Header Fields Too Large" },
        { 499, "Client Closed Request" },
        { 500, "Internal Server Error" },
        { 501, "Not "
               "Implemented" },
        { 502, "Bad Gateway" },
        { 503, "Service Unavailable" },
        { 504, "Gateway Timeout" },
        { 505, "HTTP Version Not Supported" },
        { 507, "Insufficient Storage" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].status == status)
            return rows[i].text;
    return "Unknown";
}

int http_wish(const char *field, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = field; p && *p;) {
        size_t item, word;
        const char *q;

        p += strspn(p, " \t");
        word = strcspn(p, " \t;,");
        if (word == len && !strncasecmp(p, name, len)) {
            const char *end = p + strcspn(p, ",");
            double v = 1;

            q = strstr(p, "q=");
            if (q && q < end)
                v = strtod(q + 2, NULL);
            return v > 0 && v <= 1 ? (int)(v * 1000) : 0;
        }
        item = strcspn(p, ",");
        p += item + (p[item] == ',');
    }
    return 0;
}
