/* SPDX-License-Identifier: MIT */
/* guard: may this request ask that?
 *
 *     scope     a token is set                      none is set
 *     open      yes                                 yes
 *     call      the token or the admin's            yes, if it is no web page's doing
 *     metrics   one of the three                    the same
 *     admin     the admin's, or a unix socket       a unix socket alone
 *
 * "A web page's doing": a browser on this machine reaches what listens on loopback, and a page
 * from anywhere may make it send a request.  Two fields give such a page away, and no page can
 * forge them.  Origin says where it is from; it must be our own name, or one of those allowed.
 * Host (or the target, where that is a whole URL) says by which name it found us: a page whose
 * owner lets its name point at 127.0.0.1 is of our own origin, but that name is not ours.  A
 * request that shows a token needs neither: a browser does not add it by itself.
 *
 * A change of state wants JSON besides: no form and no page can send that without asking first. */
#include "http/http_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/net/address.h"

#include <arpa/inet.h>
#include <strings.h>
#include <unistd.h>

/* ---- tokens */
static const char *copy_token(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static void keys_release(struct http_keys *k)
{
    free((char *)k->token);
    free((char *)k->admin);
    free((char *)k->metrics);
}

void guard_set_keys(struct guard *g, const struct http_keys *keys)
{
    struct http_keys fresh = { .token = copy_token(keys->token),
                               .admin = copy_token(keys->admin),
                               .metrics = copy_token(keys->metrics) };
    struct http_keys old;

    pthread_mutex_lock(&g->lock);
    old = g->keys;
    g->keys = fresh;
    pthread_mutex_unlock(&g->lock);
    keys_release(&old);
}

void guard_init(struct guard *g, const struct http_opts *o)
{
    *g = (struct guard){ .origins = o->origins, .hosts = o->hosts, .no_admin = o->no_admin };
    pthread_mutex_init(&g->lock, NULL);
    if (gethostname(g->machine, sizeof(g->machine) - 1) != 0)
        g->machine[0] = '\0';
    guard_set_keys(g, &o->keys);
}

bool guard_is_keyed(struct guard *g)
{
    pthread_mutex_lock(&g->lock);
    bool keyed = g->keys.token != NULL;
    pthread_mutex_unlock(&g->lock);
    return keyed;
}

void guard_release(struct guard *g)
{
    keys_release(&g->keys);
    pthread_mutex_destroy(&g->lock);
}

/* In time that depends on the length of what was sent alone. */
static bool token_equal(const char *given, const char *token)
{
    size_t want = token ? strlen(token) : 0, len = strlen(given);
    unsigned diff = 0;

    for (size_t i = 0; i < len && want; i++)
        diff |= (unsigned char)given[i] ^ (unsigned)(unsigned char)token[i % want];
    return want && (diff | (len != want)) == 0;
}

/* The most that a token opens; HTTP_SCOPE_OPEN: nothing. *out_asked: is one needed for `scope`? */
static enum http_scope scope_of(struct guard *g, const char *authorization, enum http_scope scope,
                                bool *out_asked)
{
    enum http_scope found = HTTP_SCOPE_OPEN;

    if (authorization && !strncasecmp(authorization, "bearer ", 7))
        authorization += 7 + strspn(authorization + 7, " ");
    else
        authorization = "";
    pthread_mutex_lock(&g->lock);
    if (token_equal(authorization, g->keys.metrics))
        found = HTTP_SCOPE_METRICS;
    if (token_equal(authorization, g->keys.token))
        found = HTTP_SCOPE_CALL;
    if (token_equal(authorization, g->keys.admin))
        found = HTTP_SCOPE_ADMIN;
    *out_asked = scope == HTTP_SCOPE_ADMIN     ? g->keys.admin != NULL
                 : scope == HTTP_SCOPE_METRICS ? g->keys.token || g->keys.metrics
                                               : g->keys.token != NULL;
    pthread_mutex_unlock(&g->lock);
    return found;
}

static bool scope_covers(enum http_scope has, enum http_scope wants)
{
    switch (wants) {
    case HTTP_SCOPE_OPEN:
        return true;
    case HTTP_SCOPE_METRICS:
        return has != HTTP_SCOPE_OPEN;
    case HTTP_SCOPE_CALL:
        return has == HTTP_SCOPE_CALL || has == HTTP_SCOPE_ADMIN;
    case HTTP_SCOPE_ADMIN:
        return has == HTTP_SCOPE_ADMIN;
    }
    return false;
}

/* ---- names */
static const char *head_field(const struct http_parser *p, const char *name)
{
    for (size_t i = 0; i < p->span_count; i++)
        if (!strcasecmp(p->head + p->spans[i].name, name))
            return p->head + p->spans[i].value;
    return NULL;
}

/* By which name were we found?  Where the target is a whole URL, Host does not count (RFC 9112,
 * 3.2.2). */
static const char *host_of(const struct http_parser *p)
{
    return p->authority ? p->head + p->authority : head_field(p, "host");
}

static bool is_listed(const char *const *list, const char *text)
{
    for (; list && *list; list++)
        if (!strcasecmp(*list, text) || str_eq(*list, "*"))
            return true;
    return false;
}

/* Behind the bracket that opens it: an IPv6 number, the other bracket, and a port or nothing. */
static bool is_v6(const char *text)
{
    size_t len = strcspn(text, "]%"); /* "%eth0" names a link of ours */
    char name[INET6_ADDRSTRLEN];
    const char *rest = text + strcspn(text, "]");
    struct in6_addr v6;

    if (len >= sizeof(name) || *rest != ']')
        return false;
    memcpy(name, text, len);
    name[len] = '\0';
    return inet_pton(AF_INET6, name, &v6) == 1 &&
           (!rest[1] || (rest[1] == ':' && strspn(rest + 2, "0123456789") == strlen(rest + 2)));
}

/* Names that nobody else can make point here: numbers, localhost, the machine's own. */
static bool host_is_ours(const struct guard *g, const char *host)
{
    char name[HTTP_HOST_MAX];
    struct in_addr v4;
    size_t len;

    if (!host || !*host) /* no browser's */
        return true;
    if (*host == '[')
        return is_v6(host + 1);
    len = strcspn(host, ":");
    if (len >= sizeof(name) ||
        (host[len] && strspn(host + len + 1, "0123456789") != strlen(host + len + 1)))
        return false;
    memcpy(name, host, len);
    name[len] = '\0';
    if (len && name[len - 1] == '.')
        name[--len] = '\0';
    if (inet_pton(AF_INET, name, &v4) == 1 || !strcasecmp(name, "localhost") ||
        (g->machine[0] && !strcasecmp(name, g->machine)))
        return true;
    if (len > 10 && !strcasecmp(name + len - 10, ".localhost"))
        return true;
    return is_listed(g->hosts, name);
}

/* "https://name:port" and "name:port"; whoever ends TLS before us makes the schemes differ. */
static bool origin_is_host(const char *origin, const char *host)
{
    const char *name = strstr(origin, "://");

    return name && host && !strcasecmp(name + 3, host);
}

enum guard_way guard_way_of(int fd)
{
    struct sockaddr_storage a = { 0 };
    socklen_t len = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return GUARD_REMOTE;
    if (a.ss_family == AF_UNIX)
        return GUARD_UNIX;
    return address_is_loopback((const struct sockaddr *)&a) ? GUARD_LOOPBACK : GUARD_REMOTE;
}

/* ---- the verdict */
static struct guard_verdict refused_verdict(int status, bool cors, const char *why)
{
    return (struct guard_verdict){ .status = status, .why = why, .cors = cors };
}

static bool is_json(const char *type)
{
    static const char json[] = "application/json";

    return type && !strncasecmp(type, json, sizeof(json) - 1) &&
           strchr("; \t", type[sizeof(json) - 1]) != NULL;
}

struct guard_verdict guard_check(struct guard *g, const struct http_parser *p, enum guard_way way,
                                 enum http_scope scope)
{
    const char *origin = head_field(p, "origin"), *host = host_of(p);
    bool same = !origin || origin_is_host(origin, host);
    bool cors = origin && !same && is_listed(g->origins, origin);
    enum http_scope wants =
        scope == HTTP_SCOPE_ADMIN && way == GUARD_UNIX ? HTTP_SCOPE_CALL : scope;
    bool asked;
    enum http_scope has = scope_of(g, head_field(p, "authorization"), wants, &asked);

    if (cors && p->method == HTTP_OPTIONS && head_field(p, "access-control-request-method"))
        return refused_verdict(204, true, NULL);
    if (wants == HTTP_SCOPE_ADMIN && !asked)
        return refused_verdict(403, cors,
                               g->no_admin
                                   ? g->no_admin
                                   : "changes are taken from a unix socket alone, as there is no "
                                     "token for them");
    if (asked && !scope_covers(has, wants))
        return refused_verdict(
            401, cors,
            wants == HTTP_SCOPE_ADMIN
                ? "the admin's bearer token is needed, and it was not the right one"
                : "a bearer token is needed, and it was not the right one");
    if (!asked && scope != HTTP_SCOPE_OPEN && way == GUARD_LOOPBACK && !host_is_ours(g, host))
        return refused_verdict(
            421, false, "the name in Host is none of this machine's: --allow-host allows it");
    if (!asked && scope != HTTP_SCOPE_OPEN && !same && !cors)
        return refused_verdict(
            403, false, "a web page from another origin may not ask: --allow-origin allows it");
    if (scope == HTTP_SCOPE_ADMIN && (p->has_length || p->chunked) &&
        !is_json(head_field(p, "content-type")))
        return refused_verdict(415, cors, "the body must be JSON: Content-Type: application/json");
    return (struct guard_verdict){ .cors = cors, .proven = asked && has != HTTP_SCOPE_OPEN };
}

void guard_coding(const struct http_parser *p, bool packed, struct guard_verdict *v)
{
    const char *coding = head_field(p, "content-encoding");
    bool gzip = coding && (!strcasecmp(coding, "gzip") || !strcasecmp(coding, "x-gzip"));

    if (v->status || !coding || !*coding || !(p->has_length || p->chunked) ||
        !strcasecmp(coding, "identity") || (gzip && packed))
        return;
    v->status = 415;
    v->why = packed ? "the body's Content-Encoding must be gzip or none"
                    : "this path takes bodies without a Content-Encoding";
    v->fields = packed ? "Accept-Encoding: gzip\r\n" : "Accept-Encoding: identity\r\n";
}
