/* SPDX-License-Identifier: MIT */
/* systemd: units of the agent, the model server, both in one (`stoker up`) and of every component
 * that runs without a scheduler; the user they run as, their folders, which of them start with the
 * machine, and a script that puts all of it in its place.
 *
 *     systemd/stoker-{agent,serve,up}.service
 *     systemd/stoker-component-NAME.service      target local or systemd
 *     systemd/etc/{stoker,serve,component-NAME}.yaml       specs that they read, for /etc/stoker
 *     systemd/{sysusers.d,tmpfiles.d}/stoker.conf
 *     systemd/50-stoker.preset
 *     systemd/models.sh     fetches models of the hub; only where the spec has such
 *     systemd/install.sh
 *
 * agent, serve and up tell the service manager that they are ready and alive, so they are
 * Type=notify with a watchdog; programs of others are not made to. */
#include "base/str.h"
#include "render/systemd/systemd_int.h"

#include <inttypes.h>

enum {
    AGENT_MEMORY_MIB = 512,  /* beside its history, which is mapped */
    AGENT_STOP_S = 10,       /* a driver call that hangs is not waited for */
    SERVE_STOP_MARGIN_S = 10 /* after the last request was answered */
};

static bool on_host(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_LOCAL || c->target == SPEC_TARGET_SYSTEMD;
}

static bool has_servers(const struct host_plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (host_is_server(p->runs[i].c))
            return true;
    return false;
}

static struct systemd_unit unit_open(struct render *r, const struct host_plan *p, const char *name,
                                     const char *what)
{
    struct systemd_unit u = { .r = r, .plan = p, .out = render_file(r, "systemd/%s", name) };

    render_head(r, u.out, "#", what);
    return u;
}

static void after_driver(struct systemd_unit *u)
{
    buf_adds(u->out, "After=network-online.target nvidia-persistenced.service "
                     "nvidia-fabricmanager.service stoker-detect.service\n"
                     "Wants=network-online.target\n"
                     "# started again for ever, with a pause\n"
                     "StartLimitIntervalSec=0\n");
}

static void put_notify(struct systemd_unit *u, const char *env)
{
    unit_section(u, "Service");
    buf_addf(u->out, "Type=notify\nNotifyAccess=main\n# options of the site: %s\n", env);
    unit_user(u, NULL);
    buf_addf(u->out, "EnvironmentFile=-/etc/default/%s\n", env);
}

static void put_install(struct systemd_unit *u)
{
    unit_section(u, "Install");
    buf_adds(u->out, "WantedBy=multi-user.target\n");
}

/* ---- the agent ---- */

static void put_history(struct systemd_unit *u)
{
    struct buf path = { 0 };

    buf_addf(&path, "%s/history.ring", u->r->targets->systemd->state_dir);
    unit_exec_word(u->out, buf_str(&path));
    buf_release(&path);
}

static void agent_write(struct render *r, const struct host_plan *p)
{
    const struct spec_agent *a = &r->spec->agent;
    struct systemd_unit u =
        unit_open(r, p, "stoker-agent.service", "The node agent: metrics, history, alerts, page.");

    buf_addf(u.out, "# Page and API on %s:%" PRId64 " (%s), /metrics on %" PRId64 " (%s).\n",
             a->listen, a->port, render_from(r, &a->port), a->metrics_port,
             render_from(r, &a->metrics_port));
    unit_section(&u, "Unit");
    buf_adds(u.out, "Description=stoker node agent\nDocumentation=man:stoker-agent(1)\n");
    after_driver(&u);
    unit_needs_own(&u, true, false);
    put_notify(&u, "stoker-agent");
    buf_adds(u.out, "ExecStart=stoker agent --quiet -f " UNIT_ETC "/stoker.yaml --history ");
    put_history(&u);
    buf_adds(u.out, " $STOKER_AGENT_OPTIONS\n"
                    "ExecReload=/bin/kill -HUP $MAINPID\n"
                    "Restart=always\n"
                    "RestartSec=1\n");
    unit_watchdog(&u);
    buf_addf(u.out,
             "# a driver call that hangs holds its child: the end does not wait for it\n"
             "TimeoutStopSec=%d\nKillMode=mixed\n",
             AGENT_STOP_S);
    buf_adds(u.out, "RuntimeDirectory=stoker\nRuntimeDirectoryPreserve=yes\n");
    unit_dirs(&u, NULL);
    unit_line(&u, &a->history_bytes, "MemoryMax=%" PRId64,
              a->history_bytes + ((int64_t)AGENT_MEMORY_MIB << 20));
    buf_adds(u.out, "CPUQuota=100%\nTasksMax=256\nLimitNOFILE=65536\n");
    unit_harden(&u, UNIT_HARD_OWN, false);
    unit_low_port(&u, &a->port);
    unit_low_port(&u, &a->metrics_port);
    put_install(&u);
}

