/* SPDX-License-Identifier: MIT */
/* follow: no wish of a spec is dropped in silence.
 *
 * A spec that sets every key is rendered once; then each value is changed by itself, in memory, and
 * it is rendered again.  Something must come of it: other files, a refusal, or a warning at the
 * value.  A key of which none is true must be in the table of render/follow.c with the reason why
 * nothing is lost, or it fails here: a new key is then followed, warned about or explained.  A
 * reason that no key needs any more fails too. */
#include "base/arena.h"
#include "base/str.h"
#include "render/follow_int.h"
#include "render/render.h"
#include "spec/schema/schema_int.h"
#include "test.h"

#include <stdlib.h>

static const char SITE[] =
    "site: {name: s}\n"
    "nodes:\n"
    "  - {name: gpu, count: 2, gpus_per_node: 8, gpu: {model: H100, memory: 80GB}, cpu_cores: 64,\n"
    "     memory: 1TB, fabrics: [rails, mgmt]}\n"
    "  - {name: other, gpus_per_node: 8, gpu: {model: H100, memory: 80GB}, cpu_cores: 32,\n"
    "     memory: 2TB}\n"
    "fabrics: [{name: rails, kind: roce, rate: 400Gb/s},\n"
    "          {name: mgmt, kind: ethernet, rate: 10Gb/s}]\n"
    "storage: [{name: data, kind: local, path: /srv/data, size: 1TB},\n"
    "          {name: d2, kind: local, path: /d2, size: 1TB}]\n"
    "pools: {p: {size: 10GB, nodes: gpu}}\n"
    "shapes: {m: {params: 7B}, n: {params: 8B}}\n"
    "components:\n"
    "  dep:\n"
    "    target: TARGET\n"
    "    IMAGE\n"
    "    command: [dep]\n"
    "    BATCH\n"
    "    nodes: gpu\n"
    "  c:\n"
    "    description: words\n"
    "    kind: KIND\n"
    "    target: TARGET\n"
    "    nodes: gpu\n"
    "    gpus: 2\n"
    "    nodes_per_replica: 1\n"
    "    replicas: 1\n"
    "    queued: false\n"
    "    IMAGE\n"
    "    COMMAND\n"
    "FIRST    JOB\n"
    "OTHER    build: {base: b, packages: [p], pip: [q], copy: [r]}\n"
    "    workdir: /w\n"
    "    user: '1000'\n"
    "    env: {A: b}\n"
    "    depends_on: [dep]\n"
    "    cpus: 4\n"
    "    memory: 8GiB\n"
    "    shm: 1GiB\n"
    "    egress: ['10.9.0.0/16:5432', '10.8.0.0/16']\n"
    "    pools: [p]\n"
    "FIRST    fabrics: [rails]\n"
    "    mounts: [{storage: data, path: /data, subpath: a, read_only: false}]\n"
    "    ports: [{name: http, port: 8080, protocol: tcp}]\n"
    "FIRST    health: {path: /ok, port: 8080, interval: 10s, timeout: 5s, start: 1m, retries: 3}\n"
    "OTHER    health: {command: [probe, it]}\n"
    "    restart: always\n"
    "    priority: medium\n"
    "    time_limit: 1h\n"
    "    training:\n"
    "      shape: m\n"
    "FIRST      framework: other\n"
    "OTHER      framework: torchrun\n"
    "      precision: bf16\n"
    "      global_batch: 32\n"
    "      batch_per_gpu: 4\n"
    "      seq_len: 128\n"
    "      tokens: 1B\n"
    "      steps: 10\n"
    "      epochs: 1\n"
    "      learning_rate: 1e-4\n"
    "      optimizer: adamw\n"
    "      recompute: none\n"
    "      sync_batch_norm: false\n"
    "      allocator: expandable_segments:True\n"
    "      parallel: {tensor: 1, pipeline: 1, data: 2, context: 1, expert: 1, zero: 1,\n"
    "                 sequence: true}\n"
    "      loader: {workers_per_gpu: 2, prefetch: 2, pin_memory: true, drop_last: true,\n"
    "               persistent_workers: true}\n"
    "      checkpoint: {path: /data/ckpt, every_steps: 5, every: 5m, keep: 3, on_notice: true,\n"
    "                   async: false}\n"
    "      rendezvous: {port: 29500, timeout: 10m, max_restarts: 3}\n"
    "FIRST    scale: {min: 1, max: 2, step: 1, metric: gpu_utilization, target: 80%, up_after: 1m, "
    "down_after: 10m, cooldown: 5m, verify: 5m, rollback: true, predict: false, max_cost: $9/h}\n"
    "OTHER    scale: {min: 0, max: 2, zero_after: 10m}\n"
    "agent: {enabled: false}\n"
    "targets: {TARGET: {SETTINGS}}\n";

