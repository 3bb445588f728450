/* SPDX-License-Identifier: MIT */
/* up_plan: what `stoker up` starts, and the sockets it holds for that.
 *
 * Sockets are opened here, or taken from who started this process (LISTEN_FDS), and handed to the
 * children, which answer on them.  This process never accepts: it keeps them open, so that clients
 * wait in their queues while a child is away.
 *
 *   name      whose   what
 *   page      agent   the page and its API
 *   metrics   agent   /metrics
 *   serve     serve   every model API
 *   rerank    serve   the same once more
 *   admin     serve   a unix socket that may change models */
#include "up/up_int.h"

#include "base/log.h"
#include "base/str.h"
#include "model/model.h"
#include "plan/feasible.h"
#include "spec/spec.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

static const char up_model[] = "all-MiniLM-L6-v2"; /* served when nothing else is asked for */
enum { UP_DRAIN_MARGIN_MS = 10000 };               /* after serve's own drain time */

static void add_arg(struct up_part *p, const char *a)
{
    if (p->argc < UP_ARGS_MAX - 1)
        p->argv[p->argc++] = a;
}

static void add_arg_value(struct up_part *p, const char *name, const char *value)
{
    if (value) {
        add_arg(p, name);
        add_arg(p, value);
    }
}

static void arg_list(struct up_part *p, const char *name, const struct opt_strs *values)
{
    for (size_t i = 0; i < values->count; i++)
        add_arg_value(p, name, values->items[i]);
}

static void common_args(const struct up_opts *a, struct up_part *p)
{
    static_assert(UP_ARGS_MAX > 6 * ARGS_REPEAT_MAX + 64, "every option fits");
    add_arg_value(p, "--file", a->spec);
    add_arg_value(p, "--listen", a->listen);
    add_arg_value(p, "--token-file", a->token_file);
    add_arg_value(p, "--admin-token-file", a->admin_token_file);
    add_arg_value(p, "--metrics-token-file", a->metrics_token_file);
    add_arg_value(p, "--tls-cert", a->tls_cert);
    add_arg_value(p, "--tls-key", a->tls_key);
    arg_list(p, "--allow-origin", &a->origins);
    arg_list(p, "--allow-host", &a->hosts);
    if (a->insecure)
        add_arg(p, "--insecure");
    add_arg(p, "--quiet");
}

/* ---- sockets */

/* One that was handed over: by its name, else by its port, which may be any one (0) with a name
 * alone.  -1: none. */
static int given_take(struct up *u, const char *name, int port)
{
    for (int by_port = 0; by_port < 2; by_port++)
        for (size_t i = 0; i < u->given.count; i++) {
            char address[HTTP_ADDRESS_MAX];
            int fd = u->given.items[i].fd, at;

            if (fd < 0 || (!by_port && !str_eq(u->given.items[i].name, name)) ||
                (by_port && (!port || http_socket_address(fd, address, &at, NULL) || at != port)))
                continue;
            u->given.items[i].fd = -1;
            return fd;
        }
    return -1;
}

static void hold_socket(struct up_part *p, const char *name, int fd)
{
    struct listen_fd *s = &p->sockets.items[p->sockets.count++];

    s->fd = fd;
    (void)str_copy(s->name, sizeof(s->name), name);
}

static enum rc port_of(const char *given, int dflt, int *out, struct err *err)
{
    int64_t port = dflt;

    if (given && (!str_to_i64(given, 10, &port) || port < 0 || port > 65535))
        return err_set(err, RC_USAGE, "'%s' is not a port: 0 (a free one) to 65535", given);
    *out = (int)port;
    return RC_OK;
}

/* Opens it, or takes the one that was handed over; *port becomes the one it has. */
static enum rc hold_port(struct up *u, struct up_part *p, const char *name, const char *address,
                         int *port, struct err *err)
{
    char at[HTTP_ADDRESS_MAX];
    int fd = given_take(u, name, *port);
    enum rc rc;

    if (fd >= 0)
        rc = http_socket_address(fd, at, port, err);
    else
        rc = http_socket_open(address, *port, &fd, port, err);
    if (rc == RC_FAIL && u->args->free_port) {
        *err = (struct err){ 0 };
        rc = http_socket_open(address, 0, &fd, port, err);
    }
    if (rc == RC_OK)
        hold_socket(p, name, fd);
    return rc;
}