/* ---- the model server ---- */

static void serve_limits(struct systemd_unit *u)
{
    const struct spec_serve *v = &u->r->spec->serve;

    unit_batch_dir(u, NULL);
    unit_line(u, &v->drain_ms, "TimeoutStopSec=%" PRId64, v->drain_ms / 1000 + SERVE_STOP_MARGIN_S);
    buf_adds(u->out, "KillMode=mixed\nMemoryMax=90%\nTasksMax=4096\nLimitMEMLOCK=infinity\n");
    unit_line(u, &v->connections_max, "LimitNOFILE=%" PRId64, 2 * v->connections_max + 1024);
}

/* The machine's own server and one of a component cannot have the same port. */
static void check_server_ports(struct render *r, const struct host_plan *p)
{
    const struct spec_serve *v = &r->spec->serve;

    for (size_t i = 0; host_models_loose(r->spec) && i < p->count; i++) {
        const struct spec_component *c = p->runs[i].c;
        const void *at = c->port_count ? NULL : (const void *)&c->name;
        int64_t port = v->port;

        if (!host_is_server(c) || p->runs[i].replica)
            continue;
        for (size_t k = 0; k < c->port_count && k < 2 && !at; k++)
            if (c->ports[k].port == v->port || c->ports[k].port == v->rerank_port) {
                at = &c->ports[k].port;
                port = c->ports[k].port;
            }
        if (at)
            render_refuse(r, at,
                          "Models that name no component are served by stoker-serve on the ports "
                          "of 'serve'. Give the component others, or each model its component.",
                          "port %" PRId64 " is used by component '%s' and by stoker-serve", port,
                          c->name);
    }
}

/* Is an earlier replica of it on the same machine? */
static bool has_twin(const struct host_plan *p, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (p->runs[i].c == p->runs[at].c && p->runs[i].node == p->runs[at].node &&
            p->runs[i].machine == p->runs[at].machine)
            return true;
    return false;
}

/* Units listen on the machine's own addresses, and all replicas on the same ports. */
static void check_twins(struct render *r, const struct host_plan *p)
{
    const struct spec_component *told = NULL;

    for (size_t i = 0; i < p->count; i++) {
        const struct spec_component *c = p->runs[i].c;

        if (c == told || !has_twin(p, i))
            continue;
        told = c;
        if (host_is_server(c))
            render_refuse(r, &c->replicas,
                          "One server uses all GPUs of its component: give it more 'gpus', or each "
                          "a component of its own, with its ports.",
                          "several servers of component '%s' are on one machine, and would have "
                          "the same ports",
                          c->name);
        else if (c->port_count)
            render_warn(r, &c->replicas,
                        "Where it cannot share the port, give each a component of its own.",
                        "several replicas of '%s' are on one machine, and listen on port %" PRId64
                        " there",
                        c->name, c->ports[0].port);
    }
}

static void serve_write(struct render *r, const struct host_plan *p)
{
    const struct spec_serve *v = &r->spec->serve;
    bool loose = host_models_loose(r->spec);
    struct systemd_unit u =
        unit_open(r, p, "stoker-serve.service",
                  loose ? "The model server: the models that name no component."
                        : "The model server: every model of the spec in one process.");

    buf_addf(u.out, "# Every API on %s:%" PRId64 " (%s) and once more on %" PRId64 " (%s).\n",
             v->listen, v->port, render_from(r, &v->port), v->rerank_port,
             render_from(r, &v->rerank_port));
    unit_section(&u, "Unit");
    buf_adds(u.out, "Description=stoker model server\nDocumentation=man:stoker-serve(1)\n");
    after_driver(&u);
    for (size_t i = 0; i < p->count && !loose; i++)
        if (host_is_server(p->runs[i].c)) {
            char name[2 * HOST_NAME_MAX];

            unit_name_of(&p->runs[i], name, sizeof(name));
            unit_line(&u, NULL, "# the same models, a process each\nConflicts=%s", name);
        }
    unit_needs_own(&u, false, true);
    put_notify(&u, "stoker-serve");
    buf_adds(u.out, "ExecStart=stoker serve --quiet -f " UNIT_ETC "/serve.yaml "
                    "$STOKER_SERVE_OPTIONS\n"
                    "ExecReload=/bin/kill -HUP $MAINPID\n"
                    "Restart=always\n"
                    "RestartSec=1\n");
    unit_watchdog(&u);
    unit_dirs(&u, NULL);
    serve_limits(&u);
    unit_harden(&u, UNIT_HARD_ENGINE, false);
    unit_low_port(&u, &v->port);
    unit_low_port(&u, &v->rerank_port);
    put_install(&u);
}

