/* SPDX-License-Identifier: MIT */
/* systemd_component: the unit of one component. */
#include "base/str.h"
#include "plan/feasible.h"
#include "render/systemd/systemd_int.h"

#include <inttypes.h>

static const char *const RESTARTS[] = {
    [SPEC_RESTART_ALWAYS] = "always",
    [SPEC_RESTART_ON_FAILURE] = "on-failure",
    [SPEC_RESTART_NEVER] = "no",
};
enum { STOP_S = 90, GIVE_UP_S = 3600 };

void unit_name_of(const struct host_run *run, char *out, size_t cap)
{
    if (run->c->replicas == 1)
        (void)snprintf(out, cap, "stoker-component-%s.service", run->c->name);
    else
        (void)snprintf(out, cap, "stoker-component-%s@%" PRId64 ".service", run->c->name,
                       run->replica + 1);
}

/* Time to save before the end. */
static int64_t stop_s(const struct host_run *run)
{
    int64_t notice = run->c->training && run->node ? run->node->notice_ms / 1000 : 0;

    return notice > STOP_S ? notice : STOP_S;
}

/* Batch work and training are over at their time limit, with checkpoints too: nobody else waits for
 * the machine's turn.  systemd takes the end of RuntimeMaxSec= for a failure and starts them again,
 * without end, so that timeout(1) ends them, whose status says so. */
static bool ends_at_limit(const struct spec_component *c)
{
    bool works = c->kind == SPEC_COMPONENT_BATCH || c->kind == SPEC_COMPONENT_TRAINING;

    return works && c->time_limit_ms.known && c->restart == SPEC_RESTART_ON_FAILURE;
}

/* ---- the machine ---- */

static int64_t site_machines(const struct spec *s)
{
    int64_t count = 0;

    for (size_t i = 0; i < s->node_count; i++)
        count += s->nodes[i].count;
    return count;
}

/* Has a machine of the group a name?  That of a single one is its own matter. */
static bool group_has_names(const struct spec_node *n)
{
    return n->hosts || n->count > 1;
}

/* May any machine do?  GPUs, its own or those of its pools, are on one that is known. */
static bool is_free(const struct host_run *run)
{
    return !run->c->gpus && !run->c->pools.count;
}

static bool names_nodes(const struct spec_component *c)
{
    return c->nodes || c->groups.count;
}

/* The first of the groups it may be on whose machines have names; those it depends on come first,
 * if they are on one of the groups that it names. */
static void run_place(struct render *r, const struct host_plan *p, const struct spec_node **open,
                      struct host_run *run)
{
    size_t count = feasible_groups(r->spec, run->c, open);

    for (size_t i = 0; is_free(run) && i < run->c->depends_on.count; i++) {
        const struct host_run *on = host_run_find(p, run->c->depends_on.items[i]);

        if (on && on->node && group_has_names(on->node) &&
            (!names_nodes(run->c) || spec_component_on(r->spec, run->c, on->node))) {
            run->node = on->node;
            run->machine = on->machine;
            return;
        }
    }
    for (size_t i = 0; i < count && !run->node; i++)
        run->node = group_has_names(open[i]) ? open[i] : NULL;
    if (!run->node)
        run->node = count ? open[0] : &r->spec->nodes[0];
}

static void place_tell(struct render *r, const struct host_run *run)
{
    char host[HOST_NAME_MAX];

    if (run->replica || names_nodes(run->c) || !is_free(run) || !group_has_names(run->node) ||
        !spec_host(run->node, run->machine, host, sizeof(host)))
        return;
    render_warn(r, run->c,
                "Name its 'nodes': of that group it gets the machine of what it depends on, "
                "else the first.",
                "component '%s' names no machine of several: it starts on '%s' only", run->c->name,
                host);
}

struct unplaced { /* runs without a machine, those that others wait for on top of the stack */
    bool *left;   /* by run: not yet on the stack */
    size_t *stack, *next, depth; /* `next`: which name of its depends_on comes next */
};