/* What differs between targets. */
static const struct {
    const char *target, *settings;
} tokens[] = {
    { "slurm", "controller: c, qos: {q: {}, n: {}}, accounts: {a: {users: [u]}, n: {users: [u]}}, "
               "partitions: [{name: p}, {name: n}]" },
    { "kubernetes", "stoker_image: x.org/s:1" },
    { "openshift", "stoker_image: x.org/s:1" },
    { "compose", "mps: true" },
};
/* `pool`: the model's, which is of the group that its component runs in */
#define MODELS(pool)                                                                               \
    "models: {m: {source: org/m, revision: abc, kind: embedding, component: emb, device: gpu, "    \
    "dtype: f16, gpus: '0', fallback: none, fallback_at_start: false, load: at_start, " pool       \
    "batch: 8, "                                                                                   \
    "batch_tokens: 512, max_tokens: 128, memory: 1GB, normalize: true, pooling: mean, "            \
    "priority: medium, aliases: [a], prompts: {q: x}}}"
#define SRIOV                                                                                      \
    "sriov: {resource_prefix: x.io, vendor: '15b3', device: '1021', pfs: [p0, p1], vfs: 2, "       \
    "ipam: whereabouts, network_namespace: nn, node_selector: {a: b}}"
static const char *const kinds[] = { "service", "training", "serving", "batch" };

struct result {
    enum rc rc;
    struct render_set set;
    struct spec_diags diags;
};

static void result_make(struct spec *s, const char *target, struct result *out)
{
    const struct render_target *t = render_target_find(target);
    struct err err = { 0 };

    *out = (struct result){ 0 };
    out->rc = render_run(&(struct render_input){ .spec = s, .targets = &t, .target_count = 1 },
                         &out->set, &out->diags, &err);
}

