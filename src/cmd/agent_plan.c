/* SPDX-License-Identifier: MIT */
/* agent_plan: what to watch and how: the spec first, then options, which win. */
#include "cmd/agent_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/units.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the spec */

static enum rc read_spec(struct agent_plan *p, const char *path, struct cmd_ctx *ctx,
                         struct err *err)
{
    struct spec_diags diags = { 0 };
    struct buf text = { 0 };
    enum rc rc;

    if (!path) {
        p->spec = spec_default();
        return RC_OK;
    }
    rc = spec_load(path, &p->spec, &diags, err);
    if (rc != RC_OK && diags.count) {
        spec_diags_print(&diags, &ctx->err_term, &text);
        (void)fwrite(buf_str(&text), 1, text.len, stderr);
        buf_release(&text);
        *err = (struct err){ 0 }; /* its first message has been told with the others */
        (void)err_set(err, rc, "could not read '%s'", path);
    }
    spec_diags_release(&diags);
    return rc;
}

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
    static const enum expo_names names[] = {
        [SPEC_DCGM_OLD] = EXPO_OLD, [SPEC_DCGM_NEW] = EXPO_NEW, [SPEC_DCGM_BOTH] = EXPO_BOTH
    };
    const struct spec_agent *s = &p->spec->agent;

    p->o.listen = s->listen;
    p->o.port = (int)s->port;
    p->o.metrics_port = (int)s->metrics_port;
    p->o.open_metrics = s->open_metrics;
    p->o.period_ms = (int)s->interval_ms;
    p->o.ring_bytes = (uint64_t)s->history_bytes;
    p->o.expo.names = names[s->dcgm_names];
    p->o.dcgm_url = s->dcgm;
    add_list(p->scrape, ARRAY_SIZE(p->scrape) - 1, s->scrape.items, s->scrape.count);
    add_list(p->fleet, ARRAY_SIZE(p->fleet) - 1, s->peers.items, s->peers.count);
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
        return err_set(err, RC_USAGE, "'%s' is no port: 0 (a free one) to 65535, or none", arg);
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
        p->o.seconds = ms / (uint64_t)p->o.period_ms;
        p->o.seconds = p->o.seconds ? p->o.seconds : 1;
    }
    if (a->once && !a->duration && !a->replay)
        p->o.seconds = a->demo ? AGENT_ONCE_SECONDS : AGENT_ONCE_GPU_SECONDS;
    return RC_OK;
}

static enum rc speed_of(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    const char *speed = a->speed ? a->speed : a->once ? "max" : "1";

    if (a->speed && !a->replay && !a->demo)
        return err_set(err, RC_USAGE, "--speed is for --replay and --demo");
    if (a->loop && !a->replay)
        return err_set(err, RC_USAGE, "--loop is for --replay");
    if (a->replay && a->demo)
        return err_set(err, RC_USAGE, "--demo plays its own recording: it takes no --replay");
    if (str_eq(speed, "max")) {
        p->o.replay_speed = 0;
        return RC_OK;
    }
    if (!str_to_f64(speed, &p->o.replay_speed) || p->o.replay_speed <= 0)
        return err_set(err, RC_USAGE, "'%s' is no speed: a number above 0, or max", speed);
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
    if (a->history_size && p->o.ring_bytes < RING_BYTES_MIN)
        return err_set(err, RC_USAGE, "--history-size '%s' is below %d MiB", a->history_size,
                       RING_BYTES_MIN >> 20);
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
    p->o.tls_cert = a->tls_cert;
    p->o.tls_key = a->tls_key;
    p->o.allow_anyone = a->insecure;
    p->o.open_metrics |= a->open_metrics;
    p->o.free_port = a->free_port;
    p->o.record = a->record;
    p->o.replay = a->replay;
    p->o.demo = a->demo;
    p->o.replay_loop = a->loop;
    p->o.series_max = (size_t)a->series_max;
    p->o.no_gpu = a->no_gpu;
    p->o.serve_url = a->serve;
    if (a->dcgm)
        p->o.dcgm_url = a->dcgm;
    p->o.gpu.nvml = a->gpu_library ? a->gpu_library : getenv("STOKER_NVML_LIB");
    p->o.expo.lower_hostname = a->lower_hostname;
    if (a->names)
        p->o.expo.names = str_eq(a->names, "new")    ? EXPO_NEW
                          : str_eq(a->names, "both") ? EXPO_BOTH
                                                     : EXPO_OLD;
    add_list(p->scrape, ARRAY_SIZE(p->scrape) - 1, a->scrape.items, a->scrape.count);
    add_list(p->fleet, ARRAY_SIZE(p->fleet) - 1, a->peers.items, a->peers.count);
    p->o.scrape = p->scrape;
    p->o.fleet = p->fleet;
    if (a->once)
        p->o.port = p->o.metrics_port = -1;
}

static enum rc from_args(struct agent_plan *p, const struct agent_args *a, struct err *err)
{
    const char *token = a->token_file ? a->token_file : p->spec->agent.token_file;

    plain_of(p, a);
    if (port_of(a->port, &p->o.port, err) || port_of(a->metrics_port, &p->o.metrics_port, err) ||
        times_of(p, a, err) || speed_of(p, a, err) || history_of(p, a, err) ||
        root_open(a->root, &p->root, err) ||
        (token && cmd_token(token, p->token, sizeof(p->token), err)) ||
        (a->metrics_token_file &&
         cmd_token(a->metrics_token_file, p->metrics_token, sizeof(p->metrics_token), err)))
        return err->code;
    memcpy(p->origins, a->origins.items, a->origins.count * sizeof(*p->origins));
    memcpy(p->hosts, a->hosts.items, a->hosts.count * sizeof(*p->hosts));
    p->o.origins = p->origins;
    p->o.hosts = p->hosts;
    p->o.metrics_token = a->metrics_token_file ? p->metrics_token : NULL;
    p->o.root = p->root;
    p->o.gpu.root_path = a->root;
    p->o.token = token ? p->token : NULL;
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

enum rc agent_plan_make(struct cmd_ctx *ctx, struct agent_plan **out, struct err *err)
{
    const struct agent_args *a = ctx->opts;
    struct agent_plan *p = xcalloc(1, sizeof(*p));
    enum rc rc = read_spec(p, a->spec, ctx, err);

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