static void unplaced_push(struct unplaced *u, size_t i)
{
    u->left[i] = false;
    u->next[u->depth] = 0;
    u->stack[u->depth++] = i;
}

/* Puts one that the top waits for upon it; false: there is none without a machine. */
static bool unplaced_deeper(struct unplaced *u, const struct host_plan *p)
{
    const struct spec_strs *names = &p->runs[u->stack[u->depth - 1]].c->depends_on;
    size_t *next = &u->next[u->depth - 1];

    while (*next < names->count) {
        const struct host_run *on = host_run_find(p, names->items[(*next)++]);

        if (on && u->left[on - p->runs]) {
            unplaced_push(u, (size_t)(on - p->runs));
            return true;
        }
    }
    return false;
}

/* What has no GPUs is placed behind what it depends on, in any order of the spec, with a stack
 * instead of calls, for chains may be long.  Replicas stay together. */
void systemd_place(struct render *r, struct host_plan *p)
{
    const struct spec_node **open =
        arena_array(&p->arena, const struct spec_node *, r->spec->node_count + 1);
    struct unplaced u = { .left = arena_array(&p->arena, bool, p->count + 1),
                          .stack = arena_array(&p->arena, size_t, p->count + 1),
                          .next = arena_array(&p->arena, size_t, p->count + 1) };

    if (site_machines(r->spec) < 2)
        return;
    for (size_t i = 0; i < p->count; i++)
        u.left[i] = !p->runs[i].replica && (is_free(&p->runs[i]) || !p->runs[i].node);
    for (size_t i = 0; i < p->count; i++) {
        if (u.left[i])
            unplaced_push(&u, i);
        while (u.depth) {
            size_t top = u.stack[u.depth - 1];
            struct host_run *run = &p->runs[top];

            if (unplaced_deeper(&u, p))
                continue;
            u.depth--;
            run->node = is_free(run) ? NULL : run->node;
            run_place(r, p, open, run);
            for (size_t k = top + 1; k < p->count && p->runs[k].c == run->c; k++) {
                p->runs[k].node = run->node;
                p->runs[k].machine = run->machine;
            }
        }
    }
    for (size_t i = 0; i < p->count; i++)
        place_tell(r, &p->runs[i]);
}

/* Is the part before the domain only this machine's name? */
static bool short_is_own(const struct spec *s, const char *host, size_t len)
{
    size_t same = 0;

    for (size_t i = 0; i < s->node_count; i++) {
        struct spec_walk w;

        for (spec_walk(&w, &s->nodes[i]); spec_walk_next(&w);)
            same += strcspn(w.name, ".") == len && !strncmp(w.name, host, len);
    }
    return same == 1;
}

bool systemd_host_name(const struct spec *s, const struct host_run *run, char *out, size_t cap)
{
    size_t len;

    if (!run->node || site_machines(s) < 2 || !group_has_names(run->node) ||
        !spec_host(run->node, run->machine, out, cap))
        return false;
    len = strcspn(out, ".");
    if (short_is_own(s, out, len))
        out[len] = '\0';
    return true;
}

/* gethostname(2) may or may not have the domain behind the name, whatever the spec has. */
static void host_conditions(struct systemd_unit *u, const struct host_run *run, const char *host)
{
    const struct spec_node *n = run->node;
    const void *member = n->hosts ? (const void *)&n->hosts : &n->count;
    size_t len = strcspn(host, ".");

    unit_line(u, member, "# one of several machines\nConditionHost=|%s", host);
    if (!host[len])
        buf_addf(u->out, "ConditionHost=|%s.*\n", host);
    else if (short_is_own(u->r->spec, host, len))
        buf_addf(u->out, "ConditionHost=|%.*s\n", (int)len, host);
    else if (!run->replica)
        render_warn(u->r, member,
                    "Set the name with its domain there: hostnamectl set-hostname NAME.",
                    "several machines are '%.*s' without their domain: the unit of '%s' starts "
                    "only where the machine calls itself '%s'",
                    (int)len, host, run->c->name, host);
}

/* install.sh puts every unit on every machine it is run on, as it does the agent's: the unit itself
 * knows where its GPUs are. */