static void result_release(struct result *r)
{
    render_set_release(&r->set);
    spec_diags_release(&r->diags);
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

/* The next line that does something.  Not: comments, and copies of the spec, which hold every key:
 * that is handing on, not following. */
static const char *line_next(const char *p, size_t *len, bool copies)
{
    for (; p && *p; p += *len + (p[*len] == '\n')) {
        const char *at = p + indent_of(p);
        size_t depth = indent_of(p);

        *len = strcspn(p, "\n");
        if (*at == '#' && !str_starts(at, "#SBATCH"))
            continue;
        if (copies || !str_starts(at, "stoker.yaml: |"))
            return p;
        for (p += *len + 1; *p == '\n' || indent_of(p) > depth; p += strcspn(p, "\n") + 1)
            ;
        *len = 0;
        if (*p)
            --p; /* at a line's end */
    }
    return NULL;
}

static bool text_same(const char *a, const char *b, bool copies)
{
    size_t la = 0, lb = 0;

    a = line_next(a, &la, copies);
    b = line_next(b, &lb, copies);
    while (a && b) {
        if (la != lb || memcmp(a, b, la))
            return false;
        a = line_next(a + la + (a[la] == '\n'), &la, copies);
        b = line_next(b + lb + (b[lb] == '\n'), &lb, copies);
    }
    return !a && !b;
}

static bool is_copy(const char *path)
{
    return (str_starts(path, "compose/") || str_starts(path, "systemd/")) &&
           str_ends(path, ".yaml") && !str_ends(path, "/compose.yaml");
}

static bool result_same(const struct result *a, const struct result *b, bool copies)
{
    if (a->rc != b->rc || a->set.count != b->set.count ||
        a->diags.warning_count != b->diags.warning_count)
        return false;
    for (size_t i = 0; i < a->set.count; i++)
        if ((copies || !is_copy(a->set.files[i]->path)) &&
            !text_same(buf_str(&a->set.files[i]->text), buf_str(&b->set.files[i]->text), copies))
            return false;
    return true;
}

/* The n-th other value of the same kind, in place; false: there is none. */
static bool value_change(const struct spec_row *r, char *obj, size_t n, struct arena *a)
{
    static const char *const others[] = { "other" };
    void *at = obj + r->off;
    struct spec_strs *list = at;
    struct maybe *m = at;

    if (r->store == STORE_ENUM) {
        *(unsigned *)at = (unsigned)n;
        return r->choices[n] != NULL;
    }
    if (n)
        return false;
    if (r->kind == SPEC_GROUPS) {
        *list = (struct spec_strs){ .items = others, .count = 1 };
        *(const char **)(void *)(obj + r->first_off) = "other";
        return true;
    }
    switch (r->store) {
    case STORE_STR:
        *(const char **)at = str_eq(r->refers, "storage") ? "d2"
                             : str_eq(r->refers, "nodes") ? "other"
                             : r->refers                  ? "n"
                                                          : arena_printf(a, "%s1", *(char **)at);
        break;
    case STORE_I64:
        *(int64_t *)at += r->kind == SPEC_DURATION ? 60 * 1000
                          : r->kind == SPEC_BYTES  ? 1 << 30
                                                   : 1;
        break;
    case STORE_BOOL:
        *(bool *)at = !*(bool *)at;
        break;
    case STORE_F64:
        *(double *)at += 1;
        break;
    case STORE_MAYBE:
        m->v = m->v > 4096 ? m->v + 4096 * 1024 : m->v + 1;
        break;
    case STORE_NUM:
        ((struct spec_num *)at)->v *= 2;
        break;
    case STORE_MONEY:
        ((struct spec_money *)at)->micro += 1000000;
        break;
    case STORE_QUANTITY:
        ((struct spec_quantity *)at)->v += 1;
        ((struct spec_quantity *)at)->text = "81%";
        break;
    default: /* lists and maps: one fewer */
        if (!list->count)
            return false;
        list->count--;
    }
    return true;
}

enum { KEYS_MAX = 128 };
struct walk {
    struct spec *s;
    const char *target;
    unsigned kind;
    bool site, copies;
    struct result base;
    char silent[KEYS_MAX][128]; /* keys of which nothing comes */
    size_t silent_count, keys;
};

/* Is there a warning at the value, or one that names the section it is in? */
static bool is_told(const struct walk *w, const void *at, const char *key)
{
    struct spec_pos p = spec_where(w->s, at);
    const char *wish = w->site ? NULL : render_follow_wish(w->target, w->kind, key);
    char quoted[72];

    (void)snprintf(quoted, sizeof(quoted), "'%s'", wish ? wish : "");
    for (size_t i = 0; i < w->base.diags.warning_count; i++) {
        const struct spec_diag *d = &w->base.diags.warnings[i];

        if ((p.line && d->line == p.line && d->col == p.col) || (wish && strstr(d->msg, quoted)))
            return true;
    }
    return false;
}

static bool has_effect(struct walk *w, const struct spec_row *r, char *obj, size_t size)
{
    char keep[1024];
    struct arena a = { 0 };
    bool same = true;

    CHECK(size <= sizeof(keep)); /* an object is kept whole, and no more than it */
    memcpy(keep, obj, size);
    for (size_t n = 0; same && value_change(r, obj, n, &a); n++) {
        struct result now;

        result_make(w->s, w->target, &now);
        same = result_same(&w->base, &now, w->copies);
        result_release(&now);
        memcpy(obj, keep, size);
    }
    memcpy(obj, keep, size);
    arena_release(&a);
    return !same;
}

/* Excuses that a walk came by, and those without which a key were dropped in silence. */
enum { EXCUSES_MAX = 256 };
static bool excuse_met[EXCUSES_MAX], excuse_needed[EXCUSES_MAX];

static size_t excuse_of(const struct walk *w, const char *key)
{
    size_t i = w->site ? render_follow_site_excuse(w->target, key)
                       : render_follow_excuse(w->target, w->kind, key);

    CHECK(i < EXCUSES_MAX || i == SIZE_MAX);
    return i;
}

static void check_row(struct walk *w, const struct spec_row *r, char *obj, size_t size,
                      const char *key)
{
    size_t excuse;

    w->keys++;
    if (w->site && r->required && str_eq(r->key, "name"))
        return; /* others refer to it */
    excuse = excuse_of(w, key);
    if (excuse != SIZE_MAX && excuse_needed[excuse])
        return;
    if (excuse != SIZE_MAX)
        excuse_met[excuse] = true;
    if (is_told(w, obj + r->off, key) || has_effect(w, r, obj, size))
        return;
    if (excuse != SIZE_MAX) {
        excuse_needed[excuse] = true;
        return;
    }
    CHECK(w->silent_count < KEYS_MAX);
    (void)snprintf(w->silent[w->silent_count++], sizeof(w->silent[0]), "%s", key);
}

static void walk_table(struct walk *w, const struct spec_table *t, char *obj, const char *prefix)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct spec_row *r = &t->rows[i];
        char key[128], *at = obj + r->off;

        (void)snprintf(key, sizeof(key), "%s%s%s", prefix, *prefix ? "." : "", r->key);
        if (!spec_kind_is_tree(r->kind))
            check_row(w, r, obj, t->size, key);
        else if (r->kind == SPEC_SECTION)
            walk_table(w, r->sub, at, key);
        else if (*(char **)at)
            walk_table(w, r->sub, *(char **)at, key); /* of many, the first */
    }
}

