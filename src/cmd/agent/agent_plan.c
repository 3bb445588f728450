/* SPDX-License-Identifier: MIT */
/* agent_plan: what to watch and how: the spec first, then options, which win. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the spec */

static void add_list(const char **list, size_t cap, const char *const *items, size_t count)
{
    size_t n = 0;

    while (list[n])
        n++;
    for (size_t i = 0; i < count && n < cap; i++)
        list[n++] = items[i];
}

static enum rc from_spec(struct agent_plan *p, struct err *err)
{
    static const enum prom_export_names names[] = { [SPEC_DCGM_OLD] = PROM_EXPORT_OLD,
                                                    [SPEC_DCGM_NEW] = PROM_EXPORT_NEW,
                                                    [SPEC_DCGM_BOTH] = PROM_EXPORT_BOTH };
    const struct spec_agent *s = &p->spec->agent;

    p->o.listen = s->listen;
    p->o.port = (int)s->port;
    p->o.metrics_port = (int)s->metrics_port;
    p->o.open_metrics = s->open_metrics;
    p->o.period_ms = (int)s->interval_ms;
    p->o.ring_bytes = (uint64_t)s->history_bytes;
    p->o.prom_export.names = names[s->dcgm_names];
    p->o.dcgm_url = s->dcgm;
    add_list(p->scrape, ARRAY_SIZE(p->scrape) - 1, s->scrape.items, s->scrape.count);
    if (agent_plan_peers(p, s->peers.items, s->peers.count, err))
        return err->code;
    agent_plan_places(p);
    alert_targets_of(p->spec, &p->arena, &p->o.alerts);
    return alert_rules_of(p->spec, &p->arena, &p->o.rules, &p->o.rule_count, err);
}

/* ---- options */

static enum rc port_of(const char *arg, int *port, struct err *err)
{
    uint64_t v;

    if (!arg)
        return RC_OK;
    if (str_eq(arg, "none")) {
        *port = -1;
        return RC_OK;
    }
    if (!str_to_u64(arg, 10, &v) || v > 65535)
        return err_set(err, RC_USAGE, "'%s' is not a port: 0 (a free one) to 65535, or none", arg);
    *port = (int)v;
    return RC_OK;
}

static enum rc times_of(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    uint64_t ms;

    if (a->interval) {
        if (units_duration_parse(a->interval, &ms, err))
            return err_ctx(err, "--interval");
        if (ms < 100 || ms > 3600000)
            return err_set(err, RC_USAGE, "--interval '%s' is not between 100ms and 1h",
                           a->interval);
        p->o.period_ms = (int)ms;
    }
    if (a->duration) {
        if (units_duration_parse(a->duration, &ms, err))
            return err_ctx(err, "--duration");
        if ((a->replay || a->demo) && !a->once) /* what is shown has a time of its own */
            p->run_ms = ms ? ms : 1;
        else
            p->o.seconds = ms < (uint64_t)p->o.period_ms ? 1 : ms / (uint64_t)p->o.period_ms;
    }
    if (a->samples && !a->replay)
        return err_set(err, RC_USAGE, "--samples is for --replay");
    if (a->samples)
        p->o.seconds = (uint64_t)a->samples;
    if (a->once && !a->duration && !a->replay)
        p->o.seconds = a->demo ? AGENT_ONCE_SECONDS : AGENT_ONCE_GPU_SECONDS;
    return RC_OK;
}

