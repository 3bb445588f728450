/* SPDX-License-Identifier: MIT */
/* nccl: nccl.conf, the settings NCCL reads on a machine before anything else is said.
 *
 *     nccl/nccl.conf          for /etc/nccl.conf of every GPU machine
 *     nccl/GROUP/nccl.conf    one for each group, where groups differ
 *
 * In it is what the spec forces (nccl.env), what its fabric fixes (devices, GID, traffic class),
 * and, with an inventory of a machine, what NCCL would not find there itself.  All else stays
 * unset, for NCCL to find; comments say so.  The environment of a job wins over this file.
 *
 * NCCL reads lines: '#' in the first column is a comment, else NAME=VALUE to the end of the line,
 * at most 1023 bytes, no quotes.  So comments stand on lines of their own, and what a line cannot
 * hold is refused, as is a value that NCCL is known to ignore or to fail with.  One that it follows
 * is what the spec forces, for a firmware that fails or a fabric that is down: what it costs is
 * told. */
#include "base/str.h"
#include "nccl/nccl.h"
#include "render/nccl/nccl_file_int.h"

#include <inttypes.h>

enum { VALUE_MAX = 1023, WRAP = 96 };

/* Words of `text` on comment lines. */
static void put_comment(struct buf *out, const char *text)
{
    size_t col = 0;

    while (*text) {
        size_t len = strcspn(text, " \n");

        if (len && (!col || col + 1 + len > WRAP)) {
            buf_adds(out, col ? "\n# " : "# ");
            col = 2;
        } else if (len) {
            buf_addc(out, ' ');
            col++;
        }
        buf_add(out, text, len);
        col += len;
        text += len + (text[len] != '\0');
    }
    buf_addc(out, '\n');
}

/* Groups share nccl.env: one fault of it is told once. */
static bool is_told(const struct render *r, const void *member)
{
    struct spec_pos at = spec_where(r->spec, member);

    for (size_t i = 0; i < r->diags->count; i++)
        if (r->diags->items[i].line == at.line && r->diags->items[i].col == at.col)
            return true;
    return false;
}

static bool value_holds(struct render *r, const struct conf_var *v)
{
    size_t len = strlen(v->value);

    if (len <= VALUE_MAX && !strchr(v->value, '\n') &&
        (!len || (!strchr(" \t", v->value[0]) && !strchr(" \t", v->value[len - 1]))))
        return true;
    if (is_told(r, v->member))
        return false;
    render_refuse(r, v->member,
                  "Use one line of at most 1023 bytes that does not begin or end with a blank.",
                  "nccl.conf cannot hold this value of %s", v->name);
    return false;
}

static void put_var(const struct conf *c, struct buf *out, const struct conf_var *v)
{
    if (!value_holds(c->r, v))
        return;
    buf_addc(out, '\n');
    if (v->reason)
        put_comment(out, v->reason);
    if (!str_starts(v->name, "NCCL_"))
        put_comment(out,
                    "Not NCCL's own: reaches plug-ins that NCCL loads, not the program itself.");
    if (v->member)
        buf_addf(out, "# %s\n", render_from(c->r, v->member));
    buf_addf(out, "%s=%s\n", v->name, v->value);
}

/* ---- what NCCL makes of it ---- */

/* May work as written: worth a comment, the spec decides. */
static const char *const DOUBTFUL[] = {
    "NCCL_P2P_LEVEL",  "NCCL_NET_GDR_LEVEL", "NCCL_IB_HCA",        "NCCL_CROSS_NIC",
    "OMP_NUM_THREADS", "NCCL_IB_GID_INDEX",  "NCCL_SOCKET_IFNAME",
};

static bool is_doubtful(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(DOUBTFUL); i++)
        if (str_eq(DOUBTFUL[i], name))
            return true;
    return false;
}

static void put_lint(const struct conf *c, const struct hw *hw, struct buf *out)
{
    struct nccl_lints l;

    nccl_lint_env(hw, &l);
    for (size_t i = 0; i < l.count; i++) {
        const struct nccl_lint *x = &l.items[i];
        const struct conf_var *v = conf_find(c, x->name);

        if (!v || !conf_lint_holds(c, x))
            continue;
        if (!x->followed &&
            (x->severity == NCCL_ERROR || (x->severity == NCCL_WARN && !is_doubtful(x->name)))) {
            if (!is_told(c->r, v->member))
                render_refuse(c->r, v->member, x->remedy, "%s=%s: %s", v->name, v->value,
                              x->message);
            continue;
        }
        if (x->severity != NCCL_INFO)
            render_warn(c->r, v->member, x->remedy, "%s=%s: %s", v->name, v->value, x->message);
        buf_addf(out, "\n# %s: %s\n",
                 nccl_severity_name(x->severity == NCCL_INFO ? NCCL_INFO : NCCL_WARN), x->name);
        put_comment(out, x->message);
        put_comment(out, x->remedy);
    }
    nccl_lints_release(&l);
}