/* What a word of the site stands for; NULL: it is no such word. */
static const char *token_text(const char *p, const char *target, const char *kind, size_t *len)
{
    bool pods = str_eq(target, "kubernetes") || str_eq(target, "openshift");
    bool slurm = str_eq(target, "slurm"), serving = str_eq(kind, "serving");
    bool runs = !strstr("prometheus doc nccl", target);
    const char *settings = "";

    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++)
        if (str_eq(tokens[i].target, target))
            settings = tokens[i].settings;
    const struct {
        const char *word, *text;
    } rows[] = {
        { "TARGET", target },
        { "RUNNER", runs ? target : "compose" },
        { "KIND", kind },
        { "SETTINGS", settings },
        { "IMAGE", str_eq(target, "systemd") ? "" : "image: x.org/c:1" }, /* systemd refuses one */
        { "COMMAND", serving ? "args: [-v]" : "command: [run, it]\n    args: [-v]" },
        { "JOB", slurm ? "partition: p\n    qos: q\n    account: a" : "" },
        { "WORK", slurm ? "kind: training, command: [x], queued: true," : "kind: serving," },
        { "BOX", str_eq(target, "systemd") ? "" : "image: x.org/c:1," },
        { "SPAN", pods || slurm ? "nodes_per_replica: 2," : "" },
        { "STORE", pods ? "volume" : "nfs" },
        { "SHARED", pods ? "other" : "gpu" }, /* pods share all GPUs of a machine or none */
        { "WAITS", slurm ? ", queued: true" : "" },
        { "MODELS", slurm  ? ""
                    : pods ? MODELS("")
                           : MODELS("pool: p, ") },
        { "SRIOV", pods ? SRIOV : "" },
        { "BATCH", slurm ? "kind: batch\n    queued: true" : "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_starts(p, rows[i].word)) {
            *len = strlen(rows[i].word);
            return rows[i].text;
        }
    return NULL;
}

/* The site with the lines of one variant. */
static void site_text(const char *site, const char *target, const char *kind, const char *variant,
                      struct buf *out)
{
    for (const char *p = site; *p;) {
        bool marked = str_starts(p, "FIRST") || str_starts(p, "OTHER");
        size_t len = 0;
        const char *text = token_text(p, target, kind, &len);

        if (marked && !str_starts(p, variant)) {
            p += strcspn(p, "\n") + 1;
        } else if (marked) {
            p += 5;
        } else if (text) {
            buf_adds(out, text);
            p += len;
        } else {
            buf_addc(out, *p++);
        }
    }
}

static void walk_variant(struct walk *w, const char *target, const char *kind, const char *variant)
{
    struct buf text = { 0 };
    struct err err = { 0 };

    *w = (struct walk){ .target = target };
    site_text(SITE, target, kind, variant, &text);
    if (spec_parse(buf_str(&text), text.len, "t.yaml", &w->s, NULL, &err))
        fail_msg("%s, %s: %s", target, kind, err.msg);
    result_make(w->s, target, &w->base);
    if (w->base.rc)
        fail_msg("%s, %s: %s", target, kind, w->base.diags.items[0].msg);
    w->kind = w->s->components[1].kind;
    walk_table(w, spec_row_find(&spec_schema, "components")->sub, (char *)&w->s->components[1], "");
    CHECK(w->keys > 60);
    result_release(&w->base);
    spec_free(w->s);
    buf_release(&text);
}

/* Something must come of a key in one of the variants. */
static size_t follows_kind(const char *target, const char *kind)
{
    static struct walk first, other;
    size_t silent = 0;

    walk_variant(&first, target, kind, "FIRST");
    walk_variant(&other, target, kind, "OTHER");
    for (size_t i = 0; i < first.silent_count; i++)
        for (size_t k = 0; k < other.silent_count; k++)
            if (str_eq(first.silent[i], other.silent[k])) {
                (void)fprintf(stderr, "%s drops '%s' of a component of kind %s in silence\n",
                              target, first.silent[i], kind);
                silent++;
            }
    return silent;
}

static void follows(const char *target)
{
    size_t silent = 0;

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (!str_eq(target, "slurm") || i % 2) /* it refuses what is neither training nor batch */
            silent += follows_kind(target, kinds[i]);
    CHECK(silent == 0);
}