/* ---- both ---- */

static void up_write(struct render *r, const struct host_plan *p)
{
    const struct spec_serve *v = &r->spec->serve;
    const struct spec_agent *w = &r->spec->agent;
    struct systemd_unit u = unit_open(r, p, "stoker-up.service",
                                      "Agent and model server as one unit; instead of theirs.");

    unit_section(&u, "Unit");
    buf_adds(u.out, "Description=stoker node agent and model server\n"
                    "Documentation=man:stoker-up(1)\n"
                    "Conflicts=stoker-agent.service stoker-serve.service\n");
    after_driver(&u);
    unit_needs_own(&u, true, true);
    put_notify(&u, "stoker-up");
    buf_addf(u.out, "ExecStart=stoker up -f " UNIT_ETC "/stoker.yaml --history ");
    put_history(&u);
    buf_adds(u.out, " $STOKER_UP_OPTIONS\n"
                    "ExecReload=/bin/kill -HUP $MAINPID\n"
                    "Restart=always\n"
                    "RestartSec=1\n");
    unit_watchdog(&u);
    buf_adds(u.out, "RuntimeDirectory=stoker\nRuntimeDirectoryPreserve=yes\n");
    unit_dirs(&u, NULL);
    serve_limits(&u);
    unit_harden(&u, UNIT_HARD_OWN, false);
    unit_low_port(&u, &v->port);
    unit_low_port(&u, &v->rerank_port);
    unit_low_port(&u, &w->port);
    unit_low_port(&u, &w->metrics_port);
    put_install(&u);
}

/* ---- user, folders, what starts with the machine ---- */

/* The user that a component names; one that is there already stays as it is. */
static void sysuser_of(const struct render *r, struct buf *out, const struct spec_component *c)
{
    char name[64];
    int64_t id;

    if ((c->target != SPEC_TARGET_SYSTEMD && c->target != SPEC_TARGET_LOCAL) || !c->user)
        return;
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(c->user, ":"), c->user);
    if (!unit_user_ok(name) || str_to_i64(name, 10, &id) || str_eq(name, "root") ||
        str_eq(name, r->targets->systemd->user))
        return;
    buf_addf(out, "# %s\nu %s -\n", render_from(r, &c->user), name);
}

static void sysusers_write(struct render *r)
{
    const struct spec_systemd *t = r->targets->systemd;
    struct buf *out = render_file(r, "systemd/sysusers.d/stoker.conf");

    render_head(r, out, "#", "The user and group of the units.");
    if (!unit_user_ok(t->user) || !unit_user_ok(t->group))
        return; /* refused with the units */
    buf_addf(out, "# %s\ng %s -\n", render_from(r, &t->group), t->group);
    buf_addf(out, "# %s\nu %s - \"stoker node agent and model server\" ", render_from(r, &t->user),
             t->user);
    unit_list_word(out, t->state_dir);
    buf_addf(out, " -\nm %s %s\n", t->user, t->group);
    for (size_t i = 0; i < r->spec->component_count; i++)
        sysuser_of(r, out, &r->spec->components[i]);
}

struct folders { /* where the folders of the units are written */
    const struct render *r;
    struct buf *out;
    bool shared; /* install.sh makes those of the network; tmpfiles.d, which runs before they are
                  * mounted, the others */
};