/* What the one before an upgrade held and a spec that has changed wants no more is closed. */
static enum rc check_given(struct up *u, struct err *err)
{
    for (size_t i = 0; i < u->given.count; i++)
        if (u->given.items[i].fd >= 0 && u->upgraded) {
            log_info("the port of '%s' is closed: the spec has no use for it any more",
                     u->given.items[i].name);
            close(u->given.items[i].fd);
            u->given.items[i].fd = -1;
        } else if (u->given.items[i].fd >= 0) {
            err_hint(err, "Name it page, metrics, serve, rerank or admin (FileDescriptorName=), or "
                          "let it listen on the port of one.");
            return err_set(err, RC_USAGE, "socket '%.64s' of LISTEN_FDS is not for this node",
                           u->given.items[i].name);
        }
    return RC_OK;
}

/* ---- the agent */

/* The agent reads serve's figures by a token that serve takes: the one for figures where there is
 * one, else serve's own, which a spec may have other than the agent's. */
static const char *figures_token_file(const struct up *u)
{
    const struct up_opts *a = u->args;

    return a->metrics_token_file ? a->metrics_token_file
           : a->token_file       ? a->token_file
           : u->spec             ? u->spec->serve.token_file
                                 : NULL;
}

static enum rc hold_agent_port(struct up *u, struct up_part *p, bool metrics, struct err *err)
{
    const struct up_opts *a = u->args;
    const char *given = metrics ? a->metrics_port : a->agent_port;
    const char *listen = a->listen ? a->listen : u->spec ? u->spec->agent.listen : "127.0.0.1";
    int port = metrics ? 9400 : 8090;
    enum rc rc;

    if (str_eq(given, "none")) {
        add_arg_value(p, metrics ? "--metrics-port" : "--port", given);
        return RC_OK;
    }
    if (u->spec)
        port = (int)(metrics ? u->spec->agent.metrics_port : u->spec->agent.port);
    rc = port_of(given, port, &port, err);
    return rc == RC_OK ? hold_port(u, p, metrics ? "metrics" : "page", listen, &port, err) : rc;
}

static enum rc plan_agent(struct up *u, struct err *err)
{
    struct up_part *p = &u->parts[PART_AGENT];
    const struct up_opts *a = u->args;
    enum rc rc = RC_OK;

    u->agent_off = u->spec && !u->spec->agent.enabled && !a->demo; /* the demo is asked for */
    *p = (struct up_part){ .name = "agent", .wanted = !a->no_agent && !u->agent_off };
    add_arg(p, "stoker");
    add_arg(p, "agent");
    common_args(a, p);
    if (a->open_metrics)
        add_arg(p, "--open-metrics");
    add_arg_value(p, "--ca-file", a->ca_file);
    if (p->wanted)
        rc = hold_agent_port(u, p, false, err);
    if (p->wanted && rc == RC_OK)
        rc = hold_agent_port(u, p, true, err);
    if (a->try_it)
        add_arg(p, "--no-history");
    else
        add_arg_value(p, "--history", a->history);
    add_arg_value(p, "--history-size", a->history_size);
    if (a->demo)
        add_arg(p, "--demo");
    else if (u->parts[PART_SERVE].wanted) {
        add_arg_value(p, "--serve", u->serve_url);
        add_arg_value(p, "--serve-token-file", figures_token_file(u));
    }
    if (a->try_it)
        add_arg_value(p, "--control", "none");
    return rc;
}

/* ---- the spec and the models */

/* The spec, its warnings told.  A site that does not fit on its machines is not begun with, nor
 * with --strict one that has a warning. */
static enum rc spec_take(struct up *u, struct err *err)
{
    const struct term plain = { 0 };
    struct spec_diags diags = { 0 };
    struct buf text = { 0 };
    enum rc rc = spec_load(u->args->spec, &u->spec, &diags, err);

    if (rc == RC_OK)
        rc = feasible_check(u->spec, NULL, &diags, err);
    spec_warnings_print(&diags, &plain, &text);
    fwrite(buf_str(&text), 1, text.len, stderr);
    buf_release(&text);
    if (rc == RC_OK && u->args->strict && diags.warning_count)
        rc = err_set(err, RC_PARSE, "'%s' has %zu warning%s, and --strict is set", u->args->spec,
                     diags.warning_count, diags.warning_count == 1 ? "" : "s");
    spec_diags_release(&diags);
    return rc;
}

/* The default model where none is named, when it is here. */
static void plan_models(struct up *u, struct up_part *p)
{
    char dir[FILE_PATH_MAX];

    arg_list(p, "--model", &u->args->models);
    if (u->args->no_serve)
        u->no_model = "not wanted";
    else if (u->args->models.count)
        return;
    else if (u->spec)
        u->no_model = u->spec->model_count ? NULL : "the spec names no model";
    else if (model_find(up_model, dir, sizeof(dir), NULL))
        u->no_model = "no model is here: stoker model get all-MiniLM-L6-v2";
    else
        add_arg_value(p, "--model", up_model);
}