static void on_host(struct systemd_unit *u, const struct host_run *run)
{
    char host[HOST_NAME_MAX];

    if (!run->node || site_machines(u->r->spec) < 2)
        return;
    if (!group_has_names(run->node)) {
        if (!run->replica)
            render_warn(u->r, &run->node->name, "Name it with 'hosts'.",
                        "the machine of '%s' has no name: the unit of '%s' starts on every machine "
                        "that it is installed on",
                        run->node->name, run->c->name);
        return;
    }
    if (spec_host(run->node, run->machine, host, sizeof(host)))
        host_conditions(u, run, host);
}

static bool is_elsewhere(const struct host_run *a, const struct host_run *b)
{
    return a->node && b->node && (a->node != b->node || a->machine != b->machine);
}

/* ---- [Unit] ---- */

static void put_wants(struct systemd_unit *u, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    for (size_t i = 0; i < c->depends_on.count; i++) {
        bool here = false;

        for (size_t k = 0; k < u->plan->count; k++) {
            const struct host_run *on = &u->plan->runs[k];
            char name[2 * HOST_NAME_MAX];

            if (!str_eq(on->c->name, c->depends_on.items[i]) || is_elsewhere(run, on))
                continue;
            here = true;
            unit_name_of(on, name, sizeof(name));
            unit_line(u, &c->depends_on, "Wants=%s\nAfter=%s", name, name);
        }
        if (here)
            continue;
        if (run->replica == 0)
            render_warn(u->r, &c->depends_on.items[i],
                        "Let the program wait for it, or start the unit later.",
                        "'%s' does not wait for '%s', which is not a systemd unit%s", c->name,
                        c->depends_on.items[i],
                        host_run_find(u->plan, c->depends_on.items[i]) ? " of its machine" : "");
        unit_line(u, &c->depends_on, "# %s runs elsewhere; systemd cannot wait for it",
                  c->depends_on.items[i]);
    }
}

static void put_head(struct systemd_unit *u, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    const struct spec_training *t = c->training;

    unit_section(u, "Unit");
    if (c->description)
        unit_text(u, "Description", c->description, &c->description);
    else
        unit_line(u, c, "Description=%s", run->name);
    buf_adds(u->out, "After=network-online.target remote-fs.target nvidia-persistenced.service "
                     "nvidia-fabricmanager.service\nWants=network-online.target\n");
    put_wants(u, run);
    unit_needs_component(u, run);
    if (host_is_server(c))
        buf_addf(u->out, "Conflicts=%sstoker-up.service\n",
                 host_models_loose(u->r->spec) ? "" : "stoker-serve.service ");
    on_host(u, run);
    if (c->restart == SPEC_RESTART_ALWAYS)
        buf_adds(u->out, "StartLimitIntervalSec=0\n");
    else if (t)
        unit_line(u, &t->rendezvous.max_restarts,
                  "StartLimitIntervalSec=%d\nStartLimitBurst=%" PRId64, GIVE_UP_S,
                  t->rendezvous.max_restarts + 1);
}

/* ---- [Service] ---- */