static void folder_add(const struct folders *f, const char *path, const char *user,
                       const char *group, const void *member)
{
    const struct spec_storage *on = systemd_share_of(f->r->spec, path);

    if (f->shared != (on != NULL))
        return;
    if (member)
        buf_addf(f->out, "# %s\n", render_from(f->r, member));
    buf_adds(f->out, f->shared ? "share " : "d ");
    if (f->shared)
        quote_sh(f->out, path);
    else
        unit_list_word(f->out, path);
    buf_addf(f->out, f->shared ? " %.*s %s " : " 0755 %.*s %s -", (int)strcspn(user, ":"), user,
             group);
    if (f->shared)
        quote_sh(f->out, on->path);
    buf_addc(f->out, '\n');
}

/* Of the machine's own server and of each component's, which may run as another user. */
static void batch_folders(const struct folders *f, const struct host_plan *p)
{
    const struct spec_serve *v = &f->r->spec->serve;
    const struct spec_systemd *t = f->r->targets->systemd;
    char path[HOST_BATCH_DIR_MAX];

    if (!v->batch_dir)
        return;
    folder_add(f, v->batch_dir, t->user, t->group, &v->batch_dir);
    for (size_t i = 0; i < p->count; i++) {
        const struct host_run *run = &p->runs[i];

        if (run->replica || !host_is_server(run->c))
            continue;
        host_batch_dir(v, run, path, sizeof(path));
        folder_add(f, path, run->c->user ? run->c->user : t->user, f->shared ? "root" : "-", NULL);
    }
}

static void folders_collect(const struct folders *f, const struct host_plan *p)
{
    const struct spec_systemd *t = f->r->targets->systemd;

    folder_add(f, t->state_dir, t->user, t->group, &t->state_dir);
    folder_add(f, t->log_dir, t->user, t->group, &t->log_dir);
    batch_folders(f, p);
}

static void tmpfiles_write(struct render *r, const struct host_plan *p)
{
    const struct spec_systemd *t = r->targets->systemd;
    struct buf *out = render_file(r, "systemd/tmpfiles.d/stoker.conf");

    render_head(r, out, "#", "Folders of the units.");
    folders_collect(&(struct folders){ .r = r, .out = out }, p);
    buf_adds(out, "# control socket of the agent, and where jobs of all users say how they go\n");
    buf_addf(out, "d /run/stoker 0755 %s %s -\n", t->user, t->group);
    buf_adds(out, "d /run/stoker/jobs 1777 root root -\n");
    buf_adds(out, "# what agent and up read may name a webhook: nobody else reads it\n");
    buf_addf(out, "z " UNIT_ETC "/stoker.yaml 0640 root %s -\n", t->group);
}

static void preset_write(struct render *r, const struct host_plan *p)
{
    struct buf *out = render_file(r, "systemd/50-stoker.preset");
    const struct spec_agent *a = &r->spec->agent;
    bool loose = host_models_loose(r->spec);

    render_head(r, out, "#", "What starts with the machine (systemctl preset-all).");
    buf_addf(out, "# agent.enabled: %s\n%s stoker-agent.service\n", render_from(r, &a->enabled),
             a->enabled ? "enable" : "disable");
    for (size_t i = 0; i < p->count; i++) {
        const struct host_run *run = &p->runs[i];
        bool starts = run->c->kind != SPEC_COMPONENT_BATCH;
        char name[2 * HOST_NAME_MAX];

        unit_name_of(run, name, sizeof(name));
        buf_addf(out, "# %s\n%s %s\n", render_from(r, run->c), starts ? "enable" : "disable", name);
    }
    buf_addf(out, "%s\n%s stoker-serve.service\n",
             loose                                    ? "# serves the models that name no component"
             : has_servers(p) || r->spec->model_count ? "# components serve the models"
                                                      : "# the spec has no models",
             loose ? "enable" : "disable");
    buf_adds(out, "# agent and server as one unit, instead of theirs\ndisable stoker-up.service\n");
}