/* ---- what the machines of the group need beyond ---- */

struct machine_seen { /* the group's machines, with the settings as their environment */
    const struct hw **hws;
    struct nccl_env *envs;
    size_t count;
};

static const char *host_of(const struct hw *hw)
{
    return hw->place.hostname ? hw->place.hostname : "-";
}

/* All machines' value of a variable; false: they do not agree. */
static bool seen_agree(const struct machine_seen *s, const char *name, const struct nccl_var **out)
{
    const struct nccl_var *first = nccl_env_find(&s->envs[0], name);

    *out = first;
    for (size_t i = 1; i < s->count; i++) {
        const struct nccl_var *x = nccl_env_find(&s->envs[i], name);

        if (!str_eq(x ? x->value : NULL, first ? first->value : NULL))
            return false;
        if (!*out)
            *out = x;
    }
    return true;
}

/* One file is for all of them: what they do not share is left to NCCL, which looks on each. */
static void seen_differ(const struct conf *c, const struct machine_seen *s, const char *name,
                        struct buf *out)
{
    struct buf values = { 0 }, text = { 0 };

    /* "=mlx5_0 on gpu1, unset on gpu2": each value with the first machine that wants it. */
    for (size_t i = 0; i < s->count; i++) {
        const struct nccl_var *x = nccl_env_find(&s->envs[i], name);
        const char *value = x ? x->value : NULL;
        bool told_already = false;

        for (size_t k = 0; k < i && !told_already; k++) {
            const struct nccl_var *y = nccl_env_find(&s->envs[k], name);

            told_already = str_eq(y ? y->value : NULL, value);
        }
        if (!told_already)
            buf_addf(&values, "%s%.200s on %.100s", values.len ? ", " : "", value ? value : "unset",
                     host_of(s->hws[i]));
    }
    render_warn(c->r, c->node,
                "It is left unset for the group. Make the machines alike, make two groups of them, "
                "or set it on each from 'stoker detect --env'.",
                "machines of group '%s' need different values of %s: %s", c->node->name, name,
                buf_str(&values));
    buf_addf(out, "\n# %s is left unset:\n", name);
    buf_addf(&text, "The machines of the group need different values: %s.", buf_str(&values));
    put_comment(out, buf_str(&text));
    buf_release(&values);
    buf_release(&text);
}

/* The first machine's reason speaks of a variable that the machines do not share. */
static bool reason_is_one(const struct machine_seen *s, const char *reason)
{
    const struct nccl_var *x;

    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->envs[i].count; k++) {
            const char *name = s->envs[i].vars[k].name;

            if (str_starts(name, "NCCL_") && strstr(reason, name) && !seen_agree(s, name, &x))
                return true;
        }
    return false;
}

static const char *seen_reason(const struct machine_seen *s, const struct nccl_var *x)
{
    return !reason_is_one(s, x->reason)
               ? x->reason
               : "Every machine of the group has it so, for reasons that hang on a variable which "
                 "is another on each: 'stoker detect --env' there tells them.";
}

static void seen_var(const struct conf *c, const struct machine_seen *s, const char *name,
                     struct buf *out)
{
    const struct nccl_var *x;

    if (conf_find(c, name) || !str_starts(name, "NCCL_"))
        return; /* what launchers read, such as OMP_NUM_THREADS, has no place here */
    if (!seen_agree(s, name, &x)) {
        seen_differ(c, s, name, out);
    } else if (x->value) {
        put_var(
            c, out,
            &(struct conf_var){ .name = x->name, .value = x->value, .reason = seen_reason(s, x) });
    } else {
        buf_addf(out, "\n# %s is left unset:\n", x->name);
        put_comment(out, seen_reason(s, x));
    }
}