/* --- a target's own section: nobody else reads it --- */
static const char SECTIONS[] =
    "site: {name: s}\n"
    "nodes:\n"
    "  - {name: gpu, count: 2, gpus_per_node: 8, gpu: {model: H100, memory: 80GB}, cpu_cores: 64,\n"
    "     memory: 1TB}\n"
    "  - {name: disks, role: storage, count: 2}\n"
    "  - {name: other, role: storage}\n"
    "storage: [{name: data, kind: lustre, path: /data, size: 1TB}]\n"
    "agent: {listen: 0.0.0.0, token_file: /t}\n"
    "components:\n"
    "  c: {target: compose, image: x.org/c:1, command: [c], gpus: 1}\n"
    "  d: {target: systemd, command: [/usr/bin/d], gpus: 1}\n"
    "targets:\n"
    "  compose: {project: x, mps: true, mps_dir: /m}\n"
    "  systemd: {user: u, group: g, state_dir: /s, log_dir: /l, harden: true, watchdog: 30s}\n"
    "  prometheus: {url: 'http://p:9090', scrape_interval: 15s, evaluation_interval: 15s,\n"
    "               retention: 30d, alertmanagers: ['a:9093']}\n"
    "  grafana: {folder: f, datasource: d}\n"
    "  lustre: {fsname: scratch, mgs: 10.0.0.2@o2ib, mdts: 2, osts: 8,\n"
    "           networks: ['o2ib(ib0)']}\n";

TEST(sections_of_targets)
{
    static const char *const names[] = { "compose", "systemd", "prometheus", "grafana", "lustre" };
    size_t silent = 0;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct spec_row *r = spec_row_find(&spec_target_table, names[i]);
        static struct walk w;
        struct err err = { 0 };

        w = (struct walk){ .target = names[i] };
        if (spec_parse(SECTIONS, sizeof(SECTIONS) - 1, "t.yaml", &w.s, NULL, &err))
            fail_msg("%s", err.msg);
        result_make(w.s, names[i], &w.base);
        if (w.base.rc)
            fail_msg("%s: %s", names[i], w.base.diags.items[0].msg);
        walk_table(&w, r->sub, *(char **)(void *)((char *)&w.s->targets + r->off), "");
        CHECK(w.keys > 1);
        for (size_t k = 0; k < w.silent_count; k++, silent++)
            (void)fprintf(stderr, "%s drops 'targets.%s.%s' in silence\n", names[i], names[i],
                          w.silent[k]);
        result_release(&w.base);
        spec_free(w.s);
    }
    CHECK(silent == 0);
}

/* --- what the walk cannot see: a warning that depends on more than the value --- */
static bool is_warned(const char *site, const char *target, const char *words)
{
    struct err err = { 0 };
    struct result r;
    struct spec *s;
    bool found = false;

    if (spec_parse(site, strlen(site), "t.yaml", &s, NULL, &err))
        fail_msg("%s", err.msg);
    result_make(s, target, &r);
    if (r.rc)
        fail_msg("%s", r.diags.items[0].msg);
    for (size_t i = 0; i < r.diags.warning_count; i++)
        found = found || (strstr(r.diags.warnings[i].msg, words) && r.diags.warnings[i].line);
    result_release(&r);
    spec_free(s);
    return found;
}

#define MACHINES                                                                                   \
    "nodes: [{name: g, count: 2, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96, memory: "    \
    "1TB}]\n"                                                                                      \
    "storage: [{name: d, kind: nfs, path: /d, source: 'h:/d', size: 1TB}]\n"                       \
    "agent: {enabled: false}\n"

TEST(checkpoints_that_go_with_the_container)
{
    static const char *const targets[] = { "kubernetes", "openshift", "compose", "slurm" };
    char site[1024];

    for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
        for (int held = 0; held < 2; held++) {
            (void)snprintf(site, sizeof(site),
                           MACHINES
                           "components: {t: {kind: training, target: %s, image: r/x, gpus: "
                           "8, command: [x], training: {checkpoint: {path: /ckpt%s/t}}, "
                           "mounts: [{storage: d, path: /ckpt/}]}}\n"
                           "targets: {%s: {}}\n",
                           targets[i], held ? "" : "s", targets[i]);
            CHECK(is_warned(site, targets[i], "no mount holds '/ckpts/t'") == !held);
        }
}

