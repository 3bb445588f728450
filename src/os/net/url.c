/* SPDX-License-Identifier: MIT */
#include "os/net/net_int.h"

#include "base/str.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static enum rc url_is_bad(const char *text, const char *why, struct err *err)
{
    err_hint(err, "Write it as http://127.0.0.1:8003, https://host or unix:/run/server.sock.");
    return err_set(err, RC_USAGE, "could not understand the address '%s': %s", text, why);
}

static enum rc parse_unix(const char *text, struct url *u, struct err *err)
{
    if (!*(text + 5) || !str_copy(u->socket, sizeof(u->socket), text + 5))
        return url_is_bad(text, "a socket's path has 1 to 107 bytes", err);
    return RC_OK;
}

/* Letters, digits and what addresses are written with: nothing that could end a header. */
static bool host_ok(const char *s)
{
    return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%") ==
                     strlen(s);
}

/* "host", "host:port", "[v6]:port" of `len` bytes. */
static enum rc parse_authority(const char *text, const char *p, size_t len, struct url *u,
                               struct err *err)
{
    const char *end = p + len, *host_end, *port;
    uint64_t number = u->tls ? 443 : 80;

    if (len && *p == '[') {
        p++;
        host_end = memchr(p, ']', (size_t)(end - p));
        if (!host_end)
            return url_is_bad(text, "']' is missing", err);
        port = host_end + 1;
    } else {
        host_end = memchr(p, ':', len);
        if (!host_end)
            host_end = end;
        port = host_end;
    }
    if ((size_t)(host_end - p) >= sizeof(u->host))
        return url_is_bad(text, "the name is too long", err);
    memcpy(u->host, p, (size_t)(host_end - p));
    if (!host_ok(u->host))
        return url_is_bad(text, "it has no name of a host", err);
    if (port < end && *port == ':' && end - port - 1 < (ptrdiff_t)sizeof(u->port)) {
        memcpy(u->port, port + 1, (size_t)(end - port - 1));
        if (!str_to_u64(u->port, 10, &number) || !number || number > 65535)
            return url_is_bad(text, "its port is not a number from 1 to 65535", err);
    } else if (port < end) {
        return url_is_bad(text, "its port is not a number from 1 to 65535", err);
    }
    snprintf(u->port, sizeof(u->port), "%u", (unsigned)number);
    return RC_OK;
}

/* The scheme and the server; *out_rest is what stands behind them, from its '/', '?' or '#'. */
static enum rc parse_server(const char *text, struct url *u, const char **out_rest, struct err *err)
{
    const char *p = text;
    size_t len;

    u->tls = str_starts(text, "https://");
    if (u->tls || str_starts(text, "http://"))
        p += u->tls ? 8 : 7;
    else if (strstr(text, "://"))
        return url_is_bad(text, "it is not http or https", err);
    len = strcspn(p, "/?#");
    *out_rest = p + len;
    if (memchr(p, '@', len))
        return url_is_bad(text, "it has a name or a password in it", err);
    return parse_authority(text, p, len, u, err);
}

enum rc url_parse(const char *text, struct url *out, struct err *err)
{
    struct url u = { 0 };
    const char *rest;
    size_t len;

    if (str_starts(text, "unix:")) {
        if (parse_unix(text, &u, err))
            return err ? err->code : RC_USAGE;
        *out = u;
        return RC_OK;
    }
    if (strpbrk(text, "?# \t\r\n"))
        return url_is_bad(text, "it has a query or a space", err);
    if (parse_server(text, &u, &rest, err))
        return RC_USAGE;
    if (!str_copy(u.prefix, sizeof(u.prefix), rest))
        return url_is_bad(text, "its path is too long", err);
    for (len = strlen(u.prefix); len && u.prefix[len - 1] == '/'; len--)
        u.prefix[len - 1] = '\0';
    *out = u;
    return RC_OK;
}