static void from_machines(const struct conf *c, struct machine_seen *s, struct buf *out)
{
    s->envs = xcalloc(s->count, sizeof(*s->envs));
    for (size_t i = 0; i < s->count; i++)
        nccl_env_make(s->hws[i], NULL, &s->envs[i]);
    if (s->count == 1)
        buf_addf(out, "\n# From the inventory of %s:\n", host_of(s->hws[0]));
    else
        buf_addf(out, "\n# From the inventories of %s and %zu more:\n", host_of(s->hws[0]),
                 s->count - 1);
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < s->envs[i].count; k++) {
            const char *name = s->envs[i].vars[k].name;
            bool before = false;

            for (size_t m = 0; m < i && !before; m++)
                before = nccl_env_find(&s->envs[m], name) != NULL;
            if (!before)
                seen_var(c, s, name, out);
        }
    for (size_t i = 0; i < s->count; i++)
        nccl_env_release(&s->envs[i]);
    free(s->envs);
}

static const char NO_MACHINE[] =
    "No inventory was given, so nothing is set that depends on the machine. On it, stoker detect "
    "--env prints what NCCL would not find itself (NCCL_IB_HCA, NCCL_SOCKET_IFNAME, "
    "NCCL_IB_GID_INDEX or its address family, NCCL_NET_GDR_LEVEL, NCCL_CROSS_NIC), each with its "
    "reason, and stoker detect --why NAME explains one.";

/* ---- files ---- */

/* Groups of which the spec tells NCCL the same have the same file. */
static const struct spec_node *twin_group(const struct render *r, size_t i)
{
    const struct spec_node *n = &r->spec->nodes[i];

    for (size_t k = 0; k < i && !r->machine_count; k++)
        if (conf_same(r, &r->spec->nodes[k], n))
            return &r->spec->nodes[k];
    return NULL;
}

static void put_body(struct render *r, const struct spec_node *n, struct buf *out)
{
    struct conf c = { .r = r, .node = n };
    struct machine_seen s = { 0 };
    struct buf again = { 0 };
    const struct hw *hw;

    conf_collect(&c);
    s.hws = arena_array(&c.arena, const struct hw *, c.r->machine_count + 1);
    for (size_t at = 0; c.node && (hw = render_machine_next(c.r, c.node, &at));)
        s.hws[s.count++] = conf_machine(&c, hw);
    for (size_t i = 0; i < c.count; i++)
        put_var(&c, out, &c.vars[i]);
    if (!c.count)
        buf_adds(out, "\n# The spec forces nothing.\n");
    put_lint(&c, s.count ? s.hws[0] : conf_machine(&c, NULL), out);
    for (size_t i = 1; i < s.count; i++)
        put_lint(&c, s.hws[i], &again); /* for what is refused; remarks are those of the first */
    if (s.count) {
        from_machines(&c, &s, out);
    } else {
        buf_addc(out, '\n');
        put_comment(out, NO_MACHINE);
    }
    buf_release(&again);
    arena_release(&c.arena);
}

static void file_write(struct render *r, const struct spec_node *n, const struct buf *text)
{
    struct buf *out =
        n ? render_file(r, "nccl/%s/nccl.conf", n->name) : render_file(r, "nccl/nccl.conf");

    render_head(r, out, "#", "NCCL's settings of a machine, for /etc/nccl.conf.");
    if (n)
        buf_addf(out, "# For machines of group %s (%s).\n", n->name, render_from(r, n));
    buf_add(out, buf_str(text), text->len);
}

void render_nccl(struct render *r)
{
    const struct spec *s = r->spec;
    struct buf *texts = xcalloc(s->node_count + 1, sizeof(*texts));
    const struct spec_node *like;
    size_t first = s->node_count;
    bool same = true;

    for (size_t i = 0; i < s->node_count; i++) {
        if (!s->nodes[i].gpus_per_node)
            continue;
        like = twin_group(r, i);
        if (like)
            buf_adds(&texts[i], buf_str(&texts[like - s->nodes]));
        else
            put_body(r, &s->nodes[i], &texts[i]);
        if (first == s->node_count)
            first = i;
        same = same && str_eq(buf_str(&texts[i]), buf_str(&texts[first]));
    }
    if (first == s->node_count)
        put_body(r, NULL, &texts[first]);
    if (same)
        file_write(r, NULL, &texts[first]);
    for (size_t i = 0; i < s->node_count; i++) {
        if (!same && s->nodes[i].gpus_per_node)
            file_write(r, &s->nodes[i], &texts[i]);
    }
    for (size_t i = 0; i <= s->node_count; i++)
        buf_release(&texts[i]);
    free(texts);
}