TEST(a_queue_that_nobody_names)
{
#define QUEUED                                                                                     \
    MACHINES "components: {b: {kind: batch, target: kubernetes, image: r/x, command: [x], gpus: "  \
             "8, queued: true, nodes_per_replica: 2}}\n"
    CHECK(is_warned(QUEUED "targets: {kubernetes: {}}\n", "kubernetes", "'queued' needs a queue"));
    CHECK(!is_warned(QUEUED "targets: {kubernetes: {queue: q}}\n", "kubernetes", "queued"));
}

TEST(an_autoscaler_that_waits_less)
{
#define SCALED(ms)                                                                                 \
    MACHINES "components: {s: {target: kubernetes, image: r/x, command: [x], gpus: 1, scale: "     \
             "{max: 2, target: 50%, down_after: " ms "}}}\ntargets: {kubernetes: {}}\n"
    CHECK(is_warned(SCALED("2h"), "kubernetes", "'down_after' of 's' is held to that"));
    CHECK(!is_warned(SCALED("1h"), "kubernetes", "down_after"));
}

/* --- the site: sections outside components, for the targets that have to do with them --- */
static const char WHOLE[] =
    "site: {name: s, description: d, owner: o, contact: c, labels: {team: x}}\n"
    "software: {driver: '550', cuda: '12.4', kernel: '5.15', cudnn: '9.0', nccl: '2.21',\n"
    "           python: '3.10', torch: '2.4', container_runtime: true, dcgm: false}\n"
    "nodes:\n"
    "  - name: gpu\n"
    "    role: gpu\n"
    "    arch: x86_64\n"
    "    count: 4\n"
    "    hosts: g[1-4]\n"
    "    gpus_per_node: 8\n"
    "    gpu: {model: H100, memory: 80GB, memory_bandwidth: 3TB/s, link: nvlink4,\n"
    "          link_bandwidth: 900GB/s, power: 700, persistence: true, ecc: true,\n"
    "FIRST          sharing: mps,\n"
    "OTHER          sharing: mig, mig_profile: 1g.10gb,\n"
    "          compute_mode: default, power_limit: 600, clock: 1500}\n"
    "    nvlink_domain: 8\n"
    "    sockets: 2\n"
    "    cpu_cores: 96\n"
    "    threads_per_core: 2\n"
    "    memory: 1TB\n"
    "    local_disk: 4TB\n"
    "    local_path: /scratch\n"
    "    fabrics: [mgmt, rails]\n"
    "    nics: {rails: {count: 2, rate: 400Gb/s, interfaces: [r0, r1], hcas: [m0, m1],\n"
    "                   pfs: [p0, p1]}}\n"
    "    rack: r1\n"
    "    capacity: spot\n"
    "    instance: p5\n"
    "    fallback: [p4]\n"
    "    notice: 3m\n"
    "    labels: {zone: a}\n"
    "    taints: ['gpu=yes:NoSchedule']\n"
    "FIRST    price: $9/h\n"
    "OTHER    capex: $300000\n"
    "    power: 9000\n"
    "  - {name: rented, capacity: spot, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96,\n"
    "     memory: 1TB}\n"
    "  - {name: kept, capacity: reserved, gpus_per_node: 8, gpu: {model: H100}, cpu_cores: 96,\n"
    "     memory: 1TB}\n"
    "  - {name: other, count: 4, hosts: 'o[1-4]', gpus_per_node: 8,\n"
    "     gpu: {model: H100, memory: 80GB}, cpu_cores: 96, memory: 1TB,\n"
    "     rack: r2, fabrics: [mgmt]}\n"
    "fabrics:\n"
    "  - name: rails\n"
    "    kind: roce\n"
    "    rate: 400Gb/s\n"
    "    nics_per_node: 2\n"
    "    interfaces: [r0, r1]\n"
    "    hcas: [m0, m1]\n"
    "    subnets: [10.1.0.0/16, 10.2.0.0/16]\n"
    "    mtu: 9000\n"
    "    gpudirect: true\n"
    "    gid_index: 3\n"
    "    traffic_class: 106\n"
    "    SRIOV\n"
    "FIRST    switches: {l1: {hosts: 'g[1-4]'}, top: {switches: [l1, l2]}, l2: {hosts: 'o[1-4]'}}\n"
    "OTHER    switches: {top: {switches: [l1, l2]}, l1: {hosts: 'g[1-4]'}, l2: {hosts: 'o[1-4]'}}\n"
    "  - {name: mgmt, kind: ethernet, rate: 10Gb/s}\n"
    "nccl: {env: {NCCL_DEBUG: INFO}}\n"
    "storage:\n"
    "FIRST  - {name: data, kind: lustre, per_replica: false,\n"
    "OTHER  - {name: data, kind: STORE, per_replica: true,\n"
    "     path: /data, source: '10.0.0.2@o2ib:/x', size: 1TB,\n"
    "     read_rate: 10GB/s, write_rate: 5GB/s, storage_class: fast, access: ReadWriteMany,\n"
    "     keep: true, read_only: false,\n"
    "     stripes: [{match: '*.pt', count: 4, size: 4MiB}]\n"
    "FIRST     , price_per_tb: $9/mo\n"
    "     }\n"
    "pools: {p: {size: 10GB, device: gpu, priority: medium, access: flexible, nodes: SHARED,\n"
    "            gpus: 0-3, sharing: auto}}\n"
    "shapes: {m: {params: 7B}, n: {params: 8B}}\n"
    "components:\n"
    "  emb: {WORK target: RUNNER, BOX nodes: gpu, gpus: 1, fabrics: [rails],\n"
    "        mounts: [{storage: data, path: /data}]}\n"
    "  w: {kind: batch, target: RUNNER, BOX nodes: SHARED, pools: [p], command: [x], cpus: 2,\n"
    "      memory: 1GiB WAITS}\n"
    "  tr: {kind: training, target: RUNNER, BOX nodes: gpu, gpus: 1, command: [x], SPAN\n"
    "       training: {framework: torchrun}, fabrics: [rails] WAITS}\n"
    "traffic: [{from: emb, to: w, kind: p2p, rate: 1GB/s, bytes_per_step: 1MB, latency_max: 1s}]\n";