/* ---- the model server */

/* Where the agent finds it: a wildcard is reached by loopback. */
static enum rc find_serve_url(struct up *u, struct err *err)
{
    const struct up_part *p = &u->parts[PART_SERVE];
    bool tls = u->args->tls_cert || (u->spec && u->spec->serve.tls_cert);
    char address[HTTP_ADDRESS_MAX];
    struct buf url = { 0 };
    int port;
    enum rc rc = http_socket_address(listen_fds_find(&p->sockets, "serve"), address, &port, err);

    if (rc != RC_OK)
        return rc;
    http_address_url(address, true, tls, port, &url);
    (void)str_copy(u->serve_url, sizeof(u->serve_url), buf_str(&url));
    buf_release(&url);
    return RC_OK;
}

static enum rc hold_admin_socket(struct up *u, struct up_part *p, struct err *err)
{
    char at[FILE_PATH_MAX];
    int fd = given_take(u, "admin", 0), port;
    enum rc rc = RC_OK;

    if (fd < 0 && !u->args->admin_socket)
        return RC_OK;
    u->made_admin = fd >= 0 && u->upgraded && u->args->admin_socket;
    if (fd < 0) {
        (void)snprintf(at, sizeof(at), "unix:%s", u->args->admin_socket);
        rc = http_socket_open(at, 0, &fd, &port, err);
        u->made_admin = rc == RC_OK;
    }
    if (rc == RC_OK)
        hold_socket(p, "admin", fd);
    return rc;
}

static enum rc hold_serve_ports(struct up *u, struct up_part *p, struct err *err)
{
    const struct up_opts *a = u->args;
    const char *listen = a->listen ? a->listen : u->spec ? u->spec->serve.listen : "127.0.0.1";
    int wanted = u->spec ? (int)u->spec->serve.port : 8003;
    int rerank = u->spec ? (int)u->spec->serve.rerank_port : 8002, port;
    enum rc rc = port_of(a->port, wanted, &port, err);

    if (rc == RC_OK)
        rc = hold_port(u, p, "serve", listen, &port, err);
    if (rc == RC_OK && (listen_fds_find(&u->given, "rerank") >= 0 ||
                        (!a->port && (!a->free_port || port == wanted))))
        rc = hold_port(u, p, "rerank", listen, &rerank, err);
    if (rc == RC_OK)
        rc = hold_admin_socket(u, p, err);
    return rc == RC_OK ? find_serve_url(u, err) : rc;
}

static enum rc plan_serve(struct up *u, struct err *err)
{
    struct up_part *p = &u->parts[PART_SERVE];

    *p = (struct up_part){ .name = "serve" };
    add_arg(p, "stoker");
    add_arg(p, "serve");
    common_args(u->args, p);
    plan_models(u, p);
    p->wanted = !u->no_model;
    add_arg_value(p, "--device", u->args->device);
    if (u->args->try_it)
        add_arg(p, "--try");
    if (u->spec && u->spec->serve.drain_ms + UP_DRAIN_MARGIN_MS > u->stop_ms)
        u->stop_ms = u->spec->serve.drain_ms + UP_DRAIN_MARGIN_MS;
    return p->wanted ? hold_serve_ports(u, p, err) : RC_OK;
}

enum rc up_plan(struct up *u, struct err *err)
{
    enum rc rc = listen_fds_take(&u->given, err);

    u->stop_ms = UP_STOP_MS;
    if (rc == RC_OK && u->args->listen && str_starts(u->args->listen, "unix:"))
        rc = err_set(err, RC_USAGE, "'--listen %s' cannot be both agent's and serve's",
                     u->args->listen);
    if (rc == RC_OK && u->args->spec)
        rc = spec_take(u, err);
    if (rc == RC_OK)
        rc = plan_serve(u, err);
    if (rc == RC_OK)
        rc = plan_agent(u, err);
    if (rc == RC_OK && !u->parts[PART_AGENT].wanted && !u->parts[PART_SERVE].wanted)
        rc = err_set(err, RC_USAGE, "nothing to run: %s%s", u->no_model,
                     u->agent_off ? ", and its 'agent.enabled' is false" : "");
    return rc == RC_OK ? check_given(u, err) : rc;
}

void up_plan_release(struct up *u)
{
    for (size_t i = 0; i < PARTS; i++)
        for (size_t k = 0; k < u->parts[i].sockets.count; k++)
            close(u->parts[i].sockets.items[k].fd);
    if (u->made_admin)
        (void)unlink(u->args->admin_socket);
    spec_free(u->spec);
}