/* The program is found by env, so that one that is missing fails the start and not the load. */
static void put_exec(struct systemd_unit *u, const struct host_run *run, struct arena *a)
{
    const struct spec_component *c = run->c;
    struct host_serve how = { .spec = arena_printf(a, UNIT_ETC "/component-%s.yaml", c->name) };
    struct host_words w = host_command(a, run, &how);

    if (!c->command.count && !host_is_server(c)) {
        render_refuse(u->r, c, "Add a command, or use target compose for what its image starts.",
                      "component '%s' has no command for systemd to run", c->name);
        return;
    }
    if (c->image && !host_is_server(c)) {
        render_refuse(
            u->r, &c->image, "Remove the image to run what the machine has, or use target compose.",
            "a unit of systemd runs no image: the command of '%s' would run on the host", c->name);
        return;
    }
    if (strchr(w.items[0], '=')) {
        render_refuse(u->r, &c->command, "Rename the program, or call it from a script.",
                      "systemd cannot start a program with '=' in its name");
        return;
    }
    if (host_is_server(c))
        unit_line(u, &c->kind, "# serving: a model server of its own");
    else
        unit_line(u, &c->command, "# the command%s",
                  w.count > c->command.count + c->args.count ? " below its launcher" : "");
    buf_adds(u->out, host_is_server(c) ? "ExecStart=" : "ExecStart=/usr/bin/env ");
    /* --foreground: without it the KILL of -k is timeout's own end, and looks like a crash */
    if (ends_at_limit(c))
        buf_addf(u->out, "timeout --foreground -k %" PRId64 " %" PRId64 ".%03" PRId64 " ",
                 stop_s(run), c->time_limit_ms.v / 1000, c->time_limit_ms.v % 1000);
    for (size_t i = 0; i < w.count; i++) {
        if (i)
            buf_addc(u->out, ' ');
        unit_exec_word(u->out, w.items[i]);
    }
    buf_addc(u->out, '\n');
    if (host_is_server(c))
        buf_adds(u->out, "ExecReload=/bin/kill -HUP $MAINPID\n");
}

static void put_environment(struct systemd_unit *u, const struct host_run *run, struct arena *a)
{
    struct host_envs e = { 0 };
    struct buf list = { 0 };

    if (run->gpus) {
        host_gpu_list(&list, run->gpus);
        host_env_set(a, &e, (struct host_env){ .key = "CUDA_DEVICE_ORDER", .value = "PCI_BUS_ID" });
        host_env_set(a, &e,
                     (struct host_env){ .key = "CUDA_VISIBLE_DEVICES",
                                        .value = arena_strdup(a, buf_str(&list)),
                                        .member = &run->c->gpus });
    }
    host_env_make(a, u->r, run, &e);
    for (size_t i = 0; i < e.count; i++) {
        buf_reset(&list);
        unit_list_word(&list, arena_printf(a, "%s=%s", e.items[i].key, e.items[i].value));
        unit_line(u, e.items[i].member, "Environment=%s", buf_str(&list));
    }
    buf_addf(u->out, "EnvironmentFile=-/etc/default/stoker-component-%s\n", run->c->name);
    buf_release(&list);
}

static void path_line(struct systemd_unit *u, const char *key, const char *path, bool needed,
                      const void *member)
{
    struct buf b = { 0 }, word = { 0 };

    if (!needed)
        buf_addc(&b, '-'); /* one that is missing is no fault of the unit */
    buf_adds(&b, path);
    unit_list_word(&word, buf_str(&b));
    unit_line(u, member, "%s=%s", key, buf_str(&word));
    buf_release(&word);
    buf_release(&b);
}

/* A storage at another place than the machine's is bound there. */
static void put_mount(struct systemd_unit *u, const struct spec_mount *m, struct arena *a)
{
    const struct spec_storage *s = spec_storage_find(u->r->spec, m->storage);
    bool ro = m->read_only || s->read_only, needed = spec_storage_is_shared_fs(s->kind);
    const char *from =
        s->path && m->subpath ? arena_printf(a, "%s/%s", s->path, m->subpath) : s->path;

    if (s->kind == SPEC_STORAGE_MEMORY || s->kind == SPEC_STORAGE_OBJECT)
        return;
    if (!from || str_eq(from, m->path)) {
        path_line(u, ro ? "ReadOnlyPaths" : "ReadWritePaths", m->path, needed, &m->path);
        return;
    }
    if (strchr(from, ':') || strchr(m->path, ':')) {
        render_refuse(u->r, &m->path, "Mount it where the machine has it.",
                      "systemd cannot bind a path with ':' in it");
        return;
    }
    path_line(u, ro ? "BindReadOnlyPaths" : "BindPaths", arena_printf(a, "%s:%s", from, m->path),
              needed, &m->path);
}