static const char WATCHED[] =
    "MODELS\n"
    "serve: {listen: 0.0.0.0, port: 8003, rerank_port: 8002, token_file: /t, items_max: 100,\n"
    "        body_max: 1MiB, queue_max: 100, connections_max: 100, users_max: 10, timeout: 10s,\n"
    "        drain: 10s, cache: 1MiB, tls_cert: /c, tls_key: /k, admin_token_file: /a,\n"
    "        allow_origin: ['https://a'], text_max: 1MiB, calls_max: 1MiB, timeout_max: 1m,\n"
    "        batch_time: 20ms,\n"
    "        body_total_timeout: 1m, any_model: false, batch_dir: /b, batch_size: 1GiB,\n"
    "        batch_expiry: 1d}\n"
    "agent: {enabled: true, listen: 0.0.0.0, port: 8090, metrics_port: 9400, token_file: /t,\n"
    "        admin_token_file: /a, tls_cert: /c, tls_key: /k,\n"
    "FIRST        open_metrics: true,\n"
    "OTHER        open_metrics: false,\n"
    "        interval: 1s, fine_history: 6h, coarse_history: 14d,\n"
    "        history_size: 256MiB, dcgm_names: old, dcgm: 'http://127.0.0.1:9401/metrics',\n"
    "        scrape: ['http://127.0.0.1:1/metrics'], peers: ['http://g2:8090']}\n"
    "goals: {u: {metric: gpu_utilization, min: 80%}}\n"
    "default_alerts: {GpuTemperatureHigh: {off: false, threshold: 80C, clear: 75C, for: 1m,\n"
    "                                      keep: 1m, severity: critical, summary: s,\n"
    "                                      runbook: 'http://r'}}\n"
    "OTHERalerts: {c: {metric: custom, series: gpu.temp, how: mean, window: 5m, when: above,\n"
    "OTHER               warn: 80, components: [emb]}}\n"
    "FIRSTalerts: {hot: {metric: gpu_temperature, when: above, warn: 80C, critical: 90C,\n"
    "FIRST               clear: 75C, for: 2m, keep: 1m, nodes: [gpu], summary: s,\n"
    "FIRST               runbook: 'http://r'}}\n"
    "notify: {alertmanager: 'http://a:9093', webhook: 'http://h/x', command: [n], log: true,\n"
    "         webhook_token_file: /w, ca_file: /ca,\n"
    "         page: true}\n"
    "prices: {gpu_hour: $2/h, energy_per_kwh: $0.1, storage_per_tb: $9/mo, egress_per_gb: $0.1,\n"
    "         colo_per_kw: $100/mo, pue: 1.3, years: 3, reserved_discount: 10%,\n"
    "         spot_discount: 50%}\n"
    "budgets: {day: $100/day, month: $3000/mo, warn: 80%, overrun: warn, forecast_days: 7,\n"
    "          components: {emb: {day: $10/day, month: $300/mo}}}\n"
    "targets: {RUNNER: {SETTINGS}}\n";