static enum rc speed_of(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    const char *speed = a->speed ? a->speed : a->once ? "max" : "1";
    struct stat from, to;

    if (a->speed && !a->replay && !a->demo)
        return err_set(err, RC_USAGE, "--speed is for --replay and --demo");
    if (a->loop && !a->replay)
        return err_set(err, RC_USAGE, "--loop is for --replay");
    if (a->replay && a->record && stat(a->replay, &from) == 0 && stat(a->record, &to) == 0 &&
        from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        return err_set(err, RC_USAGE, "--record and --replay name one file, '%s'", a->replay);
    if (a->replay && a->demo)
        return err_set(err, RC_USAGE, "--demo and --replay are alternatives");
    if (str_eq(speed, "max")) {
        p->o.replay_speed = 0;
        return RC_OK;
    }
    if (!str_to_f64(speed, &p->o.replay_speed) || p->o.replay_speed <= 0)
        return err_set(err, RC_USAGE, "'%s' is not a speed: a number above 0, or max", speed);
    return RC_OK;
}

/* The history's place: the service manager's, the machine's for root, else the user's. */
static enum rc history_of(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    const char *state = getenv("STATE_DIRECTORY"), *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char dir[FILE_PATH_MAX];

    if (a->history_size && units_bytes_parse(a->history_size, &p->o.ring_bytes, err))
        return err_ctx(err, "--history-size");
    if (a->history_size &&
        (p->o.ring_bytes < HISTORY_BYTES_MIN || p->o.ring_bytes > HISTORY_BYTES_MAX))
        return err_set(err, RC_USAGE, "--history-size '%s' is not between %d MiB and 1 TiB",
                       a->history_size, HISTORY_BYTES_MIN >> 20);
    if (a->history) {
        p->o.ring_path = a->history;
        return RC_OK;
    }
    if (a->no_history || a->once || a->print_rules || a->replay ||
        a->demo) /* a replay has one of its own */
        return RC_OK;
    if (state && *state)
        (void)str_copy(dir, sizeof(dir), state);
    else if (geteuid() == 0)
        (void)str_copy(dir, sizeof(dir), "/var/lib/stoker");
    else if (xdg && *xdg)
        (void)snprintf(dir, sizeof(dir), "%s/stoker", xdg);
    else if (home && *home)
        (void)snprintf(dir, sizeof(dir), "%s/.local/state/stoker", home);
    else
        return RC_OK;
    if (file_join(p->history, sizeof(p->history), dir, "history.ring", err))
        return err->code;
    (void)!file_make_dirs(dir, NULL); /* the agent tells when it cannot write there */
    p->o.ring_path = p->history;
    return RC_OK;
}

static void plain_of(struct agent_plan *p, const struct agent_args *a)
{
    p->o.listen = a->listen ? a->listen : p->o.listen;
    p->o.tls_cert = a->tls_cert ? a->tls_cert : p->spec->agent.tls_cert;
    p->o.tls_key = a->tls_key ? a->tls_key : p->spec->agent.tls_key;
    p->o.allow_anyone = a->insecure;
    p->o.trust = (struct web_trust){ a->ca_file, a->no_verify };
    p->o.alerts.trust = p->o.trust;
    if (!a->ca_file)
        p->o.alerts.trust.ca_file = p->spec->notify.ca_file;
    p->o.open_metrics |= a->open_metrics;
    p->o.free_port = a->free_port;
    p->o.record = a->record;
    p->o.record_replace = a->force;
    p->o.replay = a->replay;
    p->o.demo = a->demo;
    p->o.replay_loop = a->loop;
    p->o.series_max = (size_t)a->series_max;
    p->o.no_gpu = a->no_gpu;
    p->o.serve_url = a->serve;
    if (a->dcgm)
        p->o.dcgm_url = a->dcgm;
    p->o.gpu.nvml = a->gpu_library ? a->gpu_library : getenv("STOKER_NVML_LIB");
    p->o.prom_export.lower_hostname = a->lower_hostname;
    if (a->names)
        p->o.prom_export.names = str_eq(a->names, "new")    ? PROM_EXPORT_NEW
                                 : str_eq(a->names, "both") ? PROM_EXPORT_BOTH
                                                            : PROM_EXPORT_OLD;
    add_list(p->scrape, ARRAY_SIZE(p->scrape) - 1, a->scrape.items, a->scrape.count);
    p->o.scrape = p->scrape;
    if (a->once)
        p->o.port = p->o.metrics_port = -1;
}

/* Which of them is whose: "page" and "metrics" by name, else by the port, else the page's. */
static enum rc sockets_of(struct agent_plan *p, struct err *err)
{
    const int metrics_port = p->o.metrics_port;

    for (size_t i = 0; i < p->sockets.count; i++) {
        const struct listen_fd *s = &p->sockets.items[i];
        char address[HTTP_ADDRESS_MAX];
        int port;
        enum rc rc = http_socket_address(s->fd, address, &port, err);
        if (rc != RC_OK)
            return rc;
        bool metrics = str_eq(s->name, "metrics") ||
                       (!str_eq(s->name, "page") && port && port == metrics_port);
        int *fd = metrics ? &p->o.metrics_socket : &p->o.socket;
        if (*fd) {
            err_hint(err, "One may be named 'page' and one 'metrics' (FileDescriptorName=).");
            return err_set(err, RC_USAGE, "two sockets were handed over for %s",
                           metrics ? "/metrics" : "the page");
        }
        *fd = s->fd;
        *(metrics ? &p->o.metrics_port : &p->o.port) = port;
        if (!i || !http_address_local(address))
            (void)str_copy(p->listen, sizeof(p->listen), address);
    }
    if (p->sockets.count) /* what has no socket listens where the options say */
        p->o.socket_listen = p->listen;
    return RC_OK;
}

enum rc agent_plan_keys(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    struct cmd_keys *k = &p->keys;
    enum rc rc;

    k->files[CMD_KEY_CALL] = a->token_file ? a->token_file : p->spec->agent.token_file;
    k->files[CMD_KEY_METRICS] = a->metrics_token_file;
    k->files[CMD_KEY_ADMIN] =
        a->admin_token_file ? a->admin_token_file : p->spec->agent.admin_token_file;
    k->files[CMD_KEY_SERVE] = a->serve_token_file;
    if (a->serve_token_file && !a->serve)
        return err_set(err, RC_USAGE, "--serve-token-file is for --serve");
    p->watch.paths[CMD_WATCH_MAX - 2] = p->o.tls_cert;
    p->watch.paths[CMD_WATCH_MAX - 1] = p->o.tls_key;
    rc = cmd_keys_read(k, &p->watch, err);
    p->o.token = cmd_key(k, CMD_KEY_CALL);
    p->o.metrics_token = cmd_key(k, CMD_KEY_METRICS);
    p->o.admin_token = cmd_key(k, CMD_KEY_ADMIN);
    p->o.serve_token = cmd_key(k, CMD_KEY_SERVE);
    return rc;
}

/* Where those who are told of an alert find the page. */
static enum rc page_of(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    const char *text = a->public_url;
    struct url url;

    if (!text)
        return RC_OK;
    if (!str_starts(text, "http://") && !str_starts(text, "https://"))
        (void)err_set(err, RC_USAGE, "it begins with neither http:// nor https://");
    else if (url_parse(text, &url, err) == RC_OK)
        p->o.alerts.generator = text;
    return err->code ? err_ctx(err, "--public-url '%s'", text) : RC_OK;
}

/* Which metrics /metrics has. */
static enum rc metrics_of(struct agent_plan *p, const char *path, struct err *err)
{
    struct buf text = { 0 };
    enum rc rc;

    if (!path)
        return RC_OK;
    rc = file_read(path, AGENT_METRICS_FILE_MAX, &text, err);
    if (rc == RC_OK)
        rc = prom_export_patterns_read(&p->arena, buf_str(&text), &p->o.prom_export.only, err);
    for (size_t i = 0; rc == RC_OK && p->o.prom_export.only[i]; i++)
        if (!prom_export_pattern_known(NULL, p->o.prom_export.only[i]))
            log_warn("%s: no metric of ours is called '%s'; one of an application may be", path,
                     p->o.prom_export.only[i]);
    if (rc == RC_OK && !p->o.prom_export.only[0])
        rc = err_set(err, RC_PARSE, "it names no metric");
    buf_release(&text);
    return rc == RC_OK ? RC_OK : err_ctx(err, "--metrics-file '%s'", path);
}

static enum rc from_args(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    plain_of(p, a);
    if (agent_plan_peers(p, a->peers.items, a->peers.count, err))
        return err->code;
    if (port_of(a->port, &p->o.port, err) || port_of(a->metrics_port, &p->o.metrics_port, err) ||
        sockets_of(p, err) || times_of(p, a, err) || speed_of(p, a, err) || history_of(p, a, err) ||
        root_open(a->root, &p->root, err) || agent_plan_keys(p, a, err) ||
        metrics_of(p, a->metrics_file, err) || page_of(p, a, err))
        return err->code;
    p->o.origins = a->origins.items;
    p->o.hosts = a->hosts.items;
    p->o.root = p->root;
    p->o.gpu.root_path = a->root;
    return RC_OK;
}

void agent_plan_free(struct agent_plan *p)
{
    if (!p)
        return;
    agent_plan_free(p->older);
    if (p->root)
        root_close(p->root);
    spec_free(p->spec);
    arena_release(&p->arena);
    free(p);
}

enum rc agent_plan_make(struct cmd_ctx *ctx, const struct listen_fds *sockets,
                        struct agent_plan **out, struct err *err)
{
    const struct agent_args *a = ctx->opts;
    struct agent_plan *p = xcalloc(1, sizeof(*p));
    enum rc rc = RC_OK;

    if (a->spec)
        rc = cmd_spec_load(ctx, a->spec, &p->spec, err);
    else
        p->spec = spec_default();

    if (sockets)
        p->sockets = *sockets;
    if (rc == RC_OK)
        rc = from_spec(p, err);
    if (rc == RC_OK)
        rc = from_args(p, a, err);
    if (rc != RC_OK) {
        agent_plan_free(p);
        return rc;
    }
    *out = p;
    return RC_OK;
}