static const char FILES[] =
    "set -eu\n"
    "cd \"$(dirname \"$0\")\"\n"
    "here=$(pwd)\n"
    "root=${DESTDIR-}\n"
    "units=$root/etc/systemd/system\n"
    "# what was installed of an earlier spec and is no longer rendered\n"
    "left_over() {\n"
    "    for f in \"$units\"/stoker-component-*.service \"$root\"/etc/stoker/component-*.yaml; do\n"
    "        grep -qs \"^# Written by 'stoker render'\" \"$f\" || continue\n"
    "        [ -e \"${f##*/}\" ] || [ -e \"etc/${f##*/}\" ] || printf '%s\\n' \"$f\"\n"
    "    done\n"
    "}\n"
    "if [ \"${1-}\" = prune ]; then\n"
    "    left_over | while read -r f; do\n"
    "        case $f in\n"
    "        *.service) [ -n \"$root\" ] || systemctl disable --now -- \"${f##*/}\" ;;\n"
    "        esac\n"
    "        rm -f -- \"$f\"\n"
    "        printf 'removed %s\\n' \"$f\"\n"
    "    done\n"
    "    [ -n \"$root\" ] || systemctl daemon-reload\n"
    "    exit 0\n"
    "fi\n"
    "tell_left() {\n"
    "    left=$(left_over)\n"
    "    [ -z \"$left\" ] || printf \"%s\\n\" \"$left\" \\\n"
    "        \"The spec no longer names these, and they stay as they are: 'install.sh prune' \\\n"
    "stops and removes them.\"\n"
    "}\n"
    "install -d \"$root/etc/systemd/system\" \"$root/etc/stoker\" \"$root/etc/sysusers.d\" \\\n"
    "    \"$root/etc/tmpfiles.d\" \"$root/etc/systemd/system-preset\"\n"
    "install -m 644 -- *.service \"$root/etc/systemd/system/\"\n"
    "for f in etc/*.yaml; do\n"
    "    case $f in\n"
    "    etc/stoker.yaml) # tmpfiles gives it its group\n"
    "        install -m 600 -- \"$f\" \"$root/etc/stoker/\" ;;\n"
    "    *) install -m 644 -- \"$f\" \"$root/etc/stoker/\" ;;\n"
    "    esac\n"
    "done\n"
    "install -m 644 -- sysusers.d/stoker.conf \"$root/etc/sysusers.d/\"\n"
    "install -m 644 -- tmpfiles.d/stoker.conf \"$root/etc/tmpfiles.d/\"\n"
    "install -m 644 -- 50-stoker.preset \"$root/etc/systemd/system-preset/\"\n"
    "[ -z \"$root\" ] || { tell_left; exit 0; }\n"
    "systemd-sysusers\n"
    "systemd-tmpfiles --create /etc/tmpfiles.d/stoker.conf\n";

static const char TOKEN[] =
    "# a token of its own, once: one that is there stays\n"
    "token() {\n"
    "    [ ! -e \"$1\" ] || return 0\n"
    "    install -d \"$(dirname \"$1\")\"\n"
    "    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \\n' >\"$1.new\")\n"
    "    chgrp -- \"$2\" \"$1.new\"\n"
    "    chmod 640 -- \"$1.new\"\n"
    "    mv -- \"$1.new\" \"$1\"\n"
    "    printf 'made the token %s: who asks needs a copy\\n' \"$1\"\n"
    "}\n";

/* Root may be nobody on a file system of the network: what it cannot make is left to people. */
static const char SHARE[] =
    "# share FOLDER USER GROUP STORAGE: made once, on what is mounted there and not below it\n"
    "share() {\n"
    "    case $(findmnt -n -o TARGET -T \"$4\" || true) in\n"
    "    '' | /)\n"
    "        printf '%s is not mounted: mount it and run this again, which makes %s\\n' \"$4\" "
    "\"$1\" >&2\n"
    "        ;;\n"
    "    *)\n"
    "        if [ -d \"$1\" ] || install -d -m 755 -o \"$2\" -g \"$3\" -- \"$1\"; then return 0; "
    "fi\n"
    "        printf 'make %s yourself, for user %s\\n' \"$1\" \"$2\" >&2\n"
    "        ;;\n"
    "    esac\n"
    "    missing=1\n"
    "}\n";

static bool put_shares(struct render *r, const struct host_plan *p, struct buf *out)
{
    struct buf lines = { 0 };
    bool any;

    folders_collect(&(struct folders){ .r = r, .out = &lines, .shared = true }, p);
    any = lines.len > 0;
    if (any)
        buf_addf(out, "%smissing=\n%s", SHARE, buf_str(&lines));
    buf_release(&lines);
    return any;
}

static const char START[] = "systemctl daemon-reload\n"
                            "cd /etc/systemd/system\n"
                            "systemctl preset -- stoker-*.service\n"
                            "cd \"$here\"\n"
                            "tell_left\n";