static const struct { /* a section, and who has to do with it */
    const char *section, *targets;
    bool copies; /* stoker itself follows it: a copy of the spec is enough */
} sections[] = {
    { "site", "slurm kubernetes openshift compose systemd prometheus", false },
    { "software", "slurm kubernetes openshift compose systemd", false },
    { "shapes", "slurm kubernetes openshift compose systemd", false },
    { "traffic", "slurm kubernetes openshift compose systemd", false },
    { "goals", "kubernetes systemd prometheus", false },
    { "default_alerts", "kubernetes systemd prometheus", true },
    { "nodes", "slurm kubernetes openshift compose systemd", false },
    { "fabrics", "slurm kubernetes openshift compose systemd", false },
    { "nccl", "slurm kubernetes openshift compose systemd nccl", false },
    { "storage", "slurm kubernetes openshift compose systemd", false },
    { "pools", "slurm kubernetes openshift compose systemd", false },
    { "models", "kubernetes openshift compose systemd", true },
    { "serve", "kubernetes openshift compose systemd", true },
    { "agent", "kubernetes systemd prometheus", true },
    { "alerts", "kubernetes systemd prometheus", true },
    { "notify", "kubernetes systemd prometheus", true },
    { "prices", "prometheus doc", true },
    { "budgets", "slurm kubernetes openshift compose systemd prometheus doc", false },
};

static void walk_site(struct walk *w, const char *target, const char *variant)
{
    struct buf text = { 0 };
    struct err err = { 0 };

    *w = (struct walk){ .target = target, .site = true };
    site_text(WHOLE, target, "", variant, &text);
    site_text(WATCHED, target, "", variant, &text);
    if (spec_parse(buf_str(&text), text.len, "t.yaml", &w->s, NULL, &err))
        fail_msg("%s: %s", target, err.msg);
    result_make(w->s, target, &w->base);
    if (w->base.rc)
        fail_msg("%s: %s", target, w->base.diags.items[0].msg);
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        const struct spec_row *r = spec_row_find(&spec_schema, sections[i].section);
        char *at = (char *)w->s + r->off;

        if (!strstr(sections[i].targets, target))
            continue;
        w->copies = sections[i].copies;
        if (r->kind != SPEC_SECTION)
            at = *(char **)(void *)at;
        if (at)
            walk_table(w, r->sub, at, r->key);
    }
    result_release(&w->base);
    spec_free(w->s);
    buf_release(&text);
}

TEST(sites)
{
    static const char *const targets[] = { "slurm",   "kubernetes", "openshift", "compose",
                                           "systemd", "prometheus", "doc",       "nccl" };
    static struct walk first, other;
    size_t silent = 0;

    for (size_t t = 0; t < ARRAY_SIZE(targets); t++) {
        walk_site(&first, targets[t], "FIRST");
        walk_site(&other, targets[t], "OTHER");
        for (size_t i = 0; i < first.silent_count; i++)
            for (size_t k = 0; k < other.silent_count; k++)
                if (str_eq(first.silent[i], other.silent[k])) {
                    (void)fprintf(stderr, "%s drops '%s' in silence\n", targets[t],
                                  first.silent[i]);
                    silent++;
                }
    }
    CHECK(silent == 0);
}

TEST(compose)
{
    follows("compose");
}

TEST(systemd)
{
    follows("systemd");
}

TEST(slurm)
{
    follows("slurm");
}

TEST(kubernetes)
{
    follows("kubernetes");
}

TEST(openshift)
{
    follows("openshift");
}

/* Comes last.  An excuse that no key needs hides the next one that is dropped. */
TEST(excuses_are_needed)
{
    size_t stale = 0;

    for (size_t i = 0; render_follow_excuse_key(i); i++)
        if (!excuse_needed[i]) {
            (void)fprintf(stderr, "the excuse for '%s' (%zu) is %s\n", render_follow_excuse_key(i),
                          i, excuse_met[i] ? "not needed" : "never asked for");
            stale++;
        }
    CHECK(stale == 0);
}

TEST_MAIN(cmocka_unit_test(compose), cmocka_unit_test(systemd), cmocka_unit_test(slurm),
          cmocka_unit_test(kubernetes), cmocka_unit_test(openshift),
          cmocka_unit_test(sections_of_targets), cmocka_unit_test(sites),
          cmocka_unit_test(checkpoints_that_go_with_the_container),
          cmocka_unit_test(a_queue_that_nobody_names),
          cmocka_unit_test(an_autoscaler_that_waits_less), cmocka_unit_test(excuses_are_needed))