enum rc url_parse_query(const char *text, struct url *out, const char **out_query, struct err *err)
{
    const char *query = strchr(text, '?');
    size_t len = query ? (size_t)(query - text) : strlen(text);
    char address[URL_HOST_MAX + URL_PATH_MAX + 16];
    enum rc rc;

    if (str_starts(text, "unix:") || !query)
        len = strlen(text);
    if (len >= sizeof(address) || (query && strlen(query) >= URL_PATH_MAX))
        return url_is_bad(text, "it is too long", err);
    for (const char *p = query ? query : ""; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '#')
            return url_is_bad(text, "its query holds what no query has", err);
    memcpy(address, text, len);
    address[len] = '\0';
    rc = url_parse(address, out, err);
    if (!rc)
        *out_query = text + len;
    return rc;
}

enum rc url_parse_link(const char *text, struct url *out, const char **out_rest, struct err *err)
{
    struct url u = { 0 };
    const char *rest;

    if (strpbrk(text, " \t\r\n") || parse_server(text, &u, &rest, err))
        return url_is_bad(text, "it has a space", err);
    *out = u;
    *out_rest = rest;
    return RC_OK;
}

bool url_same_server(const struct url *a, const struct url *b)
{
    return a->tls == b->tls && !strcasecmp(a->host, b->host) && str_eq(a->port, b->port) &&
           str_eq(a->socket, b->socket);
}

const char *url_authority(const struct url *u, char out[URL_AUTHORITY_MAX])
{
    bool v6 = strchr(u->host, ':') != NULL;

    if (u->socket[0])
        snprintf(out, URL_AUTHORITY_MAX, "localhost");
    else
        snprintf(out, URL_AUTHORITY_MAX, v6 ? "[%s]:%s" : "%s:%s", u->host, u->port);
    return out;
}

static enum rc bad_origin(const char *text, const char *why, const char *want, struct err *err)
{
    err_hint(err, "Write it as browsers do: https://app.example, http://127.0.0.1:3000, null, or "
                  "* for every page.");
    return err_set(err, RC_USAGE, "'%s' is no origin of web pages: %s%s", text, why, want);
}

enum rc url_check_origin(const char *text, struct err *err)
{
    char want[URL_AUTHORITY_MAX + 8] = "", authority[URL_AUTHORITY_MAX];
    const char *name = strstr(text, "://"), *rest;
    struct url u;

    if (str_eq(text, "*") || str_eq(text, "null"))
        return RC_OK;
    if (!name || name == text || strlen(text) >= sizeof(want))
        return bad_origin(text, name && name != text ? "it is too long" : "it has no scheme", "",
                          err);
    for (size_t i = 0; text[i]; i++)
        want[i] = (char)tolower((unsigned char)text[i]);
    if (!str_starts(want, "http://") && !str_starts(want, "https://")) /* a program's own pages */
        return name[3] && !strpbrk(name + 3, "/?#@* \t")
                   ? RC_OK
                   : bad_origin(text, "it is more than a scheme and a name", "", err);
    if (url_parse_link(want, &u, &rest, NULL))
        return bad_origin(text, "it has no name of a host, or no port that can be", "", err);
    (void)url_authority(&u, authority);
    if (str_eq(u.port, u.tls ? "443" : "80"))
        authority[strlen(authority) - strlen(u.port) - 1] = '\0';
    (void)snprintf(want, sizeof(want), "http%s://%s", u.tls ? "s" : "", authority);
    return strcasecmp(text, want) ? bad_origin(text, "browsers write it ", want, err) : RC_OK;
}

enum rc url_check_host(const char *text, struct err *err)
{
    if (str_eq(text, "*") ||
        (host_ok(text) && !strpbrk(text, ":%") && text[strlen(text) - 1] != '.'))
        return RC_OK;
    err_hint(err, "Write the name alone, without scheme, port or final dot: gpu7.example.");
    return err_set(err, RC_USAGE, "'%s' is no name of a host", text);
}