static void put_paths(struct systemd_unit *u, const struct host_run *run, struct arena *a)
{
    const struct spec_component *c = run->c;

    if (c->workdir) {
        unit_text(u, "WorkingDirectory", c->workdir, &c->workdir);
        path_line(u, "ReadWritePaths", c->workdir, false, &c->workdir);
    }
    for (size_t i = 0; i < c->mount_count; i++)
        put_mount(u, &c->mounts[i], a);
    if (host_is_server(c))
        unit_batch_dir(u, run);
    if (c->training && c->training->checkpoint.path)
        path_line(u, "ReadWritePaths", c->training->checkpoint.path, false,
                  &c->training->checkpoint.path);
}

static void put_limits(struct systemd_unit *u, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    struct maybe cpus = host_cpus(run), memory = host_memory(run);

    if (cpus.known)
        unit_line(u, &c->cpus, "# %" PRId64 " hardware threads%s\nCPUQuota=%" PRId64 "%%", cpus.v,
                  c->cpus.known ? "" : ", in proportion to its GPUs", cpus.v * 100);
    if (memory.known)
        unit_line(u, &c->memory_bytes, "%sMemoryMax=%" PRId64,
                  c->memory_bytes.known ? "" : "# in proportion to its GPUs\n", memory.v);
    buf_adds(u->out,
             "TasksMax=65536\nLimitMEMLOCK=infinity\nLimitSTACK=64M\nLimitNOFILE=1048576\n");
    if (c->time_limit_ms.known && !ends_at_limit(c))
        unit_line(u, &c->time_limit_ms, "RuntimeMaxSec=%" PRId64 "ms", c->time_limit_ms.v);
}

static void put_restart(struct systemd_unit *u, const struct host_run *run)
{
    const struct spec_component *c = run->c;

    unit_line(u, &c->restart, "Restart=%s\nRestartSec=5", RESTARTS[c->restart]);
    if (ends_at_limit(c))
        unit_line(u, &c->time_limit_ms,
                  "# not after its time limit\nRestartPreventExitStatus=124 137");
    if (host_is_server(c))
        unit_watchdog(u);
    buf_addf(u->out, "# time to save before the end\nTimeoutStopSec=%" PRId64 "\nKillMode=mixed\n",
             stop_s(run));
}

void systemd_component(struct render *r, const struct host_plan *p, const struct host_run *run)
{
    const struct spec_component *c = run->c;
    char name[2 * HOST_NAME_MAX];
    struct systemd_unit u = { .r = r, .plan = p };
    struct arena a = { 0 };

    unit_name_of(run, name, sizeof(name));
    u.out = render_file(r, "systemd/%s", name);
    render_head(r, u.out, "#", "A component of the site.");
    buf_addf(u.out, "# %s: component %s%s%s\n", render_from(r, c), c->name,
             run->node ? ", on machines of group " : "", run->node ? run->node->name : "");
    if (run->shared)
        buf_adds(u.out, "# Its GPUs are others' too: it has a pool of their memory.\n");
    if (c->health)
        buf_addf(u.out, "# health (%s): systemd asks nobody; the agent's alerts do.\n",
                 render_from(r, c->health));
    put_head(&u, run);
    unit_section(&u, "Service");
    buf_addf(u.out, "Type=%s\n", host_is_server(c) ? "notify\nNotifyAccess=main" : "exec");
    unit_user(&u, c);
    put_environment(&u, run, &a);
    put_exec(&u, run, &a);
    put_restart(&u, run);
    unit_dirs(&u, c->name);
    put_paths(&u, run, &a);
    put_limits(&u, run);
    unit_harden(&u, host_is_server(c) ? UNIT_HARD_ENGINE : UNIT_HARD_COMPONENT,
                render_uses_rdma(r, &c->fabrics));
    for (size_t i = 0; i < c->port_count; i++)
        unit_low_port(&u, &c->ports[i].port);
    unit_section(&u, "Install");
    buf_adds(u.out, "WantedBy=multi-user.target\n");
    if (host_is_server(c) && run->replica == 0)
        host_serve_spec(r, p, run, render_file(r, "systemd/etc/component-%s.yaml", c->name));
    arena_release(&a);
}