static const char LAST[] =
    "[ ! -e models.sh ] || sh models.sh # last: all else holds where it fails\n"
    "echo 'Start what is enabled with: systemctl start multi-user.target'\n";

/* An agent or server that listens beyond loopback does not start without its token, and its unit
 * tries for ever: what the spec names is made where nobody has put one. */
static void install_script(struct render *r, const struct host_plan *p)
{
    const struct spec_agent *a = &r->spec->agent;
    const struct spec_serve *v = &r->spec->serve;
    const char *const tokens[] = { a->token_file, a->admin_token_file, v->token_file,
                                   v->admin_token_file };
    struct buf *out = render_script(r, "systemd/install.sh");
    bool told = false, shared;

    buf_adds(out, "#!/bin/sh\n");
    render_head(r, out, "#", "Puts the units, their user and folders in place; run it as root.");
    buf_adds(out, "# DESTDIR=DIR puts the files below DIR and starts nothing.\n"
                  "# install.sh prune stops and removes what the spec no longer names.\n");
    buf_adds(out, FILES);
    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
        if (!tokens[i])
            continue;
        if (!told)
            buf_adds(out, TOKEN);
        told = true;
        buf_adds(out, "token ");
        quote_sh(out, tokens[i]);
        buf_adds(out, " ");
        quote_sh(out, r->targets->systemd->group);
        buf_adds(out, "\n");
    }
    shared = put_shares(r, p, out);
    buf_adds(out, START);
    if (shared)
        buf_adds(out, "[ -z \"$missing\" ] || exit 1 # a folder of the network, see above\n");
    buf_adds(out, LAST);
}

/* The machines whose units open the model, as words of sh; NULL: it may be any. */
static const char *hosts_of(struct render *r, struct host_plan *p, const struct spec_model *m)
{
    struct buf b = { 0 };
    char host[HOST_NAME_MAX];
    bool all = !m->component;
    const char *out;

    for (size_t i = 0; i < p->count && !all; i++) {
        const struct host_run *run = &p->runs[i];

        if (!str_eq(run->c->name, m->component))
            continue;
        all = !systemd_host_name(r->spec, run, host, sizeof(host));
        if (all || (run->replica && run[-1].node == run->node && run[-1].machine == run->machine))
            continue;
        buf_addc(&b, ' ');
        quote_sh(&b, host);
    }
    out = all ? NULL : arena_strdup(&p->arena, buf_str(&b));
    buf_release(&b);
    return out;
}

/* Models of the machine's own server and of units. */
static void fetch_script(struct render *r, struct host_plan *p)
{
    const struct spec *s = r->spec;
    struct host_fetch *of = arena_array(&p->arena, struct host_fetch, s->model_count);
    size_t n = 0;

    for (size_t i = 0; i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];
        const struct host_run *run = host_run_find(p, m->component);

        if (host_models_own(s, p, m) || (run && host_is_server(run->c)))
            of[n++] = (struct host_fetch){ .model = m, .hosts = hosts_of(r, p, m) };
    }
    (void)host_fetch_script(r, "systemd/models.sh", p->models, of, n);
}

static void specs_write(struct render *r, const struct host_plan *p)
{
    struct buf *out = render_file(r, "systemd/etc/stoker.yaml");

    render_head(r, out, "#", "The whole spec, as agent and up read it.");
    host_spec_whole(r, p, out);
    if (r->spec->notify.webhook)
        render_keep_secret(r, out);
    host_serve_spec(r, p, NULL, render_file(r, "systemd/etc/serve.yaml"));
}

void render_systemd(struct render *r)
{
    struct host_plan p;

    if (!host_plan_make(r, on_host, &p))
        return;
    systemd_place(r, &p);
    p.models = arena_printf(&p.arena, "%s/models", r->targets->systemd->state_dir);
    fetch_script(r, &p);
    check_server_ports(r, &p);
    check_twins(r, &p);
    agent_write(r, &p);
    serve_write(r, &p);
    up_write(r, &p);
    for (size_t i = 0; i < p.count; i++)
        systemd_component(r, &p, &p.runs[i]);
    sysusers_write(r);
    tmpfiles_write(r, &p);
    preset_write(r, &p);
    specs_write(r, &p);
    install_script(r, &p);
    host_plan_release(&p);
}
